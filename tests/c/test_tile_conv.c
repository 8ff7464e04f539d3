/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of every kind through plan and twin, against plain loops; forced tilings give the same bytes.
 * test_tile_conv [PART PARTS]: of the cases, numbered through, those whose number is PART modulo PARTS (tile.cmake runs
 * all parts, so that none takes long under a sanitizer); without arguments all. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tile_fixture.h"

static const char *const configs[] = {"tiny", "odd", "base", "wide"};

static uint32_t part = 0, parts = 1;
static bool is_mine(uint32_t number) { return number % parts == part; }

static uint32_t between(fixture *f, uint32_t low, uint32_t high) { return low + fixture_random(f, high - low + 1); }

static conv_case random_case(fixture *f, const char *config) {
    conv_case c = {.config = config, .groups = 1};
    uint32_t compute = between(f, 0, 4);
    c.compute = compute > PRESIL_COMPUTE_FP16 ? PRESIL_COMPUTE_INT8 : compute;
    uint32_t wide = c.compute == PRESIL_COMPUTE_FP32 ? PRESIL_FP32 : c.compute == PRESIL_COMPUTE_FP16 ? PRESIL_FP16 : 0;
    c.in_dtype = c.compute == 0 ? PRESIL_INT8 : wide ? wide : between(f, 0, 1) ? PRESIL_BF16 : PRESIL_FP32;
    c.weight_dtype = c.compute == 0 ? PRESIL_INT8 : wide ? wide : between(f, 0, 1) ? PRESIL_BF16 : PRESIL_FP32;
    c.scale = between(f, 0, 1), c.bias = between(f, 0, 1), c.residual = between(f, 0, 2) == 0,
    c.clamp = between(f, 0, 1);
    c.out_dtype = between(f, 0, 4);
    if (c.out_dtype > PRESIL_INT32) c.out_dtype = PRESIL_FP16;
    if (c.compute && c.out_dtype == PRESIL_INT32) c.out_dtype = PRESIL_BF16;
    if (c.out_dtype == PRESIL_INT32) c.scale = c.residual = c.clamp = false;
    if (c.out_dtype == PRESIL_INT8 || (c.out_dtype == PRESIL_FP16 && !c.compute)) c.scale = true;
    c.res_dtype = between(f, 0, 3);
    if (c.res_dtype > PRESIL_FP32) c.res_dtype = PRESIL_FP16;
    uint32_t layout = between(f, 0, 5);
    c.layout = layout > 3 ? 0 : (int)layout;
    c.out_layout = between(f, 0, 1) ? 0 : (int)between(f, 0, 3);
    c.n = between(f, 1, 2), c.h = between(f, 1, 14), c.w = between(f, 1, 14);
    c.c = between(f, 1, between(f, 0, 1) ? 8 : 130), c.o = between(f, 1, 70);
    if (between(f, 0, 4) == 0) {
        c.groups = between(f, 1, 8);
        c.c = c.groups * between(f, 1, 12), c.o = c.groups * between(f, 1, 12);
    }
    for (int i = 0; i < 2; i++) {
        c.k[i] = between(f, 1, between(f, 0, 3) ? 3 : 7), c.stride[i] = between(f, 1, 3), c.pad[i] = between(f, 0, 3);
        c.dilation[i] = between(f, 0, 3) ? 1 : between(f, 1, 3),
        c.input_dilation[i] = between(f, 0, 5) ? 1 : between(f, 1, 3);
    }
    c.tiling = between(f, 0, 1) ? 0 : between(f, 1, 9);
    if (c.compute && between(f, 0, 2) == 0) c.view = (int)between(f, 1, 4), c.bias = c.scale = false;
    return c;
}

static void random_convolutions(void **state) {
    (void)state;
    int64_t elements = 0;
    for (uint32_t seed = 0; seed < 600; seed++) {
        if (!is_mine(seed / 3)) continue; /* each part has every configuration */
        fixture f;
        fixture_open(&f, configs[seed % 3], seed);
        conv_case c = random_case(&f, configs[seed % 3]);
        int64_t n = fixture_conv(&f, &c, NULL);
        if (n < 0) print_error("seed %u: %s\n", seed, f.text);
        assert_true(n >= 0);
        elements += n;
        fixture_close(&f);
    }
    assert_true(elements > 100000 / parts);
}

