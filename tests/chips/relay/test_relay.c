/* SPDX-License-Identifier: Apache-2.0 */
/* Several launches in flight on RTL: relay_top.sv with its queue of four, in the build that PRESIL_RELAY_BUILD names.
 */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "negation.h"
#include "presil.h"
#include "presil_bundle_capture.h"
#include "presil_jobs.h"
#include "presil_op.h"

enum { BYTES = 16384, BUFFERS = 4, MOST_REPORTS = 4096 };
#define OK(call) ok((call), #call, __LINE__)

static presil_report reports[MOST_REPORTS];
static size_t report_count;

static atomic_bool enqueued = true; /* all that a test wants: the worker, which may have begun before, waits for that */

static void on_report(void *context, const presil_report *report) {
    (void)context;
    while (!atomic_load(&enqueued)) (void)sched_yield();
    if (report_count < MOST_REPORTS) reports[report_count++] = *report;
}

static void ok(int status, const char *call, int line) {
    if (status) fail_msg("line %d: %s: %s", line, call, presil_error_text());
}

static presil_device *open_relay(const char *how, presil_mode mode, uint32_t depth) {
    presil_device *d;
    assert_int_equal(setenv("PRESIL_RELAY", how, 1), 0);
    const presil_device_options options = {.size = sizeof options,
                                           .mode = (uint32_t)mode,
                                           .config = "relay",
                                           .build = getenv("PRESIL_RELAY_BUILD"),
                                           .memory_bytes = 64u << 20,
                                           .hang_cycles = 3000,
                                           .queue_depth = depth};
    OK(presil_device_open(&options, &d));
    OK(presil_device_start(d));
    report_count = 0;
    presil_set_report(d, on_report, NULL);
    return d;
}

static int negate(presil_device *d, presil_stream *stream, presil_daddr from, presil_daddr to, int64_t bytes,
                  const char *label) {
    return negation_enqueue(d, stream, PRESIL_INT8, from, to, bytes, label);
}

static uint32_t draw(uint64_t *seed) {
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*seed >> 33);
}

/* ---- a walk: what is in memory, and in a model where each launch happens when it is enqueued */
typedef struct {
    presil_device *d;
    presil_stream *own; /* of those that fail */
    presil_daddr at[BUFFERS];
    uint8_t model[BUFFERS][BYTES];
    uint64_t seed;
    int failed;
} walk;

static uint8_t *host_of(presil_device *d, presil_daddr at) { return presil_host_pointer(d, at, BYTES); }

static void begin(walk *w, presil_device *d, uint64_t seed) {
    *w = (walk){.d = d, .seed = seed};
    OK(presil_stream_create(d, 0, &w->own));
    for (int i = 0; i < BUFFERS; i++) {
        OK(presil_alloc(d, NULL, NULL, BYTES, &w->at[i]));
        for (int k = 0; k < BYTES; k++) w->model[i][k] = (uint8_t)draw(&w->seed);
        memcpy(host_of(d, w->at[i]), w->model[i], BYTES);
    }
}

static void check(walk *w) {
    OK(presil_stream_synchronize(w->d, NULL));
    for (int i = 0; i < BUFFERS; i++) assert_memory_equal(host_of(w->d, w->at[i]), w->model[i], BYTES);
}

static void end(walk *w) {
    const int status = presil_stream_synchronize(w->d, w->own);
    assert_int_equal(status != PRESIL_OK, w->failed != 0);
    for (int i = 0; i < BUFFERS; i++) OK(presil_free(w->d, w->at[i]));
    presil_stream_destroy(w->own);
    presil_device_close(w->d);
}

static void one(walk *w, const char *label) {
    const uint32_t from = draw(&w->seed) % BUFFERS, to = draw(&w->seed) % BUFFERS,
                   bytes = draw(&w->seed) % 8 ? 16 * (1 + draw(&w->seed) % 100) : 16 * (1 + draw(&w->seed) % 1024);
    const uint32_t skip = 256 * (draw(&w->seed) % ((BYTES - bytes) / 256 + 1));
    const presil_daddr a = {w->at[from].value + skip}, b = {w->at[to].value + skip};
    OK(negate(w->d, NULL, a, b, bytes, label));
    for (uint32_t i = 0; i < bytes; i++) w->model[to][skip + i] = (uint8_t)-w->model[from][skip + i];
}

