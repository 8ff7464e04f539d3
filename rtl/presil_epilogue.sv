// SPDX-License-Identifier: Apache-2.0
// Epilogue engine: accumulators to scratchpad through bias, scale, residual, clamp and conversion (docs/isa.md section 5).
// Reset: synchronous, active high; payload is not reset. Errors: none of its own; res_index and epi_index name the descriptor of the
// request on the port, for the scratchpad's range check.
module presil_epilogue import presil_config_pkg::*; (
  input  logic              clk,
  input  logic              rst,
  input  logic              start_valid,
  output logic              start_ready,
  input  logic [31:0]       start_desc [32],
  input  logic [31:0]       start_index,
  output logic              done,           // one cycle for each completed descriptor, in order
  output logic              active,
  output logic [3:0]        cause,          // of the oldest descriptor, while active
  input  logic              halt,
  output logic              idle,
  output logic              acc_re,         // accumulator read port: acc_q one cycle later
  output logic              acc_half,
  output logic [$clog2(ACC_ROWS)-1:0] acc_row,
  input  logic [31:0]       acc_q [CELLS],
  input  logic [1:0]        acc_taken,      // the read port of half h is taken in the next cycle
  output logic              res_valid,      // scratchpad read port: parameters and residual
  output logic [15:0]       res_addr,
  output logic [31:0]       res_index,
  input  logic              res_ready,
  input  logic              res_rvalid,
  input  logic [8*WORD-1:0] res_rdata,
  output logic              epi_valid,      // scratchpad write port
  output logic [15:0]       epi_addr,
  output logic [31:0]       epi_index,
  output logic [8*WORD-1:0] epi_data,
  output logic [WORD-1:0]   epi_mask,
  output logic              epi_full,
  input  logic              epi_ready
);
endmodule
