// SPDX-License-Identifier: Apache-2.0
// Fetches what an operation needs, one transfer after the other: input, weights, parameters, residual. Bytes need not
// be aligned in DRAM: a window of 32 bytes cuts words out of beats, one word a cycle. Up to 128 beats are under way.
module sa16_load
    import sa16_pkg::*;
(
    input  logic         clk,
    input  logic         rst,
    input  logic         start,       // one cycle; jobs and transfers stay until done
    input  logic [3:0]   jobs,        // input, weights, parameters, residual: which there are
    input  transfer_t    transfer[4],
    output logic         busy,
    output logic         moved,       // a word or an address went through in this cycle
    // to the local buffers
    output logic [3:0]   we,
    output logic [12:0]  waddr,
    output logic [127:0] wdata,
    // AXI
    output logic [39:0]  araddr,
    output logic [7:0]   arlen,
    output logic         arvalid,
    input  logic         arready,
    input  logic [127:0] rdata,
    input  logic         rvalid,
    output logic         rready
);
    logic [1:0] job;
    logic [3:0] jobs_left;
    logic begin_job, choose;

    // ---- addresses
    logic runs_active, runs_grant, words_active;
    logic [4:0] beats;
    logic [31:0] bytes;
    logic [7:0] credit;  // free places of the FIFO that no burst has been promised
    assign runs_grant = credit >= {3'd0, beats};
    assign bytes = run_bytes(transfer[job].px, transfer[job].nb, transfer[job].tail);
    assign arlen = {3'd0, beats} - 8'd1;
    sa16_runs u_runs (
        .clk, .rst, .start(begin_job), .t(transfer[job]), .bytes, .grant(runs_grant), .active(runs_active),
        .valid(arvalid), .ready(arready), .address(araddr), .beats);

    // ---- beats
    logic [127:0] fifo[128];
    logic [6:0] head, tail;
    logic [7:0] level;
    logic pop, push;
    assign rready = 1'b1;  // their places were promised
    assign push = rvalid;

    // ---- words
    logic [12:0] local_at;
    logic [4:0] need;
    logic run_first, run_last, emit, fresh;
    logic [7:0] run_low;
    sa16_words u_words (
        .clk, .rst, .start(begin_job), .t(transfer[job]), .step(emit), .active(words_active), .local_at,
        .bytes(need), .run_first, .run_last, .run_low);

    // fresh: the first beat of the run is not in the window yet. Behind the last byte of a run the rest of its last
    // beat is thrown away.
    logic [255:0] window, after;
    logic [5:0] count, count_after;
    logic [31:0] run_left;  // beats of the run that were not taken
    logic [31:0] run_total, run_beats;
    logic [3:0] skip;
    assign run_beats = (run_total + {28'd0, run_low[3:0]} + 32'd15) >> 4;
    assign skip = fresh ? run_low[3:0] : 4'd0;
    assign emit = words_active && !fresh && count >= {1'b0, need};
    assign count_after = emit ? (run_last ? 6'd0 : count - {1'b0, need}) : count;
    assign pop = words_active && level != 8'd0 && (fresh || (run_left != 32'd0 && count_after <= 6'd16));

    always_comb begin
        after = window;
        if (emit) after = window >> {need, 3'd0};
        if (fresh) after = '0;
        if (pop) after = (after & ~(~256'd0 << {count_after, 3'd0})) |
            (({128'd0, fifo[head]} >> {skip, 3'd0}) << {count_after, 3'd0});
    end

    assign busy = jobs_left != 4'd0 || choose || begin_job || words_active || runs_active;
    assign moved = emit || (arvalid && arready);

    always_ff @(posedge clk) begin
        we <= '0;
        if (emit) begin
            we[job] <= 1'b1;
            waddr <= local_at;
            wdata <= window[127:0] & ~(~128'd0 << {need, 3'd0});
        end
        if (emit || pop) window <= after;
        if (words_active) begin
            count <= pop ? count_after + 6'd16 - {2'd0, skip} : count_after;
            if (fresh && pop) begin
                fresh <= 1'b0;
                run_left <= run_beats - 32'd1;
            end else if (pop) run_left <= run_left - 32'd1;
            if (emit && run_last) fresh <= 1'b1;
        end
        if (push) fifo[tail] <= rdata;
        if (push) tail <= tail + 7'd1;
        if (pop) head <= head + 7'd1;
        level <= level + {7'd0, push} - {7'd0, pop};
        credit <= credit + {7'd0, pop} - (arvalid && arready ? {3'd0, beats} : 8'd0);

        // the next job, when nothing of the last one is left
        begin_job <= 1'b0;
        if (choose) begin
            job <= jobs_left[0] ? 2'd0 : jobs_left[1] ? 2'd1 : jobs_left[2] ? 2'd2 : 2'd3;
            jobs_left <= jobs_left & (jobs_left - 4'd1);
            begin_job <= 1'b1;
            choose <= 1'b0;
        end else if (!begin_job && !runs_active && !words_active && jobs_left != 4'd0) choose <= 1'b1;
        if (begin_job) begin
            fresh <= 1'b1;
            count <= '0;
            run_total <= bytes;
        end
        if (start) {jobs_left, choose} <= {jobs, 1'b0};
        if (rst) begin
            {jobs_left, choose, begin_job, level, head, tail, we, fresh} <= '0;
            credit <= 8'd128;
        end
    end
endmodule
