/* SPDX-License-Identifier: Apache-2.0 */
/* LOAD descriptors for activations. Scratchpad: [block][row][column], a word each; packed layers: [slice block][base
 * row][output column]. */
#include "loads.h"

static uint32_t conv_of(const chip_problem *p, uint32_t term) {
    return p->convert ? PRESIL_CONV_TERM0 + term : PRESIL_CONV_NONE;
}

/* The input of rows [row0, row0 + rows) of the band. */
typedef struct {
    int64_t row0, rows, nx;
    uint64_t addr;
    int64_t sp_base, channels, row_bytes, pitch_bytes;
} act_range;

static void load_direct(chip_nest_state *s, chip_nest_slot *slot, const act_range *r, uint32_t term) {
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes;
    chip_load_shape l = {.addr = r->addr,
                         .esize = p->in.esize,
                         .conv = conv_of(p, term),
                         .sp_base = r->sp_base,
                         .sw = r->pitch_bytes,
                         .chunk_bytes = r->channels * p->in.esize,
                         .word_bytes = (int64_t)p->block * p->in.esize};
    chip_load_grid grid = {r->nx, r->rows, p->in.sx, p->in.sy, word, r->row_bytes, l.chunk_bytes};
    chip_load_pixels(&l, &grid, word);
    chip_emit_load(s, &s->act, slot, r->row0, r->rows, &l);
}

/* Pixels contiguous: k runs over channels, columns are pixels, as many at a time as a word has elements. */
static void load_transposed(chip_nest_state *s, chip_nest_slot *slot, const act_range *r, uint32_t term) {
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes, e = p->in.esize, columns = r->nx, lines = r->rows, line_bytes = p->in.sy,
            line_words = r->row_bytes;
    if ((r->nx == 1 ? p->in.sy == e : p->in.sy == r->nx * p->in.sx) && r->row_bytes == r->nx * word) {
        columns *= lines;
        lines = 1;
    }
    int64_t most = word * (p->convert ? 2 : 1) / e;
    for (int64_t col = 0; col < columns;) {
        bool full = columns - col >= most;
        int64_t width = full ? most : columns - col, pieces = full ? (columns - col) / most : 1;
        for (int64_t c = 0; c < r->channels;) {
            bool whole = r->channels - c >= p->block;
            int64_t blocks = whole && chip_stride_fits(p->block * p->in.sc) ? (r->channels - c) / p->block : 1,
                    apart = chip_loop_stride(p->block * p->in.sc);
            if (lines > 1 && pieces > 1) blocks = 1; /* a descriptor has loops for two of columns, lines and blocks */
            chip_load_shape l = {.addr = r->addr + (uint64_t)(col * e + c * p->in.sc),
                                 .row_bytes = width * e,
                                 .chunk_bytes = width * e,
                                 .word_bytes = width * e,
                                 .n = {1, whole ? p->block : r->channels - c, pieces, lines},
                                 .ds = {0, p->in.sc, width * e, line_bytes},
                                 .esize = p->in.esize,
                                 .conv = conv_of(p, term),
                                 .transpose = 1,
                                 .sp_base = r->sp_base + col * word + c / p->block * r->pitch_bytes,
                                 .sw = word,
                                 .ss = {0, 0, width * word, line_words}};
            if (pieces == 1) { /* lines, then blocks */
                l.n[2] = lines, l.ds[2] = line_bytes, l.ss[2] = line_words;
                l.n[3] = blocks, l.ds[3] = apart, l.ss[3] = r->pitch_bytes;
            } else if (lines == 1) {
                l.n[3] = blocks, l.ds[3] = apart, l.ss[3] = r->pitch_bytes;
            }
            chip_emit_load(s, &s->act, slot, r->row0, r->rows, &l);
            c += whole ? blocks * p->block : r->channels - c;
        }
        col += width * pieces;
    }
}

