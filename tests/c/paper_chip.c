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
 *   twin          an executor: modes MODEL and VERIFY
 *   apart         the transport has a memory of its own, and doesn't map
 *   lose          a reset loses that memory
 *   broken        a reset fails
 *   depth=N       it takes N launches before the first is over; each wait() ends the oldest, burst=N: so many at once
 *   strict        it takes no more once one of them has failed
 *   clock         its transport's cycles mean something
 *   polled        without an interrupt
 *   stale         it reads its scratch memory before it has written there
 *   bits=N        its addresses have so many bits
 *   segments=N    a launch is so many
 *   uncounted     the table has no counters
 *   default       it is the chip of who names no configuration; nameless: and it does not say which that is
 *   unsaid        its transport does not say which configuration it has
 *   zero          its configuration's hash is 0
 * It knows tensors packed in two layouts, and the operator's label says which it wants of input and output: "in=b",
 * "out=x", both or neither; "only": it takes what it wants packed in no other form. b: the elements backwards, behind
 * 64 bytes; x: with every other bit turned. And how the launch ends: "fail" (a bus error, having written nonsense),
 * "hang", "die" (the transport fails), "long" (only a cancel ends it); "refuse": the executor does, the chip doesn't.
 * "scratch=N,align=M": so many bytes while it runs: it copies there first, and leaves something else there than the
 * executor does. "segments=N": so many doorbells, for equal parts; "unfit": submit() fails, for the last of them.
 *
 * Built twice: as libpresil_sim_paper_fast.so and as libpresil_chip_paper.so.
 */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdbool.h>
#include <sys/mman.h>
#include "presil_chip.h"

enum {
    FROM = 0,
    TO = 4,
    COUNT = 8,
    LEFT = 12,
    FORMS = 16,
    ENDS = 20,
    SCRATCH = 24,
    SCRATCH_BYTES = 28,
    DONE = 32,
    FAILED = 36,
    REGISTERS
};
/* Of an operand, and how a launch ends. */
enum { PLAIN, BACKWARDS, TURNED, HEAD = 64, TURN = 0x5555 };
enum { ENDS_WELL, ENDS_FAILED, ENDS_HUNG, ENDS_CANCELLED, ENDS_DEAD };
enum { MOST_JOBS = 64 };

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
    uint32_t jobs[MOST_JOBS][REGISTERS], job_count; /* depth */
};

static int paper_open(const presil_transport_options *options, presil_transport **out, char *error, size_t bytes) {
    presil_transport *t = calloc(1, sizeof *t);
    if (!t) return PRESIL_TRANSPORT_ENOMEM;
    t->base = options->memory_base;
    t->bytes = options->memory_bytes;
    t->memory = paper("apart") ? mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                               : mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, options->memory_fd, 0);
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
    presil_transport_info own = {
        .size = sizeof own,
        .abi = PRESIL_TRANSPORT_ABI,
        .capabilities =
            paper("apart") ? 0 : (PRESIL_CAP_MAPS | PRESIL_CAP_COHERENT | (paper("clock") ? PRESIL_CAP_CLOCKED : 0u)),
        .chip = "paper",
        .build = "fast"};
    if (!paper("unsaid")) (void)snprintf(own.config, sizeof own.config, "paper");
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

static int16_t *element(int16_t *at, uint32_t form, uint32_t count, uint32_t i) {
    return form == BACKWARDS ? at + HEAD / 2 + count - 1 - i : at + i;
}

/* to = -from, both in their forms. */
static void negate(int16_t *from, int16_t *to, uint32_t forms, uint32_t count) {
    const uint32_t a = forms & 3, b = forms >> 2 & 3;
    for (uint32_t i = 0; i < count; i++) {
        const int16_t value = *element(from, a, count, i), x = (int16_t)(a == TURNED ? value ^ TURN : value);
        *element(to, b, count, i) = (int16_t)(b == TURNED ? -x ^ TURN : -x);
    }
    if (paper("wrong")) *element(to, b, count, count / 2) ^= 1;
}

