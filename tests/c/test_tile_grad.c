/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of weights through plan and twin, against plain loops: layouts, strides, padding, groups, all choices of
 * lanes; residuals, in place too; forced tilings give the same bytes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tile_fixture.h"

static const char *const configs[] = {"tiny", "odd", "base", "wide"};

typedef struct {
    uint32_t compute, in_dtype, grad_dtype, out_dtype, tiling;
    int in_layout, grad_layout, out_layout; /* out: 0 OIHW, 1 OHWI */
    bool still;                             /* the gradient is one value: strides 0 */
    int residual;                           /* 0 none, 1 another tensor, 2 the result itself */
    uint32_t residual_dtype;
    int64_t groups, n, oh, ow, c, o, k[2], stride[2], pad[2], dilation[2], spare[2];
} grad_case;

static int64_t between(fixture *f, int64_t low, int64_t high) {
    return low + fixture_random(f, (uint32_t)(high - low + 1));
}

static uint32_t any_float(fixture *f) {
    static const uint32_t list[] = {PRESIL_BF16, PRESIL_FP32, PRESIL_FP16};
    return list[between(f, 0, 2)];
}

static grad_case random_case(fixture *f) {
    grad_case c = {.compute = (uint32_t)between(f, 1, 3), .groups = 1};
    bool any = c.compute == PRESIL_COMPUTE_BF16;
    c.in_dtype = any && between(f, 0, 1) ? PRESIL_BF16 : PRESIL_FP32,
    c.grad_dtype = any && between(f, 0, 1) ? PRESIL_BF16 : PRESIL_FP32;
    if (c.compute == PRESIL_COMPUTE_FP16 && between(f, 0, 3)) c.in_dtype = c.grad_dtype = PRESIL_FP16;
    c.out_dtype = any_float(f);
    c.in_layout = (int)between(f, 0, 3), c.grad_layout = (int)between(f, 0, 3), c.out_layout = (int)between(f, 0, 1);
    c.still = between(f, 0, 5) == 0;
    c.residual = (int)between(f, 0, 2);
    c.residual_dtype = c.residual == 2 ? c.out_dtype : any_float(f);
    c.n = between(f, 0, 3) ? between(f, 1, 3) : between(f, 10, 40);
    c.oh = between(f, 1, c.n > 3 ? 3 : 12), c.ow = between(f, 1, c.n > 3 ? 3 : 40);
    c.c = between(f, 1, between(f, 0, 1) ? 5 : 70), c.o = between(f, 1, between(f, 0, 1) ? 5 : 70);
    if (between(f, 0, 3) == 0)
        c.groups = between(f, 1, 6), c.c = c.groups * between(f, 1, 6), c.o = c.groups * between(f, 1, 6);
    bool point = between(f, 0, 3) == 0;
    for (int i = 0; i < 2; i++) {
        c.k[i] = point ? 1 : between(f, 1, 4), c.stride[i] = point ? 1 : between(f, 1, 3),
        c.pad[i] = point ? 0 : between(f, 0, 3), c.dilation[i] = between(f, 1, 2);
        c.spare[i] = between(f, 0, 1); /* input positions that no output meets */
    }
    c.tiling = between(f, 0, 1) ? 0 : (uint32_t)between(f, 1, 9);
    return c;
}

