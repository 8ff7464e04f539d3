/* SPDX-License-Identifier: Apache-2.0 */
/* The plan checker finds what is planted; big operators pass it; a plan's ranges and descriptions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tile_fixture.h"

static presil_plan *matmul_plan(fixture *f, int64_t m, int64_t n, int64_t k, uint32_t compute) {
    presil_error_buffer e = {f->text, sizeof f->text};
    uint32_t dtype = compute == PRESIL_COMPUTE_INT8   ? PRESIL_INT8
                     : compute == PRESIL_COMPUTE_BF16 ? PRESIL_BF16
                                                      : PRESIL_FP32;
    presil_matmul_desc d = {
        .size = sizeof d,
        .compute = compute,
        .a = {.data = {0x110000000}, .dtype = dtype, .ndim = 3, .shape = {1, m, k}, .stride = {m * k, k, 1}},
        .b = {.data = {0x210000000}, .dtype = dtype, .ndim = 3, .shape = {1, k, n}, .stride = {k * n, n, 1}},
        .out = {.data = {0x310000000}, .dtype = PRESIL_FP32, .ndim = 3, .shape = {1, m, n}, .stride = {m * n, n, 1}}};
    presil_plan *plan = NULL;
    int status = chip_plan_matmul(f->chip, &d, &plan, &e);
    if (status != PRESIL_OK) print_error("%s\n", f->text);
    assert_int_equal(status, PRESIL_OK);
    assert_true(chip_plan_own(plan)); /* faults are planted */
    return plan;
}

static int check(const presil_plan *plan, char *text, size_t bytes) {
    size_t first = 0;
    for (uint32_t s = 0; s < plan->segments; s++) {
        if (chip_check_plan(&plan->config, plan->list + first, plan->segment_ends[s] - first, text, bytes)) return -1;
        first = plan->segment_ends[s];
    }
    return 0;
}

/* Each wait and each signal of a plan is needed: without any one of them the checker objects. */
static void every_token_is_needed(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "tiny", 0);
    presil_plan *plan = matmul_plan(&f, 150, 40, 64, PRESIL_COMPUTE_BF16);
    char text[256] = "";
    assert_int_equal(check(plan, text, sizeof text), 0);
    uint32_t planted = 0;
    for (size_t i = 0; i < plan->count; i++) {
        presil_desc saved = plan->list[i];
        uint32_t wait = presil_desc_wait(&saved), signal = presil_desc_signal(&saved);
        for (uint32_t t = 0; t < 20; t++) {
            if (!(wait >> t & 1u)) continue;
            presil_desc_wait_set(&chip_own_list(plan)[i], wait & ~(1u << t));
            assert_int_equal(check(plan, text, sizeof text), -1);
            planted++;
        }
        chip_own_list(plan)[i] = saved;
        for (uint32_t t = 0; t < 4; t++) {
            if (!(signal >> t & 1u)) continue;
            presil_desc_signal_set(&chip_own_list(plan)[i], signal & ~(1u << t));
            assert_int_equal(check(plan, text, sizeof text), -1);
            planted++;
        }
        chip_own_list(plan)[i] = saved;
    }
    assert_true(planted > 50);
    chip_plan_free(plan);
    fixture_close(&f);
}

/* A wait and its signal taken away together leave tokens balanced: then a hazard must be found. */
static void missing_pairs_are_hazards(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "tiny", 0);
    presil_plan *plan = matmul_plan(&f, 150, 40, 64, PRESIL_COMPUTE_INT8);
    char text[256] = "";
    uint32_t planted = 0;
    for (uint32_t t = 0; t < 16; t++) {
        presil_desc *copy = malloc(plan->count * sizeof *copy);
        memcpy(copy, plan->list, plan->count * sizeof *copy);
        bool used = false;
        for (size_t i = 0; i < plan->count; i++) {
            used |= presil_desc_wait(&copy[i]) >> t & 1u;
            presil_desc_wait_set(&copy[i], presil_desc_wait(&copy[i]) & ~(1u << t));
            if (presil_desc_opcode(&copy[i]) - 1 == t / 4)
                presil_desc_signal_set(&copy[i], presil_desc_signal(&copy[i]) & ~(1u << (t % 4)));
        }
        if (used) {
            assert_int_equal(chip_check_plan(&plan->config, copy, plan->count, text, sizeof text), -1);
            planted++;
        }
        free(copy);
    }
    assert_true(planted >= 5);
    chip_plan_free(plan);
    fixture_close(&f);
}

