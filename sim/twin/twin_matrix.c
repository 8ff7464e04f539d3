/* SPDX-License-Identifier: Apache-2.0 */
/* twin_matrix.c - MATRIX (docs/isa.md section 4): the addresses; the arithmetic is in the kernels. */
#include <string.h>

#include "twin_host_float.h"
#include "twin_matrix.h"

/* Rows whose accumulators are kept hot while all weight blocks pass over them. */
#define TILE_ROWS 256u

static void fields(matrix *m, twin_run *run, const presil_desc *d, uint32_t index) {
    *m = (matrix){
        .run = run,
        .index = index,
        .nx = presil_matrix_nx(d),
        .ny = presil_matrix_ny(d),
        .kx = presil_matrix_kx(d),
        .ky = presil_matrix_ky(d),
        .ncb = presil_matrix_ncb(d),
        .idx = presil_matrix_idx(d),
        .idy = presil_matrix_idy(d),
        .sx = (int32_t)presil_matrix_sx(d),
        .sy = (int32_t)presil_matrix_sy(d),
        .dx = (int32_t)presil_matrix_dx(d),
        .dy = (int32_t)presil_matrix_dy(d),
        .ox = presil_matrix_ox(d),
        .oy = presil_matrix_oy(d),
        .lim_x = (int32_t)presil_matrix_lim_x(d),
        .lim_y = (int32_t)presil_matrix_lim_y(d),
        .act_base = presil_matrix_act_base(d),
        .wgt_base = presil_matrix_wgt_base(d),
        .x_stride = presil_matrix_x_stride(d),
        .y_stride = presil_matrix_y_stride(d),
        .cb_stride = presil_matrix_cb_stride(d),
        .wgt_x_stride = presil_matrix_wgt_x_stride(d),
        .wgt_y_stride = presil_matrix_wgt_y_stride(d),
        .acc_base = presil_matrix_acc_base(d),
        .half = presil_matrix_half(d),
        .is_float = presil_matrix_dtype(d) != PRESIL_DTYPE_INT8,
        .first = presil_matrix_first(d) != 0,
        .floats = {.fp16 = presil_matrix_dtype(d) == PRESIL_DTYPE_FP16,
                   .skip_special = presil_matrix_skip_special(d) != 0,
                   .absent = presil_matrix_absent(d) != 0},
        .depthwise = presil_matrix_depthwise(d) != 0,
        .extra_cells = presil_matrix_extra_cells(d),
    };
    memset(m->pad, m->is_float ? 0 : (int)presil_matrix_pad(d), sizeof m->pad);
}

static inline uint32_t weight_word(const matrix *m, uint32_t cb, uint32_t ky, uint32_t kx) {
    return m->wgt_base + ((cb * m->ky + ky) * m->kx + kx) * m->run->twin->dims.cells;
}

/* Whether no address of the descriptor can reach beyond the scratchpad, from bounds of each term. */
static int surely_inside(const matrix *m) {
    const twin_dims *dims = &m->run->twin->dims;
    uint64_t last_weight = m->wgt_base + (uint64_t)m->ncb * m->ky * m->kx * dims->cells;
    int64_t ux = (int64_t)m->ox + (int64_t)(m->nx - 1) * m->sx + (int64_t)(m->kx - 1) * m->dx;
    int64_t uy = (int64_t)m->oy + (int64_t)(m->ny - 1) * m->sy + (int64_t)(m->ky - 1) * m->dy;
    int64_t x = ux / m->idx, y = uy / m->idy;
    x = x >= m->lim_x ? m->lim_x - 1 : x;
    y = y >= m->lim_y ? m->lim_y - 1 : y;
    if (x < 0) x = 0;
    if (y < 0) y = 0;
    uint64_t last =
        m->act_base + (uint64_t)x * m->x_stride + (uint64_t)y * m->y_stride + (uint64_t)(m->ncb - 1) * m->cb_stride;
    return last_weight <= dims->words && last < dims->words;
}

/* Looks at every address in the order of the blocks: weights of a block, then its rows. */
static int check_range(const matrix *m) {
    const twin_dims *dims = &m->run->twin->dims;
    for (uint32_t cb = 0; cb < m->ncb; cb++)
        for (uint32_t ky = 0; ky < m->ky; ky++)
            for (uint32_t kx = 0; kx < m->kx; kx++) {
                for (uint32_t c = 0; c < dims->cells; c++) {
                    uint32_t w = (weight_word(m, cb, ky, kx) + c) & 0xffffu;
                    if (w >= dims->words)
                        return twin_fail(m->run, PRESIL_ERROR_SPAD_RANGE, m->index, (uint64_t)w * dims->word,
                                         "weight address");
                }
                for (uint32_t y = 0; y < m->ny; y++)
                    for (uint32_t x = 0; x < m->nx; x++) {
                        int32_t ux = input_x(m, x, kx), uy = input_y(m, y, ky);
                        uint32_t w = ux < 0 || uy < 0 ? 0 : activation_word(m, ux, uy, cb);
                        if (w >= dims->words)
                            return twin_fail(m->run, PRESIL_ERROR_SPAD_RANGE, m->index, (uint64_t)w * dims->word,
                                             "activation address");
                    }
            }
    return 0;
}

