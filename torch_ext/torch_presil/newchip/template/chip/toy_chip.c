/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Presil has to know of the chip in rtl/: its answers to presil_chip.h, from top to bottom in the order in which
 * they are asked. A launch is
 *
 *   supports(op)    could the chip do that, wherever the tensors will lie? "No" sends the operator to the host
 *   plan(op)        the commands for it, with addresses; no register is touched
 *   plan_info()     what it reads and writes
 *   submit()        registers, doorbell
 *   service()       behind the interrupt: is it over, did it fail?
 *   counters()      where the cycles went
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "presil_chip.h"
#include "presil_kit.h"
#include "toy_registers.h"

/* The instance: a chip with state of its own keeps it here. */
struct presil_chip {
  char unused;
};

/* One start of the chip. Larger work is several of them: segments, which the core submits one after the other. */
typedef struct {
  uint64_t a, b, c;
  uint32_t m, n, k, a_stride, b_stride, c_stride, control;
} command;

struct presil_plan {
  char label[48];
  uint64_t macs;
  presil_byte_range reads[2], write;
  uint32_t read_count, count;
  int64_t row; /* elements of C's last dimension, for describe() */
  command commands[];
};

/* presil_kit_fail() leaves a text: what was expected, what was found, what to do: the user reads it.
 * presil_kit_get(), presil_kit_put(): a register; every access may fail (the simulator stopped, the link is gone). */

/* ---- who it is */

static int toy_create(const char* config, presil_chip** out, presil_error_buffer* error) {
  if (strcmp(config, "toy") != 0)
    return presil_kit_fail(error, PRESIL_EINVAL, "the chip toy has one configuration, \"toy\", not \"%s\"", config);
  presil_chip* chip = calloc(1, sizeof *chip);
  if (!chip) return presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a chip");
  *out = chip;
  return PRESIL_OK;
}

static void toy_destroy(presil_chip* chip) { free(chip); }

/* presil_give() writes no more than the core has room for: cores and chips of different age work together. */
static int toy_limits(const presil_chip* chip, presil_chip_limits* out) {
  (void)chip;
  const presil_chip_limits own = {.size = sizeof own,
                                  .address_bits = 40,
                                  .buffer_alignment = TOY_WORD,
                                  .has_interrupt = 1,
                                  .numerics = PRESIL_NUMERICS_INTEGER,
                                  .kinds = 1u << PRESIL_OP_MATMUL}; /* it is asked about no others; but NOP and COPY */
  presil_give(out, &own, sizeof own);
  return PRESIL_OK;
}

static int toy_info(const presil_chip* chip, presil_device_info* out) {
  (void)chip;
  out->clock_mhz = 500; /* its sizes, in its own words: toy_names() */
  return PRESIL_OK;
}

/* A driver that talks to the wrong chip does harm: look before anything else. */
static int toy_probe(presil_chip* chip, const presil_link* link, presil_error_buffer* error) {
  (void)chip;
  uint32_t id = 0;
  const int failed = presil_kit_get(link, TOY_ID, &id, error);
  if (failed) return failed;
  if (id != TOY_ID_VALUE)
    return presil_kit_fail(error, PRESIL_ENODEV, "not the chip toy: ID reads 0x%08x, 0x%08x expected", id,
                           TOY_ID_VALUE);
  return PRESIL_OK;
}

/* After the reset pin, and after every failed launch. */
static int toy_reset(presil_chip* chip, const presil_link* link, const presil_command_memory* memory,
                     presil_error_buffer* error) {
  (void)chip, (void)memory;
  uint32_t status = 0;
  int failed = presil_kit_put(link, TOY_STATUS, TOY_DONE | TOY_ERROR, error);
  if (!failed) failed = presil_kit_get(link, TOY_STATUS, &status, error);
  if (failed) return failed;
  return status ? presil_kit_fail(error, PRESIL_EDEAD, "not idle behind a reset: STATUS is 0x%x", status) : PRESIL_OK;
}

/* ---- what it can do */

/* The operands of a product: sizes and strides in bytes. */
typedef struct {
  const presil_operand *a, *b, *c;
  int64_t batches, m, n, k;
} product;

static int refuse(presil_error_buffer* error, const char* what, int64_t found, const char* wanted) {
  return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "%s is %" PRId64 ": the chip toy wants %s", what, found, wanted);
}

