/* SPDX-License-Identifier: Apache-2.0 */
#include "tile_fixture.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One memory for all fixtures, one after the other: only what was used is made garbage again. */
static uint8_t *shared;
static uint64_t dirty;

void fixture_open(fixture *f, const char *config, uint32_t seed) {
    memset(f, 0, sizeof *f);
    presil_error_buffer e = {f->text, sizeof f->text};
    if (presil_chip_entry()->create(config, &f->chip, &e)) abort();
    if (!shared) {
        shared = malloc(FIXTURE_BYTES);
        if (!shared) abort();
        memset(shared, 0xa5, FIXTURE_BYTES);
    }
    f->memory = shared;
    f->seed = seed * 2654435761u + 12345u;
    memset(shared, 0xa5, dirty);
    dirty = 0;
}

void fixture_close(fixture *f) {
    presil_chip_entry()->destroy(f->chip);
    f->memory = NULL;
}

uint32_t fixture_every(void) {
    const char *text = getenv("PRESIL_TILE_EVERY");
    const unsigned long every = text ? strtoul(text, NULL, 10) : 1;
    if (every < 1 || every > 20) abort(); /* there would be too few */
    return (uint32_t)every;
}

uint32_t fixture_random(fixture *f, uint32_t below) {
    f->seed = f->seed * 1664525u + 1013904223u;
    uint32_t x = f->seed ^ f->seed >> 15;
    x *= 0x2c1b3c6du;
    x ^= x >> 12;
    return below ? x % below : x;
}

uint64_t fixture_alloc(fixture *f, uint64_t bytes) {
    uint64_t at = FIXTURE_BASE + f->used + 64;
    at = (at + 63) & ~(uint64_t)63;
    f->used = at - FIXTURE_BASE + bytes;
    if (f->used > FIXTURE_BYTES) {
        (void)fprintf(stderr, "fixture memory is full\n");
        abort();
    }
    if (f->used > dirty) dirty = f->used;
    return at;
}

void *fixture_host(fixture *f, uint64_t address) { return f->memory + (address - FIXTURE_BASE); }

static float as_float(uint32_t u) {
    float v;
    memcpy(&v, &u, 4);
    return v;
}

static double of_fp16(uint16_t h) {
    const int exponent = h >> 10 & 31, fraction = h & 1023;
    const double magnitude = exponent == 31 ? fraction ? NAN : INFINITY
                             : exponent     ? ldexp(1024 + fraction, exponent - 25)
                                            : ldexp(fraction, -24);
    return h & 0x8000 ? -magnitude : magnitude;
}

/* Below 2; of eight one is small, or subnormal. */
static uint16_t random_fp16(fixture *f) {
    const uint32_t u = fixture_random(f, 0), exponent = u >> 28 & 7 ? 8 + (u >> 16) % 8 : (u >> 16) % 8;
    return (uint16_t)((u & 0x83ff) | exponent << 10);
}

double fixture_get(const void *at, uint32_t dtype) {
    uint16_t h;
    int32_t i;
    float v;
    switch (dtype) {
    case PRESIL_INT8: return *(const int8_t *)at;
    case PRESIL_BF16: memcpy(&h, at, 2); return (double)as_float((uint32_t)h << 16);
    case PRESIL_FP16: memcpy(&h, at, 2); return of_fp16(h);
    case PRESIL_FP32: memcpy(&v, at, 4); return (double)v;
    default: memcpy(&i, at, 4); return i;
    }
}

void fixture_fill(fixture *f, uint64_t address, uint64_t elements, uint32_t dtype) {
    uint8_t *p = fixture_host(f, address);
    for (uint64_t i = 0; dtype == PRESIL_FP16 && i < elements; i++) memcpy(p + 2 * i, &(uint16_t){random_fp16(f)}, 2);
    for (uint64_t i = 0; dtype != PRESIL_FP16 && i < elements; i++) {
        float v = ((float)fixture_random(f, 65536) - 32768.0f) / 16384.0f;
        uint32_t u;
        memcpy(&u, &v, 4);
        uint16_t h = (uint16_t)(u >> 16);
        int8_t b = (int8_t)(fixture_random(f, 256) - 128);
        if (dtype == PRESIL_INT8)
            p[i] = (uint8_t)b;
        else if (dtype == PRESIL_BF16)
            memcpy(p + 2 * i, &h, 2);
        else
            memcpy(p + 4 * i, &v, 4);
    }
}

