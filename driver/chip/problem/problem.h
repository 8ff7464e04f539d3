/* SPDX-License-Identifier: Apache-2.0 */
/* problem.h - the normal form of every operator, and packed weights. */
#ifndef PRESIL_CHIP_PROBLEM_H
#define PRESIL_CHIP_PROBLEM_H

#include "chip.h"

/* ---- packed weights ------------------------------------------------------------------------- */
/* Elements [first, first + count) of the slice of a packed layer, `rows` kernel rows of them in a block, `blocks` of
 * these for the whole kernel (docs/numerics.md 5, runs). */
typedef struct {
    uint32_t first, count, rows, blocks;
} chip_run;
enum { CHIP_RUNS = 4, CHIP_RUN_ROWS = 16 };

/* A depthwise kernel along an axis, and its pieces: `count` rows or columns from `first`, `apart` from each other
 * (docs/numerics.md 5). */
enum { CHIP_DEPTHWISE_KERNEL = 64, CHIP_DEPTHWISE_PHASES = 32 };
typedef struct {
    uint32_t size, stride; /* stride: in dilations, of a phase */
    uint32_t phases;       /* every so many outputs meet positions that are whole dilations apart */
    bool single;           /* no two of them in a piece: phases would be many, or small */
} chip_kernel_axis_pieces;
chip_kernel_axis_pieces chip_kernel_pieces(uint32_t size, int64_t stride, int64_t dilation, int64_t outs);
typedef struct {
    uint32_t first, count, apart;
} chip_piece;
/* The first piece (from NULL), and the one behind `before`; false: there is none. */
bool chip_next_piece(const chip_kernel_axis_pieces *axis, const chip_piece *before, chip_piece *out);

/* The outputs of a cell group: `cells` that follow each other, fewer where they end. parts 1: where all end. Else
 * where those of a channel end, which are `channel` and take `parts` groups. No padding bytes, as problems are
 * compared. */
typedef struct {
    uint32_t cells, parts;
    int64_t outputs, channel;
} chip_split;
static inline int64_t chip_first_output(const chip_split *s, uint32_t g) {
    return s->parts == 1 ? (int64_t)g * s->cells : g / s->parts * s->channel + (int64_t)(g % s->parts) * s->cells;
}
static inline int64_t chip_end_output(const chip_split *s, uint32_t g) { /* the one behind it */
    const int64_t end = chip_first_output(s, g) + s->cells,
                  most = s->parts == 1 ? s->outputs : (int64_t)(g / s->parts + 1) * s->channel;
    return end < most ? end : most;
}
static inline uint32_t chip_split_groups(const chip_split *s) {
    return (uint32_t)(s->parts == 1 ? ceil_div(s->outputs, s->cells) : s->outputs / s->channel * s->parts);
}
/* All cells have outputs, but for the last group's. */
static inline chip_split chip_whole_split(const presil_config *c, int64_t outputs) {
    return (chip_split){c->cells, 1, outputs, 0};
}
/* Groups in the middle have fewer outputs, too. */
static inline bool chip_uneven(const chip_split *s) { return s->parts > 1 && s->channel % s->cells; }

/* The image in DRAM: parameters of every cell group (bias words, scale words), then for each term the weight blocks of
 * every cell group: [group][channel block][kernel row][kernel column][cell], one scratchpad word each (docs/numerics.md
 * 5, docs/isa.md 5). Depthwise: [group][kernel row][kernel column], a word each, with a weight of every cell; `block`
 * channels for the cells of a group, or one for several groups. */
