/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twin_simd_float.h - the dot product of 16-bit floats over vectors of cells, for the vector width that the including
 * file defines: WIDTH, VF, VI, INLINE and the operations V_* used below. Why floats are exact here: twin_simd_plan.h.
 */
#ifndef PRESIL_TWIN_SIMD_FLOAT_H
#define PRESIL_TWIN_SIMD_FLOAT_H
#include "twin_simd_plan.h"

/* bf16 or fp16 codes as the fp32 that they equal. */
INLINE VI widened(VI code, int fp16) {
    if (!fp16) return V_SLL(code, 16);
    VI magnitude = V_AND_I(code, V_SET1(0x7fff)), sign = V_SLL(V_AND_I(code, V_SET1(0x8000)), 16);
    VI normal = V_ADD_I32(V_SLL(magnitude, 13), V_SET1(112 << 23));
    VI special = V_ADD_I32(normal, V_SET1(112 << 23));
    VI small = V_CAST_I(V_MUL(V_FROM_I32(magnitude), V_SET1_F(0x1p-24f)));
    VI bits = V_SELECT_GT_I(V_SET1(0x400), magnitude, small, V_SELECT_GT_I(magnitude, V_SET1(0x7bff), special, normal));
    return V_ADD_I32(bits, sign);
}

/* Largest exponent sum of each cell, from the byte codes; negative if all its products are zero. */
INLINE void emax_codes(const twin_dims *dims, const uint8_t *codes, const float_row *row, int high, uint32_t vectors,
                       VI *emax) {
    VI m[2] = {V_SET1(0), V_SET1(0)};
    for (uint32_t g = 0; g < (dims->lanes / 2 + 3) / 4; g++, codes += 4 * (size_t)dims->cells_pad) {
        int32_t four;
        memcpy(&four, row->codes + 4 * g, 4);
        VI a = V_SET1(four);
        for (uint32_t v = 0; v < vectors; v++) m[v] = V_MAX_U8(m[v], V_ADD_I8(a, V_LOAD_I(codes + 4 * WIDTH * v)));
    }
    for (uint32_t v = 0; v < vectors; v++) {
        VI x = V_MAX_U8(m[v], V_SRL(m[v], 16));
        x = V_AND_I(V_MAX_U8(x, V_SRL(x, 8)), V_SET1(255));
        emax[v] = V_SELECT_GT_I(V_SET1(128), x, V_SET1(-1), V_ADD_I32(x, V_SET1(high - 254)));
    }
}

/* The same from the floats, for exponents too far apart for the codes. */
INLINE void emax_floats(const twin_dims *dims, const float *w, const float_row *row, uint32_t vectors, VI *emax) {
    const VI zero = V_SET1(0), none = V_SET1(-1000), field = V_SET1(255);
    emax[0] = none;
    if (vectors > 1) emax[1] = none;
    for (uint32_t i = 0; i < dims->lanes / 2; i++, w += dims->cells_pad) {
        int32_t exponent = (int32_t)twin_exponent(row->a[i]);
        VI a = V_SET1(exponent ? exponent : -1000);
        for (uint32_t v = 0; v < vectors; v++) {
            VI e = V_AND_I(V_SRL(V_LOAD_I(w + WIDTH * v), 23), field);
            emax[v] = V_MAX_I32(emax[v], V_ADD_I32(a, V_SELECT_EQ_I(e, zero, none, e)));
        }
    }
}

/* 2^(bias - 127 + e) for each element, or with minus 2^(bias - 127 - e). */
INLINE VF power_of_two(int32_t bias, VI e, int minus) {
    return V_CAST_F(V_SLL(minus ? V_SUB_I32(V_SET1(bias), e) : V_ADD_I32(V_SET1(bias), e), 23));
}

/* Adds one row's dot products to `vectors` vectors of cells, or returns 1 without having done so if some cell needs the
 * integer path. */
INLINE int row_cells(const twin_dims *dims, const float *w, const uint8_t *codes, const float_row *row, int high,
                     int use_codes, int first, uint32_t vectors, uint32_t *acc) {
    VI emax[2], sum[2] = {V_SET1(0), V_SET1(0)};
    VF scale[2];
    const int32_t g = (int32_t)twin_alignment_bits(dims->lanes);
    if (use_codes)
        emax_codes(dims, codes, row, high, vectors, emax);
    else
        emax_floats(dims, w, row, vectors, emax);
    for (uint32_t v = 0; v < vectors; v++) {
        if (V_ANY_BETWEEN(emax[v], 0, E_LOW)) return 1;
        emax[v] = V_MAX_I32(emax[v], V_SET1(E_LOW)); /* all products zero: any power does */
    }
    for (uint32_t v = 0; v < vectors; v++) scale[v] = power_of_two(267 + g + 127, emax[v], 1);
    for (uint32_t i = 0; i < dims->lanes / 2; i++, w += dims->cells_pad) {
        VF a = V_CAST_F(V_SET1((int32_t)row->a[i]));
        for (uint32_t v = 0; v < vectors; v++) {
            VF p = V_MUL(a, V_LOAD_F(w + WIDTH * v));
            sum[v] = V_ADD_I32(sum[v], V_TRUNCATE(V_FMA(p, scale[v], V_SIGNED_HALF(p))));
        }
    }
    for (uint32_t v = 0; v < vectors; v++) {
        VF dot = V_MUL(V_FROM_I32(sum[v]), power_of_two(127 - 267 - g, emax[v], 0));
        VF old = first ? V_SET1_F(0.0f) : V_LOAD_F((const float *)(const void *)(acc + WIDTH * v));
        V_STORE_F((float *)(void *)(acc + WIDTH * v), V_CANONICAL(V_ADD_F(old, dot)));
    }
    return 0;
}

static void rows_float(const twin_dims *dims, const void *packed, const twin_rows *rows) {
    const float_header *header = packed;
    const float *w = packed_floats(dims, (void *)(uintptr_t)packed);
    const uint8_t *codes = packed_codes(dims, (void *)(uintptr_t)packed);
    float_row row;
    for (uint32_t r = 0; r < rows->count; r++) {
        float_path path = decode_row(rows->rows[r], dims->lanes / 2, &rows->floats, header->e, &row);
        if (path == PATH_INTEGER) {
            integer_cells(dims, header, rows, r, 0, dims->cells);
            continue;
        }
        uint32_t *acc = rows->acc + (size_t)r * dims->cells_pad, step = 2 * WIDTH;
        int high = row.e.high + header->e.high, redo;
        for (uint32_t c = 0; c < dims->cells_pad; c += step) {
            if (dims->cells_pad - c < step) step = WIDTH;
            if (path == PATH_CODES && step == 2 * WIDTH)
                redo = row_cells(dims, w + c, codes + 4 * (size_t)c, &row, high, 1, rows->first, 2, acc + c);
            else if (path == PATH_CODES)
                redo = row_cells(dims, w + c, codes + 4 * (size_t)c, &row, high, 1, rows->first, 1, acc + c);
            else if (step == 2 * WIDTH)
                redo = row_cells(dims, w + c, codes, &row, high, 0, rows->first, 2, acc + c);
            else
                redo = row_cells(dims, w + c, codes, &row, high, 0, rows->first, 1, acc + c);
            if (redo) integer_cells(dims, header, rows, r, c, step);
        }
    }
}
#endif
