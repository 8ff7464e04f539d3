// SPDX-License-Identifier: Apache-2.0
// A chip with four memory ports on a clock of a third of the rate: 64 bits that only read, 64 bits that only write, 64
// bits of AXI3 for a memory on the chip (addresses from 2^31 on), and 256 bits of a second copy engine. APB3 without
// wait states: bit 16 of an address is the second engine. Its second clock does nothing but count. The inside, its
// registers and its timing: presil_ports_core.sv.
module presil_ports_many_top (
    input  logic         clk,
    input  logic         count_clk,
    input  logic         rst,
    output logic         irq_a,
    output logic         irq_b,
    output logic         step_b,
    input  logic         s_apb_psel,
    input  logic         s_apb_penable,
    input  logic         s_apb_pwrite,
    input  logic [16:0]  s_apb_paddr,
    input  logic [31:0]  s_apb_pwdata,
    output logic [31:0]  s_apb_prdata,
    output logic         s_apb_pslverr,
    output logic [31:0]  rd_araddr,
    output logic [7:0]   rd_arlen,
    output logic [1:0]   rd_arid,
    output logic         rd_arvalid,
    input  logic         rd_arready,
    input  logic [63:0]  rd_rdata,
    input  logic [1:0]   rd_rid,
    input  logic         rd_rvalid,
    output logic [31:0]  wr_awaddr,
    output logic [7:0]   wr_awlen,
    output logic         wr_awvalid,
    input  logic         wr_awready,
    output logic [63:0]  wr_wdata,
    output logic         wr_wlast,
    output logic         wr_wvalid,
    input  logic         wr_wready,
    input  logic         wr_bvalid,
    output logic [31:0]  sram_araddr,
    output logic [3:0]   sram_arlen,
    output logic         sram_arvalid,
    input  logic         sram_arready,
    input  logic [63:0]  sram_rdata,
    input  logic         sram_rvalid,
    output logic [31:0]  sram_awaddr,
    output logic [3:0]   sram_awlen,
    output logic         sram_awvalid,
    input  logic         sram_awready,
    output logic [63:0]  sram_wdata,
    output logic         sram_wlast,
    output logic         sram_wvalid,
    input  logic         sram_wready,
    input  logic         sram_bvalid,
    output logic [39:0]  big_araddr,
    output logic [7:0]   big_arlen,
    output logic         big_arvalid,
    input  logic         big_arready,
    input  logic [255:0] big_rdata,
    input  logic         big_rvalid,
    output logic [39:0]  big_awaddr,
    output logic [7:0]   big_awlen,
    output logic         big_awvalid,
    input  logic         big_awready,
    output logic [255:0] big_wdata,
    output logic         big_wlast,
    output logic         big_wvalid,
    input  logic         big_wready,
    input  logic         big_bvalid
);
    logic access, in_b, a_error, b_error, arvalid, awvalid, wvalid, to_sram;
    logic [31:0] a_data, b_data, araddr, awaddr, b_araddr, b_awaddr, ticks;
    logic [ 3:0] arlen, awlen, b_arlen, b_awlen;
    logic [63:0] wdata;
    logic wlast, ready;
    assign in_b = s_apb_paddr[16];
    assign access = s_apb_psel && s_apb_penable;
    // 0x40 is the second clock's edges since reset, 0x44 whether a read had the wrong ID
    assign s_apb_prdata = in_b ? b_data : s_apb_paddr == 17'h40 ? ticks : s_apb_paddr == 17'h44 ? 32'(bad_id) : a_data;
    assign s_apb_pslverr = in_b ? b_error : a_error;

    always_ff @(posedge count_clk) ticks <= rst ? 0 : ticks + 1;

    logic bad_id;
    always_ff @(posedge clk) begin
        if (rd_rvalid && rd_rid != 2'd2) bad_id <= 1'b1;
        if (rst) bad_id <= 1'b0;
    end

    assign rd_arid = 2'd2;
    assign {rd_araddr, sram_araddr, rd_arlen, sram_arlen} = {araddr, araddr, 8'(arlen), arlen};
    assign {wr_awaddr, sram_awaddr, wr_awlen, sram_awlen} = {awaddr, awaddr, 8'(awlen), awlen};
    assign rd_arvalid = arvalid && !araddr[31];
    assign sram_arvalid = arvalid && araddr[31];
    assign to_sram = awaddr[31];
    assign wr_awvalid = awvalid && !to_sram;
    assign sram_awvalid = awvalid && to_sram;
    assign {wr_wdata, sram_wdata, wr_wlast, sram_wlast} = {wdata, wdata, wlast, wlast};
    assign wr_wvalid = wvalid && !to_sram;
    assign sram_wvalid = wvalid && to_sram;
    assign ready = to_sram ? sram_wready : wr_wready;

    presil_ports_core #(.WORD(8)) u_a (
        .clk, .rst, .access(access && !in_b), .write(s_apb_pwrite), .addr(s_apb_paddr[15:0]), .wdata(s_apb_pwdata),
        .strb(4'hf), .rdata(a_data), .error(a_error), .done(irq_a), .progress(), .araddr, .arlen, .arvalid,
        .arready(araddr[31] ? sram_arready : rd_arready), .rbeat(araddr[31] ? sram_rdata : rd_rdata),
        .rvalid(araddr[31] ? sram_rvalid : rd_rvalid), .awaddr, .awlen, .awvalid,
        .awready(to_sram ? sram_awready : wr_awready), .wbeat(wdata), .wlast, .wvalid, .wready(ready),
        .bvalid(to_sram ? sram_bvalid : wr_bvalid));

    assign {big_araddr, big_arlen, big_awaddr, big_awlen} = {40'(b_araddr), 8'(b_arlen), 40'(b_awaddr), 8'(b_awlen)};
    presil_ports_core #(.WORD(32)) u_b (
        .clk, .rst, .access(access && in_b), .write(s_apb_pwrite), .addr(s_apb_paddr[15:0]), .wdata(s_apb_pwdata),
        .strb(4'hf), .rdata(b_data), .error(b_error), .done(irq_b), .progress(step_b), .araddr(b_araddr),
        .arlen(b_arlen), .arvalid(big_arvalid), .arready(big_arready), .rbeat(big_rdata), .rvalid(big_rvalid),
        .awaddr(b_awaddr), .awlen(b_awlen), .awvalid(big_awvalid), .awready(big_awready), .wbeat(big_wdata),
        .wlast(big_wlast), .wvalid(big_wvalid), .wready(big_wready), .bvalid(big_bvalid));
endmodule
