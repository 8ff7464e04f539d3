/* SPDX-License-Identifier: Apache-2.0 */
/* MATRIX descriptors: the sums of a job over one part of the reduction, with the loads of what isn't there yet. */
#include "nest.h"

/* What MATRIX needs to know of the input of output rows [y0, y0 + ny) of a tile. Rows are those of the band. */
typedef struct {
    int64_t row0, rows, ox, oy, lim_x, lim_y, sx, sy, dx, dy;
} matrix_view;

static matrix_view view_of(const chip_nest_state *s, const chip_nest_tile *t, const chip_nest_part *part, int64_t y0,
                           int64_t ny) {
    const chip_problem *p = s->p;
    matrix_view v = {.sx = p->stride_x, .sy = p->stride_y, .dx = p->dilation_x, .dy = p->dilation_y};
    if (p->act == ACT_PACKED) {
        chip_packed_rows all = chip_packed_map(p, part->cb, t->band_y0, t->band_ny),
                         own = chip_packed_map(p, part->cb, y0, ny);
        int64_t across = chip_rows_in_block(p, part->cb) * p->dilation_y;
        int64_t first = (own.first - all.first) / all.step + (int64_t)part->ky * across / all.step;
        int64_t last = first + ((ny - 1) * p->stride_y + ((int64_t)part->nky - 1) * across) / all.step;
        v.row0 = first, v.rows = last - first + 1, v.oy = first, v.lim_x = t->nx, v.lim_y = all.count;
        v.sx = 1, v.dx = 1, v.sy = p->stride_y / all.step,
        v.dy = chip_grid_rows(p, part->cb) > 1 ? across / all.step : 1;
        return v;
    }
    chip_axis band = chip_nest_band(s, t, part), columns = chip_nest_columns(s, t, part);
    chip_axis y =
        chip_axis_map(y0, ny, part->ky, part->nky, p->stride_y, p->dilation_y, p->pad_y, p->input_dilation_y, p->in_h);
    chip_axis x = chip_axis_map(t->x0, t->nx, part->kx, part->nkx, p->stride_x, p->dilation_x, p->pad_x,
                                p->input_dilation_x, p->in_w);
    bool empty = x.count == 0 || y.count == 0;
    v.row0 = empty ? 0 : y.first - band.first, v.rows = empty ? 0 : y.count,
    v.ox = x.o + (x.first - columns.first) * p->input_dilation_x,
    v.oy = y.o + (y.first - band.first) * p->input_dilation_y;
    v.lim_x = empty ? 0 : columns.count, v.lim_y = empty ? 0 : band.count;
    return v;
}

/* Rows of the band, from its first, that a job reads through the kernel rows of `piece`. */
static int64_t rows_needed(const chip_nest_state *s, const chip_nest_tile *t, const chip_nest_part *part,
                           const chip_nest_part *piece, const chip_nest_sum *j) {
    const chip_problem *p = s->p;
    if (p->act == ACT_PACKED) {
        int64_t last = (j->y0 + j->ny - 1 - t->band_y0) * p->stride_y +
                       ((int64_t)piece->ky + piece->nky - 1) * chip_rows_in_block(p, part->cb) * p->dilation_y;
        return last / chip_packed_map(p, part->cb, t->band_y0, t->band_ny).step + 1;
    }
    chip_axis band = chip_nest_band(s, t, part);
    chip_axis own = chip_axis_map(j->y0, j->ny, piece->ky, piece->nky, p->stride_y, p->dilation_y, p->pad_y,
                                  p->input_dilation_y, p->in_h);
    return own.count ? own.first + own.count - band.first : 0;
}

/* A MATRIX with what does not depend on the part of the kernel. plane: of the activation slot. */
static chip_op *emit_sum(chip_nest_state *s, const chip_nest_sum *j, const matrix_view *v, chip_nest_slot *act,
                         chip_nest_slot *wgt, uint32_t plane) {
    const chip_problem *p = s->p;
    chip_op *op = chip_emit(s->b, MATRIX);
    presil_desc *d = &op->d;
    const uint32_t seq = s->b->seq[MATRIX];
    chip_need(op, EPILOGUE, s->acc_read[j->half]);
    if (act) chip_nest_read(&s->act, act, op, seq, v->row0, v->rows);
    chip_nest_read(&s->wgt, wgt, op, seq, 0, 1);
    presil_matrix_dtype_set(d, !p->floats ? PRESIL_DTYPE_INT8 : p->fp16 ? PRESIL_DTYPE_FP16 : PRESIL_DTYPE_BF16);
    presil_matrix_first_set(d, j->first);
    presil_matrix_half_set(d, j->half);
    presil_matrix_skip_special_set(d, j->pass + 1 < p->passes);
    presil_matrix_absent_set(d, p->absent);
    presil_matrix_act_base_set(d, act ? act->base + plane * s->t->act_pitch : 0);
    presil_matrix_acc_base_set(d, j->acc_base);
    presil_matrix_ncb_set(d, 1);
    presil_matrix_pad_set(d, p->pad_byte);
    presil_matrix_idx_set(d, p->input_dilation_x);
    presil_matrix_idy_set(d, p->input_dilation_y);
    return op;
}

