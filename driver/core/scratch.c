/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Scratch memory of launches: the block is found when a launch gets its place in the queue, so where it lies follows
 * program order, as all addresses do. A larger one takes its place; launches before that one have passed when somebody
 * else's block is there.
 */
#include "scratch.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "life.h"
#include "presil_debug.h"
#include "presil_heap.h"
#include "queue.h"
#include "residency.h"

#include <pthread.h>

#define MOST_ALIGNMENT (1ull << 30)

scratch_use presil_scratch_of(const presil_plan_info *info) {
    return (scratch_use){.bytes = info->scratch_bytes, .alignment = info->scratch_alignment};
}

static uint64_t aligned(uint64_t address, uint64_t alignment) {
    return alignment ? (address + alignment - 1) & ~(alignment - 1) : address;
}

static bool fits(const presil_byte_range *block, const scratch_use *use) {
    const uint64_t skip = aligned(block->base.value, use->alignment) - block->base.value;
    return block->bytes >= skip && use->bytes <= block->bytes - skip;
}

static uint32_t page_of(const presil_device *device, presil_daddr at) {
    return (uint32_t)((at.value - device->memory.base.value) / PRESIL_HEAP_PAGE);
}

/* ---- the block; with the memory's lock held */
static void drop_block(presil_device *device) {
    presil_byte_range *block = &device->scratch.block;
    if (!block->bytes) return;
    const uint32_t page = page_of(device, block->base);
    if (device->residency.owned) presil_residency_owned(device, page, presil_heap_size(&device->memory.heap, page));
    (void)presil_heap_free(&device->memory.heap, page);
    *block = (presil_byte_range){{0}, 0};
}

/* The next launches will want as much: the one before goes first. */
static int take_block(presil_device *device, const scratch_use *use) {
    const uint64_t more = use->alignment > PRESIL_HEAP_PAGE ? use->alignment - PRESIL_HEAP_PAGE : 0,
                   pages = (use->bytes + more - 1) / PRESIL_HEAP_PAGE + 1;
    uint32_t page = 0;
    presil_heap *heap = &device->memory.heap;
    drop_block(device);
    const uint64_t failures = heap->failures;
    const bool full = presil_memory_is_beyond(device, pages) || presil_heap_alloc(heap, 0, pages, &page);
    heap->failures = failures; /* it may be tried again: presil_launch_push() */
    if (full)
        return presil_fail(PRESIL_ENOMEM, "out of device memory: the launch needs %llu bytes while it runs",
                           (unsigned long long)use->bytes);
    presil_heap_note_request(heap, page, use->bytes);
    if (device->residency.owned) presil_residency_owned(device, page, presil_heap_size(heap, page));
    device->scratch.block.base.value = device->memory.base.value + (uint64_t)page * PRESIL_HEAP_PAGE;
    device->scratch.block.bytes = (uint64_t)presil_heap_size(heap, page) * PRESIL_HEAP_PAGE;
    return PRESIL_OK;
}

int presil_scratch_admit(presil_device *device, work_item *item) {
    scratch_use *use = &item->scratch;
    const presil_byte_range *block = device->scratch.placed.bytes ? &device->scratch.placed : &device->scratch.block;
    int status = PRESIL_OK;
    if (use->alignment & (use->alignment - 1) || use->alignment > MOST_ALIGNMENT || use->bytes > device->memory.bytes)
        return presil_fail(use->bytes > device->memory.bytes ? PRESIL_ENOMEM : PRESIL_EINVAL,
                           "the plan wants %llu bytes of scratch memory, aligned to %llu: a power of two up to 2^30, "
                           "and no more than the device has (%llu) expected",
                           (unsigned long long)use->bytes, (unsigned long long)use->alignment,
                           (unsigned long long)device->memory.bytes);
    (void)pthread_mutex_lock(&device->memory.lock);
    if (!fits(block, use)) {
        status =
            device->scratch.placed.bytes
                ? presil_fail(PRESIL_EINVAL,
                              "the launch needs %llu bytes while it runs, from a multiple of %llu on; the place "
                              "that was given has %llu, from 0x%llx on",
                              (unsigned long long)use->bytes, (unsigned long long)(use->alignment ? use->alignment : 1),
                              (unsigned long long)block->bytes, (unsigned long long)block->base.value)
                : take_block(device, use);
    }
    use->at.value = aligned(block->base.value, use->alignment);
    (void)pthread_mutex_unlock(&device->memory.lock);
    return status;
}

int presil_scratch_find(presil_device *device, work_item *item) {
    (void)pthread_mutex_lock(&device->queue.lock);
    const int status = presil_scratch_admit(device, item);
    (void)pthread_mutex_unlock(&device->queue.lock);
    return status;
}

bool presil_scratch_owns(const presil_device *device, presil_daddr address) {
    return device->scratch.block.bytes && device->scratch.block.base.value == address.value;
}

void presil_scratch_release(presil_device *device) {
    (void)pthread_mutex_lock(&device->queue.lock);
    (void)pthread_mutex_lock(&device->memory.lock);
    if (!device->queue.pending) drop_block(device);
    (void)pthread_mutex_unlock(&device->memory.lock);
    (void)pthread_mutex_unlock(&device->queue.lock);
}

bool presil_scratch_give_way(presil_device *device) {
    (void)pthread_mutex_lock(&device->memory.lock);
    const bool any = device->scratch.block.bytes != 0;
    (void)pthread_mutex_unlock(&device->memory.lock);
    if (!any || presil_exclusive_begin(device)) return false;
    presil_scratch_release(device);
    presil_exclusive_end(device);
    return true;
}

int presil_device_place_scratch(presil_device *device, presil_daddr place, uint64_t bytes) {
    int status = presil_enter(device);
    if (!status && bytes && !presil_memory_contains(device, place, bytes))
        status =
            presil_fail(PRESIL_EINVAL, "presil_device_place_scratch: %llu bytes at 0x%llx are not in device memory",
                        (unsigned long long)bytes, (unsigned long long)place.value);
    if (!status) status = presil_exclusive_begin(device);
    if (status) return status;
    (void)pthread_mutex_lock(&device->queue.lock);
    device->scratch.placed = (presil_byte_range){place, bytes};
    (void)pthread_mutex_unlock(&device->queue.lock);
    presil_exclusive_end(device);
    return PRESIL_OK;
}
