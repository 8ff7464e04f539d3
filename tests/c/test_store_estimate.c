/* SPDX-License-Identifier: Apache-2.0 */
/* Estimates of launches that the timing store doesn't have (driver/store/estimate.c): near where the launches around
 * them are, with the error that those have among each other; none where there are too few, or none of that size. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above. */
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sqlite3.h>
#include "presil_store.h"

static char path[64];
static presil_store *store;

static void ok(int status) {
    if (status) fail_msg("%d: %s", status, presil_store_error());
}

static presil_store *open_store(uint32_t flags) {
    const presil_store_options o = {.size = sizeof o, .flags = flags, .path = path};
    presil_store *out = NULL;
    ok(presil_store_open(&o, &out));
    return out;
}

static int begin(void **state) {
    (void)state;
    (void)snprintf(path, sizeof path, "/tmp/presil-estimate-XXXXXX");
    const int file = mkstemp(path);
    if (file < 0) return -1;
    (void)close(file);
    (void)unlink(path);
    store = open_store(0);
    return 0;
}
static int end(void **state) {
    (void)state;
    char other[80];
    presil_store_close(store);
    (void)unlink(path);
    (void)snprintf(other, sizeof other, "%s.copy", path);
    (void)unlink(other);
    return 0;
}

static double drawn(uint32_t *seed) { return (double)((*seed = *seed * 1664525u + 1013904223u) >> 8) * 0x1p-24; }

/* Of the cycles of an engine: 40 to 60 of 100 at work, more the larger the launch; the rest waits. */
static double works(const presil_work *w) { return 0.4 + 0.2 * log((double)w->cycles / 1000) / 5; }

/* The chip expects what is one tenth too low for one kind, and one fifth for the other; `noise` on top. Of the work it
 * expects a tenth of the cycles less than there is. */
static presil_work work_of(uint32_t *seed) {
    const uint64_t cycles = (uint64_t)(1000 * exp(5 * drawn(seed)));
    presil_work w = {.size = sizeof w,
                     .count = 2,
                     .kind = drawn(seed) < 0.5,
                     .cycles = cycles,
                     .amounts = {cycles / 100, cycles / 7}};
    w.stalls[1][0] = (uint64_t)((double)cycles * (works(&w) - 0.1));
    w.stalls[1][3] = cycles - w.stalls[1][0];
    return w;
}
static double truth(const presil_work *w) { return (double)w->cycles * (w->kind ? 1.25 : 1.1); }

static void put(uint32_t n, const char *identity, const presil_work *w, double cycles) {
    presil_store_row r = {.size = sizeof r, .label = "l", .identity = identity, .work = *w};
    memcpy(r.key, &n, sizeof n);
    r.key[8] = (uint8_t)identity[0];
    r.timing = (presil_store_timing){.size = sizeof r.timing, .segments = 1, .cycles = (uint64_t)cycles};
    r.timing.stalls[1][0] = (uint64_t)(cycles * works(w));
    r.timing.stalls[1][3] = r.timing.cycles - r.timing.stalls[1][0];
    ok(presil_store_put(store, &r));
}

static void fill(uint32_t count, const char *identity, double noise) {
    uint32_t seed = 7;
    for (uint32_t i = 0; i < count; i++) {
        const presil_work w = work_of(&seed);
        put(i, identity, &w, truth(&w) * (1 + noise * (2 * drawn(&seed) - 1)));
    }
}

static presil_store_estimate estimate(const char *identity, const presil_work *w, int *found) {
    presil_store_estimate e = {.size = sizeof e};
    *found = -1;
    ok(presil_store_estimate_of(store, identity, w, &e, found));
    assert_int_equal(e.size, sizeof e);
    return e;
}

static void test_near(void **state) {
    (void)state;
    uint32_t seed = 99;
    double furthest = 0;
    fill(200, "a", 0.01);
    for (int i = 0; i < 50; i++) {
        const presil_work w = work_of(&seed);
        int found;
        const presil_store_estimate e = estimate("a", &w, &found);
        assert_int_equal(found, 1);
        assert_int_equal(e.neighbours, 16);
        assert_true(fabs((double)e.cycles / truth(&w) - 1) < 0.02);
        /* noise of at most 1 %, of which the neighbours' cancels out */
        assert_true(e.median_error > 0.002 && e.median_error < 0.008);
        assert_true(e.error > e.median_error && e.error < 0.02);
        /* an engine that works, one that is not there */
        assert_int_equal(e.has_stalls, 1);
        assert_true(fabs((double)e.stalls[1][0] / (double)e.cycles - works(&w)) < 0.01);
        assert_int_equal(e.stalls[1][0] + e.stalls[1][3], e.cycles);
        assert_int_equal(e.stalls[0][0] + e.stalls[2][0] + e.stalls[1][1], 0);
        assert_true(e.stalls_error > e.stalls_median && e.stalls_median > 0 && e.stalls_error < 0.01);
        /* of a chip that doesn't expect any: as those most like it, of which the largest has none above it */
        presil_work silent = w;
        memset(silent.stalls, 0, sizeof silent.stalls);
        const presil_store_estimate s = estimate("a", &silent, &found);
        const double far = fabs((double)s.stalls[1][0] / (double)s.cycles - works(&w));
        assert_true(far < 0.03);
        furthest = fmax(furthest, far);
    }
    assert_true(furthest > 0.01); /* what the chip expects is of use */
}

