/* SPDX-License-Identifier: Apache-2.0 */
/* LOAD descriptors for weights: the packed image, or a view of device memory with any strides. Scratchpad:
 * [block][kernel row][kernel column][cell], a word each. */
#include "loads.h"

/* Two codes of weights of another group. */
static uint32_t absent_pad(const chip_problem *p) { return 0x10001u * chip_absent_code(p->fp16); }

static uint32_t conv_of(bool convert, uint32_t term) { return convert ? PRESIL_CONV_TERM0 + term : PRESIL_CONV_NONE; }

/* Of a dilated input's phase: every `step`-th row and column of the kernel. */
static void load_phase(chip_nest_state *s, chip_nest_slot *slot, uint32_t g, const chip_nest_part *part,
                       uint32_t term) {
    const chip_problem *p = s->p;
    const presil_layout *whole = p->layout;
    uint32_t first, count;
    chip_problem_blocks(p, g, &first, &count);
    const int64_t word = p->config->word_bytes, position = chip_layout_position_words(whole) * word,
                  row = whole->grid_x * position, ky = p->phase_y.first + part->ky * p->phase_y.step,
                  kx = p->phase_x.first + part->kx * p->phase_x.step;
    const uint64_t words = chip_layout_group_words(whole, g) + chip_layout_words_before(whole, part->cb - first);
    chip_load_shape l = {.addr = p->packed + whole->weights_offset + term * whole->term_bytes + words * (uint64_t)word +
                                 (uint64_t)(ky * row + kx * position),
                         .row_bytes = position,
                         .chunk_bytes = position,
                         .word_bytes = word,
                         .n = {1, part->nkx, part->nky, part->ncb},
                         .ds = {0, p->phase_x.step * position, p->phase_y.step * row, whole->grid_y * row},
                         .esize = 1,
                         .sp_base = slot->base * word,
                         .sw = word,
                         .ss = {0, position, part->nkx * position, part->nky * part->nkx * position}};
    chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
}

static void load_image(chip_nest_state *s, chip_nest_slot *slot, uint32_t g, const chip_nest_part *part,
                       uint32_t term) {
    const chip_problem *p = s->p;
    const presil_config *c = p->config;
    if (p->phased && !p->depthwise) { /* a depthwise phase has the whole kernel */
        load_phase(s, slot, g, part, term);
        return;
    }
    uint32_t first, count;
    chip_problem_blocks(p, g, &first, &count);
    uint32_t position = chip_layout_position_words(p->layout);
    int64_t block = (int64_t)position * c->word_bytes;
    uint64_t words = chip_layout_group_words(p->layout, g) + chip_layout_words_before(p->layout, part->cb - first) +
                     ((uint64_t)part->ky * p->layout->grid_x + part->kx) * position;
    int64_t blocks = (int64_t)part->ncb * part->nky * part->nkx;
    chip_load_shape l = {.addr = p->packed + p->layout->weights_offset + term * p->layout->term_bytes +
                                 words * c->word_bytes,
                         .row_bytes = blocks * block,
                         .step0 = block,
                         .chunk_bytes = block,
                         .word_bytes = c->word_bytes,
                         .n = {blocks, 1, 1, 1},
                         .esize = 1,
                         .sp_base = (int64_t)slot->base * c->word_bytes,
                         .sw = c->word_bytes,
                         .ss = {block, 0, 0, 0}};
    chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
}

/* Where a part of the weights begins; words between kernel columns, kernel rows, blocks. */
typedef struct {
    uint64_t addr;
    int64_t o, k, valid, column, row, block, sp_base;
} wgt_place;

static wgt_place place_of(const chip_nest_state *s, const chip_nest_slot *slot, uint32_t g, int64_t n,
                          const chip_nest_part *part) {
    const chip_problem *p = s->p;
    int64_t cells = p->config->cells, word = p->config->word_bytes, o = chip_first_output(&p->split, g),
            k = (int64_t)part->cb * p->block;
    return (wgt_place){p->wgt_base + (uint64_t)(n * p->wgt_sn + o * p->wgt_so + k * p->wgt_sk + part->ky * p->wgt_sy +
                                                part->kx * p->wgt_sx),
                       o,
                       k,
                       chip_end_output(&p->split, g) - o,
                       cells * word,
                       part->nkx * cells * word,
                       (int64_t)part->nky * part->nkx * cells * word,
                       slot->base * word};
}

