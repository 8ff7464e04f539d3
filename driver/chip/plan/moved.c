/* SPDX-License-Identifier: Apache-2.0 */
/* A plan for operands at other places: the same commands at other addresses. What a descriptor works on shows the first
 * byte that it touches, as a LOAD may begin with padding; all of an operator's with one operand move alike. */
#include <stdlib.h>
#include "rows.h"

typedef struct {
    const presil_move *at;
    uint32_t count;
} move_list;

static presil_daddr moved(move_list m, presil_daddr address) { return presil_moved(m.at, m.count, address); }

static bool first_byte(void *byte, uint64_t base, uint64_t bytes) {
    (void)bytes;
    *(uint64_t *)byte = base;
    return false;
}

/* What is to be added to the address of descriptor i. false: it touches nothing, so not known. */
static bool delta_of(const presil_plan *plan, size_t i, move_list m, uint64_t *delta) {
    const presil_desc *d = &plan->list[i];
    const uint64_t shift = chip_shift(plan, i);
    const dram_rows rows = presil_desc_opcode(d) == PRESIL_OPCODE_LOAD ? load_rows(d, shift) : store_rows(d, shift);
    uint64_t byte;
    if (chip_each_row(&rows, first_byte, &byte)) return false;
    *delta = moved(m, (presil_daddr){byte}).value - byte;
    return true;
}

/* Descriptors [first, end), of one operator. */
static void move_part(const presil_plan *from, size_t first, size_t end, move_list m, presil_desc *to) {
    bool known[CHIP_OPERANDS] = {false};
    uint64_t delta[CHIP_OPERANDS] = {0};
    for (size_t i = first; i < end; i++) {
        const uint32_t op = presil_desc_opcode(&to[i]);
        if (op != PRESIL_OPCODE_LOAD && op != PRESIL_OPCODE_STORE) continue;
        const uint8_t operand = from->operands ? from->operands[i] : OPERAND_NONE;
        if (!known[operand] || operand == OPERAND_NONE) {
            known[operand] = delta_of(from, i, m, &delta[operand]);
            if (!known[operand]) continue;
        }
        if (delta[operand]) chip_address_set(&to[i], chip_address(&to[i]) + delta[operand]);
    }
}

/* Ranges that were joined across what moves fall apart again. NULL: no host memory. */
static presil_byte_range *moved_ranges(const presil_byte_range *from, uint32_t *count, move_list m) {
    presil_byte_range *out = malloc((*count + 2 * (size_t)m.count + 1) * sizeof *out);
    size_t n = 0;
    for (uint32_t i = 0; out && i < *count; i++) {
        uint64_t at = from[i].base.value;
        const uint64_t end = at + from[i].bytes;
        while (at < end) {
            uint64_t until = end;
            for (uint32_t k = 0; k < m.count; k++) {
                const uint64_t low = m.at[k].from.value, high = low + m.at[k].bytes;
                if (low > at && low < until) until = low;
                if (high > at && high < until) until = high;
            }
            out[n++] = (presil_byte_range){moved(m, (presil_daddr){at}), until - at};
            at = until;
        }
    }
    if (out) *count = (uint32_t)presil_merge_ranges(out, n);
    return out;
}

/* All of `from` but its commands and ranges. false: no host memory. */
static bool copy_rest(const presil_plan *from, presil_plan *out, move_list m) {
    *out = *from;
    out->list = NULL, out->operands = NULL, out->segment_ends = NULL, out->shared = NULL;
    out->reads = out->writes = NULL;
    out->boxes = malloc((from->box_count + 1) * sizeof *out->boxes);
    out->parts = from->parts ? malloc((from->part_count + 1) * sizeof *out->parts) : NULL;
    if (!out->boxes || (from->parts && !out->parts)) return false;
    for (uint32_t i = 0; i < from->box_count; i++) {
        out->boxes[i] = from->boxes[i];
        out->boxes[i].base = moved(m, from->boxes[i].base);
    }
    for (uint32_t i = 0; i < from->part_count && from->parts; i++) {
        out->parts[i] = from->parts[i];
        out->parts[i].out.base = moved(m, (presil_daddr){from->parts[i].out.base}).value;
    }
    out->out.base = moved(m, (presil_daddr){from->out.base}).value;
    return true;
}

int chip_moved(const presil_chip *chip, const presil_plan *plan, const presil_move *moves, uint32_t count,
               presil_plan **result, presil_error_buffer *error) {
    (void)chip;
    const move_list m = {moves, count};
    presil_plan *out = calloc(1, sizeof *out);
    bool ok = out && copy_rest(plan, out, m) && chip_copy_commands(plan, out);
    if (ok) {
        out->reads = moved_ranges(plan->reads, &out->read_count, m);
        out->writes = moved_ranges(plan->writes, &out->write_count, m);
        ok = out->reads && out->writes;
    }
    if (!ok) {
        chip_plan_free(out);
        return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for %zu descriptors at other places", plan->count);
    }
    presil_desc *list = chip_own_list(out);
    for (uint32_t i = 0; i < plan->part_count; i++) move_part(plan, plan->parts[i].first, plan->parts[i].end, m, list);
    if (!plan->part_count) move_part(plan, 0, plan->count, m, list);
    return chip_plan_done(out, result, error);
}
