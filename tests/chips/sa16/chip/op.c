/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked: an operator as a layer of this chip, or why not. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include "sa16.h"

int sa16_fail(presil_error_buffer *error, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (error && error->text) (void)vsnprintf(error->text, error->bytes, format, args);
    va_end(args);
    return status;
}

static int no(presil_error_buffer *error, const char *what) {
    return sa16_fail(error, PRESIL_EUNSUPPORTED, "sa16 %s", what);
}

/* Rows (d 1), then images (d 0) that follow each other in memory become columns: more pixels for the array's rows. */
static bool join_pixels(layer *l, int d) {
    view *views[] = {&l->in, &l->out, &l->res};
    const int count = l->mode & MODE_RESIDUAL ? 3 : 2;
    for (int i = 0; i < count; i++) {
        const view *v = views[i];
        if (v->shape[d] != 1 && v->stride[d] != v->shape[2] * v->stride[2]) return false;
    }
    for (int i = 0; i < count; i++) {
        views[i]->shape[2] *= views[i]->shape[d];
        views[i]->shape[d] = 1;
    }
    return true;
}

static int view_of(const presil_operand *t, view *out, presil_error_buffer *error) {
    if (t->dtype != PRESIL_INT8) return no(error, "computes in int8 alone, from int8 to int8");
    if (t->ndim != 4) return no(error, "wants N, H, W, C");
    out->data = t->data.value;
    for (int d = 0; d < 4; d++) {
        out->shape[d] = t->shape[d];
        out->stride[d] = t->stride[d];
        if (t->shape[d] < 1 || t->shape[d] > INT32_MAX) return no(error, "has no tensors without elements");
        if (d && !t->layout && t->shape[d] > 1 && (t->stride[d] > INT32_MAX || t->stride[d] < INT32_MIN))
            return no(error, "steps over less than 2 GiB from one row or pixel to the next");
    }
    out->block = WORD;
    if (t->layout) {
        out->block = out->shape[1] * out->shape[2] * WORD;
        out->stride[0] = blocks_of(out->shape[3]) * out->block;
        out->stride[1] = out->shape[2] * WORD;
        out->stride[2] = WORD;
        return PRESIL_OK;
    }
    if (t->shape[3] > 1 && t->stride[3] != 1)
        return no(error, "wants the channels of a pixel side by side (channels_last)");
    if (t->shape[2] == 1) out->stride[2] = out->shape[3];
    if (t->shape[1] == 1) out->stride[1] = out->shape[2] * out->stride[2];
    return PRESIL_OK;
}

static int steps_of(const presil_op *op, layer *l, double *scale, presil_error_buffer *error) {
    l->low = INT8_MIN, l->high = INT8_MAX;
    for (uint32_t i = 0; i < op->step_count; i++) {
        const presil_step *s = &op->steps[i];
        if (s->kind == PRESIL_STEP_SCALE && s->input == PRESIL_NO_OPERAND && i == 0 && l->mode & MODE_UNIFORM) {
            *scale *= s->scale;
        } else if (s->kind == PRESIL_STEP_ADD && s->input < op->input_count && !(l->mode & MODE_RESIDUAL)) {
            const int status = view_of(&op->inputs[s->input], &l->res, error);
            if (status) return status;
            if (!(fabsf(s->scale) < 32767.0f)) return no(error, "scales a residual by less than 32767");
            l->mode |= MODE_RESIDUAL;
            l->res_zero = s->zero_point;
            l->res_mult = (int32_t)rint((double)s->scale * 65536.0);
        } else if (s->kind == PRESIL_STEP_QUANTIZE && i == op->step_count - 1) {
            l->zero_point = s->zero_point;
            l->low = s->int_low < INT8_MIN ? INT8_MIN : s->int_low;
            l->high = s->int_high > INT8_MAX ? INT8_MAX : s->int_high;
            if (s->zero_point < INT8_MIN || s->zero_point > INT8_MAX || l->low > l->high)
                return no(error, "has zero points and bounds of int8");
        } else {
            return no(error, "knows the steps add, quantize, and scale of a pooling, in this order");
        }
    }
    return PRESIL_OK;
}

