// SPDX-License-Identifier: Apache-2.0
// A memory on the chip behind one of its AXI ports: one burst of reads and one of writes at a time, a beat a cycle.
// Latency: a request to its first beat one cycle, the last write beat to the response one. A beat outside of BASE to
// BASE + BYTES, and a wrong wlast, end the simulation. Reset: synchronous, forgets bursts, keeps the contents.
module presil_port_sram
    import presil_port_beat_pkg::*;
#(
    parameter int unsigned         WORD  = 8,  // bytes of the bus
    parameter int unsigned         ID    = 4,
    parameter int unsigned         ADDR  = 32,
    parameter logic        [63:0]  BASE  = '0,
    parameter int unsigned         BYTES = 4096
) (
    input  logic              clk,
    input  logic              rst,
    input  logic [ID-1:0]     arid,
    input  logic [ADDR-1:0]   araddr,
    input  logic [7:0]        arlen,
    input  logic [2:0]        arsize,
    input  logic [1:0]        arburst,
    input  logic              arvalid,
    output logic              arready,
    output logic [ID-1:0]     rid,
    output logic [8*WORD-1:0] rdata,
    output logic [1:0]        rresp,
    output logic              rlast,
    output logic              rvalid,
    input  logic              rready,
    input  logic [ID-1:0]     awid,
    input  logic [ADDR-1:0]   awaddr,
    input  logic [7:0]        awlen,
    input  logic [2:0]        awsize,
    input  logic [1:0]        awburst,
    input  logic              awvalid,
    output logic              awready,
    input  logic [8*WORD-1:0] wdata,
    input  logic [WORD-1:0]   wstrb,
    input  logic              wlast,
    input  logic              wvalid,
    output logic              wready,
    output logic [ID-1:0]     bid,
    output logic [1:0]        bresp,
    output logic              bvalid,
    input  logic              bready
);
    localparam int unsigned LW = $clog2(WORD);
    logic [8*WORD-1:0] memory[BYTES/WORD];
    beat_t r, w;
    logic [63:0] r_page, w_page, r_at, w_at;  // address of the 4 KiB; of the beat in the memory
    logic [7:0] r_left, w_left;
    logic r_busy, w_busy;

    assign r_at = (r_page | 64'(r.addr)) - BASE;
    assign w_at = (w_page | 64'(w.addr)) - BASE;
    assign arready = !r_busy && !rst;
    assign rvalid  = r_busy;
    assign rlast   = r_left == 0;
    assign rresp   = 2'd0;
    assign bresp   = 2'd0;
    assign rdata   = r_at < 64'(BYTES) ? memory[r_at[31:LW]] : '0;
    assign awready = !w_busy && !bvalid && !rst;
    assign wready  = w_busy;

    always_ff @(posedge clk) begin
        if (arvalid && arready) begin
            r_busy <= 1'b1;
            {r_page, rid, r_left} <= {64'(araddr) & ~64'hfff, arid, arlen};
            r <= '{addr: araddr[11:0], len: arlen, size: arsize, burst: arburst};
        end
        if (rvalid && rready) begin
            r_left <= r_left - 8'd1;
            r.addr <= next(r);
            r_busy <= !rlast;
        end
        if (awvalid && awready) begin
            w_busy <= 1'b1;
            {w_page, bid, w_left} <= {64'(awaddr) & ~64'hfff, awid, awlen};
            w <= '{addr: awaddr[11:0], len: awlen, size: awsize, burst: awburst};
        end
        if (wvalid && wready) begin
            w.addr <= next(w);
            w_left <= w_left - 8'd1;
            for (int i = 0; i < WORD; i++) if (wstrb[i]) memory[w_at[31:LW]][8*i+:8] <= wdata[8*i+:8];
            if (wlast) {w_busy, bvalid} <= 2'b01;
            if (!rst && wlast != (w_left == 0))
                $fatal(1, "the memory on the chip: WLAST is wrong at beat %0d of a burst of %0d", w.len - w_left,
                       9'(w.len) + 1);
            if (!rst && w_at >= 64'(BYTES))
                $fatal(1, "the memory on the chip: a write at 0x%0h is outside of 0x%0h to 0x%0h", w_at + BASE, BASE,
                       BASE + BYTES);
        end
        if (rvalid && !rst && r_at >= 64'(BYTES))
            $fatal(1, "the memory on the chip: a read at 0x%0h is outside of 0x%0h to 0x%0h", r_at + BASE, BASE,
                   BASE + BYTES);
        if (bvalid && bready) bvalid <= 1'b0;
        if (rst) {r_busy, w_busy, bvalid} <= '0;
    end
endmodule
