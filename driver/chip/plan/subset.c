/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plan with some of its commands left out. Where one goes, both ends of its tokens go with it: the k-th wait on a
 * counter belongs to its k-th signal. What is left is proved like any other plan, and what makes no sense any more (it
 * reads what nobody wrote, or its order went through a command that is gone) goes too.
 */
#include <stdlib.h>
#include <string.h>
#include "plan.h"

enum { TOKENS = 4 * PRESIL_ENGINES };

/* Signals and waits of one counter, in order. false: no host memory. */
static bool drop_tokens(presil_desc *list, size_t count, const uint8_t *keep, uint32_t token) {
    size_t *given = malloc((2 * count + 1) * sizeof *given), *taken = given + count, gives = 0, takes = 0;
    if (!given) return false;
    for (size_t i = 0; i < count; i++) {
        const uint32_t op = presil_desc_opcode(&list[i]);
        if (op == token / 4 + 1 && (presil_desc_signal(&list[i]) >> token % 4 & 1u)) given[gives++] = i;
        if (presil_desc_wait(&list[i]) >> token & 1u) taken[takes++] = i;
    }
    for (size_t k = 0; k < gives && k < takes; k++) {
        presil_desc *from = &list[given[k]], *to = &list[taken[k]];
        if (keep[given[k]] && keep[taken[k]]) continue;
        presil_desc_signal_set(from, presil_desc_signal(from) & ~(1u << token % 4));
        presil_desc_wait_set(to, presil_desc_wait(to) & ~(1u << token));
    }
    free(given);
    return true;
}

/* `list`: those of a segment that stay. Returns how many, or -1 with the place of one that makes no sense. */
static int64_t reduce(const presil_plan *plan, uint32_t s, const uint8_t *keep, presil_desc *list, size_t *wrong) {
    const size_t first = chip_segment_first(plan, s), count = plan->segment_ends[s] - first;
    char text[256];
    size_t kept = 0, bad = 0;
    chip_commands_at(plan, first, count, list);
    for (uint32_t token = 0; token < TOKENS; token++) {
        if (!drop_tokens(list, count, keep + first, token)) return -1;
    }
    for (size_t i = 0; i < count; i++) {
        if (keep[first + i]) list[kept++] = list[i];
    }
    if (!chip_check_first(&plan->config, list, kept, &bad, text, sizeof text)) return (int64_t)kept;
    for (size_t i = 0, k = 0; i < count; i++) {
        if (keep[first + i] && k++ == bad) *wrong = first + i;
    }
    return -1;
}

int chip_subset(const presil_chip *chip, const presil_plan *plan, uint8_t *keep, presil_plan **result,
                presil_error_buffer *error) {
    (void)chip;
    presil_plan *out = chip_plan_part(plan, 0);
    if (!out) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a part of a plan");
    out->segments = 0;
    for (uint32_t s = 0; s < plan->segments;) {
        size_t wrong = SIZE_MAX;
        const int64_t kept = reduce(plan, s, keep, chip_own_list(out) + out->count, &wrong);
        if (kept < 0 && wrong == SIZE_MAX) {
            chip_plan_free(out);
            return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a part of a plan");
        }
        if (kept < 0) keep[wrong] = 0;
        if (kept > 0) out->count += (size_t)kept;
        if (kept > 0) chip_own_ends(out)[out->segments++] = out->count;
        s += kept >= 0;
    }
    if (out->count) return chip_plan_part_done(out, result, error);
    chip_plan_free(out);
    return chip_fail(error, PRESIL_EINVAL, "no command is left");
}
