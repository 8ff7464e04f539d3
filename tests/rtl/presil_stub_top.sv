// SPDX-License-Identifier: Apache-2.0
// presil_stub_top: a small chip with the ports of presil_top and a programming model of its own: registers and a DMA
// engine that copies beats.
// It exercises the simulator harness, and it is the second chip behind presil_chip.h (polling, no ring).
//
// Registers (32 bits; byte offsets; others read 0 and ignore writes, accesses above 0xff answer SLVERR):
//   0x00 ID       0x50534c43                0x04 WORD     bytes of a bus beat
//   0x08 SRC_LO   0x0c SRC_HI   0x10 DST_LO   0x14 DST_HI: multiples of CHUNK*WORD bytes
//   0x18 BEATS    1 ...; 0 copies nothing   0x1c CONTROL  write 1 start, 2 $fatal, 4 start that never ends, 8 $stop;
//                                                          1 with 16: ARADDR changes while it waits; 1 with 32: WLAST
//                                                          comes early
//   0x20 STATUS   0 busy, 1 done, 2 bus error (1 and 2: write 1 to clear)
//   0x24 CYCLES   clock cycles from start to done
// The reader fetches CHUNK beats a burst into one of two buffers, the writer drains the other. Throughput: one beat a
// cycle each way.
// Latency: start to first ARVALID 1 cycle. irq is STATUS.done. Reset clears all but the buffers. After a bus error
// the copy goes on to its end.
module presil_stub_top #(
    parameter int unsigned WORD = 16  // bytes of a bus beat: 8, 16, 32, 64, 128
) (
    input  logic clk,
    input  logic rst,
    output logic irq,
    // registers
    input  logic [11:0] s_axil_awaddr,
    input  logic        s_axil_awvalid,
    output logic        s_axil_awready,
    input  logic [31:0] s_axil_wdata,
    input  logic [ 3:0] s_axil_wstrb,
    input  logic        s_axil_wvalid,
    output logic        s_axil_wready,
    output logic [ 1:0] s_axil_bresp,
    output logic        s_axil_bvalid,
    input  logic        s_axil_bready,
    input  logic [11:0] s_axil_araddr,
    input  logic        s_axil_arvalid,
    output logic        s_axil_arready,
    output logic [31:0] s_axil_rdata,
    output logic [ 1:0] s_axil_rresp,
    output logic        s_axil_rvalid,
    input  logic        s_axil_rready,
    // memory
    output logic [3:0]        m_axi_awid,
    output logic [39:0]       m_axi_awaddr,
    output logic [7:0]        m_axi_awlen,
    output logic [2:0]        m_axi_awsize,
    output logic [1:0]        m_axi_awburst,
    output logic              m_axi_awvalid,
    input  logic              m_axi_awready,
    output logic [8*WORD-1:0] m_axi_wdata,
    output logic [WORD-1:0]   m_axi_wstrb,
    output logic              m_axi_wlast,
    output logic              m_axi_wvalid,
    input  logic              m_axi_wready,
    input  logic [3:0]        m_axi_bid,
    input  logic [1:0]        m_axi_bresp,
    input  logic              m_axi_bvalid,
    output logic              m_axi_bready,
    output logic [3:0]        m_axi_arid,
    output logic [39:0]       m_axi_araddr,
    output logic [7:0]        m_axi_arlen,
    output logic [2:0]        m_axi_arsize,
    output logic [1:0]        m_axi_arburst,
    output logic              m_axi_arvalid,
    input  logic              m_axi_arready,
    input  logic [3:0]        m_axi_rid,
    input  logic [8*WORD-1:0] m_axi_rdata,
    input  logic [1:0]        m_axi_rresp,
    input  logic              m_axi_rlast,
    input  logic              m_axi_rvalid,
    output logic              m_axi_rready
);
    localparam int unsigned CHUNK = 16;

    logic [31:0] src_lo, src_hi, dst_lo, dst_hi, beats, cycles;
    logic busy, done, bus_error, hang, start;
    logic [1:0] rude;  // breaches of the bus protocol that the harness has to find

    // ---- registers
    logic        bvalid_q, rvalid_q;
    logic [1:0]  bresp_q, rresp_q;
    logic [31:0] rdata_q;
    logic wr, rd;
    assign wr = s_axil_awvalid && s_axil_wvalid && !bvalid_q;
    assign rd = s_axil_arvalid && !rvalid_q;
    assign s_axil_awready = wr;
    assign s_axil_wready = wr;
    assign s_axil_arready = rd;
    assign s_axil_bvalid = bvalid_q;
    assign s_axil_bresp = bresp_q;
    assign s_axil_rvalid = rvalid_q;
    assign s_axil_rresp = rresp_q;
    assign s_axil_rdata = rdata_q;
    assign irq = done;
    assign start = wr && s_axil_awaddr == 12'h1c && (s_axil_wdata[0] || s_axil_wdata[2]) && !busy;

    always_ff @(posedge clk) begin
        if (wr) begin
            bvalid_q <= 1'b1;
            bresp_q <= s_axil_awaddr > 12'h0ff ? 2'b10 : 2'b00;
            if (s_axil_wstrb == 4'hf && !busy) begin
                case (s_axil_awaddr)
                    12'h08: src_lo <= s_axil_wdata;
                    12'h0c: src_hi <= s_axil_wdata;
                    12'h10: dst_lo <= s_axil_wdata;
                    12'h14: dst_hi <= s_axil_wdata;
                    12'h18: beats <= s_axil_wdata;
                    default: ;
                endcase
            end
            if (s_axil_awaddr == 12'h1c && s_axil_wdata[1]) $fatal(1, "presil_stub_top: told to fail");
            if (s_axil_awaddr == 12'h1c && s_axil_wdata[3]) $stop;
        end else if (s_axil_bready) bvalid_q <= 1'b0;
        if (rd) begin
            rvalid_q <= 1'b1;
            rresp_q <= s_axil_araddr > 12'h0ff ? 2'b10 : 2'b00;
            case (s_axil_araddr)
                12'h00:  rdata_q <= 32'h50534c43;
                12'h04:  rdata_q <= WORD;
                12'h08:  rdata_q <= src_lo;
                12'h0c:  rdata_q <= src_hi;
                12'h10:  rdata_q <= dst_lo;
                12'h14:  rdata_q <= dst_hi;
                12'h18:  rdata_q <= beats;
                12'h20:  rdata_q <= {29'd0, bus_error, done, busy};
                12'h24:  rdata_q <= cycles;
                default: rdata_q <= 32'd0;
            endcase
        end else if (s_axil_rready) rvalid_q <= 1'b0;
        if (rst) begin
            bvalid_q <= 1'b0;
            rvalid_q <= 1'b0;
            {src_lo, src_hi, dst_lo, dst_hi, beats} <= '0;
        end
    end

    // ---- the copy: the reader's and the writer's chunk are counted; they are at most two apart
    logic [8*WORD-1:0] buffer[2*CHUNK];
    // beats not yet requested, read, announced, written; bursts not answered
    logic [31:0] ar_left, r_left, aw_left, w_left, b_left;
    logic [31:0] ar_chunk, r_chunk, w_chunk;
    logic [3:0]  r_at, w_at;
    logic [39:0] ar_addr, aw_addr;
    logic        w_open;  // AW of the chunk at w_chunk was accepted
    logic [31:0] ar_now, aw_now;
    assign ar_now = ar_left > CHUNK ? CHUNK : ar_left;
    assign aw_now = aw_left > CHUNK ? CHUNK : aw_left;

    assign {m_axi_arid, m_axi_awid} = {4'd2, 4'd3};
    assign {m_axi_arburst, m_axi_awburst} = {2'b01, 2'b01};
    assign {m_axi_arsize, m_axi_awsize} = {2{3'($clog2(WORD))}};
    assign m_axi_araddr = ar_addr ^ {27'd0, rude[0] && cycles[0], 12'd0};
    assign m_axi_awaddr = aw_addr;
    assign m_axi_arlen = 8'(ar_now - 1);
    assign m_axi_awlen = 8'(aw_now - 1);
    assign m_axi_arvalid = ar_left != 0 && ar_chunk - w_chunk < 2;
    assign m_axi_awvalid = aw_left != 0 && r_chunk != w_chunk && !w_open;
    assign m_axi_rready = 1'b1;
    assign m_axi_bready = 1'b1;
    assign m_axi_wvalid = w_open;
    assign m_axi_wdata = buffer[{w_chunk[0], w_at}];
    assign m_axi_wstrb = '1;
    assign m_axi_wlast = w_at == 4'(CHUNK - 1) || w_left == 1 || (rude[1] && w_at == 4'd3);

    always_ff @(posedge clk) begin
        if (m_axi_arvalid && m_axi_arready) begin
            ar_left <= ar_left - ar_now;
            ar_addr <= ar_addr + 40'(CHUNK * WORD);
            ar_chunk <= ar_chunk + 1;
        end
        if (m_axi_rvalid) begin
            buffer[{r_chunk[0], r_at}] <= m_axi_rdata;
            r_at <= m_axi_rlast ? 4'd0 : r_at + 1;
            r_left <= r_left - 1;
            if (m_axi_rlast) r_chunk <= r_chunk + 1;
        end
        if (m_axi_awvalid && m_axi_awready) begin
            aw_left <= aw_left - aw_now;
            aw_addr <= aw_addr + 40'(CHUNK * WORD);
            w_open <= 1'b1;
        end
        if (m_axi_wvalid && m_axi_wready) begin
            w_at <= m_axi_wlast ? 4'd0 : w_at + 1;
            w_left <= w_left - 1;
            if (m_axi_wlast) begin
                w_open <= 1'b0;
                w_chunk <= w_chunk + 1;
            end
        end
        if (m_axi_bvalid) b_left <= b_left - 1;
        if (m_axi_rvalid && (m_axi_rresp != 0 || m_axi_rid != 4'd2)) bus_error <= 1'b1;
        if (m_axi_bvalid && (m_axi_bresp != 0 || m_axi_bid != 4'd3)) bus_error <= 1'b1;
        if (busy) cycles <= cycles + 1;
        if (busy && !hang && {r_left, w_left, b_left} == '0) {busy, done} <= 2'b01;
        if (wr && s_axil_awaddr == 12'h20 && s_axil_wdata[1]) done <= 1'b0;
        if (wr && s_axil_awaddr == 12'h20 && s_axil_wdata[2]) bus_error <= 1'b0;
        if (start) begin
            {busy, done, hang, w_open} <= {2'b10, s_axil_wdata[2], 1'b0};
            rude <= s_axil_wdata[5:4];
            {ar_chunk, r_chunk, w_chunk, r_at, w_at, cycles} <= '0;
            ar_left <= s_axil_wdata[2] ? 0 : beats;
            r_left <= beats;
            aw_left <= beats;
            w_left <= beats;
            b_left <= (beats + CHUNK - 1) / CHUNK;
            ar_addr <= {src_hi[7:0], src_lo};
            aw_addr <= {dst_hi[7:0], dst_lo};
        end
        if (rst) begin
            {busy, done, bus_error, hang, w_open, rude} <= '0;
            {ar_left, r_left, aw_left, w_left, b_left, ar_chunk, r_chunk, w_chunk, r_at, w_at, cycles} <= '0;
        end
    end
endmodule
