/* SPDX-License-Identifier: Apache-2.0 */
/* plan.h - commands with what they read and write: made, shared, merged, cut, stored, proved. */
#ifndef PRESIL_CHIP_PLAN_H
#define PRESIL_CHIP_PLAN_H

#include "tiling.h"

/* ---- plans ---------------------------------------------------------------------------------- */
/* What operands are called (usage.c). UNTOLD: commands that were read from somewhere. */
typedef enum { OF_UNTOLD, OF_CONV, OF_MATMUL, OF_MATMUL_TURNED, OF_WEIGHT_GRADIENT, OF_COPY } chip_operator;

/* An operator of a merged plan: its output, and which descriptors are its own. */
typedef struct {
    chip_view out;
    int64_t out_shape[4];
    char label[64];
    size_t first, end;
    chip_operator of;
} chip_part;

/* prefix.c: where a prefix carries the chip's own memories to, and which of its descriptors are not the plan's. */
typedef struct {
    uint64_t to; /* 0: nowhere */
    size_t first, before;
} chip_observation;

/* templates.c: commands that plans share, for any place of their operands. */
typedef struct chip_template chip_template;

struct presil_plan {
    presil_config config;
    const presil_desc *list;
    const uint8_t *operands;    /* of each descriptor: whose address it has; NULL: not known, and nothing is moved */
    const size_t *segment_ends; /* descriptors before the end of each launch */
    size_t count;
    uint32_t segments;
    const chip_template *shared;   /* whose the three lists are; NULL: the plan's own */
    uint64_t shift[CHIP_OPERANDS]; /* by operand: to be added to the address of a LOAD or STORE in `list` */
    char label[64];
    uint64_t macs, passes, peak, signature, estimate;
    presil_byte_range *reads, *writes;
    uint32_t read_count, write_count;
    presil_box *boxes; /* written too */
    uint32_t box_count;
    chip_view out; /* as the caller gave it: [n][y][x][c] */
    int64_t out_shape[4];
    chip_tiling tiling;
    chip_operator of;
    chip_part *parts; /* merged plans only */
    uint32_t part_count;
    chip_observation observed;
};
int chip_plan_from(chip_builder *b, presil_plan *plan, presil_error_buffer *error); /* order, tokens, signature */
/* The lists of a plan that shares none. They may be changed until somebody shares them. */
static inline presil_desc *chip_own_list(presil_plan *plan) {
    assert(!plan->shared);
    return (presil_desc *)(uintptr_t)plan->list;
}
static inline uint8_t *chip_own_operands(presil_plan *plan) {
    assert(!plan->shared);
    return (uint8_t *)(uintptr_t)plan->operands;
}
static inline size_t *chip_own_ends(presil_plan *plan) {
    assert(!plan->shared);
    return (size_t *)(uintptr_t)plan->segment_ends;
}
/* commands.c: room for lists of a plan that has none; false: no host memory. */
bool chip_plan_room(presil_plan *plan, size_t count, size_t segments, bool operands);
void chip_plan_drop_commands(presil_plan *plan);
static inline size_t chip_segment_first(const presil_plan *plan, uint32_t segment) {
    return segment ? plan->segment_ends[segment - 1] : 0;
}
/* All commands of a plan, with its addresses in them, as another's own. false: no host memory. */
bool chip_copy_commands(const presil_plan *from, presil_plan *to);
/* What has to be added to the address in descriptor i. */
static inline uint64_t chip_shift(const presil_plan *plan, size_t i) {
    return plan->shared ? plan->shift[plan->operands[i]] : 0;
}
/* Descriptors [first, first + count) as the chip gets them. */
void chip_commands_at(const presil_plan *plan, size_t first, size_t count, presil_desc *to);
presil_plan *chip_plan_new(const presil_config *config, const char *label, const char *default_label);
/* footprint.c */
int chip_plan_ranges(presil_plan *plan, const chip_view *const *reads, const int64_t (*read_shapes)[4], uint32_t count,
                     const presil_byte_range *extra, uint32_t extra_count, presil_error_buffer *error);
/* All that it writes, as sorted ranges, to be freed; NULL: no host memory. */
presil_byte_range *chip_plan_written(const presil_plan *plan, uint32_t *count);
uint64_t chip_plan_signature(
    const presil_plan *plan); /* of the commands, DRAM addresses reduced to their offset in the page */
