/* SPDX-License-Identifier: Apache-2.0 */
/* LOAD descriptors for parameters and residuals, and what all LOADs share. Activations: act.c; weights: wgt.c; weight
 * gradients: windows.c. */
#include "nest.h"
#include "loads.h"

/* Bus beats of `rows` rows, `stride` apart. Those that are not aligned alike begin at every multiple of what divides
 * address and stride, one as often as another: that is the mean of them. */
static int64_t rows_beats(uint64_t address, int64_t bytes, int64_t stride, int64_t rows, int64_t word) {
    const int64_t offset = (int64_t)(address % (uint64_t)word), all = stride | offset, low = all & -all;
    if (stride % word == 0 || bytes <= 0) return rows * chip_row_beats(address, bytes, word, word);
    return ceil_div(rows * (ceil_div(bytes, low) * low + word - low), word);
}

chip_op *chip_emit_load(chip_nest_state *s, chip_nest_pool *pool, chip_nest_slot *slot, int64_t row0, int64_t rows,
                        const chip_load_shape *l) {
    const uint32_t word = s->p->config->word_bytes;
    chip_op *op = chip_emit(s->b, LOAD);
    presil_desc *d = &op->d;
    op->operand = pool == &s->act          ? OPERAND_INPUT
                  : pool == &s->res        ? OPERAND_RESIDUAL
                  : pool == &s->param      ? OPERAND_PARAMETERS
                  : s->p->wgt == WGT_IMAGE ? OPERAND_PACKED
                                           : OPERAND_WEIGHTS;
    chip_nest_write(pool, slot, op, s->b->seq[LOAD], row0, rows);
    presil_load_conv_set(d, l->conv);
    presil_load_transpose_set(d, l->transpose);
    presil_load_esize_log2_set(d, l->esize == 1 ? 0 : l->esize == 2 ? 1 : 2);
    presil_load_addr_set(d, l->addr);
    presil_load_row_bytes_set(d, l->row_bytes);
    presil_load_pos0_set(d, l->pos0);
    presil_load_step0_set(d, l->step0);
    presil_load_chunk_bytes_set(d, l->chunk_bytes);
    presil_load_word_bytes_set(d, l->word_bytes);
    presil_load_pad_set(d, l->pad);
    presil_load_n0_set(d, l->n[0]);
    presil_load_n1_set(d, l->n[1]);
    presil_load_n2_set(d, l->n[2]);
    presil_load_n3_set(d, l->n[3]);
    presil_load_ds1_set(d, l->ds[1]);
    presil_load_ds2_set(d, l->ds[2]);
    presil_load_ds3_set(d, l->ds[3]);
    presil_load_sp_base_set(d, l->sp_base);
    presil_load_sw_set(d, l->sw);
    presil_load_ss0_set(d, l->ss[0]);
    presil_load_ss1_set(d, l->ss[1]);
    presil_load_ss2_set(d, l->ss[2]);
    presil_load_ss3_set(d, l->ss[3]);
    presil_load_rp0_set(d, l->rp[0]);
    presil_load_rp1_set(d, l->rp[1]);
    presil_load_rp2_set(d, l->rp[2]);
    presil_load_rp3_set(d, l->rp[3]);
    presil_load_row_limit_set(d, l->row_limit);
    /* Estimates: a row costs its beats, a chunk its words. */
    int64_t rows_read = l->n[1] * l->n[2] * l->n[3];
    int64_t span = min64(l->row_bytes, (l->n[0] - 1) * l->step0 + l->chunk_bytes);
    int64_t beats =
        rows_beats(l->addr + (uint64_t)max64(0, l->pos0), span, l->n[1] > 1 ? l->ds[1] : word, rows_read, word);
    int64_t words =
        l->transpose ? l->n[2] * l->n[3] * max64(l->n[1], l->chunk_bytes / l->esize) /* rows in while columns go out */
                     : rows_read * l->n[0] * ceil_div(l->chunk_bytes, l->word_bytes) * (l->conv ? 2 : 1);
    op->beats = (uint32_t)beats;
    op->cycles = (uint32_t)max64(beats, words);
    return op;
}