/* Activation words of output rows [from, to) for one weight block. */
static void gather(const matrix *m, uint32_t cb, uint32_t ky, uint32_t kx, uint32_t from, uint32_t to,
                   const uint8_t **rows) {
    const presil_twin *twin = m->run->twin;
    uint32_t y = from / m->nx, x = from % m->nx;
    int32_t uy = input_y(m, y, ky);
    for (uint32_t r = from; r < to; r++) {
        int32_t ux = input_x(m, x, kx);
        rows[r - from] =
            ux < 0 || uy < 0 ? m->pad : twin->spad + (size_t)activation_word(m, ux, uy, cb) * twin->dims.word;
        if (++x == m->nx) {
            x = 0;
            uy = input_y(m, ++y, ky);
        }
    }
}

static size_t packed_bytes(const twin_dims *dims) { return ((size_t)dims->lanes + 64) * dims->cells_pad * 8 + 4096; }

size_t twin_matrix_workspace(const presil_config *config) {
    twin_dims dims = {.lanes = config->lanes, .cells_pad = (config->cells + 15u) & ~15u};
    return packed_bytes(&dims) + TILE_ROWS * sizeof(uint8_t *);
}

/* All blocks over accumulator rows [from, to), relative to acc_base; at most TILE_ROWS. */
static void run_tile(const matrix *m, uint32_t from, uint32_t to, uint8_t *workspace) {
    presil_twin *twin = m->run->twin;
    const twin_dims *dims = &twin->dims;
    const uint8_t **list = (const uint8_t **)(void *)(workspace + packed_bytes(dims));
    const uint8_t *weights[TWIN_MAX_CELLS];
    twin_rows rows = {.rows = list,
                      .acc = twin->acc[m->half] + (size_t)(m->acc_base + from) * dims->cells_pad,
                      .count = to - from,
                      .first = m->first,
                      .floats = m->floats};
    for (uint32_t cb = 0; cb < m->ncb; cb++)
        for (uint32_t ky = 0; ky < m->ky; ky++)
            for (uint32_t kx = 0; kx < m->kx; kx++) {
                uint32_t word = weight_word(m, cb, ky, kx);
                for (uint32_t c = 0; c < dims->cells; c++)
                    weights[c] = twin->spad + (size_t)((word + c) & 0xffffu) * dims->word;
                gather(m, cb, ky, kx, from, to, list);
                if (m->is_float) {
                    twin->kernels->pack_float(dims, weights, &m->floats, workspace);
                    twin->kernels->rows_float(dims, workspace, &rows);
                } else {
                    twin->kernels->pack_int8(dims, weights, workspace);
                    twin->kernels->rows_int8(dims, workspace, &rows);
                }
                rows.first = 0;
            }
}

static void run_part(void *context, unsigned part, unsigned parts) {
    const matrix *m = context;
    uint32_t total = m->nx * m->ny, share = (total + parts - 1) / parts;
    uint32_t from = part * share, to = from + share > total ? total : from + share;
    uint8_t *workspace = m->run->twin->workspace + part * m->run->twin->workspace_bytes;
    unsigned mode = twin_float_enter(1); /* of this thread */
    for (; from < to; from += TILE_ROWS) run_tile(m, from, to - from < TILE_ROWS ? to : from + TILE_ROWS, workspace);
    twin_float_leave(mode);
}

int twin_matrix(twin_run *run, const presil_desc *d, uint32_t index) {
    presil_twin *twin = run->twin;
    matrix m;
    fields(&m, run, d, index);
    if (m.depthwise) return twin_depthwise(&m);
    if (!surely_inside(&m) && check_range(&m)) return -1;
    uint64_t work = (uint64_t)m.nx * m.ny * m.kx * m.ky * m.ncb * twin->dims.cells * twin->dims.lanes;
    if (twin->pool && work >= THREAD_WORK)
        twin_pool_run(twin->pool, run_part, &m);
    else
        run_part(&m, 0, 1);
    return 0;
}
