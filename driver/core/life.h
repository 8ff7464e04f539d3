/* SPDX-License-Identifier: Apache-2.0 */
/* life.h - whether a device is there, and who keeps it. */
#ifndef PRESIL_CORE_LIFE_H
#define PRESIL_CORE_LIFE_H

#include "presil.h"

/* 0, or EINVAL, ENODEV with text: first thing in every function of the API. */
int presil_enter(const presil_device *device);
unsigned presil_watch_forks(void); /* the generation of this process; at open */
void presil_device_hold(presil_device *device);
void presil_device_drop(presil_device *device);

#endif
