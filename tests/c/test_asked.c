/* SPDX-License-Identifier: Apache-2.0 */
/* What was asked of the chip, in bundles: presil_bundle_asked. */
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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_was_asked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
