/* SPDX-License-Identifier: Apache-2.0 */
/* test_twin.c - launches: data movement of a whole tile, tokens, deadlock, every error with its code, index and
 * address. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka needs the three above. */
#include <cmocka.h>

#include "test_twin.h"
#include "twin_lists.h"

#define BASE UINT64_C(0x80000000)
#define BYTES 0x10000u

typedef struct {
    const presil_config *config;
    presil_twin *twin;
    presil_twin_memory memory;
    presil_twin_error error;
} bed;

static void open_bed(bed *b, const char *config) {
    b->config = find_config(config);
    b->twin = presil_twin_create(b->config);
    b->memory = (presil_twin_memory){BASE, BYTES, calloc(1, BYTES)};
    assert_non_null(b->twin);
    assert_non_null(b->memory.host);
}

static void close_bed(bed *b) {
    presil_twin_destroy(b->twin);
    free(b->memory.host);
}

static int run(bed *b, const presil_desc *list, size_t count) {
    return presil_twin_execute(b->twin, list, count, &b->memory, NULL, NULL, &b->error);
}

static void expect_error(const presil_desc *list, size_t count, int code, uint32_t index, uint64_t address) {
    bed b;
    open_bed(&b, "tiny");
    assert_int_equal(run(&b, list, count), -1);
    assert_int_equal(b.error.code, code);
    assert_int_equal(b.error.index, index);
    assert_int_equal(b.error.address, address);
    assert_int_equal(b.error.deadlock, 0);
    assert_true(b.error.text[0] != 0);
    close_bed(&b);
}

typedef struct {
    uint64_t address, bytes;
    uint32_t index, calls;
} writes;

static void count_write(void *context, uint64_t address, uint64_t bytes, uint32_t index) {
    writes *w = context;
    assert_true(w->calls == 0 || address >= w->address);
    w->address = address;
    w->bytes += bytes;
    w->index = index;
    w->calls++;
}

/* int8 2x2 pixels, 3x3 kernel of ones, one channel block of ones: each output counts the inputs that are not padding,
 * times LANES. */
static void test_tile(void **state) {
    (void)state;
    bed b;
    writes w = {0};
    open_bed(&b, "tiny");
    const presil_config *c = b.config;
    uint32_t word = c->word_bytes, weights = 9 * c->cells;
    memset(b.memory.host, 1, (size_t)(4 + weights) * word);
    presil_twin_scramble(b.twin, 42);
    presil_desc list[6] = {
        command(PRESIL_OPCODE_NOP, 0, 0),
        row_store(BASE + 0x8001, 4, 4 * c->cells, 4 * c->cells, (8 + weights) * word, word, TOKEN(EPILOGUE, 0), 0),
        plain_epilogue(4, 0, PRESIL_DTYPE_RAW32, (8 + weights) * word, 2 * word, TOKEN(MATRIX, 0), 1),
        square_matrix(0, 2, 3, 1, 0, 4, TOKEN(LOAD, 0) | TOKEN(LOAD, 1), 1),
        contiguous_load(BASE, 4, word, 0, 0, 1),
        contiguous_load(BASE + 4 * word, weights, word, 4 * word, 0, 2),
    };
    presil_store_word_bytes_set(&list[1], word);
    presil_store_sw_set(&list[1], (int32_t)word);
    presil_store_ss1_set(&list[1], (int32_t)(2 * word));
    assert_int_equal(presil_twin_execute(b.twin, list, 6, &b.memory, count_write, &w, &b.error), 0);
    for (uint32_t i = 0; i < 4 * c->cells; i++) {
        int32_t v;
        memcpy(&v, b.memory.host + 0x8001 + 4 * i, 4);
        assert_int_equal(v, 4 * (int32_t)c->lanes);
    }
    assert_int_equal(w.bytes, 4 * 4 * c->cells);
    assert_int_equal(w.index, 1);
    close_bed(&b);
}

