/* SPDX-License-Identifier: Apache-2.0 */
/* A launch: its operations go to the register sets in turn; each interrupt makes room for the next one. */
#include "sa16.h"

int sa16_probe(presil_chip *chip, const presil_link *link, presil_error_buffer *error) {
    (void)chip;
    uint32_t found[3]; /* ID, VERSION, SIZES */
    const int status = presil_kit_get_all(link, A_ID, NULL, 3, found, error);
    if (status) return status;
    if (found[0] == SA16_ID && found[1] == SA16_VERSION && found[2] == SA16_SIZES) return PRESIL_OK;
    return presil_kit_fail(error, PRESIL_ENODEV,
                           "not sa16: identification 0x%08x, version %u, sizes 0x%08x; expected 0x%08x, %u, 0x%08x",
                           found[0], found[1], found[2], SA16_ID, SA16_VERSION, SA16_SIZES);
}

int sa16_reset(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
               presil_error_buffer *error) {
    (void)chip, (void)memory;
    uint32_t state = 0;
    int status = presil_kit_put(link, A_ENABLE, 0, error);
    if (!status) status = presil_kit_put(link, A_EVENTS, EVENT_SETS | EVENT_BUS | EVENT_REFUSED, error);
    if (!status) status = presil_kit_put(link, A_ERROR, 3, error);
    if (!status) status = presil_kit_get(link, A_STATUS, &state, error);
    if (!status && state & 0xfff)
        return presil_kit_fail(error, PRESIL_EDEAD, "not idle after reset: STATUS 0x%x", state);
    return status;
}

/* Registers that the set holds already are left alone, but for those of the launch's first two operations: its cycles
 * don't depend on what was before it. */
static int write_operation(presil_chip *chip, const presil_link *link, const operation *op, uint32_t set,
                           presil_error_buffer *error) {
    int status = PRESIL_OK;
    for (uint32_t i = R_MODE; i < SET_REGS && !status; i++) {
        if (chip->known[set] && chip->held[set][i] == op->reg[i]) continue;
        status = presil_kit_put(link, A_SET * (1 + set) + 4 * i, op->reg[i], error);
    }
    memcpy(chip->held[set], op->reg, sizeof op->reg);
    chip->known[set] = true;
    return status ? status : presil_kit_put(link, A_SET * (1 + set), 1, error);
}

/* Which registers write_operation() leaves alone is seen in simulated time, and depends on whole addresses: two buffers
 * may lie on two sides of 4 GiB. */
int sa16_timing(const presil_chip *chip, const presil_plan *plan, presil_timing_add add, void *context) {
    for (uint32_t n = 2; n < plan->count; n++) {
        const operation *op = presil_kit_command(plan, n), *held = presil_kit_command(plan, n - 2);
        uint64_t alone = 0;
        for (uint32_t i = R_MODE; i < SET_REGS; i++) alone |= (uint64_t)(op->reg[i] == held->reg[i]) << i;
        add(context, &alone, sizeof alone);
    }
    return presil_kit_timing(chip, plan, add, context);
}

int sa16_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                const presil_plan *plan, uint32_t segment, presil_error_buffer *error) {
    (void)memory, (void)segment;
    *chip = (presil_chip){0};
    int status = presil_kit_put(link, A_CONTROL, 1, error);
    if (!status) status = presil_kit_put(link, A_ENABLE, EVENT_SETS | EVENT_BUS | EVENT_REFUSED, error);
    for (; chip->next < 2 && chip->next < plan->count && !status; chip->next++)
        status = write_operation(chip, link, presil_kit_command(plan, chip->next), chip->next, error);
    return status;
}

static int told_error(const presil_link *link, uint32_t events, presil_service *out) {
    uint32_t error = 0;
    (void)presil_kit_get(link, A_ERROR, &error, NULL);
    out->result = PRESIL_SERVICE_ERROR;
    out->status = events & EVENT_BUS ? PRESIL_EBUS : PRESIL_EDESC;
    (void)snprintf(out->text, sizeof out->text, "%s",
                   events & EVENT_REFUSED ? "an operation was refused"
                   : error & 2            ? "bus error of a write"
                                          : "bus error of a read");
    return PRESIL_OK;
}