static void edge_cases(void **state) {
    (void)state;
    const conv_case base = {.compute = PRESIL_COMPUTE_BF16,
                            .in_dtype = PRESIL_BF16,
                            .weight_dtype = PRESIL_BF16,
                            .out_dtype = PRESIL_FP32,
                            .groups = 1,
                            .n = 1,
                            .h = 9,
                            .w = 9,
                            .c = 40,
                            .o = 33,
                            .k = {3, 3},
                            .stride = {1, 1},
                            .pad = {1, 1},
                            .dilation = {1, 1},
                            .input_dilation = {1, 1},
                            .bias = true};
    conv_case list[32];
    uint32_t n = 0;
    list[n] = base, list[n].k[0] = list[n].k[1] = 11, list[n].pad[0] = list[n].pad[1] = 5, n++;
    list[n] = base, list[n].h = list[n].w = 57, list[n].c = 3, list[n].k[0] = list[n].k[1] = 7,
    list[n].stride[0] = list[n].stride[1] = 2, n++;
    list[n] = base, list[n].h = 60, list[n].w = 60, list[n].c = 5, list[n].k[0] = list[n].k[1] = 56, list[n].pad[0] = 2,
    n++; /* kernel larger than a scratchpad slot */
    list[n] = base, list[n].h = 1, list[n].w = 3000, list[n].k[0] = 1, list[n].pad[0] = 0, list[n].c = 9,
    n++; /* wider than the accumulators */
    list[n] = base, list[n].h = 3000, list[n].w = 1, list[n].k[1] = 1, list[n].pad[1] = 0, list[n].c = 9, n++;
    list[n] = base, list[n].h = 1, list[n].w = 700, list[n].k[0] = 1, list[n].k[1] = 600, list[n].pad[0] = 0,
    list[n].c = 2, n++;                                               /* more columns than a field holds */
    list[n] = base, list[n].c = 3000, list[n].h = list[n].w = 4, n++; /* long reduction */
    list[n] = base, list[n].o = 900, list[n].h = list[n].w = 3, n++;
    list[n] = base, list[n].groups = 40, list[n].o = 80, list[n].h = 12, n++; /* depthwise with a multiplier */
    list[n] = base, list[n].pad[0] = list[n].pad[1] = 20, list[n].h = list[n].w = 2,
    n++; /* tiles that lie in the padding */
    list[n] = base, list[n].input_dilation[0] = list[n].input_dilation[1] = 4, n++;
    list[n] = base, list[n].input_dilation[0] = list[n].input_dilation[1] = 2, list[n].k[0] = list[n].k[1] = 4,
    list[n].pad[0] = list[n].pad[1] = 2, n++; /* a transposed convolution's four phases */
    list[n] = base, list[n].input_dilation[0] = 6, list[n].stride[0] = 4, list[n].dilation[0] = 9, n++; /* divisors */
    list[n] = base, list[n].input_dilation[0] = list[n].input_dilation[1] = 3, list[n].k[0] = list[n].k[1] = 1,
    n++; /* phases without a kernel position */
    list[n] = base, list[n].h = 60, list[n].w = 60, list[n].c = list[n].o = 5, list[n].k[0] = list[n].k[1] = 56,
    list[n].input_dilation[0] = list[n].input_dilation[1] = 2, n++; /* phases of a kernel that is cut */
    list[n] = base, list[n].dilation[0] = 20, list[n].h = 50, n++;
    list[n] = base, list[n].groups = 40, list[n].o = 40, list[n].dilation[0] = 2, list[n].dilation[1] = 4,
    list[n].h = 13, list[n].w = 150, list[n].pad[0] = 3, n++; /* depthwise in phases, wider than a window */
    list[n] = base, list[n].groups = 40, list[n].o = 80, list[n].dilation[0] = list[n].dilation[1] = 3,
    list[n].stride[0] = 2, list[n].stride[1] = 6, list[n].h = 20, list[n].w = 40, n++; /* divisors */
    list[n] = base, list[n].groups = 40, list[n].o = 40, list[n].input_dilation[0] = list[n].input_dilation[1] = 2,
    list[n].k[0] = list[n].k[1] = 4, list[n].pad[0] = list[n].pad[1] = 2, n++; /* a transposed depthwise one */
    list[n] = base, list[n].groups = 40, list[n].o = 80, list[n].input_dilation[0] = 3, list[n].input_dilation[1] = 2,
    list[n].k[1] = 11, list[n].w = 66, n++; /* pieces of three and of five, as many columns as a window of three has */
    list[n] = base, list[n].groups = 40, list[n].o = 40, list[n].input_dilation[0] = list[n].input_dilation[1] = 3,
    list[n].k[0] = list[n].k[1] = 1, n++; /* depthwise phases without a kernel position */
    list[n] = list[n - 1], list[n].input_dilation[0] = 1, list[n].pad[0] = list[n].pad[1] = 0, list[n].h = 1,
    list[n].w = 1000, n++; /* longer than a window */
    list[n] = base, list[n].groups = 40, list[n].o = 40, list[n].input_dilation[0] = 4, list[n].stride[0] = 6,
    list[n].k[0] = 13, list[n].pad[0] = 9, list[n].dilation[1] = 4, list[n].w = 30, n++; /* both kinds of phases */
    list[n] = base, list[n].n = 5, list[n].h = list[n].w = 1, list[n].k[0] = list[n].k[1] = 1,
    list[n].pad[0] = list[n].pad[1] = 0, n++;
    const bool all = fixture_every() == 1; /* else on two configurations each */
    for (uint32_t i = 0; i < n; i++) {
        for (uint32_t k = 0; k < 4; k++) {
            if (!is_mine(i + k) || (!all && (i + k) % 2)) continue;
            for (int int8 = 0; int8 < 2; int8++) {
                fixture f;
                fixture_open(&f, configs[k], i);
                if (int8)
                    list[i].compute = PRESIL_COMPUTE_INT8, list[i].in_dtype = list[i].weight_dtype = PRESIL_INT8,
                    list[i].out_dtype = PRESIL_INT32;
                else
                    list[i].compute = base.compute, list[i].in_dtype = base.in_dtype,
                    list[i].weight_dtype = base.weight_dtype, list[i].out_dtype = base.out_dtype;
                int64_t r = fixture_conv(&f, &list[i], NULL);
                if (r <= 0) print_error("case %u, %s, int8 %d: %s\n", i, configs[k], int8, f.text);
                assert_true(r > 0);
                fixture_close(&f);
            }
        }
    }
}

