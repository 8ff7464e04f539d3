/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A chip behind an IOMMU reaches what was mapped for it. Before a launch the blocks that it touches are mapped, each at
 * the I/O address that is its device address; they stay so until their pages are given back to the system.
 */
#include "io_map.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "presil_heap.h"
#include "ranges.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static bool is_asked_for(const presil_device *device) { return device->transport.capabilities & PRESIL_CAP_MAP_BLOCKS; }

/* The first mapping that ends behind the page. */
static size_t find(const io_mappings *list, uint64_t page) {
    size_t low = 0, high = list->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (list->at[middle].end <= page)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int insert(io_mappings *list, size_t n, io_mapping m) {
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? list->capacity * 2 : 64;
        io_mapping *at = realloc(list->at, capacity * sizeof *at);
        if (!at) return presil_fail(PRESIL_EHOSTMEM, "no host memory for the list of what the chip reaches");
        list->at = at;
        list->capacity = capacity;
    }
    memmove(&list->at[n + 1], &list->at[n], (list->count - n) * sizeof *list->at);
    list->at[n] = m;
    list->count++;
    return PRESIL_OK;
}

static void drop(io_mappings *list, size_t n) {
    list->count--;
    memmove(&list->at[n], &list->at[n + 1], (list->count - n) * sizeof *list->at);
}

static presil_daddr address_of(const presil_device *device, uint64_t page) {
    return (presil_daddr){device->memory.base.value + page * PRESIL_HEAP_PAGE};
}

static int map_in_region(presil_device *device, size_t n, io_mapping gap) {
    const int status = insert(&device->io, n, gap);
    if (status) return status;
    const int error = device->link.ops->map(device->link.handle, address_of(device, gap.first),
                                            (gap.end - gap.first) * PRESIL_HEAP_PAGE);
    if (!error) return PRESIL_OK;
    drop(&device->io, n);
    return presil_transport_failed(&device->link, "mapping memory for the chip", error);
}

/* A mapping lies in one region, a block of the heap may not. */
static int map_gap(presil_device *device, size_t n, io_mapping gap) {
    int status = PRESIL_OK;
    for (uint64_t page = gap.first; page < gap.end && !status; n++) {
        uint64_t end = gap.end;
        for (uint32_t i = 0; i < device->memory.border_count; i++) {
            const uint64_t border = device->memory.borders[i];
            if (border > page && border < end) end = border;
        }
        status = map_in_region(device, n, (io_mapping){page, end});
        page = end;
    }
    return status;
}

/* What of these pages is not mapped yet. */
static int map_gaps(presil_device *device, io_mapping pages) {
    io_mappings *list = &device->io;
    int status = PRESIL_OK;
    for (uint64_t page = pages.first; page < pages.end && !status;) {
        const size_t n = find(list, page);
        const uint64_t next = n < list->count && list->at[n].first < pages.end ? list->at[n].first : pages.end;
        if (next > page) status = map_gap(device, n, (io_mapping){page, next});
        page = next < pages.end ? list->at[find(list, next)].end : next;
    }
    return status;
}

/* The whole block at the page: rows of a tensor, and neighbours, are mapped at once. */
static io_mapping block_at(presil_device *device, uint64_t page, uint64_t end) {
    (void)pthread_mutex_lock(&device->memory.lock);
    const presil_heap_node *node = &device->memory.heap.nodes[0];
    while (node->page + (uint64_t)node->pages <= page && node->above != UINT32_MAX)
        node = &device->memory.heap.nodes[node->above];
    const io_mapping block = {node->page, node->page + (uint64_t)node->pages};
    const bool raw = node->arena == 0;
    (void)pthread_mutex_unlock(&device->memory.lock);
    return raw ? (io_mapping){page, end < block.end ? end : block.end} : block;
}

static int map_ranges(presil_device *device, const presil_byte_range *ranges, uint32_t count) {
    const io_mappings *list = &device->io;
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        const uint64_t at = ranges[i].base.value - device->memory.base.value,
                       end = (at + ranges[i].bytes + PRESIL_HEAP_PAGE - 1) / PRESIL_HEAP_PAGE;
        for (uint64_t page = at / PRESIL_HEAP_PAGE; page < end && !status;) {
            const size_t n = find(list, page);
            if (n < list->count && list->at[n].first <= page) {
                page = list->at[n].end;
                continue;
            }
            const io_mapping block = block_at(device, page, end);
            status = map_gaps(device, block);
            page = block.end;
        }
    }
    return status;
}

int presil_io_map(presil_device *device, presil_daddr base, uint64_t bytes) {
    const presil_byte_range range = {base, bytes};
    return is_asked_for(device) ? map_ranges(device, &range, 1) : PRESIL_OK;
}

int presil_io_map_plan(presil_device *device, const presil_plan_info *info) {
    if (!is_asked_for(device)) return PRESIL_OK;
    const int status = map_ranges(device, info->reads, info->read_count);
    return status ? status : presil_each_write(device, info, map_ranges);
}

int presil_io_unmap(presil_device *device, uint64_t page, uint64_t pages) {
    io_mappings *list = &device->io;
    for (size_t n = find(list, page); n < list->count && list->at[n].first < page + pages;) {
        const io_mapping m = list->at[n];
        const int error = device->link.ops->unmap(device->link.handle, address_of(device, m.first),
                                                  (m.end - m.first) * PRESIL_HEAP_PAGE);
        if (error) return presil_transport_failed(&device->link, "unmapping memory from the chip", error);
        drop(list, n);
    }
    return PRESIL_OK;
}

void presil_io_forget(presil_device *device) {
    free(device->io.at);
    device->io = (io_mappings){0};
}
