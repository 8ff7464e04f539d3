/* SPDX-License-Identifier: Apache-2.0 */
/* Plans that write rows with gaps: what is between rows stays what it was, in every mode, wherever memory is at home;
 * whoever captures is told of rows; boxes are walked completely, or as far as somebody wants. */
#include <stdio.h>
#include <stdlib.h>
#include "device.h"
#include "core_fixture.h"

/* ---- boxes as such */
static void hulls(void **state) {
    (void)state;
    presil_box box = {.base = {1000}, .bytes = 24};
    assert_int_equal(presil_box_hull(&box).bytes, 24);
    box.dims = 2;
    box.count[0] = 5, box.stride[0] = 100, box.count[1] = 3, box.stride[1] = 1000;
    assert_int_equal(presil_box_hull(&box).base.value, 1000);
    assert_int_equal(presil_box_hull(&box).bytes, 24 + 4 * 100 + 2 * 1000);
    box.count[1] = 0;
    assert_int_equal(presil_box_hull(&box).bytes, 0);
    box.count[1] = 3, box.stride[1] = UINT64_MAX / 2;
    assert_int_equal(presil_box_hull(&box).bytes, UINT64_MAX);
    box.stride[1] = UINT64_MAX / 2 - 200; /* only the sum is too large */
    assert_int_equal(presil_box_hull(&box).bytes, UINT64_MAX);
}

static struct {
    size_t count, calls, stop;
    presil_byte_range at[1024];
} walked;

static int on_rows(presil_device *device, const presil_byte_range *ranges, uint32_t count) {
    assert_null(device);
    assert_true(count > 0 && walked.count + count <= 1024);
    memcpy(&walked.at[walked.count], ranges, count * sizeof *ranges);
    walked.count += count;
    return ++walked.calls == walked.stop ? PRESIL_EBUS : 0;
}

static void rows_one_after_the_other(void **state) {
    (void)state;
    const presil_byte_range plain = {{64}, 8};
    presil_box boxes[3] = {
        {.base = {1 << 20}, .bytes = 4, .dims = 3}, {.base = {7}, .bytes = 1, .dims = 1}, {.bytes = 2}};
    const uint64_t count[3] = {7, 5, 3}, stride[3] = {16, 200, 5000};
    memcpy(boxes[0].count, count, sizeof count);
    memcpy(boxes[0].stride, stride, sizeof stride);
    boxes[2].base.value = 1 << 22; /* boxes[1] has no rows */
    const presil_plan_info info = {.writes = &plain, .write_count = 1, .write_boxes = boxes, .write_box_count = 3};
    memset(&walked, 0, sizeof walked);
    assert_int_equal(presil_each_write(NULL, &info, on_rows), 0);
    assert_int_equal(walked.count, 1 + 7 * 5 * 3 + 1);
    assert_int_equal(walked.at[0].base.value, 64);
    for (uint64_t i = 0; i < 7 * 5 * 3; i++) {
        assert_int_equal(walked.at[1 + i].base.value, (1 << 20) + i % 7 * 16 + i / 7 % 5 * 200 + i / 35 * 5000);
        assert_int_equal(walked.at[1 + i].bytes, 4);
    }
    assert_int_equal(walked.at[106].base.value, 1 << 22);
    memset(&walked, 0, sizeof walked);
    walked.stop = 2;
    assert_int_equal(presil_each_write(NULL, &info, on_rows), PRESIL_EBUS);
    assert_int_equal(walked.calls, 2);
    range_list list = {0};
    ranges_add_writes(&list, &info);
    assert_int_equal(list.count, 107);
    boxes[0].stride[0] = 4; /* rows that touch */
    list.count = 0;
    ranges_add_writes(&list, &info);
    assert_int_equal(list.count, 1 + 5 * 3 + 1);
    ranges_free(&list);
}

/* ---- launches */
enum { ROW = 24, SLICE = 5, BYTES = MATMUL_N * ROW * 4 };

/* The product of matmul_alloc() as columns SLICE and on of rows of ROW floats. */
static presil_matmul_desc into_slice(const matmul_buffers *m, presil_daddr wide) {
    presil_matmul_desc d = matmul_desc(m);
    d.out.data.value = wide.value + SLICE * 4;
    d.out.stride[0] = MATMUL_N * ROW, d.out.stride[1] = ROW;
    return d;
}

