/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twin_simd_depth.h - MATRIX with `depthwise` over vectors of cells, for the vector width that the including file
 * defines. A vector's weights stay in registers for all outputs of a row. Why floats are exact here: twin_simd_plan.h.
 * Whole vectors are read: there is room behind the scratchpad and behind a row of padding.
 */
#ifndef PRESIL_TWIN_SIMD_DEPTH_H
#define PRESIL_TWIN_SIMD_DEPTH_H
#include "twin_simd_plan.h"

#define DEPTH_POSITIONS (TWIN_DEPTH_KERNEL * TWIN_DEPTH_KERNEL)
/* Exponents of operands that are zero, that may be special, and of weights that never count: any sum with one of the
 * last is below any other, any other sum with a special one is above E_HIGH. */
#define DEPTH_ZERO (-1000)
#define DEPTH_SPECIAL 10000
#define DEPTH_NEVER (-20000)

INLINE void depth_int8_cells(const twin_dims *dims, const twin_depth *row, uint32_t c) {
    VI w[TWIN_DEPTH_KERNEL][TWIN_DEPTH_KERNEL];
    const uint32_t left = row->used - c, count = left < WIDTH ? left : WIDTH;
    for (uint32_t ky = 0; ky < row->ky; ky++)
        for (uint32_t kx = 0; kx < row->kx; kx++) w[ky][kx] = v_load_int8(row->weights[ky][kx] + c, count);
    for (uint32_t x = 0; x < row->count; x++) {
        uint32_t *acc = row->acc + (size_t)x * dims->cells_pad + c;
        VI sum = row->first ? V_SET1(0) : V_LOAD_I(acc);
        for (uint32_t ky = 0; ky < row->ky; ky++) {
            const uint8_t *const *a = &row->window[ky][x * row->step];
            for (uint32_t kx = 0; kx < row->kx; kx++)
                sum = V_ADD_I32(sum, V_MUL_I32(v_load_int8(a[kx] + c, WIDTH), w[ky][kx]));
        }
        V_STORE_I(acc, sum);
    }
}

static void depth_int8(const twin_dims *dims, const twin_depth *row) {
    uint32_t c = 0;
    for (; c < row->used; c += WIDTH) depth_int8_cells(dims, row, c);
    if (row->first && c < dims->cells_pad)
        for (uint32_t x = 0; x < row->count; x++)
            memset(row->acc + (size_t)x * dims->cells_pad + c, 0, 4 * (size_t)(dims->cells_pad - c));
}

/* Decoded values and exponents of some kernel positions, for a vector of cells. */
typedef struct {
    VF value[DEPTH_POSITIONS];
    VI exponent[DEPTH_POSITIONS];
} depth_operands;

INLINE void depth_decode(depth_operands *o, uint32_t at, VI bits, int special) {
    VI e = V_AND_I(V_SRL(bits, 23), V_SET1(255)), zero = V_SET1(0), top = V_SET1(255);
    o->exponent[at] = V_SELECT_EQ_I(e, top, V_SET1(special), V_SELECT_EQ_I(e, zero, V_SET1(DEPTH_ZERO), e));
    o->value[at] = V_CAST_F(V_SELECT_EQ_I(e, top, zero, bits)); /* a special one meets only what is absent */
}

INLINE void depth_weights(const twin_depth *row, uint32_t c, depth_operands *w) {
    const uint32_t left = row->used - c, count = left < WIDTH ? left : WIDTH;
    int32_t cells[WIDTH];
    for (uint32_t i = 0; i < WIDTH; i++) cells[i] = i < count;
    for (uint32_t ky = 0; ky < row->ky; ky++)
        for (uint32_t kx = 0; kx < row->kx; kx++) {
            const uint32_t at = ky * row->kx + kx;
            VI code = v_load_uint16(row->weights[ky][kx] + 2 * (size_t)c, count), never = V_SET1(DEPTH_NEVER);
            depth_decode(w, at, widened(code, row->floats.fp16),
                         row->floats.skip_special ? DEPTH_NEVER : DEPTH_SPECIAL);
            if (row->floats.absent)
                w->exponent[at] = V_SELECT_EQ_I(code, V_SET1(twin_absent_code(&row->floats)), never, w->exponent[at]);
            w->exponent[at] = V_SELECT_EQ_I(V_LOAD_I(cells), V_SET1(0), never, w->exponent[at]);
        }
}

