/* SPDX-License-Identifier: Apache-2.0 */
/* LOAD descriptors for weights, parameters and residuals. Activations: act.c. */
#include "nest.h"
#include "emit_load.h"

chip_op *emit_load(nest *s, nest_pool *pool, nest_slot *slot, int64_t row0, int64_t rows, const load_shape *l)
{
    const uint32_t word = s->p->config->word_bytes;
    chip_op *op = chip_emit(s->b, LOAD);
    presil_desc *d = &op->d;
    nest_write(pool, slot, op, s->b->seq[LOAD], row0, rows);
    presil_load_conv_set(d, l->conv);
    presil_load_transpose_set(d, l->transpose);
    presil_load_esize_log2_set(d, l->esize == 1 ? 0 : l->esize == 2 ? 1 : 2);
    presil_load_addr_lo_set(d, (uint32_t)l->addr);
    presil_load_addr_hi_set(d, (uint32_t)(l->addr >> 32));
    presil_load_row_bytes_set(d, (uint32_t)l->row_bytes);
    presil_load_pos0_set(d, (int32_t)l->pos0);
    presil_load_step0_set(d, (int32_t)l->step0);
    presil_load_chunk_bytes_set(d, (uint32_t)l->chunk_bytes);
    presil_load_word_bytes_set(d, (uint32_t)l->word_bytes);
    presil_load_pad_set(d, l->pad * 0x01010101u);
    presil_load_n0_set(d, (uint32_t)l->n[0]);
    presil_load_n1_set(d, (uint32_t)l->n[1]);
    presil_load_n2_set(d, (uint32_t)l->n[2]);
    presil_load_n3_set(d, (uint32_t)l->n[3]);
    presil_load_ds1_set(d, (int32_t)l->ds[1]);
    presil_load_ds2_set(d, (int32_t)l->ds[2]);
    presil_load_ds3_set(d, (int32_t)l->ds[3]);
    presil_load_sp_base_set(d, (uint32_t)l->sp_base);
    presil_load_sw_set(d, (int32_t)l->sw);
    presil_load_ss0_set(d, (int32_t)l->ss[0]);
    presil_load_ss1_set(d, (int32_t)l->ss[1]);
    presil_load_ss2_set(d, (int32_t)l->ss[2]);
    presil_load_ss3_set(d, (int32_t)l->ss[3]);
    presil_load_rp0_set(d, (int32_t)l->rp[0]);
    presil_load_rp1_set(d, (int32_t)l->rp[1]);
    presil_load_rp2_set(d, (int32_t)l->rp[2]);
    presil_load_rp3_set(d, (int32_t)l->rp[3]);
    presil_load_row_limit_set(d, (uint32_t)l->row_limit);
    /* Estimates: a row costs its beats, a chunk its words. */
    int64_t rows_read = l->n[1] * l->n[2] * l->n[3];
    int64_t span = min64(l->row_bytes, (l->n[0] - 1) * l->step0 + l->chunk_bytes);
    int64_t beats = rows_read * chip_row_beats(l->addr + (uint64_t)max64(0, l->pos0), span, l->n[1] > 1 ? l->ds[1] : word, word);
    int64_t words = l->transpose ? l->n[2] * l->n[3] * max64(l->n[1], l->chunk_bytes / l->esize) /* rows in while columns go out */
                                 : rows_read * l->n[0] * ceil_div(l->chunk_bytes, l->word_bytes) * (l->conv ? 2 : 1);
    op->beats = (uint32_t)beats;
    op->cycles = (uint32_t)max64(beats, words);
    return op;
}

static uint32_t conv_of(bool convert, uint32_t term) { return convert ? PRESIL_CONV_TERM0 + term : PRESIL_CONV_NONE; }

