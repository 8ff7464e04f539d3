// SPDX-License-Identifier: Apache-2.0
// Matrix engine: address generator, weight loader, dot-product array, two accumulator memories (docs/isa.md section 4).
// Reset: synchronous, active high; memories and payload are not reset. Errors: none of its own; act_index and wgt_index name the
// descriptor of the request on the port, for the scratchpad's range check.
module presil_matrix import presil_config_pkg::*; (
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
  output logic              act_valid,      // scratchpad read port: activations
  output logic [15:0]       act_addr,
  output logic [31:0]       act_index,
  input  logic              act_ready,
  input  logic              act_rvalid,
  input  logic [8*WORD-1:0] act_rdata,
  output logic              wgt_valid,      // scratchpad read port: weights
  output logic [15:0]       wgt_addr,
  output logic [31:0]       wgt_index,
  input  logic              wgt_ready,
  input  logic              wgt_rvalid,
  input  logic [8*WORD-1:0] wgt_rdata,
  input  logic              acc_re,         // accumulator read port of the epilogue: acc_q one cycle later
  input  logic              acc_half,
  input  logic [$clog2(ACC_ROWS)-1:0] acc_row,
  output logic [31:0]       acc_q [CELLS],
  output logic [1:0]        acc_taken       // the read port of half h belongs to this engine in the next cycle: no acc_re then
);
endmodule
