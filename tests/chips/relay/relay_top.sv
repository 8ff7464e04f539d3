// SPDX-License-Identifier: Apache-2.0
// relay_top: a chip that takes four jobs before the first is over. A job copies beats, and may negate bytes or go by
// way of scratch memory. Jobs run one after the other: the next begins when the last write of the one before was
// answered. A job that meets a bus error, or is told to hang, is the last: nothing begins behind it until reset.
//
// Registers (32 bits; byte offsets; others read 0 and ignore writes, accesses above 0xff answer SLVERR):
//   0x00 ID    0x52454c41    0x04 WORD  bytes of a bus beat
//   0x08 SRC_LO  0x0c SRC_HI  0x10 DST_LO  0x14 DST_HI  0x18 VIA_LO  0x1c VIA_HI: multiples of CHUNK*WORD bytes
//   0x20 BEATS   0 ...; 0 does nothing
//   0x24 PUSH    the job: 1 negates bytes, 2 goes by way of VIA, 4 hangs, 8 $fatal in its cycle 20; ignored when full
//   0x28 OVER    jobs that are over, since reset      0x2c FAILED   1: a bus error
//   0x30 IRQ     1: a job is over, 2: a chunk was written; write 1 to clear
//   0x34 MASK    of irq, as IRQ                       0x38 CHUNKS   that were written, since reset
//   0x40 CYCLES  eight words: of job n, from its start to its end, in word n % 8
// Throughput: one beat a cycle each way. Reset clears all but the buffers.
module relay_top #(
    parameter int unsigned WORD = 16  // bytes of a bus beat
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
    localparam int unsigned DEPTH = 4;

    typedef struct packed {
        logic [39:0] src, dst, via;
        logic [31:0] beats;
        logic [3:0]  how;
    } job_t;

    job_t jobs[DEPTH];
    job_t now;
    logic [39:0] src, dst, via;
    logic [31:0] beats, over, chunks, cycles;
    logic [31:0] took[8];
    logic [2:0] count;
    logic [1:0] first, irq_q, mask;
    logic busy, second, failed, finished, pop, push, begin_job, begin_second, chunk_over;

    // ---- registers
    logic        bvalid_q, rvalid_q;
    logic [1:0]  bresp_q, rresp_q;
    logic [31:0] rdata_q;
    logic wr, rd, wr_full;
    assign wr = s_axil_awvalid && s_axil_wvalid && !bvalid_q;
    assign rd = s_axil_arvalid && !rvalid_q;
    assign wr_full = wr && s_axil_wstrb == 4'hf;
    assign s_axil_awready = wr;
    assign s_axil_wready = wr;
    assign s_axil_arready = rd;
    assign s_axil_bvalid = bvalid_q;
    assign s_axil_bresp = bresp_q;
    assign s_axil_rvalid = rvalid_q;
    assign s_axil_rresp = rresp_q;
    assign s_axil_rdata = rdata_q;
    assign irq = |(irq_q & mask);
    assign push = wr_full && s_axil_awaddr == 12'h24 && count != 3'(DEPTH);

    always_ff @(posedge clk) begin
        if (wr) begin
            bvalid_q <= 1'b1;
            bresp_q <= s_axil_awaddr > 12'h0ff ? 2'b10 : 2'b00;
        end else if (s_axil_bready) bvalid_q <= 1'b0;
        if (wr_full) begin
            case (s_axil_awaddr)
                12'h08: src[31:0] <= s_axil_wdata;
                12'h0c: src[39:32] <= s_axil_wdata[7:0];
                12'h10: dst[31:0] <= s_axil_wdata;
                12'h14: dst[39:32] <= s_axil_wdata[7:0];
                12'h18: via[31:0] <= s_axil_wdata;
                12'h1c: via[39:32] <= s_axil_wdata[7:0];
                12'h20: beats <= s_axil_wdata;
                12'h34: mask <= s_axil_wdata[1:0];
                default: ;
            endcase
        end
        if (rd) begin
            rvalid_q <= 1'b1;
            rresp_q <= s_axil_araddr > 12'h0ff ? 2'b10 : 2'b00;
            case (s_axil_araddr)
                12'h00:  rdata_q <= 32'h52454c41;
                12'h04:  rdata_q <= WORD;
                12'h28:  rdata_q <= over;
                12'h2c:  rdata_q <= {31'd0, failed};
                12'h30:  rdata_q <= {30'd0, irq_q};
                12'h34:  rdata_q <= {30'd0, mask};
                12'h38:  rdata_q <= chunks;
                default: rdata_q <= s_axil_araddr[11:5] == 7'd2 ? took[s_axil_araddr[4:2]] : 32'd0;
            endcase
        end else if (s_axil_rready) rvalid_q <= 1'b0;
        irq_q <= (irq_q & ~(wr_full && s_axil_awaddr == 12'h30 ? s_axil_wdata[1:0] : 2'd0)) |
                 {chunk_over, pop || (busy && failed)};
        if (rst) begin
            {bvalid_q, rvalid_q, mask, irq_q} <= '0;
            {src, dst, via, beats} <= '0;
        end
    end

    // ---- jobs
    assign now = jobs[first];
    assign begin_job = count != 0 && !busy && !failed;
    assign finished = busy && !failed && !now.how[2] && {r_left, w_left, b_left} == '0;
    assign begin_second = finished && now.how[1] && !second;
    assign pop = finished && !begin_second;

    always_ff @(posedge clk) begin
        if (push) jobs[2'(first + count)] <= {src, dst, via, beats, s_axil_wdata[3:0]};
        count <= count + 3'(push) - 3'(pop);
        if (busy) cycles <= cycles + 1;
        if (busy && now.how[3] && cycles == 32'd20) $fatal(1, "relay_top: told to fail");
        if (begin_job) begin
            busy <= 1'b1;
            second <= 1'b0;
            cycles <= '0;
        end
        if (begin_second) second <= 1'b1;
        if (pop) begin
            busy <= 1'b0;
            first <= first + 1;
            over <= over + 1;
            took[over[2:0]] <= cycles;
        end
        if (chunk_over) chunks <= chunks + 1;
        if (m_axi_rvalid && (m_axi_rresp != 0 || m_axi_rid != 4'd2)) failed <= 1'b1;
        if (m_axi_bvalid && (m_axi_bresp != 0 || m_axi_bid != 4'd3)) failed <= 1'b1;
        if (rst) begin
            {busy, second, failed, count, first, over, chunks, cycles} <= '0;
            for (int i = 0; i < 8; i++) took[i] <= '0;
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
    logic        negates;
    assign ar_now = ar_left > CHUNK ? CHUNK : ar_left;
    assign aw_now = aw_left > CHUNK ? CHUNK : aw_left;
    assign negates = now.how[0] && (second || !now.how[1]);
    assign chunk_over = m_axi_bvalid;

    assign {m_axi_arid, m_axi_awid} = {4'd2, 4'd3};
    assign {m_axi_arburst, m_axi_awburst} = {2'b01, 2'b01};
    assign {m_axi_arsize, m_axi_awsize} = {2{3'($clog2(WORD))}};
    assign m_axi_araddr = ar_addr;
    assign m_axi_awaddr = aw_addr;
    assign m_axi_arlen = 8'(ar_now - 1);
    assign m_axi_awlen = 8'(aw_now - 1);
    assign m_axi_arvalid = ar_left != 0 && ar_chunk - w_chunk < 2;
    assign m_axi_awvalid = aw_left != 0 && r_chunk != w_chunk && !w_open;
    assign m_axi_rready = 1'b1;
    assign m_axi_bready = 1'b1;
    assign m_axi_wvalid = w_open;
    assign m_axi_wstrb = '1;
    assign m_axi_wlast = w_at == 4'(CHUNK - 1) || w_left == 1;
    for (genvar i = 0; i < int'(WORD); i++) begin : g_byte
        logic [7:0] value;
        assign value = buffer[{w_chunk[0], w_at}][8*i+:8];
        assign m_axi_wdata[8*i+:8] = negates ? -value : value;
    end

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
        if (begin_job || begin_second) begin
            {ar_chunk, r_chunk, w_chunk, r_at, w_at, w_open} <= '0;
            ar_left <= now.how[2] ? 0 : now.beats;
            r_left <= now.beats;
            aw_left <= now.beats;
            w_left <= now.beats;
            b_left <= (now.beats + CHUNK - 1) / CHUNK;
            ar_addr <= begin_second ? now.via : now.src;
            aw_addr <= now.how[1] && !begin_second ? now.via : now.dst;
        end
        if (rst) {ar_left, r_left, aw_left, w_left, b_left, ar_chunk, r_chunk, w_chunk, r_at, w_at, w_open} <= '0;
    end
endmodule
