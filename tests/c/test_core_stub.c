/* SPDX-License-Identifier: Apache-2.0 */
/* The second chip, on its RTL: another programming model (polled, no ring, no model in C) behind the same core. */
#include <stdlib.h>
#include "core_fixture.h"

enum { BYTES = 16384 };

static presil_device *open_stub(const char *build) {
    const presil_device_options options = {.size = sizeof options,
                                           .mode = PRESIL_MODE_RTL,
                                           .config = "stub",
                                           .build = build,
                                           .memory_bytes = 64u << 20,
                                           .hang_cycles = 5000};
    presil_device *d;
    EXPECT_OK(presil_device_open(&options, &d));
    presil_device_info info = {.size = sizeof info};
    EXPECT_OK(presil_device_get_info(d, &info));
    assert_string_equal(info.chip, "stub");
    assert_int_equal(info.word_bytes, 16);
    assert_int_equal(info.known, PRESIL_INFO_WORD_BYTES | PRESIL_INFO_CLOCK_MHZ);
    return d;
}

static void copy_works(presil_device *d, unsigned seed) {
    static uint8_t from[BYTES], to[BYTES];
    presil_daddr a, b;
    for (int i = 0; i < BYTES; i++) from[i] = (uint8_t)(((unsigned)i * 2654435761u + seed) >> 11);
    memset(to, 0, sizeof to);
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &b));
    EXPECT_OK(presil_copy_to_device(d, NULL, a, from, BYTES, PRESIL_COPY_DMA));
    EXPECT_OK(presil_copy_on_device(d, NULL, b, a, BYTES, PRESIL_COPY_DMA));
    EXPECT_OK(presil_copy_to_host(d, NULL, to, b, BYTES, PRESIL_COPY_DMA));
    EXPECT_OK(presil_device_synchronize(d));
    assert_memory_equal(from, to, BYTES);
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, b));
}

static void copies_and_counts(void **state) {
    (void)state;
    static const char *const builds[] = {"fast", "check"};
    for (int i = 0; i < 2; i++) {
        presil_device *d = open_stub(builds[i]);
        reports_begin(d);
        copy_works(d, 1);
        copy_works(d, 2);
        assert_int_equal(report_count, 6);
        for (size_t r = 0; r < 3; r++) {
            assert_true(reports[r].cycles >= BYTES / 16);
            assert_int_equal(reports[r].cycles, reports[r + 3].cycles); /* the same signature */
            assert_int_equal(reports[r].verified, -1);
            assert_true(reports[r].sim_ns > 0);
        }
        presil_device_close(d);
    }
}

static void refuses_the_rest(void **state) {
    (void)state;
    presil_device *d = open_stub(NULL);
    matmul_buffers m;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 4096, &m.a));
    m.b = m.out = m.a;
    EXPECT_STATUS(matmul_enqueue(d, NULL, &m), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("only copies");
    EXPECT_STATUS(presil_copy_on_device(d, NULL, m.a, (presil_daddr){m.a.value + 8}, 16, PRESIL_COPY_DMA),
                  PRESIL_EUNSUPPORTED);
    EXPECT_STATUS(presil_device_set_mode(d, PRESIL_MODE_MODEL), PRESIL_EUNSUPPORTED);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    EXPECT_OK(presil_free(d, m.a));
    presil_device_close(d);
}

/* A polled chip has no interrupt that could be missed: the watchdog and stops must work all the same. */
static void failures(void **state) {
    (void)state;
    static const struct {
        const char *control;
        int status;
        const char *text;
    } cases[] = {
        {"4", PRESIL_EHUNG, "still busy"},
        {"2", PRESIL_ESTOPPED, "told to fail"},
        {"8", PRESIL_ESTOPPED, ""},
    };
    presil_device *d = open_stub(NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)setenv("PRESIL_STUB_CONTROL", cases[i].control, 1);
        EXPECT_OK(presil_nop(d, NULL));
        EXPECT_STATUS(presil_device_synchronize(d), cases[i].status);
        EXPECT_TEXT(cases[i].text);
        (void)unsetenv("PRESIL_STUB_CONTROL");
        copy_works(d, (unsigned)i);
    }
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(copies_and_counts), cmocka_unit_test(refuses_the_rest),
                                       cmocka_unit_test(failures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
