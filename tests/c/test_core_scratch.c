/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a launch needs only while it runs: where it is, whose it is before and afterwards, and that nothing else
 * is touched. The chip of paper copies its operand there first. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "core_fixture.h"
#include "negation.h"
#include "presil_capture.h"
#include "presil_debug.h"

enum { ELEMENTS = 96, BYTES = 2 * ELEMENTS };

static char told[1024];
static void on_log(void *context, const char *text) {
    (void)context;
    (void)snprintf(told, sizeof told, "%s", text);
}

static presil_device *open_paper(const char *how, presil_mode mode, uint64_t bytes) {
    assert_int_equal(setenv("PRESIL_PAPER", how, 1), 0);
    const presil_device_options options = {.size = sizeof options,
                                           .mode = (uint32_t)mode,
                                           .config = "paper",
                                           .library = getenv("PRESIL_PAPER_LIBRARY"),
                                           .chip_library = getenv("PRESIL_PAPER_CHIP"),
                                           .memory_bytes = bytes,
                                           .host_memory = strstr(how, "apart") ? 2 : 0};
    presil_device *d;
    EXPECT_OK(presil_device_open(&options, &d));
    return d;
}

static int negate_of(presil_device *d, presil_daddr from, presil_daddr to, int count, const char *label) {
    return negation_enqueue(d, NULL, PRESIL_INT16, from, to, count, label);
}

static int negate(presil_device *d, presil_daddr from, presil_daddr to, const char *label) {
    return negate_of(d, from, to, ELEMENTS, label);
}

static presil_daddr take(presil_device *d, uint64_t bytes) {
    presil_daddr at;
    EXPECT_OK(presil_alloc(d, NULL, NULL, bytes, &at));
    return at;
}

static void put(presil_device *d, presil_daddr at, int first) {
    int16_t *host = presil_host_pointer(d, at, BYTES);
    for (int i = 0; i < ELEMENTS; i++) host[i] = (int16_t)(first + i);
}

static void holds(presil_device *d, presil_daddr at, int first, int sign) {
    EXPECT_OK(presil_device_synchronize(d));
    const int16_t *host = presil_host_pointer(d, at, BYTES);
    for (int i = 0; i < ELEMENTS; i++) assert_int_equal(host[i], sign * (first + i));
}

static uint64_t scratch_bytes(presil_device *d) {
    presil_memory_stats stats = {.size = sizeof stats};
    EXPECT_OK(presil_memory_get_stats(d, &stats));
    return stats.scratch;
}

/* ---- what a listener is told of the last launch */
typedef struct {
    presil_byte_range scratch;
    bool in_lists;
} heard;

static void look(heard *h, const presil_capture_launch *launch, const presil_byte_range *at, uint64_t count) {
    for (uint64_t i = 0; i < count; i++)
        h->in_lists |= at[i].base.value < launch->scratch.value + launch->scratch_bytes &&
                       launch->scratch.value < at[i].base.value + at[i].bytes;
}

static int on_begin(void *context, const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    heard *h = context;
    h->scratch = (presil_byte_range){launch->scratch, launch->scratch_bytes};
    look(h, launch, reads->at, reads->count);
    look(h, launch, launch->may_write, launch->may_write_count);
    return 1;
}

static void on_expected(void *context, const presil_capture_launch *launch, const presil_capture_bytes *writes) {
    look(context, launch, writes->at, writes->count);
}

static const char *on_end(void *context, const presil_capture_launch *launch, const presil_report *report,
                          const presil_capture_bytes *writes) {
    (void)report;
    look(context, launch, writes->at, writes->count);
    return NULL;
}

static void listen(presil_device *d, heard *h) {
    static const presil_capture_ops ops = {
        .size = sizeof ops, .begin = on_begin, .expected = on_expected, .end = on_end};
    *h = (heard){0};
    EXPECT_OK(presil_set_capture(d, &ops, h));
}

