// SPDX-License-Identifier: Apache-2.0
// A chip with ports of its own names: APB4 with wait states and 64 KiB of registers, 128 bits of AXI4 in upper case
// without IDs, an inverted reset, a strap. The inside, its registers and its timing: presil_ports_core.sv.
module presil_ports_apb_top #(
    parameter int unsigned WORD = 16,
    parameter int unsigned WAITS = 1  // of an access, before PREADY
) (
    input  logic              aclk,
    input  logic              aresetn,
    output logic              done_intr,
    input  logic [3:0]        strap,  // 5, or the ID is wrong
    input  logic              cfg_psel_i,
    input  logic              cfg_penable_i,
    input  logic              cfg_pwrite_i,
    input  logic [15:0]       cfg_paddr_i,
    input  logic [31:0]       cfg_pwdata_i,
    input  logic [3:0]        cfg_pstrb_i,
    output logic              cfg_pready_o,
    output logic [31:0]       cfg_prdata_o,
    output logic              cfg_pslverr_o,
    output logic [31:0]       M0_AXI_ARADDR,
    output logic [7:0]        M0_AXI_ARLEN,
    output logic [2:0]        M0_AXI_ARSIZE,
    output logic [1:0]        M0_AXI_ARBURST,
    output logic [3:0]        M0_AXI_ARCACHE,
    output logic              M0_AXI_ARVALID,
    input  logic              M0_AXI_ARREADY,
    input  logic [8*WORD-1:0] M0_AXI_RDATA,
    input  logic              M0_AXI_RVALID,
    output logic              M0_AXI_RREADY,
    output logic [31:0]       M0_AXI_AWADDR,
    output logic [7:0]        M0_AXI_AWLEN,
    output logic [2:0]        M0_AXI_AWSIZE,
    output logic [1:0]        M0_AXI_AWBURST,
    output logic              M0_AXI_AWVALID,
    input  logic              M0_AXI_AWREADY,
    output logic [8*WORD-1:0] M0_AXI_WDATA,
    output logic [WORD-1:0]   M0_AXI_WSTRB,
    output logic              M0_AXI_WLAST,
    output logic              M0_AXI_WVALID,
    input  logic              M0_AXI_WREADY,
    input  logic              M0_AXI_BVALID,
    output logic              M0_AXI_BREADY
);
    logic [3:0] arlen, awlen;
    logic [31:0] rdata;
    logic [7:0] waited;
    logic wide;  // an access with penable that psel's cycle didn't go before: against APB
    assign M0_AXI_ARLEN = 8'(arlen);
    assign M0_AXI_AWLEN = 8'(awlen);
    assign {M0_AXI_ARSIZE, M0_AXI_AWSIZE} = {2{3'($clog2(WORD))}};
    assign {M0_AXI_ARBURST, M0_AXI_AWBURST} = {2{2'd1}};
    assign M0_AXI_ARCACHE = 4'd3;
    assign M0_AXI_WSTRB = '1;
    assign {M0_AXI_RREADY, M0_AXI_BREADY} = 2'b11;
    assign cfg_prdata_o = rdata ^ (cfg_paddr_i == 0 ? 32'(strap ^ 4'd5) : 32'd0);
    assign cfg_pready_o = cfg_penable_i && waited == WAITS;

    always_ff @(posedge aclk) begin
        waited <= cfg_psel_i && cfg_penable_i && !cfg_pready_o ? waited + 8'd1 : 8'd0;
        wide <= cfg_psel_i && !cfg_pready_o;
        if (aresetn && cfg_penable_i && !wide) $fatal(1, "presil_ports_apb_top: PENABLE without a setup cycle");
        if (!aresetn) {waited, wide} <= '0;
    end

    presil_ports_core #(.WORD(WORD)) u_core (
        .clk(aclk), .rst(!aresetn), .access(cfg_psel_i && cfg_penable_i && cfg_pready_o), .write(cfg_pwrite_i),
        .addr(cfg_paddr_i), .wdata(cfg_pwdata_i), .strb(cfg_pstrb_i), .rdata(rdata), .error(cfg_pslverr_o),
        .done(done_intr), .progress(), .araddr(M0_AXI_ARADDR), .arlen(arlen), .arvalid(M0_AXI_ARVALID),
        .arready(M0_AXI_ARREADY), .rbeat(M0_AXI_RDATA), .rvalid(M0_AXI_RVALID), .awaddr(M0_AXI_AWADDR), .awlen(awlen),
        .awvalid(M0_AXI_AWVALID), .awready(M0_AXI_AWREADY), .wbeat(M0_AXI_WDATA), .wlast(M0_AXI_WLAST),
        .wvalid(M0_AXI_WVALID), .wready(M0_AXI_WREADY), .bvalid(M0_AXI_BVALID));
endmodule
