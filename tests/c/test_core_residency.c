/* SPDX-License-Identifier: Apache-2.0 */
/* Two copies of memory (host_memory on a transport that does not map): what moves, counted, and whose bytes hold. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "core_fixture.h"
#include "socket_fixture.h"

enum { PAGE = 4096, OUT_BYTES = MATMUL_N * MATMUL_N * (int)sizeof(float) };

static uint64_t to_device, to_host; /* at the last moved() */

static void moved(presil_device *d, uint64_t device_bytes, uint64_t host_bytes) {
    presil_memory_stats s = {.size = sizeof s};
    EXPECT_OK(presil_memory_get_stats(d, &s));
    if (s.bytes_to_device - to_device != device_bytes || s.bytes_to_host - to_host != host_bytes)
        fail_msg("%llu and %llu bytes expected, %llu to the device and %llu to the host found",
                 (unsigned long long)device_bytes, (unsigned long long)host_bytes,
                 (unsigned long long)(s.bytes_to_device - to_device), (unsigned long long)(s.bytes_to_host - to_host));
    to_device = s.bytes_to_device, to_host = s.bytes_to_host;
}

static presil_device *open_with(uint32_t host_memory, const char *transport) {
    const presil_device_options options = {.size = sizeof options,
                                           .config = transport ? NULL : "tiny",
                                           .build = transport ? NULL : "nomap",
                                           .memory_bytes = 64u << 20,
                                           .transport = transport,
                                           .host_memory = host_memory};
    presil_device *d = NULL;
    EXPECT_OK(presil_device_open(&options, &d));
    EXPECT_OK(presil_device_start(d));
    to_device = to_host = 0;
    return d;
}

static uint8_t *host(presil_device *d, presil_daddr at) { return presil_host_pointer(d, at, 1); }

static void run(presil_device *d, const matmul_buffers *m) {
    EXPECT_OK(matmul_enqueue(d, NULL, m));
    EXPECT_OK(presil_host_access(d, NULL, 0)); /* waits, brings nothing */
}

static void only_what_changed(presil_device *d) {
    matmul_buffers m = matmul_alloc(d, 5);
    run(d, &m);
    moved(d, 3 * PAGE, 0); /* a, b, and the page in which the result is a part */
    run(d, &m);
    run(d, &m);
    moved(d, 0, 0);
    EXPECT_OK(presil_host_access(d, host(d, m.out), OUT_BYTES));
    moved(d, 0, PAGE);
    matmul_check(d, &m, 5);
    EXPECT_OK(presil_device_synchronize(d));
    moved(d, 0, 0); /* it was here */

    uint16_t old; /* one element, behind the driver's back */
    memcpy(&old, host(d, m.a), sizeof old);
    memset(host(d, m.a), 0, sizeof old);
    run(d, &m);
    moved(d, PAGE, 0);
    float first;
    EXPECT_OK(presil_host_access(d, host(d, m.out), sizeof first));
    moved(d, 0, PAGE);
    memcpy(host(d, m.a), &old, sizeof old);
    run(d, &m);
    moved(d, PAGE, 0);
    matmul_check(d, &m, 5);
    moved(d, 0, PAGE);
    memset(host(d, m.a), 0, 2);
    memcpy(host(d, m.a), &old, sizeof old); /* what it was again: nothing to send */
    run(d, &m);
    moved(d, 0, 0);
    matmul_free(d, m);
}

static void a_launch_moves_what_changed(void **state) {
    (void)state;
    presil_device *d = open_with(2, NULL);
    only_what_changed(d);
    presil_device_close(d);
}

/* Two launches, one after the other: what lies between them stays on the device. */
static void chains_stay_there(void **state) {
    (void)state;
    presil_device *d = open_with(2, NULL);
    enum { BYTES = 3 * PAGE };
    presil_daddr a, b, c;
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &b));
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &c));
    for (int i = 0; i < BYTES; i++) host(d, a)[i] = (uint8_t)(i * 7);
    EXPECT_OK(presil_copy_on_device(d, NULL, b, a, BYTES, PRESIL_COPY_DMA));
    EXPECT_OK(presil_copy_on_device(d, NULL, c, b, BYTES, PRESIL_COPY_DMA));
    EXPECT_OK(presil_host_access(d, NULL, 0));
    moved(d, BYTES, 0); /* whole pages that are written are not sent */
    EXPECT_OK(presil_host_access(d, host(d, c) + PAGE, 1));
    moved(d, 0, PAGE);
    assert_memory_equal(host(d, c) + PAGE, host(d, a) + PAGE, PAGE);
    EXPECT_OK(presil_free(d, b));
    EXPECT_OK(presil_device_synchronize(d));
    moved(d, 0, 2 * PAGE); /* the rest of c; b is nobody's */
    assert_memory_equal(host(d, c), host(d, a), BYTES);
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, c));
    presil_device_close(d);
}

