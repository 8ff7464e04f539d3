/* SPDX-License-Identifier: Apache-2.0 */
/* Results as bytes, and whether the bytes that somebody else computed are the same, or as near as they have to be. */
#include "job.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int64_t place_of(const presil_operand *t, int64_t number) {
    int64_t at[PRESIL_OP_DIMS], place = 0;
    coordinate_of(t->shape, t->ndim, number, at);
    for (uint32_t i = 0; i < t->ndim; i++) place += at[i] * t->stride[i];
    return place;
}

static uint64_t cut(uint64_t bits, uint32_t dtype) {
    const int width = dtype_bits(dtype);
    return width < 64 ? bits & ((1ull << width) - 1) : bits;
}

static int64_t exact_integer(const presil_reference *r, int64_t number) {
    if (!r->quantizes) return integer_of(cut((uint64_t)r->integers[number], r->output.dtype), r->output.dtype);
    const presil_step *q = &r->quantize;
    const int64_t value = r->integers[number] + q->zero_point;
    return value < q->int_low ? q->int_low : value > q->int_high ? q->int_high : value;
}

static uint64_t bits_of(const presil_reference *r, int64_t number) {
    const uint32_t dtype = r->output.dtype;
    if (!dtype_is_integer(dtype))
        return bits_of_float(r->integers ? (double)r->integers[number] : r->reals[number], dtype);
    return cut((uint64_t)(r->integers ? exact_integer(r, number) : quantized(r, r->reals[number])), dtype);
}

void presil_reference_store(const presil_reference *r, void *to) {
    for (int64_t i = 0; i < r->count; i++) store_bits(to, place_of(&r->output, i), r->output.dtype, bits_of(r, i));
}

/* ---- comparing */
typedef struct {
    const presil_reference *r;
    double tolerance, most; /* the largest magnitude of a finite result */
} measure;

static double value_of(const presil_reference *r, int64_t number) {
    return r->integers ? (double)r->integers[number] : r->reals[number];
}

/* How far off a result may be, before it is rounded to its dtype. */
static double allowed(const measure *m, int64_t number) {
    const presil_reference *r = m->r;
    const bool exact = r->from_integers && dtype_is_integer(r->output.dtype);
    const double slack = r->slack ? r->slack[number] : 0;
    return m->tolerance < 0 || exact ? slack : m->tolerance * m->most;
}

static bool integer_is_right(const measure *m, int64_t number, int64_t found) {
    const presil_reference *r = m->r;
    if (r->integers) return found == exact_integer(r, number);
    const double value = r->reals[number], off = allowed(m, number);
    return found >= quantized(r, value - off) && found <= quantized(r, value + off);
}

static bool float_is_right(const measure *m, int64_t number, uint64_t bits) {
    const uint32_t dtype = m->r->output.dtype;
    const double value = value_of(m->r, number), found = float_of(bits, dtype), off = allowed(m, number);
    const double rounded = float_of(bits_of_float(value, dtype), dtype), smallest = dtype_smallest(dtype);
    if (isnan(value) || isnan(found)) return isnan(rounded) && isnan(found);
    if (found == rounded) return true;
    if (isinf(value)) return false;
    if (isinf(found) || isinf(rounded)) { /* of two neighbours one may be the largest number, the other infinity */
        const double low = float_of(bits_of_float(value - off, dtype), dtype);
        const double high = float_of(bits_of_float(value + off, dtype), dtype);
        return found >= low && found <= high;
    }
    if (found == 0 && fabs(value) - off < smallest) return true;
    const int digits = dtype_digits(dtype);
    return fabs(found - value) <= off + ldexp(fabs(value) + off, -digits) + ldexp(smallest, -digits);
}

static bool is_right(const measure *m, int64_t number, uint64_t bits) {
    const uint32_t dtype = m->r->output.dtype;
    return dtype_is_integer(dtype) ? integer_is_right(m, number, integer_of(bits, dtype))
                                   : float_is_right(m, number, bits);
}

static void describe(const measure *m, int64_t number, uint64_t found, presil_reference_difference *out) {
    const presil_reference *r = m->r;
    const uint32_t dtype = r->output.dtype;
    const double off = allowed(m, number);
    const int64_t place = place_of(&r->output, number);
    coordinate_of(r->output.shape, r->output.ndim, number, out->at);
    const int64_t bits = dtype_bits(dtype);
    out->offset = (place * bits - (place * bits & 7)) / 8;
    out->expected_bits = bits_of(r, number);
    out->found_bits = found;
    if (dtype_is_integer(dtype)) {
        const int64_t low = r->integers ? exact_integer(r, number) : quantized(r, r->reals[number] - off);
        const int64_t high = r->integers ? low : quantized(r, r->reals[number] + off);
        (void)snprintf(out->found, sizeof out->found, "%lld", (long long)integer_of(found, dtype));
        (void)snprintf(out->expected, sizeof out->expected, low == high ? "%lld" : "%lld to %lld", (long long)low,
                       (long long)high);
        return;
    }
    (void)snprintf(out->found, sizeof out->found, "%.9g", float_of(found, dtype));
    (void)snprintf(out->expected, sizeof out->expected, off > 0 ? "%.9g, off by %.3g at most" : "%.9g",
                   float_of(out->expected_bits, dtype), off);
}

void presil_reference_compare(const presil_reference *r, const void *found, double tolerance,
                              presil_reference_difference *out) {
    presil_reference_difference d = {.compared = (uint64_t)r->count};
    measure m = {.r = r, .tolerance = tolerance};
    for (int64_t i = 0; i < r->count; i++) {
        const double magnitude = fabs(value_of(r, i));
        if (isfinite(magnitude) && magnitude > m.most) m.most = magnitude;
    }
    for (int64_t i = 0; i < r->count; i++) {
        const uint64_t bits = load_bits(found, place_of(&r->output, i), r->output.dtype);
        if (!is_right(&m, i, bits) && d.differing++ == 0) describe(&m, i, bits, &d);
    }
    const uint32_t room = out->size < sizeof d ? out->size : (uint32_t)sizeof d;
    d.size = out->size;
    memcpy(out, &d, room);
}
