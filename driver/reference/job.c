/* SPDX-License-Identifier: Apache-2.0 */
/* An operator from its call to its results. */
#include "job.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int job_fail(const job *j, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (j->bytes) (void)vsnprintf(j->text, j->bytes, format, args);
    va_end(args);
    return status;
}

/* ---- coordinates */
void coordinate_of(const int64_t *shape, uint32_t ndim, int64_t number, int64_t *at) {
    for (uint32_t i = ndim; i-- > 0; number /= shape[i]) at[i] = number % shape[i];
}

int64_t number_of(const int64_t *shape, uint32_t ndim, const int64_t *at) {
    int64_t number = 0;
    for (uint32_t i = 0; i < ndim; i++) number = number * shape[i] + at[i];
    return number;
}

int64_t element_count(const int64_t *shape, uint32_t ndim) {
    int64_t count = 1;
    for (uint32_t i = 0; i < ndim; i++) count *= shape[i];
    return count;
}

/* ---- operands */
typedef struct {
    int64_t groups, apart; /* of the first dimension; apart 0: it is one */
} grouping;

static int64_t place_of(const presil_operand *t, const int64_t *at, const grouping *g) {
    int64_t place = 0;
    for (uint32_t i = 0; i < t->ndim; i++) place += at[i] * t->stride[i];
    if (!g->apart) return place;
    const int64_t each = t->shape[0] / g->groups;
    return place - at[0] * t->stride[0] + at[0] / each * g->apart + at[0] % each * t->stride[0];
}

/* fp32 operands of products in bf16 are rounded on the way in. */
static bool rounds(const job *j, const presil_operand *t) {
    const uint32_t kind = j->op->kind;
    const bool product = (kind >= PRESIL_OP_CONV && kind <= PRESIL_OP_WEIGHT_GRADIENT);
    return product && j->op->compute == PRESIL_COMPUTE_BF16 && t->dtype == PRESIL_FP32;
}

static int load(const job *j, uint32_t number, const grouping *g, elements *e) {
    const presil_operand *t = &j->op->inputs[number];
    const void *base = j->call->inputs[number];
    const int64_t count = element_count(t->shape, t->ndim);
    if (!base && count) return job_fail(j, PRESIL_EINVAL, "%s: its place is NULL", t->name);
    e->operand = t;
    e->count = count;
    void *room = malloc((size_t)(count ? count : 1) * sizeof(int64_t));
    if (!room) return job_fail(j, PRESIL_EHOSTMEM, "no host memory for %lld elements", (long long)count);
    const bool integer = dtype_is_integer(t->dtype), rounded = rounds(j, t) && strcmp(t->name, "residual") != 0;
    *(integer ? (void **)&e->integers : (void **)&e->reals) = room;
    for (int64_t i = 0; i < count; i++) {
        int64_t at[PRESIL_OP_DIMS];
        coordinate_of(t->shape, t->ndim, i, at);
        const uint64_t bits = load_bits(base, place_of(t, at, g), t->dtype);
        if (integer)
            e->integers[i] = integer_of(bits, t->dtype);
        else
            e->reals[i] = rounded ? round_to_bf16(float_of(bits, t->dtype)) : float_of(bits, t->dtype);
    }
    return PRESIL_OK;
}

static int numbered(job *j, uint32_t number, const grouping *g, const elements **out) {
    elements *e = &j->input[number];
    *out = e;
    return e->operand ? PRESIL_OK : load(j, number, g, e);
}

static int input(job *j, const char *name, const grouping *g, const elements **out) {
    static const elements none;
    const presil_operand *t = presil_op_input(j->op, name);
    *out = &none;
    if (!t) return PRESIL_OK;
    return numbered(j, (uint32_t)(t - j->op->inputs), g, out);
}

int job_operand(job *j, uint32_t number, const elements **out) { return numbered(j, number, &(grouping){0}, out); }

int job_optional(job *j, const char *name, const elements **out) { return input(j, name, &(grouping){0}, out); }

static int required(const job *j, int status, const char *name, uint32_t ndim, const elements *e) {
    if (status) return status;
    if (!e->operand) return job_fail(j, PRESIL_EINVAL, "the operator has no %s", name);
    if (ndim && e->operand->ndim != ndim)
        return job_fail(j, PRESIL_EINVAL, "%s has %u dimensions, %u expected", name, e->operand->ndim, ndim);
    return PRESIL_OK;
}

int job_input(job *j, const char *name, uint32_t ndim, const elements **out) {
    const int status = job_optional(j, name, out);
    return required(j, status, name, ndim, *out);
}

