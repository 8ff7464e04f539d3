/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory through the API: blocks, mapping, copies by every path, transports that don't map, leaks. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "core_fixture.h"

static void blocks_and_pointers(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    presil_device_info info = {.size = sizeof info};
    EXPECT_OK(presil_device_get_info(d, &info));
    assert_int_equal(info.memory_bytes, 64u << 20);
    assert_true(info.memory_base.value != 0);
    assert_string_equal(info.config, "tiny");
    presil_daddr a, b, zero = {1};
    EXPECT_OK(presil_alloc(d, NULL, NULL, 5000, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, 1, &b));
    EXPECT_OK(presil_alloc(d, NULL, NULL, 0, &zero));
    assert_int_equal(zero.value, 0);
    EXPECT_OK(presil_free(d, zero));
    assert_true(a.value % 4096 == 0 && b.value % 4096 == 0 && a.value != b.value && a.value >= info.memory_base.value);
    void *host = presil_host_pointer(d, a, 5000);
    assert_non_null(host);
    presil_daddr back;
    assert_int_equal(presil_device_address(d, (char *)host + 17, &back), 1);
    assert_int_equal(back.value, a.value + 17);
    assert_int_equal(presil_device_address(d, &back, &back), 0);
    const presil_daddr end = {info.memory_base.value + info.memory_bytes};
    assert_non_null(presil_host_pointer(d, (presil_daddr){end.value - 1}, 1));
    assert_null(presil_host_pointer(d, (presil_daddr){end.value - 1}, 2));
    assert_null(presil_host_pointer(d, (presil_daddr){end.value + 4096}, 1));
    assert_null(presil_host_pointer(d, (presil_daddr){0}, 1));
    assert_null(presil_host_pointer(d, a, UINT64_MAX));
    EXPECT_STATUS(presil_free(d, (presil_daddr){a.value + 4096}), PRESIL_EINVAL);
    EXPECT_STATUS(presil_free(d, (presil_daddr){12345}), PRESIL_EINVAL);
    EXPECT_OK(presil_free(d, a));
    EXPECT_STATUS(presil_free(d, a), PRESIL_EINVAL);
    EXPECT_TEXT("freed twice");
    EXPECT_OK(presil_free(d, b));
    presil_device_close(d);
    assert_string_equal(log_text(), "");
}

static void full_memory_and_statistics(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    presil_memory_stats s = {.size = sizeof s};
    EXPECT_OK(presil_memory_get_stats(d, &s));
    assert_int_equal(s.allocated, 0);
    assert_int_equal(s.active_blocks, 0);
    assert_int_equal(s.largest_free, s.capacity);
    presil_daddr all, more = {99};
    EXPECT_STATUS(presil_alloc(d, NULL, NULL, s.capacity + 1, &more), PRESIL_ENOMEM);
    EXPECT_TEXT("out of device memory");
    EXPECT_OK(presil_alloc(d, NULL, NULL, s.capacity, &all));
    EXPECT_STATUS(presil_alloc(d, NULL, NULL, 1, &more), PRESIL_ENOMEM);
    EXPECT_TEXT("more than is free");
    assert_int_equal(more.value, 99);
    EXPECT_OK(presil_memory_get_stats(d, &s));
    assert_int_equal(s.allocated, s.capacity);
    assert_int_equal(s.failures, 2);
    EXPECT_OK(presil_free(d, all));
    presil_memory_reset_peak(d);
    presil_memory_empty_cache(d);
    EXPECT_OK(presil_memory_get_stats(d, &s));
    assert_int_equal(s.allocated_peak, 0);
    assert_int_equal(s.reserved, 0);
    assert_int_equal(s.frees, 1);
    presil_pool *pool;
    EXPECT_OK(presil_pool_create(d, &pool));
    EXPECT_OK(presil_alloc(d, NULL, pool, 100, &all));
    presil_pool_destroy(pool); /* its block moves to the default pool */
    EXPECT_OK(presil_free(d, all));
    presil_device_close(d);
    assert_string_equal(log_text(), "");
}