static void forced_tilings_give_the_same_bytes(void **state) {
    (void)state;
    uint8_t *want = malloc(FIXTURE_BYTES / 4), *got = malloc(FIXTURE_BYTES / 4);
    uint32_t distinct = 0, want_distinct = 0;
    for (uint32_t seed = 0; seed < 24; seed++) {
        if (!is_mine(seed / 4)) continue;
        want_distinct += 4;
        for (uint32_t tiling = 0; tiling < 5; tiling++) {
            fixture f;
            fixture_open(&f, configs[seed % 4], seed + 7000);
            conv_case c = random_case(&f, configs[seed % 4]);
            c.tiling = tiling, c.layout = c.out_layout = 0, c.h += 4, c.w += 4, c.o += 40 * c.groups, c.n = 1;
            for (int i = 0; i < 2; i++) c.k[i] = c.k[i] > 4 ? 4 : c.k[i], c.dilation[i] = 1;
            int64_t n = fixture_conv(&f, &c, tiling ? got : want);
            if (n <= 0) print_error("seed %u tiling %u: %s\n", seed, tiling, f.text);
            assert_true(n > 0);
            if (tiling) assert_memory_equal(want, got, (size_t)n * chip_element_bytes(c.out_dtype));
            distinct += tiling > 0;
            fixture_close(&f);
        }
    }
    assert_int_equal(distinct, want_distinct);
    free(want);
    free(got);
}

