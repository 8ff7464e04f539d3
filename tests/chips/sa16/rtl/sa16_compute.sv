// SPDX-License-Identifier: Apache-2.0
// Local buffers and what computes on them. Each buffer has two halves, one for each register set.
module sa16_compute
    import sa16_pkg::*;
(
    input  logic         clk,
    input  logic         rst,
    input  logic         start,
    input  set_t         set,
    input  logic         half,
    output logic         busy,
    output logic         issuing,      // a word is read in this cycle
    // from the loader: input, weights, parameters, residual
    input  logic         load_half,
    input  logic [3:0]   load_we,
    input  logic [12:0]  load_addr,
    input  logic [127:0] load_data,
    // to the store unit
    input  logic         store_half,
    input  logic         store_re,
    input  logic [12:0]  store_addr,
    output logic [127:0] store_q
);
    logic seq_valid, seq_pad, seq_mark, seq_ends, seq_first, seq_last;
    logic [12:0] in_addr, w_addr, seq_out;
    logic [3:0] seq_lane;
    logic [5:0] seq_block;
    logic [4:0] seq_pixels;
    sa16_sequencer u_sequencer (
        .clk, .rst, .start, .set, .busy, .valid(seq_valid), .pad(seq_pad), .in_addr, .w_addr, .lane(seq_lane),
        .mark(seq_mark), .mark_ends(seq_ends), .first(seq_first), .last(seq_last), .block(seq_block),
        .out_addr(seq_out), .pixels(seq_pixels));
    assign issuing = seq_valid;

    logic [127:0] in_q, w_q;
    sa16_ram #(.BITS(IN_BITS + 1)) u_in (
        .clk, .we(load_we[0]), .waddr({load_half, load_addr[IN_BITS-1:0]}), .wdata(load_data), .re(seq_valid),
        .raddr({half, in_addr[IN_BITS-1:0]}), .q(in_q));
    sa16_ram #(.BITS(WEIGHT_BITS + 1)) u_weights (
        .clk, .we(load_we[1]), .waddr({load_half, load_addr[WEIGHT_BITS-1:0]}), .wdata(load_data), .re(seq_valid),
        .raddr({half, w_addr[WEIGHT_BITS-1:0]}), .q(w_q));

    // one stage behind the addresses
    logic valid, pad, mark, ends, first, last, average;
    logic [3:0] lane1, lane;
    logic [5:0] block;
    logic [12:0] place;
    logic [4:0] pixels;
    logic [127:0] word;
    logic [7:0] pad_value;
    logic pooling;
    assign pad_value = set[R_QUANT][31:24];
    assign word = pad ? {16{pad_value}} : in_q;
    assign pooling = set[R_MODE][1:0] != CONV;
    assign average = set[R_MODE][1:0] == POOL_AVERAGE;
    always_ff @(posedge clk) begin
        {valid, pad, mark, ends, first, last} <= {seq_valid, seq_pad, seq_mark, seq_ends, seq_first, seq_last};
        {block, place, pixels} <= {seq_block, seq_out, seq_pixels};
        {lane, lane1} <= {lane1, seq_lane};
        if (rst) {valid, mark} <= '0;
    end

    logic array_valid, pool_valid, sums_valid;
    lanes_t array_sums, pool_sums, sums;
    logic [12:0] array_at, pool_at, sums_at;
    logic [5:0] array_block, pool_block, sums_block;
    sa16_array u_array (
        .clk, .rst, .awake(busy && !pooling), .valid(valid && !pooling), .lane, .word, .weights(w_q), .mark,
        .mark_ends(ends), .block, .out_addr(place), .pixels, .out_valid(array_valid), .out(array_sums),
        .out_at(array_at), .out_block(array_block));
    sa16_pool u_pool (
        .clk, .rst, .valid(valid && pooling), .average, .first, .last, .word, .block, .out_addr(place),
        .out_valid(pool_valid), .out(pool_sums), .out_at(pool_at), .out_block(pool_block));
    always_comb begin
        sums_valid = pooling ? pool_valid : array_valid;
        sums_at = pooling ? pool_at : array_at;
        sums_block = pooling ? pool_block : array_block;
        for (int unsigned i = 0; i < 16; i++) sums[i] = pooling ? pool_sums[i] : array_sums[i];
    end

    // parameters: of a block of 16 channels in one read
    logic [1151:0] params;
    for (genvar p = 0; p < PARAM_PARTS; p++) begin : g_params
        sa16_ram #(.BITS(BLOCK_BITS + 1)) u_part (
            .clk, .we(load_we[2] && load_addr[3:0] == 4'(p)), .waddr({load_half, load_addr[4+:BLOCK_BITS]}),
            .wdata(load_data), .re(sums_valid), .raddr({half, sums_block}), .q(params[128*p+:128]));
    end
    logic [127:0] residual;
    sa16_ram #(.BITS(OUT_BITS + 1)) u_residual (
        .clk, .we(load_we[3]), .waddr({load_half, load_addr[OUT_BITS-1:0]}), .wdata(load_data), .re(sums_valid),
        .raddr({half, sums_at[OUT_BITS-1:0]}), .q(residual));

    logic out_we;
    logic [12:0] out_at;
    logic [127:0] out_word;
    sa16_requant u_requant (
        .clk, .rst, .set, .valid(sums_valid), .sums, .at(sums_at), .params, .residual, .out_valid(out_we), .out_at,
        .out(out_word));
    sa16_ram #(.BITS(OUT_BITS + 1)) u_out (
        .clk, .we(out_we), .waddr({half, out_at[OUT_BITS-1:0]}), .wdata(out_word), .re(store_re),
        .raddr({store_half, store_addr[OUT_BITS-1:0]}), .q(store_q));
endmodule
