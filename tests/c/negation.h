/* SPDX-License-Identifier: Apache-2.0 */
/* negation.h - the operator that the small chips of tests have: -input, element by element. */
#ifndef NEGATION_H
#define NEGATION_H

#include "presil_op.h"

/* op points into the rest. */
typedef struct {
    presil_operand in, out;
    presil_attribute function;
    presil_op op;
} negation;

static inline void negation_make(negation *n, uint32_t dtype, presil_daddr from, presil_daddr to, int64_t elements,
                                 const char *label) {
    n->in =
        (presil_operand){.name = "input", .data = from, .dtype = dtype, .ndim = 1, .shape = {elements}, .stride = {1}};
    n->out = n->in;
    n->out.name = "output";
    n->out.data = to;
    n->function = (presil_attribute){.name = "function", .text = "neg"};
    n->op = (presil_op){.size = sizeof n->op,
                        .kind = PRESIL_OP_ELEMENTWISE,
                        .label = label,
                        .inputs = &n->in,
                        .outputs = &n->out,
                        .input_count = 1,
                        .output_count = 1,
                        .attributes = &n->function,
                        .attribute_count = 1};
}

static inline int negation_enqueue(presil_device *device, presil_stream *stream, uint32_t dtype, presil_daddr from,
                                   presil_daddr to, int64_t elements, const char *label) {
    negation n;
    negation_make(&n, dtype, from, to, elements, label);
    return presil_op_enqueue(device, stream, &n.op);
}

#endif
