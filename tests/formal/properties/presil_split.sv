// SPDX-License-Identifier: Apache-2.0
// The three terms of any fp32 number (docs/numerics.md section 6): asked for one after the other, added up as integers.
module presil_split_properties import presil_config_pkg::*; #(
  localparam int unsigned NW = WORD / 4
) (
  input logic        clk, en,
  input logic [1:0]  term,
  input logic [31:0] x [NW],
  input logic [31:0] t [NW]
);
  logic [2:0]  at = 3'd0;
  logic [31:0] v, was;
  logic [15:0] t0, t1, t2;
  logic [7:0]  e;
  logic signed [39:0] sum, whole, left;
  assign v = x[1];                            // the words are computed alike

  // A term as a multiple of what the last of the 24 bits of v weighs, 2^-16 of it kept: exponents of terms are at most
  // one above and 31 below that of v.
  function automatic logic signed [39:0] value(input logic [15:0] b, input logic [7:0] top);
    logic [8:0] down;
    logic [39:0] m;
    down = {1'b0, top} + 9'd1 - {1'b0, b[14:7]};
    m = (b[14:7] == 8'd0) ? 40'd0 : ({32'd0, 1'b1, b[6:0]} << 31) >> down;
    return b[15] ? -m : m;
  endfunction

  assign e = was[30:23];
  always_comb begin
    // units of 2^-14 of the last bit of v
    whole = 40'({16'd0, 1'b1, was[22:0]}) << 14;
    if (was[31]) whole = -whole;
    sum = value(t0, e) + value(t1, e) + value(t2, e);
    left = whole - value(t0, e);
    if (left < 0) left = -left;
  end

  always_ff @(posedge clk) begin
    if (at != 3'd4) at <= at + 3'd1;
    if (at == 3'd0) was <= v;
    if (at == 3'd1) t0 <= t[1][15:0];
    if (at == 3'd2) t1 <= t[1][15:0];
    if (at == 3'd3) t2 <= t[1][15:0];
    assume (en && (at == 3'd0 || v == was) && (at > 3'd2 || term == 2'(at)));
    if (at == 3'd4) begin
      // exact where no term is too small to be a normal number
      a_sum: assert (e == 8'd255 || e < 8'd33 || sum == whole);
      // nearest, but that a finite number stays finite
      a_nearest: assert (e == 8'd255 || e < 8'd2 || (left <= (40'sd1 << 29)) || was[30:16] == 15'h7f7f);
      a_finite: assert (e == 8'd255 || (t0[14:7] != 8'd255 && t1[14:7] != 8'd255 && t2[14:7] != 8'd255));
      a_special: assert (e != 8'd255 || t0 == (was[22:0] == 23'd0 ? {was[31], 15'h7f80} : 16'h7fc0));
      a_nothing_else: assert (e != 8'd255 && e != 8'd0 || (t1 == 16'd0 && t2 == 16'd0));
      a_subnormal: assert (e != 8'd0 || t0 == {was[31], 15'd0});
      c_three: cover (t0[14:0] != 15'd0 && t1[14:0] != 15'd0 && t2[14:0] != 15'd0 && t1[15] != t0[15]);
      c_clamped: cover (t0[14:0] == 15'h7f7f && t1[14:0] != 15'd0 && was[30:16] == 15'h7f7f && was[15]);
    end
  end
endmodule
bind presil_split presil_split_properties u_properties (.*);
