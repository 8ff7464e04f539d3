// SPDX-License-Identifier: Apache-2.0
// Sequencer of transposed columns: for each complete group of rows, one column a cycle to
// scratchpad addresses s, s+sw, ...
// Two groups: one is filled while the other drains. A group's first row reaches presil_transpose
// three steps behind its piece, so that a group may begin when the one before the last has three
// columns left: rows follow each other without a bubble. All of it stands still with `hold`.
// Reset: synchronous, only control.
// Errors: SPAD_RANGE, one cycle after the column that would be outside (it isn't written).
module presil_load_columns import presil_config_pkg::*; #(
  localparam int unsigned LW = $clog2(WORD)  /// log2 of WORD, the bytes of beat and word
) (
  input  logic          clk,
  input  logic          rst,
  /// a group's last row was issued; its parameters; stays while `hold`
  input  logic          group_valid,
  input  logic          group_last,         /// last group of the descriptor
  /// s: byte address of column 0; sw: from column to column; pad: padding; index: ring count
  input  logic [31:0]   group_s, group_sw, group_pad, group_index,
  input  logic [LW:0]   group_cols, group_bytes,  /// columns; bytes of a column without padding
  input  logic [1:0]    group_size,         /// log2 of an element's bytes: 0, 1, 2
  input  logic          rows_in,            /// the last row of group rows_set is being written
  input  logic          rows_set,           /// group, and buffer: 0, 1
  output logic          open,               /// room for another group
  output logic          open_early,         /// for one of two rows or more
  output logic          busy,               /// a group, or a column not yet passed on
  input  logic          hold,               /// the pipeline stands: no column is read
  output logic          col_go,             /// presil_transpose reads a column
  output logic          col_set,            /// buffer that it is read from: 0, 1
  output logic [LW-1:0] col_j,              /// column that is read, from 0
  output logic [1:0]    col_size,           /// log2 of an element's bytes
  output logic [LW:0]   col_bytes,          /// bytes of the column without padding
  output logic [31:0]   col_pad,            /// padding behind them, every 32 bits
  output logic          col_valid,          /// the column is in presil_transpose's register
  output logic [15:0]   col_addr,           /// its word address, with col_valid
  output logic          col_done,           /// last of the descriptor
  output logic          err_valid,          /// pulse in place of col_valid: SPAD_RANGE
  output logic [31:0]   err_index, err_addr  /// ring count; scratchpad byte address of the word
);
  localparam logic [31:0] WORDS = BANKS * BANK_WORDS;
  logic [1:0]  count;
  logic [1:0]  full;                        // all rows of a set are in
  logic        head, take, last, ending;
  logic        g_last [2];
  logic [31:0] g_s [2], g_sw [2], g_pad [2], g_index [2];
  logic [LW:0] g_cols [2], g_bytes [2];
  logic [1:0]  g_size [2];

  assign take       = group_valid && !hold;
  assign last       = col_go && 32'(col_j) + 32'd1 >= 32'(g_cols[col_set]);
  assign ending     = full[col_set] && 32'(col_j) + 32'd3 >= 32'(g_cols[col_set]);
  assign open       = !(count[1] || (count[0] && group_valid));
  assign open_early = open || (ending && !(count[1] && group_valid));
  assign busy      = count != 2'd0 || group_valid || col_valid;
  assign col_go    = count != 2'd0 && full[col_set] && !hold;
  assign col_size  = g_size[col_set];
  assign col_bytes = g_bytes[col_set];
  assign col_pad   = g_pad[col_set];

  always_ff @(posedge clk) begin
    err_valid <= 1'b0;
    if (!hold) col_valid <= 1'b0;
    if (take) begin
      g_last[head] <= group_last;  g_s[head] <= group_s;  g_sw[head] <= group_sw;
      g_pad[head] <= group_pad;
      g_index[head] <= group_index;
      g_cols[head] <= group_cols;  g_bytes[head] <= group_bytes;  g_size[head] <= group_size;
      head <= !head;
    end
    if (rows_in) full[rows_set] <= 1'b1;
    if (col_go) begin
      col_valid <= (g_s[col_set] >> LW) < WORDS;
      err_valid <= (g_s[col_set] >> LW) >= WORDS;
      err_index <= g_index[col_set];
      err_addr  <= {g_s[col_set][31:LW], {LW{1'b0}}};
      col_addr  <= 16'(g_s[col_set] >> LW);
      col_done  <= last && g_last[col_set];
      if (!last) g_s[col_set] <= g_s[col_set] + g_sw[col_set];
      col_j <= col_j + LW'(1);
      if (last) begin
        col_j <= '0;  full[col_set] <= 1'b0;  col_set <= !col_set;
      end
    end
    if (take != last) count <= take ? count + 2'd1 : count - 2'd1;
    if (rst) begin
      count <= 2'd0;  full <= 2'd0;  head <= 1'b0;  col_set <= 1'b0;  col_j <= '0;
      col_valid <= 1'b0;
      err_valid <= 1'b0;
    end
  end

`ifndef SYNTHESIS
  a_over: assert property (@(posedge clk) disable iff (rst)
    !(take && count == 2'd2 && !last));
  c_early: cover property (@(posedge clk) disable iff (rst) open_early && !open);
  c_follows: cover property (@(posedge clk) disable iff (rst) take && count == 2'd2);
  c_two_groups: cover property (@(posedge clk) disable iff (rst) count == 2'd2);
  c_byte: cover property (@(posedge clk) disable iff (rst) group_valid && group_size == 2'd0);
  c_half: cover property (@(posedge clk) disable iff (rst) group_valid && group_size == 2'd1);
  c_word: cover property (@(posedge clk) disable iff (rst) group_valid && group_size == 2'd2);
  c_short: cover property (@(posedge clk) disable iff (rst)
    group_valid && 32'(group_bytes) != WORD);
  c_narrow: cover property (@(posedge clk) disable iff (rst)
    group_valid && 32'(group_cols) << group_size != WORD);
  c_held: cover property (@(posedge clk) disable iff (rst) count != 2'd0 && full[col_set] && hold);
  c_range: cover property (@(posedge clk) disable iff (rst) err_valid);
`endif
endmodule
