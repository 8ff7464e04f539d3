// SPDX-License-Identifier: Apache-2.0
// Writes an operation's output buffer to DRAM: words are joined to beats, whatever their alignment; bytes outside of
// the runs are not strobed. A burst's data follow its address.
module sa16_store
    import sa16_pkg::*;
(
    input  logic         clk,
    input  logic         rst,
    input  logic         start,    // one cycle; t stays until done
    input  transfer_t    t,
    output logic         busy,
    output logic         moved,
    // local buffer: q stands from the cycle behind re
    output logic         re,
    output logic [12:0]  raddr,
    input  logic [127:0] q,
    // AXI
    output logic [39:0]  awaddr,
    output logic [7:0]   awlen,
    output logic         awvalid,
    input  logic         awready,
    output logic [127:0] wdata,
    output logic [15:0]  wstrb,
    output logic         wlast,
    output logic         wvalid,
    input  logic         wready,
    input  logic         bvalid
);
    localparam logic [4:0] MOST = 5'd16;  // bursts under way

    logic runs_active, words_active, begin_job;
    logic [4:0] beats, granted, open;
    assign awlen = {3'd0, beats} - 8'd1;
    sa16_runs u_runs (
        .clk, .rst, .start(begin_job), .t, .bytes(run_bytes(t.px, t.nb, t.tail)), .grant(open != MOST),
        .active(runs_active), .valid(awvalid), .ready(awready), .address(awaddr), .beats);

    logic [12:0] local_at;
    logic [4:0] size;
    logic run_first, run_last;
    logic [7:0] run_low;
    sa16_words u_words (
        .clk, .rst, .start(begin_job), .t, .step(re), .active(words_active), .local_at, .bytes(size), .run_first,
        .run_last, .run_low);

    // a word out of the buffer, with what is known of it
    logic have, have_first, have_last, take;
    logic [4:0] have_size;
    logic [7:0] have_low;
    assign raddr = local_at;
    assign re = words_active && (!have || take);

    // the window: count bytes, of which the strobed ones are written; flush: the run ends with it
    logic [255:0] window, window_sent, window_next;
    logic [31:0] strobes, strobes_sent, strobes_next;
    logic [5:0] count, count_sent, offset;
    logic flush, emit, last_beat;
    logic [3:0] beat;  // of 16 up to a border of 256 bytes
    assign last_beat = beat == 4'd15 || (flush && count <= 6'd16);
    assign emit = (count >= 6'd16 || (flush && count != 6'd0)) && granted != 5'd0 && (!wvalid || wready);
    assign count_sent = !emit ? count : count <= 6'd16 ? 6'd0 : count - 6'd16;
    assign take = have && (have_first ? count_sent == 6'd0 : count_sent <= 6'd16);
    assign offset = have_first ? {2'd0, have_low[3:0]} : count_sent;
    always_comb begin
        window_sent = emit ? window >> 128 : window;
        strobes_sent = emit ? strobes >> 16 : strobes;
        window_next = window_sent;
        strobes_next = strobes_sent;
        if (take) begin
            window_next = (window_sent & ~(~256'd0 << {offset, 3'd0})) | ({128'd0, q} << {offset, 3'd0});
            strobes_next = (have_first ? 32'd0 : strobes_sent) | (~(~32'd0 << have_size) << offset);
        end
    end

    assign busy = begin_job || runs_active || words_active || have || count != 6'd0 || wvalid || open != 5'd0;
    assign moved = (awvalid && awready) || (wvalid && wready);

    always_ff @(posedge clk) begin
        begin_job <= start;
        if (re) {have_first, have_last, have_size, have_low} <= {run_first, run_last, size, run_low};
        have <= re || (have && !take);
        if (emit || take) begin
            window <= window_next;
            strobes <= strobes_next;
            count <= take ? offset + {1'b0, have_size} : count_sent;
            if (take) flush <= have_last;
        end
        if (emit) beat <= beat + 4'd1;
        if (take && have_first) beat <= have_low[7:4];
        if (!wvalid || wready) begin
            wvalid <= emit;
            if (emit) {wdata, wstrb, wlast} <= {window[127:0], strobes[15:0], last_beat};
        end
        granted <= granted + {4'd0, awvalid && awready} - {4'd0, emit && last_beat};
        open <= open + {4'd0, awvalid && awready} - {4'd0, bvalid};
        if (rst) {begin_job, have, count, flush, wvalid, granted, open} <= '0;
    end
endmodule
