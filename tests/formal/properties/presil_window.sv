// SPDX-License-Identifier: Apache-2.0
// What is outside the DMA windows (docs/isa.md section 1): a window is enabled, and none that is holds the page and
// permits the direction.
module presil_window_properties #(
  parameter int unsigned PERMIT = 29
) (
  input logic        guarded, valid, outside,
  input logic [31:0] first [4], last [4],
  input logic [27:0] page
);
  logic clk;
  logic any, permitted;
  logic [3:0] holds;
  assign any = last[0][28] || last[1][28] || last[2][28] || last[3][28];
  for (genvar w = 0; w < 4; w++) begin : g_holds
    // neither below its first page nor above its last
    assign holds[w] = !(last[w][27:0] < page) && !(first[w][27:0] > page);
  end
  assign permitted = (holds[0] && last[0][28] && last[0][PERMIT]) || (holds[1] && last[1][28] && last[1][PERMIT])
                  || (holds[2] && last[2][28] && last[2][PERMIT]) || (holds[3] && last[3][28] && last[3][PERMIT]);
  always_ff @(posedge clk) begin
    assume (guarded == any);                 // proof windows
    a_outside: assert (outside == (valid && any && !permitted));
    c_second: cover (valid && any && !outside && !holds[0] && !last[2][28] && page == last[1][27:0]);
    c_refused: cover (outside && holds[3] && last[3][28] && !last[3][PERMIT]);
  end
endmodule
bind presil_window presil_window_properties #(.PERMIT(PERMIT)) u_properties (.*);