static bool same_ranges(const presil_byte_range *a, uint32_t a_count, const presil_byte_range *b, uint32_t b_count) {
    return a_count == b_count && (!a_count || !memcmp(a, b, a_count * sizeof *a));
}

const char *fixture_difference(const presil_plan *a, const presil_plan *b) {
    if (a->count != b->count || a->segments != b->segments || a->signature != b->signature)
        return "lengths, or signature";
    presil_desc *lists = malloc((2 * a->count + 1) * sizeof *lists);
    chip_commands_at(a, 0, a->count, lists);
    chip_commands_at(b, 0, b->count, lists + a->count);
    const bool same = !memcmp(lists, lists + a->count, a->count * sizeof *lists);
    free(lists);
    if (!same) return "commands";
    if (!same_ranges(a->reads, a->read_count, b->reads, b->read_count)) return "reads";
    if (!same_ranges(a->writes, a->write_count, b->writes, b->write_count)) return "writes";
    if (a->box_count != b->box_count || a->part_count != b->part_count || a->out.base != b->out.base) return "outputs";
    for (uint32_t i = 0; i < a->part_count; i++) {
        if (a->parts[i].out.base != b->parts[i].out.base) return "outputs of operators";
    }
    return NULL;
}

/* A move for each of a plan's ranges, to pages of its own. Returns how many. */
static uint32_t moves_away(const presil_plan *plan, presil_move *there, presil_move *back, uint32_t most) {
    presil_byte_range list[32];
    uint32_t count = 0;
    for (uint32_t i = 0; i < plan->read_count && count < 32; i++) list[count++] = plan->reads[i];
    for (uint32_t i = 0; i < plan->write_count && count < 32; i++) list[count++] = plan->writes[i];
    for (uint32_t i = 0; i < plan->box_count && count < 32; i++) {
        const presil_box *b = &plan->boxes[i];
        list[count] = (presil_byte_range){b->base, b->bytes};
        for (uint32_t k = 0; k < b->dims; k++) list[count].bytes += (b->count[k] - 1) * b->stride[k];
        count++;
    }
    count = (uint32_t)presil_merge_ranges(list, count);
    if (count > most) return 0;
    for (uint32_t i = 0; i < count; i++) {
        const presil_daddr to = {list[i].base.value + ((1ull << 33) - (uint64_t)(i * i + 1) * (1 << 28))};
        there[i] = (presil_move){list[i].base, to, list[i].bytes};
        back[count - 1 - i] = (presil_move){to, list[i].base, list[i].bytes}; /* sorted too */
    }
    return count;
}

/* Elsewhere a plan is as right as here, and other; back again it is what it was. */
static bool goes_there_and_back(fixture *f, const presil_plan *plan) {
    presil_error_buffer e = {f->text, sizeof f->text};
    presil_move to[32], from[32];
    const uint32_t count = moves_away(plan, to, from, 32);
    presil_plan *there = NULL, *back = NULL;
    if (!count) return true;
    bool ok = chip_moved(f->chip, plan, to, count, &there, &e) == PRESIL_OK &&
              chip_moved(f->chip, there, from, count, &back, &e) == PRESIL_OK;
    if (ok) {
        there->signature++; /* else it is known to be proved */
        ok = chip_prove(there, f->text, sizeof f->text) == 0;
    }
    const char *differs = ok ? fixture_difference(plan, back) : NULL;
    for (uint32_t i = 0; i < plan->read_count && ok && !differs; i++) {
        if (there->reads[i].base.value == plan->reads[i].base.value) differs = "what should have moved";
    }
    if (differs) (void)snprintf(f->text, sizeof f->text, "moved there and back, the plan has other %s", differs);
    if (there) chip_plan_free(there);
    if (back) chip_plan_free(back);
    return ok && !differs;
}

bool fixture_run(fixture *f, presil_plan *plan) {
    enum { MOVED = 8 }; /* one of so many is moved */
    static uint32_t runs;
    presil_error_buffer e = {f->text, sizeof f->text};
    bool ok = chip_prove(plan, f->text, sizeof f->text) == 0;
    if (ok && runs++ % MOVED == 0) ok = goes_there_and_back(f, plan);
    presil_executor_memory m = {
        .size = sizeof m, .base = {FIXTURE_BASE}, .bytes = FIXTURE_BYTES, .host = f->memory, .threads = 1};
    if (ok) ok = presil_chip_entry()->execute(f->chip, plan, &m, &e) == PRESIL_OK;
    presil_chip_entry()->plan_free(plan);
    return ok;
}

