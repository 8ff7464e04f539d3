/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twin_simd_post.h - epilogue and splitting with host floats, as loops of constant length that the compiler vectorises for the including file's flags.
 * The float mode is set by the engines (twin_host_float.h): flushing for the epilogue, not flushing for the split.
 */
#ifndef PRESIL_TWIN_SIMD_POST_H
#define PRESIL_TWIN_SIMD_POST_H
#include <string.h>

#include "twin_fp.h"
#include "twin_internal.h"

#define STEP 16
typedef union { float f[STEP]; uint32_t u[STEP]; int32_t i[STEP]; } cells16;
#define EACH for (int c = 0; c < STEP; c++)

static inline float as_float(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    return f;
}

static inline void canonical(cells16 *v) { EACH v->u[c] = (v->u[c] & 0x7fffffffu) > TWIN_INF ? TWIN_NAN : v->u[c]; }

static inline void add16(cells16 *v, const cells16 *b) {
    EACH v->f[c] = v->f[c] + b->f[c];
    canonical(v);
}

static inline void mul16(cells16 *v, const cells16 *b) {
    EACH v->f[c] = v->f[c] * b->f[c];
    canonical(v);
}

/* Residual elements of `count` cells as fp32. */
static inline void residual16(const twin_post *post, const uint8_t *res, uint32_t count, cells16 *q) {
    uint8_t bytes[4 * STEP] = {0};
    if (post->res_type == PRESIL_RES_INT8) {
        cells16 scale;
        memcpy(bytes, res, count);
        EACH q->i[c] = (int32_t)((uint32_t)(int8_t)bytes[c] - (uint32_t)post->res_zp);
        EACH q->f[c] = (float)q->i[c];
        EACH scale.u[c] = post->res_scale;
        mul16(q, &scale);
    } else if (post->res_type == PRESIL_RES_BF16) {
        uint16_t half[STEP];
        memcpy(bytes, res, 2 * (size_t)count);
        memcpy(half, bytes, sizeof half);
        EACH q->u[c] = (uint32_t)half[c] << 16;
    } else {
        memcpy(q->u, bytes, sizeof q->u);
        memcpy(q->u, res, 4 * (size_t)count);
    }
}

static inline void clamp16(const twin_post *post, cells16 *v) {
    float lo = as_float(post->clamp_lo), hi = as_float(post->clamp_hi);
    EACH v->u[c] = v->f[c] < lo ? post->clamp_lo : v->f[c] > hi ? post->clamp_hi : v->u[c];
}

static inline void to_int8(const twin_post *post, const cells16 *v, uint8_t *out) {
    const float limit = 1073741824.0f;
    int32_t i[STEP];
    EACH {
        float x = v->f[c] != v->f[c] ? 0.0f : v->f[c];
        x = x > limit ? limit : x < -limit ? -limit : x;
        i[c] = (int32_t)__builtin_rintf(x);
    }
    EACH i[c] = (int32_t)((uint32_t)i[c] + (uint32_t)post->out_zp);
    EACH i[c] = i[c] < post->int_lo ? post->int_lo : i[c] > post->int_hi ? post->int_hi : i[c];
    EACH out[c] = (uint8_t)i[c];
}

static inline uint16_t round_bf16(uint32_t v) {
    uint32_t exponent = v & TWIN_INF, rounded = (v + 0x7fffu + ((v >> 16) & 1u)) >> 16;
    return (uint16_t)((v & 0x7fffffffu) > TWIN_INF ? 0x7fc0u : exponent ? rounded : (v >> 16) & 0x8000u);
}

static inline void write16(const twin_post *post, const cells16 *v, uint32_t count, uint8_t *out, uint32_t at) {
    if (post->out_type == PRESIL_OUT_INT8) {
        uint8_t bytes[STEP];
        to_int8(post, v, bytes);
        if (count == STEP) memcpy(out + at, bytes, STEP);
        else memcpy(out + at, bytes, count);
    } else if (post->out_type == PRESIL_OUT_BF16) {
        uint16_t half[STEP];
        EACH half[c] = round_bf16(v->u[c]);
        if (count == STEP) memcpy(out + 2 * (size_t)at, half, sizeof half);
        else memcpy(out + 2 * (size_t)at, half, 2 * (size_t)count);
    } else {
        memcpy(out + 4 * (size_t)at, v->u, 4 * (size_t)count);
    }
}

static void post_row(const twin_dims *dims, const twin_post *post, const uint32_t *acc, const uint8_t *res, uint8_t *out) {
    static const uint32_t sizes[4] = {1, 2, 4, 4};
    for (uint32_t at = 0; at < dims->cells; at += STEP) {
        uint32_t count = dims->cells - at < STEP ? dims->cells - at : STEP;
        cells16 v, b;
        memcpy(v.u, acc + at, sizeof v.u);
        memcpy(b.u, post->bias + at, sizeof b.u);
        if (post->bias_en && post->acc_fp32) add16(&v, &b);
        else if (post->bias_en) EACH v.u[c] += b.u[c];
        if (post->out_type != PRESIL_OUT_RAW32) {
            if (!post->acc_fp32) EACH v.f[c] = (float)v.i[c];
            memcpy(b.u, post->scale + at, sizeof b.u);
            if (post->scale_en) mul16(&v, &b);
            if (post->res_en) {
                residual16(post, res + (size_t)at * sizes[post->res_type], count, &b);
                add16(&v, &b);
            }
            if (post->clamp_en) clamp16(post, &v);
        }
        write16(post, &v, count, out, at);
    }
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
        uint32_t t = magnitude < 0x00800000u ? (magnitude >= 0x007fc000u ? sign | 0x0080u : 0) : (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
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
        if (term == 0) split16(&x, t, 0);
        else if (term == 1) split16(&x, t, 1);
        else split16(&x, t, 2);
        memcpy(out + 2 * at, t, 2 * count);
    }
}
#endif
