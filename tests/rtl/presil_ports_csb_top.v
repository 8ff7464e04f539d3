// SPDX-License-Identifier: Apache-2.0
// A chip in Verilog-2001, in the manner of NVDLA: registers over a bus of valid and ready on a clock of half the rate,
// word addresses, AXI3 with IDs of 8 bits, without sizes, burst types and responses, an interrupt as a level and
// one as a pulse. The inside, its registers and its timing: presil_ports_core.sv. WORD comes from a file of `defines.
`include "presil_ports_defines.vh"
module presil_ports_csb_top (
    input                         core_clk,
    input                         csb_clk,
    input                         rstn,
    input                         test_mode,  // 0
    output                        done_intr_n,
    output                        progress_intr,
    input                         csb2chip_valid,
    output                        csb2chip_ready,
    input      [13:0]             csb2chip_addr,
    input      [31:0]             csb2chip_wdat,
    input                         csb2chip_write,
    input                         csb2chip_nposted,
    output reg                    chip2csb_valid,
    output reg [31:0]             chip2csb_data,
    output reg                    chip2csb_wr_complete,
    output                        dbb_aw_awvalid,
    input                         dbb_aw_awready,
    output     [7:0]              dbb_aw_awid,
    output     [3:0]              dbb_aw_awlen,
    output     [1:0]              dbb_aw_awlock,
    output     [31:0]             dbb_aw_awaddr,
    output                        dbb_w_wvalid,
    input                         dbb_w_wready,
    output     [7:0]              dbb_w_wid,
    output     [`PORTS_BITS-1:0]  dbb_w_wdata,
    output     [`PORTS_BITS/8-1:0] dbb_w_wstrb,
    output                        dbb_w_wlast,
    input                         dbb_b_bvalid,
    output                        dbb_b_bready,
    input      [7:0]              dbb_b_bid,
    output                        dbb_ar_arvalid,
    input                         dbb_ar_arready,
    output     [7:0]              dbb_ar_arid,
    output     [3:0]              dbb_ar_arlen,
    output     [31:0]             dbb_ar_araddr,
    input                         dbb_r_rvalid,
    output                        dbb_r_rready,
    input      [7:0]              dbb_r_rid,
    input                         dbb_r_rlast,
    input      [`PORTS_BITS-1:0]  dbb_r_rdata
);
    reg         pending, pending_write;
    reg  [13:0] address;
    reg  [31:0] data;
    wire [31:0] rdata;
    wire        done, taken;
    reg         phase, phase_q;  // of csb_clk in core_clk: taken for one cycle of core_clk only

    assign csb2chip_ready = !pending && !test_mode;
    assign taken = csb2chip_valid && csb2chip_ready;
    assign done_intr_n = !done;
    assign dbb_aw_awid = 8'hc3;
    assign dbb_w_wid = dbb_aw_awid;
    assign dbb_ar_arid = 8'ha5;
    assign dbb_aw_awlock = 2'd0;
    assign dbb_w_wstrb = {`PORTS_BITS / 8{1'b1}};
    assign dbb_b_bready = 1'b1;
    assign dbb_r_rready = 1'b1;

    always @(posedge csb_clk) begin
        if (taken) begin
            address <= csb2chip_addr;
            data <= csb2chip_wdat;
            pending_write <= csb2chip_write;
            phase <= !phase;
        end
        pending <= rstn && taken;
        chip2csb_valid <= pending && !pending_write;
        chip2csb_wr_complete <= pending && pending_write;
        chip2csb_data <= rdata;
        if (!rstn) begin
            phase <= 1'b0;
            {chip2csb_valid, chip2csb_wr_complete} <= 2'd0;
        end
    end
    always @(posedge core_clk) phase_q <= rstn && phase;

    presil_ports_core #(.WORD(`PORTS_BITS / 8)) u_core (
        .clk(core_clk), .rst(!rstn), .access(phase != phase_q), .write(pending_write), .addr({address, 2'b00}),
        .wdata(data), .strb(4'hf), .rdata(rdata), .error(), .done(done), .progress(progress_intr),
        .araddr(dbb_ar_araddr), .arlen(dbb_ar_arlen), .arvalid(dbb_ar_arvalid), .arready(dbb_ar_arready),
        .rbeat(dbb_r_rdata), .rvalid(dbb_r_rvalid && dbb_r_rid == 8'ha5), .awaddr(dbb_aw_awaddr), .awlen(dbb_aw_awlen),
        .awvalid(dbb_aw_awvalid), .awready(dbb_aw_awready), .wbeat(dbb_w_wdata), .wlast(dbb_w_wlast),
        .wvalid(dbb_w_wvalid), .wready(dbb_w_wready), .bvalid(dbb_b_bvalid && dbb_b_bid == 8'hc3));
endmodule
