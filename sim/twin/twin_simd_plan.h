/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twin_simd_plan.h - what both vector kernel sets share; included once by each, compiled with its flags (plain loops
 * that the compiler vectorises).
 *
 * Why the dot product may use host floats. Let x = m * 2^(G-7-d) be an aligned product before its rounding (numerics.md
 * 4.4), so t = trunc(x + 1/2). The product p of two decoded elements is exact in fp32 (22 bits, 16 of bf16), and x = p
 * * 2^(267+G-emax) exactly. fma(p, 2^k, 1/2) truncated gives t: x >= 2^23: x is an even integer, and x + 1/2 rounds
 * back to x;  1/2 <= x < 2^23: x + 1/2 is exact (at most 24 bits); x < 1/2: x <= 1/2 - 2^-23, so the rounded sum stays
 * below 1.   Signs are symmetric. It needs both scale factors normal and no p infinite: 153 <= emax and e_i <= 380;
 * anything else takes the integer path (fp16 never does for its exponents, 206 to 284). A product below 2^-126 is
 * flushed to zero by the host's mode; its x is below 2^(152-emax) <= 1/2, so its t is 0 indeed.
 */
#ifndef PRESIL_TWIN_SIMD_PLAN_H
#define PRESIL_TWIN_SIMD_PLAN_H
#include <string.h>

#include "twin_fp.h"
#include "twin_internal.h"

#define E_LOW 153 /* least emax and greatest exponent sum for the float path */
#define E_HIGH 380
#define SPREAD 63 /* widest range of exponents that fits the byte codes */

/*
 * Byte codes of exponents: 0 for zero, else E - max + 127, in 64..127. Sums of two nonzero codes are 128..254 and
 * greater than any sum with a zero.
 */
typedef struct {
    int special;   /* infinity or NaN that counts */
    int low, high; /* exponent fields of the nonzero values; low > high: all zero */
} exponents;

typedef struct {
    const uint8_t *weights[TWIN_MAX_CELLS]; /* for the integer path */
    exponents e;
} float_header;

#define HEADER_BYTES ((sizeof(float_header) + 63) / 64 * 64)

static inline float *packed_floats(const twin_dims *dims, void *packed) {
    (void)dims;
    return (float *)(void *)((uint8_t *)packed + HEADER_BYTES);
}

/* Codes of four consecutive lanes of a cell are one 32-bit word: [lane / 4][cell][lane % 4]. */
static inline uint8_t *packed_codes(const twin_dims *dims, void *packed) {
    return (uint8_t *)packed + HEADER_BYTES + (size_t)(dims->lanes / 2) * dims->cells_pad * sizeof(float);
}

static inline int wide(exponents e) { return e.high - e.low > SPREAD; }

/*
 * Cleans n bf16: what counts as zero becomes zero (its sign kept), so that the rest needs no cases. out has room for n
 * rounded up to LANES_STEP. Masks instead of conditions, and steps of constant length: so the compiler makes vectors of
 * it.
 */
#define LANES_STEP 32
static inline exponents clean(const uint8_t *source, uint16_t *restrict out, uint32_t n, int absent, int skip_special) {
    uint16_t low[LANES_STEP], high[LANES_STEP], special[LANES_STEP];
    const uint16_t gone = absent ? 1 : 0; /* code 0 is zero anyway */
    memset(low, 0xff, sizeof low);
    memset(high, 0, sizeof high);
    memset(special, 0, sizeof special);
    for (uint32_t at = 0; at < n; at += LANES_STEP) {
        uint16_t x[LANES_STEP] = {0};
        if (n - at >= LANES_STEP)
            memcpy(x, source + 2 * (size_t)at, sizeof x);
        else
            memcpy(x, source + 2 * (size_t)at, 2 * (size_t)(n - at));
        for (int i = 0; i < LANES_STEP; i++) {
            uint16_t e = (uint16_t)((x[i] >> 7) & 255);
            uint16_t is_special = e == 255 ? 0xffff : 0,
                     dead = (uint16_t)(is_special | (e == 0 ? 0xffff : 0) | (x[i] == gone ? 0xffff : 0));
            special[i] = (uint16_t)(special[i] | is_special);
            e = (uint16_t)(e & ~dead);
            out[at + (uint32_t)i] = (uint16_t)(x[i] & (0x8000u | (uint16_t)~dead));
            high[i] = e > high[i] ? e : high[i];
            e = (uint16_t)(e - 1); /* zero becomes the greatest */
            low[i] = e < low[i] ? e : low[i];
        }
    }
    exponents all = {0, 0xffff, 0};
    for (int half = LANES_STEP / 2; half; half /= 2)
        for (int i = 0; i < half; i++) {
            special[i] = (uint16_t)(special[i] | special[i + half]);
            high[i] = high[i] > high[i + half] ? high[i] : high[i + half];
            low[i] = low[i] < low[i + half] ? low[i] : low[i + half];
        }
    all.special = special[0] && !skip_special;
    all.high = high[0];
    all.low = low[0] == 0xffff ? 256 : low[0] + 1;
    return all;
}