/* low: the first block in the weight slot. */
static void emit_matrix(chip_nest_state *s, const chip_nest_tile *t, const chip_nest_part *part, uint32_t low,
                        const chip_nest_part *piece, const chip_nest_sum *j, const matrix_view *whole,
                        chip_nest_slot *act, chip_nest_slot *wgt) {
    const chip_problem *p = s->p;
    const presil_config *c = p->config;
    matrix_view v = *whole;
    uint32_t plane = piece->cb - part->cb; /* of the activation slot */
    if (p->act == ACT_PACKED)
        v.oy += (int64_t)(piece->ky - part->ky) * v.dy;
    else
        v.oy += (piece->ky - part->ky) * p->dilation_y, v.ox += (piece->kx - part->kx) * p->dilation_x;
    chip_op *op = emit_sum(s, j, &v, act, wgt, plane);
    presil_desc *d = &op->d;
    uint32_t rows = (uint32_t)(t->nx * j->ny), blocks = piece->ncb * piece->nky * piece->nkx;
    presil_matrix_wgt_base_set(d, wgt->base +
                                      ((piece->cb - low) * part->nky + (piece->ky - part->ky)) * part->nkx * c->cells);
    presil_matrix_ncb_set(d, piece->ncb);
    presil_matrix_cb_stride_set(d, s->t->act_pitch);
    /* One column of pixels and one of kernel positions: walked along x, the engine's inner loop. */
    bool swap = t->nx == 1 && p->grid_x == 1 && p->input_dilation_x == 1 && p->input_dilation_y == 1 && v.lim_x == 1 &&
                v.ox == 0;
    presil_matrix_nx_set(d, swap ? j->ny : t->nx);
    presil_matrix_ny_set(d, swap ? 1 : j->ny);
    presil_matrix_sx_set(d, swap ? v.sy : v.sx);
    presil_matrix_sy_set(d, swap ? 1 : v.sy);
    presil_matrix_kx_set(d, swap ? piece->nky : piece->nkx);
    presil_matrix_ky_set(d, swap ? 1 : piece->nky);
    presil_matrix_dx_set(d, swap ? v.dy : v.dx);
    presil_matrix_dy_set(d, swap ? 1 : v.dy);
    presil_matrix_ox_set(d, swap ? v.oy : v.ox);
    presil_matrix_oy_set(d, swap ? 0 : v.oy);
    presil_matrix_lim_x_set(d, swap ? v.lim_y : v.lim_x);
    presil_matrix_lim_y_set(d, swap ? v.lim_x : v.lim_y);
    presil_matrix_x_stride_set(d, swap ? s->t->act_row_words : 1);
    presil_matrix_y_stride_set(d, s->t->act_row_words);
    op->cycles = blocks * (rows > c->cells ? rows : c->cells);
}

/* What one axis of a window is: steps, kernel, origin, limit, words between positions, between weights. */
typedef struct {
    int64_t n, s, k, d, o, lim, stride, wgt_stride;
} window_axis;

static window_axis axis_of(const chip_piece *piece, int64_t n, int64_t s, int64_t d, int64_t o, int64_t lim,
                           int64_t stride, int64_t position_words) {
    const int64_t apart = piece->count == 1 ? s : piece->apart * d; /* a single result has any step */
    return (window_axis){n,      n == 1 ? apart : s,           piece->count, apart, o + piece->first * d, lim,
                         stride, piece->apart * position_words};
}