/* All that its cycles depend on: as presil_chip_ops.timing. */
int chip_plan_timing(const presil_chip *chip, const presil_plan *plan, presil_timing_add add, void *context);
/* work.c: as presil_chip_ops.work. */
int chip_plan_work(const presil_chip *chip, const presil_plan *plan, const char *simulator, presil_work *out);
/* As presil_chip_ops.usage. */
int chip_plan_usage(const presil_chip *chip, const presil_plan *plan, presil_usage_tell tell, void *context);
void chip_plan_free(presil_plan *plan);
int chip_plan_info(const presil_plan *plan, presil_plan_info *out);
int chip_plan_describe(const presil_plan *plan, presil_daddr address, char *text, size_t bytes);
/* Of a list that runs to its end: the order of LOADs and STOREs in DRAM. */
int chip_order_hazards(const presil_desc *list, size_t count, const chip_moment *at, chip_hazards *hazards);
/* PRESIL_HAZARDS=1: looks at a launch before it is submitted; EDESC, and all that is found on standard error. */
int chip_hazards_of_launch(const presil_plan *plan, size_t first, size_t end, presil_error_buffer *error);
/* The same of descriptors [first, end) of a plan, a launch, and the order of LOADs and STOREs in DRAM (order.c): of a
 * merged plan between its operators, else of all. */
int chip_check_order(const presil_plan *plan, size_t first, size_t end, char *text, size_t bytes);
/* The same of all launches of a plan, and that it reads and writes what it declares. */
int chip_prove(const presil_plan *plan, char *text, size_t bytes);
/* The end of every planner: with PRESIL_CHECK_PLANS proves the plan, EDESC (and freed) if it is wrong. */
int chip_plan_done(presil_plan *plan, presil_plan **out, presil_error_buffer *error);
/* Chooses a tiling (forced: the n-th) and fills the plan's command list. */
int chip_solve(const chip_problem *p, uint32_t forced, presil_plan *plan, presil_error_buffer *error);

/* templates.c: the commands of an equal problem planned before, shared at this one's addresses; and what the next one
 * may share. */
bool chip_template_recall(const chip_problem *p, presil_plan *plan);
void chip_template_remember(const chip_problem *p, presil_plan *plan);
void chip_template_release(const chip_template *t);
/* A plan's own copy of shared commands, with its addresses in them. false: no host memory. */
bool chip_plan_own(presil_plan *plan);
typedef struct {
    uint64_t planned, recalled, evicted; /* since the process began; planned: problems that nothing was known of */
    uint64_t bytes, templates;           /* kept now */
    uint64_t most_bytes;
} chip_template_figures;
chip_template_figures chip_templates(void);
void chip_templates_limit(uint64_t most_bytes); /* evicts what is too much */

int chip_save(const presil_plan *plan, presil_daddr base, void *to, uint64_t *size, presil_error_buffer *error);
int chip_load(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
              presil_plan **out, presil_error_buffer *error);
int chip_load_refused(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                      presil_plan **result, presil_error_buffer *error);
bool chip_image_ranges(presil_plan *plan); /* reads and writes, from the commands; false: no host memory */
int chip_commands(const presil_plan *plan, uint64_t *count);
int chip_command_name(const presil_plan *plan, uint64_t n, char *text, size_t bytes);
int chip_observed(const presil_chip *chip, uint64_t *bytes);
int chip_prefix(const presil_chip *chip, const presil_plan *plan, uint64_t commands, const presil_daddr *to,
                presil_plan **result, presil_error_buffer *error);
int chip_subset(const presil_chip *chip, const presil_plan *plan, uint8_t *keep, presil_plan **result,
                presil_error_buffer *error);
/* prefix.c: room for a part of a plan, and `more`; NULL: no host memory. Ranges and signature, when its list is there;
 * owns `out`. */
presil_plan *chip_plan_part(const presil_plan *plan, size_t more);
int chip_plan_part_done(presil_plan *out, presil_plan **result, presil_error_buffer *error);
bool chip_describe_observed(const presil_plan *plan, uint64_t address, char *text, size_t bytes);
/* moved.c: as presil_chip_ops.moved. */
int chip_moved(const presil_chip *chip, const presil_plan *plan, const presil_move *moves, uint32_t count,
               presil_plan **result, presil_error_buffer *error);
int chip_merge(const presil_chip *chip, const presil_plan *const *plans, uint32_t count, const char *label,
               presil_plan **out, presil_error_buffer *error);

#endif
