/* SPDX-License-Identifier: Apache-2.0 */
/* Errors: arguments, failures during a launch and recovery from them, stickiness, cancelling, reset, libraries that are
 * not there. */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
#include "core_fixture.h"

/* After whatever happened: memory intact, and the next launch right. */
static void still_works(presil_device *d, const matmul_buffers *m, unsigned seed) {
    EXPECT_OK(matmul_enqueue(d, NULL, m));
    matmul_check(d, m, seed);
}

static void a_failed_launch_is_reported_and_recovered(void **state) {
    (void)state;
    static const struct {
        const char *fault;
        int status;
        const char *text;
    } cases[] = {
        {"slverr", PRESIL_EBUS, "bus error on a read"},
        {"fatal", PRESIL_ESTOPPED, "$fatal"},
        {"hang", PRESIL_EHUNG, "no progress for 200000 cycles"},
    };
    const presil_mode modes[] = {PRESIL_MODE_RTL, PRESIL_MODE_VERIFY};
    for (size_t mode = 0; mode < 2; mode++) {
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            presil_device *d = open_device(modes[mode], NULL);
            matmul_buffers m = matmul_alloc(d, (unsigned)i);
            reports_begin(d);
            EXPECT_OK(presil_inject(d, cases[i].fault));
            EXPECT_OK(matmul_enqueue(d, NULL, &m));
            EXPECT_STATUS(presil_device_synchronize(d), cases[i].status);
            EXPECT_TEXT(cases[i].text);
            EXPECT_TEXT("matmul");
            EXPECT_OK(presil_device_synchronize(d)); /* was cleared */
            assert_int_equal(reports[0].status, -cases[i].status);
            assert_int_equal(reports[0].verified, -1);
            still_works(d, &m, (unsigned)i);
            assert_int_equal(reports[1].status, 0);
            assert_int_equal(reports[1].verified, modes[mode] == PRESIL_MODE_VERIFY ? 1 : -1);
            matmul_free(d, m);
            presil_device_close(d);
            assert_string_equal(log_text(), "");
        }
    }
}

/* A silent bus is no hang while an engine works: a descriptor of MATRIX may take longer than the watchdog has patience.
 */
static void computing_is_no_hang(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    matmul_buffers m = matmul_alloc(d, 3);
    EXPECT_OK(presil_device_set_watchdog(d, 300));
    EXPECT_OK(presil_inject(d, "silent@1000"));
    still_works(d, &m, 3);
    EXPECT_OK(presil_inject(d, "hang"));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EHUNG);
    EXPECT_TEXT("no progress for 300 cycles");
    still_works(d, &m, 3);
    /* Nor does an engine work for ever: here in 10^9 cycles of an operator of some hundred. */
    EXPECT_OK(presil_inject(d, "silent@1000000000"));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EHUNG);
    EXPECT_TEXT("4 times");
    still_works(d, &m, 3);
    EXPECT_OK(presil_device_set_watchdog(d, 0));
    EXPECT_OK(presil_inject(d, "hang"));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EHUNG);
    EXPECT_TEXT("no progress for 200000 cycles");
    matmul_free(d, m);
    presil_device_close(d);
    (void)setenv("PRESIL_WATCHDOG", "777", 1);
    d = open_device(PRESIL_MODE_RTL, NULL);
    EXPECT_OK(presil_inject(d, "hang"));
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EHUNG);
    EXPECT_TEXT("no progress for 777 cycles");
    presil_device_close(d);
    (void)setenv("PRESIL_WATCHDOG", "-3", 1);
    const presil_device_options options = {.size = sizeof options, .config = "tiny", .memory_bytes = 64u << 20};
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EINVAL);
    EXPECT_TEXT("PRESIL_WATCHDOG=-3");
    (void)unsetenv("PRESIL_WATCHDOG");
}

