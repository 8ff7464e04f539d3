// SPDX-License-Identifier: Apache-2.0
// One scratchpad bank: a memory, and the register of its write port, which takes the word of the
// client that is granted.
// A read gives q one cycle later, and sees the writes that were granted two cycles before it: a
// token takes longer from a write to the first read of whoever waits for it.
// Reset: the register's valid bit. Errors: `bad`, in the first cycle of q (PARITY):
// presil_ram_1r1w.
module presil_bank import presil_config_pkg::*; #(
  localparam int unsigned AW = $clog2(BANK_WORDS)
) (
  input  logic              clk,
  input  logic              rst,
  input  logic              re,              /// read a row
  input  logic [AW-1:0]     row,             /// row to read, with re
  output logic [8*WORD-1:0] q,               /// the word, one cycle after re, until the next read
  output logic              bad,             /// wrong parity, in the first cycle of q, if PARITY
  input  logic              we_ep, we_ld,    /// write: epilogue, LOAD; at most one
  input  logic [AW-1:0]     row_ep, row_ld,  /// row to write
  /// whole word: the mask is not looked at
  input  logic              full_ep, full_ld,  /// with we_*, as row, data, mask
  input  logic [8*WORD-1:0] data_ep, data_ld,  /// the word, byte 0 in the lowest bits
  input  logic [WORD-1:0]   mask_ep, mask_ld  /// bytes to write
);
  logic              w_valid;
  logic [AW-1:0]     w_row;
  logic [WORD-1:0]   w_mask;
  logic [8*WORD-1:0] w_data;

  always_ff @(posedge clk) begin
    w_valid <= (we_ep || we_ld) && !rst;
    if (we_ep) begin
      w_row <= row_ep;  w_mask <= full_ep ? '1 : mask_ep;  w_data <= data_ep;
    end else if (we_ld) begin
      w_row <= row_ld;  w_mask <= full_ld ? '1 : mask_ld;  w_data <= data_ld;
    end
  end

  presil_ram_1r1w #(.ROWS(BANK_WORDS), .BYTES(WORD), .PARITY(PARITY),
      .T(logic [8*WORD-1:0])) u_ram (.clk, .re, .raddr(row), .q, .we(w_valid), .waddr(w_row),
      .be(w_mask), .wdata(w_data), .bad);
endmodule
