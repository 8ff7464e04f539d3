/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LOAD descriptors of weight gradients (asked/weight_grad.c). The reduction runs over positions of the output's
 * gradient: blocks are [outer][lanes / block][inner], a block is up to `block` positions along the lane axis. Rows of
 * activations are (kernel position, channel): the input seen through the kernel at these positions.
 */
#include "loads.h"

static uint32_t conv_of(bool convert, uint32_t term) { return convert ? PRESIL_CONV_TERM0 + term : PRESIL_CONV_NONE; }

/* Input position of gradient position 0 for a kernel position. */
static int64_t origin(const chip_problem *p, const chip_sum_axis *a, int64_t kernel) {
    int64_t k = a->axis == KERNEL_ROW ? kernel / p->kernel_w : a->axis == KERNEL_COLUMN ? kernel % p->kernel_w : 0;
    return k * a->dilation - a->pad;
}

/* Blocks that differ in the inner index alone. */
typedef struct {
    int64_t outer, lane, lanes, inner, count, at;
} run;

static run run_at(const chip_problem *p, int64_t block, int64_t left) {
    run r = {.inner = block % p->inner.count};
    int64_t piece = block / p->inner.count, pieces = ceil_div(p->lane.count, p->block);
    r.lane = piece % pieces * p->block, r.outer = piece / pieces;
    r.lanes = min64(p->block, p->lane.count - r.lane);
    r.count = min64(left, p->inner.count - r.inner);
    return r;
}

typedef struct {
    chip_nest_slot *slot;
    int64_t row0, rows, columns, sp_base, pitch;
    uint32_t term;
    uint64_t addr;
} window;

static void pad_window(chip_nest_state *s, const window *w, int64_t at, int64_t count) {
    chip_pad_shape f = {{w->columns, count, 1}, {s->p->config->word_bytes, w->pitch, 0}, w->sp_base + at * w->pitch, 0};
    chip_emit_padding(s, &s->act, w->slot, w->row0, w->rows, &f);
}

/* Channels as rows of the DMA, lanes contiguous. addr: of lane position 0. */
static void load_line(chip_nest_state *s, const window *w, uint64_t addr, int64_t first, int64_t lanes, int64_t at,
                      int64_t count, int64_t inner) {
    const chip_problem *p = s->p;
    int64_t e = p->in.esize;
    chip_load_shape l = {.addr = addr,
                         .row_bytes = p->lane.size * e,
                         .pos0 = first * e,
                         .chunk_bytes = lanes * e,
                         .word_bytes = p->block * e,
                         .n = {1, w->columns, count, 1},
                         .ds = {0, p->in.sc, inner, 0},
                         .esize = p->in.esize,
                         .conv = conv_of(p->convert, w->term),
                         .sp_base = w->sp_base + at * w->pitch,
                         .ss = {0, p->config->word_bytes, w->pitch, 0}};
    chip_emit_load(s, &s->act, w->slot, w->row0, w->rows, &l);
}

/* Lanes as rows of a transposing LOAD, channels as its columns: many where they are contiguous, else one at a time.
 * addr: of the first lane. */
static void load_transposing(chip_nest_state *s, const window *w, uint64_t addr, int64_t first, int64_t lanes,
                             int64_t at, int64_t count, int64_t inner) {
    const chip_problem *p = s->p;
    int64_t e = p->in.esize, word = p->config->word_bytes, most = p->in.sc == e ? word * (p->convert ? 2 : 1) / e : 1,
            last = first + (lanes - 1) * p->lane.stride;
    bool inside = first >= 0 && last < p->lane.size;
    for (int64_t c = 0; c < w->columns;) {
        int64_t width = min64(most, w->columns - c), pieces = (w->columns - c) / width;
        chip_load_shape l = {.addr = addr + (uint64_t)(c * p->in.sc),
                             .row_bytes = width * e,
                             .chunk_bytes = width * e,
                             .word_bytes = width * e,
                             .n = {1, lanes, pieces, count},
                             .ds = {0, p->lane.stride * p->lane.act, width * p->in.sc, inner},
                             .esize = p->in.esize,
                             .conv = conv_of(p->convert, w->term),
                             .transpose = 1,
                             .sp_base = w->sp_base + at * w->pitch + c * word,
                             .sw = word,
                             .ss = {0, 0, width * word, w->pitch},
                             .rp = {first, inside ? 0 : p->lane.stride, 0, 0},
                             .row_limit = inside ? 0 : p->lane.size};
        chip_emit_load(s, &s->act, w->slot, w->row0, w->rows, &l);
        c += width * pieces;
    }
}

