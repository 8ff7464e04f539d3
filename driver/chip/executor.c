/* SPDX-License-Identifier: Apache-2.0 */
/* The reference executor: the plan's command list on the C twin. */
#include "registers.h"
#include "presil_twin.h"

typedef struct {
    const presil_executor_memory *memory;
} sink;

static void on_write(void *context, uint64_t address, uint64_t bytes, uint32_t index) {
    const presil_executor_memory *m = ((const sink *)context)->memory;
    (void)index;
    m->on_write(m->context, (presil_daddr){address}, bytes);
}

int chip_execute(presil_chip *chip, const presil_plan *plan, const presil_executor_memory *memory,
                 presil_error_buffer *error) {
    if (!chip->twin) chip->twin = presil_twin_create(&chip->config);
    if (!chip->twin) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for the twin");
    presil_twin_set_windows(chip->twin, &chip->windows);
    presil_twin_threads(chip->twin, memory->threads ? memory->threads : 1);
    presil_twin_memory window = {memory->base.value, memory->bytes, memory->host};
    sink to = {memory};
    size_t first = 0;
    for (uint32_t s = 0; s < plan->segments; s++) {
        presil_twin_error e = {0};
        size_t count = plan->segment_ends[s] - first;
        const presil_twin_shift shift = {plan->shared ? plan->operands + first : NULL, plan->shift};
        if (presil_twin_execute_at(chip->twin, plan->list + first, count, plan->shared ? &shift : NULL, &window,
                                   memory->on_write ? on_write : NULL, &to, &e)) {
            bool bus =
                e.code == PRESIL_ERROR_READ_BUS || e.code == PRESIL_ERROR_WRITE_BUS || e.code == PRESIL_ERROR_WINDOW;
            return chip_fail(error,
                             e.deadlock ? PRESIL_EHUNG
                             : bus      ? PRESIL_EBUS
                                        : PRESIL_EDESC,
                             "descriptor %zu: %s", first + e.index, e.text);
        }
        first = plan->segment_ends[s];
    }
    return PRESIL_OK;
}
