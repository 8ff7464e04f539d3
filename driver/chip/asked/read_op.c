/* SPDX-License-Identifier: Apache-2.0 */
/* The operators of presil_op.h as the problems that this chip's planners know; everything else is refused. */
#include <string.h>
#include "asked.h"

/* What of an operator has been understood: whatever is left could change the result. */
typedef struct {
    const presil_chip *chip;
    const presil_op *op;
    const presil_error_buffer *error;
    uint32_t inputs, attributes, steps;
    int status;
} reader;

static void refuse_missing(reader *r, const char *what, const char *name) {
    if (r->status == PRESIL_OK)
        r->status = chip_fail(r->error, PRESIL_EINVAL, "the operator has no %s \"%s\"", what, name);
}

static void take(reader *r, const presil_operand *from, presil_tensor *to) {
    if (from->ndim > 4) {
        r->status =
            chip_fail(r->error, PRESIL_EUNSUPPORTED, "%s has %u dimensions; this chip takes 4", from->name, from->ndim);
        return;
    }
    if (from->dtype == PRESIL_FP16 && !r->chip->fp16) {
        r->status = chip_fail_fp16(r->error, from->name);
        return;
    }
    if (from->dtype > PRESIL_INT32 && from->dtype != PRESIL_FP16) {
        r->status = chip_fail(r->error, PRESIL_EUNSUPPORTED,
                              "%s has dtype %u; this chip has int8, bf16, fp16, fp32, int32 in memory", from->name,
                              from->dtype);
        return;
    }
    to->data = from->data;
    to->dtype = from->dtype;
    to->ndim = from->ndim;
    for (uint32_t i = 0; i < from->ndim; i++) {
        to->shape[i] = from->shape[i];
        to->stride[i] = from->stride[i];
    }
}

/* The tensors of descs are zero before. */
static const presil_operand *input(reader *r, const char *name, presil_tensor *to) {
    const presil_operand *from = presil_op_input(r->op, name);
    if (!from) {
        refuse_missing(r, "input", name);
        return NULL;
    }
    r->inputs++;
    if (!from->layout) {
        take(r, from, to);
    } else if (strcmp(name, "weight") != 0) {
        r->status = chip_fail(r->error, PRESIL_EUNSUPPORTED, "%s is packed; this chip packs weights alone", name);
    }
    return from;
}

static void output(reader *r, presil_tensor *to) {
    if (r->op->output_count == 1)
        take(r, r->op->outputs, to);
    else if (r->status == PRESIL_OK)
        r->status =
            chip_fail(r->error, PRESIL_EUNSUPPORTED, "%u outputs; this chip's operators have one", r->op->output_count);
}

static void pair(reader *r, const char *name, int64_t otherwise, int64_t to[2]) {
    r->attributes += presil_op_integers(r->op, name, otherwise, to, 2);
}

static int64_t single(reader *r, const char *name, int64_t otherwise) {
    int64_t value;
    r->attributes += presil_op_integers(r->op, name, otherwise, &value, 1);
    return value;
}

/* EPILOGUE adds the residual, then clamps, then quantises; each at most once. */
static void epilogue(reader *r, presil_epilogue *e, presil_tensor *residual) {
    const presil_op *op = r->op;
    for (uint32_t i = 0; i < op->step_count; i++) {
        const presil_step *s = &op->steps[i];
        if (i && s->kind <= op->steps[i - 1].kind) return;
        if (s->kind == PRESIL_STEP_ADD && s->input < op->input_count && !op->inputs[s->input].layout) {
            take(r, &op->inputs[s->input], residual);
            r->inputs++;
            e->residual = residual;
            e->residual_scale = s->scale;
            e->residual_zero_point = s->zero_point;
        } else if (s->kind == PRESIL_STEP_CLAMP) {
            e->clamp = 1;
            e->clamp_lo = s->low;
            e->clamp_hi = s->high;
        } else if (s->kind == PRESIL_STEP_QUANTIZE && op->output_count && op->outputs->dtype == PRESIL_INT8) {
            e->out_zero_point = s->zero_point;
            e->int_lo = s->int_low;
            e->int_hi = s->int_high;
        } else {
            return;
        }
        r->steps++;
    }
}

