// SPDX-License-Identifier: Apache-2.0
// fp32, bf16 and fp16 arithmetic of docs/numerics.md clauses 1 and 2: combinational functions on
// 32-bit integers.
// Every intermediate is 32 bits wide and every choice is a select, so that a loop over an array of
// operands becomes vector code in simulation. Operands with exponent field 0 are zeros of their
// sign; NaN results are canonical.
package presil_fp_pkg;
  localparam logic [31:0] FP_SIGN = 32'h8000_0000;
  localparam logic [31:0] FP_INF  = 32'h7f80_0000;
  localparam logic [31:0] NAN32  = 32'h7fc0_0000;
  localparam logic [31:0] FP_FRAC = 32'h007f_ffff;
  localparam logic [31:0] FP_HIDE = 32'h0080_0000;

  // int32 to fp32, round to nearest even; 0 gives +0
  function automatic logic [31:0] i2f(input logic [31:0] x);
    logic [31:0] m, e, q, u, r;
    m = (x >= FP_SIGN) ? (32'd0 - x) : x;
    // exponent field of 2^31, less the one that the hidden bit adds
    e = 32'd157;
    e = (m < 32'h0001_0000) ? (e - 32'd16) : e;  m = (m < 32'h0001_0000) ? (m << 16) : m;
    e = (m < 32'h0100_0000) ? (e - 32'd8) : e;   m = (m < 32'h0100_0000) ? (m << 8) : m;
    e = (m < 32'h1000_0000) ? (e - 32'd4) : e;   m = (m < 32'h1000_0000) ? (m << 4) : m;
    e = (m < 32'h4000_0000) ? (e - 32'd2) : e;   m = (m < 32'h4000_0000) ? (m << 2) : m;
    e = (m < 32'h8000_0000) ? (e - 32'd1) : e;   m = (m < 32'h8000_0000) ? (m << 1) : m;
    q = m >> 8;
    u = (((m & 32'hff) + (q & 32'd1)) > 32'h80) ? 32'd1 : 32'd0;
    r = ((e << 23) + q + u) | (x & FP_SIGN);
    return (m == 32'd0) ? 32'd0 : r;
  endfunction

  // x * 2^e, x int32, e -2^30 to 2^30; rounded once, beyond fp32 infinity or zero of its sign
  function automatic logic [31:0] i2f_scaled(input logic [31:0] x, input logic [31:0] e);
    logic [31:0] f, n, r;
    f = i2f(x);
    n = ((f >> 23) & 32'hff) + e;
    r = (f & 32'h807f_ffff) | (n << 23);
    r = (n > 32'd254) ? ((f & FP_SIGN) | FP_INF) : r;
    r = ((n - 32'd1) >= FP_SIGN) ? (f & FP_SIGN) : r;
    return (f == 32'd0) ? 32'd0 : r;
  endfunction

  function automatic logic [31:0] fp_mul(input logic [31:0] a, input logic [31:0] b);
    logic [31:0] ea, eb, na, nb, ah, al, bh, bl, ll, t, hi, lo, q, rem, e, u, r, z;
    ea = (a >> 23) & 32'hff;  eb = (b >> 23) & 32'hff;
    na = a & ~FP_SIGN;        nb = b & ~FP_SIGN;
    // 24 x 24 bits from 12-bit halves: the product is hi * 2^24 + lo
    ah = ((a >> 12) & 32'h7ff) | 32'h800;  al = a & 32'hfff;
    bh = ((b >> 12) & 32'h7ff) | 32'h800;  bl = b & 32'hfff;
    ll = al * bl;
    t  = ah * bl + al * bh + (ll >> 12);
    hi = ah * bh + (t >> 12);
    lo = ((t & 32'hfff) << 12) | (ll & 32'hfff);
    q   = (hi >= FP_HIDE) ? hi : ((hi << 1) | (lo >> 23));
    rem = (hi >= FP_HIDE) ? lo : ((lo << 1) & 32'hff_ffff);
    e   = ea + eb + ((hi >= FP_HIDE) ? 32'd1 : 32'd0);                // exponent field + 127
    u   = ((rem + (q & 32'd1)) > FP_HIDE) ? 32'd1 : 32'd0;
    // the hidden bit adds one to the exponent
    r   = ((e - 32'd128) << 23) + q + u;
    // exponent after rounding decides flush and overflow
    e   = e + (((q + u) > 32'hff_ffff) ? 32'd1 : 32'd0);
    r   = (e > 32'd381) ? FP_INF : r;
    r   = (e < 32'd128) ? 32'd0 : r;
    z   = (((ea < eb) ? ea : eb) == 32'd0) ? 32'd1 : 32'd0;
    r   = (z != 32'd0) ? 32'd0 : r;
    // an operand is infinite: times zero it is NaN
    t   = (z != 32'd0) ? NAN32 : FP_INF;
    na  = (na > nb) ? na : nb;
    r   = (na >= FP_INF) ? t : r;
    r   = r | ((a ^ b) & FP_SIGN);
    r   = ((r & ~FP_SIGN) > FP_INF) ? NAN32 : r;
    return (na > FP_INF) ? NAN32 : r;
  endfunction

  function automatic logic [31:0] fp_add(input logic [31:0] a, input logic [31:0] b);
    logic [31:0] x, y, ex, ey, mx, my, d, sh, st, sub, m, e, q, u, r;
    x = ((a & ~FP_SIGN) >= (b & ~FP_SIGN)) ? a : b;                   // the larger magnitude
    y = ((a & ~FP_SIGN) >= (b & ~FP_SIGN)) ? b : a;
    ex = (x >> 23) & 32'hff;  ey = (y >> 23) & 32'hff;
    // guard, round and sticky positions below
    mx = (ex == 32'd0) ? 32'd0 : (((x & FP_FRAC) | FP_HIDE) << 3);
    my = (ey == 32'd0) ? 32'd0 : (((y & FP_FRAC) | FP_HIDE) << 3);
    d  = ex - ey;
    d  = (d > 32'd31) ? 32'd31 : d;
    sh = my >> d[4:0];
    st = ((sh << d[4:0]) != my) ? 32'd1 : 32'd0;
    sh = sh | st;
    sub = (x ^ y) & FP_SIGN;
    m  = (sub != 32'd0) ? (mx - sh) : (mx + sh);
    e  = ex;
    st = m & 32'd1;
    e  = (m >= 32'h0800_0000) ? (e + 32'd1) : e;  m = (m >= 32'h0800_0000) ? ((m >> 1) | st) : m;
    e  = (m < 32'h0000_0800) ? (e - 32'd16) : e;  m = (m < 32'h0000_0800) ? (m << 16) : m;
    e  = (m < 32'h0008_0000) ? (e - 32'd8) : e;   m = (m < 32'h0008_0000) ? (m << 8) : m;
    e  = (m < 32'h0080_0000) ? (e - 32'd4) : e;   m = (m < 32'h0080_0000) ? (m << 4) : m;
    e  = (m < 32'h0200_0000) ? (e - 32'd2) : e;   m = (m < 32'h0200_0000) ? (m << 2) : m;
    e  = (m < 32'h0400_0000) ? (e - 32'd1) : e;   m = (m < 32'h0400_0000) ? (m << 1) : m;
    q  = m >> 3;
    u  = (((m & 32'd7) + (q & 32'd1)) > 32'd4) ? 32'd1 : 32'd0;
    r  = ((e - 32'd1) << 23) + q + u;
    r  = (e > 32'd254) ? FP_INF : r;
    // below 2^-126: exact, no rounding to wait for
    r  = ((e - 32'd1) >= FP_SIGN) ? 32'd0 : r;
    r  = r | (x & FP_SIGN);
    r  = (m == 32'd0) ? (x & y & FP_SIGN) : r;
    u  = (ey == 32'hff) ? sub : 32'd0;
    st = (((x & FP_FRAC) | u) != 32'd0) ? NAN32 : x;
    return (ex == 32'hff) ? st : r;
  endfunction

  // fp32 to integer, round to nearest even, saturated to +-2^30; NaN gives 0
  function automatic logic [31:0] f2i(input logic [31:0] v);
    logic [31:0] e, m, d, q, rem, half;
    e = (v >> 23) & 32'hff;
    m = ((v & FP_FRAC) | FP_HIDE) << 6;                               // |v| = m * 2^(e - 156)
    d = (e > 32'd156) ? 32'd0 : (32'd156 - e);
    d = (d > 32'd31) ? 32'd31 : d;
    q = m >> d[4:0];
    rem  = m - (q << d[4:0]);
    half = (32'd1 << d[4:0]) >> 1;
    q = q + (((rem + (q & 32'd1)) > half) ? 32'd1 : 32'd0);
    q = (e > 32'd156) ? 32'h4000_0000 : q;
    q = (v >= FP_SIGN) ? (32'd0 - q) : q;
    return ((v & ~FP_SIGN) > FP_INF) ? 32'd0 : q;
  endfunction

  // fp32 to bf16 (low 16 bits of the result), round to nearest even
  function automatic logic [31:0] f2b(input logic [31:0] v);
    logic [31:0] r;
    r = v + 32'h7fff + ((v >> 16) & 32'd1);
    r = ((v & FP_INF) == 32'd0) ? (v & FP_SIGN) : r;
    r = ((v & ~FP_SIGN) > FP_INF) ? NAN32 : r;
    return r >> 16;
  endfunction

  // fp32 to fp16 (low 16 bits of the result), round to nearest even
  function automatic logic [31:0] f2h(input logic [31:0] v);
    logic [31:0] f, e, m, d, q, rem, tie, r;
    f = v & ~FP_SIGN;
    e = f >> 23;
    r = (f + 32'hfff + ((f >> 13) & 32'd1) - (32'd112 << 23)) >> 13;
    // below 2^-14: a multiple of 2^-24
    m = (f & FP_FRAC) | FP_HIDE;
    d = 32'd126 - e;
    d = (d > 32'd31) ? 32'd31 : d;
    q = m >> d[4:0];
    rem  = m - (q << d[4:0]);
    tie = (32'd1 << d[4:0]) >> 1;
    q = q + (((rem + (q & 32'd1)) > tie) ? 32'd1 : 32'd0);
    r = (e < 32'd113) ? q : r;
    r = (r > 32'h7c00) ? 32'h7c00 : r;
    r = r | ((v >> 16) & 32'h8000);
    return (f > FP_INF) ? 32'h7e00 : r;
  endfunction

  // h: an fp16 in the high half of 32 bits. What it equals in fp32, where none is subnormal
  function automatic logic [31:0] h2f(input logic [31:0] h);
    logic [31:0] f, e, m, r;
    f = (h >> 16) & 32'h7fff;
    m = f & 32'h3ff;
    e = 32'd112;                                       // the hidden bit adds one
    e = (m < 32'h008) ? (e - 32'd8) : e;  m = (m < 32'h008) ? (m << 8) : m;
    e = (m < 32'h080) ? (e - 32'd4) : e;  m = (m < 32'h080) ? (m << 4) : m;
    e = (m < 32'h200) ? (e - 32'd2) : e;  m = (m < 32'h200) ? (m << 2) : m;
    e = (m < 32'h400) ? (e - 32'd1) : e;  m = (m < 32'h400) ? (m << 1) : m;
    r = (e << 23) + (m << 13);
    r = (f >= 32'h400) ? ((f << 13) + (32'd112 << 23)) : r;
    r = (f >= 32'h7c00) ? ((f << 13) | FP_INF) : r;
    r = (f == 32'd0) ? 32'd0 : r;
    return (h & FP_SIGN) | r;
  endfunction
endpackage
