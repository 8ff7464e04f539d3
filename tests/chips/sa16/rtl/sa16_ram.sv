// SPDX-License-Identifier: Apache-2.0
// A memory with one write and one read port; what is read stands in q from the next cycle until the next read.
module sa16_ram #(
    parameter int unsigned BITS  = 12,
    parameter int unsigned WIDTH = 128
) (
    input  logic             clk,
    input  logic             we,
    input  logic [BITS-1:0]  waddr,
    input  logic [WIDTH-1:0] wdata,
    input  logic             re,
    input  logic [BITS-1:0]  raddr,
    output logic [WIDTH-1:0] q
);
    logic [WIDTH-1:0] mem[2**BITS];
    always_ff @(posedge clk) begin
        if (we) mem[waddr] <= wdata;
        if (re) q <= mem[raddr];
    end
endmodule
