/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded lists moved to other operands: their results, their kept operators, and what is refused. */
#include "core_fixture.h"

enum { HALF = MATMUL_N * MATMUL_N * 2, SINGLE = MATMUL_N * MATMUL_N * 4 };

static presil_list *record(presil_device *d, const matmul_buffers *m, int times) {
    presil_list *list = NULL;
    EXPECT_OK(presil_record_begin(d, NULL));
    for (int i = 0; i < times; i++) EXPECT_OK(matmul_enqueue(d, NULL, m));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    return list;
}

/* Of an operator alone what it computes is known, so mode VERIFY can compare it wherever it is; merged too. The list
 * that was moved may go before. */
static void to_other_operands(void **state) {
    (void)state;
    for (int times = 1; times <= 2; times++) {
        presil_device *d = open_device(PRESIL_MODE_VERIFY, "soft");
        const matmul_buffers from = matmul_alloc(d, 3), to = matmul_alloc(d, 5);
        presil_list *list = record(d, &from, times), *moved = NULL, *same = NULL;
        if (times > 1) EXPECT_OK(presil_list_merge(list, "both"));
        const presil_move moves[] = {
            {from.out, to.out, SINGLE}, {from.a, to.a, HALF}, {from.b, to.b, HALF}, {from.b, to.b, HALF / 2}};
        reports_begin(d);
        EXPECT_OK(presil_list_moved(list, moves, 4, &moved));
        EXPECT_OK(presil_list_moved(list, NULL, 0, &same));
        EXPECT_OK(presil_list_submit(list, NULL));
        matmul_check(d, &from, 3);
        presil_list_destroy(list);
        EXPECT_OK(presil_list_submit(moved, NULL));
        EXPECT_OK(presil_list_submit(same, NULL));
        matmul_check(d, &to, 5);
        assert_int_equal(report_count, 3);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(reports[i].verified, 1);
            assert_int_equal(reports[i].cycles, reports[0].cycles);
            assert_int_equal(reports[i].macs, reports[0].macs);
        }
        assert_string_equal(reports[1].label, times > 1 ? "both" : "matmul");
        presil_list_destroy(moved);
        presil_list_destroy(same);
        matmul_free(d, from);
        matmul_free(d, to);
        presil_device_close(d);
        assert_string_equal(log_text(), "");
    }
}

static void what_is_wrong_is_refused(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    const matmul_buffers from = matmul_alloc(d, 3), to = matmul_alloc(d, 5);
    presil_list *list = record(d, &from, 1), *moved = NULL;
    const presil_move apart[] = {{from.a, to.a, HALF}, {{from.a.value + 64}, {to.b.value + 64}, 64}},
                      askew[] = {{from.a, {to.a.value + 64}, HALF}}, nowhere[] = {{from.a, {1ull << 45}, HALF}},
                      nothing[] = {{from.a, {to.a.value + 64}, 0}};
    EXPECT_STATUS(presil_list_moved(NULL, apart, 1, &moved), PRESIL_EINVAL);
    EXPECT_STATUS(presil_list_moved(list, NULL, 1, &moved), PRESIL_EINVAL);
    EXPECT_STATUS(presil_list_moved(list, apart, 1, NULL), PRESIL_EINVAL);
    EXPECT_STATUS(presil_list_moved(list, apart, 2, &moved), PRESIL_EINVAL);
    EXPECT_TEXT("shares bytes, and is to part");
    EXPECT_STATUS(presil_list_moved(list, askew, 1, &moved), PRESIL_EINVAL);
    EXPECT_TEXT("no multiple of 4096");
    EXPECT_STATUS(presil_list_moved(list, nowhere, 1, &moved), PRESIL_EINVAL);
    EXPECT_TEXT("not all device memory");
    assert_null(moved);
    EXPECT_OK(presil_list_moved(list, nothing, 1, &moved));
    EXPECT_OK(presil_list_submit(moved, NULL));
    matmul_check(d, &from, 3);
    presil_list_destroy(moved);
    presil_list_destroy(list);
    matmul_free(d, from);
    matmul_free(d, to);
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(to_other_operands), cmocka_unit_test(what_is_wrong_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
