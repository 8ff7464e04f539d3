// SPDX-License-Identifier: Apache-2.0
// presil_burst_top: an AXI4 master with the ports of presil_top that asks for whatever bursts it is told: any size,
// length, type, alignment and ID, legal or not. It keeps what comes back, beat by beat as it was on the bus.
//
// Registers (32 bits; byte offsets; others read 0 and ignore writes):
//   0x00 ID       0x42525354                0x04 WORD     bytes of a bus beat
//   0x08 ADDR_LO   0x0c ADDR_HI
//   0x10 SHAPE    7:0 length, 10:8 size, 13:12 burst, 31 write: puts a burst at ADDR with NEXT_ID into the queue of
//                 the reads or the writes, 16 each
//   0x14 CONTROL  1 start, 2 forget all (also what was kept)
//   0x18 LAZY     chance in 256ths that RREADY and BREADY are low in a cycle
//   0x1c BREACH   of the protocol, while it runs: 1 ARADDR changes, 2 ARVALID falls, 3 AWLEN changes, 4 AWVALID falls,
//                 5 WDATA changes, 6 WVALID falls, 7 WSTRB changes, 8 WLAST changes, 9 WLAST comes early, 10 never,
//                 11 strobes on all lanes
//   0x20 STATUS   1 done (is irq)           0x24 BEATS    R beats kept, up to 4096     0x28 ANSWERS  B kept
//   0x2c SELECT   which of them             0x30 BEAT     4 last, 3:2 response of it
//   0x34 ANSWER   3:2 response              0x38 HOLES    1: strobes only where the data byte is no multiple of 4
//   0x3c SEED     of the data               0x40 ...      the beat's WORD / 4 words
//   0xd0 NEXT_ID                            0xd4 ID_BITS
//   0xd8 BEAT_ID                            0xdc ANSWER_ID
// Byte `lane` of the write beat n since start is SEED + 73 * (37 * n + lane) + 11 * (n >> 3); lanes that a beat doesn't
// move carry the complement, without strobe. W doesn't wait for AW.
module presil_burst_top #(
    parameter int unsigned WORD = 16,  // bytes of a bus beat, 4 to 128
    parameter int unsigned ID   = 4    // bits of an ID, 1 to 32
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
    output logic [ID-1:0]     m_axi_awid,
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
    input  logic [ID-1:0]     m_axi_bid,
    input  logic [1:0]        m_axi_bresp,
    input  logic              m_axi_bvalid,
    output logic              m_axi_bready,
    output logic [ID-1:0]     m_axi_arid,
    output logic [39:0]       m_axi_araddr,
    output logic [7:0]        m_axi_arlen,
    output logic [2:0]        m_axi_arsize,
    output logic [1:0]        m_axi_arburst,
    output logic              m_axi_arvalid,
    input  logic              m_axi_arready,
    input  logic [ID-1:0]     m_axi_rid,
    input  logic [8*WORD-1:0] m_axi_rdata,
    input  logic [1:0]        m_axi_rresp,
    input  logic              m_axi_rlast,
    input  logic              m_axi_rvalid,
    output logic              m_axi_rready
);
    typedef struct packed {
        logic [39:0] addr;
        logic [ID-1:0] id;
        logic [1:0]  burst;
        logic [2:0]  size;
        logic [7:0]  len;
    } request_t;

    localparam int unsigned LW = $clog2(WORD), KEPT = 4096;

    request_t reads[16], writes[16];
    logic [4:0] ar_n, aw_n, w_n, reads_n, writes_n;  // sent; put in
    logic [31:0] addr_lo, addr_hi, seed, select;
    logic [ID-1:0] next_id;
    logic [7:0] lazy;
    logic [3:0] breach;
    logic holes, running, done, tick;
    logic [15:0] noise;

    // ---- registers
    logic        bvalid_q, rvalid_q, wr, rd, push, clear;
    logic [31:0] rdata_q;
    assign wr = s_axil_awvalid && s_axil_wvalid && !bvalid_q;
    assign rd = s_axil_arvalid && !rvalid_q;
    assign {s_axil_awready, s_axil_wready, s_axil_arready} = {wr, wr, rd};
    assign {s_axil_bvalid, s_axil_bresp, s_axil_rvalid, s_axil_rresp} = {bvalid_q, 2'b00, rvalid_q, 2'b00};
    assign s_axil_rdata = rdata_q;
    assign irq = done;
    assign push = wr && s_axil_awaddr == 12'h10;
    assign clear = wr && s_axil_awaddr == 12'h14 && s_axil_wdata[1];

    logic [8*WORD-1:0] kept[KEPT], shown;
    logic [ID+2:0]     kept_info[KEPT];  // ID, response, last
    logic [ID+1:0]     answers[16];
    logic [12:0]       beats;
    logic [4:0]        b_n, lasts;
    assign shown = kept[select[11:0]];

    always_ff @(posedge clk) begin
        if (wr) begin
            bvalid_q <= 1'b1;
            case (s_axil_awaddr)
                12'h08:  addr_lo <= s_axil_wdata;
                12'h0c:  addr_hi <= s_axil_wdata;
                12'h18:  lazy <= s_axil_wdata[7:0];
                12'h1c:  breach <= s_axil_wdata[3:0];
                12'h2c:  select <= s_axil_wdata;
                12'h38:  holes <= s_axil_wdata[0];
                12'h3c:  seed <= s_axil_wdata;
                12'hd0:  next_id <= s_axil_wdata[ID-1:0];
                default: ;
            endcase
        end else if (s_axil_bready) bvalid_q <= 1'b0;
        if (rd) begin
            rvalid_q <= 1'b1;
            case (s_axil_araddr)
                12'h00:  rdata_q <= 32'h42525354;
                12'h04:  rdata_q <= WORD;
                12'h20:  rdata_q <= {31'd0, done};
                12'h24:  rdata_q <= {19'd0, beats};
                12'h28:  rdata_q <= {27'd0, b_n};
                12'h30:  rdata_q <= {27'd0, kept_info[select[11:0]][0], kept_info[select[11:0]][2:1], 2'd0};
                12'h34:  rdata_q <= {28'd0, answers[select[3:0]][1:0], 2'd0};
                12'hd4:  rdata_q <= ID;
                12'hd8:  rdata_q <= 32'(kept_info[select[11:0]][ID+2:3]);
                12'hdc:  rdata_q <= 32'(answers[select[3:0]][ID+1:2]);
                default: rdata_q <= s_axil_araddr >= 12'h40 && s_axil_araddr < 12'(32'h40 + WORD)
                                    ? shown[8*(s_axil_araddr - 12'h40)+:32] : 32'd0;
            endcase
        end else if (s_axil_rready) rvalid_q <= 1'b0;
        if (rst) begin
            {bvalid_q, rvalid_q, holes, lazy, breach} <= '0;
            {addr_lo, addr_hi, seed, select, next_id} <= '0;
        end
    end

    // ---- requests
    request_t ar, aw, w;
    assign ar = reads[ar_n[3:0]];
    assign aw = writes[aw_n[3:0]];
    assign w = writes[w_n[3:0]];
    assign m_axi_arvalid = running && ar_n != reads_n && !(breach == 4'd2 && tick);
    assign m_axi_araddr = ar.addr ^ (breach == 4'd1 && tick ? 40'h1000 : 40'd0);
    assign {m_axi_arid, m_axi_arburst, m_axi_arsize, m_axi_arlen} = {ar.id, ar.burst, ar.size, ar.len};
    assign m_axi_awvalid = running && aw_n != writes_n && !(breach == 4'd4 && tick);
    assign m_axi_awaddr = aw.addr;
    assign m_axi_awlen = aw.len ^ {7'd0, breach == 4'd3 && tick};
    assign {m_axi_awid, m_axi_awburst, m_axi_awsize} = {aw.id, aw.burst, aw.size};

    // ---- write data
    logic [39:0] w_addr, w_start, w_beat, w_next, w_wrap;  // of this beat, of the next; its start; mask
    logic        w_first;
    logic [7:0]  w_at;
    logic [31:0] w_beats, w_phase;  // since start
    assign w_addr = w_first ? w.addr : w_start;
    assign w_beat = w_addr >> w.size << w.size;
    assign w_wrap = ((40'(w.len) + 40'd1) << w.size) - 40'd1;
    always_comb begin
        w_next = w_beat + (40'd1 << w.size);
        if (w.burst == 2'd0) w_next = w_addr;
        if (w.burst == 2'd2 && (w_next & w_wrap) == '0) w_next = w_next - w_wrap - 40'd1;
    end
    always_comb begin
        w_phase = seed + 32'd73 * 32'd37 * w_beats + 32'd11 * (w_beats >> 3);
        if (breach == 4'd5 && tick) w_phase = w_phase + 32'd128;
        for (int lane = 0; lane < WORD; lane++) begin
            automatic logic [7:0] value = 8'(w_phase + 32'd73 * 32'(lane));
            automatic logic [39:0] at = (w_addr >> LW << LW) + 40'(lane);
            automatic logic moves = at >= w_addr && at < w_beat + (40'd1 << w.size);
            m_axi_wdata[8*lane+:8] = moves ? value : ~value;
            m_axi_wstrb[lane] = (moves && !(holes && value[1:0] == 2'd0)) || breach == 4'd11;
        end
        if (breach == 4'd7 && tick) m_axi_wstrb = '0;
    end
    assign m_axi_wvalid = running && w_n != writes_n && !(breach == 4'd6 && tick);
    assign m_axi_wlast = breach == 4'd9 ? w_at == 8'd1
                         : (w_at == w.len && breach != 4'd10) ^ (breach == 4'd8 && tick);

    // ---- what comes back
    assign m_axi_rready = noise[7:0] >= lazy;
    assign m_axi_bready = noise[15:8] >= lazy;

    always_ff @(posedge clk) begin
        tick <= !tick;
        noise <= {noise[14:0], noise[15] ^ noise[13] ^ noise[12] ^ noise[10]};
        if (push && s_axil_wdata[31]) begin
            writes[writes_n[3:0]] <= {addr_hi[7:0], addr_lo, next_id, s_axil_wdata[13:12],
                                      s_axil_wdata[10:8], s_axil_wdata[7:0]};
            writes_n <= writes_n + 1;
        end
        if (push && !s_axil_wdata[31]) begin
            reads[reads_n[3:0]] <= {addr_hi[7:0], addr_lo, next_id, s_axil_wdata[13:12],
                                    s_axil_wdata[10:8], s_axil_wdata[7:0]};
            reads_n <= reads_n + 1;
        end
        if (wr && s_axil_awaddr == 12'h14 && s_axil_wdata[0]) begin
            running <= 1'b1;
            noise <= 16'hace1;
            tick <= 1'b0;
        end
        if (m_axi_arvalid && m_axi_arready) ar_n <= ar_n + 1;
        if (m_axi_awvalid && m_axi_awready) aw_n <= aw_n + 1;
        if (m_axi_wvalid && m_axi_wready) begin
            w_at <= w_at == w.len ? 8'd0 : w_at + 1;
            w_first <= w_at == w.len;
            w_start <= w_next;
            w_beats <= w_beats + 1;
            if (w_at == w.len) w_n <= w_n + 1;
        end
        if (m_axi_rvalid && m_axi_rready) begin
            kept[beats[11:0]] <= m_axi_rdata;
            kept_info[beats[11:0]] <= {m_axi_rid, m_axi_rresp, m_axi_rlast};
            beats <= beats + 1;
            if (m_axi_rlast) lasts <= lasts + 1;
        end
        if (m_axi_bvalid && m_axi_bready) begin
            answers[b_n[3:0]] <= {m_axi_bid, m_axi_bresp};
            b_n <= b_n + 1;
        end
        if (running && lasts == reads_n && b_n == writes_n) {running, done} <= 2'b01;
        if (rst || clear) begin
            {ar_n, aw_n, w_n, reads_n, writes_n, beats, b_n, lasts, w_at, w_beats, w_start} <= '0;
            {running, done, tick} <= '0;
            {w_first, noise} <= {1'b1, 16'hace1};
        end
    end
endmodule