static presil_device *open_with(presil_mode mode, const char *build, uint32_t host_memory) {
    const presil_device_options options = {.size = sizeof options,
                                           .mode = mode,
                                           .config = "tiny",
                                           .build = build,
                                           .memory_bytes = 64u << 20,
                                           .host_memory = host_memory};
    presil_device *d = NULL;
    EXPECT_OK(presil_device_open(&options, &d));
    if (mode != PRESIL_MODE_MODEL) EXPECT_OK(presil_device_start(d));
    return d;
}

static void fill(presil_device *d, presil_daddr at, uint8_t *bytes, uint8_t value) {
    memset(bytes, value, BYTES);
    EXPECT_OK(presil_copy_to_device(d, NULL, at, bytes, BYTES, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
}

static void gaps_stay(void **state) {
    (void)state;
    static const presil_mode modes[] = {PRESIL_MODE_RTL, PRESIL_MODE_MODEL, PRESIL_MODE_VERIFY};
    for (int i = 0; i < 9; i++) {
        presil_device *d = open_with(modes[i % 3], i < 3 ? "soft" : "nomap", i >= 6);
        const matmul_buffers m = matmul_alloc(d, 3);
        presil_daddr wide;
        static uint8_t bytes[BYTES];
        float want[MATMUL_N * MATMUL_N];
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        matmul_check(d, &m, 3);
        EXPECT_OK(presil_copy_to_host(d, NULL, want, m.out, sizeof want, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &wide));
        fill(d, wide, bytes, 0x5a);
        const presil_matmul_desc desc = into_slice(&m, wide);
        EXPECT_OK(presil_matmul(d, NULL, &desc));
        EXPECT_OK(presil_copy_to_host(d, NULL, bytes, wide, BYTES, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_device_synchronize(d));
        for (int b = 0; b < BYTES; b++) {
            const int column = b / 4 % ROW - SLICE, row = b / 4 / ROW;
            const uint8_t expected =
                column < 0 || column >= MATMUL_N ? 0x5a : ((const uint8_t *)&want[row * MATMUL_N + column])[b % 4];
            if (bytes[b] != expected) fail_msg("%d: byte %d is %02x, %02x expected", i, b, bytes[b], expected);
        }
        presil_device_close(d);
    }
}

static struct {
    uint64_t rows, bytes, lowest, apart;
} told;

static int on_begin(void *context, const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    (void)context;
    (void)reads;
    memset(&told, 0, sizeof told);
    told.rows = launch->may_write_count;
    for (uint64_t i = 0; i < launch->may_write_count; i++) told.bytes += launch->may_write[i].bytes;
    if (told.rows) told.lowest = launch->may_write[0].base.value;
    if (told.rows > 1) told.apart = launch->may_write[1].base.value - told.lowest;
    return 0;
}

static const char *on_end(void *context, const presil_capture_launch *launch, const presil_report *report,
                          const presil_capture_bytes *writes) {
    (void)context;
    (void)launch;
    (void)report;
    (void)writes;
    return NULL;
}

static void captured_by_rows(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    const presil_capture_ops ops = {.size = sizeof ops, .begin = on_begin, .end = on_end};
    const matmul_buffers m = matmul_alloc(d, 3);
    presil_daddr wide;
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &wide));
    EXPECT_OK(presil_set_capture(d, &ops, NULL));
    const presil_matmul_desc desc = into_slice(&m, wide);
    for (int i = 0; i < 3; i++) { /* with gaps, without, and again */
        if (i == 1)
            EXPECT_OK(matmul_enqueue(d, NULL, &m));
        else
            EXPECT_OK(presil_matmul(d, NULL, &desc));
        EXPECT_OK(presil_device_synchronize(d));
        assert_int_equal(told.rows, i == 1 ? 1 : MATMUL_N);
        assert_int_equal(told.bytes, MATMUL_N * MATMUL_N * 4);
        assert_int_equal(told.lowest, i == 1 ? m.out.value : wide.value + SLICE * 4);
        assert_int_equal(told.apart, i == 1 ? 0 : ROW * 4);
    }
    EXPECT_OK(presil_set_capture(d, NULL, NULL));
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(hulls), cmocka_unit_test(rows_one_after_the_other),
                                       cmocka_unit_test(gaps_stay), cmocka_unit_test(captured_by_rows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
