/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_op.h - one operator, whatever it is: what presil_conv2d() and its like become, what a chip is asked about and
 * plans (presil_chip.h), and what anybody may enqueue (presil_op_enqueue, below). An operator has a kind, operands by
 * name, attributes by name, and steps that follow it. Kinds, attributes and steps are added without another ABI:
 * whoever meets one that it doesn't know says EUNSUPPORTED, and the operator runs on the host.
 *
 * presil_op_operand(), presil_op_integers() and the like read an operator; they need no library.
 */
#ifndef PRESIL_OP_H
#define PRESIL_OP_H

#include <stdint.h>
#include <string.h>
#include "presil.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Operands, then attributes ("name[count]: default"). Dimensions are named in their order; strides are anybody's.
 * An attribute that is not given has its default. Every kind has the output "output", some may have others, in any
 * order, which steps don't touch (who doesn't know one says EUNSUPPORTED); it may have the input
 * "residual", of the output's shape, for the step ADD. Between the first and the last dimension of convolutions and
 * pools there may be others than H and W, and as many of them; attributes that have a number for each go along.
 * What each comes to, in C: presil_reference.h. Integers are exact, sums of products wrap around to 32 bits (to 64
 * where an operand is INT64), integer results without a float in them to their dtype; others are rounded to nearest,
 * ties to even, and an integer dtype keeps them inside its bounds. */
typedef enum {
    PRESIL_OP_NOP = 0,  /* an empty launch; no operands, no output */
    PRESIL_OP_COPY = 1, /* input -> output, same shape and dtype */
    /* input [N, H, W, C], weight [O, KH, KW, C/groups] -> [N, OH, OW, O]; out(oh, ow) sums over positions
     * oh*stride + kh*dilation - padding of the (dilated) input. stride[2]: 1, padding[2]: 0 (may be negative),
     * dilation[2]: 1, input_dilation[2]: 1, groups[1]: 1 (as many as channels: depthwise), group_stride[1]: elements
     * from one group's kernels to the next's, default O/groups * weight.stride[0]; pad_value[1]: 0, what lies around
     * the input (int8: its zero point, as a byte). */
    PRESIL_OP_CONV = 2,
    PRESIL_OP_CONV_TRANSPOSE = 3, /* as CONV, input and output exchanged: weight [C, KH, KW, O/groups] */
    PRESIL_OP_DEPTHWISE = 4,      /* weight [C, KH, KW, 1]; presil_conv2d() sends CONV with groups = C */
    PRESIL_OP_MATMUL = 5,         /* a [B, M, K], b [B, K, N] -> [B, M, N]; batch strides may be 0 */
    /* input [N, H, W, C], grad [N, OH, OW, O] -> [O, KH, KW, C/groups], the gradient of CONV's weights; attributes of
     * CONV: stride, padding, dilation, groups. */
    PRESIL_OP_WEIGHT_GRADIENT = 6,
    /* input [N, H, W, C] -> [N, OH, OW, C]. kernel[2], stride[2]: kernel, padding[2]: 0, dilation[2]: 1;
     * AVERAGE: count_include_pad[1]: 1, divisor[1]: 0 (the window's size, without what lies behind the padding),
     * zero_point[1]: 0, which is taken from each element of the input (not from its padding, which is 0).
     * MAX: also output "index" (INT32 or INT64, of the output's shape): where in its plane the element stands that was
     * taken, y * W + x; the first of those that are equal, of several NaN the last. */
    PRESIL_OP_POOL_MAX = 7,
    PRESIL_OP_POOL_AVERAGE = 8,
    /* input [, other], broadcast (aligned at the last dimension) -> output. function (text): PyTorch's name, "add";
     * other (real) stands for an input of that name that is one number, and the result is computed as of floats.
     * "gelu": approximate (text): "none", or "tanh". "clamp" of floats, min(max(x, low), high), a NaN stays one: low,
     * high (real), which bound nothing where they are not given. As "clamp" PyTorch asks for relu6 and hardtanh, too.
     * An input may be the output (presil_op_in_place(), below). */
    PRESIL_OP_ELEMENTWISE = 9,
    /* input -> output. function (text): "sum", "mean", "prod", "amax", "amin"; dims[n]: all. The output has the input's
     * dimensions, 1 where it is reduced (PyTorch asks for this), or all but those. */
    PRESIL_OP_REDUCTION = 10,
    PRESIL_OP_SOFTMAX = 11, /* input -> output. dim[1]: the last; log[1]: 0 */
    /* input [, weight, bias, mean, variance]. function (text): "layer", "rms" (over as many of the last dimensions as
     * weight has, without one the last), "batch" (by channel, the last; with mean and variance, or over the input's
     * own), "group" (as "batch", of each image, groups[1] of channels); epsilon (real): 1e-5. "layer" and "rms": also
     * outputs "mean" (not "rms") and "rstd", 1 / sqrt(variance + epsilon): the input's shape, 1 where it goes over. */
    PRESIL_OP_NORM = 12,
    /* input, index (integers) -> output. dim[1]: 0. index of input's dimensions and output's shape: output[i, j, k] =
     * input[i, index[i, j, k], k] for dim 1; else index stands in place of dimension dim: output[i, ..., k] = input[i,
     * index[...], k]. */
    PRESIL_OP_GATHER = 13
} presil_op_kind;

