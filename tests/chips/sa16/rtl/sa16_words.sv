// SPDX-License-Identifier: Apache-2.0
// The words of a transfer's runs, in order: where each lies in the local buffer and how many bytes of it move.
module sa16_words
    import sa16_pkg::*;
(
    input  logic        clk,
    input  logic        rst,
    input  logic        start,      // with t, one cycle
    input  transfer_t   t,
    input  logic        step,       // the word is done
    output logic        active,
    output logic [12:0] local_at,
    output logic [4:0]  bytes,
    output logic        run_first,
    output logic        run_last,
    output logic [7:0]  run_low     // low bits of the address in DRAM where the run begins
);
    transfer_t now;
    logic [15:0] nb_left, px_left, inner_left, outer_left;
    logic [12:0] at_outer, at_inner, at_px;
    logic [7:0] low_outer;

    assign bytes = nb_left == 16'd1 ? now.tail : 5'd16;
    assign run_last = nb_left == 16'd1 && px_left == 16'd1;

    always_ff @(posedge clk) begin
        if (step && active) begin
            run_first <= 1'b0;
            if (nb_left != 16'd1) begin
                nb_left <= nb_left - 16'd1;
                local_at <= local_at + now.l_nb;
            end else begin
                nb_left <= now.nb;
                if (px_left != 16'd1) begin
                    px_left <= px_left - 16'd1;
                    at_px <= at_px + now.l_px;
                    local_at <= at_px + now.l_px;
                end else begin
                    px_left <= now.px;
                    run_first <= 1'b1;
                    if (inner_left != 16'd1) begin
                        inner_left <= inner_left - 16'd1;
                        run_low <= run_low + now.inner_stride[7:0];
                        {at_inner, at_px, local_at} <= {3{at_inner + now.l_inner}};
                    end else begin
                        inner_left <= now.inner;
                        outer_left <= outer_left - 16'd1;
                        {low_outer, run_low} <= {2{low_outer + now.outer_stride[7:0]}};
                        {at_outer, at_inner, at_px, local_at} <= {4{at_outer + now.l_outer}};
                        if (outer_left == 16'd1) active <= 1'b0;
                    end
                end
            end
        end
        if (start) begin
            {active, run_first} <= 2'b11;
            now <= t;
            {nb_left, px_left, inner_left, outer_left} <= {t.nb, t.px, t.inner, t.outer};
            {at_outer, at_inner, at_px, local_at} <= '0;
            {low_outer, run_low} <= {2{t.base[7:0]}};
        end
        if (rst) active <= 1'b0;
    end
endmodule