/* The reduction is contiguous: a row for each cell; what is beyond the matrix is padding. */
static void load_rows(chip_nest_state *s, chip_nest_slot *slot, const wgt_place *at, const chip_nest_part *part,
                      uint32_t term) {
    const chip_problem *p = s->p;
    int64_t source = p->wgt_esize;
    chip_load_shape l = {.addr = at->addr,
                         .row_bytes = min64(p->in_c - at->k, (int64_t)part->ncb * p->block) * source,
                         .chunk_bytes = (int64_t)part->ncb * p->block * source,
                         .word_bytes = p->block * source,
                         .n = {1, p->config->cells, part->nkx, part->nky},
                         .ds = {0, p->wgt_so, p->wgt_sx, p->wgt_sy},
                         .esize = p->wgt_esize,
                         .conv = conv_of(p->wgt_convert, term),
                         .sp_base = at->sp_base,
                         .sw = at->block,
                         .ss = {0, p->config->word_bytes, at->column, at->row},
                         .rp = {0, 1, 0, 0},
                         .row_limit = at->valid};
    chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
}

/* Output channels are contiguous: transposed, as many cells at a time as a word has elements. */
static void load_columns(chip_nest_state *s, chip_nest_slot *slot, const wgt_place *at, const chip_nest_part *part,
                         uint32_t term) {
    const chip_problem *p = s->p;
    const presil_config *c = p->config;
    int64_t source = p->wgt_esize, word = c->word_bytes, most = word * (p->wgt_convert ? 2 : 1) / source;
    bool positions = part->nky * part->nkx > 1; /* a descriptor has loops for them or for blocks */
    for (int64_t cell = 0; cell < c->cells; cell += most) {
        int64_t cells = min64(most, c->cells - cell);
        for (int64_t cb = 0; cb < part->ncb;) {
            int64_t rest = p->in_c - at->k - cb * p->block;
            bool whole = rest >= p->block;
            bool together = whole && !positions && chip_stride_fits(p->block * p->wgt_sk);
            int64_t blocks = together ? min64(part->ncb - cb, rest / p->block) : 1;
            chip_load_shape l = {
                .addr = at->addr + (uint64_t)(min64(cell, p->out_c - 1 - at->o) * source + cb * p->block * p->wgt_sk),
                .row_bytes = max64(0, min64(cells, at->valid - cell)) * source,
                .chunk_bytes = cells * source,
                .word_bytes = cells * source,
                .n = {1, whole ? p->block : rest, blocks, 1},
                .ds = {0, p->wgt_sk, chip_loop_stride(p->block * p->wgt_sk), 0},
                .esize = p->wgt_esize,
                .conv = conv_of(p->wgt_convert, term),
                .transpose = 1,
                .sp_base = at->sp_base + cb * at->block + cell * word,
                .sw = word,
                .ss = {0, 0, at->block, 0}};
            if (positions) {
                l.n[2] = part->nkx, l.ds[2] = p->wgt_sx, l.ss[2] = at->column;
                l.n[3] = part->nky, l.ds[3] = p->wgt_sy, l.ss[3] = at->row;
            }
            chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
            cb += blocks;
        }
    }
}

/* Kernel positions follow each other in memory, upwards or downwards, and the part has them all: they are the words of
 * one chunk. */
static bool kernels_contiguous(const chip_problem *p, const chip_nest_part *part) {
    int64_t e = p->wgt_sx < 0 ? -(int64_t)p->wgt_esize : (int64_t)p->wgt_esize,
            positions = (int64_t)p->grid_y * p->grid_x;
    if (part->nky != p->grid_y || part->nkx != p->grid_x || positions * p->wgt_esize > UINT16_MAX) return false;
    return positions == 1 ||
           ((p->grid_x == 1 || p->wgt_sx == e) &&
            (p->grid_y == 1 ||
             p->wgt_sy == (p->grid_x == 1 ? (p->wgt_sy < 0 ? -(int64_t)p->wgt_esize : p->wgt_esize) : e * p->grid_x)));
}

/* A rectangle of lanes × cells (× groups) element by element; lane 0 of a word clears the rest of it, so lanes run
 * innermost. */
typedef struct {
    uint64_t addr;
    int64_t lanes, cells, groups, sp_base, group_ds, group_ss;
} wgt_rectangle;