/* An EPILOGUE takes as parameters what the one before it writes: it reads ahead, so only a token makes that right. */
static void epilogues_read_ahead(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "tiny", 0);
    presil_plan *plan = matmul_plan(&f, 10, 12, 8, PRESIL_COMPUTE_BF16);
    const presil_config config = plan->config;
    chip_plan_free(plan);
    const uint32_t word = config.word_bytes, words = 8 * config.cells / word, opcodes[4] = {1, 2, 3, 3};
    presil_desc list[4];
    memset(list, 0, sizeof list);
    for (int i = 0; i < 4; i++) {
        presil_desc_opcode_set(&list[i], opcodes[i]);
        presil_desc_isa_set(&list[i], PRESIL_ISA_VERSION);
    }
    presil_load_n0_set(&list[0], 1), presil_load_n1_set(&list[0], 1), presil_load_n2_set(&list[0], 1);
    presil_load_n3_set(&list[0], 1), presil_load_chunk_bytes_set(&list[0], words * word);
    presil_load_word_bytes_set(&list[0], word), presil_load_sw_set(&list[0], (int32_t)word);
    presil_desc_signal_set(&list[0], 1);
    presil_matrix_nx_set(&list[1], 3), presil_matrix_ny_set(&list[1], 1), presil_matrix_first_set(&list[1], 1);
    presil_matrix_kx_set(&list[1], 1), presil_matrix_ky_set(&list[1], 1), presil_matrix_ncb_set(&list[1], 1);
    presil_matrix_sx_set(&list[1], 1), presil_matrix_sy_set(&list[1], 1);
    presil_matrix_idx_set(&list[1], 1), presil_matrix_idy_set(&list[1], 1), presil_matrix_wgt_base_set(&list[1], 64);
    presil_desc_signal_set(&list[1], 1);
    for (uint32_t i = 2; i < 4; i++) {
        presil_epilogue_rows_set(&list[i], 4 - i), presil_epilogue_out_type_set(&list[i], PRESIL_DTYPE_RAW32);
        presil_epilogue_acc_base_set(&list[i], i == 2 ? 0 : 2), presil_epilogue_bias_en_set(&list[i], 1);
        presil_epilogue_param_base_set(&list[i], (i - 2) * words);
        presil_epilogue_out_base_set(&list[i], (i - 1) * words * word);
        presil_epilogue_out_pitch_set(&list[i], words * word / 2);
    }
    presil_desc_wait_set(&list[2], 1 << 0 | 1 << 4);
    char text[256] = "";
    assert_int_equal(chip_check_plan(&config, list, 4, text, sizeof text), -1);
    assert_non_null(strstr(text, "reads a word too early"));
    presil_desc_signal_set(&list[2], 1);
    presil_desc_wait_set(&list[3], 1 << 8);
    const int status = chip_check_plan(&config, list, 4, text, sizeof text);
    if (status) print_error("%s\n", text);
    assert_int_equal(status, 0);
    fixture_close(&f);
}

static void big_operators(void **state) {
    (void)state;
    const int64_t shapes[][3] = {
        {4096, 4096, 4096}, {1, 32000, 4096}, {100000, 10, 10}, {64, 64, 200000}, {30, 100000, 30}};
    static const char *const configs[] = {"tiny", "odd", "base", "wide"};
    for (uint32_t k = 0; k < 4; k++) {
        fixture f;
        fixture_open(&f, configs[k], 0);
        for (uint32_t i = k < 2 ? 1 : 0; i < 5; i++) {
            presil_plan *plan = matmul_plan(&f, shapes[i][0], shapes[i][1], shapes[i][2], PRESIL_COMPUTE_BF16);
            char text[256] = "";
            int status = check(plan, text, sizeof text);
            if (status) print_error("%s, shape %u: %s\n", configs[k], i, text);
            assert_int_equal(status, 0);
            assert_true(plan->count > 4);
            chip_plan_free(plan);
        }
        fixture_close(&f);
    }
}

