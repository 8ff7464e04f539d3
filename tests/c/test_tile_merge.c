/* SPDX-License-Identifier: Apache-2.0 */
/* Plans merged to one launch: proved like any plan, their order in DRAM too, the same bytes as one after the other, cut
 * only where the ring ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tile_fixture.h"

enum { CHAIN = 6 };

static presil_tensor matrix(uint64_t address, uint32_t dtype, int64_t rows, int64_t columns) {
    return (presil_tensor){.data = {address},
                           .dtype = dtype,
                           .ndim = 3,
                           .shape = {1, rows, columns},
                           .stride = {rows * columns, columns, 1}};
}

/* x[i + 1] = x[i] · w[i] (+ x[i - 1]): each needs what the one before it stored. Sizes are random. */
static uint32_t chain(fixture *f, presil_plan **plans, presil_tensor *last) {
    presil_error_buffer e = {f->text, sizeof f->text};
    const int64_t rows = 1 + fixture_random(f, 40), width = 1 + fixture_random(f, 60);
    presil_tensor x[CHAIN + 1];
    f->used = 0;
    for (int i = 0; i <= CHAIN; i++)
        x[i] = matrix(fixture_alloc(f, (uint64_t)(rows * width * 4)), i ? PRESIL_FP32 : PRESIL_BF16, rows, width);
    fixture_fill(f, x[0].data.value, (uint64_t)(rows * width), PRESIL_BF16);
    for (int i = 0; i < CHAIN; i++) {
        const presil_tensor w = matrix(fixture_alloc(f, (uint64_t)(width * width * 4)), PRESIL_FP32, width, width);
        fixture_fill(f, w.data.value, (uint64_t)(width * width), PRESIL_FP32);
        char label[24];
        (void)snprintf(label, sizeof label, "step %d", i);
        presil_matmul_desc d = {.size = sizeof d,
                                .compute = i && fixture_random(f, 2) ? PRESIL_COMPUTE_FP32 : PRESIL_COMPUTE_BF16,
                                .label = label,
                                .a = x[i],
                                .b = w,
                                .out = x[i + 1]};
        if (i > 1) d.epilogue.residual = &x[i - 1];
        if (chip_plan_matmul(f->chip, &d, &plans[i], &e)) fail_msg("%s", f->text);
    }
    *last = x[CHAIN];
    return CHAIN;
}

static void run(fixture *f, const presil_plan *plan) {
    presil_error_buffer e = {f->text, sizeof f->text};
    presil_executor_memory m = {
        .size = sizeof m, .base = {FIXTURE_BASE}, .bytes = FIXTURE_BYTES, .host = f->memory, .threads = 1};
    if (presil_chip_entry()->execute(f->chip, plan, &m, &e)) fail_msg("%s", f->text);
}

