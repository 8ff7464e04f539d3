/* SPDX-License-Identifier: Apache-2.0 */
/*
 * twin_fp.h - docs/numerics.md clauses 2 and 6 on bit patterns, in integers only: independent of the rounding mode and
 * flush settings of the caller. The vector kernels use the host's float units instead and are tested against these
 * functions.
 */
#ifndef PRESIL_TWIN_FP_H
#define PRESIL_TWIN_FP_H
#include <stdint.h>

#define TWIN_NAN 0x7fc00000u
#define TWIN_INF 0x7f800000u
#define TWIN_SIGN 0x80000000u

static inline uint32_t twin_exponent(uint32_t v) { return (v >> 23) & 255u; }
static inline int twin_is_nan(uint32_t v) { return (v & ~TWIN_SIGN) > TWIN_INF; }
static inline uint32_t twin_flush(uint32_t v) { return twin_exponent(v) ? v : v & TWIN_SIGN; }
static inline uint32_t twin_significand(uint32_t v) { return (v & 0x7fffffu) | 0x800000u; }

static inline unsigned twin_top_bit(uint64_t v) { return 63u - (unsigned)__builtin_clzll(v); }

/* v >> shift, and bit 0 set if a one was shifted out. */
static inline uint64_t twin_shift_sticky(uint64_t v, unsigned shift) {
    if (shift == 0) return v;
    if (shift > 63) return v != 0;
    return (v >> shift) | ((v & ((UINT64_C(1) << shift) - 1)) != 0);
}

/* (-1)^sign * magnitude * 2^exponent, magnitude != 0 and < 2^62, rounded once to fp32. */
static inline uint32_t twin_round(uint32_t sign, uint64_t magnitude, int exponent) {
    unsigned top = twin_top_bit(magnitude);
    uint64_t kept;
    if (top > 23) {
        unsigned drop = top - 23;
        uint64_t rest = magnitude & ((UINT64_C(1) << drop) - 1), half = UINT64_C(1) << (drop - 1);
        kept = magnitude >> drop;
        if (rest > half || (rest == half && (kept & 1))) kept++;
        exponent += (int)drop;
        if (kept >> 24) {
            kept >>= 1;
            exponent++;
        }
    } else {
        kept = magnitude << (23 - top);
        exponent -= (int)(23 - top);
    }
    int biased = exponent + 150;
    if (biased <= 0) return sign;
    if (biased >= 255) return sign | TWIN_INF;
    return sign | ((uint32_t)biased << 23) | ((uint32_t)kept & 0x7fffffu);
}

static inline uint32_t twin_add(uint32_t a, uint32_t b) {
    a = twin_flush(a);
    b = twin_flush(b);
    if (twin_is_nan(a) || twin_is_nan(b)) return TWIN_NAN;
    if (twin_exponent(a) == 255) return twin_exponent(b) == 255 && a != b ? TWIN_NAN : a;
    if (twin_exponent(b) == 255) return b;
    if (!twin_exponent(a)) return twin_exponent(b) ? b : a & b;
    if (!twin_exponent(b)) return a;
    if ((a & ~TWIN_SIGN) < (b & ~TWIN_SIGN)) {
        uint32_t swap = a;
        a = b;
        b = swap;
    }
    /* 30 bits below the larger operand hold everything but a sticky bit of the smaller one. */
    uint64_t big = (uint64_t)twin_significand(a) << 30;
    uint64_t small = twin_shift_sticky((uint64_t)twin_significand(b) << 30, twin_exponent(a) - twin_exponent(b));
    uint64_t sum = ((a ^ b) & TWIN_SIGN) ? big - small : big + small;
    if (!sum) return 0;
    return twin_round(a & TWIN_SIGN, sum, (int)twin_exponent(a) - 180);
}

static inline uint32_t twin_mul(uint32_t a, uint32_t b) {
    uint32_t sign = (a ^ b) & TWIN_SIGN;
    a = twin_flush(a);
    b = twin_flush(b);
    if (twin_is_nan(a) || twin_is_nan(b)) return TWIN_NAN;
    int infinite = twin_exponent(a) == 255 || twin_exponent(b) == 255, zero = !twin_exponent(a) || !twin_exponent(b);
    if (infinite) return zero ? TWIN_NAN : sign | TWIN_INF;
    if (zero) return sign;
    uint64_t product = (uint64_t)twin_significand(a) * twin_significand(b);
    return twin_round(sign, product, (int)(twin_exponent(a) + twin_exponent(b)) - 300);
}

static inline uint32_t twin_i2f(int32_t i) {
    if (!i) return 0;
    return i < 0 ? twin_round(TWIN_SIGN, (uint64_t)-(int64_t)i, 0) : twin_round(0, (uint64_t)i, 0);
}