/* Where the operand is then: in the scratch memory, with what is left over of that filled. */
static int16_t *by_scratch(uint8_t *scratch, uint64_t bytes, int16_t *from, uint64_t operand, int fill) {
    if (!bytes) return from;
    const uint8_t before = scratch[bytes - 1];
    memset(scratch, fill, bytes);
    if (operand > bytes) return from;
    memcpy(scratch, from, operand);
    if (fill == 0x5c && paper("stale")) scratch[0] ^= before;
    return (int16_t *)(void *)scratch;
}

static int run_job(presil_transport *t, uint32_t offset) {
    int16_t *from = (int16_t *)(void *)(t->memory + t->reg[FROM]), *to = (int16_t *)(void *)(t->memory + t->reg[TO]);
    if (offset != LEFT) return 0;
    from = by_scratch(t->memory + t->reg[SCRATCH], t->reg[SCRATCH_BYTES], from, 2 * (uint64_t)t->reg[COUNT], 0x5c);
    if (t->reg[ENDS] == ENDS_WELL)
        negate(from, to, t->reg[FORMS], t->reg[COUNT]);
    else if (t->reg[COUNT])
        memset(to, 0xa5, 2 * (size_t)t->reg[COUNT]);
    return 0;
}

static int paper_write(presil_transport *t, uint32_t offset, uint32_t value) {
    t->reg[offset] = value;
    if (offset == LEFT && paper("depth")) {
        if (t->job_count >= (uint32_t)paper("depth") || (paper("strict") && t->reg[FAILED]))
            return PRESIL_TRANSPORT_EBUS;
        memcpy(t->jobs[t->job_count++], t->reg, sizeof t->reg);
        return 0;
    }
    return run_job(t, offset);
}

/* A test's: called while a launch runs that only a cancel ends. */
extern void (*paper_endless)(void);
__attribute__((visibility("default"))) void (*paper_endless)(void);

/* ---- several: the oldest one goes on; nothing begins behind one that fails or hangs */
static int run_oldest(presil_transport *t, presil_wait *w) {
    uint32_t now[REGISTERS];
    uint32_t *job = t->jobs[0];
    w->reason = paper("polled") ? PRESIL_WAIT_DEADLINE : PRESIL_WAIT_IRQ;
    if (!t->job_count || job[ENDS] == ENDS_HUNG) w->reason = PRESIL_WAIT_HUNG;
    if (t->job_count && job[ENDS] == ENDS_DEAD) return PRESIL_TRANSPORT_ESTOPPED;
    if (t->job_count && job[ENDS] == ENDS_CANCELLED && paper_endless) paper_endless();
    while (t->job_count && job[ENDS] == ENDS_CANCELLED && !*w->cancel) {}
    if (t->job_count && job[ENDS] == ENDS_CANCELLED) w->reason = PRESIL_WAIT_CANCELLED;
    if (w->reason == PRESIL_WAIT_HUNG || w->reason == PRESIL_WAIT_CANCELLED || t->reg[FAILED]) return 0;
    if (job[LEFT]) return job[LEFT]--, 0;
    memcpy(now, t->reg, sizeof now);
    memcpy(t->reg, job, sizeof now);
    (void)run_job(t, LEFT);
    t->reg[DONE] = now[DONE] + (job[ENDS] != ENDS_FAILED);
    t->reg[FAILED] = job[ENDS] == ENDS_FAILED;
    memmove(t->jobs[0], t->jobs[1], sizeof t->jobs - sizeof t->jobs[0]);
    t->job_count--;
    return 0;
}

static int paper_mem_read(presil_transport *t, presil_daddr from, void *to, uint64_t bytes) {
    memcpy(to, t->memory + (from.value - t->base.value), bytes);
    return 0;
}
static int paper_mem_write(presil_transport *t, presil_daddr to, const void *from, uint64_t bytes) {
    memcpy(t->memory + (to.value - t->base.value), from, bytes);
    return 0;
}