static void set_window(presil_desc *d, const window_axis *x, const window_axis *y) {
    presil_matrix_depthwise_set(d, 1);
    presil_matrix_nx_set(d, x->n), presil_matrix_ny_set(d, y->n);
    presil_matrix_sx_set(d, x->s), presil_matrix_sy_set(d, y->s);
    presil_matrix_kx_set(d, x->k), presil_matrix_ky_set(d, y->k);
    presil_matrix_dx_set(d, x->d), presil_matrix_dy_set(d, y->d);
    presil_matrix_ox_set(d, x->o), presil_matrix_oy_set(d, y->o);
    presil_matrix_lim_x_set(d, x->lim), presil_matrix_lim_y_set(d, y->lim);
    presil_matrix_x_stride_set(d, x->stride), presil_matrix_y_stride_set(d, y->stride);
    presil_matrix_wgt_x_stride_set(d, x->wgt_stride), presil_matrix_wgt_y_stride_set(d, y->wgt_stride);
}

/* What a job's windows have in common. */
typedef struct {
    const chip_nest_tile *tile;
    const matrix_view *view;
    chip_nest_slot *act, *wgt;
    uint32_t plane; /* of the activation slot */
} windows;

/* Of a phase's kernel in the whole one: its first position, and how far its positions are apart. */
typedef struct {
    int64_t first, step;
} kernel_axis;
static kernel_axis kernel_axis_of(const chip_problem *p, const chip_phase_axis *phase) {
    return p->phased ? (kernel_axis){phase->first, phase->step} : (kernel_axis){0, 1};
}

static void emit_window(chip_nest_state *s, const windows *w, const chip_nest_sum *j, const chip_piece *rows,
                        const chip_piece *columns) {
    const chip_problem *p = s->p;
    const matrix_view *v = w->view;
    chip_op *op = emit_sum(s, j, v, w->act, w->wgt, w->plane);
    const kernel_axis ky = kernel_axis_of(p, &p->phase_y), kx = kernel_axis_of(p, &p->phase_x);
    const int64_t row = p->layout->grid_x;
    const window_axis x = axis_of(columns, w->tile->nx, v->sx, v->dx, v->ox, v->lim_x, 1, kx.step),
                      y = axis_of(rows, j->ny, v->sy, v->dy, v->oy, v->lim_y, s->t->act_row_words, ky.step * row);
    presil_matrix_wgt_base_set(&op->d, w->wgt->base + (ky.first + rows->first * ky.step) * row + kx.first +
                                           columns->first * kx.step);
    presil_matrix_extra_cells_set(&op->d, p->extra_cells);
    if (chip_window_turned(p, j->ny))
        set_window(&op->d, &y, &x);
    else
        set_window(&op->d, &x, &y);
    op->cycles = (uint32_t)(chip_window_positions(w->tile->nx, columns, p->pieces_x.stride) *
                            chip_window_positions(j->ny, rows, p->pieces_y.stride));
}

/* A MATRIX for each piece of the kernel in these rows of it. */
static void emit_row_of_windows(chip_nest_state *s, const windows *w, chip_nest_sum *j, const chip_piece *rows) {
    const chip_kernel_axis_pieces *x = &s->p->pieces_x;
    chip_piece columns;
    for (bool more = chip_next_piece(x, NULL, &columns); more; more = chip_next_piece(x, &columns, &columns)) {
        emit_window(s, w, j, rows, &columns);
        j->first = false;
    }
}

/* What is not there yet of a depthwise sum's operands. kernel: uncut, all rows of which are the phase's, in pieces that
 * follow each other. */
typedef struct {
    const chip_nest_part *part, *kernel;
    const uint32_t *term;
} window_loads;

/* The rows of the kernel and of the input that a piece's windows read. */
static void load_piece(chip_nest_state *s, const windows *w, const window_loads *loads, const chip_piece *rows,
                       const chip_nest_sum *j) {
    const uint32_t base = w->wgt->base;
    chip_nest_part piece = *loads->kernel;
    piece.ky = rows->first, piece.nky = rows->count;
    w->wgt->base = base + rows->first * piece.nkx;
    chip_nest_load_wgt(s, w->wgt, j->g, w->tile->n, &piece, loads->term[1]);
    w->wgt->base = base;
    if (!w->act) return;
    chip_nest_load_act(s, w->act, w->tile, loads->part, loads->term[0],
                       rows_needed(s, w->tile, loads->part, &piece, j));
}

