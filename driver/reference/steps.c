/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to each result behind the operator itself: bias and scale of packed weights, then its steps. */
#include "job.h"

#include <math.h>
#include <stdlib.h>

/* From here on with floats. */
static int to_reals(job *j) {
    presil_reference *r = j->result;
    if (!r->integers) return PRESIL_OK;
    int64_t *integers = r->integers;
    r->integers = NULL;
    int status = job_results(j, false);
    for (int64_t i = 0; !status && i < r->count; i++)
        put_real(j, i, (double)integers[i], rounding_of((double)integers[i]));
    r->from_integers = true;
    free(integers);
    return status;
}

/* What an operation in fp32 may add, of a value that is off by `slack` already. rest: what double has lost. */
static double rounded(double value, double rest, double slack) {
    return slack == 0 && rest == 0 ? rounding_of(value) : isfinite(value) ? fabs(value) * HALF_ULP : 0;
}

static void multiply(const presil_reference *r, int64_t at, double by) {
    const double value = r->reals[at] * by, slack = r->slack[at] * fabs(by);
    r->slack[at] = slack + rounded(value, fma(r->reals[at], by, -value), slack);
    r->reals[at] = value;
}

static void add(const presil_reference *r, int64_t at, double term, double term_slack) {
    const double x = r->reals[at], value = x + term, slack = r->slack[at] + term_slack;
    const double part = value - x, rest = (x - (value - part)) + (term - part);
    r->slack[at] = slack + rounded(value, rest, slack);
    r->reals[at] = value;
}

static int64_t channel_of(const presil_reference *r, int64_t number) {
    return r->output.ndim ? number % r->output.shape[r->output.ndim - 1] : 0;
}

/* ---- of packed weights */
static int packed_parts(job *j) {
    presil_reference *r = j->result;
    const bool integers = j->op->compute == PRESIL_COMPUTE_INT8;
    if (j->call->bias && !integers) {
        const int status = to_reals(j);
        if (status) return status;
    }
    for (int64_t i = 0; j->call->bias && i < r->count; i++) {
        const int64_t c = channel_of(r, i);
        if (r->integers)
            r->integers[i] = (int32_t)((uint32_t)r->integers[i] + (uint32_t)((const int32_t *)j->call->bias)[c]);
        else
            add(r, i, integers ? ((const int32_t *)j->call->bias)[c] : (double)((const float *)j->call->bias)[c], 0);
    }
    if (!j->call->scale) return PRESIL_OK;
    const int status = to_reals(j);
    for (int64_t i = 0; !status && i < r->count; i++) multiply(r, i, (double)j->call->scale[channel_of(r, i)]);
    return status;
}

/* ---- the operator's */
static int operand_of(job *j, const presil_step *step, const elements **out) {
    *out = NULL;
    if (step->input == PRESIL_NO_OPERAND) return PRESIL_OK;
    if (step->input >= j->op->input_count)
        return job_fail(j, PRESIL_EINVAL, "a step's operand is number %u of %u", step->input, j->op->input_count);
    return job_operand(j, step->input, out);
}

static int scale(job *j, const presil_step *step, const elements *by) {
    presil_reference *r = j->result;
    int status = to_reals(j);
    if (!status && by && r->count && by->count != r->output.shape[r->output.ndim - 1])
        status = job_fail(j, PRESIL_EINVAL, "%s has %lld elements, one for each channel expected", by->operand->name,
                          (long long)by->count);
    for (int64_t i = 0; !status && i < r->count; i++)
        multiply(r, i, by ? real_of(by, channel_of(r, i)) : (double)step->scale);
    return status;
}

static int residual(job *j, const presil_step *step, const elements *other) {
    presil_reference *r = j->result;
    if (!other || other->count != r->count)
        return job_fail(j, PRESIL_EINVAL, "a step adds an operand of the output's shape, not %lld elements",
                        other ? (long long)other->count : 0);
    const bool plain = other->reals != NULL;
    const bool exact = r->integers && !plain && step->scale == 1;
    int status = exact ? PRESIL_OK : to_reals(j);
    for (int64_t i = 0; !status && i < r->count; i++) {
        if (exact) {
            r->integers[i] += other->integers[i] - step->zero_point;
        } else if (plain) {
            add(r, i, other->reals[i], 0);
        } else {
            const double off = (double)(other->integers[i] - step->zero_point), term = off * (double)step->scale;
            add(r, i, term, rounded(term, fma(off, (double)step->scale, -term), rounding_of(off)));
        }
    }
    return status;
}

static int clamp(job *j, const presil_step *step) {
    presil_reference *r = j->result;
    const int status = to_reals(j);
    for (int64_t i = 0; !status && i < r->count; i++) {
        const double value = r->reals[i];
        r->reals[i] =
            value<(double)step->low ? (double)step->low : value>(double) step->high ? (double)step->high : value;
    }
    return status;
}

static int quantize(const job *j, const presil_step *step, bool last) {
    if (!last || !dtype_is_integer(j->out->dtype))
        return job_fail(j, PRESIL_EUNSUPPORTED, "the reference quantises last, to an integer output");
    j->result->quantizes = true;
    j->result->quantize = *step;
    return PRESIL_OK;
}

int reference_steps(job *j) {
    int status = packed_parts(j);
    for (uint32_t i = 0; i < j->op->step_count && !status; i++) {
        const presil_step *step = &j->op->steps[i];
        const elements *operand = NULL;
        status = operand_of(j, step, &operand);
        if (status) break;
        switch (step->kind) {
        case PRESIL_STEP_SCALE: status = scale(j, step, operand); break;
        case PRESIL_STEP_ADD: status = residual(j, step, operand); break;
        case PRESIL_STEP_CLAMP: status = clamp(j, step); break;
        case PRESIL_STEP_QUANTIZE: status = quantize(j, step, i + 1 == j->op->step_count); break;
        default: status = job_fail(j, PRESIL_EUNSUPPORTED, "the reference knows no step %u", step->kind);
        }
    }
    return status;
}

static int64_t bounded(double value, int64_t low, int64_t high) {
    return isnan(value) ? 0 : value <= (double)low ? low : value >= (double)high ? high : (int64_t)value;
}

int64_t quantized(const presil_reference *r, double value) {
    const int64_t low = dtype_low(r->output.dtype), high = dtype_high(r->output.dtype);
    if (!r->quantizes) return bounded(rint(value), low, high);
    const presil_step *q = &r->quantize;
    return bounded(rint(value) + q->zero_point, q->int_low, q->int_high);
}
