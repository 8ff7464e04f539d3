/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dilated input (transposed convolutions, gradients of inputs): most kernel positions of an output lie between two
 * elements of the input. Those that don't are the same for every `count`-th output, so the operator is `count` ones,
 * each with every `step`-th kernel position and an input without dilation: phases, along rows and along columns.
 *
 * A dilated depthwise kernel: outputs `count` apart meet the same one of every `dilation` elements, as neighbours of a
 * dense kernel do, so that one window serves them. Each phase has the whole kernel.
 *
 * The scratchpad has one copy of a depthwise kernel for all phases, of either kind.
 */
#include "problem.h"

/* What of a problem is along an axis. Output o and kernel position k meet (o·stride − pad + k·dilation) ÷ apart of the
 * input, if that is whole. */
typedef struct {
    int64_t *outs, *stride, *pad, *dilation, *apart, *wgt, *out, *res; /* wgt, out, res: steps in memory, bytes */
    uint32_t *kernel;
    chip_phase_axis *phase;
    chip_kernel_axis_pieces *pieces;
} dilated_axis;

static dilated_axis rows_of(chip_problem *p) {
    return (dilated_axis){&p->out_h,  &p->stride_y, &p->pad_y,  &p->dilation_y, &p->input_dilation_y, &p->wgt_sy,
                          &p->out.sy, &p->res.sy,   &p->grid_y, &p->phase_y,    &p->pieces_y};
}
static dilated_axis columns_of(chip_problem *p) {
    return (dilated_axis){&p->out_w,  &p->stride_x, &p->pad_x,  &p->dilation_x, &p->input_dilation_x, &p->wgt_sx,
                          &p->out.sx, &p->res.sx,   &p->grid_x, &p->phase_x,    &p->pieces_x};
}

/* Outputs r, r + count, …: how many they are, their kernel positions first, first + step, …, the input that the first
 * of each meet. */
typedef struct {
    int64_t outs, first, kernel, low;
} remainder;

static remainder remainder_of(const dilated_axis *a, const chip_phase_axis *axis, int64_t r) {
    remainder part = {.outs = r < *a->outs ? ceil_div(*a->outs - r, axis->count) : 0};
    for (int64_t k = 0; part.outs && k < min64(axis->step, *a->kernel); k++) {
        const int64_t at = r * *a->stride - *a->pad + k * *a->dilation;
        if (at % *a->apart) continue;
        part.first = k, part.kernel = ceil_div(*a->kernel - k, axis->step), part.low = at / *a->apart;
        break;
    }
    return part;
}

static chip_phase_axis phases_of(dilated_axis a, int64_t count) {
    chip_phase_axis axis = {.count = count, .step = *a.apart / chip_gcd(*a.dilation, *a.apart)};
    const int64_t apart = axis.step * *a.dilation / *a.apart;
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (int64_t r = 0; r < axis.count; r++) {
        const remainder part = remainder_of(&a, &axis, r);
        axis.products += part.outs * part.kernel;
        if (!part.kernel) continue;
        axis.kernel = max64(axis.kernel, part.kernel);
        low = min64(low, part.low), high = max64(high, part.low + (part.kernel - 1) * apart);
    }
    if (axis.kernel) axis.low = low, axis.reach = high - low + 1;
    return axis;
}

void chip_problem_cut(chip_problem *p) {
    int64_t rows = p->input_dilation_y / chip_gcd(p->stride_y, p->input_dilation_y),
            columns = p->input_dilation_x / chip_gcd(p->stride_x, p->input_dilation_x);
    /* An int8 zero point between the elements adds to the sum. */
    p->phased = (p->input_dilation_y > 1 || p->input_dilation_x > 1) && (p->floats || !p->pad_byte);
    if (p->depthwise) {
        if (p->input_dilation_y == 1) rows = p->pieces_y.phases;
        if (p->input_dilation_x == 1) columns = p->pieces_x.phases;
        p->phased |= rows * columns > 1;
    }
    if (!p->phased) return;
    p->phase_y = phases_of(rows_of(p), rows), p->phase_x = phases_of(columns_of(p), columns);
}

/* What `part` leaves of an axis. */
static void take(chip_problem *p, dilated_axis a, const remainder *part, int64_t r) {
    const int64_t count = a.phase->count, step = a.phase->step;
    *a.outs = part->outs, *a.kernel = (uint32_t)part->kernel, *a.pad = -part->low;
    *a.stride = count * *a.stride / *a.apart, *a.dilation = step * *a.dilation / *a.apart, *a.apart = 1;
    a.phase->first = part->first;
    if (p->depthwise)
        *a.pieces = chip_kernel_pieces(*a.kernel, *a.stride, *a.dilation, *a.outs);
    else
        p->wgt_base += (uint64_t)(part->first * *a.wgt), *a.wgt *= step;
    p->out.base += (uint64_t)(r * *a.out), *a.out *= count;
    p->res.base += (uint64_t)(r * *a.res), *a.res *= count;
}

static void take_largest(chip_problem *p, dilated_axis a) {
    const remainder largest = {ceil_div(*a.outs, a.phase->count), 0, max64(1, a.phase->kernel), a.phase->low};
    take(p, a, &largest, 0);
}

static void take_remainder(chip_problem *p, dilated_axis a, int64_t r) {
    const remainder part = remainder_of(&a, a.phase, r);
    take(p, a, &part, r);
}

void chip_problem_lead(const chip_problem *p, chip_problem *lead) {
    *lead = *p;
    if (!p->phased) return;
    take_largest(lead, rows_of(lead));
    take_largest(lead, columns_of(lead));
}

void chip_problem_phase(const chip_problem *p, uint32_t n, chip_problem *phase) {
    *phase = *p;
    if (!p->phased) return;
    take_remainder(phase, rows_of(phase), n / p->phase_x.count);
    take_remainder(phase, columns_of(phase), n % p->phase_x.count);
}
