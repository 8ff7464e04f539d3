/* SPDX-License-Identifier: Apache-2.0 */
/* What a hang says, on the chip's RTL (tiny): planted hangs of every kind, and a memory that is only slow. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include "asked.h"
#include "device.h"
#include "core_fixture.h"

enum { WATCHDOG = 3000, COMMAND = 4, MEMORY = 5, ROWS = 6, COPY = 1 << 15 };

typedef struct {
    presil_device *device;
    presil_plan *plan;
    presil_waiting rows[ROWS];
    uint32_t count;
    int verdict;
    char text[1024];
} rig;

/* A copy through the chip: LOAD and STORE in turn, each STORE after its LOAD. */
static void rig_open(rig *r, uint64_t bytes) {
    *r = (rig){.device = open_device(PRESIL_MODE_RTL, "fast")};
    presil_device *d = r->device;
    presil_daddr a, b;
    EXPECT_OK(presil_device_start(d));
    EXPECT_OK(presil_alloc(d, NULL, NULL, bytes, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, bytes, &b));
    presil_error_buffer error = {r->text, sizeof r->text};
    assert_int_equal(chip_plan_copy(d->chip, b, a, bytes, &r->plan, &error), 0);
}

static uint32_t first(const rig *r, uint32_t opcode) {
    uint32_t n = 0;
    while (presil_desc_opcode(&r->plan->list[n]) != opcode) n++;
    return n;
}

static uint32_t last(const rig *r, uint32_t opcode) {
    uint32_t n = (uint32_t)r->plan->count - 1;
    while (presil_desc_opcode(&r->plan->list[n]) != opcode) n--;
    return n;
}

/* Runs the plan past the driver's own checks, until the bus is silent. */
static void run(rig *r) {
    presil_device *d = r->device;
    const presil_chip_ops *chip = d->chip_ops;
    const presil_link *link = &d->link;
    presil_error_buffer error = {r->text, sizeof r->text};
    uint64_t work;
    assert_int_equal(link->ops->launch(link->handle, 1), 0);
    assert_int_equal(chip->submit(d->chip, link, &d->memory.command, r->plan, 0, &error), 0);
    presil_wait w = {.size = sizeof w, .hang_cycles = WATCHDOG};
    assert_int_equal(link->ops->wait(link->handle, &w), 0);
    assert_int_equal(w.reason, PRESIL_WAIT_HUNG);
    assert_int_equal(chip->progress(d->chip, link, &work), 0);
    w = (presil_wait){.size = sizeof w, .deadline_cycles = 1000};
    assert_int_equal(link->ops->wait(link->handle, &w), 0);
    assert_int_equal(chip->why(d->chip, link, r->plan, r->text, sizeof r->text), 0);
    assert_int_equal(chip->waits(d->chip, link, r->plan, r->rows, ROWS, &r->count, &r->verdict), 0);
    assert_int_equal(r->count, ROWS);
    print_message("%s\n", r->text);
}

static void rig_close(rig *r) {
    r->device->chip_ops->plan_free(r->plan);
    EXPECT_OK(presil_device_reset(r->device));
    matmul_buffers m = matmul_alloc(r->device, 1); /* and the next launch is right */
    EXPECT_OK(matmul_enqueue(r->device, NULL, &m));
    matmul_check(r->device, &m, 1);
    matmul_free(r->device, m);
    presil_device_close(r->device);
}

static void has(const char *text, const char *part) {
    if (!strstr(text, part)) fail_msg("\"%s\" lacks \"%s\"", text, part);
}

static void missing_token(void **state) {
    (void)state;
    rig r;
    rig_open(&r, 64);
    presil_desc_signal_set(&chip_own_list(r.plan)[first(&r, PRESIL_OPCODE_LOAD)], 0);
    run(&r);
    assert_int_equal(r.verdict, PRESIL_HUNG);
    assert_true(strstr(r.text, "hung; ") == r.text);
    has(r.rows[STORE].waits_for, "of LOAD for descriptor 1 (STORE");
    has(r.rows[STORE].waits_for, "which nobody gives any more");
    has(r.text, r.rows[STORE].waits_for);
    assert_string_equal(r.rows[STORE].state, "waits for LOAD");
    assert_int_equal(r.rows[STORE].by, -1);
    assert_int_equal(r.rows[STORE].flags, PRESIL_WAITS_FOREVER);
    /* From the two looks on, a thousand cycles apart; never longer than the launch. */
    assert_in_range(r.rows[STORE].since_least, 1000, 1600);
    assert_in_range(r.rows[STORE].since_most, WATCHDOG, WATCHDOG + 2000);
    assert_string_equal(r.rows[LOAD].waits_for, ""); /* it has done all */
    assert_string_equal(r.rows[MEMORY].state, "nothing is open");
    rig_close(&r);
}