struct presil_layout {
    presil_config config;
    uint32_t compute, groups;
    bool has_bias, has_scale, packed, absent, depthwise;
    bool fp16;                                                        /* weights are fp16, and meet fp16 */
    int64_t out_channels, in_channels, group_channels, group_outputs; /* O, I, I/groups, O/groups */
    int64_t kernel[2], dilation[2], input_dilation[2];
    uint32_t terms, esize,
        block; /* terms of a weight (chip_terms()); bytes of an element; elements of a channel block */
    uint32_t pack_rows, slice_elements; /* packed: kernel rows in a block, elements of one kernel row's slice */
    uint32_t blocks;                    /* channel (or slice) blocks of the whole input, or runs */
    uint32_t grid_y, grid_x;            /* kernel rows and columns that MATRIX walks; with runs the most of them */
    uint32_t runs;                      /* 0: the slice is not cut into runs */
    chip_run run[CHIP_RUNS];
    chip_split split;
    uint32_t cell_groups,
        param_words; /* param_words: of one cell group, 2·ceil(4·CELLS/WORD), or 0 without bias and scale */
    uint64_t weights_offset, term_bytes, bytes;
};
/* Channel blocks that cell group g uses. */
void chip_layout_blocks(const presil_layout *layout, uint32_t g, uint32_t *first, uint32_t *count);
/* Words of one kernel position of a block. */
static inline uint32_t chip_layout_position_words(const presil_layout *l) { return l->depthwise ? 1 : l->config.cells; }
/* Words before the blocks of cell group g within a term. */
uint64_t chip_layout_group_words(const presil_layout *layout, uint32_t g);
/* Words of a cell group's blocks before its block (or run) cb, counted from its first. */
uint64_t chip_layout_words_before(const presil_layout *layout, uint32_t cb);
void chip_layout_init(const presil_chip *chip, const presil_weights_desc *desc, presil_layout *layout);
void chip_layout_view(const presil_chip *chip, const presil_weights_desc *desc, bool even,
                      presil_layout *layout); /* for a kernel by view: never packed. even: its groups are as far
                                                 apart as its outputs say */
int chip_layout(const presil_chip *chip, const presil_weights_desc *desc, presil_layout **out, uint64_t *bytes,
                presil_error_buffer *error);
int chip_pack(const presil_chip *chip, const presil_layout *layout, const presil_weights_desc *desc, void *to,
              presil_error_buffer *error);
void chip_layout_free(presil_layout *layout);
void chip_split_fp32(uint32_t x, uint16_t terms[CHIP_TERMS]);
/* The code of a weight that is not there (docs/numerics.md 4). */
static inline uint16_t chip_absent_code(bool fp16) { return fp16 ? 0x7c01 : 0x0001; }

/* ---- the normal form of every operator ------------------------------------------------------ */
/* Strides in bytes. An image is [y][x][channel]. */
typedef struct {
    uint64_t base;
    int64_t sn, sy, sx, sc;
    uint32_t esize, dtype;
} chip_view;

/* How activations lie in memory: channels contiguous, pixels contiguous (transposing LOAD), packed first layer,
 * anything (element by element); windows of the input for a weight gradient. */
typedef enum { ACT_DIRECT, ACT_TRANSPOSED, ACT_PACKED, ACT_ELEMENTS, ACT_WINDOWS } chip_act_kind;
/* Weights: packed image; or by view, with the reduction contiguous, with the output channels contiguous, anyhow, of
 * several groups; gradients for a weight gradient. */
typedef enum { WGT_IMAGE, WGT_ROWS, WGT_COLUMNS, WGT_ELEMENTS, WGT_GROUPS, WGT_CHANNELS, WGT_LANES } chip_wgt_kind;

/* One of the three dimensions that a weight gradient sums over: position i of the gradient meets position i*stride +
 * k*dilation - pad of the input, of `size`, k the kernel's row or column (or 0). act, wgt: bytes between positions of
 * input and gradient. */
typedef enum { KERNEL_NONE, KERNEL_ROW, KERNEL_COLUMN } chip_kernel_axis;
typedef struct {
    int64_t count, stride, dilation, pad, size, act, wgt, axis;
} chip_sum_axis; /* axis: chip_kernel_axis; no padding bytes, as problems are compared */

