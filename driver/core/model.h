/* SPDX-License-Identifier: Apache-2.0 */
/* model.h - launches on the chip's executor (the twin), and the memory that it works on. */
#ifndef PRESIL_CORE_MODEL_H
#define PRESIL_CORE_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include "presil_chip.h"
#include "ranges.h"

typedef struct {
    uint8_t *view; /* its private view of memory (VERIFY), or its staging memory if the transport does not map */
    bool view_is_copy;
    range_list writes;
    atomic_uint threads;
} twin_state;

/* log_writes: `writes` is wanted afterwards. */
int presil_launch_model(presil_device *device, const presil_plan *plan, const presil_plan_info *info, bool log_writes,
                        presil_report *report);
int presil_twin_run(presil_device *device, const presil_plan *plan, uint8_t *memory, uint32_t log_writes,
                    presil_report *report);
/* The twin's copy of what the plan touches, where the transport has the bytes. */
int presil_view_stage(presil_device *device, const presil_plan_info *info);
void presil_view_close(presil_device *device);

#endif
