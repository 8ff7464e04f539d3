/* SPDX-License-Identifier: Apache-2.0 */
/* job.h - one operator while it is computed: its operands as plain lists, its results. Kinds are a file each. */
#ifndef PRESIL_REFERENCE_JOB_H
#define PRESIL_REFERENCE_JOB_H

#include <stdbool.h>
#include "presil_reference.h"

#define HALF_ULP 0x1p-24 /* what rounding to fp32 may change, relative */
enum { SPATIAL_MOST = PRESIL_OP_DIMS - 2 };

/* Elements in the order of rows, one of the two. */
typedef struct {
    const presil_operand *operand; /* NULL: not given */
    int64_t count;
    int64_t *integers;
    double *reals;
} elements;

struct presil_reference {
    presil_operand output;
    char name[32];
    int64_t count;
    int64_t *integers; /* of exact results; else */
    double *reals, *slack;
    bool from_integers; /* no float took part but those of the steps */
    bool quantizes;     /* the last step, which is done where results are looked at */
    presil_step quantize;
    /* Of the operator's outputs by number, "output" too; here alone, not in the others. */
    presil_reference *outputs[PRESIL_OP_OUTPUTS];
};

typedef struct {
    const presil_op *op;
    const presil_reference_call *call;
    presil_reference *result;
    const presil_operand *out;
    elements input[PRESIL_OP_INPUTS]; /* by number, as far as they were asked for */
    uint32_t attributes_known;
    char *text;
    size_t bytes;
} job;

/* ---- job.c */
__attribute__((format(printf, 3, 4))) int job_fail(const job *j, int status, const char *format, ...);
/* An operand's elements; EINVAL if it is not there, or has not `ndim` dimensions (0: any). */
int job_input(job *j, const char *name, uint32_t ndim, const elements **out);
int job_optional(job *j, const char *name, const elements **out); /* operand NULL: not given */
int job_operand(job *j, uint32_t number, const elements **out);
/* Kernels whose groups lie apart: the first dimension in `groups` parts. apart 0: they don't. */
int job_kernel(job *j, const char *name, int64_t groups, int64_t apart, const elements **out);
/* Attributes; whoever asks for one knows it. */
void job_integers(job *j, const char *name, int64_t otherwise, int64_t *to, uint32_t n);
int64_t job_integer(job *j, const char *name, int64_t otherwise);
double job_real(job *j, const char *name, double otherwise);
const char *job_text(job *j, const char *name, const char *otherwise);
const char *job_function(job *j);
/* Room for results, before they are written: of "output"; of another that the operator may have (NULL: it hasn't), and
 * who asks for one knows it. */
int job_results(job *j, bool integers);
int job_results_of(job *j, const char *name, bool integers, presil_reference **out);
int job_expect(const job *j, const presil_operand *operand, uint32_t dim, int64_t size);

/* ---- what kinds do with them */
static inline double real_of(const elements *e, int64_t at) {
    return e->reals ? e->reals[at] : (double)e->integers[at];
}
static inline bool both_integers(const elements *a, const elements *b) { return a->integers && b->integers; }
/* The coordinate of an element by its number in the order of rows, and back. */
void coordinate_of(const int64_t *shape, uint32_t ndim, int64_t number, int64_t *at);
int64_t number_of(const int64_t *shape, uint32_t ndim, const int64_t *at);
int64_t element_count(const int64_t *shape, uint32_t ndim);

/* A sum of products: all of one kind. */
typedef struct {
    uint64_t integer; /* modulo 2^64 */
    double real, magnitude;
    int64_t terms;
} sum;
static inline void add_product(sum *s, const elements *a, int64_t i, const elements *b, int64_t k) {
    if (both_integers(a, b)) {
        s->integer += (uint64_t)a->integers[i] * (uint64_t)b->integers[k];
    } else {
        const double product = real_of(a, i) * real_of(b, k);
        s->real += product;
        s->magnitude += product < 0 ? -product : product;
        s->terms++;
    }
}
/* As result number `at`: integers wrap around to 32 bits, or to 64 where an operand has those. */
void put_sum(const job *j, int64_t at, const sum *s);
/* A result that is no exact integer. */
void put_real(const job *j, int64_t at, double value, double slack);
static inline void put_real_to(presil_reference *r, int64_t at, double value, double slack) {
    r->reals[at] = value;
    r->slack[at] = slack;
}
double rounding_of(double value); /* 0 if fp32 holds it */
/* Of a quotient, which may be a product with the divisor's reciprocal. */
double quotient_rounding(double value, double divisor);

/* ---- dtypes.c */
int dtype_bits(uint32_t dtype);
bool dtype_is_integer(uint32_t dtype);
int dtype_digits(uint32_t dtype);                              /* of a float's significand */
double dtype_smallest(uint32_t dtype);                         /* normal number */
int64_t dtype_low(uint32_t dtype), dtype_high(uint32_t dtype); /* of integers */
/* The element `number` elements behind `base`; bits are where the lowest byte is. */
uint64_t load_bits(const void *base, int64_t number, uint32_t dtype);
void store_bits(void *base, int64_t number, uint32_t dtype, uint64_t bits);
int64_t integer_of(uint64_t bits, uint32_t dtype);
double float_of(uint64_t bits, uint32_t dtype);
uint64_t bits_of_float(double value, uint32_t dtype); /* rounded to nearest, ties to even */
double round_to_bf16(double value);

/* ---- kinds */
int reference_copy(job *j);
int reference_conv(job *j);
int reference_conv_transpose(job *j);
int reference_depthwise(job *j);
int reference_matmul(job *j);
int reference_weight_gradient(job *j);
int reference_pool_max(job *j);
int reference_pool_average(job *j);
int reference_elementwise(job *j);
int reference_reduction(job *j);
int reference_softmax(job *j);
int reference_norm(job *j);
int reference_gather(job *j);

/* ---- steps.c: bias and scale of packed weights, and the operator's steps */
int reference_steps(job *j);
int64_t quantized(const presil_reference *r, double value); /* as the output has it, of a value before QUANTIZE */

#endif
