// SPDX-License-Identifier: Apache-2.0
// sa16: an int8 accelerator. Registers over APB (64 KiB), one AXI4 master of 128 bits, one level interrupt.
module sa16_top
    import sa16_pkg::*;
(
    input  logic         clk,
    input  logic         rst_n,
    output logic         irq,
    // registers
    input  logic [15:0]  paddr,
    input  logic         psel,
    input  logic         penable,
    input  logic         pwrite,
    input  logic [31:0]  pwdata,
    output logic [31:0]  prdata,
    output logic         pready,
    output logic         pslverr,
    // memory
    output logic [3:0]   dram_awid,
    output logic [39:0]  dram_awaddr,
    output logic [7:0]   dram_awlen,
    output logic [2:0]   dram_awsize,
    output logic [1:0]   dram_awburst,
    output logic         dram_awvalid,
    input  logic         dram_awready,
    output logic [127:0] dram_wdata,
    output logic [15:0]  dram_wstrb,
    output logic         dram_wlast,
    output logic         dram_wvalid,
    input  logic         dram_wready,
    input  logic [3:0]   dram_bid,
    input  logic [1:0]   dram_bresp,
    input  logic         dram_bvalid,
    output logic         dram_bready,
    output logic [3:0]   dram_arid,
    output logic [39:0]  dram_araddr,
    output logic [7:0]   dram_arlen,
    output logic [2:0]   dram_arsize,
    output logic [1:0]   dram_arburst,
    output logic         dram_arvalid,
    input  logic         dram_arready,
    input  logic [3:0]   dram_rid,
    input  logic [127:0] dram_rdata,
    input  logic [1:0]   dram_rresp,
    input  logic         dram_rlast,
    input  logic         dram_rvalid,
    output logic         dram_rready
);
    logic rst;
    assign rst = !rst_n;
    assign {dram_awid, dram_arid} = '0;  // one stream each way, in order
    assign {dram_awsize, dram_arsize} = {3'd4, 3'd4};
    assign {dram_awburst, dram_arburst} = {2'd1, 2'd1};
    assign dram_bready = 1'b1;

    logic load_start, compute_start, store_start, load_half, compute_half, store_half;
    logic load_busy, compute_busy, store_busy, issuing;
    logic [2:0] moved;
    set_t load_set, compute_set, store_set;
    sa16_regs u_regs (
        .clk, .rst, .irq, .paddr, .psel, .penable, .pwrite, .pwdata, .prdata, .pready, .pslverr, .load_start,
        .compute_start, .store_start, .load_half, .compute_half, .store_half, .load_busy, .compute_busy, .store_busy,
        .moved({moved[2], issuing, moved[0]}), .read_beat(dram_rvalid && dram_rready),
        .write_beat(dram_wvalid && dram_wready),
        .read_error(dram_rvalid && (dram_rresp != 2'd0 || dram_rid != 4'd0)),
        .write_error(dram_bvalid && (dram_bresp != 2'd0 || dram_bid != 4'd0)), .load_set, .compute_set, .store_set);
    assign moved[1] = issuing;

    function automatic transfer_t strided(input set_t s, input int unsigned at);
        return '{
            base: {s[at+T_HI][7:0], s[at+T_LO]}, outer: s[at+T_COUNT][15:0], inner: s[at+T_COUNT][31:16],
            outer_stride: s[at+T_OUTER], inner_stride: s[at+T_INNER], px: s[at+T_RUN][15:0], nb: s[at+T_RUN][31:16],
            tail: s[at+T_TAIL][4:0], l_outer: s[at+T_LOCAL][12:0], l_inner: s[at+T_LOCAL][28:16],
            l_px: s[at+T_LOCAL2][12:0], l_nb: s[at+T_LOCAL2][28:16]
        };
    endfunction

    transfer_t transfers[4], out_transfer;
    always_comb begin
        transfers[0] = strided(load_set, R_IN);
        transfers[1] = '{base: {load_set[R_W_HI][7:0], load_set[R_W_LO]}, outer: 16'd1, inner: 16'd1, px: 16'd1,
                         nb: load_set[R_W_WORDS][15:0], tail: 5'd16, l_nb: 13'd1, default: '0};
        transfers[2] = '{base: {load_set[R_P_HI][7:0], load_set[R_P_LO]}, outer: load_set[R_BLOCKS][31:16],
                         inner: 16'd1, outer_stride: 32'd144, px: 16'd1, nb: 16'(PARAM_PARTS), tail: 5'd16,
                         l_outer: 13'd16, l_nb: 13'd1, default: '0};
        transfers[3] = strided(load_set, R_OUT);
        transfers[3].base = {load_set[R_RES_HI][7:0], load_set[R_RES_LO]};
        out_transfer = strided(store_set, R_OUT);
    end

    logic [3:0] load_we;
    logic [12:0] load_addr, store_addr;
    logic [127:0] load_data, store_q;
    logic store_re;
    sa16_load u_load (
        .clk, .rst, .start(load_start), .jobs({load_set[R_MODE][3], !load_set[R_MODE][5],
        load_set[R_MODE][1:0] == CONV, 1'b1}),
        .transfer(transfers), .busy(load_busy), .moved(moved[0]), .we(load_we), .waddr(load_addr),
        .wdata(load_data), .araddr(dram_araddr), .arlen(dram_arlen), .arvalid(dram_arvalid), .arready(dram_arready),
        .rdata(dram_rdata), .rvalid(dram_rvalid), .rready(dram_rready));
    sa16_compute u_compute (
        .clk, .rst, .start(compute_start), .set(compute_set), .half(compute_half), .busy(compute_busy), .issuing,
        .load_half, .load_we, .load_addr, .load_data, .store_half, .store_re, .store_addr, .store_q);
    sa16_store u_store (
        .clk, .rst, .start(store_start), .t(out_transfer), .busy(store_busy), .moved(moved[2]), .re(store_re),
        .raddr(store_addr), .q(store_q), .awaddr(dram_awaddr), .awlen(dram_awlen), .awvalid(dram_awvalid),
        .awready(dram_awready), .wdata(dram_wdata), .wstrb(dram_wstrb), .wlast(dram_wlast), .wvalid(dram_wvalid),
        .wready(dram_wready), .bvalid(dram_bvalid));
endmodule
