/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_reference.h - what an operator of presil_op.h comes to, in plain C on the host: every kind, every dtype, every
 * step; slow, and of no chip. Integers are exact; sums of floating-point products are formed in double and rounded
 * once. Mode VERIFY of a chip without an executor and `presil conform` compare with it.
 *
 * What it takes as right, beside the one result: where an element passes through a float (a scale, a division, a sum of
 * floats), a chip may round to fp32 there, and add in any order. `slack` is the most that this can make: of n products
 * p, (n + 2) * 2^-24 * sum |p|; of an exact value that fp32 holds, nothing. A result may be off by slack, and is then
 * rounded to its dtype; results that are too small for a normal number may be 0. An integer result that went through no
 * float has no slack.
 */
#ifndef PRESIL_REFERENCE_H
#define PRESIL_REFERENCE_H

#include "presil_op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct presil_reference presil_reference; /* results of one operator */

typedef struct {
    uint32_t size, reserved;
    const presil_op *op;                  /* `data` of its operands counts for nothing, `layout` neither: strides do */
    const void *inputs[PRESIL_OP_INPUTS]; /* element [0, 0, ...] of each, in host memory; INT4: in the low half */
    /* Of packed weights (presil_weights_desc), an element for each output channel: (x + bias) * scale before the first
     * step. bias: int32 for COMPUTE_INT8, else fp32. NULL: none. */
    const void *bias;
    const float *scale;
} presil_reference_call;

typedef struct {
    uint32_t size, reserved;
    uint64_t compared, differing; /* elements */
    /* Of the first that differs, in the order of rows: its coordinate, its distance from element [0, 0, ...] in bytes
     * (INT4: of the byte that has it), its bytes as expected and as found, the lowest first, and both as text. */
    int64_t at[PRESIL_OP_DIMS], offset;
    uint64_t expected_bits, found_bits;
    char expected[64], found[32];
} presil_reference_difference;

/* Computes the operator from its inputs as they are now. EUNSUPPORTED: the reference doesn't know a kind, an attribute,
 * a function or a step; EINVAL: shapes that don't fit, an index out of range; the reason in `text` (of `bytes` bytes).
 * The result is the caller's: presil_reference_free(). */
PRESIL_CHECKED int presil_reference_compute(const presil_reference_call *call, presil_reference **out, char *text,
                                            size_t bytes);
/* Writes the results to an operand of the output's shape and dtype, whose element [0, 0, ...] lies at `to`. */
PRESIL_API void presil_reference_store(const presil_reference *reference, void *to);
/* Compares what lies at `found`, as presil_reference_store() would have written it. tolerance: largest difference of
 * floating-point results, relative to the largest magnitude of all of them, in place of slack; < 0: slack. */
PRESIL_API void presil_reference_compare(const presil_reference *reference, const void *found, double tolerance,
                                         presil_reference_difference *out);
/* The results of output number n of the operator, whose "output" is what presil_reference_compute() gave; they go with
 * it. NULL: it has no such output. */
PRESIL_API const presil_reference *presil_reference_output(const presil_reference *reference, uint32_t n);
PRESIL_API void presil_reference_free(presil_reference *reference);

#ifdef __cplusplus
}
#endif
#endif
