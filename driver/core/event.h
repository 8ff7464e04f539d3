/* SPDX-License-Identifier: Apache-2.0 */
/* event.h - a position in a device's queue. */
#ifndef PRESIL_CORE_EVENT_H
#define PRESIL_CORE_EVENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include "presil.h"

struct presil_event {
    presil_device *device;
    atomic_int references;
    uint64_t seq; /* 0: never recorded */
    uint64_t cycles;
    bool clocked;
};

void presil_event_drop(presil_event *event);
void presil_event_passed(presil_event *event); /* runner */

#endif
