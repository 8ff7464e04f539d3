// SPDX-License-Identifier: Apache-2.0
// Splits fp32 words into bf16 terms (docs/numerics.md section 6): t = term 0, 1 or 2 of each x, in
// the low half of 32 bits.
// Latency 1 from `en`, one word a cycle. No reset, no errors.
module presil_split import presil_config_pkg::*; #(
  localparam int unsigned NW = WORD / 4  /// 32-bit words of a beat
) (
  input  logic        clk,
  input  logic        en,       /// split a word; else t stays
  input  logic [1:0]  term,     /// 0, 1 or 2: t0, t1 or t2 of docs/numerics.md
  input  logic [31:0] x [NW],   /// fp32, with en
  output logic [31:0] t [NW]    /// bf16 in the low half, 0 above
);
  typedef logic [31:0] words_t [NW];

  function automatic words_t split0();
    for (int unsigned i = 0; i < NW; i++) begin
      logic [31:0] v, mag, r;
      v   = x[i];
      mag = v & 32'h7fff_ffff;
      r   = (mag + 32'h7fff + ((mag >> 16) & 32'd1)) >> 16;
      r   = (r > 32'h7f7f) ? 32'h7f7f : r;                         // finite stays finite
      r   = (mag < 32'h0080_0000) ? 32'd0 : r;
      r   = (mag >= 32'h7f80_0000) ? 32'h7f80 : r;
      r   = r | ((v >> 16) & 32'h8000);
      split0[i] = (mag > 32'h7f80_0000) ? 32'h7fc0 : r;
    end
  endfunction

  // What term 0 leaves of the 24-bit significand is an integer of at most 16 bits; term 1 is its
  // leading 8 bits, rounded, term 2 the rest.
  function automatic words_t split12();
    for (int unsigned i = 0; i < NW; i++) begin
      logic [31:0] v, e, m, q, d, a, neg1, neg2, u, t1, t2, r;
      v = x[i];
      e = (v >> 23) & 32'hff;
      m = (v & 32'h007f_ffff) | 32'h0080_0000;
      q = (m + 32'h7fff + ((m >> 16) & 32'd1)) >> 16;
      q = ((e + (q >> 8)) > 32'd254) ? 32'd255 : q;                // term 0 was kept finite
      d = m - (q << 16);
      neg1 = d & 32'h8000_0000;
      a = (neg1 != 32'd0) ? (32'd0 - d) : d;
      // exponent field of bit 15, plus 256
      u = e + 32'd256 - 32'd8;
      m = a;
      u = (a < 32'h0100) ? (u - 32'd8) : u;  a = (a < 32'h0100) ? (a << 8) : a;
      u = (a < 32'h1000) ? (u - 32'd4) : u;  a = (a < 32'h1000) ? (a << 4) : a;
      u = (a < 32'h4000) ? (u - 32'd2) : u;  a = (a < 32'h4000) ? (a << 2) : a;
      u = (a < 32'h8000) ? (u - 32'd1) : u;  a = (a < 32'h8000) ? (a << 1) : a;
      q = (a + 32'h7f + ((a >> 8) & 32'd1)) >> 8;
      t1 = (u << 7) + q - 32'd128;
      t1 = (t1 < (32'd257 << 7)) ? 32'd0 : (t1 - (32'd256 << 7));
      t1 = (m == 32'd0) ? 32'd0 : t1;
      d = a - (q << 8);
      neg2 = d & 32'h8000_0000;
      a = (neg2 != 32'd0) ? (32'd0 - d) : d;
      m = a;
      u = u - 32'd8;
      u = (a < 32'h10) ? (u - 32'd4) : u;  a = (a < 32'h10) ? (a << 4) : a;
      u = (a < 32'h40) ? (u - 32'd2) : u;  a = (a < 32'h40) ? (a << 2) : a;
      u = (a < 32'h80) ? (u - 32'd1) : u;  a = (a < 32'h80) ? (a << 1) : a;
      t2 = (u << 7) + a - 32'd128;
      t2 = (t2 < (32'd257 << 7)) ? 32'd0 : (t2 - (32'd256 << 7));
      t2 = (m == 32'd0) ? 32'd0 : t2;
      neg1 = neg1 ^ (v & 32'h8000_0000);
      neg2 = neg2 ^ neg1;
      r = (term == 2'd1) ? t1 : t2;
      q = (term == 2'd1) ? neg1 : neg2;
      r = (r == 32'd0) ? 32'd0 : (r | (q >> 16));
      r = (e == 32'd0) ? 32'd0 : r;
      split12[i] = (e == 32'd255) ? 32'd0 : r;
    end
  endfunction

  always_ff @(posedge clk) begin
    if (en) begin
      if (term == 2'd0) t <= split0();
      else t <= split12();
    end
  end
endmodule
