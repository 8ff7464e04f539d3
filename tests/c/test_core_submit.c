/* SPDX-License-Identifier: Apache-2.0 */
/* The exact register sequences of bring-up, a launch, an error and its recovery, on a mocked transport. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include "asked.h"
#include "core_fixture.h"
#include "regs.h"
#include "soft_transport.h"

static soft_log_fn soft_log;

static int load_log(void **state) {
    (void)state;
    char path[4096];
    const char *places = getenv("PRESIL_LIBRARY_PATH");
    if (!places) return -1;
    (void)snprintf(path, sizeof path, "%.*s/libpresil_sim_tiny_soft.so", (int)strcspn(places, ":"), places);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL); /* the same one that the driver loads */
    void *symbol = library ? dlsym(library, "soft_log") : NULL;
    if (!symbol) return -1;
    memcpy(&soft_log, &symbol, sizeof soft_log);
    return 0;
}

typedef struct {
    soft_kind kind;
    uint32_t offset;
    int64_t value;
} step; /* value -1: any */

static void expect_steps(const step *steps, size_t count) {
    const soft_access *log;
    const size_t found = soft_log(&log);
    for (size_t i = 0; i < count && i < found; i++) {
        if (log[i].kind != steps[i].kind || log[i].offset != steps[i].offset ||
            (steps[i].value >= 0 && log[i].value != (uint32_t)steps[i].value))
            fail_msg(
                "step %zu: kind %d, register 0x%03x, value 0x%x expected; kind %d, register 0x%03x, value 0x%x found",
                i, steps[i].kind, steps[i].offset, (unsigned)steps[i].value, log[i].kind, log[i].offset, log[i].value);
    }
    assert_true(found >= count);
}

#define RESET_STEPS                                                                                                    \
    {SOFT_WRITE, PRESIL_REG_IRQ_ENABLE, 0},                                                                            \
        {SOFT_WRITE, PRESIL_REG_CONTROL, CONTROL_QUEUE_RESET | CONTROL_COUNTER_CLEAR},                                 \
        {SOFT_READ, PRESIL_REG_STATUS, 0}, {SOFT_WRITE, PRESIL_REG_IRQ_CLEAR, IRQ_DONE | IRQ_ERROR},                   \
        {SOFT_WRITE, PRESIL_REG_RING_BASE_LO, 0}, {SOFT_WRITE, PRESIL_REG_RING_BASE_HI, 1},                            \
        {SOFT_WRITE, PRESIL_REG_RING_LOG2, -1}, {                                                                      \
        SOFT_WRITE, PRESIL_REG_IRQ_ENABLE, IRQ_DONE | IRQ_ERROR                                                        \
    }
#define LAUNCH_STEPS                                                                                                   \
    {SOFT_LAUNCH, 0, -1}, {SOFT_WRITE, PRESIL_REG_CONTROL, CONTROL_QUEUE_RESET | CONTROL_COUNTER_CLEAR},               \
        {SOFT_WRITE, PRESIL_REG_IRQ_CLEAR, IRQ_DONE | IRQ_ERROR}, {SOFT_WRITE, PRESIL_REG_RING_TAIL, -1},              \
        {SOFT_WAIT, 0, -1}, {SOFT_READ, PRESIL_REG_IRQ_STATUS, -1}

