/* SPDX-License-Identifier: Apache-2.0 */
/* The core on the chip's RTL (tiny): equal bits, equal cycles, copies through the chip, faults and recovery, with and
 * without a mapping. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "asked.h"
#include "device.h"
#include "core_fixture.h"
#include "regs.h"

static uint64_t cycles_of(presil_device *d, const matmul_buffers *m, unsigned seed) {
    reports_begin(d);
    EXPECT_OK(matmul_enqueue(d, NULL, m));
    matmul_check(d, m, seed);
    assert_true(report_count >= 1);
    return reports[0].cycles;
}

/* Whatever happened before, whichever mode with a clock, wherever the pages are: the same cycles. */
static void equal_bits_and_cycles(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, "fast");
    matmul_buffers m = matmul_alloc(d, 1);
    const uint64_t cycles = cycles_of(d, &m, 1);
    assert_true(cycles > 100);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(cycles_of(d, &m, 1), cycles);
    matmul_buffers n = matmul_alloc(d, 2);
    assert_int_equal(cycles_of(d, &n, 2), cycles);
    EXPECT_OK(presil_device_reset(d));
    assert_int_equal(cycles_of(d, &m, 1), cycles);
    EXPECT_OK(presil_device_set_mode(d, PRESIL_MODE_VERIFY));
    assert_int_equal(cycles_of(d, &n, 2), cycles);
    assert_int_equal(reports[0].verified, 1);
    for (int e = 0; e < PRESIL_ENGINES; e++) {
        uint64_t sum = 0;
        for (int c = 0; c < PRESIL_CAUSES; c++) sum += reports[0].stalls[e][c];
        assert_int_equal(sum, cycles);
    }
    matmul_free(d, m);
    matmul_free(d, n);
    presil_device_close(d);

    (void)setenv("PRESIL_NOMAP_LIBRARY", getenv("PRESIL_TINY_LIBRARY"), 1);
    d = open_device(PRESIL_MODE_VERIFY, "nomap");
    EXPECT_OK(presil_device_start(d)); /* before that, nobody knows that it does not map */
    m = matmul_alloc(d, 3);
    assert_null(presil_host_pointer(d, m.a, 1));
    assert_int_equal(cycles_of(d, &m, 3), cycles);
    assert_int_equal(reports[0].verified, 1);
    matmul_free(d, m);
    presil_device_close(d);
    assert_string_equal(log_text(), "");
}

static uint64_t counter(presil_device *d, uint32_t n) {
    uint32_t low, high;
    assert_int_equal(d->link.ops->read32(d->link.handle, PRESIL_REG_COUNTER(n), &low), 0);
    assert_int_equal(d->link.ops->read32(d->link.handle, PRESIL_REG_COUNTER(n) + 4, &high), 0);
    return (uint64_t)high << 32 | low;
}

static bool never_asked(uint32_t engine, uint32_t cause) {
    return engine == VECTOR || cause == PRESIL_CAUSE_WAIT_VECTOR || cause > PRESIL_CAUSE_DRAIN;
}

/* The registers of the last launch against its report. */
static void registers_equal(presil_device *d, const presil_report *r) {
    for (uint32_t e = 0; e < PRESIL_ENGINES; e++) {
        for (uint32_t c = 0; c < PRESIL_CAUSES; c++)
            assert_int_equal(counter(d, e * PRESIL_CAUSES + c), r->stalls[e][c]);
    }
    assert_int_equal(counter(d, COUNTER_CYCLES), r->cycles);
    assert_int_equal(counter(d, COUNTER_READ_BEATS), r->read_beats);
    assert_int_equal(counter(d, COUNTER_READ_BYTES), r->read_bytes);
    assert_int_equal(counter(d, COUNTER_WRITE_BEATS), r->write_beats);
    assert_int_equal(counter(d, COUNTER_WRITE_BYTES), r->write_bytes);
    assert_int_equal(counter(d, COUNTER_DESCRIPTORS), r->descriptors);
    assert_int_equal(counter(d, COUNTER_FETCH_BEATS), r->counters[0]);
    assert_int_equal(counter(d, COUNTER_LAUNCHES), 1);
}

