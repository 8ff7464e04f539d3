/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chip and its transport in one file, without RTL: it knows one operator that presil_conv2d() and its like have no
 * words for (PRESIL_OP_ELEMENTWISE "neg" of int16 in up to 8 dimensions), and misbehaves as PRESIL_PAPER says:
 *   quiet         a launch is over when submit() returns, and no interrupt tells (limits.asks_first)
 *   interrupts=N  so many interrupts before the launch is over ...
 *   busy          ... which service() calls BUSY instead of PROGRESS
 *   short         the table ends before supports(): chips of older releases
 *   long          the table and what it fills in are longer than this header says: chips of newer ones
 *   lack          the table lacks submit(), which must be there
 *   engines=N     so many of them have names; likewise causes=N and counters=N
 * Built twice: as libpresil_sim_paper_fast.so and as libpresil_chip_paper.so.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "presil_chip.h"

enum { FROM = 0, TO = 4, COUNT = 8, LEFT = 12, REGISTERS };

static int paper(const char *what) {
    const char *text = getenv("PRESIL_PAPER"), *at = text ? strstr(text, what) : NULL;
    if (!at) return 0;
    const char *value = strchr(at, '=');
    return value && (size_t)(value - at) == strlen(what) ? atoi(value + 1) : 1;
}

/* ---- the transport: a doorbell (LEFT) negates at once; then LEFT counts the interrupts that are still to come */
struct presil_transport {
    uint8_t *memory;
    presil_daddr base;
    uint64_t bytes;
    uint32_t reg[REGISTERS];
};

static int paper_open(const presil_transport_options *options, presil_transport **out, char *error, size_t bytes) {
    presil_transport *t = calloc(1, sizeof *t);
    if (!t) return PRESIL_TRANSPORT_ENOMEM;
    t->base = options->memory_base;
    t->bytes = options->memory_bytes;
    t->memory = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, options->memory_fd, 0);
    if (t->memory == MAP_FAILED) {
        (void)snprintf(error, bytes, "no memory");
        free(t);
        return PRESIL_TRANSPORT_ENOMEM;
    }
    *out = t;
    return 0;
}

static void paper_close(presil_transport *t) {
    if (t) (void)munmap(t->memory, t->bytes);
    free(t);
}

static int paper_info(presil_transport *t, presil_transport_info *out) {
    (void)t;
    const presil_transport_info own = {.size = sizeof own,
                                       .abi = PRESIL_TRANSPORT_ABI,
                                       .capabilities = PRESIL_CAP_MAPS | PRESIL_CAP_COHERENT,
                                       .chip = "paper",
                                       .config = "paper",
                                       .build = "fast"};
    presil_transport_tell(&own, out);
    return 0;
}

static const char *paper_error(presil_transport *t) {
    (void)t;
    return "";
}

static int paper_read(presil_transport *t, uint32_t offset, uint32_t *value) {
    *value = t->reg[offset];
    return 0;
}

static int paper_write(presil_transport *t, uint32_t offset, uint32_t value) {
    t->reg[offset] = value;
    int16_t *from = (int16_t *)(void *)(t->memory + t->reg[FROM]), *to = (int16_t *)(void *)(t->memory + t->reg[TO]);
    for (uint32_t i = 0; offset == LEFT && i < t->reg[COUNT]; i++) to[i] = (int16_t)-from[i];
    return 0;
}

static int paper_region(presil_transport *t, uint32_t index, presil_region *out) {
    *out = (presil_region){t->base, t->bytes, t->memory};
    return index ? PRESIL_TRANSPORT_EINVAL : 0;
}

static int paper_wait(presil_transport *t, presil_wait *w) {
    w->reason = paper("quiet") ? PRESIL_WAIT_HUNG : PRESIL_WAIT_IRQ;
    w->cycles = 10;
    if (t->reg[LEFT]) t->reg[LEFT]--;
    return 0;
}

static int paper_reset_pin(presil_transport *t) {
    memset(t->reg, 0, sizeof t->reg);
    return 0;
}

