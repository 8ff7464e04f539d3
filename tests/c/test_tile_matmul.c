/* SPDX-License-Identifier: Apache-2.0 */
/* Matmuls of every layout through plan and twin, against plain loops; copies; arguments that must be refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tile_fixture.h"

static const char *const configs[] = {"tiny", "odd", "base", "wide"};

static uint32_t between(fixture *f, uint32_t low, uint32_t high) { return low + fixture_random(f, high - low + 1); }

static matmul_case random_case(fixture *f, const char *config) {
    matmul_case c = {.config = config, .compute = between(f, 0, 3)};
    uint32_t wide = c.compute == PRESIL_COMPUTE_FP32 ? PRESIL_FP32 : c.compute == PRESIL_COMPUTE_FP16 ? PRESIL_FP16 : 0;
    c.a_dtype = c.compute == 0 ? PRESIL_INT8 : wide ? wide : between(f, 0, 1) ? PRESIL_BF16 : PRESIL_FP32;
    c.b_dtype = c.compute == 0 ? PRESIL_INT8 : wide ? wide : between(f, 0, 1) ? PRESIL_BF16 : PRESIL_FP32;
    c.out_dtype = c.compute == 0 ? (between(f, 0, 1) ? PRESIL_INT32 : PRESIL_FP32) : between(f, 1, 2);
    if (c.compute && between(f, 0, 2) == 0) c.out_dtype = PRESIL_FP16;
    c.transpose_a = between(f, 0, 1), c.transpose_b = between(f, 0, 1), c.transpose_out = between(f, 0, 2) == 0;
    c.residual = c.out_dtype != PRESIL_INT32 && between(f, 0, 1), c.broadcast_residual = between(f, 0, 1),
    c.share_b = between(f, 0, 2) == 0;
    c.batch = between(f, 1, 3), c.m = between(f, 1, between(f, 0, 1) ? 4 : 150),
    c.n = between(f, 1, between(f, 0, 1) ? 4 : 150), c.k = between(f, 0, between(f, 0, 1) ? 4 : 300);
    c.loose = between(f, 0, 4) == 0;
    c.tiling = between(f, 0, 1) ? 0 : between(f, 1, 9);
    return c;
}

static void random_matmuls(void **state) {
    (void)state;
    int64_t elements = 0;
    const uint32_t every = fixture_every();
    for (uint32_t seed = 0; seed < 300; seed += every) {
        fixture f;
        fixture_open(&f, configs[seed % 3], seed);
        matmul_case c = random_case(&f, configs[seed % 3]);
        int64_t n = fixture_matmul(&f, &c, NULL);
        if (n < 0) print_error("seed %u: %s\n", seed, f.text);
        assert_true(n >= 0);
        elements += n;
        fixture_close(&f);
    }
    assert_true(elements > 100000 / every);
}

/* M, N, K at and around 1, lanes and cells of each configuration. */
static void seams(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        fixture f;
        fixture_open(&f, configs[k], k);
        int64_t cells = f.chip->config.cells, lanes = f.chip->config.lanes;
        const int64_t n[] = {1, cells - 1, cells, cells + 1, 2 * cells + 1},
                      d[] = {1, lanes / 2 - 1, lanes / 2 + 1, lanes, lanes + 1};
        for (uint32_t i = 0; i < 5; i++) {
            for (uint32_t j = 0; j < 5; j++) {
                matmul_case c = {.compute = PRESIL_COMPUTE_INT8,
                                 .a_dtype = PRESIL_INT8,
                                 .b_dtype = PRESIL_INT8,
                                 .out_dtype = PRESIL_INT32,
                                 .batch = 1,
                                 .m = n[(i + j) % 5],
                                 .n = n[i],
                                 .k = d[j],
                                 .transpose_b = (i + j) % 2};
                int64_t r = fixture_matmul(&f, &c, NULL);
                if (r != c.m * c.n) print_error("%s\n", f.text);
                assert_int_equal(r, c.m * c.n);
            }
        }
        fixture_close(&f);
    }
}

static void forced_tilings_give_the_same_bytes(void **state) {
    (void)state;
    uint8_t *want = malloc(1 << 20), *got = malloc(1 << 20);
    for (uint32_t seed = 0; seed < 24; seed++) {
        for (uint32_t tiling = 0; tiling < 5; tiling++) {
            fixture f;
            fixture_open(&f, configs[seed % 4], seed + 500);
            matmul_case c = random_case(&f, configs[seed % 4]);
            c.m += 2, c.n += 2 * f.chip->config.cells, c.k += 1, c.tiling = tiling;
            int64_t n = fixture_matmul(&f, &c, tiling ? got : want);
            if (n <= 0) print_error("seed %u tiling %u: %s\n", seed, tiling, f.text);
            assert_true(n > 0);
            if (tiling) assert_memory_equal(want, got, (size_t)n * chip_element_bytes(c.out_dtype));
            fixture_close(&f);
        }
    }
    free(want);
    free(got);
}

