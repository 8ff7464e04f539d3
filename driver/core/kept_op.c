/* SPDX-License-Identifier: Apache-2.0 */
/* Operators that stay with their launch. */
#include "kept_op.h"
#include "queue.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for what a struct points to, measured first (at NULL), then filled. */
typedef struct {
    uint8_t *at;
    size_t used;
} room;

static void *put(room *r, const void *from, size_t bytes) {
    void *to = r->at && from ? r->at + r->used : NULL;
    if (to) memcpy(to, from, bytes);
    r->used += from ? (bytes + 7) & ~(size_t)7 : 0;
    return to;
}

static const char *put_text(room *r, const char *text) { return put(r, text, text ? strlen(text) + 1 : 0); }

/* ---- weights: O, KH, KW, I/groups without gaps */
struct kept_weights {
    atomic_int references;
    atomic_bool replaced;
    presil_weights_desc desc; /* with what is below, in its own order of dimensions */
    void *weight, *bias;      /* weight NULL: its values did not stay */
    float *scale;
    int64_t stride[4]; /* of the operand */
};

static pthread_mutex_t replacing = PTHREAD_MUTEX_INITIALIZER;

static void copy_weight(const presil_weights_desc *d, uint8_t *to, size_t element) {
    for (int64_t o = 0; o < d->shape[0]; o++) {
        for (int64_t y = 0; y < d->shape[2]; y++) {
            for (int64_t x = 0; x < d->shape[3]; x++) {
                for (int64_t c = 0; c < d->shape[1]; c++, to += element) {
                    const int64_t at = o * d->stride[0] + c * d->stride[1] + y * d->stride[2] + x * d->stride[3];
                    memcpy(to, (const uint8_t *)d->weight + at * (int64_t)element, element);
                }
            }
        }
    }
}

kept_weights *presil_keep_weights(const presil_weights_desc *d, bool values) {
    const size_t element = presil_dtype_bits(d->weight_dtype) / 8, outputs = (size_t)d->shape[0] * sizeof(float);
    const int64_t pixel = d->shape[1], row = d->shape[3] * pixel, kernel = d->shape[2] * row;
    kept_weights *w = calloc(1, sizeof *w);
    if (!w) return NULL;
    atomic_init(&w->references, 1);
    atomic_init(&w->replaced, false);
    memcpy(w->stride, (const int64_t[4]){kernel, row, pixel, 1}, sizeof w->stride);
    w->weight = values ? malloc((size_t)(d->shape[0] * kernel) * element) : NULL;
    w->bias = d->bias ? malloc(outputs) : NULL;
    w->scale = d->scale ? malloc(outputs) : NULL;
    if (!w->weight != !values || !w->bias != !d->bias || !w->scale != !d->scale) {
        presil_kept_weights_drop(w);
        return NULL;
    }
    if (values) copy_weight(d, w->weight, element);
    if (d->bias) memcpy(w->bias, d->bias, outputs);
    if (d->scale) memcpy(w->scale, d->scale, outputs);
    w->desc = *d;
    w->desc.weight = w->weight;
    w->desc.bias = w->bias;
    w->desc.scale = w->scale;
    memcpy(w->desc.stride, (const int64_t[4]){kernel, 1, row, pixel}, sizeof w->desc.stride);
    return w;
}

kept_weights *presil_kept_weights_of(kept_weights *const *place) {
    (void)pthread_mutex_lock(&replacing);
    kept_weights *w = *place;
    if (w) (void)atomic_fetch_add(&w->references, 1);
    (void)pthread_mutex_unlock(&replacing);
    return w;
}

void presil_kept_weights_replace(kept_weights **place, kept_weights *by) {
    (void)pthread_mutex_lock(&replacing);
    kept_weights *before = *place;
    *place = by;
    if (before) atomic_store(&before->replaced, true);
    (void)pthread_mutex_unlock(&replacing);
    presil_kept_weights_drop(before);
}

void presil_kept_weights_drop(kept_weights *w) {
    if (!w || atomic_fetch_sub(&w->references, 1) != 1) return;
    free(w->weight);
    free(w->bias);
    free(w->scale);
    free(w);
}

/* ---- operators */
struct kept_op {
    presil_op op; /* points into what follows */
    presil_operand inputs[PRESIL_OP_INPUTS], outputs[PRESIL_OP_OUTPUTS];
    kept_weights *weights; /* a reference; NULL: none, or not known */
    uint64_t parts[];
};

