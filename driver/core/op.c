/* SPDX-License-Identifier: Apache-2.0 */
/* Any operator: its operands are checked, the chip plans it, the core checks where that reaches and enqueues. */
#include "op.h"
#include "device.h"
#include "device_memory.h"
#include "enqueue.h"
#include "fail.h"
#include "kept_op.h"
#include "layouts.h"
#include "life.h"
#include "listeners.h"
#include "presil_clock.h"
#include "presil_heap.h"
#include "queue.h"
#include "start.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

const char *presil_op_name(uint32_t kind) {
    static const char *const names[] = {
        "nop",      "copy",         "conv",        "conv_transpose", "depthwise", "matmul", "weight_gradient",
        "pool_max", "pool_average", "elementwise", "reduction",      "softmax",   "norm",   "gather"};
    return kind < sizeof names / sizeof *names ? names[kind] : NULL;
}

uint32_t presil_dtype_bits(uint32_t dtype) {
    static const uint8_t bits[] = {8, 16, 32, 32, 8, 16, 16, 4, 8, 8, 64};
    return dtype < sizeof bits ? bits[dtype] : 0;
}

/* ---- making one */
void presil_op_begin(op_room *room, uint32_t kind, const char *label, uint32_t compute, uint32_t tiling) {
    room->op = (presil_op){.size = sizeof room->op,
                           .kind = kind,
                           .label = label,
                           .compute = compute,
                           .tiling = tiling,
                           .inputs = room->inputs,
                           .outputs = room->outputs,
                           .attributes = room->attributes,
                           .steps = room->steps};
    room->integer_count = 0;
}

static void operand_of(presil_operand *to, const char *name, const presil_tensor *tensor) {
    *to = (presil_operand){.name = name, .data = tensor->data, .dtype = tensor->dtype, .ndim = tensor->ndim};
    memcpy(to->shape, tensor->shape, sizeof tensor->shape);
    memcpy(to->stride, tensor->stride, sizeof tensor->stride);
}

presil_operand *presil_op_add(op_room *room, const char *name, const presil_tensor *tensor) {
    presil_operand *to = &room->inputs[room->op.input_count++];
    operand_of(to, name, tensor);
    return to;
}

void presil_op_add_output(op_room *room, const presil_tensor *tensor) {
    operand_of(&room->outputs[room->op.output_count++], "output", tensor);
}

void presil_op_set(op_room *room, const char *name, const int64_t *values, uint32_t count, int64_t otherwise) {
    bool all = true;
    int64_t *to = &room->integers[room->integer_count];
    for (uint32_t i = 0; i < count; i++) {
        to[i] = values[i];
        all = all && values[i] == otherwise;
    }
    if (all) return;
    room->integer_count += count;
    room->attributes[room->op.attribute_count++] = (presil_attribute){.name = name, .count = count, .integers = to};
}

static presil_step *add_step(op_room *room, uint32_t kind) {
    presil_step *step = &room->steps[room->op.step_count++];
    *step = (presil_step){.kind = kind, .input = PRESIL_NO_OPERAND};
    return step;
}

void presil_op_add_epilogue(op_room *room, const presil_epilogue *e) {
    if (e->residual) {
        presil_step *add = add_step(room, PRESIL_STEP_ADD);
        add->input = room->op.input_count;
        add->scale = e->residual_scale;
        add->zero_point = e->residual_zero_point;
        (void)presil_op_add(room, "residual", e->residual);
    }
    if (e->clamp) {
        presil_step *clamp = add_step(room, PRESIL_STEP_CLAMP);
        clamp->low = e->clamp_lo;
        clamp->high = e->clamp_hi;
    }
    if (room->outputs[0].dtype == PRESIL_INT8) { /* bounds that are both 0: those of the type */
        presil_step *quantize = add_step(room, PRESIL_STEP_QUANTIZE);
        const bool none = e->int_lo == 0 && e->int_hi == 0;
        quantize->zero_point = e->out_zero_point;
        quantize->int_low = none ? INT8_MIN : e->int_lo;
        quantize->int_high = none ? INT8_MAX : e->int_hi;
    }
}

/* ---- where its operands lie */
/* sum += a * b; false: more than 64 bits. */
static bool add_product(int64_t *sum, int64_t a, int64_t b) {
    int64_t product;
    return !__builtin_mul_overflow(a, b, &product) && !__builtin_add_overflow(*sum, product, sum);
}

typedef struct {
    int64_t low, high; /* bits, from the first element */
    bool fits;
} extent;

static void extend(extent *e, int64_t count, int64_t stride, int64_t bits) {
    int64_t step;
    if (count > 1)
        e->fits = e->fits && !__builtin_mul_overflow(stride, bits, &step) &&
                  add_product(step < 0 ? &e->low : &e->high, count - 1, step);
}

