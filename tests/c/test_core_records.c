/* SPDX-License-Identifier: Apache-2.0 */
/* PRESIL_RECORDS=1 on the chip's RTL (tiny): reports and errors of completion records are those of registers, with and
 * without a mapping. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core_fixture.h"
#include "device.h"
#include "presil_regs.h"

static int with_records(void **state) {
    (void)state;
    return setenv("PRESIL_RECORDS", "1", 1);
}
static int without(void **state) {
    (void)state;
    return unsetenv("PRESIL_RECORDS");
}

/* A product and an empty launch. */
static void two_reports(const char *build, presil_report two[2]) {
    presil_device *d = open_device(PRESIL_MODE_VERIFY, build);
    matmul_buffers m = matmul_alloc(d, 1);
    reports_begin(d);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    matmul_check(d, &m, 1);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(report_count, 2);
    memcpy(two, reports, 2 * sizeof *two);
    matmul_free(d, m);
    presil_device_close(d);
}

static void reports_are_the_same(void **state) {
    (void)setenv("PRESIL_NOMAP_LIBRARY", getenv("PRESIL_TINY_LIBRARY"), 1);
    static const char *const builds[] = {"fast", "nomap"};
    for (size_t b = 0; b < sizeof builds / sizeof *builds; b++) {
        presil_report of_registers[2], of_records[2];
        (void)without(state);
        two_reports(builds[b], of_registers);
        (void)with_records(state);
        two_reports(builds[b], of_records);
        for (int i = 0; i < 2; i++) {
            const presil_report *x = &of_registers[i], *y = &of_records[i];
            assert_true(x->cycles > 50);
            assert_int_equal(x->cycles, y->cycles);
            assert_memory_equal(x->stalls, y->stalls, sizeof x->stalls);
            assert_memory_equal(x->counters, y->counters, sizeof x->counters);
            assert_int_equal(x->read_beats, y->read_beats);
            assert_int_equal(x->write_beats, y->write_beats);
            assert_int_equal(x->read_bytes, y->read_bytes);
            assert_int_equal(x->write_bytes, y->write_bytes);
            assert_int_equal(x->descriptors, y->descriptors);
            assert_int_equal(x->fill, y->fill);
            assert_int_equal(x->drain, y->drain);
        }
    }
}

/* The end of a launch takes two registers, whatever it did. */
static void two_registers(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, "fast");
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    presil_register_access access[PRESIL_COMPLETION_MOST];
    assert_int_equal(d->chip_ops->completion(d->chip, access), 2);
    assert_int_equal(access[0].offset, PRESIL_REG_IRQ_STATUS);
    assert_int_equal(access[1].offset, PRESIL_REG_IRQ_CLEAR);
    presil_device_close(d);
}

static void errors_are_told(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_VERIFY, "fast");
    matmul_buffers m = matmul_alloc(d, 4);
    char fault[64], texts[2][256];
    for (int i = 0; i < 2; i++) {
        (void)snprintf(fault, sizeof fault, "slverr@0x%" PRIx64, m.a.value + 64);
        EXPECT_OK(presil_inject(d, fault));
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EBUS);
        (void)snprintf(texts[i], sizeof *texts, "%s", presil_error_text());
        char *const where = strstr(texts[i], " at address 0x");
        assert_non_null(where);
        *where = 0; /* memory is laid out otherwise */
        EXPECT_OK(presil_inject(d, NULL));
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        matmul_check(d, &m, 4);
        if (i == 0) { /* again, by registers */
            matmul_free(d, m);
            presil_device_close(d);
            (void)without(state);
            d = open_device(PRESIL_MODE_VERIFY, "fast");
            m = matmul_alloc(d, 4);
        }
    }
    assert_string_equal(texts[0], texts[1]);
    assert_non_null(strstr(texts[0], "bus error on a read (code 4) in descriptor"));
    matmul_free(d, m);
    presil_device_close(d);
}

/* The page behind the ring is where no window permits a write: the launch is done, its record is not. */
static void a_record_that_is_refused(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, "fast");
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    EXPECT_OK(presil_device_set_window(d, 0, (presil_daddr){0}, UINT64_C(1) << 40, PRESIL_WINDOW_READ));
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EBUS);
    EXPECT_TEXT("outside the DMA windows (code 11)");
    EXPECT_TEXT("the launch's completion record was refused");
    presil_device_close(d);
}

static int start_with_depth(uint32_t depth, presil_device **d) {
    const presil_device_options options = {.size = sizeof options,
                                           .mode = PRESIL_MODE_RTL,
                                           .config = "tiny",
                                           .build = "fast",
                                           .memory_bytes = 64u << 20,
                                           .queue_depth = depth};
    return start_device(&options, d);
}

static presil_device *open_queue(uint32_t depth) {
    presil_device *d;
    EXPECT_OK(start_with_depth(depth, &d));
    reports_begin(d);
    return d;
}

enum { IN_A_ROW = 24 };