int sa16_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out) {
    uint32_t events = 0;
    presil_error_buffer error = {out->text, sizeof out->text};
    out->result = PRESIL_SERVICE_DONE;
    if (chip->done == plan->count) return PRESIL_OK;
    int status = presil_kit_get(link, A_EVENTS, &events, &error);
    if (!status && events) status = presil_kit_put(link, A_EVENTS, events, &error);
    if (status) return status;
    if (events & (EVENT_BUS | EVENT_REFUSED)) return told_error(link, events, out);
    /* Sets end in turn; both may have. */
    const uint32_t before = chip->done;
    while (!status && events >> chip->done % 2 & 1) {
        const uint32_t set = chip->done++ % 2;
        events &= ~(1u << set);
        if (chip->next < plan->count)
            status = write_operation(chip, link, presil_kit_command(plan, chip->next++), set, &error);
    }
    out->result = chip->done == plan->count ? PRESIL_SERVICE_DONE
                  : chip->done > before     ? PRESIL_SERVICE_PROGRESS
                                            : PRESIL_SERVICE_BUSY;
    return status;
}

static const char *const states[] = {"idle", "queued", "loading", "loaded", "computing", "computed", "storing", "?"};

int sa16_why(presil_chip *chip, const presil_link *link, const presil_plan *plan, char *text, size_t bytes) {
    uint32_t status = 0, counter[3];
    if (presil_kit_get(link, A_STATUS, &status, NULL) || presil_kit_get_all(link, A_COUNTERS, NULL, 3, counter, NULL))
        return PRESIL_EDEAD;
    (void)snprintf(
        text, bytes, "operation %u of %u after %u cycles: set 0 %s, set 1 %s; %s%s%swork; %u beats read, %u written",
        chip->done, plan->count, counter[0], states[status & 7], states[status >> 4 & 7], status & 0x100 ? "load " : "",
        status & 0x200 ? "array " : "", status & 0x400 ? "store " : "", counter[1], counter[2]);
    return PRESIL_OK;
}

int sa16_progress(presil_chip *chip, const presil_link *link, uint64_t *work) {
    (void)chip;
    static const uint8_t working[] = {1, 2, 3, 4, 8, 9, 12};
    uint32_t value[sizeof working];
    if (presil_kit_get_all(link, A_COUNTERS, working, sizeof working, value, NULL)) return PRESIL_EDEAD;
    *work = 0;
    for (size_t i = 0; i < sizeof working; i++) *work += value[i];
    return PRESIL_OK;
}

enum { LOAD, ARRAY, STORE };
enum { WORKS, BUS, EMPTIES, WAITS, NOTHING };

int sa16_counters(presil_chip *chip, const presil_link *link, presil_report *out) {
    (void)chip;
    uint32_t c[16];
    if (presil_kit_get_all(link, A_COUNTERS, NULL, 16, c, NULL)) return PRESIL_EDEAD;
    out->cycles += c[0];
    out->read_beats += c[1];
    out->write_beats += c[2];
    out->read_bytes += (uint64_t)c[1] * WORD;
    out->write_bytes += (uint64_t)c[2] * WORD;
    out->descriptors += c[3];
    for (uint32_t unit = LOAD; unit <= STORE; unit++) {
        const uint32_t *own = &c[4 + 4 * unit];
        out->stalls[unit][WORKS] += own[0];
        out->stalls[unit][unit == ARRAY ? EMPTIES : BUS] += own[1];
        out->stalls[unit][WAITS] += own[2];
        out->stalls[unit][NOTHING] += own[3];
    }
    return PRESIL_OK;
}

int sa16_names(const presil_chip *chip, presil_names *out) {
    (void)chip;
    static const presil_name units[] = {
        {.name = "load", .meaning = "fetches input, weights, parameters, residual"},
        {.name = "array", .meaning = "16 x 16 systolic array, and pooling", .flags = PRESIL_NAME_ARRAY},
        {.name = "store", .meaning = "writes the output buffer"},
    };
    static const presil_name causes[] = {
        {.name = "busy", .flags = PRESIL_NAME_WORKS, .bound = "array"},
        {.name = "bus", .meaning = "waits for the memory", .bound = "memory"},
        {.name = "emptying", .meaning = "results leave the array", .bound = "emptying"},
        {.name = "wait_unit", .meaning = "waits for the unit before it", .bound = "load"},
        {.name = "nothing", .meaning = "no operation", .bound = "overhead"},
    };
    static const presil_property sizes[] = {
        {.name = "array_rows", .meaning = "output pixels side by side", .value = WORD},
        {.name = "array_columns", .meaning = "output channels side by side", .value = WORD},
        {.name = "input_buffer", .unit = "bytes", .meaning = "of an operation", .value = IN_WORDS * WORD},
        {.name = "weight_buffer", .unit = "bytes", .meaning = "of an operation", .value = WEIGHT_WORDS * WORD},
    };
    const presil_names own = {.engine_count = sizeof units / sizeof *units,
                              .cause_count = sizeof causes / sizeof *causes,
                              .engines = units,
                              .causes = causes,
                              .commands = "operations",
                              .properties = sizes,
                              .property_count = sizeof sizes / sizeof *sizes};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}