/* What the epilogue makes of an exact sum, in double. */
typedef struct {
    double bias, scale, res;
    const presil_epilogue *e;
    uint32_t out_dtype;
    bool has_scale, res_int8;
} finish;

static double finished(double v, const finish *k) {
    v += k->bias;
    if (k->out_dtype == PRESIL_INT32) return v;
    if (k->has_scale) v *= k->scale;
    v += k->res_int8 ? (k->res - k->e->residual_zero_point) * (double)k->e->residual_scale : k->res;
    if (k->e->clamp)
        v = v<(double)k->e->clamp_lo ? (double)k->e->clamp_lo : v>(double) k->e->clamp_hi ? (double)k->e->clamp_hi : v;
    return v;
}

/* Error allowed against exact arithmetic: the format of the result, the products' terms, fp32 sums. magnitude: sum of
 * |products|. */
static bool close_to(double got, double want, double magnitude, uint32_t compute, const finish *k) {
    if (k->out_dtype == PRESIL_INT8) {
        double q = nearbyint(want) + k->e->out_zero_point;
        q = q < k->e->int_lo ? k->e->int_lo : q > k->e->int_hi ? k->e->int_hi : q;
        return fabs(got - q) <= (fabs(want - floor(want) - 0.5) < 1e-3 ? 1 : 0);
    }
    double scale = k->has_scale ? fabs(k->scale) : 1, tolerance = magnitude * scale *
                                                                  (compute == PRESIL_COMPUTE_INT8   ? 1e-7
                                                                   : compute == PRESIL_COMPUTE_FP32 ? 2e-6
                                                                                                    : 1e-6);
    if (k->out_dtype == PRESIL_FP16) return fabs(got - want) <= tolerance + fabs(want) * 0x1.01p-11 + 1e-6;
    tolerance += (fabs(want) + 1) * (k->out_dtype == PRESIL_BF16                                      ? 0.0042
                                     : compute == PRESIL_COMPUTE_INT8 && k->out_dtype == PRESIL_INT32 ? 0
                                                                                                      : 1e-6);
    return fabs(got - want) <= tolerance;
}

/* bf16 value of an element as the chip sees it with compute BF16. */
double fixture_seen(const void *at, uint32_t dtype, uint32_t compute) {
    if (dtype == PRESIL_FP32 && compute == PRESIL_COMPUTE_BF16) {
        uint32_t x;
        uint16_t t[CHIP_TERMS];
        memcpy(&x, at, 4);
        chip_split_fp32(x, t);
        return (double)as_float((uint32_t)t[0] << 16);
    }
    return fixture_get(at, dtype);
}

void fixture_tensor(fixture *f, presil_tensor *t, uint32_t dtype, uint32_t ndim, const int64_t *shape,
                    const int64_t *stride, bool fill) {
    int64_t span = 1;
    *t = (presil_tensor){.dtype = dtype, .ndim = ndim};
    for (uint32_t i = 0; i < ndim; i++) {
        t->shape[i] = shape[i];
        t->stride[i] = stride[i];
        span += (shape[i] > 0 ? shape[i] - 1 : 0) * stride[i];
    }
    t->data.value = fixture_alloc(f, (uint64_t)span * chip_element_bytes(dtype));
    if (fill) fixture_fill(f, t->data.value, (uint64_t)span, dtype);
}

const uint8_t *fixture_element(fixture *f, const presil_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d) {
    int64_t at = a * t->stride[0] + b * t->stride[1] + c * t->stride[2] + d * t->stride[3];
    return (const uint8_t *)fixture_host(f, t->data.value) + at * chip_element_bytes(t->dtype);
}

void fixture_strides(int layout, int64_t h, int64_t w, int64_t c, int64_t stride[4]) {
    int64_t pixel = layout == 1 ? c + 3 : c;
    stride[3] = 1, stride[2] = pixel, stride[1] = pixel * w + (layout == 1 ? 5 : 0),
    stride[0] = stride[1] * h + (layout == 1 ? 7 : 0);
    if (layout == 2) stride[2] = 1, stride[1] = w, stride[3] = w * h, stride[0] = w * h * c;
    if (layout == 3) stride[1] = 2, stride[2] = 2 * h + 1, stride[3] = stride[2] * w, stride[0] = stride[3] * c;
}

typedef struct {
    presil_weights_desc desc;
    uint8_t *weight;
    float bias[1024], scale[1024];
    int32_t ibias[1024];
} weights;

