/* SPDX-License-Identifier: Apache-2.0 */
/* The twin behind the chip's registers: what a driver does and sees, and what stops it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>
#include "presil_regs.h"
#include "presil_twin_chip.h"

enum {
    BASE_LO = 0x10000,
    ENTRIES_LOG2 = 3,
    MEMORY = 1 << 16,
    BOTH = PRESIL_IRQ_STATUS_DONE_MASK | PRESIL_IRQ_STATUS_ERROR_MASK
};
static uint8_t memory[MEMORY];
static const presil_twin_memory window = {BASE_LO, MEMORY, memory};

static void put_desc(uint32_t entry, uint32_t opcode) {
    presil_desc d = {0};
    presil_desc_isa_set(&d, PRESIL_ISA_VERSION);
    presil_desc_opcode_set(&d, opcode);
    memcpy(memory + entry * sizeof d, &d, sizeof d);
}

static presil_twin_chip *ready(void) {
    presil_twin_chip *chip = presil_twin_chip_create("tiny");
    assert_non_null(chip);
    memset(memory, 0, sizeof memory);
    for (uint32_t i = 0; i < 1u << ENTRIES_LOG2; i++) put_desc(i, PRESIL_OPCODE_NOP);
    presil_twin_chip_write(chip, PRESIL_REG_RING_BASE_LO, BASE_LO);
    presil_twin_chip_write(chip, PRESIL_REG_RING_LOG2, ENTRIES_LOG2);
    presil_twin_chip_write(chip, PRESIL_REG_IRQ_ENABLE, BOTH);
    return chip;
}

static void ring(presil_twin_chip *chip, uint32_t tail) {
    presil_twin_chip_write(chip, PRESIL_REG_RING_TAIL, tail);
    assert_int_equal(presil_twin_chip_pending(chip), 1);
    assert_true(presil_twin_chip_read(chip, PRESIL_REG_STATUS) & PRESIL_STATUS_BUSY_MASK);
    presil_twin_chip_run(chip, &window, NULL, NULL);
    assert_int_equal(presil_twin_chip_pending(chip), 0);
}

static void says_what_it_is(void **state) {
    (void)state;
    presil_twin_chip *chip = presil_twin_chip_create("base");
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ID), 0x5052534c);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_CAP_ARRAY), 64 | 32 << 16);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_CONFIG_HASH), presil_twin_chip_config(chip)->hash);
    presil_twin_chip_destroy(chip);
    assert_null(presil_twin_chip_create("gone"));
}

static void launches_and_interrupts(void **state) {
    (void)state;
    presil_twin_chip *chip = ready();
    ring(chip, 5);
    assert_int_equal(presil_twin_chip_irq(chip), 1);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_IRQ_STATUS), PRESIL_IRQ_STATUS_DONE_MASK);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_RING_HEAD), 5);
    presil_twin_chip_write(chip, PRESIL_REG_IRQ_ENABLE, 0);
    assert_int_equal(presil_twin_chip_irq(chip), 0);
    presil_twin_chip_write(chip, PRESIL_REG_IRQ_ENABLE, BOTH);
    presil_twin_chip_write(chip, PRESIL_REG_IRQ_CLEAR, BOTH);
    assert_int_equal(presil_twin_chip_irq(chip), 0);
    ring(chip, 12); /* over the ring's end */
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_IRQ_STATUS), PRESIL_IRQ_STATUS_DONE_MASK);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_COUNTER(85)), 0); /* of the last snapshot */
    presil_twin_chip_write(chip, PRESIL_REG_CONTROL, PRESIL_CONTROL_COUNTER_SNAPSHOT_MASK);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_COUNTER(85)), 12);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_COUNTER(86)), 2);
    presil_twin_chip_destroy(chip);
}

static void errors_stop_the_queue(void **state) {
    (void)state;
    presil_twin_chip *chip = ready();
    put_desc(3, 15); /* no such opcode */
    ring(chip, 5);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_OPCODE);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_INDEX), 3);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_IRQ_STATUS), PRESIL_IRQ_STATUS_ERROR_MASK);
    assert_true(presil_twin_chip_read(chip, PRESIL_REG_STATUS) & PRESIL_STATUS_ERROR_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_RING_TAIL, 6); /* refused until a reset of the queue */
    assert_int_equal(presil_twin_chip_pending(chip), 0);
    presil_twin_chip_write(chip, PRESIL_REG_CONTROL, PRESIL_CONTROL_QUEUE_RESET_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_IRQ_CLEAR, BOTH);
    put_desc(3, PRESIL_OPCODE_NOP);
    ring(chip, 4);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_IRQ_STATUS), PRESIL_IRQ_STATUS_DONE_MASK);
    presil_twin_chip_destroy(chip);
}