static void test_refused(void **state) {
    (void)state;
    uint32_t seed = 99;
    const presil_work w = work_of(&seed);
    presil_work large = w, nothing = w;
    int found;
    large.cycles = 1000000, nothing.cycles = 0;
    fill(31, "a", 0.01);
    (void)estimate("a", &w, &found);
    assert_int_equal(found, 0); /* too few */
    fill(60, "a", 0.01);
    (void)estimate("a", &w, &found);
    assert_int_equal(found, 1);
    (void)estimate("b", &w, &found);
    assert_int_equal(found, 0); /* another simulator's */
    (void)estimate("a", &large, &found);
    assert_int_equal(found, 0); /* none is nearly so long */
    (void)estimate("a", &nothing, &found);
    assert_int_equal(found, 0); /* a chip that says nothing */
    fill(60, "c", 0.9);
    const presil_store_estimate e = estimate("c", &w, &found);
    assert_int_equal(found, 0); /* far off there */
    assert_true(e.error > 0.25);
}

typedef struct {
    uint32_t rows, estimated, stalls; /* stalls: further off than what is told */
    double worst;
} seen;
static int see(void *context, const presil_store_row *row, const presil_store_estimate *e) {
    seen *s = context;
    s->rows++;
    if (!e->cycles) return 0;
    s->estimated++;
    const double off = fabs((double)e->cycles / (double)row->timing.cycles - 1);
    if (off > s->worst) s->worst = off;
    const double share = (double)row->timing.stalls[1][0] / (double)row->timing.cycles;
    s->stalls += fabs((double)e->stalls[1][0] / (double)e->cycles - share) > e->stalls_error + 1e-3;
    return 0;
}

/* One launch that is off by a half: what is told of it comes from the others, and of the others hardly from it. */
static void test_leave_one_out(void **state) {
    (void)state;
    uint32_t seed = 5;
    const presil_work w = work_of(&seed);
    fill(100, "a", 0);
    fill(10, "b", 0);
    seen s = {0};
    ok(presil_store_leave_one_out(store, see, &s));
    assert_int_equal(s.rows, 110);
    assert_int_equal(s.estimated, 100);
    assert_true(s.worst < 0.1);
    assert_true(s.stalls <= 5); /* 95 of 100 are nearer */
    put(500, "a", &w, 1.5 * truth(&w));
    s = (seen){0};
    ok(presil_store_leave_one_out(store, see, &s));
    assert_true(s.worst > 0.3 && s.worst < 0.4); /* 1 - 1/1.5 */
}

/* What was said of launches goes where they go; a row that was changed says nothing. */
static void test_travels(void **state) {
    (void)state;
    char copy[80];
    uint32_t seed = 99;
    int found;
    const presil_work w = work_of(&seed);
    (void)snprintf(copy, sizeof copy, "%s.copy", path);
    fill(40, "a", 0);
    ok(presil_store_export(store, copy));
    ok(presil_store_clear(store, NULL));
    (void)estimate("a", &w, &found);
    assert_int_equal(found, 0);
    ok(presil_store_merge(store, copy, NULL));
    (void)estimate("a", &w, &found);
    assert_int_equal(found, 1);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "UPDATE work SET hash = hash + 1", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    presil_store_close(store);
    store = open_store(0);
    (void)estimate("a", &w, &found);
    assert_int_equal(found, 0);
}

/* An older release made the file, and it can be read only: launches are found, none is estimated. */
static void test_older_file(void **state) {
    (void)state;
    uint32_t seed = 99;
    int found;
    const presil_work w = work_of(&seed);
    fill(40, "a", 0);
    presil_store_close(store);
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, "DROP TABLE work; DROP TRIGGER work_goes_too", NULL, NULL, NULL), SQLITE_OK);
    (void)sqlite3_close(db);
    store = open_store(PRESIL_STORE_READ_ONLY);
    seen s = {0};
    ok(presil_store_leave_one_out(store, see, &s));
    assert_int_equal(s.rows, 40);
    (void)estimate("a", &w, &found);
    assert_int_equal(found, 0);
    presil_store_close(store);
    store = open_store(0); /* from now on it is told */
    put(1000, "a", &w, truth(&w));
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {TEST(test_near), TEST(test_refused), TEST(test_leave_one_out),
                                       TEST(test_travels), TEST(test_older_file)};
    return cmocka_run_group_tests_name("store_estimate", tests, NULL, NULL);
}