static int understood(reader *r) {
    const presil_op *op = r->op;
    if (r->status != PRESIL_OK) return r->status;
    if (r->steps != op->step_count)
        return chip_fail(r->error, PRESIL_EUNSUPPORTED,
                         "step %u behind the operator; this chip adds a residual, clamps and quantises to int8, in "
                         "this order",
                         r->steps);
    if (r->inputs != op->input_count || r->attributes != op->attribute_count)
        return chip_fail(r->error, PRESIL_EUNSUPPORTED,
                         "%u inputs and %u attributes, of which this chip knows %u and %u", op->input_count,
                         op->attribute_count, r->inputs, r->attributes);
    return PRESIL_OK;
}

static int conv(const presil_chip *chip, reader *r, presil_plan **out, presil_error_buffer *error) {
    presil_conv2d_desc d = {
        .size = sizeof d, .label = r->op->label, .tiling = r->op->tiling, .compute = r->op->compute};
    presil_tensor residual = {0};
    (void)input(r, "input", &d.input);
    const presil_operand *weight = input(r, "weight", &d.kernel);
    output(r, &d.output);
    pair(r, "stride", 1, d.stride);
    pair(r, "padding", 0, d.padding);
    pair(r, "dilation", 1, d.dilation);
    pair(r, "input_dilation", 1, d.input_dilation);
    d.groups = (uint32_t)single(r, "groups", 1);
    d.group_stride = single(r, "group_stride", 0);
    d.pad_value = (uint32_t)single(r, "pad_value", 0);
    epilogue(r, &d.epilogue, &residual);
    const int status = understood(r);
    if (status != PRESIL_OK) return status;
    return chip_plan_conv2d(chip, &d, weight->layout, weight->data, out, error);
}

static int matmul(const presil_chip *chip, reader *r, presil_plan **out, presil_error_buffer *error) {
    presil_matmul_desc d = {
        .size = sizeof d, .label = r->op->label, .tiling = r->op->tiling, .compute = r->op->compute};
    presil_tensor residual = {0};
    (void)input(r, "a", &d.a);
    (void)input(r, "b", &d.b);
    output(r, &d.out);
    epilogue(r, &d.epilogue, &residual);
    const int status = understood(r);
    return status == PRESIL_OK ? chip_plan_matmul(chip, &d, out, error) : status;
}

static int weight_gradient(const presil_chip *chip, reader *r, presil_plan **out, presil_error_buffer *error) {
    presil_conv2d_weight_grad_desc d = {
        .size = sizeof d, .label = r->op->label, .tiling = r->op->tiling, .compute = r->op->compute};
    presil_epilogue e = {0};
    presil_tensor residual = {0};
    (void)input(r, "input", &d.input);
    (void)input(r, "grad", &d.grad);
    output(r, &d.out);
    pair(r, "stride", 1, d.stride);
    pair(r, "padding", 0, d.padding);
    pair(r, "dilation", 1, d.dilation);
    d.groups = (uint32_t)single(r, "groups", 1);
    epilogue(r, &e, &residual);
    const int status = understood(r);
    if (status != PRESIL_OK) return status;
    if (e.clamp) return chip_fail(error, PRESIL_EUNSUPPORTED, "this chip clamps no gradient of weights");
    d.residual = e.residual;
    return chip_plan_weight_grad(chip, &d, out, error);
}

static int copy(const presil_chip *chip, reader *r, presil_plan **out, presil_error_buffer *error) {
    presil_tensor from = {0}, to = {0};
    (void)input(r, "input", &from);
    output(r, &to);
    const int status = understood(r);
    if (status != PRESIL_OK) return status;
    if (from.ndim != 1 || to.ndim != 1 || from.dtype != PRESIL_INT8 || to.dtype != PRESIL_INT8 ||
        from.shape[0] != to.shape[0] || from.stride[0] != 1 || to.stride[0] != 1)
        return chip_fail(error, PRESIL_EUNSUPPORTED, "this chip's copies are of bytes that follow each other");
    return chip_plan_copy(chip, to.data, from.data, (uint64_t)from.shape[0], out, error);
}

int chip_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error) {
    reader r = {.chip = chip, .op = op, .error = error};
    switch (op->kind) {
    case PRESIL_OP_NOP: return chip_plan_nop(chip, out, error);
    case PRESIL_OP_COPY: return copy(chip, &r, out, error);
    case PRESIL_OP_CONV: return conv(chip, &r, out, error);
    case PRESIL_OP_MATMUL: return matmul(chip, &r, out, error);
    case PRESIL_OP_WEIGHT_GRADIENT: return weight_gradient(chip, &r, out, error);
    default:
        return chip_fail(error, PRESIL_EUNSUPPORTED,
                         "operator %u; this chip has convolution, matmul, their weights' gradient and copies",
                         op->kind);
    }
}
