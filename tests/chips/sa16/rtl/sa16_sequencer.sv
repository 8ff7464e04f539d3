// SPDX-License-Identifier: Apache-2.0
// What the compute unit reads, cycle by cycle. Convolution: for each block of 16 output channels and each 16 output
// pixels (in order of rows), for each channel block, kernel row and kernel column: the word of each of the 16 pixels.
// Pooling: for each block and pixel the words of its window. What lies outside of the tile is padding.
module sa16_sequencer
    import sa16_pkg::*;
(
    input  logic        clk,
    input  logic        rst,
    input  logic        start,      // one cycle
    input  set_t        set,        // of the operation, until done
    output logic        busy,
    output logic        valid,      // a word is read
    output logic        pad,        // and it is padding
    output logic [12:0] in_addr,
    output logic [12:0] w_addr,
    output logic [ 3:0] lane,       // of the 16 pixels; counts on behind the last, while results leave the array
    output logic        mark,       // with the first word of 16 pixels, and once behind the last ones
    output logic        mark_ends,  // with mark: the 16 pixels below are complete
    output logic        first,
    output logic        last,       // of a pooling window
    output logic [ 5:0] block,      // of a window, or (with mark) of the pixels that are complete
    output logic [12:0] out_addr,   // likewise: of the (first) pixel
    output logic [ 4:0] pixels      // with mark: how many are pixels
);
    localparam logic [6:0] TAIL = 7'd64;  // cycles until the last result is in the output buffer

    logic [15:0] tile_w, tile_h, in_plane, out_plane, out_w, blocks_in, blocks_out;
    logic [7:0] kw, kh, sx, sy, dx, dy;
    logic pooling, depthwise;
    assign {tile_h, tile_w} = set[R_TILE];
    assign {out_plane, in_plane} = set[R_PLANES];
    assign {sy, sx, kh, kw} = set[R_KERNEL];
    assign {dy, dx} = set[R_DILATION][15:0];
    assign out_w = set[R_OUT_SIZE][15:0];
    assign {blocks_out, blocks_in} = set[R_BLOCKS];
    assign pooling = set[R_MODE][1:0] != CONV;
    assign depthwise = set[R_MODE][2];

    // ---- the walk over output pixels: where a pixel's window begins
    logic [15:0] wx, ox;
    logic [15:0] wy;
    logic [12:0] wrow;
    logic [15:0] origin_x, origin_y;
    logic [12:0] origin_row, row_step, kernel_row_step;
    logic step_pixel, restart;
    assign {origin_y, origin_x} = set[R_ORIGIN];

    always_ff @(posedge clk) begin
        if (start) begin
            origin_row <= 13'(origin_y) * 13'(tile_w);
            row_step <= 13'(sy) * 13'(tile_w);
            kernel_row_step <= 13'(dy) * 13'(tile_w);
        end
        if (restart) begin
            {ox, wx, wy, wrow} <= {16'd0, origin_x, origin_y, origin_row};
        end else if (step_pixel) begin
            if (ox == out_w - 16'd1) begin
                {ox, wx, wy, wrow} <= {16'd0, origin_x, wy + 16'(sy), wrow + row_step};
            end else begin
                {ox, wx} <= {ox + 16'd1, wx + 16'(sx)};
            end
        end
    end

    // ---- the loops
    logic running, preparing;
    logic [6:0] tail;
    logic [7:0] kx, ky;
    logic [15:0] kxd, kyd, cb, ob;
    logic [12:0] ky_row, cb_plane, ob_plane;
    logic [12:0] pixel, pixels_all;     // of the first of the 16
    logic [12:0] w_at, w_block, out_base;
    logic [15:0] ax[16], ay[16];        // windows of the 16 pixels
    logic [12:0] arow[16];
    logic slot_first, window_end, tile_end, block_end, advance;
    logic [15:0] x0, y0, x, y;
    logic [12:0] row0;
    logic [5:0] done_block;
    logic [12:0] done_out;
    logic [4:0] done_pixels;
    logic done_any;

    assign slot_first = kx == 8'd0 && ky == 8'd0 && cb == 16'd0;
    assign advance = running && (pooling || lane == 4'd15);
    assign window_end = kx == kw - 8'd1 && ky == kh - 8'd1 && (pooling || cb == blocks_in - 16'd1);
    assign tile_end = window_end && pixel + (pooling ? 13'd1 : 13'd16) >= pixels_all;
    assign block_end = tile_end && ob == blocks_out - 16'd1;
    assign restart = preparing || (advance && tile_end);
    assign step_pixel = running && (pooling ? window_end : slot_first);
    assign {x0, y0, row0} = pooling || slot_first ? {wx, wy, wrow} : {ax[lane], ay[lane], arow[lane]};
    assign x = x0 + kxd;
    assign y = y0 + kyd;
    assign busy = running || preparing || tail != 7'd0;

    always_ff @(posedge clk) begin
        preparing <= start;
        if (preparing) begin
            running <= 1'b1;
            {lane, kx, ky, kxd, kyd, cb, ob, ky_row, cb_plane, ob_plane, pixel, w_at, w_block, out_base} <= '0;
            pixels_all <= 13'(out_w) * 13'(set[R_OUT_SIZE][31:16]);
            done_any <= 1'b0;
        end
        if (running || tail != 7'd0) lane <= lane + 4'd1;
        if (running && !pooling && slot_first) begin
            ax[lane] <= wx;
            ay[lane] <= wy;
            arow[lane] <= wrow;
        end
        if (running && !pooling) w_at <= w_at + 13'd1;
        if (advance) begin
            if (kx != kw - 8'd1) begin
                {kx, kxd} <= {kx + 8'd1, kxd + 16'(dx)};
            end else begin
                {kx, kxd} <= '0;
                if (ky != kh - 8'd1) begin
                    {ky, kyd, ky_row} <= {ky + 8'd1, kyd + 16'(dy), ky_row + kernel_row_step};
                end else begin
                    {ky, kyd, ky_row} <= '0;
                    {cb, cb_plane} <= {cb + 16'd1, cb_plane + in_plane[12:0]};
                end
            end
            if (window_end) begin
                {cb, cb_plane} <= {16'd0, ob_plane};
                pixel <= pixel + (pooling ? 13'd1 : 13'd16);
                w_at <= w_block;
                {done_any, done_block, done_out} <= {1'b1, ob[5:0], out_base + pixel};
                done_pixels <= pixels_all - pixel < 13'd16 ? 5'(pixels_all - pixel) : 5'd16;
            end
            if (tile_end) begin
                pixel <= '0;
                ob <= ob + 16'd1;
                out_base <= out_base + out_plane[12:0];
                if (depthwise || pooling) {ob_plane, cb_plane} <= {2{ob_plane + in_plane[12:0]}};
                {w_at, w_block} <= {2{w_at + 13'd1}};
            end
            if (block_end) begin
                running <= 1'b0;
                tail <= TAIL;
            end
        end
        if (tail != 7'd0) tail <= tail - 7'd1;
        if (rst) {running, preparing, tail} <= '0;
    end

    // ---- what is read, one stage later; `done` of it: for the mark that follows
    always_ff @(posedge clk) begin
        valid <= running;
        mark <= !pooling && ((running && slot_first && lane == 4'd0) || tail == TAIL);
        if (running || tail == TAIL) begin
            pad <= x >= tile_w || y >= tile_h;
            in_addr <= row0 + ky_row + x[12:0] + cb_plane;
            w_addr <= w_at;
            mark_ends <= done_any;
            first <= slot_first;
            last <= window_end;
            block <= pooling ? ob[5:0] : done_block;
            out_addr <= pooling ? out_base + pixel : done_out;
            pixels <= done_pixels;
        end
        if (rst) {valid, mark} <= '0;
    end
endmodule