const presil_transport_ops *presil_transport_entry(void);
__attribute__((visibility("default"))) const presil_transport_ops *presil_transport_entry(void) {
    static const presil_transport_ops ops = {.size = sizeof ops,
                                             .abi = PRESIL_TRANSPORT_ABI,
                                             .open = paper_open,
                                             .close = paper_close,
                                             .info = paper_info,
                                             .last_error = paper_error,
                                             .read32 = paper_read,
                                             .write32 = paper_write,
                                             .region = paper_region,
                                             .wait = paper_wait,
                                             .reset = paper_reset_pin};
    return &ops;
}

/* ---- the chip */
struct presil_chip {
    presil_daddr base;
};
struct presil_plan {
    presil_byte_range read, write;
    uint32_t count;
};

static int fail(presil_error_buffer *error, int status, const char *text) {
    (void)snprintf(error->text, error->bytes, "%s", text);
    return status;
}

static int paper_create(const char *config, presil_chip **out, presil_error_buffer *error) {
    if (strcmp(config, "paper") != 0) return fail(error, PRESIL_EINVAL, "one configuration, \"paper\"");
    *out = calloc(1, sizeof **out);
    return *out ? PRESIL_OK : fail(error, PRESIL_EHOSTMEM, "no memory");
}

static void paper_destroy(presil_chip *chip) { free(chip); }

/* What a newer header could have behind this one's end. */
typedef struct {
    presil_chip_limits known;
    uint64_t news[32];
} newer_limits;

static int paper_limits(const presil_chip *chip, presil_chip_limits *out) {
    (void)chip;
    newer_limits own = {
        .known = {
            .address_bits = 64, .buffer_alignment = 64, .has_interrupt = 1, .asks_first = (uint32_t)paper("quiet")}};
    memset(own.news, 0x5a, sizeof own.news);
    presil_give(out, &own, paper("long") ? sizeof own : sizeof own.known);
    return PRESIL_OK;
}

static int paper_chip_info(const presil_chip *chip, presil_device_info *out) {
    (void)chip;
    (void)snprintf(out->config, sizeof out->config, "paper");
    return PRESIL_OK;
}

static int paper_probe(presil_chip *chip, const presil_link *link, presil_error_buffer *error) {
    presil_region region;
    if (link->ops->region(link->handle, 0, &region)) return fail(error, PRESIL_ENODEV, "no memory");
    chip->base = region.base;
    return PRESIL_OK;
}

static int paper_reset(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                       presil_error_buffer *error) {
    (void)chip, (void)link;
    return memory->bytes ? fail(error, PRESIL_EINVAL, "no command memory was asked for") : PRESIL_OK;
}

static int paper_supports(const presil_chip *chip, const presil_op *op, presil_error_buffer *error) {
    (void)chip;
    const presil_operand *from = presil_op_input(op, "input"), *to = presil_op_output(op, "output");
    if (op->kind != PRESIL_OP_ELEMENTWISE || strcmp(presil_op_text(op, "function", ""), "neg") != 0 || !from || !to)
        return fail(error, PRESIL_EUNSUPPORTED, "paper only negates");
    if (op->step_count || op->attribute_count != 1 || op->input_count != 1)
        return fail(error, PRESIL_EUNSUPPORTED, "paper negates and does nothing else");
    if (from->dtype != PRESIL_INT16 || to->dtype != PRESIL_INT16)
        return fail(error, PRESIL_EUNSUPPORTED, "paper only knows int16");
    int64_t dense = 1;
    for (uint32_t i = from->ndim; i-- > 0; dense *= from->shape[i]) {
        if (from->stride[i] != dense || to->stride[i] != dense)
            return fail(error, PRESIL_EUNSUPPORTED, "paper only knows contiguous tensors");
    }
    return PRESIL_OK;
}

static int paper_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error) {
    presil_plan *plan = calloc(1, sizeof *plan);
    const int status = op->kind == PRESIL_OP_NOP ? PRESIL_OK : paper_supports(chip, op, error);
    if (status || !plan) {
        free(plan);
        return status;
    }
    plan->count = op->kind != PRESIL_OP_NOP;
    for (uint32_t i = 0; plan->count && i < op->inputs->ndim; i++) plan->count *= (uint32_t)op->inputs->shape[i];
    if (plan->count) {
        plan->read = (presil_byte_range){op->inputs->data, 2 * (uint64_t)plan->count};
        plan->write = (presil_byte_range){op->outputs->data, 2 * (uint64_t)plan->count};
    }
    *out = plan;
    return PRESIL_OK;
}