/* phases.c: of a dilated input, or a dilated depthwise kernel, along an axis. Outputs `count` apart use kernel
 * positions `step` apart, `kernel` of them at most, from `first` (of one phase). All phases' first outputs together
 * read `reach` positions of the input from `low`. products: outputs × kernel positions, of all phases. */
typedef struct {
    int64_t count, step, kernel, first, low, reach, products;
} chip_phase_axis;

typedef struct {
    const presil_config *config;
    bool floats, fp16;    /* products of floats, 16 bits each in the scratchpad: fp16, else bf16 */
    bool absent, convert; /* convert: fp32 in memory, bf16 terms in the scratchpad */
    bool depthwise;       /* a channel for each cell, or 1 + extra_cells of them: MATRIX walks windows */
    uint32_t extra_cells;
    bool phased; /* done phase by phase, as the input is dilated, or a depthwise kernel */
    chip_phase_axis phase_y, phase_x;
    chip_kernel_axis_pieces pieces_y, pieces_x;
    uint32_t esize, block;               /* scratchpad bytes of an element, elements of a block */
    uint32_t passes, terms;              /* 1 and 1, 4 and 2, or 6 and 3 */
    int64_t images, out_h, out_w, out_c; /* output */
    int64_t in_h, in_w, in_c;            /* input */
    int64_t stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x, input_dilation_y, input_dilation_x;
    uint32_t grid_y, grid_x, blocks; /* MATRIX loops over the whole reduction; with runs: at most, blocks = runs */
    uint32_t kernel_x;               /* packed: columns of the kernel in a slice */
    uint32_t pack_rows;              /* packed: kernel rows in a block (with runs: at most), else 1 */
    uint32_t runs;                   /* packed: 0, or the slice is cut into them */
    chip_run run[CHIP_RUNS];
    chip_split split;
    uint32_t cell_groups, most_blocks; /* most_blocks: of the blocks, how many a cell group uses at most */
    uint32_t pad_byte;
    chip_act_kind act;
    chip_wgt_kind wgt;
    chip_view in, out, res;
    bool has_res;
    /* weights: image */
    const presil_layout *layout;
    uint64_t packed;
    /* weights: view [images][out_c][in_c][grid_y][grid_x] */
    uint64_t wgt_base;
    int64_t wgt_sn, wgt_so, wgt_sk, wgt_sy, wgt_sx,
        wgt_sg; /* bytes; sy, sx: kernel rows and columns; sg: groups of outputs */
    /* weight gradient: blocks are [outer][lanes / block][inner] */
    chip_sum_axis outer, inner, lane;
    int64_t kernel_w;
    bool wgt_per_image, wgt_convert;
    uint32_t wgt_esize;   /* in memory */
    presil_desc epilogue; /* template: everything but addresses, rows, half */
    uint32_t out_esize, res_esize;
    uint32_t param_words; /* of a cell group; 0: none */
} chip_problem;

/* Blocks of the reduction that cell group g uses. */
void chip_problem_blocks(const chip_problem *p, uint32_t g, uint32_t *first, uint32_t *count);
/* Kernel rows of block cb that MATRIX walks, kernel rows in it; blocks of a cell group's whole sum. */
static inline uint32_t chip_grid_rows(const chip_problem *p, uint32_t cb) {
    return p->runs ? p->run[cb].blocks : p->grid_y;
}
static inline uint32_t chip_rows_in_block(const chip_problem *p, uint32_t cb) {
    return p->runs ? p->run[cb].rows : p->pack_rows;
}
uint64_t chip_sum_blocks(const chip_problem *p);
/* Depthwise: whether tiles of these rows are walked along y, so that no row of a window is long; positions of `outs`
 * results in a row of a piece's window, of an axis with this stride; MATRIX cycles of nx × ny results. */