/* Of a kernel by view, several outputs a channel, as many as there are cells for and more; its groups one behind the
 * other (a window), or with a gap between. */
static void outputs_of_a_channel(void **state) {
    (void)state;
    enum { GROUPS = 5, WIDTH = 6, KERNEL = 3, RESULTS = WIDTH - KERNEL + 1, COUNTS = 3 };
    static const int64_t counts[COUNTS] = {2, 3, 33};
    for (uint32_t k = 0; k < 8 * COUNTS; k++) {
        const int64_t gap = k & 1, each = counts[k / 8], outputs = each * GROUPS;
        fixture f;
        if (!is_mine(k / 2 % 4)) continue;
        fixture_open(&f, configs[k / 2 % 4], k);
        presil_error_buffer e = {f.text, sizeof f.text};
        presil_conv2d_desc d = {.size = sizeof d,
                                .compute = PRESIL_COMPUTE_FP32,
                                .groups = GROUPS,
                                .group_stride = (each + gap) * KERNEL,
                                .stride = {1, 1}};
        fixture_tensor(&f, &d.input, PRESIL_FP32, 4, (const int64_t[]){1, 1, WIDTH, GROUPS},
                       (const int64_t[]){WIDTH * GROUPS, WIDTH * GROUPS, GROUPS, 1}, true);
        presil_tensor kernels; /* with room for the gaps */
        fixture_tensor(&f, &kernels, PRESIL_FP32, 4, (const int64_t[]){(each + 1) * GROUPS, 1, KERNEL, 1},
                       (const int64_t[]){KERNEL, KERNEL, 1, 1}, true);
        d.kernel = kernels, d.kernel.shape[0] = outputs;
        fixture_tensor(&f, &d.output, PRESIL_FP32, 4, (const int64_t[]){1, 1, RESULTS, outputs},
                       (const int64_t[]){RESULTS * outputs, RESULTS * outputs, outputs, 1}, false);
        float *input = fixture_host(&f, d.input.data.value), *weight = fixture_host(&f, kernels.data.value);
        for (int i = 0; i < WIDTH * GROUPS; i++) input[i] = (float)(i % 7 - 3);
        for (int i = 0; i < (each + 1) * GROUPS * KERNEL; i++) weight[i] = (float)(i % 11 - 5);
        presil_plan *plan;
        assert_int_equal(chip_plan_conv2d(f.chip, &d, NULL, (presil_daddr){0}, &plan, &e), PRESIL_OK);
        assert_true(fixture_run(&f, plan));
        for (int64_t x = 0; x < RESULTS; x++) {
            for (int64_t o = 0; o < outputs; o++) {
                float want = 0;
                for (int64_t i = 0; i < KERNEL; i++)
                    want +=
                        input[(x + i) * GROUPS + o / each] * weight[o / each * d.group_stride + o % each * KERNEL + i];
                assert_true(fixture_get(fixture_element(&f, &d.output, 0, 0, x, o), PRESIL_FP32) == want);
            }
        }
        fixture_close(&f);
    }
}

