// SPDX-License-Identifier: Apache-2.0
// A matrix product, and nothing else: C[M][N] (int32) = A[M][K] (int8) * B[N][K] (int8), one row of A at a time. The
// row waits in a buffer; the rows of B stream past it, 16 products a cycle; each sum goes to memory as it is done.
// It also copies: rows of A to rows of C as they are. Registers: chip/toy_registers.h.
module toy_top (
    input  logic         clk,
    input  logic         rst,
    output logic         irq,
    // registers: AXI4-Lite
    input  logic [ 11:0] s_axil_awaddr,
    input  logic         s_axil_awvalid,
    output logic         s_axil_awready,
    input  logic [ 31:0] s_axil_wdata,
    input  logic [  3:0] s_axil_wstrb,
    input  logic         s_axil_wvalid,
    output logic         s_axil_wready,
    output logic [  1:0] s_axil_bresp,
    output logic         s_axil_bvalid,
    input  logic         s_axil_bready,
    input  logic [ 11:0] s_axil_araddr,
    input  logic         s_axil_arvalid,
    output logic         s_axil_arready,
    output logic [ 31:0] s_axil_rdata,
    output logic [  1:0] s_axil_rresp,
    output logic         s_axil_rvalid,
    input  logic         s_axil_rready,
    // memory: AXI4, 128 bits
    output logic [  0:0] m_axi_awid,
    output logic [ 39:0] m_axi_awaddr,
    output logic [  7:0] m_axi_awlen,
    output logic [  2:0] m_axi_awsize,
    output logic [  1:0] m_axi_awburst,
    output logic         m_axi_awvalid,
    input  logic         m_axi_awready,
    output logic [127:0] m_axi_wdata,
    output logic [ 15:0] m_axi_wstrb,
    output logic         m_axi_wlast,
    output logic         m_axi_wvalid,
    input  logic         m_axi_wready,
    input  logic [  0:0] m_axi_bid,
    input  logic [  1:0] m_axi_bresp,
    input  logic         m_axi_bvalid,
    output logic         m_axi_bready,
    output logic [  0:0] m_axi_arid,
    output logic [ 39:0] m_axi_araddr,
    output logic [  7:0] m_axi_arlen,
    output logic [  2:0] m_axi_arsize,
    output logic [  1:0] m_axi_arburst,
    output logic         m_axi_arvalid,
    input  logic         m_axi_arready,
    input  logic [  0:0] m_axi_rid,
    input  logic [127:0] m_axi_rdata,
    input  logic [  1:0] m_axi_rresp,
    input  logic         m_axi_rlast,
    input  logic         m_axi_rvalid,
    output logic         m_axi_rready
);
    localparam logic [31:0] ID = 32'h544f_5931;
    localparam int unsigned REGISTERS = 13;  // 0x04 A_LO .. 0x30 C_STRIDE, and 0x00, which reads ID

    // ---- registers
    logic [31:0] regs[REGISTERS];
    logic [31:0] cycles, mac_cycles;
    logic busy, done, error, copying;
    logic write, read, start;
    assign write = s_axil_awvalid && s_axil_wvalid && !s_axil_bvalid;
    assign read = s_axil_arvalid && !s_axil_rvalid;
    assign {s_axil_awready, s_axil_wready, s_axil_arready} = {write, write, read};
    assign start = write && s_axil_awaddr == 12'h034 && s_axil_wdata[1:0] != 0 && !busy;
    assign irq = done;

    always_ff @(posedge clk) begin
        if (s_axil_bready) s_axil_bvalid <= 1'b0;
        if (s_axil_rready) s_axil_rvalid <= 1'b0;
        if (write) begin
            s_axil_bvalid <= 1'b1;
            s_axil_bresp <= s_axil_awaddr > 12'h040 ? 2'b10 : 2'b00;
            if (s_axil_awaddr[11:2] != 0 && s_axil_awaddr[11:2] < REGISTERS && !busy)
                for (int b = 0; b < 4; b++)
                    if (s_axil_wstrb[b]) regs[s_axil_awaddr[5:2]][8*b+:8] <= s_axil_wdata[8*b+:8];
        end
        if (read) begin
            s_axil_rvalid <= 1'b1;
            s_axil_rresp <= s_axil_araddr > 12'h040 ? 2'b10 : 2'b00;
            case (s_axil_araddr)
                12'h000: s_axil_rdata <= ID;
                12'h034: s_axil_rdata <= 32'd0;
                12'h038: s_axil_rdata <= {29'd0, error, done, busy};
                12'h03c: s_axil_rdata <= cycles;
                12'h040: s_axil_rdata <= mac_cycles;
                default: s_axil_rdata <= s_axil_araddr[11:2] < REGISTERS ? regs[s_axil_araddr[5:2]] : 32'd0;
            endcase
        end
        if (rst) begin
            {s_axil_bvalid, s_axil_rvalid} <= '0;
            for (int i = 0; i < REGISTERS; i++) regs[i] <= '0;
        end
    end

    logic [39:0] a, b, c;
    logic [31:0] m, n, k, a_stride, b_stride, c_stride;
    logic [8:0] beats;  // of a row, 1 to 256
    assign {a, b, c} = {regs[2][7:0], regs[1], regs[4][7:0], regs[3], regs[6][7:0], regs[5]};
    assign {m, n, k, a_stride, b_stride, c_stride} = {regs[7], regs[8], regs[9], regs[10], regs[11], regs[12]};
    assign beats = 9'((k + 15) >> 4);

    // ---- reads: rows of A or B, in bursts that end at 4 KiB
    logic [39:0] row, at, next_row;  // row: its first byte; at: of the next burst
    logic [31:0] rows;
    logic [8:0] left, burst, room;
    assign next_row = row + 40'(fetching_b ? b_stride : a_stride);
    assign room = 9'(9'd256 - 9'(at[11:4]));
    assign burst = left < room ? left : room;
    assign m_axi_arvalid = left != 0;
    assign m_axi_araddr = at;
    assign m_axi_arlen = 8'(burst - 9'd1);
    assign {m_axi_arid, m_axi_arsize, m_axi_arburst} = {1'b0, 3'd4, 2'b01};

    // ---- the row of A, the sums, and one write at a time
    typedef enum logic [1:0] {IDLE, LOAD, STREAM, DRAIN} state_t;
    state_t state;
    logic [127:0] buffer[256];
    logic [31:0] row_m, row_n, sum, products;
    logic [8:0] beat;
    logic fetching_b, last, writing, take;
    logic [39:0] c_row;
    logic [15:0] keep;  // bytes of this beat that belong to the row
    logic [31:0] open_writes;
    assign last = beat + 9'd1 == beats;
    assign writing = m_axi_awvalid || m_axi_wvalid;
    assign keep = !last || k[3:0] == 0 ? 16'hffff : ~(16'hffff << k[3:0]);
    // Of B, the beat that ends a sum waits until the sum before it is on its way.
    assign m_axi_rready = state == LOAD || (state == STREAM && !copying && !(last && writing));
    assign take = m_axi_rvalid && m_axi_rready;
    always_comb begin
        products = 0;
        for (int i = 0; i < 16; i++)
            if (keep[i]) products += 32'($signed(buffer[beat[7:0]][8*i+:8]) * 32'($signed(m_axi_rdata[8*i+:8])));
    end

    assign {m_axi_awid, m_axi_awlen, m_axi_awsize, m_axi_awburst} = {1'b0, 8'd0, 3'd4, 2'b01};
    assign {m_axi_wlast, m_axi_bready} = 2'b11;

    always_ff @(posedge clk) begin
        if (m_axi_awready) m_axi_awvalid <= 1'b0;
        if (m_axi_wready) m_axi_wvalid <= 1'b0;
        if (m_axi_arvalid && m_axi_arready) begin
            left <= left - burst;
            at <= at + {27'd0, burst, 4'd0};
            if (left == burst && rows > 1) {row, at, rows, left} <= {next_row, next_row, rows - 1, beats};
        end
        if (take) begin
            beat <= last ? 9'd0 : beat + 9'd1;
            if (m_axi_rresp != 0) error <= 1'b1;
        end

        if (state == LOAD && take) begin
            buffer[beat[7:0]] <= m_axi_rdata;
            if (last) begin
                state <= STREAM;
                {row_n, sum} <= '0;
                if (!copying) {fetching_b, row, at, rows, left} <= {1'b1, b, b, n, beats};
            end
        end
        if (state == STREAM && !copying && take) begin
            sum <= last ? 32'd0 : sum + products;
            if (last) begin
                m_axi_awaddr <= {c_row[39:4], 4'd0} + {6'd0, row_n + 32'(c_row[3:2]), 2'd0};
                m_axi_wdata <= {4{sum + products}};
                m_axi_wstrb <= 16'hf << {row_n[1:0] + c_row[3:2], 2'd0};
                row_n <= row_n + 1;
            end
        end
        if (state == STREAM && copying && !writing) begin
            m_axi_awaddr <= c_row + {27'd0, beat, 4'd0};
            m_axi_wdata <= buffer[beat[7:0]];
            m_axi_wstrb <= keep;
            beat <= last ? 9'd0 : beat + 9'd1;
        end
        if (state == STREAM && ((copying && !writing) || (!copying && take && last))) begin
            {m_axi_awvalid, m_axi_wvalid} <= 2'b11;
            open_writes <= open_writes + 1 - 32'(m_axi_bvalid);
            if (last && (copying || row_n + 1 == n)) begin
                row_m <= row_m + 1;
                c_row <= c_row + 40'(c_stride);
                state <= row_m + 1 == m ? DRAIN : LOAD;
                {fetching_b, rows, left} <= {1'b0, 32'd1, row_m + 1 == m ? 9'd0 : beats};
                {row, at} <= {2{a + 40'(row_m + 1) * 40'(a_stride)}};
            end
        end else open_writes <= open_writes - 32'(m_axi_bvalid);
        if (m_axi_bvalid && m_axi_bresp != 0) error <= 1'b1;
        if (state == DRAIN && open_writes == 0) begin
            state <= IDLE;
            {busy, done} <= 2'b01;
        end

        if (busy) cycles <= cycles + 1;
        if (state == STREAM && take) mac_cycles <= mac_cycles + 1;
        if (write && s_axil_awaddr == 12'h038) begin
            if (s_axil_wdata[1]) done <= 1'b0;
            if (s_axil_wdata[2]) error <= 1'b0;
        end
        if (start) begin
            {busy, copying, fetching_b} <= {1'b1, s_axil_wdata[1], 1'b0};
            {cycles, mac_cycles, row_m, beat, open_writes} <= '0;
            state <= m == 0 ? DRAIN : LOAD;
            {row, at, rows, left} <= {a, a, 32'd1, m == 0 ? 9'd0 : beats};
            c_row <= c;
        end
        if (rst) begin
            state <= IDLE;
            {busy, done, error, m_axi_awvalid, m_axi_wvalid, left, cycles, mac_cycles, open_writes} <= '0;
        end
    end
endmodule
