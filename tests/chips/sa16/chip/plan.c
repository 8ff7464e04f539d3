/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: a layer's operations, and the bytes that they read and write. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sa16.h"

int sa16_supports(const presil_chip *chip, const presil_op *op, presil_error_buffer *error) {
    (void)chip;
    if (op->kind == PRESIL_OP_NOP) return PRESIL_OK;
    layer l;
    const int status = sa16_layer_of(op, &l, error);
    return status ? status : sa16_tile(&l, NULL, error);
}

/* ---- ranges */
static bool add_range(presil_plan *p, uint64_t base, uint64_t bytes) {
    presil_byte_range *last = p->range_count ? &p->ranges[p->range_count - 1] : NULL;
    if (last && p->range_count > p->read_count && last->base.value + last->bytes == base) {
        last->bytes += bytes;
        return true;
    }
    if (p->range_count == p->range_room) {
        const uint32_t room = p->range_room ? 2 * p->range_room : 8;
        presil_byte_range *more = realloc(p->ranges, room * sizeof *more);
        if (!more) return false;
        p->ranges = more;
        p->range_room = room;
    }
    p->ranges[p->range_count++] = (presil_byte_range){{base}, bytes};
    return true;
}

static bool add_view(presil_plan *p, const view *v) {
    const bool dense = v->stride[2] == v->shape[3];
    if (v->block != WORD) {
        const int64_t image = (blocks_of(v->shape[3]) - 1) * v->block + v->shape[1] * v->shape[2] * WORD;
        return add_range(p, v->data, (uint64_t)((v->shape[0] - 1) * v->stride[0] + image));
    }
    for (int64_t n = 0; n < v->shape[0]; n++) {
        for (int64_t y = 0; y < v->shape[1]; y++) {
            for (int64_t x = 0; x < (dense ? 1 : v->shape[2]); x++) {
                const int64_t at = n * v->stride[0] + y * v->stride[1] + x * v->stride[2];
                if (!add_range(p, v->data + (uint64_t)at, (uint64_t)((dense ? v->shape[2] : 1) * v->shape[3])))
                    return false;
            }
        }
    }
    return true;
}

static uint32_t tidy(presil_byte_range *ranges, uint32_t count) { return (uint32_t)presil_merge_ranges(ranges, count); }

static bool overlap(const view *a, const view *b) {
    presil_plan p = {0};
    bool found = !add_view(&p, a);
    const uint32_t first = p.read_count = tidy(p.ranges, p.range_count);
    p.range_count = first;
    found = found || !add_view(&p, b);
    const uint32_t second = tidy(p.ranges + first, p.range_count - first);
    for (uint32_t i = 0, k = 0; !found && i < first && k < second;) {
        const presil_byte_range *x = &p.ranges[i], *y = &p.ranges[first + k];
        found = x->base.value < y->base.value + y->bytes && y->base.value < x->base.value + x->bytes;
        if (x->base.value + x->bytes <= y->base.value + y->bytes)
            i++;
        else
            k++;
    }
    free(p.ranges);
    return found;
}

static bool same(const view *a, const view *b) {
    return a->data == b->data && memcmp(a->stride, b->stride, sizeof a->stride) == 0;
}

static int add_ranges(const layer *l, presil_plan *p, presil_error_buffer *error) {
    bool ok = add_view(p, &l->in);
    if (l->mode & MODE_RESIDUAL) ok = ok && add_view(p, &l->res);
    if (!(l->mode & MODE_UNIFORM)) {
        const int64_t blocks = blocks_of(l->out.shape[3]);
        ok = ok && add_range(p, l->weights, l->params - l->weights + (uint64_t)blocks * PARAM_WORDS * WORD);
    }
    p->read_count = p->range_count = tidy(p->ranges, p->range_count);
    ok = ok && add_view(p, &l->out);
    p->range_count = p->read_count + tidy(p->ranges + p->read_count, p->range_count - p->read_count);
    return ok ? PRESIL_OK : sa16_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
}

/* ---- plans */
static void mix(uint64_t *hash, uint32_t value) { *hash = (*hash ^ value) * 0x100000001b3u; }

/* Addresses reduced to their place in the page. */
uint64_t sa16_signature(const presil_plan *p) {
    static const uint8_t low[] = {R_IN, R_OUT, R_RES, R_W, R_P};
    uint64_t hash = 0xcbf29ce484222325u;
    for (uint32_t i = 0; i < p->op_count; i++) {
        uint32_t reg[SET_REGS];
        memcpy(reg, p->ops[i].reg, sizeof reg);
        for (size_t k = 0; k < sizeof low; k++) reg[low[k]] &= 4095, reg[low[k] + 1] = 0;
        for (int k = 0; k < SET_REGS; k++) mix(&hash, reg[k]);
    }
    return hash;
}

static int plan_layer(const presil_op *op, presil_plan *p, presil_error_buffer *error) {
    layer l;
    int status = sa16_layer_of(op, &l, error);
    if (status) return status;
    if (overlap(&l.out, &l.in))
        return sa16_fail(error, PRESIL_EUNSUPPORTED, "sa16 can't write where it still has to read (output over input)");
    if (l.mode & MODE_RESIDUAL && !same(&l.out, &l.res) && overlap(&l.out, &l.res))
        return sa16_fail(error, PRESIL_EUNSUPPORTED, "sa16 can't write over a residual that lies elsewhere");
    status = sa16_tile(&l, p, error);
    if (!status) status = add_ranges(&l, p, error);
    p->macs = l.macs;
    p->out = l.out;
    return status;
}

