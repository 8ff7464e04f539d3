/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator: pathological, pessimistic, optimistic and random sequences, against a map of pages. */
#include <stdlib.h>
#include "core_fixture.h"
#include "presil_heap.h"

static void check(const presil_heap *heap) {
    char text[200];
    if (presil_heap_check(heap, text, sizeof text)) fail_msg("%s", text);
}

static uint32_t must_alloc(presil_heap *heap, uint32_t pool, uint64_t pages) {
    uint32_t page = UINT32_MAX;
    assert_int_equal(presil_heap_alloc(heap, pool, pages, &page), PRESIL_HEAP_OK);
    return page;
}

/* Everything in single pages, every second freed: half is free, yet nothing of two pages fits; all freed: everything
 * fits again. */
static void pathological(void **state) {
    (void)state;
    enum { PAGES = 1024 };
    presil_heap heap;
    uint32_t pages[PAGES];
    assert_int_equal(presil_heap_init(&heap, PAGES), 0);
    for (int i = 0; i < PAGES; i++) pages[i] = must_alloc(&heap, 0, 1);
    for (int i = 0; i < PAGES; i += 2) assert_int_equal(presil_heap_free(&heap, pages[i]), 0);
    check(&heap);
    presil_heap_stats stats;
    presil_heap_get_stats(&heap, &stats);
    assert_int_equal(stats.largest_free, 1);
    uint32_t page = 7;
    assert_int_equal(presil_heap_alloc(&heap, 0, 2, &page), PRESIL_HEAP_FULL);
    assert_int_equal(page, 7);
    for (int i = 1; i < PAGES; i += 2) assert_int_equal(presil_heap_free(&heap, pages[i]), 0);
    check(&heap);
    assert_int_equal(must_alloc(&heap, 0, PAGES), 0);
    check(&heap);
    presil_heap_destroy(&heap);
}

/* The largest request, exactly, although its size class is above the memory; one page more is refused. */
static void pessimistic(void **state) {
    (void)state;
    for (uint32_t size = 1; size < 5000; size = size * 2 + 3) {
        presil_heap heap;
        uint32_t page;
        assert_int_equal(presil_heap_init(&heap, size), 0);
        assert_int_equal(presil_heap_alloc(&heap, 0, (uint64_t)size + 1, &page), PRESIL_HEAP_FULL);
        assert_int_equal(presil_heap_alloc(&heap, 0, UINT64_MAX, &page), PRESIL_HEAP_FULL);
        assert_int_equal(must_alloc(&heap, 0, size), 0);
        assert_int_equal(presil_heap_alloc(&heap, 0, 1, &page), PRESIL_HEAP_FULL);
        assert_int_equal(presil_heap_free(&heap, 0), 0);
        assert_int_equal(presil_heap_free(&heap, 0), -1);
        assert_int_equal(presil_heap_free(&heap, size), -1);
        check(&heap);
        presil_heap_destroy(&heap);
    }
}

/* A freed block is what the next request of its class gets. */
static void optimistic(void **state) {
    (void)state;
    presil_heap heap;
    assert_int_equal(presil_heap_init(&heap, 1u << 22), 0);
    for (uint32_t pages = 1; pages < 100000; pages = pages * 3 / 2 + 1) {
        const uint32_t first = must_alloc(&heap, 0, pages), fence = must_alloc(&heap, 0, pages);
        assert_int_equal(presil_heap_free(&heap, first), 0);
        assert_int_equal(must_alloc(&heap, 0, pages), first);
        assert_true(presil_heap_size(&heap, first) >= pages &&
                    presil_heap_size(&heap, first) <= pages + pages / 16 + 1);
        assert_int_equal(presil_heap_free(&heap, first), 0);
        assert_int_equal(presil_heap_free(&heap, fence), 0);
        check(&heap);
    }
    presil_heap_stats stats;
    presil_heap_get_stats(&heap, &stats);
    assert_int_equal(stats.allocated, 0);
    assert_int_equal(stats.largest_free, 1u << 22);
    presil_heap_destroy(&heap);
}

static void small_blocks_do_not_split_large_gaps(void **state) {
    (void)state;
    presil_heap heap;
    assert_int_equal(presil_heap_init(&heap, 100000), 0);
    const uint32_t large = must_alloc(&heap, 0, 4096);
    assert_int_equal(presil_heap_free(&heap, large), 0);
    const uint32_t scalar = must_alloc(&heap, 0, 1);
    assert_true(scalar < large || scalar >= large + 4096);
    assert_int_equal(must_alloc(&heap, 0, 4096), large);
    check(&heap);
    presil_heap_destroy(&heap);
}

