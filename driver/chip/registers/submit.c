/* SPDX-License-Identifier: Apache-2.0 */
/* From a plan to a running chip: ring, doorbell, interrupt, errors, counters. */
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
    if (memory->bytes < (uint64_t)sizeof(presil_desc) << CHIP_RING_LOG2)
        return chip_fail(error, PRESIL_EINVAL, "command memory of %llu bytes is too small",
                         (unsigned long long)memory->bytes);
    chip->ring = memory->base.value;
    chip->ring_bytes = memory->bytes;
    put(&p, PRESIL_REG_IRQ_ENABLE, 0);
    put(&p, PRESIL_REG_CONTROL, CONTROL_QUEUE_RESET | CONTROL_COUNTER_CLEAR);
    const uint32_t status = drained_status(&p);
    put(&p, PRESIL_REG_IRQ_CLEAR, IRQ_DONE | IRQ_ERROR);
    put(&p, PRESIL_REG_RING_BASE_LO, (uint32_t)memory->base.value);
    put(&p, PRESIL_REG_RING_BASE_HI, (uint32_t)(memory->base.value >> 32));
    put(&p, PRESIL_REG_RING_LOG2, CHIP_RING_LOG2);
    if (timeout) put(&p, PRESIL_REG_BUS_TIMEOUT, timeout);
    chip_restore_windows(chip, &p);
    put(&p, PRESIL_REG_IRQ_ENABLE, IRQ_DONE | IRQ_ERROR);
    int result = port_status(&p, error);
    if (result == PRESIL_OK && (status & (PRESIL_STATUS_BUSY_MASK | PRESIL_STATUS_ERROR_MASK)))
        result = chip_fail(error, PRESIL_EDEAD, "the chip is not idle after a queue reset: STATUS 0x%08x", status);
    return result;
}

/* Where the ring is not mapped. */
static int write_ring(const presil_link *link, const presil_command_memory *memory, const presil_plan *plan,
                      size_t first, size_t count, presil_error_buffer *error) {
    const uint64_t bytes = count * sizeof(presil_desc);
    presil_desc *copy = plan->shared ? malloc(bytes) : NULL;
    if (plan->shared && !copy) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for the commands of a launch");
    if (copy) chip_commands_at(plan, first, count, copy);
    const int failed =
        bytes && link->ops->mem_write(link->handle, memory->base, copy ? copy : plan->list + first, bytes);
    free(copy);
    return failed ? chip_fail(error, PRESIL_EDEAD, "can't write the ring: %s", link->ops->last_error(link->handle))
                  : PRESIL_OK;
}

/* Bit n: engine n has descriptors among these. */
static uint32_t engines_of(const presil_desc *list, size_t count) {
    const uint32_t all = (1u << CHIP_ENGINES) - 1u;
    uint32_t engines = 0;
    for (size_t i = 0; i < count && engines != all; i++) engines |= 1u << presil_desc_opcode(&list[i]) >> 1 & all;
    return engines;
}

int chip_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                const presil_plan *plan, uint32_t segment, presil_error_buffer *error) {
    size_t first = chip_segment_first(plan, segment), count = plan->segment_ends[segment] - first;
    uint64_t bytes = count * sizeof(presil_desc);
    const int hazards = chip_hazards_of_launch(plan, first, first + count, error);
    if (hazards != PRESIL_OK) return hazards;
    if (bytes > memory->bytes)
        return chip_fail(error, PRESIL_EINVAL, "%zu descriptors don't fit the command memory", count);
    if (memory->host) {
        chip_commands_at(plan, first, count, memory->host);
        if (link->ops->sync_for_device && link->ops->sync_for_device(link->handle, memory->base, bytes))
            return chip_fail(error, PRESIL_EDEAD, "%s", link->ops->last_error(link->handle));
    } else {
        const int status = write_ring(link, memory, plan, first, count, error);
        if (status != PRESIL_OK) return status;
    }
    port p = {link, 0};
    put(&p, PRESIL_REG_CONTROL, CONTROL_QUEUE_RESET | CONTROL_COUNTER_CLEAR); /* every launch begins at ring entry 0 */
    put(&p, PRESIL_REG_IRQ_CLEAR, IRQ_DONE | IRQ_ERROR);
    put(&p, PRESIL_REG_RING_TAIL, (uint32_t)count);
    chip->launches_submitted++;
    chip->segment = segment;
    chip->engines = engines_of(plan->list + first, count);
    chip->looked = false;
    return port_status(&p, error);
}

static const char *error_name(uint32_t code) {
    static const char *const names[] = {"no error",
                                        "unknown opcode",
                                        "wrong descriptor version",
                                        "illegal descriptor field",
                                        "bus error on a read",
                                        "bus error on a write",
                                        "bus error on a descriptor fetch",
                                        "token counter overflow",
                                        "scratchpad address out of range",
                                        "ring overrun",
                                        "no answer of the bus",
                                        "outside the DMA windows",
                                        "wrong parity in a memory of the chip"};
    return code < sizeof names / sizeof *names ? names[code] : "unknown error";
}