int sa16_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error) {
    (void)chip;
    presil_plan *p = calloc(1, sizeof *p);
    if (!p) return sa16_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    const char *label = op->label ? op->label : op->kind == PRESIL_OP_NOP ? "nop" : "layer";
    (void)snprintf(p->label, sizeof p->label, "%s", label);
    const int status = op->kind == PRESIL_OP_NOP ? PRESIL_OK : plan_layer(op, p, error);
    if (status) {
        sa16_plan_free(p);
        return status;
    }
    p->signature = sa16_signature(p);
    *out = p;
    return PRESIL_OK;
}

void sa16_plan_free(presil_plan *plan) {
    if (!plan) return;
    free(plan->ops);
    free(plan->ranges);
    free(plan);
}

int sa16_plan_info(const presil_plan *plan, presil_plan_info *out) {
    const presil_plan_info own = {.label = plan->label,
                                  .macs = plan->macs,
                                  .passes = 1,
                                  .peak_macs_per_cycle = 256,
                                  .descriptors = plan->op_count,
                                  .signature = plan->signature,
                                  .estimate = plan->estimate,
                                  .segments = 1,
                                  .reads = plan->ranges,
                                  .writes = plan->ranges + plan->read_count,
                                  .read_count = plan->read_count,
                                  .write_count = plan->range_count - plan->read_count};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

/* The operation whose output the address is in, by its transfer; and which word of it. */
static const operation *writer_of(const presil_plan *plan, uint64_t address, uint32_t *number) {
    for (uint32_t i = plan->op_count; i-- > 0;) {
        const uint32_t *r = plan->ops[i].reg, *t = &r[R_OUT];
        const int64_t base = (int64_t)((uint64_t)t[T_HI] << 32 | t[T_LO]);
        const int64_t bytes = (int64_t)(t[T_RUN] & 0xffff) * ((int64_t)(t[T_RUN] >> 16) * WORD - WORD + t[T_TAIL]);
        for (int64_t o = 0; o < (int64_t)(t[T_COUNT] & 0xffff); o++) {
            for (int64_t k = 0; k < (int64_t)(t[T_COUNT] >> 16); k++) {
                const int64_t at = base + o * (int32_t)t[T_OUTER] + k * (int32_t)t[T_INNER];
                if ((int64_t)address < at || (int64_t)address >= at + bytes) continue;
                *number = i;
                return &plan->ops[i];
            }
        }
    }
    return NULL;
}

int sa16_describe(const presil_plan *plan, presil_daddr address, char *text, size_t bytes) {
    uint32_t number = 0;
    const operation *op = writer_of(plan, address.value, &number);
    if (!op) return PRESIL_EINVAL;
    const view *v = &plan->out;
    int64_t at = (int64_t)(address.value - v->data), index[4] = {0};
    for (int d = 0; d < 4 && v->data; d++) {
        if (d == 1 && v->block != WORD) index[3] = at / v->block * WORD, at %= v->block;
        if (v->shape[d] > 1 && v->stride[d] > 0) index[d] += at / v->stride[d], at %= v->stride[d];
    }
    (void)snprintf(text, bytes,
                   "output [%" PRId64 ", %" PRId64 ", %" PRId64 ", %" PRId64 "], operation %u of %u (register set %u)",
                   index[0], index[1], index[2], index[3], number, plan->op_count, number % 2);
    return PRESIL_OK;
}

/* Operations of one plan after those of another: the first of each waits until all before are stored. */
int sa16_merge(const presil_chip *chip, const presil_plan *const *plans, uint32_t count, const char *label,
               presil_plan **out, presil_error_buffer *error) {
    (void)chip;
    presil_plan *p = calloc(1, sizeof *p);
    for (uint32_t i = 0; p && i < count; i++) p->op_room += plans[i]->op_count, p->range_room += plans[i]->range_count;
    if (p) p->ops = calloc(p->op_room + 1, sizeof *p->ops), p->ranges = calloc(p->range_room + 1, sizeof *p->ranges);
    if (!p || !p->ops || !p->ranges) {
        sa16_plan_free(p);
        return sa16_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    }
    (void)snprintf(p->label, sizeof p->label, "%s", label ? label : "merged");
    for (uint32_t i = 0; i < count; i++) {
        const presil_plan *one = plans[i];
        if (one->op_count) memcpy(&p->ops[p->op_count], one->ops, one->op_count * sizeof *one->ops);
        if (one->op_count && p->op_count) p->ops[p->op_count].reg[R_MODE] |= MODE_AFTER;
        p->op_count += one->op_count;
        p->macs += one->macs;
        p->estimate += one->estimate;
        for (uint32_t k = 0; k < one->read_count; k++) p->ranges[p->read_count++] = one->ranges[k];
    }
    p->range_count = p->read_count = tidy(p->ranges, p->read_count);
    for (uint32_t i = 0; i < count; i++) {
        const presil_plan *one = plans[i];
        for (uint32_t k = one->read_count; k < one->range_count; k++) p->ranges[p->range_count++] = one->ranges[k];
    }
    p->range_count = p->read_count + tidy(p->ranges + p->read_count, p->range_count - p->read_count);
    p->signature = sa16_signature(p);
    *out = p;
    return PRESIL_OK;
}
