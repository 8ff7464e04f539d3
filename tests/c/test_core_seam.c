/* SPDX-License-Identifier: Apache-2.0 */
/* A transport without each of its functions in turn: what may be missing is done without, what may not is named. */
#include <stdio.h>
#include <stdlib.h>
#include "core_fixture.h"

static void lack(const char *functions) { assert_int_equal(setenv("PRESIL_LACKING", functions, 1), 0); }

static void everything_works(presil_mode mode, const char *lacking) {
    lack(lacking);
    presil_device *d = open_device(mode, "lacking");
    matmul_buffers m = matmul_alloc(d, 5);
    presil_event *end;
    uint64_t cycles = 0;
    EXPECT_OK(presil_event_create(d, &end));
    reports_begin(d);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_event_record(end, NULL));
    matmul_check(d, &m, 5);
    const bool clocked = !strstr(lacking, "cycles");
    assert_int_equal(presil_event_cycles(end, &cycles), clocked ? PRESIL_OK : PRESIL_EUNSUPPORTED);
    assert_int_equal(cycles != 0, clocked);
    assert_int_equal(report_count, 1);
    assert_int_equal(reports[0].status, 0);
    assert_int_equal(reports[0].verified, mode == PRESIL_MODE_VERIFY ? 1 : -1);
    presil_event_destroy(end);

    const int model = presil_device_set_memory_model(d, "ideal", 1), fault = presil_inject(d, "slverr");
    const bool tail = strstr(lacking, "short") != NULL;
    assert_int_equal(model, tail || strstr(lacking, "set_memory_model") ? PRESIL_EUNSUPPORTED : PRESIL_OK);
    assert_int_equal(fault, tail || strstr(lacking, "inject") ? PRESIL_EUNSUPPORTED : PRESIL_OK);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(d), fault ? PRESIL_OK : PRESIL_EBUS);
    EXPECT_OK(matmul_enqueue(d, NULL, &m)); /* after recovery */
    matmul_check(d, &m, 5);
    EXPECT_OK(presil_device_reset(d));
    assert_int_equal(presil_device_trace(d, "/tmp/never", 0, 1), PRESIL_EUNSUPPORTED);
    matmul_free(d, m);
    presil_device_close(d);
    assert_string_equal(log_text(), "");
}

static void optional_functions_may_be_missing(void **state) {
    (void)state;
    static const char *const optional[] = {
        "nothing",
        "mem_read,mem_write",
        "sync_for_device",
        "sync_for_host",
        "launch",
        "cycles",
        "trace",
        "bus_fault",
        "set_memory_model",
        "inject",
        "read32_many",
        "write_log,write_log_fetch",
        "wait_then",
        "short",
        "mem_read,mem_write,sync_for_device,sync_for_host,launch,cycles,trace,bus_fault,set_memory_model,inject,"
        "read32_many,write_log,write_log_fetch,wait_then"};
    for (size_t i = 0; i < sizeof optional / sizeof *optional; i++) {
        everything_works(PRESIL_MODE_RTL, optional[i]);
        everything_works(PRESIL_MODE_VERIFY, optional[i]);
    }
}

static void refused(const char *lacking, const char *text, bool no_map) {
    const presil_device_options options = {.size = sizeof options,
                                           .mode = PRESIL_MODE_RTL,
                                           .config = "tiny",
                                           .build = "lacking",
                                           .memory_bytes = 64u << 20,
                                           .no_map = no_map};
    presil_device *d;
    lack(lacking);
    assert_int_equal(start_device(&options, &d), PRESIL_ENODEV);
    EXPECT_TEXT(text);
    presil_device_close(d);
}

static void required_functions_are_named(void **state) {
    (void)state;
    static const char *const required[] = {"open",    "close",  "info", "last_error", "read32",
                                           "write32", "region", "wait", "reset"};
    char text[64];
    for (size_t i = 0; i < sizeof required / sizeof *required; i++) {
        (void)snprintf(text, sizeof text, "has no %s()", required[i]);
        refused(required[i], text, false);
    }
    refused("mem_read", "has no mem_read()", false);
    refused("write_log_fetch", "has no write_log_fetch()", false);
    refused("mem_read,mem_write", "mapped memory", true);
}

static void promises_are_held(void **state) {
    (void)state;
    refused("promised,cycles", "has no cycles(), which its capabilities", false);
    refused("promised,write_log,write_log_fetch", "has no write_log(), which its capabilities", false);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(optional_functions_may_be_missing),
                                       cmocka_unit_test(required_functions_are_named),
                                       cmocka_unit_test(promises_are_held)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
