// SPDX-License-Identifier: Apache-2.0
// 16 x 16 output-stationary systolic array: a row is an output pixel, a column an output channel. Activations move to
// the right, weights down, one element a cycle. A word of a pixel arrives each cycle, pixel after pixel, which is the
// skew that the rows need; columns take their weights from the last 16 weight words.
// A mark starts new sums in element (i, j) i + j cycles later, and keeps the old ones for the row to be read out.
// Latency: from the mark to the first result of the sums that it ends, 20 cycles; then one row (pixel) a cycle.
module sa16_array
    import sa16_pkg::*;
(
    input  logic         clk,
    input  logic         rst,
    input  logic         awake,      // something is in it, or comes
    input  logic         valid,      // word and weights
    input  logic [3:0]   lane,
    input  logic [127:0] word,
    input  logic [127:0] weights,
    input  logic         mark,
    input  logic         mark_ends,
    input  logic [5:0]   block,
    input  logic [12:0]  out_addr,
    input  logic [4:0]   pixels,
    output logic         out_valid,
    output lanes_t       out,
    output logic [12:0]  out_at,
    output logic [5:0]   out_block
);
    typedef logic [7:0] grid_t[256];
    typedef logic [31:0] sums_t[256];

    bytes_t rows[16], ring[16];
    bytes_t a_in, w_in;
    grid_t a_q, w_q;
    sums_t sums, kept;
    logic [3:0] lane1;
    logic mark1, ends1;
    logic [30:0] marks;

    function automatic bytes_t unpack(input logic [127:0] packed_word, input logic keep);
        for (int unsigned i = 0; i < 16; i++) unpack[i] = keep ? packed_word[8*i+:8] : 8'd0;
    endfunction
    function automatic bytes_t diagonal_rows();
        for (int unsigned i = 0; i < 16; i++) diagonal_rows[i] = rows[i][4'(lane1-4'(i))];
    endfunction
    function automatic bytes_t diagonal_ring();
        for (int unsigned j = 0; j < 16; j++) diagonal_ring[j] = ring[4'(lane1-4'(j))][j];
    endfunction
    function automatic grid_t to_the_right();
        for (int unsigned i = 1; i < 256; i++) to_the_right[i] = a_q[i-1];
        for (int unsigned i = 0; i < 16; i++) to_the_right[16*i] = a_in[i];
    endfunction
    function automatic grid_t down();
        for (int unsigned i = 16; i < 256; i++) down[i] = w_q[i-16];
        for (int unsigned j = 0; j < 16; j++) down[j] = w_in[j];
    endfunction
    function automatic sums_t add();
        for (int unsigned i = 0; i < 256; i++) add[i] = sums[i] + sext8(a_q[i]) * sext8(w_q[i]);
    endfunction
    function automatic logic [31:0] keeps(input int unsigned i);
        return marks[i] ? 32'd0 : 32'hffffffff;
    endfunction
    function automatic sums_t add_or_start();
        for (int unsigned i = 0; i < 16; i++) begin
            for (int unsigned j = 0; j < 16; j++) begin
                add_or_start[16*i+j] = (sums[16*i+j] & keeps(i + j)) + sext8(a_q[16*i+j]) * sext8(w_q[16*i+j]);
            end
        end
    endfunction
    function automatic sums_t keep();
        for (int unsigned i = 0; i < 16; i++) begin
            for (int unsigned j = 0; j < 16; j++) keep[16*i+j] = marks[i+j] ? sums[16*i+j] : kept[16*i+j];
        end
    endfunction

    always_comb begin
        a_in = diagonal_rows();
        w_in = diagonal_ring();
    end

    always_ff @(posedge clk) begin
        lane1 <= lane;
        {mark1, ends1} <= {mark, mark && mark_ends};
        if (awake) begin
            if (valid) rows[lane] <= unpack(word, 1'b1);
            ring[lane] <= unpack(weights, valid);  // nothing comes: a weight of 0 changes no sum
            a_q <= to_the_right();
            w_q <= down();
            marks <= {marks[29:0], mark1};
            if (marks != 31'd0) begin
                sums <= add_or_start();
                kept <= keep();
            end else sums <= add();
        end
        if (rst) {mark1, marks} <= '0;
    end

    // ---- results: row i is complete 17 + i cycles after mark1
    logic [16:0] pending;
    logic draining;
    logic [3:0] row;
    logic [5:0] block_a, block_b;
    logic [12:0] at_a, at_b;
    logic [4:0] pixels_a, pixels_b;

    function automatic lanes_t result();
        for (int unsigned j = 0; j < 16; j++) result[j] = kept[{24'd0, row, 4'd0}+j];
    endfunction

    always_ff @(posedge clk) begin
        if (mark1) {block_a, at_a, pixels_a} <= {block, out_addr, pixels};  // they stand for a slot
        pending <= {pending[15:0], ends1};
        out_valid <= draining && {1'b0, row} < pixels_b;
        if (draining) begin
            row <= row + 4'd1;
            if (row == 4'd15) draining <= 1'b0;
            out <= result();
            out_at <= at_b + {9'd0, row};
            out_block <= block_b;
        end
        if (pending[15]) begin
            {draining, row} <= {1'b1, 4'd0};
            {block_b, at_b, pixels_b} <= {block_a, at_a, pixels_a};
        end
        if (rst) {pending, draining, out_valid} <= '0;
    end
endmodule
