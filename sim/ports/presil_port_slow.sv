// SPDX-License-Identifier: Apache-2.0
// A channel that the chip offers on a slower clock than the memory's: what the memory takes between two edges of the
// chip's clock is taken for the chip at the next one. Latency: none. Reset: synchronous.
module presil_port_slow (
    input  logic clk,
    input  logic rst,
    input  logic edge_coming,  // the chip's clock has an edge at the end of this cycle
    input  logic valid,
    output logic ready,
    output logic up_valid,
    input  logic up_ready
);
    logic taken;
    assign up_valid = valid && !taken;
    assign ready    = taken || (up_valid && up_ready);
    always_ff @(posedge clk) taken <= !rst && !edge_coming && ready;
endmodule