static void sequences(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    const soft_access *log;
    (void)soft_log(&log);
    EXPECT_OK(presil_device_start(d));
    const step bring_up[] = {{SOFT_READ, PRESIL_REG_ID, REG_ID_VALUE},
                             {SOFT_READ, PRESIL_REG_CAP_ARRAY, -1},
                             {SOFT_READ, PRESIL_REG_CAP_MEMORY, -1},
                             {SOFT_READ, PRESIL_REG_CAP_BANK, -1},
                             {SOFT_READ, PRESIL_REG_CAP_ACC, -1},
                             {SOFT_READ, PRESIL_REG_CONFIG_HASH, -1},
                             {SOFT_READ, PRESIL_REG_VERSION, -1},
                             {SOFT_READ, PRESIL_REG_CAP_FEATURES, -1},
                             RESET_STEPS};
    expect_steps(bring_up, sizeof bring_up / sizeof *bring_up);
    /* A launch: clean queue, doorbell, one wait, the interrupt acknowledged, a snapshot; nothing between doorbell and
     * interrupt. */
    matmul_buffers m = matmul_alloc(d, 1);
    (void)soft_log(&log);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_device_synchronize(d));
    const step launch[] = {LAUNCH_STEPS,
                           {SOFT_WRITE, PRESIL_REG_IRQ_CLEAR, IRQ_DONE},
                           {SOFT_WRITE, PRESIL_REG_CONTROL, CONTROL_COUNTER_SNAPSHOT},
                           {SOFT_READ, PRESIL_REG_COUNTER(0), -1}};
    expect_steps(launch, sizeof launch / sizeof *launch);
    /* The same shape at other addresses has the same seed; another shape has another. */
    uint32_t seeds[3];
    const matmul_buffers n = matmul_alloc(d, 2);
    const presil_daddr odd = {n.a.value + 64};
    matmul_buffers shifted = n;
    shifted.a = odd;
    const matmul_buffers *variants[3] = {&m, &n, &shifted};
    for (int i = 0; i < 3; i++) {
        (void)soft_log(&log);
        EXPECT_OK(matmul_enqueue(d, NULL, variants[i]));
        EXPECT_OK(presil_device_synchronize(d));
        assert_true(soft_log(&log) > 0);
        assert_int_equal(log[0].kind, SOFT_LAUNCH);
        seeds[i] = log[0].value;
    }
    assert_int_equal(seeds[0], seeds[1]);
    assert_int_not_equal(seeds[0], seeds[2]);
    /* An error: where and what is read, acknowledged, then reset pin and bring-up of the queue. */
    EXPECT_OK(presil_inject(d, "slverr"));
    (void)soft_log(&log);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EBUS);
    const step error[] = {LAUNCH_STEPS,
                          {SOFT_READ, PRESIL_REG_ERROR_CODE, -1},
                          {SOFT_READ, PRESIL_REG_ERROR_INDEX, -1},
                          {SOFT_READ, PRESIL_REG_ERROR_ADDR_HI, -1},
                          {SOFT_READ, PRESIL_REG_ERROR_ADDR_LO, -1},
                          {SOFT_WRITE, PRESIL_REG_IRQ_CLEAR, IRQ_ERROR},
                          {SOFT_RESET, 0, -1},
                          RESET_STEPS};
    expect_steps(error, sizeof error / sizeof *error);
    matmul_free(d, m);
    matmul_free(d, n);
    presil_device_close(d);
}

/* Registers read behind a snapshot. */
static size_t counters_read(void) {
    const soft_access *log;
    const size_t count = soft_log(&log);
    size_t reads = 0, snapshots = 0;
    for (size_t i = 0; i < count; i++) {
        snapshots += log[i].kind == SOFT_WRITE && log[i].offset == PRESIL_REG_CONTROL &&
                     log[i].value == CONTROL_COUNTER_SNAPSHOT;
        reads += snapshots && log[i].kind == SOFT_READ;
    }
    assert_int_equal(snapshots, 1);
    return reads;
}

static void launch_of(presil_device *d, const matmul_buffers *m, uint64_t cycles) {
    const soft_access *log;
    (void)soft_log(&log);
    reports_begin(d);
    EXPECT_OK(matmul_enqueue(d, NULL, m));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(report_count, 1);
    assert_int_equal(reports[0].cycles, cycles);
    for (uint32_t e = 0; e < PRESIL_ENGINES; e++)
        assert_int_equal(reports[0].stalls[e][e < 4 ? PRESIL_CAUSE_BUSY : PRESIL_CAUSE_COMMAND], cycles);
    assert_int_equal(reports[0].read_beats, cycles / 2);
    assert_int_equal(reports[0].read_bytes, cycles / 2 * 16);
}

/* Of 180 halves of counters 57 can differ from launch to launch, and the other upper ones in launches that hardly
 * anybody waits for; 4 where no engine has anything to do. */
static void counters_that_say_something(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    EXPECT_OK(presil_device_start(d));
    const matmul_buffers m = matmul_alloc(d, 1);
    EXPECT_OK(presil_inject(d, "long@1234567"));
    launch_of(d, &m, 1234567);
    assert_int_equal(counters_read(), 57);
    EXPECT_OK(presil_inject(d, "long@0x80000123456"));
    launch_of(d, &m, 0x80000123456);
    assert_int_equal(counters_read(), 57 + 56);
    EXPECT_OK(presil_inject(d, "long@0x11111111")); /* more bytes than 32 bits count, not more cycles */
    launch_of(d, &m, 0x11111111);
    assert_int_equal(counters_read(), 57 + 56);
    const soft_access *log;
    (void)soft_log(&log);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(counters_read(), 4);
    matmul_free(d, m);
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sequences), cmocka_unit_test(counters_that_say_something)};
    return cmocka_run_group_tests(tests, load_log, NULL);
}