/* A product, an empty launch and a copy in turns, without a wait; what each reports. */
static void in_a_row(uint32_t depth, presil_report row[IN_A_ROW]) {
    presil_device *d = open_queue(depth);
    matmul_buffers m = matmul_alloc(d, 7);
    presil_daddr a;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 8192, &a));
    for (int i = 0; i < IN_A_ROW; i++) {
        const presil_daddr to = {a.value + 4096};
        EXPECT_OK(i % 3 == 0   ? matmul_enqueue(d, NULL, &m)
                  : i % 3 == 1 ? presil_nop(d, NULL)
                               : presil_copy_on_device(d, NULL, to, a, 64u * (unsigned)i, PRESIL_COPY_DMA));
    }
    EXPECT_OK(presil_device_synchronize(d));
    matmul_check(d, &m, 7);
    assert_int_equal(report_count, IN_A_ROW);
    memcpy(row, reports, IN_A_ROW * sizeof *row);
    EXPECT_OK(presil_free(d, a));
    matmul_free(d, m);
    presil_device_close(d);
}

/* Queued launches report what each reports alone: the chip begins none before the one before it is over. */
static void a_queue_changes_no_report(void **state) {
    (void)state;
    static presil_report alone[IN_A_ROW], queued[IN_A_ROW];
    in_a_row(1, alone);
    static const uint32_t depths[] = {2, 8, 64};
    for (size_t n = 0; n < sizeof depths / sizeof *depths; n++) {
        in_a_row(depths[n], queued);
        for (int i = 0; i < IN_A_ROW; i++) {
            assert_int_equal(queued[i].status, 0);
            assert_int_equal(queued[i].cycles, alone[i].cycles);
            assert_memory_equal(queued[i].stalls, alone[i].stalls, sizeof alone->stalls);
            assert_int_equal(queued[i].descriptors, alone[i].descriptors);
            assert_int_equal(queued[i].write_bytes, alone[i].write_bytes);
        }
    }
}

/* They really are with the chip at once: registers say so while the first of them runs. */
static void launches_wait_on_the_chip(void **state) {
    (void)state;
    presil_device *d = open_queue(8);
    matmul_buffers m = matmul_alloc(d, 7);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    for (int i = 0; i < 40; i++) EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_device_synchronize(d));
    uint32_t ring = 0, head = 0;
    assert_int_equal(d->link.ops->read32(d->link.handle, PRESIL_REG_RECORD_RING, &ring), 0);
    assert_int_equal(d->link.ops->read32(d->link.handle, PRESIL_REG_RING_HEAD, &head), 0);
    const uint32_t written = ring >> PRESIL_RECORD_RING_WRITTEN_SHIFT; /* since the queue was empty last */
    assert_true(written > 8 && written <= 40);
    assert_int_equal(head, written * reports[1].descriptors);
    matmul_free(d, m);
    presil_device_close(d);
}

/* Of three the second fails: the first is done, the third is done again. */
static void one_of_a_queue_fails(void **state) {
    (void)state;
    presil_device *d = open_queue(8);
    matmul_buffers m = matmul_alloc(d, 5), n = matmul_alloc(d, 6), o = matmul_alloc(d, 9);
    char fault[64];
    (void)snprintf(fault, sizeof fault, "slverr@0x%" PRIx64, n.a.value + 64);
    EXPECT_OK(presil_inject(d, fault));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(matmul_enqueue(d, NULL, &n));
    EXPECT_OK(matmul_enqueue(d, NULL, &o));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EBUS);
    EXPECT_TEXT("bus error on a read (code 4) in descriptor");
    assert_int_equal(report_count, 3);
    assert_int_equal(reports[0].status, 0);
    assert_int_equal(reports[1].status, -PRESIL_EBUS);
    assert_int_equal(reports[2].status, 0);
    EXPECT_OK(presil_inject(d, NULL));
    matmul_check(d, &m, 5);
    matmul_check(d, &o, 9);
    matmul_free(d, m);
    matmul_free(d, n);
    matmul_free(d, o);
    presil_device_close(d);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    (void)setenv("PRESIL_RECORDS", "yes", 1);
    presil_device *d;
    EXPECT_STATUS(start_with_depth(0, &d), PRESIL_EINVAL);
    EXPECT_TEXT("PRESIL_RECORDS: 0 or 1 expected, found 'yes'");
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reports_are_the_same, with_records, without),
        cmocka_unit_test_setup_teardown(two_registers, with_records, without),
        cmocka_unit_test_setup_teardown(errors_are_told, with_records, without),
        cmocka_unit_test_setup_teardown(a_record_that_is_refused, with_records, without),
        cmocka_unit_test_setup_teardown(a_queue_changes_no_report, with_records, without),
        cmocka_unit_test_setup_teardown(launches_wait_on_the_chip, with_records, without),
        cmocka_unit_test_setup_teardown(one_of_a_queue_fails, with_records, without),
        cmocka_unit_test_setup_teardown(nonsense_is_refused, with_records, without)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
