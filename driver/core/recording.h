/* SPDX-License-Identifier: Apache-2.0 */
/* recording.h - recorded command lists. */
#ifndef PRESIL_CORE_RECORDING_H
#define PRESIL_CORE_RECORDING_H

#include <stdatomic.h>
#include "presil_chip.h"
#include "queue.h"

typedef struct {
    presil_plan *plan;
    launch_tensors *tensors; /* owned; NULL: not known */
    launch_layouts *layouts; /* owned and kept (layouts.h); NULL: everything as it lies */
    uint64_t plan_ns;
    scratch_use scratch;
} recorded_plan;

struct presil_list {
    presil_device *device;
    atomic_int references;
    recorded_plan *plans;
    size_t count, capacity;
    atomic_bool submitted;
};

/* An empty one with a reference, which holds the device. NULL: no host memory. */
presil_list *presil_list_new(presil_device *device);
/* Drops a list that could not be filled; returns the status, with its text. */
int presil_list_give_up(presil_list *list, int status);
recorded_plan presil_recorded(const presil_device *device, presil_plan *plan, launch_tensors *tensors,
                              uint64_t plan_ns);
/* PRESIL_EUNSUPPORTED with text if a launch works on blocks in layouts of the chip's own, which are this device's. */
int presil_list_as_it_lies(const presil_list *list, const char *what);
/* Enqueues a launch, with a place for its scratch memory. */
int presil_launch_push(presil_device *device, presil_stream *stream, work_item *item);
/* Owns all three, unless it fails. */
int presil_list_append(presil_list *list, presil_plan *plan, launch_tensors *tensors, launch_layouts *layouts,
                       uint64_t plan_ns);
void presil_list_drop(presil_list *list);

#endif
