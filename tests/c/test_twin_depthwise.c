/* SPDX-License-Identifier: Apache-2.0 */
/* test_twin_depthwise.c - MATRIX with `depthwise`: every kernel set gives what plain loops over docs/isa.md section 4
 * do, what decode refuses, and which address beyond the scratchpad is told. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
/* cmocka needs stdarg.h, stddef.h and setjmp.h. */
#include <cmocka.h>

#include "test_twin.h"
#include "twin_internal.h"
#include "twin_lists.h"

#define ACT 40u /* word of the first activation; weights lie before */
#define ROUNDS 200

static const char *const kernel_names[] = {"generic", "avx2", "avx512"};

/* One that begins its rows. */
static presil_desc depthwise(int bf16, uint32_t nx, uint32_t ny, uint32_t kx, uint32_t ky) {
    presil_desc d = square_matrix((uint32_t)bf16, 1, 1, 1, ACT, 3, 0, 1);
    presil_matrix_depthwise_set(&d, 1);
    presil_matrix_nx_set(&d, nx);
    presil_matrix_ny_set(&d, ny);
    presil_matrix_kx_set(&d, kx);
    presil_matrix_ky_set(&d, ky);
    presil_matrix_lim_x_set(&d, 64);
    presil_matrix_lim_y_set(&d, 64);
    presil_matrix_x_stride_set(&d, 1);
    presil_matrix_y_stride_set(&d, 7); /* rows overlap, so that a window of any size is there */
    presil_matrix_wgt_x_stride_set(&d, 1);
    presil_matrix_wgt_y_stride_set(&d, kx);
    return d;
}

static double bf16_value(uint16_t code) {
    uint32_t u = (uint32_t)code << 16;
    float f;
    memcpy(&f, &u, 4);
    return (double)f;
}

/* numerics.md clause 4 in doubles, for values that are zero or far from both ends of the exponents. */
static float plain_dot(const uint16_t *a, const uint16_t *w, unsigned n, uint32_t lanes) {
    int emax = INT32_MIN;
    double sum = 0, g = fmin(11, 16 - ceil(log2(lanes / 2.0)));
    for (unsigned i = 0; i < n; i++) {
        const int e = (a[i] >> 7 & 255) + (w[i] >> 7 & 255) - 254;
        if ((a[i] & 0x7f80) && (w[i] & 0x7f80) && e > emax) emax = e;
    }
    if (emax == INT32_MIN) return 0;
    for (unsigned i = 0; i < n; i++) {
        const double p = bf16_value(a[i]) * bf16_value(w[i]); /* 2^(emax - 14) is the largest product's unit */
        const double t = floor(ldexp(fabs(p), (int)g - 1 + 14 - emax) + 0.5);
        sum += p < 0 ? -t : t;
    }
    return (float)ldexp(sum, emax - 14 - ((int)g - 1));
}

static const uint8_t *activation(const presil_desc *d, const uint8_t *spad, uint32_t word, int32_t ux, int32_t uy) {
    static uint8_t padding[TWIN_MAX_LANES];
    memset(padding, presil_matrix_dtype(d) == PRESIL_DTYPE_BF16 ? 0 : (int)presil_matrix_pad(d), sizeof padding);
    if (ux < 0 || uy < 0 || ux >= (int32_t)presil_matrix_lim_x(d) || uy >= (int32_t)presil_matrix_lim_y(d))
        return padding;
    return spad + word * (presil_matrix_act_base(d) + (uint32_t)ux * presil_matrix_x_stride(d) +
                          (uint32_t)uy * presil_matrix_y_stride(d));
}

