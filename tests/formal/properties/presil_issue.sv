// SPDX-License-Identifier: Apache-2.0
// A queue of 4 descriptors: in order, whole, none lost or made; one word of one descriptor, which the solver chooses,
// is followed from push to done.
module presil_issue_properties import presil_desc_pkg::*, presil_engine_pkg::*; (
  input logic        clk, rst, halt, push, room, empty, ask, grant,
  input desc_t       push_desc,
  input command_t    command,
  input status_t     status,
  input logic [31:0] push_index, want_index, done_index,
  input logic [19:0] want, have,
  input logic [3:0]  give, cause,
  input logic [2:0]  held
);
  logic        started = 1'b0;
  logic        pick, starts, was_grant, was_waiting, was_asking;
  logic [4:0]  word, word_was;
  logic [31:0] index, value;
  logic [19:0] waits;
  logic [3:0]  signals;
  logic [2:0]  queued;                       // pushed and not granted
  logic [3:0]  flying, ahead;                // started and not done; before the chosen one
  logic [1:0]  state;                        // of the chosen one: none, in the queue, about to start, in flight
  localparam logic [1:0] NONE = 2'd0, QUEUED = 2'd1, STARTS = 2'd2, FLIES = 2'd3;
  assign starts = command.valid && status.ready;

  always_ff @(posedge clk) begin
    started <= 1'b1;
    word_was <= word;
    was_grant <= grant && !rst;
    was_waiting <= command.valid && !status.ready && !rst;
    if (rst) begin
      queued <= 3'd0;  flying <= 4'd0;  state <= NONE;
    end else begin
      queued <= queued + 3'(push) - 3'(grant);
      flying <= flying + 4'(starts) - 4'(status.done);
      case (state)
        NONE: if (pick && push) begin
          state <= QUEUED;  ahead <= 4'(queued) - 4'(grant);  index <= push_index;
          value <= (word[0] ? push_desc[1023:992] : push_desc[31:0]);
          waits <= push_desc.waits;  signals <= push_desc.signals;
        end
        QUEUED: if (grant) begin
          ahead <= ahead - 4'd1;
          if (ahead == 4'd0) state <= STARTS;
        end
        STARTS: if (starts) begin
          state <= FLIES;  ahead <= flying - 4'(status.done);
        end
        default: if (status.done) begin
          ahead <= ahead - 4'd1;
          if (ahead == 4'd0) state <= NONE;
        end
      endcase
    end
    assume (started || rst);
    // presil_command, presil_tokens, engines (none holds more than 8)
    assume (!push || room);
    assume (!grant || ask);
    assume (!status.done || flying != 4'd0);
    assume (!starts || flying < 4'd8);
    assume (word == 5'd0 || word == 5'd31);  // the others take the same way
    if (started) assume (word == word_was);
    if (started && !rst) begin
      a_count: assert (held == queued && queued <= 3'd4);
      a_room: assert (room == (queued < 3'd4) && empty == (queued == 3'd0 && !command.valid));
      a_ask: assert (ask == (queued != 3'd0 && !command.valid && !halt));
      a_granted: assert (!was_grant || command.valid);
      a_waits: assert (!was_waiting || command.valid);
      a_want: assert (!(state == QUEUED && ahead == 4'd0)
                      || (want == waits && want_index == index));
      a_start: assert (state != STARTS || (command.valid && command.index == index
                                           && (word[0] ? command.desc[1023:992] : command.desc[31:0]) == value));
      a_done: assert (!(state == FLIES && ahead == 4'd0 && status.done)
                      || (done_index == index && give == signals));
      a_give: assert (status.done || give == 4'd0);
      a_cause: assert (cause == (halt ? CAUSE_ERROR : status.active ? status.cause : command.valid ? CAUSE_BUSY
                       : queued == 3'd0 ? CAUSE_COMMAND : |(want[3:0] & ~have[3:0]) ? CAUSE_WAIT_LOAD
                       : |(want[7:4] & ~have[7:4]) ? CAUSE_WAIT_MATRIX
                       : |(want[11:8] & ~have[11:8]) ? CAUSE_WAIT_EPILOGUE
                       : |(want[15:12] & ~have[15:12]) ? CAUSE_WAIT_STORE
                       : |(want[19:16] & ~have[19:16]) ? CAUSE_WAIT_VECTOR : CAUSE_BUSY));
      c_full: cover (queued == 3'd4 && grant);
      c_through: cover (state == FLIES && ahead == 4'd0 && status.done && flying == 4'd2 && give == 4'h9);
      c_behind: cover (state == QUEUED && ahead == 4'd2 && push);
    end
  end
endmodule
bind presil_issue presil_issue_properties u_properties (.held(u_waiting.held), .*);
