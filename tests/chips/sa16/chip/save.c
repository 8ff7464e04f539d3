/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as bytes, with addresses counted from a base: for bundles and programs compiled ahead of time. */
#include <stdlib.h>
#include <string.h>
#include "sa16.h"

typedef struct {
    char magic[8]; /* with the version of this format */
    char label[64];
    uint64_t macs, estimate;
    uint32_t op_count, read_count, range_count, reserved;
    view out;
} header;

static const char magic[8] = "sa16 v2";
static const uint8_t addresses[] = {R_IN, R_OUT, R_RES, R_W, R_P};

static bool has_address(const operation *op, uint32_t reg) {
    const uint32_t mode = op->reg[R_MODE];
    if (reg == R_RES) return mode & MODE_RESIDUAL;
    if (reg == R_W) return (mode & MODE_KIND) == MODE_CONV;
    return reg == R_P ? !(mode & MODE_UNIFORM) : true;
}

static void move(operation *op, uint64_t by) {
    for (size_t i = 0; i < sizeof addresses; i++) {
        uint32_t *at = &op->reg[addresses[i]];
        if (!has_address(op, addresses[i])) continue;
        const uint64_t address = ((uint64_t)at[1] << 32 | at[0]) + by;
        at[0] = (uint32_t)address;
        at[1] = (uint32_t)(address >> 32);
    }
}

static bool within(const presil_byte_range *ranges, uint32_t count, uint64_t from, uint64_t bytes) {
    for (uint32_t i = 0; i < count; i++) {
        if (from >= ranges[i].base.value && bytes <= ranges[i].bytes &&
            from - ranges[i].base.value <= ranges[i].bytes - bytes)
            return true;
    }
    return false;
}

/* Runs of a transfer at `base`, all within the ranges. */
static bool runs_within(const uint32_t *t, const uint32_t *base, const presil_byte_range *ranges, uint32_t count) {
    const uint64_t start = (uint64_t)base[1] << 32 | base[0];
    const uint64_t bytes = (uint64_t)(t[T_RUN] & 0xffff) * ((uint64_t)(t[T_RUN] >> 16) * WORD - WORD + t[T_TAIL]);
    for (uint32_t o = 0; o < (t[T_COUNT] & 0xffff); o++) {
        for (uint32_t i = 0; i < t[T_COUNT] >> 16; i++) {
            const int64_t step = (int64_t)o * (int32_t)t[T_OUTER] + (int64_t)i * (int32_t)t[T_INNER];
            if (!within(ranges, count, start + (uint64_t)step, bytes)) return false;
        }
    }
    return true;
}

static int inside(const presil_plan *p, presil_error_buffer *error) {
    const presil_byte_range *writes = p->ranges + p->read_count;
    for (uint32_t i = 0; i < p->op_count; i++) {
        const operation *op = &p->ops[i];
        const uint32_t *r = op->reg;
        bool ok = r[R_IN + T_TAIL] <= WORD && r[R_OUT + T_TAIL] <= WORD;
        ok = ok && runs_within(&r[R_IN], &r[R_IN], p->ranges, p->read_count);
        ok = ok && runs_within(&r[R_OUT], &r[R_OUT], writes, p->range_count - p->read_count);
        if (has_address(op, R_RES)) ok = ok && runs_within(&r[R_OUT], &r[R_RES], p->ranges, p->read_count);
        if (has_address(op, R_W))
            ok = ok && within(p->ranges, p->read_count, (uint64_t)r[R_W + 1] << 32 | r[R_W], r[R_W_WORDS] * 16ull);
        if (has_address(op, R_P))
            ok = ok && within(p->ranges, p->read_count, (uint64_t)r[R_P + 1] << 32 | r[R_P],
                              (r[R_BLOCKS] >> 16) * (uint64_t)(PARAM_WORDS * WORD));
        if (!ok) return sa16_fail(error, PRESIL_EINVAL, "operation %u of a saved plan leaves what the plan touches", i);
    }
    return PRESIL_OK;
}