/* What decode refuses whatever the configuration is told before anything runs. */
static void what_no_chip_of_this_version_has(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "tiny", 0);
    presil_plan *plan = matmul_plan(&f, 20, 20, 20, PRESIL_COMPUTE_BF16);
    char text[256] = "";
    assert_int_equal(check(plan, text, sizeof text), 0);
    uint32_t planted = 0;
    for (size_t i = 0; i < plan->count; i++) {
        presil_desc *const d = &chip_own_list(plan)[i];
        const presil_desc saved = *d;
        const uint32_t op = presil_desc_opcode(d);
#define REFUSED(change, words)                                                                                         \
    do {                                                                                                               \
        change;                                                                                                        \
        assert_int_equal(check(plan, text, sizeof text), -1);                                                          \
        if (!strstr(text, words)) fail_msg("expected %s, got %s", words, text);                                        \
        *d = saved, planted++;                                                                                         \
    } while (0)
        REFUSED(presil_desc_isa_set(d, 1), "isa version");
        REFUSED(d->w[31] = 1u << 31, "reserved bits");
        REFUSED(d->w[1] |= 1u << 20, "reserved bits");
        if (op == PRESIL_OPCODE_LOAD) REFUSED(presil_load_conv_set(d, 4), "unknown conversion");
        if (op == PRESIL_OPCODE_STORE) REFUSED(presil_store_conv_set(d, 1), "unknown conversion");
        if (op == PRESIL_OPCODE_MATRIX) REFUSED(presil_matrix_dtype_set(d, PRESIL_DTYPE_INT4), "none of int8");
        if (op == PRESIL_OPCODE_EPILOGUE) REFUSED(presil_epilogue_out_type_set(d, PRESIL_DTYPE_INT4), "unknown type");
#undef REFUSED
    }
    assert_int_equal(check(plan, text, sizeof text), 0);
    assert_true(planted > 12);
    chip_plan_free(plan);
    fixture_close(&f);
}

/* Loads that run far ahead of what uses them: a counter would pass 255 if nothing held them back. */
static void tokens_in_flight_are_bounded(void **state) {
    (void)state;
    static const char *const configs[] = {"tiny", "odd", "base", "wide"};
    for (uint32_t k = 0; k < 4; k++) {
        fixture f;
        fixture_open(&f, configs[k], 0);
        presil_error_buffer e = {f.text, sizeof f.text};
        float weight[1] = {0};
        presil_weights_desc w = {.size = sizeof w,
                                 .compute = PRESIL_COMPUTE_BF16,
                                 .weight = weight,
                                 .weight_dtype = PRESIL_FP32,
                                 .groups = 1,
                                 .shape = {768, 3, 16, 16},
                                 .stride = {768, 256, 16, 1}};
        presil_layout *layout;
        uint64_t bytes;
        assert_int_equal(chip_layout(f.chip, &w, &layout, &bytes, &e), PRESIL_OK);
        presil_conv2d_desc d = {.size = sizeof d,
                                .input = {.data = {0x110000000},
                                          .dtype = PRESIL_BF16,
                                          .ndim = 4,
                                          .shape = {1, 224, 224, 3},
                                          .stride = {150528, 672, 3, 1}},
                                .output = {.data = {0x210000000},
                                           .dtype = PRESIL_BF16,
                                           .ndim = 4,
                                           .shape = {1, 14, 14, 768},
                                           .stride = {150528, 10752, 768, 1}},
                                .stride = {16, 16}};
        for (d.tiling = 0; d.tiling < 4; d.tiling++) {
            presil_plan *plan;
            char text[256] = "";
            assert_int_equal(chip_plan_conv2d(f.chip, &d, layout, (presil_daddr){0x310000000}, &plan, &e), PRESIL_OK);
            int status = check(plan, text, sizeof text);
            if (status) print_error("%s, tiling %u: %s\n", configs[k], d.tiling, text);
            assert_int_equal(status, 0);
            chip_plan_free(plan);
        }
        chip_layout_free(layout);
        fixture_close(&f);
    }
}

static void ranges_and_descriptions(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "tiny", 0);
    presil_plan *plan = matmul_plan(&f, 10, 12, 8, PRESIL_COMPUTE_BF16);
    presil_plan_info info = {.size = sizeof info};
    char text[128] = "";
    chip_plan_info(plan, &info);
    assert_int_equal(info.write_count, 1);
    assert_int_equal(info.writes[0].base.value, 0x310000000);
    assert_int_equal(info.writes[0].bytes, 10 * 12 * 4);
    assert_int_equal(info.read_count, 2);
    assert_int_equal(info.reads[0].bytes, 10 * 8 * 2);
    assert_int_equal(info.macs, 10 * 12 * 8);
    assert_int_equal(chip_plan_describe(plan, (presil_daddr){0x310000000 + (7 * 12 + 5) * 4}, text, sizeof text),
                     PRESIL_OK);
    assert_non_null(strstr(text, "output [0, 0, 7, 5], tile"));
    assert_non_null(strstr(text, "(STORE)"));
    assert_true(chip_plan_describe(plan, (presil_daddr){0x310000000 - 4}, text, sizeof text) != PRESIL_OK);
    uint64_t signature = info.signature;
    chip_plan_free(plan);
    plan = matmul_plan(&f, 10, 12, 8, PRESIL_COMPUTE_BF16);
    chip_plan_info(plan, &info);
    assert_true(info.signature == signature);
    chip_plan_free(plan);
    fixture_close(&f);
}

