/* SPDX-License-Identifier: Apache-2.0 */
/* start.h - bringing a chip up, and up again. */
#ifndef PRESIL_CORE_START_H
#define PRESIL_CORE_START_H

#include <stdbool.h>
#include "presil.h"

int presil_choose_chip(presil_device *device); /* at open: by configuration, or by what the simulator library says */
int presil_start(presil_device *device);       /* runner; opens the transport unless it is open */
int presil_start_if_needed(presil_device *device); /* for modes with a chip; takes the queue's exclusive section */
void presil_ask_timing(presil_device *device);     /* runner; whenever the transport's answer may be another one */
/* Runner; after a failed launch, or because it was asked for (then it is no failure that a new peer has not the old
 * one's memory: a warning says so). On failure the device is dead and the text says why. */
int presil_recover(presil_device *device, bool asked);

#endif
