/* SPDX-License-Identifier: Apache-2.0 */
/* Plans are proved against the memory that they declare: what is planted is found, in plans made again at another
 * address too; and whatever the strides, a plan is right or refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tile_fixture.h"

static presil_tensor tensor3(uint64_t at, uint32_t dtype, int64_t rows, int64_t columns) {
    return (presil_tensor){
        .data = {at}, .dtype = dtype, .ndim = 3, .shape = {1, rows, columns}, .stride = {rows * columns, columns, 1}};
}

static presil_plan *matmul_at(fixture *f, uint64_t base, int64_t m, int64_t n, int64_t k) {
    presil_error_buffer e = {f->text, sizeof f->text};
    const presil_matmul_desc d = {.size = sizeof d,
                                  .compute = PRESIL_COMPUTE_FP32,
                                  .a = tensor3(base, PRESIL_FP32, m, k),
                                  .b = tensor3(base + (1 << 24), PRESIL_FP32, k, n),
                                  .out = tensor3(base + (1 << 25), PRESIL_FP32, m, n)};
    presil_plan *plan = NULL;
    const int status = chip_plan_matmul(f->chip, &d, &plan, &e);
    if (status) print_error("%s\n", f->text);
    assert_int_equal(status, PRESIL_OK);
    return plan;
}

static void expect_found(const presil_plan *plan, const char *part) {
    char text[256] = "";
    if (!chip_prove(plan, text, sizeof text)) fail_msg("nothing is found, \"%s\" expected", part);
    if (!strstr(text, part)) fail_msg("\"%s\" lacks \"%s\"", text, part);
}

/* All of it is padding. */
static bool reads_nothing(const presil_desc *d) {
    return presil_load_row_bytes(d) == 0 || (presil_load_row_limit(d) && presil_load_rp0(d) < 0);
}

static uint32_t plant_everywhere(presil_plan *plan) {
    uint32_t planted = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const presil_desc saved = plan->list[i];
        presil_desc *d = &chip_own_list(plan)[i];
        const bool store = presil_desc_opcode(d) == PRESIL_OPCODE_STORE;
        if (!store && (presil_desc_opcode(d) != PRESIL_OPCODE_LOAD || reads_nothing(d))) continue;
        presil_load_addr_set(d, presil_load_addr(&saved) ^ 1u << 23); /* the same two words in LOAD and STORE */
        expect_found(plan, store ? "(STORE" : "(LOAD");
        *d = saved;
        presil_load_addr_set(d, presil_load_addr(&saved) + (UINT64_C(1) << 32));
        expect_found(plan, "none that the plan declares");
        *d = saved;
        if (store) {
            presil_store_chunk_bytes_set(d, presil_store_chunk_bytes(&saved) - 1);
            expect_found(plan, "bytes are stored, of");
            *d = saved;
        }
        planted++;
    }
    return planted;
}

static void wrong_addresses_are_found(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "odd", "base", "wide"};
    for (int c = 0; c < 4; c++) {
        fixture f;
        fixture_open(&f, configs[c], 0);
        presil_plan *first = matmul_at(&f, 0x100000000, 70, 50, 90),
                    *again = matmul_at(&f, 0x9900000000, 70, 50, 90); /* the same commands at other addresses */
        assert_true(first->signature == again->signature);
        char text[256] = "";
        if (chip_prove(first, text, sizeof text) || chip_prove(again, text, sizeof text)) fail_msg("%s", text);
        assert_true(again->shared == first->shared && chip_plan_own(first) && chip_plan_own(again));
        if (chip_prove(again, text, sizeof text)) fail_msg("%s", text);
        assert_true(plant_everywhere(first) > 4);
        assert_true(plant_everywhere(again) > 4);
        /* A field that is no address: another signature, so the commands are proved anew. */
        const presil_desc whole = again->list[0];
        assert_int_equal(presil_desc_opcode(&whole), PRESIL_OPCODE_LOAD);
        presil_load_row_bytes_set(&chip_own_list(again)[0], presil_load_row_bytes(&whole) | 2);
        again->signature = chip_plan_signature(again);
        expect_found(again, "conversion of parts of fp32");
        chip_own_list(again)[0] = whole;
        for (size_t i = 0; i < again->count; i++) {
            if (presil_desc_opcode(&again->list[i]) != PRESIL_OPCODE_MATRIX) continue;
            presil_matrix_acc_base_set(&chip_own_list(again)[i], again->config.acc_rows);
        }
        again->signature = chip_plan_signature(again);
        expect_found(again, "outside the accumulators");
        chip_plan_free(first);
        chip_plan_free(again);
        fixture_close(&f);
    }
}