/* Any strides: one element a row of the DMA. The first element of a word clears the rest. */
static void load_elements(chip_nest_state *s, chip_nest_slot *slot, const act_range *r, uint32_t term) {
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes;
    for (int64_t c = 0; c < r->channels; c += p->block) {
        chip_load_shape l = {.addr = r->addr + (uint64_t)(c * p->in.sc),
                             .row_bytes = p->in.esize,
                             .chunk_bytes = p->in.esize,
                             .word_bytes = p->in.esize,
                             .n = {1, r->nx, r->rows, min64(p->block, r->channels - c)},
                             .ds = {0, p->in.sx, p->in.sy, p->in.sc},
                             .esize = p->in.esize,
                             .conv = conv_of(p, term),
                             .sp_base = r->sp_base + c / p->block * r->pitch_bytes,
                             .ss = {0, word, r->row_bytes, p->esize}};
        chip_emit_load(s, &s->act, slot, r->row0, r->rows, &l);
    }
}

/* A packed piece: elements [first, first + count) of the slice, `pos` bytes from the image row's start for output
 * column 0. */
typedef struct {
    int64_t first, count, channel, pos;
} packed_piece;

static void load_packed_piece(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *t,
                              const chip_nest_part *part, int64_t row0, int64_t rows, const packed_piece *piece,
                              uint32_t term) {
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes, e = p->in.esize, row_words = s->t->act_row_words;
    chip_packed_rows map = chip_packed_map(p, part->cb, t->band_y0, t->band_ny);
    int64_t y0 = map.first + row0 * map.step, origin = y0 < 0 ? 0 : y0, block_rows = chip_rows_in_block(p, part->cb);
    bool planes = !p->runs && p->pack_rows == 1; /* a plane for each block of the slice */
    int64_t slice =
        (planes ? piece->first % p->block : piece->first - (p->runs ? p->run[part->cb].first : 0)) * p->esize;
    int64_t slice_block = planes ? piece->first / p->block - part->cb : 0,
            slice_bytes = (p->runs ? p->run[part->cb].count : (int64_t)p->kernel_x * p->in_c) * p->esize;
    chip_load_shape l = {.row_bytes = (p->in_w - 1) * p->in.sx +
                                      (p->in.sc == e && p->in.sx == p->in_c * e ? p->in_c : piece->count) * e,
                         .pos0 = t->x0 * p->stride_x * p->in.sx + piece->pos,
                         .step0 = p->stride_x * p->in.sx,
                         .chunk_bytes = piece->count * e,
                         .word_bytes = (int64_t)p->block * e,
                         .esize = p->in.esize,
                         .conv = conv_of(p, term),
                         .pad = p->pad_byte * 0x01010101u,
                         .sw = s->t->act_pitch * word,
                         .ss = {word, row_words * word, slice_bytes, 0}};
    bool loops = map.step <= 127 && p->dilation_y <= 127;
    for (int64_t j = 0; j < (loops ? 1 : rows); j++) {
        for (int64_t r = 0; r < (loops ? 1 : block_rows); r++) {
            int64_t y = y0 + j * map.step + r * p->dilation_y;
            l.addr = p->in.base + (uint64_t)(t->n * p->in.sn + y * p->in.sy + piece->channel * p->in.sc);
            l.n[0] = t->nx, l.n[1] = loops ? rows : 1, l.n[2] = loops ? block_rows : 1, l.n[3] = 1;
            l.ds[1] = map.step * p->in.sy, l.ds[2] = p->dilation_y * p->in.sy;
            l.rp[0] = y - origin, l.rp[1] = loops ? map.step : 0, l.rp[2] = loops ? p->dilation_y : 0;
            l.row_limit = min64(p->in_h - origin, 65535);
            if (l.row_limit < 1) l.row_limit = 1, l.rp[0] = -32768, l.rp[1] = l.rp[2] = 0; /* all below the image */
            l.sp_base = (slot->base + (row0 + j) * row_words + slice_block * s->t->act_pitch) * word + slice +
                        (loops ? 0 : r * slice_bytes);
            chip_emit_load(s, &s->act, slot, row0 + j, l.n[1], &l);
        }
    }
}

