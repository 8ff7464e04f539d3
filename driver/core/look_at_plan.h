/* SPDX-License-Identifier: Apache-2.0 */
/* look_at_plan.h - what a chip's plan says of itself. */
#ifndef PRESIL_CORE_LOOK_AT_PLAN_H
#define PRESIL_CORE_LOOK_AT_PLAN_H

#include "presil_chip.h"

int presil_plan_look(const presil_device *device, const presil_plan *plan, presil_plan_info *out);
/* All that it reads and writes lies in device memory; info: of presil_plan_look(). */
int presil_plan_check(const presil_device *device, const presil_plan_info *info);

#endif