/* ---- any strides */
static int64_t any_stride(fixture *f, int64_t natural) {
    switch (fixture_random(f, 8)) {
    case 0: return 0;
    case 1: return -natural;
    case 2: return (int64_t)fixture_random(f, 1 << 30);
    case 3: return ((int64_t)fixture_random(f, 1 << 30) << fixture_random(f, 8)) * (fixture_random(f, 2) ? -1 : 1);
    default: return natural;
    }
}

static presil_tensor any_tensor(fixture *f, uint32_t dtype, uint32_t ndim, const int64_t *shape, bool dense) {
    presil_tensor t = {.data = {(uint64_t)1 << 60 | fixture_random(f, 1 << 30)}, .dtype = dtype, .ndim = ndim};
    int64_t natural = 1;
    for (uint32_t i = ndim; i-- > 0;) {
        t.shape[i] = shape[i];
        t.stride[i] = dense ? natural : any_stride(f, natural);
        natural *= shape[i];
    }
    return t;
}

static uint32_t any_dtype(fixture *f, uint32_t compute) {
    if (compute == PRESIL_COMPUTE_INT8) return PRESIL_INT8;
    return compute == PRESIL_COMPUTE_BF16 && fixture_random(f, 2) ? PRESIL_BF16 : PRESIL_FP32;
}

static int plan_matmul(fixture *f, presil_plan **plan, presil_error_buffer *e) {
    const uint32_t compute = fixture_random(f, 4);
    const int64_t batch = 1 + fixture_random(f, 2), m = 1 + fixture_random(f, 70), k = 1 + fixture_random(f, 150),
                  n = 1 + fixture_random(f, 70);
    presil_matmul_desc d = {.size = sizeof d, .compute = compute, .tiling = fixture_random(f, 3)};
    d.a = any_tensor(f, any_dtype(f, compute), 3, (const int64_t[]){batch, m, k}, false);
    d.b = any_tensor(f, any_dtype(f, compute), 3, (const int64_t[]){batch, k, n}, false);
    d.out = any_tensor(f, compute ? PRESIL_FP32 : PRESIL_INT32, 3, (const int64_t[]){batch, m, n}, true);
    presil_tensor residual = any_tensor(f, PRESIL_FP32, 3, (const int64_t[]){batch, m, n}, false);
    if (compute && fixture_random(f, 2)) d.epilogue.residual = &residual;
    return chip_plan_matmul(f->chip, &d, plan, e);
}

static int plan_conv(fixture *f, presil_plan **plan, presil_error_buffer *e) {
    const uint32_t compute = 1 + fixture_random(f, 3);
    const bool depthwise = fixture_random(f, 3) == 0; /* a kernel by view of each channel's own */
    const int64_t groups = depthwise              ? 2 + fixture_random(f, 70)
                           : fixture_random(f, 3) ? 1
                                                  : 3,
                  cg = depthwise ? 1 : 1 + fixture_random(f, 40), og = depthwise ? 1 : 1 + fixture_random(f, 40),
                  kernel = 1 + fixture_random(f, depthwise ? 9 : 3), h = kernel + 2 + fixture_random(f, 9),
                  spread = 1 + fixture_random(f, 2), out = (h - 1) * spread + 2 - kernel;
    presil_conv2d_desc d = {.size = sizeof d,
                            .compute = compute,
                            .groups = (uint32_t)groups,
                            .stride = {1, 1},
                            .dilation = {1, 1},
                            .input_dilation = {spread, spread},
                            .tiling = fixture_random(f, 3)};
    d.input = any_tensor(f, any_dtype(f, compute), 4, (const int64_t[]){1, h, h, groups * cg}, false);
    d.output = any_tensor(f, PRESIL_FP32, 4, (const int64_t[]){1, out, out, groups * og}, true);
    d.kernel = any_tensor(f, any_dtype(f, compute), 4, (const int64_t[]){groups * og, kernel, kernel, cg}, false);
    if (fixture_random(f, 2)) d.group_stride = any_stride(f, og * kernel * kernel * cg);
    return chip_plan_conv2d(f->chip, &d, NULL, (presil_daddr){0}, plan, e);
}