static void a_ring_outside_of_memory(void **state) {
    (void)state;
    presil_twin_chip *chip = ready();
    presil_twin_chip_write(chip, PRESIL_REG_RING_BASE_HI, 1);
    ring(chip, 1);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_FETCH_BUS);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_ADDR_HI), 1);
    presil_twin_chip_reset(chip);
    presil_twin_chip_write(chip, PRESIL_REG_RING_BASE_LO, BASE_LO);
    presil_twin_chip_write(chip, PRESIL_REG_RING_LOG2, ENTRIES_LOG2);
    ring(chip, 9); /* more than the ring has */
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_RING);
    presil_twin_chip_destroy(chip);
}

static void expect_ring_error(presil_twin_chip *chip, uint32_t tail) {
    ring(chip, tail);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_RING);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_ADDR_LO), 0);
    presil_twin_chip_write(chip, PRESIL_REG_CONTROL, PRESIL_CONTROL_QUEUE_RESET_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_IRQ_CLEAR, BOTH);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_NONE);
}

static void doorbells_that_are_refused(void **state) {
    (void)state;
    presil_twin_chip *chip = ready();
    for (uint32_t log2 = 17; log2 < 32; log2 += 7) { /* the ring may have 2^16 entries */
        presil_twin_chip_write(chip, PRESIL_REG_RING_LOG2, log2);
        expect_ring_error(chip, log2 & 1);
    }
    presil_twin_chip_write(chip, PRESIL_REG_RING_LOG2, ENTRIES_LOG2);
    presil_twin_chip_write(chip, PRESIL_REG_RING_TAIL, 5); /* the launch hasn't begun when the tail goes back */
    expect_ring_error(chip, 4);
    presil_twin_chip_write(chip, PRESIL_REG_RING_TAIL, 5);
    ring(chip, 8); /* and forward */
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_NONE);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_RING_HEAD), 8);
    expect_ring_error(chip, 7); /* behind the head of an idle chip */
    presil_twin_chip_destroy(chip);
}

static void the_ring_begins_at_a_page(void **state) {
    (void)state;
    presil_twin_chip *chip = ready();
    put_desc(0, PRESIL_OPCODE_VECTOR);
    presil_twin_chip_write(chip, PRESIL_REG_RING_BASE_LO, BASE_LO | 0xfff);
    ring(chip, 1);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_OPCODE);
    presil_twin_chip_destroy(chip);
}

static void keeps_what_is_said_of_the_bus(void **state) {
    (void)state;
    presil_twin_chip *chip = ready();
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_BUS_ATTRIBUTES), 0x3302);
    presil_twin_chip_write(chip, PRESIL_REG_BUS_ATTRIBUTES, UINT32_MAX);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_BUS_TIMEOUT), 0);
    presil_twin_chip_write(chip, PRESIL_REG_BUS_TIMEOUT, 0x89abcdef);
    ring(chip, 1);
    presil_twin_chip_write(chip, PRESIL_REG_CONTROL, PRESIL_CONTROL_QUEUE_RESET_MASK);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_BUS_ATTRIBUTES), 0xfff7);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_BUS_TIMEOUT), 0x89abcdef);
    presil_twin_chip_reset(chip);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_BUS_ATTRIBUTES), 0x3302);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_BUS_TIMEOUT), 0);
    presil_twin_chip_destroy(chip);
}

static void expect_window(presil_twin_chip *chip, uint32_t index, uint64_t address) {
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_WINDOW);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_INDEX), index);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_ADDR_LO), (uint32_t)address);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_ADDR_HI), address >> 32);
    presil_twin_chip_write(chip, PRESIL_REG_CONTROL, PRESIL_CONTROL_QUEUE_RESET_MASK);
}

