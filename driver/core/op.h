/* SPDX-License-Identifier: Apache-2.0 */
/* op.h - an operator on its way from whoever asks for it to the chip: room for its parts, and what is done with it. */
#ifndef PRESIL_CORE_OP_H
#define PRESIL_CORE_OP_H

#include <stdint.h>
#include "presil.h"
#include "presil_op.h"

enum { OP_ATTRIBUTES = 8, OP_STEPS = 3 };

/* op points into its own room. Lists are filled as far as their counts; the rest is not initialised. */
typedef struct {
    presil_op op;
    presil_operand inputs[PRESIL_OP_INPUTS], outputs[PRESIL_OP_OUTPUTS];
    presil_attribute attributes[OP_ATTRIBUTES];
    presil_step steps[OP_STEPS];
    int64_t integers[2 * OP_ATTRIBUTES];
    uint32_t integer_count;
} op_room;

void presil_op_begin(op_room *room, uint32_t kind, const char *label, uint32_t compute, uint32_t tiling);
presil_operand *presil_op_add(op_room *room, const char *name, const presil_tensor *tensor); /* an input */
void presil_op_add_output(op_room *room, const presil_tensor *tensor);
/* An attribute, unless all of it is `otherwise`. */
void presil_op_set(op_room *room, const char *name, const int64_t *values, uint32_t count, int64_t otherwise);
/* Residual, clamp and quantisation as inputs and steps; after the output. */
void presil_op_add_epilogue(op_room *room, const presil_epilogue *epilogue);
/* First thing in every operator: device and stream are good, and the chip is there if it is needed. */
int presil_op_enter(presil_device *device, presil_stream **stream);
/* Checks the operands, has the chip plan, and enqueues. */
int presil_op_run(presil_device *device, presil_stream *stream, op_room *room);

#endif
