/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan's cycles are made of (presil_chip_ops.work): the performance model's, for the simulator's memory. */
#include <stdlib.h>
#include <string.h>
#include "performance.h"
#include "plan.h"

enum { MOST_CYCLES = 1 << 26 }; /* by the plan's own estimate: some seconds of the model */

/* A parameter of the simulator's memory model, as it names it. */
static uint64_t parameter(const char *simulator, const char *name, uint64_t otherwise) {
    const char *at = strstr(simulator, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : otherwise;
}

static chip_memory memory_of(const presil_config *c, const char *simulator) {
    chip_memory m = {.latency = parameter(simulator, "latency=", 100),
                     .response = parameter(simulator, "response=", 40),
                     .bytes = parameter(simulator, "bytes=", c->word_bytes)};
    if (!m.bytes) m.bytes = 2 * c->word_bytes;
    return m;
}

/* What of its commands is no amount: number formats, conversions, transposition, residual. */
static uint64_t kind_of(const presil_desc *d) {
    switch (presil_desc_opcode(d)) {
    case PRESIL_OPCODE_LOAD: return 1u << (presil_load_conv(d) != PRESIL_CONV_NONE) | presil_load_transpose(d) << 2;
    case PRESIL_OPCODE_MATRIX:
        if (presil_matrix_dtype(d) == PRESIL_DTYPE_FP16) return 1u << 11 | presil_matrix_depthwise(d) << 10;
        return 8u << (presil_matrix_dtype(d) == PRESIL_DTYPE_BF16) | presil_matrix_depthwise(d) << 10;
    case PRESIL_OPCODE_EPILOGUE:
        if (presil_epilogue_out_type(d) == PRESIL_DTYPE_FP16) return 1u << 12 | presil_epilogue_res_en(d) << 9;
        return 32u << presil_epilogue_out_type(d) | presil_epilogue_res_en(d) << 9;
    default: return 0;
    }
}

int chip_plan_work(const presil_chip *chip, const presil_plan *plan, const char *simulator, presil_work *out) {
    const chip_memory memory = memory_of(&plan->config, simulator);
    chip_performance done = {0};
    uint64_t kind = 0;
    bool good = plan->estimate <= MOST_CYCLES;
    (void)chip;
    for (uint32_t segment = 0; segment < plan->segments && good; segment++) {
        const size_t first = chip_segment_first(plan, segment), count = plan->segment_ends[segment] - first;
        presil_desc *list = malloc((count ? count : 1) * sizeof *list);
        if (!list) return PRESIL_EHOSTMEM;
        chip_commands_at(plan, first, count, list);
        for (size_t i = 0; i < count; i++) kind |= kind_of(&list[i]);
        good = chip_perform(&plan->config, &memory, list, count, &done);
        free(list);
    }
    if (!good) return PRESIL_EUNSUPPORTED;
    presil_work own = {.kind = kind,
                       .cycles = done.cycles,
                       .count = 4,
                       .amounts = {plan->count, done.rows, done.read_beats, done.write_beats}};
    memcpy(own.stalls, done.stalls, sizeof done.stalls);
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}
