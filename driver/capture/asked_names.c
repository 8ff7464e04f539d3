/* SPDX-License-Identifier: Apache-2.0 */
/* An operator as it was asked for, in the names of a bundle. */
#include "store.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

const char *capture_dtype(uint32_t dtype) {
    static const char *const names[] = {"int8",    "bfloat16", "float32",       "int32",       "uint8", "int16",
                                        "float16", "int4",     "float8_e4m3fn", "float8_e5m2", "int64"};
    return dtype < sizeof names / sizeof *names ? names[dtype] : "unknown";
}

static void take_operands(const presil_operand *from, uint32_t count, presil_bundle_operand *to) {
    for (uint32_t i = 0; i < count; i++)
        to[i] = (presil_bundle_operand){.name = from[i].name,
                                        .dtype = capture_dtype(from[i].dtype),
                                        .data = from[i].data,
                                        .shape = from[i].shape,
                                        .stride = from[i].stride,
                                        .ndim = from[i].ndim,
                                        .packed = from[i].layout != NULL};
}

/* Doubles lie in a bundle as their bits. */
static void take_attributes(const presil_op *op, presil_bundle_attribute *to) {
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        const presil_attribute *a = &op->attributes[i];
        to[i] = (presil_bundle_attribute){.name = a->name,
                                          .integers = a->integers,
                                          .reals = (const void *)a->reals,
                                          .text = a->text,
                                          .integer_count = a->integers ? a->count : 0,
                                          .real_count = a->reals ? a->count : 0};
    }
}

static void take_steps(const presil_op *op, presil_bundle_step *to) {
    static const char *const names[] = {"scale", "add", "clamp", "quantize"};
    for (uint32_t i = 0; i < op->step_count; i++) {
        const presil_step *s = &op->steps[i];
        to[i] = (presil_bundle_step){.kind = s->kind < sizeof names / sizeof *names ? names[s->kind] : "unknown",
                                     .input = s->input == PRESIL_NO_OPERAND ? -1 : (int32_t)s->input,
                                     .zero_point = s->zero_point,
                                     .int_low = s->int_low,
                                     .int_high = s->int_high};
        memcpy(&to[i].scale_bits, &s->scale, sizeof s->scale);
        memcpy(&to[i].low_bits, &s->low, sizeof s->low);
        memcpy(&to[i].high_bits, &s->high, sizeof s->high);
    }
}

bool asked_make(const presil_capture_launch *launch, presil_bundle_asked *out) {
    enum { HAS = offsetof(presil_capture_launch, asked_weights) + sizeof launch->asked_weights };
    const presil_op *op = launch->size >= HAS ? launch->asked : NULL;
    *out = (presil_bundle_asked){.present = 0};
    if (!op || !presil_op_name(op->kind)) return true;
    presil_bundle_operand *operands = calloc(op->input_count + op->output_count + 1, sizeof *operands);
    presil_bundle_attribute *attributes = calloc(op->attribute_count + 1, sizeof *attributes);
    presil_bundle_step *steps = calloc(op->step_count + 1, sizeof *steps);
    *out = (presil_bundle_asked){.present = 1,
                                 .compute = op->compute,
                                 .tiling = op->tiling,
                                 .kind = presil_op_name(op->kind),
                                 .inputs = operands,
                                 .attributes = attributes,
                                 .steps = steps};
    if (!operands || !attributes || !steps) {
        asked_free(out);
        return false;
    }
    take_operands(op->inputs, op->input_count, operands);
    take_operands(op->outputs, op->output_count, operands + op->input_count);
    take_attributes(op, attributes);
    take_steps(op, steps);
    out->outputs = operands + op->input_count;
    out->input_count = op->input_count;
    out->output_count = op->output_count;
    out->attribute_count = op->attribute_count;
    out->step_count = op->step_count;
    const presil_weights_desc *w = launch->asked_weights;
    const uint64_t bytes = w ? (uint64_t)w->shape[0] * sizeof(float) : 0;
    if (w && w->bias) out->bias = w->bias, out->bias_bytes = bytes;
    if (w && w->scale) out->scale = w->scale, out->scale_bytes = bytes;
    return true;
}

void asked_free(presil_bundle_asked *asked) {
    free((void *)(uintptr_t)asked->inputs);
    free((void *)(uintptr_t)asked->attributes);
    free((void *)(uintptr_t)asked->steps);
    *asked = (presil_bundle_asked){.present = 0};
}