static int paper_region(presil_transport *t, uint32_t index, presil_region *out) {
    *out = (presil_region){t->base, t->bytes, paper("apart") ? NULL : t->memory};
    return index ? PRESIL_TRANSPORT_EINVAL : 0;
}

static int paper_wait(presil_transport *t, presil_wait *w) {
    w->cycles = 10;
    if (w->progress && paper("tells")) w->progress(w->progress_context, w->cycles);
    if (paper("depth")) {
        int error = 0;
        const int burst = paper("burst") ? paper("burst") : 1;
        for (int i = 0; i < burst && !error && (i == 0 || t->job_count); i++) error = run_oldest(t, w);
        return error;
    }
    w->reason = paper("quiet") || t->reg[ENDS] == ENDS_HUNG ? PRESIL_WAIT_HUNG : PRESIL_WAIT_IRQ;
    while (t->reg[ENDS] == ENDS_CANCELLED && w->reason != PRESIL_WAIT_CANCELLED)
        w->reason = *w->cancel ? PRESIL_WAIT_CANCELLED : PRESIL_WAIT_IRQ;
    w->cycles = 10;
    if (t->reg[LEFT]) t->reg[LEFT]--;
    return 0;
}

static int paper_cycles(presil_transport *t, uint64_t *cycles) {
    (void)t;
    *cycles = 0;
    return 0;
}

static int paper_reset_pin(presil_transport *t) {
    memset(t->reg, 0, sizeof t->reg);
    t->job_count = 0;
    if (paper("broken")) return PRESIL_TRANSPORT_EIO;
    if (!paper("lose")) return 0;
    memset(t->memory, 0xee, t->bytes);
    return PRESIL_TRANSPORT_MEMORY_LOST;
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
                                             .mem_read = paper_mem_read,
                                             .mem_write = paper_mem_write,
                                             .wait = paper_wait,
                                             .cycles = paper_cycles,
                                             .reset = paper_reset_pin};
    return &ops;
}

/* ---- the chip */
struct presil_chip {
    presil_daddr base;
    uint32_t submitted, over, most, count; /* depth; count: elements of the last one that was over */
};
struct presil_plan {
    presil_byte_range read, write;
    uint32_t count, forms, ends;
    bool refused, unfit;
    uint64_t scratch, alignment;
    uint32_t segments;
};
struct presil_layout {
    uint32_t form;
};
static const presil_layout layouts[] = {{PLAIN}, {BACKWARDS}, {TURNED}};

static int fail(presil_error_buffer *error, int status, const char *text) {
    (void)snprintf(error->text, error->bytes, "%s", text);
    return status;
}

static int paper_create(const char *config, presil_chip **out, presil_error_buffer *error) {
    if (strcmp(config, "paper") != 0 && !paper("configs") && (*config || !paper("default")))
        return fail(error, PRESIL_EINVAL, "one configuration, \"paper\"");
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
    newer_limits own = {.known = {.address_bits = paper("bits") ? (uint32_t)paper("bits") : 64,
                                  .buffer_alignment = 64,
                                  .has_interrupt = !paper("polled"),
                                  .queue_depth = (uint32_t)paper("depth"),
                                  .has_executor = (uint32_t)paper("twin"),
                                  .asks_first = (uint32_t)paper("quiet"),
                                  .in_place = 1}};
    memset(own.news, 0x5a, sizeof own.news);
    presil_give(out, &own, paper("long") ? sizeof own : sizeof own.known);
    return PRESIL_OK;
}

static int paper_chip_info(const presil_chip *chip, presil_device_info *out) {
    (void)chip;
    if (!paper("nameless")) (void)snprintf(out->config, sizeof out->config, "paper");
    if (paper("zero")) out->known = PRESIL_INFO_CONFIG_HASH; /* a hash that is 0 */
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
    (void)link;
    chip->submitted = chip->over = 0;
    return memory->bytes ? fail(error, PRESIL_EINVAL, "no command memory was asked for") : PRESIL_OK;
}

