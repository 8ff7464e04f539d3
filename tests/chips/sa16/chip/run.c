/* SPDX-License-Identifier: Apache-2.0 */
/* A launch: its operations go to the register sets in turn; each interrupt makes room for the next one. */
#include <stdio.h>
#include <string.h>
#include "sa16.h"

static int port_failed(const presil_link *link, int code, presil_error_buffer *error) {
    return sa16_fail(error, code == PRESIL_TRANSPORT_ESTOPPED ? PRESIL_ESTOPPED : PRESIL_EDEAD,
                     "register access failed: %s", link->ops->last_error(link->handle));
}
static int get(const presil_link *link, uint32_t offset, uint32_t *value) {
    return link->ops->read32(link->handle, offset, value);
}
static int put(const presil_link *link, uint32_t offset, uint32_t value) {
    return link->ops->write32(link->handle, offset, value);
}

int sa16_probe(presil_chip *chip, const presil_link *link, presil_error_buffer *error) {
    (void)chip;
    uint32_t id = 0, version = 0, sizes = 0;
    int code = get(link, A_ID, &id);
    if (!code) code = get(link, A_VERSION, &version);
    if (!code) code = get(link, A_SIZES, &sizes);
    if (code) return port_failed(link, code, error);
    if (id != SA16_ID || version != SA16_VERSION || sizes != SA16_SIZES)
        return sa16_fail(error, PRESIL_ENODEV,
                         "not sa16: identification 0x%08x, version %u, sizes 0x%08x; expected 0x%08x, %u, 0x%08x", id,
                         version, sizes, SA16_ID, SA16_VERSION, SA16_SIZES);
    return PRESIL_OK;
}

int sa16_reset(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
               presil_error_buffer *error) {
    (void)chip, (void)memory;
    uint32_t status = 0;
    int code = put(link, A_ENABLE, 0);
    if (!code) code = put(link, A_EVENTS, EVENT_SETS | EVENT_BUS | EVENT_REFUSED);
    if (!code) code = put(link, A_ERROR, 3);
    if (!code) code = get(link, A_STATUS, &status);
    if (code) return port_failed(link, code, error);
    return status & 0xfff ? sa16_fail(error, PRESIL_EDEAD, "not idle after reset: STATUS 0x%x", status) : PRESIL_OK;
}

/* Registers that the set holds already are left alone, but for those of the launch's first two operations: its cycles
 * don't depend on what was before it. */
static int write_operation(presil_chip *chip, const presil_link *link, const operation *op, uint32_t set) {
    int code = 0;
    for (uint32_t i = R_MODE; i < SET_REGS && !code; i++) {
        if (chip->known[set] && chip->held[set][i] == op->reg[i]) continue;
        code = put(link, A_SET * (1 + set) + 4 * i, op->reg[i]);
    }
    memcpy(chip->held[set], op->reg, sizeof op->reg);
    chip->known[set] = true;
    return code ? code : put(link, A_SET * (1 + set), 1);
}

int sa16_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                const presil_plan *plan, uint32_t segment, presil_error_buffer *error) {
    (void)memory, (void)segment;
    *chip = (presil_chip){0};
    int code = put(link, A_CONTROL, 1);
    if (!code) code = put(link, A_ENABLE, EVENT_SETS | EVENT_BUS | EVENT_REFUSED);
    for (; chip->next < 2 && chip->next < plan->op_count && !code; chip->next++)
        code = write_operation(chip, link, &plan->ops[chip->next], chip->next);
    return code ? port_failed(link, code, error) : PRESIL_OK;
}

static void told_error(const presil_link *link, uint32_t events, presil_service *out) {
    uint32_t error = 0;
    (void)get(link, A_ERROR, &error);
    out->result = PRESIL_SERVICE_ERROR;
    out->status = events & EVENT_BUS ? PRESIL_EBUS : PRESIL_EDESC;
    (void)snprintf(out->text, sizeof out->text, "%s",
                   events & EVENT_REFUSED ? "an operation was refused"
                   : error & 2            ? "bus error of a write"
                                          : "bus error of a read");
}

int sa16_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out) {
    uint32_t events = 0;
    presil_error_buffer error = {out->text, sizeof out->text};
    out->result = PRESIL_SERVICE_DONE;
    if (chip->done == plan->op_count) return PRESIL_OK;
    int code = get(link, A_EVENTS, &events);
    if (!code && events) code = put(link, A_EVENTS, events);
    if (code) return port_failed(link, code, &error);
    if (events & (EVENT_BUS | EVENT_REFUSED)) {
        told_error(link, events, out);
        return PRESIL_OK;
    }
    /* Sets end in turn; both may have. */
    const uint32_t before = chip->done;
    while (events >> chip->done % 2 & 1) {
        const uint32_t set = chip->done++ % 2;
        events &= ~(1u << set);
        if (chip->next == plan->op_count) continue;
        code = write_operation(chip, link, &plan->ops[chip->next++], set);
        if (code) return port_failed(link, code, &error);
    }
    out->result = chip->done == plan->op_count ? PRESIL_SERVICE_DONE
                  : chip->done > before        ? PRESIL_SERVICE_PROGRESS
                                               : PRESIL_SERVICE_BUSY;
    return PRESIL_OK;
}

static const char *const states[] = {"idle", "queued", "loading", "loaded", "computing", "computed", "storing", "?"};

int sa16_why(presil_chip *chip, const presil_link *link, const presil_plan *plan, char *text, size_t bytes) {
    uint32_t status = 0, counter[4] = {0};
    int code = get(link, A_STATUS, &status);
    for (uint32_t i = 0; i < 4 && !code; i++) code = get(link, A_COUNTERS + 4 * i, &counter[i]);
    if (code) return PRESIL_EDEAD;
    (void)snprintf(text, bytes,
                   "operation %u of %u after %u cycles: set 0 %s, set 1 %s; %s%s%swork; %u beats read, %u written",
                   chip->done, plan->op_count, counter[0], states[status & 7], states[status >> 4 & 7],
                   status & 0x100 ? "load " : "", status & 0x200 ? "array " : "", status & 0x400 ? "store " : "",
                   counter[1], counter[2]);
    return PRESIL_OK;
}

int sa16_progress(presil_chip *chip, const presil_link *link, uint64_t *work) {
    (void)chip;
    static const uint8_t working[] = {1, 2, 3, 4, 8, 9, 12};
    *work = 0;
    for (size_t i = 0; i < sizeof working; i++) {
        uint32_t value = 0;
        if (get(link, A_COUNTERS + 4u * working[i], &value)) return PRESIL_EDEAD;
        *work += value;
    }
    return PRESIL_OK;
}

enum { LOAD, ARRAY, STORE };
enum { WORKS, BUS, EMPTIES, WAITS, NOTHING };

int sa16_counters(presil_chip *chip, const presil_link *link, presil_report *out) {
    (void)chip;
    uint32_t c[16];
    for (uint32_t i = 0; i < 16; i++) {
        if (get(link, A_COUNTERS + 4 * i, &c[i])) return PRESIL_EDEAD;
    }
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
    const presil_names own = {.engine_count = sizeof units / sizeof *units,
                              .cause_count = sizeof causes / sizeof *causes,
                              .engines = units,
                              .causes = causes};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}