static void copies(void **state) {
    (void)state;
    const uint64_t sizes[] = {0, 1, 63, 64, 65, 4095, 32768, 32769, 131072, 1000003, 5000000};
    for (uint32_t k = 0; k < 4; k++) {
        for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            fixture f;
            fixture_open(&f, configs[k], i);
            presil_error_buffer e = {f.text, sizeof f.text};
            uint64_t from = fixture_alloc(&f, sizes[i] + 64) + i % 7, to = fixture_alloc(&f, sizes[i] + 128) + i % 5;
            fixture_fill(&f, from, sizes[i], PRESIL_INT8);
            presil_plan *plan;
            assert_int_equal(chip_plan_copy(f.chip, (presil_daddr){to}, (presil_daddr){from}, sizes[i], &plan, &e),
                             PRESIL_OK);
            bool ok = fixture_run(&f, plan);
            if (!ok) print_error("%s: %s\n", configs[k], f.text);
            assert_true(ok);
            assert_memory_equal(fixture_host(&f, to), fixture_host(&f, from), sizes[i]);
            assert_int_equal(((uint8_t *)fixture_host(&f, to))[sizes[i]], 0xa5);
            assert_int_equal(((uint8_t *)fixture_host(&f, to))[-1], 0xa5);
            fixture_close(&f);
        }
    }
}

static void refusals(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "base", 0);
    presil_error_buffer e = {f.text, sizeof f.text};
    presil_plan *plan = NULL;
    presil_matmul_desc d = {.size = sizeof d,
                            .compute = PRESIL_COMPUTE_BF16,
                            .a = {.dtype = PRESIL_BF16, .ndim = 3, .shape = {1, 4, 5}, .stride = {20, 5, 1}},
                            .b = {.dtype = PRESIL_BF16, .ndim = 3, .shape = {1, 5, 6}, .stride = {30, 6, 1}},
                            .out = {.dtype = PRESIL_FP32, .ndim = 3, .shape = {1, 4, 6}, .stride = {24, 6, 1}}};
    presil_matmul_desc bad = d;
    bad.b.shape[1] = 4;
    assert_int_equal(chip_plan_matmul(f.chip, &bad, &plan, &e), PRESIL_EINVAL);
    bad = d, bad.a.dtype = PRESIL_INT8;
    assert_int_equal(chip_plan_matmul(f.chip, &bad, &plan, &e), PRESIL_EINVAL);
    bad = d, bad.compute = PRESIL_COMPUTE_FP16, bad.a.dtype = PRESIL_FP16, bad.b.dtype = PRESIL_FP32;
    assert_int_equal(chip_plan_matmul(f.chip, &bad, &plan, &e), PRESIL_EINVAL);
    assert_non_null(strstr(f.text, "both are fp16, or none"));
    bad = d, bad.a.dtype = bad.b.dtype = PRESIL_FP16; /* of bf16 products */
    assert_int_equal(chip_plan_matmul(f.chip, &bad, &plan, &e), PRESIL_EINVAL);
    bad = d, bad.out.dtype = PRESIL_INT32;
    assert_int_equal(chip_plan_matmul(f.chip, &bad, &plan, &e), PRESIL_EINVAL);
    bad = d, bad.out.stride[2] = (int64_t)1 << 37;
    assert_int_equal(chip_plan_matmul(f.chip, &bad, &plan, &e), PRESIL_EUNSUPPORTED);
    assert_non_null(strstr(f.text, "contiguous"));
    assert_null(plan);
    bad = d, bad.a.shape[1] = bad.out.shape[1] = 0;
    assert_int_equal(chip_plan_matmul(f.chip, &bad, &plan, &e), PRESIL_OK);
    presil_plan_info info = {.size = sizeof info};
    chip_plan_info(plan, &info);
    assert_int_equal(info.descriptors, 0);
    assert_int_equal(info.write_count, 0);
    chip_plan_free(plan);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_matmuls), cmocka_unit_test(seams),
                                       cmocka_unit_test(forced_tilings_give_the_same_bytes), cmocka_unit_test(copies),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