static void windows_of_fetches(void **state) {
    (void)state;
    const uint32_t page = BASE_LO >> 12, read = PRESIL_WINDOW0_LAST_ENABLE_MASK | PRESIL_WINDOW0_LAST_READ_MASK;
    presil_twin_chip *chip = ready();
    for (uint32_t reg = PRESIL_REG_WINDOW0_FIRST; reg <= PRESIL_REG_WINDOW3_LAST; reg += 4) {
        assert_int_equal(presil_twin_chip_read(chip, reg), 0);
        presil_twin_chip_write(chip, reg, UINT32_MAX);
        assert_int_equal(presil_twin_chip_read(chip, reg), reg & 4 ? 0x7fffffff : 0x0fffffff);
        presil_twin_chip_write(chip, reg, 0);
    }
    ring(chip, 1); /* none is enabled */
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_NONE);
    presil_twin_chip_write(chip, PRESIL_REG_CONTROL, PRESIL_CONTROL_QUEUE_RESET_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_WINDOW2_FIRST, page + 1);
    presil_twin_chip_write(chip, PRESIL_REG_WINDOW2_LAST, (page + 9) | read);
    ring(chip, 1);
    expect_window(chip, 0, BASE_LO);
    presil_twin_chip_write(chip, PRESIL_REG_RING_TAIL, 1);
    presil_twin_chip_write(chip, PRESIL_REG_WINDOW2_FIRST, page); /* the launch has begun */
    presil_twin_chip_write(chip, PRESIL_REG_RING_TAIL, 2);
    presil_twin_chip_run(chip, &window, NULL, NULL);
    expect_window(chip, 0, BASE_LO);
    ring(chip, 1);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_NONE);
    presil_twin_chip_write(chip, PRESIL_REG_CONTROL, PRESIL_CONTROL_QUEUE_RESET_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_WINDOW2_LAST,
                           (page + 9) | PRESIL_WINDOW0_LAST_ENABLE_MASK | PRESIL_WINDOW0_LAST_WRITE_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_WINDOW_LOCK, 2);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_WINDOW_LOCK), 0);
    presil_twin_chip_write(chip, PRESIL_REG_WINDOW_LOCK, 1);
    presil_twin_chip_write(chip, PRESIL_REG_WINDOW2_LAST, 0);
    presil_twin_chip_write(chip, PRESIL_REG_WINDOW_LOCK, 0);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_WINDOW_LOCK), 1);
    ring(chip, 1);
    expect_window(chip, 0, BASE_LO);
    presil_twin_chip_reset(chip);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_WINDOW_LOCK), 0);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_WINDOW2_LAST), 0);
    presil_twin_chip_destroy(chip);
}

static uint64_t word_at(uint32_t at, uint32_t n) {
    uint64_t value;
    memcpy(&value, memory + at + n * sizeof value, sizeof value);
    return value;
}

/* As tests/programs/test_records.py has the RTL. */
static void completion_records(void **state) {
    (void)state;
    enum { AT = 0x4000, STRIDE = 1024, NUMBER = 95 };
    presil_twin_chip *chip = ready();
    presil_twin_chip_write(chip, PRESIL_REG_RECORD_PAGE, UINT32_MAX);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_RECORD_PAGE), 0x1fffffff);
    presil_twin_chip_write(chip, PRESIL_REG_RECORD_PAGE, (BASE_LO + AT) >> 12 | PRESIL_RECORD_PAGE_ENABLE_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_RECORD_RING, UINT32_MAX);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_RECORD_RING), 31);
    presil_twin_chip_write(chip, PRESIL_REG_RECORD_RING, 1);
    for (uint32_t n = 1; n <= 3; n++) {
        const uint32_t at = AT + (n - 1) % 2 * STRIDE;
        ring(chip, 2 * n);
        assert_int_equal(word_at(at, 0), 1 << 8 | 90 << 16);
        assert_int_equal(word_at(at, 2), 2 * n);
        assert_int_equal(word_at(at, 4 + 85), 2 * n);
        assert_int_equal(word_at(at, 4 + 86), n);
        assert_int_equal(word_at(at, NUMBER), n);
        assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_RECORD_RING), n << 16 | 1);
    }
    put_desc(6, 15); /* no such opcode */
    ring(chip, 8);
    assert_int_equal(word_at(AT + STRIDE, 0), PRESIL_ERROR_OPCODE | 1 << 8 | 90 << 16 | UINT64_C(6) << 32);
    presil_twin_chip_write(chip, PRESIL_REG_CONTROL, PRESIL_CONTROL_QUEUE_RESET_MASK);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_RECORD_RING), 1);
    presil_twin_chip_write(chip, PRESIL_REG_RECORD_PAGE,
                           (BASE_LO + MEMORY) >> 12 | PRESIL_RECORD_PAGE_ENABLE_MASK); /* behind the memory */
    ring(chip, 2);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_WRITE_BUS);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_INDEX), 2);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_ADDR_LO), BASE_LO + MEMORY);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_IRQ_STATUS), PRESIL_IRQ_STATUS_ERROR_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_CONTROL, PRESIL_CONTROL_QUEUE_RESET_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_RECORD_PAGE, (BASE_LO + AT) >> 12 | PRESIL_RECORD_PAGE_ENABLE_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_WINDOW0_FIRST, BASE_LO >> 12);
    presil_twin_chip_write(chip, PRESIL_REG_WINDOW0_LAST,
                           BASE_LO >> 12 | PRESIL_WINDOW0_LAST_ENABLE_MASK | PRESIL_WINDOW0_LAST_READ_MASK);
    memset(memory + AT, 0, 2 * STRIDE);
    ring(chip, 2);
    expect_window(chip, 2, BASE_LO + AT);
    assert_int_equal(word_at(AT, NUMBER), 0);
    presil_twin_chip_destroy(chip);
}