/* Cell c of output (x, y) after the descriptor, `old` before it. */
static uint32_t plain_cell(const presil_config *c, const presil_desc *d, const uint8_t *spad, uint32_t x, uint32_t y,
                           uint32_t cell, uint32_t old) {
    uint16_t a[25], w[25];
    uint32_t n = 0, word = c->word_bytes;
    int32_t sum = 0;
    if (cell >= c->lanes / (presil_matrix_dtype(d) == PRESIL_DTYPE_BF16 ? 2 : 1))
        return presil_matrix_first(d) ? 0 : old;
    for (uint32_t ky = 0; ky < presil_matrix_ky(d); ky++)
        for (uint32_t kx = 0; kx < presil_matrix_kx(d); kx++, n++) {
            const uint8_t *act = activation(
                d, spad, word, presil_matrix_ox(d) + (int32_t)(x * presil_matrix_sx(d) + kx * presil_matrix_dx(d)),
                presil_matrix_oy(d) + (int32_t)(y * presil_matrix_sy(d) + ky * presil_matrix_dy(d)));
            const uint32_t at =
                presil_matrix_wgt_base(d) + ky * presil_matrix_wgt_y_stride(d) + kx * presil_matrix_wgt_x_stride(d);
            const uint8_t *wgt = spad + (size_t)word * at;
            sum += (int8_t)act[cell] * (int8_t)wgt[cell];
            memcpy(&a[n], act + 2 * cell % word, 2);
            memcpy(&w[n], wgt + 2 * cell % word, 2);
        }
    if (presil_matrix_dtype(d) != PRESIL_DTYPE_BF16) return (presil_matrix_first(d) ? 0 : old) + (uint32_t)sum;
    float f = 0, v = plain_dot(a, w, n, c->lanes);
    if (!presil_matrix_first(d)) memcpy(&f, &old, 4);
    f += v;
    memcpy(&old, &f, 4);
    return old;
}

/* int8, or bf16 of either sign with exponents up to 40 apart, some of them zero. */
static void fill(const presil_config *c, uint8_t *spad, int bf16, uint64_t *state) {
    for (size_t i = 0; i < 800 * (size_t)c->word_bytes; i += 2) {
        uint32_t u = next_random(state);
        if (bf16) u = below(state, 8) ? (u & 0x807fu) | (107 + below(state, below(state, 2) ? 6 : 40)) << 7 : 0;
        spad[i] = (uint8_t)u;
        spad[i + 1] = (uint8_t)(u >> 8);
    }
}

static presil_desc random_depthwise(const presil_config *c, int bf16, uint64_t *state) {
    uint32_t nx = 1 + below(state, 20), ny = 1 + below(state, c->acc_rows / nx < 6 ? c->acc_rows / nx : 6);
    presil_desc d = depthwise(bf16, nx, ny, 1 + below(state, 5), 1 + below(state, 5));
    const uint32_t dx = below(state, 3) ? 1 : 5, dy = below(state, 3) ? 1 : 2;
    presil_matrix_dx_set(&d, dx);
    presil_matrix_dy_set(&d, dy);
    presil_matrix_sx_set(&d, dx * (1 + below(state, 2)));
    presil_matrix_sy_set(&d, dy * (1 + below(state, 2)));
    presil_matrix_ox_set(&d, (int32_t)below(state, 12) - 8);
    presil_matrix_oy_set(&d, (int32_t)below(state, 6) - 4);
    presil_matrix_lim_x_set(&d, below(state, 70));
    presil_matrix_lim_y_set(&d, below(state, 30));
    presil_matrix_acc_base_set(&d, below(state, c->acc_rows - nx * ny + 1));
    presil_matrix_half_set(&d, below(state, 2));
    presil_matrix_pad_set(&d, below(state, 256));
    presil_matrix_wgt_x_stride_set(&d, below(state, 4));
    presil_matrix_wgt_y_stride_set(&d, below(state, 12));
    return d;
}

/* All accumulator rows of the descriptor's half, at the end of the scratchpad; returned as they lie there. */
static const uint8_t *rows_of(presil_twin *twin, const presil_config *c, const presil_desc *d, uint32_t pitch) {
    const uint32_t base = c->banks * c->bank_words * c->word_bytes - c->acc_rows * pitch;
    presil_desc p = plain_epilogue(c->acc_rows, 1, PRESIL_DTYPE_RAW32, base, pitch, 0, 0);
    uint8_t none = 0;
    presil_twin_memory memory = {0, 0, &none};
    presil_epilogue_half_set(&p, presil_matrix_half(d));
    assert_int_equal(presil_twin_execute(twin, &p, 1, &memory, NULL, NULL, NULL), 0);
    return presil_twin_scratchpad(twin, NULL) + base;
}

