/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - device memory that launches need only while they run: one block, which all launches of the queue share.
 */
#ifndef PRESIL_CORE_SCRATCH_H
#define PRESIL_CORE_SCRATCH_H

#include <stdbool.h>
#include "presil_chip.h"
#include "queue.h"

/* Under the queue's lock and the memory's. */
typedef struct {
    presil_byte_range block;  /* bytes 0: none */
    presil_byte_range placed; /* in its place, the caller's; bytes 0: not */
} device_scratch;

scratch_use presil_scratch_of(const presil_plan_info *info);
int presil_scratch_admit(presil_device *device, work_item *item);            /* queue_ops.admit */
int presil_scratch_find(presil_device *device, work_item *item);             /* the same, without the queue's lock */
bool presil_scratch_owns(const presil_device *device, presil_daddr address); /* under the memory's lock */
/* Gives the block back unless something is queued. Runner. */
void presil_scratch_release(presil_device *device);
/* The same, once everything has passed; false: there was none, or this thread can't wait. */
bool presil_scratch_give_way(presil_device *device);

#endif