/* Slices of kernel columns × channels: whole where they are contiguous in memory, else by kernel column or element. */
static void load_packed(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *t, const chip_nest_part *part,
                        int64_t row0, int64_t rows, uint32_t term) {
    const chip_problem *p = s->p;
    int64_t e = p->in.esize, slice = (int64_t)p->kernel_x * p->in_c, low = 0, high = slice;
    bool planes = !p->runs && p->pack_rows == 1;
    if (planes) low = (int64_t)part->cb * p->block, high = min64(slice, low + (int64_t)part->ncb * p->block);
    if (p->runs) low = p->run[part->cb].first, high = low + p->run[part->cb].count;
    bool channels = (p->in.sc == e || p->in_c == 1) && p->in.sx >= p->in_c * e,
         columns = channels && (p->in.sx == p->in_c * e);
    if (columns) {
        packed_piece piece = {low, high - low, 0, -p->pad_x * p->in.sx + low * e};
        load_packed_piece(s, slot, t, part, row0, rows, &piece, term);
        return;
    }
    for (int64_t i = low; i < high;) {
        int64_t kx = i / p->in_c, c = i % p->in_c;
        int64_t count = channels ? min64(min64(p->in_c - c, high - i), planes ? p->block - i % p->block : slice) : 1;
        packed_piece piece = {i, count, c, (kx - p->pad_x) * p->in.sx};
        load_packed_piece(s, slot, t, part, row0, rows, &piece, term);
        i += count;
    }
}

chip_axis chip_nest_band(const chip_nest_state *s, const chip_nest_tile *t, const chip_nest_part *part) {
    const chip_problem *p = s->p;
    if (s->one_band)
        return chip_axis_map(t->band_y0, t->band_ny, 0, p->phase_y.reach, p->stride_y, 1, -p->phase_y.low, 1, p->in_h);
    return chip_axis_map(t->band_y0, t->band_ny, part->ky, part->nky, p->stride_y, p->dilation_y, p->pad_y,
                         p->input_dilation_y, p->in_h);
}

chip_axis chip_nest_columns(const chip_nest_state *s, const chip_nest_tile *t, const chip_nest_part *part) {
    const chip_problem *p = s->p;
    if (s->one_band)
        return chip_axis_map(t->x0, t->band_nx, 0, p->phase_x.reach, p->stride_x, 1, -p->phase_x.low, 1, p->in_w);
    return chip_axis_map(t->x0, t->nx, part->kx, part->nkx, p->stride_x, p->dilation_x, p->pad_x, p->input_dilation_x,
                         p->in_w);
}

void chip_nest_load_act(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *t, const chip_nest_part *part,
                        uint32_t term, int64_t rows) {
    if (rows <= slot->loaded) return;
    chip_nest_load_act_blocks(s, slot, t, part, term, rows, 0, part->ncb);
    slot->loaded = rows;
}

void chip_nest_load_act_blocks(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *t,
                               const chip_nest_part *part, uint32_t term, int64_t rows, uint32_t first,
                               uint32_t blocks) {
    const chip_problem *p = s->p;
    int64_t row0 = slot->loaded, count = rows - row0, word = p->config->word_bytes;
    if (p->act == ACT_PACKED) {
        load_packed(s, slot, t, part, row0, count, term);
        return;
    }
    if (p->act == ACT_WINDOWS) {
        chip_nest_load_windows(s, slot, t, part, term, count, first, blocks);
        return;
    }
    chip_axis y = chip_nest_band(s, t, part), x = chip_nest_columns(s, t, part);
    int64_t c0 = (int64_t)(part->cb + first) * p->block;
    act_range r = {row0,
                   count,
                   x.count,
                   p->in.base +
                       (uint64_t)(t->n * p->in.sn + (y.first + row0) * p->in.sy + x.first * p->in.sx + c0 * p->in.sc),
                   (slot->base + first * s->t->act_pitch + row0 * s->t->act_row_words) * word,
                   min64(p->in_c - c0, (int64_t)blocks * p->block),
                   s->t->act_row_words * word,
                   s->t->act_pitch * word};
    if (p->act == ACT_DIRECT)
        load_direct(s, slot, &r, term);
    else if (p->act == ACT_TRANSPOSED)
        load_transposed(s, slot, &r, term);
    else
        load_elements(s, slot, &r, term);
}