/* ---- tests */
static void in_all_modes(void **state) {
    (void)state;
    static const presil_mode modes[] = {PRESIL_MODE_RTL, PRESIL_MODE_MODEL, PRESIL_MODE_VERIFY};
    static const char *const hows[] = {"twin", "twin,apart"};
    for (size_t i = 0; i < 6; i++) {
        presil_device *d = open_paper(hows[i / 3], modes[i % 3], 64u << 20);
        const presil_daddr a = take(d, BYTES), b = take(d, BYTES);
        heard h;
        listen(d, &h);
        put(d, a, 100);
        EXPECT_OK(negate(d, a, b, "scratch=5000,align=65536"));
        holds(d, b, 100, -1);
        assert_int_equal(h.scratch.bytes, 5000);
        assert_int_equal(h.scratch.base.value % 65536, 0);
        assert_false(h.in_lists);
        EXPECT_OK(negate(d, b, a, "none"));
        holds(d, a, 100, 1);
        assert_int_equal(h.scratch.bytes, 0);
        const presil_daddr place = take(d, 8192); /* the caller's, and a tensor afterwards */
        put(d, place, 900);
        EXPECT_OK(negate(d, place, b, "none"));
        EXPECT_OK(presil_device_place_scratch(d, place, 8192));
        EXPECT_OK(negate(d, b, b, "scratch=8192"));
        holds(d, b, 900, 1);
        assert_int_equal(h.scratch.base.value, place.value);
        EXPECT_OK(presil_device_place_scratch(d, (presil_daddr){0}, 0));
        put(d, place, 900);
        EXPECT_OK(negate(d, place, b, "none"));
        holds(d, b, 900, -1);
        EXPECT_OK(presil_free(d, place));
        EXPECT_OK(presil_free(d, a));
        EXPECT_OK(presil_free(d, b));
        presil_device_close(d);
    }
}

/* One block for all launches; a larger one takes its place; it is nobody else's, and counted. */
static void one_block(void **state) {
    (void)state;
    presil_device *d = open_paper("", PRESIL_MODE_RTL, 64u << 20);
    const presil_daddr a = take(d, BYTES), b = take(d, BYTES);
    heard h;
    presil_memory_stats before = {.size = sizeof before}, after = before;
    listen(d, &h);
    put(d, a, 1);
    EXPECT_OK(presil_memory_get_stats(d, &before));
    for (int i = 0; i < 3; i++) EXPECT_OK(negate(d, a, b, i == 1 ? "scratch=300" : "scratch=9000"));
    holds(d, b, 1, -1);
    const presil_daddr first = h.scratch.base;
    EXPECT_OK(presil_memory_get_stats(d, &after));
    assert_int_equal(after.scratch, 3 * 4096);
    assert_int_equal(after.allocated - before.allocated, 3 * 4096);
    assert_int_equal(after.allocations - before.allocations, 1);
    EXPECT_STATUS(presil_free(d, first), PRESIL_EINVAL);
    EXPECT_OK(negate(d, a, b, "scratch=2000000"));
    holds(d, b, 1, -1);
    assert_int_not_equal(h.scratch.base.value, first.value);
    EXPECT_OK(presil_memory_get_stats(d, &after));
    assert_int_equal(after.allocated - before.allocated, after.scratch);
    assert_int_equal(take(d, 3 * 4096).value, first.value);
    presil_memory_empty_cache(d);
    assert_int_equal(scratch_bytes(d), 0);
    EXPECT_OK(negate(d, a, b, "scratch=1"));
    holds(d, b, 1, -1);
    assert_true(scratch_bytes(d) > 0);
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, b));
    EXPECT_OK(presil_free(d, first));
    presil_set_log(on_log, NULL);
    presil_device_close(d);
    presil_set_log(NULL, NULL);
    assert_string_equal(told, "");
}