static void expect_counter(presil_device *d, int quantity, int kind, uint64_t current, uint64_t peak, uint64_t gained,
                           uint64_t lost) {
    presil_memory_counters c = {.size = sizeof c};
    EXPECT_OK(presil_memory_get_counters(d, &c));
    const presil_memory_counter *found = &c.counter[quantity][kind];
    if (found->current == current && found->peak == peak && found->gained == gained && found->lost == lost) return;
    fail_msg("quantity %d kind %d: current %llu, peak %llu, gained %llu, lost %llu found; %llu %llu %llu %llu expected",
             quantity, kind, (unsigned long long)found->current, (unsigned long long)found->peak,
             (unsigned long long)found->gained, (unsigned long long)found->lost, (unsigned long long)current,
             (unsigned long long)peak, (unsigned long long)gained, (unsigned long long)lost);
}

static void counters_snapshot_and_limit(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    for (int quantity = 0; quantity < PRESIL_MEMORY_COUNTERS; quantity++)
        expect_counter(d, quantity, PRESIL_MEMORY_ALL, 0, 0, 0, 0);
    presil_pool *pool;
    EXPECT_OK(presil_pool_create(d, &pool));
    presil_daddr small, large, own;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 100, &small));
    EXPECT_OK(presil_alloc(d, NULL, NULL, 3 << 20, &large));
    EXPECT_OK(presil_alloc(d, NULL, pool, 5000, &own));
    expect_counter(d, PRESIL_MEMORY_BLOCKS, PRESIL_MEMORY_ALL, 3, 3, 3, 0);
    expect_counter(d, PRESIL_MEMORY_BYTES, PRESIL_MEMORY_SMALL, 3 * 4096, 3 * 4096, 3 * 4096, 0);
    expect_counter(d, PRESIL_MEMORY_BYTES, PRESIL_MEMORY_LARGE, 3 << 20, 3 << 20, 3 << 20, 0);
    expect_counter(d, PRESIL_MEMORY_REQUESTED, PRESIL_MEMORY_ALL, 5100 + (3 << 20), 5100 + (3 << 20), 5100 + (3 << 20),
                   0);
    expect_counter(d, PRESIL_MEMORY_RESERVED, PRESIL_MEMORY_ALL, 7 << 20, 7 << 20, 7 << 20, 0);
    expect_counter(d, PRESIL_MEMORY_SEGMENTS, PRESIL_MEMORY_ALL, 3, 3, 3, 0);
    presil_memory_block blocks[8];
    uint64_t count = 0, live = 0, bytes = 0;
    EXPECT_OK(presil_memory_snapshot(d, NULL, 0, &count));
    assert_in_range(count, 3, 8);
    EXPECT_OK(presil_memory_snapshot(d, blocks, 8, &count));
    for (uint64_t i = 0; i < count; i++) {
        bytes += blocks[i].bytes;
        live += blocks[i].live;
        if (blocks[i].address.value != own.value) continue;
        assert_int_equal(blocks[i].pool, presil_pool_number(pool));
        assert_int_equal(blocks[i].requested, 5000);
    }
    assert_int_equal(live, 3);
    assert_int_equal(presil_memory_bytes_of(d, own), 8192);
    assert_int_equal(presil_memory_bytes_of(d, large), 3 << 20);
    assert_int_equal(presil_memory_bytes_of(d, (presil_daddr){large.value + 4096}), 0);
    assert_int_equal(presil_memory_bytes_of(d, (presil_daddr){own.value + 1}), 0);
    assert_int_equal(bytes, 7 << 20);
    EXPECT_OK(presil_free(d, large));
    assert_int_equal(presil_memory_bytes_of(d, large), 0);
    presil_memory_reset_totals(d);
    presil_memory_reset_peak(d);
    EXPECT_OK(presil_free(d, own));
    expect_counter(d, PRESIL_MEMORY_BLOCKS, PRESIL_MEMORY_ALL, 1, 2, 0, 1);
    expect_counter(d, PRESIL_MEMORY_REQUESTED, PRESIL_MEMORY_ALL, 100, 5100, 0, 5000);
    presil_pool_destroy(pool);
    EXPECT_OK(presil_memory_set_limit(d, 8192));
    EXPECT_STATUS(presil_alloc(d, NULL, NULL, 8192, &own), PRESIL_ENOMEM);
    EXPECT_TEXT("limit that was set");
    EXPECT_OK(presil_alloc(d, NULL, NULL, 4096, &own));
    EXPECT_OK(presil_free(d, own));
    EXPECT_OK(presil_free(d, small));
    presil_memory_empty_cache(d);
    expect_counter(d, PRESIL_MEMORY_RESERVED, PRESIL_MEMORY_ALL, 0, 7 << 20, 0, 7 << 20);
    presil_device_close(d);
    assert_string_equal(log_text(), "");
}