static void same_bytes_as_one_by_one(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "odd", "base", "wide"};
    const uint32_t every = fixture_every();
    for (uint32_t seed = 0; seed < 60; seed += every) {
        fixture f;
        fixture_open(&f, configs[seed % 4], seed);
        presil_error_buffer e = {f.text, sizeof f.text};
        presil_plan *plans[CHAIN], *merged;
        presil_tensor last;
        const uint32_t count = chain(&f, plans, &last);
        const size_t bytes = (size_t)(last.shape[1] * last.shape[2]) * 4;
        for (uint32_t i = 0; i < count; i++) run(&f, plans[i]);
        uint8_t *want = malloc(bytes), *got = fixture_host(&f, last.data.value);
        memcpy(want, got, bytes);
        memset(got, 0xa5, bytes);
        size_t descriptors = 0;
        uint64_t macs = 0;
        for (uint32_t i = 0; i < count; i++) descriptors += plans[i]->count, macs += plans[i]->macs;
        assert_int_equal(
            presil_chip_entry()->merge(f.chip, (const presil_plan *const *)plans, count, "all", &merged, &e),
            PRESIL_OK);
        presil_plan_info info = {.size = sizeof info};
        assert_int_equal(presil_chip_entry()->plan_info(merged, &info), PRESIL_OK);
        assert_int_equal(info.segments, 1);
        assert_int_equal(info.descriptors, descriptors);
        assert_int_equal(info.macs, macs);
        assert_string_equal(info.label, "all");
        if (chip_check_plan(&merged->config, merged->list, merged->count, f.text, sizeof f.text))
            fail_msg("seed %u: %s", seed, f.text);
        run(&f, merged);
        assert_memory_equal(want, got, bytes);
        /* The last store of every operator but the last waits for its responses. */
        for (uint32_t i = 0; i + 1 < count; i++) {
            size_t k = merged->parts[i].end;
            while (presil_desc_opcode(&merged->list[--k]) != PRESIL_OPCODE_STORE) continue;
            assert_int_equal(presil_store_ordered(&merged->list[k]), 1);
        }
        char text[256];
        if (presil_chip_entry()->describe(merged, last.data, text, sizeof text))
            fail_msg("seed %u: %s (%d parts)", seed, text, (int)merged->part_count);
        assert_non_null(strstr(text, "step 5: output [0, 0, 0, 0]"));
        assert_int_not_equal(
            presil_chip_entry()->merge(f.chip, (const presil_plan *const[]){merged, merged}, 2, NULL, &plans[0], &e),
            PRESIL_OK);
        presil_chip_entry()->plan_free(merged);
        for (uint32_t i = 0; i < count; i++) presil_chip_entry()->plan_free(plans[i]);
        free(want);
        fixture_close(&f);
    }
}

/* Copies have neither MATRIX nor EPILOGUE: what stands beyond them is still waited for. More descriptors than the ring
 * holds: a second doorbell. */
static void copies_between_and_long_lists(void **state) {
    (void)state;
    enum { MANY = 12000 };
    fixture f;
    fixture_open(&f, "tiny", 1);
    presil_error_buffer e = {f.text, sizeof f.text};
    presil_plan *plans[MANY], *merged;
    presil_tensor last;
    uint32_t n = chain(&f, plans, &last);
    const presil_daddr copy = {fixture_alloc(&f, 4096)};
    const uint32_t bytes = (uint32_t)(last.shape[1] * last.shape[2]) * 4;
    assert_int_equal(chip_plan_copy(f.chip, copy, last.data, bytes < 4096 ? bytes : 4096, &plans[n], &e), PRESIL_OK);
    presil_plan *first[CHAIN + 2];
    memcpy(first, plans, sizeof(presil_plan *) * (n + 1));
    first[n + 1] = plans[0];
    assert_int_equal(presil_chip_entry()->merge(f.chip, (const presil_plan *const *)first, n + 2, NULL, &merged, &e),
                     PRESIL_OK);
    if (chip_check_plan(&merged->config, merged->list, merged->count, f.text, sizeof f.text)) fail_msg("%s", f.text);
    run(&f, merged);
    assert_memory_equal(fixture_host(&f, copy.value), fixture_host(&f, last.data.value), bytes < 4096 ? bytes : 4096);
    presil_chip_entry()->plan_free(merged);

    const presil_plan *many[MANY];
    size_t descriptors = 0;
    for (uint32_t i = 0; i < MANY; i++) many[i] = plans[i % n], descriptors += plans[i % n]->count;
    assert_int_equal(presil_chip_entry()->merge(f.chip, many, MANY, NULL, &merged, &e), PRESIL_OK);
    assert_true(merged->segments == (descriptors + 65535) / 65536 ||
                merged->segments == (descriptors + 65535) / 65536 + 1);
    assert_true(merged->segments > 1);
    size_t from = 0;
    for (uint32_t s = 0; s < merged->segments; s++) {
        assert_true(merged->segment_ends[s] - from <= 65536);
        if (chip_check_plan(&merged->config, merged->list + from, merged->segment_ends[s] - from, f.text,
                            sizeof f.text))
            fail_msg("segment %u: %s", s, f.text);
        from = merged->segment_ends[s];
    }
    assert_int_equal(from, descriptors);
    presil_chip_entry()->plan_free(merged);
    for (uint32_t i = 0; i <= n; i++) presil_chip_entry()->plan_free(plans[i]);
    fixture_close(&f);
}

