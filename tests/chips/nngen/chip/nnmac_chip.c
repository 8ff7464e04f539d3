/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Presil has to know of an accelerator that NNgen generated (generate.py): y = x w^T of one shape. More rows are
 * several starts; the last of them begins earlier, so that it ends with the last row, and writes rows of the one before
 * it again, with the same bits. Fewer rows than the shape has are refused.
 */
#include "nnmac_sizes.h"
#include "presil_kit_plan.h"

enum { /* registers; NNMAC_X, NNMAC_W, NNMAC_Y say where the tensors lie */
       START = 0x10,
       BUSY = 0x14,
       EVENTS = 0x24, /* bit 0: BUSY fell */
       ENABLE = 0x28,
       ACKNOWLEDGE = 0x2c,
       SIZE = 0x7c, /* of all tensors, bytes */
       BASE = 0x80, /* added to the three */
       BUS = 4      /* bytes */
};

struct presil_chip {
    bool began; /* what was submitted has a doorbell: an empty launch has none */
};

typedef struct {
    uint32_t x[2], w[2], y[2];
} command;

/* ---- who it is */

static int nnmac_create(const char *config, presil_chip **out, presil_error_buffer *error) {
    if (strcmp(config, "nnmac") != 0)
        return presil_kit_fail(error, PRESIL_EINVAL, "the chip nnmac has one configuration, \"nnmac\", not \"%s\"",
                               config);
    presil_chip *chip = calloc(1, sizeof *chip);
    if (!chip) return presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a chip");
    *out = chip;
    return PRESIL_OK;
}

static void nnmac_destroy(presil_chip *chip) { free(chip); }

static int nnmac_limits(const presil_chip *chip, presil_chip_limits *out) {
    (void)chip;
    const presil_chip_limits own = {.address_bits = 32,
                                    .buffer_alignment = 64,
                                    .has_interrupt = 1,
                                    .asks_first = 1, /* an empty launch is over at once */
                                    .numerics = PRESIL_NUMERICS_INTEGER,
                                    .kinds = 1u << PRESIL_OP_MATMUL};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

static int nnmac_info(const presil_chip *chip, presil_device_info *out) {
    (void)chip;
    out->clock_mhz = 200;
    return PRESIL_OK;
}

/* It has no identification: the size of its tensors is the most that it says of itself. */
static int nnmac_probe(presil_chip *chip, const presil_link *link, presil_error_buffer *error) {
    (void)chip;
    const uint32_t expected = NNMAC_ROWS * NNMAC_DEPTH + NNMAC_COLUMNS * NNMAC_DEPTH + NNMAC_ROWS * NNMAC_COLUMNS * 4;
    uint32_t size = 0;
    const int status = presil_kit_get(link, SIZE, &size, error);
    if (status || (size >= expected && size < expected + 192)) return status; /* each begins at a multiple of 64 */
    return presil_kit_fail(error, PRESIL_ENODEV,
                           "not nnmac of [%d, %d] by [%d, %d]: its tensors take %u bytes, about %u expected",
                           NNMAC_ROWS, NNMAC_DEPTH, NNMAC_DEPTH, NNMAC_COLUMNS, size, expected);
}

static int nnmac_reset(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                       presil_error_buffer *error) {
    (void)memory;
    uint32_t busy = 0;
    chip->began = false;
    int status = presil_kit_get(link, BUSY, &busy, error);
    if (!status) status = presil_kit_put(link, BASE, 0, error);
    if (!status) status = presil_kit_put(link, ACKNOWLEDGE, 1, error);
    if (!status) status = presil_kit_put(link, ENABLE, 1, error);
    if (!status && busy) return presil_kit_fail(error, PRESIL_EDEAD, "busy behind a reset");
    return status;
}

/* ---- what it can do */

static int refuse(presil_error_buffer *error, const char *what, int64_t found, const char *wanted, int64_t number) {
    return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "%s is %" PRId64 ", and the chip nnmac takes %s%" PRId64, what,
                           found, wanted, number);
}

/* Rows side by side and without gaps: the chip has no strides. */
static int check_rows(const presil_operand *t, int row, int column, presil_error_buffer *error) {
    if (t->layout) return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "%s is packed", t->name);
    if (t->shape[column] > 1 && t->stride[column] != 1)
        return refuse(error, "the step along a row", t->stride[column], "", 1);
    if (t->shape[row] > 1 && t->stride[row] != t->shape[column])
        return refuse(error, "the step to the next row", t->stride[row], "rows without gaps: ", t->shape[column]);
    return PRESIL_OK;
}

