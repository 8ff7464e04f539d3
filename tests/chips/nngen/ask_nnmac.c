/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the C of this folder makes of one product, without RTL: ask_nnmac BATCHES M K N A_ROW B_COLUMN Y_ROW ADDRESS
 * STEPS. Strides in elements; a lies at ADDRESS, b and output 0x10000 and 0x20000 behind it. Prints "no", status and
 * text; or, of the plan stored and loaded again, every register write, a line each, what it reads and writes, and how
 * many segments there were.
 */
#include <inttypes.h>
#include "presil_kit.h"

static int write_it(presil_transport *t, uint32_t offset, uint32_t value) {
    (void)t;
    printf("%u %u\n", offset, value);
    return 0;
}

int main(int count, char **words) {
    int64_t n[10] = {0};
    for (int i = 1; i < count && i < 10; i++) n[i] = strtoll(words[i], NULL, 0);
    const uint64_t at = (uint64_t)n[8];
    const presil_operand inputs[] = {{.name = "a",
                                      .data = {at},
                                      .dtype = PRESIL_INT8,
                                      .ndim = 3,
                                      .shape = {n[1], n[2], n[3]},
                                      .stride = {0, n[5], 1}},
                                     {.name = "b",
                                      .data = {at + 0x10000},
                                      .dtype = PRESIL_INT8,
                                      .ndim = 3,
                                      .shape = {n[1], n[3], n[4]},
                                      .stride = {0, 1, n[6]}}};
    const presil_operand output = {.name = "output",
                                   .data = {at + 0x20000},
                                   .dtype = PRESIL_INT32,
                                   .ndim = 3,
                                   .shape = {n[1], n[2], n[4]},
                                   .stride = {0, n[7], 1}};
    const presil_step steps[] = {{.kind = PRESIL_STEP_CLAMP, .input = PRESIL_NO_OPERAND}};
    const presil_op op = {.size = sizeof op,
                          .kind = PRESIL_OP_MATMUL,
                          .inputs = inputs,
                          .input_count = 2,
                          .outputs = &output,
                          .output_count = 1,
                          .steps = steps,
                          .step_count = (uint32_t)n[9]};
    char text[256] = "";
    presil_error_buffer error = {text, sizeof text};
    const presil_chip_ops *ops = presil_chip_entry();
    const presil_transport_ops transport = {.size = sizeof transport, .write32 = write_it};
    const presil_link link = {.size = sizeof link, .ops = &transport};
    presil_chip *chip = NULL;
    presil_plan *plan = NULL;
    int status = ops->create("nnmac", &chip, &error);
    if (!status) status = ops->plan(chip, &op, &plan, &error);
    if (status) {
        printf("no %d %s\n", status, text);
        ops->destroy(chip);
        return 0;
    }
    const presil_daddr base = {at - at % 4096};
    const uint64_t reach = UINT64_C(1) << 28;
    uint64_t size = 0;
    status = ops->save(plan, base, NULL, &size, &error);
    void *stored = malloc(size);
    if (!status) status = ops->save(plan, base, stored, &size, &error);
    ops->plan_free(plan);
    if (!status) status = ops->load(chip, stored, size, base, reach, &plan, &error);
    free(stored);
    if (status) {
        printf("not stored: %s\n", text);
        return 1;
    }
    presil_plan_info info = {.size = sizeof info};
    status = ops->plan_info(plan, &info);
    for (uint32_t i = 0; i < info.segments && !status; i++) status = ops->submit(chip, &link, NULL, plan, i, &error);
    for (uint32_t i = 0; i < info.write_count; i++)
        printf("writes %" PRIu64 " %" PRIu64 "\n", info.writes[i].base.value, info.writes[i].bytes);
    for (uint32_t i = 0; i < info.read_count; i++)
        printf("reads %" PRIu64 " %" PRIu64 "\n", info.reads[i].base.value, info.reads[i].bytes);
    printf("segments %u\n", info.segments);
    ops->plan_free(plan);
    ops->destroy(chip);
    return status != 0;
}