static int check_product(const presil_op* op, product* out, presil_error_buffer* error) {
  const presil_operand *a = presil_op_input(op, "a"), *b = presil_op_input(op, "b"),
                       *c = presil_op_output(op, "output");
  if (!a || !b || !c || a->ndim != 3 || b->ndim != 3 || c->ndim != 3)
    return presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                           "a product of a, b and output with three dimensions each was expected");
  *out = (product){a, b, c, c->shape[0], a->shape[1], b->shape[2], a->shape[2]};
  if (a->dtype != PRESIL_INT8 || b->dtype != PRESIL_INT8 || c->dtype != PRESIL_INT32)
    return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "the chip toy multiplies int8 by int8 to int32, nothing else");
  /* Whatever is not known has to be refused: a step that is passed over is a wrong number. */
  if (op->step_count) return refuse(error, "the number of steps behind the product", op->step_count, "0");
  if (op->attribute_count) return refuse(error, "the number of attributes", op->attribute_count, "0");
  if (op->input_count != 2) return refuse(error, "the number of inputs", op->input_count, "2");
  if (op->output_count != 1) return refuse(error, "the number of outputs", op->output_count, "1");
  if (a->layout || b->layout) return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "the chip toy packs nothing");
  if (out->batches < 1 || out->m < 1 || out->n < 1 || out->k < 1 || out->batches > 4096 || out->m > 1 << 20 ||
      out->n > 1 << 20)
    return presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                           "1 to 4096 products of 1 to 2^20 rows and columns were expected");
  if (out->k > TOY_ROW) return refuse(error, "K", out->k, "at most 4096");
  /* A by rows, B by columns (a transposed weight: torch's weight.t()), C without gaps. */
  if (out->k > 1 && a->stride[2] != 1) return refuse(error, "a.stride[2]", a->stride[2], "1");
  if (out->k > 1 && b->stride[1] != 1) return refuse(error, "b.stride[1]", b->stride[1], "1 (b transposed)");
  if (out->m > 1 && (a->stride[1] % TOY_WORD || a->stride[1] < 0 || a->stride[1] > INT32_MAX))
    return refuse(error, "a.stride[1]", a->stride[1], "a multiple of 16");
  if (out->n > 1 && (b->stride[2] % TOY_WORD || b->stride[2] < 0 || b->stride[2] > INT32_MAX))
    return refuse(error, "b.stride[2]", b->stride[2], "a multiple of 16");
  if (out->batches > 1 && (a->stride[0] % TOY_WORD || b->stride[0] % TOY_WORD || a->stride[0] < 0 || b->stride[0] < 0))
    return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "the strides of batches are no multiples of 16");
  if ((out->n > 1 && c->stride[2] != 1) || (out->m > 1 && c->stride[1] != out->n) ||
      (out->batches > 1 && c->stride[0] != out->m * out->n))
    return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "an output without gaps was expected");
  return PRESIL_OK;
}

static int check_copy(const presil_op* op, presil_error_buffer* error) {
  const presil_operand *from = presil_op_input(op, "input"), *to = presil_op_output(op, "output");
  if (!from || !to || from->ndim != 1 || from->dtype != PRESIL_INT8 || (from->shape[0] > 1 && from->stride[0] != 1) ||
      (to->shape[0] > 1 && to->stride[0] != 1) || op->step_count || op->attribute_count || op->input_count != 1 ||
      op->output_count != 1)
    return presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                           "the chip toy copies bytes that follow each other, nothing else");
  return PRESIL_OK;
}

/* `data` of the operands means nothing here: only what holds wherever they lie. */
static int toy_supports(const presil_chip* chip, const presil_op* op, presil_error_buffer* error) {
  (void)chip;
  product p;
  if (op->kind == PRESIL_OP_NOP) return PRESIL_OK;
  if (op->kind == PRESIL_OP_COPY) return check_copy(op, error);
  if (op->kind == PRESIL_OP_MATMUL) return check_product(op, &p, error);
  return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "the chip toy has matmul and copy, not kind %u", op->kind);
}

/* ---- plans */

static presil_plan* new_plan(const presil_op* op, const char* label, uint64_t commands, presil_error_buffer* error) {
  presil_plan* plan = calloc(1, sizeof *plan + commands * sizeof *plan->commands);
  if (!plan) {
    (void)presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    return NULL;
  }
  (void)snprintf(plan->label, sizeof plan->label, "%s", op->label ? op->label : label);
  plan->count = (uint32_t)commands;
  return plan;
}

