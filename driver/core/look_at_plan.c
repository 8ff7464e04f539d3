/* SPDX-License-Identifier: Apache-2.0 */
/* What a chip's plan says of itself, and that it reaches nowhere else. */
#include "look_at_plan.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "ranges.h"

int presil_plan_look(const presil_device *device, const presil_plan *plan, presil_plan_info *out) {
    *out = (presil_plan_info){.size = sizeof *out};
    return device->chip_ops->plan_info(plan, out);
}

static int check_ranges(const presil_device *device, const char *label, const char *what,
                        const presil_byte_range *ranges, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        if (presil_memory_contains(device, ranges[i].base, ranges[i].bytes)) continue;
        return presil_fail(PRESIL_EINVAL,
                           "%s %s %llu bytes at 0x%llx, which are not in device memory (0x%llx to 0x%llx)", label, what,
                           (unsigned long long)ranges[i].bytes, (unsigned long long)ranges[i].base.value,
                           (unsigned long long)device->memory.base.value,
                           (unsigned long long)(device->memory.base.value + device->memory.bytes));
    }
    return PRESIL_OK;
}

static int check_boxes(const presil_device *device, const presil_plan_info *info) {
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < info->write_box_count && !status; i++) {
        const presil_byte_range hull = presil_box_hull(&info->write_boxes[i]);
        status = check_ranges(device, info->label, "writes", &hull, 1);
    }
    return status;
}

int presil_plan_check(const presil_device *device, const presil_plan_info *info) {
    int status = check_ranges(device, info->label, "reads", info->reads, info->read_count);
    if (!status) status = check_ranges(device, info->label, "writes", info->writes, info->write_count);
    return status ? status : check_boxes(device, info);
}