static void make_weights(fixture *f, const conv_case *c, weights *w) {
    int64_t count = c->o * (c->c / c->groups) * c->k[0] * c->k[1];
    uint64_t at = f->used;
    uint64_t a = fixture_alloc(f, (uint64_t)count * chip_element_bytes(c->weight_dtype));
    fixture_fill(f, a, (uint64_t)count, c->weight_dtype);
    w->weight = malloc((size_t)count * chip_element_bytes(c->weight_dtype) + 1);
    memcpy(w->weight, fixture_host(f, a), (size_t)count * chip_element_bytes(c->weight_dtype));
    f->used = at;
    for (int i = 0; i < 1024; i++) {
        w->bias[i] = (float)fixture_random(f, 2000) / 500.0f - 2.0f;
        w->ibias[i] = (int32_t)fixture_random(f, 20000) - 10000;
        w->scale[i] = (float)(fixture_random(f, 1000) + 1) * (c->compute == PRESIL_COMPUTE_INT8 ? 4e-6f : 0.002f);
    }
    w->desc = (presil_weights_desc){
        .size = sizeof w->desc,
        .compute = c->compute,
        .weight = w->weight,
        .weight_dtype = c->weight_dtype,
        .groups = c->groups,
        .shape = {c->o, c->c / c->groups, c->k[0], c->k[1]},
        .stride = {c->c / c->groups * c->k[0] * c->k[1], c->k[0] * c->k[1], c->k[1], 1},
        .bias = c->bias ? c->compute == PRESIL_COMPUTE_INT8 ? (const void *)w->ibias : (const void *)w->bias : NULL,
        .scale = c->scale ? w->scale : NULL,
        .dilation = {c->dilation[0], c->dilation[1]},
        .input_dilation = {c->input_dilation[0], c->input_dilation[1]}};
}

static int64_t compare_conv(fixture *f, const conv_case *c, const presil_conv2d_desc *d, const weights *w,
                            const presil_tensor *res) {
    int64_t checked = 0, cg = c->c / c->groups, og = c->o / c->groups;
    for (int64_t i = 0; i < d->output.shape[0] * d->output.shape[1] * d->output.shape[2] * c->o; i++) {
        int64_t o = i % c->o, x = i / c->o % d->output.shape[2], y = i / c->o / d->output.shape[2] % d->output.shape[1],
                n = i / c->o / d->output.shape[2] / d->output.shape[1];
        double sum = 0, magnitude = 0;
        for (int64_t ky = 0; ky < c->k[0]; ky++) {
            for (int64_t kx = 0; kx < c->k[1]; kx++) {
                int64_t uy = y * c->stride[0] - c->pad[0] + ky * c->dilation[0],
                        ux = x * c->stride[1] - c->pad[1] + kx * c->dilation[1];
                bool in = uy >= 0 && ux >= 0 && uy % c->input_dilation[0] == 0 && ux % c->input_dilation[1] == 0 &&
                          uy / c->input_dilation[0] < c->h && ux / c->input_dilation[1] < c->w;
                for (int64_t ch = 0; ch < cg; ch++) {
                    double a = in ? fixture_seen(fixture_element(f, &d->input, n, uy / c->input_dilation[0],
                                                                 ux / c->input_dilation[1], o / og * cg + ch),
                                                 c->in_dtype, c->compute)
                                  : (double)(int8_t)d->pad_value;
                    double b = fixture_seen(w->weight + ((o * cg + ch) * c->k[0] * c->k[1] + ky * c->k[1] + kx) *
                                                            chip_element_bytes(c->weight_dtype),
                                            c->weight_dtype, c->compute);
                    sum += a * b;
                    magnitude += fabs(a * b);
                }
            }
        }
        finish k = {c->bias ? c->compute == PRESIL_COMPUTE_INT8 ? w->ibias[o] : (double)w->bias[o] : 0,
                    (double)w->scale[o],
                    res ? fixture_get(fixture_element(f, res, n, y, x, o), c->res_dtype) : 0,
                    &d->epilogue,
                    c->out_dtype,
                    c->scale,
                    res && c->res_dtype == PRESIL_INT8};
        double got = fixture_get(fixture_element(f, &d->output, n, y, x, o), c->out_dtype), want = finished(sum, &k);
        if (!close_to(got, want, magnitude, c->compute, &k)) {
            (void)snprintf(f->text, sizeof f->text, "output [%lld, %lld, %lld, %lld] is %.9g, expected %.9g",
                           (long long)n, (long long)y, (long long)x, (long long)o, got, want);
            return -1;
        }
        checked++;
    }
    return checked;
}