int job_kernel(job *j, const char *name, int64_t groups, int64_t apart, const elements **out) {
    const int status = input(j, name, &(grouping){groups, apart}, out);
    return required(j, status, name, j->out->ndim, *out);
}

int job_expect(const job *j, const presil_operand *operand, uint32_t dim, int64_t size) {
    if (dim < operand->ndim && operand->shape[dim] == size) return PRESIL_OK;
    return job_fail(j, PRESIL_EINVAL, "%s: dimension %u is %lld, %lld expected", operand->name, dim,
                    dim < operand->ndim ? (long long)operand->shape[dim] : -1, (long long)size);
}

/* ---- attributes */
void job_integers(job *j, const char *name, int64_t otherwise, int64_t *to, uint32_t n) {
    j->attributes_known += presil_op_integers(j->op, name, otherwise, to, n);
}

int64_t job_integer(job *j, const char *name, int64_t otherwise) {
    int64_t value;
    job_integers(j, name, otherwise, &value, 1);
    return value;
}

double job_real(job *j, const char *name, double otherwise) {
    j->attributes_known += presil_op_attribute(j->op, name) != NULL;
    return presil_op_real(j->op, name, otherwise);
}

const char *job_text(job *j, const char *name, const char *otherwise) {
    j->attributes_known += presil_op_attribute(j->op, name) != NULL;
    return presil_op_text(j->op, name, otherwise);
}
const char *job_function(job *j) { return job_text(j, "function", ""); }

/* ---- results */
static int make_room(const job *j, presil_reference *r, bool integers) {
    const size_t bytes = (size_t)(r->count ? r->count : 1) * sizeof(double);
    r->from_integers = integers;
    if (integers) {
        r->integers = calloc(1, bytes);
    } else {
        r->reals = calloc(1, bytes);
        r->slack = calloc(1, bytes);
    }
    if (integers ? r->integers != NULL : r->reals && r->slack) return PRESIL_OK;
    return job_fail(j, PRESIL_EHOSTMEM, "no host memory for %lld results", (long long)r->count);
}

int job_results(job *j, bool integers) { return make_room(j, j->result, integers); }

static presil_reference *reference_of(const presil_operand *output) {
    presil_reference *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->output = *output;
    (void)snprintf(r->name, sizeof r->name, "%s", output->name);
    r->output.name = r->name;
    r->count = element_count(output->shape, output->ndim);
    return r;
}

int job_results_of(job *j, const char *name, bool integers, presil_reference **out) {
    const presil_operand *t = presil_op_output(j->op, name);
    *out = NULL;
    if (!t) return PRESIL_OK;
    presil_reference *r = *out = j->result->outputs[t - j->op->outputs] = reference_of(t);
    if (!r) return job_fail(j, PRESIL_EHOSTMEM, "no host memory for a reference");
    if (integers != dtype_is_integer(t->dtype)) return job_fail(j, PRESIL_EINVAL, "%s: dtype %u", t->name, t->dtype);
    return make_room(j, r, integers);
}

double rounding_of(double value) { return (double)(float)value == value || isnan(value) ? 0 : fabs(value) * HALF_ULP; }

double quotient_rounding(double value, double divisor) {
    int exponent;
    return fabs(frexp(divisor, &exponent)) == 0.5 ? rounding_of(value) : 2 * HALF_ULP * fabs(value);
}

static bool has_wide_input(const job *j) {
    for (uint32_t i = 0; i < j->op->input_count; i++) {
        if (j->op->inputs[i].dtype == PRESIL_INT64) return true;
    }
    return false;
}

void put_sum(const job *j, int64_t at, const sum *s) {
    presil_reference *r = j->result;
    if (r->integers)
        r->integers[at] = has_wide_input(j) ? (int64_t)s->integer : (int32_t)(uint32_t)s->integer;
    else
        put_real(j, at, s->real, (double)(s->terms + 2) * HALF_ULP * s->magnitude);
}

void put_real(const job *j, int64_t at, double value, double slack) {
    j->result->reals[at] = value;
    j->result->slack[at] = slack;
}

/* ---- the call */
static int nothing(job *j) { return job_results(j, true); }