static int paper_supports(const presil_chip *chip, const presil_op *op, presil_error_buffer *error) {
    (void)chip;
    const presil_operand *from = presil_op_input(op, "input"), *to = presil_op_output(op, "output");
    if (op->kind != PRESIL_OP_ELEMENTWISE || strcmp(presil_op_text(op, "function", ""), "neg") != 0 || !from || !to)
        return fail(error, PRESIL_EUNSUPPORTED, "paper only negates");
    if (op->step_count || op->attribute_count != 1 || op->input_count != 1)
        return fail(error, PRESIL_EUNSUPPORTED, "paper negates and does nothing else");
    if ((from->dtype != PRESIL_INT16 || to->dtype != PRESIL_INT16) && !paper("anything"))
        return fail(error, PRESIL_EUNSUPPORTED, "paper only knows int16");
    int64_t dense = 1;
    for (uint32_t i = from->ndim; i-- > 0; dense *= from->shape[i]) {
        if ((!from->layout && from->stride[i] != dense) || (!to->layout && to->stride[i] != dense))
            return fail(error, PRESIL_EUNSUPPORTED, "paper only knows contiguous tensors");
    }
    return PRESIL_OK;
}

static int paper_activation(const presil_chip *chip, const presil_op *op, const presil_operand *operand,
                            const presil_layout **out, uint64_t *bytes) {
    (void)chip;
    const char *wish = op->label ? strstr(op->label, operand == op->outputs ? "out=" : "in=") : NULL;
    if (!wish) return PRESIL_EUNSUPPORTED;
    *out = &layouts[strchr(wish, '=')[1] == 'b' ? BACKWARDS : TURNED];
    uint64_t count = 1;
    for (uint32_t i = 0; i < operand->ndim; i++) count *= (uint64_t)operand->shape[i];
    *bytes = 2 * count + ((*out)->form == BACKWARDS ? HEAD : 0);
    return PRESIL_OK;
}

/* strided and packed: of one element, counted from the first. */
static void convert(const presil_operand *t, int16_t *strided, int16_t *packed, int pack) {
    uint32_t count = 1;
    for (uint32_t i = 0; i < t->ndim; i++) count *= (uint32_t)t->shape[i];
    for (uint32_t n = 0; n < count; n++) {
        int16_t *p = element(packed, t->layout->form, count, n), *s = strided;
        uint32_t left = n;
        for (uint32_t i = t->ndim; i-- > 0; left /= (uint32_t)t->shape[i])
            s += (int64_t)(left % (uint32_t)t->shape[i]) * t->stride[i];
        const int16_t turn = t->layout->form == TURNED ? TURN : 0;
        *(pack ? p : s) = (int16_t)(*(pack ? s : p) ^ turn);
    }
}

static int paper_pack(const presil_chip *chip, const presil_operand *t, const void *strided, void *packed) {
    (void)chip;
    if (t->layout->form == BACKWARDS) memset(packed, 0x11, HEAD);
    convert(t, (int16_t *)(uintptr_t)strided, packed, 1);
    return PRESIL_OK;
}

static int paper_unpack(const presil_chip *chip, const presil_operand *t, const void *packed, void *strided) {
    (void)chip;
    convert(t, strided, (int16_t *)(uintptr_t)packed, 0);
    return PRESIL_OK;
}

static uint32_t form_of(const presil_operand *t) { return t->layout ? t->layout->form : PLAIN; }

static presil_byte_range bytes_of(const presil_operand *t, uint32_t count) {
    return (presil_byte_range){t->data, 2 * (uint64_t)count + (form_of(t) == BACKWARDS ? HEAD : 0)};
}

/* A test's: what another thread does while an operator is planned. */
extern void (*paper_planning)(void);
__attribute__((visibility("default"))) void (*paper_planning)(void);

