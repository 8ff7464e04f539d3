/* SPDX-License-Identifier: Apache-2.0 */
/* settle.h - what the device wrote, for the host. */
#ifndef PRESIL_CORE_SETTLE_H
#define PRESIL_CORE_SETTLE_H

#include "presil.h"

/* Any thread: these bytes, or all, are here as the device wrote them. */
int presil_memory_bring(presil_device *device, presil_daddr from, uint64_t bytes);
int presil_memory_settle(presil_device *device);

#endif
