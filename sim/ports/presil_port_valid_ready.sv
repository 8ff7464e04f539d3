// SPDX-License-Identifier: Apache-2.0
// A request of presil_port_front on a plain bus: valid and ready for the request, a pulse of valid for what is read,
// and where ANSWERS one for a write that has been done; without it a write is done when its request is taken.
// Throughput: one access at a time. The bus has no errors. Reset: synchronous.
module presil_port_valid_ready #(
    parameter bit ANSWERS = 1'b0
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        edge_coming,  // the bus's clock has an edge at the end of this cycle
    input  logic        req,
    input  logic        req_write,
    output logic        done,
    output logic        valid,
    input  logic        ready,
    input  logic        rvalid,
    input  logic        bvalid
);
    logic sent, taken;
    assign valid = req && !sent;
    assign taken = valid && ready && edge_coming;
    always_comb begin
        done = 1'b0;
        if (req && edge_coming && (sent || ready)) done = !req_write ? rvalid : !ANSWERS || bvalid;
    end

    always_ff @(posedge clk) begin
        if (taken) sent <= 1'b1;
        if (done || rst) sent <= 1'b0;
    end
endmodule
