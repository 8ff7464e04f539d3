/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_kit.h - what the library of every chip (presil_chip.h) would write again, for those that want it: refusals,
 * registers, and reading an operator as views of N, H, W, C, a window and an epilogue of integers. C11, inline: nothing
 * to link but libm. presil_kit_plan.h beside it has plans.
 *
 * What these functions do not know they refuse (EUNSUPPORTED, the text says what): an operator that they read holds
 * nothing else than what they give. They call no clock, start nothing, and allocate nothing.
 */
#ifndef PRESIL_KIT_H
#define PRESIL_KIT_H

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include "presil_chip.h"

#if defined(__GNUC__)
#define PRESIL_KIT_PRINTF __attribute__((format(printf, 3, 4)))
#else
#define PRESIL_KIT_PRINTF
#endif

/* ---- texts, numbers */

/* Leaves a text, if `error` is not NULL; returns the status. */
PRESIL_KIT_PRINTF static inline int presil_kit_fail(presil_error_buffer *error, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (error && error->text) (void)vsnprintf(error->text, error->bytes, format, args);
    va_end(args);
    return status;
}

static inline int64_t presil_kit_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t presil_kit_most(int64_t a, int64_t b) { return a > b ? a : b; }
/* How many parts of `size` cover `whole`; both > 0. */
static inline int64_t presil_kit_parts(int64_t whole, int64_t size) { return (whole + size - 1) / size; }

/* scale = multiplier / 2^shift, exactly for every fp32 whose shift lies in [least_shift, most_shift]; above most_shift
 * the multiplier loses its low bits. false: it is too large, or not finite. */
static inline bool presil_kit_multiplier(double scale, int least_shift, int most_shift, int32_t *multiplier,
                                         uint32_t *shift) {
    int exponent = 0;
    const double mantissa = frexp(scale, &exponent) * 2147483648.0;
    int s = 31 - exponent;
    if (!isfinite(scale) || s < least_shift) return false;
    int64_t m = (int64_t)rint(mantissa);
    for (; m > INT32_MAX || m < INT32_MIN || s > most_shift; s--) m /= 2;
    *multiplier = (int32_t)m;
    *shift = (uint32_t)s;
    return s >= least_shift;
}

/* ---- registers: every access may fail (the simulator stopped, the link is gone) */

static inline int presil_kit_port(const presil_link *link, int code, presil_error_buffer *error) {
    if (!code) return PRESIL_OK;
    return presil_kit_fail(error, code == PRESIL_TRANSPORT_ESTOPPED ? PRESIL_ESTOPPED : PRESIL_EDEAD,
                           "register access failed: %s", link->ops->last_error(link->handle));
}
static inline int presil_kit_get(const presil_link *link, uint32_t offset, uint32_t *value,
                                 presil_error_buffer *error) {
    return presil_kit_port(link, link->ops->read32(link->handle, offset, value), error);
}
static inline int presil_kit_put(const presil_link *link, uint32_t offset, uint32_t value, presil_error_buffer *error) {
    return presil_kit_port(link, link->ops->write32(link->handle, offset, value), error);
}
/* The i-th of `count` registers at offset + 4 * at[i]; `at` NULL: one after the other. */
static inline int presil_kit_get_all(const presil_link *link, uint32_t offset, const uint8_t *at, uint32_t count,
                                     uint32_t *values, presil_error_buffer *error) {
    for (uint32_t i = 0; i < count; i++) {
        const int status = presil_kit_get(link, offset + 4 * (at ? at[i] : i), &values[i], error);
        if (status) return status;
    }
    return PRESIL_OK;
}

/* ---- operands as N, H, W, C */

#define PRESIL_KIT_REACH (INT64_C(1) << 40) /* bytes, at most, from one image to the next */

/* Bytes. Channels of a pixel lie side by side; or in blocks of `channels` of them, with `block` bytes from one block to
 * the next, and what fills the last one up (NC/xHWx). A flat one is a row of bytes: all of them are channels. */
