// SPDX-License-Identifier: Apache-2.0
// One half of the accumulators: ACC_ROWS rows of CELLS 32-bit values, one read and one write port (a macro may
// replace the memory).
// A read gives its row one cycle later; one of the row that is written in the same cycle gives the old value.
// Contents are not reset.
module presil_accumulator import presil_config_pkg::*; (
  input  logic                        clk,
  input  logic                        re,
  input  logic [$clog2(ACC_ROWS)-1:0] raddr,
  output logic [31:0]                 q [CELLS],
  input  logic                        we,
  input  logic [$clog2(ACC_ROWS)-1:0] waddr,
  input  logic [31:0]                 wdata [CELLS]
);
  typedef logic [31:0] cells_t [CELLS];
  cells_t mem [ACC_ROWS];

  always_ff @(posedge clk) begin
    if (we) mem[waddr] <= wdata;
    if (re) q <= mem[raddr];
  end
endmodule
