// SPDX-License-Identifier: Apache-2.0
// A request of presil_port_front as an access of APB3 or APB4: one setup cycle, then access cycles until PREADY.
// Throughput: an access each two cycles of the bus's clock and more. Errors: PSLVERR is SLVERR. Reset: synchronous.
module presil_port_apb (
    input  logic        clk,
    input  logic        rst,
    input  logic        edge_coming,  // the bus's clock has an edge at the end of this cycle
    input  logic        req,
    input  logic        req_write,
    input  logic [31:0] req_addr,
    input  logic [31:0] req_wdata,
    input  logic [ 3:0] req_strb,
    output logic        done,
    output logic [31:0] done_rdata,
    output logic [ 1:0] done_resp,
    output logic        psel,
    output logic        penable,
    output logic        pwrite,
    output logic [31:0] paddr,
    output logic [31:0] pwdata,
    output logic [ 3:0] pstrb,
    input  logic        pready,
    input  logic        pslverr,
    input  logic [31:0] prdata
);
    assign psel       = req;
    assign pwrite     = req_write;
    assign paddr      = req_addr;
    assign pwdata     = req_wdata;
    assign pstrb      = req_write ? req_strb : 4'd0;
    assign done       = req && penable && pready && edge_coming;
    assign done_rdata = prdata;
    assign done_resp  = {pslverr, 1'b0};

    always_ff @(posedge clk) begin
        if (edge_coming) penable <= req && !done;
        if (rst) penable <= 1'b0;
    end
endmodule
