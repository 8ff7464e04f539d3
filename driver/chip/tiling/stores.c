/* SPDX-License-Identifier: Apache-2.0 */
/* STORE descriptors: rows of output units to DRAM, in the longest bursts that the tensor's strides allow. */
#include "nest.h"

typedef struct {
    uint64_t addr;
    int64_t chunk_bytes, word_bytes, n[4], ds[4], sp_base, sw, ss[4];
} store_shape;

/* Rows whose last piece crosses a beat, which takes presil_store_pack a cycle more; of rows that are not aligned alike
 * the mean, as rows_beats(). */
static int64_t crossing_rows(const store_shape *l, int64_t rows, int64_t row_bytes, int64_t word) {
    const int64_t pieces = ceil_div(l->chunk_bytes, l->word_bytes),
                  last = l->chunk_bytes - (pieces - 1) * l->word_bytes, step = l->n[1] > 1 ? l->ds[1] : word,
                  end = (int64_t)(l->addr % (uint64_t)word) + row_bytes, all = step | end, low = all & -all;
    if (step % word == 0) return (end - 1) % word + 1 < last ? rows : 0;
    return rows * max64(0, last - low) / word;
}

static void emit_store(chip_nest_state *s, chip_nest_out *slot, const store_shape *l, uint32_t after) {
    int64_t word = s->p->config->word_bytes;
    chip_op *op = chip_emit(s->b, STORE);
    presil_desc *d = &op->d;
    op->operand = OPERAND_OUTPUT;
    chip_need(op, EPILOGUE, after);
    slot->stored = s->b->seq[STORE];
    presil_store_addr_set(d, l->addr);
    presil_store_chunk_bytes_set(d, l->chunk_bytes);
    presil_store_word_bytes_set(d, l->word_bytes);
    presil_store_n0_set(d, l->n[0]);
    presil_store_n1_set(d, l->n[1]);
    presil_store_n2_set(d, l->n[2]);
    presil_store_n3_set(d, l->n[3]);
    presil_store_ds1_set(d, l->ds[1]);
    presil_store_ds2_set(d, l->ds[2]);
    presil_store_ds3_set(d, l->ds[3]);
    presil_store_sp_base_set(d, l->sp_base);
    presil_store_sw_set(d, l->sw);
    presil_store_ss0_set(d, l->ss[0]);
    presil_store_ss1_set(d, l->ss[1]);
    presil_store_ss2_set(d, l->ss[2]);
    presil_store_ss3_set(d, l->ss[3]);
    int64_t rows = l->n[1] * l->n[2] * l->n[3], row_bytes = l->n[0] * l->chunk_bytes;
    op->beats = (uint32_t)(rows * chip_row_beats(l->addr, row_bytes, l->n[1] > 1 ? l->ds[1] : word, word));
    op->cycles = (uint32_t)max64(op->beats, rows * l->n[0] * ceil_div(l->chunk_bytes, l->word_bytes) +
                                                crossing_rows(l, rows, row_bytes, word));
}

/* Pixels and what is contiguous within one: chunk bytes, `inner` chunks (inner_ss apart in the scratchpad). */
static void store_pixels(chip_nest_state *s, chip_nest_out *slot, const chip_nest_tile *t, int64_t row0, int64_t rows,
                         store_shape *l, int64_t inner, int64_t inner_ss, int64_t pixel_bytes, uint32_t after) {
    const chip_view *out = &s->p->out;
    int64_t nx = t->nx, ny = rows, dx = out->sx, dy = out->sy, pixel = inner * l->chunk_bytes;
    l->addr += (uint64_t)(t->n * out->sn + (t->y0 + row0) * out->sy + t->x0 * out->sx);
    l->sp_base += row0 * t->nx * pixel_bytes;
    if (nx == 1 || dy == nx * dx) {
        if (nx == 1) dx = dy;
        nx *= ny;
        ny = 1;
    }
    if (inner == 1 && (dx == pixel || nx == 1)) { /* pixels are contiguous: one row of the DMA */
        l->n[0] = nx, l->ss[0] = pixel_bytes;
        l->n[1] = ny, l->ds[1] = dy, l->ss[1] = nx * pixel_bytes;
        l->n[2] = l->n[3] = 1;
    } else {
        l->n[0] = inner, l->ss[0] = inner_ss;
        l->n[1] = nx, l->ds[1] = dx, l->ss[1] = pixel_bytes;
        l->n[2] = ny, l->ds[2] = dy, l->ss[2] = nx * pixel_bytes;
        l->n[3] = 1;
    }
    emit_store(s, slot, l, after);
}

