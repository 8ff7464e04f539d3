/* SPDX-License-Identifier: Apache-2.0 */
/* What was asked, from names to numbers. */
#include "operator.h"

#include <stdio.h>
#include <string.h>

static const char *const dtypes[] = {"int8",    "bfloat16", "float32",       "int32",       "uint8", "int16",
                                     "float16", "int4",     "float8_e4m3fn", "float8_e5m2", "int64"};
static const char *const step_names[] = {"scale", "add", "clamp", "quantize"};

/* Its place in a list; the list's length: not there. */
static uint32_t find(const char *const *list, uint32_t count, const char *name) {
    uint32_t i = 0;
    while (i < count && strcmp(list[i], name) != 0) i++;
    return i;
}

static uint32_t kind_of(const char *name) {
    uint32_t kind = 0;
    while (presil_op_name(kind) && strcmp(presil_op_name(kind), name) != 0) kind++;
    return kind;
}

static bool take_operands(const presil_bundle_operand *from, uint32_t count, presil_operand *to, bool *packed) {
    enum { DTYPES = sizeof dtypes / sizeof *dtypes };
    for (uint32_t i = 0; i < count; i++) {
        const presil_bundle_operand *t = &from[i];
        const uint32_t dtype = find(dtypes, DTYPES, t->dtype);
        if (dtype == DTYPES || t->ndim > PRESIL_OP_DIMS) return false;
        to[i] = (presil_operand){.name = t->name, .data = t->data, .dtype = dtype, .ndim = t->ndim};
        for (uint32_t d = 0; d < t->ndim; d++) {
            if (t->shape[d] < 1) return false;
            to[i].shape[d] = t->shape[d];
            to[i].stride[d] = t->stride[d];
        }
        packed[i] = t->packed != 0;
    }
    return true;
}

static bool take_attributes(const presil_bundle_asked *asked, asked_op *o) {
    for (uint32_t i = 0; i < asked->attribute_count; i++) {
        const presil_bundle_attribute *a = &asked->attributes[i];
        if (a->integer_count > MOST_INTEGERS || a->real_count > MOST_INTEGERS || (a->integer_count && a->real_count))
            return false;
        for (uint32_t k = 0; k < a->integer_count; k++) o->integers[i][k] = a->integers[k];
        for (uint32_t k = 0; k < a->real_count; k++) memcpy(&o->reals[i][k], &a->reals[k], sizeof(double));
        o->attributes[i] = (presil_attribute){.name = a->name,
                                              .count = a->integer_count + a->real_count,
                                              .integers = a->integer_count ? o->integers[i] : NULL,
                                              .reals = a->real_count ? o->reals[i] : NULL,
                                              .text = *a->text ? a->text : NULL};
    }
    return true;
}

static bool take_steps(const presil_bundle_asked *asked, asked_op *o) {
    enum { STEPS = sizeof step_names / sizeof *step_names };
    for (uint32_t i = 0; i < asked->step_count; i++) {
        const presil_bundle_step *s = &asked->steps[i];
        const uint32_t kind = find(step_names, STEPS, s->kind);
        if (kind == STEPS || s->input < -1 || (s->input >= 0 && (uint32_t)s->input >= asked->input_count)) return false;
        o->steps[i] = (presil_step){.kind = kind,
                                    .input = s->input < 0 ? PRESIL_NO_OPERAND : (uint32_t)s->input,
                                    .zero_point = s->zero_point,
                                    .int_low = s->int_low,
                                    .int_high = s->int_high};
        memcpy(&o->steps[i].scale, &s->scale_bits, sizeof(float));
        memcpy(&o->steps[i].low, &s->low_bits, sizeof(float));
        memcpy(&o->steps[i].high, &s->high_bits, sizeof(float));
    }
    return true;
}

void operator_link(asked_op *o) {
    o->op.inputs = o->inputs;
    o->op.outputs = o->outputs;
    o->op.attributes = o->attributes;
    o->op.steps = o->steps;
    for (uint32_t i = 0; i < o->op.attribute_count; i++) {
        if (o->attributes[i].integers) o->attributes[i].integers = o->integers[i];
        if (o->attributes[i].reals) o->attributes[i].reals = o->reals[i];
    }
}

bool operator_take(const presil_bundle_asked *asked, const char *label, asked_op *out, char *why, size_t bytes) {
    memset(out, 0, sizeof *out);
    if (!asked->present) {
        (void)snprintf(why, bytes,
                       "the file does not say what was asked of the chip (several operators in one launch, "
                       "or a file of an older version)");
        return false;
    }
    const uint32_t kind = kind_of(asked->kind);
    const bool fits = asked->input_count <= PRESIL_OP_INPUTS && asked->output_count <= PRESIL_OP_OUTPUTS &&
                      asked->attribute_count <= MOST_ATTRIBUTES && asked->step_count <= MOST_STEPS;
    if (!presil_op_name(kind) || !fits ||
        !take_operands(asked->inputs, asked->input_count, out->inputs, out->packed_inputs) ||
        !take_operands(asked->outputs, asked->output_count, out->outputs, out->packed_outputs) ||
        !take_attributes(asked, out) || !take_steps(asked, out)) {
        (void)snprintf(why, bytes, "what was asked (\"%.40s\") is of a newer version, or damaged", asked->kind);
        return false;
    }
    out->op = (presil_op){.size = sizeof out->op,
                          .kind = kind,
                          .label = label,
                          .compute = asked->compute,
                          .tiling = asked->tiling,
                          .input_count = asked->input_count,
                          .output_count = asked->output_count,
                          .attribute_count = asked->attribute_count,
                          .step_count = asked->step_count};
    operator_link(out);
    return true;
}
