/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan says that it writes, against each byte of its output, whatever the strides; and that it says so in a few
 * words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tile_fixture.h"

enum { REACH = 1 << 16 }; /* bytes below and above the base */

static void mark(const presil_plan *plan, uint64_t base, uint8_t *touched) {
    const int64_t *n = plan->out_shape;
    for (int64_t i = 0; i < n[0] * n[1] * n[2] * n[3]; i++) {
        const int64_t c = i % n[3], x = i / n[3] % n[2], y = i / n[3] / n[2] % n[1], image = i / n[3] / n[2] / n[1],
                      at = image * plan->out.sn + y * plan->out.sy + x * plan->out.sx + c * plan->out.sc +
                           (int64_t)(plan->out.base - base);
        assert_in_range(at + REACH, 0, 2 * REACH - 4);
        memset(touched + at + REACH, 1, plan->out.esize);
    }
}

static int64_t any_stride(fixture *f, int64_t dense) {
    const int64_t sign = fixture_random(f, 3) ? 1 : -1;
    return sign * (fixture_random(f, 2) ? dense : (int64_t)fixture_random(f, 300));
}

static void every_byte(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "tiny", 11);
    uint8_t *touched = malloc(2 * REACH), *said = malloc(2 * REACH);
    uint32_t boxed = 0, gaps = 0;
    for (int round = 0; round < 3000; round++) {
        presil_plan plan = {.out = {.base = 0x100000000, .esize = 1u << fixture_random(&f, 3)}};
        int64_t dense = plan.out.esize, *strides[] = {&plan.out.sc, &plan.out.sx, &plan.out.sy, &plan.out.sn};
        for (int i = 0; i < 4; i++) {
            plan.out_shape[3 - i] = fixture_random(&f, 40) ? 1 + fixture_random(&f, 6) : 0;
            *strides[i] = any_stride(&f, dense);
            dense *= plan.out_shape[3 - i];
        }
        memset(touched, 0, 2 * REACH);
        mark(&plan, plan.out.base, touched);
        presil_error_buffer e = {f.text, sizeof f.text};
        assert_int_equal(chip_plan_ranges(&plan, NULL, NULL, 0, NULL, 0, &e), PRESIL_OK);
        assert_true(plan.write_count + plan.box_count <= 1);
        uint32_t count;
        presil_byte_range *list = chip_plan_written(&plan, &count);
        memset(said, 0, 2 * REACH);
        for (uint32_t i = 0; i < count; i++) {
            const int64_t from = (int64_t)(list[i].base.value - plan.out.base) + REACH;
            assert_in_range(from, 0, 2 * REACH - (int64_t)list[i].bytes);
            if (i) assert_true(list[i].base.value > list[i - 1].base.value + list[i - 1].bytes);
            memset(said + from, 1, list[i].bytes);
        }
        assert_memory_equal(said, touched, 2 * REACH);
        boxed += plan.box_count;
        gaps += count > 1;
        free(list);
        free(plan.reads);
        free(plan.writes);
        free(plan.boxes);
    }
    assert_true(boxed > 800 && gaps > 800);
    free(touched);
    free(said);
    fixture_close(&f);
}

/* 512 x 512 pixels of 16 channels of 64. */
static void a_slice_is_one_box(void **state) {
    (void)state;
    enum { PIXELS = 512 * 512 };
    fixture f;
    fixture_open(&f, "base", 0);
    presil_error_buffer e = {f.text, sizeof f.text};
    presil_plan plan = {
        .out = {.base = 0x100000000, .sn = PIXELS * 256, .sy = 512 * 256, .sx = 256, .sc = 4, .esize = 4},
        .out_shape = {1, 512, 512, 16}};
    assert_int_equal(chip_plan_ranges(&plan, NULL, NULL, 0, NULL, 0, &e), PRESIL_OK);
    assert_int_equal(plan.write_count, 0);
    assert_int_equal(plan.box_count, 1);
    assert_int_equal(plan.boxes->bytes, 64);
    assert_int_equal(plan.boxes->dims, 2);
    uint32_t count;
    presil_byte_range *list = chip_plan_written(&plan, &count);
    assert_int_equal(count, PIXELS);
    free(list);
    free(plan.boxes);
    free(plan.reads);
    plan.boxes = NULL, plan.reads = NULL, plan.box_count = 0;
    plan.out.sx = 64, plan.out.sy = 512 * 64; /* all of 16 */
    assert_int_equal(chip_plan_ranges(&plan, NULL, NULL, 0, NULL, 0, &e), PRESIL_OK);
    assert_int_equal(plan.write_count, 1);
    assert_int_equal(plan.box_count, 0);
    assert_int_equal(plan.writes->bytes, PIXELS * 64);
    free(plan.reads);
    free(plan.writes);
    plan.writes = NULL, plan.reads = NULL, plan.write_count = 0;
    plan.out.sc = PIXELS * 4, plan.out.sx = 4, plan.out.sy = 512 * 4; /* the same, channel after channel */
    assert_int_equal(chip_plan_ranges(&plan, NULL, NULL, 0, NULL, 0, &e), PRESIL_OK);
    assert_int_equal(plan.write_count, 1);
    assert_int_equal(plan.writes->bytes, PIXELS * 64);
    free(plan.reads);
    free(plan.writes);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_byte), cmocka_unit_test(a_slice_is_one_box)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