/* Attributes that it doesn't know mean something that it doesn't do. */
static int window_of(const presil_op *op, layer *l, uint32_t known, presil_error_buffer *error) {
    int64_t input_dilation[2];
    known += presil_op_integers(op, "stride", 1, l->stride, 2) + presil_op_integers(op, "padding", 0, l->padding, 2);
    known += presil_op_integers(op, "dilation", 1, l->dilation, 2);
    known += presil_op_integers(op, "input_dilation", 1, input_dilation, 2);
    if (op->attribute_count != known) return no(error, "doesn't know one of the operator's attributes");
    if (input_dilation[0] != 1 || input_dilation[1] != 1) return no(error, "has no transposed convolutions");
    for (int d = 0; d < 2; d++) {
        if (l->kernel[d] < 1 || l->kernel[d] > 255 || l->stride[d] < 1 || l->stride[d] > 255 || l->dilation[d] < 1 ||
            l->dilation[d] > 255 || l->padding[d] < -16384 || l->padding[d] > 16384)
            return no(error, "has kernels, strides and dilations up to 255");
    }
    return PRESIL_OK;
}

static uint32_t has(const presil_op *op, const char *name) { return presil_op_attribute(op, name) ? 1 : 0; }

static int conv_of(const presil_op *op, layer *l, presil_error_buffer *error) {
    const presil_operand *weight = presil_op_input(op, "weight");
    if (!weight || !weight->layout || op->compute != PRESIL_COMPUTE_INT8)
        return no(error, "computes in int8 alone, with packed weights");
    const presil_layout *p = weight->layout;
    l->kernel[0] = p->shape[2], l->kernel[1] = p->shape[3];
    l->weights = weight->data.value;
    l->params = weight->data.value + p->params_at;
    l->in_blocks = p->in_blocks;
    l->mode = MODE_CONV | (p->diagonal ? MODE_DEPTHWISE : 0);
    l->pad = (int32_t)presil_op_integer(op, "pad_value", 0);
    const int64_t groups = presil_op_integer(op, "groups", p->groups);
    if (groups != p->groups) return no(error, "got weights that were packed for another number of groups");
    if (l->in.shape[3] != p->shape[1] * p->groups || l->out.shape[3] != p->shape[0])
        return no(error, "got weights of other channels than the tensors have");
    l->macs = (uint64_t)(p->shape[0] * p->shape[1] * p->shape[2] * p->shape[3]) *
              (uint64_t)(l->out.shape[0] * l->out.shape[1] * l->out.shape[2]);
    return window_of(op, l, has(op, "groups") + has(op, "pad_value"), error);
}

static int pool_of(const presil_op *op, layer *l, double *scale, presil_error_buffer *error) {
    uint32_t known = presil_op_integers(op, "kernel", 1, l->kernel, 2);
    const bool average = op->kind == PRESIL_OP_POOL_AVERAGE;
    const int64_t include = presil_op_integer(op, "count_include_pad", 1);
    const int64_t divisor = presil_op_integer(op, "divisor", 0);
    known += has(op, "count_include_pad") + has(op, "divisor") + has(op, "pad_value");
    l->mode = (average ? MODE_AVERAGE : MODE_MAX) | MODE_UNIFORM;
    l->in_blocks = 1;
    l->pad = average ? (int32_t)presil_op_integer(op, "pad_value", 0) : INT8_MIN;
    const int status = window_of(op, l, known, error);
    if (status) return status;
    if (!presil_op_attribute(op, "stride")) l->stride[0] = l->kernel[0], l->stride[1] = l->kernel[1];
    if (average && !include && !divisor && (l->padding[0] || l->padding[1]))
        return no(error, "divides every window by the same number (count_include_pad)");
    if (average) *scale = 1.0 / (double)(divisor ? divisor : l->kernel[0] * l->kernel[1]);
    return l->in.shape[3] == l->out.shape[3] ? PRESIL_OK : no(error, "pools channel by channel");
}

