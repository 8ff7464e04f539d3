/* SPDX-License-Identifier: Apache-2.0 */
/* verify.h - one launch on chip and executor, compared. */
#ifndef PRESIL_CORE_VERIFY_H
#define PRESIL_CORE_VERIFY_H

#include "presil_chip.h"

int presil_launch_verify(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint64_t seq,
                         presil_report *report);

#endif
