/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several plans as one launch. Between two of them every engine waits for what the other engines did before, and the
 * last STORE waits for its write responses ("ordered"): what follows sees its bytes. Nothing inside a plan changes, so
 * neither do its bits.
 */
#include <stdlib.h>
#include <string.h>
#include "plan.h"

enum { RING_ENTRIES = 1 << CHIP_RING_LOG2 };

typedef struct {
    presil_desc *list;
    size_t count;
    presil_desc *last[CHIP_ENGINES]; /* of each engine in this launch; NULL: none yet */
} launch;

static bool engine_of(const presil_desc *d, uint32_t *engine) {
    uint32_t op = presil_desc_opcode(d);
    *engine = op - 1;
    return op != PRESIL_OPCODE_NOP;
}

/* Appends descriptors [from, from + count) of another plan. A token is added for each pair of engines that has none
 * across the seam already: if the last descriptor of the giver signals the taker, the taker has waited for it; if the
 * first of the taker waits for the giver, it waits for a later descriptor. */
static void join(launch *l, const presil_plan *plan, size_t from, size_t count) {
    presil_desc *first[CHIP_ENGINES] = {NULL}, *to = l->list + l->count;
    uint32_t giver, taker;
    chip_commands_at(plan, from, count, to);
    for (size_t i = 0; i < count; i++) {
        if (engine_of(&to[i], &taker) && !first[taker]) first[taker] = &to[i];
    }
    if (l->last[STORE]) presil_store_ordered_set(l->last[STORE], 1);
    for (giver = 0; giver < CHIP_ENGINES; giver++) {
        for (taker = 0; taker < CHIP_ENGINES; taker++) {
            if (giver == taker || !l->last[giver] || !first[taker]) continue;
            uint32_t slot = chip_token_slot(giver, taker), signal = presil_desc_signal(l->last[giver]),
                     wait = presil_desc_wait(first[taker]);
            if ((signal >> slot & 1u) || (wait >> (4 * giver + slot) & 1u)) continue;
            presil_desc_signal_set(l->last[giver], signal | 1u << slot);
            presil_desc_wait_set(first[taker], wait | 1u << (4 * giver + slot));
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (engine_of(&to[i], &giver)) l->last[giver] = &to[i];
    }
    l->count += count;
}

static bool add_ranges(presil_byte_range **list, size_t *count, const presil_byte_range *more, uint32_t n) {
    presil_byte_range *grown = realloc(*list, (*count + n + 1) * sizeof *grown);
    if (!grown) return false;
    *list = grown;
    for (uint32_t i = 0; i < n; i++) grown[(*count)++] = more[i];
    return true;
}

static bool add_boxes(presil_plan *to, const presil_plan *from) {
    presil_box *grown = realloc(to->boxes, (to->box_count + from->box_count + 1) * sizeof *grown);
    if (!grown) return false;
    to->boxes = grown;
    for (uint32_t i = 0; i < from->box_count; i++) grown[to->box_count++] = from->boxes[i];
    return true;
}

static bool allocate(presil_plan *out, const presil_plan *const *plans, uint32_t count) {
    size_t descriptors = 0, segments = 0;
    for (uint32_t i = 0; i < count; i++) descriptors += plans[i]->count, segments += plans[i]->segments;
    out->parts = calloc(count, sizeof *out->parts);
    return chip_plan_room(out, descriptors, segments, true) && out->parts;
}

/* Nominal work adds up; passes and peak are those of the part with the most work. */
static void sum_up(presil_plan *out, const presil_plan *const *plans, uint32_t count) {
    uint64_t most = 0;
    out->peak = plans[0]->peak;
    for (uint32_t i = 0; i < count; i++) {
        const presil_plan *p = plans[i];
        out->macs += p->macs;
        out->estimate += p->estimate;
        if (p->tiling.total_words > out->tiling.total_words) out->tiling.total_words = p->tiling.total_words;
        if (p->macs * p->passes > most) most = p->macs * p->passes, out->passes = p->passes, out->peak = p->peak;
        chip_part *part = &out->parts[i];
        part->of = p->of;
        part->out = p->out;
        memcpy(part->out_shape, p->out_shape, sizeof part->out_shape);
        memcpy(part->label, p->label, sizeof part->label);
    }
}

int chip_merge(const presil_chip *chip, const presil_plan *const *plans, uint32_t count, const char *label,
               presil_plan **result, presil_error_buffer *error) {
    if (count == 0) return chip_fail(error, PRESIL_EINVAL, "nothing to merge");
    presil_plan *out = chip_plan_new(&chip->config, label, "list");
    size_t reads = 0, writes = 0;
    bool ok = out && allocate(out, plans, count);
    for (uint32_t i = 0; ok && i < count; i++) {
        ok = !plans[i]->parts && add_ranges(&out->reads, &reads, plans[i]->reads, plans[i]->read_count) &&
             add_ranges(&out->writes, &writes, plans[i]->writes, plans[i]->write_count) && add_boxes(out, plans[i]);
    }
    if (!ok) {
        chip_plan_free(out);
        return chip_fail(error, PRESIL_EHOSTMEM, "no host memory to merge %u plans, or one of them is merged already",
                         count);
    }
    out->read_count = (uint32_t)presil_merge_ranges(out->reads, reads);
    out->write_count = (uint32_t)presil_merge_ranges(out->writes, writes);
    sum_up(out, plans, count);
    out->part_count = count;
    out->segments = 0;
    launch l = {.list = chip_own_list(out)};
    for (uint32_t i = 0; i < count; i++) {
        out->parts[i].first = out->count;
        if (plans[i]->operands)
            memcpy(chip_own_operands(out) + out->count, plans[i]->operands, plans[i]->count);
        else
            memset(chip_own_operands(out) + out->count, OPERAND_NONE, plans[i]->count);
        for (size_t s = 0, first = 0; s < plans[i]->segments; first = plans[i]->segment_ends[s++]) {
            size_t n = plans[i]->segment_ends[s] - first;
            if (l.count + n > RING_ENTRIES) { /* more than the ring holds: another doorbell */
                chip_own_ends(out)[out->segments++] = out->count;
                l = (launch){.list = chip_own_list(out) + out->count};
            }
            join(&l, plans[i], first, n);
            out->count += n;
        }
        out->parts[i].end = out->count;
    }
    chip_own_ends(out)[out->segments++] = out->count;
    out->signature = chip_plan_signature(out);
    return chip_plan_done(out, result, error);
}