/* pos0 < 0, a partial last word, padding by destination address, row_limit. */
static void test_load_padding(void **state) {
    (void)state;
    bed b;
    open_bed(&b, "tiny");
    for (uint32_t i = 0; i < 64; i++) b.memory.host[i] = (uint8_t)(i + 1);
    presil_desc d = contiguous_load(BASE, 1, 16, 0, 0, 0);
    presil_load_row_bytes_set(&d, 5);
    presil_load_pos0_set(&d, -3);
    presil_load_chunk_bytes_set(&d, 12);
    presil_load_n1_set(&d, 3);
    presil_load_ds1_set(&d, 16);
    presil_load_ss1_set(&d, 16);
    presil_load_rp0_set(&d, -1);
    presil_load_rp1_set(&d, 1);
    presil_load_row_limit_set(&d, 1);
    presil_load_pad_set(&d, 0xd3d2d1d0u);
    assert_int_equal(run(&b, &d, 1), 0);
    const uint8_t *spad = presil_twin_scratchpad(b.twin, NULL);
    for (uint32_t i = 0; i < 48; i++) {
        int inside = i >= 16 + 3 && i < 16 + 8;
        assert_int_equal(spad[i], inside ? 17 + i - 19 : 0xd0 + i % 4);
    }
    close_bed(&b);
}

/* fp32 columns become bf16 words; elements beyond n1 are padding. */
static void test_load_transpose(void **state) {
    (void)state;
    bed b;
    open_bed(&b, "tiny");
    for (uint32_t i = 0; i < 3 * 4; i++) {
        float f = (float)(i + 1);
        memcpy(b.memory.host + 4 * i, &f, 4);
    }
    presil_desc d = contiguous_load(BASE, 1, 16, 32, 0, 0);
    presil_load_transpose_set(&d, 1);
    presil_load_conv_set(&d, PRESIL_CONV_TERM0);
    presil_load_row_bytes_set(&d, 16);
    presil_load_n1_set(&d, 3);
    presil_load_ds1_set(&d, 16);
    assert_int_equal(run(&b, &d, 1), 0);
    const uint8_t *spad = presil_twin_scratchpad(b.twin, NULL);
    for (uint32_t column = 0; column < 4; column++)
        for (uint32_t k = 0; k < 8; k++) {
            float f = k < 3 ? (float)(4 * k + column + 1) : 0.0f;
            uint32_t u;
            memcpy(&u, &f, 4);
            assert_int_equal(spad[32 + 16 * column + 2 * k] | spad[32 + 16 * column + 2 * k + 1] << 8, u >> 16);
        }
    close_bed(&b);
}

