/* SPDX-License-Identifier: Apache-2.0 */
/* Several launches with the chip at once: order, results, reports, and what becomes of the others when one fails, hangs
 * or is cancelled, or the transport does. The chip of paper takes up to four, and runs them one after the other. */
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "core_fixture.h"
#include "negation.h"
#include "presil_debug.h"
#include "presil_op.h"

enum { ELEMENTS = 96, BYTES = 2 * ELEMENTS };

static int open_with(const char *how, presil_mode mode, uint32_t depth, presil_device **out) {
    assert_int_equal(setenv("PRESIL_PAPER", how, 1), 0);
    const presil_device_options options = {.size = sizeof options,
                                           .mode = (uint32_t)mode,
                                           .config = "paper",
                                           .library = getenv("PRESIL_PAPER_LIBRARY"),
                                           .chip_library = getenv("PRESIL_PAPER_CHIP"),
                                           .memory_bytes = 64u << 20,
                                           .queue_depth = depth};
    return presil_device_open(&options, out);
}

static presil_device *open_paper(const char *how) {
    presil_device *d;
    EXPECT_OK(open_with(how, PRESIL_MODE_RTL, 0, &d));
    EXPECT_OK(presil_device_start(d));
    reports_begin(d);
    return d;
}

/* Of the first n elements. */
static int negate(presil_device *d, presil_stream *stream, presil_daddr from, presil_daddr to, int n,
                  const char *label) {
    return negation_enqueue(d, stream, PRESIL_INT16, from, to, n, label);
}

static presil_daddr take(presil_device *d) {
    presil_daddr at;
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &at));
    return at;
}

static int16_t *host_of(presil_device *d, presil_daddr at) { return presil_host_pointer(d, at, BYTES); }

static void put(presil_device *d, presil_daddr at, int first) {
    for (int i = 0; i < ELEMENTS; i++) host_of(d, at)[i] = (int16_t)(first + i);
}

static void holds(presil_device *d, presil_daddr at, int first, int sign) {
    for (int i = 0; i < ELEMENTS; i++) assert_int_equal(host_of(d, at)[i], sign * (first + i));
}

static void close_device(presil_device *d, presil_daddr a, presil_daddr b) {
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, b));
    presil_device_close(d);
}

/* ---- what runs well */
/* Each reads what the one before wrote; sizes differ, so that each report's cycles are its own. */
static void chain(const char *how, uint32_t most) {
    presil_device *d = open_paper(how);
    const presil_daddr a = take(d), b = take(d);
    put(d, a, 10);
    put(d, b, 10);
    for (int i = 0; i < 30; i++) EXPECT_OK(negate(d, NULL, a, i % 3 ? b : a, ELEMENTS - i, "chain"));
    for (int i = 0; i < 10; i++) EXPECT_OK(negate(d, NULL, b, b, ELEMENTS, "in place"));
    EXPECT_OK(negate(d, NULL, b, a, ELEMENTS, "last"));
    EXPECT_OK(presil_device_synchronize(d));
    for (int i = 0; i < ELEMENTS; i++) assert_int_equal(host_of(d, a)[i], -host_of(d, b)[i]);
    assert_int_equal(report_count, 41);
    for (size_t i = 0; i < 41; i++) {
        assert_int_equal(reports[i].launch, i);
        assert_int_equal(reports[i].cycles, i < 30 ? ELEMENTS - i : ELEMENTS);
        assert_int_equal(reports[i].status, 0);
    }
    assert_int_equal(reports[40].counters[0], most);
    close_device(d, a, b);
}

static void several(void **state) {
    (void)state;
    chain("depth=4", 4);
    chain("depth=4,burst=3", 4);
    chain("depth=4,polled", 4);
    chain("depth=4,polled,burst=9", 4);
    chain("depth=4,interrupts=3", 4);
    chain("depth=2", 2);
    chain("depth=1", 1);
}

static uint64_t told[8];
static size_t told_count;

