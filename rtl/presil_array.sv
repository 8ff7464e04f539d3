// SPDX-License-Identifier: Apache-2.0
// Dot-product array: CELLS dot products of one activation row a cycle with two sets of weights, int8 or bf16, and the
// addition to the
// old accumulator row. docs/numerics.md clauses 3 and 4.
// Throughput: one row and one weight word a cycle. Latency of a row: operands 1, dot 1, fp32 value 1, accumulate 1;
// then acc_we with
// the new row. The old row is asked for in the value stage (acc_re) and used one cycle later; a row that comes again
// one cycle later
// takes the new value from the accumulate stage, two cycles later from a copy taken while it was written.
// Reset: the valid bits; payload is not reset. Errors: none.
module presil_array import presil_config_pkg::*; (
  input  logic                         clk,
  input  logic                         rst,
  // weights: word of one cell into one set
  input  logic                         wgt_valid,
  input  logic                         wgt_set,
  input  logic [$clog2(CELLS)-1:0]     wgt_cell,
  input  logic                         wgt_bf16,
  input  logic                         wgt_skip,      // specials are zeros
  input  logic                         wgt_absent,    // the code 0x0001 contributes nothing, not even with infinity
  input  logic [8*LANES-1:0]           wgt_data,
  // activation row
  input  logic                         row_valid,
  input  logic                         row_pad,       // every lane is row_pad_byte (int8) or zero (bf16)
  input  logic [7:0]                   row_pad_byte,
  input  logic                         row_bf16,
  input  logic                         row_skip,
  input  logic                         row_set,
  input  logic                         row_first,     // the old accumulator counts as +0
  input  logic                         row_last,      // last row of its descriptor
  input  logic                         row_half,
  input  logic [$clog2(ACC_ROWS)-1:0]  row_acc,
  input  logic [8*LANES-1:0]           row_data,
  // accumulators
  output logic                         acc_next_re,   // acc_re of the next cycle
  output logic                         acc_next_half,
  output logic                         acc_re,
  output logic                         acc_half,
  output logic [$clog2(ACC_ROWS)-1:0]  acc_raddr,
  input  logic [31:0]                  acc_q [CELLS],
  output logic                         acc_we,
  output logic                         acc_whalf,
  output logic [$clog2(ACC_ROWS)-1:0]  acc_waddr,
  output logic [31:0]                  acc_wdata [CELLS],
  output logic                         acc_wlast,
  output logic                         busy           // a row is in the pipeline
);
  import presil_fp_pkg::*;

  localparam int unsigned PAIRS = LANES / 2;           // bf16 elements; pairs of int8 elements
  localparam int unsigned QUADS = LANES / 4;           // 32-bit pieces of an operand
  localparam int unsigned ROW_BITS = $clog2(ACC_ROWS);
  localparam int unsigned LOG_PAIRS = $clog2(PAIRS);
  localparam int unsigned G = (LOG_PAIRS > 5) ? 16 - LOG_PAIRS : 11;      // guard bits of the alignment
  localparam logic [31:0] PAIR_BIAS = 32'd32512;       // makes the sum of two int8 products fit 16 bits without a sign
  localparam logic [31:0] DOT_BIAS = PAIR_BIAS * PAIRS;
  localparam logic [31:0] EXP_BIAS = 32'd779 + G;      // 2 * 256 of the stored exponents + 268 + (G - 1)
  localparam logic [31:0] EXP_SPECIAL = 32'd511;       // stored exponent of infinity and NaN
  localparam logic [31:0] ABSENT = 32'h100;            // mark beside a stored significand

  typedef logic [15:0] bytes_t [LANES];
  typedef logic [31:0] pairs_t [PAIRS];
  typedef logic [31:0] cells_t [CELLS];
  typedef logic [31:0] double_t [2*CELLS];

  // int8: sign-extended. bf16: sign in bit 31 and significand (0 for a zero), in an array each for weights; exponent
  // field + 256, or 0 for a zero, so that a product
  // with a zero never has the largest exponent. Elements are held in a fixed permutation, the same for rows and
  // weights.
  // Weights lie lane by lane, so that the loops below run along the cells: no sum across a vector, twice as fast in
  // simulation. The set
  // is the second dimension, so that a synthesizer sees a choice between two cells' weights and not between two arrays.
  typedef logic [15:0] cells16_t [CELLS];
  cells16_t w8 [LANES][2];
  cells_t wman [PAIRS][2], wexp [PAIRS][2], wsign [PAIRS][2];
  bytes_t r8;
  pairs_t rman, rexp;
  logic [1:0] wspecial;
  logic rspecial;

  logic v1, v2, v3, bf1, bf2, bf3, set1, first1, first2, first3, last1, last2, last3, half1, half2, half3, special2,
    forward3, copied3;
  logic [ROW_BITS-1:0] addr1, addr2, addr3;
  cells_t dots8, specials, vals, copy;
  double_t dots16;                                     // sums, then largest exponents (stored bias)

  // ---------------------------------------------------------------- operands
  function automatic logic [31:0] sext8(input logic [31:0] b);
    return ((b & 32'hff) ^ 32'h80) - 32'h80;
  endfunction

  function automatic bytes_t bytes_row();
    for (int unsigned j = 0; j < QUADS; j++) begin
      bytes_row[j]           = 16'(sext8(row_data[32*j +: 32]));
      bytes_row[QUADS + j]   = 16'(sext8(row_data[32*j +: 32] >> 8));
      bytes_row[2*QUADS + j] = 16'(sext8(row_data[32*j +: 32] >> 16));
      bytes_row[3*QUADS + j] = 16'(sext8(row_data[32*j +: 32] >> 24));
    end
  endfunction

  function automatic bytes_t bytes_pad();
    for (int unsigned j = 0; j < LANES; j++) bytes_pad[j] = 16'(sext8({24'd0, row_pad_byte}));
  endfunction

  // h: a bf16 in the high half of 32 bits. top: the first exponent field that counts as zero (255 to skip specials,
  // else 256)
  function automatic logic [31:0] significand(input logic [31:0] h, input logic [31:0] top);
    logic [31:0] e, m;
    e = (h >> 23) & 32'hff;
    m = ((h >> 16) & 32'h7f) | 32'h80;
    m = (((e - 32'd1) & 32'h1ff) < top - 32'd1) ? m : 32'd0;
    return (h & FP_SIGN) | m;
  endfunction

  function automatic logic [31:0] exponent(input logic [31:0] h, input logic [31:0] top);
    logic [31:0] e;
    e = (h >> 23) & 32'hff;
    return (((e - 32'd1) & 32'h1ff) < top - 32'd1) ? (e | 32'h100) : 32'd0;
  endfunction

  function automatic pairs_t man_row(input logic [31:0] top);
    for (int unsigned j = 0; j < QUADS; j++) begin
      man_row[j]         = significand(row_data[32*j +: 32] << 16, top);
      man_row[QUADS + j] = significand(row_data[32*j +: 32], top);
    end
  endfunction

  function automatic pairs_t exp_row(input logic [31:0] top);
    for (int unsigned j = 0; j < QUADS; j++) begin
      exp_row[j]         = exponent(row_data[32*j +: 32] << 16, top);
      exp_row[QUADS + j] = exponent(row_data[32*j +: 32], top);
    end
  endfunction

  function automatic pairs_t zeros();
    for (int unsigned j = 0; j < PAIRS; j++) zeros[j] = 32'd0;
  endfunction

  // not zero if any element of an operand is infinite or NaN
  function automatic logic [31:0] special_row();
    logic [31:0] s;
    s = 32'd0;
    for (int unsigned j = 0; j < QUADS; j++) begin
      s |= ((row_data[32*j +: 32] & 32'h7f80) == 32'h7f80) ? 32'd1 : 32'd0;
      s |= ((row_data[32*j +: 32] & FP_INF) == FP_INF) ? 32'd1 : 32'd0;
    end
    return s;
  endfunction

  function automatic logic [31:0] special_weight();
    logic [31:0] s;
    s = 32'd0;
    for (int unsigned j = 0; j < QUADS; j++) begin
      s |= ((wgt_data[32*j +: 32] & 32'h7f80) == 32'h7f80) ? 32'd1 : 32'd0;
      s |= ((wgt_data[32*j +: 32] & FP_INF) == FP_INF) ? 32'd1 : 32'd0;
    end
    return s;
  endfunction

  logic [31:0] row_top, wgt_top;
  assign row_top = row_skip ? 32'd255 : 32'd256;
  assign wgt_top = wgt_skip ? 32'd255 : 32'd256;

  always_ff @(posedge clk) begin
    if (row_valid) begin
      if (row_bf16) begin
        if (row_pad) begin
          rman <= zeros();
          rexp <= zeros();
          rspecial <= 1'b0;
        end else begin
          rman <= man_row(row_top);
          rexp <= exp_row(row_top);
          rspecial <= !row_skip && special_row() != 32'd0;
        end
      end else begin
        if (row_pad) r8 <= bytes_pad();
        else r8 <= bytes_row();
      end
    end
  end

  // One cell of a set. Blocking, in the process that reads the sets and after it has: a non-blocking assignment to a
  // column makes a
  // simulator keep a list of its elements.
  function automatic void put_int8();
    for (int unsigned j = 0; j < QUADS; j++) begin
      w8[j][wgt_set][wgt_cell]           = 16'(sext8(wgt_data[32*j +: 32]));
      w8[QUADS + j][wgt_set][wgt_cell]   = 16'(sext8(wgt_data[32*j +: 32] >> 8));
      w8[2*QUADS + j][wgt_set][wgt_cell] = 16'(sext8(wgt_data[32*j +: 32] >> 16));
      w8[3*QUADS + j][wgt_set][wgt_cell] = 16'(sext8(wgt_data[32*j +: 32] >> 24));
    end
  endfunction

  function automatic void put_bf16(input logic [31:0] top, input logic [31:0] mark);
    for (int unsigned j = 0; j < QUADS; j++) begin
      logic [31:0] h;
      h = wgt_data[32*j +: 32];
      wman[j][wgt_set][wgt_cell]          = significand(h << 16, top) & 32'hff;
      wman[QUADS + j][wgt_set][wgt_cell]  = significand(h, top) & 32'hff;
      wsign[j][wgt_set][wgt_cell]         = ((h << 16) & FP_SIGN) | (((h & 32'hffff) == 32'd1) ? mark : 32'd0);
      wsign[QUADS + j][wgt_set][wgt_cell] = (h & FP_SIGN) | (((h >> 16) == 32'd1) ? mark : 32'd0);
      wexp[j][wgt_set][wgt_cell]         = exponent(h << 16, top);
      wexp[QUADS + j][wgt_set][wgt_cell] = exponent(h, top);
    end
  endfunction

  // ---------------------------------------------------------------- dot products
  function automatic cells_t dot_int8();
    for (int unsigned c = 0; c < CELLS; c++) dot_int8[c] = 32'd0 - DOT_BIAS;
    for (int unsigned i = 0; i < LANES; i += 8)
      for (int unsigned c = 0; c < CELLS; c++) begin
        logic [15:0] p0, p1, p2, p3;
        p0 = r8[i] * w8[i][set1][c] + r8[i + 1] * w8[i + 1][set1][c] + PAIR_BIAS[15:0];
        p1 = r8[i + 2] * w8[i + 2][set1][c] + r8[i + 3] * w8[i + 3][set1][c] + PAIR_BIAS[15:0];
        p2 = r8[i + 4] * w8[i + 4][set1][c] + r8[i + 5] * w8[i + 5][set1][c] + PAIR_BIAS[15:0];
        p3 = r8[i + 6] * w8[i + 6][set1][c] + r8[i + 7] * w8[i + 7][set1][c] + PAIR_BIAS[15:0];
        dot_int8[c] = dot_int8[c] + {16'd0, p0} + {16'd0, p1} + {16'd0, p2} + {16'd0, p3};
      end
  endfunction

  function automatic logic [31:0] larger(input logic [31:0] a, input logic [31:0] b);
    return (a > b) ? a : b;
  endfunction

  // a product m * 2^G aligned by d and rounded half up
  function automatic logic [31:0] aligned(input logic [31:0] m, input logic [31:0] d);
    d = (d > 32'd31) ? 32'd31 : d;
    return ((m >> d[4:0]) + 32'd1) >> 1;
  endfunction

  // Each product aligned to the largest exponent of its cell; the sum is exact. Sums, then largest exponents.
  function automatic double_t dot_bf16();
    for (int unsigned c = 0; c < 2 * CELLS; c++) dot_bf16[c] = 32'd0;
    for (int unsigned i = 0; i < PAIRS; i += 4)
      for (int unsigned c = 0; c < CELLS; c++)
        dot_bf16[CELLS + c] = larger(dot_bf16[CELLS + c],
          larger(larger(rexp[i] + wexp[i][set1][c], rexp[i + 1] + wexp[i + 1][set1][c]),
                 larger(rexp[i + 2] + wexp[i + 2][set1][c], rexp[i + 3] + wexp[i + 3][set1][c])));
    for (int unsigned i = 0; i < PAIRS; i += 2)
      for (int unsigned c = 0; c < CELLS; c++) begin
        logic [31:0] t0, t1, s;
        t0 = aligned(((rman[i] & 32'hff) << G) * wman[i][set1][c], dot_bf16[CELLS + c] - (rexp[i] + wexp[i][set1][c]));
        t1 = aligned(((rman[i + 1] & 32'hff) << G) * wman[i + 1][set1][c],
          dot_bf16[CELLS + c] - (rexp[i + 1] + wexp[i + 1][set1][c]));
        s = dot_bf16[c];
        s = ((rman[i] ^ wsign[i][set1][c]) >= FP_SIGN) ? (s - t0) : (s + t0);
        s = ((rman[i + 1] ^ wsign[i + 1][set1][c]) >= FP_SIGN) ? (s - t1) : (s + t1);
        dot_bf16[c] = s;
      end
  endfunction

  // what infinities and NaNs make of each cell: its value, or 0 where none counts. Only evaluated when a special is
  // about.
  function automatic cells_t dot_special();
    for (int unsigned c = 0; c < CELLS; c++) begin
      logic [31:0] pos, neg, nan;
      pos = 32'd0; neg = 32'd0; nan = 32'd0;
      for (int unsigned i = 0; i < PAIRS; i++) begin
        logic [31:0] re, we, rm, wm, ws, bad, inf;
        re = rexp[i]; we = wexp[i][set1][c]; rm = rman[i]; wm = wman[i][set1][c]; ws = wsign[i][set1][c];
        inf = (re == EXP_SPECIAL || we == EXP_SPECIAL) ? 32'd1 : 32'd0;
        bad = ((re == EXP_SPECIAL && (rm & 32'h7f) != 32'd0) || (we == EXP_SPECIAL && (wm & 32'h7f) != 32'd0)
               || re == 32'd0 || we == 32'd0) ? inf : 32'd0;
        inf = ((ws & ABSENT) != 32'd0) ? 32'd0 : inf;
        bad = ((ws & ABSENT) != 32'd0) ? 32'd0 : bad;
        nan |= bad;
        pos |= ((rm ^ ws) < FP_SIGN) ? inf : 32'd0;
        neg |= ((rm ^ ws) < FP_SIGN) ? 32'd0 : inf;
      end
      nan |= pos & neg;
      dot_special[c] = (nan != 32'd0) ? NAN32 : (pos != 32'd0) ? FP_INF : (neg != 32'd0) ? (FP_INF | FP_SIGN) : 32'd0;
    end
  endfunction

  // sum * 2^(emax - 268 - (G - 1)), rounded once
  function automatic cells_t value_bf16();
    for (int unsigned c = 0; c < CELLS; c++) begin
      logic [31:0] f, e, r;
      f = i2f(dots16[c]);
      e = ((f >> 23) & 32'hff) + dots16[CELLS + c] - EXP_BIAS;
      r = (f & 32'h807f_ffff) | (e << 23);
      r = (e > 32'd254) ? ((f & FP_SIGN) | FP_INF) : r;
      r = ((e - 32'd1) >= FP_SIGN) ? (f & FP_SIGN) : r;
      value_bf16[c] = (f == 32'd0) ? 32'd0 : r;
    end
  endfunction

  function automatic cells_t value_special();
    cells_t v;
    v = value_bf16();
    for (int unsigned c = 0; c < CELLS; c++) value_special[c] = (specials[c] != 32'd0) ? specials[c] : v[c];
  endfunction

  // ---------------------------------------------------------------- accumulation
  // A loop for each source of the old row: an adder with a multiplexer before it, written so that no loop chooses.
  function automatic cells_t int_next();
    for (int unsigned c = 0; c < CELLS; c++) int_next[c] = acc_q[c] + vals[c];
  endfunction

  function automatic cells_t fp_next();
    for (int unsigned c = 0; c < CELLS; c++) fp_next[c] = fp_add(acc_q[c], vals[c]);
  endfunction

  function automatic cells_t row_again();
    if (bf3) begin
      for (int unsigned c = 0; c < CELLS; c++) row_again[c] = fp_add(forward3 ? acc_wdata[c] : copy[c], vals[c]);
    end else begin
      for (int unsigned c = 0; c < CELLS; c++) row_again[c] = (forward3 ? acc_wdata[c] : copy[c]) + vals[c];
    end
  endfunction

  function automatic cells_t fp_first();
    for (int unsigned c = 0; c < CELLS; c++) fp_first[c] = (vals[c] == FP_SIGN) ? 32'd0 : vals[c];
  endfunction

  assign acc_next_re = v1 && !first1;
  assign acc_next_half = half1;
  assign acc_re = v2 && !first2;
  assign acc_half = half2;
  assign acc_raddr = addr2;
  assign busy = v1 || v2 || v3 || acc_we;

  // the last stage first: no register is read behind an assignment to it
  always_ff @(posedge clk) begin
    logic again;
    automatic cells_t sums;
    again = acc_we && acc_waddr == addr2 && acc_whalf == half2;
    if (v3 && (forward3 || copied3)) sums = row_again();
    if (v2 && again) copy <= acc_wdata;
    acc_we <= v3;
    if (v3) begin
      acc_whalf <= half3; acc_waddr <= addr3; acc_wlast <= last3;
      if (first3) begin
        if (bf3) acc_wdata <= fp_first();
        else acc_wdata <= vals;
      end else if (forward3 || copied3) begin
        acc_wdata <= sums;
      end else begin
        if (bf3) acc_wdata <= fp_next();
        else acc_wdata <= int_next();
      end
    end
    if (v2) begin
      forward3 <= v3 && addr3 == addr2 && half3 == half2;
      copied3 <= again;
      bf3 <= bf2; first3 <= first2; last3 <= last2; half3 <= half2; addr3 <= addr2;
      if (special2) vals <= value_special();
      else if (bf2) vals <= value_bf16();
      else vals <= dots8;
    end
    v3 <= v2;
    if (v1) begin
      bf2 <= bf1; first2 <= first1; last2 <= last1; half2 <= half1; addr2 <= addr1;
      special2 <= bf1 && (rspecial || wspecial[set1]);
      if (bf1) begin
        dots16 <= dot_bf16();
        if (rspecial || wspecial[set1]) specials <= dot_special();
      end else begin
        dots8 <= dot_int8();
      end
    end
    v2 <= v1;
    if (row_valid) begin
      bf1 <= row_bf16; set1 <= row_set; first1 <= row_first; last1 <= row_last; half1 <= row_half; addr1 <= row_acc;
    end
    v1 <= row_valid;
    if (wgt_valid) begin
      if (wgt_bf16) begin
        put_bf16(wgt_top, wgt_absent ? ABSENT : 32'd0);
        wspecial[wgt_set] <= (wgt_cell != '0 && wspecial[wgt_set]) || (!wgt_skip && special_weight() != 32'd0);
      end else begin
        put_int8();
      end
    end
    if (rst) begin
      v1 <= 1'b0; v2 <= 1'b0; v3 <= 1'b0; acc_we <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  // what a read gives while its row is written is not used
  a_collision: assert property (@(posedge clk) disable iff (rst)
    (acc_re && acc_we && acc_waddr == acc_raddr && acc_whalf == acc_half) |=> (copied3 || forward3));
  c_first: cover property (@(posedge clk) disable iff (rst) v3 && first3);
  c_forward: cover property (@(posedge clk) disable iff (rst) v3 && !first3 && forward3);
  c_copied: cover property (@(posedge clk) disable iff (rst) v3 && !first3 && copied3 && !forward3);
  c_from_memory: cover property (@(posedge clk) disable iff (rst) v3 && !first3 && !copied3 && !forward3);
  c_special_row: cover property (@(posedge clk) disable iff (rst) v1 && bf1 && rspecial);
  c_special_weight: cover property (@(posedge clk) disable iff (rst) v1 && bf1 && wspecial[set1]);
  // int8 behind bf16 or the other way round
  c_change: cover property (@(posedge clk) disable iff (rst) v1 && v2 && bf1 != bf2);
  c_other_half: cover property (@(posedge clk) disable iff (rst) v2 && v3 && half2 != half3);
  c_load_beside: cover property (@(posedge clk) disable iff (rst) wgt_valid && v1 && wgt_set != set1);
`endif
endmodule
