// SPDX-License-Identifier: Apache-2.0
// Puts the pieces that STORE reads (length at byte offset `from` of a scratchpad word) together to
// beats at byte offset `at`.
// Up to 8 pieces between grant and beat. One piece a cycle; a row whose last piece crosses a beat
// takes one cycle more.
// Reset: synchronous, only control. Errors: none.
module presil_store_pack import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD),  /// log2 of WORD, the bytes of beat and word
  localparam int unsigned NW = WORD / 4  /// 32-bit words of a beat
) (
  input  logic              clk,
  input  logic              rst,
  input  logic              halt,              /// make no more beats
  input  logic              piece,             /// pulse: read granted, only with room
  input  logic [LW-1:0]     piece_from,        /// its first byte in the scratchpad word
  input  logic [LW-1:0]     piece_at,          /// its first byte's place in the beat
  input  logic [LW:0]       piece_len,         /// bytes, 1 to WORD; may end in the next beat
  input  logic              piece_end,         /// last of its row
  output logic              room,              /// fewer than 8 pieces between grant and beat
  output logic              idle,              /// no piece, no beat
  input  logic              rvalid,            /// a granted word arrives, in order
  input  logic [8*WORD-1:0] rdata,             /// the word, with rvalid
  input  logic              put,               /// pulse: `beat_data` takes what follows
  input  logic [8*WORD-1:0] put_data,          /// a beat of a record: there is no other
  output logic              beat_valid,        /// a beat; stays until beat_ready, halt or not
  input  logic              beat_ready,        /// taken in this cycle
  output logic [8*WORD-1:0] beat_data,         /// the beat, with beat_valid
  output logic [WORD-1:0]   beat_strb,         /// bytes of the beat to write: one range
  output logic [LW:0]       beat_bytes         /// strobes set
);
  logic [8*WORD-1:0] fifo [8];
  logic [LW-1:0] q_from [8], q_at [8];
  logic [LW:0]   q_len [8];
  logic          q_end [8];
  logic [2:0]    head, data, tail;             // granted, read, packed
  logic [3:0]    held, ready;                  // granted and not packed; read and not packed
  logic          flush, row_first;             // flush: the row's last bytes are in acc
  logic [LW:0]   flush_bytes;
  logic [LW-1:0] low;                          // first byte of the current beat
  logic [8*WORD-1:0] acc;                      // bytes of the current beat so far

  assign room = !held[3];
  assign idle = held == 4'd0 && !flush && !beat_valid;

  // rotates piece `tail` right by r bytes
  function automatic logic [8*WORD-1:0] rotate(input logic [LW-1:0] r);
    logic [31:0] a [2*NW];
    logic [31:0] b [2*NW];
    logic [4:0]  bits;
    for (int unsigned i = 0; i < NW; i++) a[i] = fifo[tail][32*i +: 32];
    for (int unsigned i = 0; i < NW; i++) a[i+NW] = a[i];
    for (int unsigned s = NW / 2; s > 0; s = s >> 1) begin
      if ((32'(r) & (s << 2)) != 32'd0) begin
        for (int unsigned i = 0; i < 2 * NW - s; i++) b[i] = a[i+s];
        for (int unsigned i = 0; i < 2 * NW - s; i++) a[i] = b[i];
      end
    end
    bits = {r[1:0], 3'd0};
    for (int unsigned i = 0; i < NW; i++) b[i] = (a[i] >> bits) | ((a[i+1] << 1) << (5'd31 - bits));
    for (int unsigned i = 0; i < NW; i++) rotate[32*i +: 32] = b[i];
  endfunction

  // bytes below `at` from acc, the others from the piece
  function automatic logic [8*WORD-1:0] merge(input logic [8*WORD-1:0] w, input logic [LW-1:0] at);
    logic [31:0] b [NW];
    for (int unsigned i = 0; i < NW; i++) b[i] = w[32*i +: 32];
    for (int unsigned i = 0; i < NW; i++) begin
      logic [31:0] m;
      m = presil_word_pkg::range_mask(i, 32'd0, 32'(at));
      b[i] = (acc[32*i +: 32] & m) | (b[i] & ~m);
    end
    for (int unsigned i = 0; i < NW; i++) merge[32*i +: 32] = b[i];
  endfunction

  function automatic logic [WORD-1:0] bytes(input logic [LW:0] lo, input logic [LW:0] hi);
    return ({WORD{1'b1}} << lo) & ~({WORD{1'b1}} << hi);
  endfunction

  always_ff @(posedge clk) begin
    logic pop;
    pop = 1'b0;
    if (beat_ready) beat_valid <= 1'b0;
    if (piece) begin
      q_from[head] <= piece_from;  q_at[head] <= piece_at;  q_len[head] <= piece_len;
      q_end[head] <= piece_end;
      head <= head + 3'd1;
    end
    if (rvalid) begin
      fifo[data] <= rdata;  data <= data + 3'd1;
    end
    if (flush && !halt && (!beat_valid || beat_ready)) begin
      beat_valid <= 1'b1;  beat_data <= acc;  beat_strb <= bytes('0, flush_bytes);
      beat_bytes <= flush_bytes;
      flush <= 1'b0;
    end else if (ready != 4'd0 && !halt && (!beat_valid || beat_ready)) begin
      logic [LW-1:0] at, lo, r;
      logic [LW:0]   stop, top;
      pop  = 1'b1;
      at   = q_at[tail];
      lo   = row_first ? at : low;
      r    = q_from[tail] - at;
      stop = {1'b0, at} + q_len[tail];          // up to 2*WORD-1
      top  = stop[LW] ? (LW+1)'(WORD) : stop;
      row_first <= q_end[tail];
      low <= stop[LW] ? '0 : lo;
      if (stop[LW] || q_end[tail]) begin
        beat_valid <= 1'b1;  beat_bytes <= top - {1'b0, lo};
        if (r == '0 && at == '0) beat_data <= fifo[tail];
        else beat_data <= merge(rotate(r), at);
        if (lo == '0 && stop[LW]) beat_strb <= '1;
        else beat_strb <= bytes({1'b0, lo}, top);
      end
      // what goes on in the next beat: after a full one the rotated piece's head, else the beat so
      // far
      if (stop[LW]) begin
        if (stop[LW-1:0] != '0) acc <= rotate(r);
      end else if (!q_end[tail]) acc <= merge(rotate(r), at);
      flush <= q_end[tail] && stop[LW] && stop[LW-1:0] != '0;
      flush_bytes <= {1'b0, stop[LW-1:0]};
      tail <= tail + 3'd1;
    end
    if (put) beat_data <= put_data;
    if (piece != pop) held <= piece ? held + 4'd1 : held - 4'd1;
    if (rvalid != pop) ready <= rvalid ? ready + 4'd1 : ready - 4'd1;
    if (rst) begin
      head <= 3'd0;  data <= 3'd0;  tail <= 3'd0;  held <= 4'd0;  ready <= 4'd0;  flush <= 1'b0;
      row_first <= 1'b1;
      beat_valid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_over: assert property (@(posedge clk) disable iff (rst) !(piece && held[3]));
  // data without a read
  a_under: assert property (@(posedge clk) disable iff (rst) !(rvalid && ready == held));
  a_counts: assert property (@(posedge clk) disable iff (rst) ready <= held && held <= 4'd8);
  c_full: cover property (@(posedge clk) disable iff (rst) held[3]);
  c_wrap: cover property (@(posedge clk) disable iff (rst) piece && head == 3'd7);
  c_flush: cover property (@(posedge clk) disable iff (rst) flush);
  c_flush_waits: cover property (@(posedge clk) disable iff (rst)
    flush && beat_valid && !beat_ready);
  c_waits: cover property (@(posedge clk) disable iff (rst) beat_valid && !beat_ready);
  c_joined: cover property (@(posedge clk) disable iff (rst) ready != 4'd0 && !row_first);
  c_odd_start: cover property (@(posedge clk) disable iff (rst) beat_valid && !beat_strb[0]);
  c_odd_end: cover property (@(posedge clk) disable iff (rst) beat_valid && !beat_strb[WORD-1]);
  c_one_byte: cover property (@(posedge clk) disable iff (rst)
    beat_valid && 32'(beat_bytes) == 32'd1);
`endif
endmodule
