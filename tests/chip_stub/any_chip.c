/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chip on the stub's RTL that takes every operator and computes it with presil_reference.h when it is submitted: so
 * it is always right, but for the faults that are planted in it. It has no executor. For tests of whoever compares.
 *
 * PRESIL_ANY: words of
 *   wrong=KIND  one bit of one element of a result of that kind (presil_op_name) is flipped
 *   spoilt=NAME the same of each output of that name
 *   shifted=OPERAND  each channel has the next one's residual, scale, packed-bias or packed-scale
 *   loose       bounds of the step CLAMP are one wider
 *   swapped     the first two steps are done in the other order
 *   few=N       operands of more than N channels (the last dimension) are refused
 *   wide=N      a result of more than N channels is wrong, or one of operands of so many
 *   stray       each launch writes over its first input's page what is there already
 *   rough=R     declared tolerance
 *   apart       it says nothing of operands that are the output
 *   twice       an operator whose output is an input is computed twice
 */
#define presil_chip_entry stub_entry
#include "chip_stub.c"
#undef presil_chip_entry
#include "presil_reference.h"

enum { MOST_ELEMENTS = 1 << 16 };

struct presil_layout {
    presil_weights_desc desc; /* bias and scale: whether there are any */
};

/* An operand's bytes, from the lowest to the highest. */
typedef struct {
    presil_daddr base;
    uint64_t bytes;
    int64_t first; /* where element [0, 0, ...] lies in them */
    uint8_t *host;
} extent;

struct work {
    presil_op op;
    presil_operand inputs[PRESIL_OP_INPUTS], outputs[PRESIL_OP_OUTPUTS];
    presil_attribute attributes[8];
    int64_t integers[8][PRESIL_OP_DIMS];
    double reals[8];
    char names[8][24], texts[8][16], operands[PRESIL_OP_INPUTS][16], results[PRESIL_OP_OUTPUTS][16];
    presil_step steps[8];
    const presil_layout *packed;
    presil_byte_range reads[PRESIL_OP_INPUTS];
};

static const char *asked(const char *word) {
    const char *text = getenv("PRESIL_ANY"), *at = text ? strstr(text, word) : NULL;
    return at ? at + strlen(word) : NULL;
}

/* ---- operands */
static extent extent_of(const presil_operand *t) {
    const int64_t bits = presil_dtype_bits(t->dtype);
    int64_t low = 0, high = bits;
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (!t->shape[i]) return (extent){.base = t->data};
        *(t->stride[i] < 0 ? &low : &high) += (t->shape[i] - 1) * t->stride[i] * bits;
    }
    low = (low - 7) / 8; /* whole bytes */
    return (extent){{t->data.value + (uint64_t)low}, (uint64_t)((high + 7) / 8 - low), -low, NULL};
}

static uint64_t packed_bytes(const presil_layout *l) {
    const int64_t *s = l->desc.shape;
    const uint64_t weight = (uint64_t)(s[0] * s[1] * s[2] * s[3]) * presil_dtype_bits(l->desc.weight_dtype) / 8;
    return ((weight + 3) & ~3ull) + 4 * (uint64_t)s[0] * ((l->desc.bias != NULL) + (l->desc.scale != NULL));
}

/* The operator with strides for what is packed, its bytes in `bytes` (one for each input). */
static int compute(const struct work *w, const extent *at, presil_reference **out, presil_error_buffer *error) {
    presil_operand inputs[PRESIL_OP_INPUTS];
    presil_op op = w->op;
    presil_reference_call call = {.size = sizeof call, .op = &op};
    op.inputs = inputs;
    presil_operand outputs[PRESIL_OP_OUTPUTS];
    for (uint32_t i = 0; i < op.output_count; i++) {
        outputs[i] = w->outputs[i];
        outputs[i].name = w->results[i];
    }
    op.outputs = outputs;
    op.attributes = w->attributes;
    op.steps = w->steps;
    for (uint32_t i = 0; i < op.input_count; i++) {
        inputs[i] = w->inputs[i];
        inputs[i].name = w->operands[i];
        call.inputs[i] = at[i].host + at[i].first;
        if (!inputs[i].layout) continue;
        const int64_t *s = inputs[i].shape, strides[4] = {s[1] * s[2] * s[3], s[2] * s[3], s[3], 1};
        const uint64_t weight = (uint64_t)(s[0] * strides[0]) * presil_dtype_bits(inputs[i].dtype) / 8;
        const uint8_t *behind = at[i].host + ((weight + 3) & ~3ull);
        memcpy(inputs[i].stride, strides, sizeof strides);
        call.bias = w->packed->desc.bias ? behind : NULL;
        call.scale = w->packed->desc.scale ? (const float *)(const void *)(behind + (call.bias ? 4 * s[0] : 0)) : NULL;
    }
    return presil_reference_compute(&call, out, error->text, error->bytes);
}