/* Working for ever is none of the watchdog's, which is silent for as long as an engine works. */
static void a_launch_has_a_time_out(void **state) {
    (void)state;
    int verdict = -1;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    matmul_buffers m = matmul_alloc(d, 3);
    EXPECT_OK(presil_device_set_watchdog(d, 300));
    for (int i = 0; i < 2; i++) { /* before the watchdog looks, and behind it */
        EXPECT_OK(presil_device_set_timeout(d, i ? 900 : 250));
        EXPECT_OK(presil_inject(d, "silent@1000"));
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EHUNG);
        EXPECT_TEXT(i ? "time-out: not done after 900 cycles, at most 900 expected: "
                      : "time-out: not done after 250 cycles, at most 250 expected: ");
        EXPECT_OK(presil_device_last_hang(d, NULL, 0, NULL, &verdict));
        assert_int_equal(verdict, PRESIL_TIMED_OUT);
        still_works(d, &m, 3);
    }
    for (int i = 0; i < 2; i++) { /* time enough, and none */
        EXPECT_OK(presil_device_set_timeout(d, i ? 0 : 5000));
        EXPECT_OK(presil_inject(d, "silent@1000"));
        still_works(d, &m, 3);
    }
    matmul_free(d, m);
    presil_device_close(d);
    (void)setenv("PRESIL_TIMEOUT_CYCLES", "777", 1);
    d = open_device(PRESIL_MODE_RTL, NULL);
    EXPECT_OK(presil_inject(d, "hang"));
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EHUNG);
    EXPECT_TEXT("after 777 cycles, at most 777 expected");
    presil_device_close(d);
    (void)setenv("PRESIL_TIMEOUT_CYCLES", "1e6", 1);
    const presil_device_options options = {.size = sizeof options, .config = "tiny", .memory_bytes = 64u << 20};
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EINVAL);
    EXPECT_TEXT("PRESIL_TIMEOUT_CYCLES=1e6");
    (void)unsetenv("PRESIL_TIMEOUT_CYCLES");
}

/* docs/isa.md section 1: after a queue reset of a busy chip STATUS.busy is waited for. */
static void a_reset_waits_until_the_bus_is_drained(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    matmul_buffers m = matmul_alloc(d, 4);
    EXPECT_OK(presil_inject(d, "drain@20"));
    EXPECT_OK(presil_device_reset(d));
    EXPECT_OK(presil_inject(d, "drain@1000000000"));
    EXPECT_STATUS(presil_device_reset(d), PRESIL_EDEAD);
    EXPECT_TEXT("not idle after a queue reset");
    EXPECT_OK(presil_inject(d, NULL));
    EXPECT_OK(presil_device_reset(d));
    still_works(d, &m, 4);
    matmul_free(d, m);
    presil_device_close(d);
}

static uint64_t next_origin;
static uint64_t origin(void) { return ++next_origin; }

static void a_failure_knows_where_it_was_launched(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    matmul_buffers m = matmul_alloc(d, 1);
    reports_begin(d);
    next_origin = 40;
    presil_set_origin(origin);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_device_synchronize(d));
    EXPECT_OK(presil_inject(d, "slverr"));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    presil_set_origin(NULL);
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EBUS);
    assert_int_equal(presil_error_origin(), 42);
    assert_int_equal(reports[1].origin, 42);
    EXPECT_STATUS(presil_free(d, (presil_daddr){1}), PRESIL_EINVAL);
    assert_int_equal(presil_error_origin(), 0); /* of the last failure only */
    matmul_free(d, m);
    presil_device_close(d);
}

static void a_dead_device_says_so(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    matmul_buffers m = matmul_alloc(d, 1);
    EXPECT_OK(presil_inject(d, "deaf"));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EDEAD);
    EXPECT_TEXT("the peer is gone");
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EDEAD);
    EXPECT_TEXT("presil_device_reset");
    EXPECT_STATUS(presil_device_reset(d), PRESIL_EDEAD);
    EXPECT_OK(presil_inject(d, NULL));
    EXPECT_OK(presil_device_reset(d));
    still_works(d, &m, 1);
    matmul_free(d, m);
    presil_device_close(d);
}

