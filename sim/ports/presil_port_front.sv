// SPDX-License-Identifier: Apache-2.0
// The host's AXI4-Lite side of a chip whose registers are on another bus, or on another clock: one access at a time,
// as a request that the bus behind it (presil_port_apb and others) answers with a pulse of done.
// Latency: none of its own; with clocks of several periods an access ends where all of them have an edge, so that the
// cycles of a launch don't depend on what was before it. Reset: synchronous, forgets the access.
// PENDING: the word at this offset is not the chip's: it has a bit for each interrupt, and writing ones clears pulses.
module presil_port_front #(
    parameter bit          HAS_PENDING = 1'b0,
    parameter int unsigned PENDING     = 0
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        aligned,  // every clock has an edge at the end of this cycle
    input  logic [31:0] s_axil_awaddr,
    input  logic        s_axil_awvalid,
    output logic        s_axil_awready,
    input  logic [31:0] s_axil_wdata,
    input  logic [ 3:0] s_axil_wstrb,
    input  logic        s_axil_wvalid,
    output logic        s_axil_wready,
    output logic [ 1:0] s_axil_bresp,
    output logic        s_axil_bvalid,
    input  logic        s_axil_bready,
    input  logic [31:0] s_axil_araddr,
    input  logic        s_axil_arvalid,
    output logic        s_axil_arready,
    output logic [31:0] s_axil_rdata,
    output logic [ 1:0] s_axil_rresp,
    output logic        s_axil_rvalid,
    input  logic        s_axil_rready,
    // to the bus: stays until done
    output logic        req,
    output logic        req_write,
    output logic [31:0] req_addr,
    output logic [31:0] req_wdata,
    output logic [ 3:0] req_strb,
    input  logic        done,
    input  logic [31:0] done_rdata,
    input  logic [ 1:0] done_resp,
    // interrupts
    output logic        begins,  // an access of the chip's registers
    output logic [31:0] clear,
    input  logic [31:0] pending
);
    logic busy, answered, held, write_q, own_q;
    logic [31:0] addr_q, wdata_q, data_q;
    logic [ 3:0] strb_q;
    logic [ 1:0] resp_q;

    logic take_w, take_r, own, finished, direct, respond;
    assign take_w = !busy && !rst && s_axil_awvalid && s_axil_wvalid;
    assign take_r = !busy && !rst && s_axil_arvalid && !take_w;
    assign s_axil_awready = take_w;
    assign s_axil_wready  = take_w;
    assign s_axil_arready = take_r;

    assign req_write = busy ? write_q : take_w;
    assign req_addr  = busy ? addr_q : take_w ? s_axil_awaddr : s_axil_araddr;
    assign req_wdata = busy ? wdata_q : s_axil_wdata;
    assign req_strb  = busy ? strb_q : s_axil_wstrb;
    assign own       = HAS_PENDING && (busy ? own_q : req_addr == 32'(PENDING));
    assign req       = !own && (busy ? !answered : take_w || take_r);
    assign begins    = (take_w || take_r) && !own;
    assign clear     = take_w && own ? s_axil_wdata : '0;

    assign direct   = busy && !answered && (done || own);
    assign respond  = (answered || direct) && busy && (aligned || held);
    assign s_axil_bvalid = respond && write_q;
    assign s_axil_rvalid = respond && !write_q;
    assign s_axil_bresp  = s_axil_rresp;
    assign s_axil_rresp  = answered ? resp_q : own ? 2'b00 : done_resp;
    assign s_axil_rdata  = answered ? data_q : own ? pending : done_rdata;
    assign finished = (s_axil_bvalid && s_axil_bready) || (s_axil_rvalid && s_axil_rready);

    always_ff @(posedge clk) begin
        held <= respond && !finished;
        if (take_w || take_r) begin
            busy    <= 1'b1;
            write_q <= take_w;
            addr_q  <= req_addr;
            wdata_q <= s_axil_wdata;
            strb_q  <= s_axil_wstrb;
            own_q   <= own;
        end
        if ((done && req) || direct) begin
            answered <= 1'b1;
            data_q   <= own ? pending : done_rdata;
            resp_q   <= own ? 2'b00 : done_resp;
        end
        if (finished) {busy, answered} <= '0;
        if (rst) {busy, answered, held} <= '0;
    end
endmodule