/* From the first byte of a strided operand to its last: a little more than is read where there are gaps. */
static presil_byte_range reach(uint64_t at, int64_t batches, int64_t batch_stride, int64_t rows, int64_t stride,
                               int64_t bytes) {
  return (presil_byte_range){{at}, (uint64_t)((batches - 1) * batch_stride + (rows - 1) * stride + bytes)};
}

static int plan_product(const presil_op* op, presil_plan** out, presil_error_buffer* error) {
  product p;
  const int status = check_product(op, &p, error);
  if (status) return status;
  const uint64_t a = p.a->data.value, b = p.b->data.value, c = p.c->data.value;
  if (a % TOY_WORD || b % TOY_WORD || c % 4)
    return presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                           "a and b at multiples of 16 and output at one of 4 were expected");
  presil_plan* plan = new_plan(op, "matmul", (uint64_t)p.batches, error);
  if (!plan) return PRESIL_EHOSTMEM;
  plan->macs = (uint64_t)(p.batches * p.m * p.n * p.k);
  plan->row = p.n;
  const int64_t a_row = p.m > 1 ? p.a->stride[1] : 0, b_row = p.n > 1 ? p.b->stride[2] : 0;
  const int64_t a_batch = p.batches > 1 ? p.a->stride[0] : 0, b_batch = p.batches > 1 ? p.b->stride[0] : 0;
  plan->reads[0] = reach(a, p.batches, a_batch, p.m, a_row, p.k);
  plan->reads[1] = reach(b, p.batches, b_batch, p.n, b_row, p.k);
  plan->read_count = (uint32_t)presil_merge_ranges(plan->reads, 2); /* sorted, as presil_plan_info promises */
  plan->write = (presil_byte_range){{c}, (uint64_t)(p.batches * p.m * p.n * 4)};
  for (int64_t i = 0; i < p.batches; i++)
    plan->commands[i] = (command){.a = a + (uint64_t)(i * a_batch),
                                  .b = b + (uint64_t)(i * b_batch),
                                  .c = c + (uint64_t)(i * p.m * p.n * 4),
                                  .m = (uint32_t)p.m,
                                  .n = (uint32_t)p.n,
                                  .k = (uint32_t)p.k,
                                  .a_stride = (uint32_t)a_row,
                                  .b_stride = (uint32_t)b_row,
                                  .c_stride = (uint32_t)(p.n * 4),
                                  .control = TOY_MULTIPLY};
  *out = plan;
  return PRESIL_OK;
}

/* Whole rows, then what is left. NOP is a copy of nothing. */
static int plan_copy(const presil_op* op, presil_plan** out, presil_error_buffer* error) {
  uint64_t from = 0, to = 0, bytes = 0;
  if (op->kind == PRESIL_OP_COPY) {
    const int status = check_copy(op, error);
    if (status) return status;
    from = op->inputs[0].data.value, to = op->outputs[0].data.value, bytes = (uint64_t)op->inputs[0].shape[0];
  }
  if (from % TOY_WORD || to % TOY_WORD || bytes / TOY_ROW > UINT32_MAX || (from < to + bytes && to < from + bytes))
    return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "copies begin at multiples of 16 and do not overlap");
  presil_plan* plan = new_plan(op, bytes ? "copy" : "nop", bytes >= TOY_ROW && bytes % TOY_ROW ? 2 : 1, error);
  if (!plan) return PRESIL_EHOSTMEM;
  const uint64_t whole = bytes - bytes % TOY_ROW;
  command* at = plan->commands;
  if (whole)
    *at++ = (command){.a = from,
                      .c = to,
                      .m = (uint32_t)(whole / TOY_ROW),
                      .k = TOY_ROW,
                      .a_stride = TOY_ROW,
                      .c_stride = TOY_ROW,
                      .control = TOY_COPY};
  if (bytes % TOY_ROW || !bytes)
    *at = (command){
        .a = from + whole, .c = to + whole, .m = bytes != 0, .k = (uint32_t)(bytes % TOY_ROW), .control = TOY_COPY};
  plan->reads[0] = (presil_byte_range){{from}, bytes};
  plan->read_count = bytes != 0;
  plan->write = (presil_byte_range){{to}, bytes};
  *out = plan;
  return PRESIL_OK;
}

