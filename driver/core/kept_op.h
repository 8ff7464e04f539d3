/* SPDX-License-Identifier: Apache-2.0 */
/* kept_op.h - operators that stay with their launch, and what their packed weights were packed from: for whoever
 * listens (presil_capture.h), and for mode VERIFY of a chip without an executor. */
#ifndef PRESIL_CORE_KEPT_OP_H
#define PRESIL_CORE_KEPT_OP_H

#include <stdbool.h>
#include "presil_op.h"
#include "presil_reference.h"
#include "queue.h"

typedef struct kept_weights kept_weights; /* as they were given; counted references */

/* Copies bias and scale, and with `values` the weights too. NULL: no host memory. */
kept_weights *presil_keep_weights(const presil_weights_desc *desc, bool values);
/* In `place`, which any thread may read and replace: a reference to what is there (NULL: nothing); the new one (or
 * NULL), whose reference moves. */
kept_weights *presil_kept_weights_of(kept_weights *const *place);
void presil_kept_weights_replace(kept_weights **place, kept_weights *by);
void presil_kept_weights_drop(kept_weights *weights);

/* A copy of all that the operator points to. weights: those of its packed operand, a reference, which moves here; NULL:
 * not known. NULL: no host memory. */
kept_op *presil_keep_op(const presil_op *op, kept_weights *weights);
/* The same with its operands moved; NULL: no host memory. */
kept_op *presil_keep_moved_op(const kept_op *kept, const presil_move *moves, uint32_t count);
/* With operands in `memory`, whose first byte is device address `base`; as presil_reference_compute(). laid: for each
 * input that is packed and no weights, its element [0, 0, ...] as it lies by its strides. */
int presil_kept_op_compute(const kept_op *op, const uint8_t *memory, presil_daddr base, const void *const *laid,
                           presil_reference **out, char *text, size_t bytes);
const presil_op *presil_kept_op_get(const kept_op *op);
/* As its weights were packed; `weight` is NULL where the values did not stay. NULL: it has none, or not known. */
const presil_weights_desc *presil_kept_op_weights(const kept_op *op);
/* Its weights were packed again, or given up, since it was made: a list that is submitted later has other ones. */
bool presil_kept_op_outdated(const kept_op *op);
void presil_tensors_drop(launch_tensors *tensors); /* NULL is allowed */

#endif