static void load_rectangle(chip_nest_state *s, chip_nest_slot *slot, const wgt_rectangle *r, const wgt_place *at,
                           const chip_nest_part *part, uint32_t term, uint32_t pad) {
    const chip_problem *p = s->p;
    int64_t e = p->wgt_esize, positions = (int64_t)part->nky * part->nkx;
    chip_load_shape l = {.addr = r->addr,
                         .row_bytes = e,
                         .chunk_bytes = e,
                         .word_bytes = e,
                         .n = {1, r->lanes, r->cells, r->groups},
                         .ds = {0, p->wgt_sk, p->wgt_so, r->group_ds},
                         .esize = p->wgt_esize,
                         .conv = conv_of(p->wgt_convert, term),
                         .sp_base = r->sp_base,
                         .sw = at->column,
                         .ss = {0, p->esize, p->config->word_bytes, r->group_ss},
                         .pad = pad};
    if (kernels_contiguous(p, part)) {
        bool down = p->wgt_sx < 0 || (p->grid_x == 1 && p->wgt_sy < 0);
        l.row_bytes = l.chunk_bytes = positions * e;
        if (down && positions > 1)
            l.addr -= (uint64_t)((positions - 1) * e), l.sp_base += (positions - 1) * at->column, l.sw = -at->column;
        chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
        return;
    }
    for (uint32_t ky = 0; ky < part->nky; ky++) {
        for (uint32_t kx = 0; kx < part->nkx; kx++) {
            l.addr = r->addr + (uint64_t)(ky * p->wgt_sy + kx * p->wgt_sx);
            l.sp_base = r->sp_base + ky * at->row + kx * at->column;
            chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
        }
    }
}

static void load_elements(chip_nest_state *s, chip_nest_slot *slot, const wgt_place *at, const chip_nest_part *part,
                          uint32_t term) {
    const chip_problem *p = s->p;
    const int64_t word = p->config->word_bytes, cells = p->config->cells;
    for (int64_t cb = 0; cb < part->ncb;) {
        int64_t rest = p->in_c - at->k - cb * p->block;
        bool together = rest >= p->block && chip_stride_fits(p->block * p->wgt_sk);
        int64_t blocks = together ? min64(part->ncb - cb, rest / p->block) : 1;
        wgt_rectangle r = {at->addr + (uint64_t)(cb * p->block * p->wgt_sk),
                           min64(rest, p->block),
                           at->valid,
                           blocks,
                           at->sp_base + cb * at->block,
                           chip_loop_stride(p->block * p->wgt_sk),
                           at->block};
        load_rectangle(s, slot, &r, at, part, term, 0);
        cb += blocks;
    }
    chip_pad_shape rest = {{cells - at->valid, (int64_t)part->ncb * part->nky * part->nkx, 1},
                           {word, at->column, 0},
                           at->sp_base + at->valid * word,
                           0};
    chip_emit_padding(s, &s->wgt, slot, 0, 1, &rest);
}

/* All words absent, then the weights of each group of output channels over it; equal groups that lie in one block
 * together. */
static void load_groups(chip_nest_state *s, chip_nest_slot *slot, const wgt_place *at, const chip_nest_part *part,
                        uint32_t term) {
    const chip_problem *p = s->p;
    const presil_layout *layout = p->layout;
    int64_t word = p->config->word_bytes, words = (int64_t)part->ncb * part->nky * part->nkx * p->config->cells,
            og = layout->group_outputs, cg = layout->group_channels;
    chip_pad_shape all = {{words, 1, 1}, {word, 0, 0}, at->sp_base, absent_pad(p)};
    chip_emit_padding(s, &s->wgt, slot, 0, 1, &all);
    int64_t o_end = at->o + at->valid;
    for (int64_t cb = 0; cb < part->ncb; cb++) {
        int64_t c0 = at->k + cb * p->block, c_end = min64(c0 + p->block, p->in_c);
        for (int64_t group = at->o / og; group * og < o_end;) {
            int64_t o = max64(group * og, at->o), cells = min64((group + 1) * og, o_end) - o, c = max64(group * cg, c0),
                    lanes = min64((group + 1) * cg, c_end) - c, groups = 1;
            if (cells == og && lanes == cg && chip_stride_fits(p->wgt_sg))
                groups = max64(1, min64((o_end - o) / og, (c_end - c) / cg));
            wgt_rectangle r = {p->wgt_base + (uint64_t)(group * p->wgt_sg + (o - group * og) * p->wgt_so +
                                                        (c - group * cg) * p->wgt_sk + part->ky * p->wgt_sy +
                                                        part->kx * p->wgt_sx),
                               lanes,
                               cells,
                               groups,
                               at->sp_base + cb * at->block + (o - at->o) * word + (c - c0) * p->esize,
                               chip_loop_stride(p->wgt_sg),
                               og * word + cg * p->esize};
            if (lanes > 0) load_rectangle(s, slot, &r, at, part, term, absent_pad(p));
            group += groups;
        }
    }
}