enum { PRESIL_OP_DIMS = 8, PRESIL_OP_INPUTS = 8, PRESIL_OP_OUTPUTS = 4 };

/* Outputs share no byte with another operand, but for
 * - inputs of ELEMENTWISE, "residual" of others, that are the output: the same elements at the same places. Each of
 *   them is read for the same element of the result alone. Of ELEMENTWISE a chip is asked so if it says that it can
 *   (presil_chip_limits.in_place); of others plan() refuses what it can't.
 * - what a caller enqueues all the same; then the result is anything. */
typedef struct presil_layout presil_layout; /* how a tensor is packed: the chip's own */

typedef struct {
    const char *name;
    presil_daddr data;    /* of element [0, 0, ...]; any where an operator is only asked about */
    uint32_t dtype, ndim; /* presil_dtype, <= PRESIL_OP_DIMS */
    int64_t shape[PRESIL_OP_DIMS], stride[PRESIL_OP_DIMS]; /* elements, any sign; beyond ndim: anything */
    /* Packed by the chip (weights: presil_weights_operand(); activations: presil_chip_ops.activation()): `data` is
     * where the packed bytes begin, shape is what they stand for, strides mean nothing. Bias and scale that were packed
     * too are applied before the first step: (x + bias) * scale. NULL: strided elements. */
    const presil_layout *layout;
    const presil_weights *weights; /* whose layout it is: the driver's own; NULL: nobody's */
    uint64_t reserved;             /* 0 */
} presil_operand;

/* `count` integers, or reals; or a text. */
typedef struct {
    const char *name;
    uint32_t count, reserved;
    const int64_t *integers;
    const double *reals;
    const char *text;
} presil_attribute;

/* What happens to each element x of the result, in the order given, before it is converted to the output's dtype. */
typedef enum {
    PRESIL_STEP_SCALE = 0, /* x * scale; with an operand: times its element of x's channel (the last dimension) alone */
    PRESIL_STEP_ADD = 1,   /* x + (r - zero_point) * scale, r of the operand. A float operand: zero_point 0, scale 1 */
    PRESIL_STEP_CLAMP = 2, /* min(max(x, low), high) */
    PRESIL_STEP_QUANTIZE = 3 /* min(max(nearest(x) + zero_point, int_low), int_high), ties to even */
} presil_step_kind;

#define PRESIL_NO_OPERAND 0xffffffffu

typedef struct {
    uint32_t kind;  /* presil_step_kind */
    uint32_t input; /* number in presil_op.inputs, or PRESIL_NO_OPERAND */
    float scale, low, high;
    int32_t zero_point, int_low, int_high;
    uint32_t reserved[4]; /* 0 */
} presil_step;

/* Everything it points to is the caller's, and read during the call alone. */
typedef struct {
    uint32_t size, kind; /* presil_op_kind */
    const char *label;   /* for reports, copied; NULL: the kind's name */
    uint32_t compute;    /* presil_compute: how products are formed; else 0 */
    uint32_t tiling;     /* test: 0 best; n > 0: the n-th forced tiling (same bits) */
    const presil_operand *inputs, *outputs;
    uint32_t input_count, output_count;
    const presil_attribute *attributes;
    uint32_t attribute_count, step_count;
    const presil_step *steps;
} presil_op;

/* Plans the operator and enqueues it as a launch. EUNSUPPORTED, the text is the chip's reason: compute it on the host.
 * EINVAL: an operand has no place in device memory, or makes no sense. */
PRESIL_CHECKED int presil_op_enqueue(presil_device *device, presil_stream *stream, const presil_op *op);
/* In place of a stream, in presil_conv2d() and its like too: the operator is only asked about, as by
 * presil_op_supported(). */
