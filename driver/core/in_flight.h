/* SPDX-License-Identifier: Apache-2.0 */
/* in_flight.h - launches of which several are with the chip at once (presil_chip.h: queue_depth). The runner's. */
#ifndef PRESIL_CORE_IN_FLIGHT_H
#define PRESIL_CORE_IN_FLIGHT_H

#include <stdbool.h>
#include "queue.h"

typedef struct flight flight;

typedef struct {
    uint32_t wanted;       /* doorbells, as asked for; 0: not */
    uint32_t first, count; /* launches, in a ring */
    uint32_t doorbells;    /* of them, submitted and not over */
    flight *ring;          /* NULL: never more than one */
} device_flights;

/* Once the chip's limits are known. wanted: presil_device_options.queue_depth. */
int presil_flights_open(presil_device *device, uint32_t wanted);
void presil_flights_close(presil_device *device);
bool presil_flight_begin(presil_device *device, const work_item *item); /* queue_ops */
int presil_flight_finish(presil_device *device);

#endif