static inline bool chip_window_turned(const chip_problem *p, int64_t rows) { return p->grid_y == 1 && rows == 1; }
static inline int64_t chip_window_positions(int64_t outs, const chip_piece *piece, int64_t stride) {
    return (outs - 1) * (piece->count == 1 ? 1 : stride / piece->apart) + piece->count;
}
int64_t chip_window_cycles(const chip_problem *p, int64_t nx, int64_t ny);
/* Fewer, longer dimensions where nothing changes: strided 1×1 kernels subsample in memory, dense pixels become one
 * column. */
void chip_problem_normalise(chip_problem *p);
/* Says whether the problem is done in phases, and how they are. How many; the n-th, in which input_dilation is 1 (of a
 * problem without phases: itself); and one that is as large as any, for what is decided for all of them. */
void chip_problem_cut(chip_problem *p);
static inline uint32_t chip_phases(const chip_problem *p) {
    return p->phased ? (uint32_t)(p->phase_y.count * p->phase_x.count) : 1;
}
void chip_problem_phase(const chip_problem *p, uint32_t n, chip_problem *phase);
void chip_problem_lead(const chip_problem *p, chip_problem *lead);
int64_t chip_gcd(int64_t a, int64_t b);
int chip_problem_check(const chip_problem *p, presil_error_buffer *error);
/* Whether floats of this dtype may be operands of a product: fp16 as it lies, if the other one is too. */
bool chip_float_operand(uint32_t compute, uint32_t dtype);
/* The chip adds strides modulo 2^40: farther apart no two bytes of its DRAM lie. */
static inline bool chip_stride_fits(int64_t bytes) { return bytes > -(INT64_C(1) << 39) && bytes < INT64_C(1) << 39; }
static inline bool chip_strides_fit(int64_t bytes, int64_t count) {
    return chip_stride_fits(bytes) && (double)(bytes < 0 ? -bytes : bytes) * (double)count < 0x1p41;
}
/* Of a loop that runs once where its stride does not fit. */
static inline int64_t chip_loop_stride(int64_t bytes) { return chip_stride_fits(bytes) ? bytes : 0; }
int chip_epilogue_template(chip_problem *p, const presil_epilogue *epilogue, uint32_t out_dtype, bool bias, bool scale,
                           presil_error_buffer *error);
/* Rows of the output-shaped tensors in the scratchpad: `units` of cell groups side by side in a word, or of several
 * words. */
typedef struct {
    uint32_t groups_per_unit, words, bytes;
} chip_unit;
chip_unit chip_unit_of(const presil_config *c, uint32_t esize);
/* The same where a group's last cells may be idle: no other group beside it then. */
chip_unit chip_problem_unit(const chip_problem *p, uint32_t esize);
/* Outputs in a unit whose first cell group is g, of `groups` left. */
typedef struct {
    int64_t first, count;
} chip_outputs;
static inline chip_outputs chip_unit_outputs(const chip_problem *p, const chip_unit *unit, uint32_t g,
                                             uint32_t groups) {
    const uint32_t own = groups < unit->groups_per_unit ? groups : unit->groups_per_unit;
    const int64_t first = chip_first_output(&p->split, g);
    return (chip_outputs){first, chip_end_output(&p->split, g + own - 1) - first};
}

/* Range of physical input rows (or columns) for a range of outputs and kernel positions. o: MATRIX ox/oy relative to
 * `first`. */
typedef struct {
    int64_t first, count, o;
} chip_axis;
chip_axis chip_axis_map(int64_t out0, int64_t outs, int64_t k0, int64_t ks, int64_t stride, int64_t dilation,
                        int64_t pad, int64_t input_dilation, int64_t size);
/* Packed layers: base rows of the packed words of block cb; step between them. */
typedef struct {
    int64_t first, count, step;
} chip_packed_rows;
chip_packed_rows chip_packed_map(const chip_problem *p, uint32_t cb, int64_t out0, int64_t outs);

#endif