/* From the lowest byte of an operand to its highest. Groups of a kernel by view lie group_stride apart, if that is
 * given; else they go on where the one before ends. */
static extent extent_of(const presil_op *op, const presil_operand *t) {
    const int64_t bits = presil_dtype_bits(t->dtype);
    extent e = {.high = bits, .fits = true};
    const presil_attribute *apart =
        op->kind == PRESIL_OP_CONV && strcmp(t->name, "weight") == 0 ? presil_op_attribute(op, "group_stride") : NULL;
    const int64_t groups = apart ? presil_op_integer(op, "groups", 1) : 1;
    for (uint32_t i = 0; i < t->ndim; i++)
        extend(&e, i == 0 && groups > 1 ? t->shape[0] / groups : t->shape[i], t->layout ? 0 : t->stride[i], bits);
    if (apart) extend(&e, groups, presil_op_integer(op, "group_stride", 0), bits);
    return e;
}

/* Nothing of it overflows, or lies elsewhere than in device memory. */
static int check_place(const presil_device *device, const presil_op *op, const presil_operand *t) {
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 0) return PRESIL_OK;
    }
    const extent e = extent_of(op, t);
    const uint64_t base = device->memory.base.value, end = base + device->memory.bytes;
    if (e.fits && t->data.value <= end && t->data.value >= base && e.low / 8 >= (int64_t)(base - t->data.value) &&
        e.high / 8 + (e.high % 8 != 0) <= (int64_t)(end - t->data.value))
        return PRESIL_OK;
    return presil_fail(PRESIL_EINVAL,
                       "%s begins at 0x%llx and reaches to places that are not in device memory (0x%llx to 0x%llx)",
                       t->name, (unsigned long long)t->data.value, (unsigned long long)base, (unsigned long long)end);
}

/* The stride of a dimension of one element means nothing: one that no command could hold becomes 0. */
enum { LARGE_STRIDE = 1 << 28 };

static int check_shape(presil_operand *t) {
    if (!t->name) return presil_fail(PRESIL_EINVAL, "presil_op: an operand has no name");
    if (!presil_dtype_bits(t->dtype))
        return presil_fail(PRESIL_EINVAL, "%s: dtype %u is not one of presil_dtype", t->name, t->dtype);
    if (t->ndim > PRESIL_OP_DIMS)
        return presil_fail(PRESIL_EINVAL, "%s: %u dimensions, at most %d expected", t->name, t->ndim, PRESIL_OP_DIMS);
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0)
            return presil_fail(PRESIL_EINVAL, "%s: shape[%u] is %lld", t->name, i, (long long)t->shape[i]);
        if (t->shape[i] <= 1 && (t->stride[i] >= LARGE_STRIDE || t->stride[i] <= -LARGE_STRIDE)) t->stride[i] = 0;
    }
    return PRESIL_OK;
}

static int check_operands(const presil_device *device, op_room *room, bool placed) {
    const presil_op *op = &room->op;
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < op->input_count + op->output_count && !status; i++) {
        presil_operand *t = i < op->input_count ? &room->inputs[i] : &room->outputs[i - op->input_count];
        status = check_shape(t);
        if (!status && placed && !t->layout) status = check_place(device, op, t);
    }
    return status;
}

/* ---- planning */
/* Names that outlive the call. */
static const char *lasting_name(const char *name) {
    static const char *const names[] = {"output", "input", "weight", "a",    "b",        "residual", "grad",
                                        "other",  "bias",  "index",  "mean", "variance", "mask"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0) return names[i];
    }
    return "operand";
}

/* Outputs first. Packed operands are in the chip's order, and not told. */
static void name_operands(presil_capture_tensor *list, size_t *count, const presil_operand *at, uint32_t operands,
                          uint32_t written) {
    for (uint32_t i = 0; i < operands; i++) {
        const presil_operand *t = &at[i];
        if (t->layout || t->ndim == 0) continue;
        presil_capture_tensor *to = &list[(*count)++];
        *to = (presil_capture_tensor){.name = lasting_name(t->name),
                                      .written = written,
                                      .tensor = {.data = t->data, .dtype = t->dtype, .ndim = t->ndim}};
        memcpy(to->tensor.shape, t->shape, sizeof to->tensor.shape);
        memcpy(to->tensor.stride, t->stride, sizeof to->tensor.stride);
    }
}

static kept_op *keep_op(const presil_op *op) {
    kept_weights *kept = NULL;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const presil_weights *weights = op->inputs[i].layout ? op->inputs[i].weights : NULL;
        if (weights && !kept) kept = presil_kept_weights_of(&weights->kept);
    }
    return presil_keep_op(op, kept);
}

