/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of one or two elements, by PyTorch's names. */
#include "job.h"

#include <math.h>
#include <string.h>

#define ROOT_HALF 0.70710678118654752440
#define ROOT_TWO_OVER_PI 0.79788456080286535588

static double clip(double x, double low, double high) { return x < low ? low : x > high ? high : x; }
static double f_neg(double x) { return -x; }
static double f_relu(double x) { return isnan(x) || x > 0 ? x : 0; }
static double f_relu6(double x) { return clip(x, 0, 6); }
static double f_hardtanh(double x) { return clip(x, -1, 1); }
static double f_square(double x) { return x * x; }
static double f_sign(double x) { return isnan(x) ? x : (x > 0) - (x < 0); }
static double f_reciprocal(double x) { return 1 / x; }
static double f_rsqrt(double x) { return 1 / sqrt(x); }
static double f_sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double f_silu(double x) { return x / (1 + exp(-x)); }
static double f_gelu(double x) { return x * 0.5 * (1 + erf(x * ROOT_HALF)); }
static double f_gelu_tanh(double x) { return x * 0.5 * (1 + tanh(ROOT_TWO_OVER_PI * (x + 0.044715 * x * x * x))); }
static double f_hardsigmoid(double x) { return clip(x + 3, 0, 6) / 6; }
static double f_hardswish(double x) { return x * clip(x + 3, 0, 6) / 6; }
static double f_softplus(double x) { return x > 20 ? x : log1p(exp(x)); }

/* Exact but for one rounding, or not: then a chip may be off by 4 units in the last place of fp32, of the result or
 * (where the function has a zero elsewhere than at 0) of the argument. */
enum { EXACT = 0, ROUGH = 1, ROUGH_IN_ARGUMENT = 2 };
typedef struct {
    const char *name;
    double (*of)(double);
    int accuracy;
} unary;
static const unary unaries[] = {{"neg", f_neg, EXACT},
                                {"abs", fabs, EXACT},
                                {"relu", f_relu, EXACT},
                                {"relu6", f_relu6, EXACT},
                                {"hardtanh", f_hardtanh, EXACT},
                                {"square", f_square, EXACT},
                                {"sign", f_sign, EXACT},
                                {"ceil", ceil, EXACT},
                                {"floor", floor, EXACT},
                                {"trunc", trunc, EXACT},
                                {"round", rint, EXACT},
                                {"sqrt", sqrt, EXACT},
                                {"reciprocal", f_reciprocal, ROUGH},
                                {"rsqrt", f_rsqrt, ROUGH},
                                {"exp", exp, ROUGH_IN_ARGUMENT},
                                {"log", log, ROUGH_IN_ARGUMENT},
                                {"sin", sin, ROUGH_IN_ARGUMENT},
                                {"cos", cos, ROUGH_IN_ARGUMENT},
                                {"tanh", tanh, ROUGH},
                                {"erf", erf, ROUGH},
                                {"sigmoid", f_sigmoid, ROUGH_IN_ARGUMENT},
                                {"silu", f_silu, ROUGH_IN_ARGUMENT},
                                {"gelu", f_gelu, ROUGH_IN_ARGUMENT},
                                {"hardsigmoid", f_hardsigmoid, ROUGH_IN_ARGUMENT},
                                {"hardswish", f_hardswish, ROUGH_IN_ARGUMENT},
                                {"softplus", f_softplus, ROUGH_IN_ARGUMENT}};

static const unary gelu_tanh = {"gelu", f_gelu_tanh, ROUGH_IN_ARGUMENT};

static double f_add(double x, double y) { return x + y; }
static double f_sub(double x, double y) { return x - y; }
static double f_mul(double x, double y) { return x * y; }
static double f_div(double x, double y) { return x / y; }
static double f_maximum(double x, double y) { return isnan(x) || x > y ? x : y; }
static double f_minimum(double x, double y) { return isnan(x) || x < y ? x : y; }
static int64_t i_add(int64_t x, int64_t y) { return (int64_t)((uint64_t)x + (uint64_t)y); }
static int64_t i_sub(int64_t x, int64_t y) { return (int64_t)((uint64_t)x - (uint64_t)y); }
static int64_t i_mul(int64_t x, int64_t y) { return (int64_t)((uint64_t)x * (uint64_t)y); }
static int64_t i_maximum(int64_t x, int64_t y) { return x > y ? x : y; }
static int64_t i_minimum(int64_t x, int64_t y) { return x < y ? x : y; }

typedef struct {
    const char *name;
    double (*of)(double, double);
    int64_t (*of_integers)(int64_t, int64_t); /* NULL: not an integer */
} binary;
static const binary binaries[] = {{"add", f_add, i_add},
                                  {"sub", f_sub, i_sub},
                                  {"mul", f_mul, i_mul},
                                  {"div", f_div, NULL},
                                  {"maximum", f_maximum, i_maximum},
                                  {"minimum", f_minimum, i_minimum}};

/* ---- one */
static int64_t integer_unary(const unary *f, int64_t x) {
    if (strcmp(f->name, "neg") == 0) return (int64_t)(0 - (uint64_t)x);
    if (strcmp(f->name, "square") == 0) return i_mul(x, x);
    if (strcmp(f->name, "abs") == 0) return x < 0 ? (int64_t)(0 - (uint64_t)x) : x;
    if (strcmp(f->name, "relu") == 0) return x > 0 ? x : 0;
    if (strcmp(f->name, "relu6") == 0) return x < 0 ? 0 : x > 6 ? 6 : x;
    if (strcmp(f->name, "hardtanh") == 0 || strcmp(f->name, "sign") == 0) return (x > 0) - (x < 0);
    return x; /* roundings */
}