static int take(struct work *w, const presil_op *op, presil_error_buffer *error) {
    if (op->attribute_count > 8 || op->step_count > 8)
        return fail(error, PRESIL_EUNSUPPORTED, "this chip takes 8 attributes and steps");
    w->op = *op;
    for (uint32_t i = 0; i < op->input_count; i++) {
        w->inputs[i] = op->inputs[i];
        (void)snprintf(w->operands[i], sizeof w->operands[i], "%s", op->inputs[i].name);
        if (op->inputs[i].layout) w->packed = op->inputs[i].layout;
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        w->outputs[i] = op->outputs[i];
        (void)snprintf(w->results[i], sizeof w->results[i], "%s", op->outputs[i].name);
    }
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        const presil_attribute *from = &op->attributes[i];
        presil_attribute *to = &w->attributes[i];
        *to = (presil_attribute){.name = w->names[i], .count = from->count};
        (void)snprintf(w->names[i], sizeof w->names[i], "%s", from->name);
        if (from->text) to->text = w->texts[i];
        if (from->text) (void)snprintf(w->texts[i], sizeof w->texts[i], "%s", from->text);
        if (from->count > PRESIL_OP_DIMS) return fail(error, PRESIL_EUNSUPPORTED, "an attribute of too many numbers");
        if (from->integers) to->integers = memcpy(w->integers[i], from->integers, from->count * sizeof(int64_t));
        if (from->reals && from->count) w->reals[i] = from->reals[0], to->reals = &w->reals[i];
    }
    for (uint32_t i = 0; i < op->step_count; i++) {
        w->steps[i] = op->steps[i];
        if (asked("loose")) w->steps[i].low -= 1, w->steps[i].high += 1;
    }
    if (asked("swapped") && op->step_count > 1) w->steps[0] = op->steps[1], w->steps[1] = op->steps[0];
    return PRESIL_OK;
}

static int64_t elements(const presil_operand *t) {
    int64_t count = 1;
    for (uint32_t i = 0; i < t->ndim; i++) count = t->shape[i] > MOST_ELEMENTS ? t->shape[i] : count * t->shape[i];
    return count;
}

static bool has_more(const struct work *w, const char *word) {
    const char *most = asked(word);
    const presil_operand *out = &w->outputs[0];
    bool more = most && out->ndim && out->shape[out->ndim - 1] > atoll(most);
    for (uint32_t i = 0; most && i < w->op.input_count; i++)
        more = more || (w->inputs[i].ndim && w->inputs[i].shape[w->inputs[i].ndim - 1] > atoll(most));
    return more;
}

/* ---- planning: tried on zeros, wherever the operands lie */
static int try_it(const struct work *w, presil_error_buffer *error) {
    extent at[PRESIL_OP_INPUTS] = {0};
    presil_reference *result = NULL;
    int status = has_more(w, "few=") ? fail(error, PRESIL_EUNSUPPORTED, "so many channels are too many") : PRESIL_OK;
    for (uint32_t i = 0; i < w->op.input_count && !status; i++) {
        const presil_operand *t = &w->inputs[i];
        if (elements(t) > MOST_ELEMENTS) status = fail(error, PRESIL_EUNSUPPORTED, "at most 65536 elements");
        at[i] = t->layout ? (extent){.bytes = packed_bytes(t->layout)} : extent_of(t);
        if (at[i].bytes > 1u << 24) status = fail(error, PRESIL_EUNSUPPORTED, "operands reach over 16 MiB at most");
        at[i].host = status ? NULL : calloc(1, at[i].bytes + 1);
    }
    if (!status) status = compute(w, at, &result, error);
    for (uint32_t i = 0; i < w->op.input_count; i++) free(at[i].host);
    presil_reference_free(result);
    return status ? PRESIL_EUNSUPPORTED : PRESIL_OK;
}

static int any_supports(const presil_chip *chip, const presil_op *op, presil_error_buffer *error) {
    (void)chip;
    struct work *w = calloc(1, sizeof *w);
    if (!w) return fail(error, PRESIL_EHOSTMEM, "no host memory for an operator");
    int status = take(w, op, error);
    if (!status) status = try_it(w, error);
    free(w);
    return status;
}