static int plan_grad(fixture *f, presil_plan **plan, presil_error_buffer *e) {
    const uint32_t compute = 1 + fixture_random(f, 3);
    const int64_t n = 1 + fixture_random(f, 3), kernel = 1 + fixture_random(f, 3), h = 3 + fixture_random(f, 12),
                  pad = fixture_random(f, 2), out = h + 2 * pad - kernel + 1, c = 1 + fixture_random(f, 40),
                  o = 1 + fixture_random(f, 40);
    presil_conv2d_weight_grad_desc d = {.size = sizeof d,
                                        .compute = compute,
                                        .stride = {1, 1},
                                        .dilation = {1, 1},
                                        .padding = {pad, pad},
                                        .tiling = fixture_random(f, 3)};
    d.input = any_tensor(f, any_dtype(f, compute), 4, (const int64_t[]){n, h, h, c}, false);
    d.grad = any_tensor(f, any_dtype(f, compute), 4, (const int64_t[]){n, out, out, o}, false);
    d.out = any_tensor(f, PRESIL_FP32, 4, (const int64_t[]){o, kernel, kernel, c}, true);
    return chip_plan_weight_grad(f->chip, &d, plan, e);
}

static void any_strides(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "odd", "base", "wide"};
    int (*const planners[])(fixture *, presil_plan **, presil_error_buffer *) = {plan_matmul, plan_conv, plan_grad};
    const char *seed_text = getenv("PRESIL_SEED");
    const uint32_t seed = seed_text ? (uint32_t)strtoul(seed_text, NULL, 0) : 1;
    print_message("PRESIL_SEED=%u\n", seed);
    for (int c = 0; c < 4; c++) {
        uint32_t planned = 0, refused = 0;
        fixture f;
        fixture_open(&f, configs[c], seed + (uint32_t)c);
        for (uint32_t i = 0; i < 1500; i++) {
            presil_error_buffer e = {f.text, sizeof f.text};
            presil_plan *plan = NULL;
            const int status = planners[i % 3](&f, &plan, &e);
            if (status != PRESIL_OK && status != PRESIL_EUNSUPPORTED)
                fail_msg("%s, case %u: status %d: %s (PRESIL_SEED=%u)", configs[c], i, status, f.text, seed);
            *(status ? &refused : &planned) += 1;
            if (!status && chip_prove(plan, f.text, sizeof f.text))
                fail_msg("%s, case %u: %s (PRESIL_SEED=%u)", configs[c], i, f.text, seed);
            chip_plan_free(plan);
        }
        assert_true(planned > 200 && refused > 50);
        fixture_close(&f);
    }
}

/* Rows that lie 3 GiB apart, forwards and backwards. */
static void strides_beyond_32_bits(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "odd", "base"};
    const int64_t gib = INT64_C(1) << 30;
    for (int c = 0; c < 3; c++) {
        fixture f;
        fixture_open(&f, configs[c], 0);
        presil_matmul_desc d = {
            .size = sizeof d,
            .compute = PRESIL_COMPUTE_INT8,
            .a = {.data = {4096}, .dtype = PRESIL_INT8, .ndim = 3, .shape = {1, 20, 70}, .stride = {0, 3 * gib, 1}},
            .b = {.data = {64 * (uint64_t)gib}, .dtype = PRESIL_INT8, .ndim = 3, .shape = {1, 70, 30}},
            .out = {.data = {200 * (uint64_t)gib}, .dtype = PRESIL_INT32, .ndim = 3, .shape = {1, 20, 30}}};
        d.b.stride[1] = 30, d.b.stride[2] = 1;
        d.out.stride[1] = -3 * gib / 4, d.out.stride[2] = 1;
        presil_error_buffer e = {f.text, sizeof f.text};
        presil_plan *plan = NULL;
        const int status = chip_plan_matmul(f.chip, &d, &plan, &e);
        if (status) fail_msg("%s: status %d: %s", configs[c], status, f.text);
        if (chip_prove(plan, f.text, sizeof f.text)) fail_msg("%s: %s", configs[c], f.text);
        uint32_t far = 0;
        for (size_t i = 0; i < plan->count; i++) {
            const presil_desc *l = &plan->list[i];
            const bool moves =
                presil_desc_opcode(l) == PRESIL_OPCODE_LOAD || presil_desc_opcode(l) == PRESIL_OPCODE_STORE;
            far += moves && (llabs(presil_load_ds1(l)) > INT32_MAX || llabs(presil_load_ds2(l)) > INT32_MAX);
        }
        assert_true(far >= 2); /* a LOAD and a STORE */
        chip_plan_free(plan);
        fixture_close(&f);
    }
}