static void on_progress(void *context, const char *label, uint64_t launch, uint64_t cycles) {
    (void)context, (void)label, (void)launch;
    if (told_count < 8) told[told_count++] = cycles;
}

/* The cycles that are told while a launch runs are those since it began, over all its doorbells. */
static void progress_over_doorbells(void **state) {
    (void)state;
    static const char *const hows[] = {"tells", "depth=4,tells"};
    for (size_t n = 0; n < 2; n++) {
        presil_device *d = open_paper(hows[n]);
        const presil_daddr a = take(d), b = take(d);
        told_count = 0;
        presil_set_progress(d, on_progress, NULL);
        EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "segments=3"));
        EXPECT_OK(presil_device_synchronize(d));
        assert_int_equal(told_count, 3);
        for (size_t i = 0; i < 3; i++) assert_int_equal(told[i], 10 * (i + 1));
        close_device(d, a, b);
    }
}

static uint32_t most_of(presil_device *d) {
    reports_begin(d);
    const presil_daddr a = take(d);
    put(d, a, 1);
    for (int i = 0; i < 12; i++) EXPECT_OK(negate(d, NULL, a, a, ELEMENTS, "in place"));
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, a, 1, 1);
    EXPECT_OK(presil_free(d, a));
    const uint32_t most = (uint32_t)reports[report_count - 1].counters[0];
    presil_device_close(d);
    return most;
}

static void as_asked(void **state) {
    (void)state;
    presil_device *d;
    for (uint32_t depth = 1; depth < 7; depth++) {
        EXPECT_OK(open_with("depth=4", PRESIL_MODE_RTL, depth, &d));
        EXPECT_OK(presil_device_start(d));
        assert_int_equal(most_of(d), depth < 4 ? depth : 4);
    }
    assert_int_equal(setenv("PRESIL_QUEUE_DEPTH", "3", 1), 0);
    assert_int_equal(most_of(open_paper("depth=4")), 3);
    assert_int_equal(setenv("PRESIL_QUEUE_DEPTH", "many", 1), 0);
    EXPECT_STATUS(open_with("depth=4", PRESIL_MODE_RTL, 0, &d), PRESIL_EINVAL);
    EXPECT_TEXT("PRESIL_QUEUE_DEPTH=many");
    assert_int_equal(unsetenv("PRESIL_QUEUE_DEPTH"), 0);
    /* Cycles that depend on when the host submits are not what a simulator is asked for. */
    assert_int_equal(most_of(open_paper("depth=4,clock")), 1);
    EXPECT_OK(open_with("depth=4,clock", PRESIL_MODE_RTL, 4, &d));
    EXPECT_OK(presil_device_start(d));
    assert_int_equal(most_of(d), 4);
    EXPECT_OK(open_with("depth=4,twin", PRESIL_MODE_VERIFY, 0, &d));
    assert_int_equal(most_of(d), 1);
}

static void segments_and_scratch(void **state) {
    (void)state;
    presil_device *d = open_paper("depth=4");
    const presil_daddr a = take(d), b = take(d);
    put(d, a, 50);
    for (int i = 0; i < 6; i++) {
        EXPECT_OK(negate(d, NULL, a, a, ELEMENTS, "segments=3"));
        EXPECT_OK(negate(d, NULL, a, a, ELEMENTS, "scratch=5000"));
        EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "segments=6")); /* more than it takes */
        EXPECT_OK(negate(d, NULL, b, a, ELEMENTS, "segments=2,scratch=70000"));
    }
    EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "last"));
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, a, 50, 1);
    holds(d, b, 50, -1);
    for (size_t i = 0; i < report_count; i++) assert_int_equal(reports[i].cycles, ELEMENTS);
    close_device(d, a, b);
}

