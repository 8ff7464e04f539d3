/* SPDX-License-Identifier: Apache-2.0 */
/* sa16 as Presil's driver sees it: the one symbol of libpresil_chip_sa16.so. */
#include "sa16.h"

static int create(const char *config, presil_chip **out, presil_error_buffer *error) {
    if (strcmp(config, "sa16") != 0)
        return presil_kit_fail(error, PRESIL_EINVAL, "sa16 has one configuration, \"sa16\", not \"%s\"", config);
    *out = calloc(1, sizeof **out);
    return *out ? PRESIL_OK : presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a chip");
}

static void destroy(presil_chip *chip) { free(chip); }

static int limits(const presil_chip *chip, presil_chip_limits *out) {
    (void)chip;
    /* An empty launch, and nothing else, is over at once. */
    const presil_chip_limits own = {.address_bits = 40,
                                    .buffer_alignment = 64,
                                    .has_interrupt = 1,
                                    .has_executor = 1,
                                    .asks_first = 1,
                                    .numerics = PRESIL_NUMERICS_INTEGER,
                                    .kinds = SA16_KINDS};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

static int info(const presil_chip *chip, presil_device_info *out) {
    (void)chip;
    out->clock_mhz = 500; /* its sizes: sa16_names() */
    return PRESIL_OK;
}

const presil_chip_ops *presil_chip_entry(void);
__attribute__((visibility("default"))) const presil_chip_ops *presil_chip_entry(void) {
    static const presil_chip_ops ops = {
        .size = sizeof ops,
        .abi = PRESIL_CHIP_ABI,
        .name = "sa16",
        .create = create,
        .destroy = destroy,
        .limits = limits,
        .info = info,
        .probe = sa16_probe,
        .reset = sa16_reset,
        .layout = sa16_layout,
        .pack = sa16_pack,
        .layout_free = sa16_layout_free,
        .supports = sa16_supports,
        .plan = sa16_plan,
        .plan_info = presil_kit_plan_info,
        .describe = sa16_describe,
        .plan_free = presil_kit_plan_free,
        .submit = sa16_submit,
        .service = sa16_service,
        .why = sa16_why,
        .counters = sa16_counters,
        .execute = sa16_execute,
        .merge = sa16_merge,
        .save = presil_kit_save,
        .load = sa16_load,
        .progress = sa16_progress,
        .names = sa16_names,
        .activation = sa16_activation,
        .pack_activation = sa16_pack_planar,
        .unpack_activation = sa16_unpack_planar,
        .timing = sa16_timing,
        .work = sa16_work,
        .usage = sa16_usage,
    };
    return &ops;
}
