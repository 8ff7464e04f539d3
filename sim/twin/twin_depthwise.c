/* SPDX-License-Identifier: Apache-2.0 */
/* twin_depthwise.c - MATRIX with `depthwise` (docs/isa.md section 4): its window, a row of outputs at a time. */
#include <string.h>

#include "twin_host_float.h"
#include "twin_matrix.h"

static uint32_t step_x(const matrix *m) { return (uint32_t)(m->sx / m->dx); }

static uint32_t step_y(const matrix *m) { return (uint32_t)(m->sy / m->dy); }

static uint32_t window_columns(const matrix *m) { return (m->nx - 1) * step_x(m) + m->kx; }

static uint32_t window_rows(const matrix *m) { return (m->ny - 1) * step_y(m) + m->ky; }

static inline uint32_t depth_weight(const matrix *m, uint32_t position) {
    return (m->wgt_base + position / m->kx * m->wgt_y_stride + position % m->kx * m->wgt_x_stride) & 0xffffu;
}

/* The word of window position (i, j), or -1 if it is padding. */
static inline int64_t window_word(const matrix *m, uint32_t i, uint32_t j) {
    int32_t ux = input(m->ox, (int32_t)i, m->dx, 0, 0, 1, m->lim_x),
            uy = input(m->oy, (int32_t)j, m->dy, 0, 0, 1, m->lim_y);
    return ux < 0 || uy < 0 ? -1 : (int64_t)activation_word(m, ux, uy, 0);
}

/* Whether no address can reach beyond the scratchpad, whatever the window is. */
static int surely_in_range(const matrix *m) {
    const uint64_t x = m->lim_x ? (uint64_t)m->lim_x - 1 : 0, y = m->lim_y ? (uint64_t)m->lim_y - 1 : 0;
    const uint64_t words = m->run->twin->dims.words;
    const uint64_t last =
        m->wgt_base + (uint64_t)(m->ky - 1) * m->wgt_y_stride + (uint64_t)(m->kx - 1) * m->wgt_x_stride;
    return last < words && m->act_base + x * m->x_stride + y * m->y_stride < words;
}

/* Looks at every address: the weights, then the window in its order, with the positions that are of no use. */
static int check_depth_range(const matrix *m) {
    const twin_dims *dims = &m->run->twin->dims;
    for (uint32_t p = 0; p < m->ky * m->kx; p++)
        if (depth_weight(m, p) >= dims->words)
            return twin_fail(m->run, PRESIL_ERROR_SPAD_RANGE, m->index, (uint64_t)depth_weight(m, p) * dims->word,
                             "weight address");
    for (uint32_t j = 0; j < window_rows(m); j++)
        for (uint32_t i = 0; i < window_columns(m); i++) {
            int64_t word = window_word(m, i, j);
            if (word >= (int64_t)dims->words)
                return twin_fail(m->run, PRESIL_ERROR_SPAD_RANGE, m->index, (uint64_t)word * dims->word,
                                 "activation address");
        }
    return 0;
}

/* Words of a window whose elements belong to several cells, an element for each cell. */
typedef struct {
    uint8_t word[TWIN_DEPTH_KERNEL][TWIN_DEPTH_ROW][TWIN_MAX_LANES];
} repeated;

static const uint8_t *repeat(const matrix *m, const uint8_t *from, uint32_t used, uint8_t *to) {
    for (uint32_t c = 0; c < used; c++) {
        const uint32_t element = c / (m->extra_cells + 1);
        if (m->is_float)
            memcpy(to + 2 * (size_t)c, from + 2 * (size_t)element, 2);
        else
            to[c] = from[element];
    }
    return to;
}

/* What output row y reads of the window. */
static void look(const matrix *m, uint32_t y, twin_depth *row, repeated *room) {
    const presil_twin *twin = m->run->twin;
    for (uint32_t ky = 0; ky < m->ky; ky++)
        for (uint32_t i = 0; i < window_columns(m); i++) {
            int64_t word = window_word(m, i, y * step_y(m) + ky);
            const uint8_t *from = word < 0 ? m->pad : twin->spad + (size_t)word * twin->dims.word;
            row->window[ky][i] = m->extra_cells ? repeat(m, from, row->used, room->word[ky][i]) : from;
        }
    row->acc = twin->acc[m->half] + (size_t)(m->acc_base + y * m->nx) * twin->dims.cells_pad;
}

static void run_rows(void *context, unsigned part, unsigned parts) {
    const matrix *m = context;
    const presil_twin *twin = m->run->twin;
    uint32_t share = (m->ny + parts - 1) / parts, from = part * share;
    uint32_t to = from + share > m->ny ? m->ny : from + share, elements = twin->dims.lanes / (m->is_float ? 2 : 1);
    twin_depth row = {.count = m->nx,
                      .step = step_x(m),
                      .kx = m->kx,
                      .ky = m->ky,
                      .used = twin->dims.cells < elements ? twin->dims.cells : elements,
                      .first = m->first,
                      .floats = m->floats};
    for (uint32_t p = 0; p < m->ky * m->kx; p++)
        row.weights[p / m->kx][p % m->kx] = twin->spad + (size_t)depth_weight(m, p) * twin->dims.word;
    repeated room;                       /* written where it is read */
    unsigned mode = twin_float_enter(1); /* of this thread */
    for (uint32_t y = from; y < to; y++) {
        look(m, y, &row, &room);
        if (m->is_float)
            twin->kernels->depth_float(&twin->dims, &row);
        else
            twin->kernels->depth_int8(&twin->dims, &row);
    }
    twin_float_leave(mode);
}

int twin_depthwise(matrix *m) {
    presil_twin *twin = m->run->twin;
    if (!surely_in_range(m) && check_depth_range(m)) return -1;
    /* A product here takes about as long as eight of the lanes. */
    const uint64_t work = (uint64_t)m->nx * m->ny * m->kx * m->ky * twin->dims.cells * 8;
    if (twin->pool && work >= THREAD_WORK)
        twin_pool_run(twin->pool, run_rows, m);
    else
        run_rows(m, 0, 1);
    return 0;
}