static double slack_of(const unary *f, double x, double y) {
    if (f->accuracy == EXACT) return rounding_of(y);
    const double of = f->accuracy == ROUGH ? fabs(y) : fabs(y) * (1 + fabs(x)) + fabs(x);
    return isfinite(of) ? 8 * HALF_ULP * of : 0;
}

/* The number of the element of an operand that an output's coordinate meets: dimensions of 1 are repeated, missing ones
 * are the first. */
static int64_t broadcast(const presil_operand *t, const presil_operand *out, const int64_t *at) {
    int64_t number = 0;
    for (uint32_t i = 0; i < t->ndim; i++)
        number = number * t->shape[i] + (t->shape[i] == 1 ? 0 : at[out->ndim - t->ndim + i]);
    return number;
}

static int check_shape(const job *j, const presil_operand *t) {
    if (t->ndim > j->out->ndim)
        return job_fail(j, PRESIL_EINVAL, "%s has %u dimensions, the output %u", t->name, t->ndim, j->out->ndim);
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < t->ndim && !status; i++)
        status = t->shape[i] == 1 ? PRESIL_OK : job_expect(j, t, i, j->out->shape[j->out->ndim - t->ndim + i]);
    return status;
}

static int one(job *j, const unary *f, const elements *x) {
    const bool integers = x->integers && f->accuracy == EXACT && f->of != sqrt;
    const int status = job_results(j, integers);
    for (int64_t number = 0; !status && number < j->result->count; number++) {
        int64_t at[PRESIL_OP_DIMS];
        coordinate_of(j->out->shape, j->out->ndim, number, at);
        const int64_t i = broadcast(x->operand, j->out, at);
        if (integers) {
            j->result->integers[number] = integer_unary(f, x->integers[i]);
        } else {
            const double value = f->of(real_of(x, i));
            put_real(j, number, value, slack_of(f, real_of(x, i), value));
        }
    }
    return status;
}

static int clamp(job *j, const elements *x) {
    if (x->integers) return job_fail(j, PRESIL_EUNSUPPORTED, "the reference clamps floats alone");
    const double low = job_real(j, "low", -INFINITY), high = job_real(j, "high", INFINITY);
    const int status = job_results(j, false);
    for (int64_t number = 0; !status && number < j->result->count; number++) {
        int64_t at[PRESIL_OP_DIMS];
        coordinate_of(j->out->shape, j->out->ndim, number, at);
        double value = real_of(x, broadcast(x->operand, j->out, at));
        if (value < low) value = low;
        if (value > high) value = high;
        put_real(j, number, value, rounding_of(value));
    }
    return status;
}

/* ---- two; without the input y the attribute of its name */
static int two(job *j, const binary *f, const elements *x, const elements *y) {
    const double number = y->operand ? 0 : job_real(j, "other", 0);
    const bool integers = y->operand && both_integers(x, y) && f->of_integers;
    int status = y->operand ? check_shape(j, y->operand) : PRESIL_OK;
    if (!status) status = job_results(j, integers);
    for (int64_t n = 0; !status && n < j->result->count; n++) {
        int64_t at[PRESIL_OP_DIMS];
        coordinate_of(j->out->shape, j->out->ndim, n, at);
        const int64_t i = broadcast(x->operand, j->out, at), k = y->operand ? broadcast(y->operand, j->out, at) : 0;
        if (integers) {
            j->result->integers[n] = f->of_integers(x->integers[i], y->integers[k]);
        } else {
            const double other = y->operand ? real_of(y, k) : number, value = f->of(real_of(x, i), other);
            const bool quotient = f->of == f_div;
            put_real(j, n, value, quotient ? quotient_rounding(value, other) : rounding_of(value));
        }
    }
    return status;
}

int reference_elementwise(job *j) {
    const char *name = job_function(j);
    const elements *x, *y;
    int status = job_input(j, "input", 0, &x);
    if (!status) status = job_optional(j, "other", &y);
    if (!status) status = check_shape(j, x->operand);
    if (status) return status;
    if (!y->operand && strcmp(name, "clamp") == 0) return clamp(j, x);
    if (!y->operand && strcmp(name, "gelu") == 0) {
        const char *how = job_text(j, "approximate", "none");
        if (strcmp(how, "tanh") == 0) return one(j, &gelu_tanh, x);
        if (strcmp(how, "none") != 0) return job_fail(j, PRESIL_EUNSUPPORTED, "no approximation \"%s\" of gelu", how);
    }
    for (size_t i = 0; !y->operand && i < sizeof unaries / sizeof *unaries; i++) {
        if (strcmp(name, unaries[i].name) == 0) return one(j, &unaries[i], x);
    }
    const bool other = y->operand || presil_op_attribute(j->op, "other");
    for (size_t i = 0; other && i < sizeof binaries / sizeof *binaries; i++) {
        if (strcmp(name, binaries[i].name) == 0) return two(j, &binaries[i], x, y);
    }
    return job_fail(j, PRESIL_EUNSUPPORTED, "the reference knows no function \"%s\" of %s", name,
                    y->operand ? "two elements" : "one element");
}