void chip_nest_load_params(chip_nest_state *s, chip_nest_slot *slot, uint32_t g0, uint32_t groups) {
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes, group = p->param_words * word;
    chip_load_shape l = {.addr = p->packed + (uint64_t)(g0 * group),
                         .row_bytes = groups * group,
                         .step0 = group,
                         .chunk_bytes = group,
                         .word_bytes = word,
                         .n = {groups, 1, 1, 1},
                         .esize = 1,
                         .sp_base = slot->base * word,
                         .sw = word,
                         .ss = {group, 0, 0, 0}};
    chip_emit_load(s, &s->param, slot, 0, 1, &l);
}

void chip_emit_padding(chip_nest_state *s, chip_nest_pool *pool, chip_nest_slot *slot, int64_t row0, int64_t rows,
                       const chip_pad_shape *f) {
    const uint32_t word = s->p->config->word_bytes;
    chip_load_shape l = {.addr = s->p->in.base,
                         .row_bytes = word,
                         .chunk_bytes = word,
                         .word_bytes = word,
                         .n = {1, f->n[0], f->n[1], f->n[2]},
                         .esize = 1,
                         .pad = f->pad,
                         .sp_base = f->sp_base,
                         .sw = word,
                         .ss = {0, f->ss[0], f->ss[1], f->ss[2]},
                         .rp = {-1, 0, 0, 0},
                         .row_limit = 1};
    if (l.n[1] && l.n[2] && l.n[3]) chip_emit_load(s, pool, slot, row0, rows, &l);
}

/* Pixels as loops of a LOAD: read as one run (gaps too) where that takes fewer beats, else a row each. span: bytes of a
 * pixel. */
void chip_load_pixels(chip_load_shape *l, const chip_load_grid *grid, int64_t word) {
    int64_t nx = grid->nx, ny = grid->ny, dx = grid->dx, dy = grid->dy, px = grid->px, py = grid->py;
    if (nx == 1 || (dy == nx * dx && py == nx * px)) {
        if (nx == 1) dx = dy, px = py;
        nx *= ny;
        ny = 1, dy = 0, py = 0;
    }
    int64_t run = (nx - 1) * dx + grid->span;
    int64_t run_beats = ceil_div(run, word),
            pixel_beats = nx * (ceil_div(grid->span, word) + (dx % word || l->addr % (uint64_t)word ? 1 : 0));
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
static void load_res_channels(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *t, int64_t c0,
                              int64_t channels, int64_t base, int64_t word_bytes, int64_t plane) {
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes, e = p->res_esize;
    chip_unit unit = chip_problem_unit(p, p->res_esize);
    int64_t pixel = unit.words * word;
    chip_load_shape l = {.addr = p->res.base +
                                 (uint64_t)(t->n * p->res.sn + t->y0 * p->res.sy + t->x0 * p->res.sx + c0 * p->res.sc),
                         .esize = 1,
                         .sp_base = base * word};
    if (p->res.sc == e) {
        chip_load_grid grid = {t->nx, t->ny, p->res.sx, p->res.sy, pixel, t->nx * pixel, channels * e};
        chip_load_pixels(&l, &grid, word);
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
    chip_emit_load(s, &s->res, slot, 0, 1, &l);
}

void chip_nest_load_res(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *t, uint32_t g0,
                        uint32_t groups) {
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes;
    chip_unit unit = chip_problem_unit(p, p->res_esize);
    const int64_t c0 = chip_first_output(&p->split, g0), c1 = chip_end_output(&p->split, g0 + groups - 1);
    if (unit.words == 1 && p->res.sc == p->res_esize && !chip_uneven(&p->split)) {
        load_res_channels(s, slot, t, c0, c1 - c0, slot->base, unit.bytes, s->t->res_unit_words * word);
        return;
    }
    for (uint32_t at = 0; at < groups; at += unit.groups_per_unit) {
        const chip_outputs c = chip_unit_outputs(p, &unit, g0 + at, groups - at);
        load_res_channels(s, slot, t, c.first, c.count,
                          slot->base + at / unit.groups_per_unit * (int64_t)s->t->res_unit_words, word, word);
    }
}
