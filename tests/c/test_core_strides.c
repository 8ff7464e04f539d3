/* SPDX-License-Identifier: Apache-2.0 */
/* Strides, sizes and addresses that a descriptor's field may not hold: computed right, or refused with a text; never
 * something else. */
#include <stdlib.h>
#include "core_fixture.h"

enum { K = 128, N = 64 };

static presil_device *open_large(const char *config, uint64_t gib) {
    const presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_MODEL, .config = config, .memory_bytes = gib << 30};
    presil_device *d = NULL;
    EXPECT_OK(presil_device_open(&options, &d));
    return d;
}

static presil_tensor matrix(presil_daddr data, int64_t rows, int64_t columns, int64_t row_stride,
                            int64_t column_stride) {
    return (presil_tensor){.data = data,
                           .dtype = PRESIL_FP32,
                           .ndim = 3,
                           .shape = {1, rows, columns},
                           .stride = {0, row_stride, column_stride}};
}

static float *floats(presil_device *d, presil_daddr at, uint64_t count) {
    float *p = presil_host_pointer(d, at, count * sizeof *p);
    assert_non_null(p);
    return p;
}

/* ones [1, K] times rows of k + 1, `stride` elements apart: K (K + 1) / 2 everywhere. by_columns: b as a column-major
 * matrix, whose columns are so far apart. */
static int product(presil_device *d, int64_t stride, bool by_columns, presil_compute compute, float out[N]) {
    presil_daddr a, b, o;
    const int64_t far = by_columns ? N : K, near = by_columns ? K : N;
    EXPECT_OK(presil_alloc(d, NULL, NULL, K * sizeof(float), &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, (uint64_t)((far - 1) * stride + near) * sizeof(float), &b));
    EXPECT_OK(presil_alloc(d, NULL, NULL, N * sizeof(float), &o));
    for (int k = 0; k < K; k++) floats(d, a, K)[k] = 1;
    for (int64_t i = 0; i < far; i++) {
        float *line = floats(d, (presil_daddr){b.value + (uint64_t)(i * stride) * sizeof(float)}, (uint64_t)near);
        for (int64_t k = 0; k < near; k++) line[k] = (float)((by_columns ? k : i) + 1);
    }
    memset(floats(d, o, N), 0, N * sizeof(float));
    const presil_matmul_desc m = {.size = sizeof m,
                                  .compute = compute,
                                  .a = matrix(a, 1, K, K, 1),
                                  .b = matrix(b, K, N, by_columns ? 1 : stride, by_columns ? stride : 1),
                                  .out = matrix(o, 1, N, N, 1)};
    const int status = presil_matmul(d, NULL, &m);
    if (!status) EXPECT_OK(presil_device_synchronize(d));
    memcpy(out, floats(d, o, N), N * sizeof(float));
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, b));
    EXPECT_OK(presil_free(d, o));
    presil_memory_empty_cache(d);
    return status;
}

/* A block of 32 rows that are 68 MiB apart is 2.1 GiB: more than the 31 bits of a stride of LOAD. */
static void strides_of_weights(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "odd", "base", "wide"};
    for (int c = 0; c < 4; c++) {
        presil_device *d = open_large(configs[c], 64);
        for (int64_t stride = 1 << 20; stride < 1 << 27; stride = stride * 2 + 17) {
            for (int by_columns = 0; by_columns < 2; by_columns++) {
                float out[N];
                const int status =
                    product(d, stride, by_columns, c % 2 ? PRESIL_COMPUTE_BF16 : PRESIL_COMPUTE_FP32, out);
                if (status) fail_msg("%s, stride %lld: %s", configs[c], (long long)stride, presil_error_text());
                for (int i = 0; i < N; i++) {
                    if (out[i] != K * (K + 1) / 2)
                        fail_msg("%s, stride %lld, by columns %d: out[%d] is %g", configs[c], (long long)stride,
                                 by_columns, i, (double)out[i]);
                }
            }
        }
        presil_device_close(d);
    }
}

/* Strides of 2 GiB and a little more, and of 3.9 GiB: beyond 31 and 32 bits of bytes. */
static void strides_of_gigabytes(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "base"};
    static const int64_t strides[] = {1 << 29, (1 << 29) + 1, 1045000003};
    for (int c = 0; c < 2; c++) {
        presil_device *d = open_large(configs[c], 600);
        for (int i = 0; i < 6; i++) {
            float out[N];
            if (product(d, strides[i / 2], i % 2, PRESIL_COMPUTE_FP32, out))
                fail_msg("%s, stride %lld: %s", configs[c], (long long)strides[i / 2], presil_error_text());
            for (int n = 0; n < N; n++) assert_true(out[n] == K * (K + 1) / 2);
        }
        presil_device_close(d);
    }
}

static int repeated(presil_device *d, int64_t m, int64_t k, int64_t n, int64_t batch_stride, float *first) {
    presil_daddr a, o;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 1 << 20, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, 1 << 20, &o));
    floats(d, a, 1)[0] = 1;
    floats(d, o, 1)[0] = -1;
    presil_matmul_desc desc = {.size = sizeof desc,
                               .compute = PRESIL_COMPUTE_BF16,
                               .a = matrix(a, m, k, 0, 0),
                               .b = matrix(a, k, n, 0, 0),
                               .out = matrix(o, m, n, n, 1)};
    if (batch_stride) {
        desc.a.shape[0] = desc.b.shape[0] = desc.out.shape[0] = 5;
        desc.a.stride[0] = batch_stride;
        desc.out.stride[0] = m * n;
    }
    const int status = presil_matmul(d, NULL, &desc);
    if (!status) EXPECT_OK(presil_device_synchronize(d));
    *first = floats(d, o, 1)[0];
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, o));
    return status;
}

/* One element, read again and again: sizes have no memory behind them that would bound them. */
static void sizes_beyond_a_count(void **state) {
    (void)state;
    presil_device *d = open_large("base", 1);
    float first;
    EXPECT_OK(repeated(d, 1, 4096, 1, 0, &first));
    assert_true(first == 4096);
    for (int shift = 31; shift < 62; shift++) {
        EXPECT_STATUS(repeated(d, 1, (int64_t)1 << shift, 1, 0, &first), PRESIL_EUNSUPPORTED);
        assert_true(first == -1);
    }
    /* 4 times 2^62 bytes is 2^64, and 0. */
    EXPECT_STATUS(repeated(d, 1, 1, 1, (int64_t)1 << 60, &first), PRESIL_EINVAL);
    EXPECT_TEXT("not in device memory");
    EXPECT_STATUS(repeated(d, 1, 1, 1, INT64_MIN, &first), PRESIL_EINVAL);
    EXPECT_TEXT("not in device memory");
    presil_device_close(d);
}

/* The one size that is refused: what is summed in an accumulator is one launch. */
static void sums_beyond_a_launch(void **state) {
    (void)state;
    presil_device *d = open_large("base", 1);
    float first;
    EXPECT_OK(repeated(d, 1, 1 << 20, 1, 0, &first));
    assert_true(first == 1 << 20);
    EXPECT_STATUS(repeated(d, 1, 1 << 27, 1, 0, &first), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("a sum over 134217728 elements needs more than the 65536 commands of a launch");
    EXPECT_STATUS(repeated(d, 300, 1 << 27, 300, 0, &first), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("a sum over 134217728 elements");
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(strides_of_weights), cmocka_unit_test(strides_of_gigabytes),
                                       cmocka_unit_test(sizes_beyond_a_count), cmocka_unit_test(sums_beyond_a_launch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
