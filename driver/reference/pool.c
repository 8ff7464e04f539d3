/* SPDX-License-Identifier: Apache-2.0 */
/* The largest, or the mean, of the elements in a window of [N, ..., C], channel by channel. */
#include "job.h"

#include <math.h>

typedef struct {
    const elements *x;
    uint32_t n;
    int64_t in[SPATIAL_MOST], kernel[SPATIAL_MOST], stride[SPATIAL_MOST], padding[SPATIAL_MOST], dilation[SPATIAL_MOST];
    int64_t channels;
    bool counts_padding;
    int64_t divisor;
} pool;

static int ask(job *j, pool *p) {
    const uint32_t ndim = j->out->ndim;
    if (ndim < 3) return job_fail(j, PRESIL_EINVAL, "a pooled tensor has 3 dimensions or more, not %u", ndim);
    p->n = ndim - 2;
    int status = job_input(j, "input", ndim, &p->x);
    if (status) return status;
    if (!presil_op_attribute(j->op, "kernel")) return job_fail(j, PRESIL_EINVAL, "the operator has no kernel");
    job_integers(j, "kernel", 1, p->kernel, p->n);
    job_integers(j, "stride", 0, p->stride, p->n);
    job_integers(j, "padding", 0, p->padding, p->n);
    job_integers(j, "dilation", 1, p->dilation, p->n);
    for (uint32_t i = 0; i < p->n; i++) {
        p->in[i] = p->x->operand->shape[1 + i];
        if (!p->stride[i]) p->stride[i] = p->kernel[i];
        if (p->stride[i] < 1 || p->dilation[i] < 1 || p->kernel[i] < 1)
            return job_fail(j, PRESIL_EINVAL, "a kernel, stride or dilation of less than 1");
    }
    p->channels = p->x->operand->shape[p->n + 1];
    status = job_expect(j, j->out, 0, p->x->operand->shape[0]);
    return status ? status : job_expect(j, j->out, p->n + 1, p->channels);
}

/* The element that a position of the window meets, or -1; *counted: whether it is in the input or its padding. */
static int64_t meet(const pool *p, const int64_t *out, const int64_t *kernel, bool *counted) {
    int64_t number = out[0];
    bool inside = true;
    *counted = true;
    for (uint32_t i = 0; i < p->n; i++) {
        const int64_t at = out[1 + i] * p->stride[i] + kernel[i] * p->dilation[i] - p->padding[i];
        inside = inside && at >= 0 && at < p->in[i];
        *counted = *counted && at < p->in[i] + p->padding[i];
        number = number * p->in[i] + at;
    }
    return inside ? number * p->channels + out[p->n + 1] : -1;
}

/* The number of the element that the window's result is, -1: it meets none. */
static int64_t largest_of(const job *j, const pool *p, int64_t number) {
    int64_t out[PRESIL_OP_DIMS], kernel[SPATIAL_MOST], found = -1;
    bool counted;
    coordinate_of(j->out->shape, j->out->ndim, number, out);
    for (int64_t k = 0; k < element_count(p->kernel, p->n); k++) {
        coordinate_of(p->kernel, p->n, k, kernel);
        const int64_t at = meet(p, out, kernel, &counted);
        if (at < 0) continue;
        const bool larger = found < 0 || (p->x->integers ? p->x->integers[at] > p->x->integers[found]
                                                         : p->x->reals[at] > p->x->reals[found]);
        if (larger || (p->x->reals && isnan(p->x->reals[at]))) found = at;
    }
    return found;
}

static int index_results(job *j, const pool *p, presil_reference **out) {
    int status = job_results_of(j, "index", true, out);
    if (status || !*out) return status;
    if ((*out)->output.ndim != j->out->ndim) return job_fail(j, PRESIL_EINVAL, "index: not of the output's shape");
    for (uint32_t i = 0; i < j->out->ndim && !status; i++) status = job_expect(j, &(*out)->output, i, j->out->shape[i]);
    if (!status && element_count(p->in, p->n) - 1 > dtype_high((*out)->output.dtype))
        status =
            job_fail(j, PRESIL_EINVAL, "index: dtype %u has no numbers for a plane of this size", (*out)->output.dtype);
    return status;
}

int reference_pool_max(job *j) {
    pool p = {0};
    presil_reference *index = NULL;
    int status = ask(j, &p);
    if (!status) status = job_results(j, p.x->integers != NULL);
    if (!status) status = index_results(j, &p, &index);
    for (int64_t number = 0; !status && number < j->result->count; number++) {
        const int64_t at = largest_of(j, &p, number);
        if (p.x->integers)
            j->result->integers[number] = at < 0 ? dtype_low(j->out->dtype) : p.x->integers[at];
        else
            put_real(j, number, at < 0 ? -INFINITY : p.x->reals[at], 0);
        if (index) index->integers[number] = at < 0 ? 0 : at / p.channels % element_count(p.in, p.n);
    }
    return status;
}

int reference_pool_average(job *j) {
    pool p = {0};
    int status = ask(j, &p);
    if (status) return status;
    p.counts_padding = job_integer(j, "count_include_pad", 1);
    p.divisor = job_integer(j, "divisor", 0);
    const int64_t zero_point = job_integer(j, "zero_point", 0);
    status = job_results(j, false);
    j->result->from_integers = p.x->integers != NULL;
    for (int64_t number = 0; !status && number < j->result->count; number++) {
        int64_t out[PRESIL_OP_DIMS], kernel[SPATIAL_MOST], elements_met = 0, places = 0;
        double total = 0, magnitude = 0;
        coordinate_of(j->out->shape, j->out->ndim, number, out);
        for (int64_t k = 0; k < element_count(p.kernel, p.n); k++) {
            bool counted;
            coordinate_of(p.kernel, p.n, k, kernel);
            const int64_t at = meet(&p, out, kernel, &counted);
            places += counted;
            if (at < 0) continue;
            elements_met++;
            const double value = real_of(p.x, at) - (double)zero_point;
            total += value;
            magnitude += fabs(value);
        }
        const int64_t by = p.divisor ? p.divisor : p.counts_padding ? places : elements_met;
        const double mean = total / (double)by;
        const double sums = p.x->integers ? 0 : (double)(elements_met + 2) * HALF_ULP * magnitude / fabs((double)by);
        put_real(j, number, mean, sums + quotient_rounding(mean, (double)by));
    }
    return status;
}