static void test_decode_errors(void **state) {
    (void)state;
    const presil_config *c = find_config("tiny");
    presil_desc list[2] = {contiguous_load(BASE, 1, 16, 0, 0, 0), command(PRESIL_OPCODE_VECTOR, 0, 0)};
    expect_error(list, 2, PRESIL_ERROR_OPCODE, 1, 0);
    list[1] = command(9, 0, 0);
    expect_error(list, 2, PRESIL_ERROR_OPCODE, 1, 0);
    list[1] = list[0];
    presil_desc_isa_set(&list[1], 1);
    expect_error(list, 2, PRESIL_ERROR_VERSION, 1, 0);
#define REFUSED(base, change)                                                                                          \
    do {                                                                                                               \
        list[1] = base;                                                                                                \
        presil_desc *d = &list[1];                                                                                     \
        change;                                                                                                        \
        expect_error(list, 2, PRESIL_ERROR_FIELD, 1, 0);                                                               \
    } while (0)
    REFUSED(list[0], presil_load_n0_set(d, 0));
    REFUSED(list[0], presil_load_n1_set(d, 0));
    REFUSED(list[0], presil_load_n2_set(d, 0));
    REFUSED(list[0], presil_load_n3_set(d, 0));
    REFUSED(list[0], presil_load_chunk_bytes_set(d, 0));
    REFUSED(list[0], presil_load_word_bytes_set(d, 0));
    REFUSED(list[0], presil_load_word_bytes_set(d, 17));
    REFUSED(list[0], (presil_load_conv_set(d, 1), presil_load_word_bytes_set(d, 33)));
    REFUSED(list[0], (presil_load_transpose_set(d, 1), presil_load_n0_set(d, 2)));
    REFUSED(list[0], (presil_load_transpose_set(d, 1), presil_load_n1_set(d, 17)));
    REFUSED(list[0], (presil_load_transpose_set(d, 1), presil_load_conv_set(d, 1), presil_load_n1_set(d, 9)));
    presil_desc store = row_store(BASE, 1, 16, 16, 0, 16, 0, 0), matrix = square_matrix(0, 8, 1, 1, 0, 0, 0, 0);
    presil_desc epilogue = plain_epilogue(64, 0, 0, 0, 16, 0, 0);
    REFUSED(store, presil_store_n1_set(d, 0));
    REFUSED(store, presil_store_chunk_bytes_set(d, 0));
    REFUSED(store, presil_store_word_bytes_set(d, 17));
    REFUSED(matrix, presil_matrix_nx_set(d, 0));
    REFUSED(matrix, presil_matrix_ny_set(d, 0));
    REFUSED(matrix, presil_matrix_kx_set(d, 0));
    REFUSED(matrix, presil_matrix_ky_set(d, 0));
    REFUSED(matrix, presil_matrix_ncb_set(d, 0));
    REFUSED(matrix, presil_matrix_sx_set(d, 0));
    REFUSED(matrix, presil_matrix_sy_set(d, 0));
    REFUSED(matrix, presil_matrix_idx_set(d, 0));
    REFUSED(matrix, presil_matrix_idy_set(d, 0));
    REFUSED(matrix, presil_matrix_acc_base_set(d, c->acc_rows - 63));
    REFUSED(matrix, (presil_matrix_nx_set(d, 65535), presil_matrix_ny_set(d, 65535)));
    REFUSED(epilogue, presil_epilogue_rows_set(d, 0));
    REFUSED(epilogue, presil_epilogue_acc_base_set(d, 1));
    REFUSED(list[0], presil_load_conv_set(d, 4));
    REFUSED(store, presil_store_conv_set(d, 1));
    REFUSED(matrix, presil_matrix_dtype_set(d, PRESIL_DTYPE_FP32));
    REFUSED(matrix, presil_matrix_dtype_set(d, PRESIL_DTYPE_INT32));
    REFUSED(matrix, presil_matrix_dtype_set(d, PRESIL_DTYPE_FP8_E4M3));
    REFUSED(epilogue, presil_epilogue_out_type_set(d, PRESIL_DTYPE_INT32));
    REFUSED(epilogue, presil_epilogue_out_type_set(d, PRESIL_DTYPE_INT4));
    REFUSED(list[0], d->w[31] = 1u << 31);
    REFUSED(matrix, d->w[1] = 1u << 20); /* a token of an engine that isn't there */
#undef REFUSED
}

static void test_bus_errors(void **state) {
    (void)state;
    presil_desc d = contiguous_load(BASE + BYTES - 32, 3, 16, 0, 0, 0);
    expect_error(&d, 1, PRESIL_ERROR_READ_BUS, 0, BASE + BYTES);
    d = contiguous_load(BASE - 13, 3, 16, 0, 0, 0);
    expect_error(&d, 1, PRESIL_ERROR_READ_BUS, 0, BASE - 16);
    d = row_store(BASE + BYTES - 32, 3, 16, 16, 0, 16, 0, 0);
    expect_error(&d, 1, PRESIL_ERROR_WRITE_BUS, 0, BASE + BYTES);
    /* What padding replaces is not read. */
    d = contiguous_load(BASE + BYTES - 32, 3, 16, 0, 0, 0);
    presil_load_row_bytes_set(&d, 32);
    bed b;
    open_bed(&b, "tiny");
    assert_int_equal(run(&b, &d, 1), 0);
    close_bed(&b);
}

