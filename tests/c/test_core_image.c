/* SPDX-License-Identifier: Apache-2.0 */
/* Lists as bytes: saved from one place, loaded at another, the same results; damaged or stray commands are refused. */
#include <stdlib.h>
#include "core_fixture.h"
#include "presil_debug.h"
#include "presil_image.h"

enum { ARENA = 64 << 10, STEP = 4096 };

/* Two products in one block: out2 = (a · b) · b', with out of the first in fp32 at STEP·3. */
static presil_list *record(presil_device *d, presil_daddr arena, const matmul_buffers *from) {
    const presil_daddr at[5] = {
        arena, {arena.value + STEP}, {arena.value + 2 * STEP}, {arena.value + 3 * STEP}, {arena.value + 4 * STEP}};
    presil_matmul_desc one = matmul_desc(from), two;
    EXPECT_OK(presil_copy_on_device(d, NULL, at[0], from->a, STEP / 32, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_copy_on_device(d, NULL, at[1], from->b, STEP / 32, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
    one.a.data = at[0];
    one.b.data = at[1];
    one.out.data = at[2];
    two = one;
    two.a = one.out;
    two.out.data = at[3];
    presil_list *list;
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(presil_matmul(d, NULL, &one));
    EXPECT_OK(presil_matmul(d, NULL, &two));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    EXPECT_OK(presil_list_merge(list, "both"));
    return list;
}

static void result(presil_device *d, presil_list *list, presil_daddr arena, float out[64]) {
    EXPECT_OK(presil_list_submit(list, NULL));
    EXPECT_OK(presil_copy_to_host(d, NULL, out, (presil_daddr){arena.value + 3 * STEP}, 64 * sizeof(float),
                                  PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
}

static uint8_t *save(presil_list *list, presil_daddr arena, uint64_t *size) {
    EXPECT_OK(presil_list_save(list, arena, NULL, size));
    uint8_t *bytes = malloc(*size);
    const uint64_t need = *size;
    *size = need - 1;
    EXPECT_STATUS(presil_list_save(list, arena, bytes, size), PRESIL_EINVAL);
    *size = need;
    EXPECT_OK(presil_list_save(list, arena, bytes, size));
    assert_int_equal(*size, need);
    return bytes;
}

static void elsewhere_the_same(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_VERIFY, "soft");
    matmul_buffers m = matmul_alloc(d, 3);
    presil_daddr first, gap, second;
    EXPECT_OK(presil_alloc(d, NULL, NULL, ARENA, &first));
    EXPECT_OK(presil_alloc(d, NULL, NULL, 3 * STEP, &gap));
    EXPECT_OK(presil_alloc(d, NULL, NULL, ARENA, &second));
    presil_list *list = record(d, first, &m), *loaded;
    uint64_t size;
    uint8_t *bytes = save(list, first, &size);
    float want[64], got[64];
    result(d, list, first, want);
    EXPECT_OK(presil_copy_on_device(d, NULL, second, first, 2 * STEP, PRESIL_COPY_DIRECT));
    reports_begin(d);
    EXPECT_OK(presil_list_load(d, bytes, size, second, ARENA, &loaded));
    result(d, loaded, second, got);
    assert_memory_equal(want, got, sizeof want);
    assert_true(want[0] != 0);
    assert_int_equal(report_count, 1);
    assert_int_equal(reports[0].verified, 1);
    assert_string_equal(reports[0].label, "both");
    assert_int_equal(reports[0].macs, 2 * 8 * 8 * 8);
    presil_list_destroy(loaded);
    presil_list_destroy(list);
    free(bytes);
    EXPECT_OK(presil_free(d, first));
    EXPECT_OK(presil_free(d, gap));
    EXPECT_OK(presil_free(d, second));
    matmul_free(d, m);
    presil_device_close(d);
    assert_string_equal(log_text(), "");
}

static void what_is_wrong_is_refused(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    matmul_buffers m = matmul_alloc(d, 4);
    presil_daddr arena;
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_alloc(d, NULL, NULL, ARENA, &arena));
    presil_list *list = record(d, arena, &m), *loaded = NULL;
    uint64_t size, seed = 7;
    uint8_t *bytes = save(list, arena, &size);
    EXPECT_STATUS(presil_list_load(d, bytes, size, arena, 3 * STEP, &loaded),
                  PRESIL_EINVAL); /* the last store lies beyond */
    EXPECT_TEXT("outside of the program's memory");
    EXPECT_STATUS(presil_list_load(d, bytes, size, (presil_daddr){arena.value + 64}, STEP, &loaded), PRESIL_EINVAL);
    EXPECT_TEXT("aligned");
    for (uint64_t cut = 0; cut < size; cut += cut < 256 ? 1 : 1021)
        assert_true(presil_list_load(d, bytes, cut, arena, ARENA, &loaded) < 0);
    bytes[8 + 8 + 8] ^= 1; /* the hash of the configuration */
    EXPECT_STATUS(presil_list_load(d, bytes, size, arena, ARENA, &loaded), PRESIL_ENODEV);
    EXPECT_TEXT("another chip");
    bytes[8 + 8 + 8] ^= 1;
    unsigned refused = 0, run = 0;
    for (int i = 0; i < 3000; i++) { /* whatever one byte says: refused, or it stays inside and ends */
        const uint64_t at = (((uint64_t)random32(&seed) << 16) ^ random32(&seed)) % size;
        const uint8_t old = bytes[at];
        bytes[at] = (uint8_t)random32(&seed);
        if ((i & 1 ? presil_list_load_refused : presil_list_load)(d, bytes, size, arena, ARENA, &loaded)) {
            refused++;
        } else {
            if (!presil_list_submit(loaded, NULL)) run += !presil_device_synchronize(d);
            presil_list_destroy(loaded);
        }
        bytes[at] = old;
    }
    assert_true(refused > 300 && run > 300);
    matmul_check(d, &m, 4); /* nothing outside was touched */
    presil_list_destroy(list);
    free(bytes);
    EXPECT_OK(presil_free(d, arena));
    matmul_free(d, m);
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(elsewhere_the_same),
                                       cmocka_unit_test(what_is_wrong_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
