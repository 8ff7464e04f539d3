// SPDX-License-Identifier: Apache-2.0
// The bursts of a transfer's runs, in order, as an address channel of AXI: at most 16 beats of 16 bytes, none over a
// border of 256 bytes (so none over 4 KiB). `grant` holds the next one back.
module sa16_runs
    import sa16_pkg::*;
(
    input  logic        clk,
    input  logic        rst,
    input  logic        start,   // with t and bytes, one cycle
    input  transfer_t   t,
    input  logic [31:0] bytes,   // of a run, > 0
    input  logic        grant,
    output logic        active,
    output logic        valid,   // address channel
    input  logic        ready,
    output logic [39:0] address,
    output logic [4:0]  beats
);
    transfer_t now;
    logic [39:0] outer_at, run_at, at;
    logic [31:0] left, length;
    logic [15:0] inner_left, outer_left;
    logic [4:0] to_border;
    logic [31:0] wanted;

    assign to_border = 5'd16 - {1'b0, at[7:4]};
    assign wanted = (left + {28'd0, at[3:0]} + 32'd15) >> 4;
    assign beats = wanted < {27'd0, to_border} ? wanted[4:0] : to_border;
    assign address = {at[39:4], 4'd0};
    assign valid = active && grant;

    always_ff @(posedge clk) begin
        if (valid && ready) begin
            if (wanted > {27'd0, to_border}) begin
                at <= {at[39:8] + 32'd1, 8'd0};
                left <= left - (32'd256 - {24'd0, at[7:0]});
            end else begin
                left <= length;
                if (inner_left != 16'd1) begin
                    inner_left <= inner_left - 16'd1;
                    run_at <= run_at + {{8{now.inner_stride[31]}}, now.inner_stride};
                    at <= run_at + {{8{now.inner_stride[31]}}, now.inner_stride};
                end else begin
                    inner_left <= now.inner;
                    outer_left <= outer_left - 16'd1;
                    outer_at <= outer_at + {{8{now.outer_stride[31]}}, now.outer_stride};
                    run_at <= outer_at + {{8{now.outer_stride[31]}}, now.outer_stride};
                    at <= outer_at + {{8{now.outer_stride[31]}}, now.outer_stride};
                    if (outer_left == 16'd1) active <= 1'b0;
                end
            end
        end
        if (start) begin
            active <= 1'b1;
            now <= t;
            {length, left} <= {bytes, bytes};
            {outer_at, run_at, at} <= {3{t.base}};
            {outer_left, inner_left} <= {t.outer, t.inner};
        end
        if (rst) active <= 1'b0;
    end
endmodule
