/* SPDX-License-Identifier: Apache-2.0 */
/* test_twin_kernels.c - every set of inner loops gives the bits of the portable one, on random descriptors of all
 * configurations. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
/* cmocka needs the four above. */
#include <cmocka.h>

#include "test_twin.h"
#include "twin_host_float.h"
#include "twin_internal.h"
#include "twin_lists.h"

#define ROUNDS 180

static const char *const names[] = {"avx2", "avx512"};
static unsigned skipped;

/* bf16 of several kinds, so that each path of the vector kernels and their borders occur. */
static uint16_t random_bf16(uint64_t *state, unsigned kind) {
    uint32_t sign = below(state, 2) << 15, fraction = below(state, 3) ? below(state, 128) : below(state, 2) * 127;
    switch (kind) {
    case 0: return (uint16_t)(sign | (120 + below(state, 12)) << 7 | fraction);
    case 1:
        return (uint16_t)(below(state, 4) ? sign | (110 + below(state, 30)) << 7 | fraction
                                          : sign | fraction * below(state, 2));
    case 2: return (uint16_t)(sign | (64 + below(state, 66)) << 7 | fraction);  /* across the limit of the byte codes */
    case 3: return (uint16_t)(sign | (60 + below(state, 140)) << 7 | fraction); /* across the limit of the float path */
    case 4: return (uint16_t)(sign | (1 + below(state, 254)) << 7 | fraction);
    case 5: return (uint16_t)next_random(state);
    case 8:
        return (uint16_t)(sign | (70 + below(state, 14)) << 7 |
                          fraction); /* sums around the least emax of the float path */
    case 9: return (uint16_t)(sign | (186 + below(state, 6)) << 7 | fraction); /* and around its greatest sum */
    case 10:                                                                   /* sparse, at the limit of the codes */
        return (uint16_t)(below(state, 6)
                              ? sign
                              : sign | (below(state, 2) ? 95 + below(state, 4) : 158 + below(state, 4)) << 7 |
                                    fraction);
    case 6: return (uint16_t)(sign | (below(state, 2) ? 0 : 1)); /* zeros, the code of an absent weight */
    default:
        return (uint16_t)(below(state, 40) ? sign | (120 + below(state, 12)) << 7 | fraction
                                           : sign | 0x7f80u | fraction * below(state, 2));
    }
}

/* fp16 of several kinds: near each other, far apart, subnormal, zeros and the code of an absent weight, specials. */
static uint16_t random_fp16(uint64_t *state, unsigned kind) {
    const uint32_t sign = below(state, 2) << 15,
                   fraction = below(state, 3) ? below(state, 1024) : below(state, 2) * 1023;
    switch (kind) {
    case 0: return (uint16_t)(sign | (12 + below(state, 6)) << 10 | fraction);
    case 1: return (uint16_t)(sign | (below(state, 4) ? below(state, 4) << 10 : 0) | fraction);
    case 2: return (uint16_t)(sign | (1 + below(state, 30)) << 10 | fraction);
    case 3: return (uint16_t)(sign | 1u << below(state, 10)); /* subnormals of one bit */
    case 4: return (uint16_t)next_random(state);
    case 5: return (uint16_t)(sign | (26 + below(state, 5)) << 10 | fraction);
    case 6: return (uint16_t)(below(state, 2) ? sign : 0x7c01u);
    default:
        return (uint16_t)(below(state, 40) ? sign | (12 + below(state, 6)) << 10 | fraction
                                           : sign | 0x7c00u | fraction * below(state, 2));
    }
}

/* Each word of the scratchpad holds one kind of values, chosen for a stretch of words. */
static void fill_spad(presil_twin *twin, const presil_config *config, uint32_t dtype, uint64_t seed) {
    size_t bytes;
    uint8_t *spad = presil_twin_scratchpad(twin, &bytes);
    presil_twin_scramble(twin, seed);
    if (dtype == PRESIL_DTYPE_INT8) return;
    uint64_t state = seed;
    unsigned kind = 0, everywhere = below(&state, 4) ? 0 : 8 + below(&state, 3);
    for (size_t i = 0; i < bytes; i += 2) {
        if (everywhere)
            kind = everywhere;
        else if (i % (config->word_bytes * 16u) == 0)
            kind = below(&state, 3) ? 0 : below(&state, 8);
        uint16_t v = dtype == PRESIL_DTYPE_FP16 ? random_fp16(&state, kind) : random_bf16(&state, kind);
        memcpy(spad + i, &v, 2);
    }
}

