/* SPDX-License-Identifier: Apache-2.0 */
/* presil_conv2d() and its like as the operators that chips are given (presil_op.h). */
#include "fail.h"
#include "op.h"
#include "weights.h"

#include <stddef.h>
#include <string.h>

static int check_tensor(const char *what, const presil_tensor *t) {
    if (t->dtype > PRESIL_INT32 && t->dtype != PRESIL_FP16)
        return presil_fail(PRESIL_EINVAL, "%s: dtype %u is not one that a presil_tensor has", what, t->dtype);
    if (t->ndim > 4) return presil_fail(PRESIL_EINVAL, "%s: %u dimensions, at most 4 expected", what, t->ndim);
    return PRESIL_OK;
}

static int check_tensors(const char *const *names, const presil_tensor *const *tensors, size_t count) {
    int status = PRESIL_OK;
    for (size_t i = 0; i < count && !status; i++) status = tensors[i] ? check_tensor(names[i], tensors[i]) : PRESIL_OK;
    return status;
}

int presil_matmul(presil_device *device, presil_stream *stream, const presil_matmul_desc *desc) {
    int status = presil_op_enter(device, &stream);
    if (status) return status;
    if (!desc) return presil_fail(PRESIL_EINVAL, "presil_matmul: desc is NULL");
    presil_matmul_desc d;
    status = presil_take(&d, sizeof d, desc, desc->size, offsetof(presil_matmul_desc, epilogue), "presil_matmul_desc");
    if (status) return status;
    if (d.reserved0) return presil_fail(PRESIL_EINVAL, "presil_matmul_desc: reserved0 is %u, 0 expected", d.reserved0);
    if (d.compute > PRESIL_COMPUTE_FP16)
        return presil_fail(PRESIL_EINVAL, "presil_matmul_desc: compute %u is not one of presil_compute", d.compute);
    static const char *const names[] = {"a", "b", "out", "residual"};
    status = check_tensors(names, (const presil_tensor *const[]){&d.a, &d.b, &d.out, d.epilogue.residual}, 4);
    if (status) return status;
    op_room room;
    presil_op_begin(&room, PRESIL_OP_MATMUL, d.label ? d.label : "matmul", d.compute, d.tiling);
    (void)presil_op_add(&room, "a", &d.a);
    (void)presil_op_add(&room, "b", &d.b);
    presil_op_add_output(&room, &d.out);
    presil_op_add_epilogue(&room, &d.epilogue);
    return presil_op_run(device, stream, &room);
}

static void operand_of_weights(const presil_weights *weights, presil_operand *out) {
    const presil_weights_desc *d = &weights->desc;
    *out = (presil_operand){.name = "weight",
                            .data = weights->packed,
                            .dtype = d->weight_dtype,
                            .ndim = 4,
                            .shape = {d->shape[0], d->shape[2], d->shape[3], d->shape[1]},
                            .layout = weights->layout,
                            .weights = weights};
}

int presil_weights_operand(const presil_weights *weights, presil_operand *out) {
    if (!weights || !out) return presil_fail(PRESIL_EINVAL, "presil_weights_operand: weights or out is NULL");
    if (weights->only_asked)
        return presil_fail(PRESIL_EINVAL, "these weights are only to ask about: they have no bytes");
    if (atomic_load(&weights->unwritten))
        return presil_fail(PRESIL_EINVAL, "writing the packed weights to the device failed: pack them again with "
                                          "presil_weights_update()");
    operand_of_weights(weights, out);
    return PRESIL_OK;
}

static int check_conv2d(const presil_device *device, const presil_conv2d_desc *d) {
    if (d->reserved0)
        return presil_fail(PRESIL_EINVAL, "presil_conv2d_desc: reserved0 is %u, 0 expected", d->reserved0);
    if (!d->weights && d->kernel.ndim == 0)
        return presil_fail(PRESIL_EINVAL, "presil_conv2d_desc: neither weights nor a kernel is given");
    if (d->weights && d->kernel.ndim)
        return presil_fail(PRESIL_EINVAL, "presil_conv2d_desc: both weights and a kernel are given");
    if (d->weights && d->weights->device != device)
        return presil_fail(PRESIL_EINVAL, "presil_conv2d_desc: the weights are on another device");
    static const char *const names[] = {"input", "output", "kernel", "residual"};
    const presil_tensor *const tensors[] = {&d->input, &d->output, d->weights ? NULL : &d->kernel,
                                            d->epilogue.residual};
    return check_tensors(names, tensors, 4);
}