static int (*const kinds[])(job *) = {[PRESIL_OP_NOP] = nothing,
                                      [PRESIL_OP_COPY] = reference_copy,
                                      [PRESIL_OP_CONV] = reference_conv,
                                      [PRESIL_OP_CONV_TRANSPOSE] = reference_conv_transpose,
                                      [PRESIL_OP_DEPTHWISE] = reference_depthwise,
                                      [PRESIL_OP_MATMUL] = reference_matmul,
                                      [PRESIL_OP_WEIGHT_GRADIENT] = reference_weight_gradient,
                                      [PRESIL_OP_POOL_MAX] = reference_pool_max,
                                      [PRESIL_OP_POOL_AVERAGE] = reference_pool_average,
                                      [PRESIL_OP_ELEMENTWISE] = reference_elementwise,
                                      [PRESIL_OP_REDUCTION] = reference_reduction,
                                      [PRESIL_OP_SOFTMAX] = reference_softmax,
                                      [PRESIL_OP_NORM] = reference_norm,
                                      [PRESIL_OP_GATHER] = reference_gather};

static int check_operand(const job *j, const presil_operand *t) {
    if (t->dtype > PRESIL_INT64 || t->ndim > PRESIL_OP_DIMS)
        return job_fail(j, PRESIL_EINVAL, "%s: dtype %u, %u dimensions", t->name, t->dtype, t->ndim);
    int64_t count = 1;
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] < 0 || __builtin_mul_overflow(count, t->shape[i], &count) || count > INT64_MAX / 16)
            return job_fail(j, PRESIL_EINVAL, "%s: shape[%u] is %lld", t->name, i, (long long)t->shape[i]);
    }
    return PRESIL_OK;
}

static int check(job *j) {
    const presil_op *op = j->op;
    if (op->kind >= sizeof kinds / sizeof *kinds)
        return job_fail(j, PRESIL_EUNSUPPORTED, "the reference knows no kind %u", op->kind);
    if (op->input_count > PRESIL_OP_INPUTS || op->output_count > PRESIL_OP_OUTPUTS)
        return job_fail(j, PRESIL_EINVAL, "%u inputs and %u outputs", op->input_count, op->output_count);
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < op->input_count && !status; i++) status = check_operand(j, &op->inputs[i]);
    j->out = presil_op_output(op, "output");
    for (uint32_t i = 0; i < op->output_count && !status; i++) status = check_operand(j, &op->outputs[i]);
    if (!status && !j->out && op->kind != PRESIL_OP_NOP)
        status = job_fail(j, PRESIL_EINVAL, "the operator has no output");
    return status;
}

/* Whatever the operator has that nobody asked for would be left out of the result. */
static int check_all_known(const job *j) {
    if (j->attributes_known != j->op->attribute_count)
        return job_fail(j, PRESIL_EUNSUPPORTED, "the reference doesn't know all attributes of the operator");
    for (uint32_t i = 0; i < j->op->output_count; i++) {
        if (!j->result->outputs[i])
            return job_fail(j, PRESIL_EUNSUPPORTED, "the reference doesn't know the output %s", j->op->outputs[i].name);
    }
    for (uint32_t i = 0; i < j->op->input_count; i++) {
        const presil_operand *t = &j->op->inputs[i];
        if (!j->input[i].operand && strcmp(t->name, "residual") != 0)
            return job_fail(j, PRESIL_EUNSUPPORTED, "the reference doesn't know the operand %s", t->name);
    }
    return PRESIL_OK;
}

int presil_reference_compute(const presil_reference_call *call, presil_reference **out, char *text, size_t bytes) {
    job j = {.op = call->op, .call = call, .text = text, .bytes = bytes};
    int status = check(&j);
    if (status) return status;
    presil_reference *r = j.out ? reference_of(j.out) : calloc(1, sizeof *r);
    if (!r) return job_fail(&j, PRESIL_EHOSTMEM, "no host memory for a reference");
    j.result = r;
    if (j.out) r->outputs[j.out - j.op->outputs] = r;
    status = kinds[j.op->kind](&j);
    if (!status) status = reference_steps(&j);
    if (!status) status = check_all_known(&j);
    for (size_t i = 0; i < PRESIL_OP_INPUTS; i++) {
        free(j.input[i].integers);
        free(j.input[i].reals);
    }
    if (status)
        presil_reference_free(r);
    else
        *out = r;
    return status;
}

const presil_reference *presil_reference_output(const presil_reference *r, uint32_t n) {
    return r && n < PRESIL_OP_OUTPUTS ? r->outputs[n] : NULL;
}

void presil_reference_free(presil_reference *r) {
    if (!r) return;
    for (int i = 0; i < PRESIL_OP_OUTPUTS; i++) {
        if (r->outputs[i] != r) presil_reference_free(r->outputs[i]);
    }
    free(r->integers);
    free(r->reals);
    free(r->slack);
    free(r);
}