#define PRESIL_ONLY_ASK ((presil_stream *)(uintptr_t)1)
/* Bit n: it is worth asking about operators of kind n; the chip has no others. */
PRESIL_API uint64_t presil_op_kinds(const presil_device *device);
/* 0: the chip packs no weights at all, and takes kernels as they lie, if it takes any. */
PRESIL_API int presil_packs_weights(const presil_device *device);
/* Whether the chip would take it (PRESIL_OK), wherever its operands will lie: `data` counts for nothing. The text says
 * why not. Doesn't start the chip, and asks no more of it than its own tables. */
PRESIL_CHECKED int presil_op_supported(presil_device *device, const presil_op *op);
/* 0: the chip takes no ELEMENTWISE an input of which is the output; presil_op_enqueue() says EUNSUPPORTED. */
PRESIL_API int presil_works_in_place(const presil_device *device);
/* Packed weights as the operand "weight" of CONV on their device. EINVAL while their bytes could not be written. */
PRESIL_CHECKED int presil_weights_operand(const presil_weights *weights, presil_operand *out);
PRESIL_API const char *presil_op_name(uint32_t kind);  /* "conv"; NULL: not a kind */
PRESIL_API uint32_t presil_dtype_bits(uint32_t dtype); /* of an element; 0: not a presil_dtype */

/* ---- reading an operator */
static inline const presil_operand *presil_operand_of(const presil_operand *list, uint32_t count, const char *name) {
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(list[i].name, name) == 0) return &list[i];
    }
    return NULL;
}
/* NULL: it has none of that name. */
static inline const presil_operand *presil_op_input(const presil_op *op, const char *name) {
    return presil_operand_of(op->inputs, op->input_count, name);
}
static inline const presil_operand *presil_op_output(const presil_op *op, const char *name) {
    return presil_operand_of(op->outputs, op->output_count, name);
}
static inline const presil_attribute *presil_op_attribute(const presil_op *op, const char *name) {
    for (uint32_t i = 0; i < op->attribute_count; i++) {
        if (strcmp(op->attributes[i].name, name) == 0) return &op->attributes[i];
    }
    return NULL;
}
/* n integers to `to`; those that are not given: `otherwise`. Returns 1 if the operator has the attribute: whoever
 * counts these knows whether there is one that it did not ask for. */
static inline uint32_t presil_op_integers(const presil_op *op, const char *name, int64_t otherwise, int64_t *to,
                                          uint32_t n) {
    const presil_attribute *a = presil_op_attribute(op, name);
    for (uint32_t i = 0; i < n; i++) to[i] = a && a->integers && i < a->count ? a->integers[i] : otherwise;
    return a != NULL;
}
static inline int64_t presil_op_integer(const presil_op *op, const char *name, int64_t otherwise) {
    int64_t value;
    (void)presil_op_integers(op, name, otherwise, &value, 1);
    return value;
}
static inline double presil_op_real(const presil_op *op, const char *name, double otherwise) {
    const presil_attribute *a = presil_op_attribute(op, name);
    return a && a->reals && a->count ? a->reals[0] : otherwise;
}
static inline const char *presil_op_text(const presil_op *op, const char *name, const char *otherwise) {
    const presil_attribute *a = presil_op_attribute(op, name);
    return a && a->text ? a->text : otherwise;
}
/* Whether two operands are the same elements at the same places. Strides of a dimension of one element don't count. */
static inline int presil_same_elements(const presil_operand *a, const presil_operand *b) {
    int same = a->data.value == b->data.value && a->dtype == b->dtype && a->ndim == b->ndim && a->layout == b->layout;
    for (uint32_t i = 0; same && i < a->ndim; i++)
        same = a->shape[i] == b->shape[i] && (a->layout || a->shape[i] <= 1 || a->stride[i] == b->stride[i]);
    return same;
}
/* Whether an input is the output. Where an operator is only asked about, `data` says nothing, nor does this. */
static inline int presil_op_in_place(const presil_op *op) {
    const presil_operand *out = presil_op_output(op, "output");
    int found = 0;
    for (uint32_t i = 0; out && i < op->input_count && !found; i++) found = presil_same_elements(&op->inputs[i], out);
    return found;
}
static inline const presil_step *presil_op_step(const presil_op *op, uint32_t kind) {
    for (uint32_t i = 0; i < op->step_count; i++) {
        if (op->steps[i].kind == kind) return &op->steps[i];
    }
    return NULL;
}

#ifdef __cplusplus
}
#endif
#endif