/* Which memory it was (docs/isa.md section 1, Parity), what is wrong, and what to do. */
static const char *parity_advice(uint64_t address) {
    static const char *const where[] = {
        ", scratchpad: a bit is not as written. Run it again; what comes back at this address is broken",
        ", accumulators: a bit is not as written. Run it again; what comes back in this row is broken",
        ", line buffer: a bit is not as written. Run it again; what comes back in this row is broken"};
    const uint64_t memory = address >> 32;
    return where[memory < sizeof where / sizeof *where ? memory : 0];
}

/* What to do, where the name of the error does not say it. d: the descriptor, or NULL. */
static const char *error_advice(const presil_chip *chip, uint32_t code, const presil_desc *d, uint64_t address) {
    if (code == PRESIL_ERROR_BUS_TIMEOUT)
        return ": see what holds the memory there; if it is only slow, a larger PRESIL_BUS_TIMEOUT";
    if (code == PRESIL_ERROR_VERSION)
        return ": the commands were made for a chip of another version: make them anew with this one's driver";
    if (code == PRESIL_ERROR_PARITY) return parity_advice(address);
    if (code != PRESIL_ERROR_WINDOW) return "";
    if (address - chip->ring < chip->ring_bytes)
        return ": the fetch of commands was refused: the device's own memory needs a window for reads "
               "(presil_device_set_window())";
    return d && presil_desc_opcode(d) == PRESIL_OPCODE_STORE
               ? ": a write was refused: see who uses memory that is not its own, or presil_device_set_window()"
               : ": a read was refused: see who uses memory that is not its own, or presil_device_set_window()";
}

/* A register costs a journey over the bus. What is known anyhow is not asked for: an engine without descriptors (VECTOR
 * never has one) spends all cycles on COMMAND and moves nothing, nobody can wait for VECTOR in a launch that ends well,
 * nor stand after an error, read_bytes are beats, a launch is one. And nothing else counts faster than bytes, a word a
 * cycle: the upper half of cycles tells whether any other upper half can be other than 0. */
enum { CAUSES = PRESIL_CAUSE_DRAIN + 1, ASKED_MOST = (int)CHIP_ENGINES * CAUSES + (int)COUNTERS - COUNTER_CYCLES };

static bool is_asked(const presil_chip *chip, uint32_t n) {
    const uint32_t engine = n / PRESIL_CAUSES, cause = n % PRESIL_CAUSES;
    switch (n) {
    case COUNTER_READ_BYTES:
    case COUNTER_LAUNCHES: return false;
    case COUNTER_READ_BEATS: return chip->engines >> LOAD & 1u;
    case COUNTER_WRITE_BEATS:
    case COUNTER_WRITE_BYTES: return chip->engines >> STORE & 1u;
    case COUNTER_MATRIX_FIRST:
    case COUNTER_MATRIX_LAST: return chip->engines >> MATRIX & 1u;
    default: break;
    }
    return n >= COUNTER_CYCLES || (chip->engines >> engine & 1u && cause < CAUSES && cause != PRESIL_CAUSE_WAIT_VECTOR);
}

/* Of the launch that runs, or ran last: COUNTER_CYCLES is always one of them. */
static uint32_t asked_counters(const presil_chip *chip, uint32_t numbers[ASKED_MOST]) {
    uint32_t asked = 0;
    for (uint32_t n = 0; n < COUNTERS; n++) {
        if (is_asked(chip, n)) numbers[asked++] = n;
    }
    return asked;
}

/* The lower halves, and at the end the upper one of cycles. */
static void counter_offsets(const uint32_t *numbers, uint32_t asked, uint32_t offset[ASKED_MOST + 1]) {
    for (uint32_t i = 0; i < asked; i++) offset[i] = PRESIL_REG_COUNTER(numbers[i]);
    offset[asked] = PRESIL_REG_COUNTER(COUNTER_CYCLES) + 4;
}

/* What service() and counters() do when all is well: interrupt, its acknowledgement, a snapshot, and the counters.
 * ERROR stays for service() to clear. */
enum { ACKNOWLEDGE = 3 };
_Static_assert((int)ACKNOWLEDGE + (int)ASKED_MOST + 1 <= (int)PRESIL_COMPLETION_MOST, "the link's room");

size_t chip_completion(const presil_chip *chip, presil_register_access *out) {
    uint32_t numbers[ASKED_MOST], offset[ASKED_MOST + 1];
    const uint32_t asked = asked_counters(chip, numbers);
    counter_offsets(numbers, asked, offset);
    out[0] = (presil_register_access){.offset = PRESIL_REG_IRQ_STATUS};
    out[1] = (presil_register_access){.offset = PRESIL_REG_IRQ_CLEAR, .is_write = 1, .value = IRQ_DONE};
    out[2] = (presil_register_access){.offset = PRESIL_REG_CONTROL, .is_write = 1, .value = CONTROL_COUNTER_SNAPSHOT};
    for (uint32_t i = 0; i <= asked; i++) out[ACKNOWLEDGE + i] = (presil_register_access){.offset = offset[i]};
    return ACKNOWLEDGE + asked + 1;
}

