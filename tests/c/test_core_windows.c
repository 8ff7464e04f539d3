/* SPDX-License-Identifier: Apache-2.0 */
/* DMA windows through the driver: refused on the chip's RTL (tiny) and by its twin, kept over resets, locked; chips
 * that have none. */
#include <inttypes.h>
#include <stdio.h>
#include "core_fixture.h"
#include "device.h"
#include "presil_regs.h"

enum { PAGE = 4096, BOTH = PRESIL_WINDOW_READ | PRESIL_WINDOW_WRITE };

static presil_daddr at(uint64_t address) { return (presil_daddr){address}; }

static uint64_t works(presil_device *d, const matmul_buffers *m) {
    reports_begin(d);
    EXPECT_OK(matmul_enqueue(d, NULL, m));
    matmul_check(d, m, 3);
    return reports[0].cycles;
}

/* The launch ends with EBUS, and the text says where. */
static void refuses(presil_device *d, const matmul_buffers *m, uint64_t address, const char *what) {
    char where[64];
    (void)snprintf(where, sizeof where, " 0x%" PRIx64, address);
    EXPECT_OK(matmul_enqueue(d, NULL, m));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EBUS);
    EXPECT_TEXT("utside the DMA windows");
    EXPECT_TEXT(where);
    EXPECT_TEXT(what);
}

static uint32_t lock_of(presil_device *d) {
    uint32_t value = 0;
    assert_int_equal(d->link.ops->read32(d->link.handle, PRESIL_REG_WINDOW_LOCK, &value), 0);
    return value;
}

/* All of the memory but [from, from + bytes), in windows 2 and 3. */
static void all_but(presil_device *d, const presil_device_info *info, uint64_t from, uint64_t bytes) {
    const uint64_t base = info->memory_base.value, end = base + info->memory_bytes;
    EXPECT_OK(presil_device_set_window(d, 2, at(base), from - base, BOTH));
    EXPECT_OK(presil_device_set_window(d, 3, at(from + bytes), end - from - bytes, BOTH));
}

static void launches_stay_inside(presil_mode mode) {
    presil_device *d = open_device(mode, "fast");
    const bool rtl = mode != PRESIL_MODE_MODEL;
    presil_device_info info = {.size = sizeof info};
    EXPECT_OK(presil_device_get_info(d, &info));
    /* Before the chip is brought up: it hears of it then. */
    EXPECT_OK(presil_device_set_window(d, 1, info.memory_base, info.memory_bytes, PRESIL_WINDOW_READ));
    const matmul_buffers m = matmul_alloc(d, 3);
    refuses(d, &m, m.out.value, rtl ? "a write was refused" : "DRAM write");
    if (rtl) EXPECT_TEXT("(code 11) in descriptor");
    EXPECT_OK(presil_device_set_window(d, 1, at(0), 0, 0));
    const uint64_t cycles = works(d, &m); /* none is on */
    EXPECT_OK(presil_device_set_window(d, 1, info.memory_base, info.memory_bytes, BOTH));
    assert_int_equal(works(d, &m), cycles);
    if (mode == PRESIL_MODE_VERIFY) assert_int_equal(reports[0].verified, 1);
    EXPECT_OK(presil_device_set_window(d, 1, at(0), 0, BOTH));
    const uint64_t operands[] = {m.a.value, m.b.value};
    for (size_t i = 0; i < 2; i++) {
        all_but(d, &info, operands[i], PAGE);
        refuses(d, &m, operands[i], rtl ? "a read was refused" : "DRAM read");
        refuses(d, &m, operands[i], rtl ? "a read was refused" : "DRAM read"); /* the reset behind it forgot nothing */
        EXPECT_OK(presil_device_set_window(d, 0, at(operands[i]), PAGE, PRESIL_WINDOW_READ));
        assert_int_equal(works(d, &m), cycles);
        EXPECT_OK(presil_device_set_window(d, 0, at(operands[i]), PAGE, 0));
        refuses(d, &m, operands[i], "read");
    }
    if (rtl) {
        const presil_command_memory *commands = &d->memory.command;
        all_but(d, &info, commands->base.value, commands->bytes);
        EXPECT_OK(presil_device_set_window(d, 0, at(0), 0, 0));
        refuses(d, &m, commands->base.value, "the fetch of commands was refused");
        EXPECT_TEXT("in descriptor 0 ");
    }
    matmul_free(d, m);
    presil_device_close(d);
}