/* The weights in device memory, laid out as c->view says. */
static void view_kernel(fixture *f, const conv_case *c, const weights *w, presil_tensor *t) {
    int64_t cg = c->c / c->groups, kh = c->k[0], kw = c->k[1], e = chip_element_bytes(c->weight_dtype);
    const int64_t shape[4] = {c->o, kh, kw, cg};
    const int64_t strides[4][4] = {{cg * kh * kw, kw, 1, kh * kw},
                                   {kh * kw * cg, kw * cg, cg, 1},
                                   {kh * kw, kw, 1, c->o * kh * kw},
                                   {cg * kh * kw * 6, kw * 3, 2, kh * kw * 4}};
    fixture_tensor(f, t, c->weight_dtype, 4, shape, strides[c->view - 1], true);
    if (c->view == 3) {
        t->data.value += (uint64_t)((kh * kw - 1) * e);
        t->stride[1] = -kw, t->stride[2] = -1;
    }
    for (int64_t i = 0; i < c->o * cg * kh * kw; i++) {
        int64_t x = i % kw, y = i / kw % kh, ch = i / kw / kh % cg, o = i / kw / kh / cg;
        int64_t at = (int64_t)(t->data.value - FIXTURE_BASE) +
                     (o * t->stride[0] + y * t->stride[1] + x * t->stride[2] + ch * t->stride[3]) * e;
        memcpy(f->memory + at, w->weight + i * e, (size_t)e);
    }
}

int64_t fixture_conv(fixture *f, const conv_case *c, uint8_t *out_copy) {
    presil_error_buffer e = {f->text, sizeof f->text};
    const presil_chip_ops *ops = presil_chip_entry();
    f->used = 0;
    presil_conv2d_desc d = {.size = sizeof d,
                            .pad_value = c->compute == PRESIL_COMPUTE_INT8 ? 0xfbu : 0,
                            .label = "test",
                            .tiling = c->tiling};
    int64_t out[2], stride[4];
    for (int i = 0; i < 2; i++) {
        int64_t size = ((i ? c->w : c->h) - 1) * c->input_dilation[i] + 1;
        out[i] = (size + 2 * c->pad[i] - (c->k[i] - 1) * c->dilation[i] - 1) / c->stride[i] + 1;
        d.stride[i] = c->stride[i], d.padding[i] = c->pad[i], d.dilation[i] = c->dilation[i],
        d.input_dilation[i] = c->input_dilation[i];
    }
    if (out[0] < 1 || out[1] < 1) return 0;
    weights *w = malloc(sizeof *w);
    make_weights(f, c, w);
    fixture_strides(c->layout, c->h, c->w, c->c, stride);
    fixture_tensor(f, &d.input, c->in_dtype, 4, (const int64_t[]){c->n, c->h, c->w, c->c}, stride, true);
    fixture_strides(c->out_layout, out[0], out[1], c->o, stride);
    fixture_tensor(f, &d.output, c->out_dtype, 4, (const int64_t[]){c->n, out[0], out[1], c->o}, stride, true);
    presil_tensor res;
    if (c->residual) {
        fixture_strides(c->layout == 1 ? 1 : 0, out[0], out[1], c->o, stride);
        fixture_tensor(f, &res, c->res_dtype, 4, (const int64_t[]){c->n, out[0], out[1], c->o}, stride, true);
        d.epilogue.residual = &res;
        d.epilogue.residual_scale = 0.37f;
        d.epilogue.residual_zero_point = 5;
    }
    if (c->clamp && c->out_dtype != PRESIL_INT8)
        d.epilogue.clamp = 1, d.epilogue.clamp_lo = 0, d.epilogue.clamp_hi = INFINITY;
    d.epilogue.out_zero_point = 3, d.epilogue.int_lo = c->clamp ? 3 : -128, d.epilogue.int_hi = 127;
    presil_layout *layout;
    presil_plan *plan;
    uint64_t bytes;
    int64_t result = -1;
    if (c->view) {
        view_kernel(f, c, w, &d.kernel);
        d.compute = c->compute, d.groups = c->groups;
        if (chip_plan_conv2d(f->chip, &d, NULL, (presil_daddr){0}, &plan, &e) == PRESIL_OK && fixture_run(f, plan))
            result = compare_conv(f, c, &d, w, c->residual ? &res : NULL);
    } else if (ops->layout(f->chip, &w->desc, &layout, &bytes, &e) == PRESIL_OK) {
        uint64_t packed = fixture_alloc(f, bytes);
        if (ops->pack(f->chip, layout, &w->desc, fixture_host(f, packed), &e) == PRESIL_OK &&
            chip_plan_conv2d(f->chip, &d, layout, (presil_daddr){packed}, &plan, &e) == PRESIL_OK &&
            fixture_run(f, plan)) {
            result = compare_conv(f, c, &d, w, c->residual ? &res : NULL);
            if (out_copy)
                memcpy(out_copy, fixture_host(f, d.output.data.value),
                       (size_t)(c->n * d.output.stride[0]) * chip_element_bytes(c->out_dtype));
        }
        ops->layout_free(layout);
    }
    free(w->weight);
    free(w);
    return result;
}