static presil_desc random_matrix(const presil_config *c, uint64_t *state, uint32_t dtype) {
    uint32_t words = c->banks * c->bank_words;
    presil_desc d = square_matrix(dtype, 1, 1, 1, below(state, words / 2), 0, 0, 1);
    uint32_t k = 1 + below(state, 3), blocks = 1 + below(state, 3), area = c->acc_rows < 40 ? c->acc_rows : 40;
    uint32_t nx = 1 + below(state, 9), ny = 1 + below(state, area / nx);
    presil_matrix_nx_set(&d, nx);
    presil_matrix_ny_set(&d, ny);
    presil_matrix_acc_base_set(&d, below(state, c->acc_rows - nx * ny + 1));
    presil_matrix_kx_set(&d, k);
    presil_matrix_ky_set(&d, 1 + below(state, 2));
    presil_matrix_ncb_set(&d, blocks);
    presil_matrix_wgt_base_set(&d, below(state, words - 3 * 2 * 3 * c->cells));
    presil_matrix_first_set(&d, below(state, 2));
    presil_matrix_half_set(&d, below(state, 2));
    presil_matrix_skip_special_set(&d, below(state, 2));
    presil_matrix_absent_set(&d, below(state, 2));
    presil_matrix_sx_set(&d, 1 + below(state, 2));
    presil_matrix_sy_set(&d, 1 + below(state, 2));
    presil_matrix_ox_set(&d, (int32_t)below(state, 5) - 3);
    presil_matrix_oy_set(&d, (int32_t)below(state, 5) - 3);
    presil_matrix_lim_x_set(&d, 1 + below(state, 12));
    presil_matrix_lim_y_set(&d, 1 + below(state, 12));
    presil_matrix_idx_set(&d, 1 + below(state, 3) / 2);
    presil_matrix_idy_set(&d, 1 + below(state, 3) / 2);
    presil_matrix_x_stride_set(&d, below(state, 20));
    presil_matrix_y_stride_set(&d, below(state, 20));
    presil_matrix_cb_stride_set(&d, below(state, 20));
    presil_matrix_pad_set(&d, below(state, 256));
    return d;
}

/* The same as a depthwise one. */
static void make_depthwise(presil_desc *d, uint64_t *state) {
    presil_matrix_depthwise_set(d, 1);
    presil_matrix_ky_set(d, 1 + below(state, 3));
    presil_matrix_ncb_set(d, 1);
    presil_matrix_idx_set(d, 1);
    presil_matrix_idy_set(d, 1);
}

static uint32_t random_fp32(uint64_t *state) {
    uint32_t u = next_random(state);
    switch (below(state, 4)) {
    case 0: return u;
    case 1: return (u & 0x807fffffu) | (100 + below(state, 40)) << 23;
    case 2: return (u & 0x80000000u) | below(state, 4) << 23 | (u & 0xffu);
    default: return (uint32_t)random_bf16(state, 5) << 16;
    }
}

static presil_desc random_epilogue(const presil_config *c, uint64_t *state, int acc_fp32, uint32_t wait) {
    static const uint32_t types[] = {PRESIL_DTYPE_INT8, PRESIL_DTYPE_BF16, PRESIL_DTYPE_FP32, PRESIL_DTYPE_FP16,
                                     PRESIL_DTYPE_RAW32},
                          sizes[] = {1, 2, 4, 2, 4};
    uint32_t rows = 1 + below(state, c->acc_rows < 30 ? c->acc_rows : 30), out = below(state, 5), res = below(state, 4),
             out_type = types[out], res_type = types[res];
    uint32_t word = c->word_bytes, half = c->banks * c->bank_words / 2;
    uint32_t pitch = (c->cells * sizes[out] + word - 1) / word * word,
             res_pitch = (c->cells * sizes[res] + word - 1) / word * word;
    presil_desc d = plain_epilogue(rows, acc_fp32, out_type, (half + below(state, 100)) * word, pitch, wait, 0);
    presil_epilogue_half_set(&d, below(state, 2));
    presil_epilogue_acc_base_set(&d, below(state, c->acc_rows - rows + 1));
    presil_epilogue_bias_en_set(&d, below(state, 2));
    presil_epilogue_scale_en_set(&d, below(state, 2));
    presil_epilogue_res_en_set(&d, below(state, 2));
    presil_epilogue_clamp_en_set(&d, below(state, 2));
    presil_epilogue_res_type_set(&d, res_type);
    presil_epilogue_param_base_set(&d, below(state, half / 2));
    presil_epilogue_res_base_set(&d, below(state, half / 2) * word);
    presil_epilogue_res_pitch_set(&d, res_pitch);
    presil_epilogue_res_zp_set(&d, (int32_t)(below(state, 8) ? below(state, 256) - 128 : next_random(state)));
    presil_epilogue_res_scale_set(&d, random_fp32(state));
    presil_epilogue_clamp_lo_set(&d, random_fp32(state));
    presil_epilogue_clamp_hi_set(&d, random_fp32(state));
    presil_epilogue_out_zp_set(&d, (int32_t)(below(state, 8) ? below(state, 256) - 128 : next_random(state)));
    if (below(state, 2)) presil_epilogue_int_hi_set(&d, (int32_t)below(state, 128));
    return d;
}