static void errors_stick_to_their_stream(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    presil_stream *s, *t;
    matmul_buffers m = matmul_alloc(d, 1);
    EXPECT_OK(presil_stream_create(d, 0, &s));
    EXPECT_OK(presil_stream_create(d, 0, &t));
    EXPECT_OK(presil_inject(d, "slverr"));
    EXPECT_OK(matmul_enqueue(d, s, &m));
    EXPECT_OK(matmul_enqueue(d, t, &m));
    EXPECT_OK(presil_stream_synchronize(d, t));
    EXPECT_OK(presil_stream_synchronize(d, NULL));
    EXPECT_OK(matmul_enqueue(d, s, &m)); /* later success does not hide it */
    EXPECT_STATUS(presil_stream_synchronize(d, s), PRESIL_EBUS);
    EXPECT_OK(presil_stream_synchronize(d, s));
    /* The first of several wins, and one synchronize of the device clears all. */
    EXPECT_OK(presil_inject(d, "hang"));
    EXPECT_OK(matmul_enqueue(d, t, &m));
    EXPECT_OK(presil_stream_query(d, t) >= 0 ? PRESIL_OK : PRESIL_EINVAL);
    EXPECT_STATUS(presil_stream_synchronize(d, t), PRESIL_EHUNG);
    EXPECT_OK(presil_inject(d, "slverr"));
    EXPECT_OK(matmul_enqueue(d, t, &m));
    EXPECT_OK(presil_inject(d, "hang")); /* waits until idle */
    EXPECT_OK(matmul_enqueue(d, s, &m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EBUS);
    EXPECT_OK(presil_device_synchronize(d));
    EXPECT_OK(presil_stream_synchronize(d, s));
    /* Nobody asked: the log has it. */
    EXPECT_OK(presil_inject(d, "slverr"));
    EXPECT_OK(matmul_enqueue(d, t, &m));
    presil_stream_destroy(t);
    assert_non_null(strstr(log_text(), "never asked for: EBUS"));
    presil_stream_destroy(s);
    matmul_free(d, m);
    presil_device_close(d);
}

static presil_device *to_cancel;
static void on_alarm(int signal_number) {
    (void)signal_number;
    presil_device_cancel(to_cancel);
}

static void cancelling(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    matmul_buffers m = matmul_alloc(d, 7);
    reports_begin(d);
    presil_device_cancel(d); /* nothing runs: nothing happens */
    still_works(d, &m, 7);
    EXPECT_OK(presil_inject(d, "slow"));
    to_cancel = d;
    (void)signal(SIGALRM, on_alarm);
    for (int i = 0; i < 10; i++) EXPECT_OK(matmul_enqueue(d, NULL, &m));
    (void)alarm(1);
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_ECANCELLED);
    EXPECT_TEXT("cancelled after");
    (void)signal(SIGALRM, SIG_DFL);
    assert_int_equal(report_count, 2); /* those behind it never ran */
    still_works(d, &m, 7);
    matmul_free(d, m);
    presil_device_close(d);
}

static void reset_drops_what_is_queued(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    matmul_buffers m = matmul_alloc(d, 8);
    presil_event *event;
    EXPECT_OK(presil_event_create(d, &event));
    reports_begin(d);
    EXPECT_OK(presil_inject(d, "slow")); /* would run for ever */
    for (int i = 0; i < 20; i++) EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_event_record(event, NULL));
    EXPECT_OK(presil_device_reset(d));
    assert_int_equal(presil_event_query(event), 1);
    EXPECT_OK(presil_device_synchronize(d));
    assert_true(report_count <= 1);
    still_works(d, &m, 8);
    presil_event_destroy(event);
    matmul_free(d, m);
    presil_device_close(d);
}

