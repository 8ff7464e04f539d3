/* SPDX-License-Identifier: Apache-2.0 */
/* A plan on its way into the queue, or into a recording. */
#include "enqueue.h"
#include "device.h"
#include "fail.h"
#include "kept_op.h"
#include "layouts.h"
#include "look_at_plan.h"
#include "queue.h"
#include "recording.h"
#include "scratch.h"

int presil_plan_enqueue(presil_device *device, presil_stream *stream, presil_plan *plan, launch_tensors *tensors,
                        launch_layouts *layouts, uint64_t plan_ns) {
    presil_plan_info info;
    int status = presil_plan_look(device, plan, &info);
    if (status) (void)presil_fail(status, "the plan can't be read");
    if (!status) status = presil_plan_check(device, &info);
    if (!status && stream->recording) {
        status = presil_list_append(stream->recording, plan, tensors, layouts, plan_ns);
    } else if (!status) {
        work_item item = {.kind = ITEM_LAUNCH,
                          .plan = plan,
                          .tensors = tensors,
                          .layouts = layouts,
                          .scratch = presil_scratch_of(&info),
                          .plan_ns = plan_ns,
                          .origin = presil_origin()};
        status = presil_launch_push(device, stream, &item);
    }
    if (status) {
        device->chip_ops->plan_free(plan);
        presil_tensors_drop(tensors);
        presil_layouts_drop(layouts);
    }
    return status;
}