static int any_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error) {
    const presil_daddr none = {0};
    if (op->kind == PRESIL_OP_NOP) return plan_copy(chip, none, none, 0, out, error);
    struct work *w = calloc(1, sizeof *w);
    if (!w) return fail(error, PRESIL_EHOSTMEM, "no host memory for an operator");
    int status = take(w, op, error);
    if (!status) status = try_it(w, error);
    const extent first = op->input_count ? extent_of(&op->inputs[0]) : (extent){.base = none};
    const presil_daddr page = {first.base.value & ~4095ull};
    if (!status) status = plan_copy(chip, page, page, asked("stray") ? 4096 : 0, out, error);
    if (status) {
        free(w);
        return status;
    }
    for (uint32_t i = 0; i < op->input_count; i++) {
        const extent e = extent_of(&op->inputs[i]);
        const presil_layout *l = op->inputs[i].layout;
        w->reads[i] = (presil_byte_range){l ? op->inputs[i].data : e.base, l ? packed_bytes(l) : e.bytes};
    }
    w->op.input_count = (uint32_t)op->input_count;
    (*out)->work = w;
    return PRESIL_OK;
}

static int any_plan_info(const presil_plan *plan, presil_plan_info *out) {
    const struct work *w = plan->work;
    if (!w) return stub_plan_info(plan, out);
    static _Thread_local presil_byte_range reads[PRESIL_OP_INPUTS], writes[PRESIL_OP_OUTPUTS];
    uint32_t count = 0;
    memcpy(reads, w->reads, sizeof reads);
    for (uint32_t i = 0; i < w->op.output_count; i++) {
        const extent e = extent_of(&w->outputs[i]);
        if (e.bytes) writes[count++] = (presil_byte_range){e.base, e.bytes};
    }
    const int64_t *a = w->inputs[0].shape, *b = w->outputs[0].shape;
    const presil_plan_info own = {.label = presil_op_name(w->op.kind),
                                  .macs = w->op.kind == PRESIL_OP_MATMUL ? (uint64_t)(a[0] * a[1] * a[2] * b[2]) : 0,
                                  .passes = 1,
                                  .descriptors = 1,
                                  .segments = 1,
                                  .reads = reads,
                                  .writes = writes,
                                  .read_count = (uint32_t)presil_merge_ranges(reads, w->op.input_count),
                                  .write_count = (uint32_t)presil_merge_ranges(writes, count)};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

static void any_plan_free(presil_plan *plan) {
    free(plan->work);
    stub_plan_free(plan);
}

/* ---- running */
static void spoil(const struct work *w, uint32_t output, uint8_t *element) {
    const char *kind = asked("wrong="), *name = asked("spoilt=");
    const bool first = strcmp(w->results[output], "output") == 0;
    const bool wrong = first && kind && strncmp(kind, presil_op_name(w->op.kind), strlen(kind)) == 0;
    const bool spoilt = name && strcmp(name, w->results[output]) == 0;
    if (!wrong && !spoilt && !(first && has_more(w, "wide="))) return;
    const uint32_t dtype = w->outputs[output].dtype, bits = presil_dtype_bits(dtype);
    const bool real = dtype == PRESIL_BF16 || dtype == PRESIL_FP32 || dtype == PRESIL_FP16;
    element[bits / 8 ? bits / 8 - 1 : 0] ^= real ? 8 : 0; /* of the exponent */
    element[0] ^= real ? 0 : 1;
}

static void shift(const char *name, uint8_t *at, uint64_t bytes, uint64_t element) {
    const char *which = asked("shifted=");
    if (which && strncmp(which, name, strlen(name)) == 0 && bytes > element) memmove(at, at + element, bytes - element);
}

static void shift_operand(const struct work *w, uint32_t i, const extent *at) {
    const presil_operand *t = &w->inputs[i];
    if (!t->layout) return shift(w->operands[i], at->host, at->bytes, presil_dtype_bits(t->dtype) / 8);
    const presil_weights_desc *d = &t->layout->desc;
    const uint64_t channels = 4 * (uint64_t)d->shape[0];
    uint8_t *scale = at->host + at->bytes - channels, *bias = scale - (d->scale ? channels : 0);
    if (d->scale) shift("packed-scale", scale, channels, 4);
    if (d->bias) shift("packed-bias", bias, channels, 4);
}

static int write_results(const struct work *w, const presil_reference *result, const presil_link *link) {
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < w->op.output_count && !status; i++) {
        extent to = extent_of(&w->outputs[i]);
        if (!to.bytes) continue;
        to.host = malloc(to.bytes);
        status = link->ops->mem_read(link->handle, to.base, to.host, to.bytes);
        if (!status) {
            presil_reference_store(presil_reference_output(result, i), to.host + to.first);
            spoil(w, i, to.host + to.first);
            status = link->ops->mem_write(link->handle, to.base, to.host, to.bytes);
        }
        free(to.host);
    }
    return status;
}