/* Copies and events are in the order of launches. */
static void between(void **state) {
    (void)state;
    presil_device *d = open_paper("depth=4");
    const presil_daddr a = take(d), b = take(d);
    int16_t seen[8][ELEMENTS], other[ELEMENTS];
    presil_event *event;
    put(d, a, 3);
    EXPECT_OK(presil_event_create(d, &event));
    for (int i = 0; i < ELEMENTS; i++) other[i] = (int16_t)(700 + i);
    for (int i = 0; i < 8; i++) {
        EXPECT_OK(negate(d, NULL, a, a, ELEMENTS, "one"));
        EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "two"));
        EXPECT_OK(presil_copy_to_host(d, NULL, seen[i], b, BYTES, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_copy_to_device(d, NULL, b, other, BYTES, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_event_record(event, NULL));
    }
    EXPECT_OK(presil_event_synchronize(event));
    for (int i = 0; i < 8; i++) assert_int_equal(seen[i][5], i & 1 ? -8 : 8);
    holds(d, b, 700, 1);
    presil_event_destroy(event);
    close_device(d, a, b);
}

/* Told what the driver writes for a launch, the chip's library believes that its chip was reset: so it is. */
static int nothing_written(void *context, presil_daddr to, const void *from, uint64_t bytes) {
    (void)context, (void)to, (void)from, (void)bytes;
    return 0;
}
static int count_register(void *context, uint32_t offset, uint32_t value) {
    (void)offset, (void)value;
    ++*(int *)context;
    return 0;
}
static void told_elsewhere(void **state) {
    (void)state;
    presil_device *d = open_paper("depth=4");
    const presil_daddr a = take(d), b = take(d);
    presil_list *list;
    int registers = 0;
    const presil_program_sink sink = {sizeof sink, 0, count_register, nothing_written, &registers};
    put(d, a, 30);
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "recorded"));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    for (int i = 0; i < 6; i++) EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "before"));
    EXPECT_OK(presil_list_program(list, &sink));
    assert_true(registers > 0);
    put(d, b, 500);
    for (int i = 0; i < 6; i++) EXPECT_OK(negate(d, NULL, i & 1 ? b : a, i & 1 ? a : b, ELEMENTS, "behind"));
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, a, 30, 1);
    holds(d, b, 30, -1);
    presil_list_destroy(list);
    close_device(d, a, b);
}

/* ---- what fails */
/* The k-th of twelve fails, on a stream of its own: the others are as if it had not been there. */
static void one_fails(const char *how, const char *label, int status, const char *text) {
    for (int k = 0; k < 12; k++) {
        presil_device *d = open_paper(how);
        presil_stream *own;
        EXPECT_OK(presil_stream_create(d, 0, &own));
        const presil_daddr a = take(d), b = take(d);
        put(d, a, 20);
        for (int i = 0; i < 12; i++) {
            if (i == k) EXPECT_OK(negate(d, own, b, b, ELEMENTS, label));
            EXPECT_OK(negate(d, NULL, a, a, ELEMENTS, "in place"));
        }
        EXPECT_OK(negate(d, NULL, a, a, ELEMENTS, "in place"));
        EXPECT_OK(presil_stream_synchronize(d, NULL));
        EXPECT_STATUS(presil_stream_synchronize(d, own), status);
        EXPECT_TEXT(text);
        holds(d, a, 20, -1);
        assert_int_equal(report_count, 14);
        for (size_t i = 0; i < 14; i++) {
            assert_int_equal(reports[i].launch, i);
            assert_int_equal(reports[i].status, i == (size_t)k ? -status : 0);
            assert_int_equal(reports[i].cycles, i == (size_t)k ? 0 : ELEMENTS);
        }
        presil_stream_destroy(own);
        close_device(d, a, b);
    }
}

static void others_go_on(void **state) {
    (void)state;
    one_fails("depth=4", "fail", PRESIL_EBUS, "as the label says");
    one_fails("depth=4,polled,burst=3", "fail", PRESIL_EBUS, "as the label says");
    one_fails("depth=4", "unfit", PRESIL_EINVAL, "it does not fit");
    one_fails("depth=4", "segments=2,unfit", PRESIL_EINVAL, "it does not fit");
    one_fails("depth=2,burst=3,strict", "fail", PRESIL_EBUS, "as the label says");
    one_fails("depth=3", "hang", PRESIL_EHUNG, "no progress");
    one_fails("depth=3,polled", "hang", PRESIL_EHUNG, "no progress");
}

