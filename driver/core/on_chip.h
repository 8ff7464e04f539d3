/* SPDX-License-Identifier: Apache-2.0 */
/* on_chip.h - one launch on the chip: doorbell, waiting, counters. */
#ifndef PRESIL_CORE_ON_CHIP_H
#define PRESIL_CORE_ON_CHIP_H

#include <stdbool.h>
#include "presil_chip.h"

/* Runner. A failed launch leaves a chip that was reset. */
int presil_launch_rtl(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint64_t seq,
                      presil_report *report);
/* The waveform of the launch with this number, if one was asked for. */
void presil_trace_begin(presil_device *device, uint64_t launch);

#endif