static int run_once(const struct work *w, const presil_link *link, presil_error_buffer *error) {
    extent at[PRESIL_OP_INPUTS] = {0};
    presil_reference *result = NULL;
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < w->op.input_count && !status; i++) {
        const presil_operand *t = &w->inputs[i];
        at[i] = t->layout ? (extent){t->data, packed_bytes(t->layout), 0, NULL} : extent_of(t);
        at[i].host = malloc(at[i].bytes + 1);
        status = link->ops->mem_read(link->handle, at[i].base, at[i].host, at[i].bytes);
        shift_operand(w, i, &at[i]);
    }
    if (!status) status = compute(w, at, &result, error);
    if (!status) status = write_results(w, result, link);
    for (uint32_t i = 0; i < w->op.input_count; i++) free(at[i].host);
    presil_reference_free(result);
    return status ? fail(error, PRESIL_EBUS, "an operand can't be read or written") : PRESIL_OK;
}

static int run_work(const struct work *w, const presil_link *link, presil_error_buffer *error) {
    bool again = false;
    for (uint32_t i = 0; i < w->op.input_count && asked("twice"); i++)
        again = again || presil_same_elements(&w->inputs[i], &w->outputs[0]);
    const int status = run_once(w, link, error);
    return status || !again ? status : run_once(w, link, error);
}

static int any_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                      const presil_plan *plan, uint32_t segment, presil_error_buffer *error) {
    const int status = plan->work ? run_work(plan->work, link, error) : PRESIL_OK;
    return status ? status : stub_submit(chip, link, memory, plan, segment, error);
}

/* ---- packed weights: O, KH, KW, I/groups, then bias and scale as they are */
static int any_layout(const presil_chip *chip, const presil_weights_desc *desc, presil_layout **out, uint64_t *bytes,
                      presil_error_buffer *error) {
    (void)chip;
    presil_layout *l = malloc(sizeof *l);
    if (!l) return fail(error, PRESIL_EHOSTMEM, "no host memory for a layout");
    l->desc = *desc;
    *out = l;
    *bytes = packed_bytes(l);
    return PRESIL_OK;
}

static int any_pack(const presil_chip *chip, const presil_layout *layout, const presil_weights_desc *d, void *to,
                    presil_error_buffer *error) {
    (void)chip, (void)layout, (void)error;
    const int64_t *s = d->shape, element = presil_dtype_bits(d->weight_dtype) / 8;
    uint8_t *out = to;
    for (int64_t i = 0; i < s[0] * s[1] * s[2] * s[3]; i++, out += element) {
        const int64_t c = i % s[1], x = i / s[1] % s[3], y = i / s[1] / s[3] % s[2], o = i / s[1] / s[3] / s[2];
        const int64_t at = o * d->stride[0] + c * d->stride[1] + y * d->stride[2] + x * d->stride[3];
        memcpy(out, (const uint8_t *)d->weight + at * element, (size_t)element);
    }
    out = (uint8_t *)to + ((((uint64_t)(out - (uint8_t *)to)) + 3) & ~3ull);
    if (d->bias) memcpy(out, d->bias, 4 * (size_t)s[0]), out += 4 * s[0];
    if (d->scale) memcpy(out, d->scale, 4 * (size_t)s[0]);
    return PRESIL_OK;
}

static void any_layout_free(presil_layout *layout) { free(layout); }

static int any_limits(const presil_chip *chip, presil_chip_limits *out) {
    (void)chip;
    const char *rough = asked("rough=");
    const presil_chip_limits own = {.address_bits = 40,
                                    .buffer_alignment = STUB_CHUNK * 16,
                                    .numerics = rough ? PRESIL_NUMERICS_TOLERANCE : PRESIL_NUMERICS_IEEE,
                                    .tolerance = rough ? strtod(rough, NULL) : 0,
                                    .in_place = !asked("apart")};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

const presil_chip_ops *presil_chip_entry(void);
__attribute__((visibility("default"))) const presil_chip_ops *presil_chip_entry(void) {
    static presil_chip_ops ops;
    ops = *stub_entry();
    ops.limits = any_limits;
    ops.layout = any_layout;
    ops.pack = any_pack;
    ops.layout_free = any_layout_free;
    ops.supports = any_supports;
    ops.plan = any_plan;
    ops.plan_info = any_plan_info;
    ops.describe = NULL;
    ops.plan_free = any_plan_free;
    ops.submit = any_submit;
    return &ops;
}