/* One kernel position's rows of a run of blocks; `at`: the run's first block in the slot. */
static void load_run(chip_nest_state *s, const window *w, const run *r, int64_t kernel) {
    const chip_problem *p = s->p;
    const chip_sum_axis *inner = &p->inner;
    int64_t outer = r->outer * p->outer.stride + origin(p, &p->outer, kernel),
            lane = r->lane * p->lane.stride + origin(p, &p->lane, kernel), from = origin(p, inner, kernel);
    bool none =
        outer < 0 || outer >= p->outer.size || lane >= p->lane.size || lane + (r->lanes - 1) * p->lane.stride < 0;
    int64_t low = max64(r->inner, ceil_div(-from, inner->stride)),
            high = min64(r->inner + r->count, floor_div(inner->size - 1 - from, inner->stride) + 1);
    if (none || low >= high) {
        pad_window(s, w, r->at, r->count);
        return;
    }
    pad_window(s, w, r->at, low - r->inner);
    uint64_t addr = w->addr + (uint64_t)(outer * p->outer.act + (low * inner->stride + from) * inner->act);
    int64_t at = r->at + low - r->inner, step = inner->stride * inner->act;
    if (p->lane.act == p->in.esize && p->lane.stride == 1)
        load_line(s, w, addr, lane, r->lanes, at, high - low, step);
    else
        load_transposing(s, w, addr + (uint64_t)(lane * p->lane.act), lane, r->lanes, at, high - low, step);
    pad_window(s, w, r->at + high - r->inner, r->inner + r->count - high);
}

void chip_nest_load_windows(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *t,
                            const chip_nest_part *part, uint32_t term, int64_t rows, uint32_t first, uint32_t blocks) {
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes, row0 = slot->loaded;
    for (int64_t row = row0; row < row0 + rows; row++) {
        window w = {slot,
                    row,
                    1,
                    t->nx,
                    (slot->base + row * s->t->act_row_words) * word,
                    s->t->act_pitch * word,
                    term,
                    p->in.base + (uint64_t)(t->n * p->in.sn + t->x0 * p->in.sc)};
        for (int64_t at = first; at < (int64_t)first + blocks;) {
            run r = run_at(p, part->cb + at, first + blocks - at);
            r.at = at;
            load_run(s, &w, &r, t->band_y0 + row);
            at += r.count;
        }
    }
}

/* The gradient: cells are output channels. */
static void load_lane_run(chip_nest_state *s, chip_nest_slot *slot, const run *r, uint64_t addr, int64_t valid,
                          int64_t sp_base, uint32_t term) {
    const chip_problem *p = s->p;
    int64_t e = p->wgt_esize, word = p->config->word_bytes, cells = p->config->cells, block = cells * word,
            most = word * (p->wgt_convert ? 2 : 1) / e;
    chip_load_shape l = {
        .addr = addr, .esize = p->wgt_esize, .conv = conv_of(p->wgt_convert, term), .sp_base = sp_base};
    if (p->lane.wgt == e) {
        l.row_bytes = l.chunk_bytes = r->lanes * e, l.word_bytes = p->block * e;
        l.n[0] = 1, l.n[1] = cells, l.n[2] = r->count, l.n[3] = 1;
        l.ds[1] = p->wgt_so, l.ds[2] = p->inner.wgt, l.ss[1] = word, l.ss[2] = block, l.rp[1] = 1, l.row_limit = valid;
        chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
        return;
    }
    l.transpose = 1, l.sw = word;
    l.n[0] = 1, l.n[1] = r->lanes, l.ds[1] = p->lane.wgt;
    if (p->wgt_so == e) {
        for (int64_t cell = 0; cell < cells; cell += most) {
            int64_t width = min64(most, cells - cell);
            l.addr = addr + (uint64_t)(min64(cell, valid - 1) * e);
            l.chunk_bytes = l.word_bytes = width * e, l.row_bytes = max64(0, min64(width, valid - cell)) * e;
            l.n[2] = r->count, l.n[3] = 1, l.ds[2] = p->inner.wgt, l.ss[2] = block, l.sp_base = sp_base + cell * word;
            chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
        }
        return;
    }
    l.row_bytes = l.chunk_bytes = l.word_bytes = e;
    l.n[2] = valid, l.ds[2] = p->wgt_so, l.ss[2] = word;
    l.n[3] = r->count, l.ds[3] = p->inner.wgt, l.ss[3] = block;
    chip_emit_load(s, &s->wgt, slot, 0, 1, &l);
    chip_pad_shape rest = {{cells - valid, r->count, 1}, {word, block, 0}, sp_base + valid * word, 0};
    chip_emit_padding(s, &s->wgt, slot, 0, 1, &rest);
}

void chip_nest_load_lanes(chip_nest_state *s, chip_nest_slot *slot, uint32_t g, int64_t n, const chip_nest_part *part,
                          uint32_t term) {
    const chip_problem *p = s->p;
    int64_t cells = p->config->cells, o = (int64_t)g * cells;
    for (int64_t at = 0; at < part->ncb;) {
        run r = run_at(p, part->cb + at, part->ncb - at);
        uint64_t addr = p->wgt_base + (uint64_t)(n * p->wgt_sn + o * p->wgt_so + r.outer * p->outer.wgt +
                                                 r.lane * p->lane.wgt + r.inner * p->inner.wgt);
        load_lane_run(s, slot, &r, addr, min64(p->out_c - o, cells), (slot->base + at * cells) * p->config->word_bytes,
                      term);
        at += r.count;
    }
}