/* The registers that the driver does not read say what it takes for granted; the others are in the report. */
static void counters_taken_for_granted(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, "fast");
    matmul_buffers m = matmul_alloc(d, 1);
    const uint64_t cycles = cycles_of(d, &m, 1);
    registers_equal(d, &reports[0]);
    for (uint32_t n = 0; n < PRESIL_ENGINES * PRESIL_CAUSES; n++) {
        const uint32_t e = n / PRESIL_CAUSES, c = n % PRESIL_CAUSES;
        if (never_asked(e, c)) assert_int_equal(counter(d, n), e == VECTOR && c == PRESIL_CAUSE_COMMAND ? cycles : 0);
    }
    assert_true(reports[0].read_bytes > 0 && reports[0].write_bytes > 0);
    matmul_free(d, m);
    /* Engines without descriptors: of none, and of LOAD and STORE alone. */
    presil_daddr a;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 4096, &a));
    for (int copies = 0; copies < 2; copies++) {
        reports_begin(d);
        EXPECT_OK(copies ? presil_copy_on_device(d, NULL, (presil_daddr){a.value + 1024}, a, 1024, PRESIL_COPY_DMA)
                         : presil_nop(d, NULL));
        EXPECT_OK(presil_device_synchronize(d));
        assert_int_equal(report_count, 1);
        registers_equal(d, &reports[0]);
        assert_int_equal(reports[0].stalls[MATRIX][PRESIL_CAUSE_COMMAND], reports[0].cycles);
        assert_int_equal(reports[0].write_bytes, 1024 * copies);
    }
    EXPECT_OK(presil_free(d, a));
    presil_device_close(d);
}

/* MATRIX sums for hundreds of cycles while nothing moves on the bus: with a watchdog of 100 cycles the launch still
 * ends, in as many cycles as without. */
static void computing_is_no_hang(void **state) {
    (void)state;
    enum { ROWS = 128, SUM = 64, COLUMNS = 8 };
    presil_device *d = open_device(PRESIL_MODE_RTL, "fast");
    presil_daddr a, b, o;
    EXPECT_OK(presil_alloc(d, NULL, NULL, ROWS * SUM * 4, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, SUM * COLUMNS * 4, &b));
    EXPECT_OK(presil_alloc(d, NULL, NULL, ROWS * COLUMNS * 4, &o));
    const presil_matmul_desc m = {
        .size = sizeof m,
        .compute = PRESIL_COMPUTE_FP32,
        .a = {.data = a, .dtype = PRESIL_FP32, .ndim = 3, .shape = {1, ROWS, SUM}, .stride = {0, SUM, 1}},
        .b = {.data = b, .dtype = PRESIL_FP32, .ndim = 3, .shape = {1, SUM, COLUMNS}, .stride = {0, COLUMNS, 1}},
        .out = {.data = o, .dtype = PRESIL_FP32, .ndim = 3, .shape = {1, ROWS, COLUMNS}, .stride = {0, COLUMNS, 1}}};
    reports_begin(d);
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(presil_device_set_watchdog(d, i ? 100 : 0));
        EXPECT_OK(presil_matmul(d, NULL, &m));
        EXPECT_OK(presil_device_synchronize(d));
    }
    assert_int_equal(reports[0].cycles, reports[1].cycles);
    presil_device_close(d);
}

