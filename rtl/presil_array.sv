// SPDX-License-Identifier: Apache-2.0
// Dot-product array: CELLS dot products of one activation row a cycle with two sets of weights,
// int8, bf16 or fp16, and the addition to the old accumulator row. docs/numerics.md clauses 3, 4.
// Throughput: one row and one weight word a cycle. Latency of a row: operands (floats: and each
// cell's largest exponent) 1, dot 1, fp32 value 1, accumulate 1; then acc_we with the new row. The
// old row is asked for in the value stage (acc_re) and used one cycle later; a row that comes again
// one cycle later takes the new value from the accumulate stage, two cycles later from a copy taken
// while it was written.
// Depthwise (docs/isa.md section 4): the kernel's positions are the lanes, each with a weight and
// an activation of its own for every cell. The last WINDOW words of each of WINDOW window rows are
// kept; lane WINDOW * (rows up) + (words back). A row that completes no sum goes no further.
// Reset: the valid bits; payload is not reset. Errors: none.
module presil_array import presil_config_pkg::*, presil_dot_pkg::*; (
  input  logic                         clk,
  input  logic                         rst,
  /// weights: word of one cell (depthwise: of one lane) into one set; wgt_* with wgt_valid
  input  logic                         wgt_valid,     /// a word comes; it is taken at once
  input  logic                         wgt_set,       /// set it goes to, 0 or 1
  input  logic [CELL_BITS-1:0]         wgt_cell,      /// cell; depthwise: lane
  input  logic                         wgt_first,     /// first word of its block
  input  logic                         wgt_depthwise,  /// a lane of all cells, else all of a cell
  input  logic                         wgt_float,     /// elements are bf16 or fp16, else int8
  input  logic                         wgt_fp16,      /// fp16, with wgt_float
  input  logic                         wgt_skip,      /// infinities and NaNs are zeros
  /// the code 0x0001 (fp16: 0x7c01) contributes nothing, not even with infinity
  input  logic                         wgt_absent,    /// with wgt_float only
  input  logic [8*LANES-1:0]           wgt_data,      /// LANES/2 floats or LANES int8 elements
  /// activation row; row_* and the words are valid with row_valid
  input  logic                         row_valid,     /// a row comes; it is taken at once
  /// every lane is row_pad_byte (int8) or zero (floats)
  input  logic                         row_pad,       /// row_data is not looked at
  input  logic [7:0]                   row_pad_byte,  /// with row_pad
  input  logic                         row_float,     /// elements are bf16 or fp16, else int8
  input  logic                         row_fp16,      /// fp16, with row_float
  input  logic                         row_skip,      /// infinities and NaNs are zeros
  input  logic                         row_set,       /// set of weights it is multiplied by
  input  logic                         row_first,     /// the old accumulator counts as +0
  input  logic                         row_last,      /// last row of its descriptor
  input  logic                         row_depthwise,  /// a position of a window: here, above
  input  logic                         row_emit,      /// a sum is complete
  input  logic [2:0]                   row_kx, row_ky,  /// depthwise: kernel size, 1 to WINDOW
  input  logic [31:0]                  here [LANES/4],  /// depthwise: row_data, or padding
  input  logic [31:0]                  above1 [LANES/4],  /// and the words above it, one row up
  input  logic [31:0]                  above2 [LANES/4],  /// two rows up
  input  logic [31:0]                  above3 [LANES/4],  /// three rows up
  input  logic [31:0]                  above4 [LANES/4],  /// four rows up
  input  logic                         row_half,      /// accumulator half of the sum
  input  logic [$clog2(ACC_ROWS)-1:0]  row_acc,       /// accumulator row of the half
  input  logic [8*LANES-1:0]           row_data,      /// element 0 in the lowest bits
  /// accumulators: acc_q comes one cycle after acc_re, acc_we one after that
  output logic                         acc_next_re,   /// acc_re of the next cycle
  output logic                         acc_next_half,  /// and acc_half
  output logic                         acc_re,        /// read the old row; not if it counts as +0
  output logic                         acc_half,      /// with acc_re
  output logic [$clog2(ACC_ROWS)-1:0]  acc_raddr,     /// with acc_re
  input  logic [31:0]                  acc_q [CELLS],  /// the old row, int32 or fp32
  output logic                         acc_we,        /// write the new row; always possible
  output logic                         acc_whalf,     /// with acc_we
  output logic [$clog2(ACC_ROWS)-1:0]  acc_waddr,     /// with acc_we
  output logic [31:0]                  acc_wdata [CELLS],  /// int32 or fp32, with acc_we
  output logic                         acc_wlast,     /// with acc_we: its descriptor is done
  output logic                         busy           /// a row is in the pipeline
);
  import presil_fp_pkg::*;

  localparam int unsigned PAIRS = LANES / 2;           // 16-bit elements; pairs of int8 elements
  localparam int unsigned QUADS = LANES / 4;           // 32-bit pieces of an operand
  localparam int unsigned ROW_BITS = $clog2(ACC_ROWS);
  // cells with an element of their own
  localparam int unsigned CELLS16 = (CELLS < PAIRS) ? CELLS : PAIRS;
  localparam int unsigned CELLS8 = (CELLS < LANES) ? CELLS : LANES;
  // makes the sum of two int8 products fit 16 bits without a sign
  localparam logic [31:0] PAIR_BIAS = 32'd32512;
  localparam logic [31:0] DOT_BIAS = PAIR_BIAS * PAIRS;
  localparam int unsigned WLANES = (LANES > POSITIONS) ? LANES : POSITIONS;
  localparam int unsigned WPAIRS = (PAIRS > POSITIONS) ? PAIRS : POSITIONS;
  localparam int unsigned LOG_LANES = $clog2(WPAIRS);

  typedef logic [31:0] quads_t [QUADS];
  typedef logic [15:0] bytes_t [LANES];
  typedef logic [31:0] pairs_t [PAIRS];
  typedef logic [31:0] cells_t [CELLS];
  typedef logic [31:0] double_t [2*CELLS];

  // int8: sign-extended. Floats: sign in bit 31 and significand (0 for a zero), an array each for
  // weights; exponent field + 256, or 0 for a zero, so that a product with a zero never has the
  // largest exponent. Elements are held in a fixed permutation, the same for rows and weights.
  // Weights lie lane by lane, so that the loops below run along the cells: no sum across a vector,
  // twice as fast in simulation. The set is the second dimension, so that a synthesizer sees a
  // choice between two cells' weights and not between two arrays.
  typedef logic [15:0] cells16_t [CELLS];
  cells16_t w8 [WLANES][2];
  cells_t wman [WPAIRS][2], wexp [WPAIRS][2], wsign [WPAIRS][2];
  // the window: its rows from the lowest up, of each the latest word, the one before, and so on
  cells_t   mans [WINDOW][WINDOW], exps [WINDOW][WINDOW];
  cells16_t window8 [WINDOW][WINDOW];
  logic [WINDOW-1:0][WINDOW-1:0] specials_at;          // of each row, a bit for each word
  logic [2:0] kx1, ky1;
  logic row_far, far1;
  assign row_far = row_kx > 3'(NEAR) || row_ky > 3'(NEAR);
  assign far1 = kx1 > 3'(NEAR) || ky1 > 3'(NEAR);
  logic depthwise1, pad1;
  bytes_t r8;
  pairs_t rman, rexp;
  logic [1:0] wspecial;
  logic rspecial, special1;
  always_comb begin
    special1 = !depthwise1 && rspecial;
    if (depthwise1)
      for (int unsigned r = 0; r < WINDOW; r++)
        if (r < 32'(ky1)) special1 |= |(specials_at[r] & ~({WINDOW{1'b1}} << kx1));
  end

  logic v1, v2, v3, fp1, fp2, fp3, set1, first1, first2, first3, last1, last2, last3, half1, half2,
      half3, special2, forward3, copied3;
  logic [ROW_BITS-1:0] addr1, addr2, addr3;
  cells_t tops1, dots8, specials, vals, copy;
  double_t dots_fp;                                    // sums, then largest exponents (stored bias)

  // ---- operands
  logic [31:0] row_top, wgt_top;
  assign row_top = row_skip ? 32'd255 : 32'd256;
  assign wgt_top = wgt_skip ? 32'd255 : 32'd256;

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

  // A function for each type, and no array of fp32 between: a simulator would store and read it.
  function automatic pairs_t man_bf16();
    for (int unsigned j = 0; j < QUADS; j++) begin
      man_bf16[j]         = significand(row_data[32*j +: 32] << 16, row_top);
      man_bf16[QUADS + j] = significand(row_data[32*j +: 32] & UPPER, row_top);
    end
  endfunction

  function automatic pairs_t man_fp16();
    for (int unsigned j = 0; j < QUADS; j++) begin
      man_fp16[j]         = significand(h2f(row_data[32*j +: 32] << 16), row_top);
      man_fp16[QUADS + j] = significand(h2f(row_data[32*j +: 32]), row_top);
    end
  endfunction

  function automatic pairs_t exp_bf16();
    for (int unsigned j = 0; j < QUADS; j++) begin
      exp_bf16[j]         = exponent(row_data[32*j +: 32] << 16, row_top);
      exp_bf16[QUADS + j] = exponent(row_data[32*j +: 32], row_top);
    end
  endfunction

  function automatic pairs_t exp_fp16();
    for (int unsigned j = 0; j < QUADS; j++) begin
      exp_fp16[j]         = exponent(h2f(row_data[32*j +: 32] << 16), row_top);
      exp_fp16[QUADS + j] = exponent(h2f(row_data[32*j +: 32]), row_top);
    end
  endfunction

  function automatic pairs_t zeros();
    for (int unsigned j = 0; j < PAIRS; j++) zeros[j] = 32'd0;
  endfunction

  // any element of an operand is infinite or NaN
  function automatic logic special(input logic [8*LANES-1:0] data, input logic fp16);
    logic [31:0] s, lower;
    s = 32'd0;
    lower = fp16 ? FP16_SPECIAL : BF16_SPECIAL;
    for (int unsigned j = 0; j < QUADS; j++)
      s |= specials_of(data[32*j +: 32], lower, lower << 16);
    return s != 32'd0;
  endfunction

  // ---- depthwise: the word that comes in row r of the window; its element c is cell c's
  function automatic quads_t comes(input int unsigned r);
    case (r)
      0:       comes = here;
      1:       comes = above1;
      2:       comes = above2;
      3:       comes = above3;
      default: comes = above4;
    endcase
  endfunction

  // cells without an element: 0
  function automatic cells_t man_bf16_cells(input quads_t w, input logic [31:0] top);
    for (int unsigned c = 0; c < CELLS; c++) man_bf16_cells[c] = 32'd0;
    for (int unsigned j = 0; j < CELLS16 / 2; j++) begin
      man_bf16_cells[2*j]     = significand(w[j] << 16, top);
      man_bf16_cells[2*j + 1] = significand(w[j] & UPPER, top);
    end
  endfunction

  function automatic cells_t man_fp16_cells(input quads_t w, input logic [31:0] top);
    for (int unsigned c = 0; c < CELLS; c++) man_fp16_cells[c] = 32'd0;
    for (int unsigned j = 0; j < CELLS16 / 2; j++) begin
      man_fp16_cells[2*j]     = significand(h2f(w[j] << 16), top);
      man_fp16_cells[2*j + 1] = significand(h2f(w[j]), top);
    end
  endfunction

  function automatic cells_t exp_bf16_cells(input quads_t w, input logic [31:0] top);
    for (int unsigned c = 0; c < CELLS; c++) exp_bf16_cells[c] = 32'd0;
    for (int unsigned j = 0; j < CELLS16 / 2; j++) begin
      exp_bf16_cells[2*j]     = exponent(w[j] << 16, top);
      exp_bf16_cells[2*j + 1] = exponent(w[j], top);
    end
  endfunction

  function automatic cells_t exp_fp16_cells(input quads_t w, input logic [31:0] top);
    for (int unsigned c = 0; c < CELLS; c++) exp_fp16_cells[c] = 32'd0;
    for (int unsigned j = 0; j < CELLS16 / 2; j++) begin
      exp_fp16_cells[2*j]     = exponent(h2f(w[j] << 16), top);
      exp_fp16_cells[2*j + 1] = exponent(h2f(w[j]), top);
    end
  endfunction

  function automatic cells16_t int_cells(input quads_t w);
    for (int unsigned c = 0; c < CELLS; c++) int_cells[c] = 16'd0;
    for (int unsigned j = 0; j < CELLS8 / 4; j++)
      for (int unsigned k = 0; k < 4; k++) int_cells[4*j + k] = 16'(sext8(w[j] >> (8 * k)));
  endfunction

  function automatic logic special_cells(input quads_t w, input logic fp16);
    logic [31:0] s, lower;
    s = 32'd0;
    lower = fp16 ? FP16_SPECIAL : BF16_SPECIAL;
    for (int unsigned j = 0; j < CELLS16 / 2; j++) s |= specials_of(w[j], lower, lower << 16);
    return s != 32'd0;
  endfunction

  always_ff @(posedge clk) begin
    if (row_valid && row_depthwise && row_float)
      for (int unsigned r = 0; r < WINDOW; r++)
        if (r < 32'(row_ky))
          specials_at[r] <= {specials_at[r][WINDOW-2:0],
              !row_skip && special_cells(comes(r), row_fp16)};
    if (row_valid && !row_depthwise) begin
      if (row_float) begin
        if (row_pad) begin
          rman <= zeros();
          rexp <= zeros();
          rspecial <= 1'b0;
        end else begin
          if (row_fp16) begin
            rman <= man_fp16();
            rexp <= exp_fp16();
          end else begin
            rman <= man_bf16();
            rexp <= exp_bf16();
          end
          rspecial <= !row_skip && special(row_data, row_fp16);
        end
      end else begin
        if (row_pad) r8 <= bytes_pad();
        else r8 <= bytes_row();
      end
    end
  end

  logic [$clog2(CELLS)-1:0] cell_at;
  assign cell_at = wgt_cell[$clog2(CELLS)-1:0];

  // One cell of a set. Blocking, in the process that reads the sets and after it has: a
  // non-blocking assignment to a column makes a simulator keep a list of its elements.
  function automatic void put_int8();
    for (int unsigned j = 0; j < QUADS; j++) begin
      w8[j][wgt_set][cell_at]           = 16'(sext8(wgt_data[32*j +: 32]));
      w8[QUADS + j][wgt_set][cell_at]   = 16'(sext8(wgt_data[32*j +: 32] >> 8));
      w8[2*QUADS + j][wgt_set][cell_at] = 16'(sext8(wgt_data[32*j +: 32] >> 16));
      w8[3*QUADS + j][wgt_set][cell_at] = 16'(sext8(wgt_data[32*j +: 32] >> 24));
    end
  endfunction

  // the code of an absent weight, or none that 16 bits can have
  logic [31:0] gone;
  assign gone = !wgt_absent ? NONE : wgt_fp16 ? ABSENT_FP16 : ABSENT_BF16;

  // The code of an absent fp16 is a NaN's: zeros for it, as dot_special costs a simulator time.
  function automatic logic [8*LANES-1:0] present();
    present = wgt_data;
    for (int unsigned j = 0; j < PAIRS; j++)
      if (wgt_data[16*j +: 16] == gone[15:0]) present[16*j +: 16] = 16'd0;
  endfunction

  // h: 16 bits; x: the fp32 that they are. Of bf16 an absent weight is a zero by itself
  function automatic void put_element(input logic [LOG_LANES-1:0] i, input logic [31:0] h,
      input logic [31:0] x);
    wman[i][wgt_set][cell_at]  = significand(x, wgt_top) & SIGNIFICAND;
    wsign[i][wgt_set][cell_at] = (x & FP_SIGN) | ((h == gone) ? ABSENT : 32'd0);
    wexp[i][wgt_set][cell_at]  = exponent(x, wgt_top);
  endfunction

  function automatic void put_bf16();
    for (int unsigned j = 0; j < QUADS; j++) begin
      put_element(LOG_LANES'(j), wgt_data[32*j +: 32] & LOWER, wgt_data[32*j +: 32] << 16);
      put_element(LOG_LANES'(QUADS + j), wgt_data[32*j +: 32] >> 16, wgt_data[32*j +: 32] & UPPER);
    end
  endfunction

  function automatic logic [31:0] fp16_weight(input logic [31:0] h);
    return (h == gone) ? 32'd0 : h2f(h << 16);
  endfunction

  function automatic void put_fp16();
    for (int unsigned j = 0; j < QUADS; j++) begin
      put_element(LOG_LANES'(j), wgt_data[32*j +: 32] & LOWER,
          fp16_weight(wgt_data[32*j +: 32] & LOWER));
      put_element(LOG_LANES'(QUADS + j), wgt_data[32*j +: 32] >> 16,
          fp16_weight(wgt_data[32*j +: 32] >> 16));
    end
  endfunction

  // One lane of a set, for all cells.
  logic [LOG_LANES-1:0] lane16;
  logic [$clog2(WLANES)-1:0] lane8;
  assign lane16 = $bits(lane16)'(wgt_cell);
  assign lane8 = $bits(lane8)'(wgt_cell);

  function automatic void put_lane();
    automatic quads_t w;
    automatic cells_t man;
    for (int unsigned j = 0; j < QUADS; j++) w[j] = wgt_data[32*j +: 32];
    if (wgt_float) begin
      if (wgt_fp16) begin
        man = man_fp16_cells(w, wgt_top);
        wexp[lane16][wgt_set] = exp_fp16_cells(w, wgt_top);
      end else begin
        man = man_bf16_cells(w, wgt_top);
        wexp[lane16][wgt_set] = exp_bf16_cells(w, wgt_top);
      end
      for (int unsigned c = 0; c < CELLS; c++) begin
        wman[lane16][wgt_set][c] = man[c] & SIGNIFICAND;
        wsign[lane16][wgt_set][c] = man[c] & FP_SIGN;
      end
      if (wgt_absent)
        for (int unsigned j = 0; j < CELLS16 / 2; j++) begin
          if ((w[j] & LOWER) == gone) put_absent($clog2(CELLS)'(2*j));
          if ((w[j] >> 16) == gone) put_absent($clog2(CELLS)'(2*j + 1));
        end
    end else begin
      w8[lane8][wgt_set] = int_cells(w);
    end
  endfunction

  function automatic void put_absent(input logic [$clog2(CELLS)-1:0] c);
    wman[lane16][wgt_set][c]  = 32'd0;
    wsign[lane16][wgt_set][c] = ABSENT;
    wexp[lane16][wgt_set][c]  = 32'd0;
  endfunction

  // ---- dot products
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

  // The largest exponent of each cell's products, of the row that comes: its weights are all there,
  // and no cycle has to find the exponent, align by it and add.
  function automatic cells_t row_tops();
    automatic pairs_t e;
    if (row_fp16) e = exp_fp16();
    else e = exp_bf16();
    for (int unsigned c = 0; c < CELLS; c++) row_tops[c] = 32'd0;
    // nothing was read for it: the word may be unknown
    if (!row_pad)
      for (int unsigned i = 0; i < PAIRS; i += 4)
        for (int unsigned c = 0; c < CELLS; c++)
          row_tops[c] = larger(row_tops[c],
            larger(larger(e[i] + wexp[i][row_set][c], e[i + 1] + wexp[i + 1][row_set][c]),
                   larger(e[i + 2] + wexp[i + 2][row_set][c], e[i + 3] + wexp[i + 3][row_set][c])));
  endfunction

  // of a padded row: no sum is made for it
  function automatic double_t nothing();
    for (int unsigned c = 0; c < 2 * CELLS; c++) nothing[c] = 32'd0;
  endfunction

  // Each product aligned to the largest exponent of its cell; the sum is exact, and of terms that
  // have their sign: a chain of additions, which a synthesizer makes a carry-save tree. Sums, then
  // largest exponents.
  function automatic double_t dot_float();
    for (int unsigned c = 0; c < CELLS; c++) begin
      dot_float[c] = 32'd0;
      dot_float[CELLS + c] = tops1[c];
    end
    for (int unsigned i = 0; i < PAIRS; i += 2)
      for (int unsigned c = 0; c < CELLS; c++)
        dot_float[c] = dot_float[c]
          + term(rman[i], wman[i][set1][c], wsign[i][set1][c],
          tops1[c] - (rexp[i] + wexp[i][set1][c]))
          + term(rman[i + 1], wman[i + 1][set1][c], wsign[i + 1][set1][c],
                 tops1[c] - (rexp[i + 1] + wexp[i + 1][set1][c]));
  endfunction

  // What infinities and NaNs make of each cell: its value, or 0 where none counts. Only evaluated
  // when a special is about.
  function automatic cells_t dot_special();
    for (int unsigned c = 0; c < CELLS; c++) begin
      logic [31:0] s;
      s = 32'd0;
      for (int unsigned i = 0; i < PAIRS; i++)
        s |= special_lane(rman[i], rexp[i], wman[i][set1][c], wexp[i][set1][c], wsign[i][set1][c]);
      dot_special[c] = special_value(s[2:0]);
    end
  endfunction

  // ---- depthwise: lane WINDOW * r + k is row r's word k back; those beyond the kernel count as
  // zeros. A kernel of up to NEAR rows and columns needs the near lanes alone, and no time of a
  // simulator goes into the others. Each sum is of one expression's kind, a carry-save tree.
  function automatic logic [31:0] if_used(input int unsigned r, input int unsigned k,
      input logic [2:0] ky, input logic [2:0] kx, input logic [31:0] v);
    return (r < 32'(ky) && k < 32'(kx)) ? v : 32'd0;
  endfunction

  function automatic cells_t window_int8();
    automatic cells_t far;
    for (int unsigned c = 0; c < CELLS; c++) window_int8[c] = 32'd0;
    for (int unsigned c = 0; c < CELLS; c++) far[c] = 32'd0;
    for (int unsigned r = 0; r < NEAR; r++)
      for (int unsigned k = 0; k < NEAR; k++)
        for (int unsigned c = 0; c < CELLS; c++)
          window_int8[c] += if_used(r, k, ky1, kx1,
            product8(window8[r][k][c], w8[WINDOW*r + k][set1][c]));
    if (far1) begin
      for (int unsigned r = 0; r < WINDOW; r++)
        for (int unsigned k = (r < NEAR) ? NEAR : 0; k < WINDOW; k++)
          for (int unsigned c = 0; c < CELLS; c++)
            far[c] += if_used(r, k, ky1, kx1,
              product8(window8[r][k][c], w8[WINDOW*r + k][set1][c]));
      for (int unsigned c = 0; c < CELLS; c++) window_int8[c] += far[c];
    end
  endfunction

  // As row_tops, with the words that come in the window. The others have been in it for a cycle.
  function automatic cells_t window_tops();
    automatic cells_t far, e;
    for (int unsigned c = 0; c < CELLS; c++) window_tops[c] = 32'd0;
    for (int unsigned c = 0; c < CELLS; c++) far[c] = 32'd0;
    for (int unsigned r = 0; r < NEAR; r++) begin
      if (row_fp16) e = exp_fp16_cells(comes(r), row_top);
      else e = exp_bf16_cells(comes(r), row_top);
      for (int unsigned c = 0; c < CELLS; c++)
        window_tops[c] = larger(window_tops[c], larger(
          top_of(r, 0, e[c] + wexp[WINDOW*r][row_set][c]),
          larger(top_of(r, 1, exps[r][0][c] + wexp[WINDOW*r + 1][row_set][c]),
                 top_of(r, 2, exps[r][1][c] + wexp[WINDOW*r + 2][row_set][c]))));
    end
    if (row_far) begin
      for (int unsigned r = 0; r < WINDOW; r++) begin
        if (r >= NEAR) begin
          if (row_fp16) e = exp_fp16_cells(comes(r), row_top);
          else e = exp_bf16_cells(comes(r), row_top);
          for (int unsigned c = 0; c < CELLS; c++)
            far[c] = larger(far[c], larger(
              top_of(r, 0, e[c] + wexp[WINDOW*r][row_set][c]),
              larger(top_of(r, 1, exps[r][0][c] + wexp[WINDOW*r + 1][row_set][c]),
                     top_of(r, 2, exps[r][1][c] + wexp[WINDOW*r + 2][row_set][c]))));
        end
        for (int unsigned c = 0; c < CELLS; c++)
          far[c] = larger(far[c], larger(
            top_of(r, 3, exps[r][2][c] + wexp[WINDOW*r + 3][row_set][c]),
            top_of(r, 4, exps[r][3][c] + wexp[WINDOW*r + 4][row_set][c])));
      end
      for (int unsigned c = 0; c < CELLS; c++) window_tops[c] = larger(window_tops[c], far[c]);
    end
  endfunction

  function automatic logic [31:0] top_of(input int unsigned r, input int unsigned k,
      input logic [31:0] exps_sum);
    return if_used(r, k, row_ky, row_kx, exps_sum);
  endfunction

  function automatic double_t window_float();
    automatic cells_t far;
    for (int unsigned c = 0; c < CELLS; c++) begin
      window_float[c] = 32'd0;
      window_float[CELLS + c] = tops1[c];
      far[c] = 32'd0;
    end
    for (int unsigned r = 0; r < NEAR; r++)
      for (int unsigned k = 0; k < NEAR; k++)
        for (int unsigned c = 0; c < CELLS; c++)
          window_float[c] += if_used(r, k, ky1, kx1, term(mans[r][k][c],
            wman[WINDOW*r + k][set1][c], wsign[WINDOW*r + k][set1][c],
            tops1[c] - (exps[r][k][c] + wexp[WINDOW*r + k][set1][c])));
    if (far1) begin
      for (int unsigned r = 0; r < WINDOW; r++)
        for (int unsigned k = (r < NEAR) ? NEAR : 0; k < WINDOW; k++)
          for (int unsigned c = 0; c < CELLS; c++)
            far[c] += if_used(r, k, ky1, kx1, term(mans[r][k][c],
              wman[WINDOW*r + k][set1][c], wsign[WINDOW*r + k][set1][c],
              tops1[c] - (exps[r][k][c] + wexp[WINDOW*r + k][set1][c])));
      for (int unsigned c = 0; c < CELLS; c++) window_float[c] += far[c];
    end
  endfunction

  function automatic cells_t window_special();
    for (int unsigned c = 0; c < CELLS; c++) begin
      logic [31:0] s;
      s = 32'd0;
      for (int unsigned r = 0; r < WINDOW; r++)
        for (int unsigned k = 0; k < WINDOW; k++)
          if (r < 32'(ky1) && k < 32'(kx1))
            s |= special_lane(mans[r][k][c], exps[r][k][c], wman[WINDOW*r + k][set1][c],
                wexp[WINDOW*r + k][set1][c], wsign[WINDOW*r + k][set1][c]);
      window_special[c] = special_value(s[2:0]);
    end
  endfunction

  // The words that come, into the kernel's rows of the window; the others one back. As put_int8.
  function automatic void slide();
    for (int unsigned r = 0; r < WINDOW; r++)
      if (r < 32'(row_ky)) begin
        for (int unsigned k = WINDOW - 1; k > 0; k--)
          if (k < 32'(row_kx)) begin
            if (row_float) begin
              mans[r][k] = mans[r][k-1];
              exps[r][k] = exps[r][k-1];
            end else begin
              window8[r][k] = window8[r][k-1];
            end
          end
        if (row_fp16) begin
          mans[r][0] = man_fp16_cells(comes(r), row_top);
          exps[r][0] = exp_fp16_cells(comes(r), row_top);
        end else if (row_float) begin
          mans[r][0] = man_bf16_cells(comes(r), row_top);
          exps[r][0] = exp_bf16_cells(comes(r), row_top);
        end else begin
          window8[r][0] = int_cells(comes(r));
        end
      end
  endfunction

  function automatic cells_t value_float();
    for (int unsigned c = 0; c < CELLS; c++)
      value_float[c] = i2f_scaled(dots_fp[c], dots_fp[CELLS + c] - EXP_BIAS);
  endfunction

  function automatic cells_t value_special();
    cells_t v;
    v = value_float();
    for (int unsigned c = 0; c < CELLS; c++)
      value_special[c] = (specials[c] != 32'd0) ? specials[c] : v[c];
  endfunction

  // ---- accumulation
  // A loop for each source of the old row: an adder with a multiplexer before it, written so that
  // no loop chooses.
  function automatic cells_t int_next();
    for (int unsigned c = 0; c < CELLS; c++) int_next[c] = acc_q[c] + vals[c];
  endfunction

  function automatic cells_t fp_next();
    for (int unsigned c = 0; c < CELLS; c++) fp_next[c] = fp_add(acc_q[c], vals[c]);
  endfunction

  function automatic cells_t row_again();
    if (fp3) begin
      for (int unsigned c = 0; c < CELLS; c++)
        row_again[c] = fp_add(forward3 ? acc_wdata[c] : copy[c], vals[c]);
    end else begin
      for (int unsigned c = 0; c < CELLS; c++)
        row_again[c] = (forward3 ? acc_wdata[c] : copy[c]) + vals[c];
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

  // ---- the stages, as parts of one process
  function automatic void take_weights();
    if (wgt_fp16 && wgt_absent)
      wspecial[wgt_set] <= (!wgt_first && wspecial[wgt_set])
          || (!wgt_skip && special(present(), 1'b1));
    else if (wgt_float)
      wspecial[wgt_set] <= (!wgt_first && wspecial[wgt_set])
          || (!wgt_skip && special(wgt_data, wgt_fp16));
    if (wgt_depthwise) put_lane();
    else if (!wgt_float) put_int8();
    else if (wgt_fp16) put_fp16();
    else put_bf16();
  endfunction

  function automatic void take_row();
    depthwise1 <= row_depthwise; pad1 <= row_pad; kx1 <= row_kx; ky1 <= row_ky;
    fp1 <= row_float; set1 <= row_set; first1 <= row_first; last1 <= row_last; half1 <= row_half;
    addr1 <= row_acc;
    if (row_float) begin
      if (row_depthwise) tops1 <= window_tops();
      else tops1 <= row_tops();
    end
  endfunction

  function automatic void dot();
    fp2 <= fp1; first2 <= first1; last2 <= last1; half2 <= half1; addr2 <= addr1;
    special2 <= fp1 && (special1 || wspecial[set1]);
    if (!fp1) begin
      if (depthwise1) dots8 <= window_int8();
      else dots8 <= dot_int8();
    end else if (depthwise1) begin
      dots_fp <= window_float();
      if (special1 || wspecial[set1]) specials <= window_special();
    end else begin
      if (pad1) dots_fp <= nothing();
      else dots_fp <= dot_float();
      if (rspecial || wspecial[set1]) specials <= dot_special();
    end
  endfunction

  function automatic void value();
    logic again;                                       // its row is written in this cycle
    again = acc_we && acc_waddr == addr2 && acc_whalf == half2;
    if (again) copy <= acc_wdata;
    forward3 <= v3 && addr3 == addr2 && half3 == half2; copied3 <= again;
    fp3 <= fp2; first3 <= first2; last3 <= last2; half3 <= half2; addr3 <= addr2;
    if (special2) vals <= value_special();
    else if (fp2) vals <= value_float();
    else vals <= dots8;
  endfunction

  function automatic void accumulate();
    acc_whalf <= half3; acc_waddr <= addr3; acc_wlast <= last3;
    if (first3) begin
      if (fp3) acc_wdata <= fp_first();
      else acc_wdata <= vals;
    end else if (forward3 || copied3) begin
      acc_wdata <= row_again();
    end else begin
      if (fp3) acc_wdata <= fp_next();
      else acc_wdata <= int_next();
    end
  endfunction

  // the last stage first: no register is read behind an assignment to it
  always_ff @(posedge clk) begin
    acc_we <= v3;
    if (v3) accumulate();
    if (v2) value();
    v3 <= v2;
    if (v1) dot();
    v2 <= v1;
    if (row_valid && row_emit) take_row();
    v1 <= row_valid && row_emit;
    if (row_valid && row_depthwise) slide();
    if (wgt_valid) take_weights();
    if (rst) begin
      v1 <= 1'b0; v2 <= 1'b0; v3 <= 1'b0; acc_we <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  // what a read gives while its row is written is not used
  a_collision: assert property (@(posedge clk) disable iff (rst)
    (acc_re && acc_we && acc_waddr == acc_raddr && acc_whalf == acc_half) |=> (copied3
        || forward3));
  c_first: cover property (@(posedge clk) disable iff (rst) v3 && first3);
  c_forward: cover property (@(posedge clk) disable iff (rst) v3 && !first3 && forward3);
  c_copied: cover property (@(posedge clk) disable iff (rst) v3 && !first3 && copied3 && !forward3);
  c_from_memory: cover property (@(posedge clk) disable iff (rst)
    v3 && !first3 && !copied3 && !forward3);
  c_special_row: cover property (@(posedge clk) disable iff (rst)
    v1 && fp1 && !depthwise1 && rspecial);
  c_depthwise: cover property (@(posedge clk) disable iff (rst) v1 && depthwise1 && fp1);
  c_depthwise_int8: cover property (@(posedge clk) disable iff (rst) v1 && depthwise1 && !fp1);
  c_depthwise_special: cover property (@(posedge clk) disable iff (rst)
    v1 && depthwise1 && fp1 && special1);
  c_special_weight: cover property (@(posedge clk) disable iff (rst) v1 && fp1 && wspecial[set1]);
  // int8 behind bf16 or the other way round
  c_change: cover property (@(posedge clk) disable iff (rst) v1 && v2 && fp1 != fp2);
  c_other_half: cover property (@(posedge clk) disable iff (rst) v2 && v3 && half2 != half3);
  c_load_beside: cover property (@(posedge clk) disable iff (rst)
    wgt_valid && v1 && wgt_set != set1);
`endif
endmodule
