/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dilated input (transposed convolutions, gradients of inputs): most kernel positions of an output lie between two
 * elements of the input. Those that don't are the same for every `count`-th output, so the operator is `count` ones,
 * each with every `step`-th kernel position and an input without dilation: phases, along rows and along columns.
 */
#include "problem.h"

/* Output o and kernel position k meet (o·stride − pad + k·dilation) ÷ apart of the input, if that is whole. */
typedef struct {
    int64_t outs, kernel, stride, pad, dilation, apart;
} dilated_axis;

static dilated_axis rows_of(const chip_problem *p) {
    return (dilated_axis){p->out_h, p->grid_y, p->stride_y, p->pad_y, p->dilation_y, p->input_dilation_y};
}
static dilated_axis columns_of(const chip_problem *p) {
    return (dilated_axis){p->out_w, p->grid_x, p->stride_x, p->pad_x, p->dilation_x, p->input_dilation_x};
}

/* Outputs r, r + count, …: how many they are, their kernel positions first, first + step, …, the input that the first
 * of each meet. */
typedef struct {
    int64_t outs, first, kernel, low;
} remainder;

static remainder remainder_of(const dilated_axis *a, const chip_phase_axis *axis, int64_t r) {
    remainder part = {.outs = r < a->outs ? ceil_div(a->outs - r, axis->count) : 0};
    for (int64_t k = 0; part.outs && k < min64(axis->step, a->kernel); k++) {
        const int64_t at = r * a->stride - a->pad + k * a->dilation;
        if (at % a->apart) continue;
        part.first = k, part.kernel = ceil_div(a->kernel - k, axis->step), part.low = at / a->apart;
        break;
    }
    return part;
}

static chip_phase_axis phases_of(const dilated_axis *a) {
    chip_phase_axis axis = {.count = a->apart / chip_gcd(a->stride, a->apart),
                            .step = a->apart / chip_gcd(a->dilation, a->apart)};
    const int64_t apart = axis.step * a->dilation / a->apart;
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t r = 0; r < axis.count; r++) {
        const remainder part = remainder_of(a, &axis, r);
        axis.products += part.outs * part.kernel;
        if (!part.kernel) continue;
        axis.kernel = max64(axis.kernel, part.kernel);
        low = min64(low, part.low), high = max64(high, part.low + (part.kernel - 1) * apart);
    }
    if (axis.kernel) axis.low = low, axis.reach = high - low + 1;
    return axis;
}

void chip_problem_cut(chip_problem *p) {
    /* An int8 zero point between the elements adds to the sum. */
    p->phased = (p->input_dilation_y > 1 || p->input_dilation_x > 1) && (p->bf16 || !p->pad_byte);
    if (!p->phased) return;
    const dilated_axis y = rows_of(p), x = columns_of(p);
    p->phase_y = phases_of(&y), p->phase_x = phases_of(&x);
}

/* What `part` leaves of the rows. Columns below are the same. */
static void take_rows(chip_problem *p, const remainder *part, int64_t r) {
    const dilated_axis a = rows_of(p);
    const int64_t count = p->phase_y.count, step = p->phase_y.step;
    p->out_h = part->outs, p->grid_y = (uint32_t)part->kernel, p->pad_y = -part->low;
    p->stride_y = count * a.stride / a.apart, p->dilation_y = step * a.dilation / a.apart, p->input_dilation_y = 1;
    p->phase_y.first = part->first;
    p->wgt_base += (uint64_t)(part->first * p->wgt_sy), p->wgt_sy *= step;
    p->out.base += (uint64_t)(r * p->out.sy), p->out.sy *= count;
    p->res.base += (uint64_t)(r * p->res.sy), p->res.sy *= count;
}

static void take_columns(chip_problem *p, const remainder *part, int64_t r) {
    const dilated_axis a = columns_of(p);
    const int64_t count = p->phase_x.count, step = p->phase_x.step;
    p->out_w = part->outs, p->grid_x = (uint32_t)part->kernel, p->pad_x = -part->low;
    p->stride_x = count * a.stride / a.apart, p->dilation_x = step * a.dilation / a.apart, p->input_dilation_x = 1;
    p->phase_x.first = part->first;
    p->wgt_base += (uint64_t)(part->first * p->wgt_sx), p->wgt_sx *= step;
    p->out.base += (uint64_t)(r * p->out.sx), p->out.sx *= count;
    p->res.base += (uint64_t)(r * p->res.sx), p->res.sx *= count;
}

void chip_problem_lead(const chip_problem *p, chip_problem *lead) {
    *lead = *p;
    if (!p->phased) return;
    const remainder rows = {ceil_div(p->out_h, p->phase_y.count), 0, max64(1, p->phase_y.kernel), p->phase_y.low},
                    columns = {ceil_div(p->out_w, p->phase_x.count), 0, max64(1, p->phase_x.kernel), p->phase_x.low};
    take_rows(lead, &rows, 0);
    take_columns(lead, &columns, 0);
}

void chip_problem_phase(const chip_problem *p, uint32_t n, chip_problem *phase) {
    *phase = *p;
    if (!p->phased) return;
    const int64_t r = n / p->phase_x.count, c = n % p->phase_x.count;
    const dilated_axis y = rows_of(p), x = columns_of(p);
    const remainder rows = remainder_of(&y, &p->phase_y, r), columns = remainder_of(&x, &p->phase_x, c);
    take_rows(phase, &rows, r);
    take_columns(phase, &columns, c);
}
