// SPDX-License-Identifier: Apache-2.0
// A request of presil_port_front on AXI4-Lite again, of 32 or 64 bits and on any clock of the chip.
// Throughput: one access at a time. Reset: synchronous.
module presil_port_axil #(
    parameter int unsigned DATA = 32  // bits
) (
    input  logic              clk,
    input  logic              rst,
    input  logic              edge_coming,  // the bus's clock has an edge at the end of this cycle
    input  logic              req,
    input  logic              req_write,
    input  logic [31:0]       req_addr,
    input  logic [31:0]       req_wdata,
    input  logic [ 3:0]       req_strb,
    output logic              done,
    output logic [31:0]       done_rdata,
    output logic [ 1:0]       done_resp,
    output logic              awvalid,
    input  logic              awready,
    output logic [DATA-1:0]   wdata,
    output logic [DATA/8-1:0] wstrb,
    output logic              wvalid,
    input  logic              wready,
    input  logic [ 1:0]       bresp,
    input  logic              bvalid,
    output logic              bready,
    output logic              arvalid,
    input  logic              arready,
    input  logic [DATA-1:0]   rdata,
    input  logic [ 1:0]       rresp,
    input  logic              rvalid,
    output logic              rready
);
    logic aw_sent, w_sent, ar_sent, high;
    assign high    = DATA == 64 && req_addr[2];
    assign awvalid = req && req_write && !aw_sent;
    assign wvalid  = req && req_write && !w_sent;
    assign arvalid = req && !req_write && !ar_sent;
    assign bready  = req && req_write;
    assign rready  = req && !req_write;
    assign wdata   = {DATA / 32{req_wdata}};
    assign wstrb   = (DATA / 8)'(high ? {req_strb, 4'd0} : {4'd0, req_strb});
    assign done       = edge_coming && req && (req_write ? bvalid : rvalid);
    assign done_resp  = req_write ? bresp : rresp;
    assign done_rdata = 32'(high ? rdata >> 32 : rdata);

    always_ff @(posedge clk) begin
        if (edge_coming) begin
            if (awvalid && awready) aw_sent <= 1'b1;
            if (wvalid && wready) w_sent <= 1'b1;
            if (arvalid && arready) ar_sent <= 1'b1;
        end
        if (done || rst) {aw_sent, w_sent, ar_sent} <= '0;
    end
endmodule