static void windows_on_the_rtl(void **state) {
    (void)state;
    launches_stay_inside(PRESIL_MODE_RTL);
}

static void windows_of_the_twin(void **state) {
    (void)state;
    launches_stay_inside(PRESIL_MODE_MODEL);
}

static void windows_compared(void **state) {
    (void)state;
    launches_stay_inside(PRESIL_MODE_VERIFY);
}

static void what_makes_no_sense_is_refused(void **state) {
    (void)state;
    static const struct {
        uint64_t base, bytes;
        uint32_t window, access;
        const char *text;
    } cases[] = {
        {0, PAGE, 4, BOTH, "window 4: the chip has 4, from 0"},
        {PAGE / 2, PAGE, 0, BOTH, "0x1000 bytes at 0x800: multiples of 4096 expected"},
        {PAGE, PAGE + 64, 0, BOTH, "0x1040 bytes at 0x1000: multiples of 4096 expected"},
        {UINT64_C(1) << 40, PAGE, 0, BOTH, "end above 2^40"},
        {PAGE, UINT64_C(1) << 40, 0, BOTH, "end above 2^40"},
        {PAGE, UINT64_MAX - PAGE + 1, 0, BOTH, "end above 2^40"},
        {PAGE, PAGE, 0, 4, "access 0x4: bits of presil_window_access expected"},
    };
    static const presil_mode modes[] = {PRESIL_MODE_RTL, PRESIL_MODE_MODEL};
    for (size_t k = 0; k < 2; k++) {
        presil_device *d = open_device(modes[k], "fast");
        const matmul_buffers m = matmul_alloc(d, 3);
        (void)works(d, &m);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            EXPECT_STATUS(
                presil_device_set_window(d, cases[i].window, at(cases[i].base), cases[i].bytes, cases[i].access),
                PRESIL_EINVAL);
            EXPECT_TEXT(cases[i].text);
        }
        (void)works(d, &m);
        EXPECT_OK(presil_device_set_window(d, 3, at(0), UINT64_C(1) << 40, BOTH)); /* as much as there can be */
        (void)works(d, &m);
        matmul_free(d, m);
        presil_device_close(d);
    }
}

static void a_lock_outlives_resets(void **state) {
    (void)state;
    static const presil_mode modes[] = {PRESIL_MODE_RTL, PRESIL_MODE_MODEL};
    for (size_t k = 0; k < 2; k++) {
        presil_device *d = open_device(modes[k], "fast");
        const bool rtl = modes[k] == PRESIL_MODE_RTL;
        presil_device_info info = {.size = sizeof info};
        EXPECT_OK(presil_device_get_info(d, &info));
        const matmul_buffers m = matmul_alloc(d, 3);
        const uint64_t cycles = works(d, &m);
        if (rtl) assert_int_equal(lock_of(d), 0);
        all_but(d, &info, m.b.value, PAGE);
        EXPECT_OK(presil_device_lock_windows(d));
        EXPECT_OK(presil_device_lock_windows(d));
        for (int turn = 0; turn < 2; turn++) {
            if (rtl) assert_int_equal(lock_of(d), 1);
            refuses(d, &m, m.b.value, "read"); /* with a reset of the chip behind it */
            EXPECT_STATUS(presil_device_set_window(d, 0, m.b, PAGE, BOTH), PRESIL_EINVAL);
            EXPECT_TEXT("the DMA windows are locked");
            EXPECT_OK(presil_device_reset(d));
        }
        matmul_free(d, m);
        presil_device_close(d);
        d = open_device(modes[k], "fast");
        const matmul_buffers n = matmul_alloc(d, 3);
        assert_int_equal(works(d, &n), cycles);
        EXPECT_OK(presil_device_set_window(d, 0, info.memory_base, info.memory_bytes, BOTH));
        assert_int_equal(works(d, &n), cycles);
        matmul_free(d, n);
        presil_device_close(d);
    }
}

