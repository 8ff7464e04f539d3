/* SPDX-License-Identifier: Apache-2.0 */
/* The scratchpad allocator against a byte map. */
#include <stdlib.h>
#include "core_fixture.h"
#include "spad.h"

static void check(const presil_spad *spad) {
    char text[200];
    if (presil_spad_check(spad, text, sizeof text)) fail_msg("%s", text);
}

static void errors_say_which(void **state) {
    (void)state;
    presil_spad s;
    uint32_t a = 77, b, c;
    presil_spad_init(&s, 100);
    assert_int_equal(presil_spad_alloc(&s, 0, 1, "x", &a), PRESIL_SPAD_EINVAL);
    assert_int_equal(presil_spad_alloc(&s, 1, 3, "x", &a), PRESIL_SPAD_EINVAL);
    assert_int_equal(presil_spad_alloc(&s, 1, 0, "x", &a), PRESIL_SPAD_EINVAL);
    assert_int_equal(presil_spad_alloc_within(&s, 5, 5, 1, 1, "x", &a), PRESIL_SPAD_EINVAL);
    assert_int_equal(presil_spad_alloc_within(&s, 0, 101, 1, 1, "x", &a), PRESIL_SPAD_EINVAL);
    assert_int_equal(presil_spad_alloc(&s, 101, 1, "x", &a), PRESIL_SPAD_ETOOLARGE);
    assert_int_equal(presil_spad_alloc(&s, UINT32_MAX, 1u << 31, "x", &a), PRESIL_SPAD_ETOOLARGE);
    assert_int_equal(a, 77);
    assert_int_equal(presil_spad_alloc(&s, 40, 1, "first", &a), 0);
    assert_int_equal(presil_spad_alloc(&s, 20, 1, "second", &b), 0);
    assert_int_equal(presil_spad_alloc(&s, 30, 1, "third", &c), 0);
    assert_int_equal(presil_spad_alloc(&s, 11, 1, "x", &a), PRESIL_SPAD_EFULL);
    assert_int_equal(presil_spad_free(&s, a), 0);
    assert_int_equal(presil_spad_alloc(&s, 45, 1, "x", &a), PRESIL_SPAD_EFRAGMENTED);
    assert_int_equal(presil_spad_free(&s, 1), PRESIL_SPAD_EINVAL);
    char text[100];
    assert_int_equal(presil_spad_leaks(&s, text, sizeof text), 2);
    assert_string_equal(text, "second 20@40, third 30@60");
    presil_spad_stats stats;
    presil_spad_get_stats(&s, &stats);
    assert_int_equal(stats.high_water, 90);
    assert_int_equal(stats.largest_free, 40);
    assert_int_equal(stats.failures, 9);
    check(&s);
}

static void too_many_blocks(void **state) {
    (void)state;
    presil_spad s;
    uint32_t a;
    presil_spad_init(&s, 1000);
    for (int i = 0; i < PRESIL_SPAD_BLOCKS; i++) assert_int_equal(presil_spad_alloc(&s, 1, 1, NULL, &a), 0);
    assert_int_equal(presil_spad_alloc(&s, 1, 1, NULL, &a), PRESIL_SPAD_EBLOCKS);
    check(&s);
}

enum { CAPACITY = 300 };
typedef struct {
    uint32_t address, size;
} block;

/* Best fit, by trying every address: the smallest gap, then the lowest address. */
static int naive_fit(const uint8_t *map, uint32_t low, uint32_t high, uint32_t size, uint32_t align,
                     uint32_t *address) {
    uint32_t best = UINT32_MAX;
    for (uint32_t from = low; from < high;) {
        if (map[from]) {
            from++;
            continue;
        }
        uint32_t to = from;
        while (to < high && !map[to]) to++;
        const uint32_t aligned = (from + align - 1) / align * align;
        if (aligned + size <= to && to - from < best) {
            best = to - from;
            *address = aligned;
        }
        from = to;
    }
    return best != UINT32_MAX;
}

static void random_against_map(void **state) {
    (void)state;
    uint64_t random = 1;
    unsigned placed = 0, refused = 0;
    for (int round = 0; round < 50; round++) {
        presil_spad s;
        uint8_t map[CAPACITY] = {0};
        block blocks[PRESIL_SPAD_BLOCKS];
        int count = 0;
        presil_spad_init(&s, CAPACITY);
        for (int step = 0; step < 400; step++) {
            if (count && (count == PRESIL_SPAD_BLOCKS || random32(&random) % 5 < 2)) {
                const int i = (int)(random32(&random) % (uint32_t)count);
                assert_int_equal(presil_spad_free(&s, blocks[i].address), 0);
                memset(map + blocks[i].address, 0, blocks[i].size);
                blocks[i] = blocks[--count];
            } else {
                const uint32_t low = random32(&random) % 2 ? 0 : random32(&random) % CAPACITY,
                               high = low + 1 + random32(&random) % (CAPACITY - low);
                const uint32_t size = 1 + random32(&random) % (random32(&random) % 8 ? 20 : 150),
                               align = 1u << random32(&random) % 5;
                uint32_t expected = 0, found = 0;
                const int fits = naive_fit(map, low, high, size, align, &expected);
                const int error = presil_spad_alloc_within(&s, low, high, size, align, "r", &found);
                assert_int_equal(error == 0, fits);
                refused += !fits;
                if (!fits) continue;
                assert_int_equal(found, expected);
                memset(map + found, 1, size);
                blocks[count++] = (block){found, size};
                placed++;
            }
            check(&s);
        }
    }
    assert_true(placed > 5000 && refused > 1000);
}

static void checker_sees_damage(void **state) {
    (void)state;
    presil_spad s;
    uint32_t a;
    char text[200];
    presil_spad_init(&s, 100);
    assert_int_equal(presil_spad_alloc(&s, 10, 1, "a", &a), 0);
    assert_int_equal(presil_spad_alloc(&s, 10, 1, "b", &a), 0);
    presil_spad broken = s;
    broken.blocks[1].address = 5;
    assert_int_equal(presil_spad_check(&broken, text, sizeof text), -1);
    assert_non_null(strstr(text, "overlaps"));
    broken = s;
    broken.used = 19;
    assert_int_equal(presil_spad_check(&broken, text, sizeof text), -1);
    broken = s;
    broken.blocks[1].size = 100;
    assert_int_equal(presil_spad_check(&broken, text, sizeof text), -1);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(errors_say_which), cmocka_unit_test(too_many_blocks),
                                       cmocka_unit_test(random_against_map), cmocka_unit_test(checker_sees_damage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
