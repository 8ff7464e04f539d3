/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of device memory, brought to where the host reads them. */
#include "settle.h"
#include "conversions.h"
#include "device.h"
#include "queue.h"
#include "residency.h"

int presil_memory_bring(presil_device *device, presil_daddr from, uint64_t bytes) {
    if (!atomic_load(&device->residency.stale) && !atomic_load(&device->layouts.count)) return PRESIL_OK;
    int status = presil_exclusive_begin(device);
    if (status) return status;
    device->residency.seq = UINT64_MAX;
    status = presil_layouts_bring(device, from, bytes, true);
    if (!status) status = presil_residency_fetch(device, from, bytes);
    presil_exclusive_end(device);
    return status;
}

int presil_memory_settle(presil_device *device) {
    if (!atomic_load(&device->residency.stale) && !atomic_load(&device->layouts.stale)) return PRESIL_OK;
    int status = presil_exclusive_begin(device);
    if (status) return status;
    device->residency.seq = UINT64_MAX;
    status = presil_layouts_bring_all(device);
    if (!status) status = presil_residency_fetch_all(device);
    presil_exclusive_end(device);
    return status;
}
