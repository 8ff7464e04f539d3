// SPDX-License-Identifier: Apache-2.0
// A team's file with what Verilator refuses unless it is waived: an enumeration that is given plain bits.
module mine_state (
    input logic       clk,
    input logic [1:0] from
);
  typedef enum logic [1:0] {
    IDLE,
    READS,
    SETS_UP,
    WRITES
  } state;
  state now;
  always_ff @(posedge clk) now <= from;
endmodule

bind presil_ports_apb_top mine_state watch (.clk(aclk), .from({cfg_psel_i, cfg_pwrite_i}));
