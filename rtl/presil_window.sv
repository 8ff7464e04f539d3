// SPDX-License-Identifier: Apache-2.0
// Whether a burst lies outside the DMA windows: a window is enabled, and none of those that are
// holds the burst's page and permits its direction. A burst stays within 4 KiB, so its page is all
// that matters.
// Combinational. Errors: none of its own; presil_axi_read and _write refuse the burst and name it.
module presil_window #(
  parameter int unsigned PERMIT = 29   /// 29 reads, 30 writes: bit of last that permits it
) (
  input  logic        guarded,         /// a window is enabled, else nothing is outside
  input  logic [31:0] first [4],       /// presil_windows: first page of each window
  input  logic [31:0] last [4],        /// last page; 28 enable, 29 read, 30 write
  input  logic        valid,           /// a burst is there
  input  logic [27:0] page,            /// its page, bits 39:12 of its address
  output logic        outside          /// with valid, same cycle: no window permits it
);
  always_comb begin
    outside = guarded && valid;
    if (outside) begin
      for (int unsigned w = 0; w < 4; w++) begin
        if (last[w][28] && last[w][PERMIT] && page >= first[w][27:0] && page <= last[w][27:0])
          outside = 1'b0;
      end
    end
  end
endmodule
