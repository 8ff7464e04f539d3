// SPDX-License-Identifier: Apache-2.0
// Command processor: fetches descriptors from the ring (bursts of up to 8, 16 buffered), decodes
// and checks them in order, hands them to the engines' queues, and rules launch, completion, error
// stop and queue reset (docs/isa.md section 1).
// One descriptor every 4 cycles; doorbell to fetch request 2, descriptor received to queue 3.
// Reset: synchronous.
// Errors: OPCODE, VERSION, FIELD, FETCH_BUS, WINDOW of a fetch, RING from here; those of the
// engines come in; the first wins and halts everything. It is told when everything is drained, or
// when the bus is silent, and then `busy` stays until it answers.
module presil_command import presil_config_pkg::*; import presil_desc_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)  /// log2 of WORD, the bytes of a beat
) (
  input  logic              clk,
  input  logic              rst,
  // registers
  input  logic [39:12]      ring_base,         /// DRAM address of the ring: its bits 39:12
  input  logic [4:0]        ring_log2,         /// log2 of the ring's entries; above 16: RING
  input  logic [31:0]       ring_tail,         /// descriptors written, free-running count
  input  logic              doorbell,          /// ring_tail was written in the last cycle
  input  logic              queue_reset,       /// pulse: back to idle, after a drain if busy
  output logic [31:0]       ring_head,         /// descriptors handed over, free-running count
  output logic              busy,              /// a launch runs, drains or is recorded
  output logic              error,             /// stopped; everything is drained where not busy
  output logic [3:0]        error_code,        /// ERROR_*, the first; set before or with `error`
  output logic [31:0]       error_index,       /// ring count of its descriptor
  output logic [39:0]       error_addr,        /// byte address (docs/isa.md), or 0
  output logic              irq_done,          /// pulse: a launch ended without error
  output logic              irq_error,         /// pulse: `error` rises
  // completion record
  input  logic              record,            /// launches have one; stays while busy
  input  logic              apart,             /// each doorbell is a launch; stays while busy
  output logic              recording,         /// the launch is over: write it; until record_done
  output logic              counting,          /// a launch runs, or drains, and isn't recorded yet
  input  logic              record_done,       /// pulse: it is written; fail_code if it is not
  // fetch
  output logic              fetch_valid,       /// a burst of descriptors; stays until taken
  input  logic              fetch_ready,       /// taken in this cycle, a refused one too
  output logic [39-LW:0]    fetch_beat,        /// first beat: DRAM byte address / WORD
  output logic [7:0]        fetch_len,         /// beats of the burst - 1
  input  logic              fetch_rvalid,      /// a beat of a descriptor: always taken
  input  logic [8*WORD-1:0] fetch_rdata,       /// the beat, with fetch_rvalid
  input  logic              fetch_rerror,      /// SLVERR or DECERR, with fetch_rvalid
  output logic              fetch_out,         /// beats were asked for that have not come
  /// what is asked for is outside the DMA windows, and won't come; in the cycle that takes it
  input  logic              fetch_refused,
  /// the bus is silent, and a fetch waits for it: pulse
  input  logic              fetch_overdue,
  input  logic              overdue,           /// the bus is silent, whoever waits: pulse
  // engines
  output logic              halt,              /// start nothing new; stays until engine_rst
  /// a queue reset takes effect: head and tail are zero in the next cycle
  output logic              clear,
  /// one cycle later: queues, engines and tokens to their start state
  output logic              engine_rst,
  output logic              launch,            /// first cycle of a launch
  output logic              decoded,           /// pulse: a descriptor was handed over, or a NOP
  output logic [ENGINES-1:0] push,             /// to the engine's queue; pulse
  output desc_t             push_desc,         /// valid with push
  output logic [31:0]       push_index,        /// its ring count
  input  logic [ENGINES-1:0] room,             /// the engine's queue takes one more
  input  logic              all_empty,         /// queues; nothing is about to start either
  input  logic              all_idle,          /// engines and bus
  input  logic [3:0]        fail_code,         /// pulse: ERROR_* of engines, bus, tokens; 0: none
  input  logic [31:0]       fail_index,        /// ring count of the descriptor, with fail_code
  input  logic [39:0]       fail_addr          /// byte address or 0, with fail_code
);
  localparam int unsigned BEATS = 128 / WORD;  // of a descriptor; WORD <= 128
  localparam int unsigned SLOTS = 16;
  localparam int unsigned BW = $clog2(SLOTS * BEATS);
  localparam logic [3:0]  LAUNCHES = 4'd8;     // not over, where doorbells are apart

  logic [8*WORD-1:0] buffer [SLOTS*BEATS];
  // running counts of descriptors: requested, received (whole)
  logic [31:0] asked, got;
  logic [31:0] asked_beats, got_beats;         // of beats; buffer index is their low bits
  logic [1:0]  state;                          // as the case below has it
  logic        resetting;
  logic        silent;                         // the bus was, in this launch
  logic        recorded;                       // its record is begun, or was
  // tails of launches that are apart, the one that runs at `first`; how many
  logic [31:0] ends [8];
  logic [2:0]  first;
  logic [3:0]  waiting;
  logic [31:0] goal;                           // tail of the launch that runs
  logic [31:0] rung;                           // tail of the last doorbell
  logic [31:0] size, ahead;
  logic [3:0]  own_code;
  logic [31:0] own_index;
  logic [39:0] own_addr;

  function automatic desc_t take(input logic [31:0] n);
    for (int unsigned b = 0; b < BEATS; b++) take[8*WORD*b +: 8*WORD] = buffer[BW'(n * BEATS + b)];
  endfunction

  desc_t      desc;
  logic [3:0] opcode;
  logic [ENGINES-1:0] chosen;                  // engine of the descriptor; none of a NOP
  assign opcode = desc.opcode;
  assign chosen = ENGINES'((16'd1 << opcode) >> 1);
  assign push_desc = desc;
  assign push_index = ring_head;

  logic [3:0]  refused;
  presil_check u_check (.en(state == 2'd1), .desc, .code(refused));

  // At once if there is nothing to drain, so that a doorbell written right behind finds head and
  // tail at zero. The engines follow in the next cycle, `halt` with them: none of them starts
  // anything in between.
  logic drained;
  assign drained = halt && busy && !recording && !queue_reset && all_idle && !fetch_valid
      && asked_beats == got_beats;
  assign fetch_out = asked_beats != got_beats;
  assign counting  = busy && !recorded;
  assign clear   = (drained && resetting) || (queue_reset && !busy);

  // Each block looks at registers before it assigns to them, and `stop` stands between blocks that
  // would look at each other's: a register that is read behind an assignment to it costs Verilator
  // a shadow copy. What is rare stands under an `if`, which is all that a simulator pays for it.
  logic stop, rings, adds, full;
  assign stop  = halt || own_code != ERROR_NONE;  // begin nothing new
  assign rings = doorbell && !error && !resetting;
  assign adds  = doorbell && !apart;           // to the launch that runs
  assign full  = waiting == LAUNCHES;

  // ---- fetch --------------------------------------------------------------------------------
  assign size  = 32'd1 << ring_log2;
  assign goal  = apart ? ends[first] : ring_tail;
  assign ahead = goal - asked;

  function automatic logic [31:0] beats();     // of the burst that is asked for
    return 32'(fetch_len) + 32'd1;
  endfunction

  always_ff @(posedge clk) begin
    logic [31:0] page, to_end, fetch_count;
    logic [39:0] at;                           // 128-byte aligned
    if (busy && !stop && !recording && !fetch_valid && ahead != 32'd0 && !adds) begin
      // up to 8 descriptors, not beyond the tail, the ring's end or 4 KiB (32 descriptors; the base
      // is 4 KiB-aligned)
      page   = (ring_log2 < 5'd5) ? size : 32'd32;
      to_end = page - (asked & (page - 32'd1));
      fetch_count = 32'd8;
      if (ahead < fetch_count) fetch_count = ahead;
      if (to_end < fetch_count) fetch_count = to_end;
      if (asked + fetch_count - ring_head <= SLOTS) begin
        at = {ring_base, 12'd0} + {1'b0, asked & (size - 32'd1), 7'd0};
        fetch_valid <= 1'b1;  fetch_beat <= (40-LW)'(at >> LW);
        fetch_len <= 8'(fetch_count * BEATS - 32'd1);
        asked <= asked + fetch_count;  asked_beats <= asked_beats + fetch_count * BEATS;
      end
    end else if (fetch_valid && fetch_ready) begin
      fetch_valid <= 1'b0;
      if (fetch_refused) asked_beats <= asked_beats - beats();
    end
    if (fetch_rvalid) begin
      buffer[BW'(got_beats)] <= fetch_rdata;
      if ((got_beats & (BEATS - 1)) == BEATS - 1) got <= got + 32'd1;
      got_beats <= got_beats + 32'd1;
    end
    if (clear || rst) begin
      asked <= 32'd0;  got <= 32'd0;  asked_beats <= 32'd0;  got_beats <= 32'd0;
    end
    if (rst) fetch_valid <= 1'b0;
  end

  // ---- decode: 0 next descriptor, 1 check, 2 hand over, 3 into its queue --------------------
  logic take_now;
  assign take_now = state == 2'd0 && ring_head != got && busy && !halt;
  always_ff @(posedge clk) if (take_now) desc <= take(ring_head);

  always_ff @(posedge clk) begin
    logic handed;
    handed = state == 2'd2 && !stop && (opcode == OP_NOP || (chosen & room) != '0);
    decoded <= handed;
    push    <= '0;
    case (state)
      2'd0: if (take_now) state <= 2'd1;
      2'd1: state <= 2'd2;
      2'd2: if (handed) begin
        state <= 2'd3;
        push <= chosen;
      end
      default: begin
        state <= 2'd0;  ring_head <= ring_head + 32'd1;
      end
    endcase
    if (halt) begin
      push <= '0;  state <= 2'd0;
    end
    if (clear || rst) begin
      ring_head <= 32'd0;  state <= 2'd0;  push <= '0;
    end
    if (rst) decoded <= 1'b0;
  end

  // ---- errors of doorbells, fetch and decode ------------------------------------------------
  always_ff @(posedge clk) begin
    logic        lost;
    logic [3:0]  code;
    logic [31:0] code_index;
    logic [39:0] code_addr;
    code = refused;  code_index = ring_head;  code_addr = 40'd0;
    lost = 1'b0;
    // more than the ring holds, or behind an earlier doorbell
    if (rings) lost = ring_log2 > 5'd16 || (apart && full) || ring_tail - ring_head > size
        || ring_tail - ring_head < rung - ring_head;
    if (lost) code = ERROR_RING;
    if (fetch_refused) begin
      code = ERROR_WINDOW;  code_index = asked - beats() / BEATS;
      code_addr = {fetch_beat, {LW{1'b0}}};
    end
    if (fetch_overdue || (fetch_rvalid && fetch_rerror)) begin
      code = fetch_overdue ? ERROR_BUS_TIMEOUT : ERROR_FETCH_BUS;  code_index = got;
      code_addr = {ring_base, 12'd0} + {1'b0, got & (size - 32'd1), 7'd0}
          + {8'd0, (got_beats & (BEATS - 1)) * WORD};
    end
    if (code != ERROR_NONE && (!halt || fetch_overdue) && own_code == ERROR_NONE) begin
      own_code <= code;  own_index <= code_index;  own_addr <= code_addr;
    end
    if (clear || rst) own_code <= ERROR_NONE;
  end

  // ---- error stop: the first wins -----------------------------------------------------------
  always_ff @(posedge clk) begin
    logic own;
    own = own_code != ERROR_NONE;
    if (own || fail_code != ERROR_NONE) begin
      // behind a halt: a drain that the bus doesn't end, and no error before it: a queue reset
      // asked for it
      if (!halt || (silent && error_code == ERROR_NONE)) begin
        error_code  <= own ? own_code : fail_code;
        error_index <= own ? own_index : fail_index;
        error_addr  <= own ? own_addr : fail_addr;
      end
      halt <= 1'b1;
    end
    if (queue_reset && busy) halt <= 1'b1;
    if (engine_rst || rst) halt <= 1'b0;
    if (clear || rst) begin
      error_code <= ERROR_NONE;  error_index <= 32'd0;  error_addr <= 40'd0;
    end
    engine_rst <= clear && !rst;
  end

  // ---- launches: their queue, where doorbells are apart, and their end ----------------------
  always_ff @(posedge clk) begin
    logic finished, stopped, recorded_well, over, to_record, more, queues, report;
    finished = 1'b0;
    if (all_idle) finished = busy && !stop && !recording && !adds && !launch && !queue_reset
        && ring_head == goal && fail_code == ERROR_NONE && state == 2'd0 && all_empty;
    stopped = drained && !resetting;
    recorded_well = 1'b0;  to_record = 1'b0;
    if (record) begin
      recorded_well = recording && record_done && !stop && !queue_reset
          && fail_code == ERROR_NONE;
      to_record = !recorded && (finished || (stopped && !error && !silent));
    end
    over   = recorded_well || (finished && !record);
    more   = 1'b0;
    if (over) more = apart ? (rings || waiting > 4'd1) : ring_head != ring_tail;
    queues = rings && apart && !full;
    report = silent && halt && !error;

    // what was rung in while the record was written is the next launch
    launch    <= (rings && !busy && !queue_reset) || (recorded_well && more);
    irq_done  <= over;
    irq_error <= report || (stopped && !error && !to_record);

    if (rings) rung <= ring_tail;
    if (queues) ends[3'(first + waiting[2:0])] <= ring_tail;
    if (over) first <= first + 3'd1;
    if (apart && queues != over) waiting <= queues ? waiting + 4'd1 : waiting - 4'd1;

    if (to_record) begin
      recording <= 1'b1;  recorded <= 1'b1;
    end else if (record_done) recording <= 1'b0;
    if (over) recorded <= 1'b0;
    if ((over && !more) || (drained && !to_record)) busy <= 1'b0;
    else if (rings && !queue_reset) busy <= 1'b1;
    if (report || (stopped && !to_record)) error <= 1'b1;
    if (overdue) silent <= 1'b1;
    if (queue_reset && busy) resetting <= 1'b1;
    if (clear || rst) begin
      error <= 1'b0;  recorded <= 1'b0;  resetting <= 1'b0;  silent <= 1'b0;
      rung <= 32'd0;  waiting <= 4'd0;
    end
    if (rst) begin
      first <= 3'd0;  busy <= 1'b0;  recording <= 1'b0;  launch <= 1'b0;  irq_done <= 1'b0;
      irq_error <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_one: assert property (@(posedge clk) disable iff (rst) (push & (push - ENGINES'(1))) == '0);
  a_buffer: assert property (@(posedge clk) disable iff (rst) asked - ring_head <= SLOTS);
  c_nop: cover property (@(posedge clk) disable iff (rst)
    state == 2'd2 && opcode == OP_NOP && !halt);
  c_load_full: cover property (@(posedge clk) disable iff (rst)
    state == 2'd2 && opcode == OP_LOAD && !room[LOAD]);
  c_matrix_full: cover property (@(posedge clk) disable iff (rst)
    state == 2'd2 && opcode == OP_MATRIX && !room[MATRIX]);
  c_epilogue_full: cover property (@(posedge clk) disable iff (rst)
    state == 2'd2 && opcode == OP_EPILOGUE && !room[EPILOGUE]);
  c_store_full: cover property (@(posedge clk) disable iff (rst)
    state == 2'd2 && opcode == OP_STORE && !room[STORE]);
  c_opcode: cover property (@(posedge clk) disable iff (rst)
    state == 2'd1 && refused == ERROR_OPCODE);
  c_version: cover property (@(posedge clk) disable iff (rst)
    state == 2'd1 && refused == ERROR_VERSION);
  c_field_nop: cover property (@(posedge clk) disable iff (rst)
    state == 2'd1 && refused == ERROR_FIELD && opcode == OP_NOP);
  c_field_load: cover property (@(posedge clk) disable iff (rst)
    state == 2'd1 && refused == ERROR_FIELD && opcode == OP_LOAD);
  c_field_matrix: cover property (@(posedge clk) disable iff (rst)
    state == 2'd1 && refused == ERROR_FIELD && opcode == OP_MATRIX);
  c_field_epilogue: cover property (@(posedge clk) disable iff (rst)
    state == 2'd1 && refused == ERROR_FIELD && opcode == OP_EPILOGUE);
  c_field_store: cover property (@(posedge clk) disable iff (rst)
    state == 2'd1 && refused == ERROR_FIELD && opcode == OP_STORE);
  c_fetch_error: cover property (@(posedge clk) disable iff (rst) fetch_rvalid && fetch_rerror);
  c_window: cover property (@(posedge clk) disable iff (rst)
    irq_error && error_code == ERROR_WINDOW);
  c_window_fetch: cover property (@(posedge clk) disable iff (rst) own_code == ERROR_WINDOW);
  c_window_halted: cover property (@(posedge clk) disable iff (rst) fetch_refused && halt);
  c_timeout: cover property (@(posedge clk) disable iff (rst)
    irq_error && error_code == ERROR_BUS_TIMEOUT);
  c_timeout_drain: cover property (@(posedge clk) disable iff (rst)
    irq_error && busy && error_code != ERROR_BUS_TIMEOUT);
  c_timeout_reset: cover property (@(posedge clk) disable iff (rst) irq_error && resetting);
  c_answers_late: cover property (@(posedge clk) disable iff (rst) drained && error);
  c_ring_error: cover property (@(posedge clk) disable iff (rst) own_code == ERROR_RING);
  c_read_error: cover property (@(posedge clk) disable iff (rst)
    !halt && fail_code == ERROR_READ_BUS);
  c_write_error: cover property (@(posedge clk) disable iff (rst)
    !halt && fail_code == ERROR_WRITE_BUS);
  c_range_error: cover property (@(posedge clk) disable iff (rst)
    !halt && fail_code == ERROR_SPAD_RANGE);
  c_token_error: cover property (@(posedge clk) disable iff (rst)
    !halt && fail_code == ERROR_TOKEN_OVERFLOW);
  c_second_error: cover property (@(posedge clk) disable iff (rst)
    halt && busy && !resetting && fail_code != ERROR_NONE);
  c_both_errors: cover property (@(posedge clk) disable iff (rst)
    !halt && own_code != ERROR_NONE && fail_code != ERROR_NONE);
  c_reset_idle: cover property (@(posedge clk) disable iff (rst) queue_reset && !busy && !error);
  c_reset_busy: cover property (@(posedge clk) disable iff (rst) queue_reset && busy);
  c_reset_error: cover property (@(posedge clk) disable iff (rst) queue_reset && error);
  c_reset_drains: cover property (@(posedge clk) disable iff (rst) resetting && halt && !all_idle);
  c_doorbell_busy: cover property (@(posedge clk) disable iff (rst) doorbell && busy && !error);
  c_doorbell_halted: cover property (@(posedge clk) disable iff (rst) doorbell && halt);
  c_ring_wrap: cover property (@(posedge clk) disable iff (rst)
    state == 2'd3 && (ring_head & (size - 32'd1)) == size - 32'd1);
  c_ring_full: cover property (@(posedge clk) disable iff (rst) ring_tail - ring_head == size);
  c_launch_waits: cover property (@(posedge clk) disable iff (rst) apart && waiting > 4'd1);
  c_launches_full: cover property (@(posedge clk) disable iff (rst)
    doorbell && apart && full);
  c_rung_in_record: cover property (@(posedge clk) disable iff (rst) recording && doorbell);
  c_reset_in_record: cover property (@(posedge clk) disable iff (rst) recording && queue_reset);
  c_page_end: cover property (@(posedge clk) disable iff (rst)
    fetch_valid && ring_log2 > 5'd5 && (asked & 32'd31) == 32'd0);
  c_buffer_full: cover property (@(posedge clk) disable iff (rst)
    asked - ring_head == SLOTS && ahead != 32'd0);
  c_fetch_waits: cover property (@(posedge clk) disable iff (rst) fetch_valid && !fetch_ready);
`endif
endmodule
