// SPDX-License-Identifier: Apache-2.0
// One scratchpad bank: 1 read and 1 write port, synchronous read (1 cycle), byte write mask. No reset. A vendor's
// memory macro replaces
// `mem`. The multiplexers of clients sit inside the guards: as wires a word would be copied in every bank in every
// cycle.
module presil_bank import presil_config_pkg::*; #(
  localparam int unsigned AW = $clog2(BANK_WORDS)
) (
  input  logic              clk,
  input  logic              re_act, re_wgt, re_st, re_res,   // at most one
  input  logic [AW-1:0]     row_act, row_wgt, row_st, row_res,
  output logic [8*WORD-1:0] q,
  input  logic              we_ep, we_ld,                    // at most one
  input  logic [AW-1:0]     row_ep, row_ld,
  input  logic              full_ep, full_ld,                // whole word: the mask is not looked at
  input  logic [8*WORD-1:0] data_ep, data_ld,
  input  logic [WORD-1:0]   mask_ep, mask_ld
);
  logic [8*WORD-1:0] mem [BANK_WORDS];

  function automatic logic [8*WORD-1:0] merge(input logic [AW-1:0] row, input logic ep);
    for (int unsigned j = 0; j < WORD / 4; j++) begin
      logic [31:0] m;
      m = 32'(ep ? mask_ep[4*j +: 4] : mask_ld[4*j +: 4]);
      m = (m * 32'h0020_4081) & 32'h0101_0101;             // bit i to byte i
      m = (m << 8) - m;
      merge[32*j +: 32] = (mem[row][32*j +: 32] & ~m) | ((ep ? data_ep[32*j +: 32] : data_ld[32*j +: 32]) & m);
    end
  endfunction

  always_ff @(posedge clk) begin
    if (re_act || re_wgt || re_st || re_res) q <= mem[re_act ? row_act : re_wgt ? row_wgt : re_st ? row_st : row_res];
    if (we_ep) begin
      if (full_ep) mem[row_ep] <= data_ep;
      else mem[row_ep] <= merge(row_ep, 1'b1);
    end
    if (we_ld) begin
      if (full_ld) mem[row_ld] <= data_ld;
      else mem[row_ld] <= merge(row_ld, 1'b0);
    end
  end
endmodule