/* The dot products of a vector of cells; 1 if some cell needs the integer path. As row_cells in twin_simd_float.h. */
INLINE int depth_dot(const depth_operands *a, const depth_operands *w, uint32_t n, int32_t g, VF *dot) {
    VI emax = V_SET1(-1), sum = V_SET1(0);
    for (uint32_t i = 0; i < n; i++) emax = V_MAX_I32(emax, V_ADD_I32(a->exponent[i], w->exponent[i]));
    if (V_ANY_BETWEEN(emax, 0, E_LOW) || V_ANY_BETWEEN(emax, E_HIGH, INT32_MAX)) return 1;
    emax = V_MAX_I32(emax, V_SET1(E_LOW)); /* all products zero: any power does */
    VF scale = power_of_two(267 + g + 127, emax, 1);
    for (uint32_t i = 0; i < n; i++) {
        VF p = V_MUL(a->value[i], w->value[i]);
        sum = V_ADD_I32(sum, V_TRUNCATE(V_FMA(p, scale, V_SIGNED_HALF(p))));
    }
    *dot = V_MUL(V_FROM_I32(sum), power_of_two(127 - 267 - g, emax, 0));
    return 0;
}

/* The integer path for the cells from c on that are used. */
static VF depth_integer(const twin_dims *dims, const twin_depth *row, uint32_t x, uint32_t c) {
    uint32_t v[WIDTH] = {0};
    for (uint32_t i = 0; i < WIDTH && c + i < row->used; i++) v[i] = twin_depth_cell(dims, row, x, c + i);
    return V_CAST_F(V_LOAD_I(v));
}

INLINE void depth_add(const twin_depth *row, uint32_t *acc, VF dot) {
    VF old = row->first ? V_SET1_F(0.0f) : V_LOAD_F((const float *)(const void *)acc);
    V_STORE_F((float *)(void *)acc, V_CANONICAL(V_ADD_F(old, dot)));
}

INLINE void depth_float_cells(const twin_dims *dims, const twin_depth *row, uint32_t c, uint32_t rows, uint32_t columns,
                              int fp16) {
    const int32_t g = (int32_t)twin_alignment_bits(dims->lanes);
    const int special = row->floats.skip_special ? DEPTH_ZERO : DEPTH_SPECIAL;
    depth_operands w, a;
    depth_weights(row, c, &w);
    for (uint32_t x = 0; x < row->count; x++) {
        for (uint32_t ky = 0; ky < rows; ky++)
            for (uint32_t kx = 0; kx < columns; kx++) {
                const uint8_t *from = row->window[ky][x * row->step + kx];
                depth_decode(&a, ky * columns + kx, widened(v_load_uint16(from + 2 * (size_t)c, WIDTH), fp16), special);
            }
        VF dot;
        if (depth_dot(&a, &w, rows * columns, g, &dot)) dot = depth_integer(dims, row, x, c);
        depth_add(row, row->acc + (size_t)x * dims->cells_pad + c, dot);
    }
}

static void depth_float(const twin_dims *dims, const twin_depth *row) {
    uint32_t c = 0;
    for (; c < row->used; c += WIDTH) {
        if (row->floats.fp16)
            depth_float_cells(dims, row, c, row->ky, row->kx, 1);
        else if (row->ky == 3 && row->kx == 3) /* the common kernels, unrolled */
            depth_float_cells(dims, row, c, 3, 3, 0);
        else if (row->ky == 5 && row->kx == 5)
            depth_float_cells(dims, row, c, 5, 5, 0);
        else
            depth_float_cells(dims, row, c, row->ky, row->kx, 0);
    }
    for (; c < dims->cells_pad; c += WIDTH)
        for (uint32_t x = 0; x < row->count; x++)
            depth_add(row, row->acc + (size_t)x * dims->cells_pad + c, V_SET1_F(0.0f));
}
#endif
