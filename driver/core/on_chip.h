/* SPDX-License-Identifier: Apache-2.0 */
/* on_chip.h - one launch on the chip: doorbell, waiting, counters. */
#ifndef PRESIL_CORE_ON_CHIP_H
#define PRESIL_CORE_ON_CHIP_H

#include <stdbool.h>
#include "presil_chip.h"

/* Runner. A failed launch leaves a chip that was reset. */
int presil_launch_rtl(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint64_t seq,
                      presil_report *report);
/* The same in two halves, which leave a chip that failed as it is. `idle`: nothing is in flight. */
int presil_chip_submit(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint32_t segment,
                       presil_byte_range scratch, bool idle);
/* Of the oldest doorbell: waits, and adds its counters. *cycles: waited for its launch so far, for whoever is told of
 * progress. *told: it failed by the chip's word or the watchdog's, so nothing behind it has begun. */
int presil_chip_reap(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint64_t seq,
                     presil_report *report, uint64_t *cycles, bool *told);
/* The waveform of the launch with this number, if one was asked for. */
void presil_trace_begin(presil_device *device, uint64_t launch);

#endif
