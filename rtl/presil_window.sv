// SPDX-License-Identifier: Apache-2.0
// Whether a burst lies outside the DMA windows: a window is enabled, and none of those that are
// holds the burst's page and permits its direction. A burst stays within 4 KiB, so its page is all
// that matters.
// Combinational. Errors: none of its own; presil_axi_read and _write refuse the burst and name it.
module presil_window #(
  // bit of `last` that permits the direction: 29 reads, 30 writes
  parameter int unsigned PERMIT = 29
) (
  input  logic        guarded,         // a window is enabled
  input  logic [31:0] first [4],       // presil_windows
  input  logic [31:0] last [4],
  input  logic        valid,           // a burst is there
  input  logic [27:0] page,
  output logic        outside
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