static void refusals(void **state) {
    (void)state;
    presil_device *d = open_paper("", PRESIL_MODE_RTL, 4u << 20);
    const presil_daddr a = take(d, BYTES), b = take(d, BYTES);
    put(d, a, 1);
    EXPECT_STATUS(negate(d, a, b, "scratch=10,align=3"), PRESIL_EINVAL);
    EXPECT_TEXT("a power of two up to 2^30");
    EXPECT_STATUS(negate(d, a, b, "scratch=10,align=2147483648"), PRESIL_EINVAL);
    EXPECT_STATUS(negate(d, a, b, "scratch=99999999"), PRESIL_ENOMEM);
    EXPECT_STATUS(negate(d, a, b, "scratch=4000000"), PRESIL_ENOMEM);
    EXPECT_TEXT("needs 4000000 bytes while it runs");
    presil_memory_stats stats = {.size = sizeof stats};
    EXPECT_OK(presil_memory_get_stats(d, &stats));
    assert_int_equal(stats.failures, 2); /* each once */
    EXPECT_STATUS(presil_device_place_scratch(d, a, 1ull << 40), PRESIL_EINVAL);
    EXPECT_OK(presil_device_place_scratch(d, b, 100));
    EXPECT_STATUS(negate(d, a, a, "scratch=101"), PRESIL_EINVAL);
    EXPECT_TEXT("needs 101 bytes while it runs, from a multiple of 1 on; the place that was given has 100");
    EXPECT_OK(presil_device_place_scratch(d, (presil_daddr){b.value + 64}, 200)); /* enough, but for its place */
    EXPECT_STATUS(negate(d, a, a, "scratch=101,align=256"), PRESIL_EINVAL);
    EXPECT_TEXT("from a multiple of 256 on; the place that was given has 200");
    EXPECT_OK(presil_device_place_scratch(d, (presil_daddr){0}, 0));
    EXPECT_OK(negate(d, a, b, "scratch=101"));
    holds(d, b, 1, -1);
    presil_device_close(d);
}

/* Scratch memory gives way to tensors when memory is full, and what is then there is theirs. */
static void gives_way(void **state) {
    (void)state;
    presil_device *d = open_paper("", PRESIL_MODE_RTL, 8u << 20);
    const presil_daddr a = take(d, BYTES), b = take(d, BYTES);
    put(d, a, 7);
    EXPECT_OK(negate(d, a, b, "scratch=2000000"));
    const presil_daddr large = take(d, 11u << 19);
    assert_int_equal(scratch_bytes(d), 0);
    presil_memory_stats stats = {.size = sizeof stats};
    EXPECT_OK(presil_memory_get_stats(d, &stats));
    assert_int_equal(stats.failures, 0); /* it was tried twice, and did not fail */
    holds(d, b, 7, -1);
    EXPECT_STATUS(negate(d, a, b, "scratch=2000000"), PRESIL_ENOMEM);
    EXPECT_OK(presil_free(d, large));
    EXPECT_OK(negate(d, b, a, "scratch=2000000"));
    holds(d, a, 7, 1);
    presil_device_close(d);
}

/* Two copies of memory: where the chip had scratch memory, it has not got what the host sent there before. */
static void behind_a_transport(void **state) {
    (void)state;
    presil_device *d = open_paper("apart", PRESIL_MODE_RTL, 64u << 20);
    presil_daddr a = take(d, 4096);
    const presil_daddr b = take(d, BYTES);
    const presil_daddr where = a;
    put(d, a, 500);
    EXPECT_OK(negate(d, a, b, "none"));
    holds(d, b, 500, -1);
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(negate(d, b, b, "scratch=4096")); /* there */
    holds(d, b, 500, 1);
    EXPECT_OK(negate(d, b, b, "scratch=100000"));
    EXPECT_OK(negate(d, b, b, "none"));
    a = take(d, 4096);
    assert_int_equal(a.value, where.value);
    put(d, a, 500); /* as it was sent */
    EXPECT_OK(negate(d, a, b, "none"));
    holds(d, b, 500, -1);
    presil_device_close(d);
}

static void in_lists(void **state) {
    (void)state;
    presil_device *d = open_paper("", PRESIL_MODE_RTL, 64u << 20);
    const presil_daddr a = take(d, BYTES), b = take(d, BYTES), c = take(d, BYTES);
    presil_list *list;
    put(d, a, 40);
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(negate(d, a, b, "scratch=8000"));
    EXPECT_OK(negate(d, b, c, "scratch=12000"));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    assert_int_equal(scratch_bytes(d), 0);
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(presil_list_submit(list, NULL));
        holds(d, c, 40, 1);
        presil_memory_empty_cache(d); /* it lies elsewhere, or is taken anew */
    }
    presil_list_destroy(list);
    presil_device_close(d);
}

