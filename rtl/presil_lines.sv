// SPDX-License-Identifier: Apache-2.0
// Line buffer of the depthwise mode (docs/isa.md section 4): the words of the WINDOW - 1 window
// rows above, at the position of the row that comes.
// The position is asked for one cycle before its word is there; above1 (one row up) to above4 come
// with the word, which is kept then. Rows above the kernel are neither read nor kept. Throughput:
// one word a cycle. A position that is written while it is asked for (a window one position wide)
// is forwarded.
// No reset: what is there before the kernel's rows have come is not looked at. Errors: with PARITY
// `bad`, a bit for each line, in the first cycle of the words above.
module presil_lines import presil_config_pkg::*, presil_dot_pkg::*; #(
  localparam int unsigned QUADS = LANES / 4
) (
  input  logic              clk,
  input  logic              ask,          /// a word comes in the next cycle; read what is above it
  input  logic [2:0]        ask_rows,     /// rows of the kernel, 1 to WINDOW
  input  logic [5:0]        ask_x,        /// position of the word in the window's row
  input  logic              valid,        /// the word is there, a cycle after ask: keep it
  input  logic [2:0]        rows,         /// as ask_rows, of this word
  input  logic [5:0]        x,            /// as ask_x, of this word
  input  logic [31:0]       word [QUADS],  /// the word, padding included, in 32-bit pieces
  output logic [31:0]       above1 [QUADS],  /// the word one window row up, a cycle after ask
  output logic [31:0]       above2 [QUADS],  /// two rows up
  output logic [31:0]       above3 [QUADS],  /// three rows up
  output logic [31:0]       above4 [QUADS],  /// four rows up
  output logic [WINDOW-2:0] bad           /// bit i: wrong parity in above<i+1>; 0 without PARITY
);
  typedef logic [31:0] word_t [QUADS];

  // rows that the kernel reaches: asked for, and kept
  logic [WINDOW-2:0] re, we;
  always_comb
    for (int unsigned i = 0; i < WINDOW - 1; i++) begin
      re[i] = ask && 32'(ask_rows) > i + 1;
      we[i] = valid && 32'(rows) > i + 1;
    end

  // An array of lines would be a copy of each word, in each cycle of a simulator.
  presil_ram_1r1w #(.ROWS(64), .FORWARD(1'b1), .PARITY(PARITY), .T(word_t)) u_line1 (.clk,
      .re(re[0]), .raddr(ask_x), .q(above1), .we(we[0]), .waddr(x), .be(1'b1), .wdata(word),
      .bad(bad[0]));
  presil_ram_1r1w #(.ROWS(64), .FORWARD(1'b1), .PARITY(PARITY), .T(word_t)) u_line2 (.clk,
      .re(re[1]), .raddr(ask_x), .q(above2), .we(we[1]), .waddr(x), .be(1'b1), .wdata(above1),
      .bad(bad[1]));
  presil_ram_1r1w #(.ROWS(64), .FORWARD(1'b1), .PARITY(PARITY), .T(word_t)) u_line3 (.clk,
      .re(re[2]), .raddr(ask_x), .q(above3), .we(we[2]), .waddr(x), .be(1'b1), .wdata(above2),
      .bad(bad[2]));
  presil_ram_1r1w #(.ROWS(64), .FORWARD(1'b1), .PARITY(PARITY), .T(word_t)) u_line4 (.clk,
      .re(re[3]), .raddr(ask_x), .q(above4), .we(we[3]), .waddr(x), .be(1'b1), .wdata(above3),
      .bad(bad[3]));

`ifndef SYNTHESIS
  c_one_wide: cover property (@(posedge clk) ask && valid && x == ask_x);
  c_last: cover property (@(posedge clk) valid && x == 6'd63);
  c_all: cover property (@(posedge clk) valid && 32'(rows) == WINDOW);
`endif
endmodule