static void modes_switch_when_idle(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    matmul_buffers m = matmul_alloc(d, 9);
    reports_begin(d);
    const presil_mode order[] = {PRESIL_MODE_MODEL, PRESIL_MODE_RTL, PRESIL_MODE_VERIFY, PRESIL_MODE_MODEL,
                                 PRESIL_MODE_VERIFY};
    for (size_t i = 0; i < 5; i++) {
        EXPECT_OK(presil_device_set_mode(d, order[i]));
        still_works(d, &m, 9);
        assert_int_equal(reports[i].mode, order[i]);
        assert_int_equal(reports[i].launch, i);
        assert_int_equal(reports[i].verified, order[i] == PRESIL_MODE_VERIFY ? 1 : -1);
        assert_int_equal(reports[i].cycles != 0, order[i] != PRESIL_MODE_MODEL);
        assert_int_equal(reports[i].macs, MATMUL_N * MATMUL_N * MATMUL_N);
        assert_true(reports[i].descriptors > 0);
        if (order[i] != PRESIL_MODE_MODEL) {
            for (int e = 0; e < PRESIL_ENGINES; e++) {
                uint64_t sum = 0;
                for (int c = 0; c < PRESIL_CAUSES; c++) sum += reports[i].stalls[e][c];
                assert_int_equal(sum, reports[i].cycles);
            }
        }
    }
    EXPECT_STATUS(presil_device_set_mode(d, (presil_mode)3), PRESIL_EINVAL);
    EXPECT_OK(presil_device_set_memory_model(d, "ideal", 3));
    EXPECT_STATUS(presil_device_set_memory_model(d, "nonsense", 3), PRESIL_EINVAL);
    EXPECT_STATUS(presil_device_trace(d, "/tmp/x.fst", 0, 1), PRESIL_EUNSUPPORTED);
    EXPECT_OK(presil_device_trace(d, NULL, 0, 0));
    matmul_free(d, m);
    presil_device_close(d);
}

static void arguments_are_checked(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    matmul_buffers m = matmul_alloc(d, 1);
    presil_matmul_desc desc = matmul_desc(&m);
    desc.size = 3;
    EXPECT_STATUS(presil_matmul(d, NULL, &desc), PRESIL_EINVAL);
    desc = matmul_desc(&m);
    desc.reserved0 = 1;
    EXPECT_STATUS(presil_matmul(d, NULL, &desc), PRESIL_EINVAL);
    EXPECT_TEXT("reserved0");
    desc = matmul_desc(&m);
    desc.compute = 9;
    EXPECT_STATUS(presil_matmul(d, NULL, &desc), PRESIL_EINVAL);
    desc = matmul_desc(&m);
    desc.b.dtype = 77;
    EXPECT_STATUS(presil_matmul(d, NULL, &desc), PRESIL_EINVAL);
    desc = matmul_desc(&m);
    desc.a.ndim = 5;
    EXPECT_STATUS(presil_matmul(d, NULL, &desc), PRESIL_EINVAL);
    desc = matmul_desc(&m);
    desc.a.data.value = 0x1000;
    EXPECT_STATUS(presil_matmul(d, NULL, &desc), PRESIL_EINVAL);
    EXPECT_TEXT("not in device memory");
    desc = matmul_desc(&m);
    desc.out.data.value += 64u << 20;
    EXPECT_STATUS(presil_matmul(d, NULL, &desc), PRESIL_EINVAL);
    struct {
        presil_matmul_desc desc;
        uint64_t newer;
    } later = {.desc = matmul_desc(&m)};
    later.desc.size = sizeof later;
    EXPECT_OK(presil_matmul(d, NULL, &later.desc)); /* an unknown tail of zeros is fine */
    later.newer = 1;
    EXPECT_STATUS(presil_matmul(d, NULL, &later.desc), PRESIL_EINVAL);
    EXPECT_STATUS(presil_matmul(d, NULL, NULL), PRESIL_EINVAL);
    EXPECT_STATUS(presil_matmul(NULL, NULL, &desc), PRESIL_EINVAL);
    presil_conv2d_desc conv = {.size = sizeof conv};
    EXPECT_STATUS(presil_conv2d(d, NULL, &conv), PRESIL_EINVAL);
    EXPECT_TEXT("weights");
    presil_weights *weights;
    const float one = 1;
    presil_weights_desc w = {.size = sizeof w,
                             .weight = &one,
                             .weight_dtype = PRESIL_FP32,
                             .compute = PRESIL_COMPUTE_BF16,
                             .groups = 0,
                             .shape = {1, 1, 1, 1}};
    EXPECT_STATUS(presil_weights_create(d, &w, &weights), PRESIL_EINVAL);
    w.groups = 1;
    w.shape[2] = 0;
    EXPECT_STATUS(presil_weights_create(d, &w, &weights), PRESIL_EINVAL);
    presil_names names = {.size = sizeof names};
    EXPECT_OK(presil_device_get_names(d, &names));
    assert_int_equal(names.engine_count, 5);
    assert_string_equal(names.engines[1].name, "matrix");
    assert_string_equal(names.causes[0].name, "busy");
    assert_string_equal(names.causes[names.cause_count - 1].name, "error");
    EXPECT_OK(presil_device_synchronize(d));
    matmul_free(d, m);
    presil_device_close(d);
    presil_device_close(NULL);
    assert_string_equal(presil_status_name(PRESIL_EMISMATCH), "EMISMATCH");
    static const int unknown[] = {1, -1000, INT_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++)
        assert_string_equal(presil_status_name((presil_status)unknown[i]), "unknown status");
}

