/* SPDX-License-Identifier: Apache-2.0 */
/* test_twin_numerics.c - the worked examples of docs/numerics.md, on the integer functions and through MATRIX
 * descriptors with every kernel set. */
#include <fenv.h>
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

/* One block of bf16 on `base` by each kernel set: a and w in all lanes given, the rest zero; the first accumulator. */
static void expect_dot(const uint16_t *a, const uint16_t *w, size_t lanes, int absent, int skip_special,
                       uint32_t expected) {
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
        presil_desc list[2] = {square_matrix(1, 1, 1, 1, 0, 1, 0, 1),
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
