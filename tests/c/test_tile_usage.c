/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan says that it moves and holds: worked out by hand, the same from other sources, and nothing that can't be.
 * That it is what the RTL counts: tests/perf/test_usage.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tile_fixture.h"

enum { MOST = 16, MOST_STEPS = 16384, DESCRIPTOR = 128 };

typedef struct {
    presil_traffic traffic[MOST];
    presil_occupancy memory[2];
    uint64_t in_use[2][MOST_STEPS];
    uint32_t rows, memories, told;
} seen;

static void keep(void *context, const presil_usage *usage) {
    seen *s = context;
    s->told++;
    s->rows = usage->traffic_count, s->memories = usage->memory_count;
    assert_true(s->rows <= MOST && s->memories <= 2);
    for (uint32_t i = 0; i < s->rows; i++) s->traffic[i] = usage->traffic[i];
    for (uint32_t i = 0; i < s->memories; i++) {
        s->memory[i] = usage->memories[i];
        assert_true(s->memory[i].steps <= MOST_STEPS);
        memcpy(s->in_use[i], usage->memories[i].in_use, s->memory[i].steps * sizeof(uint64_t));
    }
}

static void look(const fixture *f, const presil_plan *plan, seen *s) {
    memset(s, 0, sizeof *s);
    assert_int_equal(presil_chip_entry()->usage(f->chip, plan, keep, s), PRESIL_OK);
    assert_int_equal(s->told, 1);
}

static const presil_traffic *row(const seen *s, const char *name) {
    for (uint32_t i = 0; i < s->rows; i++) {
        if (!strcmp(s->traffic[i].name, name)) return &s->traffic[i];
    }
    fail_msg("no row \"%s\"", name);
    return NULL;
}

static uint64_t peak(const seen *s, uint32_t memory) {
    uint64_t most = 0;
    for (uint64_t i = 0; i < s->memory[memory].steps; i++)
        if (s->in_use[memory][i] > most) most = s->in_use[memory][i];
    return most;
}

static presil_plan *matmul(fixture *f, int64_t m, int64_t n, int64_t k, uint32_t compute, uint32_t tiling) {
    presil_error_buffer e = {f->text, sizeof f->text};
    const uint32_t dtype = compute == PRESIL_COMPUTE_BF16 ? PRESIL_BF16 : PRESIL_FP32;
    const presil_matmul_desc d = {
        .size = sizeof d,
        .compute = compute,
        .tiling = tiling,
        .a = {.data = {0x110000000}, .dtype = dtype, .ndim = 3, .shape = {1, m, k}, .stride = {m * k, k, 1}},
        .b = {.data = {0x210000000}, .dtype = dtype, .ndim = 3, .shape = {1, k, n}, .stride = {k * n, n, 1}},
        .out = {.data = {0x310000000}, .dtype = PRESIL_FP32, .ndim = 3, .shape = {1, m, n}, .stride = {m * n, n, 1}}};
    presil_plan *plan = NULL;
    if (chip_plan_matmul(f->chip, &d, &plan, &e)) fail_msg("%s", f->text);
    return plan;
}

/* Three terms of fp32: each operand is read three times. Nothing is aligned otherwise than the beats. */
static void each_operand_has_its_bytes(void **state) {
    (void)state;
    enum { M = 16, N = 16, K = 32 };
    fixture f;
    seen s;
    fixture_open(&f, "tiny", 0);
    for (uint64_t terms = 1; terms <= 3; terms += 2) {
        const uint64_t e = terms == 1 ? 2 : 4;
        presil_plan *plan = matmul(&f, M, N, K, terms == 1 ? PRESIL_COMPUTE_BF16 : PRESIL_COMPUTE_FP32, 0);
        look(&f, plan, &s);
        const presil_traffic *a = row(&s, "a"), *b = row(&s, "b"), *out = row(&s, "output");
        assert_int_equal(a->read_bytes, terms * e * M * K);
        assert_int_equal(a->again_bytes, (terms - 1) * e * M * K);
        assert_int_equal(b->read_bytes, terms * e * N * K);
        assert_int_equal(b->again_bytes, (terms - 1) * e * N * K);
        assert_int_equal(out->write_bytes, 4 * M * N);
        assert_int_equal(out->read_bytes + out->again_bytes, 0);
        assert_true(a->first.value == 0x110000000 && b->first.value == 0x210000000 && out->first.value == 0x310000000);
        assert_int_equal(row(&s, "descriptors")->read_bytes, plan->count * DESCRIPTOR);
        assert_int_equal(row(&s, "descriptors")->apart, 1);
        assert_int_equal(row(&s, "partial sums")->read_bytes + row(&s, "partial sums")->write_bytes, 0);
        assert_int_equal(row(&s, "alignment")->read_bytes, 0);
        chip_plan_free(plan);
    }
    fixture_close(&f);
}

