/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: the chip plans them, the core checks where they reach and enqueues. */
#include "core.h"

#include <stddef.h>
#include <stdlib.h>

static int begin(presil_device *device, presil_stream **stream) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    *stream = presil_stream_of(device, *stream);
    if (!*stream) return PRESIL_EINVAL;
    return atomic_load(&device->mode) == PRESIL_MODE_MODEL ? PRESIL_OK : presil_start_if_needed(device);
}

static int check_ranges(const presil_device *device, const char *label, const char *what,
                        const presil_byte_range *ranges, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (presil_memory_contains(device, ranges[i].base, ranges[i].bytes)) continue;
        return presil_fail(PRESIL_EINVAL,
                           "%s %s %llu bytes at 0x%llx, which are not in device memory (0x%llx to 0x%llx)", label, what,
                           (unsigned long long)ranges[i].bytes, (unsigned long long)ranges[i].base.value,
                           (unsigned long long)device->memory_base.value,
                           (unsigned long long)(device->memory_base.value + device->memory_bytes));
    }
    return PRESIL_OK;
}

int presil_plan_enqueue(presil_device *device, presil_stream *stream, presil_plan *plan, uint64_t plan_ns) {
    presil_plan_info info;
    int status = device->chip_ops->plan_info(plan, &info);
    if (status) (void)presil_fail(status, "the plan can't be read");
    if (!status) status = check_ranges(device, info.label, "reads", info.reads, info.read_count);
    if (!status) status = check_ranges(device, info.label, "writes", info.writes, info.write_count);
    if (!status && stream->recording) {
        status = presil_list_append(stream->recording, plan, plan_ns);
    } else if (!status) {
        work_item item = {.kind = ITEM_LAUNCH, .plan = plan, .plan_ns = plan_ns, .origin = presil_origin()};
        status = presil_queue_push(device, stream, &item, false);
    }
    if (status) device->chip_ops->plan_free(plan);
    return status;
}

static int check_tensor(const char *what, const presil_tensor *t) {
    if (t->dtype > PRESIL_INT32)
        return presil_fail(PRESIL_EINVAL, "%s: dtype %u is not one of presil_dtype", what, t->dtype);
    if (t->ndim > 4) return presil_fail(PRESIL_EINVAL, "%s: %u dimensions, at most 4 expected", what, t->ndim);
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return presil_fail(PRESIL_EINVAL, "%s: shape[%u] is %lld", what, i, (long long)t->shape[i]);
    }
    return PRESIL_OK;
}

int presil_matmul(presil_device *device, presil_stream *stream, const presil_matmul_desc *desc) {
    int status = begin(device, &stream);
    if (status) return status;
    if (!desc) return presil_fail(PRESIL_EINVAL, "presil_matmul: desc is NULL");
    presil_matmul_desc d;
    status = presil_take(&d, sizeof d, desc, desc->size, offsetof(presil_matmul_desc, epilogue), "presil_matmul_desc");
    if (status) return status;
    d.size = sizeof d;
    if (d.reserved0) return presil_fail(PRESIL_EINVAL, "presil_matmul_desc: reserved0 is %u, 0 expected", d.reserved0);
    if (d.compute > PRESIL_COMPUTE_FP16)
        return presil_fail(PRESIL_EINVAL, "presil_matmul_desc: compute %u is not one of presil_compute", d.compute);
    status = check_tensor("a", &d.a);
    if (!status) status = check_tensor("b", &d.b);
    if (!status) status = check_tensor("out", &d.out);
    if (!status && d.epilogue.residual) status = check_tensor("residual", d.epilogue.residual);
    if (status) return status;
    const uint64_t start = presil_now_ns();
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_plan *plan = NULL;
    status = device->chip_ops->plan_matmul(device->chip, &d, &plan, &error);
    if (status) return presil_fail(status, "%s: %s", d.label ? d.label : "matmul", text);
    return presil_plan_enqueue(device, stream, plan, presil_now_ns() - start);
}

int presil_conv2d(presil_device *device, presil_stream *stream, const presil_conv2d_desc *desc) {
    int status = begin(device, &stream);
    if (status) return status;
    if (!desc) return presil_fail(PRESIL_EINVAL, "presil_conv2d: desc is NULL");
    presil_conv2d_desc d;
    status = presil_take(&d, sizeof d, desc, desc->size, offsetof(presil_conv2d_desc, epilogue), "presil_conv2d_desc");
    if (status) return status;
    d.size = sizeof d;
    if (d.reserved0) return presil_fail(PRESIL_EINVAL, "presil_conv2d_desc: reserved0 is %u, 0 expected", d.reserved0);
    if (!d.weights && d.kernel.ndim == 0)
        return presil_fail(PRESIL_EINVAL, "presil_conv2d_desc: neither weights nor a kernel is given");
    if (d.weights && d.kernel.ndim)
        return presil_fail(PRESIL_EINVAL, "presil_conv2d_desc: both weights and a kernel are given");
    if (d.weights && d.weights->device != device)
        return presil_fail(PRESIL_EINVAL, "presil_conv2d_desc: the weights are on another device");
    if (d.weights && atomic_load(&d.weights->unwritten))
        return presil_fail(PRESIL_EINVAL, "presil_conv2d_desc: writing the packed weights to the device failed: pack "
                                          "them again with presil_weights_update()");
    status = check_tensor("input", &d.input);
    if (!status) status = check_tensor("output", &d.output);
    if (!status) status = check_tensor("kernel", &d.kernel);
    if (!status && d.epilogue.residual) status = check_tensor("residual", d.epilogue.residual);
    if (status) return status;
    const uint64_t start = presil_now_ns();
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_plan *plan = NULL;
    status = device->chip_ops->plan_conv2d(device->chip, &d, d.weights ? d.weights->layout : NULL,
                                           d.weights ? d.weights->packed : (presil_daddr){0}, &plan, &error);
    if (status) return presil_fail(status, "%s: %s", d.label ? d.label : "conv2d", text);
    return presil_plan_enqueue(device, stream, plan, presil_now_ns() - start);
}

int presil_conv2d_weight_grad(presil_device *device, presil_stream *stream,
                              const presil_conv2d_weight_grad_desc *desc) {
    int status = begin(device, &stream);
    if (status) return status;
    if (!desc) return presil_fail(PRESIL_EINVAL, "presil_conv2d_weight_grad: desc is NULL");
    presil_conv2d_weight_grad_desc d;
    status = presil_take(&d, sizeof d, desc, desc->size, offsetof(presil_conv2d_weight_grad_desc, groups),
                         "presil_conv2d_weight_grad_desc");
    if (status) return status;
    d.size = sizeof d;
    status = check_tensor("input", &d.input);
    if (!status) status = check_tensor("grad", &d.grad);
    if (!status) status = check_tensor("out", &d.out);
    if (!status && d.residual) status = check_tensor("residual", d.residual);
    if (status) return status;
    const uint64_t start = presil_now_ns();
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_plan *plan = NULL;
    status = device->chip_ops->plan_weight_grad(device->chip, &d, &plan, &error);
    if (status) return presil_fail(status, "%s: %s", d.label ? d.label : "conv2d_weight_grad", text);
    return presil_plan_enqueue(device, stream, plan, presil_now_ns() - start);
}

int presil_nop(presil_device *device, presil_stream *stream) {
    int status = begin(device, &stream);
    if (status) return status;
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_plan *plan = NULL;
    status = device->chip_ops->plan_nop(device->chip, &plan, &error);
    return status ? presil_fail(status, "nop: %s", text) : presil_plan_enqueue(device, stream, plan, 0);
}