static uint64_t bytes_of(const header *h) {
    return sizeof *h + (uint64_t)h->op_count * sizeof(operation) + (uint64_t)h->range_count * sizeof(presil_byte_range);
}

int sa16_save(const presil_plan *plan, presil_daddr base, void *to, uint64_t *size, presil_error_buffer *error) {
    header h = {.macs = plan->macs,
                .estimate = plan->estimate,
                .op_count = plan->op_count,
                .read_count = plan->read_count,
                .range_count = plan->range_count,
                .out = plan->out};
    memcpy(h.magic, magic, sizeof magic);
    memcpy(h.label, plan->label, sizeof h.label);
    h.out.data -= plan->out.data ? base.value : 0;
    const uint64_t room = *size;
    *size = bytes_of(&h);
    if (!to) return PRESIL_OK;
    if (room < *size) return sa16_fail(error, PRESIL_EINVAL, "%llu bytes are needed", (unsigned long long)*size);
    uint8_t *at = to;
    memcpy(at, &h, sizeof h);
    at += sizeof h;
    for (uint32_t i = 0; i < plan->op_count; i++, at += sizeof(operation)) {
        operation op = plan->ops[i];
        move(&op, -base.value);
        memcpy(at, &op, sizeof op);
    }
    for (uint32_t i = 0; i < plan->range_count; i++, at += sizeof(presil_byte_range)) {
        presil_byte_range range = plan->ranges[i];
        range.base.value -= base.value;
        memcpy(at, &range, sizeof range);
    }
    return PRESIL_OK;
}

static int read_body(presil_plan *p, const header *h, const uint8_t *from, presil_daddr base, uint64_t bytes,
                     presil_error_buffer *error) {
    memcpy(p->ops, from, h->op_count * sizeof(operation));
    memcpy(p->ranges, from + h->op_count * sizeof(operation), h->range_count * sizeof(presil_byte_range));
    for (uint32_t i = 0; i < h->op_count; i++) move(&p->ops[i], base.value);
    for (uint32_t i = 0; i < h->range_count; i++) {
        presil_byte_range *r = &p->ranges[i];
        if (r->base.value > bytes || r->bytes > bytes - r->base.value)
            return sa16_fail(error, PRESIL_EINVAL, "a saved plan of sa16 leaves its memory");
        r->base.value += base.value;
    }
    return inside(p, error);
}

int sa16_load(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
              presil_plan **out, presil_error_buffer *error) {
    (void)chip;
    header h;
    if (size >= sizeof h) memcpy(&h, from, sizeof h);
    if (size < sizeof h || memcmp(h.magic, magic, sizeof magic) != 0 || h.range_count < h.read_count ||
        bytes_of(&h) != size)
        return sa16_fail(error, PRESIL_EINVAL, "not a plan of sa16 (version 2), or a torn one");
    presil_plan *p = calloc(1, sizeof *p);
    if (p) p->ops = calloc(h.op_count + 1u, sizeof *p->ops), p->ranges = calloc(h.range_count + 1u, sizeof *p->ranges);
    int status = p && p->ops && p->ranges ? PRESIL_OK : PRESIL_EHOSTMEM;
    if (!status) {
        memcpy(p->label, h.label, sizeof p->label - 1);
        p->macs = h.macs, p->estimate = h.estimate;
        p->op_count = p->op_room = h.op_count;
        p->read_count = h.read_count, p->range_count = p->range_room = h.range_count;
        p->out = h.out;
        p->out.data += h.out.data ? base.value : 0;
        status = read_body(p, &h, (const uint8_t *)from + sizeof h, base, bytes, error);
    }
    if (status) {
        sa16_plan_free(p);
        return status;
    }
    p->signature = sa16_signature(p);
    *out = p;
    return PRESIL_OK;
}
