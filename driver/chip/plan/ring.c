/* SPDX-License-Identifier: Apache-2.0 */
/* From operations to a plan: their order in the ring, their tokens (docs/isa.md section 1), the signature. */
#include <stdlib.h>
#include <string.h>
#include "plan.h"

/* No counter may pass 255: the giver of a token waits for the taker of the one TOKEN_LEAD before it. In program order
 * that taker has been emitted already. */
static bool bound_tokens(chip_op *ops, size_t count) {
    enum { TOKEN_LEAD = 200 };
    uint32_t n[CHIP_ENGINES] = {0}, *at = malloc((count + 1) * 2 * sizeof *at),
             *takers = at + count + 1; /* at: operation of each engine's sequence number */
    if (!at) return false;
    for (size_t i = 0; i < count; i++) n[ops[i].engine]++;
    for (uint32_t giver = 0; giver < CHIP_ENGINES; giver++) {
        uint32_t given = 0;
        for (size_t i = 0; i < count; i++) {
            if (ops[i].engine == giver) at[given++] = (uint32_t)i;
        }
        for (uint32_t taker = 0; taker < CHIP_ENGINES; taker++) {
            uint32_t synced = 0, tokens = 0, seq = 0;
            if (taker == giver || n[giver] <= TOKEN_LEAD) continue;
            for (size_t i = 0; i < count; i++) {
                if (ops[i].engine != taker) continue;
                seq++;
                if (ops[i].need[giver] <= synced) continue;
                synced = ops[i].need[giver];
                takers[tokens++] = seq;
                if (tokens > TOKEN_LEAD) chip_need(&ops[at[synced - 1]], taker, takers[tokens - 1 - TOKEN_LEAD]);
            }
        }
    }
    free(at);
    return true;
}

/* One segment: merges the engines' queues by estimated start, so that no full queue holds back what could start, then
 * turns needs into tokens. Both engines of a pair work in order: the k-th signal of a counter answers its k-th wait. */
static void order_segment(chip_op *ops, size_t count, const uint64_t *starts, uint32_t *order, uint32_t *queue) {
    uint32_t head[CHIP_ENGINES], tail[CHIP_ENGINES];
    uint32_t base[CHIP_ENGINES], n[CHIP_ENGINES] = {0};
    for (size_t i = 0; i < count; i++) n[ops[i].engine]++;
    for (uint32_t e = 0, at = 0; e < CHIP_ENGINES; at += n[e], e++) base[e] = head[e] = tail[e] = at;
    for (size_t i = 0; i < count; i++) queue[tail[ops[i].engine]++] = (uint32_t)i;
    for (size_t out = 0; out < count; out++) {
        uint32_t best = CHIP_ENGINES;
        for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
            if (head[e] < tail[e] && (best == CHIP_ENGINES || starts[queue[head[e]]] < starts[queue[head[best]]]))
                best = e;
        }
        order[out] = queue[head[best]++];
    }
    uint32_t synced[CHIP_ENGINES][CHIP_ENGINES] = {{0}};
    for (size_t k = 0; k < count; k++) {
        chip_op *op = &ops[order[k]];
        for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
            if (e == op->engine || op->need[e] <= synced[op->engine][e]) continue;
            synced[op->engine][e] = op->need[e];
            chip_op *giver = &ops[queue[base[e] + op->need[e] - 1]];
            uint32_t slot = chip_token_slot(e, op->engine);
            presil_desc_signal_set(&giver->d, presil_desc_signal(&giver->d) | 1u << slot);
            presil_desc_wait_set(&op->d, presil_desc_wait(&op->d) | 1u << (4 * e + slot));
        }
    }
}

uint64_t chip_plan_signature(const presil_plan *plan) {
    uint64_t h = chip_mix(plan->config.hash, plan->count);
    for (size_t i = 0; i < plan->count; i++) {
        const presil_desc *d = &plan->list[i];
        uint32_t opcode = presil_desc_opcode(d);
        bool bus = opcode == PRESIL_OPCODE_LOAD || opcode == PRESIL_OPCODE_STORE;
        h = chip_mix(h, (uint64_t)d->w[0] << 32 | d->w[1]);
        for (uint32_t w = 3; w < 24; w++) {
            uint32_t v = d->w[w];
            if (bus && w == 3) v &= 4095u;
            if (bus && w == 4) v = 0;
            h = chip_mix(h, v);
        }
    }
    return h;
}

int chip_plan_timing(const presil_chip *chip, const presil_plan *plan, presil_timing_add add, void *context) {
    (void)chip;
    add(context, &plan->config.hash, sizeof plan->config.hash);
    for (uint32_t segment = 0; segment < plan->segments; segment++) {
        const uint64_t end = plan->segment_ends[segment];
        add(context, &end, sizeof end);
    }
    for (size_t i = 0; i < plan->count; i++) {
        presil_desc d = plan->list[i];
        const uint32_t opcode = presil_desc_opcode(&d);
        d.w[2] = 0; /* a label: no engine looks at it */
        if (opcode == PRESIL_OPCODE_LOAD || opcode == PRESIL_OPCODE_STORE) {
            d.w[3] = (d.w[3] + (uint32_t)chip_shift(plan, i)) & 4095u;
            d.w[4] = 0;
        }
        add(context, &d, sizeof d);
    }
    return PRESIL_OK;
}

int chip_plan_from(chip_builder *b, presil_plan *plan, presil_error_buffer *error) {
    size_t n = b->count;
    const bool room = chip_plan_room(plan, n, b->cut_count + 1, true);
    uint64_t *starts = malloc((n ? n : 1) * sizeof *starts);
    uint32_t *scratch = malloc((n ? n : 1) * 2 * sizeof *scratch);
    if (b->failed || !room || !starts || !scratch) {
        free(starts);
        free(scratch);
        return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan of %zu descriptors", n);
    }
    size_t first = 0;
    for (size_t s = 0; s <= b->cut_count; s++) {
        size_t end = s < b->cut_count ? b->cuts[s] : n;
        b->failed |= !bound_tokens(b->ops + first, end - first);
        first = end;
    }
    uint64_t edges;
    plan->estimate = chip_builder_time(b, starts, &edges);
    if (b->failed || plan->estimate == UINT64_MAX) {
        free(starts);
        free(scratch);
        return chip_fail(error, PRESIL_EHOSTMEM, "no host memory to order a plan of %zu descriptors", n);
    }
    first = 0;
    for (size_t s = 0; s <= b->cut_count; s++) {
        size_t end = s < b->cut_count ? b->cuts[s] : n;
        order_segment(b->ops + first, end - first, starts + first, scratch, scratch + n);
        for (size_t k = 0; k < end - first; k++) {
            chip_own_list(plan)[first + k] = b->ops[first + scratch[k]].d;
            chip_own_operands(plan)[first + k] = b->ops[first + scratch[k]].operand;
        }
        chip_own_ends(plan)[s] = end;
        first = end;
    }
    plan->segments = (uint32_t)b->cut_count + 1;
    plan->count = n;
    plan->signature = chip_plan_signature(plan);
    free(starts);
    free(scratch);
    return chip_fields_fit(error);
}