static atomic_bool enqueued; /* all: the worker, which may have begun before, waits for that */
static void wait_for_all(void *context, const presil_report *report) {
    (void)context, (void)report;
    while (!atomic_load(&enqueued)) (void)sched_yield();
}

/* Where it is not known how far the others came, they fail; what was not with the chip yet runs. */
static void transport_fails(void **state) {
    (void)state;
    presil_device *d = open_paper("depth=4");
    presil_stream *streams[8];
    const presil_daddr a = take(d), b = take(d);
    put(d, a, 1);
    atomic_store(&enqueued, false);
    presil_set_report(d, wait_for_all, NULL);
    for (int i = 0; i < 8; i++) {
        EXPECT_OK(presil_stream_create(d, 0, &streams[i]));
        EXPECT_OK(negate(d, streams[i], a, i == 7 ? b : a, ELEMENTS, i == 2 ? "die" : "other"));
    }
    atomic_store(&enqueued, true);
    EXPECT_OK(presil_stream_synchronize(d, streams[0]));
    for (int i = 1; i < 8; i++) {
        EXPECT_STATUS(presil_stream_synchronize(d, streams[i]), i >= 2 && i < 6 ? PRESIL_ESTOPPED : PRESIL_OK);
        if (i == 2) EXPECT_TEXT("the simulator stopped");
        if (i == 2) EXPECT_TEXT("one of the 3 launches behind it");
        if (i > 2 && i < 6) EXPECT_TEXT("with the chip when another launch failed");
        presil_stream_destroy(streams[i]);
    }
    presil_stream_destroy(streams[0]);
    for (int i = 0; i < ELEMENTS; i++) assert_int_equal(host_of(d, b)[i], -host_of(d, a)[i]);
    close_device(d, a, b);
}

static void memory_is_lost(void **state) {
    (void)state;
    presil_device *d = open_paper("depth=4,lose");
    const presil_daddr a = take(d), b = take(d);
    for (int i = 0; i < 6; i++) EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, i == 1 ? "fail" : "other"));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EDEAD);
    for (size_t i = 1; i < 6; i++) assert_int_equal(reports[i].status, -PRESIL_EDEAD);
    EXPECT_STATUS(presil_nop(d, NULL) || presil_device_synchronize(d), 1);
    EXPECT_OK(presil_device_reset(d));
    put(d, a, 1);
    EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "again"));
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, b, 1, -1);
    close_device(d, a, b);
}

/* From the first report on, a reset keeps the memory. */
static void keeps(void *context, const presil_report *report) {
    (void)context, (void)report;
    assert_int_equal(setenv("PRESIL_PAPER", "depth=4", 1), 0);
}

/* One that could not be submitted any more is no reason to reset a device that is dead: it would be alive, without its
 * memory. */
static void dead_it_stays(void **state) {
    (void)state;
    presil_device *d = open_paper("depth=4,lose");
    presil_stream *own;
    EXPECT_OK(presil_stream_create(d, 0, &own));
    const presil_daddr a = take(d), b = take(d);
    presil_set_report(d, keeps, NULL);
    EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "fail"));
    EXPECT_OK(negate(d, own, a, b, ELEMENTS, "unfit"));
    EXPECT_STATUS(presil_stream_synchronize(d, NULL), PRESIL_EDEAD);
    EXPECT_STATUS(presil_stream_synchronize(d, own), PRESIL_EINVAL);
    EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "later"));
    EXPECT_STATUS(presil_stream_synchronize(d, NULL), PRESIL_EDEAD);
    EXPECT_OK(presil_device_reset(d));
    put(d, a, 1);
    EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "again"));
    EXPECT_OK(presil_device_synchronize(d));
    holds(d, b, 1, -1);
    presil_stream_destroy(own);
    close_device(d, a, b);
}

/* ---- cancelled, in the middle of one that would never end */
static presil_device *endless;
static void cancel(void) {
    wait_for_all(NULL, NULL);
    presil_device_cancel(endless);
}

