/* SPDX-License-Identifier: Apache-2.0 */
/* What the chip expects of a plan (presil_chip_ops.work: driver/chip/performance) against the RTL's cycles, on random
 * layers, with two memories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above. */
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "presil_capture.h"

enum { LAYERS = 60, OF_HOST = 1 << 20 };
static const char *const memories[] = {NULL, "latency=37,response=90,bytes=40"};

static uint32_t seed;
static int64_t drawn(int64_t low, int64_t high) {
    seed = seed * 1664525u + 1013904223u;
    return low + (int64_t)((uint64_t)(seed >> 8) * (uint64_t)(high - low + 1) >> 24);
}

static presil_device *device;
static const char *simulator;
static presil_work work;
static presil_report last;

static int on_begin(void *context, const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    (void)context, (void)reads;
    work = (presil_work){.size = sizeof work};
    if (launch->work(launch, simulator, &work)) work.cycles = 0;
    return 0;
}

/* What each engine is expected to do adds up to the cycles that are expected. */
static void adds_up(void) {
    uint64_t told = 0;
    assert_int_not_equal(work.cycles, 0);
    for (uint32_t e = 0; e < PRESIL_ENGINES; e++) {
        uint64_t sum = 0;
        for (uint32_t c = 0; c < PRESIL_CAUSES; c++) sum += work.stalls[e][c];
        if (sum) assert_int_equal(sum, work.cycles);
        told += sum;
    }
    assert_true(told >= 4 * work.cycles);
}

static const char *on_end(void *context, const presil_capture_launch *launch, const presil_report *report,
                          const presil_capture_bytes *writes) {
    (void)context, (void)launch, (void)report, (void)writes;
    return NULL;
}
static void on_report(void *context, const presil_report *report) {
    (void)context;
    last = *report;
}

static void ok(int status) {
    if (status) fail_msg("%d: %s", status, presil_error_text());
}

static presil_tensor tensor(presil_daddr *at, presil_dtype dtype, const int64_t shape[4]) {
    presil_tensor t = {.data = *at, .dtype = dtype, .ndim = 4};
    int64_t stride = 1;
    for (int i = 3; i >= 0; stride *= shape[i--]) t.shape[i] = shape[i], t.stride[i] = stride;
    at->value += ((uint64_t)stride * 4 + 4095) / 4096 * 4096 + (uint64_t)drawn(0, 3) * 64;
    return t;
}

/* A convolution of any dtype, size, stride, grouping; false: there is none of that size. */
static bool layer(presil_daddr at, const void *zeros) {
    const presil_compute compute = (presil_compute)drawn(0, 2);
    static const presil_dtype dtype[] = {PRESIL_INT8, PRESIL_BF16, PRESIL_FP32};
    const int64_t k = drawn(1, 4), stride = drawn(1, 3), padding = drawn(0, 2), n = drawn(1, 2), h = drawn(1, 20),
                  w = drawn(1, 20), groups = drawn(0, 5) ? 1 : drawn(2, 4), c = groups * drawn(1, 40 / groups),
                  o = groups * drawn(1, 40 / groups), oh = (h + 2 * padding - k) / stride + 1,
                  ow = (w + 2 * padding - k) / stride + 1;
    if (h + 2 * padding < k || w + 2 * padding < k) return false;
    float scale[64];
    for (int i = 0; i < 64; i++) scale[i] = 1;
    const presil_weights_desc weights = {.size = sizeof weights,
                                         .compute = compute,
                                         .weight = zeros,
                                         .weight_dtype = dtype[compute],
                                         .groups = (uint32_t)groups,
                                         .shape = {o, c / groups, k, k},
                                         .stride = {c / groups * k * k, k * k, k, 1},
                                         .bias = drawn(0, 1) ? zeros : NULL,
                                         .scale = compute == PRESIL_COMPUTE_INT8 ? scale : NULL,
                                         .dilation = {1, 1},
                                         .input_dilation = {1, 1}};
    presil_conv2d_desc d = {.size = sizeof d,
                            .label = "conv",
                            .input = tensor(&at, dtype[compute], (const int64_t[4]){n, h, w, c}),
                            .output = tensor(&at, dtype[compute], (const int64_t[4]){n, oh, ow, o}),
                            .stride = {stride, stride},
                            .padding = {padding, padding},
                            .dilation = {1, 1},
                            .input_dilation = {1, 1}};
    const presil_tensor residual = tensor(&at, dtype[compute], (const int64_t[4]){n, oh, ow, o});
    if (!drawn(0, 3)) d.epilogue.residual = &residual, d.epilogue.residual_scale = 1;
    presil_weights *packed;
    ok(presil_weights_create(device, &weights, &packed));
    d.weights = packed;
    ok(presil_conv2d(device, NULL, &d));
    ok(presil_device_synchronize(device));
    presil_weights_destroy(packed);
    return true;
}

static int in_order(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void with_memory(const char *memory) {
    const presil_device_options options = {.size = sizeof options,
                                           .mode = PRESIL_MODE_RTL,
                                           .config = "tiny",
                                           .library = getenv("PRESIL_TINY_LIBRARY"),
                                           .memory_model = memory};
    static const presil_capture_ops ops = {.size = sizeof ops, .begin = on_begin, .end = on_end};
    presil_device_identity identity = {.size = sizeof identity};
    presil_daddr at, block;
    double off[LAYERS];
    void *zeros = calloc(1, OF_HOST);
    assert_non_null(zeros);
    ok(presil_device_open(&options, &device));
    ok(presil_device_start(device));
    ok(presil_device_identify(device, &identity));
    simulator = identity.timing;
    presil_set_report(device, on_report, NULL);
    ok(presil_set_capture(device, &ops, NULL));
    ok(presil_alloc(device, NULL, NULL, 1 << 24, &block));
    at = block;
    for (int i = 0; i < LAYERS;) {
        if (!layer(at, zeros)) continue;
        adds_up();
        off[i++] = fabs((double)work.cycles / (double)last.cycles - 1);
    }
    ok(presil_copy_on_device(device, NULL, (presil_daddr){block.value + (1 << 20)}, block, 5000, PRESIL_COPY_DMA));
    ok(presil_device_synchronize(device));
    adds_up();
    qsort(off, LAYERS, sizeof *off, in_order);
    print_message("%s: median %.2f %%, 95 of 100 below %.2f %%, worst %.2f %%\n", memory ? memory : "default",
                  100 * off[LAYERS / 2], 100 * off[LAYERS * 95 / 100], 100 * off[LAYERS - 1]);
    assert_true(off[LAYERS / 2] < 0.01 && off[LAYERS * 95 / 100] < 0.015 && off[LAYERS - 1] < 0.08);
    ok(presil_set_capture(device, NULL, NULL));
    ok(presil_free(device, block));
    presil_device_close(device);
    free(zeros);
}

static void test_expected(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++) with_memory(memories[i]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_expected)};
    return cmocka_run_group_tests_name("performance", tests, NULL, NULL);
}