/* For whoever listens, and for mode VERIFY without an executor; a recorded list may be submitted when either is there.
 */
static launch_tensors *keep_tensors(presil_device *device, const presil_stream *stream, const presil_op *op) {
    const bool heard = stream->recording || atomic_load_explicit(&device->capture.on, memory_order_acquire);
    const bool compared =
        !device->limits.has_executor && (stream->recording || atomic_load(&device->mode) == PRESIL_MODE_VERIFY);
    if (!heard && !compared) return NULL;
    presil_capture_tensor list[PRESIL_OP_INPUTS + PRESIL_OP_OUTPUTS];
    size_t count = 0;
    name_operands(list, &count, op->outputs, op->output_count, 1);
    name_operands(list, &count, op->inputs, op->input_count, 0);
    launch_tensors *tensors = presil_tensors_new(list, count);
    if (tensors) tensors->op = keep_op(op);
    return tensors;
}

int presil_op_enter(presil_device *device, presil_stream **stream) {
    const int entered = presil_enter(device);
    if (entered || *stream == PRESIL_ONLY_ASK) return entered;
    *stream = presil_stream_of(device, *stream);
    if (!*stream) return PRESIL_EINVAL;
    return atomic_load(&device->mode) == PRESIL_MODE_MODEL ? PRESIL_OK : presil_start_if_needed(device);
}

uint64_t presil_op_kinds(const presil_device *device) {
    return device && device->limits.kinds ? device->limits.kinds : UINT64_MAX;
}

static int check_kind(const presil_device *device, const presil_op *op) {
    if (op->kind <= PRESIL_OP_COPY || presil_op_kinds(device) >> op->kind & 1) return PRESIL_OK;
    return presil_fail(PRESIL_EUNSUPPORTED, "%s: the chip \"%s\" has no operator of the kind \"%s\"",
                       op->label ? op->label : presil_op_name(op->kind), device->chip_ops->name,
                       presil_op_name(op->kind));
}

int presil_works_in_place(const presil_device *device) { return device && device->limits.in_place; }

static int check_in_place(const presil_device *device, const presil_op *op) {
    if (op->kind != PRESIL_OP_ELEMENTWISE || device->limits.in_place || !presil_op_in_place(op)) return PRESIL_OK;
    return presil_fail(PRESIL_EUNSUPPORTED,
                       "%s: an operand is the output, and the chip \"%s\" doesn't say that it takes that (in_place)",
                       op->label ? op->label : presil_op_name(op->kind), device->chip_ops->name);
}

static int plan(const presil_device *device, const presil_op *op, presil_plan **out) {
    char text[ERROR_TEXT];
    presil_error_buffer error = {text, sizeof text};
    text[0] = 0; /* not all of it: this is on the way of every operator */
    const int status = device->chip_ops->plan(device->chip, op, out, &error);
    return status ? presil_fail(status, "%s: %s", op->label ? op->label : presil_op_name(op->kind), text) : PRESIL_OK;
}

/* Of a packed operand: its own bytes, or (nobody's weights) as many as its elements have. */
static extent packed_extent(const presil_operand *t) {
    int64_t bits = presil_dtype_bits(t->dtype);
    extent e = {.fits = true};
    for (uint32_t i = 0; i < t->ndim; i++) e.fits = e.fits && !__builtin_mul_overflow(bits, t->shape[i], &bits);
    e.high = t->weights ? (int64_t)t->weights->bytes * 8 : bits;
    return e;
}

/* For a plan that is thrown away: operands one behind the other, each at a page, none below the memory. */
static void place(const presil_device *device, op_room *room) {
    uint64_t at = device->memory.base.value;
    for (uint32_t i = 0; i < room->op.input_count + room->op.output_count; i++) {
        presil_operand *t = i < room->op.input_count ? &room->inputs[i] : &room->outputs[i - room->op.input_count];
        const extent e = t->layout ? packed_extent(t) : extent_of(&room->op, t);
        const uint64_t below = e.fits ? (uint64_t)-(e.low / 8) : 0, above = e.fits ? (uint64_t)(e.high / 8 + 1) : 0;
        at += (below + PRESIL_HEAP_PAGE - 1) / PRESIL_HEAP_PAGE * PRESIL_HEAP_PAGE;
        t->data.value = at;
        at += (above + PRESIL_HEAP_PAGE - 1) / PRESIL_HEAP_PAGE * PRESIL_HEAP_PAGE;
    }
}

