/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: a sparse memfd that the simulator and the host map, or what the transport brings. */
#define _GNU_SOURCE
#include "device_memory.h"
#include "chip_writes.h"
#include "device.h"
#include "fail.h"
#include "presil_heap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Of our own; not 0, so that device and host addresses can't be mixed up unnoticed. */
#define MEMORY_BASE 0x100000000ull

/* ---- the mapping */
static int open_file(presil_device *device) {
    device->memory.fd = memfd_create("device memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (device->memory.fd < 0)
        return presil_fail(PRESIL_EHOSTMEM, "device memory: memfd_create failed: %s", strerror(errno));
    if (ftruncate(device->memory.fd, (off_t)device->memory.bytes))
        return presil_fail(PRESIL_EHOSTMEM, "device memory: no sparse file of %llu bytes: %s",
                           (unsigned long long)device->memory.bytes, strerror(errno));
    /* A server maps it too, and would be killed if it shrank. */
    if (fcntl(device->memory.fd, F_ADD_SEALS, F_SEAL_SHRINK))
        return presil_fail(PRESIL_EHOSTMEM, "device memory: it can't be sealed: %s", strerror(errno));
    void *mapping =
        mmap(NULL, device->memory.bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, device->memory.fd, 0);
    if (mapping == MAP_FAILED)
        return presil_fail(PRESIL_EHOSTMEM, "device memory: %llu bytes can't be mapped: %s; set PRESIL_MEMORY lower",
                           (unsigned long long)device->memory.bytes, strerror(errno));
    device->memory.mapping = mapping;
    return PRESIL_OK;
}

static int open_heap(presil_device *device) {
    return presil_heap_init(&device->memory.heap, (uint32_t)(device->memory.bytes / PRESIL_HEAP_PAGE))
               ? presil_fail(PRESIL_EHOSTMEM, "device memory: host memory is full")
               : PRESIL_OK;
}

static int open_at(presil_device *device, uint64_t base) {
    device->memory.base.value = base;
    const int status = open_file(device);
    return status ? status : open_heap(device);
}

int presil_memory_open(presil_device *device) { return open_at(device, MEMORY_BASE); }

/* The upper half of what the bits reach; what was asked for may be larger than that, but not begin at 0. */
int presil_memory_open_lower(presil_device *device) {
    const uint32_t bits = device->limits.address_bits;
    const uint64_t reach = bits < 64 ? 1ull << bits : UINT64_MAX, half = reach / 2;
    if (!device->memory.wanted && device->memory.bytes > half) device->memory.bytes = half;
    const uint64_t bytes = device->memory.bytes;
    if (half < PRESIL_HEAP_PAGE || bytes > reach - PRESIL_HEAP_PAGE)
        return presil_fail(PRESIL_EINVAL,
                           "the chip has %u address bits, which reach %llu bytes: device memory of %llu bytes is out "
                           "of its reach; set PRESIL_MEMORY to %llu or less",
                           bits, (unsigned long long)reach, (unsigned long long)bytes, (unsigned long long)half);
    presil_memory_close(device);
    return open_at(device, bytes <= half ? half : reach - bytes);
}

void presil_memory_close(presil_device *device) {
    presil_heap_destroy(&device->memory.heap);
    if (device->memory.mapping && device->memory.fd >= 0) (void)munmap(device->memory.mapping, device->memory.bytes);
    device->memory.mapping = NULL;
    if (device->memory.fd >= 0) (void)close(device->memory.fd);
    device->memory.fd = -1;
}

/* ---- memory that the transport brings */
static int by_address(const void *a, const void *b) {
    const uint64_t x = ((const presil_region *)a)->base.value, y = ((const presil_region *)b)->base.value;
    return (x > y) - (x < y);
}

/* As much of the regions as was asked for, sorted; the number of them. */
static uint32_t regions_of(const presil_device *device, presil_region *out) {
    uint32_t count = 0;
    while (count < MOST_REGIONS && device->link.ops->region(device->link.handle, count, &out[count]) == 0) count++;
    qsort(out, count, sizeof *out, by_address);
    for (uint32_t i = 0; i < count && device->memory.wanted; i++) {
        const uint64_t before = out[i].base.value - out[0].base.value;
        if (before >= device->memory.wanted) return i;
        if (out[i].bytes > device->memory.wanted - before) out[i].bytes = device->memory.wanted - before;
    }
    return count;
}

static int check_regions(const presil_region *r, uint32_t count) {
    if (!count) return presil_fail(PRESIL_ENODEV, "the transport brings its own memory, and has no region");
    for (uint32_t i = 0; i < count; i++) {
        if (r[i].base.value % PRESIL_HEAP_PAGE || r[i].bytes % PRESIL_HEAP_PAGE || !r[i].bytes ||
            r[i].bytes > UINT64_MAX - r[i].base.value)
            return presil_fail(PRESIL_ENODEV, "region %u, %llu bytes at 0x%llx: multiples of 4096 expected", i,
                               (unsigned long long)r[i].bytes, (unsigned long long)r[i].base.value);
        if (i && r[i].base.value < r[i - 1].base.value + r[i - 1].bytes)
            return presil_fail(PRESIL_ENODEV, "regions of the transport overlap at 0x%llx",
                               (unsigned long long)r[i].base.value);
    }
    if ((r[count - 1].base.value + r[count - 1].bytes - r[0].base.value) / PRESIL_HEAP_PAGE >= UINT32_MAX)
        return presil_fail(PRESIL_ENODEV, "the transport's regions are 2^44 bytes apart: less expected");
    return PRESIL_OK;
}

/* Host addresses have to differ from device addresses by one constant, as they do in a mapping of ours. */
static bool all_mapped(const presil_device *device, const presil_region *r, uint32_t count) {
    bool mapped = !device->memory.no_map && device->transport.capabilities & PRESIL_CAP_MAPS;
    for (uint32_t i = 0; i < count && mapped; i++)
        mapped = r[i].host && (uintptr_t)r[i].host - (uintptr_t)r[0].host == r[i].base.value - r[0].base.value;
    return mapped;
}

int presil_memory_adopt(presil_device *device) {
    presil_region r[MOST_REGIONS];
    if (!(device->transport.capabilities & PRESIL_CAP_OWN_MEMORY)) return PRESIL_OK;
    const uint32_t count = regions_of(device, r);
    int status = check_regions(r, count);
    if (status) return status;
    presil_memory_close(device);
    device->memory.of_transport = true;
    device->memory.maps = all_mapped(device, r, count);
    device->memory.base = r[0].base;
    device->memory.bytes = r[count - 1].base.value + r[count - 1].bytes - r[0].base.value;
    if (device->memory.maps)
        device->memory.mapping = r[0].host;
    else
        status = device->link.ops->mem_read ? open_file(device)
                                            : presil_fail(PRESIL_ENODEV, "the transport has neither mapped memory nor "
                                                                         "mem_read() and mem_write()");
    if (!status) status = open_heap(device);
    for (uint32_t i = 1; i < count && !status; i++) {
        const uint64_t from = r[i - 1].base.value + r[i - 1].bytes - r[0].base.value,
                       to = r[i].base.value - r[0].base.value;
        if (from == to) {
            device->memory.borders[device->memory.border_count++] = (uint32_t)(to / PRESIL_HEAP_PAGE);
            continue;
        }
        device->memory.gaps[device->memory.gap_count++] = (uint32_t)(from / PRESIL_HEAP_PAGE);
        if (presil_heap_reserve(&device->memory.heap, (uint32_t)(from / PRESIL_HEAP_PAGE),
                                (uint32_t)((to - from) / PRESIL_HEAP_PAGE)))
            status = presil_fail(PRESIL_EHOSTMEM, "device memory: host memory is full");
    }
    return status;
}

/* ---- the driver's own blocks */
bool presil_memory_is_own(const presil_device *device, uint32_t page) {
    for (uint32_t i = 0; i < device->memory.gap_count; i++) {
        if (device->memory.gaps[i] == page) return true;
    }
    return page == (device->memory.command.base.value - device->memory.base.value) / PRESIL_HEAP_PAGE;
}

/* The first blocks, in every mode, so that addresses of tensors do not depend on it. They count as neither allocated
 * nor free afterwards. */
int presil_memory_reserve_commands(presil_device *device) {
    const uint64_t command_pages = (device->limits.command_bytes + PRESIL_HEAP_PAGE - 1) / PRESIL_HEAP_PAGE,
                   staging_pages = STAGING_BYTES / PRESIL_HEAP_PAGE;
    uint32_t page = 0;
    if (presil_heap_alloc(&device->memory.heap, 0, command_pages + staging_pages, &page)) {
        return presil_fail(PRESIL_ENOMEM,
                           "device memory of %llu bytes has no room for the chip's commands (%llu) and the copy buffer "
                           "(%llu): set PRESIL_MEMORY higher",
                           (unsigned long long)device->memory.bytes, (unsigned long long)device->limits.command_bytes,
                           (unsigned long long)STAGING_BYTES);
    }
    device->memory.command.size = sizeof device->memory.command;
    device->memory.command.base.value = device->memory.base.value + (uint64_t)page * PRESIL_HEAP_PAGE;
    device->memory.command.bytes = command_pages * PRESIL_HEAP_PAGE;
    const uint64_t written = device->limits.command_written;
    device->log.own.base.value = device->memory.command.base.value + device->limits.command_bytes - written;
    device->log.own.bytes = written;
    device->memory.staging.value = device->memory.command.base.value + device->memory.command.bytes;
    memcpy(device->memory.own, device->memory.heap.counters, sizeof device->memory.own);
    return PRESIL_OK;
}

bool presil_memory_is_beyond(const presil_device *device, uint64_t pages) {
    const device_memory *m = &device->memory;
    const uint64_t in_use = m->heap.counters[PRESIL_HEAP_PAGES][PRESIL_HEAP_ALL].current -
                            m->own[PRESIL_HEAP_PAGES][PRESIL_HEAP_ALL].current;
    return m->limit && (pages > m->limit || in_use > m->limit - pages);
}

void presil_memory_count_failure(presil_device *device) {
    (void)pthread_mutex_lock(&device->memory.lock);
    device->memory.heap.failures++;
    (void)pthread_mutex_unlock(&device->memory.lock);
}

bool presil_memory_contains(const presil_device *device, presil_daddr address, uint64_t bytes) {
    const uint64_t offset = address.value - device->memory.base.value;
    return address.value >= device->memory.base.value && offset <= device->memory.bytes &&
           bytes <= device->memory.bytes - offset;
}

bool presil_memory_home_is_mapping(const presil_device *device) {
    return !atomic_load_explicit(&device->started, memory_order_acquire) || device->memory.maps ||
           device->memory.host_copy;
}

uint8_t *presil_memory_at(const presil_device *device, presil_daddr address) {
    return device->memory.mapping + (address.value - device->memory.base.value);
}