static void leaks_are_logged(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    presil_daddr a;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 4096, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, 8192, &a));
    presil_device_close(d);
    assert_non_null(strstr(log_text(), "2 blocks (12288 bytes)"));
}

static void cached_pages_go_back(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    presil_daddr a;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 8u << 20, &a));
    char *host = presil_host_pointer(d, a, 8u << 20);
    memset(host, 0x5a, 8u << 20);
    EXPECT_OK(presil_free(d, a));
    presil_memory_empty_cache(d);
    assert_int_equal(host[12345], 0); /* a hole in the file */
    presil_device_close(d);
}

enum { BYTES = 3 << 20 }; /* more than the staging block, twice */

static void fill(uint8_t *buffer, size_t bytes, unsigned seed) {
    for (size_t i = 0; i < bytes; i++) buffer[i] = (uint8_t)((i * 2654435761u + seed) >> 7);
}

/* host -> a -> b -> host by one path, then everything is compared. */
static void round_trip(presil_device *d, presil_copy_path path, size_t bytes, unsigned seed) {
    uint8_t *from = malloc(bytes), *to = calloc(1, bytes);
    assert_true(from && to);
    fill(from, bytes, seed);
    presil_daddr a, b;
    EXPECT_OK(presil_alloc(d, NULL, NULL, bytes, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, bytes, &b));
    EXPECT_OK(presil_copy_to_device(d, NULL, a, from, bytes, path));
    EXPECT_OK(presil_copy_on_device(d, NULL, b, a, bytes, path));
    EXPECT_OK(presil_copy_to_host(d, NULL, to, b, bytes, path));
    EXPECT_OK(presil_device_synchronize(d));
    assert_memory_equal(from, to, bytes);
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, b));
    free(from);
    free(to);
}

static void copies(void **state) {
    (void)state;
    const presil_mode modes[] = {PRESIL_MODE_MODEL, PRESIL_MODE_RTL, PRESIL_MODE_VERIFY};
    for (int m = 0; m < 3; m++) {
        for (int nomap = 0; nomap < (modes[m] == PRESIL_MODE_MODEL ? 1 : 2); nomap++) {
            presil_device *d = open_device(modes[m], nomap ? "nomap" : "soft");
            for (unsigned i = 0; i < 2; i++) {
                const presil_copy_path path = i ? PRESIL_COPY_DMA : PRESIL_COPY_DIRECT;
                round_trip(d, path, 1, 3);
                round_trip(d, path, 4099, 4);
                round_trip(d, path, BYTES + 77, 5);
            }
            presil_device_close(d);
            assert_string_equal(log_text(), "");
        }
    }
}

static void copies_check_their_arguments(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    char byte = 0;
    EXPECT_STATUS(presil_copy_to_device(d, NULL, (presil_daddr){64}, &byte, 1, PRESIL_COPY_DIRECT), PRESIL_EINVAL);
    EXPECT_TEXT("not in device memory");
    presil_daddr a;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 16, &a));
    EXPECT_STATUS(presil_copy_to_device(d, NULL, a, NULL, 1, PRESIL_COPY_DIRECT), PRESIL_EINVAL);
    EXPECT_STATUS(presil_copy_to_host(d, NULL, &byte, a, 1ull << 62, PRESIL_COPY_DIRECT), PRESIL_EINVAL);
    EXPECT_STATUS(presil_copy_to_host(d, NULL, &byte, a, 1, (presil_copy_path)2), PRESIL_EINVAL);
    EXPECT_OK(presil_copy_to_host(d, NULL, NULL, a, 0, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_free(d, a));
    presil_device_close(d);
}

/* Nothing gets through but registers and mem_read/mem_write; what was stored before the transport started goes along.
 */