/* A block that the device wrote, given to somebody new: the host's bytes hold, even where they are those sent once. */
static void a_new_owner(void **state) {
    (void)state;
    presil_device *d = open_with(2, NULL);
    presil_daddr a, b, again;
    EXPECT_OK(presil_alloc(d, NULL, NULL, PAGE, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, PAGE, &b));
    memset(host(d, a), 0x11, PAGE);
    memset(host(d, b), 0x22, PAGE);
    EXPECT_OK(presil_copy_on_device(d, NULL, a, b, PAGE, PRESIL_COPY_DMA)); /* b is there: 0x22 */
    EXPECT_OK(presil_copy_on_device(d, NULL, b, a, PAGE, PRESIL_COPY_DMA)); /* b is newer there */
    EXPECT_OK(presil_host_access(d, NULL, 0));
    EXPECT_OK(presil_free(d, b));
    EXPECT_OK(presil_alloc(d, NULL, NULL, PAGE, &again));
    assert_int_equal(again.value, b.value);
    memset(host(d, again), 0x33, PAGE);
    EXPECT_OK(presil_copy_on_device(d, NULL, a, again, PAGE, PRESIL_COPY_DMA));
    EXPECT_OK(presil_host_access(d, host(d, a), PAGE));
    for (int i = 0; i < PAGE; i++) assert_int_equal(host(d, a)[i], 0x33);
    presil_device_close(d);
}

static atomic_bool held;

static void hold(void *context, const presil_report *report) {
    (void)context, (void)report;
    while (atomic_load(&held)) (void)sched_yield();
}

/* A block that is freed while launches that use it are enqueued is theirs until they have run. */
static void freed_while_it_is_used(void **state) {
    (void)state;
    presil_device *d = open_with(2, NULL);
    presil_daddr a, b, c;
    EXPECT_OK(presil_alloc(d, NULL, NULL, PAGE, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, PAGE, &b));
    EXPECT_OK(presil_alloc(d, NULL, NULL, PAGE, &c));
    memset(host(d, a), 0x77, PAGE);
    memset(host(d, b), 0x11, PAGE);
    atomic_store(&held, true);
    presil_set_report(d, hold, NULL);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_copy_on_device(d, NULL, b, a, PAGE, PRESIL_COPY_DMA));
    EXPECT_OK(presil_copy_on_device(d, NULL, c, b, PAGE, PRESIL_COPY_DMA));
    EXPECT_OK(presil_free(d, b));
    atomic_store(&held, false);
    EXPECT_OK(presil_host_access(d, host(d, c), PAGE));
    for (int i = 0; i < PAGE; i++) assert_int_equal(host(d, c)[i], 0x77);
    moved(d, PAGE, PAGE);
    presil_device_close(d);
}

/* A result in the middle of a page: what is beside it stays. */
static void neighbours(uint32_t host_memory) {
    presil_device *d = open_with(host_memory, NULL);
    matmul_buffers m = matmul_alloc(d, 9);
    const presil_daddr block = m.out;
    memset(host(d, block), 0x5a, PAGE);
    m.out.value += 512;
    run(d, &m);
    if (host_memory == 1) memset(host(d, block), 0x66, 256); /* without a word */
    run(d, &m);
    EXPECT_OK(presil_host_access(d, host(d, block), PAGE));
    for (int i = 0; i < 512; i++) assert_int_equal(host(d, block)[i], host_memory == 1 && i < 256 ? 0x66 : 0x5a);
    for (int i = 512 + OUT_BYTES; i < PAGE; i++) assert_int_equal(host(d, block)[i], 0x5a);
    matmul_check(d, &m, 9);
    m.out = block;
    matmul_free(d, m);
    presil_device_close(d);
}

static void neighbours_in_a_page_stay(void **state) {
    (void)state;
    neighbours(1);
    neighbours(2);
}

