/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twin_simd_split.h - the terms of fp32 (numerics.md clause 6) with host floats, as loops of constant length that the
 * compiler vectorises. The engine has set the float mode (twin_host_float.h): not flushing, because a remainder may be
 * subnormal and still round up to 2^-126.
 */
#ifndef PRESIL_TWIN_SIMD_SPLIT_H
#define PRESIL_TWIN_SIMD_SPLIT_H
#include <string.h>

#include "twin_fp.h"

#define STEP 16
typedef union {
    float f[STEP];
    uint32_t u[STEP];
} cells16;
#define EACH for (int c = 0; c < STEP; c++)

static inline uint16_t round_bf16(uint32_t v) {
    uint32_t exponent = v & TWIN_INF, rounded = (v + 0x7fffu + ((v >> 16) & 1u)) >> 16;
    return (uint16_t)((v & 0x7fffffffu) > TWIN_INF ? 0x7fc0u : exponent ? rounded : (v >> 16) & 0x8000u);
}

/* One term of 16 fp32; all three are computed, the compiler drops what the constant `term` does not need. */
static inline __attribute__((always_inline)) void split16(const cells16 *x, uint16_t *out, unsigned term) {
    cells16 top, rest;
    EACH {
        uint32_t u = x->u[c], t = round_bf16(u);
        t = (t & 0x7fffu) == 0x7f80u && (u & TWIN_INF) != TWIN_INF ? t - 1 : t;
        top.u[c] = t << 16;
        /* Special or zero: no remainder. */
        rest.u[c] = (u & TWIN_INF) == TWIN_INF || !(u & TWIN_INF) ? t << 16 : u;
    }
    if (term == 0) {
        EACH out[c] = (uint16_t)(top.u[c] >> 16);
        return;
    }
    EACH top.u[c] = (top.u[c] & TWIN_INF) == TWIN_INF ? 0 : top.u[c];
    EACH rest.u[c] = (rest.u[c] & TWIN_INF) == TWIN_INF ? 0 : rest.u[c];
    EACH rest.f[c] = rest.f[c] - top.f[c];
    EACH {
        uint32_t u = rest.u[c], magnitude = u & 0x7fffffffu, sign = (u >> 16) & 0x8000u;
        /* Below 2^-126 eight bits are finer than the subnormal grid: what rounds up to 2^-126 is decided by value. */
        uint32_t t = magnitude < 0x00800000u ? (magnitude >= 0x007fc000u ? sign | 0x0080u : 0)
                                             : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
        top.u[c] = t << 16;
    }
    if (term == 2) {
        EACH rest.f[c] = rest.f[c] - top.f[c];
        EACH top.u[c] = (rest.u[c] & 0x7fffffffu) < 0x00800000u ? 0 : rest.u[c];
    }
    EACH out[c] = (uint16_t)(top.u[c] >> 16);
}

static void split(const uint8_t *source, uint8_t *out, size_t elements, unsigned term) {
    for (size_t at = 0; at < elements; at += STEP) {
        size_t count = elements - at < STEP ? elements - at : STEP;
        cells16 x = {.u = {0}};
        uint16_t t[STEP];
        memcpy(x.u, source + 4 * at, 4 * count);
        if (term == 0)
            split16(&x, t, 0);
        else if (term == 1)
            split16(&x, t, 1);
        else
            split16(&x, t, 2);
        memcpy(out + 2 * at, t, 2 * count);
    }
}
#endif