/* In two convolutions that share commands, at other places. */
static void places_are_the_plan_s(void **state) {
    (void)state;
    fixture f;
    seen first, second;
    fixture_open(&f, "tiny", 0);
    presil_plan *plan = matmul(&f, 40, 24, 64, PRESIL_COMPUTE_BF16, 0), *shared = chip_plan_new(&plan->config, "", "");
    *shared = *plan;
    shared->shift[OPERAND_INPUT] += 0x1000;
    assert_non_null(shared->shared);
    look(&f, plan, &first);
    look(&f, shared, &second);
    assert_int_equal(row(&second, "a")->first.value, row(&first, "a")->first.value + 0x1000);
    assert_int_equal(row(&second, "b")->first.value, row(&first, "b")->first.value);
    free(shared);
    chip_plan_free(plan);
    fixture_close(&f);
}

static void memories_hold_what_fits(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "base", "wide"};
    fixture f;
    seen s;
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++) {
        fixture_open(&f, configs[c], 0);
        for (uint32_t tiling = 0; tiling < 6; tiling++) {
            presil_plan *plan = matmul(&f, 60, 70, 40, PRESIL_COMPUTE_FP32, tiling);
            const presil_config *k = &plan->config;
            look(&f, plan, &s);
            assert_int_equal(s.memories, 2);
            const presil_occupancy *spad = &s.memory[0], *acc = &s.memory[1];
            assert_string_equal(spad->name, "scratchpad");
            assert_string_equal(acc->name, "accumulators");
            assert_int_equal(spad->capacity, (uint64_t)k->banks * k->bank_words * k->word_bytes);
            assert_int_equal(acc->capacity, 8ull * k->acc_rows * k->cells);
            assert_int_equal(spad->steps, plan->count);
            assert_true(spad->reserved <= spad->capacity && peak(&s, 0) <= spad->reserved && peak(&s, 0) > 0);
            assert_true(peak(&s, 1) <= acc->capacity && peak(&s, 1) > 0);
            chip_plan_free(plan);
        }
        fixture_close(&f);
    }
}

/* One tile: the whole of both operands is there when the sum begins, and leaves; then the result does. */
static void over_the_commands(void **state) {
    (void)state;
    fixture f;
    seen s;
    fixture_open(&f, "tiny", 0);
    presil_plan *plan = matmul(&f, 4, 4, 4, PRESIL_COMPUTE_BF16, 0);
    const uint64_t word = plan->config.word_bytes, cells = plan->config.cells;
    look(&f, plan, &s);
    assert_int_equal(plan->count, 5); /* LOAD, LOAD, MATRIX, EPILOGUE, STORE */
    assert_int_equal(s.memory[0].steps, 5);
    const uint64_t output = 4 * ((4 * cells + word - 1) / word) * word, *spad = s.in_use[0], *acc = s.in_use[1];
    const uint64_t operands = spad[2];
    assert_true(spad[0] > 0 && spad[0] < spad[1] && spad[1] == operands);
    assert_int_equal(operands, (4 + cells) * word);
    assert_int_equal(spad[3], output);
    assert_int_equal(spad[4], 4 * word); /* of each row four of eight cells are stored: they fill a word */
    assert_true(acc[0] == 0 && acc[1] == 0 && acc[4] == 0);
    assert_int_equal(acc[2], 4 * 4 * cells);
    assert_int_equal(acc[3], 4 * 4 * cells);
    chip_plan_free(plan);
    fixture_close(&f);
}

static size_t first_of(const presil_plan *plan, uint32_t opcode) {
    size_t at = 0;
    while (at < plan->count && presil_desc_opcode(&plan->list[at]) != opcode) at++;
    assert_true(at < plan->count);
    return at;
}

/* The order of the list, where no command waits for a later one: LOAD doesn't run ahead of it. */
static void in_the_order_of_the_list(void **state) {
    (void)state;
    fixture f;
    seen s;
    fixture_open(&f, "tiny", 0);
    presil_plan *plan = matmul(&f, 40, 24, 64, PRESIL_COMPUTE_BF16, 0);
    const size_t matrix = first_of(plan, PRESIL_OPCODE_MATRIX);
    assert_int_equal(presil_desc_opcode(&plan->list[matrix + 1]), PRESIL_OPCODE_LOAD);
    look(&f, plan, &s);
    for (size_t i = 0; i < matrix; i++) assert_int_equal(s.in_use[1][i], 0);
    assert_true(s.in_use[1][matrix] > 0);
    chip_plan_free(plan);
    fixture_close(&f);
}

