/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chip.h - inside driver/chip: what its files share. A convolution or matmul becomes a chip_problem (tile_conv.c,
 * tile_matmul.c), a chip_tiling is chosen for it (cost.c), a nest of loops walks the tiling (nest.c) and emits
 * operations for the engines (loads.c, emit.c), which end as descriptors with tokens in a presil_plan (plan.c).
 */
#ifndef PRESIL_CHIP_INTERNAL_H
#define PRESIL_CHIP_INTERNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "presil_chip.h"
#include "presil_hazards.h"
#include "presil_config.h"

/* fields.c: a setter of presil_desc.h was given what its field can't hold. The first of them is remembered for this
 * thread, and fails the plan that is being made. */
void chip_misfit(const char *field, int64_t value, int64_t low, int64_t high);
#define PRESIL_DESC_MISFIT chip_misfit
#include "presil_desc.h"

enum { LOAD = 0, MATRIX = 1, EPILOGUE = 2, STORE = 3, CHIP_ENGINES = 4, VECTOR = 4 }; /* VECTOR: reserved */

#define CHIP_RING_LOG2 16u
#define CHIP_SEGMENT_LIMIT 16000u /* descriptors of one launch: below the ring's size */
#define CHIP_TERMS 3u

struct presil_twin;
enum { LOOK_CYCLES = 4 * PRESIL_CAUSES, LOOKS }; /* engine * causes + cause, cycles */

struct presil_chip {
    presil_config config;
    struct presil_twin *twin;             /* created at the first execute() */
    uint32_t launches_submitted, segment; /* segment: running or last */
    bool looked;                          /* look: counters at the first look since something worked (why.c) */
    uint32_t look[LOOKS];
    uint64_t look_work;
};