/* Runs the same list from the same state on both; the scratchpads must agree. */
static void compare(presil_twin *a, presil_twin *b, const presil_desc *list, size_t count, const char *what,
                    unsigned round) {
    uint8_t none = 0;
    presil_twin_memory memory = {0, 0, &none};
    presil_twin_error ea, eb;
    int ra = presil_twin_execute(a, list, count, &memory, NULL, NULL, &ea),
        rb = presil_twin_execute(b, list, count, &memory, NULL, NULL, &eb);
    size_t bytes;
    const uint8_t *sa = presil_twin_scratchpad(a, &bytes), *sb = presil_twin_scratchpad(b, NULL);
    assert_int_equal(ra, rb);
    assert_int_equal(ea.code, eb.code);
    assert_int_equal(ea.address, eb.address);
    for (size_t i = 0; i < bytes; i++)
        if (sa[i] != sb[i])
            fail_msg("%s, round %u: scratchpad byte %zu: %02x, portable %02x", what, round, i, sb[i], sa[i]);
}

static void kernels_agree(const presil_config *c, const char *name, int threads) {
    presil_twin *a = presil_twin_create(c), *b = presil_twin_create(c);
    char what[64];
    uint64_t state = 7;
    unsigned finished = 0;
    assert_non_null(a);
    assert_non_null(b);
    assert_int_equal(presil_twin_simd(a, "generic"), 0);
    if (presil_twin_simd(b, name)) {
        printf("SKIPPED: no %s on this CPU (%u skipped)\n", name, ++skipped);
        presil_twin_destroy(a);
        presil_twin_destroy(b);
        return;
    }
    presil_twin_threads(b, (unsigned)threads);
    for (unsigned round = 0; round < ROUNDS; round++) {
        static const uint32_t kinds[] = {PRESIL_DTYPE_INT8, PRESIL_DTYPE_BF16, PRESIL_DTYPE_FP16};
        static const char *const kind_names[] = {"int8", "bf16", "fp16"};
        const uint32_t kind = below(&state, 3), dtype = kinds[kind];
        uint64_t seed = next_random(&state);
        fill_spad(a, c, dtype, seed);
        fill_spad(b, c, dtype, seed);
        presil_desc list[6] = {random_matrix(c, &state, dtype), random_matrix(c, &state, dtype)};
        for (int i = 0; i < 2; i++)
            if (below(&state, 3) == 0) make_depthwise(&list[i], &state);
        uint32_t whole = 4 * c->cells, word = c->word_bytes, pitch = (whole + word - 1) / word * word;
        list[2] = random_epilogue(c, &state, dtype != 0, TOKEN(MATRIX, 0));
        list[3] = random_epilogue(c, &state, dtype != 0, TOKEN(MATRIX, 0));
        list[4] = plain_epilogue(c->acc_rows, dtype != 0, PRESIL_DTYPE_RAW32, 0, pitch, 0, 0);
        list[5] = list[4];
        presil_epilogue_half_set(&list[5], 1);
        size_t count = (size_t)c->acc_rows * pitch <= (size_t)c->banks * c->bank_words * word ? 6 : 4;
        snprintf(what, sizeof what, "%s on %s, %s", name, c->name, kind_names[kind]);
        compare(a, b, list, 4, what, round);
        compare(a, b, list + 4, count - 4, what, round); /* all accumulators */
        finished++;
    }
    assert_int_equal(finished, ROUNDS);
    presil_twin_destroy(a);
    presil_twin_destroy(b);
}

