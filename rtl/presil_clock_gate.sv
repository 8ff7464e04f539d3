// SPDX-License-Identifier: Apache-2.0
// Clock of a part of the chip: that of the chip, or gated by a vendor's cell.
// A vendor's cell: define PRESIL_CLOCK_GATE as the name of a module with the ports clk, en and
// gclk. It passes the edge of `clk` at whose end of cycle `en` is 1 and no other. `en` comes from
// registers and inputs of `clk`, late in the cycle, so the cell needs its latch (open while `clk`
// is low). Test mode is the cell's own.
// PRESIL_CLOCK_GATE_MODEL puts a model of such a cell there: a simulator passes over what stands
// still.
// Reset: none; the part's keeps `en` at 1. Errors: none.
module presil_clock_gate (
  input  logic clk,
  input  logic en,   /// 1 at the end of a cycle: the edge there passes
  output logic gclk  /// the part's clock
);
`ifdef PRESIL_CLOCK_GATE
  `PRESIL_CLOCK_GATE u_cell (.clk, .en, .gclk);
`elsif PRESIL_CLOCK_GATE_MODEL
  logic open;
  always_latch if (!clk) open = en;
  assign gclk = clk & open;
`else
  logic unused;
  assign unused = en;
  assign gclk = clk;
`endif
endmodule
