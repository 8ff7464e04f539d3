/* SPDX-License-Identifier: Apache-2.0 */
/* operator.h - what was asked of the chip (presil_bundle_asked) as an operator that it may be asked for again, and the
 * same operator with smaller sizes. */
#ifndef PRESIL_REPLAY_OPERATOR_H
#define PRESIL_REPLAY_OPERATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "presil_bundle.h"
#include "presil_op.h"

enum { MOST_ATTRIBUTES = 16, MOST_INTEGERS = 8, MOST_STEPS = 8, MOST_SIZES = 2 * PRESIL_OP_DIMS + 4 };

/* operator_link() makes `op` point into its own room: after each copy of the struct. */
typedef struct {
    presil_op op;
    presil_operand inputs[PRESIL_OP_INPUTS], outputs[PRESIL_OP_OUTPUTS];
    bool packed_inputs[PRESIL_OP_INPUTS], packed_outputs[PRESIL_OP_OUTPUTS];
    presil_attribute attributes[MOST_ATTRIBUTES];
    int64_t integers[MOST_ATTRIBUTES][MOST_INTEGERS];
    double reals[MOST_ATTRIBUTES][MOST_INTEGERS];
    presil_step steps[MOST_STEPS];
} asked_op;

/* Of names that the record keeps. false: `why` says what this version doesn't know, or what makes no sense. */
bool operator_take(const presil_bundle_asked *asked, const char *label, asked_op *out, char *why, size_t bytes);
void operator_link(asked_op *o);

/* What can be made smaller, by names of the field: "batch", "rows", "kernel rows", "channels in". */
typedef struct {
    const char *name;
    int64_t size;
} op_size;

/* How many; 0: nothing is known of this kind. */
uint32_t operator_sizes(const asked_op *o, op_size out[MOST_SIZES]);
/* The operator with these sizes, at most its own: each operand is the corner at its first element. false: no such
 * operator. */
bool operator_shrink(const asked_op *from, const op_size *sizes, uint32_t count, asked_op *to);

#endif
