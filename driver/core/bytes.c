/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes of device memory, wherever they are. */
#define _GNU_SOURCE
#include "bytes.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "queue.h"
#include "residency.h"

#include <string.h>
#include <unistd.h>

int presil_memory_read(presil_device *device, presil_daddr from, void *to, uint64_t bytes) {
    if (presil_memory_home_is_mapping(device)) {
        const int status = presil_residency_fetch(device, from, bytes);
        if (!status) memmove(to, presil_memory_at(device, from), bytes);
        return status;
    }
    const int error = device->link.ops->mem_read(device->link.handle, from, to, bytes);
    atomic_store(&device->memory.bytes_to_host, atomic_load(&device->memory.bytes_to_host) + bytes);
    return error ? presil_transport_failed(&device->link, "reading device memory", error) : PRESIL_OK;
}

int presil_memory_write(presil_device *device, presil_daddr to, const void *from, uint64_t bytes) {
    if (presil_memory_home_is_mapping(device)) {
        const int status = presil_residency_overwrite(device, to, bytes);
        if (!status) memmove(presil_memory_at(device, to), from, bytes);
        return status;
    }
    const int error = device->link.ops->mem_write(device->link.handle, to, from, bytes);
    atomic_store(&device->memory.bytes_to_device, atomic_load(&device->memory.bytes_to_device) + bytes);
    return error ? presil_transport_failed(&device->link, "writing device memory", error) : PRESIL_OK;
}

int presil_memory_upload(presil_device *device) {
    off_t at = 0;
    while ((at = lseek(device->memory.fd, at, SEEK_DATA)) >= 0) {
        const off_t end = lseek(device->memory.fd, at, SEEK_HOLE);
        if (end < 0) break;
        const presil_daddr to = {device->memory.base.value + (uint64_t)at};
        const int error =
            device->link.ops->mem_write(device->link.handle, to, device->memory.mapping + at, (uint64_t)(end - at));
        if (error) return presil_transport_failed(&device->link, "moving device memory to the transport", error);
        at = end;
    }
    return PRESIL_OK;
}