typedef struct {
    presil_plan_info known;
    uint64_t news[32];
} newer_info;

static int paper_plan_info(const presil_plan *plan, presil_plan_info *out) {
    newer_info own = {.known = {.label = "neg",
                                .segments = 1,
                                .reads = &plan->read,
                                .writes = &plan->write,
                                .read_count = plan->count != 0,
                                .write_count = plan->count != 0}};
    memset(own.news, 0x5a, sizeof own.news);
    presil_give(out, &own, paper("long") ? sizeof own : sizeof own.known);
    return PRESIL_OK;
}

static void paper_plan_free(presil_plan *plan) { free(plan); }

static int paper_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                        const presil_plan *plan, uint32_t segment, presil_error_buffer *error) {
    (void)memory, (void)segment, (void)error;
    const uint32_t from = plan->count ? (uint32_t)(plan->read.base.value - chip->base.value) : 0,
                   to = plan->count ? (uint32_t)(plan->write.base.value - chip->base.value) : 0;
    (void)link->ops->write32(link->handle, FROM, from);
    (void)link->ops->write32(link->handle, TO, to);
    (void)link->ops->write32(link->handle, COUNT, plan->count);
    (void)link->ops->write32(link->handle, LEFT, (uint32_t)paper("interrupts"));
    return PRESIL_OK;
}

static int paper_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out) {
    (void)chip, (void)plan;
    uint32_t left;
    (void)link->ops->read32(link->handle, LEFT, &left);
    out->result = !left ? PRESIL_SERVICE_DONE : paper("busy") ? PRESIL_SERVICE_BUSY : PRESIL_SERVICE_PROGRESS;
    return PRESIL_OK;
}

static int paper_counters(presil_chip *chip, const presil_link *link, presil_report *out) {
    (void)chip, (void)link;
    out->cycles += 10;
    out->stalls[0][1] += 10;
    out->counters[0] += 7;
    return PRESIL_OK;
}

static int paper_names(const presil_chip *chip, presil_names *out) {
    (void)chip;
    static const presil_name engines[PRESIL_ENGINES + 1] = {{.name = "pen", .flags = PRESIL_NAME_ARRAY}},
                                                      causes[PRESIL_CAUSES + 1] = {{.name = "dry", .bound = "ink"},
                                                                                   {.name = "writes"}},
                                                      counters[PRESIL_COUNTERS + 1] = {
                                                          {.name = "sheets", .unit = "pages"}};
    const presil_names own = {.engine_count = paper("engines") ? (uint32_t)paper("engines") : 1,
                              .cause_count = paper("causes") ? (uint32_t)paper("causes") : 2,
                              .counter_count = paper("counters") ? (uint32_t)paper("counters") : 1,
                              .engines = engines,
                              .causes = causes,
                              .counters = counters};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

const presil_chip_ops *presil_chip_entry(void);
__attribute__((visibility("default"))) const presil_chip_ops *presil_chip_entry(void) {
    static struct {
        presil_chip_ops known;
        void *news[8];
    } table;
    table.known = (presil_chip_ops){.size = sizeof table.known,
                                    .abi = PRESIL_CHIP_ABI,
                                    .name = "paper",
                                    .create = paper_create,
                                    .destroy = paper_destroy,
                                    .limits = paper_limits,
                                    .info = paper_chip_info,
                                    .probe = paper_probe,
                                    .reset = paper_reset,
                                    .supports = paper_supports,
                                    .plan = paper_plan,
                                    .plan_info = paper_plan_info,
                                    .plan_free = paper_plan_free,
                                    .submit = paper_submit,
                                    .service = paper_service,
                                    .counters = paper_counters,
                                    .names = paper_names};
    if (paper("short")) table.known.size = offsetof(presil_chip_ops, execute);
    if (paper("long")) table.known.size = sizeof table;
    if (paper("lack")) table.known.submit = NULL;
    return &table.known;
}