int chip_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out) {
    port p = {link, 0};
    const bool done = link->done_count != 0;
    uint32_t irq = done ? link->done[0].value : get(&p, PRESIL_REG_IRQ_STATUS);
    out->result = PRESIL_SERVICE_BUSY;
    if (irq & IRQ_ERROR) {
        uint32_t code = get(&p, PRESIL_REG_ERROR_CODE), index = get(&p, PRESIL_REG_ERROR_INDEX);
        uint64_t address = (uint64_t)get(&p, PRESIL_REG_ERROR_ADDR_HI) << 32;
        address |= get(&p, PRESIL_REG_ERROR_ADDR_LO);
        bool bus = code == PRESIL_ERROR_READ_BUS || code == PRESIL_ERROR_WRITE_BUS || code == PRESIL_ERROR_FETCH_BUS ||
                   code == PRESIL_ERROR_BUS_TIMEOUT || code == PRESIL_ERROR_WINDOW || code == PRESIL_ERROR_PARITY;
        size_t at = plan ? chip_segment_first(plan, chip->segment) + index : 0;
        const presil_desc *d = plan && at < plan->count ? &plan->list[at] : NULL;
        out->result = PRESIL_SERVICE_ERROR;
        out->status = bus ? PRESIL_EBUS : PRESIL_EDESC;
        (void)snprintf(out->text, sizeof out->text, "%s (code %u) in descriptor %u (%s, tile %u) at address 0x%llx%s",
                       error_name(code), code, index, d ? chip_opcode_name(d) : "?", d ? presil_desc_tag(d) : 0,
                       (unsigned long long)address, error_advice(chip, code, d, address));
    } else if (irq & IRQ_DONE) {
        out->result = PRESIL_SERVICE_DONE;
    }
    if (irq && !(done && irq == IRQ_DONE)) put(&p, PRESIL_REG_IRQ_CLEAR, irq);
    return port_status(&p, NULL);
}

/* Of the last snapshot. */
static void read_counters(port *p, const presil_chip *chip, uint64_t value[COUNTERS]) {
    const presil_link *link = p->link;
    const uint32_t word_bytes = chip->config.word_bytes;
    uint32_t numbers[ASKED_MOST], offset[ASKED_MOST + 1], half[ASKED_MOST + 1] = {0};
    const uint32_t asked = asked_counters(chip, numbers);
    counter_offsets(numbers, asked, offset);
    if (link->done_count) {
        for (uint32_t i = 0; i <= asked; i++) half[i] = link->done[ACKNOWLEDGE + i].value;
    } else {
        put(p, PRESIL_REG_CONTROL, CONTROL_COUNTER_SNAPSHOT);
        get_many(p, offset, asked + 1, half);
    }
    for (uint32_t i = 0; i < asked; i++) value[numbers[i]] = half[i];
    value[COUNTER_CYCLES] |= (uint64_t)half[asked] << 32;
    if (value[COUNTER_CYCLES] > UINT32_MAX / word_bytes) {
        for (uint32_t i = 0; i < asked; i++) offset[i] += 4;
        get_many(p, offset, asked, half);
        for (uint32_t i = 0; i < asked; i++) value[numbers[i]] |= (uint64_t)half[i] << 32;
    }
    value[COUNTER_READ_BYTES] = value[COUNTER_READ_BEATS] * word_bytes;
    for (uint32_t e = 0; e < PRESIL_ENGINES; e++) {
        if (!(chip->engines >> e & 1u)) value[e * PRESIL_CAUSES + PRESIL_CAUSE_COMMAND] = value[COUNTER_CYCLES];
    }
}

int chip_counters(presil_chip *chip, const presil_link *link, presil_report *out) {
    port p = {link, 0};
    uint64_t value[COUNTERS] = {0};
    read_counters(&p, chip, value);
    int status = port_status(&p, NULL);
    if (status != PRESIL_OK) return status;
    for (uint32_t e = 0; e < PRESIL_ENGINES; e++) {
        for (uint32_t c = 0; c < PRESIL_CAUSES; c++) out->stalls[e][c] += value[e * PRESIL_CAUSES + c];
    }
    out->cycles += value[COUNTER_CYCLES];
    out->read_beats += value[COUNTER_READ_BEATS];
    out->write_beats += value[COUNTER_WRITE_BEATS];
    out->read_bytes += value[COUNTER_READ_BYTES];
    out->write_bytes += value[COUNTER_WRITE_BYTES];
    out->descriptors += value[COUNTER_DESCRIPTORS];
    out->counters[0] += value[COUNTER_FETCH_BEATS];
    bool worked = value[MATRIX * PRESIL_CAUSES + PRESIL_CAUSE_BUSY] != 0;
    out->fill += worked ? value[COUNTER_MATRIX_FIRST] : 0;
    out->drain += worked ? value[COUNTER_CYCLES] - value[COUNTER_MATRIX_LAST] : 0;
    return PRESIL_OK;
}
