// SPDX-License-Identifier: Apache-2.0
// A chip with AXI4-Lite of 64 bits and 32 address bits (registers from 2^30 on) on a slow clock, a vector of level
// interrupts (bit 1: done) beside a pulse, two resets, a port of 256 bits that reads and one that writes, with the
// wires of AXI that many masters leave out left out. The inside, its registers and its timing: presil_ports_core.sv.
module presil_ports_lite_top (
    input  logic         i_clk,
    input  logic         i_por_n,
    input  logic         i_soft_reset,
    output logic [2:0]   o_events_n,
    output logic         o_step,
    input  logic [31:0]  cfg_awaddr,
    input  logic         cfg_awvalid,
    output logic         cfg_awready,
    input  logic [63:0]  cfg_wdata,
    input  logic [7:0]   cfg_wstrb,
    input  logic         cfg_wvalid,
    output logic         cfg_wready,
    output logic [1:0]   cfg_bresp,
    output logic         cfg_bvalid,
    input  logic         cfg_bready,
    input  logic [31:0]  cfg_araddr,
    input  logic         cfg_arvalid,
    output logic         cfg_arready,
    output logic [63:0]  cfg_rdata,
    output logic [1:0]   cfg_rresp,
    output logic         cfg_rvalid,
    input  logic         cfg_rready,
    output logic [35:0]  ld_araddr,
    output logic [7:0]   ld_arlen,
    output logic [2:0]   ld_arsize,
    output logic         ld_arvalid,
    input  logic         ld_arready,
    input  logic [255:0] ld_rdata,
    input  logic [1:0]   ld_rresp,
    input  logic         ld_rlast,
    input  logic         ld_rvalid,
    output logic         ld_rready,
    output logic [35:0]  st_awaddr,
    output logic [7:0]   st_awlen,
    output logic         st_awvalid,
    input  logic         st_awready,
    output logic [255:0] st_wdata,
    output logic [31:0]  st_wstrb,
    output logic         st_wlast,
    output logic         st_wvalid,
    input  logic         st_wready,
    input  logic         st_bvalid,
    output logic         st_bready
);
    typedef enum logic [2:0] {IDLE, WRITE, LOW, HIGH, B, R} state_t;
    state_t state;
    logic rst, access, error, done, wrong;
    logic [15:0] addr;
    logic [31:0] rdata, araddr, awaddr;
    logic [ 3:0] arlen, awlen;
    assign rst = !i_por_n || i_soft_reset;
    assign o_events_n = ~{2'd0, done} << 1 | 3'd1;
    assign wrong = (state == WRITE ? cfg_awaddr[31:16] : cfg_araddr[31:16]) != 16'h4000;

    // One access at a time; a read fetches both halves of its 64 bits.
    assign access = state inside {WRITE, LOW, HIGH} && !wrong;
    assign addr = state == WRITE ? {cfg_awaddr[15:3], |cfg_wstrb[7:4], 2'd0} : {cfg_araddr[15:3], state == HIGH, 2'd0};
    assign {cfg_awready, cfg_wready, cfg_arready} = {state == WRITE, state == WRITE, state == HIGH};
    assign {cfg_bvalid, cfg_rvalid} = {state == B, state == R};
    assign cfg_rresp = cfg_bresp;
    always_ff @(posedge i_clk) begin
        case (state)
            IDLE: if (cfg_awvalid && cfg_wvalid) state <= WRITE;
                  else if (cfg_arvalid) state <= LOW;
            WRITE: state <= B;
            LOW: state <= HIGH;
            HIGH: state <= R;
            B: if (cfg_bready) state <= IDLE;
            R: if (cfg_rready) state <= IDLE;
            default: state <= IDLE;
        endcase
        if (state == LOW) cfg_rdata[31:0] <= rdata;
        if (state == HIGH) cfg_rdata[63:32] <= rdata;
        if (state inside {WRITE, LOW, HIGH}) cfg_bresp <= wrong ? 2'd3 : {error, 1'b0};
        if (rst) state <= IDLE;
    end

    assign {ld_araddr, ld_arlen, ld_arsize, ld_rready} = {4'd0, araddr, 4'd0, arlen, 3'd5, 1'b1};
    assign {st_awaddr, st_awlen, st_wstrb, st_bready} = {4'd0, awaddr, 4'd0, awlen, 32'hffffffff, 1'b1};
    presil_ports_core #(.WORD(32)) u_core (
        .clk(i_clk), .rst, .access, .write(state == WRITE), .addr, .wdata(addr[2] ? cfg_wdata[63:32] : cfg_wdata[31:0]),
        .strb(addr[2] ? cfg_wstrb[7:4] : cfg_wstrb[3:0]), .rdata, .error, .done, .progress(o_step), .araddr, .arlen,
        .arvalid(ld_arvalid), .arready(ld_arready), .rbeat(ld_rdata), .rvalid(ld_rvalid), .awaddr, .awlen,
        .awvalid(st_awvalid), .awready(st_awready), .wbeat(st_wdata), .wlast(st_wlast), .wvalid(st_wvalid),
        .wready(st_wready), .bvalid(st_bvalid));
endmodule
