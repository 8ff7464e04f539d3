/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second, small chip behind presil_chip.h: tests/rtl/presil_stub_top.sv. It copies; it is polled; it has no ring and
 * no executor. It keeps the seam honest, and shows how little a chip with a programming model of its own has to bring.
 *
 * PRESIL_STUB_CONTROL (test): what is written to CONTROL instead of START: 2 $fatal, 4 never ends, 8 $stop.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "presil_chip.h"
#include "stub_registers.h"

struct presil_chip {
    uint32_t word;
};
struct presil_plan {
    presil_byte_range read, write;
    uint32_t word;
    struct work *work; /* any_chip.c: what it computes beside */
};

__attribute__((format(printf, 3, 4))) static int fail(presil_error_buffer *error, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (error && error->text) (void)vsnprintf(error->text, error->bytes, format, args);
    va_end(args);
    return status;
}

static int port_failed(const presil_link *link, int code, presil_error_buffer *error) {
    return fail(error, code == PRESIL_TRANSPORT_ESTOPPED ? PRESIL_ESTOPPED : PRESIL_EDEAD, "register access failed: %s",
                link->ops->last_error(link->handle));
}

/* ---- identity */
static int stub_create(const char *config, presil_chip **out, presil_error_buffer *error) {
    if (strcmp(config, "stub") != 0)
        return fail(error, PRESIL_EINVAL, "the stub chip has one configuration, \"stub\", not \"%s\"", config);
    presil_chip *chip = calloc(1, sizeof *chip);
    if (!chip) return fail(error, PRESIL_EHOSTMEM, "no host memory for a chip");
    chip->word = 16; /* probe() confirms it */
    *out = chip;
    return PRESIL_OK;
}

static void stub_destroy(presil_chip *chip) { free(chip); }

static int stub_limits(const presil_chip *chip, presil_chip_limits *out) {
    (void)chip;
    const presil_chip_limits own = {.address_bits = 40, .buffer_alignment = STUB_CHUNK * 16};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

static int stub_info(const presil_chip *chip, presil_device_info *out) {
    out->word_bytes = chip->word;
    out->clock_mhz = 500;
    return PRESIL_OK;
}

static int stub_probe(presil_chip *chip, const presil_link *link, presil_error_buffer *error) {
    uint32_t id = 0, word = 0;
    int code = link->ops->read32(link->handle, STUB_ID, &id);
    if (!code) code = link->ops->read32(link->handle, STUB_WORD, &word);
    if (code) return port_failed(link, code, error);
    if (id != STUB_ID_VALUE || word != chip->word)
        return fail(error, PRESIL_ENODEV,
                    "not the stub chip: identification 0x%08x, word of %u bytes; expected 0x%08x, %u", id, word,
                    STUB_ID_VALUE, chip->word);
    return PRESIL_OK;
}

static int stub_reset(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                      presil_error_buffer *error) {
    (void)chip, (void)memory;
    uint32_t status = 0;
    int code = link->ops->write32(link->handle, STUB_STATUS, STUB_DONE | STUB_BUS_ERROR);
    if (!code) code = link->ops->read32(link->handle, STUB_STATUS, &status);
    if (code) return port_failed(link, code, error);
    return status ? fail(error, PRESIL_EDEAD, "not idle after reset: STATUS 0x%x", status) : PRESIL_OK;
}

/* ---- plans: copies only */
static int plan_copy(const presil_chip *chip, presil_daddr to, presil_daddr from, uint64_t bytes, presil_plan **out,
                     presil_error_buffer *error) {
    const uint64_t chunk = (uint64_t)STUB_CHUNK * chip->word;
    if (to.value % chunk || from.value % chunk || bytes % chip->word || bytes / chip->word > UINT32_MAX)
        return fail(error, PRESIL_EUNSUPPORTED,
                    "the stub chip copies multiples of %u bytes between multiples of %" PRIu64 ", not %" PRIu64
                    " bytes from 0x%" PRIx64 " to 0x%" PRIx64,
                    chip->word, chunk, bytes, from.value, to.value);
    presil_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    plan->read = (presil_byte_range){from, bytes};
    plan->write = (presil_byte_range){to, bytes};
    plan->word = chip->word;
    *out = plan;
    return PRESIL_OK;
}

static int stub_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error) {
    const presil_daddr none = {0};
    if (op->kind == PRESIL_OP_NOP) return plan_copy(chip, none, none, 0, out, error);
    const presil_operand *from = presil_op_input(op, "input"), *to = presil_op_output(op, "output");
    if (op->kind != PRESIL_OP_COPY || !from || !to || from->ndim != 1 || from->dtype != PRESIL_INT8 ||
        op->input_count != 1 || op->output_count != 1 || op->attribute_count || op->step_count)
        return fail(error, PRESIL_EUNSUPPORTED, "the stub chip only copies bytes");
    return plan_copy(chip, to->data, from->data, (uint64_t)from->shape[0], out, error);
}

