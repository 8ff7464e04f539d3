/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chip relay (relay_top.sv) behind presil_chip.h: copies, and negates int8. It takes four launches before the first
 * is over; a launch of more than SEGMENT bytes is several; a label with "via" has the bytes go by way of scratch
 * memory, one with "hang" or "fatal" ends so. An empty launch touches no register, and no interrupt tells of it.
 *
 * PRESIL_RELAY (test): "polled" (no interrupt), "chunks" (interrupts for each chunk, too), "all" (every launch goes by
 * way of scratch memory), "spills" (it writes a chunk beyond that), "stale" (it copies what was there before), "twin"
 * (it has an executor, which goes by way of scratch memory, too).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "presil_chip.h"

enum { ID = 0x00, WORD = 0x04, SRC = 0x08, DST = 0x10, VIA = 0x18, BEATS = 0x20, PUSH = 0x24, OVER = 0x28 };
enum { FAILED = 0x2c, IRQ = 0x30, MASK = 0x34, CHUNKS = 0x38, CYCLES = 0x40 };
enum { NEGATES = 1, BY_WAY = 2, HANGS = 4, FATAL = 8 };
enum { BEAT = 16, CHUNK = 256, SEGMENT = 4096, DEPTH = 4, MOST = 8 };

struct presil_chip {
    uint32_t pushed, over;    /* of the chip, since reset */
    uint32_t submitted, told; /* launches and segments; told: that service() called DONE */
    bool empty[MOST];         /* of those in flight, by number: no job was pushed */
    uint32_t cycles, chunks;
};
struct presil_plan {
    presil_byte_range read, write;
    uint32_t how, segments;
};

static bool asked(const char *what) {
    const char *text = getenv("PRESIL_RELAY");
    return text && strstr(text, what);
}

static int fail(presil_error_buffer *error, int status, const char *text) {
    if (error && error->text) (void)snprintf(error->text, error->bytes, "%s", text);
    return status;
}

static int port_failed(const presil_link *link, int code, presil_error_buffer *error) {
    const char *text = link->ops->last_error(link->handle);
    return fail(error, code == PRESIL_TRANSPORT_ESTOPPED ? PRESIL_ESTOPPED : PRESIL_EDEAD, text);
}

/* ---- identity */
static int relay_create(const char *config, presil_chip **out, presil_error_buffer *error) {
    if (strcmp(config, "relay") != 0) return fail(error, PRESIL_EINVAL, "one configuration, \"relay\", expected");
    *out = calloc(1, sizeof **out);
    return *out ? PRESIL_OK : fail(error, PRESIL_EHOSTMEM, "no host memory for a chip");
}

static void relay_destroy(presil_chip *chip) { free(chip); }

static int relay_limits(const presil_chip *chip, presil_chip_limits *out) {
    (void)chip;
    const presil_chip_limits own = {.address_bits = 40,
                                    .buffer_alignment = CHUNK,
                                    .has_interrupt = !asked("polled"),
                                    .has_executor = asked("twin"),
                                    .asks_first = 1,
                                    .queue_depth = DEPTH,
                                    .in_place = 1};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

static int relay_info(const presil_chip *chip, presil_device_info *out) {
    (void)chip;
    out->word_bytes = BEAT;
    out->clock_mhz = 500;
    return PRESIL_OK;
}

static int relay_probe(presil_chip *chip, const presil_link *link, presil_error_buffer *error) {
    uint32_t id = 0;
    (void)chip;
    const int code = link->ops->read32(link->handle, ID, &id);
    if (code) return port_failed(link, code, error);
    return id == 0x52454c41 ? PRESIL_OK : fail(error, PRESIL_ENODEV, "not the chip relay: identification differs");
}

static int relay_reset(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                       presil_error_buffer *error) {
    (void)memory;
    memset(chip, 0, sizeof *chip);
    const int code = link->ops->write32(link->handle, MASK, asked("polled") ? 0 : asked("chunks") ? 3 : 1);
    return code ? port_failed(link, code, error) : PRESIL_OK;
}

/* ---- plans */
static int takes(const presil_op *op, presil_error_buffer *error) {
    const presil_operand *from = presil_op_input(op, "input"), *to = presil_op_output(op, "output");
    const bool negates = op->kind == PRESIL_OP_ELEMENTWISE && strcmp(presil_op_text(op, "function", ""), "neg") == 0;
    if (op->kind == PRESIL_OP_NOP) return PRESIL_OK;
    if (!negates && op->kind != PRESIL_OP_COPY) return fail(error, PRESIL_EUNSUPPORTED, "it copies and negates");
    if (!from || !to || op->input_count != 1 || op->output_count != 1 || op->attribute_count != (uint32_t)negates ||
        op->step_count)
        return fail(error, PRESIL_EUNSUPPORTED, "it has one input, one output and nothing else");
    if (from->dtype != PRESIL_INT8 || to->dtype != PRESIL_INT8 || from->ndim != 1 || from->stride[0] != 1 ||
        to->stride[0] != 1 || from->shape[0] % BEAT)
        return fail(error, PRESIL_EUNSUPPORTED, "int8 in one dimension, a multiple of 16 expected");
    return PRESIL_OK;
}

static int relay_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error) {
    (void)chip;
    const char *label = op->label ? op->label : "";
    const int status = takes(op, error);
    if (status) return status;
    presil_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    if (op->kind != PRESIL_OP_NOP) {
        const uint64_t bytes = (uint64_t)op->inputs->shape[0];
        plan->read = (presil_byte_range){op->inputs->data, bytes};
        plan->write = (presil_byte_range){op->outputs->data, bytes};
        if ((plan->read.base.value | plan->write.base.value) % CHUNK) {
            free(plan);
            return fail(error, PRESIL_EUNSUPPORTED, "addresses of multiples of 256 expected");
        }
    }
    plan->how = (op->kind == PRESIL_OP_ELEMENTWISE ? NEGATES : 0) |
                (strstr(label, "via") || asked("all") ? BY_WAY : 0) | (strstr(label, "hang") ? HANGS : 0) |
                (strstr(label, "fatal") ? FATAL : 0);
    plan->segments = plan->read.bytes > SEGMENT ? (uint32_t)((plan->read.bytes + SEGMENT - 1) / SEGMENT) : 1;
    *out = plan;
    return PRESIL_OK;
}

