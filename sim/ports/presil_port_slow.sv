// SPDX-License-Identifier: Apache-2.0
// A channel that the chip offers on a slower clock than the memory's: taken at an edge of the chip's clock, offered to
// the memory from the cycle after it on, so that no answer comes before the chip has seen its request taken.
// Throughput: all of the slower clock's. Latency: one cycle. Reset: synchronous.
module presil_port_slow #(
    parameter int unsigned BITS = 8
) (
    input  logic            clk,
    input  logic            rst,
    input  logic            edge_coming,  // the chip's clock has an edge at the end of this cycle
    input  logic            valid,
    output logic            ready,
    input  logic [BITS-1:0] payload,
    output logic            up_valid,
    input  logic            up_ready,
    output logic [BITS-1:0] up_payload
);
    assign ready = !up_valid;
    always_ff @(posedge clk) begin
        if (up_ready) up_valid <= 1'b0;
        if (edge_coming && valid && ready) {up_valid, up_payload} <= {1'b1, payload};
        if (rst) up_valid <= 1'b0;
    end
endmodule
