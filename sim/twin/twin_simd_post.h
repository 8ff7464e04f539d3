/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twin_simd_post.h - the epilogue with host floats, for the vector width and the V_ operations that the including file
 * defines. The engine has set the float mode (twin_host_float.h): results and operands are flushed as docs/numerics.md
 * clause 1 wants.
 */
#ifndef PRESIL_TWIN_SIMD_POST_H
#define PRESIL_TWIN_SIMD_POST_H
#include "twin_simd_plan.h"

/* Residual elements at + 0 .. count-1 as fp32. */
INLINE VF residual_cells(const twin_post *post, const uint8_t *res, uint32_t at, uint32_t count) {
    if (post->res_type == PRESIL_DTYPE_INT8) {
        VI i = V_SUB_I32(v_load_int8(res + at, count), V_SET1(post->res_zp));
        return V_CANONICAL(V_MUL(V_FROM_I32(i), V_CAST_F(V_SET1((int32_t)post->res_scale))));
    }
    if (post->res_type == PRESIL_DTYPE_BF16) return V_CAST_F(V_SLL(v_load_uint16(res + 2 * (size_t)at, count), 16));
    if (post->res_type == PRESIL_DTYPE_FP16) return V_CAST_F(widened(v_load_uint16(res + 2 * (size_t)at, count), 1));
    return V_CAST_F(v_load_word(res + 4 * (size_t)at, count));
}

INLINE VI to_int8(const twin_post *post, VF v) {
    VF limit = V_SET1_F(1073741824.0f);
    VF x = V_MIN_F(V_MAX_F(V_ZERO_NAN(v), V_SUB_F(V_SET1_F(0.0f), limit)), limit);
    VI i = V_ADD_I32(V_TO_I32(x), V_SET1(post->out_zp));
    /* int_lo wins, as in isa.md: i < lo ? lo : i > hi ? hi : i */
    VI top = V_SELECT_GT_I(i, V_SET1(post->int_hi), V_SET1(post->int_hi), i);
    return V_SELECT_GT_I(V_SET1(post->int_lo), i, V_SET1(post->int_lo), top);
}

INLINE VI to_bf16(VF f) {
    VI v = V_CAST_I(f), infinity = V_SET1(0x7f800000), top = V_SRL(v, 16);
    VI rounded = V_SRL(V_ADD_I32(V_ADD_I32(v, V_SET1(0x7fff)), V_AND_I(top, V_SET1(1))), 16);
    rounded = V_SELECT_EQ_I(V_AND_I(v, infinity), V_SET1(0), V_AND_I(top, V_SET1(0x8000)), rounded);
    return V_SELECT_GT_I(V_AND_I(v, V_SET1(0x7fffffff)), infinity, V_SET1(0x7fc0), rounded);
}

/* Below 2^-14 the host rounds to a multiple of 2^-24, the last place of a sum with 1/2. */
INLINE VI to_fp16(VF f) {
    VI v = V_CAST_I(f), magnitude = V_AND_I(v, V_SET1(0x7fffffff)), half = V_SET1(0x3f000000);
    VI odd = V_AND_I(V_SRL(magnitude, 13), V_SET1(1)), top = V_SET1(0x7c00);
    VI rounded = V_SRL(V_ADD_I32(V_ADD_I32(magnitude, V_SET1(0xfff - (112 << 23))), odd), 13);
    VI small = V_SUB_I32(V_CAST_I(V_ADD_F(V_CAST_F(magnitude), V_CAST_F(half))), half);
    rounded = V_SELECT_GT_I(V_SET1(113 << 23), magnitude, small, V_SELECT_GT_I(rounded, top, top, rounded));
    rounded = V_ADD_I32(rounded, V_AND_I(V_SRL(v, 16), V_SET1(0x8000)));
    return V_SELECT_GT_I(magnitude, V_SET1(0x7f800000), V_SET1(0x7e00), rounded);
}

INLINE void write_cells(const twin_post *post, VF v, uint8_t *out, uint32_t at, uint32_t count) {
    if (post->out_type == PRESIL_DTYPE_INT8)
        v_store_int8(out + at, to_int8(post, v), count);
    else if (post->out_type == PRESIL_DTYPE_BF16)
        v_store_uint16(out + 2 * (size_t)at, to_bf16(v), count);
    else if (post->out_type == PRESIL_DTYPE_FP16)
        v_store_uint16(out + 2 * (size_t)at, to_fp16(v), count);
    else
        v_store_word(out + 4 * (size_t)at, V_CAST_I(v), count);
}

static void post_row(const twin_dims *dims, const twin_post *post, const uint32_t *acc, const uint8_t *res,
                     uint8_t *out) {
    VF lo = V_CAST_F(V_SET1((int32_t)post->clamp_lo)), hi = V_CAST_F(V_SET1((int32_t)post->clamp_hi));
    for (uint32_t at = 0; at < dims->cells; at += WIDTH) {
        uint32_t count = dims->cells - at < WIDTH ? dims->cells - at : WIDTH;
        VF v = V_LOAD_F((const float *)(const void *)(acc + at)),
           b = V_LOAD_F((const float *)(const void *)(post->bias + at));
        if (post->bias_en && post->acc_fp32)
            v = V_CANONICAL(V_ADD_F(v, b));
        else if (post->bias_en)
            v = V_CAST_F(V_ADD_I32(V_CAST_I(v), V_CAST_I(b)));
        if (post->out_type != PRESIL_DTYPE_RAW32) {
            if (!post->acc_fp32) v = V_FROM_I32(V_CAST_I(v));
            if (post->scale_en) v = V_CANONICAL(V_MUL(v, V_LOAD_F((const float *)(const void *)(post->scale + at))));
            if (post->res_en) v = V_CANONICAL(V_ADD_F(v, residual_cells(post, res, at, count)));
            if (post->clamp_en) v = V_SELECT_LT_F(v, lo, lo, V_SELECT_LT_F(hi, v, hi, v));
        }
        write_cells(post, v, out, at, count);
    }
}
#endif