static int relay_plan_info(const presil_plan *plan, presil_plan_info *out) {
    const uint32_t ranges = plan->write.bytes != 0;
    const uint64_t most = plan->read.bytes < SEGMENT ? plan->read.bytes : SEGMENT;
    const presil_plan_info own = {.label = ranges ? "relay" : "nop",
                                  .passes = 1,
                                  .descriptors = plan->segments,
                                  .signature = (plan->read.base.value % 4096) ^ (plan->write.base.value % 4096) << 16 ^
                                               plan->write.bytes << 32 ^ plan->how,
                                  .segments = plan->segments,
                                  .reads = &plan->read,
                                  .writes = &plan->write,
                                  .read_count = ranges,
                                  .write_count = ranges,
                                  .scratch_bytes = plan->how & BY_WAY ? most : 0,
                                  .scratch_alignment = CHUNK};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

static void relay_plan_free(presil_plan *plan) { free(plan); }

/* ---- running */
static int relay_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                        const presil_plan *plan, uint32_t segment, presil_error_buffer *error) {
    const uint64_t at = (uint64_t)segment * SEGMENT, left = plan->read.bytes - at,
                   bytes = left < SEGMENT ? left : SEGMENT, via = memory->scratch.value + (asked("spills") ? CHUNK : 0),
                   from = asked("stale") ? via : plan->read.base.value + at, to = plan->write.base.value + at;
    const uint32_t values[][2] = {{SRC, (uint32_t)from},
                                  {SRC + 4, (uint32_t)(from >> 32)},
                                  {DST, (uint32_t)to},
                                  {DST + 4, (uint32_t)(to >> 32)},
                                  {VIA, (uint32_t)via},
                                  {VIA + 4, (uint32_t)(via >> 32)},
                                  {BEATS, (uint32_t)(bytes / BEAT)},
                                  {PUSH, plan->how}};
    if (plan->how & BY_WAY && memory->scratch_bytes < bytes) return fail(error, PRESIL_EINVAL, "no scratch memory");
    chip->empty[chip->submitted % MOST] = !plan->read.bytes;
    for (size_t i = 0; plan->read.bytes && i < sizeof values / sizeof *values; i++) {
        const int code = link->ops->write32(link->handle, values[i][0], values[i][1]);
        if (code) return port_failed(link, code, error);
    }
    chip->pushed += plan->read.bytes != 0;
    chip->submitted++;
    return PRESIL_OK;
}

/* About the oldest: those before it that were over took one of OVER each. */
static int relay_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out) {
    (void)plan;
    uint32_t over = 0, failed = 0, chunks = 0;
    int code = link->ops->write32(link->handle, IRQ, 3);
    if (!code) code = link->ops->read32(link->handle, OVER, &over);
    if (!code) code = link->ops->read32(link->handle, FAILED, &failed);
    if (!code) code = link->ops->read32(link->handle, CHUNKS, &chunks);
    const bool empty = chip->empty[chip->told % MOST], done = empty || over != chip->over;
    chip->cycles = 0;
    if (!code && done && !empty)
        code = link->ops->read32(link->handle, CYCLES + 4 * (chip->over % MOST), &chip->cycles);
    if (code) return code == PRESIL_TRANSPORT_ESTOPPED ? PRESIL_ESTOPPED : PRESIL_EDEAD;
    out->result = done                     ? PRESIL_SERVICE_DONE
                  : failed                 ? PRESIL_SERVICE_ERROR
                  : chunks != chip->chunks ? PRESIL_SERVICE_PROGRESS
                                           : PRESIL_SERVICE_BUSY;
    out->status = PRESIL_EBUS;
    (void)snprintf(out->text, sizeof out->text, "the bus answered with an error");
    chip->chunks = chunks;
    chip->told += done;
    chip->over += done && !empty;
    return PRESIL_OK;
}

