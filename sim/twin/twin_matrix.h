/* SPDX-License-Identifier: Apache-2.0 */
/* twin_matrix.h - the fields of a MATRIX descriptor and its activations' addresses, for both of its modes. */
#ifndef TWIN_MATRIX_H
#define TWIN_MATRIX_H
#include "twin_internal.h"

/* Below this many multiplications waking other threads costs more than it saves. */
#define THREAD_WORK (UINT64_C(1) << 20)

typedef struct {
    twin_run *run;
    uint32_t index, nx, ny, kx, ky, ncb, idx, idy;
    int32_t sx, sy, dx, dy, ox, oy, lim_x, lim_y;
    uint32_t act_base, wgt_base, x_stride, y_stride, cb_stride, wgt_x_stride, wgt_y_stride, acc_base, half, extra_cells;
    int is_float, first, depthwise;
    twin_floats floats;
    uint8_t pad[TWIN_MAX_LANES];
} matrix;

/* The input coordinate of output coordinate `at` and kernel coordinate k, or -1 if it is padding. */
static inline int32_t input(int32_t origin, int32_t at, int32_t stride, int32_t k, int32_t dilation, uint32_t spread,
                            int32_t limit) {
    int32_t u = origin + at * stride + k * dilation;
    if (u < 0) return -1;
    if (spread != 1) {
        if ((uint32_t)u % spread) return -1;
        u = (int32_t)((uint32_t)u / spread);
    }
    return u < limit ? u : -1;
}

static inline int32_t input_x(const matrix *m, uint32_t x, uint32_t kx) {
    return input(m->ox, (int32_t)x, m->sx, (int32_t)kx, m->dx, m->idx, m->lim_x);
}

static inline int32_t input_y(const matrix *m, uint32_t y, uint32_t ky) {
    return input(m->oy, (int32_t)y, m->sy, (int32_t)ky, m->dy, m->idy, m->lim_y);
}

static inline uint32_t activation_word(const matrix *m, int32_t ux, int32_t uy, uint32_t cb) {
    return (m->act_base + (uint32_t)ux * m->x_stride + (uint32_t)uy * m->y_stride + cb * m->cb_stride) & 0xffffu;
}

/* Runs a descriptor with `depthwise`. */
int twin_depthwise(matrix *m);
#endif