static void load_image(nest *s, nest_slot *slot, uint32_t g, const nest_part *part, uint32_t term)
{
    const chip_problem *p = s->p;
    const presil_config *c = p->config;
    uint32_t first, count;
    chip_problem_blocks(p, g, &first, &count);
    int64_t block = (int64_t)c->cells * c->word_bytes;
    uint64_t words = chip_layout_group_words(p->layout, g) + (((uint64_t)(part->cb - first) * p->grid_y + part->ky) * p->grid_x + part->kx) * c->cells;
    int64_t blocks = (int64_t)part->ncb * part->nky * part->nkx;
    load_shape l = {.addr = p->packed + p->layout->weights_offset + term * p->layout->term_bytes + words * c->word_bytes,
                    .row_bytes = blocks * block, .step0 = block, .chunk_bytes = block, .word_bytes = c->word_bytes, .n = {blocks, 1, 1, 1}, .esize = 1,
                    .sp_base = (int64_t)slot->base * c->word_bytes, .sw = c->word_bytes, .ss = {block, 0, 0, 0}};
    emit_load(s, &s->wgt, slot, 0, 1, &l);
}

/* Matrix [o][k] with k contiguous: a row for each cell; what is beyond the matrix is padding. */
static void load_rows(nest *s, nest_slot *slot, uint32_t g, int64_t n, const nest_part *part, uint32_t term)
{
    const chip_problem *p = s->p;
    const presil_config *c = p->config;
    int64_t o = (int64_t)g * c->cells, k = (int64_t)part->cb * p->block, source = p->wgt_esize, word = c->word_bytes;
    load_shape l = {.addr = p->wgt_base + (uint64_t)(n * p->wgt_sn + o * p->wgt_so + k * source), .row_bytes = min64(p->in_c - k, (int64_t)part->ncb * p->block) * source,
                    .chunk_bytes = (int64_t)part->ncb * p->block * source, .word_bytes = p->block * source, .n = {1, c->cells, 1, 1}, .ds = {0, p->wgt_so, 0, 0},
                    .esize = p->wgt_esize, .conv = conv_of(p->wgt_convert, term), .sp_base = slot->base * word, .sw = c->cells * word, .ss = {0, word, 0, 0},
                    .rp = {0, 1, 0, 0}, .row_limit = min64(p->out_c - o, c->cells)};
    emit_load(s, &s->wgt, slot, 0, 1, &l);
}

/* Matrix [o][k] with o contiguous: transposed, as many cells at a time as a word has elements. */
static void load_columns(nest *s, nest_slot *slot, uint32_t g, int64_t n, const nest_part *part, uint32_t term)
{
    const chip_problem *p = s->p;
    const presil_config *c = p->config;
    int64_t o = (int64_t)g * c->cells, source = p->wgt_esize, word = c->word_bytes, valid = min64(p->out_c - o, c->cells);
    int64_t most = word * (p->wgt_convert ? 2 : 1) / source;
    for (int64_t cell = 0; cell < c->cells; cell += most) {
        int64_t cells = min64(most, c->cells - cell);
        for (int64_t cb = 0; cb < part->ncb;) {
            int64_t k = (part->cb + cb) * p->block, rest = p->in_c - k;
            bool whole = rest >= p->block;
            int64_t blocks = whole ? min64(part->ncb - cb, rest / p->block) : 1;
            load_shape l = {.addr = p->wgt_base + (uint64_t)(n * p->wgt_sn + min64(o + cell, p->out_c - 1) * source + k * p->wgt_sk),
                            .row_bytes = max64(0, min64(cells, valid - cell)) * source, .chunk_bytes = cells * source, .word_bytes = cells * source,
                            .n = {1, whole ? p->block : rest, blocks, 1}, .ds = {0, p->wgt_sk, p->block * p->wgt_sk, 0}, .esize = p->wgt_esize,
                            .conv = conv_of(p->wgt_convert, term), .transpose = 1, .sp_base = (slot->base + cb * c->cells + cell) * word, .sw = word,
                            .ss = {0, 0, c->cells * word, 0}};
            emit_load(s, &s->wgt, slot, 0, 1, &l);
            cb += blocks;
        }
    }
}

void nest_load_wgt(nest *s, nest_slot *slot, uint32_t g, int64_t n, const nest_part *part, uint32_t term)
{
    switch (s->p->wgt) {
    case WGT_IMAGE: load_image(s, slot, g, part, term); break;
    case WGT_ROWS: load_rows(s, slot, g, n, part, term); break;
    case WGT_COLUMNS: load_columns(s, slot, g, n, part, term); break;
    }
}