static int paper_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error) {
    presil_plan *plan = calloc(1, sizeof *plan);
    if (paper_planning) paper_planning();
    const int status = op->kind == PRESIL_OP_NOP ? PRESIL_OK : paper_supports(chip, op, error);
    if (status || !plan) {
        free(plan);
        return status;
    }
    plan->count = op->kind != PRESIL_OP_NOP;
    for (uint32_t i = 0; plan->count && i < op->inputs->ndim; i++) plan->count *= (uint32_t)op->inputs->shape[i];
    if (plan->count && paper("planned") &&
        op->outputs->data.value - op->inputs->data.value < bytes_of(op->inputs, plan->count).bytes) {
        free(plan);
        return fail(error, PRESIL_EUNSUPPORTED, "the output lies in the input");
    }
    if (plan->count && op->label && strstr(op->label, "only") &&
        ((strstr(op->label, "in=") && !op->inputs->layout) || (strstr(op->label, "out=") && !op->outputs->layout))) {
        free(plan);
        return fail(error, PRESIL_EUNSUPPORTED, "the label wants it packed");
    }
    if (plan->count) {
        plan->read = bytes_of(op->inputs, plan->count);
        plan->write = bytes_of(op->outputs, plan->count);
        plan->forms = form_of(op->inputs) | form_of(op->outputs) << 2;
    }
    const char *label = op->label ? op->label : "";
    plan->ends = strstr(label, "fail")   ? ENDS_FAILED
                 : strstr(label, "hang") ? ENDS_HUNG
                 : strstr(label, "long") ? ENDS_CANCELLED
                 : strstr(label, "die")  ? ENDS_DEAD
                                         : ENDS_WELL;
    plan->refused = strstr(label, "refuse") != NULL;
    plan->unfit = strstr(label, "unfit") != NULL;
    const char *scratch = strstr(label, "scratch="), *align = strstr(label, "align=");
    const char *segments = strstr(label, "segments=");
    plan->segments = segments            ? (uint32_t)strtoul(strchr(segments, '=') + 1, NULL, 10)
                     : paper("segments") ? (uint32_t)paper("segments")
                                         : 1;
    plan->scratch = scratch ? strtoull(strchr(scratch, '=') + 1, NULL, 10) : 0;
    plan->alignment = align ? strtoull(strchr(align, '=') + 1, NULL, 10) : 0;
    *out = plan;
    return PRESIL_OK;
}

typedef struct {
    presil_plan_info known;
    uint64_t news[32];
} newer_info;

static int paper_plan_info(const presil_plan *plan, presil_plan_info *out) {
    newer_info own = {.known = {.label = "neg",
                                .segments = plan->segments,
                                .reads = &plan->read,
                                .writes = &plan->write,
                                .read_count = plan->count != 0,
                                .write_count = plan->count != 0,
                                .scratch_bytes = plan->scratch,
                                .scratch_alignment = plan->alignment}};
    memset(own.news, 0x5a, sizeof own.news);
    presil_give(out, &own, paper("long") ? sizeof own : sizeof own.known);
    return PRESIL_OK;
}

static void paper_plan_free(presil_plan *plan) { free(plan); }

static int paper_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                        const presil_plan *plan, uint32_t segment, presil_error_buffer *error) {
    if (memory->scratch_bytes != plan->scratch) return fail(error, PRESIL_EINVAL, "no scratch memory");
    const uint32_t from = plan->count ? (uint32_t)(plan->read.base.value - chip->base.value) : 0,
                   to = plan->count ? (uint32_t)(plan->write.base.value - chip->base.value) : 0;
    const uint32_t part = plan->count / plan->segments;
    if (plan->unfit && segment + 1 == plan->segments) return fail(error, PRESIL_EINVAL, "it does not fit");
    (void)link->ops->write32(link->handle, FROM, from + 2 * part * segment);
    (void)link->ops->write32(link->handle, TO, to + 2 * part * segment);
    (void)link->ops->write32(link->handle, COUNT, part);
    (void)link->ops->write32(link->handle, FORMS, plan->forms);
    (void)link->ops->write32(link->handle, ENDS, plan->ends);
    (void)link->ops->write32(link->handle, SCRATCH,
                             memory->scratch_bytes ? (uint32_t)(memory->scratch.value - chip->base.value) : 0);
    (void)link->ops->write32(link->handle, SCRATCH_BYTES, (uint32_t)memory->scratch_bytes);
    if (link->ops->write32(link->handle, LEFT, (uint32_t)paper("interrupts")))
        return fail(error, PRESIL_EBUS, "more launches than it takes");
    chip->submitted++;
    if (chip->submitted - chip->over > chip->most) chip->most = chip->submitted - chip->over;
    return PRESIL_OK;
}