static bool describe(fixture *f, const grad_case *c, presil_conv2d_weight_grad_desc *d, presil_tensor *residual) {
    int64_t size[2], out[2] = {c->oh, c->ow}, stride[4], cg = c->c / c->groups;
    f->used = 0;
    *d = (presil_conv2d_weight_grad_desc){
        .size = sizeof *d, .compute = c->compute, .label = "test", .groups = (uint32_t)c->groups, .tiling = c->tiling};
    for (int i = 0; i < 2; i++) {
        size[i] = (out[i] - 1) * c->stride[i] + (c->k[i] - 1) * c->dilation[i] + 1 - 2 * c->pad[i] +
                  (c->stride[i] > 1 ? c->spare[i] : 0);
        if (size[i] < 1) return false;
        d->stride[i] = c->stride[i], d->padding[i] = c->pad[i], d->dilation[i] = c->dilation[i];
    }
    fixture_strides(c->in_layout, size[0], size[1], c->c, stride);
    fixture_tensor(f, &d->input, c->in_dtype, 4, (const int64_t[]){c->n, size[0], size[1], c->c}, stride, true);
    fixture_strides(c->grad_layout, c->oh, c->ow, c->o, stride);
    if (c->still) memset(stride, 0, sizeof stride);
    fixture_tensor(f, &d->grad, c->grad_dtype, 4, (const int64_t[]){c->n, c->oh, c->ow, c->o}, stride, true);
    int64_t k = c->k[0] * c->k[1];
    const int64_t plain[4] = {cg * k, c->k[1], 1, k}, last[4] = {cg * k, c->k[1] * cg, cg, 1};
    fixture_tensor(f, &d->out, c->out_dtype, 4, (const int64_t[]){c->o, c->k[0], c->k[1], cg},
                   c->out_layout ? last : plain, true);
    if (c->residual == 0) return true;
    *residual = d->out;
    if (c->residual == 1)
        fixture_tensor(f, residual, c->residual_dtype, 4, d->out.shape, c->out_layout ? plain : last, true);
    d->residual = residual;
    return true;
}

/* What the residual holds, in order of out's elements; zeros without one. The launch may write over it. */
static float *before(fixture *f, const grad_case *c, const presil_conv2d_weight_grad_desc *d) {
    int64_t cg = c->c / c->groups, n = c->o * cg * c->k[0] * c->k[1];
    float *values = calloc((size_t)n, sizeof *values);
    for (int64_t i = 0; d->residual && i < n; i++) {
        values[i] = (float)fixture_get(fixture_element(f, d->residual, i / cg / c->k[1] / c->k[0],
                                                       i / cg / c->k[1] % c->k[0], i / cg % c->k[1], i % cg),
                                       d->residual->dtype);
    }
    return values;
}

static int64_t run_case(fixture *f, const grad_case *c, uint8_t *copy) {
    presil_conv2d_weight_grad_desc d;
    presil_error_buffer e = {f->text, sizeof f->text};
    presil_plan *plan;
    int64_t cg = c->c / c->groups, og = c->o / c->groups, checked = 0;
    presil_tensor residual;
    if (!describe(f, c, &d, &residual)) return 0;
    float *added = before(f, c, &d);
    if (chip_plan_weight_grad(f->chip, &d, &plan, &e) != PRESIL_OK || !fixture_run(f, plan)) return free(added), -1;
    for (int64_t i = 0; i < c->o * cg * c->k[0] * c->k[1]; i++) {
        int64_t ch = i % cg, kx = i / cg % c->k[1], ky = i / cg / c->k[1] % c->k[0], o = i / cg / c->k[1] / c->k[0];
        double sum = added[i], magnitude = fabs(sum);
        for (int64_t j = 0; j < c->n * c->oh * c->ow; j++) {
            int64_t x = j % c->ow, y = j / c->ow % c->oh, n = j / c->ow / c->oh;
            int64_t ux = x * c->stride[1] + kx * c->dilation[1] - c->pad[1],
                    uy = y * c->stride[0] + ky * c->dilation[0] - c->pad[0];
            if (ux < 0 || uy < 0 || ux >= d.input.shape[2] || uy >= d.input.shape[1]) continue;
            double p = fixture_seen(fixture_element(f, &d.grad, n, y, x, o), c->grad_dtype, c->compute) *
                       fixture_seen(fixture_element(f, &d.input, n, uy, ux, o / og * cg + ch), c->in_dtype, c->compute);
            sum += p;
            magnitude += fabs(p);
        }
        /* fp16 as compute with random fp32 operands drops their third term: 2^-17 of each product. */
        double got = fixture_get(fixture_element(f, &d.out, o, ky, kx, ch), c->out_dtype),
               tolerance = magnitude * (c->compute == PRESIL_COMPUTE_FP16 && c->in_dtype == PRESIL_FP32 ? 2e-5 : 2e-6);
        tolerance += (c->out_dtype == PRESIL_BF16   ? 0.0042
                      : c->out_dtype == PRESIL_FP16 ? 0x1.01p-11
                                                    : 1e-6) *
                     (fabs(sum) + 1e-3);
        if (!(fabs(got - sum) <= tolerance)) {
            (void)snprintf(f->text, sizeof f->text, "gradient [%lld, %lld, %lld, %lld] is %.9g, expected %.9g",
                           (long long)o, (long long)ky, (long long)kx, (long long)ch, got, sum);
            return free(added), -1;
        }
        checked++;
    }
    free(added);
    if (copy) memcpy(copy, fixture_host(f, d.out.data.value), (size_t)checked * chip_element_bytes(c->out_dtype));
    return checked;
}