typedef struct {
    uint64_t data; /* device address of element [0, 0, 0, 0] */
    int64_t shape[4], stride[4], channels, block;
    uint32_t blocked, flat; /* 1: in blocks; 1: of one dimension */
} presil_kit_view;

static inline int64_t presil_kit_blocks(const presil_kit_view *v) { return presil_kit_parts(v->shape[3], v->channels); }

/* An operand of elements of `bytes` bytes; one with a `layout` lies in blocks of `channels` channels, image after
 * image: [N][C/channels][H][W][channels]. Distances within an image are less than 2 GiB, or it is refused. A dimension
 * of one element steps as if there were no gap. */
static inline int presil_kit_view_of(const presil_operand *t, int64_t bytes, int64_t channels, presil_kit_view *out,
                                     presil_error_buffer *error) {
    if (t->ndim != 4)
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "%s: N, H, W, C was expected, not %u dimensions", t->name,
                               t->ndim);
    *out = (presil_kit_view){.data = t->data.value, .channels = channels, .block = channels * bytes};
    for (int d = 0; d < 4; d++) {
        const int64_t most = (d ? INT32_MAX : PRESIL_KIT_REACH) / bytes; /* before it is multiplied: anybody asks */
        const bool steps = t->shape[d] > 1 && !t->layout;
        out->shape[d] = t->shape[d];
        if (t->shape[d] < 1 || t->shape[d] > INT32_MAX)
            return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "%s has no elements, or too many", t->name);
        if (steps && (t->stride[d] > most || t->stride[d] < -most))
            return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "%s steps over 2 GiB from one row or pixel to the next",
                                   t->name);
        out->stride[d] = steps ? t->stride[d] * bytes : 0;
    }
    if (!t->layout && t->shape[3] > 1 && t->stride[3] != 1)
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                               "%s: the channels of a pixel side by side were expected (channels_last)", t->name);
    out->stride[3] = bytes;
    if (t->layout) {
        out->stride[2] = channels * bytes;
        if (out->shape[2] > INT32_MAX / out->stride[2] / out->shape[1])
            return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "%s has blocks of channels of over 2 GiB", t->name);
        out->stride[1] = out->shape[2] * out->stride[2];
        out->block = out->shape[1] * out->stride[1];
        out->stride[0] = presil_kit_blocks(out) * out->block;
        out->blocked = 1;
    } else {
        if (t->shape[2] == 1) out->stride[2] = out->shape[3] * bytes;
        if (t->shape[1] == 1) out->stride[1] = out->shape[2] * out->stride[2];
    }
    return PRESIL_OK;
}

static inline presil_kit_view presil_kit_flat(uint64_t data, int64_t bytes) {
    return (presil_kit_view){data, {1, 1, 1, bytes}, {bytes, bytes, bytes, 1}, bytes, bytes, 0, 1};
}

/* Whether all dimensions are as large, and elements lie as far from each other, of two views. */
static inline bool presil_kit_alike(const presil_kit_view *a, const presil_kit_view *b) {
    for (int d = 0; d < 4; d++) {
        if (a->shape[d] != b->shape[d] || (a->shape[d] > 1 && a->stride[d] != b->stride[d])) return false;
    }
    return a->block == b->block && a->blocked == b->blocked;
}

/* Rows (d 1), or images (d 0) of one row, of all the views become columns, where they follow each other in memory:
 * to 1x1 kernels it is the same, and to an array more work at once. false: nothing was done. */
static inline bool presil_kit_join(presil_kit_view *const *views, int count, int d) {
    for (int i = 0; i < count; i++) {
        const presil_kit_view *v = views[i];
        if (v->shape[d] != 1 && v->stride[d] != v->shape[2] * v->stride[2]) return false;
    }
    for (int i = 0; i < count; i++) {
        views[i]->shape[2] *= views[i]->shape[d];
        views[i]->shape[d] = 1;
    }
    return true;
}