static int paper_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out) {
    uint32_t left, done = 0, failed = 0;
    if (paper("depth")) {
        (void)link->ops->read32(link->handle, DONE, &done);
        (void)link->ops->read32(link->handle, FAILED, &failed);
        out->result = done > chip->over ? PRESIL_SERVICE_DONE : failed ? PRESIL_SERVICE_ERROR : PRESIL_SERVICE_PROGRESS;
        out->status = PRESIL_EBUS;
        (void)snprintf(out->text, sizeof out->text, "a bus error, as the label says");
        chip->count = plan->count / plan->segments;
        chip->over += out->result == PRESIL_SERVICE_DONE;
        return PRESIL_OK;
    }
    if (plan->ends == ENDS_FAILED) {
        out->result = PRESIL_SERVICE_ERROR;
        out->status = PRESIL_EBUS;
        (void)snprintf(out->text, sizeof out->text, "a bus error, as the label says");
        return PRESIL_OK;
    }
    (void)link->ops->read32(link->handle, LEFT, &left);
    out->result = !left ? PRESIL_SERVICE_DONE : paper("busy") ? PRESIL_SERVICE_BUSY : PRESIL_SERVICE_PROGRESS;
    return PRESIL_OK;
}

static int paper_counters(presil_chip *chip, const presil_link *link, presil_report *out) {
    (void)link;
    const uint32_t cycles = paper("depth") ? chip->count : 10;
    out->cycles += cycles;
    out->stalls[0][1] += cycles;
    out->counters[0] += paper("depth") ? chip->most : 7;
    return PRESIL_OK;
}

static int paper_execute(presil_chip *chip, const presil_plan *plan, const presil_executor_memory *memory,
                         presil_error_buffer *error) {
    (void)chip;
    if (!plan->count) return PRESIL_OK;
    if (plan->ends == ENDS_FAILED || plan->refused) return fail(error, PRESIL_EBUS, "a bus error, as the label says");
    if (memory->scratch_bytes != plan->scratch) return fail(error, PRESIL_EINVAL, "no scratch memory");
    uint8_t *at = memory->host;
    int16_t *from = (int16_t *)(void *)(at + (plan->read.base.value - memory->base.value));
    from = by_scratch(at + (memory->scratch.value - memory->base.value), memory->scratch_bytes, from, plan->read.bytes,
                      0x11);
    if (memory->on_write && memory->scratch_bytes) memory->on_write(memory->context, memory->scratch, 1);
    negate(from, (int16_t *)(void *)(at + (plan->write.base.value - memory->base.value)), plan->forms, plan->count);
    const uint64_t skip = (plan->forms >> 2) == BACKWARDS ? HEAD : 0;
    if (memory->on_write)
        memory->on_write(memory->context, (presil_daddr){plan->write.base.value + skip}, plan->write.bytes - skip);
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
                                    .execute = paper("twin") ? paper_execute : NULL,
                                    .names = paper_names,
                                    .activation = paper_activation,
                                    .pack_activation = paper_pack,
                                    .unpack_activation = paper_unpack};
    if (paper("short")) table.known.size = offsetof(presil_chip_ops, execute);
    if (paper("long")) table.known.size = sizeof table;
    if (paper("lack")) table.known.submit = NULL;
    if (paper("planned")) table.known.supports = NULL;
    if (paper("uncounted")) table.known.counters = NULL;
    return &table.known;
}