static inline int32_t twin_f2i(uint32_t v) {
    const int32_t limit = 1 << 30;
    if (twin_is_nan(v) || twin_exponent(v) < 126) return 0;
    int32_t i;
    if (twin_exponent(v) >= 127 + 30) {
        i = limit;
    } else {
        int shift = (int)twin_exponent(v) - 150;
        uint32_t m = twin_significand(v);
        if (shift >= 0) {
            i = (int32_t)(m << shift);
        } else {
            unsigned drop = (unsigned)-shift; /* 1 .. 24 */
            uint32_t rest = m & ((1u << drop) - 1), half = 1u << (drop - 1), kept = m >> drop;
            i = (int32_t)(kept + (rest > half || (rest == half && (kept & 1))));
        }
    }
    return (v & TWIN_SIGN) ? -i : i;
}

static inline uint32_t twin_f2b(uint32_t v) {
    if (twin_is_nan(v)) return 0x7fc0u;
    v = twin_flush(v);
    return (v + 0x7fffu + ((v >> 16) & 1u)) >> 16;
}

static inline uint32_t twin_f2h(uint32_t v) {
    const uint32_t sign = (v >> 16) & 0x8000u, e = twin_exponent(v), m = twin_significand(v);
    if (twin_is_nan(v)) return 0x7e00u;
    if (e == 255) return sign | 0x7c00u;
    const uint32_t drop = e < 113 ? 126 - e : 13; /* bits of m below the last place of the result */
    if (drop > 24) return sign;
    const uint32_t rest = m & ((1u << drop) - 1), half = 1u << (drop - 1);
    uint32_t kept = m >> drop;
    if (rest > half || (rest == half && (kept & 1))) kept++;
    if (e >= 113) kept += (e - 113) << 10; /* the hidden bit is the first of the exponent */
    return sign | (kept > 0x7c00u ? 0x7c00u : kept);
}

/* The fp32 that an fp16 equals: none is subnormal there. */
static inline uint32_t twin_h2f(uint32_t h) {
    const uint32_t sign = (h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 0x3ffu;
    if (e == 31) return sign | TWIN_INF | m << 13;
    if (e) return sign | (e + 112) << 23 | m << 13;
    return m ? twin_round(sign, m, -24) : sign;
}

/* -1, 0, 1, or 2 when unordered; an operand with exponent field 0 is zero. */
static inline int twin_compare(uint32_t a, uint32_t b) {
    if (twin_is_nan(a) || twin_is_nan(b)) return 2;
    a = twin_flush(a);
    b = twin_flush(b);
    int32_t x = (a & TWIN_SIGN) ? -(int32_t)(a & ~TWIN_SIGN) : (int32_t)a;
    int32_t y = (b & TWIN_SIGN) ? -(int32_t)(b & ~TWIN_SIGN) : (int32_t)b;
    return (x > y) - (x < y);
}

/* The bf16 terms of fp32 x: t[0], t[1], t[2]. */
static inline void twin_split(uint32_t x, uint16_t t[3]) {
    t[1] = t[2] = 0;
    if (twin_is_nan(x) || twin_exponent(x) == 255 || !twin_exponent(x)) {
        t[0] = (uint16_t)twin_f2b(x);
        return;
    }
    uint32_t top = twin_f2b(x);
    if ((top & 0x7fffu) == 0x7f80u) top--;
    t[0] = (uint16_t)top;
    /* The remainders are integers in units of the last place of x, that is 2^(E-150); t[0] may have the next exponent.
     */
    int unit = (int)twin_exponent(x) - 150;
    int32_t m = (int32_t)twin_significand(x);
    int32_t m0 = (int32_t)((128u | (top & 127u)) << (16 + ((top >> 7) & 255u) - twin_exponent(x)));
    int32_t rest = m - m0;
    for (int i = 1; i < 3 && rest; i++) {
        uint32_t magnitude = (uint32_t)(rest < 0 ? -rest : rest);
        unsigned width = twin_top_bit(magnitude) + 1, drop = width > 8 ? width - 8 : 0;
        uint32_t kept = magnitude >> drop;
        if (drop) {
            uint32_t low = magnitude & ((1u << drop) - 1), half = 1u << (drop - 1);
            kept += low > half || (low == half && (kept & 1));
        }
        uint32_t value = kept << drop; /* one bit more than 8 only as a power of two */
        uint32_t sign = ((x >> 31) ^ (rest < 0)) ? TWIN_SIGN : 0;
        uint32_t rounded = twin_round(sign, value, unit);
        if (twin_exponent(rounded)) t[i] = (uint16_t)(rounded >> 16);
        rest = rest < 0 ? rest + (int32_t)value : rest - (int32_t)value;
    }
}
#endif
