/* SPDX-License-Identifier: Apache-2.0 */
/* twin_avx512.c - the inner loops for AVX-512 with VNNI: vectors of 16 cells. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define WIDTH 16u
#define VF __m512
#define VI __m512i
#define V_SET1 _mm512_set1_epi32
#define V_SET1_F _mm512_set1_ps
#define V_LOAD_I(p) _mm512_loadu_si512((const void *)(p))
#define V_LOAD_F _mm512_loadu_ps
#define V_STORE_I(p, v) _mm512_storeu_si512((void *)(p), v)
#define V_STORE_F _mm512_storeu_ps
#define V_MAX_U8 _mm512_max_epu8
#define V_ADD_I8 _mm512_add_epi8
#define V_AND_I _mm512_and_si512
#define V_MAX_I32 _mm512_max_epi32
#define V_ADD_I32 _mm512_add_epi32
#define V_MUL_I32 _mm512_mullo_epi32
#define V_SUB_I32 _mm512_sub_epi32
#define V_SRL(x, n) _mm512_srli_epi32(x, n)
#define V_SLL(x, n) _mm512_slli_epi32(x, n)
#define V_MAX_F _mm512_max_ps
#define V_MUL _mm512_mul_ps
#define V_ADD_F _mm512_add_ps
#define V_FMA _mm512_fmadd_ps
#define V_TRUNCATE _mm512_cvttps_epi32
#define V_FROM_I32 _mm512_cvtepi32_ps
#define V_CAST_F _mm512_castsi512_ps
#define V_CAST_I _mm512_castps_si512
/* (p & sign) | 0.5 */
#define V_SIGNED_HALF(p)                                                                                               \
    V_CAST_F(_mm512_ternarylogic_epi32(V_CAST_I(p), V_SET1((int32_t)0x80000000u), V_SET1(0x3f000000), 0xea))
#define V_CANONICAL(x) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), x, V_CAST_F(V_SET1(0x7fc00000)))

#define V_SUB_F _mm512_sub_ps
#define V_MIN_F _mm512_min_ps
#define V_TO_I32 _mm512_cvtps_epi32
#define V_ZERO_NAN(x) _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(x, x, _CMP_ORD_Q), x)
/* V_SELECT_op(a, b, x, y): a op b ? x : y, for each element */
#define V_SELECT_LT_F(a, b, x, y) _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x)
#define V_SELECT_GT_I(a, b, x, y) _mm512_mask_blend_epi32(_mm512_cmpgt_epi32_mask(a, b), y, x)
#define V_SELECT_EQ_I(a, b, x, y) _mm512_mask_blend_epi32(_mm512_cmpeq_epi32_mask(a, b), y, x)
/* Whether low < e < high for any element. */
#define V_ANY_BETWEEN(e, low, high)                                                                                    \
    (_mm512_mask_cmplt_epi32_mask(_mm512_cmpgt_epi32_mask(e, V_SET1(low)), e, V_SET1(high)) != 0)
#define INLINE static inline __attribute__((always_inline))

INLINE __mmask16 first_lanes(unsigned count) { return (__mmask16)((1u << count) - 1u); }

/* `count` elements from memory, widened, and back, narrowed; nothing beyond them is touched. */
INLINE VI v_load_int8(const uint8_t *p, unsigned count) {
    return _mm512_cvtepi8_epi32(_mm_maskz_loadu_epi8(first_lanes(count), p));
}
INLINE VI v_load_uint16(const uint8_t *p, unsigned count) {
    return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(first_lanes(count), p));
}
INLINE VI v_load_word(const uint8_t *p, unsigned count) { return _mm512_maskz_loadu_epi32(first_lanes(count), p); }
INLINE void v_store_int8(uint8_t *p, VI v, unsigned count) {
    _mm_mask_storeu_epi8(p, first_lanes(count), _mm512_cvtepi32_epi8(v));
}
INLINE void v_store_uint16(uint8_t *p, VI v, unsigned count) {
    _mm256_mask_storeu_epi16(p, first_lanes(count), _mm512_cvtepi32_epi16(v));
}
INLINE void v_store_word(uint8_t *p, VI v, unsigned count) { _mm512_mask_storeu_epi32(p, first_lanes(count), v); }

#include "twin_simd_float.h"
#include "twin_simd_depth.h"
#include "twin_simd_post.h"
#include "twin_simd_split.h"

#define ROWS 8u

/*
 * int8: activations are made unsigned (+128) for vpdpbusd, so each cell's sum is 128 times the sum of its weights too
 * large. Packed: that correction for each cell, then weights as [lane / 4][cell][lane % 4].
 */