static int toy_plan(const presil_chip* chip, const presil_op* op, presil_plan** out, presil_error_buffer* error) {
  if (op->kind == PRESIL_OP_MATMUL) return plan_product(op, out, error);
  if (op->kind == PRESIL_OP_COPY || op->kind == PRESIL_OP_NOP) return plan_copy(op, out, error);
  return toy_supports(chip, op, error);
}

/* Everything that the launch's cycles can depend on: sizes, and addresses within their page. What it multiplies is not
 * among it: presil conform's check `timing` runs the same commands on other data, and at other addresses. */
static int toy_timing(const presil_chip* chip, const presil_plan* plan, presil_timing_add add, void* context) {
  (void)chip;
  for (uint32_t i = 0; i < plan->count; i++) {
    const command* c = &plan->commands[i];
    const uint64_t parts[] = {c->a % 4096, c->b % 4096, c->c % 4096, c->m,        c->n,
                              c->k,        c->a_stride, c->b_stride, c->c_stride, c->control};
    add(context, parts, sizeof parts);
  }
  return PRESIL_OK;
}

static void add_to_hash(void* context, const void* bytes, size_t count) {
  uint64_t* hash = context;
  for (size_t i = 0; i < count; i++) *hash = (*hash ^ ((const uint8_t*)bytes)[i]) * 1099511628211u;
}

/* All of it as a number: seed of the memory model. */
static uint64_t signature(const presil_plan* plan) {
  uint64_t hash = 1469598103934665603u; /* FNV-1a */
  (void)toy_timing(NULL, plan, add_to_hash, &hash);
  return hash;
}

static int toy_plan_info(const presil_plan* plan, presil_plan_info* out) {
  const presil_plan_info own = {.size = sizeof own,
                                .label = plan->label,
                                .macs = plan->macs,
                                .passes = 1,
                                .peak_macs_per_cycle = TOY_PRODUCTS,
                                .descriptors = plan->count,
                                .signature = signature(plan),
                                .segments = plan->count,
                                .reads = plan->reads,
                                .writes = &plan->write,
                                .read_count = plan->read_count,
                                .write_count = plan->write.bytes != 0};
  presil_give(out, &own, sizeof own);
  return PRESIL_OK;
}

/* Where the first wrong byte lies, in words. */
static int toy_describe(const presil_plan* plan, presil_daddr address, char* text, size_t bytes) {
  const uint64_t at = address.value - plan->write.base.value;
  if (at >= plan->write.bytes) return PRESIL_EINVAL;
  if (plan->row)
    (void)snprintf(text, bytes, "output row %" PRIu64 ", column %" PRIu64, at / 4 / (uint64_t)plan->row,
                   at / 4 % (uint64_t)plan->row);
  else
    (void)snprintf(text, bytes, "byte %" PRIu64 " of the copy", at);
  return PRESIL_OK;
}

static void toy_plan_free(presil_plan* plan) { free(plan); }

/* ---- running */

static int toy_submit(presil_chip* chip, const presil_link* link, const presil_command_memory* memory,
                      const presil_plan* plan, uint32_t segment, presil_error_buffer* error) {
  (void)chip, (void)memory;
  const command* c = &plan->commands[segment];
  const uint32_t writes[][2] = {{TOY_A_LO, (uint32_t)c->a},
                                {TOY_A_HI, (uint32_t)(c->a >> 32)},
                                {TOY_B_LO, (uint32_t)c->b},
                                {TOY_B_HI, (uint32_t)(c->b >> 32)},
                                {TOY_C_LO, (uint32_t)c->c},
                                {TOY_C_HI, (uint32_t)(c->c >> 32)},
                                {TOY_M, c->m},
                                {TOY_N, c->n},
                                {TOY_K, c->k},
                                {TOY_A_STRIDE, c->a_stride},
                                {TOY_B_STRIDE, c->b_stride},
                                {TOY_C_STRIDE, c->c_stride},
                                {TOY_CONTROL, c->control}}; /* last: the doorbell */
  for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
    const int failed = presil_kit_put(link, writes[i][0], writes[i][1], error);
    if (failed) return failed;
  }
  return PRESIL_OK;
}

