/* SPDX-License-Identifier: Apache-2.0 */
/* listeners.h - whoever listens to launches (presil_capture.h). */
#ifndef PRESIL_CORE_LISTENERS_H
#define PRESIL_CORE_LISTENERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include "presil_capture.h"
#include "queue.h"
#include "ranges.h"

/* `launch` is first: a listener that has it has this. */
typedef struct {
    presil_capture_launch launch; /* that is running */
    presil_device *device;
    presil_capture_ops ops;
    void *context;
    const work_item *item; /* of `launch` */
    const presil_plan *plan;
    const presil_plan *kept; /* that plan, if it is the listener's now */
    atomic_bool on;          /* somebody listens; read by whoever enqueues */
    bool listening;          /* to this launch */
    bool wants_writes;       /* of this launch */
    bool ran;                /* it has, on the chip */
    range_list may_write;    /* of a plan with boxes: what they come to */
} capture_state;

/* Of what is enqueued, for whoever may listen; NULL: no host memory. */
launch_tensors *presil_tensors_new(const presil_capture_tensor *from, size_t count);
/* Runner, and only with `on`. */
void presil_capture_begin(presil_device *device, const work_item *item, const presil_plan_info *info,
                          const presil_report *report);
void presil_capture_expected(presil_device *device);
/* Once a launch: whether the plan and the tensors that its item would free are a listener's. */
bool presil_capture_took(presil_device *device, const presil_plan *plan);
/* text: of ERROR_TEXT bytes, of a failed launch; the listener may add to it */
void presil_capture_end(presil_device *device, const presil_report *report, char *text);

#endif
