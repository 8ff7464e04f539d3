// SPDX-License-Identifier: Apache-2.0
// Line buffer of the depthwise mode (docs/isa.md section 4): the words of the two window rows above, at the position of
// the row that comes.
// The position is asked for one cycle before its word is there; above1 (one row up) and above2 (two rows up) come with
// the word, which is kept then. Throughput: one word a cycle. Both memories have one read and one write port; a
// position that is written while it is asked for (a window one position wide) is passed by.
// No reset: what is there before three rows have come is not looked at. Errors: none.
module presil_lines import presil_config_pkg::*; #(
  localparam int unsigned QUADS = LANES / 4
) (
  input  logic               clk,
  input  logic               ask,
  input  logic [5:0]         ask_x,
  input  logic               valid,        // a cycle after ask
  input  logic [5:0]         x,
  input  logic               pad,          // the word is pad_byte everywhere
  input  logic [7:0]         pad_byte,
  input  logic [8*LANES-1:0] word,
  output logic [31:0]        above1 [QUADS],
  output logic [31:0]        above2 [QUADS]
);
  typedef logic [31:0] word_t [QUADS];
  word_t line1 [64];
  word_t line2 [64];
  logic hit;
  assign hit = valid && x == ask_x;

  function automatic word_t split();
    for (int unsigned i = 0; i < QUADS; i++) split[i] = pad ? {4{pad_byte}} : word[32*i +: 32];
  endfunction

  always_ff @(posedge clk) begin
    if (valid) begin
      line1[x] <= split();
      line2[x] <= above1;
    end
    if (ask) begin
      if (hit) begin
        above2 <= above1;
        above1 <= split();
      end else begin
        above2 <= line2[ask_x];
        above1 <= line1[ask_x];
      end
    end
  end

`ifndef SYNTHESIS
  c_one_wide: cover property (@(posedge clk) ask && hit);
  c_last: cover property (@(posedge clk) valid && x == 6'd63);
`endif
endmodule