static void copies_through_the_chip(void **state) {
    (void)state;
    static uint8_t from[70001], to[70001];
    presil_device *d = open_device(PRESIL_MODE_VERIFY, "fast");
    presil_daddr a, b;
    EXPECT_OK(presil_alloc(d, NULL, NULL, sizeof from + 64, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, sizeof from + 64, &b));
    static const size_t sizes[] = {1, 15, 16, 17, 4095, 4097, 65536, 70001};
    reports_begin(d);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const presil_daddr x = {a.value + i}, y = {b.value + 3 * i};
        for (size_t k = 0; k < sizes[i]; k++) from[k] = (uint8_t)((k * 2654435761u + i) >> 9);
        memset(to, 0, sizes[i]);
        EXPECT_OK(presil_copy_to_device(d, NULL, x, from, sizes[i], PRESIL_COPY_DMA));
        EXPECT_OK(presil_copy_on_device(d, NULL, y, x, sizes[i], PRESIL_COPY_DMA));
        EXPECT_OK(presil_copy_to_host(d, NULL, to, y, sizes[i], PRESIL_COPY_DMA));
        EXPECT_OK(presil_device_synchronize(d));
        assert_memory_equal(from, to, sizes[i]);
    }
    assert_int_equal(report_count, 3 * sizeof sizes / sizeof *sizes);
    for (size_t i = 0; i < report_count; i++) assert_int_equal(reports[i].verified, 1);
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, b));
    presil_device_close(d);
}

static void faults_and_recovery(void **state) {
    (void)state;
    static const struct {
        const char *fault;
        int status;
        const char *text;
    } cases[] = {
        {"slverr", PRESIL_EBUS, "bus error"},
        {"decerr", PRESIL_EBUS, "bus error"},
        {"fatal@150", PRESIL_ESTOPPED, "fatal"},
        {"stop@150", PRESIL_ESTOPPED, "stop"},
    };
    presil_device *d = open_device(PRESIL_MODE_VERIFY, "fast");
    matmul_buffers m = matmul_alloc(d, 4);
    const uint64_t cycles = cycles_of(d, &m, 4);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char fault[64];
        (void)snprintf(fault, sizeof fault, "%s@0x%" PRIx64, cases[i].fault, m.a.value + 64);
        EXPECT_OK(presil_inject(d, cases[i].status == PRESIL_EBUS ? fault : cases[i].fault));
        reports_begin(d);
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(d), cases[i].status);
        EXPECT_TEXT(cases[i].text);
        assert_int_equal(reports[0].status, -cases[i].status);
        assert_int_equal(reports[0].verified, -1);
        EXPECT_OK(presil_inject(d, NULL));
        assert_int_equal(cycles_of(d, &m, 4), cycles); /* as if nothing had been */
        assert_int_equal(reports[0].verified, 1);
    }
    matmul_free(d, m);
    presil_device_close(d);
}

/* The chip's own time-out, behind a memory that doesn't answer for longer; with the text that says what to do. */
static void a_bus_that_does_not_answer(void **state) {
    (void)state;
    (void)setenv("PRESIL_BUS_TIMEOUT", "soon", 1);
    const presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_RTL, .config = "tiny", .build = "fast", .memory_bytes = 64u << 20};
    presil_device *d;
    EXPECT_STATUS(start_device(&options, &d), PRESIL_EINVAL);
    EXPECT_TEXT("PRESIL_BUS_TIMEOUT: cycles expected");
    presil_device_close(d);
    (void)setenv("PRESIL_BUS_TIMEOUT", "700", 1);
    d = open_device(PRESIL_MODE_RTL, "fast");
    matmul_buffers m = matmul_alloc(d, 4);
    const uint64_t cycles = cycles_of(d, &m, 4);
    static const char *const models[] = {"latency=20000", "response=20000"};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        EXPECT_OK(presil_device_set_memory_model(d, models[i], 1));
        reports_begin(d);
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EBUS);
        EXPECT_TEXT("no answer of the bus (code 10) in descriptor");
        EXPECT_TEXT("a larger PRESIL_BUS_TIMEOUT");
        EXPECT_OK(presil_device_set_memory_model(d, "default", 0));
        assert_int_equal(cycles_of(d, &m, 4), cycles);
    }
    matmul_free(d, m);
    presil_device_close(d);
    (void)unsetenv("PRESIL_BUS_TIMEOUT");
    d = open_device(PRESIL_MODE_RTL, "fast");
    m = matmul_alloc(d, 4);
    assert_int_equal(cycles_of(d, &m, 4), cycles); /* the time-out costs none */
    matmul_free(d, m);
    presil_device_close(d);
}

typedef struct {
    presil_device *device;
    atomic_bool running;
    struct timespec cancelled;
} canceller;

