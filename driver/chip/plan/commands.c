/* SPDX-License-Identifier: Apache-2.0 */
/* The commands of a plan: its own, or shared with plans of the same problem at other addresses (templates.c). */
#include <stdlib.h>
#include <string.h>
#include "plan.h"

bool chip_plan_room(presil_plan *plan, size_t count, size_t segments, bool operands) {
    plan->list = malloc((count + 1) * sizeof *plan->list);
    plan->segment_ends = calloc(segments + 1, sizeof *plan->segment_ends);
    plan->operands = operands ? malloc(count + 1) : NULL;
    return plan->list && plan->segment_ends && (plan->operands || !operands);
}

void chip_plan_drop_commands(presil_plan *plan) {
    if (plan->shared) {
        chip_template_release(plan->shared);
    } else {
        free(chip_own_list(plan));
        free(chip_own_operands(plan));
        free(chip_own_ends(plan));
    }
    plan->list = NULL;
    plan->operands = NULL;
    plan->segment_ends = NULL;
    plan->shared = NULL;
}

void chip_commands_at(const presil_plan *plan, size_t first, size_t count, presil_desc *to) {
    if (!plan->shared) {
        memcpy(to, plan->list + first, count * sizeof *to);
        return;
    }
    for (size_t i = 0; i < count; i++) { /* `to` may be memory that is slow to read */
        presil_desc d = plan->list[first + i];
        const uint64_t shift = chip_shift(plan, first + i);
        if (shift) chip_address_set(&d, chip_address(&d) + shift);
        to[i] = d;
    }
}

bool chip_copy_commands(const presil_plan *from, presil_plan *to) {
    if (!chip_plan_room(to, from->count, from->segments, from->operands)) return false;
    chip_commands_at(from, 0, from->count, chip_own_list(to));
    if (from->operands) memcpy(chip_own_operands(to), from->operands, from->count);
    memcpy(chip_own_ends(to), from->segment_ends, from->segments * sizeof *from->segment_ends);
    return true;
}

bool chip_plan_own(presil_plan *plan) {
    if (!plan->shared) return true;
    presil_plan own = *plan;
    own.shared = NULL;
    if (!chip_copy_commands(plan, &own)) {
        chip_plan_drop_commands(&own);
        return false;
    }
    chip_template_release(plan->shared);
    *plan = own;
    return true;
}
