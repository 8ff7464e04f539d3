// SPDX-License-Identifier: Apache-2.0
// Sizes and register numbers of the chip sa16 (../README.md). A word is 16 bytes: 16 channels of a pixel.
package sa16_pkg;
    localparam logic [31:0] ID = 32'h53413136;  // "SA16"
    localparam logic [31:0] VERSION = 32'd1;

    // Words of each half of a local buffer: a register set owns one half of each.
    localparam int unsigned IN_BITS = 12, WEIGHT_BITS = 13, OUT_BITS = 10, BLOCK_BITS = 6;
    localparam int unsigned PARAM_PARTS = 9;  // words a block of 16 output channels: 4 bias, 4 multiplier, 1 shift

    // Registers of a set, in words from its base (0x1000, 0x2000).
    localparam int unsigned SET_REGS = 39;
    localparam int unsigned R_GO = 0, R_MODE = 1;
    localparam int unsigned R_IN = 2, R_OUT = 11;  // of a transfer: the nine below
    localparam int unsigned T_LO = 0, T_HI = 1, T_COUNT = 2, T_OUTER = 3, T_INNER = 4, T_RUN = 5, T_TAIL = 6;
    localparam int unsigned T_LOCAL = 7, T_LOCAL2 = 8;
    localparam int unsigned R_RES_LO = 20, R_RES_HI = 21;
    localparam int unsigned R_W_LO = 22, R_W_HI = 23, R_W_WORDS = 24, R_P_LO = 25, R_P_HI = 26;
    localparam int unsigned R_TILE = 27, R_PLANES = 28, R_KERNEL = 29, R_DILATION = 30, R_ORIGIN = 31;
    localparam int unsigned R_OUT_SIZE = 32, R_BLOCKS = 33, R_QUANT = 34, R_RES_ZERO = 35, R_RES_MULT = 36;
    localparam int unsigned R_MULTIPLIER = 37, R_SHIFT = 38;  // of all channels, if MODE says so

    localparam logic [1:0] CONV = 2'd0, POOL_MAX = 2'd1, POOL_AVERAGE = 2'd2;

    typedef logic [31:0] set_t[SET_REGS];
    typedef logic [7:0] bytes_t[16];
    typedef logic [31:0] lanes_t[16];

    // A strided transfer between DRAM and a local buffer: outer x inner runs; a run is px pixels of nb words that
    // follow each other in DRAM, the last of a pixel with tail bytes.
    typedef struct packed {
        logic [39:0] base;
        logic [15:0] outer, inner;
        logic [31:0] outer_stride, inner_stride;
        logic [15:0] px, nb;
        logic [4:0]  tail;
        logic [12:0] l_outer, l_inner, l_px, l_nb;  // steps in the local buffer, words
    } transfer_t;

    // How an operation may be told from one that is busy.
    typedef enum logic [2:0] {
        IDLE,
        QUEUED,
        LOADING,
        LOADED,
        COMPUTING,
        COMPUTED,
        STORING
    } state_t;

    function automatic logic [31:0] sext8(input logic [7:0] b);
        return {24'd0, b ^ 8'h80} - 32'd128;
    endfunction

    // Bytes of a run.
    function automatic logic [31:0] run_bytes(input logic [15:0] px, input logic [15:0] nb, input logic [4:0] tail);
        return 32'(px) * ((32'(nb) << 4) - 32'd16 + 32'(tail));
    endfunction
endpackage
