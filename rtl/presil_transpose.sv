// SPDX-License-Identifier: Apache-2.0
// Two buffers of WORD rows: rows go in (row k: element k of every column), columns come out as
// scratchpad words.
// Row in: 1 cycle. Column out: latency 1 from `col_en`. One row and one column a cycle, of
// different buffers. No reset, no errors.
module presil_transpose import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD),  /// log2 of WORD, the bytes of beat and word
  localparam int unsigned NW = WORD / 4  /// 32-bit words of a row or column
) (
  input  logic          clk,
  input  logic          row_lo,             /// write the lower half of the row
  input  logic          row_hi,             /// write the upper half
  input  logic          row_set,            /// buffer it goes to
  input  logic [LW-1:0] row_k,              /// its number: element k of every column
  input  logic [8*WORD-1:0] row,            /// with row_lo or row_hi
  input  logic          col_en,             /// read a column; else col stays
  input  logic          col_set,            /// buffer it comes from
  input  logic [LW-1:0] col_j,              /// its number: element j of every row
  input  logic [1:0]    col_size,           /// log2 of the element's bytes: 0, 1, 2
  input  logic [LW:0]   col_bytes,          /// bytes of a column; the rest of the word is padding
  input  logic [31:0]   pad,                /// padding, every 32 bits, with col_en
  /// one cycle after col_en; element k at byte k << col_size
  output logic [8*WORD-1:0] col
);
  typedef logic [31:0] half_t [NW/2];
  half_t lo [2*WORD];
  half_t hi [2*WORD];

  function automatic half_t half(input logic upper);
    for (int unsigned i = 0; i < NW / 2; i++) half[i] = row[32*(i + (upper ? NW / 2 : 0)) +: 32];
  endfunction

  function automatic logic [8*WORD-1:0] column();
    logic [31:0] w [NW];
    logic [31:0] t [WORD];
    logic [LW-1:0] word;                    // 32-bit word of the row that holds the column
    logic [LW-4:0] at;
    logic [4:0]  sh;
    word = (col_size == 2'd0) ? col_j >> 2 : (col_size == 2'd1) ? col_j >> 1 : col_j;
    sh   = (col_size == 2'd0) ? {col_j[1:0], 3'd0} : (col_size == 2'd1) ? {col_j[0], 4'd0} : 5'd0;
    at   = word[LW-4:0];
    if (word[LW-3]) begin
      for (int unsigned k = 0; k < WORD; k++) t[k] = hi[{col_set, k[LW-1:0]}][at] >> sh;
    end else begin
      for (int unsigned k = 0; k < WORD; k++) t[k] = lo[{col_set, k[LW-1:0]}][at] >> sh;
    end
    if (col_size == 2'd0) begin
      for (int unsigned i = 0; i < NW; i++)
        w[i] = (t[4*i] & 32'hff) | ((t[4*i+1] & 32'hff) << 8) | ((t[4*i+2] & 32'hff) << 16)
            | (t[4*i+3] << 24);
    end else if (col_size == 2'd1) begin
      for (int unsigned i = 0; i < NW; i++) w[i] = (t[2*i] & 32'hffff) | (t[2*i+1] << 16);
    end else begin
      for (int unsigned i = 0; i < NW; i++) w[i] = t[i];
    end
    for (int unsigned i = 0; i < NW; i++) begin
      logic [31:0] m;
      m = presil_word_pkg::range_mask(i, 32'd0, 32'(col_bytes));
      w[i] = (w[i] & m) | (pad & ~m);
    end
    for (int unsigned i = 0; i < NW; i++) column[32*i +: 32] = w[i];
  endfunction

  always_ff @(posedge clk) begin
    if (row_lo) lo[{row_set, row_k}] <= half(1'b0);
    if (row_hi) hi[{row_set, row_k}] <= half(1'b1);
    if (col_en) col <= column();
  end
endmodule
