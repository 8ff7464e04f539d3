/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - one launch in any mode, from the queue to its report. */
#ifndef PRESIL_CORE_LAUNCH_H
#define PRESIL_CORE_LAUNCH_H

#include "queue.h"

/* Runner. */
int presil_launch(presil_device *device, const work_item *item);
/* Around a launch that somebody else runs: its report begins; it ends with `status`, whose text is the thread's error,
 * after `ns` of wall time, and is delivered. Returns that status, with text. */
void presil_launch_open(presil_device *device, const work_item *item, int mode, const presil_plan_info *info,
                        presil_report *report);
int presil_launch_close(presil_device *device, const work_item *item, int mode, uint64_t ns, int status,
                        presil_report *report);

#endif