/* A launch that hangs wrote nothing; those behind it are none the worse. */
static void step(walk *w, int faults) {
    const uint32_t what = draw(&w->seed) % 40;
    if (what == 0 && faults) {
        OK(negate(w->d, w->own, w->at[0], w->at[1], 512, "hang"));
        w->failed++;
    } else if (what < 4) {
        OK(presil_nop(w->d, NULL));
    } else if (what == 4) {
        check(w);
    } else {
        one(w, what & 1 ? "via" : "");
    }
}

static void at_random(void **state) {
    (void)state;
    static walk w;
    static const char *const hows[] = {"", "polled", "chunks", "polled,chunks"};
    for (uint32_t i = 0; i < 8; i++) {
        begin(&w, open_relay(hows[i % 4], PRESIL_MODE_RTL, 1 + i % 5), i + 1);
        for (int n = 0; n < 150; n++) step(&w, i >= 4);
        check(&w);
        end(&w);
    }
}

/* The cycles of each launch are its own, whatever else is in flight; and the next begins while the host is told. */
static void cycles_are_its_own(void **state) {
    (void)state;
    uint64_t alone[2] = {0};
    for (uint32_t depth = 1; depth <= 4; depth += 3) {
        presil_device *d = open_relay("", PRESIL_MODE_RTL, depth);
        presil_daddr a;
        presil_event *events[2];
        uint64_t clock[2] = {0};
        OK(presil_alloc(d, NULL, NULL, BYTES, &a));
        memset(host_of(d, a), 1, BYTES);
        for (int i = 0; i < 2; i++) OK(presil_event_create(d, &events[i]));
        OK(presil_event_record(events[0], NULL));
        atomic_store(&enqueued, false);
        for (int i = 0; i < 12; i++) OK(negate(d, NULL, a, a, i & 1 ? 2048 : 1024, ""));
        OK(presil_event_record(events[1], NULL));
        atomic_store(&enqueued, true);
        OK(presil_device_synchronize(d));
        assert_int_equal(report_count, 12);
        for (size_t i = 0; i < 12; i++) {
            const uint64_t least = i & 1 ? 128 : 64;
            assert_true(reports[i].cycles >= least);
            if (depth == 1 && i < 2) alone[i] = reports[i].cycles;
            assert_in_range(reports[i].cycles, alone[i & 1] * 9 / 10, alone[i & 1] * 11 / 10);
        }
        for (int i = 0; i < 2; i++) OK(presil_event_cycles(events[i], &clock[i]));
        print_message("depth %u: %llu cycles for twelve launches\n", depth, (unsigned long long)(clock[1] - clock[0]));
        for (int i = 0; i < 2; i++) presil_event_destroy(events[i]);
        OK(presil_free(d, a));
        presil_device_close(d);
    }
}

/* Without being asked, a simulator has one launch in flight, and cycles repeat. */
static void repeats(void **state) {
    (void)state;
    static walk w;
    static uint64_t first[200];
    for (int again = 0; again < 2; again++) {
        begin(&w, open_relay("", PRESIL_MODE_RTL, 0), 77);
        for (int n = 0; n < 100; n++) one(&w, n & 1 ? "via" : "");
        check(&w);
        for (size_t i = 0; i < report_count; i++) {
            if (!again) first[i] = reports[i].cycles;
            assert_int_equal(reports[i].cycles, first[i]);
        }
        end(&w);
    }
}

/* $fatal: the launch that is told so is named, those with it fail too, and the device goes on. */
static void fatal(void **state) {
    (void)state;
    static walk w;
    begin(&w, open_relay("", PRESIL_MODE_RTL, 4), 5);
    atomic_store(&enqueued, false);
    for (int i = 0; i < 8; i++) OK(negate(w.d, w.own, w.at[0], w.at[1], 512, i == 2 ? "fatal" : ""));
    atomic_store(&enqueued, true);
    assert_int_equal(presil_stream_synchronize(w.d, w.own), PRESIL_ESTOPPED);
    assert_int_equal(report_count, 8);
    for (size_t i = 0; i < 8; i++) {
        const bool with = i >= 2 && i < 6;
        assert_int_equal(reports[i].status, with ? -PRESIL_ESTOPPED : 0);
    }
    memcpy(w.model[1], host_of(w.d, w.at[1]), BYTES);
    for (int n = 0; n < 40; n++) one(&w, "");
    check(&w);
    end(&w);
}

