/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan to a running chip: reset, ring, doorbell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "port.h"

/* A queue reset on a busy chip drains its bus transactions first (docs/isa.md section 1). Whoever has no clock is given
 * wall time. */
enum { DRAIN_CYCLES = 256, DRAIN_NS = 1000000, DRAIN_LOOKS = 1000 };

static uint32_t drained_status(port *p) {
    uint32_t status = get(p, PRESIL_REG_STATUS);
    for (int i = 0; i < DRAIN_LOOKS && p->status == 0 && (status & PRESIL_STATUS_BUSY_MASK); i++) {
        presil_wait w = {.size = sizeof w, .deadline_cycles = DRAIN_CYCLES, .deadline_ns = DRAIN_NS};
        p->status = p->link->ops->wait(p->link->handle, &w);
        status = get(p, PRESIL_REG_STATUS);
    }
    return status;
}

/* PRESIL_BUS_TIMEOUT: cycles, 0 or unset: the register as the reset left it, off. False: it is no such number. */
static bool wanted_timeout(uint32_t *cycles) {
    const char *const text = getenv("PRESIL_BUS_TIMEOUT");
    *cycles = 0;
    if (!text || !*text) return true;
    char *end = NULL;
    const unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value > UINT32_MAX) return false;
    *cycles = (uint32_t)value;
    return true;
}

int chip_reset(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
               presil_error_buffer *error) {
    port p = {link, 0};
    uint32_t timeout;
    if (!wanted_timeout(&timeout))
        return chip_fail(error, PRESIL_EINVAL, "PRESIL_BUS_TIMEOUT: cycles expected, 0 to %u, found '%s'", UINT32_MAX,
                         getenv("PRESIL_BUS_TIMEOUT"));
    if (memory->bytes < CHIP_RING_BYTES + (chip->records ? CHIP_RECORD_BYTES : 0))
        return chip_fail(error, PRESIL_EINVAL, "command memory of %llu bytes is too small",
                         (unsigned long long)memory->bytes);
    chip->ring = memory->base.value;
    chip->ring_bytes = memory->bytes;
    chip->running = false;
    chip->behind_count = 0;
    put(&p, PRESIL_REG_IRQ_ENABLE, 0);
    put(&p, PRESIL_REG_CONTROL, CONTROL_QUEUE_RESET | CONTROL_COUNTER_CLEAR);
    const uint32_t status = drained_status(&p);
    put(&p, PRESIL_REG_IRQ_CLEAR, IRQ_DONE | IRQ_ERROR);
    put(&p, PRESIL_REG_RING_BASE_LO, (uint32_t)memory->base.value);
    put(&p, PRESIL_REG_RING_BASE_HI, (uint32_t)(memory->base.value >> 32));
    put(&p, PRESIL_REG_RING_LOG2, CHIP_RING_LOG2);
    if (timeout) put(&p, PRESIL_REG_BUS_TIMEOUT, timeout);
    chip_restore_windows(chip, &p);
    const int records = chip_start_records(chip, &p, error);
    if (records != PRESIL_OK) return records;
    put(&p, PRESIL_REG_IRQ_ENABLE, IRQ_DONE | IRQ_ERROR);
    int result = port_status(&p, error);
    if (result == PRESIL_OK && (status & (PRESIL_STATUS_BUSY_MASK | PRESIL_STATUS_ERROR_MASK)))
        result = chip_fail(error, PRESIL_EDEAD, "the chip is not idle after a queue reset: STATUS 0x%08x", status);
    return result;
}