void nest_load_params(nest *s, nest_slot *slot, uint32_t g0, uint32_t groups)
{
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes, group = p->param_words * word;
    load_shape l = {.addr = p->packed + (uint64_t)(g0 * group), .row_bytes = groups * group, .step0 = group, .chunk_bytes = group, .word_bytes = word, .n = {groups, 1, 1, 1},
                    .esize = 1, .sp_base = slot->base * word, .sw = word, .ss = {group, 0, 0, 0}};
    emit_load(s, &s->param, slot, 0, 1, &l);
}

/* Pixels as loops of a LOAD: read as one run (gaps too) where that takes fewer beats, else a row each. span: bytes of a pixel. */
void load_pixels(load_shape *l, const load_grid *grid, int64_t word)
{
    int64_t nx = grid->nx, ny = grid->ny, dx = grid->dx, dy = grid->dy, px = grid->px, py = grid->py;
    if (nx == 1 || (dy == nx * dx && py == nx * px)) {
        if (nx == 1) dx = dy, px = py;
        nx *= ny;
        ny = 1, dy = 0, py = 0;
    }
    int64_t run = (nx - 1) * dx + grid->span;
    int64_t run_beats = ceil_div(run, word), pixel_beats = nx * (ceil_div(grid->span, word) + (dx % word || l->addr % (uint64_t)word ? 1 : 0));
    bool as_run = dx >= 0 && run < INT32_MAX && nx <= 65535 && (run_beats <= pixel_beats || dx == grid->span);
    l->row_bytes = as_run ? run : grid->span;
    l->step0 = as_run ? dx : 0;
    l->n[0] = as_run ? nx : 1;
    l->n[1] = as_run ? 1 : nx;
    l->n[2] = ny;
    l->n[3] = 1;
    l->ds[1] = as_run ? 0 : dx;
    l->ds[2] = dy;
    l->ss[0] = as_run ? px : 0;
    l->ss[1] = as_run ? 0 : px;
    l->ss[2] = py;
}

/* Channels [c0, c0 + channels) of the residual into units beginning at word `base`. */
static void load_res_channels(nest *s, nest_slot *slot, const nest_tile *t, int64_t c0, int64_t channels, int64_t base, int64_t word_bytes, int64_t plane)
{
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes, e = p->res_esize;
    chip_unit unit = chip_unit_of(p->config, p->res_esize);
    int64_t pixel = unit.words * word;
    load_shape l = {.addr = p->res.base + (uint64_t)(t->n * p->res.sn + t->y0 * p->res.sy + t->x0 * p->res.sx + c0 * p->res.sc), .esize = 1, .sp_base = base * word};
    if (p->res.sc == e) {
        load_grid grid = {t->nx, t->ny, p->res.sx, p->res.sy, pixel, t->nx * pixel, channels * e};
        load_pixels(&l, &grid, word);
        l.chunk_bytes = channels * e;
        l.word_bytes = word_bytes;
        l.sw = plane;
    } else { /* any channel stride, 0 too: element by element */
        l.row_bytes = (channels - 1) * p->res.sc + e;
        l.step0 = p->res.sc;
        l.chunk_bytes = l.word_bytes = e;
        l.n[0] = channels, l.n[1] = t->nx, l.n[2] = t->ny, l.n[3] = 1;
        l.ds[1] = p->res.sx, l.ds[2] = p->res.sy;
        l.ss[0] = e, l.ss[1] = pixel, l.ss[2] = t->nx * pixel;
    }
    emit_load(s, &s->res, slot, 0, 1, &l);
}

void nest_load_res(nest *s, nest_slot *slot, const nest_tile *t, uint32_t g0, uint32_t groups)
{
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes;
    chip_unit unit = chip_unit_of(p->config, p->res_esize);
    int64_t per_unit = (int64_t)unit.groups_per_unit * p->config->cells;
    int64_t c0 = (int64_t)g0 * p->config->cells, c1 = min64(c0 + (int64_t)groups * p->config->cells, p->out_c);
    if (unit.words == 1 && p->res.sc == p->res_esize) {
        load_res_channels(s, slot, t, c0, c1 - c0, slot->base, unit.bytes, s->t->res_unit_words * word);
        return;
    }
    for (int64_t u = 0, c = c0; c < c1; u++, c += per_unit) {
        load_res_channels(s, slot, t, c, min64(per_unit, c1 - c), slot->base + u * s->t->res_unit_words, word, word);
    }
}