/* Depthwise: from a cell's kernel to the next one's. */
static int64_t kernels_apart(const chip_problem *p) { return p->extra_cells ? p->wgt_so : p->wgt_sg; }

/* Depthwise: a word for each kernel position, a cell's weight in each element. Channels follow each other: a row for
 * each position. */
static void load_channel_rows(chip_nest_state *s, chip_nest_slot *slot, const wgt_place *at, const chip_nest_part *part,
                              uint32_t term) {
    const chip_problem *p = s->p;
    const int64_t e = p->wgt_esize, word = p->config->word_bytes, cells = p->config->cells * e;
    chip_load_shape l = {.addr = p->wgt_base + (uint64_t)(at->o * e + part->ky * p->wgt_sy + part->kx * p->wgt_sx),
                         .row_bytes = at->valid * e,
                         .chunk_bytes = cells,
                         .word_bytes = cells,
                         .n = {1, part->nkx, part->nky, 1},
                         .ds = {0, p->wgt_sx, p->wgt_sy, 0},
                         .esize = p->wgt_esize,
                         .conv = conv_of(p->wgt_convert, term),
                         .sp_base = at->sp_base,
                         .sw = word,
                         .ss = {0, word, part->nkx * word, 0}};
    chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
}

/* The cells' kernels are rows in DRAM, whose positions become columns: as many at once as follow each other and fit a
 * word. */
static void load_channels(chip_nest_state *s, chip_nest_slot *slot, const wgt_place *at, const chip_nest_part *part,
                          uint32_t term) {
    const chip_problem *p = s->p;
    const int64_t e = p->wgt_esize, word = p->config->word_bytes, most = word * (p->wgt_convert ? 2 : 1) / e,
                  apart = kernels_apart(p), sx = part->nkx > 1 ? p->wgt_sx : e,
                  sy = part->nky > 1 ? p->wgt_sy : part->nkx * sx;
    const bool row = (sx == e || sx == -e) && part->nkx <= most,
               whole = row && sy == part->nkx * sx && (int64_t)part->nky * part->nkx <= most;
    const int64_t columns = whole ? (int64_t)part->nky * part->nkx
                            : row ? part->nkx
                                  : 1,
                  down = sx < 0 ? columns - 1 : 0;
    chip_load_shape l = {.addr = p->wgt_base +
                                 (uint64_t)(at->o * apart + part->ky * p->wgt_sy + part->kx * p->wgt_sx - down * e),
                         .row_bytes = columns * e,
                         .chunk_bytes = columns * e,
                         .word_bytes = columns * e,
                         .n = {1, at->valid, row ? 1 : part->nkx, whole ? 1 : part->nky},
                         .ds = {0, apart, row ? 0 : sx, whole ? 0 : sy},
                         .esize = p->wgt_esize,
                         .conv = conv_of(p->wgt_convert, term),
                         .transpose = 1,
                         .sp_base = at->sp_base + down * word,
                         .sw = sx < 0 ? -word : word,
                         .ss = {0, 0, row ? 0 : word, whole ? 0 : part->nkx * word}};
    chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
}

void chip_nest_load_wgt(chip_nest_state *s, chip_nest_slot *slot, uint32_t g, int64_t n, const chip_nest_part *part,
                        uint32_t term) {
    if (s->p->wgt == WGT_IMAGE) {
        load_image(s, slot, g, part, term);
        return;
    }
    if (s->p->wgt == WGT_LANES) {
        chip_nest_load_lanes(s, slot, g, n, part, term);
        return;
    }
    wgt_place at = place_of(s, slot, g, n, part);
    switch (s->p->wgt) {
    case WGT_ROWS: load_rows(s, slot, &at, part, term); break;
    case WGT_COLUMNS: load_columns(s, slot, &at, part, term); break;
    case WGT_GROUPS: load_groups(s, slot, &at, part, term); break;
    case WGT_CHANNELS:
        if (kernels_apart(s->p) == s->p->wgt_esize)
            load_channel_rows(s, slot, &at, part, term);
        else
            load_channels(s, slot, &at, part, term);
        break;
    default: load_elements(s, slot, &at, part, term); break;
    }
}