static void put_register(presil_device *d, uint32_t offset, uint32_t value) {
    assert_int_equal(d->link.ops->write32(d->link.handle, offset, value), 0);
}

/* What somebody else has set stays, also behind the resets that forget it. */
static void windows_of_somebody_else(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_VERIFY, "fast");
    presil_device_info info = {.size = sizeof info};
    EXPECT_OK(presil_device_get_info(d, &info));
    const matmul_buffers m = matmul_alloc(d, 3);
    (void)works(d, &m);
    const uint32_t first = (uint32_t)(info.memory_base.value >> 12), out = (uint32_t)(m.out.value >> 12);
    put_register(d, PRESIL_REG_WINDOW1_FIRST, first);
    put_register(d, PRESIL_REG_WINDOW1_LAST, (out - 1) | 7u << PRESIL_WINDOW0_LAST_ENABLE_SHIFT);
    EXPECT_OK(presil_device_set_window(d, 0, m.out, PAGE, PRESIL_WINDOW_READ));
    for (int turn = 0; turn < 2; turn++) refuses(d, &m, m.out.value, "a write was refused");
    EXPECT_OK(presil_device_set_window(d, 0, m.out, info.memory_bytes - (m.out.value - info.memory_base.value), BOTH));
    (void)works(d, &m);
    EXPECT_OK(presil_device_lock_windows(d));
    (void)works(d, &m);
    matmul_free(d, m);
    presil_device_close(d);
}

/* Somebody else's lock: what it holds is what the chip has. */
static void a_chip_that_was_locked_before(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, "fast");
    EXPECT_OK(presil_device_start(d));
    put_register(d, PRESIL_REG_WINDOW_LOCK, 1);
    EXPECT_STATUS(presil_device_set_window(d, 0, at(0), PAGE, BOTH), PRESIL_EINVAL);
    EXPECT_TEXT("the DMA windows are locked");
    presil_device_close(d);
}

static void chips_without_windows(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, "soft"); /* its CAP_FEATURES has them not */
    EXPECT_OK(presil_device_start(d));
    EXPECT_STATUS(presil_device_set_window(d, 0, at(0), PAGE, BOTH), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("this chip has no DMA windows");
    EXPECT_STATUS(presil_device_lock_windows(d), PRESIL_EUNSUPPORTED);
    presil_device_close(d);
    d = open_device(PRESIL_MODE_RTL, "soft");
    EXPECT_OK(presil_device_set_window(d, 0, at(0), PAGE, BOTH)); /* nobody knows yet */
    EXPECT_STATUS(presil_device_start(d), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("this chip has no DMA windows");
    presil_device_close(d);
    d = open_device(PRESIL_MODE_MODEL, "soft");
    d->chip_table.set_window = NULL; /* a table of before */
    EXPECT_STATUS(presil_device_set_window(d, 0, at(0), PAGE, BOTH), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("the chip \"presil\" has no DMA windows");
    EXPECT_STATUS(presil_device_lock_windows(d), PRESIL_EUNSUPPORTED);
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(windows_on_the_rtl),       cmocka_unit_test(windows_of_the_twin),
        cmocka_unit_test(windows_compared),         cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(a_lock_outlives_resets),   cmocka_unit_test(a_chip_that_was_locked_before),
        cmocka_unit_test(windows_of_somebody_else), cmocka_unit_test(chips_without_windows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