static int relay_why(presil_chip *chip, const presil_link *link, const presil_plan *plan, char *text, size_t bytes) {
    (void)chip, (void)link;
    (void)snprintf(text, bytes, "%s", plan->how & HANGS ? "it was told to hang" : "the copy waits for memory");
    return PRESIL_OK;
}

static int relay_counters(presil_chip *chip, const presil_link *link, presil_report *out) {
    (void)link;
    out->cycles += chip->cycles;
    out->descriptors++;
    return PRESIL_OK;
}

/* ---- without a clock, and as bytes */
static int relay_execute(presil_chip *chip, const presil_plan *plan, const presil_executor_memory *memory,
                         presil_error_buffer *error) {
    (void)chip;
    for (uint64_t at = 0; at < plan->read.bytes; at += SEGMENT) {
        const uint64_t left = plan->read.bytes - at, bytes = left < SEGMENT ? left : SEGMENT;
        const uint8_t *from = memory->host + (plan->read.base.value - memory->base.value) + at;
        uint8_t *to = memory->host + (plan->write.base.value - memory->base.value) + at, *via = to;
        if (plan->how & BY_WAY && memory->scratch_bytes < bytes) return fail(error, PRESIL_EINVAL, "no scratch memory");
        if (plan->how & BY_WAY) via = memory->host + (memory->scratch.value - memory->base.value);
        memmove(via, from, bytes);
        for (uint64_t i = 0; i < bytes; i++) to[i] = (uint8_t)(plan->how & NEGATES ? -via[i] : via[i]);
        if (memory->on_write) memory->on_write(memory->context, (presil_daddr){plan->write.base.value + at}, bytes);
    }
    return PRESIL_OK;
}

typedef struct {
    uint64_t from, to, bytes; /* relative to the base */
    uint32_t how, segments;
} image;

static int relay_save(const presil_plan *plan, presil_daddr base, void *to, uint64_t *size,
                      presil_error_buffer *error) {
    const image own = {plan->read.base.value - base.value, plan->write.base.value - base.value, plan->read.bytes,
                       plan->how, plan->segments};
    if (to && *size < sizeof own) return fail(error, PRESIL_EINVAL, "more room expected");
    if (to) memcpy(to, &own, sizeof own);
    *size = sizeof own;
    return PRESIL_OK;
}

static int relay_load(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                      presil_plan **out, presil_error_buffer *error) {
    image own;
    (void)chip;
    if (size != sizeof own) return fail(error, PRESIL_EINVAL, "no plan of the relay");
    memcpy(&own, from, sizeof own);
    if (own.from > bytes || own.to > bytes || own.bytes > bytes - own.from || own.bytes > bytes - own.to ||
        (own.from | own.to) % CHUNK || own.bytes % BEAT || own.how > (NEGATES | BY_WAY | HANGS | FATAL) ||
        own.segments != (own.bytes > SEGMENT ? (own.bytes + SEGMENT - 1) / SEGMENT : 1))
        return fail(error, PRESIL_EINVAL, "no plan of the relay");
    presil_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    *plan = (presil_plan){.read = {{base.value + own.from}, own.bytes},
                          .write = {{base.value + own.to}, own.bytes},
                          .how = own.how,
                          .segments = own.segments};
    *out = plan;
    return PRESIL_OK;
}

const presil_chip_ops *presil_chip_entry(void);
__attribute__((visibility("default"))) const presil_chip_ops *presil_chip_entry(void) {
    static const presil_chip_ops ops = {.size = sizeof ops,
                                        .abi = PRESIL_CHIP_ABI,
                                        .name = "relay",
                                        .create = relay_create,
                                        .destroy = relay_destroy,
                                        .limits = relay_limits,
                                        .info = relay_info,
                                        .probe = relay_probe,
                                        .reset = relay_reset,
                                        .plan = relay_plan,
                                        .plan_info = relay_plan_info,
                                        .plan_free = relay_plan_free,
                                        .submit = relay_submit,
                                        .service = relay_service,
                                        .why = relay_why,
                                        .counters = relay_counters,
                                        .execute = relay_execute,
                                        .save = relay_save,
                                        .load = relay_load};
    return &ops;
}