/* loads, if any, come piece by piece, each just before its windows, so that the first ones start early. */
static void emit_windows(chip_nest_state *s, const windows *w, const window_loads *loads, const chip_nest_sum *sum) {
    const chip_kernel_axis_pieces *y = &s->p->pieces_y;
    chip_nest_sum j = *sum;
    chip_piece rows;
    for (bool more = chip_next_piece(y, NULL, &rows); more; more = chip_next_piece(y, &rows, &rows)) {
        if (loads) load_piece(s, w, loads, &rows, &j);
        emit_row_of_windows(s, w, &j, &rows);
    }
}

/* A whole pixel's piece shorter than this many beats is not worth a burst of its own. */
enum { SHORT_BURST = 2 }; /* beats */

static const uint8_t terms_of_six[6][2] = {{2, 0}, {1, 1}, {0, 2}, {1, 0}, {0, 1}, {0, 0}},
                     terms_of_four[4][2] = {{1, 1}, {1, 0}, {0, 1}, {0, 0}};

/* What is summed by one MATRIX at the start of a launch, and how many blocks of activations, from the piece's first,
 * are loaded before it. */
typedef struct {
    chip_nest_part part;
    uint32_t act_blocks;
} cold_piece;
enum { COLD_GROUPS = 6, COLD_PIECES = 64 };

/* `own` in groups of blocks, the first block of all row by row of the kernel. */
static uint32_t cold_pieces(const chip_nest_part *own, uint32_t blocks, cold_piece list[COLD_PIECES]) {
    uint32_t n = 0;
    for (uint32_t at = 0; at < own->ncb; at += blocks) {
        uint32_t size = (uint32_t)min64(blocks, own->ncb - at), done = 0;
        chip_nest_part piece = *own;
        if (at == 0 && own->nky > 1 && own->nky <= COLD_PIECES / 2) {
            piece.cb = own->cb, piece.ncb = 1, piece.nky = 1;
            for (uint32_t k = 0; k < own->nky; k++) {
                piece.ky = own->ky + k;
                list[n++] = (cold_piece){piece, k ? 0 : size};
            }
            piece.ky = own->ky, piece.nky = own->nky;
            done = 1;
        }
        piece.cb = own->cb + at + done, piece.ncb = size - done;
        if (piece.ncb) list[n++] = (cold_piece){piece, done ? 0 : size};
    }
    return n;
}

/* The first sums of a launch: operands come in pieces, each followed by its MATRIX, so that these start early.
 * Activations come in groups of blocks, unless their pieces of a pixel would be short bursts or the rows that the first
 * kernel row reads are less. */
static void sum_cold(chip_nest_state *s, const chip_nest_tile *t, const chip_nest_part *part, const chip_nest_part *own,
                     chip_nest_sum *j, const matrix_view *v, chip_nest_slot *act, chip_nest_slot *wgt,
                     const uint32_t term[2]) {
    const chip_problem *p = s->p;
    cold_piece list[COLD_PIECES];
    uint32_t base = wgt->base, blocks = (uint32_t)ceil_div(own->ncb, COLD_GROUPS),
             burst = (uint32_t)ceil_div(SHORT_BURST * p->config->word_bytes, p->config->lanes);
    int64_t all_rows = act ? rows_needed(s, t, part, part, j) : 0;
    bool by_blocks = own->ncb == part->ncb && act && act->loaded == 0 && p->act != ACT_PACKED;
    if (by_blocks && own->ncb > 1) {
        chip_nest_part top = *own;
        top.nky = 1;
        uint32_t wide = blocks > burst ? blocks : burst;
        by_blocks = wide < own->ncb && wide * all_rows < own->ncb * rows_needed(s, t, part, &top, j);
        if (by_blocks) blocks = wide;
    } else {
        by_blocks = false;
    }
    uint32_t n = cold_pieces(own, blocks, list);
    for (uint32_t i = 0; i < n; i++) {
        const chip_nest_part *piece = &list[i].part;
        wgt->base = base + (((piece->cb - own->cb) * own->nky + (piece->ky - own->ky)) * own->nkx) * p->config->cells;
        chip_nest_load_wgt(s, wgt, j->g, t->n, piece, term[1]);
        wgt->base = base;
        if (by_blocks && list[i].act_blocks)
            chip_nest_load_act_blocks(s, act, t, part, term[0], all_rows, piece->cb - part->cb, list[i].act_blocks);
        else if (act && !by_blocks)
            chip_nest_load_act(s, act, t, part, term[0], rows_needed(s, t, part, piece, j));
        emit_matrix(s, t, part, own->cb, piece, j, v, act, wgt);
        j->first = false;
    }
    if (by_blocks) act->loaded = all_rows;
}

