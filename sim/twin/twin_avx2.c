/* SPDX-License-Identifier: Apache-2.0 */
/* twin_avx2.c - the inner loops for AVX2 with FMA: vectors of 8 cells. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#define WIDTH 8u
#define VF __m256
#define VI __m256i
#define V_SET1 _mm256_set1_epi32
#define V_SET1_F _mm256_set1_ps
#define V_LOAD_I(p) _mm256_loadu_si256((const __m256i *)(const void *)(p))
#define V_LOAD_F _mm256_loadu_ps
#define V_STORE_I(p, v) _mm256_storeu_si256((__m256i *)(void *)(p), v)
#define V_STORE_F _mm256_storeu_ps
#define V_MAX_U8 _mm256_max_epu8
#define V_ADD_I8 _mm256_add_epi8
#define V_AND_I _mm256_and_si256
#define V_MAX_I32 _mm256_max_epi32
#define V_ADD_I32 _mm256_add_epi32
#define V_MUL_I32 _mm256_mullo_epi32
#define V_SUB_I32 _mm256_sub_epi32
#define V_SRL(x, n) _mm256_srli_epi32(x, n)
#define V_SLL(x, n) _mm256_slli_epi32(x, n)
#define V_MAX_F _mm256_max_ps
#define V_MUL _mm256_mul_ps
#define V_ADD_F _mm256_add_ps
#define V_FMA _mm256_fmadd_ps
#define V_TRUNCATE _mm256_cvttps_epi32
#define V_FROM_I32 _mm256_cvtepi32_ps
#define V_CAST_F _mm256_castsi256_ps
#define V_CAST_I _mm256_castps_si256
#define V_SIGNED_HALF(p) _mm256_or_ps(_mm256_and_ps(p, V_CAST_F(V_SET1((int32_t)0x80000000u))), V_SET1_F(0.5f))
#define V_CANONICAL(x) _mm256_blendv_ps(x, V_CAST_F(V_SET1(0x7fc00000)), _mm256_cmp_ps(x, x, _CMP_UNORD_Q))

#define V_SUB_F _mm256_sub_ps
#define V_MIN_F _mm256_min_ps
#define V_TO_I32 _mm256_cvtps_epi32
#define V_ZERO_NAN(x) _mm256_and_ps(x, _mm256_cmp_ps(x, x, _CMP_ORD_Q))
/* V_SELECT_op(a, b, x, y): a op b ? x : y, for each element */
#define V_SELECT_LT_F(a, b, x, y) _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ))
#define V_SELECT_GT_I(a, b, x, y) _mm256_blendv_epi8(y, x, _mm256_cmpgt_epi32(a, b))
#define V_SELECT_EQ_I(a, b, x, y) _mm256_blendv_epi8(y, x, _mm256_cmpeq_epi32(a, b))
/* Whether low < e < high for any element. */
#define V_ANY_BETWEEN(e, low, high)                                                                                    \
    (_mm256_movemask_epi8(                                                                                             \
         _mm256_and_si256(_mm256_cmpgt_epi32(e, V_SET1(low)), _mm256_cmpgt_epi32(V_SET1(high), e))) != 0)
#define INLINE static inline __attribute__((always_inline))

/* `count` elements from memory, widened, and back, narrowed; nothing beyond them is touched. */
INLINE VI v_load_int8(const uint8_t *p, unsigned count) {
    uint64_t bytes = 0;
    memcpy(&bytes, p, count);
    return _mm256_cvtepi8_epi32(_mm_cvtsi64_si128((long long)bytes));
}

INLINE VI v_load_uint16(const uint8_t *p, unsigned count) {
    uint16_t halves[8] = {0};
    memcpy(halves, p, 2 * (size_t)count);
    return _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)halves));
}

INLINE VI v_load_word(const uint8_t *p, unsigned count) {
    uint32_t words[8] = {0};
    memcpy(words, p, 4 * (size_t)count);
    return V_LOAD_I(words);
}

INLINE void v_store_word(uint8_t *p, VI v, unsigned count) {
    uint32_t words[8];
    _mm256_storeu_si256((__m256i *)(void *)words, v);
    memcpy(p, words, 4 * (size_t)count);
}

