// SPDX-License-Identifier: Apache-2.0
// Line buffer of the depthwise mode (docs/isa.md section 4): the words of the two window rows
// above, at the position of the row that comes.
// The position is asked for one cycle before its word is there; above1 (one row up) and above2 (two
// rows up) come with the word, which is kept then. Throughput: one word a cycle. A position that is
// written while it is asked for (a window one position wide) is forwarded.
// No reset: what is there before three rows have come is not looked at. Errors: with PARITY bad1
// and bad2, in the first cycle of above1 and above2.
module presil_lines import presil_config_pkg::*; #(
  localparam int unsigned QUADS = LANES / 4
) (
  input  logic        clk,
  input  logic        ask,
  input  logic [5:0]  ask_x,
  input  logic        valid,        // a cycle after ask
  input  logic [5:0]  x,
  input  logic [31:0] word [QUADS],
  output logic [31:0] above1 [QUADS],
  output logic [31:0] above2 [QUADS],
  output logic        bad1,
  output logic        bad2
);
  typedef logic [31:0] word_t [QUADS];

  presil_ram_1r1w #(.ROWS(64), .FORWARD(1'b1), .PARITY(PARITY), .T(word_t)) u_line1 (.clk, .re(ask),
      .raddr(ask_x), .q(above1), .we(valid), .waddr(x), .be(1'b1), .wdata(word), .bad(bad1));
  presil_ram_1r1w #(.ROWS(64), .FORWARD(1'b1), .PARITY(PARITY), .T(word_t)) u_line2 (.clk, .re(ask),
      .raddr(ask_x), .q(above2), .we(valid), .waddr(x), .be(1'b1), .wdata(above1), .bad(bad2));

`ifndef SYNTHESIS
  c_one_wide: cover property (@(posedge clk) ask && valid && x == ask_x);
  c_last: cover property (@(posedge clk) valid && x == 6'd63);
`endif
endmodule