static int stub_plan_info(const presil_plan *plan, presil_plan_info *out) {
    const uint32_t ranges = plan->write.bytes != 0;
    const presil_plan_info own = {.label = ranges ? "copy" : "nop",
                                  .passes = 1,
                                  .descriptors = 1,
                                  .signature = (plan->read.base.value % 4096) ^ (plan->write.base.value % 4096) << 16 ^
                                               plan->write.bytes << 32,
                                  .segments = 1,
                                  .reads = &plan->read,
                                  .writes = &plan->write,
                                  .read_count = ranges,
                                  .write_count = ranges};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

static int stub_describe(const presil_plan *plan, presil_daddr address, char *text, size_t bytes) {
    const uint64_t at = address.value - plan->write.base.value;
    if (at >= plan->write.bytes) return PRESIL_EINVAL;
    (void)snprintf(text, bytes, "byte %" PRIu64 " of the copy, beat %" PRIu64, at, at / plan->word);
    return PRESIL_OK;
}

static void stub_plan_free(presil_plan *plan) { free(plan); }

/* ---- running */
static int stub_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                       const presil_plan *plan, uint32_t segment, presil_error_buffer *error) {
    (void)memory, (void)segment;
    const char *control = getenv("PRESIL_STUB_CONTROL");
    const uint32_t start = control ? (uint32_t)strtoul(control, NULL, 0) : STUB_START;
    const struct {
        uint32_t offset, value;
    } writes[] = {
        {STUB_SRC_LO, (uint32_t)plan->read.base.value},
        {STUB_SRC_HI, (uint32_t)(plan->read.base.value >> 32)},
        {STUB_DST_LO, (uint32_t)plan->write.base.value},
        {STUB_DST_HI, (uint32_t)(plan->write.base.value >> 32)},
        {STUB_BEATS, (uint32_t)(plan->write.bytes / chip->word)},
        {STUB_CONTROL, start},
    };
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        const int code = link->ops->write32(link->handle, writes[i].offset, writes[i].value);
        if (code) return port_failed(link, code, error);
    }
    return PRESIL_OK;
}

static int stub_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out) {
    (void)chip, (void)plan;
    uint32_t status = 0;
    presil_error_buffer error = {out->text, sizeof out->text};
    int code = link->ops->read32(link->handle, STUB_STATUS, &status);
    if (code) return port_failed(link, code, &error);
    out->result = status & STUB_DONE ? PRESIL_SERVICE_DONE : PRESIL_SERVICE_BUSY;
    if (!(status & STUB_DONE)) return PRESIL_OK;
    code = link->ops->write32(link->handle, STUB_STATUS, STUB_DONE | STUB_BUS_ERROR);
    if (code) return port_failed(link, code, &error);
    if (status & STUB_BUS_ERROR) {
        out->result = PRESIL_SERVICE_ERROR;
        out->status = PRESIL_EBUS;
        (void)snprintf(out->text, sizeof out->text, "bus error during the copy");
    }
    return PRESIL_OK;
}

static int stub_why(presil_chip *chip, const presil_link *link, const presil_plan *plan, char *text, size_t bytes) {
    (void)chip;
    uint32_t status = 0, cycles = 0;
    if (link->ops->read32(link->handle, STUB_STATUS, &status) || link->ops->read32(link->handle, STUB_CYCLES, &cycles))
        return PRESIL_EDEAD;
    (void)snprintf(text, bytes, "%s after %u cycles of a copy of %" PRIu64 " bytes",
                   status & STUB_BUSY ? "still busy" : "idle", cycles, plan->write.bytes);
    return PRESIL_OK;
}

static int stub_counters(presil_chip *chip, const presil_link *link, presil_report *out) {
    (void)chip;
    uint32_t cycles = 0;
    if (link->ops->read32(link->handle, STUB_CYCLES, &cycles)) return PRESIL_EDEAD;
    out->cycles += cycles;
    out->descriptors += 1;
    out->stalls[0][0] += cycles; /* its one engine is always busy */
    return PRESIL_OK;
}

static int stub_names(const presil_chip *chip, presil_names *out) {
    (void)chip;
    static const presil_name engine = {.name = "copier", .meaning = "reads a beat and writes it"},
                             cause = {.name = "copying", .bound = "compute", .flags = PRESIL_NAME_WORKS};
    const presil_names own = {.engine_count = 1, .cause_count = 1, .engines = &engine, .causes = &cause};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

const presil_chip_ops *presil_chip_entry(void);
__attribute__((visibility("default"))) const presil_chip_ops *presil_chip_entry(void) {
    static const presil_chip_ops ops = {
        .size = sizeof ops,
        .abi = PRESIL_CHIP_ABI,
        .name = "stub",
        .create = stub_create,
        .destroy = stub_destroy,
        .limits = stub_limits,
        .info = stub_info,
        .probe = stub_probe,
        .reset = stub_reset,
        .plan = stub_plan,
        .plan_info = stub_plan_info,
        .describe = stub_describe,
        .plan_free = stub_plan_free,
        .submit = stub_submit,
        .service = stub_service,
        .why = stub_why,
        .counters = stub_counters,
        .names = stub_names,
    };
    return &ops;
}
