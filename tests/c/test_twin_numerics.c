/* SPDX-License-Identifier: Apache-2.0 */
/* test_twin_numerics.c - the worked examples of docs/numerics.md, on the integer functions and through MATRIX
 * descriptors with every kernel set. */
#include <fenv.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs stdarg.h, stddef.h and setjmp.h. */
#include <cmocka.h>

#include "test_twin.h"
#include "twin_fp.h"
#include "twin_lists.h"

static const char *const kernel_names[] = {"generic", "avx2", "avx512"};

void test_formats(void **state) {
    (void)state;
    assert_int_equal(twin_add(0x00400000u, 0), 0);
    assert_int_equal(twin_mul(0x80400000u, 0x3f800000u), 0x80000000u);
    assert_int_equal(twin_add(0xffc00001u, 0x3f800000u), 0x7fc00000u);
    assert_int_equal(twin_f2b(0xff800001u), 0x7fc0);
}

void test_operations(void **state) {
    (void)state;
    assert_int_equal(twin_add(0x3f800000u, 0x33800000u), 0x3f800000u);
    assert_int_equal(twin_add(0x3f800000u, 0x33800001u), 0x3f800001u);
    assert_int_equal(twin_add(0x3f800000u, 0xbf800000u), 0);
    assert_int_equal(twin_add(0x80000000u, 0x80000000u), 0x80000000u);
    assert_int_equal(twin_add(0, 0x80000000u), 0);
    assert_int_equal(twin_add(0x7f800000u, 0xff800000u), 0x7fc00000u);
    assert_int_equal(twin_add(0x7f7fffffu, 0x7f7fffffu), 0x7f800000u);
    assert_int_equal(twin_add(0x00800001u, 0x80800000u), 0); /* 2^-149 is flushed */
    assert_int_equal(twin_mul(0x00800000u, 0x3f000000u), 0);
    assert_int_equal(twin_mul(0x7f800000u, 0x80000000u), 0x7fc00000u);
    assert_int_equal(twin_mul(0x00ffffffu, 0x3f000000u), 0); /* (1 - 2^-24) * 2^-126 has 24 bits */
    assert_int_equal(twin_mul(0x00fff800u, 0x3f000400u),
                     0x00800000u); /* (1 - 2^-26) * 2^-126 rounds up to 2^-126: not below it */
    assert_int_equal(twin_i2f(16777217), 0x4b800000u);
    assert_int_equal(twin_i2f(INT32_MIN), 0xcf000000u);
    assert_int_equal(twin_i2f(0), 0);
    assert_int_equal(twin_f2i(0x40200000u), 2);
    assert_int_equal(twin_f2i(0xbf000000u), 0);
    assert_int_equal(twin_f2i(0x40600000u), 4);
    assert_int_equal(twin_f2i(0xff800000u), -(1 << 30));
    assert_int_equal(twin_f2i(0x7fc00000u), 0);
    assert_int_equal(twin_f2b(0x3f808000u), 0x3f80);
    assert_int_equal(twin_f2b(0x3f818000u), 0x3f82);
    assert_int_equal(twin_f2b(0x7f7fffffu), 0x7f80);
    assert_int_equal(twin_f2b(0x807fffffu), 0x8000);
}

void test_split(void **state) {
    (void)state;
    uint16_t t[3];
    twin_split(0x3f8fffffu, t);
    assert_int_equal(t[0], 0x3f90);
    assert_int_equal(t[1], 0xb400);
    assert_int_equal(t[2], 0);
    twin_split(0x7f7fffffu, t); /* 8 bits would be infinite */
    assert_int_equal(t[0], 0x7f7f);
    assert_int_equal(t[1], 0x7b80);
    assert_int_equal(t[2], 0xf380);
    twin_split(0xff800000u, t);
    assert_int_equal(t[0], 0xff80);
    assert_int_equal(t[1] | t[2], 0);
    twin_split(0xffffffffu, t);
    assert_int_equal(t[0], 0x7fc0);
    twin_split(0x80000001u, t);
    assert_int_equal(t[0], 0x8000);
    /* t0 + t1 + t2 is the value again */
    uint64_t random = 5;
    for (int i = 0; i < 200000; i++) {
        uint32_t x = (next_random(&random) & 0x807fffffu) | (25 + below(&random, 230)) << 23;
        twin_split(x, t);
        uint32_t sum = twin_add(twin_add((uint32_t)t[2] << 16, (uint32_t)t[1] << 16), (uint32_t)t[0] << 16);
        if (sum != x) fail_msg("%08x = %04x + %04x + %04x gives %08x", x, t[0], t[1], t[2], sum);
    }
}

