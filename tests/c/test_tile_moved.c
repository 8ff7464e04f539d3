/* SPDX-License-Identifier: Apache-2.0 */
/* Plans moved to other places are those that would be made there: merged ones, of which each operator has another
 * operand in the same place of the template, and ranges that were joined. Random convolutions and products go
 * there and back in tile_fixture.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tile_fixture.h"

enum { PAGE = 4096, SIDE = 24, STEPS = 4, PLACES = 2 * STEPS + 1 };
#define AT 0x110000000ull
static const uint64_t bytes = SIDE * SIDE * 4;

static presil_tensor matrix(uint64_t at) {
    return (presil_tensor){
        .data = {at}, .dtype = PRESIL_FP32, .ndim = 3, .shape = {1, SIDE, SIDE}, .stride = {SIDE * SIDE, SIDE, 1}};
}

/* x[i + 1] = x[i] · w[i] + x[0], merged. at: of x[0], w[0], x[1], w[1], ... */
static presil_plan *chain(fixture *f, const uint64_t *at) {
    presil_error_buffer e = {f->text, sizeof f->text};
    presil_plan *plans[STEPS], *merged = NULL;
    const presil_tensor first = matrix(at[0]);
    for (int i = 0; i < STEPS; i++) {
        const presil_matmul_desc d = {.size = sizeof d,
                                      .compute = PRESIL_COMPUTE_FP32,
                                      .label = i % 2 ? "odd" : "even",
                                      .a = matrix(at[2 * i]),
                                      .b = matrix(at[2 * i + 1]),
                                      .out = matrix(at[2 * i + 2]),
                                      .epilogue = {.residual = &first}};
        if (chip_plan_matmul(f->chip, &d, &plans[i], &e)) fail_msg("%s", f->text);
    }
    if (chip_merge(f->chip, (const presil_plan *const *)plans, STEPS, "all", &merged, &e)) fail_msg("%s", f->text);
    for (int i = 0; i < STEPS; i++) chip_plan_free(plans[i]);
    return merged;
}

static void same(const presil_plan *a, const presil_plan *b) {
    const char *differs = fixture_difference(a, b);
    if (differs) fail_msg("they have other %s", differs);
}

static presil_plan *moved(fixture *f, const presil_plan *plan, const presil_move *moves, uint32_t count) {
    presil_error_buffer e = {f->text, sizeof f->text};
    presil_plan *out = NULL;
    if (chip_moved(f->chip, plan, moves, count, &out, &e)) fail_msg("%s", f->text);
    out->signature++; /* else it is known to be proved */
    if (chip_prove(out, f->text, sizeof f->text)) fail_msg("%s", f->text);
    out->signature--;
    return out;
}

/* In a row, so that ranges are joined; then each elsewhere, in another order. */
static void as_if_made_there(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "odd", "base", "wide"};
    for (int c = 0; c < 4; c++) {
        fixture f;
        fixture_open(&f, configs[c], 3);
        uint64_t here[PLACES], there[PLACES];
        presil_move moves[PLACES];
        for (uint32_t i = 0; i < PLACES; i++) {
            here[i] = AT + i * bytes;
            there[i] = AT + i * bytes + (uint64_t)(i % 2 ? 700 + 3 * i : 500 - 3 * i) * PAGE;
            moves[i] = (presil_move){{here[i]}, {there[i]}, bytes};
        }
        presil_plan *plan = chain(&f, here), *want = chain(&f, there), *got = moved(&f, plan, moves, PLACES);
        assert_int_equal(plan->read_count, 1);
        assert_true(want->read_count > 4);
        same(got, want);
        char text[2][160];
        for (uint64_t at = there[2]; at < there[2] + 64; at += 4) {
            assert_int_equal(chip_plan_describe(got, (presil_daddr){at}, text[0], sizeof text[0]), PRESIL_OK);
            assert_int_equal(chip_plan_describe(want, (presil_daddr){at}, text[1], sizeof text[1]), PRESIL_OK);
            assert_string_equal(text[0], text[1]);
            assert_non_null(strstr(text[0], "even: output [0"));
        }
        chip_plan_free(got);
        /* What is not named stays: the weights of the second product. */
        const uint64_t at = there[3];
        for (uint32_t i = 3; i + 1 < PLACES; i++) moves[i] = moves[i + 1];
        there[3] = here[3];
        chip_plan_free(want);
        want = chain(&f, there);
        got = moved(&f, plan, moves, PLACES - 1);
        same(got, want);
        assert_int_not_equal(there[3], at);
        for (int i = 0; i < 3; i++) chip_plan_free((presil_plan *[]){plan, want, got}[i]);
        fixture_close(&f);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_if_made_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