static void copies_see_the_newer_side(void **state) {
    (void)state;
    presil_device *d = open_with(2, NULL);
    enum { BYTES = 2 * PAGE };
    uint8_t bytes[BYTES], back[BYTES];
    presil_daddr a, b;
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &b));
    for (int i = 0; i < BYTES; i++) bytes[i] = (uint8_t)(i * 13);
    EXPECT_OK(presil_copy_to_device(d, NULL, a, bytes, BYTES, PRESIL_COPY_DMA)); /* by launches */
    EXPECT_OK(presil_copy_on_device(d, NULL, b, a, BYTES, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_copy_to_host(d, NULL, back, b, BYTES, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_host_access(d, NULL, 0));
    assert_memory_equal(back, bytes, BYTES);
    EXPECT_OK(presil_copy_on_device(d, NULL, b, a, BYTES, PRESIL_COPY_DMA));
    EXPECT_OK(presil_copy_to_device(d, NULL, b, "host", 4, PRESIL_COPY_DIRECT)); /* over a part of it */
    EXPECT_OK(presil_copy_to_host(d, NULL, back, b, BYTES, PRESIL_COPY_DMA));
    EXPECT_OK(presil_host_access(d, NULL, 0));
    memcpy(bytes, "host", 4);
    assert_memory_equal(back, bytes, BYTES);
    presil_device_close(d);
}

/* VERIFY and MODEL work on the host's copy. */
static void modes_see_the_newer_side(void **state) {
    (void)state;
    presil_device *d = open_with(2, NULL);
    matmul_buffers m = matmul_alloc(d, 6);
    presil_daddr copy;
    EXPECT_OK(presil_alloc(d, NULL, NULL, PAGE, &copy));
    run(d, &m);
    EXPECT_OK(presil_device_set_mode(d, PRESIL_MODE_VERIFY));
    reports_begin(d);
    EXPECT_OK(presil_copy_on_device(d, NULL, copy, m.out, PAGE, PRESIL_COPY_DMA));
    EXPECT_OK(presil_host_access(d, NULL, 0));
    assert_int_equal(reports[0].verified, 1);
    EXPECT_OK(presil_device_set_mode(d, PRESIL_MODE_RTL));
    memset(host(d, m.out), 0, OUT_BYTES); /* else the result is here from before */
    run(d, &m);
    EXPECT_OK(presil_device_set_mode(d, PRESIL_MODE_MODEL));
    EXPECT_OK(presil_copy_on_device(d, NULL, copy, m.out, PAGE, PRESIL_COPY_DMA));
    m.out = copy;
    matmul_check(d, &m, 6);
    presil_device_close(d);
}

/* ---- over a socket whose memory travels in messages */
static void over_a_socket(void **state) {
    (void)state;
    soft_server s;
    soft_server_name(&s);
    soft_server_start(&s, true);
    presil_device *d = open_with(2, s.spec);
    only_what_changed(d);
    matmul_buffers m = matmul_alloc(d, 8);
    run(d, &m);
    soft_server_stop(&s);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EDEAD);
    soft_server_start(&s, true);
    presil_set_log(NULL, NULL);
    EXPECT_OK(presil_device_reset(d)); /* the result was there alone: a warning says so */
    EXPECT_OK(presil_host_access(d, NULL, 0));
    presil_memory_stats stats = {.size = sizeof stats};
    EXPECT_OK(presil_memory_get_stats(d, &stats));
    to_device = stats.bytes_to_device, to_host = stats.bytes_to_host;
    run(d, &m);
    moved(d, 3 * PAGE, 0); /* a and b are the host's, and go there once more */
    matmul_check(d, &m, 8);
    matmul_free(d, m);
    presil_device_close(d);
    soft_server_stop(&s);
}

static void arguments_are_checked(void **state) {
    (void)state;
    const presil_device_options options = {
        .size = sizeof options, .config = "tiny", .build = "nomap", .host_memory = 3};
    presil_device *d = NULL;
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EINVAL);
    d = open_with(2, NULL);
    matmul_buffers m = matmul_alloc(d, 1);
    run(d, &m);
    char mine[4];
    EXPECT_STATUS(presil_host_access(d, mine, sizeof mine), PRESIL_EINVAL);
    EXPECT_TEXT("not in the mapping");
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_launch_moves_what_changed),
                                       cmocka_unit_test(chains_stay_there),
                                       cmocka_unit_test(a_new_owner),
                                       cmocka_unit_test(neighbours_in_a_page_stay),
                                       cmocka_unit_test(freed_while_it_is_used),
                                       cmocka_unit_test(copies_see_the_newer_side),
                                       cmocka_unit_test(modes_see_the_newer_side),
                                       cmocka_unit_test(over_a_socket),
                                       cmocka_unit_test(arguments_are_checked)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