int chip_fail(const presil_error_buffer *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* PRESIL_OK, or EUNSUPPORTED with text if a value did not fit since the last call. */
int chip_fields_fit(const presil_error_buffer *error);

static inline int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
static inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
/* bf16 terms of an operand, and passes over their products (docs/numerics.md 5). */
static inline uint32_t chip_terms(uint32_t compute) {
    return compute == PRESIL_COMPUTE_FP32 ? CHIP_TERMS : compute == PRESIL_COMPUTE_FP16 ? 2 : 1;
}
static inline uint32_t chip_passes(uint32_t terms) { return terms == 3 ? 6 : terms == 2 ? 4 : 1; }
static inline uint32_t chip_words(const presil_config *c) { return c->banks * c->bank_words; }

/* Bus beats of each of several rows, `stride` apart: about, where they are not aligned alike. */
static inline int64_t chip_row_beats(uint64_t address, int64_t bytes, int64_t stride, int64_t word) {
    int64_t offset = (int64_t)(address % (uint64_t)word);
    return stride % word ? ceil_div(bytes, word) + (bytes % word != 1) : ceil_div(offset + bytes, word);
}

/* ---- packed weights ------------------------------------------------------------------------- */
/* The image in DRAM: parameters of every cell group (bias words, scale words), then for each term the weight blocks of
 * every cell group: [group][channel block][kernel row][kernel column][cell], one scratchpad word each (docs/numerics.md
 * 5, docs/isa.md 5). */
struct presil_layout {
    presil_config config;
    uint32_t compute, groups;
    bool has_bias, has_scale, packed, absent;
    int64_t out_channels, in_channels, group_channels, group_outputs; /* O, I, I/groups, O/groups */
    int64_t kernel[2], dilation[2], input_dilation[2];
    uint32_t terms, esize, block;       /* bf16 terms of a weight; bytes of an element; elements of a channel block */
    uint32_t pack_rows, slice_elements; /* packed: kernel rows in a block, elements of one kernel row's slice */
    uint32_t blocks;                    /* channel (or slice) blocks of the whole input */
    uint32_t grid_y, grid_x;            /* kernel rows and columns that MATRIX walks */
    uint32_t cell_groups,
        param_words; /* param_words: of one cell group, 2·ceil(4·CELLS/WORD), or 0 without bias and scale */
    uint64_t weights_offset, term_bytes, bytes;
};
/* Channel blocks that cell group g uses. */
void chip_layout_blocks(const presil_layout *layout, uint32_t g, uint32_t *first, uint32_t *count);
/* Words before the blocks of cell group g within a term. */
uint64_t chip_layout_group_words(const presil_layout *layout, uint32_t g);
void chip_layout_init(const presil_chip *chip, const presil_weights_desc *desc, presil_layout *layout);
void chip_layout_view(const presil_chip *chip, const presil_weights_desc *desc,
                      presil_layout *layout); /* for a kernel by view: never packed */
int chip_layout(const presil_chip *chip, const presil_weights_desc *desc, presil_layout **out, uint64_t *bytes,
                presil_error_buffer *error);
int chip_pack(const presil_chip *chip, const presil_layout *layout, const presil_weights_desc *desc, void *to,
              presil_error_buffer *error);
void chip_layout_free(presil_layout *layout);
void chip_split_fp32(uint32_t x, uint16_t terms[CHIP_TERMS]);

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
typedef enum { WGT_IMAGE, WGT_ROWS, WGT_COLUMNS, WGT_ELEMENTS, WGT_GROUPS, WGT_LANES } chip_wgt_kind;

/* One of the three dimensions that a weight gradient sums over: position i of the gradient meets position i*stride +
 * k*dilation - pad of the input, of `size`, k the kernel's row or column (or 0). act, wgt: bytes between positions of
 * input and gradient. */
typedef enum { KERNEL_NONE, KERNEL_ROW, KERNEL_COLUMN } chip_kernel_axis;
typedef struct {
    int64_t count, stride, dilation, pad, size, act, wgt, axis;
} chip_sum_axis; /* axis: chip_kernel_axis; no padding bytes, as problems are compared */

typedef struct {
    const presil_config *config;
    bool bf16, absent, convert;          /* convert: fp32 in memory, bf16 terms in the scratchpad */
    uint32_t esize, block;               /* scratchpad bytes of an element, elements of a block */
    uint32_t passes, terms;              /* 1 and 1, 4 and 2, or 6 and 3 */
    int64_t images, out_h, out_w, out_c; /* output */
    int64_t in_h, in_w, in_c;            /* input */
    int64_t stride_y, stride_x, pad_y, pad_x, dilation_y, dilation_x, input_dilation_y, input_dilation_x;
    uint32_t grid_y, grid_x, blocks;   /* MATRIX loops over the whole reduction */
    uint32_t kernel_x;                 /* packed: columns of the kernel in a slice */
    uint32_t pack_rows;                /* packed: kernel rows in a block, else 1 */
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
/* Fewer, longer dimensions where nothing changes: strided 1×1 kernels subsample in memory, dense pixels become one
 * column. */
void chip_problem_normalise(chip_problem *p);
int chip_problem_check(const chip_problem *p, presil_error_buffer *error);
static inline bool chip_stride_fits(int64_t bytes) { return bytes >= INT32_MIN && bytes <= INT32_MAX; }
/* Of a loop that runs once where its stride does not fit. */
static inline int64_t chip_loop_stride(int64_t bytes) { return chip_stride_fits(bytes) ? bytes : 0; }
int chip_epilogue_template(chip_problem *p, const presil_epilogue *epilogue, uint32_t out_dtype, bool bias, bool scale,
                           presil_error_buffer *error);

/* ---- tilings -------------------------------------------------------------------------------- */
typedef struct {
    uint32_t group_outer;      /* 1: cell groups outside, pixels inside */
    uint32_t tile_w, tile_h;   /* output pixels of a job */
    uint32_t band_h;           /* output rows whose input is held together; a multiple of tile_h */
    uint32_t part_blocks;      /* channel blocks of a part of the reduction ... */
    uint32_t part_ky, part_kx; /* ... and kernel rows and columns (less than all only if part_blocks = 1) */
    uint32_t interleave;       /* cell groups that share an accumulator half */
    uint32_t store_groups;     /* cell groups that leave together */
    uint32_t act_slots, wgt_slots, out_slots, res_slots, param_groups, param_slots;
    /* derived */
    uint32_t act_row_words, act_pitch, act_slot_words, wgt_slot_words, out_unit_words, out_slot_words, res_unit_words,
        res_slot_words, total_words;
    uint64_t estimate;
} chip_tiling;

/* Candidates that fit, best estimate first; count > 0 or EUNSUPPORTED with a text. */
int chip_tilings(const chip_problem *p, chip_tiling *list, uint32_t capacity, uint32_t *count,
                 presil_error_buffer *error);
/* Fills the derived members; false if it doesn't fit. */
bool chip_tiling_fit(const chip_problem *p, chip_tiling *t);

/* Rows of the output-shaped tensors in the scratchpad: `units` of cell groups side by side in a word, or of several
 * words. */
typedef struct {
    uint32_t groups_per_unit, words, bytes;
} chip_unit;
chip_unit chip_unit_of(const presil_config *c, uint32_t esize);

/* Range of physical input rows (or columns) for a range of outputs and kernel positions. o: MATRIX ox/oy relative to
 * `first`. */
typedef struct {
    int64_t first, count, o;
} chip_axis;
chip_axis chip_axis_map(int64_t out0, int64_t outs, int64_t k0, int64_t ks, int64_t stride, int64_t dilation,
                        int64_t pad, int64_t input_dilation, int64_t size);
/* Packed layers: base rows of the packed words; step between them. */
typedef struct {
    int64_t first, count, step;
} chip_packed_rows;
chip_packed_rows chip_packed_map(const chip_problem *p, int64_t out0, int64_t outs);

/* Whose address a LOAD or STORE has. */
enum { OPERAND_NONE, OPERAND_INPUT, OPERAND_WEIGHTS, OPERAND_PACKED, OPERAND_RESIDUAL, OPERAND_OUTPUT, CHIP_OPERANDS };

/* ---- operations ----------------------------------------------------------------------------- */
typedef struct {
    presil_desc d;
    uint32_t need[CHIP_ENGINES]; /* number of operations of each engine that must be complete */
    uint32_t cycles;             /* estimate: engine occupied */
    uint32_t beats;              /* estimate: bus */
    uint32_t engine;
    uint8_t operand;     /* LOAD, STORE: chip_operand that the address lies in */
    bool reads_residual; /* EPILOGUE */
} chip_op;

typedef struct {
    const presil_config *config;
    chip_op *ops;
    size_t count, capacity;
    size_t *cuts; /* first operation of each segment after the first */
    size_t cut_count, cut_capacity;
    uint32_t seq[CHIP_ENGINES]; /* operations of this segment so far */
    uint32_t tile;              /* tag of the next operations */
    bool failed;                /* out of host memory */
    chip_op discard;            /* where operations go then; the plan fails */
} chip_builder;

chip_op *chip_emit(chip_builder *b, uint32_t engine); /* never NULL; seq[engine] is its number */
void chip_builder_cut(chip_builder *b);               /* a new segment begins: nothing may be carried over */
void chip_builder_free(chip_builder *b);
/* timing.c: estimated cycles of all segments, and of them before the first and after the last work of MATRIX; fills
 * start times if `starts` is not NULL. */
uint64_t chip_builder_time(const chip_builder *b, uint64_t *starts, uint64_t *edges);
static inline void chip_need(chip_op *op, uint32_t engine, uint32_t seq) {
    if (seq > op->need[engine]) op->need[engine] = seq;
}

/* ---- plans ---------------------------------------------------------------------------------- */
/* An operator of a merged plan: its output, and which descriptors are its own. */
typedef struct {
    chip_view out;
    int64_t out_shape[4];
    char label[64];
    size_t first, end;
} chip_part;

/* debug.c: where a prefix carries the chip's own memories to, and which of its descriptors are not the plan's. */
typedef struct {
    uint64_t to; /* 0: nowhere */
    size_t first, before;
} chip_observation;

/* templates.c: commands that plans share, for any place of their operands. */
typedef struct chip_template chip_template;

struct presil_plan {
    presil_config config;
    const presil_desc *list;
    const uint8_t *operands;    /* of each descriptor: whose address it has; NULL: not known, and nothing is moved */
    const size_t *segment_ends; /* descriptors before the end of each launch */
    size_t count;
    uint32_t segments;
    const chip_template *shared;   /* whose the three lists are; NULL: the plan's own */
    uint64_t shift[CHIP_OPERANDS]; /* by operand: to be added to the address of a LOAD or STORE in `list` */
    char label[64];
    uint64_t macs, passes, peak, signature, estimate;
    presil_byte_range *reads, *writes;
    uint32_t read_count, write_count;
    presil_box *boxes; /* written too */
    uint32_t box_count;
    chip_view out; /* as the caller gave it: [n][y][x][c] */
    int64_t out_shape[4];
    chip_tiling tiling;
    chip_part *parts; /* merged plans only */
    uint32_t part_count;
    chip_observation observed;
};
int chip_plan_from(chip_builder *b, presil_plan *plan, presil_error_buffer *error); /* order, tokens, signature */
/* The lists of a plan that shares none. They may be changed until somebody shares them. */
static inline presil_desc *chip_own_list(presil_plan *plan) {
    assert(!plan->shared);
    return (presil_desc *)(uintptr_t)plan->list;
}
static inline uint8_t *chip_own_operands(presil_plan *plan) {
    assert(!plan->shared);
    return (uint8_t *)(uintptr_t)plan->operands;
}
static inline size_t *chip_own_ends(presil_plan *plan) {
    assert(!plan->shared);
    return (size_t *)(uintptr_t)plan->segment_ends;
}
/* commands.c: room for lists of a plan that has none; false: no host memory. */
bool chip_plan_room(presil_plan *plan, size_t count, size_t segments, bool operands);
void chip_plan_drop_commands(presil_plan *plan);
/* What has to be added to the address in descriptor i. */
static inline uint64_t chip_shift(const presil_plan *plan, size_t i) {
    return plan->shared ? plan->shift[plan->operands[i]] : 0;
}
/* Descriptors [first, first + count) as the chip gets them. */
void chip_commands_at(const presil_plan *plan, size_t first, size_t count, presil_desc *to);
/* The address of a LOAD or STORE. */
static inline uint64_t chip_address(const presil_desc *d) {
    return (uint64_t)presil_load_addr_hi(d) << 32 | presil_load_addr_lo(d);
}
static inline void chip_address_set(presil_desc *d, uint64_t address) {
    presil_load_addr_lo_set(d, (uint32_t)address);
    presil_load_addr_hi_set(d, (int64_t)(address >> 32));
}
presil_plan *chip_plan_new(const presil_config *config, const char *label, const char *default_label);
/* footprint.c */
int chip_plan_ranges(presil_plan *plan, const chip_view *const *reads, const int64_t (*read_shapes)[4], uint32_t count,
                     const presil_byte_range *extra, uint32_t extra_count, presil_error_buffer *error);
uint32_t chip_merge_ranges(presil_byte_range *list,
                           size_t count); /* sorts and joins in place; returns how many are left */
/* All that it writes, as sorted ranges, to be freed; NULL: no host memory. */
presil_byte_range *chip_plan_written(const presil_plan *plan, uint32_t *count);
uint64_t chip_plan_signature(
    const presil_plan *plan); /* of the commands, DRAM addresses reduced to their offset in the page */
static inline uint32_t chip_token_slot(uint32_t engine, uint32_t consumer) {
    return consumer < engine ? consumer : consumer - 1;
} /* 0..3: counter of `engine` that it gives to `consumer` */
void chip_plan_free(presil_plan *plan);
int chip_plan_info(const presil_plan *plan, presil_plan_info *out);
int chip_plan_describe(const presil_plan *plan, presil_daddr address, char *text, size_t bytes);
/* Proves a launch: no deadlock, no overflow of tokens, no hazard on scratchpad or accumulators, every field legal. 0,
 * or -1 with the first violation in text. */
int chip_check_plan(const presil_config *config, const presil_desc *list, size_t count, char *text, size_t bytes);
/* The same; -1: also the descriptor that is wrong. */
int chip_check_first(const presil_config *config, const presil_desc *list, size_t count, size_t *index, char *text,
                     size_t bytes);
typedef struct {
    uint32_t clock[CHIP_ENGINES]; /* operations of each engine that are complete when the descriptor starts */
    uint32_t seq;                 /* its number among its engine's, from 1 */
} chip_moment;
/* The same, and what tokens say of each descriptor; at: `count` of them, set if 0 is returned. */
int chip_check_moments(const presil_config *config, const presil_desc *list, size_t count, chip_moment *at, char *text,
                       size_t bytes);
const char *chip_opcode_name(const presil_desc *d);
/* hazard.c: what presil_hazards tells, as it is found. */
typedef struct {
    const char *const *labels; /* of each command; may be NULL */
    presil_hazard_sink sink;   /* may be NULL */
    void *context;
    size_t found, last; /* last: the command that was told of last */
} chip_hazards;
void chip_hazard_tell(chip_hazards *h, presil_hazard_kind kind, const presil_desc *d, size_t command, size_t other,
                      const char *text);
/* Any list, by the rules of docs/isa.md alone: all that is found is told, one for each command. at: as above. -1: some
 * of it never runs. */
int chip_check_hazards(const presil_config *config, const presil_desc *list, size_t count, chip_moment *at,
                       chip_hazards *hazards);
/* Of a list that runs to its end: the order of LOADs and STOREs in DRAM. */
int chip_order_hazards(const presil_desc *list, size_t count, const chip_moment *at, chip_hazards *hazards);
/* PRESIL_HAZARDS=1: looks at a launch before it is submitted; EDESC, and all that is found on standard error. */
int chip_hazards_of_launch(const presil_plan *plan, size_t first, size_t end, presil_error_buffer *error);
/* The same of descriptors [first, end) of a plan, a launch, and the order of LOADs and STOREs in DRAM (order.c): of a
 * merged plan between its operators, else of all. */
int chip_check_order(const presil_plan *plan, size_t first, size_t end, char *text, size_t bytes);
/* The same of all launches of a plan, and that it reads and writes what it declares. */
int chip_prove(const presil_plan *plan, char *text, size_t bytes);
/* The end of every planner: with PRESIL_CHECK_PLANS proves the plan, EDESC (and freed) if it is wrong. */
int chip_plan_done(presil_plan *plan, presil_plan **out, presil_error_buffer *error);
/* Words and rows that chip_check_plan and the executor walk for a list; UINT64_MAX: more than fit. */
uint64_t chip_effort(const presil_config *config, const presil_desc *list, size_t count);

/* Emits all operations of a problem under a tiling. */
int chip_nest(const chip_problem *p, const chip_tiling *t, chip_builder *b, presil_error_buffer *error);
/* Chooses a tiling (forced: the n-th) and fills the plan's command list. */
int chip_solve(const chip_problem *p, uint32_t forced, presil_plan *plan, presil_error_buffer *error);

/* templates.c: the commands of an equal problem planned before, shared at this one's addresses; and what the next one
 * may share. */
bool chip_template_recall(const chip_problem *p, presil_plan *plan);
void chip_template_remember(const chip_problem *p, presil_plan *plan);
void chip_template_release(const chip_template *t);
/* A plan's own copy of shared commands, with its addresses in them. false: no host memory. */
bool chip_plan_own(presil_plan *plan);
typedef struct {
    uint64_t planned, recalled, evicted; /* since the process began; planned: problems that nothing was known of */
    uint64_t bytes, templates;           /* kept now */
    uint64_t most_bytes;
} chip_template_figures;
chip_template_figures chip_templates(void);
void chip_templates_limit(uint64_t most_bytes); /* evicts what is too much */

int chip_plan_conv2d(const presil_chip *chip, const presil_conv2d_desc *desc, const presil_layout *layout,
                     presil_daddr packed, presil_plan **out, presil_error_buffer *error);
int chip_plan_matmul(const presil_chip *chip, const presil_matmul_desc *desc, presil_plan **out,
                     presil_error_buffer *error);
int chip_plan_weight_grad(const presil_chip *chip, const presil_conv2d_weight_grad_desc *desc, presil_plan **out,
                          presil_error_buffer *error);
int chip_plan_copy(const presil_chip *chip, presil_daddr to, presil_daddr from, uint64_t bytes, presil_plan **out,
                   presil_error_buffer *error);
int chip_plan_nop(const presil_chip *chip, presil_plan **out, presil_error_buffer *error);
/* op.c: any of them. */
int chip_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error);
int chip_names(const presil_chip *chip, presil_names *out);
int chip_save(const presil_plan *plan, presil_daddr base, void *to, uint64_t *size, presil_error_buffer *error);
int chip_load(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
              presil_plan **out, presil_error_buffer *error);
int chip_load_refused(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                      presil_plan **result, presil_error_buffer *error);
bool chip_image_ranges(presil_plan *plan); /* reads and writes, from the commands; false: no host memory */
int chip_commands(const presil_plan *plan, uint64_t *count);
int chip_command_name(const presil_plan *plan, uint64_t n, char *text, size_t bytes);
int chip_observed(const presil_chip *chip, uint64_t *bytes);
int chip_prefix(const presil_chip *chip, const presil_plan *plan, uint64_t commands, const presil_daddr *to,
                presil_plan **result, presil_error_buffer *error);
int chip_subset(const presil_chip *chip, const presil_plan *plan, uint8_t *keep, presil_plan **result,
                presil_error_buffer *error);
/* debug.c: room for a part of a plan, and `more`; NULL: no host memory. Ranges and signature, when its list is there;
 * owns `out`. */
presil_plan *chip_plan_part(const presil_plan *plan, size_t more);
int chip_plan_part_done(presil_plan *out, presil_plan **result, presil_error_buffer *error);
bool chip_describe_observed(const presil_plan *plan, uint64_t address, char *text, size_t bytes);
int chip_merge(const presil_chip *chip, const presil_plan *const *plans, uint32_t count, const char *label,
               presil_plan **out, presil_error_buffer *error);

int chip_probe(presil_chip *chip, const presil_link *link, presil_error_buffer *error);
int chip_reset(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
               presil_error_buffer *error);
int chip_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                const presil_plan *plan, uint32_t segment, presil_error_buffer *error);
int chip_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out);
int chip_why(presil_chip *chip, const presil_link *link, const presil_plan *plan, char *text, size_t bytes);
int chip_waits(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_waiting *rows, uint32_t most,
               uint32_t *count, int *verdict);
size_t chip_completion(const presil_chip *chip, presil_register_access *out);
int chip_counters(presil_chip *chip, const presil_link *link, presil_report *out);
int chip_progress(presil_chip *chip, const presil_link *link, uint64_t *work);
int chip_execute(presil_chip *chip, const presil_plan *plan, const presil_executor_memory *memory,
                 presil_error_buffer *error);

#endif