/* Device address of an element; its channel begins a block, or is 0. */
static inline uint64_t presil_kit_at(const presil_kit_view *v, int64_t n, int64_t y, int64_t x, int64_t c) {
    return v->data + (uint64_t)(n * v->stride[0] + y * v->stride[1] + x * v->stride[2] + c / v->channels * v->block);
}

/* ---- activations in blocks of channels: presil_chip_ops.activation() and its like, of N, H, W, C */

static inline uint64_t presil_kit_blocked_bytes(const presil_operand *t, int64_t bytes, int64_t channels) {
    return (uint64_t)(t->shape[0] * presil_kit_parts(t->shape[3], channels) * t->shape[1] * t->shape[2] * channels *
                      bytes);
}

static inline void presil_kit_blocked_move(const presil_operand *t, size_t bytes, int64_t channels, uint8_t *strided,
                                           uint8_t *packed, bool pack) {
    const int64_t *s = t->shape, step = (int64_t)bytes;
    for (int64_t n = 0; n < s[0]; n++) {
        for (int64_t first = 0; first < s[3]; first += channels) {
            const int64_t count = presil_kit_least(s[3] - first, channels);
            for (int64_t pixel = 0; pixel < s[1] * s[2]; pixel++, packed += channels * step) {
                uint8_t *at = strided + step * (n * t->stride[0] + pixel / s[2] * t->stride[1] +
                                                pixel % s[2] * t->stride[2] + first * t->stride[3]);
                if (pack) memset(packed, 0, (size_t)channels * bytes);
                for (int64_t c = 0; c < count; c++) {
                    uint8_t *element = at + c * t->stride[3] * step;
                    if (pack)
                        memcpy(packed + c * step, element, bytes);
                    else
                        memcpy(element, packed + c * step, bytes);
                }
            }
        }
    }
}
/* What fills the last block up is 0. */
static inline void presil_kit_blocked_pack(const presil_operand *t, size_t bytes, int64_t channels, const void *strided,
                                           void *packed) {
    presil_kit_blocked_move(t, bytes, channels, (uint8_t *)(uintptr_t)strided, (uint8_t *)packed, true);
}
static inline void presil_kit_blocked_unpack(const presil_operand *t, size_t bytes, int64_t channels,
                                             const void *packed, void *strided) {
    presil_kit_blocked_move(t, bytes, channels, (uint8_t *)strided, (uint8_t *)(uintptr_t)packed, false);
}

/* ---- windows: CONV, POOL_MAX, POOL_AVERAGE */

/* What else than kernel, stride and padding a chip does; without it, it is refused. */
enum presil_kit_can {
    PRESIL_KIT_DILATION = 1,
    PRESIL_KIT_INPUT_DILATION = 2,
    PRESIL_KIT_GROUPS = 4,
    PRESIL_KIT_PAD_VALUE = 8,
    PRESIL_KIT_DIVISOR = 16,   /* an average by another number than the window's */
    PRESIL_KIT_ZERO_POINT = 32 /* that an average takes from its elements */
};

typedef struct {
    int64_t kernel[2], stride[2], padding[2], dilation[2], input_dilation[2]; /* rows, columns */
    int64_t groups, pad_value;
    int64_t divisor; /* of POOL_AVERAGE, the same everywhere; else 1 */
    int64_t zero_point;
} presil_kit_window;