/* Bytes, as the maximum of windows of one word: pixels of 16 channels. */
static int copy_of(const presil_op *op, layer *l, presil_error_buffer *error) {
    const presil_operand *from = presil_op_input(op, "input"), *to = presil_op_output(op, "output");
    if (op->attribute_count || op->step_count || op->input_count != 1)
        return no(error, "copies, and does nothing else to what it copies");
    if (from->ndim != 1 || from->dtype != PRESIL_INT8 ||
        (from->shape[0] > 1 && (from->stride[0] != 1 || to->stride[0] != 1)))
        return no(error, "copies bytes that follow each other");
    if (from->shape[0] % WORD || from->shape[0] < 1) return no(error, "copies multiples of 16 bytes");
    const int64_t words = from->shape[0] / WORD;
    l->in = (view){from->data.value, {1, 1, words, WORD}, {from->shape[0], from->shape[0], WORD, 1}, WORD};
    l->out = l->in;
    l->out.data = to->data.value;
    for (int d = 0; d < 2; d++) l->kernel[d] = l->stride[d] = l->dilation[d] = 1;
    l->mode = MODE_MAX | MODE_UNIFORM;
    l->in_blocks = 1;
    return PRESIL_OK;
}

static int sizes_fit(const layer *l, presil_error_buffer *error) {
    if (l->in.shape[0] != l->out.shape[0]) return no(error, "has as many images out as in");
    for (int d = 0; d < 2; d++) {
        const int64_t covers = l->in.shape[d + 1] + 2 * l->padding[d] - l->dilation[d] * (l->kernel[d] - 1) - 1;
        /* A smaller output is a crop; a larger one would read what isn't there. */
        if (covers < 0 || l->out.shape[d + 1] > covers / l->stride[d] + 1)
            return no(error, "got an output that is larger than its windows give");
    }
    for (int d = 0; d < 4 && l->mode & MODE_RESIDUAL; d++) {
        if (l->res.shape[d] != l->out.shape[d] || l->res.block != l->out.block ||
            (l->out.shape[d] > 1 && l->res.stride[d] != l->out.stride[d]))
            return no(error, "wants a residual of the output's shape and strides");
    }
    return PRESIL_OK;
}

int sa16_layer_of(const presil_op *op, layer *l, presil_error_buffer *error) {
    double scale = 1.0;
    *l = (layer){.label = op->label ? op->label : "", .tiling = op->tiling, .low = INT8_MIN, .high = INT8_MAX};
    const presil_operand *in = presil_op_input(op, "input"), *out = presil_op_output(op, "output");
    if (op->kind > PRESIL_OP_COPY && op->kind != PRESIL_OP_CONV && op->kind != PRESIL_OP_POOL_MAX &&
        op->kind != PRESIL_OP_POOL_AVERAGE)
        return no(error, "has convolutions, linear layers with packed weights, and pooling");
    if (!in || !out) return no(error, "wants an input and an output");
    int status = PRESIL_OK;
    if (op->kind == PRESIL_OP_COPY) {
        status = copy_of(op, l, error);
    } else {
        status = view_of(in, &l->in, error);
        if (!status) status = view_of(out, &l->out, error);
        if (!status) status = op->kind == PRESIL_OP_CONV ? conv_of(op, l, error) : pool_of(op, l, &scale, error);
        if (!status) status = steps_of(op, l, &scale, error);
        if (!status) status = sizes_fit(l, error);
    }
    if (status) return status;
    int32_t multiplier = 0;
    if (!sa16_scale(scale, &multiplier, &l->shift)) return no(error, "scales by less than 32768");
    l->multiplier = (uint32_t)multiplier;
    if (l->kernel[0] == 1 && l->kernel[1] == 1 && l->stride[0] == 1 && l->stride[1] == 1 && !l->padding[0] &&
        !l->padding[1] && l->in.shape[1] == l->out.shape[1] && l->in.shape[2] == l->out.shape[2] && join_pixels(l, 1))
        (void)join_pixels(l, 0);
    return PRESIL_OK;
}