/* Packed tensors give way to it, of a list as of a launch. */
static void packed_gives_way(void **state) {
    (void)state;
    for (int recorded = 0; recorded < 2; recorded++) {
        presil_device *d = open_paper("", PRESIL_MODE_RTL, 16u << 20);
        const presil_daddr a = take(d, 1200000), b = take(d, 1200000);
        presil_list *list = NULL;
        put(d, a, 60);
        EXPECT_OK(negate_of(d, a, b, 600000, "out=x"));
        if (recorded) EXPECT_OK(presil_record_begin(d, NULL));
        EXPECT_OK(negate(d, a, a, "scratch=11468800"));
        if (recorded) EXPECT_OK(presil_record_end(d, NULL, &list));
        if (recorded) EXPECT_OK(presil_list_submit(list, NULL));
        holds(d, a, 60, -1);
        holds(d, b, 60, -1);
        presil_list_destroy(list);
        EXPECT_OK(presil_free(d, a));
        EXPECT_OK(presil_free(d, b));
        presil_device_close(d);
    }
}

/* The contents before are anything: a chip that uses them is found. */
static void stale(void **state) {
    (void)state;
    presil_device *d = open_paper("stale,twin", PRESIL_MODE_VERIFY, 64u << 20);
    const presil_daddr a = take(d, BYTES), b = take(d, BYTES);
    put(d, a, 1);
    EXPECT_OK(negate(d, a, b, "scratch=512"));
    EXPECT_OK(presil_device_synchronize(d)); /* it was 0 */
    EXPECT_OK(negate(d, a, b, "scratch=512"));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EMISMATCH);
    presil_device_close(d);
}

/* ---- threads */
enum { THREADS = 4, TIMES = 400 };
typedef struct {
    presil_device *d;
    presil_daddr a, b;
    uint64_t seed;
    int wrong;
} caller;

static void *call(void *context) {
    caller *c = context;
    for (int i = 0; i < TIMES; i++) {
        char label[64];
        presil_daddr block;
        (void)snprintf(label, sizeof label, "scratch=%u", 1 + random32(&c->seed) % 60000);
        c->wrong += negate(c->d, i & 1 ? c->b : c->a, i & 1 ? c->a : c->b, label) != PRESIL_OK;
        /* Somebody who takes what was given back, and writes there in the queue's order. */
        if (presil_alloc(c->d, NULL, NULL, 1 + random32(&c->seed) % 60000, &block)) continue;
        int16_t host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {0};
        c->wrong += presil_copy_to_device(c->d, NULL, block, host, sizeof host, PRESIL_COPY_DIRECT) != PRESIL_OK;
        if (i % 8 == 0) c->wrong += negate(c->d, i & 1 ? c->a : c->b, i & 1 ? c->a : c->b, "none") != PRESIL_OK;
        if (i % 8 == 0) c->wrong += negate(c->d, i & 1 ? c->a : c->b, i & 1 ? c->a : c->b, "none") != PRESIL_OK;
        c->wrong += presil_copy_to_host(c->d, NULL, back, block, sizeof back, PRESIL_COPY_DIRECT) != PRESIL_OK;
        c->wrong += presil_device_synchronize(c->d) != PRESIL_OK || memcmp(host, back, sizeof host) != 0;
        c->wrong += presil_free(c->d, block) != PRESIL_OK;
    }
    return NULL;
}

static void threads(void **state) {
    (void)state;
    presil_device *d = open_paper("", PRESIL_MODE_RTL, 64u << 20);
    caller callers[THREADS];
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){.d = d, .a = take(d, BYTES), .b = take(d, BYTES), .seed = (uint64_t)i + 1};
        put(d, callers[i].a, 1000 * i);
        assert_int_equal(pthread_create(&thread[i], NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        (void)pthread_join(thread[i], NULL);
        assert_int_equal(callers[i].wrong, 0);
        holds(d, callers[i].a, 1000 * i, 1);
    }
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_all_modes),     cmocka_unit_test(one_block), cmocka_unit_test(refusals),
        cmocka_unit_test(gives_way),        cmocka_unit_test(in_lists),  cmocka_unit_test(behind_a_transport),
        cmocka_unit_test(packed_gives_way), cmocka_unit_test(stale),     cmocka_unit_test(threads)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