static void note_progress(void *context, const char *label, uint64_t launch, uint64_t cycles) {
    canceller *c = context;
    (void)launch, (void)label;
    if (cycles) atomic_store(&c->running, true);
}

static void *cancel_when_it_runs(void *context) {
    canceller *c = context;
    const struct timespec nap = {0, 1000000};
    while (!atomic_load(&c->running)) (void)nanosleep(&nap, NULL);
    (void)clock_gettime(CLOCK_MONOTONIC, &c->cancelled);
    presil_device_cancel(c->device);
    return NULL;
}

static void cancelling(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, "fast");
    matmul_buffers m = matmul_alloc(d, 5);
    const uint64_t cycles = cycles_of(d, &m, 5);
    EXPECT_OK(presil_inject(d, "slow=20000000")); /* 20 ms a cycle */
    pthread_t thread;
    struct timespec after;
    canceller c = {.device = d};
    presil_set_progress(d, note_progress, &c);
    assert_int_equal(pthread_create(&thread, NULL, cancel_when_it_runs, &c), 0);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_ECANCELLED);
    (void)clock_gettime(CLOCK_MONOTONIC, &after);
    presil_set_progress(d, NULL, NULL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(after.tv_sec - c.cancelled.tv_sec <= 10);
    EXPECT_OK(presil_inject(d, NULL));
    assert_int_equal(cycles_of(d, &m, 5), cycles);
    matmul_free(d, m);
    presil_device_close(d);
}

static void several_devices(void **state) {
    (void)state;
    presil_device *d[3];
    matmul_buffers m[3];
    const presil_mode modes[3] = {PRESIL_MODE_RTL, PRESIL_MODE_VERIFY, PRESIL_MODE_MODEL};
    for (unsigned i = 0; i < 3; i++) {
        d[i] = open_device(modes[i], "fast");
        m[i] = matmul_alloc(d[i], i);
    }
    for (int round = 0; round < 5; round++) {
        for (unsigned i = 0; i < 3; i++) EXPECT_OK(matmul_enqueue(d[i], NULL, &m[i]));
    }
    for (unsigned i = 0; i < 3; i++) matmul_check(d[i], &m[i], i);
    for (unsigned i = 0; i < 3; i++) {
        matmul_free(d[i], m[i]);
        presil_device_close(d[i]);
    }
}

/* A chip with parity: the accumulators' first row, between its last write and its read. */
static void a_bit_that_flips(void **state) {
    (void)state;
    const presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_RTL, .config = "odd", .build = "check", .memory_bytes = 64u << 20};
    presil_device *d = NULL;
    EXPECT_OK(presil_device_open(&options, &d));
    const matmul_buffers m = matmul_alloc(d, 4);
    const uint64_t cycles = cycles_of(d, &m, 4);
    int status = PRESIL_OK;
    for (uint64_t at = 0; at < cycles && !status; at += 4) {
        char fault[96];
        (void)snprintf(fault, sizeof fault, "upset:u_half0.mem+5@%llu,upset:u_half1.mem+5@%llu", (unsigned long long)at,
                       (unsigned long long)at);
        EXPECT_OK(presil_inject(d, fault));
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        status = presil_device_synchronize(d);
    }
    EXPECT_STATUS(status, PRESIL_EBUS);
    EXPECT_TEXT("wrong parity in a memory of the chip (code 12) in descriptor");
    EXPECT_TEXT("accumulators: a bit is not as written");
    EXPECT_OK(presil_inject(d, NULL));
    assert_int_equal(cycles_of(d, &m, 4), cycles);
    matmul_free(d, m);
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_bits_and_cycles), cmocka_unit_test(counters_taken_for_granted),
        cmocka_unit_test(computing_is_no_hang),  cmocka_unit_test(copies_through_the_chip),
        cmocka_unit_test(faults_and_recovery),   cmocka_unit_test(a_bus_that_does_not_answer),
        cmocka_unit_test(a_bit_that_flips),      cmocka_unit_test(cancelling),
        cmocka_unit_test(several_devices)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
