/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights: the scratchpad image of every weight block, as docs/numerics.md section 5 orders them, and the
 * epilogue's parameters beside them. */
#include <stdlib.h>
#include <string.h>
#include "problem.h"

enum { FP16_NAN = 0x7e00 };

static uint16_t round_bf16(uint32_t x) { return (uint16_t)((x + 0x7fffu + ((x >> 16) & 1u)) >> 16); }

static float as_float(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t as_bits(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* Rounds to 8 bits with unbounded exponent, then flushes what is below 2^-126. */
static uint16_t term_of(float f) {
    bool small = f < 1.0f && f > -1.0f;
    uint16_t t = round_bf16(as_bits(small ? f * 0x1p64f : f));
    if (!small) return t;
    float v = as_float((uint32_t)t << 16);
    if (v < 0x1p-62f && v > -0x1p-62f) return 0;
    return (uint16_t)(as_bits(v * 0x1p-64f) >> 16);
}

void chip_split_fp32(uint32_t x, uint16_t terms[CHIP_TERMS]) {
    uint32_t exponent = (x >> 23) & 255u;
    uint16_t sign = (uint16_t)((x >> 16) & 0x8000u);
    terms[1] = terms[2] = 0;
    if (exponent == 255u) {
        terms[0] = (x & 0x7fffffu) ? 0x7fc0u : (uint16_t)(sign | 0x7f80u);
        return;
    }
    if (exponent == 0) {
        terms[0] = sign;
        return;
    }
    terms[0] = round_bf16(x);
    if ((terms[0] & 0x7f80u) == 0x7f80u) terms[0] = (uint16_t)(sign | 0x7f7fu);
    float rest = as_float(x) - as_float((uint32_t)terms[0] << 16); /* exact, also where subnormal */
    terms[1] = term_of(rest);
    rest -= as_float((uint32_t)terms[1] << 16);
    terms[2] = term_of(rest);
}

void chip_layout_blocks(const presil_layout *l, uint32_t g, uint32_t *first, uint32_t *count) {
    if (l->groups == 1) {
        *first = 0;
        *count = l->blocks;
        return;
    }
    const int64_t o0 = chip_first_output(&l->split, g), o1 = chip_end_output(&l->split, g) - 1;
    int64_t c0 = o0 / l->group_outputs * l->group_channels, c1 = (o1 / l->group_outputs + 1) * l->group_channels - 1;
    *first = (uint32_t)(c0 / l->block);
    *count = (uint32_t)(c1 / l->block) - *first + 1;
}

uint64_t chip_layout_words_before(const presil_layout *l, uint32_t cb) {
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < l->runs && i < cb; i++) blocks += l->run[i].blocks;
    if (!l->runs) blocks = (uint64_t)cb * l->grid_y * l->grid_x;
    return blocks * chip_layout_position_words(l);
}

uint64_t chip_layout_group_words(const presil_layout *l, uint32_t g) {
    uint64_t words = 0;
    if (l->groups == 1) return (uint64_t)g * chip_layout_words_before(l, l->blocks);
    for (uint32_t i = 0; i < g; i++) {
        uint32_t first, count;
        chip_layout_blocks(l, i, &first, &count);
        words += chip_layout_words_before(l, count);
    }
    return words;
}

/* Of the whole kernel, with `rows` of its rows in each. */
static uint32_t blocks_of(const presil_layout *l, uint32_t rows) { return (uint32_t)ceil_div(l->kernel[0], rows); }

/* A list of kernel rows in a block, ascending: what it costs. */
typedef struct {
    uint32_t rows[CHIP_RUNS], runs, blocks;
} run_list;

/* Tries all lists that begin with `list` and hold `rest` elements more; the first of the fewest blocks, then of the
 * fewest runs, stays in *best. */
static void try_runs(const presil_layout *l, run_list list, int64_t rest, run_list *best) {
    if (rest <= 0) {
        if (list.blocks < best->blocks || (list.blocks == best->blocks && list.runs < best->runs)) *best = list;
        return;
    }
    if (list.runs == CHIP_RUNS) return;
    uint32_t first = list.runs ? list.rows[list.runs - 1] : 1,
             last = (uint32_t)min64(min64(l->kernel[0], CHIP_RUN_ROWS), l->block);
    for (uint32_t rows = first; rows <= last; rows++) {
        run_list longer = list;
        longer.rows[longer.runs++] = rows;
        longer.blocks += blocks_of(l, rows);
        if (longer.blocks <= best->blocks) try_runs(l, longer, rest - l->block / rows, best);
    }
}

/* Where that takes fewer blocks, and LOAD is not what bounds the layer then: each kernel row of a run is a piece of its
 * own for every pixel. */
static void cut_in_runs(presil_layout *l) {
    uint64_t groups = (uint64_t)ceil_div(l->out_channels, l->config.cells), pieces = 0;
    run_list best = {.runs = CHIP_RUNS + 1, .blocks = l->blocks * l->grid_y};
    if (l->slice_elements > CHIP_RUNS * l->block || l->kernel[0] > UINT16_MAX) return;
    try_runs(l, (run_list){0}, l->slice_elements, &best);
    if (best.runs > CHIP_RUNS || best.blocks == l->blocks * l->grid_y) return;
    uint32_t at = 0, most_rows = 0, most_blocks = 0;
    for (uint32_t i = 0; i < best.runs; i++) {
        uint32_t blocks = blocks_of(l, best.rows[i]), rows = blocks_of(l, blocks),
                 count = (uint32_t)min64(l->block / best.rows[i], l->slice_elements - at);
        l->run[i] = (chip_run){at, count, rows, blocks};
        at += count, pieces += rows;
        most_rows = rows > most_rows ? rows : most_rows, most_blocks = blocks > most_blocks ? blocks : most_blocks;
    }
    if (4 * pieces > 3 * best.blocks * groups) return;
    l->runs = l->blocks = best.runs, l->pack_rows = most_rows, l->grid_y = most_blocks;
}

/* Kernel rows in a block, where the slice fits one: LOAD takes a cycle for each, MATRIX one for each block and cell
 * group. An even number, or all that fit: then a stride of two has as many rows to load as a stride of one. */
static uint32_t rows_to_pack(const presil_layout *l) {
    const int64_t groups = ceil_div(l->out_channels, l->config.cells);
    uint32_t best = l->pack_rows;
    int64_t least = max64(best, blocks_of(l, best) * groups);
    for (uint32_t rows = (l->pack_rows - 1) & ~1u; rows > 0; rows -= 2) {
        const int64_t cycles = max64(rows, blocks_of(l, rows) * groups);
        if (cycles < least) best = rows, least = cycles;
    }
    return best;
}

/* Block cb as a run: also where the slice is not cut into runs. */
static chip_run run_of(const presil_layout *l, uint32_t cb) {
    if (l->runs) return l->run[cb];
    uint32_t first = l->pack_rows > 1 ? 0 : cb * l->block;
    return (chip_run){first, (uint32_t)min64(l->slice_elements - first, l->block), l->pack_rows, l->grid_y};
}

/* Rows of a block beyond the kernel meet real data in the scratchpad, not zeros: their weights are absent. */
static bool rows_beyond(const presil_layout *l) {
    for (uint32_t cb = 0; cb < l->blocks; cb++)
        if (l->kernel[0] % run_of(l, cb).rows) return true;
    return false;
}

/* A channel for each cell, or for some that follow each other; kernels whose weights and activations fit the scratchpad
 * uncut. Between elements of a dilated input an int8 one has its zero point, not nothing. */
static bool is_depthwise(const presil_layout *l) {
    for (int i = 0; i < 2; i++) {
        const bool dense = l->dilation[i] == 1 || l->kernel[i] == 1;
        if (l->kernel[i] > CHIP_DEPTHWISE_KERNEL || (l->input_dilation[i] > 1 && !(dense && l->esize == 2)))
            return false;
    }
    return l->groups > 1 && l->group_channels == 1 && l->group_outputs > 0 &&
           l->config.cells * l->esize <= l->config.lanes;
}

/* As many channels to a cell group as have all their outputs there, or one to several. */
static void split_depthwise(presil_layout *l) {
    const uint32_t cells = l->config.cells;
    const bool fit = l->group_outputs <= cells;
    l->block = fit ? cells / (uint32_t)l->group_outputs : 1;
    l->split =
        fit ? (chip_split){l->block * (uint32_t)l->group_outputs, 1, l->out_channels, 0}
            : (chip_split){cells, (uint32_t)ceil_div(l->group_outputs, cells), l->out_channels, l->group_outputs};
}

/* even: the groups' kernels are as far apart as those of one group. */
static void layout_init(const presil_chip *chip, const presil_weights_desc *desc, bool may_pack, bool even,
                        presil_layout *l) {
    const presil_config *c = &chip->config;
    memset(l, 0, sizeof *l);
    l->config = *c;
    l->compute = desc->compute;
    l->groups = desc->groups ? desc->groups : 1;
    l->out_channels = desc->shape[0];
    l->group_channels = desc->shape[1];
    l->in_channels = desc->shape[1] * l->groups;
    l->group_outputs = l->out_channels / l->groups;
    for (int i = 0; i < 2; i++) {
        l->kernel[i] = desc->shape[2 + i];
        l->dilation[i] = desc->dilation[i] ? desc->dilation[i] : 1;
        l->input_dilation[i] = desc->input_dilation[i] ? desc->input_dilation[i] : 1;
    }
    l->has_bias = desc->bias != NULL;
    l->has_scale = desc->scale != NULL;
    l->esize = desc->compute == PRESIL_COMPUTE_INT8 ? 1 : 2;
    l->block = c->lanes / l->esize;
    l->fp16 = desc->weight_dtype == PRESIL_FP16;
    l->terms = chip_terms(desc->compute, l->fp16);
    l->depthwise = (even || l->group_outputs == 1) && is_depthwise(l);
    l->split = chip_whole_split(c, l->out_channels);
    if (l->depthwise) split_depthwise(l);
    l->cell_groups = chip_split_groups(&l->split);
    uint32_t lanes = l->block;
    l->packed = may_pack && l->groups == 1 && l->dilation[1] == 1 && l->input_dilation[0] == 1 &&
                l->input_dilation[1] == 1 && l->kernel[0] * l->kernel[1] > 1 &&
                l->in_channels * l->esize <= c->lanes / 2;
    l->pack_rows = 1;
    if (l->packed) {
        int64_t slice = l->kernel[1] * l->in_channels;
        l->slice_elements = (uint32_t)slice;
        if (slice * l->esize <= c->lanes) l->pack_rows = (uint32_t)min64(l->kernel[0], c->lanes / (slice * l->esize));
        l->blocks = (uint32_t)ceil_div(slice, lanes);
        l->grid_y = (uint32_t)ceil_div(l->kernel[0], l->pack_rows);
        l->grid_x = 1;
        cut_in_runs(l);
        if (!l->runs && l->pack_rows > 1) {
            l->pack_rows = rows_to_pack(l);
            l->grid_y = blocks_of(l, l->pack_rows);
        }
    } else {
        l->blocks = (uint32_t)ceil_div(l->in_channels, lanes);
        l->grid_y = (uint32_t)l->kernel[0];
        l->grid_x = (uint32_t)l->kernel[1];
    }
    l->absent = l->esize == 2 && !l->depthwise && (l->groups > 1 || (l->packed && rows_beyond(l)));
    l->param_words = l->has_bias || l->has_scale ? 2 * (uint32_t)ceil_div(4 * (int64_t)c->cells, c->word_bytes) : 0;
    l->weights_offset = (uint64_t)l->cell_groups * l->param_words * c->word_bytes;
    l->term_bytes = chip_layout_group_words(l, l->cell_groups) * c->word_bytes;
    l->bytes = l->weights_offset + l->terms * l->term_bytes;
}

void chip_layout_init(const presil_chip *chip, const presil_weights_desc *desc, presil_layout *l) {
    layout_init(chip, desc, true, true, l);
}
void chip_layout_view(const presil_chip *chip, const presil_weights_desc *desc, bool even, presil_layout *l) {
    layout_init(chip, desc, false, even, l);
}

int chip_layout(const presil_chip *chip, const presil_weights_desc *desc, presil_layout **out, uint64_t *bytes,
                presil_error_buffer *error) {
    for (int i = 0; i < 4; i++) {
        if (desc->shape[i] < 0 || desc->shape[i] > INT32_MAX)
            return chip_fail(error, PRESIL_EINVAL, "weight shape[%d] is %lld", i, (long long)desc->shape[i]);
    }
    uint32_t groups = desc->groups ? desc->groups : 1;
    if (desc->shape[0] % groups)
        return chip_fail(error, PRESIL_EINVAL, "%lld output channels are not divisible by %u groups",
                         (long long)desc->shape[0], groups);
    if (desc->compute > PRESIL_COMPUTE_FP16)
        return chip_fail(error, PRESIL_EINVAL, "compute %u is none of int8, bf16, fp32, fp16", desc->compute);
    bool ok = desc->compute == PRESIL_COMPUTE_INT8 ? desc->weight_dtype == PRESIL_INT8
                                                   : chip_float_operand(desc->compute, desc->weight_dtype);
    if (!ok)
        return chip_fail(error, PRESIL_EINVAL, "weight dtype %u does not go with compute %u", desc->weight_dtype,
                         desc->compute);
    if (desc->weight_dtype == PRESIL_FP16 && !chip->fp16) return chip_fail_fp16(error, "the weights");
    for (int i = 0; i < 2; i++) {
        if (desc->dilation[i] < 0 || desc->input_dilation[i] < 0)
            return chip_fail(error, PRESIL_EINVAL, "negative dilation");
    }
    presil_layout *l = malloc(sizeof *l);
    if (!l) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a weight layout");
    chip_layout_init(chip, desc, l);
    *out = l;
    *bytes = l->bytes;
    return PRESIL_OK;
}

void chip_layout_free(presil_layout *layout) { free(layout); }

/* Where element `lane` of block (cb, gy, gx) comes from; false: beyond the reduction. */
static bool element_source(const presil_layout *l, uint32_t cb, uint32_t gy, uint32_t gx, uint32_t lane, int64_t *c,
                           int64_t *ky, int64_t *kx) {
    if (!l->packed) {
        *c = (int64_t)cb * l->block + lane;
        *ky = gy;
        *kx = gx;
        return *c < l->in_channels;
    }
    chip_run run = run_of(l, cb);
    int64_t row = lane / run.count, s = run.first + lane % run.count;
    *c = s % l->in_channels;
    *kx = s / l->in_channels;
    *ky = (int64_t)gy * run.rows + row;
    return row < run.rows && *ky < l->kernel[0];
}

typedef struct {
    int64_t offset;
    bool present;
    int64_t c;
} lane_source; /* offset in the weight tensor but for the output channel and the group */

/* Element `at` of a floating-point kernel: its bf16 terms, or fp16 that is not taken for an absent weight. */
static void weight_terms(const presil_weights_desc *desc, int64_t at, uint16_t t[CHIP_TERMS]) {
    const uint8_t *weight = desc->weight;
    if (desc->weight_dtype == PRESIL_FP32) {
        uint32_t x;
        memcpy(&x, weight + 4 * at, 4);
        chip_split_fp32(x, t);
    } else {
        memcpy(&t[0], weight + 2 * at, 2);
        if (desc->weight_dtype == PRESIL_FP16)
            t[0] = t[0] == chip_absent_code(true) ? FP16_NAN : t[0];
        else if (!(t[0] & 0x7f80u))
            t[0] &= 0x8000u;
    }
}

/* Depthwise: the words of cell group g, all terms at once. */
static void pack_depthwise(const presil_layout *l, const presil_weights_desc *desc, uint32_t g, uint8_t *to) {
    const int64_t o0 = chip_first_output(&l->split, g), outputs = chip_end_output(&l->split, g) - o0;
    for (uint32_t ky = 0; ky < l->grid_y; ky++) {
        for (uint32_t kx = 0; kx < l->grid_x; kx++) {
            uint8_t *word = to + ((size_t)ky * l->grid_x + kx) * l->config.word_bytes;
            for (int64_t i = 0; i < outputs; i++) {
                const int64_t at = (o0 + i) * desc->stride[0] + ky * desc->stride[2] + kx * desc->stride[3];
                uint16_t t[CHIP_TERMS] = {0};
                if (l->esize == 1) {
                    word[i] = ((const uint8_t *)desc->weight)[at];
                    continue;
                }
                weight_terms(desc, at, t);
                for (uint32_t k = 0; k < l->terms; k++) memcpy(word + k * l->term_bytes + 2 * i, &t[k], 2);
            }
        }
    }
}

/* One weight word of every cell; all terms at once. */
static void pack_block(const presil_layout *l, const presil_weights_desc *desc, const lane_source *lanes, uint32_t g,
                       uint8_t *to) {
    const presil_config *cfg = &l->config;
    const uint8_t *weight = desc->weight;
    for (uint32_t cell = 0; cell < cfg->cells; cell++, to += cfg->word_bytes) {
        int64_t o = (int64_t)g * cfg->cells + cell;
        if (o >= l->out_channels) continue;
        int64_t c0 = o / l->group_outputs * l->group_channels, row = o * desc->stride[0] - c0 * desc->stride[1];
        for (uint32_t i = 0; i < l->block; i++) {
            const lane_source *s = &lanes[i];
            bool own = s->present && s->c >= c0 && s->c < c0 + l->group_channels;
            int64_t at = row + s->offset;
            if (l->esize == 1) {
                to[i] = own ? weight[at] : 0;
                continue;
            }
            const uint16_t none = l->absent ? chip_absent_code(l->fp16) : 0;
            uint16_t t[CHIP_TERMS] = {none, none, none};
            if (own) weight_terms(desc, at, t);
            for (uint32_t k = 0; k < l->terms; k++) memcpy(to + k * l->term_bytes + 2 * i, &t[k], 2);
        }
    }
}

static void pack_params(const presil_layout *l, const presil_weights_desc *desc, uint8_t *to) {
    const presil_config *c = &l->config;
    size_t half = (size_t)l->param_words / 2 * c->word_bytes;
    for (uint32_t g = 0; l->param_words && g < l->cell_groups; g++, to += 2 * half) {
        const int64_t o = chip_first_output(&l->split, g);
        const size_t bytes = 4 * (size_t)(chip_end_output(&l->split, g) - o);
        if (l->has_bias) memcpy(to, (const uint8_t *)desc->bias + 4 * o, bytes);
        if (l->has_scale) memcpy(to + half, desc->scale + o, bytes);
    }
}

int chip_pack(const presil_chip *chip, const presil_layout *l, const presil_weights_desc *desc, void *to,
              presil_error_buffer *error) {
    (void)chip;
    uint8_t *image = to;
    memset(image, 0, l->bytes);
    pack_params(l, desc, image);
    lane_source *lanes = calloc(l->block, sizeof *lanes);
    if (!lanes) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory to pack weights");
    uint8_t *at = image + l->weights_offset;
    for (uint32_t g = 0; g < l->cell_groups; g++) {
        uint32_t first, count;
        chip_layout_blocks(l, g, &first, &count);
        if (l->depthwise) {
            pack_depthwise(l, desc, g, at);
            at += chip_layout_words_before(l, 1) * l->config.word_bytes;
            continue;
        }
        for (uint32_t cb = first; cb < first + count; cb++) {
            uint32_t rows = l->runs ? l->run[cb].blocks : l->grid_y;
            for (uint32_t gy = 0; gy < rows; gy++) {
                for (uint32_t gx = 0; gx < l->grid_x; gx++, at += (size_t)l->config.cells * l->config.word_bytes) {
                    for (uint32_t i = 0; i < l->block; i++) {
                        int64_t ky = 0, kx = 0;
                        lanes[i].present = element_source(l, cb, gy, gx, i, &lanes[i].c, &ky, &kx);
                        lanes[i].offset = lanes[i].c * desc->stride[1] + ky * desc->stride[2] + kx * desc->stride[3];
                    }
                    pack_block(l, desc, lanes, g, at);
                }
            }
        }
    }
    free(lanes);
    return PRESIL_OK;
}