static void test_range_errors(void **state) {
    (void)state;
    const uint32_t end = 4096; /* words of tiny */
    presil_desc d = contiguous_load(BASE, 3, 16, (end - 2) * 16, 0, 0);
    expect_error(&d, 1, PRESIL_ERROR_SPAD_RANGE, 0, end * 16);
    d = row_store(BASE, 3, 16, 16, (end - 1) * 16, 16, 0, 0);
    expect_error(&d, 1, PRESIL_ERROR_SPAD_RANGE, 0, end * 16);
    d = square_matrix(0, 2, 1, 1, 0, end - 7, 0, 0);
    expect_error(&d, 1, PRESIL_ERROR_SPAD_RANGE, 0, end * 16);
    d = square_matrix(0, 2, 1, 1, end - 3, 0, 0, 0);
    expect_error(&d, 1, PRESIL_ERROR_SPAD_RANGE, 0, end * 16);
    d = plain_epilogue(2, 0, PRESIL_DTYPE_RAW32, (end - 2) * 16, 32, 0, 0);
    expect_error(&d, 1, PRESIL_ERROR_SPAD_RANGE, 0, end * 16);
    d = plain_epilogue(1, 0, PRESIL_DTYPE_FP32, 0, 32, 0, 0);
    presil_epilogue_bias_en_set(&d, 1);
    presil_epilogue_param_base_set(&d, end - 3);
    expect_error(&d, 1, PRESIL_ERROR_SPAD_RANGE, 0, end * 16);
}

static void test_tokens(void **state) {
    (void)state;
    presil_desc list[300];
    for (uint32_t i = 0; i < 300; i++) list[i] = contiguous_load(BASE, 1, 16, 0, 0, 8);
    expect_error(list, 300, PRESIL_ERROR_TOKEN_OVERFLOW, 255, 0);
    /* The counts start at zero in each launch. */
    bed b;
    open_bed(&b, "tiny");
    assert_int_equal(run(&b, list, 255), 0);
    assert_int_equal(run(&b, list, 255), 0);
    close_bed(&b);
}

static void test_deadlock(void **state) {
    (void)state;
    bed b;
    open_bed(&b, "tiny");
    presil_desc list[3] = {contiguous_load(BASE, 1, 16, 0, 0, 1), contiguous_load(BASE, 1, 16, 0, TOKEN(MATRIX, 2), 1),
                           square_matrix(0, 1, 1, 1, 0, 1, TOKEN(LOAD, 0) | TOKEN(LOAD, 1) | TOKEN(STORE, 3), 4)};
    assert_int_equal(run(&b, list, 3), -1);
    assert_int_equal(b.error.code, 0);
    assert_int_equal(b.error.deadlock, 1);
    assert_int_equal(b.error.index, 1);
    assert_int_equal(b.error.wait_mask, TOKEN(MATRIX, 2));
    assert_string_equal(b.error.text, "deadlock: LOAD descriptor 1 waits for token 6 (MATRIX); MATRIX descriptor 2 "
                                      "waits for token 1 (LOAD) token 15 (STORE)");
    /* A fifth waiting LOAD keeps the MATRIX behind it from being decoded, as on the chip. */
    presil_desc queue[6];
    for (int i = 0; i < 5; i++) queue[i] = contiguous_load(BASE, 1, 16, 0, TOKEN(MATRIX, 0), 1);
    queue[5] = square_matrix(0, 1, 1, 1, 0, 1, 0, 1);
    assert_int_equal(run(&b, queue, 6), -1);
    assert_int_equal(b.error.deadlock, 1);
    queue[4] = queue[5];
    assert_int_equal(run(&b, queue, 6), -1);
    assert_int_equal(b.error.index, 2);
    close_bed(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_operations),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_dot_product),
        cmocka_unit_test(test_dot_product_specials),
        cmocka_unit_test(test_fp16_conversion),
        cmocka_unit_test(test_dot_product_fp16),
        cmocka_unit_test(test_float_mode_of_caller),
        cmocka_unit_test(test_tile),
        cmocka_unit_test(test_load_padding),
        cmocka_unit_test(test_load_transpose),
        cmocka_unit_test(test_decode_errors),
        cmocka_unit_test(test_bus_errors),
        cmocka_unit_test(test_range_errors),
        cmocka_unit_test(test_tokens),
        cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_depthwise_is_plain_loops),
        cmocka_unit_test(test_depthwise_fields),
        cmocka_unit_test(test_depthwise_range),
        cmocka_unit_test(test_depthwise_specials),
        cmocka_unit_test(test_splits_agree),
        cmocka_unit_test(test_flush_border),
        cmocka_unit_test(test_kernels_agree),
        cmocka_unit_test(test_threads_agree),
    };
    return cmocka_run_group_tests_name("twin", tests, NULL, NULL);
}
