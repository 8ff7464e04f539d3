/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a launch, made by its chip (presil_debug.h). */
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "life.h"
#include "recording.h"
#include "presil_debug.h"

#include <stdio.h>
#include <stdlib.h>

static int check(const presil_list *list, const void *out, const char *name) {
    if (!list || !out) return presil_fail(PRESIL_EINVAL, "%s: an argument is NULL", name);
    const int entered = presil_enter(list->device);
    if (entered) return entered;
    if (list->count != 1)
        return presil_fail(PRESIL_EINVAL, "%s: a list of one launch expected, this one has %zu", name, list->count);
    const int packed = presil_list_as_it_lies(list, name);
    if (packed) return packed;
    if (!list->device->chip_ops->prefix)
        return presil_fail(PRESIL_EUNSUPPORTED, "%s: the chip \"%s\" can't run a part of a launch", name,
                           list->device->chip_ops->name);
    return PRESIL_OK;
}

int presil_list_commands(const presil_list *list, uint64_t *count) {
    const int status = check(list, count, "presil_list_commands");
    if (status) return status;
    return list->device->chip_ops->commands(list->plans[0].plan, count)
               ? presil_fail(PRESIL_EINVAL, "presil_list_commands: the plan can't be read")
               : PRESIL_OK;
}

int presil_list_command_name(const presil_list *list, uint64_t n, char *text, size_t bytes) {
    int status = check(list, text, "presil_list_command_name");
    if (status) return status;
    char name[128] = "";
    status = list->device->chip_ops->command_name(list->plans[0].plan, n, name, sizeof name);
    if (status) return presil_fail(status, "presil_list_command_name: %s", name);
    (void)snprintf(text, bytes, "%s", name);
    return PRESIL_OK;
}

int presil_list_observed(const presil_list *list, uint64_t *bytes) {
    const int status = check(list, bytes, "presil_list_observed");
    if (status) return status;
    return list->device->chip_ops->observed(list->device->chip, bytes)
               ? presil_fail(PRESIL_EUNSUPPORTED, "presil_list_observed: the chip does not say how many")
               : PRESIL_OK;
}

/* Owns the plan. */
static int list_of(const presil_list *from, presil_plan *plan, presil_list **out) {
    presil_device *device = from->device;
    presil_list *list = calloc(1, sizeof *list);
    recorded_plan *plans = calloc(1, sizeof *plans);
    if (!list || !plans) {
        free(list);
        free(plans);
        device->chip_ops->plan_free(plan);
        return presil_fail(PRESIL_EHOSTMEM, "a part of a launch: host memory is full");
    }
    plans[0] = presil_recorded(device, plan, NULL, 0);
    *list = (presil_list){.device = device, .plans = plans, .count = 1, .capacity = 1};
    atomic_init(&list->references, 1);
    presil_device_hold(device);
    *out = list;
    return PRESIL_OK;
}

int presil_list_prefix(const presil_list *list, uint64_t n, const presil_daddr *observe, presil_list **out) {
    int status = check(list, out, "presil_list_prefix");
    if (status) return status;
    const presil_device *device = list->device;
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    if (observe) {
        uint64_t bytes = 0;
        status = device->chip_ops->observed(device->chip, &bytes);
        if (status || !presil_memory_contains(device, *observe, bytes))
            return presil_fail(PRESIL_EINVAL, "presil_list_prefix: 0x%llx and %llu bytes are not in device memory",
                               (unsigned long long)observe->value, (unsigned long long)bytes);
    }
    presil_plan *plan = NULL;
    status = device->chip_ops->prefix(device->chip, list->plans[0].plan, n, observe, &plan, &error);
    return status ? presil_fail(status, "presil_list_prefix: %s", text) : list_of(list, plan, out);
}

int presil_list_subset(const presil_list *list, uint8_t *keep, presil_list **out) {
    int status = check(list, out, "presil_list_subset");
    if (status) return status;
    const presil_device *device = list->device;
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    if (!keep) return presil_fail(PRESIL_EINVAL, "presil_list_subset: keep is NULL");
    if (!device->chip_ops->subset)
        return presil_fail(PRESIL_EUNSUPPORTED, "presil_list_subset: the chip \"%s\" can't leave commands out",
                           device->chip_ops->name);
    presil_plan *plan = NULL;
    status = device->chip_ops->subset(device->chip, list->plans[0].plan, keep, &plan, &error);
    return status ? presil_fail(status, "presil_list_subset: %s", text) : list_of(list, plan, out);
}