/* Two groups of a channel and an output each, in one block. */
static void fp16_weights_lie_as_they_are(void **state) {
    (void)state;
    static const uint16_t given[2][2] = {{0x7c01, 0x0001}, {0xfc01, 0x7c00}},
                          packed[2][2] = {{0x7e00, 0x0001}, {0xfc01, 0x7c00}};
    fixture f;
    fixture_open(&f, "tiny", 0);
    presil_error_buffer e = {f.text, sizeof f.text};
    presil_weights_desc w = {.size = sizeof w,
                             .compute = PRESIL_COMPUTE_FP16,
                             .weight = given,
                             .weight_dtype = PRESIL_FP16,
                             .groups = 2,
                             .shape = {2, 2, 1, 1},
                             .stride = {2, 1, 1, 1}};
    presil_layout *layout;
    uint64_t bytes;
    assert_int_equal(chip_layout(f.chip, &w, &layout, &bytes, &e), PRESIL_OK);
    uint8_t *image = malloc(bytes);
    assert_int_equal(chip_pack(f.chip, layout, &w, image, &e), PRESIL_OK);
    const uint32_t lanes = f.chip->config.lanes / 2;
    for (uint32_t o = 0; o < 2; o++) {
        for (uint32_t i = 0; i < lanes; i++) {
            uint16_t got;
            memcpy(&got, image + o * f.chip->config.word_bytes + 2 * i, 2);
            assert_int_equal(got, i / 2 == o ? packed[o][i % 2] : 0x7c01);
        }
    }
    free(image);
    chip_layout_free(layout);
    w.compute = PRESIL_COMPUTE_BF16;
    assert_int_equal(chip_layout(f.chip, &w, &layout, &bytes, &e), PRESIL_EINVAL);
    w.compute = PRESIL_COMPUTE_FP16, f.chip->fp16 = false;
    assert_int_equal(chip_layout(f.chip, &w, &layout, &bytes, &e), PRESIL_EUNSUPPORTED);
    assert_non_null(strstr(f.text, "CAP_FEATURES.fp16 is 0"));
    fixture_close(&f);
}

static void terms_of_fp32(void **state) {
    (void)state;
    const struct {
        uint32_t x;
        uint16_t t[3];
    } list[] = {{0x3f8fffff, {0x3f90, 0xb400, 0}}, {0x3f800000, {0x3f80, 0, 0}},
                {0x80000001, {0x8000, 0, 0}},      {0x7f7fffff, {0x7f7f, 0x7b7f, 0x777f}},
                {0x7f800001, {0x7fc0, 0, 0}},      {0xff800000, {0xff80, 0, 0}},
                {0x00ffffff, {0x0100, 0, 0}}};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        uint16_t t[3];
        chip_split_fp32(list[i].x, t);
        for (int k = 0; k < 3; k++) {
            if (i == 3 && k) continue; /* only the sum matters there, below */
            assert_int_equal(t[k], list[i].t[k]);
        }
    }
    uint32_t checked = 0;
    for (uint32_t x = 0x20000000; x < 0x7f000000; x += 0x10fed, checked++) {
        uint16_t t[3];
        double sum = 0;
        float f, v;
        memcpy(&f, &x, 4);
        chip_split_fp32(x, t);
        for (int k = 0; k < 3; k++) {
            uint32_t u = (uint32_t)t[k] << 16;
            memcpy(&v, &u, 4);
            sum += (double)v;
        }
        assert_true(sum == (double)f);
    }
    assert_true(checked > 10000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_token_is_needed),
                                       cmocka_unit_test(missing_pairs_are_hazards),
                                       cmocka_unit_test(big_operators),
                                       cmocka_unit_test(tokens_in_flight_are_bounded),
                                       cmocka_unit_test(ranges_and_descriptions),
                                       cmocka_unit_test(terms_of_fp32),
                                       cmocka_unit_test(fp16_weights_lie_as_they_are),
                                       cmocka_unit_test(epilogues_read_ahead),
                                       cmocka_unit_test(what_no_chip_of_this_version_has)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