static void run_one(presil_twin *twin, const presil_desc *d) {
    uint8_t none = 0;
    presil_twin_memory memory = {0, 0, &none};
    presil_twin_error error;
    if (presil_twin_execute(twin, d, 1, &memory, NULL, NULL, &error)) fail_msg("%s", error.text);
}

/* One descriptor that begins its rows and one that adds to them, with other fields. */
static void one_round(presil_twin *twin, const presil_config *c, const char *name, uint64_t *state) {
    const int bf16 = (int)below(state, 2);
    const uint32_t pitch = (4 * c->cells + c->word_bytes - 1) / c->word_bytes * c->word_bytes;
    presil_desc d = random_depthwise(c, bf16, state), next = random_depthwise(c, bf16, state);
    const uint32_t rows = presil_matrix_nx(&d) * presil_matrix_ny(&d), base = presil_matrix_acc_base(&d);
    presil_matrix_nx_set(&next, presil_matrix_nx(&d));
    presil_matrix_ny_set(&next, presil_matrix_ny(&d));
    presil_matrix_acc_base_set(&next, base);
    presil_matrix_half_set(&next, presil_matrix_half(&d));
    presil_matrix_first_set(&next, 0);
    presil_twin_scramble(twin, next_random(state));
    fill(c, presil_twin_scratchpad(twin, NULL), bf16, state);
    size_t bytes = c->acc_rows * (size_t)pitch;
    uint8_t *before = malloc(bytes);
    memcpy(before, rows_of(twin, c, &d, pitch), bytes);
    run_one(twin, &d);
    run_one(twin, &next);
    const uint8_t *spad = presil_twin_scratchpad(twin, NULL), *after = rows_of(twin, c, &d, pitch);
    for (uint32_t r = 0; r < c->acc_rows; r++)
        for (uint32_t cell = 0; cell < c->cells; cell++) {
            const uint32_t x = (r - base) % presil_matrix_nx(&d), y = (r - base) / presil_matrix_nx(&d);
            uint32_t want, got;
            memcpy(&want, before + r * pitch + 4 * cell, 4);
            memcpy(&got, after + r * pitch + 4 * cell, 4);
            if (r >= base && r < base + rows) {
                want = plain_cell(c, &d, spad, x, y, cell, want);
                want = plain_cell(c, &next, spad, x, y, cell, want);
            }
            if (got != want)
                fail_msg("%s on %s, %s: row %u cell %u: %08x, expected %08x", name, c->name, bf16 ? "bf16" : "int8",
                         r - base, cell, got, want);
        }
    free(before);
}

void test_depthwise_is_plain_loops(void **unused) {
    (void)unused;
    for (const presil_config *c = presil_configs; c->name; c++)
        for (size_t k = 0; k < sizeof kernel_names / sizeof *kernel_names; k++) {
            presil_twin *twin = presil_twin_create(c);
            uint64_t state = 5;
            assert_non_null(twin);
            if (!presil_twin_simd(twin, kernel_names[k]))
                for (unsigned round = 0; round < ROUNDS; round++) one_round(twin, c, kernel_names[k], &state);
            presil_twin_destroy(twin);
        }
}

/* Runs a descriptor on tiny, the first accumulator's cell 0 returned, or what must be refused. */
static int status_of(const presil_desc *d, presil_twin_error *error) {
    presil_twin *twin = presil_twin_create(find_config("tiny"));
    uint8_t none = 0;
    presil_twin_memory memory = {0, 0, &none};
    presil_twin_execute(twin, d, 1, &memory, NULL, NULL, error);
    presil_twin_destroy(twin);
    return error->code;
}

