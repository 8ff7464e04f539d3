// SPDX-License-Identifier: Apache-2.0
// What the command processor keeps for one engine: queue of 4 descriptors, token wait, signal masks
// of descriptors in flight, cause.
// Latency from push to command.valid: 2 (tokens there). Reset: synchronous (chip or queue reset).
// Errors: none.
module presil_issue import presil_desc_pkg::*, presil_engine_pkg::*; (
  input  logic        clk,
  input  logic        rst,
  input  logic        halt,            /// start nothing new
  input  logic        push,            /// only with room
  input  desc_t       push_desc,       /// joins the queue with push
  input  logic [31:0] push_index,      /// its ring count
  output logic        room,            /// fewer than 4 descriptors wait
  output logic        empty,           /// no descriptor waits or is about to start
  output logic        ask,             /// the oldest waits for the tokens in want
  output logic [19:0] want,            /// bit n: the oldest descriptor needs counter n
  output logic [31:0] want_index,      /// ring count of the oldest; 0: no descriptor waits
  input  logic        grant,           /// presil_tokens takes the tokens in this cycle, with ask
  input  logic [19:0] have,            /// bit n: counter n is > 0; for the cause only
  output command_t    command,         /// to the engine: the oldest, its tokens are taken
  input  status_t     status,          /// from the engine
  output logic [3:0]  give,            /// tokens that the completing descriptor signals; else 0
  output logic [31:0] done_index,      /// ring count of the oldest in flight
  output logic [3:0]  cause            /// CAUSE_* that this cycle is charged to
);
  typedef struct packed {
    logic [31:0] index;
    desc_t       desc;
  } waiting_t;
  typedef struct packed {
    logic [31:0] index;
    logic [3:0]  give;
  } flying_t;
  waiting_t    oldest;
  flying_t     oldest_flying;
  logic        full, none, unused_full, unused_none, unused_idle;
  assign unused_idle = status.idle;

  presil_fifo #(.T(waiting_t), .DEPTH(4)) u_waiting (.clk, .rst, .put(push),
      .in({push_index, push_desc}), .full, .take(grant), .oldest, .empty(none));
  presil_fifo #(.T(flying_t), .DEPTH(8)) u_flying (.clk, .rst, .put(command.valid && status.ready),
      .in({command.index, command.desc.signals}), .full(unused_full), .take(status.done),
      .oldest(oldest_flying), .empty(unused_none));

  assign room       = !full;
  assign empty      = !command.valid && none;
  assign ask        = !none && !command.valid && !halt;
  assign want       = !none ? oldest.desc.waits : 20'd0;
  assign want_index = !none ? oldest.index : 32'd0;
  assign give       = status.done ? oldest_flying.give : 4'd0;
  assign done_index = oldest_flying.index;

  always_comb begin
    logic [19:0] missing;
    missing = want & ~have;
    cause = CAUSE_BUSY;
    if (halt) cause = CAUSE_ERROR;
    else if (status.active) cause = status.cause;
    else if (command.valid) cause = CAUSE_BUSY;
    else if (none) cause = CAUSE_COMMAND;
    else if (missing[3:0] != 4'd0) cause = CAUSE_WAIT_LOAD;
    else if (missing[7:4] != 4'd0) cause = CAUSE_WAIT_MATRIX;
    else if (missing[11:8] != 4'd0) cause = CAUSE_WAIT_EPILOGUE;
    else if (missing[15:12] != 4'd0) cause = CAUSE_WAIT_STORE;
    else if (missing != 20'd0) cause = CAUSE_WAIT_VECTOR;
  end

  always_ff @(posedge clk) begin
    if (command.valid && status.ready) command.valid <= 1'b0;
    if (grant) command <= '{valid: 1'b1, index: oldest.index, desc: oldest.desc};
    if (rst) command.valid <= 1'b0;
  end

`ifndef SYNTHESIS
  // a: what must hold, c: what tests must reach (tests/regress/testplan.toml)
  a_done: assert property (@(posedge clk) disable iff (rst) status.done |-> status.active);
  c_full: cover property (@(posedge clk) disable iff (rst) full);
  c_overlap: cover property (@(posedge clk) disable iff (rst)
    command.valid && status.ready && status.active);
  c_busy: cover property (@(posedge clk) disable iff (rst) status.active && cause == CAUSE_BUSY);
  c_command: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_COMMAND);
  c_wait_load: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_WAIT_LOAD);
  c_wait_matrix: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_WAIT_MATRIX);
  c_wait_epilogue: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_WAIT_EPILOGUE);
  c_wait_store: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_WAIT_STORE);
  c_wait_vector: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_WAIT_VECTOR);
  c_weights: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_WEIGHTS);
  c_scratchpad: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_SCRATCHPAD);
  c_bus_request: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_BUS_REQUEST);
  c_bus_data: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_BUS_DATA);
  c_bus_response: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_BUS_RESPONSE);
  c_drain: cover property (@(posedge clk) disable iff (rst) cause == CAUSE_DRAIN);
  c_error: cover property (@(posedge clk) disable iff (rst) halt);
`endif
endmodule