static void libraries_that_do_not_do(void **state) {
    (void)state;
    presil_device *d;
    presil_device_options options = {.size = sizeof options,
                                     .mode = PRESIL_MODE_RTL,
                                     .config = "tiny",
                                     .build = "nowhere",
                                     .memory_bytes = 16u << 20};
    EXPECT_OK(presil_device_open(&options, &d)); /* loaded at the first launch */
    EXPECT_STATUS(presil_nop(d, NULL), PRESIL_ENODEV);
    EXPECT_TEXT("libpresil_sim_tiny_nowhere.so");
    EXPECT_TEXT("PRESIL_LIBRARY_PATH");
    EXPECT_OK(presil_device_set_mode(d, PRESIL_MODE_MODEL)); /* and the model goes without */
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    presil_device_close(d);
    options.build = NULL;
    options.library = "/nowhere/lib.so";
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_ENODEV);
    options.library = "libm.so.6";
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_ENODEV);
    EXPECT_TEXT("presil_transport_entry");
    options.library = NULL;
    options.config = "../tiny";
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EINVAL);
    options.config = "unheard-of";
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_ENODEV);
    options.mode = PRESIL_MODE_MODEL;
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EINVAL);
    EXPECT_TEXT("unheard-of");
    options.config = "stub"; /* has no model */
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EUNSUPPORTED);
    options.config = "tiny";
    options.mode = 7;
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EINVAL);
    options.mode = PRESIL_MODE_MODEL;
    options.memory_bytes = 1ull << 41;
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EINVAL);
    EXPECT_TEXT("address bits");
    /* A library of another configuration than it is called for. */
    (void)setenv("PRESIL_SOFT_CONFIG", "odd", 1);
    options.memory_bytes = 16u << 20;
    options.mode = PRESIL_MODE_RTL;
    options.build = "soft";
    EXPECT_OK(presil_device_open(&options, &d));
    EXPECT_STATUS(presil_device_start(d), PRESIL_ENODEV);
    presil_device_close(d);
    (void)unsetenv("PRESIL_SOFT_CONFIG");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_launch_is_reported_and_recovered),
        cmocka_unit_test(computing_is_no_hang),
        cmocka_unit_test(a_launch_has_a_time_out),
        cmocka_unit_test(a_reset_waits_until_the_bus_is_drained),
        cmocka_unit_test(a_failure_knows_where_it_was_launched),
        cmocka_unit_test(a_dead_device_says_so),
        cmocka_unit_test(errors_stick_to_their_stream),
        cmocka_unit_test(cancelling),
        cmocka_unit_test(reset_drops_what_is_queued),
        cmocka_unit_test(modes_switch_when_idle),
        cmocka_unit_test(arguments_are_checked),
        cmocka_unit_test(libraries_that_do_not_do),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