/* Tokens that came and were taken: the one that lacks is the last, though most of its kind were given. */
static void token_missing_in_the_middle(void **state) {
    (void)state;
    rig r;
    char text[64];
    rig_open(&r, COPY * 3);
    const uint32_t load = last(&r, PRESIL_OPCODE_LOAD), store = last(&r, PRESIL_OPCODE_STORE);
    assert_true(load > first(&r, PRESIL_OPCODE_STORE));
    presil_desc_signal_set(&chip_own_list(r.plan)[load], 0);
    run(&r);
    assert_int_equal(r.verdict, PRESIL_HUNG);
    (void)snprintf(text, sizeof text, "for descriptor %u (STORE", store);
    has(r.rows[STORE].waits_for, text);
    has(r.rows[STORE].waits_for, "which nobody gives any more");
    rig_close(&r);
}

static void circle_of_two(void **state) {
    (void)state;
    rig r;
    rig_open(&r, 64);
    presil_desc_wait_set(&chip_own_list(r.plan)[first(&r, PRESIL_OPCODE_LOAD)], 1u << (4 * STORE));
    presil_desc_signal_set(&chip_own_list(r.plan)[first(&r, PRESIL_OPCODE_STORE)], 1);
    run(&r);
    assert_int_equal(r.verdict, PRESIL_HUNG);
    has(r.text, "hung in a circle, LOAD -> STORE -> LOAD");
    has(r.rows[LOAD].waits_for, "token 0 of STORE for descriptor 0 (LOAD, tile 0)");
    has(r.rows[LOAD].waits_for, "gives it, and is in its queue");
    assert_int_equal(r.rows[LOAD].by, STORE);
    assert_int_equal(r.rows[STORE].by, LOAD);
    assert_int_equal(r.rows[LOAD].flags, PRESIL_WAITS_CIRCLE);
    assert_int_equal(r.rows[COMMAND].flags | r.rows[MEMORY].flags, 0);
    rig_close(&r);
}

/* The first LOAD waits for the last STORE, which is not handed out: the queue of LOAD is full before it is reached. */
static void circle_through_the_commands(void **state) {
    (void)state;
    rig r;
    rig_open(&r, COPY * 32);
    const uint32_t giver = last(&r, PRESIL_OPCODE_STORE);
    assert_true(giver > 12);
    presil_desc_wait_set(&chip_own_list(r.plan)[first(&r, PRESIL_OPCODE_LOAD)], 1u << (4 * STORE));
    for (uint32_t n = 0; n < giver; n++)
        if (presil_desc_opcode(&r.plan->list[n]) == PRESIL_OPCODE_STORE)
            presil_desc_signal_set(&chip_own_list(r.plan)[n], 0);
    presil_desc_signal_set(&chip_own_list(r.plan)[giver], 1);
    run(&r);
    assert_int_equal(r.verdict, PRESIL_HUNG);
    has(r.text, "in a circle, LOAD -> COMMAND -> LOAD");
    has(r.rows[LOAD].waits_for, "gives it, and is not handed out yet");
    uint32_t fifth = 0; /* four are in the queue */
    for (int loads = 0; loads < 5; fifth++) loads += presil_desc_opcode(&r.plan->list[fifth]) == PRESIL_OPCODE_LOAD;
    char text[64];
    (void)snprintf(text, sizeof text, "room in the queue of LOAD for descriptor %u (LOAD, tile", fifth - 1);
    has(r.rows[COMMAND].waits_for, text);
    rig_close(&r);
}

