// SPDX-License-Identifier: Apache-2.0
// STORE engine (docs/isa.md section 3): scratchpad words to contiguous DRAM rows of any byte
// alignment.
// Address side (presil_rows, presil_bursts) runs ahead; presil_store_pack puts the pieces (at most
// a scratchpad word each) together to beats.
// One read and one beat a cycle; the next descriptor starts while responses are outstanding. Reset:
// synchronous, only when idle.
// Errors: SPAD_RANGE here, WRITE_BUS in presil_axi_write.
module presil_store import presil_config_pkg::*, presil_desc_pkg::*,
    presil_engine_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)  /// log2 of WORD, the bytes of beat and word
) (
  input  logic              clk,
  input  logic              rst,
  input  command_t          command,           /// the next descriptor
  /// ready: at most 6 are not done; done: its words are read (ordered: and all bursts up to its
  /// last acknowledged); idle: presil_axi_write knows the bus
  output status_t           status,
  input  logic              halt,              /// take, read and ask for nothing
  output logic              err_valid,         /// SPAD_RANGE; stays until halt
  output logic [31:0]       err_index,         /// ring count of its descriptor
  output logic [31:0]       err_addr,          /// scratchpad byte address of the word
  output logic              st_valid,          /// a word to read; withdrawn at halt
  output logic [15:0]       st_addr,           /// its word address, with st_valid
  input  logic              st_ready,          /// granted in this cycle
  input  logic              st_rvalid,         /// two cycles after the grant
  input  logic [8*WORD-1:0] st_rdata,          /// the word, with st_rvalid
  output logic              burst_valid,       /// a burst to write; withdrawn at halt
  input  logic              burst_ready,       /// taken in this cycle
  output logic [39-LW:0]    burst_beat,        /// first beat: DRAM byte address / WORD
  output logic [7:0]        burst_len,         /// beats of the burst - 1
  output logic [31:0]       burst_index,       /// ring count of its descriptor
  input  logic              put,               /// pulse: `beat_data` takes what follows
  input  logic [8*WORD-1:0] put_data,          /// a beat of a completion record; STORE is idle
  output logic              beat_valid,        /// a beat, in order of the bursts; stays
  input  logic              beat_ready,        /// taken in this cycle
  output logic [8*WORD-1:0] beat_data,         /// the beat, with beat_valid
  output logic [WORD-1:0]   beat_strb,         /// bytes of the beat to write
  output logic [LW:0]       beat_bytes,        /// strobes set
  input  logic              response           /// a burst was acknowledged: pulse, in order
);
  // ---- engine port
  store_t start_desc;
  logic start_ready, done, active, idle;
  logic [3:0] cause;
  assign start_desc = command.desc;
  assign status = '{ready: start_ready, done: done, active: active, idle: idle, cause: cause};

  logic unused;
  assign unused = &start_desc;                 // the fields of others, too
  localparam logic [31:0] WORDS = BANKS * BANK_WORDS;

  // ---- address side -------------------------------------------------------------------------
  logic [15:0] d_chunk, d_n0;
  logic [31:0] d_bytes;
  logic        start, rows_ready, row_valid, row_ready, row_last, run_ready, bursts_valid;
  logic [39-LW:0] row_beat;
  logic [31:0] row_beats, row_s, row_index, a_index;
  logic [LW-1:0] row_at;                       // byte offset of the row in its first beat
  logic [49:0] unused_rel, unused_pos;
  logic        unused_last1;
  assign d_chunk = start_desc.chunk_bytes;
  assign d_n0    = start_desc.n0;
  assign d_bytes = 32'(d_chunk) * 32'(d_n0);
  assign row_at  = unused_rel[LW-1:0];
  presil_rows u_rows (.clk, .rst, .start_valid(start), .start_ready(rows_ready),
      .index(command.index), .addr(start_desc.addr[39:0]), .ds1(start_desc.ds1[39:0]),
      .ds2(start_desc.ds2[39:0]), .ds3(start_desc.ds3[39:0]), .sp(start_desc.sp_base), .ss0(32'd0),
      .ss1(start_desc.ss1), .ss2(start_desc.ss2), .ss3(start_desc.ss3), .n0(16'd1),
      .n1(start_desc.n1), .n2(start_desc.n2), .n3(start_desc.n3), .pos0(50'd0), .step0(32'd0),
      .span(50'(d_bytes)), .row_bytes(d_bytes), .row_limit(16'd0), .rp0(16'd0), .rp1(8'd0),
      .rp2(8'd0), .rp3(8'd0), .row_valid, .row_ready, .row_beat, .row_beats, .row_rel(unused_rel),
      .row_pos(unused_pos), .row_index, .row_s, .row_last1(unused_last1), .row_last);

  // rows that wait for their data
  typedef struct packed {
    logic          last;
    logic [LW-1:0] at;
    logic [31:0]   s;
  } row_t;
  row_t        row_next;
  logic        rows_full, no_row, pop;
  presil_fifo #(.T(row_t), .DEPTH(16)) u_waiting (.clk, .rst, .put(row_valid && row_ready),
      .in({row_last, row_at, row_s}), .full(rows_full), .take(pop), .oldest(row_next),
      .empty(no_row));
  assign row_ready   = !rows_full && run_ready;
  assign burst_valid = bursts_valid && !halt;
  assign burst_index = a_index;
  presil_bursts u_bursts (.clk, .rst, .run_valid(row_valid && row_ready), .run_ready,
      .run_beat(row_beat), .run_beats(row_beats), .burst_valid(bursts_valid),
      .burst_ready(burst_ready && !halt), .burst_beat, .burst_len);

  // ---- descriptors: started, read, addressed, done ------------------------------------------
  // running counts mod 8; at most 6 between head and tail
  logic [2:0]  head, walk, tail;
  logic [3:0]  held;
  logic [15:0] bursts, responses;              // running counts
  // responses that the oldest descriptor waits for; negative: later ones' are in
  logic [15:0] owed;
  logic [15:0] q_chunk [8], q_n0 [8], q_word [8], q_bursts [8];
  logic [31:0] q_index [8], q_sw [8], q_ss0 [8];
  logic        q_ordered [8];
  // all bursts of descriptor i are counted in q_bursts[i]
  logic [7:0]  addressed;
  logic [7:0]  read;                           // all words read
  logic [2:0]  addr_at;
  logic        a_last;
  assign start_ready = rows_ready && held < 4'd6 && !halt;
  assign start       = command.valid && start_ready;
  assign active      = held != 4'd0;
  assign owed        = q_bursts[tail] - responses;
  assign done        = active && read[tail]
      && (!q_ordered[tail] || (addressed[tail] && (owed == 16'd0 || owed[15])));

  // ---- the row being walked -----------------------------------------------------------------
  logic        w_have, w_last;
  logic [31:0] w_s, w_cs, w_left, w_len, d_sw, d_ss0, d_index, d_word, d_size;
  logic [15:0] w_n0, d_more;
  logic [LW-1:0] w_at;
  logic        d_have, pack_room, pack_idle, out, go, row_end;
  assign w_len    = (w_left < d_word) ? w_left : d_word;
  assign out      = w_have && ((w_s >> LW) >= WORDS);
  assign st_valid = w_have && pack_room && !out && !halt;
  assign st_addr  = 16'(w_s >> LW);
  assign go       = st_valid && st_ready;
  assign row_end  = w_left <= d_word && w_n0 == 16'd0;
  assign pop      = d_have && !no_row && (!w_have || (go && row_end && !w_last));
  presil_store_pack u_pack (.clk, .rst, .halt, .piece(go), .piece_from(w_s[LW-1:0]),
      .piece_at(w_at), .piece_len((LW+1)'(w_len)), .piece_end(row_end), .room(pack_room),
      .idle(pack_idle), .rvalid(st_rvalid), .rdata(st_rdata), .put, .put_data, .beat_valid,
      .beat_ready, .beat_data,
      .beat_strb, .beat_bytes);

  // no register is read behind an assignment to it: Verilator would keep a shadow copy

  // address side
  always_ff @(posedge clk) begin
    logic burst;
    burst = burst_valid && burst_ready;
    if (response) responses <= responses + 16'd1;
    // all bursts of a descriptor are out when its last row has left presil_bursts
    if (a_last && burst && run_ready) begin
      addressed[addr_at] <= 1'b1;  q_bursts[addr_at] <= bursts + 16'd1;  addr_at <= addr_at + 3'd1;
      a_last <= 1'b0;
    end
    if (burst) bursts <= bursts + 16'd1;
    if (row_valid && row_ready) begin
      a_index <= row_index;  a_last <= row_last;
    end
    if (start) addressed[head] <= 1'b0;
    if (rst) begin
      addr_at <= 3'd0;  a_last <= 1'b0;  bursts <= 16'd0;  responses <= 16'd0;
    end
  end

  // data side
  always_ff @(posedge clk) begin
    logic chunk_end;
    chunk_end = w_left <= d_word;
    err_valid <= out && !halt;
    if (out) begin
      err_index <= d_index;  err_addr <= {w_s[31:LW], {LW{1'b0}}};
    end
    if (go && row_end && !pop) w_have <= 1'b0;
    if (go && !pop) begin
      w_at <= w_at + w_len[LW-1:0];
      if (!chunk_end) begin
        w_s <= w_s + d_sw;  w_left <= w_left - w_len;
      end else begin
        w_s <= w_cs + d_ss0;  w_left <= d_size;  w_n0 <= w_n0 - 16'd1;  w_cs <= w_cs + d_ss0;
      end
    end
    if (pop) begin
      w_have <= 1'b1;  w_s <= row_next.s;  w_cs <= row_next.s;  w_at <= row_next.at;
      w_last <= row_next.last;
      w_left <= d_size;  w_n0 <= d_more;
    end
    if (rst) begin
      w_have <= 1'b0;  err_valid <= 1'b0;
    end
  end

  // descriptors
  always_ff @(posedge clk) begin
    logic take;
    take = !d_have && walk != head;
    if (start) read[head] <= 1'b0;
    if (take) begin
      d_have <= 1'b1;
      d_sw <= q_sw[walk];  d_ss0 <= q_ss0[walk];  d_index <= q_index[walk];
      d_word <= 32'(q_word[walk]);  d_size <= 32'(q_chunk[walk]);  d_more <= q_n0[walk] - 16'd1;
    end
    if (go && row_end && w_last) begin
      d_have <= 1'b0;  read[walk] <= 1'b1;  walk <= walk + 3'd1;
    end
    if (start) begin
      q_chunk[head] <= d_chunk;  q_n0[head] <= d_n0;
      q_word[head] <= start_desc.word_bytes;
      q_index[head] <= command.index;  q_sw[head] <= start_desc.sw;
      q_ss0[head] <= start_desc.ss0;  q_ordered[head] <= start_desc.ordered;
      head <= head + 3'd1;
    end
    if (done) tail <= tail + 3'd1;
    if (start != done) held <= start ? held + 4'd1 : held - 4'd1;
    if (rst) begin
      head <= 3'd0;  walk <= 3'd0;  tail <= 3'd0;  held <= 4'd0;  d_have <= 1'b0;
    end
  end

  assign idle = halt || (held == 4'd0 && pack_idle && !bursts_valid && !row_valid);
  always_ff @(posedge clk) begin
    if (active) begin
      if (go) cause <= CAUSE_BUSY;
      else if (st_valid) cause <= CAUSE_SCRATCHPAD;
      else if (burst_valid && !burst_ready) cause <= CAUSE_BUS_REQUEST;
      else if (beat_valid && !beat_ready) cause <= CAUSE_BUS_DATA;
      else if (!d_have && walk == head && pack_idle) cause <= CAUSE_BUS_RESPONSE;
      else if (!w_have) cause <= CAUSE_DRAIN;
      else cause <= CAUSE_BUSY;
    end else begin
      // of the first cycle of the next descriptor: never what the last one left
      cause <= CAUSE_BUSY;
    end
  end

`ifndef SYNTHESIS
  a_over: assert property (@(posedge clk) disable iff (rst) !(start && held >= 4'd6));
  c_full: cover property (@(posedge clk) disable iff (rst) held == 4'd6);
  c_rows_full: cover property (@(posedge clk) disable iff (rst) rows_full);
  c_wrap: cover property (@(posedge clk) disable iff (rst) start && head == 3'd7);
  c_unordered: cover property (@(posedge clk) disable iff (rst) done && q_ordered[tail] == 1'b0);
  c_waits_response: cover property (@(posedge clk) disable iff (rst)
    active && read[tail] && q_ordered[tail] && !done);
  // responses of later descriptors are in
  c_ahead: cover property (@(posedge clk) disable iff (rst) active && owed[15]);
  c_chunks: cover property (@(posedge clk) disable iff (rst) w_have && w_n0 != 16'd0);
  c_pack_full: cover property (@(posedge clk) disable iff (rst) w_have && !pack_room);
  c_range: cover property (@(posedge clk) disable iff (rst) err_valid);
`endif
endmodule
