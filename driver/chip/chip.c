/* SPDX-License-Identifier: Apache-2.0 */
/* The vtable of the chip in rtl/: configurations, identification, reset. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "asked.h"
#include "registers.h"
#include "presil_twin.h"
#include "regs.h"

static int chip_create(const char *name, presil_chip **out, presil_error_buffer *error) {
    const presil_config *c = presil_configs;
    if (!name || !*name) name = "base"; /* the default */
    while (c->name && strcmp(c->name, name)) c++;
    if (!c->name) {
        char known[128] = "";
        for (const presil_config *k = presil_configs; k->name; k++) {
            size_t used = strlen(known);
            (void)snprintf(known + used, sizeof known - used, "%s%s", used ? ", " : "", k->name);
        }
        return chip_fail(error, PRESIL_ENODEV, "no configuration named '%s'; rtl/configs.json has %s", name, known);
    }
    presil_chip *chip = calloc(1, sizeof *chip);
    if (!chip) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a chip");
    chip->config = *c;
    chip->fp16 = true;
    chip->records = chip_records_wanted();
    *out = chip;
    return PRESIL_OK;
}

static void chip_destroy(presil_chip *chip) {
    if (!chip) return;
    presil_twin_destroy(chip->twin);
    free(chip);
}

static int chip_limits(const presil_chip *chip, presil_chip_limits *out) {
    const presil_chip_limits own = {.address_bits = 40,
                                    .buffer_alignment = 4096,
                                    .command_bytes = CHIP_RING_BYTES + (chip->records ? CHIP_RECORD_BYTES : 0),
                                    .has_interrupt = 1,
                                    .queue_depth = chip->records ? CHIP_LAUNCHES : 1,
                                    .queue_commands = 1u << CHIP_RING_LOG2,
                                    .command_written = chip->records ? CHIP_RECORD_BYTES : 0,
                                    .has_executor = 1,
                                    .numerics = PRESIL_NUMERICS_IEEE,
                                    .kinds = 1u << PRESIL_OP_NOP | 1u << PRESIL_OP_COPY | 1u << PRESIL_OP_CONV |
                                             1u << PRESIL_OP_MATMUL | 1u << PRESIL_OP_WEIGHT_GRADIENT};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

static int chip_info(const presil_chip *chip, presil_device_info *out) {
    const presil_config *c = &chip->config;
    out->lanes = c->lanes;
    out->cells = c->cells;
    out->word_bytes = c->word_bytes;
    out->banks = c->banks;
    out->bank_words = c->bank_words;
    out->acc_rows = c->acc_rows;
    out->clock_mhz = c->clock_mhz;
    out->config_hash = c->hash;
    if (out->size >= sizeof *out) out->known |= PRESIL_INFO_CONFIG_HASH; /* any number */
    (void)snprintf(out->chip, sizeof out->chip, "presil");
    (void)snprintf(out->config, sizeof out->config, "%s", c->name);
    return PRESIL_OK;
}

typedef struct {
    uint32_t reg, value;
    const char *what;
} expectation;

int chip_probe(presil_chip *chip, const presil_link *link, presil_error_buffer *error) {
    const presil_config *c = &chip->config;
    const expectation list[] = {
        {PRESIL_REG_ID, REG_ID_VALUE, "identification"},
        {PRESIL_REG_CAP_ARRAY, c->lanes | c->cells << 16, "array (lanes, cells << 16)"},
        {PRESIL_REG_CAP_MEMORY, c->word_bytes | c->banks << 16, "memory (word bytes, banks << 16)"},
        {PRESIL_REG_CAP_BANK, c->bank_words, "words of a bank"},
        {PRESIL_REG_CAP_ACC, c->acc_rows, "accumulator rows"},
        {PRESIL_REG_CONFIG_HASH, c->hash,
         "configuration hash: the library was built from other descriptors or configurations; rebuild it"}};
    uint32_t value;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        if (link->ops->read32(link->handle, list[i].reg, &value)) {
            return chip_fail(error, PRESIL_ENODEV, "can't read register 0x%03x: %s", list[i].reg,
                             link->ops->last_error(link->handle));
        }
        if (value != list[i].value) {
            return chip_fail(
                error, PRESIL_ENODEV,
                "this is not a presil chip of configuration '%s': register 0x%03x is 0x%08x, expected 0x%08x (%s)",
                c->name, list[i].reg, value, list[i].value, list[i].what);
        }
    }
    if (link->ops->read32(link->handle, PRESIL_REG_VERSION, &value) || value >> 16 != REG_VERSION_MAJOR) {
        return chip_fail(error, PRESIL_ENODEV, "chip version %u.%u; this driver knows version %d", value >> 16,
                         value & 0xffffu, REG_VERSION_MAJOR);
    }
    if (link->ops->read32(link->handle, PRESIL_REG_CAP_FEATURES, &value))
        return chip_fail(error, PRESIL_ENODEV, "can't read what the chip has: %s", link->ops->last_error(link->handle));
    chip->fp16 = (value & PRESIL_CAP_FEATURES_FP16_MASK) != 0;
    return chip_probe_windows(chip, link, error);
}

const presil_chip_ops *presil_chip_entry(void) {
    static const presil_chip_ops ops = {.size = sizeof(presil_chip_ops),
                                        .abi = PRESIL_CHIP_ABI,
                                        .name = "presil",
                                        .create = chip_create,
                                        .destroy = chip_destroy,
                                        .limits = chip_limits,
                                        .info = chip_info,
                                        .probe = chip_probe,
                                        .reset = chip_reset,
                                        .layout = chip_layout,
                                        .pack = chip_pack,
                                        .layout_free = chip_layout_free,
                                        .plan = chip_plan,
                                        .plan_info = chip_plan_info,
                                        .describe = chip_plan_describe,
                                        .plan_free = chip_plan_free,
                                        .submit = chip_submit,
                                        .service = chip_service,
                                        .why = chip_why,
                                        .counters = chip_counters,
                                        .completion = chip_completion,
                                        .execute = chip_execute,
                                        .merge = chip_merge,
                                        .save = chip_save,
                                        .load = chip_load,
                                        .progress = chip_progress,
                                        .waits = chip_waits,
                                        .commands = chip_commands,
                                        .command_name = chip_command_name,
                                        .observed = chip_observed,
                                        .prefix = chip_prefix,
                                        .subset = chip_subset,
                                        .names = chip_names,
                                        .load_refused = chip_load_refused,
                                        .timing = chip_plan_timing,
                                        .work = chip_plan_work,
                                        .usage = chip_plan_usage,
                                        .moved = chip_moved,
                                        .set_window = chip_set_window,
                                        .lock_windows = chip_lock_windows};
    return &ops;
}