static uint32_t holes, hole_pages;

static void on_hole(void *context, uint32_t page, uint32_t pages) {
    (void)context, (void)page;
    holes++;
    hole_pages += pages;
}

static void pools_keep_their_own(void **state) {
    (void)state;
    presil_heap heap;
    uint32_t pool = 0, other = 0;
    assert_int_equal(presil_heap_init(&heap, 10000), 0);
    assert_int_equal(presil_heap_pool_create(&heap, &pool), 0);
    assert_int_equal(presil_heap_pool_create(&heap, &other), 0);
    assert_true(pool != 0 && other != 0 && pool != other);
    const uint32_t live = must_alloc(&heap, other, 600), mine = must_alloc(&heap, pool, 600);
    assert_int_equal(presil_heap_free(&heap, mine), 0);
    const uint32_t theirs = must_alloc(&heap, other, 600);
    assert_true(theirs != mine && theirs != live);
    assert_int_equal(presil_heap_free(&heap, theirs), 0);
    assert_int_equal(must_alloc(&heap, pool, 600), mine);
    /* A full heap takes what other pools cache. */
    assert_int_equal(presil_heap_free(&heap, mine), 0);
    const uint32_t most = must_alloc(&heap, other, 9000);
    check(&heap);
    assert_int_equal(presil_heap_free(&heap, most), 0);
    assert_int_equal(presil_heap_pool_destroy(&heap, other), 1); /* its 600 pages are live and move */
    check(&heap);
    uint32_t again = 0;
    assert_int_equal(presil_heap_pool_create(&heap, &again), 0);
    assert_int_equal(again, other);
    assert_int_equal(presil_heap_free(&heap, must_alloc(&heap, again, 300)), 0);
    holes = hole_pages = 0;
    presil_heap_release(&heap, on_hole, NULL);
    assert_true(holes >= 1);
    presil_heap_stats stats;
    presil_heap_get_stats(&heap, &stats);
    assert_int_equal(stats.reserved, stats.allocated);
    check(&heap);
    presil_heap_destroy(&heap);
}

enum { MAP = 3000, LIVE = 200 };
typedef struct {
    uint32_t page, pages;
} block;

/* No overlap, sizes as promised, full only if no run of free pages is long enough. */
static uint32_t random_run(uint64_t seed, bool map_checks) {
    presil_heap heap;
    static uint8_t map[MAP];
    block live[LIVE];
    uint32_t count = 0, hash = 1;
    memset(map, 0, sizeof map);
    assert_int_equal(presil_heap_init(&heap, MAP), 0);
    for (int step = 0; step < 4000; step++) {
        const uint32_t dice = random32(&seed) % 16;
        if (count && (count == LIVE || dice < 7)) {
            const uint32_t i = random32(&seed) % count;
            assert_int_equal(presil_heap_free(&heap, live[i].page), 0);
            memset(map + live[i].page, 0, live[i].pages);
            live[i] = live[--count];
        } else if (dice == 7) {
            presil_heap_release(&heap, NULL, NULL);
        } else {
            const uint32_t want = 1 + random32(&seed) % (dice < 12 ? 8 : dice < 15 ? 100 : 900);
            uint32_t page = 0, run = 0, longest = 0;
            for (uint32_t p = 0; p < MAP; p++) {
                run = map[p] ? 0 : run + 1;
                longest = run > longest ? run : longest;
            }
            const int error = presil_heap_alloc(&heap, 0, want, &page);
            assert_int_equal(error == 0, longest >= want);
            if (error) continue;
            const uint32_t got = presil_heap_size(&heap, page);
            assert_true(got >= want && page + got <= MAP);
            for (uint32_t p = page; p < page + got; p++) assert_int_equal(map[p]++, 0);
            live[count++] = (block){page, got};
            hash = hash * 31 + page;
        }
        if (map_checks && step % 8 == 0) check(&heap);
    }
    presil_heap_destroy(&heap);
    return hash;
}

static void random_against_map(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) (void)random_run(seed, true);
}

static void same_calls_same_addresses(void **state) {
    (void)state;
    for (uint64_t seed = 100; seed < 105; seed++) assert_int_equal(random_run(seed, false), random_run(seed, false));
    assert_int_not_equal(random_run(1, false), random_run(2, false));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pathological),
        cmocka_unit_test(pessimistic),
        cmocka_unit_test(optimistic),
        cmocka_unit_test(small_blocks_do_not_split_large_gaps),
        cmocka_unit_test(pools_keep_their_own),
        cmocka_unit_test(random_against_map),
        cmocka_unit_test(same_calls_same_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