static void random_gradients(void **state) {
    (void)state;
    int64_t elements = 0;
    const uint32_t every = fixture_every();
    for (uint32_t seed = 0; seed < 400; seed += every) {
        fixture f;
        fixture_open(&f, configs[seed % 4], seed);
        grad_case c = random_case(&f);
        int64_t n = run_case(&f, &c, NULL);
        if (n < 0) print_error("seed %u: %s\n", seed, f.text);
        assert_true(n >= 0);
        elements += n;
        fixture_close(&f);
    }
    assert_true(elements > 100000 / every);
}

static void forced_tilings_give_the_same_bytes(void **state) {
    (void)state;
    uint8_t *want = malloc(FIXTURE_BYTES / 4), *got = malloc(FIXTURE_BYTES / 4);
    uint32_t compared = 0;
    for (uint32_t seed = 0; seed < 20; seed++) {
        for (uint32_t tiling = 0; tiling < 5; tiling++) {
            fixture f;
            fixture_open(&f, configs[seed % 4], seed + 500);
            grad_case c = random_case(&f);
            c.tiling = tiling;
            int64_t n = run_case(&f, &c, tiling ? got : want);
            if (n < 0) print_error("seed %u tiling %u: %s\n", seed, tiling, f.text);
            assert_true(n >= 0);
            if (tiling && n) assert_memory_equal(want, got, (size_t)n * chip_element_bytes(c.out_dtype)), compared++;
            fixture_close(&f);
        }
    }
    assert_true(compared >= 60);
    free(want);
    free(got);
}

static void refusals(void **state) {
    (void)state;
    fixture f;
    fixture_open(&f, "base", 1);
    grad_case c = {.compute = PRESIL_COMPUTE_FP32,
                   .in_dtype = PRESIL_FP32,
                   .grad_dtype = PRESIL_FP32,
                   .out_dtype = PRESIL_FP32,
                   .groups = 1,
                   .n = 1,
                   .oh = 4,
                   .ow = 4,
                   .c = 2,
                   .o = 3,
                   .k = {3, 3},
                   .stride = {1, 1},
                   .dilation = {1, 1}};
    presil_conv2d_weight_grad_desc d;
    presil_error_buffer e = {f.text, sizeof f.text};
    presil_plan *plan;
    presil_tensor residual;
    assert_true(describe(&f, &c, &d, &residual));
    d.groups = 2;
    assert_int_equal(chip_plan_weight_grad(f.chip, &d, &plan, &e), PRESIL_EINVAL);
    assert_non_null(strstr(f.text, "don't fit together"));
    d.groups = 1, d.compute = PRESIL_COMPUTE_INT8;
    assert_int_equal(chip_plan_weight_grad(f.chip, &d, &plan, &e), PRESIL_EINVAL);
    d.compute = PRESIL_COMPUTE_FP32, d.out.stride[1] = 100;
    assert_int_equal(chip_plan_weight_grad(f.chip, &d, &plan, &e), PRESIL_EUNSUPPORTED);
    d.out.stride[1] = 3, residual = d.out, d.residual = &residual;
    residual.stride[1] = 100;
    assert_int_equal(chip_plan_weight_grad(f.chip, &d, &plan, &e), PRESIL_EUNSUPPORTED);
    residual.stride[1] = 3, residual.shape[0] = 2;
    assert_int_equal(chip_plan_weight_grad(f.chip, &d, &plan, &e), PRESIL_EINVAL);
    assert_non_null(strstr(f.text, "residual's shape"));
    residual.shape[0] = 3, residual.dtype = PRESIL_INT8;
    assert_int_equal(chip_plan_weight_grad(f.chip, &d, &plan, &e), PRESIL_EINVAL);
    fixture_close(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_gradients),
                                       cmocka_unit_test(forced_tilings_give_the_same_bytes),
                                       cmocka_unit_test(refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