/* The same of fp16, as fp32 bits. */
static inline exponents clean_fp16(const uint8_t *source, uint32_t *restrict out, uint32_t n, const twin_floats *floats,
                                   int absent) {
    exponents all = {0, 256, 0};
    for (uint32_t i = 0; i < n; i++) {
        uint16_t x;
        memcpy(&x, source + 2 * (size_t)i, 2);
        const int gone = absent && x == twin_absent_code(floats), is_special = (x & 0x7c00) == 0x7c00;
        const float small = (float)(x & 0x3ff) * 0x1p-24f;
        uint32_t bits;
        memcpy(&bits, &small, 4);
        if (x & 0x7c00) bits = ((uint32_t)(x & 0x7fff) << 13) + (112u << 23);
        if (is_special) bits = 0;
        const int e = (int)(bits >> 23);
        all.special |= is_special && !gone && !floats->skip_special;
        all.high = e > all.high ? e : all.high;
        all.low = e && e < all.low ? e : all.low;
        out[i] = bits | (uint32_t)(x & 0x8000) << 16;
    }
    return all;
}

/* n elements as fp32 bits. out has room for n rounded up to LANES_STEP. */
static inline exponents decode(const uint8_t *source, uint32_t *restrict out, uint32_t n, const twin_floats *floats,
                               int absent) {
    uint16_t cleaned[TWIN_MAX_LANES / 2 + LANES_STEP];
    if (floats->fp16) {
        memset(out + n, 0, (LANES_STEP - 1) * sizeof *out);
        return clean_fp16(source, out, n, floats, absent);
    }
    const exponents e = clean(source, cleaned, n, absent, floats->skip_special);
    for (uint32_t at = 0; at < n; at += LANES_STEP) /* beyond n: zeros */
        for (uint32_t i = 0; i < LANES_STEP; i++) out[at + i] = (uint32_t)cleaned[at + i] << 16;
    return e;
}

static inline uint8_t code(uint32_t bits, int high) {
    unsigned e = (bits >> 23) & 255u;
    return (uint8_t)((e + 127u - (unsigned)high) & (e ? 255u : 0u));
}

static inline exponents widen(exponents a, exponents b) {
    return (exponents){a.special | b.special, a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}

static void pack_float(const twin_dims *dims, const uint8_t *const *weights, const twin_floats *floats_are,
                       void *packed) {
    float_header *header = packed;
    float *floats = packed_floats(dims, packed);
    uint8_t *codes = packed_codes(dims, packed);
    uint32_t n = dims->lanes / 2, pad = dims->cells_pad;
    uint32_t decoded[TWIN_MAX_LANES / 2 + LANES_STEP];
    uint32_t *bits = (uint32_t *)(void *)floats;
    exponents all = {0, 256, 0};
    for (uint32_t c = 0; c < pad; c++) {
        if (c >= dims->cells) {
            for (uint32_t i = 0; i < n; i++) bits[(size_t)i * pad + c] = 0;
            continue;
        }
        header->weights[c] = weights[c];
        all = widen(all, decode(weights[c], decoded, n, floats_are, floats_are->absent));
        for (uint32_t i = 0; i < n; i++) bits[(size_t)i * pad + c] = decoded[i];
    }
    header->e = all;
    if (wide(all)) return;
    if (n % 4) memset(codes + (size_t)(n / 4) * 4 * pad, 0, 4 * (size_t)pad);
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *to = codes + (size_t)(i / 4) * 4 * pad + i % 4;
        const uint32_t *from = bits + (size_t)i * pad;
        for (uint32_t c = 0; c < pad; c++) to[4 * (size_t)c] = code(from[c], all.high);
    }
}

typedef enum { PATH_CODES, PATH_FLOATS, PATH_INTEGER } float_path;

/* A row decoded for the vector loops. */
typedef struct {
    uint32_t a[TWIN_MAX_LANES / 2 + LANES_STEP] __attribute__((aligned(64)));
    uint8_t codes[TWIN_MAX_LANES / 2 + LANES_STEP] __attribute__((aligned(64)));
    exponents e;
} float_row;

static inline float_path decode_row(const uint8_t *source, uint32_t n, const twin_floats *floats, exponents w,
                                    float_row *row) {
    exponents e = decode(source, row->a, n, floats, 0);
    row->e = e;
    if (e.special || w.special) return PATH_INTEGER;
    if (e.high + w.high > E_HIGH) return PATH_INTEGER;
    for (uint32_t at = 0; at < n; at += LANES_STEP) /* beyond n: zeros */
        for (uint32_t i = 0; i < LANES_STEP; i++) row->codes[at + i] = code(row->a[at + i], e.high);
    return wide(e) || wide(w) ? PATH_FLOATS : PATH_CODES;
}

/* Cells [from, from + count) of a row, without what pads the cells. */
static void integer_cells(const twin_dims *dims, const float_header *header, const twin_rows *rows, uint32_t r,
                          uint32_t from, uint32_t count) {
    uint32_t *acc = rows->acc + (size_t)r * dims->cells_pad,
             end = from + count < dims->cells ? from + count : dims->cells;
    unsigned g = twin_alignment_bits(dims->lanes);
    for (uint32_t c = from; c < end; c++) {
        uint32_t v = twin_dot(rows->rows[r], header->weights[c], dims->lanes / 2, g, &rows->floats);
        acc[c] = twin_add(rows->first ? 0 : acc[c], v);
    }
}
#endif