static int nnmac_supports(const presil_chip *chip, const presil_op *op, presil_error_buffer *error) {
    (void)chip;
    if (op->kind == PRESIL_OP_NOP) return PRESIL_OK;
    if (op->kind != PRESIL_OP_MATMUL) return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "nnmac has products alone");
    const presil_operand *a = presil_op_input(op, "a"), *b = presil_op_input(op, "b"),
                         *y = presil_op_output(op, "output");
    if (!a || !b || !y || a->ndim != 3 || b->ndim != 3 || y->ndim != 3)
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "a, b and output of three dimensions were expected");
    if (op->step_count) return refuse(error, "the number of steps", op->step_count, "", 0);
    if (op->attribute_count) return refuse(error, "the number of attributes", op->attribute_count, "", 0);
    if (op->input_count != 2) return refuse(error, "the number of inputs", op->input_count, "", 2);
    if (op->output_count != 1) return refuse(error, "the number of outputs", op->output_count, "", 1);
    if (a->dtype != PRESIL_INT8 || b->dtype != PRESIL_INT8 || y->dtype != PRESIL_INT32)
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "nnmac multiplies int8 by int8 to int32, nothing else");
    if (a->shape[2] != NNMAC_DEPTH) return refuse(error, "K", a->shape[2], "", NNMAC_DEPTH);
    if (b->shape[2] != NNMAC_COLUMNS) return refuse(error, "N", b->shape[2], "", NNMAC_COLUMNS);
    if (a->shape[1] < NNMAC_ROWS) return refuse(error, "M", a->shape[1], "at least ", NNMAC_ROWS);
    if (a->shape[1] > 1 << 20) return refuse(error, "M", a->shape[1], "at most ", 1 << 20);
    if (a->shape[0] != 1) return refuse(error, "the number of products", a->shape[0], "", 1);
    int status = check_rows(a, 1, 2, error);
    if (!status) status = check_rows(b, 2, 1, error); /* a weight's .t() */
    if (!status) status = check_rows(y, 1, 2, error);
    return status;
}

/* ---- plans: a command is a start of the chip */

static uint32_t nnmac_addresses(const void *of, uint32_t *words) {
    (void)of;
    for (uint32_t i = 0; i < 3; i++) words[i] = 2 * i;
    return 3;
}

static uint64_t address(const uint32_t *words) { return (uint64_t)words[1] << 32 | words[0]; }

static bool nnmac_inside(const presil_plan *plan, const void *of) {
    const command *c = of;
    return presil_kit_hold(&plan->reads, address(c->x), NNMAC_ROWS * NNMAC_DEPTH) &&
           presil_kit_hold(&plan->reads, address(c->w), NNMAC_COLUMNS * NNMAC_DEPTH) &&
           presil_kit_hold(&plan->writes, address(c->y), NNMAC_ROWS * NNMAC_COLUMNS * 4);
}

static const presil_kit_commands COMMANDS = {.magic = "nnmac01",
                                             .bytes = sizeof(command),
                                             .timed = sizeof(command),
                                             .peak = NNMAC_PRODUCTS,
                                             .addresses = nnmac_addresses,
                                             .inside = nnmac_inside,
                                             .apart = true};

static bool start_at(presil_plan *plan, uint64_t x, uint64_t w, uint64_t y) {
    command *c = presil_kit_plan_command(plan);
    if (c)
        *c = (command){
            {(uint32_t)x, (uint32_t)(x >> 32)}, {(uint32_t)w, (uint32_t)(w >> 32)}, {(uint32_t)y, (uint32_t)(y >> 32)}};
    return c != NULL;
}

static bool fill(presil_plan *plan, const presil_op *op) {
    const int64_t rows = op->inputs[0].shape[1];
    const uint64_t x = presil_op_input(op, "a")->data.value, w = presil_op_input(op, "b")->data.value;
    const uint64_t y = presil_op_output(op, "output")->data.value;
    const uint64_t row = NNMAC_COLUMNS * 4;
    bool ok = true;
    for (int64_t at = 0; at < rows && ok; at += NNMAC_ROWS) {
        const uint64_t first = (uint64_t)presil_kit_least(at, rows - NNMAC_ROWS);
        ok = start_at(plan, x + first * NNMAC_DEPTH, w, y + first * row);
    }
    plan->macs = (uint64_t)rows * NNMAC_DEPTH * NNMAC_COLUMNS;
    plan->out = (presil_kit_view){y, {1, 1, rows, NNMAC_COLUMNS}, {0, 0, (int64_t)row, 4}, NNMAC_COLUMNS, 0, 0, 0};
    return ok && presil_kit_add(&plan->reads, x, (uint64_t)rows * NNMAC_DEPTH) &&
           presil_kit_add(&plan->reads, w, NNMAC_COLUMNS * NNMAC_DEPTH) &&
           presil_kit_add(&plan->writes, y, (uint64_t)rows * row);
}