void test_depthwise_fields(void **unused) {
    (void)unused;
    presil_twin_error error;
    const presil_desc sound = depthwise(0, 10, 6, 3, 3);
    assert_int_equal(status_of(&sound, &error), PRESIL_ERROR_NONE);
#define FIELDS(code, change)                                                                                           \
    do {                                                                                                               \
        presil_desc copy = sound, *d = &copy;                                                                          \
        change;                                                                                                        \
        assert_int_equal(status_of(d, &error), code);                                                                  \
    } while (0)
#define REFUSED(change) FIELDS(PRESIL_ERROR_FIELD, change)
#define ALLOWED(change) FIELDS(PRESIL_ERROR_NONE, change)
    ALLOWED((presil_matrix_kx_set(d, 5), presil_matrix_ky_set(d, 5)));
    REFUSED(presil_matrix_kx_set(d, 6));
    REFUSED(presil_matrix_ky_set(d, 6));
    REFUSED(presil_matrix_ncb_set(d, 2));
    REFUSED(presil_matrix_idx_set(d, 2));
    REFUSED(presil_matrix_idy_set(d, 2));
    REFUSED(presil_matrix_sx_set(d, 3));
    REFUSED(presil_matrix_sy_set(d, 3));
    REFUSED(presil_matrix_dx_set(d, 2));
    REFUSED(presil_matrix_dy_set(d, 0));
    ALLOWED(presil_matrix_sx_set(d, 2));
    ALLOWED(presil_matrix_sy_set(d, 2));
    ALLOWED((presil_matrix_dx_set(d, 5), presil_matrix_sx_set(d, 10)));
    ALLOWED((presil_matrix_dx_set(d, 0x8001), presil_matrix_sx_set(d, 0x8001)));
    REFUSED((presil_matrix_dx_set(d, 0x8001), presil_matrix_sx_set(d, 2))); /* twice it, in 16 bits */
    ALLOWED((presil_matrix_nx_set(d, 62), presil_matrix_ny_set(d, 1)));
    REFUSED((presil_matrix_nx_set(d, 63), presil_matrix_ny_set(d, 1)));
    ALLOWED((presil_matrix_nx_set(d, 64), presil_matrix_ny_set(d, 1), presil_matrix_kx_set(d, 1)));
    ALLOWED((presil_matrix_nx_set(d, 31), presil_matrix_ny_set(d, 1), presil_matrix_sx_set(d, 2)));
    REFUSED((presil_matrix_nx_set(d, 32), presil_matrix_ny_set(d, 1), presil_matrix_sx_set(d, 2)));
    ALLOWED((presil_matrix_nx_set(d, 1), presil_matrix_ny_set(d, 62))); /* columns are not limited */
    ALLOWED((presil_matrix_nx_set(d, 1), presil_matrix_ny_set(d, 64)));
    presil_desc plain = sound;
    presil_matrix_depthwise_set(&plain, 0);
    presil_matrix_kx_set(&plain, 6);
    presil_matrix_dy_set(&plain, 0);
    assert_int_equal(status_of(&plain, &error), PRESIL_ERROR_NONE);
#undef REFUSED
#undef ALLOWED
#undef FIELDS
}

static void outside(const presil_desc *d, uint32_t word) {
    presil_twin_error error;
    assert_int_equal(status_of(d, &error), PRESIL_ERROR_SPAD_RANGE);
    assert_int_equal(error.address, 16 * (uint64_t)word);
}

void test_depthwise_range(void **unused) {
    (void)unused;
    const uint32_t end = 4096; /* words of tiny */
    presil_twin_error error;
    presil_desc d = depthwise(0, 2, 2, 2, 3);
    presil_matrix_wgt_base_set(&d, end - 6);
    assert_int_equal(status_of(&d, &error), PRESIL_ERROR_NONE); /* a word for each position */
    presil_matrix_wgt_base_set(&d, end - 9);
    presil_matrix_wgt_x_stride_set(&d, 3);
    assert_int_equal(status_of(&d, &error), PRESIL_ERROR_NONE); /* the last is 3 + 2 · 2 from the first */
    presil_matrix_wgt_x_stride_set(&d, 1);
    presil_matrix_wgt_base_set(&d, end - 5);
    presil_matrix_act_base_set(&d, end);
    outside(&d, end);
    presil_matrix_act_base_set(&d, end + 9); /* weights come first */
    outside(&d, end);
    presil_matrix_wgt_base_set(&d, 0);
    outside(&d, end + 9);
    /* Row by row: with rows downwards the first row is the one that is outside. */
    presil_matrix_act_base_set(&d, end - 2);
    presil_matrix_y_stride_set(&d, 0x10000u - 4);
    outside(&d, end);
    presil_matrix_ox_set(&d, -1); /* one column is padding now */
    assert_int_equal(status_of(&d, &error), PRESIL_ERROR_NONE);
    /* A column that no output uses is read too. */
    presil_desc wide = depthwise(0, 2, 1, 1, 1);
    presil_matrix_sx_set(&wide, 2);
    presil_matrix_act_base_set(&wide, end - 1);
    presil_matrix_lim_x_set(&wide, 2);
    outside(&wide, end);
    presil_matrix_lim_x_set(&wide, 1);
    assert_int_equal(status_of(&wide, &error), PRESIL_ERROR_NONE);
    /* Addresses are modulo 2^16. */
    presil_matrix_lim_x_set(&wide, 3);
    presil_matrix_x_stride_set(&wide, 0xffff);
    assert_int_equal(status_of(&wide, &error), PRESIL_ERROR_NONE);
}

