/* SPDX-License-Identifier: Apache-2.0 */
/* by_reference.h - one launch of a chip without an executor, compared with what its operator comes to. */
#ifndef PRESIL_CORE_BY_REFERENCE_H
#define PRESIL_CORE_BY_REFERENCE_H

#include "queue.h"

int presil_launch_by_reference(presil_device *device, const work_item *item, const presil_plan_info *info,
                               presil_report *report);

#endif
