/* SPDX-License-Identifier: Apache-2.0 */
/* What was asked of the chip, in bundles: presil_bundle_asked; and what of them is compressed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core_fixture.h"
#include "presil_bundle_capture.h"
#include "presil_image.h"

static const presil_bundle_launch *get_launch(presil_bundle_reader *r, uint64_t number) {
    const presil_bundle_launch *l = NULL;
    assert_int_equal(presil_bundle_get_launch(r, number, &l), 0);
    return l;
}

static int enqueue_in_place(presil_device *d, const matmul_buffers *m) {
    presil_matmul_desc desc = matmul_desc(m);
    const presil_tensor residual = desc.out;
    desc.epilogue.residual = &residual;
    return presil_matmul(d, NULL, &desc);
}

/* The operator is in the file, with its steps; packed weights with the bias that is in them; of several in one launch,
 * and of weights that are others by now, nothing is said. */
static void what_was_asked(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    matmul_buffers m = matmul_alloc(d, 3);
    static const float bias[2] = {1, -2};
    static const uint16_t values[8] = {0x3f80};
    presil_weights_desc w = {.size = sizeof w,
                             .compute = PRESIL_COMPUTE_BF16,
                             .weight = values,
                             .weight_dtype = PRESIL_BF16,
                             .groups = 1,
                             .shape = {2, 4, 1, 1},
                             .stride = {4, 1, 1, 1},
                             .bias = bias};
    presil_weights *weights = NULL;
    presil_list *both = NULL, *one = NULL;
    const presil_tensor image = {
        .data = m.a, .dtype = PRESIL_BF16, .ndim = 4, .shape = {1, 2, 2, 4}, .stride = {16, 8, 4, 1}};
    presil_conv2d_desc conv = {
        .size = sizeof conv, .input = image, .output = image, .stride = {1, 1}, .dilation = {1, 1}};
    conv.output.data = m.out;
    conv.output.shape[3] = 2;
    conv.epilogue = (presil_epilogue){.clamp = 1, .clamp_hi = __builtin_inff()};
    EXPECT_OK(presil_weights_create(d, &w, &weights));
    conv.weights = weights;
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_record_end(d, NULL, &both));
    EXPECT_OK(presil_list_merge(both, "both"));
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(presil_conv2d(d, NULL, &conv));
    EXPECT_OK(presil_record_end(d, NULL, &one));
    char path[] = "/tmp/presil-asked-XXXXXX", error[512] = "";
    const int file = mkstemp(path);
    presil_bundle_capture *c = NULL;
    presil_bundle_reader *r = NULL;
    const presil_bundle_capture_options options = {.size = sizeof options, .overwrite = 1};
    assert_true(file >= 0 && !close(file));
    assert_int_equal(presil_bundle_capture_open(d, path, &options, &c, error, sizeof error), 0);
    EXPECT_OK(enqueue_in_place(d, &m));
    EXPECT_OK(presil_list_submit(both, NULL));
    EXPECT_OK(presil_list_submit(one, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    EXPECT_OK(presil_weights_update(weights, &w));
    EXPECT_OK(presil_list_submit(one, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(presil_bundle_capture_close(c, NULL, error, sizeof error), 0);
    assert_int_equal(presil_bundle_open(path, NULL, &r), 0);
    const presil_bundle_launch *l = get_launch(r, 0);
    assert_string_equal(l->asked.kind, "matmul");
    assert_int_equal(l->asked.input_count, 3);
    assert_string_equal(l->asked.inputs[2].name, "residual");
    assert_string_equal(l->asked.steps[0].kind, "add");
    assert_int_equal(l->asked.steps[0].input, 2);
    presil_bundle_free(l);
    l = get_launch(r, 2);
    assert_string_equal(l->asked.kind, "conv");
    assert_int_equal(l->asked.inputs[0].packed, 0);
    assert_int_equal(l->asked.inputs[1].packed, 1);
    assert_int_equal(l->asked.bias_bytes, sizeof bias);
    assert_memory_equal(l->asked.bias, bias, sizeof bias);
    assert_string_equal(l->asked.steps[0].kind, "clamp");
    assert_int_equal(l->asked.steps[0].high_bits, 0x7f800000);
    presil_bundle_free(l);
    for (uint64_t other = 1; other < 4; other += 2) {
        l = get_launch(r, other);
        assert_int_equal(l->asked.present, 0);
        presil_bundle_free(l);
    }
    presil_bundle_reader_close(r);
    (void)unlink(path);
    presil_list_destroy(both);
    presil_list_destroy(one);
    presil_weights_destroy(weights);
    matmul_free(d, m);
    presil_device_close(d);
}

/* ---- a launch that hardly computes is not worth compressing: it would take longer than the launch */
enum { DEPTH = 1024, COLUMNS = 512 };

static void sizes(const char *path, uint64_t *raw, uint64_t *stored) {
    presil_bundle_reader *r = NULL;
    presil_bundle_summary s = {.size = sizeof s};
    *raw = *stored = 0;
    assert_int_equal(presil_bundle_open(path, NULL, &r), 0);
    assert_int_equal(presil_bundle_get_summary(r, &s), 0);
    for (uint64_t i = 0; i < s.records; i++) {
        presil_bundle_record record = {.size = sizeof record};
        assert_int_equal(presil_bundle_get_record(r, i, &record), 0);
        if (record.type != PRESIL_BUNDLE_BLOCK || record.raw_bytes != PRESIL_BUNDLE_PIECE) continue;
        *raw += record.raw_bytes;
        *stored += record.stored_bytes;
    }
    presil_bundle_reader_close(r);
}

static void what_is_compressed(void **state) {
    (void)state;
    const presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_MODEL, .config = "base", .memory_bytes = 64u << 20};
    presil_device *d = NULL;
    presil_daddr a, b, out;
    char path[] = "/tmp/presil-asked-XXXXXX", error[512] = "";
    const int file = mkstemp(path);
    assert_true(file >= 0 && !close(file));
    EXPECT_OK(presil_device_open(&options, &d));
    EXPECT_OK(presil_alloc(d, NULL, NULL, DEPTH * DEPTH * 2, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, DEPTH * COLUMNS * 2, &b));
    EXPECT_OK(presil_alloc(d, NULL, NULL, DEPTH * COLUMNS * 4, &out));
    uint8_t *to = presil_host_pointer(d, b, DEPTH * COLUMNS * 2);
    for (uint32_t i = 0; i < DEPTH * COLUMNS * 2; i++) to[i] = i % 7 ? 0 : (uint8_t)(i % 11);
    for (int64_t rows = 1; rows <= DEPTH; rows += DEPTH - 1) {
        const presil_matmul_desc m = {
            .size = sizeof m,
            .compute = PRESIL_COMPUTE_BF16,
            .a = {.data = a, .dtype = PRESIL_BF16, .ndim = 3, .shape = {1, rows, DEPTH}, .stride = {0, DEPTH, 1}},
            .b = {.data = b, .dtype = PRESIL_BF16, .ndim = 3, .shape = {1, DEPTH, COLUMNS}, .stride = {0, COLUMNS, 1}},
            .out = {
                .data = out, .dtype = PRESIL_FP32, .ndim = 3, .shape = {1, rows, COLUMNS}, .stride = {0, COLUMNS, 1}}};
        presil_bundle_capture *c = NULL;
        const presil_bundle_capture_options how = {.size = sizeof how, .overwrite = 1};
        assert_int_equal(presil_bundle_capture_open(d, path, &how, &c, error, sizeof error), 0);
        EXPECT_OK(presil_matmul(d, NULL, &m));
        EXPECT_OK(presil_device_synchronize(d));
        assert_int_equal(presil_bundle_capture_close(c, NULL, error, sizeof error), 0);
        uint64_t raw, stored;
        sizes(path, &raw, &stored);
        assert_true(raw >= DEPTH * COLUMNS * 2 - 2 * PRESIL_BUNDLE_PIECE);
        if (rows == 1)
            assert_int_equal(stored, raw);
        else
            assert_in_range(stored, 1, raw / 2);
    }
    (void)unlink(path);
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, b));
    EXPECT_OK(presil_free(d, out));
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_asked), cmocka_unit_test(what_is_compressed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
