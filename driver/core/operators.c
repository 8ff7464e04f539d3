/* SPDX-License-Identifier: Apache-2.0 */
/* Operators: the chip plans them, the core checks where they reach and enqueues. */
#include "core.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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

int presil_plan_enqueue(presil_device *device, presil_stream *stream, presil_plan *plan, launch_tensors *tensors,
                        uint64_t plan_ns) {
    presil_plan_info info;
    int status = device->chip_ops->plan_info(plan, &info);
    if (status) (void)presil_fail(status, "the plan can't be read");
    if (!status) status = check_ranges(device, info.label, "reads", info.reads, info.read_count);
    if (!status) status = check_ranges(device, info.label, "writes", info.writes, info.write_count);
    if (!status && stream->recording) {
        status = presil_list_append(stream->recording, plan, tensors, plan_ns);
    } else if (!status) {
        work_item item = {
            .kind = ITEM_LAUNCH, .plan = plan, .tensors = tensors, .plan_ns = plan_ns, .origin = presil_origin()};
        status = presil_queue_push(device, stream, &item, false);
    }
    if (status) {
        device->chip_ops->plan_free(plan);
        free(tensors);
    }
    return status;
}

typedef struct {
    size_t count;
    presil_capture_tensor at[4];
} named_tensors;

static void name_tensor(named_tensors *list, const char *name, const presil_tensor *tensor, uint32_t written) {
    if (tensor && tensor->ndim)
        list->at[list->count++] = (presil_capture_tensor){.name = name, .written = written, .tensor = *tensor};
}

/* For whoever listens; a recorded list may be submitted when somebody does. */
static launch_tensors *keep_tensors(presil_device *device, const presil_stream *stream, const named_tensors *n) {
    return stream->recording || atomic_load_explicit(&device->capture.on, memory_order_acquire)
               ? presil_tensors_new(n->at, n->count)
               : NULL;
}

static uint32_t element_bytes(uint32_t dtype) { return dtype == PRESIL_INT8 ? 1 : dtype == PRESIL_BF16 ? 2 : 4; }

/* sum += a * b; false: more than 64 bits. */
static bool add_product(int64_t *sum, int64_t a, int64_t b) {
    int64_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

/* From the lowest byte of a tensor to its highest; no shape or stride overflows. */
static int check_place(const presil_device *device, const char *what, const presil_tensor *t) {
    const int64_t e = element_bytes(t->dtype);
    int64_t low = 0, high = e;
    bool fits = true;
    for (uint32_t i = 0; i < t->ndim && fits; i++) {
        int64_t stride;
        if (t->shape[i] == 0) return PRESIL_OK;
        if (t->shape[i] == 1) continue;
        fits = !__builtin_mul_overflow(t->stride[i], e, &stride) &&
               add_product(stride < 0 ? &low : &high, t->shape[i] - 1, stride);
    }
    const uint64_t base = device->memory_base.value, end = base + device->memory_bytes;
    if (fits && t->data.value <= end && t->data.value >= base && low >= (int64_t)(base - t->data.value) &&
        high <= (int64_t)(end - t->data.value))
        return PRESIL_OK;
    return presil_fail(PRESIL_EINVAL,
                       "%s begins at 0x%llx and reaches to places that are not in device memory (0x%llx to 0x%llx)",
                       what, (unsigned long long)t->data.value, (unsigned long long)base, (unsigned long long)end);
}

/* The stride of a dimension of one element means nothing: one that no descriptor could hold becomes 0. */
enum { LARGE_STRIDE = 1 << 28 };

static int check_tensor(const presil_device *device, const char *what, presil_tensor *t) {
    if (t->dtype > PRESIL_INT32)
        return presil_fail(PRESIL_EINVAL, "%s: dtype %u is not one of presil_dtype", what, t->dtype);
    if (t->ndim > 4) return presil_fail(PRESIL_EINVAL, "%s: %u dimensions, at most 4 expected", what, t->ndim);
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return presil_fail(PRESIL_EINVAL, "%s: shape[%u] is %lld", what, i, (long long)t->shape[i]);
        if (t->shape[i] <= 1 && (t->stride[i] >= LARGE_STRIDE || t->stride[i] <= -LARGE_STRIDE)) t->stride[i] = 0;
    }
    return check_place(device, what, t);
}

/* Checks a copy of the caller's tensor, which takes its place. */
static int take_tensor(const presil_device *device, const char *what, const presil_tensor **theirs,
                       presil_tensor *own) {
    if (!*theirs) return PRESIL_OK;
    *own = **theirs;
    *theirs = own;
    return check_tensor(device, what, own);
}

