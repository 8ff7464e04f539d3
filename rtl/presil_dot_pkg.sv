// SPDX-License-Identifier: Apache-2.0
// Operands and terms of the array's dot products (docs/numerics.md clauses 3 and 4), one element at
// a time.
// An element is an fp32: a bf16 with its low half zero, or what an fp16 equals. It is held as its
// sign in bit 31 with 11 bits of significand (0 for a zero), and its exponent field + 256, or 0 for
// a zero, so that a product with a zero never has the largest exponent.
package presil_dot_pkg;
  import presil_config_pkg::*;

  localparam logic [31:0] SIGN = 32'h8000_0000;
  // rows and columns of the largest depthwise kernel; its positions are lanes
  localparam int unsigned WINDOW = 5;
  localparam int unsigned NEAR = 3;                    // of most
  localparam int unsigned POSITIONS = WINDOW * WINDOW;
  // of the array's port for weights: a cell, or a position
  localparam int unsigned CELL_BITS = $clog2((CELLS > POSITIONS) ? CELLS : POSITIONS);
  localparam int unsigned LOG_PAIRS = $clog2(LANES / 2);
  // guard bits of the alignment, below a product of 16 bits; one of two significands has 22
  localparam int unsigned G = (LOG_PAIRS > 5) ? 16 - LOG_PAIRS : 11;
  // 2 * 256 of the stored exponents + 268 + (G - 1)
  localparam logic [31:0] EXP_BIAS = 32'd779 + G;
  localparam logic [31:0] EXP_SPECIAL = 32'd511;       // stored exponent of infinity and NaN
  localparam logic [31:0] ABSENT = 32'h100;            // mark beside a stored sign
  localparam logic [31:0] SIGNIFICAND = 32'h7ff, FRACTION = 32'h3ff, HIDDEN = 32'h400;
  localparam logic [31:0] LOWER = 32'hffff, UPPER = 32'hffff_0000;
  // exponent fields of infinity and NaN
  localparam logic [31:0] BF16_SPECIAL = 32'h7f80, FP16_SPECIAL = 32'h7c00;
  localparam logic [31:0] NONE = 32'hffff_ffff;        // no code of 16 bits
  // weights that `absent` makes nothing of
  localparam logic [31:0] ABSENT_BF16 = 32'h0001, ABSENT_FP16 = 32'h7c01;
  // makes an int8 product fit 16 bits without a sign
  localparam logic [15:0] PRODUCT_BIAS = 16'd16256;

  function automatic logic [31:0] sext8(input logic [31:0] b);
    return ((b & 32'hff) ^ 32'h80) - 32'h80;
  endfunction

  // x: an element. top: the first exponent field that counts as zero (255 to skip specials, else
  // 256)
  function automatic logic [31:0] significand(input logic [31:0] x, input logic [31:0] top);
    logic [31:0] e, m;
    e = (x >> 23) & 32'hff;
    m = ((x >> 13) & FRACTION) | HIDDEN;
    m = (((e - 32'd1) & 32'h1ff) < top - 32'd1) ? m : 32'd0;
    return (x & SIGN) | m;
  endfunction

  function automatic logic [31:0] exponent(input logic [31:0] x, input logic [31:0] top);
    logic [31:0] e;
    e = (x >> 23) & 32'hff;
    return (((e - 32'd1) & 32'h1ff) < top - 32'd1) ? (e | 32'h100) : 32'd0;
  endfunction

  function automatic logic [31:0] larger(input logic [31:0] a, input logic [31:0] b);
    return (a > b) ? a : b;
  endfunction

  // a product m * 2^(G - 6) aligned by d and rounded half up
  function automatic logic [31:0] aligned(input logic [31:0] m, input logic [31:0] d);
    d = (d > 32'd31) ? 32'd31 : d;
    return ((m >> d[4:0]) + 32'd1) >> 1;
  endfunction

  function automatic logic [31:0] product8(input logic [15:0] a, input logic [15:0] w);
    logic [15:0] p;
    p = a * w + PRODUCT_BIAS;
    return {16'd0, p} - {16'd0, PRODUCT_BIAS};
  endfunction

  // a term aligned to the largest exponent, with its sign
  function automatic logic [31:0] term(input logic [31:0] am, input logic [31:0] wm,
      input logic [31:0] ws,
                                       input logic [31:0] d);
    logic [31:0] t;
    t = aligned(((am & SIGNIFICAND) << (G - 6)) * wm, d);
    return ((am ^ ws) >= SIGN) ? (32'd0 - t) : t;
  endfunction

  // two elements: 1 if one of them is infinite or NaN; lower, upper: where their exponents are
  function automatic logic [31:0] specials_of(input logic [31:0] w, input logic [31:0] lower,
      input logic [31:0] upper);
    return (((w & lower) == lower) ? 32'd1 : 32'd0) | (((w & upper) == upper) ? 32'd1 : 32'd0);
  endfunction

  // pos, neg, nan in bits 0, 1, 2: what a lane's infinities and NaNs are
  function automatic logic [31:0] special_lane(input logic [31:0] am, input logic [31:0] ae,
      input logic [31:0] wm,
                                               input logic [31:0] we, input logic [31:0] ws);
    logic [31:0] nan, inf;
    inf = (ae == EXP_SPECIAL || we == EXP_SPECIAL) ? 32'd1 : 32'd0;
    inf = ((ws & ABSENT) != 32'd0) ? 32'd0 : inf;
    nan = ((ae == EXP_SPECIAL && (am & FRACTION) != 32'd0)
        || (we == EXP_SPECIAL && (wm & FRACTION) != 32'd0)
           || ae == 32'd0 || we == 32'd0) ? inf : 32'd0;
    return (nan << 2) | (((am ^ ws) < SIGN) ? inf : (inf << 1));
  endfunction

  // s: those of all lanes. The cell's value, or 0 where none is special
  function automatic logic [31:0] special_value(input logic [2:0] s);
    return (s[2] || s[1:0] == 2'd3) ? 32'h7fc0_0000 : s[0] ? 32'h7f80_0000 : s[1] ? 32'hff80_0000
        : 32'd0;
  endfunction
endpackage