static void pack_int8(const twin_dims *dims, const uint8_t *const *weights, void *packed) {
    int32_t *correction = packed;
    uint8_t *out = (uint8_t *)packed + 4 * (size_t)dims->cells_pad;
    uint32_t groups = (dims->lanes + 3) / 4, pad = dims->cells_pad;
    for (uint32_t c = 0; c < pad; c++) {
        for (uint32_t g = 0; g < groups; g++) {
            uint32_t left = dims->lanes - 4 * g;
            uint8_t *to = out + ((size_t)g * pad + c) * 4;
            if (c < dims->cells && left >= 4) {
                memcpy(to, weights[c] + 4 * g, 4);
            } else {
                memset(to, 0, 4);
                if (c < dims->cells) memcpy(to, weights[c] + 4 * g, left);
            }
        }
    }
    for (uint32_t c = 0; c < pad; c += WIDTH) {
        VI sum = V_SET1(0);
        for (uint32_t g = 0; g < groups; g++)
            sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi8(1), V_LOAD_I(out + ((size_t)g * pad + c) * 4));
        _mm512_storeu_si512(correction + c, V_SUB_I32(V_SET1(0), V_SLL(sum, 7)));
    }
}

/* `count` rows, `vectors` vectors of cells; a: unsigned activations, a_pitch bytes a row. */
INLINE void block_int8(const twin_dims *dims, const uint8_t *packed, const uint8_t *a, size_t a_pitch, uint32_t count,
                       uint32_t vectors, uint32_t cell, int first, uint32_t *acc) {
    const uint8_t *w = packed + 4 * (size_t)(dims->cells_pad + cell);
    VI sum[ROWS][2];
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t v = 0; v < vectors; v++) sum[r][v] = V_LOAD_I(packed + 4 * (size_t)(cell + WIDTH * v));
    for (uint32_t g = 0; g < (dims->lanes + 3) / 4; g++, w += 4 * (size_t)dims->cells_pad) {
        VI weight[2];
        for (uint32_t v = 0; v < vectors; v++) weight[v] = V_LOAD_I(w + 4 * WIDTH * v);
        for (uint32_t r = 0; r < count; r++) {
            int32_t four;
            memcpy(&four, a + r * a_pitch + 4 * (size_t)g, 4);
            VI x = V_SET1(four);
            for (uint32_t v = 0; v < vectors; v++) sum[r][v] = _mm512_dpbusd_epi32(sum[r][v], x, weight[v]);
        }
    }
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t v = 0; v < vectors; v++) {
            uint32_t *to = acc + (size_t)r * dims->cells_pad + cell + WIDTH * v;
            _mm512_storeu_si512(to, first ? sum[r][v] : V_ADD_I32(V_LOAD_I(to), sum[r][v]));
        }
}

INLINE void cells_int8(const twin_dims *dims, const uint8_t *packed, const uint8_t *a, size_t a_pitch, uint32_t count,
                       int first, uint32_t *acc) {
    uint32_t c = 0;
    for (; c + 2 * WIDTH <= dims->cells_pad; c += 2 * WIDTH)
        block_int8(dims, packed, a, a_pitch, count, 2, c, first, acc);
    if (c < dims->cells_pad) block_int8(dims, packed, a, a_pitch, count, 1, c, first, acc);
}

static void rows_int8(const twin_dims *dims, const void *packed, const twin_rows *rows) {
    uint8_t a[ROWS * TWIN_MAX_LANES] __attribute__((aligned(64)));
    const size_t pitch = (dims->lanes + 63) & ~(size_t)63;
    const VI flip = V_SET1((int32_t)0x80808080u);
    for (uint32_t r = 0; r < rows->count;) {
        uint32_t left = rows->count - r, count = left >= ROWS ? ROWS : left >= 4 ? 4 : 1;
        for (uint32_t i = 0; i < count; i++)
            for (size_t b = 0; b < dims->lanes;
                 b += 64) /* reads past lanes stay in the memory (twin.c) and meet zero weights */
                _mm512_store_si512((void *)(a + i * pitch + b),
                                   _mm512_xor_si512(V_LOAD_I(rows->rows[r + i] + b), flip));
        uint32_t *acc = rows->acc + (size_t)r * dims->cells_pad;
        if (count == ROWS)
            cells_int8(dims, packed, a, pitch, ROWS, rows->first, acc);
        else if (count == 4)
            cells_int8(dims, packed, a, pitch, 4, rows->first, acc);
        else
            cells_int8(dims, packed, a, pitch, 1, rows->first, acc);
        r += count;
    }
}

const twin_kernels twin_kernels_avx512 = {"avx512",   pack_int8,   rows_int8, pack_float, rows_float,
                                          depth_int8, depth_float, post_row,  split};