/* One block on `base` by each kernel set: a and w in all lanes given, the rest zero; the first accumulator. */
static void expect_dot_of(uint32_t dtype, const uint16_t *a, const uint16_t *w, size_t lanes, int absent,
                          int skip_special, uint32_t expected) {
    const presil_config *c = find_config("base");
    presil_twin *twin = presil_twin_create(c);
    uint8_t none = 0;
    presil_twin_memory memory = {0, 0, &none};
    unsigned ran = 0;
    assert_non_null(twin);
    for (size_t k = 0; k < sizeof kernel_names / sizeof *kernel_names; k++) {
        if (presil_twin_simd(twin, kernel_names[k])) continue;
        uint8_t *spad = presil_twin_scratchpad(twin, NULL);
        uint32_t result;
        memset(spad, 0, (size_t)(1 + c->cells) * c->word_bytes);
        memcpy(spad, a, 2 * lanes);
        memcpy(spad + c->word_bytes, w, 2 * lanes);
        presil_desc list[2] = {square_matrix(dtype, 1, 1, 1, 0, 1, 0, 1),
                               plain_epilogue(1, 1, PRESIL_DTYPE_RAW32, 64 * c->word_bytes, 0, TOKEN(MATRIX, 0), 0)};
        presil_matrix_absent_set(&list[0], (uint32_t)absent);
        presil_matrix_skip_special_set(&list[0], (uint32_t)skip_special);
        assert_int_equal(presil_twin_execute(twin, list, 2, &memory, NULL, NULL, NULL), 0);
        memcpy(&result, spad + 64 * (size_t)c->word_bytes, 4);
        if (result != expected) fail_msg("%s: %08x, expected %08x", kernel_names[k], result, expected);
        ran++;
    }
    assert_true(ran > 0);
    presil_twin_destroy(twin);
}

static void expect_dot(const uint16_t *a, const uint16_t *w, size_t lanes, int absent, int skip_special,
                       uint32_t expected) {
    expect_dot_of(PRESIL_DTYPE_BF16, a, w, lanes, absent, skip_special, expected);
}

static void expect_fp16(const uint16_t *a, const uint16_t *w, size_t lanes, int absent, int skip_special,
                        uint32_t expected) {
    expect_dot_of(PRESIL_DTYPE_FP16, a, w, lanes, absent, skip_special, expected);
}

void test_dot_product(void **state) {
    (void)state;
    const uint16_t one_small[] = {0x3f80, 0x3980}, ones[] = {0x3f80, 0x3f80}; /* 1, 2^-12 */
    expect_dot(one_small, ones, 2, 0, 0, 0x3f800800u);
    /* Half up in magnitude at 2^-10 of the unit 2^-14: products 1.0 and +-3 * 2^-26 (d = 25): t = 2^14 * 3/2 >> 15 and
     * its neighbours. */
    const uint16_t tie[] = {0x3f80, 0x3300}, tie_w[] = {0x3f80, 0x3f80}, minus_tie[] = {0x3f80, 0xb300};
    expect_dot(tie, tie_w, 2, 0, 0, 0x3f800000u);       /* 2^-25 is half of 2^-24: t = 1, then fp32 ties to even */
    expect_dot(minus_tie, tie_w, 2, 0, 0, 0x3f7fffffu); /* 1 - 2^-24 is representable: t = -1, not 0 */
    const uint16_t cancel[] = {0x3f80, 0xbf80};
    expect_dot(cancel, ones, 2, 0, 0, 0);
    const uint16_t zeros[] = {0x8000, 0x0001};
    expect_dot(zeros, ones, 2, 0, 0, 0);
    const uint16_t tiny[] = {0x0080},
                   huge[] = {0x7f7f}; /* 2^-126; the product with itself is flushed, that with the largest is not */
    expect_dot(tiny, tiny, 1, 0, 0, 0);
    expect_dot(huge, huge, 1, 0, 0, 0x7f800000u);
    expect_dot(tiny, huge, 1, 0, 0, 0x407f0000u);
}