/* Of a kernel by view. The second group's channels are infinite: no weight of it may be in the first one's sums. */
static void groups_are_apart(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 8; k++) {
        const bool fp16 = k & 1;
        const uint32_t dtype = fp16 ? PRESIL_FP16 : PRESIL_BF16;
        const uint16_t infinite = fp16 ? 0x7c00 : 0x7f80;
        fixture f;
        if (!is_mine(k / 2)) continue;
        fixture_open(&f, configs[k / 2], k);
        presil_error_buffer e = {f.text, sizeof f.text};
        presil_conv2d_desc d = {.size = sizeof d,
                                .compute = fp16 ? PRESIL_COMPUTE_FP16 : PRESIL_COMPUTE_BF16,
                                .groups = 2,
                                .stride = {1, 1}};
        fixture_tensor(&f, &d.input, dtype, 4, (const int64_t[]){1, 1, 5, 6}, (const int64_t[]){30, 30, 6, 1}, true);
        fixture_tensor(&f, &d.kernel, dtype, 4, (const int64_t[]){4, 1, 1, 3}, (const int64_t[]){3, 3, 3, 1}, true);
        fixture_tensor(&f, &d.output, PRESIL_FP32, 4, (const int64_t[]){1, 1, 5, 4}, (const int64_t[]){20, 20, 4, 1},
                       false);
        uint8_t *input = fixture_host(&f, d.input.data.value);
        for (uint32_t i = 0; i < 30; i++) {
            if (i % 6 >= 3) memcpy(input + 2 * i, &infinite, 2);
        }
        presil_plan *plan;
        assert_int_equal(chip_plan_conv2d(f.chip, &d, NULL, (presil_daddr){0}, &plan, &e), PRESIL_OK);
        assert_true(fixture_run(&f, plan));
        for (int64_t x = 0; x < 5; x++) {
            for (int64_t o = 0; o < 4; o++)
                assert_int_equal(isfinite(fixture_get(fixture_element(&f, &d.output, 0, 0, x, o), PRESIL_FP32)), o < 2);
        }
        fixture_close(&f);
    }
}

/* The n-th tilings are different ones. */
static void forced_tilings_differ(void **state) {
    (void)state;
    for (uint32_t k = 0; k < 4; k++) {
        if (!is_mine(k)) continue;
        fixture f;
        fixture_open(&f, configs[k], 1);
        presil_error_buffer e = {f.text, sizeof f.text};
        float weight[1] = {0};
        int64_t o = 2 * (int64_t)f.chip->config.cells;
        presil_weights_desc w = {.size = sizeof w,
                                 .compute = PRESIL_COMPUTE_BF16,
                                 .weight = weight,
                                 .weight_dtype = PRESIL_FP32,
                                 .groups = 1,
                                 .shape = {o, 64, 1, 1},
                                 .stride = {64, 1, 1, 1}};
        presil_layout *layout;
        uint64_t bytes;
        assert_int_equal(chip_layout(f.chip, &w, &layout, &bytes, &e), PRESIL_OK);
        presil_conv2d_desc d = {.size = sizeof d,
                                .input = {.data = {FIXTURE_BASE},
                                          .dtype = PRESIL_BF16,
                                          .ndim = 4,
                                          .shape = {1, 2, 2, 64},
                                          .stride = {256, 128, 64, 1}},
                                .output = {.data = {FIXTURE_BASE + 4096},
                                           .dtype = PRESIL_BF16,
                                           .ndim = 4,
                                           .shape = {1, 2, 2, o},
                                           .stride = {4 * o, 2 * o, o, 1}},
                                .stride = {1, 1}};
        uint64_t signatures[4];
        for (uint32_t n = 0; n < 3; n++) {
            presil_plan *plan;
            d.tiling = n + 1;
            assert_int_equal(chip_plan_conv2d(f.chip, &d, layout, (presil_daddr){FIXTURE_BASE + 8192}, &plan, &e),
                             PRESIL_OK);
            signatures[n] = plan->signature;
            for (uint32_t i = 0; i < n; i++) assert_true(signatures[i] != signatures[n]);
            chip_plan_free(plan);
        }
        chip_layout_free(layout);
        fixture_close(&f);
    }
}

int main(int count, char **arguments) {
    if (count == 3) {
        part = (uint32_t)strtoul(arguments[1], NULL, 10);
        parts = (uint32_t)strtoul(arguments[2], NULL, 10);
    }
    if ((count != 1 && count != 3) || part >= parts) {
        (void)fprintf(stderr, "test_tile_conv [PART PARTS]: PART from 0 to before PARTS\n");
        return 2;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_convolutions),
                                       cmocka_unit_test(edge_cases),
                                       cmocka_unit_test(forced_tilings_give_the_same_bytes),
                                       cmocka_unit_test(forced_tilings_differ),
                                       cmocka_unit_test(groups_are_apart),
                                       cmocka_unit_test(outputs_of_a_channel)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
