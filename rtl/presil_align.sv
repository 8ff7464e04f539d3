// SPDX-License-Identifier: Apache-2.0
// Window of the last 16 beats of LOAD's data, and the byte shifter behind it: x = 32-bit words of
// {beat slot+1, beat slot} >> 8*shift.
// Latency 1 from `en`, one word a cycle. A beat written in a cycle can be read in the next. No
// reset, no errors.
module presil_align import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD),  /// log2 of WORD, the bytes of a beat
  localparam int unsigned NW = WORD / 4  /// 32-bit words of a beat
) (
  input  logic              clk,
  input  logic              we,         /// a beat comes
  input  logic [3:0]        wslot,      /// its slot: running count of beats mod 16
  input  logic [8*WORD-1:0] wdata,      /// the beat, with we
  input  logic              en,         /// shift a word out; else x stays
  input  logic [3:0]        slot,       /// of the beat with the word's first byte
  input  logic [LW-1:0]     shift,      /// bytes of that beat before it
  output logic [31:0]       x [NW]      /// 32-bit words, in ascending address
);
  typedef logic [31:0] words_t [NW];
  logic [8*WORD-1:0] window [16];

  function automatic words_t unpack();
    for (int unsigned i = 0; i < NW; i++) unpack[i] = window[slot][32*i +: 32];
  endfunction

  // whole words in log2 steps, so that each step is a select between two fixed positions, then
  // bytes
  function automatic words_t align();
    logic [31:0] a [2*NW];
    logic [31:0] b [2*NW];
    logic [3:0]  next;
    logic [4:0]  bits;
    next = slot + 4'd1;
    for (int unsigned i = 0; i < NW; i++) a[i] = window[slot][32*i +: 32];
    for (int unsigned i = 0; i < NW; i++) a[i+NW] = window[next][32*i +: 32];
    for (int unsigned s = NW / 2; s > 0; s = s >> 1) begin
      if ((32'(shift) & (s << 2)) != 32'd0) begin
        for (int unsigned i = 0; i < 2 * NW - s; i++) b[i] = a[i+s];
        for (int unsigned i = 0; i < 2 * NW - s; i++) a[i] = b[i];
      end
    end
    bits = {shift[1:0], 3'd0};
    for (int unsigned i = 0; i < NW; i++)
      align[i] = (a[i] >> bits) | ((a[i+1] << 1) << (5'd31 - bits));
  endfunction

  always_ff @(posedge clk) begin
    if (we) window[wslot] <= wdata;
    if (en) begin
      if (shift == '0) x <= unpack();
      else x <= align();
    end
  end
endmodule