void test_dot_product_specials(void **state) {
    (void)state;
    const uint16_t inf_one[] = {0x7f80, 0x3f80}, ones[] = {0x3f80, 0x3f80}, absent[] = {0x0001, 0x3f80},
                   zero_one[] = {0, 0x3f80};
    const uint16_t infs[] = {0x7f80, 0xff80}, nan_one[] = {0xffff, 0x3f80};
    expect_dot(inf_one, ones, 2, 0, 0, 0x7f800000u);
    expect_dot(inf_one, zero_one, 2, 0, 0, 0x7fc00000u);
    expect_dot(inf_one, absent, 2, 0, 0, 0x7fc00000u);
    expect_dot(inf_one, absent, 2, 1, 0, 0x3f800000u);
    expect_dot(inf_one, ones, 2, 0, 1, 0x3f800000u);
    expect_dot(infs, ones, 2, 0, 0, 0x7fc00000u);
    expect_dot(nan_one, ones, 2, 0, 0, 0x7fc00000u);
    expect_dot(nan_one, absent, 2, 1, 0, 0x3f800000u);
    expect_dot(ones, nan_one, 2, 0, 1, 0x3f800000u);
}

/* What the compiler's own fp16 makes of it; NaN is the contract's. */
__extension__ typedef _Float16 fp16;

static uint32_t by_compiler_h2f(uint16_t h) {
    fp16 x;
    memcpy(&x, &h, 2);
    const float f = (float)x;
    uint32_t u;
    memcpy(&u, &f, 4);
    return u;
}

static uint16_t by_compiler_f2h(uint32_t u) {
    float f;
    memcpy(&f, &u, 4);
    const fp16 x = (fp16)f;
    uint16_t h;
    memcpy(&h, &x, 2);
    return twin_is_nan(u) ? 0x7e00 : h;
}

void test_fp16_conversion(void **state) {
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        const uint32_t got = twin_h2f(h), want = by_compiler_h2f((uint16_t)h);
        if (twin_is_nan(want) ? !twin_is_nan(got) : got != want)
            fail_msg("fp16 %04x: %08x, expected %08x", h, got, want);
    }
    uint64_t random = 9;
    for (uint32_t e = 1; e < 256; e++)
        for (uint32_t i = 0; i < 2000; i++) { /* any fraction, or one at or beside a tie of some place */
            const uint32_t place = 1u << below(&random, 23), near = next_random(&random) & ~(2 * place - 1);
            const uint32_t fraction = i & 1 ? next_random(&random) : (near | place) + below(&random, 3) - 1;
            const uint32_t v = (fraction & 0x007fffffu) | e << 23 | below(&random, 2) << 31;
            if (twin_f2h(v) != by_compiler_f2h(v))
                fail_msg("fp32 %08x: %04x, expected %04x", v, twin_f2h(v), by_compiler_f2h(v));
        }
    assert_int_equal(twin_f2h(0x807fffffu), 0x8000); /* operands with exponent field 0 are zeros */
}

/* Clause 4 in doubles, which hold every product and every aligned sum exactly. */
static uint32_t plain_fp16(const uint16_t *a, const uint16_t *w, size_t lanes) {
    const int g = 11;
    int emax = INT32_MIN;
    double sum = 0, p[32];
    for (size_t i = 0; i < lanes; i++) {
        const uint32_t x = by_compiler_h2f(a[i]), y = by_compiler_h2f(w[i]);
        float fx, fy;
        memcpy(&fx, &x, 4);
        memcpy(&fy, &y, 4);
        p[i] = (double)fx * (double)fy;
        const int e = p[i] != 0 ? ilogb((double)fx) + ilogb((double)fy) : INT32_MIN;
        emax = e > emax ? e : emax;
    }
    for (size_t i = 0; i < lanes && emax != INT32_MIN; i++) {
        const double t = floor(ldexp(fabs(p[i]), 14 - emax + g - 1) + 0.5);
        sum += p[i] < 0 ? -t : t;
    }
    const float v = (float)ldexp(sum, emax == INT32_MIN ? 0 : emax - 14 - (g - 1));
    uint32_t u;
    memcpy(&u, &v, 4);
    return sum == 0 ? 0 : u;
}