static void setters_refuse_what_does_not_fit(void **state) {
    (void)state;
    presil_desc d = {{0}};
    char text[256] = "";
    presil_error_buffer e = {text, sizeof text};
    presil_load_sw_set(&d, INT32_MIN), presil_load_ds2_set(&d, INT64_MIN), presil_load_rp1_set(&d, -128),
        presil_load_n0_set(&d, 65535);
    presil_load_row_bytes_set(&d, UINT32_MAX), presil_matrix_kx_set(&d, 255), presil_matrix_pad_set(&d, 255);
    assert_int_equal(chip_fields_fit(&e), PRESIL_OK);
    assert_int_equal(presil_load_sw(&d), INT32_MIN);
    assert_int_equal(presil_load_ds2(&d), INT64_MIN); /* 64 bits hold anything */
    presil_load_sw_set(&d, (int64_t)INT32_MIN - 1);
    presil_load_n0_set(&d, 0); /* the first one is told */
    assert_int_equal(chip_fields_fit(&e), PRESIL_EUNSUPPORTED);
    assert_non_null(strstr(text, "LOAD.sw holds -2147483648 to 2147483647, this layout needs -2147483649"));
    assert_int_equal(chip_fields_fit(&e), PRESIL_OK);
    presil_load_rp1_set(&d, 128);
    assert_int_equal(chip_fields_fit(&e), PRESIL_EUNSUPPORTED);
    presil_load_n0_set(&d, -1);
    assert_int_equal(chip_fields_fit(&e), PRESIL_EUNSUPPORTED);
    presil_matrix_kx_set(&d, 256);
    assert_int_equal(chip_fields_fit(&e), PRESIL_EUNSUPPORTED);
    presil_epilogue_out_base_set(&d, (int64_t)1 << 32);
    assert_int_equal(chip_fields_fit(&e), PRESIL_EUNSUPPORTED);
}

/* PRESIL_HAZARDS=1: a launch whose STORE waits for nobody is not submitted; without it nobody looks. */
static void hazards_of_a_launch(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "tiny", 0);
    presil_plan *plan = matmul_at(&f, 0x100000000, 70, 50, 90);
    char text[512] = "";
    presil_error_buffer e = {text, sizeof text};
    assert_int_equal(setenv("PRESIL_HAZARDS", "1", 1), 0);
    assert_int_equal(chip_hazards_of_launch(plan, 0, plan->count, &e), PRESIL_OK);
    size_t last = plan->count - 1;
    while (presil_desc_opcode(&plan->list[last]) != PRESIL_OPCODE_STORE) last--;
    assert_true(chip_plan_own(plan));
    presil_desc_wait_set(&chip_own_list(plan)[last], 0);
    assert_int_equal(chip_hazards_of_launch(plan, 0, plan->count, &e), PRESIL_EDESC);
    char part[64];
    (void)snprintf(part, sizeof part, "store before done: descriptor %zu (STORE", last);
    if (!strstr(text, part) || !strstr(text, "; see descriptor ") || !strstr(text, plan->label)) fail_msg("%s", text);
    assert_int_equal(setenv("PRESIL_HAZARDS", "0", 1), 0);
    assert_int_equal(chip_hazards_of_launch(plan, 0, plan->count, &e), PRESIL_OK);
    assert_int_equal(unsetenv("PRESIL_HAZARDS"), 0);
    chip_plan_free(plan);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(wrong_addresses_are_found), cmocka_unit_test(any_strides),
                                       cmocka_unit_test(strides_beyond_32_bits),
                                       cmocka_unit_test(setters_refuse_what_does_not_fit),
                                       cmocka_unit_test(hazards_of_a_launch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