void test_kernels_agree(void **unused) {
    (void)unused;
    for (const presil_config *c = presil_configs; c->name; c++)
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) kernels_agree(c, names[i], 1);
}

/* Large enough that the rows are shared between the threads. */
void test_threads_agree(void **unused) {
    (void)unused;
    const presil_config *c = find_config("base");
    presil_twin *a = presil_twin_create(c), *b = presil_twin_create(c);
    presil_twin_threads(b, 3);
    uint32_t words = c->banks * c->bank_words,
             pitch = (4 * c->cells + c->word_bytes - 1) / c->word_bytes * c->word_bytes;
    for (unsigned round = 0; round < 8; round++) {
        presil_desc list[2] = {
            square_matrix(round & 1, 29, 3, round & 2 ? 1 : 2, 0, words - 18 * c->cells, 0, 1),
            plain_epilogue(29 * 29, 1, PRESIL_DTYPE_RAW32, 29 * 29 * 2 * c->word_bytes, pitch, TOKEN(MATRIX, 0), 0)};
        presil_matrix_depthwise_set(&list[0], (round & 2) != 0);
        fill_spad(a, c, round & 1, round);
        fill_spad(b, c, round & 1, round);
        compare(a, b, list, 2, "3 threads", round);
    }
    presil_twin_destroy(a);
    presil_twin_destroy(b);
}

void test_splits_agree(void **unused) {
    (void)unused;
    uint64_t state = 3;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const twin_kernels *k = twin_kernels_named(names[i]);
        if (!k) {
            printf("SKIPPED: no %s on this CPU (%u skipped)\n", names[i], ++skipped);
            continue;
        }
        for (unsigned round = 0; round < 20000; round++) {
            uint32_t x[37];
            uint16_t expected[37], got[37];
            size_t n = 1 + below(&state, 37);
            for (size_t j = 0; j < n; j++) x[j] = random_fp32(&state);
            for (unsigned t = 0; t < 3; t++) {
                twin_kernels_generic.split((const uint8_t *)x, (uint8_t *)expected, n, t);
                k->split((const uint8_t *)x, (uint8_t *)got, n, t);
                for (size_t j = 0; j < n; j++)
                    if (got[j] != expected[j])
                        fail_msg("%s: term %u of %08x: %04x, portable %04x", names[i], t, x[j], got[j], expected[j]);
            }
        }
    }
}

/* Products on both sides of 2^-126, where the host must decide after rounding too. */
void test_flush_border(void **unused) {
    (void)unused;
    uint64_t state = 11;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const twin_kernels *k = twin_kernels_named(names[i]);
        if (!k) {
            printf("SKIPPED: no %s on this CPU (%u skipped)\n", names[i], ++skipped);
            continue;
        }
        unsigned kept = 0;
        for (unsigned round = 0; round < 20000; round++) {
            const twin_dims dims = {.lanes = 16, .cells = 16, .cells_pad = 16, .word = 64, .words = 16};
            uint32_t acc[16], scale[16], bias[16], expected[16], got[16];
            const twin_post post = {.bias = bias,
                                    .scale = scale,
                                    .acc_fp32 = 1,
                                    .scale_en = 1,
                                    .bias_en = (int)(round & 1),
                                    .out_type = PRESIL_DTYPE_FP32};
            for (unsigned c = 0; c < 16; c++) {
                /* (1 + x)(1 - x) * 2^-126, x = 2^-s: just below the border; or anything near it */
                unsigned s = 8 + below(&state, 8);
                acc[c] =
                    below(&state, 2) ? 0x01000000u - (1u << (24 - s)) : 0x00800000u + (next_random(&state) & 0xffffffu);
                scale[c] = below(&state, 2) ? 0x3f000000u + (1u << (23 - s))
                                            : 0x3f000000u + (next_random(&state) & 0x80ffffffu);
                bias[c] = (acc[c] ^ 0x80000000u) + below(&state, 16);
            }
            twin_kernels_generic.post_row(&dims, &post, acc, NULL, (uint8_t *)expected);
            unsigned mode = twin_float_enter(1);
            k->post_row(&dims, &post, acc, NULL, (uint8_t *)got);
            twin_float_leave(mode);
            for (unsigned c = 0; c < 16; c++) {
                kept += expected[c] == 0x00800000u;
                if (got[c] != expected[c])
                    fail_msg("%s: %08x * %08x: %08x, portable %08x", names[i], acc[c], scale[c], got[c], expected[c]);
            }
        }
        assert_true(kept > 100);
    }
}