/* Asked behind an interrupt; takes it back. */
static int toy_service(presil_chip* chip, const presil_link* link, const presil_plan* plan, presil_service* out) {
  (void)chip, (void)plan;
  uint32_t status = 0;
  presil_error_buffer error = {out->text, sizeof out->text};
  int failed = presil_kit_get(link, TOY_STATUS, &status, &error);
  if (failed) return failed;
  out->result = status & TOY_DONE ? PRESIL_SERVICE_DONE : PRESIL_SERVICE_BUSY;
  if (!(status & TOY_DONE)) return PRESIL_OK;
  failed = presil_kit_put(link, TOY_STATUS, TOY_DONE | TOY_ERROR, &error);
  if (failed) return failed;
  if (status & TOY_ERROR) {
    out->result = PRESIL_SERVICE_ERROR;
    out->status = PRESIL_EBUS;
    (void)snprintf(out->text, sizeof out->text, "the memory answered a read or a write with an error");
  }
  return PRESIL_OK;
}

/* A launch that does not end: what does the chip say? */
static int toy_why(presil_chip* chip, const presil_link* link, const presil_plan* plan, char* text, size_t bytes) {
  (void)chip, (void)plan;
  uint32_t status = 0, cycles = 0, mac = 0;
  if (presil_kit_get(link, TOY_STATUS, &status, NULL) || presil_kit_get(link, TOY_CYCLES, &cycles, NULL) ||
      presil_kit_get(link, TOY_MAC_CYCLES, &mac, NULL))
    return PRESIL_EDEAD;
  (void)snprintf(text, bytes, "array: %s, %u of %u cycles it multiplied, the others it waited for memory",
                 status & TOY_BUSY ? "busy" : "idle", mac, cycles);
  return PRESIL_OK;
}

enum { ARRAY, BUSY = 0, MEMORY };

/* Adds: a plan of several segments is one report. The causes of an engine add up to the cycles. */
static int toy_counters(presil_chip* chip, const presil_link* link, presil_report* out) {
  (void)chip;
  uint32_t cycles = 0, mac = 0;
  if (presil_kit_get(link, TOY_CYCLES, &cycles, NULL) || presil_kit_get(link, TOY_MAC_CYCLES, &mac, NULL))
    return PRESIL_EDEAD;
  out->cycles += cycles;
  out->descriptors += 1;
  out->stalls[ARRAY][BUSY] += mac;
  out->stalls[ARRAY][MEMORY] += cycles - mac;
  return PRESIL_OK;
}

static int toy_names(const presil_chip* chip, presil_names* out) {
  (void)chip;
  static const presil_name engines[] = {
      {.name = "array", .meaning = "16 products a cycle", .flags = PRESIL_NAME_ARRAY}};
  static const presil_name causes[] = {
      {.name = "busy", .meaning = "multiplies", .bound = "compute", .flags = PRESIL_NAME_WORKS},
      {.name = "memory", .meaning = "waits for memory", .bound = "memory"}};
  static const presil_property sizes[] = {
      {.name = "products", .unit = "per cycle", .meaning = "of int8, added up", .value = TOY_PRODUCTS},
      {.name = "row", .unit = "bytes", .meaning = "of A or B, at most", .value = TOY_ROW}};
  const presil_names own = {.size = sizeof own,
                            .engine_count = 1,
                            .cause_count = 2,
                            .engines = engines,
                            .causes = causes,
                            .commands = "starts", /* what plan_info() and counters() count as descriptors */
                            .properties = sizes,
                            .property_count = sizeof sizes / sizeof *sizes};
  presil_give(out, &own, sizeof own);
  return PRESIL_OK;
}

const presil_chip_ops* presil_chip_entry(void);
__attribute__((visibility("default"))) const presil_chip_ops* presil_chip_entry(void) {
  static const presil_chip_ops ops = {.size = sizeof ops,
                                      .abi = PRESIL_CHIP_ABI,
                                      .name = "toy",
                                      .create = toy_create,
                                      .destroy = toy_destroy,
                                      .limits = toy_limits,
                                      .info = toy_info,
                                      .probe = toy_probe,
                                      .reset = toy_reset,
                                      .supports = toy_supports,
                                      .plan = toy_plan,
                                      .plan_info = toy_plan_info,
                                      .describe = toy_describe,
                                      .plan_free = toy_plan_free,
                                      .submit = toy_submit,
                                      .service = toy_service,
                                      .why = toy_why,
                                      .counters = toy_counters,
                                      .names = toy_names,
                                      .timing = toy_timing};
  return &ops;
}