void test_dot_product_fp16(void **state) {
    (void)state;
    uint64_t random = 21;
    for (int round = 0; round < 3000; round++) {
        uint16_t a[32], w[32];
        const uint32_t low = below(&random, 30), range = 1 + below(&random, 31 - low);
        for (int i = 0; i < 32; i++) {
            a[i] = (uint16_t)((next_random(&random) & 0x83ffu) | (low + below(&random, range)) << 10);
            w[i] = (uint16_t)((next_random(&random) & 0x83ffu) | (below(&random, 4) ? 15u : below(&random, 31)) << 10);
            if (below(&random, 6) == 0) a[i] = (uint16_t)(below(&random, 2) << 15 | 1u << below(&random, 10));
        }
        const size_t lanes = 1 + below(&random, 32);
        expect_fp16(a, w, lanes, 0, 0, plain_fp16(a, w, lanes));
    }
    const uint16_t least[] = {0x0001}, most[] = {0x7bff}, one[] = {0x3c00};
    expect_fp16(least, least, 1, 0, 0, 0x27800000u); /* 2^-48 */
    expect_fp16(most, most, 1, 0, 0, 0x4f7fc004u);   /* 65504^2, 22 bits */
    expect_fp16(most, least, 1, 0, 0, 0x3b7fe000u);
    const uint16_t tie[] = {0x3c00, 0x0001}, tie_w[] = {0x3c00, 0x3800}; /* 1 + 2^-25: t = 1, then fp32 ties to even */
    expect_fp16(tie, tie_w, 2, 0, 0, 0x3f800000u);
    const uint16_t minus[] = {0x3c00, 0x8001};
    expect_fp16(minus, tie_w, 2, 0, 0, 0x3f7fffffu);
    const uint16_t inf_one[] = {0x7c00, 0x3c00}, ones[] = {0x3c00, 0x3c00}, gone[] = {0x7c01, 0x3c00},
                   zero_one[] = {0x8000, 0x3c00}, infs[] = {0x7c00, 0xfc00}, nan_one[] = {0xffff, 0x3c00},
                   small_one[] = {0x0001, 0x3c00};
    expect_fp16(inf_one, ones, 2, 0, 0, 0x7f800000u);
    expect_fp16(inf_one, small_one, 2, 0, 0, 0x7f800000u); /* no bf16: a subnormal is no zero, 1 is not absent */
    expect_fp16(inf_one, small_one, 2, 1, 0, 0x7f800000u);
    expect_fp16(inf_one, zero_one, 2, 0, 0, 0x7fc00000u);
    expect_fp16(ones, gone, 2, 0, 0, 0x7fc00000u);
    expect_fp16(ones, gone, 2, 1, 0, 0x3f800000u);
    expect_fp16(inf_one, gone, 2, 1, 0, 0x3f800000u);
    expect_fp16(gone, ones, 2, 1, 0, 0x7fc00000u); /* absent is of weights */
    expect_fp16(gone, ones, 2, 0, 1, 0x3f800000u);
    expect_fp16(infs, ones, 2, 0, 0, 0x7fc00000u);
    expect_fp16(nan_one, ones, 2, 0, 0, 0x7fc00000u);
    expect_fp16(one, zero_one, 1, 0, 0, 0);
}

/* The caller's rounding mode changes nothing and is left as it was. */
void test_float_mode_of_caller(void **state) {
    static const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
    const uint16_t a[] = {0x3f80, 0x3300, 0x4049}, w[] = {0x3f80, 0x3f80, 0x3eab};
    uint16_t t[3];
    (void)state;
    twin_split(0x3f8fffffu, t);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        assert_int_equal(fesetround(modes[i]), 0);
        expect_dot(a, w, 3, 0, 0, 0x40032180u);
        assert_int_equal(fegetround(), modes[i]);
    }
    fesetround(FE_TONEAREST);
    expect_dot(a, w, 3, 0, 0, 0x40032180u);
}