static inline int presil_kit_read_window(const presil_op *op, uint32_t can, presil_kit_window *out,
                                         presil_error_buffer *error) {
    const presil_operand *weight = presil_op_input(op, "weight");
    const bool conv = op->kind == PRESIL_OP_CONV, average = op->kind == PRESIL_OP_POOL_AVERAGE;
    const int64_t divisor = presil_op_integer(op, "divisor", 0);
    if (conv ? !weight || weight->ndim != 4 : op->kind != PRESIL_OP_POOL_MAX && !average)
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "a window of rows and columns was expected");
    if (op->output_count > 1) return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "one output was expected");
    uint32_t known = presil_op_integers(op, "kernel", 1, out->kernel, 2);
    if (conv) known = 0; /* its kernel is the weights' */
    for (int d = 0; d < 2 && conv; d++) out->kernel[d] = weight->shape[d + 1];
    known += presil_op_integers(op, "stride", 1, out->stride, 2);
    known += presil_op_integers(op, "padding", 0, out->padding, 2);
    known += presil_op_integers(op, "dilation", 1, out->dilation, 2);
    known += presil_op_integers(op, "input_dilation", 1, out->input_dilation, 2);
    known += presil_op_integers(op, "groups", 1, &out->groups, 1);
    known += presil_op_integers(op, "pad_value", 0, &out->pad_value, 1);
    out->zero_point = 0;
    if (average) known += presil_op_integers(op, "zero_point", 0, &out->zero_point, 1);
    if (average) known += presil_op_attribute(op, "divisor") != NULL;
    if (average) known += presil_op_attribute(op, "count_include_pad") != NULL;
    if (op->attribute_count != known)
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "one of the operator's attributes is not known");
    if (!conv && !presil_op_attribute(op, "stride")) memcpy(out->stride, out->kernel, sizeof out->stride);
    for (int d = 0; d < 2; d++) {
        const int64_t sizes[] = {out->kernel[d], out->stride[d], out->dilation[d], out->input_dilation[d]};
        bool sane = out->padding[d] >= -INT32_MAX && out->padding[d] <= INT32_MAX;
        for (int i = 0; i < 4; i++) sane = sane && sizes[i] >= 1 && sizes[i] <= INT32_MAX;
        if (!sane)
            return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "kernels, strides, dilations of at least 1 expected");
    }
    if (!out->groups) out->groups = 1;
    const bool padded = out->padding[0] || out->padding[1];
    if (average && !divisor && padded && !presil_op_integer(op, "count_include_pad", 1))
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                               "windows that are divided by different numbers (count_include_pad)");
    out->divisor = !average ? 1 : divisor ? divisor : out->kernel[0] * out->kernel[1];
    const struct {
        uint32_t can;
        bool asked;
        const char *what;
    } more[] = {
        {PRESIL_KIT_DILATION, out->dilation[0] != 1 || out->dilation[1] != 1, "dilation"},
        {PRESIL_KIT_INPUT_DILATION, out->input_dilation[0] != 1 || out->input_dilation[1] != 1, "input dilation"},
        {PRESIL_KIT_GROUPS, out->groups != 1, "groups"},
        {PRESIL_KIT_PAD_VALUE, out->pad_value && padded, "padding with another value than 0"},
        {PRESIL_KIT_DIVISOR, average && divisor && divisor != out->kernel[0] * out->kernel[1], "another divisor"},
        {PRESIL_KIT_ZERO_POINT, out->zero_point != 0, "zero point of an average"},
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        if (more[i].asked && !(can & more[i].can))
            return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "the chip has no %s", more[i].what);
    }
    return PRESIL_OK;
}

/* As many images out as in, and an output that is not larger than its windows give (a smaller one is a crop). Not for
 * an input with a dilation of its own. */
static inline int presil_kit_window_fits(const presil_kit_window *w, const presil_kit_view *in,
                                         const presil_kit_view *out, presil_error_buffer *error) {
    bool fits = in->shape[0] == out->shape[0];
    for (int d = 0; d < 2 && fits; d++) {
        const int64_t covers = in->shape[d + 1] + 2 * w->padding[d] - w->dilation[d] * (w->kernel[d] - 1) - 1;
        fits = covers >= 0 && out->shape[d + 1] <= covers / w->stride[d] + 1;
    }
    return fits ? PRESIL_OK
                : presil_kit_fail(error, PRESIL_EUNSUPPORTED, "the output is larger than the input's windows give");
}

/* Rows (d 0) or columns (1) of an input under `count` of the output from `from` on, of those that exist: [first, past),
 * at least one. */