int64_t fixture_matmul(fixture *f, const matmul_case *c, uint8_t *out_copy) {
    presil_error_buffer e = {f->text, sizeof f->text};
    f->used = 0;
    presil_matmul_desc d = {.size = sizeof d, .compute = c->compute, .label = "test", .tiling = c->tiling};
    int64_t m = c->m, n = c->n, k = c->k;
    int64_t apart = c->loose ? 2 : 1;
    fixture_tensor(f, &d.a, c->a_dtype, 3, (const int64_t[]){c->batch, m, k},
                   (const int64_t[]){apart * m * k, apart * (c->transpose_a ? 1 : k), apart * (c->transpose_a ? m : 1)},
                   true);
    fixture_tensor(f, &d.b, c->b_dtype, 3, (const int64_t[]){c->batch, k, n},
                   (const int64_t[]){c->share_b ? 0 : apart * k * n, apart * (c->transpose_b ? 1 : n),
                                     apart * (c->transpose_b ? k : 1)},
                   true);
    fixture_tensor(f, &d.out, c->out_dtype, 3, (const int64_t[]){c->batch, m, n},
                   (const int64_t[]){m * n, c->transpose_out ? 1 : n, c->transpose_out ? m : 1}, true);
    presil_tensor res;
    uint32_t res_dtype = c->out_dtype == PRESIL_INT8 || c->out_dtype == PRESIL_FP16 ? c->out_dtype : PRESIL_FP32;
    if (c->residual) {
        fixture_tensor(f, &res, res_dtype, 3, (const int64_t[]){c->batch, m, n},
                       c->broadcast_residual
                           ? (const int64_t[]){0, 0, 1}
                           : (const int64_t[]){m * n, c->transpose_out ? 1 : n, c->transpose_out ? m : 1},
                       true);
        d.epilogue.residual = &res;
        d.epilogue.residual_scale = 0.5f;
    }
    d.epilogue.int_lo = -128, d.epilogue.int_hi = 127;
    presil_plan *plan;
    if (chip_plan_matmul(f->chip, &d, &plan, &e) != PRESIL_OK || !fixture_run(f, plan)) return -1;
    int64_t checked = 0;
    for (int64_t i = 0; i < c->batch * m * n; i++) {
        int64_t x = i % n, y = i / n % m, b = i / n / m;
        double sum = 0, magnitude = 0;
        for (int64_t j = 0; j < k; j++) {
            double p = fixture_seen(fixture_element(f, &d.a, b, y, j, 0), c->a_dtype, c->compute) *
                       fixture_seen(fixture_element(f, &d.b, b, j, x, 0), c->b_dtype, c->compute);
            sum += p;
            magnitude += fabs(p);
        }
        finish end = {0,
                      1,
                      c->residual ? fixture_get(fixture_element(f, &res, b, y, x, 0), res_dtype) : 0,
                      &d.epilogue,
                      c->out_dtype,
                      false,
                      c->residual && res_dtype == PRESIL_INT8};
        double got = fixture_get(fixture_element(f, &d.out, b, y, x, 0), c->out_dtype), want = finished(sum, &end);
        if (!close_to(got, want, magnitude, c->compute, &end)) {
            (void)snprintf(f->text, sizeof f->text, "out [%lld, %lld, %lld] is %.9g, expected %.9g", (long long)b,
                           (long long)y, (long long)x, got, want);
            return -1;
        }
        checked++;
    }
    if (out_copy)
        memcpy(out_copy, fixture_host(f, d.out.data.value),
               (size_t)(c->batch * m * n) * chip_element_bytes(c->out_dtype));
    return checked;
}
