/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hazard sanitizer (presil_hazards.h): what check.c and order.c find in a list that anybody made, with the lines
 * that made it. check.c turns tokens into what is known to be over; two accesses with neither known to be over before
 * the other begins are a hazard, whether or not this run would show it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "rows.h"

static const uint64_t most_effort = UINT64_C(1) << 32;

/* LOADs and STOREs of rows outside of [memory, memory + bytes). */
static void look_at_memory(const presil_desc *list, size_t count, uint64_t memory, uint64_t bytes, chip_hazards *h) {
    for (size_t i = 0; i < count; i++) {
        const bool store = presil_desc_opcode(&list[i]) == PRESIL_OPCODE_STORE;
        if (!store && presil_desc_opcode(&list[i]) != PRESIL_OPCODE_LOAD) continue;
        const dram_rows w = store ? store_rows(&list[i], 0) : load_rows(&list[i], 0);
        if (!w.length || w.limit) continue; /* rows that a limit leaves out are not read: the bus tells of the others */
        const dram_span hull = rows_hull(&w, 3, w.addr);
        if (hull.low >= memory && hull.high <= memory + bytes) continue;
        char text[256];
        (void)snprintf(text, sizeof text,
                       "descriptor %zu (%s, tile %u): rows from 0x%" PRIx64 " to 0x%" PRIx64
                       " leave the memory from 0x%" PRIx64 " to 0x%" PRIx64,
                       i, chip_opcode_name(&list[i]), presil_desc_tag(&list[i]), hull.low, hull.high, memory,
                       memory + bytes);
        chip_hazard_tell(h, PRESIL_HAZARD_OUT_OF_BOUNDS, &list[i], i, PRESIL_HAZARD_NONE, text);
    }
}

static int look(const presil_config *config, const presil_desc *list, size_t count, chip_hazards *h) {
    chip_moment *at = calloc(count + 1, sizeof *at);
    if (!at) return PRESIL_EHOSTMEM;
    const bool ends = !chip_check_hazards(config, list, count, at, h);
    const int status = ends && chip_order_hazards(list, count, at, h) ? PRESIL_EHOSTMEM : PRESIL_OK;
    free(at);
    return status;
}

int presil_hazards(const presil_hazard_options *options, size_t *found) {
    const presil_config *config = presil_configs;
    const presil_desc *const list = options->commands;
    if (options->size != sizeof *options || !options->config || (options->count && !list)) return PRESIL_EINVAL;
    while (config->name && strcmp(config->name, options->config) != 0) config++;
    if (!config->name || chip_effort(config, list, options->count) > most_effort) return PRESIL_EINVAL;
    chip_hazards h = {.labels = options->labels, .sink = options->sink, .context = options->context};
    const int status = look(config, list, options->count, &h);
    if (options->bytes) look_at_memory(list, options->count, options->memory, options->bytes, &h);
    *found = h.found;
    return status;
}

/* ---- PRESIL_HAZARDS ------------------------------------------------------------------------- */
typedef struct {
    const presil_plan *plan;
    size_t first;
    char text[384]; /* of the first hazard */
} of_launch;

static void on_hazard(void *context, const presil_hazard *hazard) {
    of_launch *l = context;
    const char *label = l->plan->label;
    for (uint32_t p = 0; p < l->plan->part_count; p++) {
        if (l->plan->parts[p].first <= l->first + hazard->command && l->first + hazard->command < l->plan->parts[p].end)
            label = l->plan->parts[p].label;
    }
    char line[640];
    (void)snprintf(line, sizeof line, "%s: %s", label, hazard->text);
    (void)fprintf(stderr, "presil: hazard: %s\n", line);
    if (!l->text[0]) (void)snprintf(l->text, sizeof l->text, "%.380s", line);
}

int chip_hazards_of_launch(const presil_plan *plan, size_t first, size_t end, presil_error_buffer *error) {
    const char *const wanted = getenv("PRESIL_HAZARDS");
    if (!wanted || !*wanted || !strcmp(wanted, "0")) return PRESIL_OK;
    of_launch l = {.plan = plan, .first = first};
    chip_hazards h = {.sink = on_hazard, .context = &l};
    presil_desc *list = malloc((end - first + 1) * sizeof *list);
    if (list) chip_commands_at(plan, first, end - first, list);
    const int status = list ? look(&plan->config, list, end - first, &h) : PRESIL_EHOSTMEM;
    free(list);
    if (status != PRESIL_OK) return chip_fail(error, status, "no host memory to look for hazards");
    if (!h.found) return PRESIL_OK;
    return chip_fail(error, PRESIL_EDESC, "%zu hazards in a launch, the first: %s", h.found, l.text);
}