static void without_mapping(void **state) {
    (void)state;
    const presil_mode modes[] = {PRESIL_MODE_RTL, PRESIL_MODE_VERIFY, PRESIL_MODE_MODEL};
    presil_device *d = open_device(PRESIL_MODE_MODEL, "nomap");
    matmul_buffers m = matmul_alloc(d, 1);
    EXPECT_OK(presil_device_set_mode(d, PRESIL_MODE_RTL));
    EXPECT_OK(presil_device_start(d));
    assert_null(presil_host_pointer(d, m.a, 1));
    reports_begin(d);
    for (int i = 0; i < 3; i++) {
        EXPECT_OK(presil_device_set_mode(d, modes[i]));
        float zero[MATMUL_N * MATMUL_N] = {0};
        EXPECT_OK(presil_copy_to_device(d, NULL, m.out, zero, sizeof zero, PRESIL_COPY_DIRECT));
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        matmul_check(d, &m, 1);
    }
    assert_int_equal(report_count, 3);
    assert_int_equal(reports[1].verified, 1);
    matmul_free(d, m);
    presil_device_close(d);
    assert_string_equal(log_text(), "");
}

static void option_no_map(void **state) {
    (void)state;
    const presil_device_options options = {.size = sizeof options,
                                           .mode = PRESIL_MODE_VERIFY,
                                           .config = "tiny",
                                           .build = "soft",
                                           .memory_bytes = 64u << 20,
                                           .no_map = 1};
    presil_device *d;
    EXPECT_OK(presil_device_open(&options, &d));
    matmul_buffers m = matmul_alloc(d, 5);
    assert_null(presil_host_pointer(d, m.a, 1));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    matmul_check(d, &m, 5);
    matmul_free(d, m);
    presil_device_close(d);
}

static void between_devices(void **state) {
    (void)state;
    for (int nomap = 0; nomap < 2; nomap++) {
        presil_device *x = open_device(PRESIL_MODE_MODEL, NULL),
                      *y = open_device(PRESIL_MODE_RTL, nomap ? "nomap" : NULL);
        EXPECT_OK(presil_device_start(y));
        presil_daddr a, b;
        uint8_t from[10000], to[10000] = {0};
        fill(from, sizeof from, 9);
        EXPECT_OK(presil_alloc(x, NULL, NULL, sizeof from, &a));
        EXPECT_OK(presil_alloc(y, NULL, NULL, 4096, &b)); /* other addresses */
        EXPECT_OK(presil_free(y, b));
        EXPECT_OK(presil_alloc(y, NULL, NULL, sizeof from, &b));
        EXPECT_OK(presil_copy_to_device(x, NULL, a, from, sizeof from, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_copy_peer(y, b, x, a, NULL, sizeof from));
        EXPECT_OK(presil_copy_to_host(y, NULL, to, b, sizeof to, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_device_synchronize(y));
        assert_memory_equal(from, to, sizeof from);
        presil_stream *other;
        EXPECT_OK(presil_stream_create(x, 0, &other));
        EXPECT_STATUS(presil_copy_peer(y, b, y, b, other, 10), PRESIL_EINVAL);
        presil_stream_destroy(other);
        EXPECT_OK(presil_free(x, a));
        EXPECT_OK(presil_free(y, b));
        presil_device_close(x);
        presil_device_close(y);
    }
}

static void size_from_the_environment(void **state) {
    (void)state;
    presil_device *d;
    presil_device_info info = {.size = sizeof info};
    const presil_device_options options = {.size = sizeof options, .mode = PRESIL_MODE_MODEL, .config = "tiny"};
    (void)setenv("PRESIL_MEMORY", "32M", 1);
    EXPECT_OK(presil_device_open(&options, &d));
    EXPECT_OK(presil_device_get_info(d, &info));
    assert_int_equal(info.memory_bytes, 32u << 20);
    presil_device_close(d);
    (void)setenv("PRESIL_MEMORY", "17179869184", 1); /* without a unit, above 2^34 - 1 */
    EXPECT_OK(presil_device_open(&options, &d));
    presil_device_close(d);
    const char *const wrong[] = {"much", "-1", "5X", "0", "99999999999999999999"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        (void)setenv("PRESIL_MEMORY", wrong[i], 1);
        EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EINVAL);
    }
    (void)setenv("PRESIL_MEMORY", "64K", 1);
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_ENOMEM);
    (void)unsetenv("PRESIL_MEMORY");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_and_pointers),
        cmocka_unit_test(full_memory_and_statistics),
        cmocka_unit_test(counters_snapshot_and_limit),
        cmocka_unit_test(leaks_are_logged),
        cmocka_unit_test(cached_pages_go_back),
        cmocka_unit_test(copies),
        cmocka_unit_test(copies_check_their_arguments),
        cmocka_unit_test(without_mapping),
        cmocka_unit_test(option_no_map),
        cmocka_unit_test(between_devices),
        cmocka_unit_test(size_from_the_environment),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