/* Every byte is compared in mode verify, but for the scratch memory; what lies behind that is not its. */
static void verified(void **state) {
    (void)state;
    static walk w;
    begin(&w, open_relay("", PRESIL_MODE_VERIFY, 4), 9);
    for (int n = 0; n < 30; n++) one(&w, n & 1 ? "via" : "");
    check(&w);
    for (size_t i = 0; i < report_count; i++) assert_int_equal(reports[i].verified, 1);
    end(&w);
    begin(&w, open_relay("spills", PRESIL_MODE_VERIFY, 4), 9);
    OK(negate(w.d, NULL, w.at[0], w.at[1], 512, "via"));
    assert_int_equal(presil_device_synchronize(w.d), PRESIL_EMISMATCH);
    assert_non_null(strstr(presil_error_text(), "a stray write: the chip wrote 256 bytes"));
    end(&w);
}

/* ---- scratch memory where launches go elsewhere */
static void one_of_each(walk *w) {
    for (int n = 0; n < 4; n++) {
        /* Of several doorbells, to where a device that knows of no tensor has its scratch memory; and of one. */
        const uint32_t bytes = n & 1 ? 512 : BYTES;
        OK(negate(w->d, NULL, w->at[2 + n % 2], w->at[n % 2], bytes, n < 2 ? "via" : ""));
        for (uint32_t i = 0; i < bytes; i++) w->model[n % 2][i] = (uint8_t)-w->model[2 + n % 2][i];
    }
}

/* To PRESIL_RELAY_BUNDLE, which the script runs again. */
static void captured(void **state) {
    (void)state;
    static walk w;
    char text[256] = "";
    uint64_t count = 0;
    presil_bundle_capture *c = NULL;
    const presil_bundle_capture_options options = {.size = sizeof options, .overwrite = 1};
    begin(&w, open_relay("", PRESIL_MODE_RTL, 4), 11);
    if (presil_bundle_capture_open(w.d, getenv("PRESIL_RELAY_BUNDLE"), &options, &c, text, sizeof text))
        fail_msg("%s", text);
    one_of_each(&w);
    check(&w);
    if (presil_bundle_capture_close(c, &count, text, sizeof text)) fail_msg("%s", text);
    assert_int_equal(count, 4);
    end(&w);
}

static void on_jobs_report(void *context, const presil_report *report) {
    (void)context;
    if (report_count < MOST_REPORTS) reports[report_count++] = *report;
}

/* The executor answers, processes run the RTL and compare; "spills": it writes behind what is its own. */
static void on_processes(void **state) {
    (void)state;
    static walk w;
    static const char *const hows[] = {"twin", "twin,spills"};
    for (int i = 0; i < 2; i++) {
        char text[2048] = "";
        uint64_t origin = 0;
        presil_jobs *jobs = NULL;
        const presil_jobs_options options = {
            .size = sizeof options, .workers = 2, .build = getenv("PRESIL_RELAY_BUILD"), .report = on_jobs_report};
        begin(&w, open_relay(hows[i], PRESIL_MODE_MODEL, 0), 13);
        presil_set_report(w.d, NULL, NULL);
        if (presil_jobs_open(w.d, &options, &jobs, text, sizeof text)) fail_msg("%s", text);
        one_of_each(&w);
        check(&w);
        const int status = presil_jobs_wait(jobs, text, sizeof text, &origin);
        assert_int_equal(status, i ? PRESIL_EMISMATCH : PRESIL_OK);
        if (i && !strstr(text, "stray write")) fail_msg("%s", text);
        presil_jobs_close(jobs);
        assert_int_equal(report_count, 4);
        for (size_t n = 0; n < 4; n++) assert_int_equal(reports[n].verified, i ? n >= 2 : 1);
        end(&w);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(at_random),   cmocka_unit_test(cycles_are_its_own),
                                       cmocka_unit_test(repeats),     cmocka_unit_test(fatal),
                                       cmocka_unit_test(verified),    cmocka_unit_test(captured),
                                       cmocka_unit_test(on_processes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