static void put_operands(room *r, presil_operand *to, const presil_operand *from, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const char *name = put_text(r, from[i].name);
        if (!to) continue;
        to[i] = from[i];
        to[i].name = name;
    }
}

static const presil_attribute *put_attributes(room *r, const presil_op *op) {
    presil_attribute *list = put(r, op->attributes, op->attribute_count * sizeof *list);
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        const presil_attribute *from = &op->attributes[i];
        const presil_attribute own = {.name = put_text(r, from->name),
                                      .count = from->count,
                                      .integers = put(r, from->integers, from->count * sizeof *from->integers),
                                      .reals = put(r, from->reals, from->count * sizeof *from->reals),
                                      .text = put_text(r, from->text)};
        if (list) list[i] = own;
    }
    return list;
}

static void copy_parts(room *r, kept_op *to, const presil_op *op) {
    put_operands(r, to ? to->inputs : NULL, op->inputs, op->input_count);
    put_operands(r, to ? to->outputs : NULL, op->outputs, op->output_count);
    const presil_attribute *attributes = put_attributes(r, op);
    const presil_step *steps = put(r, op->steps, op->step_count * sizeof *steps);
    const char *label = put_text(r, op->label);
    if (!to) return;
    to->op = *op;
    to->op.inputs = to->inputs;
    to->op.outputs = to->outputs;
    to->op.attributes = attributes;
    to->op.steps = steps;
    to->op.label = label;
}

kept_op *presil_keep_op(const presil_op *op, kept_weights *weights) {
    room measured = {0};
    copy_parts(&measured, NULL, op);
    kept_op *kept = malloc(sizeof *kept + measured.used);
    if (kept) {
        copy_parts(&(room){.at = (uint8_t *)kept->parts}, kept, op);
        kept->weights = weights;
    } else {
        presil_kept_weights_drop(weights);
    }
    return kept;
}

static void move_operands(presil_operand *to, const presil_operand *from, uint32_t operands, const presil_move *moves,
                          uint32_t count) {
    for (uint32_t i = 0; i < operands; i++) {
        to[i] = from[i];
        to[i].data = presil_moved(moves, count, from[i].data);
    }
}

kept_op *presil_keep_moved_op(const kept_op *kept, const presil_move *moves, uint32_t count) {
    presil_operand inputs[PRESIL_OP_INPUTS], outputs[PRESIL_OP_OUTPUTS];
    presil_op op = kept->op;
    move_operands(inputs, kept->inputs, op.input_count, moves, count);
    move_operands(outputs, kept->outputs, op.output_count, moves, count);
    op.inputs = inputs;
    op.outputs = outputs;
    return presil_keep_op(&op, presil_kept_weights_of(&kept->weights));
}

bool presil_kept_op_outdated(const kept_op *op) { return op->weights && atomic_load(&op->weights->replaced); }

const presil_op *presil_kept_op_get(const kept_op *op) { return &op->op; }

const presil_weights_desc *presil_kept_op_weights(const kept_op *op) { return op->weights ? &op->weights->desc : NULL; }

int presil_kept_op_compute(const kept_op *kept, const uint8_t *memory, presil_daddr base, const void *const *laid,
                           presil_reference **out, char *text, size_t bytes) {
    presil_operand inputs[PRESIL_OP_INPUTS];
    presil_op op = kept->op;
    presil_reference_call call = {.size = sizeof call, .op = &op};
    op.inputs = inputs;
    for (uint32_t i = 0; i < op.input_count; i++) {
        inputs[i] = kept->inputs[i];
        call.inputs[i] = memory + (inputs[i].data.value - base.value);
        if (!inputs[i].layout) continue;
        if (!inputs[i].weights && laid[i]) {
            call.inputs[i] = laid[i];
            continue;
        }
        if (!inputs[i].weights || !kept->weights || !kept->weights->weight) {
            (void)snprintf(text, bytes, "what its packed %s was packed from is not known: pack it in mode VERIFY",
                           inputs[i].name);
            return PRESIL_EUNSUPPORTED;
        }
        memcpy(inputs[i].stride, kept->weights->stride, sizeof kept->weights->stride);
        call.inputs[i] = kept->weights->weight;
        call.bias = kept->weights->bias;
        call.scale = kept->weights->scale;
    }
    return presil_reference_compute(&call, out, text, bytes);
}

void presil_tensors_drop(launch_tensors *tensors) {
    if (!tensors) return;
    if (tensors->op) {
        presil_kept_weights_drop(tensors->op->weights);
        free(tensors->op);
    }
    free(tensors);
}