void chip_nest_sum_part(chip_nest_state *s, const chip_nest_tile *t, uint32_t index, const chip_nest_sum *sum,
                        bool cold) {
    const chip_problem *p = s->p;
    const chip_nest_part *part = &s->parts[index];
    uint32_t first, count, term[2];
    const uint8_t *terms = p->passes == 6   ? terms_of_six[sum->pass]
                           : p->passes == 4 ? terms_of_four[sum->pass]
                                            : terms_of_six[5];
    term[0] = terms[0], term[1] = terms[1];
    chip_problem_blocks(p, sum->g, &first, &count);
    uint32_t low = part->cb > first ? part->cb : first,
             high = part->cb + part->ncb < first + count ? part->cb + part->ncb : first + count;
    if (low >= high) return;
    chip_nest_part own = *part; /* what cell group g has of the part */
    own.cb = low, own.ncb = high - low;
    matrix_view v = view_of(s, t, part, sum->y0, sum->ny);
    bool hit, loaded;
    const uint32_t band_phases = s->one_band ? 1 : s->phases, band_phase = s->one_band ? 0 : s->phase;
    chip_nest_slot *act =
        v.rows
            ? chip_nest_find(&s->act,
                             ((t->band_key * band_phases + band_phase) * s->most_parts + index) * CHIP_TERMS + term[0],
                             &hit)
            : NULL;
    /* a depthwise phase has the whole kernel */
    uint64_t image = (p->wgt_per_image ? (uint64_t)t->n : 0) * s->phases + (p->depthwise ? 0 : s->phase);
    chip_nest_slot *wgt = chip_nest_find(
        &s->wgt, ((image * p->cell_groups + sum->g) * s->most_parts + index) * CHIP_TERMS + term[1], &loaded);
    chip_nest_sum j = *sum;
    if (cold && !loaded && !p->depthwise) {
        sum_cold(s, t, part, &own, &j, &v, act, wgt, term);
        return;
    }
    const windows w = {t, &v, act, wgt, low - part->cb};
    if (p->depthwise) own.nky = p->layout->grid_y, own.nkx = p->layout->grid_x;
    if (!loaded && p->depthwise && p->grid_y == own.nky && own.nky > CHIP_WINDOW_KERNEL && p->pieces_y.stride == 1) {
        emit_windows(s, &w, &(window_loads){part, &own, term}, &j);
        return;
    }
    if (act) chip_nest_load_act(s, act, t, part, term[0], v.row0 + v.rows);
    if (!loaded) chip_nest_load_wgt(s, wgt, sum->g, t->n, &own, term[1]);
    if (p->depthwise)
        emit_windows(s, &w, NULL, &j);
    else
        emit_matrix(s, t, part, low, &own, &j, &v, act, wgt);
}

/* A reduction over nothing: one block of padding, whose weights don't matter because int8 zeros times anything are
 * zero. Depthwise: a window of one position, as the slot need not have a word for each cell; of one row along y, where
 * it may be long. */
void chip_nest_sum_nothing(chip_nest_state *s, const chip_nest_tile *t, const chip_nest_sum *j) {
    const chip_problem *p = s->p;
    chip_op *op = chip_emit(s->b, MATRIX);
    presil_desc *d = &op->d;
    chip_need(op, EPILOGUE, s->acc_read[j->half]);
    presil_matrix_first_set(d, 1);
    presil_matrix_half_set(d, j->half);
    presil_matrix_acc_base_set(d, j->acc_base);
    const bool along_y = p->depthwise && j->ny == 1;
    presil_matrix_depthwise_set(d, p->depthwise);
    presil_matrix_nx_set(d, along_y ? 1 : t->nx);
    presil_matrix_ny_set(d, along_y ? t->nx : j->ny);
    presil_matrix_sx_set(d, 1), presil_matrix_sy_set(d, 1), presil_matrix_dx_set(d, 1), presil_matrix_dy_set(d, 1);
    presil_matrix_kx_set(d, 1), presil_matrix_ky_set(d, 1), presil_matrix_ncb_set(d, 1);
    presil_matrix_idx_set(d, 1), presil_matrix_idy_set(d, 1);
    op->cycles = (uint32_t)(t->nx * j->ny) + p->config->cells;
    if (!p->phased) return; /* nothing is ever loaded */
    presil_matrix_wgt_base_set(d, s->wgt.slot[0].base);
    chip_nest_read(&s->wgt, &s->wgt.slot[0], op, s->b->seq[MATRIX], 0, 1);
}