/* Channels lie apart, but pixels along x or y follow each other: a row of the DMA gathers one channel of them. */
static bool store_lines(chip_nest_state *s, chip_nest_out *slot, const chip_nest_tile *t, int64_t row0, int64_t rows,
                        int64_t c, int64_t channels, int64_t base, int64_t pixel_bytes, uint32_t after) {
    const chip_view *out = &s->p->out;
    int64_t e = s->p->out_esize, line = t->nx * pixel_bytes, nx = t->nx, ny = rows;
    store_shape l = {.addr = out->base +
                             (uint64_t)(c * out->sc + t->n * out->sn + (t->y0 + row0) * out->sy + t->x0 * out->sx),
                     .word_bytes = e,
                     .n = {1, ny, channels, 1},
                     .ds = {0, out->sy, out->sc, 0},
                     .sp_base = base + row0 * line,
                     .sw = pixel_bytes,
                     .ss = {0, line, e, 0}};
    bool along_x = nx > 1 && out->sx == e, along_y = ny > 1 && out->sy == e;
    if ((along_x && out->sy == nx * e) || (nx == 1 && along_y)) {
        l.chunk_bytes = nx * ny * e, l.n[1] = 1;
    } else if (along_x) {
        l.chunk_bytes = nx * e;
    } else if (along_y) {
        l.chunk_bytes = ny * e, l.sw = line, l.n[1] = nx, l.ds[1] = out->sx, l.ss[1] = pixel_bytes;
    } else {
        return false;
    }
    if (l.chunk_bytes > UINT16_MAX) return false;
    emit_store(s, slot, &l, after);
    return true;
}

static void store_elements(chip_nest_state *s, chip_nest_out *slot, const chip_nest_tile *t, int64_t row0, int64_t rows,
                           int64_t c, int64_t channels, int64_t base, int64_t pixel_bytes, uint32_t after) {
    const chip_view *out = &s->p->out;
    int64_t e = s->p->out_esize;
    store_shape l = {.addr = out->base +
                             (uint64_t)(c * out->sc + t->n * out->sn + (t->y0 + row0) * out->sy + t->x0 * out->sx),
                     .chunk_bytes = e,
                     .word_bytes = e,
                     .n = {1, channels, t->nx, rows},
                     .ds = {0, out->sc, out->sx, out->sy},
                     .sp_base = base + row0 * t->nx * pixel_bytes,
                     .ss = {0, e, pixel_bytes, t->nx * pixel_bytes}};
    emit_store(s, slot, &l, after);
}

void chip_nest_store(chip_nest_state *s, uint32_t slot_index, const chip_nest_tile *t, int64_t row0, int64_t rows,
                     uint32_t first_group, uint32_t g0, uint32_t groups, uint32_t after) {
    const chip_problem *p = s->p;
    chip_nest_out *slot = &s->out[slot_index];
    chip_unit unit = chip_problem_unit(p, p->out_esize);
    int64_t word = p->config->word_bytes, e = p->out_esize, per_unit = (int64_t)unit.groups_per_unit * p->split.cells,
            pixel = unit.words * word;
    const int64_t c0 = chip_first_output(&p->split, g0), c1 = chip_end_output(&p->split, g0 + groups - 1);
    const bool even = !chip_uneven(&p->split);
    int64_t base = (slot->base + (int64_t)(g0 - first_group) / unit.groups_per_unit * s->t->out_unit_words) * word,
            plane = s->t->out_unit_words * word;
    if (p->out.sc == e && unit.words == 1 && even) { /* units are planes of words: one chunk for the whole pixel */
        store_shape l = {.addr = p->out.base + (uint64_t)(c0 * e),
                         .chunk_bytes = (c1 - c0) * e,
                         .word_bytes = unit.bytes,
                         .sp_base = base,
                         .sw = plane};
        store_pixels(s, slot, t, row0, rows, &l, 1, 0, pixel, after);
        return;
    }
    const int64_t whole = even && p->out.sc == e ? (c1 - c0) / per_unit : 0;
    if (whole > 0) { /* units of several words: a chunk each */
        store_shape l = {.addr = p->out.base + (uint64_t)(c0 * e),
                         .chunk_bytes = per_unit * e,
                         .word_bytes = word,
                         .sp_base = base,
                         .sw = word};
        store_pixels(s, slot, t, row0, rows, &l, whole, plane, pixel, after);
    }
    base += whole * plane;
    for (uint32_t at = (uint32_t)whole * unit.groups_per_unit; at < groups; at += unit.groups_per_unit, base += plane) {
        const chip_outputs c = chip_unit_outputs(p, &unit, g0 + at, groups - at);
        if (p->out.sc != e) {
            if (!store_lines(s, slot, t, row0, rows, c.first, c.count, base, pixel, after))
                store_elements(s, slot, t, row0, rows, c.first, c.count, base, pixel, after);
            continue;
        }
        store_shape l = {.addr = p->out.base + (uint64_t)(c.first * e),
                         .chunk_bytes = c.count * e,
                         .word_bytes = word,
                         .sp_base = base,
                         .sw = word};
        store_pixels(s, slot, t, row0, rows, &l, 1, 0, pixel, after);
    }
}