static inline void presil_kit_under(const presil_kit_window *w, const presil_kit_view *in, int d, int64_t from,
                                    int64_t count, int64_t *first, int64_t *past) {
    const int64_t size = in->shape[d + 1], start = from * w->stride[d] - w->padding[d];
    const int64_t end = start + (count - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1;
    *first = presil_kit_least(presil_kit_most(start, 0), size - 1);
    *past = presil_kit_most(presil_kit_least(end, size), *first + 1);
}

/* ---- an epilogue of integers */

/* x -> min(max(nearest(x * scale + (r - residual_zero) * residual_scale) + zero_point, low), high) */
typedef struct {
    double scale;
    const presil_operand *residual; /* r; NULL: none */
    double residual_scale;
    int32_t residual_zero, zero_point, low, high;
} presil_kit_epilogue;

/* Steps in this order, each at most once: SCALE by a number, ADD of an operand, QUANTIZE. lowest, highest: bounds of
 * the output's dtype, which zero points and bounds keep. Integers that met no float, and no QUANTIZE, wrap around in
 * their dtype (presil_op.h): refused, but for maxima. */
static inline int presil_kit_read_epilogue(const presil_op *op, int32_t lowest, int32_t highest,
                                           presil_kit_epilogue *out, presil_error_buffer *error) {
    bool bounded = op->kind == PRESIL_OP_POOL_AVERAGE; /* a float, or QUANTIZE, keeps the result inside the dtype */
    *out = (presil_kit_epilogue){.scale = 1.0, .low = lowest, .high = highest};
    for (uint32_t i = 0; i < op->step_count; i++) {
        const presil_step *s = &op->steps[i];
        const bool last = i == op->step_count - 1, zero_fits = s->zero_point >= lowest && s->zero_point <= highest;
        if (s->kind == PRESIL_STEP_SCALE && s->input == PRESIL_NO_OPERAND && i == 0) {
            out->scale = s->scale;
            bounded = true;
        } else if (s->kind == PRESIL_STEP_ADD && s->input < op->input_count && !out->residual && zero_fits) {
            out->residual = &op->inputs[s->input];
            out->residual_scale = s->scale;
            out->residual_zero = s->zero_point;
            bounded = bounded || s->scale != 1.0f;
        } else if (s->kind == PRESIL_STEP_QUANTIZE && last && zero_fits) {
            out->zero_point = s->zero_point;
            if (s->int_low > lowest) out->low = s->int_low;
            if (s->int_high < highest) out->high = s->int_high;
            if (out->low > out->high)
                return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "bounds of the output's type were expected");
            bounded = true;
        } else {
            return presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                                   "the steps scale, add, quantize were expected, in this order, with zero points "
                                   "of the output's type");
        }
    }
    const bool sums = out->residual || (op->kind != PRESIL_OP_POOL_MAX && lowest > INT32_MIN);
    return bounded || !sums ? PRESIL_OK
                            : presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                                              "integers that wrap around: the step quantize was expected");
}

/* ---- COPY: `bytes` bytes that follow each other, all that is asked of a chip (presil_chip_ops.plan) */

static inline int presil_kit_read_copy(const presil_op *op, uint64_t *from, uint64_t *to, uint64_t *bytes,
                                       presil_error_buffer *error) {
    const presil_operand *in = presil_op_input(op, "input"), *out = presil_op_output(op, "output");
    if (!in || !out || in->ndim != 1 || out->ndim != 1 || in->dtype != PRESIL_INT8 || in->shape[0] < 1 ||
        (in->shape[0] > 1 && (in->stride[0] != 1 || out->stride[0] != 1)) || op->step_count || op->attribute_count ||
        op->input_count != 1 || op->output_count > 1)
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                               "a copy of bytes that follow each other was expected, and nothing else done to them");
    *from = in->data.value;
    *to = out->data.value;
    *bytes = (uint64_t)in->shape[0];
    return PRESIL_OK;
}
#endif