static int ask(presil_device *device, op_room *room) {
    int status = check_operands(device, room, false);
    if (!status) status = check_kind(device, &room->op);
    if (status) return status;
    if (!device->chip_ops->supports) {
        presil_plan *made = NULL;
        place(device, room);
        status = plan(device, &room->op, &made);
        if (!status) device->chip_ops->plan_free(made);
        return status;
    }
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    const presil_op *op = &room->op;
    status = device->chip_ops->supports(device->chip, op, &error);
    return status ? presil_fail(status, "%s: %s", op->label ? op->label : presil_op_name(op->kind), text) : PRESIL_OK;
}

/* In the chip's own layouts first, but of a list as everything lies: it may be stored and merged so, and needs no
 * conversions. Refused, the other way. */
static int plan_in_layouts(presil_device *device, bool recorded, op_room *room, presil_plan **out,
                           launch_layouts **layouts) {
    *layouts = recorded ? NULL : presil_layouts_choose(device, &room->op, room->inputs, room->outputs);
    int status = plan(device, &room->op, out);
    if (status && recorded) {
        *layouts = presil_layouts_choose(device, &room->op, room->inputs, room->outputs);
        if (*layouts) status = plan(device, &room->op, out);
    }
    if (!status || !*layouts) return status;
    presil_layouts_undo(&room->op, room->inputs, room->outputs, *layouts);
    *layouts = NULL;
    return plan(device, &room->op, out);
}

int presil_op_run(presil_device *device, presil_stream *stream, op_room *room) {
    if (stream == PRESIL_ONLY_ASK) return ask(device, room);
    int status = check_kind(device, &room->op);
    if (!status) status = check_operands(device, room, true);
    if (!status) status = check_in_place(device, &room->op);
    if (status) return status;
    const uint64_t start = presil_now_ns();
    presil_plan *made = NULL;
    launch_layouts *layouts = NULL;
    status = device->chip_ops->activation ? plan_in_layouts(device, stream->recording != NULL, room, &made, &layouts)
                                          : plan(device, &room->op, &made);
    return status ? status
                  : presil_plan_enqueue(device, stream, made, keep_tensors(device, stream, &room->op), layouts,
                                        presil_now_ns() - start);
}

/* ---- the API */
static int check_names(const presil_op *op) {
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        if (!op->attributes[i].name) return presil_fail(PRESIL_EINVAL, "presil_op: attribute %u has no name", i);
    }
    for (uint32_t i = 0; i < op->step_count; i++) {
        if (op->steps[i].input != PRESIL_NO_OPERAND && op->steps[i].input >= op->input_count)
            return presil_fail(PRESIL_EINVAL, "presil_op: step %u refers to input %u of %u", i, op->steps[i].input,
                               op->input_count);
    }
    return PRESIL_OK;
}

/* Operands are copied, as strides that mean nothing are changed; the rest is the caller's. */
static int take(op_room *room, const presil_op *op) {
    if (!op) return presil_fail(PRESIL_EINVAL, "presil_op: op is NULL");
    const int status =
        presil_take(&room->op, sizeof room->op, op, op->size, offsetof(presil_op, attributes), "presil_op");
    if (status) return status;
    presil_op *own = &room->op;
    own->size = sizeof *own;
    if (!presil_op_name(own->kind))
        return presil_fail(PRESIL_EUNSUPPORTED, "presil_op: kind %u is not one that this library knows", own->kind);
    if (own->input_count > PRESIL_OP_INPUTS || own->output_count > PRESIL_OP_OUTPUTS)
        return presil_fail(PRESIL_EINVAL, "presil_op: %u inputs and %u outputs, at most %d and %d expected",
                           own->input_count, own->output_count, PRESIL_OP_INPUTS, PRESIL_OP_OUTPUTS);
    if ((own->input_count && !own->inputs) || (own->output_count && !own->outputs) ||
        (own->attribute_count && !own->attributes) || (own->step_count && !own->steps))
        return presil_fail(PRESIL_EINVAL, "presil_op: a list is NULL, its count is not 0");
    if (own->input_count) memcpy(room->inputs, own->inputs, own->input_count * sizeof *own->inputs);
    if (own->output_count) memcpy(room->outputs, own->outputs, own->output_count * sizeof *own->outputs);
    own->inputs = room->inputs;
    own->outputs = room->outputs;
    return check_names(own);
}

int presil_op_enqueue(presil_device *device, presil_stream *stream, const presil_op *op) {
    int status = presil_op_enter(device, &stream);
    op_room room;
    if (!status) status = take(&room, op);
    return status ? status : presil_op_run(device, stream, &room);
}

int presil_op_supported(presil_device *device, const presil_op *op) {
    return presil_op_enqueue(device, PRESIL_ONLY_ASK, op);
}