static void cancel_when_endless(presil_device *d) {
    void *library = dlopen(getenv("PRESIL_PAPER_LIBRARY"), RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);
    void (**hook)(void) = dlsym(library, "paper_endless");
    assert_non_null(hook);
    endless = d;
    atomic_store(&enqueued, false);
    *hook = d ? cancel : NULL;
    assert_int_equal(dlclose(library), 0);
}

static void cancelled(void **state) {
    (void)state;
    for (int k = 0; k < 6; k++) {
        presil_device *d = open_paper("depth=4");
        const presil_daddr a = take(d), b = take(d);
        cancel_when_endless(d);
        put(d, a, 1);
        for (int i = 0; i < 6; i++) EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, i == k ? "long" : "other"));
        atomic_store(&enqueued, true);
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_ECANCELLED);
        cancel_when_endless(NULL);
        for (size_t i = 0; i < 6; i++)
            assert_int_equal(i < report_count ? reports[i].status : -PRESIL_ECANCELLED,
                             i < (size_t)k ? 0 : -PRESIL_ECANCELLED);
        EXPECT_OK(negate(d, NULL, a, b, ELEMENTS, "again"));
        EXPECT_OK(presil_device_synchronize(d));
        holds(d, b, 1, -1);
        close_device(d, a, b);
    }
}

/* What is enqueued behind a cancel is none of its, though those that it is for are still with the chip. */
static void enqueued_behind_a_cancel(void **state) {
    (void)state;
    presil_device *d = open_paper("depth=4");
    presil_stream *own;
    EXPECT_OK(presil_stream_create(d, 0, &own));
    const presil_daddr a = take(d), b = take(d);
    put(d, a, 1);
    EXPECT_OK(negate(d, own, a, b, ELEMENTS, "first"));
    EXPECT_OK(negate(d, NULL, a, a, ELEMENTS, "long"));
    EXPECT_OK(negate(d, NULL, a, a, ELEMENTS, "other"));
    EXPECT_OK(presil_stream_synchronize(d, own)); /* the other two are with the chip */
    presil_device_cancel(d);
    EXPECT_OK(negate(d, own, b, b, ELEMENTS, "behind"));
    EXPECT_OK(presil_stream_synchronize(d, own));
    EXPECT_STATUS(presil_stream_synchronize(d, NULL), PRESIL_ECANCELLED);
    holds(d, b, 1, 1);
    for (size_t i = 0; i < 4; i++) assert_int_equal(reports[i].status, i == 1 || i == 2 ? -PRESIL_ECANCELLED : 0);
    presil_stream_destroy(own);
    close_device(d, a, b);
}

static void reset_with_several(void **state) {
    (void)state;
    presil_device *d = open_paper("depth=4");
    presil_stream *own;
    EXPECT_OK(presil_stream_create(d, 0, &own));
    const presil_daddr a = take(d), b = take(d);
    put(d, a, 1);
    for (int i = 0; i < 3; i++) EXPECT_OK(negate(d, i ? NULL : own, a, b, ELEMENTS, i == 1 ? "long" : "other"));
    EXPECT_OK(presil_stream_synchronize(d, own)); /* the other two are with the chip */
    EXPECT_OK(presil_device_reset(d));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(report_count, 3);
    for (size_t i = 1; i < 3; i++) assert_int_equal(reports[i].status, -PRESIL_ECANCELLED);
    for (int i = 0; i < 6; i++) EXPECT_OK(negate(d, NULL, a, i & 1 ? a : b, ELEMENTS, "again"));
    EXPECT_OK(presil_device_synchronize(d));
    for (int i = 0; i < ELEMENTS; i++) assert_int_equal(host_of(d, a)[i], -(1 + i));
    presil_stream_destroy(own);
    close_device(d, a, b);
}