/* Groups of a kernel by view lie group_stride apart; without it they go on where the one before ends. */
static int check_kernel(const presil_device *device, presil_conv2d_desc *d) {
    presil_tensor *k = &d->kernel;
    const int64_t groups = d->groups ? d->groups : 1;
    if (!d->group_stride || k->ndim != 4 || k->shape[0] < 0 || k->shape[0] % groups)
        return check_tensor(device, "kernel", k);
    presil_tensor first = *k, last;
    first.shape[0] /= groups;
    int status = check_tensor(device, "kernel", &first);
    int64_t offset = 0, stride;
    if (!status && (__builtin_mul_overflow(d->group_stride, (int64_t)element_bytes(k->dtype), &stride) ||
                    !add_product(&offset, groups - 1, stride)))
        return presil_fail(PRESIL_EINVAL, "group_stride %lld reaches to places that are not in device memory",
                           (long long)d->group_stride);
    last = first;
    last.data.value += (uint64_t)offset;
    if (!status) status = check_tensor(device, "kernel", &last);
    if (!status) memcpy(k->stride, first.stride, sizeof k->stride);
    return status;
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
    presil_tensor residual;
    status = check_tensor(device, "a", &d.a);
    if (!status) status = check_tensor(device, "b", &d.b);
    if (!status) status = check_tensor(device, "out", &d.out);
    if (!status) status = take_tensor(device, "residual", &d.epilogue.residual, &residual);
    if (status) return status;
    const uint64_t start = presil_now_ns();
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_plan *plan = NULL;
    status = device->chip_ops->plan_matmul(device->chip, &d, &plan, &error);
    if (status) return presil_fail(status, "%s: %s", d.label ? d.label : "matmul", text);
    named_tensors n = {0};
    name_tensor(&n, "output", &d.out, 1);
    name_tensor(&n, "a", &d.a, 0);
    name_tensor(&n, "b", &d.b, 0);
    name_tensor(&n, "residual", d.epilogue.residual, 0);
    return presil_plan_enqueue(device, stream, plan, keep_tensors(device, stream, &n), presil_now_ns() - start);
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
    presil_tensor residual;
    status = check_tensor(device, "input", &d.input);
    if (!status) status = check_tensor(device, "output", &d.output);
    if (!status && !d.weights) status = check_kernel(device, &d);
    if (!status) status = take_tensor(device, "residual", &d.epilogue.residual, &residual);
    if (status) return status;
    const uint64_t start = presil_now_ns();
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_plan *plan = NULL;
    status = device->chip_ops->plan_conv2d(device->chip, &d, d.weights ? d.weights->layout : NULL,
                                           d.weights ? d.weights->packed : (presil_daddr){0}, &plan, &error);
    if (status) return presil_fail(status, "%s: %s", d.label ? d.label : "conv2d", text);
    named_tensors n = {0};
    name_tensor(&n, "output", &d.output, 1);
    name_tensor(&n, "input", &d.input, 0);
    name_tensor(&n, "kernel", &d.kernel, 0);
    name_tensor(&n, "residual", d.epilogue.residual, 0);
    return presil_plan_enqueue(device, stream, plan, keep_tensors(device, stream, &n), presil_now_ns() - start);
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
    presil_tensor residual;
    status = check_tensor(device, "input", &d.input);
    if (!status) status = check_tensor(device, "grad", &d.grad);
    if (!status) status = check_tensor(device, "out", &d.out);
    if (!status) status = take_tensor(device, "residual", &d.residual, &residual);
    if (status) return status;
    const uint64_t start = presil_now_ns();
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_plan *plan = NULL;
    status = device->chip_ops->plan_weight_grad(device->chip, &d, &plan, &error);
    if (status) return presil_fail(status, "%s: %s", d.label ? d.label : "conv2d_weight_grad", text);
    named_tensors n = {0};
    name_tensor(&n, "output", &d.out, 1);
    name_tensor(&n, "input", &d.input, 0);
    name_tensor(&n, "grad", &d.grad, 0);
    name_tensor(&n, "residual", d.residual, 0);
    return presil_plan_enqueue(device, stream, plan, keep_tensors(device, stream, &n), presil_now_ns() - start);
}

int presil_nop(presil_device *device, presil_stream *stream) {
    int status = begin(device, &stream);
    if (status) return status;
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_plan *plan = NULL;
    status = device->chip_ops->plan_nop(device->chip, &plan, &error);
    return status ? presil_fail(status, "nop: %s", text) : presil_plan_enqueue(device, stream, plan, NULL, 0);
}