/* Eight launches of 1, 2, ... descriptors wait, each with a record of its own; a ninth is one too many. */
static void launches_in_a_queue(void **state) {
    (void)state;
    enum { AT = 0x4000, STRIDE = 1024, NUMBER = 95, MOST = 8, ALL = MOST * (MOST + 1) / 2 };
    presil_twin_chip *chip = ready();
    for (uint32_t i = 0; i < 1u << 6; i++) put_desc(i, PRESIL_OPCODE_NOP);
    presil_twin_chip_write(chip, PRESIL_REG_RING_LOG2, 6);
    presil_twin_chip_write(chip, PRESIL_REG_RECORD_PAGE, (BASE_LO + AT) >> 12 | PRESIL_RECORD_PAGE_ENABLE_MASK);
    presil_twin_chip_write(chip, PRESIL_REG_RECORD_RING, 3 | PRESIL_RECORD_RING_APART_MASK);
    for (uint32_t n = 1, tail = 1; n <= MOST; tail += ++n) presil_twin_chip_write(chip, PRESIL_REG_RING_TAIL, tail);
    for (uint32_t n = 1; n <= MOST; n++) {
        assert_int_equal(presil_twin_chip_pending(chip), 1);
        presil_twin_chip_run(chip, &window, NULL, NULL);
        const uint32_t at = AT + (n - 1) * STRIDE;
        assert_int_equal(word_at(at, NUMBER), n);
        assert_int_equal(word_at(at, 2), n * (n + 1) / 2);
        assert_int_equal(word_at(at, 4 + 85), n);
        assert_int_equal(word_at(at, 4 + 86), 1);
    }
    assert_int_equal(presil_twin_chip_pending(chip), 0);
    for (uint32_t n = 1; n <= MOST + 1; n++) presil_twin_chip_write(chip, PRESIL_REG_RING_TAIL, ALL + n);
    presil_twin_chip_run(chip, &window, NULL, NULL);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_CODE), PRESIL_ERROR_RING);
    assert_int_equal(presil_twin_chip_pending(chip), 0);
    presil_twin_chip_write(chip, PRESIL_REG_CONTROL, PRESIL_CONTROL_QUEUE_RESET_MASK);
    put_desc(1, 15); /* no such opcode: the launch behind it never begins */
    for (uint32_t n = 1; n <= 3; n++) presil_twin_chip_write(chip, PRESIL_REG_RING_TAIL, n);
    while (presil_twin_chip_pending(chip)) presil_twin_chip_run(chip, &window, NULL, NULL);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_ERROR_INDEX), 1);
    assert_int_equal(word_at(AT + STRIDE, 0) & 15, PRESIL_ERROR_OPCODE);
    assert_int_equal(presil_twin_chip_read(chip, PRESIL_REG_RECORD_RING) >> 16, 2);
    presil_twin_chip_destroy(chip);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(says_what_it_is),           cmocka_unit_test(keeps_what_is_said_of_the_bus),
        cmocka_unit_test(launches_and_interrupts),   cmocka_unit_test(errors_stop_the_queue),
        cmocka_unit_test(a_ring_outside_of_memory),  cmocka_unit_test(doorbells_that_are_refused),
        cmocka_unit_test(the_ring_begins_at_a_page), cmocka_unit_test(windows_of_fetches),
        cmocka_unit_test(completion_records),        cmocka_unit_test(launches_in_a_queue)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