/* ---- at random: against a model in which each launch happens when it is enqueued */
enum { BUFFERS = 4, STEPS = 240 };
typedef struct {
    presil_device *d;
    presil_stream *own; /* of those that fail */
    presil_daddr at[BUFFERS];
    int16_t model[BUFFERS][ELEMENTS], sent[STEPS][ELEMENTS]; /* sent: copies are enqueued */
    uint64_t seed;
    int failed;
} walk;

static void step(walk *w) {
    const uint32_t what = random32(&w->seed) % 20, from = random32(&w->seed) % BUFFERS,
                   to = random32(&w->seed) % BUFFERS;
    const int n = 1 + (int)(random32(&w->seed) % ELEMENTS);
    char label[64] = "";
    int16_t bytes[ELEMENTS];
    if (what < 13) {
        if (what < 3) (void)snprintf(label, sizeof label, "scratch=%u", 1 + random32(&w->seed) % 9000);
        const bool parts = what == 4;
        EXPECT_OK(negate(w->d, NULL, w->at[from], w->at[to], parts ? ELEMENTS : n, parts ? "segments=3" : label));
        for (int i = 0; i < (parts ? ELEMENTS : n); i++) w->model[to][i] = (int16_t)-w->model[from][i];
    } else if (what < 15) {
        EXPECT_OK(negate(w->d, w->own, w->at[from], w->at[to], ELEMENTS, what == 13 ? "fail" : "hang"));
        for (int i = 0; i < ELEMENTS; i++)
            w->sent[w->failed][i] = w->model[to][i] = (int16_t)(random32(&w->seed) % 100);
        EXPECT_OK(presil_copy_to_device(w->d, NULL, w->at[to], w->sent[w->failed], BYTES, PRESIL_COPY_DIRECT));
        w->failed++;
    } else if (what < 18) {
        EXPECT_OK(presil_copy_to_host(w->d, NULL, bytes, w->at[from], BYTES, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_stream_synchronize(w->d, NULL));
        assert_memory_equal(bytes, w->model[from], BYTES);
    } else if (what == 18) {
        EXPECT_OK(presil_nop(w->d, NULL));
    }
}

static void at_random(void **state) {
    (void)state;
    static const char *const hows[] = {"depth=4", "depth=2,burst=2", "depth=4,polled,burst=3", "depth=3,interrupts=2",
                                       "depth=4,polled"};
    for (size_t i = 0; i < 5 * 4; i++) {
        static walk w;
        w = (walk){.d = open_paper(hows[i % 5]), .seed = i + 1};
        EXPECT_OK(presil_stream_create(w.d, 0, &w.own));
        for (int k = 0; k < BUFFERS; k++) {
            w.at[k] = take(w.d);
            put(w.d, w.at[k], 100 * k);
            memcpy(w.model[k], host_of(w.d, w.at[k]), BYTES);
        }
        for (int n = 0; n < STEPS; n++) step(&w);
        EXPECT_OK(presil_stream_synchronize(w.d, NULL));
        const int status = presil_stream_synchronize(w.d, w.own);
        assert_true(w.failed ? status == PRESIL_EBUS || status == PRESIL_EHUNG : status == PRESIL_OK);
        for (int k = 0; k < BUFFERS; k++) {
            assert_memory_equal(host_of(w.d, w.at[k]), w.model[k], BYTES);
            EXPECT_OK(presil_free(w.d, w.at[k]));
        }
        presil_stream_destroy(w.own);
        presil_device_close(w.d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(several),
                                       cmocka_unit_test(progress_over_doorbells),
                                       cmocka_unit_test(as_asked),
                                       cmocka_unit_test(between),
                                       cmocka_unit_test(segments_and_scratch),
                                       cmocka_unit_test(told_elsewhere),
                                       cmocka_unit_test(others_go_on),
                                       cmocka_unit_test(transport_fails),
                                       cmocka_unit_test(memory_is_lost),
                                       cmocka_unit_test(dead_it_stays),
                                       cmocka_unit_test(cancelled),
                                       cmocka_unit_test(enqueued_behind_a_cancel),
                                       cmocka_unit_test(reset_with_several),
                                       cmocka_unit_test(at_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
