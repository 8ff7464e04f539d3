/* SPDX-License-Identifier: Apache-2.0 */
/* stream.h - waiting for all streams of a device. */
#ifndef PRESIL_CORE_STREAM_H
#define PRESIL_CORE_STREAM_H

#include "presil.h"

/* presil_device_synchronize(), but what the device wrote stays there. */
int presil_device_wait(presil_device *device);

#endif