static void dead_memory(void **state) {
    (void)state;
    rig r;
    rig_open(&r, 64);
    assert_int_equal(r.device->link.ops->set_memory_model(r.device->link.handle, "r=dead", 1), 0);
    run(&r);
    assert_int_equal(r.verdict, PRESIL_HUNG);
    has(r.rows[MEMORY].waits_for, "it never answers; oldest open: read of 0x");
    has(r.rows[MEMORY].waits_for, "ID 1, 256 bytes to come"); /* two descriptors */
    has(r.rows[COMMAND].waits_for, "descriptor 0 to be fetched");
    assert_int_equal(r.rows[COMMAND].by, MEMORY);
    assert_int_equal(r.rows[LOAD].by, COMMAND);
    assert_in_range(r.rows[MEMORY].since_least, WATCHDOG + 1000, WATCHDOG + 1500);
    assert_int_equal(r.device->link.ops->reset(r.device->link.handle), 0);
    assert_int_equal(r.device->link.ops->set_memory_model(r.device->link.handle, "default", 1), 0);
    rig_close(&r);
}

/* Through the whole driver: the error's text, and what presil_device_last_hang() keeps of it. */
static void slow_memory_is_not_hung(void **state) {
    (void)state;
    presil_waiting rows[ROWS];
    uint32_t count = 7;
    int verdict = -1;
    presil_device *d = open_device(PRESIL_MODE_RTL, "fast");
    matmul_buffers m = matmul_alloc(d, 3);
    EXPECT_OK(presil_device_last_hang(d, NULL, 0, &count, NULL));
    assert_int_equal(count, 0);
    EXPECT_OK(presil_device_set_memory_model(d, "latency=20000", 1));
    EXPECT_OK(presil_device_set_watchdog(d, WATCHDOG));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EHUNG);
    EXPECT_TEXT("no progress for 3000 cycles: slow, not hung");
    EXPECT_TEXT("memory: read open, needs its own answer, in 1");
    EXPECT_OK(presil_device_last_hang(d, rows, ROWS, &count, &verdict));
    assert_int_equal(count, ROWS);
    assert_int_equal(verdict, PRESIL_SLOW);
    assert_string_equal(rows[MEMORY].who, "memory");
    assert_int_equal(rows[MEMORY].flags, PRESIL_WAITS_WORKS);
    EXPECT_OK(presil_device_set_watchdog(d, 50000)); /* as the text says: it would have ended */
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    matmul_check(d, &m, 3);
    matmul_free(d, m);
    presil_device_close(d);
}

/* STORE's data or responses that nobody takes or gives. */
static void dead_writes(void **state) {
    (void)state;
    static const struct {
        const char *model, *memory;
        uint64_t bytes;
        int row;
        const char *waits;
    } cases[] = {
        {"w=dead", "write of 0x", COPY, STORE, "the bus to accept write data"},
        {"aw=dead", "write of 0x", COPY, STORE, "the bus to accept"},
        /* A short STORE is over when its words are read: the launch is not. */
        {"b=dead", "write of 0x0, ID 0, 0 bytes to come", 64, COMMAND, "the responses of all writes"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rig r;
        rig_open(&r, cases[i].bytes);
        assert_int_equal(r.device->link.ops->set_memory_model(r.device->link.handle, cases[i].model, 1), 0);
        run(&r);
        assert_int_equal(r.verdict, PRESIL_HUNG);
        has(r.rows[MEMORY].waits_for, cases[i].memory);
        assert_int_equal(r.rows[MEMORY].flags, PRESIL_WAITS_FOREVER);
        has(r.rows[cases[i].row].waits_for, cases[i].waits);
        assert_int_equal(r.rows[cases[i].row].by, MEMORY);
        assert_int_equal(r.device->link.ops->reset(r.device->link.handle), 0);
        assert_int_equal(r.device->link.ops->set_memory_model(r.device->link.handle, "default", 1), 0);
        rig_close(&r);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(missing_token), cmocka_unit_test(token_missing_in_the_middle),
                                       cmocka_unit_test(circle_of_two), cmocka_unit_test(circle_through_the_commands),
                                       cmocka_unit_test(dead_memory),   cmocka_unit_test(slow_memory_is_not_hung),
                                       cmocka_unit_test(dead_writes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