/* A result in the place of its residual: one command reads and writes the words, which are there once. */
static void in_place(void **state) {
    (void)state;
    fixture f;
    seen s;
    fixture_open(&f, "tiny", 0);
    const presil_tensor square = {.dtype = PRESIL_BF16, .ndim = 3, .shape = {1, 4, 4}, .stride = {16, 4, 1}};
    presil_tensor residual = square;
    presil_matmul_desc d = {.size = sizeof d, .compute = PRESIL_COMPUTE_BF16, .a = square, .b = square, .out = square};
    d.a.data.value = 0x110000000, d.b.data.value = 0x210000000, d.out.data.value = 0x310000000;
    residual.data.value = 0x410000000;
    d.epilogue.residual = &residual;
    presil_plan *plan = NULL;
    presil_error_buffer e = {f.text, sizeof f.text};
    if (chip_plan_matmul(f.chip, &d, &plan, &e)) fail_msg("%s", f.text);
    assert_true(chip_plan_own(plan));
    const size_t epilogue = first_of(plan, PRESIL_OPCODE_EPILOGUE);
    presil_desc *list = chip_own_list(plan);
    const uint32_t place = presil_epilogue_out_base(&list[epilogue]);
    presil_epilogue_res_base_set(&list[epilogue], place);
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->operands[i] == OPERAND_RESIDUAL) presil_load_sp_base_set(&list[i], place);
    }
    look(&f, plan, &s);
    assert_int_equal(s.memories, 2);
    assert_int_equal(row(&s, "residual")->read_bytes, 4 * 4 * 2);
    assert_int_equal(s.in_use[0][epilogue], 4 * plan->config.word_bytes);
    chip_plan_free(plan);
    fixture_close(&f);
}

/* A merged plan moves what its parts do; a stored one, too, but nobody knows of what. */
static void merged_and_stored(void **state) {
    (void)state;
    fixture f;
    seen one, two, both, stored;
    fixture_open(&f, "tiny", 0);
    presil_error_buffer e = {f.text, sizeof f.text};
    presil_plan *plans[] = {matmul(&f, 30, 20, 16, PRESIL_COMPUTE_BF16, 0),
                            matmul(&f, 20, 40, 24, PRESIL_COMPUTE_FP32, 0)};
    presil_plan *merged = NULL, *loaded = NULL;
    look(&f, plans[0], &one);
    look(&f, plans[1], &two);
    if (chip_merge(f.chip, (const presil_plan *const *)plans, 2, NULL, &merged, &e)) fail_msg("%s", f.text);
    look(&f, merged, &both);
    for (uint32_t i = 0; i < one.rows; i++) {
        const char *name = one.traffic[i].name;
        assert_int_equal(row(&both, name)->read_bytes, row(&one, name)->read_bytes + row(&two, name)->read_bytes);
        assert_int_equal(row(&both, name)->write_bytes, row(&one, name)->write_bytes + row(&two, name)->write_bytes);
    }
    assert_int_equal(both.memory[0].steps, one.memory[0].steps + two.memory[0].steps);
    assert_true(peak(&both, 0) <= both.memory[0].capacity);
    uint64_t size = 0;
    assert_int_equal(chip_save(merged, (presil_daddr){0x100000000}, NULL, &size, &e), PRESIL_OK);
    void *image = malloc(size);
    assert_int_equal(chip_save(merged, (presil_daddr){0x100000000}, image, &size, &e), PRESIL_OK);
    if (chip_load(f.chip, image, size, (presil_daddr){0x100000000}, 0x300000000, &loaded, &e)) fail_msg("%s", f.text);
    look(&f, loaded, &stored);
    assert_int_equal(row(&stored, "loaded")->read_bytes, row(&both, "a")->read_bytes + row(&both, "b")->read_bytes);
    assert_int_equal(row(&stored, "output")->write_bytes, row(&both, "output")->write_bytes);
    assert_int_equal(stored.rows, 4); /* loaded, output, descriptors, alignment: no word on partial sums */
    assert_int_equal(peak(&stored, 0), peak(&both, 0));
    assert_int_equal(stored.memory[0].reserved, 0);
    free(image);
    chip_plan_free(loaded);
    chip_plan_free(merged);
    for (int i = 0; i < 2; i++) chip_plan_free(plans[i]);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_operand_has_its_bytes), cmocka_unit_test(places_are_the_plan_s),
        cmocka_unit_test(memories_hold_what_fits),    cmocka_unit_test(over_the_commands),
        cmocka_unit_test(in_the_order_of_the_list),   cmocka_unit_test(in_place),
        cmocka_unit_test(merged_and_stored)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