/* Cell 0 of one output: a[i] and w[i] are its elements at the kernel's positions; the other cells' weights are NaN. */
static void expect_cell(const uint16_t *a, const uint16_t *w, uint32_t kx, uint32_t ky, int absent, int skip_special,
                        uint32_t expected) {
    const presil_config *c = find_config("base");
    presil_twin *twin = presil_twin_create(c);
    for (size_t k = 0; k < sizeof kernel_names / sizeof *kernel_names; k++) {
        if (presil_twin_simd(twin, kernel_names[k])) continue;
        uint8_t *spad = presil_twin_scratchpad(twin, NULL);
        presil_desc d = depthwise(1, 1, 1, kx, ky);
        uint32_t result;
        presil_matrix_absent_set(&d, (uint32_t)absent);
        presil_matrix_skip_special_set(&d, (uint32_t)skip_special);
        presil_matrix_y_stride_set(&d, kx);
        memset(spad, 0x7f, 64 * (size_t)c->word_bytes);
        for (uint32_t i = 0; i < kx * ky; i++) {
            memcpy(spad + (3 + i) * c->word_bytes, &w[i], 2);
            memcpy(spad + (ACT + i) * c->word_bytes, &a[i], 2);
        }
        run_one(twin, &d);
        memcpy(&result, rows_of(twin, c, &d, 4 * c->cells), 4);
        if (result != expected) fail_msg("%s: %08x, expected %08x", kernel_names[k], result, expected);
    }
    presil_twin_destroy(twin);
}

void test_depthwise_specials(void **unused) {
    (void)unused;
    const uint16_t ones[] = {0x3f80, 0x3f80, 0x3f80, 0x3f80}, inf_one[] = {0x7f80, 0x3f80, 0, 0},
                   infs[] = {0x7f80, 0, 0, 0xff80}, nan_one[] = {0xffff, 0x3f80, 0, 0},
                   absent[] = {1, 0x3f80, 0x3f80, 0x3f80}, zero_one[] = {0, 0x3f80, 0x3f80, 0x3f80};
    expect_cell(ones, ones, 2, 2, 0, 0, 0x40800000u);
    expect_cell(inf_one, ones, 2, 2, 0, 0, 0x7f800000u);
    expect_cell(inf_one, zero_one, 2, 2, 0, 0, 0x7fc00000u);
    expect_cell(inf_one, absent, 2, 2, 0, 0, 0x7fc00000u);
    expect_cell(inf_one, absent, 2, 2, 1, 0, 0x3f800000u);
    expect_cell(inf_one, ones, 2, 2, 0, 1, 0x3f800000u);
    expect_cell(ones, inf_one, 2, 1, 0, 1, 0x3f800000u);
    expect_cell(infs, ones, 2, 2, 0, 0, 0x7fc00000u);
    expect_cell(nan_one, absent, 2, 2, 1, 0, 0x3f800000u);
    expect_cell(nan_one, ones, 1, 2, 0, 0, 0x7fc00000u);
    /* A tie of alignment at 2^-10 of the unit, as with lanes: one block of the positions. */
    const uint16_t tie[] = {0x3f80, 0xb300};
    expect_cell(tie, ones, 1, 2, 0, 0, 0x3f7fffffu);
    const uint16_t tiny[] = {0x0080}, huge[] = {0x7f7f};
    expect_cell(tiny, tiny, 1, 1, 0, 0, 0);
    expect_cell(huge, huge, 1, 1, 0, 0, 0x7f800000u);
}
