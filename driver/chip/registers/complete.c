/* SPDX-License-Identifier: Apache-2.0 */
/* A launch that is over: interrupt, error, counters. */
#include <stdio.h>
#include <string.h>
#include "port.h"

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
    if (address - chip->ring < chip->ring_bytes && address - chip->ring >= CHIP_RING_BYTES)
        return ": the launch's completion record was refused: the end of the device's own memory for commands needs a "
               "window for writes (PRESIL_RECORDS, docs/runtime.md)";
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
    case COUNTER_READ_BEATS: return chip->launch.engines >> LOAD & 1u;
    case COUNTER_WRITE_BEATS:
    case COUNTER_WRITE_BYTES: return chip->launch.engines >> STORE & 1u;
    case COUNTER_MATRIX_FIRST:
    case COUNTER_MATRIX_LAST: return chip->launch.engines >> MATRIX & 1u;
    default: break;
    }
    return n >= COUNTER_CYCLES ||
           (chip->launch.engines >> engine & 1u && cause < CAUSES && cause != PRESIL_CAUSE_WAIT_VECTOR);
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
enum { DONE = 2, ACKNOWLEDGE }; /* DONE: with a record that is all */
_Static_assert((int)ACKNOWLEDGE + (int)ASKED_MOST + 1 <= (int)PRESIL_COMPLETION_MOST, "the link's room");

size_t chip_completion(const presil_chip *chip, presil_register_access *out) {
    out[0] = (presil_register_access){.offset = PRESIL_REG_IRQ_STATUS};
    out[1] = (presil_register_access){.offset = PRESIL_REG_IRQ_CLEAR, .is_write = 1, .value = IRQ_DONE};
    if (chip->records) return DONE;
    uint32_t numbers[ASKED_MOST], offset[ASKED_MOST + 1];
    const uint32_t asked = asked_counters(chip, numbers);
    counter_offsets(numbers, asked, offset);
    out[2] = (presil_register_access){.offset = PRESIL_REG_CONTROL, .is_write = 1, .value = CONTROL_COUNTER_SNAPSHOT};
    for (uint32_t i = 0; i <= asked; i++) out[ACKNOWLEDGE + i] = (presil_register_access){.offset = offset[i]};
    return ACKNOWLEDGE + asked + 1;
}

typedef struct {
    uint32_t code, index;
    uint64_t address;
} stop;

static stop stop_of_registers(port *p) {
    stop s = {.code = get(p, PRESIL_REG_ERROR_CODE), .index = get(p, PRESIL_REG_ERROR_INDEX)};
    s.address = (uint64_t)get(p, PRESIL_REG_ERROR_ADDR_HI) << 32;
    s.address |= get(p, PRESIL_REG_ERROR_ADDR_LO);
    return s;
}

static void tell(const presil_chip *chip, const presil_plan *plan, const stop *s, presil_service *out) {
    const uint32_t code = s->code, index = s->index - chip->launch.first;
    const bool bus = code == PRESIL_ERROR_READ_BUS || code == PRESIL_ERROR_WRITE_BUS ||
                     code == PRESIL_ERROR_FETCH_BUS || code == PRESIL_ERROR_BUS_TIMEOUT ||
                     code == PRESIL_ERROR_WINDOW || code == PRESIL_ERROR_PARITY;
    const size_t at = plan ? chip_segment_first(plan, chip->launch.segment) + index : 0;
    const presil_desc *d = plan && at < plan->segment_ends[chip->launch.segment] ? &plan->list[at] : NULL;
    out->result = PRESIL_SERVICE_ERROR;
    out->status = bus ? PRESIL_EBUS : PRESIL_EDESC;
    (void)snprintf(out->text, sizeof out->text, "%s (code %u) in descriptor %u (%s, tile %u) at address 0x%llx%s",
                   error_name(code), code, index, d ? chip_opcode_name(d) : "?", d ? presil_desc_tag(d) : 0,
                   (unsigned long long)s->address, error_advice(chip, code, d, s->address));
}

/* What is behind it, runs. */
static void step(presil_chip *chip) {
    chip->record_number++;
    chip->running = chip->behind_count != 0;
    if (!chip->running) return;
    chip->launch = chip->behind[chip->behind_first];
    chip->behind_first = (chip->behind_first + 1) % CHIP_LAUNCHES;
    chip->behind_count--;
    chip->looked = false;
}

/* By its record. Looked at behind the acknowledgement, so that none is missed. An error without a record stays in the
 * registers until it is its launch's turn. */
static void service_record(presil_chip *chip, port *p, uint32_t irq, const presil_plan *plan, presil_service *out) {
    stop s = {0};
    if (irq & IRQ_DONE && !p->link->done_count) put(p, PRESIL_REG_IRQ_CLEAR, IRQ_DONE);
    const bool found = chip_read_record(chip, p->link, &s.code, &s.index, &s.address);
    if (found && !s.code) {
        step(chip);
        out->result = PRESIL_SERVICE_DONE;
    } else if (found || irq & IRQ_ERROR) {
        if (!found) s = stop_of_registers(p);
        tell(chip, plan, &s, out);
        put(p, PRESIL_REG_IRQ_CLEAR, IRQ_ERROR);
    }
}

static void service_registers(const presil_chip *chip, port *p, uint32_t irq, const presil_plan *plan,
                              presil_service *out) {
    if (irq & IRQ_ERROR) {
        const stop s = stop_of_registers(p);
        tell(chip, plan, &s, out);
    } else if (irq & IRQ_DONE) {
        out->result = PRESIL_SERVICE_DONE;
    }
    if (irq && !(p->link->done_count && irq == IRQ_DONE)) put(p, PRESIL_REG_IRQ_CLEAR, irq);
}

int chip_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out) {
    port p = {link, 0};
    const uint32_t irq = link->done_count ? link->done[0].value : get(&p, PRESIL_REG_IRQ_STATUS);
    out->result = PRESIL_SERVICE_BUSY;
    if (chip->records)
        service_record(chip, &p, irq, plan, out);
    else
        service_registers(chip, &p, irq, plan, out);
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
        if (!(chip->launch.engines >> e & 1u)) value[e * PRESIL_CAUSES + PRESIL_CAUSE_COMMAND] = value[COUNTER_CYCLES];
    }
}

int chip_counters(presil_chip *chip, const presil_link *link, presil_report *out) {
    port p = {link, 0};
    uint64_t value[COUNTERS] = {0};
    if (!chip->records)
        read_counters(&p, chip, value);
    else
        chip_record_counters(chip, value);
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