/* ---- order in DRAM */
static void expect_wrong(fixture *f, presil_plan *plan, const char *part, const char *which, uint32_t seed) {
    plan->signature = chip_plan_signature(plan); /* else known to be proved */
    if (!chip_prove(plan, f->text, sizeof f->text)) fail_msg("seed %u, %s: nothing is found", seed, which);
    if (!strstr(f->text, part)) fail_msg("seed %u, %s: \"%s\" lacks \"%s\"", seed, which, f->text, part);
}

static presil_desc *last_store_of(presil_plan *plan, uint32_t part) {
    size_t k = plan->parts[part].end;
    while (presil_desc_opcode(&plan->list[--k]) != PRESIL_OPCODE_STORE) continue;
    return &chip_own_list(plan)[k];
}

static presil_desc *first_load_of(presil_plan *plan, uint32_t part) {
    size_t k = plan->parts[part].first;
    while (presil_desc_opcode(&plan->list[k]) != PRESIL_OPCODE_LOAD) k++;
    return &chip_own_list(plan)[k];
}

/* Every operator of the chain reads what the one before it stored. */
static void lost_order_is_found(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "odd", "base", "wide"};
    uint32_t by_order = 0;
    for (uint32_t seed = 0; seed < 12; seed++) {
        fixture f;
        fixture_open(&f, configs[seed % 4], seed);
        presil_error_buffer e = {f.text, sizeof f.text};
        presil_plan *plans[CHAIN], *merged;
        presil_tensor last;
        const uint32_t count = chain(&f, plans, &last), slot = chip_token_slot(STORE, LOAD);
        assert_int_equal(chip_merge(f.chip, (const presil_plan *const *)plans, count, "all", &merged, &e), PRESIL_OK);
        if (chip_prove(merged, f.text, sizeof f.text)) fail_msg("seed %u: %s", seed, f.text);
        for (uint32_t i = 0; i + 1 < count; i++) {
            presil_desc *store = last_store_of(merged, i), *load = first_load_of(merged, i + 1),
                        saved[] = {*store, *load};
            presil_store_ordered_set(store, 0);
            expect_wrong(&f, merged, "may be on their way: \"ordered\" is missing from STORE", "ordered", seed);
            *store = saved[0];
            presil_desc_signal_set(store, presil_desc_signal(store) & ~(1u << slot));
            presil_desc_wait_set(load, presil_desc_wait(load) & ~(1u << (4 * STORE + slot)));
            expect_wrong(&f, merged, "LOAD", "token", seed);
            by_order += strstr(f.text, "reads bytes ") != NULL; /* else the scratchpad shows it */
            *store = saved[0], *load = saved[1];
        }
        merged->signature = chip_plan_signature(merged);
        if (chip_prove(merged, f.text, sizeof f.text)) fail_msg("seed %u: %s", seed, f.text);
        chip_plan_free(merged);
        for (uint32_t i = 0; i < count; i++) chip_plan_free(plans[i]);
        fixture_close(&f);
    }
    assert_true(by_order > 10);
}

static presil_plan *copy(fixture *f, uint64_t to, uint64_t from, uint64_t bytes) {
    presil_error_buffer e = {f->text, sizeof f->text};
    presil_plan *plan;
    if (chip_plan_copy(f->chip, (presil_daddr){to}, (presil_daddr){from}, bytes, &plan, &e)) fail_msg("%s", f->text);
    return plan;
}