int presil_conv2d(presil_device *device, presil_stream *stream, const presil_conv2d_desc *desc) {
    int status = presil_op_enter(device, &stream);
    if (status) return status;
    if (!desc) return presil_fail(PRESIL_EINVAL, "presil_conv2d: desc is NULL");
    presil_conv2d_desc d;
    status = presil_take(&d, sizeof d, desc, desc->size, offsetof(presil_conv2d_desc, epilogue), "presil_conv2d_desc");
    if (!status) status = check_conv2d(device, &d);
    if (status) return status;
    op_room room;
    presil_op_begin(&room, PRESIL_OP_CONV, d.label ? d.label : "conv2d",
                    d.weights ? d.weights->desc.compute : d.compute, d.tiling);
    (void)presil_op_add(&room, "input", &d.input);
    if (!d.weights)
        (void)presil_op_add(&room, "weight", &d.kernel);
    else if (stream == PRESIL_ONLY_ASK)
        operand_of_weights(d.weights, &room.inputs[room.op.input_count++]);
    else
        status = presil_weights_operand(d.weights, &room.inputs[room.op.input_count++]);
    if (status) return status;
    presil_op_add_output(&room, &d.output);
    presil_op_add_epilogue(&room, &d.epilogue);
    const int64_t groups = d.weights ? d.weights->desc.groups : d.groups ? d.groups : 1, pad = d.pad_value;
    for (int i = 0; i < 2; i++) { /* 0 is 1 too */
        if (!d.dilation[i]) d.dilation[i] = 1;
        if (!d.input_dilation[i]) d.input_dilation[i] = 1;
    }
    presil_op_set(&room, "stride", d.stride, 2, 1);
    presil_op_set(&room, "padding", d.padding, 2, 0);
    presil_op_set(&room, "dilation", d.dilation, 2, 1);
    presil_op_set(&room, "input_dilation", d.input_dilation, 2, 1);
    presil_op_set(&room, "groups", &groups, 1, 1);
    presil_op_set(&room, "pad_value", &pad, 1, 0);
    if (!d.weights) presil_op_set(&room, "group_stride", &d.group_stride, 1, 0);
    return presil_op_run(device, stream, &room);
}

int presil_conv2d_weight_grad(presil_device *device, presil_stream *stream,
                              const presil_conv2d_weight_grad_desc *desc) {
    int status = presil_op_enter(device, &stream);
    if (status) return status;
    if (!desc) return presil_fail(PRESIL_EINVAL, "presil_conv2d_weight_grad: desc is NULL");
    presil_conv2d_weight_grad_desc d;
    status = presil_take(&d, sizeof d, desc, desc->size, offsetof(presil_conv2d_weight_grad_desc, groups),
                         "presil_conv2d_weight_grad_desc");
    static const char *const names[] = {"input", "grad", "out", "residual"};
    if (!status)
        status = check_tensors(names, (const presil_tensor *const[]){&d.input, &d.grad, &d.out, d.residual}, 4);
    if (status) return status;
    op_room room;
    presil_op_begin(&room, PRESIL_OP_WEIGHT_GRADIENT, d.label ? d.label : "conv2d_weight_grad", d.compute, d.tiling);
    (void)presil_op_add(&room, "input", &d.input);
    (void)presil_op_add(&room, "grad", &d.grad);
    presil_op_add_output(&room, &d.out);
    presil_op_add_epilogue(&room, &(presil_epilogue){.residual = d.residual});
    const int64_t groups = d.groups ? d.groups : 1;
    presil_op_set(&room, "stride", d.stride, 2, 1);
    presil_op_set(&room, "padding", d.padding, 2, 0);
    presil_op_set(&room, "dilation", d.dilation, 2, 1);
    presil_op_set(&room, "groups", &groups, 1, 1);
    return presil_op_run(device, stream, &room);
}

int presil_nop(presil_device *device, presil_stream *stream) {
    const int status = presil_op_enter(device, &stream);
    if (status) return status;
    op_room room;
    presil_op_begin(&room, PRESIL_OP_NOP, "nop", 0, 0);
    return presil_op_run(device, stream, &room);
}
