/* SPDX-License-Identifier: Apache-2.0 */
/* Mode VERIFY: equal when equal, in place, over overlapping views; and every kind of difference is seen where it is. */
#include <inttypes.h>
#include <stdio.h>
#include "core_fixture.h"

static presil_device *open_verify(bool map) {
    presil_device *d = open_device(PRESIL_MODE_VERIFY, map ? "soft" : "nomap");
    EXPECT_OK(presil_device_start(d));
    reports_begin(d);
    return d;
}

static void plant(presil_device *d, const char *kind, presil_daddr address) {
    char text[64];
    (void)snprintf(text, sizeof text, "%s@0x%" PRIx64, kind, address.value);
    EXPECT_OK(presil_inject(d, text));
}

static void equal_again_and_again(void **state) {
    (void)state;
    for (int map = 0; map < 2; map++) {
        presil_device *d = open_verify(map);
        for (unsigned i = 0; i < 10; i++) { /* the same block with other contents: the view follows */
            matmul_buffers m = matmul_alloc(d, i);
            EXPECT_OK(matmul_enqueue(d, NULL, &m));
            matmul_check(d, &m, i);
            matmul_free(d, m);
            assert_int_equal(reports[i].verified, 1);
            assert_string_equal(reports[i].difference, "");
        }
        presil_device_close(d);
    }
}

/* out = a·b + out, three times: each launch has to start from what the one before left. */
static void in_place_residual(void **state) {
    (void)state;
    for (int map = 0; map < 2; map++) {
        presil_device *d = open_verify(map);
        matmul_buffers m = matmul_alloc(d, 3);
        float out[3][MATMUL_N * MATMUL_N] = {{0}};
        EXPECT_OK(presil_copy_to_device(d, NULL, m.out, out[0], sizeof out[0], PRESIL_COPY_DIRECT));
        presil_matmul_desc desc = matmul_desc(&m);
        const presil_tensor residual = desc.out;
        desc.epilogue.residual = &residual;
        for (int i = 0; i < 3; i++) {
            EXPECT_OK(presil_matmul(d, NULL, &desc));
            EXPECT_OK(presil_copy_to_host(d, NULL, out[i], m.out, sizeof out[i], PRESIL_COPY_DIRECT));
        }
        EXPECT_OK(presil_device_synchronize(d));
        for (int i = 0; i < MATMUL_N * MATMUL_N; i++) {
            assert_true(out[1][i] == 2 * out[0][i]);
            assert_true(out[2][i] == 3 * out[0][i]);
        }
        for (size_t i = 0; i < 3; i++) assert_int_equal(reports[i].verified, 1);
        matmul_free(d, m);
        presil_device_close(d);
    }
}

/* The output lies within the first operand's block, and the model runs first: both start from the same bytes. */
static void overlapping_views(void **state) {
    (void)state;
    presil_device *d = open_verify(true);
    matmul_buffers m = matmul_alloc(d, 4), over = m;
    over.out.value = m.a.value + 4; /* fp32 over the bf16 operand */
    EXPECT_OK(matmul_enqueue(d, NULL, &over));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(reports[0].verified, 1);
    matmul_free(d, m);
    presil_device_close(d);
}

static void differences_are_found(void **state) {
    (void)state;
    for (int map = 0; map < 2; map++) {
        presil_device *d = open_verify(map);
        matmul_buffers m = matmul_alloc(d, 5);
        presil_daddr far_away;
        EXPECT_OK(presil_alloc(d, NULL, NULL, 4096, &far_away));

        /* A wrong bit in out[2, 3]. */
        plant(d, "flip", (presil_daddr){m.out.value + (2 * MATMUL_N + 3) * sizeof(float)});
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EMISMATCH);
        assert_int_equal(reports[0].verified, 0);
        print_message("%s\n", reports[0].difference);
        assert_non_null(strstr(reports[0].difference, "2, 3"));
        assert_non_null(strstr(reports[0].difference, "1 bytes differ"));
        const uint64_t wrong = m.out.value + (2 * MATMUL_N + 3) * sizeof(float);
        assert_int_equal(reports[0].difference_address, wrong);
        assert_int_equal(reports[0].differing_bytes, 1);
        assert_int_equal(reports[0].difference_found ^ reports[0].difference_expected, 0x10);
        assert_true(reports[0].difference_cycle >= 10 && reports[0].difference_cycle < 1000); /* soft_transport.c */
        char when[48];
        (void)snprintf(when, sizeof when, "written in cycle %" PRIu64, reports[0].difference_cycle);
        assert_non_null(strstr(reports[0].difference, when));

        /* A byte outside the output, changed. */
        plant(d, "stray", far_away);
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EMISMATCH);
        assert_non_null(strstr(reports[1].difference, "stray write"));
        assert_non_null(strstr(reports[1].difference, "outside every output"));
        assert_int_equal(reports[1].difference_address, far_away.value);
        assert_int_equal(reports[1].stray_bytes, 1);

        /* A byte just behind the output, in a page that the model has written too. */
        plant(d, "stray", (presil_daddr){m.out.value + MATMUL_N * MATMUL_N * sizeof(float)});
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EMISMATCH);
        assert_non_null(strstr(reports[2].difference, "stray write"));

        /* A range that the chip never wrote. */
        EXPECT_OK(presil_inject(d, "skip"));
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EMISMATCH);
        assert_int_equal(reports[3].verified, 0);
        assert_true(reports[3].missing_bytes > 0);
        assert_true(reports[3].difference_cycle == UINT64_MAX); /* it has no time of its own */

        /* And nothing of it stays behind. */
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        matmul_check(d, &m, 5);
        assert_int_equal(reports[4].verified, 1);
        assert_int_equal(reports[4].difference_address, 0);
        assert_true(reports[4].difference_cycle == UINT64_MAX);
        EXPECT_OK(presil_free(d, far_away));
        matmul_free(d, m);
        presil_device_close(d);
    }
}

/* The view keeps pace with modes that write without it. */
static void other_modes_in_between(void **state) {
    (void)state;
    presil_device *d = open_verify(true);
    matmul_buffers m = matmul_alloc(d, 6);
    presil_matmul_desc desc = matmul_desc(&m);
    const presil_tensor residual = desc.out;
    desc.epilogue.residual = &residual;
    float out[MATMUL_N * MATMUL_N] = {0};
    EXPECT_OK(presil_copy_to_device(d, NULL, m.out, out, sizeof out, PRESIL_COPY_DIRECT));
    const presil_mode order[] = {PRESIL_MODE_VERIFY, PRESIL_MODE_MODEL, PRESIL_MODE_VERIFY, PRESIL_MODE_RTL,
                                 PRESIL_MODE_VERIFY};
    for (size_t i = 0; i < 5; i++) {
        EXPECT_OK(presil_device_set_mode(d, order[i]));
        EXPECT_OK(presil_matmul(d, NULL, &desc));
        EXPECT_OK(presil_device_synchronize(d));
        assert_int_equal(reports[i].verified, order[i] == PRESIL_MODE_VERIFY ? 1 : -1);
    }
    matmul_free(d, m);
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_again_and_again),  cmocka_unit_test(in_place_residual),
        cmocka_unit_test(overlapping_views),      cmocka_unit_test(differences_are_found),
        cmocka_unit_test(other_modes_in_between),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
