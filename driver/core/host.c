/* SPDX-License-Identifier: Apache-2.0 */
/* The host's pointers into device memory. */
#include "conversions.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "layouts.h"
#include "life.h"
#include "residency.h"
#include "settle.h"
#include "stream.h"

void *presil_host_pointer(presil_device *device, presil_daddr address, uint64_t bytes) {
    if (presil_enter(device) || device->memory.no_map || !presil_memory_home_is_mapping(device)) return NULL;
    return presil_memory_contains(device, address, bytes) ? presil_memory_at(device, address) : NULL;
}

int presil_host_access(presil_device *device, const void *at, uint64_t bytes) {
    int status = presil_device_wait(device);
    if (device && !device->residency.late) presil_layouts_told(device); /* else the host may write these bytes alone */
    if (status || !bytes || (!atomic_load(&device->residency.stale) && !atomic_load(&device->layouts.count)))
        return status;
    const uintptr_t offset = (uintptr_t)at - (uintptr_t)device->memory.mapping;
    if ((uintptr_t)at < (uintptr_t)device->memory.mapping || offset > device->memory.bytes ||
        bytes > device->memory.bytes - offset)
        return presil_fail(PRESIL_EINVAL, "presil_host_access: %llu bytes at %p are not in the mapping",
                           (unsigned long long)bytes, at);
    return presil_memory_bring(device, (presil_daddr){device->memory.base.value + offset}, bytes);
}

int presil_device_address(presil_device *device, const void *p, presil_daddr *out) {
    if (presil_enter(device) || !out || device->memory.no_map || !presil_memory_home_is_mapping(device)) return 0;
    const uintptr_t at = (uintptr_t)p, from = (uintptr_t)device->memory.mapping;
    if (at < from || at - from >= device->memory.bytes) return 0;
    out->value = device->memory.base.value + (at - from);
    return 1;
}
