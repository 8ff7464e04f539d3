/* SPDX-License-Identifier: Apache-2.0 */
/* enqueue.h - a plan on its way into the queue, or into a recording. */
#ifndef PRESIL_CORE_ENQUEUE_H
#define PRESIL_CORE_ENQUEUE_H

#include "queue.h"

/* Checks the plan's ranges, then records or enqueues it; owns it, its tensors and its layouts (or NULL, and of what is
 * recorded always) from here on. */
int presil_plan_enqueue(presil_device *device, presil_stream *stream, presil_plan *plan, launch_tensors *tensors,
                        launch_layouts *layouts, uint64_t plan_ns);

#endif