static int nnmac_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error) {
    const int status = nnmac_supports(chip, op, error);
    if (status) return status;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const uint64_t at = op->inputs[i].data.value;
        if (at % BUS) return refuse(error, "an address", (int64_t)at, "multiples of ", BUS);
    }
    presil_plan *plan = presil_kit_plan_new(&COMMANDS,
                                            op->label         ? op->label
                                            : op->input_count ? "matmul"
                                                              : "nop",
                                            error);
    if (!plan) return PRESIL_EHOSTMEM;
    if ((op->kind == PRESIL_OP_MATMUL && !fill(plan, op)) || presil_kit_plan_done(plan, error)) {
        presil_kit_plan_free(plan);
        return presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    }
    *out = plan;
    return PRESIL_OK;
}

static int nnmac_describe(const presil_plan *plan, presil_daddr at, char *text, size_t bytes) {
    return presil_kit_describe(&plan->out, at.value, text, bytes) ? PRESIL_OK : PRESIL_EINVAL;
}

static int nnmac_load(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                      presil_plan **out, presil_error_buffer *error) {
    (void)chip;
    return presil_kit_load(&COMMANDS, from, size, base, bytes, out, error);
}

/* ---- running */

static int nnmac_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                        const presil_plan *plan, uint32_t segment, presil_error_buffer *error) {
    (void)memory;
    chip->began = plan->count != 0;
    if (!plan->count) return PRESIL_OK;
    const command *c = presil_kit_command(plan, segment);
    const uint32_t writes[][2] = {{NNMAC_X, c->x[0]}, {NNMAC_W, c->w[0]}, {NNMAC_Y, c->y[0]}, {START, 1}};
    int status = PRESIL_OK;
    for (size_t i = 0; i < sizeof writes / sizeof *writes && !status; i++)
        status = presil_kit_put(link, writes[i][0], writes[i][1], error);
    return status;
}

static int nnmac_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out) {
    (void)plan;
    presil_error_buffer error = {out->text, sizeof out->text};
    uint32_t events = 0;
    out->result = PRESIL_SERVICE_DONE;
    if (!chip->began) return PRESIL_OK;
    const int status = presil_kit_get(link, EVENTS, &events, &error);
    if (!status && !(events & 1)) out->result = PRESIL_SERVICE_BUSY;
    if (status || !(events & 1)) return status;
    chip->began = false;
    return presil_kit_put(link, ACKNOWLEDGE, 1, &error);
}

static int nnmac_why(presil_chip *chip, const presil_link *link, const presil_plan *plan, char *text, size_t bytes) {
    (void)chip, (void)plan;
    uint32_t busy = 0, events = 0;
    if (presil_kit_get(link, BUSY, &busy, NULL) || presil_kit_get(link, EVENTS, &events, NULL)) return PRESIL_EDEAD;
    (void)snprintf(text, bytes, "the accelerator is %s, its interrupt is %s; it says no more", busy ? "busy" : "idle",
                   events & 1 ? "raised" : "not raised");
    return PRESIL_OK;
}

const presil_chip_ops *presil_chip_entry(void);
__attribute__((visibility("default"))) const presil_chip_ops *presil_chip_entry(void) {
    static const presil_chip_ops ops = {.size = sizeof ops,
                                        .abi = PRESIL_CHIP_ABI,
                                        .name = "nnmac",
                                        .create = nnmac_create,
                                        .destroy = nnmac_destroy,
                                        .limits = nnmac_limits,
                                        .info = nnmac_info,
                                        .probe = nnmac_probe,
                                        .reset = nnmac_reset,
                                        .supports = nnmac_supports,
                                        .plan = nnmac_plan,
                                        .plan_info = presil_kit_plan_info,
                                        .describe = nnmac_describe,
                                        .plan_free = presil_kit_plan_free,
                                        .submit = nnmac_submit,
                                        .service = nnmac_service,
                                        .why = nnmac_why,
                                        .save = presil_kit_save,
                                        .load = nnmac_load};
    return &ops;
}