/* Commands [first, first + count) of a plan, from an entry of the ring on, without going around its end. */
static int write_entries(const presil_link *link, const presil_command_memory *memory, uint32_t entry,
                         const presil_plan *plan, size_t first, size_t count, presil_error_buffer *error) {
    const uint64_t offset = entry * sizeof(presil_desc), bytes = count * sizeof(presil_desc);
    const presil_daddr at = {memory->base.value + offset};
    int failed = 0;
    if (memory->host) {
        chip_commands_at(plan, first, count, (presil_desc *)memory->host + entry);
        failed = link->ops->sync_for_device && link->ops->sync_for_device(link->handle, at, bytes);
        return failed ? chip_fail(error, PRESIL_EDEAD, "%s", link->ops->last_error(link->handle)) : PRESIL_OK;
    }
    presil_desc *copy = plan->shared ? malloc(bytes) : NULL;
    if (plan->shared && bytes && !copy)
        return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for the commands of a launch");
    if (copy) chip_commands_at(plan, first, count, copy);
    failed = bytes && link->ops->mem_write(link->handle, at, copy ? copy : plan->list + first, bytes);
    free(copy);
    return failed ? chip_fail(error, PRESIL_EDEAD, "can't write the ring: %s", link->ops->last_error(link->handle))
                  : PRESIL_OK;
}

static int write_ring(const presil_link *link, const presil_command_memory *memory, const chip_launch *launch,
                      const presil_plan *plan, size_t first, presil_error_buffer *error) {
    const uint32_t entries = 1u << CHIP_RING_LOG2, entry = launch->first % entries,
                   before = launch->count < entries - entry ? launch->count : entries - entry;
    const int status = write_entries(link, memory, entry, plan, first, before, error);
    if (status != PRESIL_OK || before == launch->count) return status;
    return write_entries(link, memory, 0, plan, first + before, launch->count - before, error);
}

/* Bit n: engine n has descriptors among these. */
static uint32_t engines_of(const presil_desc *list, size_t count) {
    const uint32_t all = (1u << CHIP_ENGINES) - 1u;
    uint32_t engines = 0;
    for (size_t i = 0; i < count && engines != all; i++) engines |= 1u << presil_desc_opcode(&list[i]) >> 1 & all;
    return engines;
}

/* Behind all that are with the chip; 0: there is none. */
static uint32_t end_of_queue(const presil_chip *chip) {
    const uint32_t last = (chip->behind_first + chip->behind_count - 1) % CHIP_LAUNCHES;
    const chip_launch *l = chip->behind_count ? &chip->behind[last] : &chip->launch;
    return chip->running ? l->first + l->count : 0;
}

static void begin(presil_chip *chip, const chip_launch *launch) {
    chip->launches_submitted++;
    if (chip->running) {
        chip->behind[(chip->behind_first + chip->behind_count++) % CHIP_LAUNCHES] = *launch;
        return;
    }
    chip->launch = *launch;
    chip->record_number = 1;
    chip->running = true;
    chip->looked = false;
}

int chip_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                const presil_plan *plan, uint32_t segment, presil_error_buffer *error) {
    const size_t first = chip_segment_first(plan, segment), count = plan->segment_ends[segment] - first;
    int status = chip_hazards_of_launch(plan, first, first + count, error);
    if (status != PRESIL_OK) return status;
    if (count > 1u << CHIP_RING_LOG2)
        return chip_fail(error, PRESIL_EINVAL, "%zu descriptors don't fit the command memory", count);
    if (!chip->records) chip->running = false; /* one at a time */
    const chip_launch launch = {end_of_queue(chip), (uint32_t)count, segment, engines_of(plan->list + first, count)};
    status = write_ring(link, memory, &launch, plan, first, error);
    if (status == PRESIL_OK) status = chip_forget_record(chip, link, memory, error);
    if (status != PRESIL_OK) return status;
    port p = {link, 0};
    if (!chip->running) { /* begins at ring entry 0 */
        put(&p, PRESIL_REG_CONTROL, CONTROL_QUEUE_RESET | CONTROL_COUNTER_CLEAR);
        put(&p, PRESIL_REG_IRQ_CLEAR, IRQ_DONE | IRQ_ERROR);
    }
    put(&p, PRESIL_REG_RING_TAIL, launch.first + launch.count);
    begin(chip, &launch);
    return port_status(&p, error);
}