/* LOAD c, LOAD a; then, as another operator, what came from c to a: it may be stored once both are loaded. */
static void overwriting_early_is_found(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "base", 1);
    presil_error_buffer e = {f.text, sizeof f.text};
    f.used = 0;
    const uint64_t a = fixture_alloc(&f, 4096), b = fixture_alloc(&f, 4096), c = fixture_alloc(&f, 4096);
    presil_plan *plans[] = {copy(&f, a, c, 256), copy(&f, b, a, 256)}, *merged;
    assert_int_equal(chip_merge(f.chip, (const presil_plan *const *)plans, 2, NULL, &merged, &e), PRESIL_OK);
    assert_int_equal(merged->count, 4);
    const presil_desc to_a = merged->list[1], from_a = merged->list[2];
    chip_own_list(merged)[1] = from_a, chip_own_list(merged)[2] = to_a;
    merged->count = 3;
    chip_own_ends(merged)[0] = 3;
    merged->parts[0].end = merged->parts[1].first = 2, merged->parts[1].end = 3;
    presil_load_sp_base_set(&chip_own_list(merged)[1], 512);
    for (presil_desc *d = chip_own_list(merged); d < chip_own_list(merged) + 3; d++)
        presil_desc_wait_set(d, 0), presil_desc_signal_set(d, 0);
    const uint32_t slot = chip_token_slot(LOAD, STORE);
    presil_desc_wait_set(&chip_own_list(merged)[2], 1u << (4 * LOAD + slot));
    presil_desc_signal_set(&chip_own_list(merged)[1], 1u << slot);
    char text[256];
    if (chip_check_order(merged, 0, 3, text, sizeof text)) fail_msg("%s", text);
    presil_desc_signal_set(&chip_own_list(merged)[1], 0);
    presil_desc_signal_set(&chip_own_list(merged)[0], 1u << slot);
    assert_int_equal(chip_check_order(merged, 0, 3, text, sizeof text), -1);
    assert_non_null(strstr(text, "(STORE, tile"));
    assert_non_null(strstr(text, "overwrites bytes too early: no token says that they are read by LOAD descriptor 1"));
    presil_store_addr_set(&chip_own_list(merged)[2], b); /* other bytes */
    if (chip_check_order(merged, 0, 3, text, sizeof text)) fail_msg("%s", text);
    chip_plan_free(merged);
    chip_plan_free(plans[0]);
    chip_plan_free(plans[1]);
    fixture_close(&f);
}

/* A copy over itself loads each byte before it stores over it; in the wrong direction that is found. */
static void copies_over_themselves(void **state) {
    (void)state;
    enum { BYTES = 1 << 20 };
    fixture f;
    fixture_open(&f, "tiny", 1);
    f.used = 0;
    const uint64_t a = fixture_alloc(&f, 2 * BYTES);
    for (uint64_t by = 64; by <= BYTES / 2; by *= 32) {
        presil_plan *down = copy(&f, a, a + by, BYTES), *up = copy(&f, a + by, a, BYTES);
        char text[256];
        for (int i = 0; i < 2; i++) {
            if (chip_check_order(i ? up : down, 0, down->count, text, sizeof text)) fail_msg("%s", text);
        }
        for (size_t i = 0; i < down->count; i++) { /* from the start, to behind it */
            presil_desc *d = &chip_own_list(down)[i];
            if (presil_desc_opcode(d) != PRESIL_OPCODE_STORE) continue;
            presil_store_addr_set(d, presil_store_addr(d) + 2 * by);
        }
        assert_int_equal(chip_check_order(down, 0, down->count, text, sizeof text), -1);
        chip_plan_free(down);
        chip_plan_free(up);
    }
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bytes_as_one_by_one), cmocka_unit_test(copies_between_and_long_lists),
        cmocka_unit_test(lost_order_is_found), cmocka_unit_test(overwriting_early_is_found),
        cmocka_unit_test(copies_over_themselves)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