INLINE void v_store_uint16(uint8_t *p, VI v, unsigned count) {
    uint32_t words[8];
    uint16_t halves[8];
    _mm256_storeu_si256((__m256i *)(void *)words, v);
    for (int i = 0; i < 8; i++) halves[i] = (uint16_t)words[i];
    memcpy(p, halves, 2 * (size_t)count);
}

INLINE void v_store_int8(uint8_t *p, VI v, unsigned count) {
    uint32_t words[8];
    uint8_t bytes[8];
    _mm256_storeu_si256((__m256i *)(void *)words, v);
    for (int i = 0; i < 8; i++) bytes[i] = (uint8_t)words[i];
    memcpy(p, bytes, count);
}

#include "twin_simd_float.h"
#include "twin_simd_depth.h"
#include "twin_simd_post.h"
#include "twin_simd_split.h"

#define ROWS 4u

/* int8: operands widened to 16 bits for vpmaddwd (its 8-bit form saturates). Packed: int16 weights as [lane /
 * 2][cell][lane % 2]. */
static void pack_int8(const twin_dims *dims, const uint8_t *const *weights, void *packed) {
    int16_t *out = packed;
    uint32_t pad = dims->cells_pad, pairs = (dims->lanes + 1) / 2;
    memset(out, 0, (size_t)pairs * pad * 4);
    for (uint32_t c = 0; c < dims->cells; c++)
        for (uint32_t i = 0; i < dims->lanes; i++) out[((size_t)(i / 2) * pad + c) * 2 + i % 2] = (int8_t)weights[c][i];
}

INLINE void block_int8(const twin_dims *dims, const int16_t *packed, const int16_t *a, size_t a_pitch, uint32_t count,
                       uint32_t cell, int first, uint32_t *acc) {
    const int16_t *w = packed + 2 * (size_t)cell;
    VI sum[ROWS][2];
    for (uint32_t r = 0; r < count; r++) sum[r][0] = sum[r][1] = V_SET1(0);
    for (uint32_t g = 0; g < (dims->lanes + 1) / 2; g++, w += 2 * (size_t)dims->cells_pad) {
        VI w0 = V_LOAD_I(w), w1 = V_LOAD_I(w + 2 * WIDTH);
        for (uint32_t r = 0; r < count; r++) {
            int32_t two;
            memcpy(&two, a + r * a_pitch + 2 * (size_t)g, 4);
            VI x = V_SET1(two);
            sum[r][0] = V_ADD_I32(sum[r][0], _mm256_madd_epi16(x, w0));
            sum[r][1] = V_ADD_I32(sum[r][1], _mm256_madd_epi16(x, w1));
        }
    }
    for (uint32_t r = 0; r < count; r++)
        for (uint32_t v = 0; v < 2; v++) {
            __m256i *to = (__m256i *)(void *)(acc + (size_t)r * dims->cells_pad + cell + WIDTH * v);
            _mm256_storeu_si256(to, first ? sum[r][v] : V_ADD_I32(_mm256_loadu_si256(to), sum[r][v]));
        }
}

static void rows_int8(const twin_dims *dims, const void *packed, const twin_rows *rows) {
    int16_t a[ROWS * (TWIN_MAX_LANES + 2)] __attribute__((aligned(32)));
    const size_t pitch = (dims->lanes + 1) & ~(size_t)1;
    for (uint32_t r = 0; r < rows->count;) {
        uint32_t left = rows->count - r, count = left >= ROWS ? ROWS : 1;
        for (uint32_t i = 0; i < count; i++) {
            const int8_t *from = (const int8_t *)rows->rows[r + i];
            for (uint32_t b = 0; b < dims->lanes; b++) a[i * pitch + b] = from[b];
            if (dims->lanes & 1) a[i * pitch + dims->lanes] = 0;
        }
        for (uint32_t c = 0; c < dims->cells_pad; c += 2 * WIDTH) { /* cells_pad is a multiple of 16 */
            uint32_t *acc = rows->acc + (size_t)r * dims->cells_pad;
            if (count == ROWS)
                block_int8(dims, packed, a, pitch, ROWS, c, rows->first, acc);
            else
                block_int8(dims, packed, a, pitch, 1, c, rows->first, acc);
        }
        r += count;
    }
}

const twin_kernels twin_kernels_avx2 = {"avx2",     pack_int8,   rows_int8, pack_float, rows_float,
                                        depth_int8, depth_float, post_row,  split};
