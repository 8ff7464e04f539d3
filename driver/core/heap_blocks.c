/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of device memory, pools of them, and what they count. */
#define _GNU_SOURCE
#include "conversions.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "io_map.h"
#include "layouts.h"
#include "life.h"
#include "presil_heap.h"
#include "queue.h"
#include "residency.h"
#include "scratch.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

struct presil_pool {
    presil_device *device;
    uint32_t index;
};

/* ---- blocks */
static int take(presil_device *device, const presil_pool *pool, uint64_t bytes, uint32_t *page, bool *beyond,
                presil_heap_stats *stats) {
    const uint64_t pages = (bytes - 1) / PRESIL_HEAP_PAGE + 1;
    presil_heap *heap = &device->memory.heap;
    (void)pthread_mutex_lock(&device->memory.lock);
    *beyond = presil_memory_is_beyond(device, pages);
    const uint64_t failures = heap->failures;
    const int status = *beyond ? PRESIL_HEAP_FULL : presil_heap_alloc(heap, pool ? pool->index : 0, pages, page);
    heap->failures = failures; /* it may be tried again */
    if (!status) presil_heap_note_request(heap, *page, bytes);
    if (!status && device->residency.owned) presil_residency_owned(device, *page, pages);
    if (status) presil_heap_get_stats(heap, stats);
    (void)pthread_mutex_unlock(&device->memory.lock);
    return status;
}

int presil_alloc(presil_device *device, presil_stream *stream, presil_pool *pool, uint64_t bytes, presil_daddr *out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out) return presil_fail(PRESIL_EINVAL, "presil_alloc: out is NULL");
    if (!presil_stream_of(device, stream)) return PRESIL_EINVAL;
    if (pool && pool->device != device)
        return presil_fail(PRESIL_EINVAL, "presil_alloc: the pool belongs to another device");
    if (bytes == 0) {
        out->value = 0;
        return PRESIL_OK;
    }
    uint32_t page = 0;
    const uint64_t pages = (bytes - 1) / PRESIL_HEAP_PAGE + 1;
    presil_heap_stats stats = {0};
    bool beyond = false;
    int status = take(device, pool, bytes, &page, &beyond, &stats);
    /* Blocks in layouts of the chip's own give way. */
    if (status == PRESIL_HEAP_FULL && atomic_load(&device->layouts.count) && !presil_layouts_release(device))
        status = take(device, pool, bytes, &page, &beyond, &stats);
    if (status == PRESIL_HEAP_FULL && presil_scratch_give_way(device))
        status = take(device, pool, bytes, &page, &beyond, &stats);
    if (status == PRESIL_HEAP_NO_HOST_MEMORY) return presil_fail(PRESIL_EHOSTMEM, "presil_alloc: host memory is full");
    if (status) {
        presil_memory_count_failure(device);
        const char *why = beyond                              ? "more than the limit that was set"
                          : pages > device->memory.heap.pages ? "more than the device has"
                          : pages > device->memory.heap.pages - stats.allocated
                              ? "more than is free"
                              : "enough is free, but not in one piece";
        return presil_fail(PRESIL_ENOMEM,
                           "out of device memory: %llu bytes asked for; %s (%llu bytes in all, %llu in use by %llu "
                           "blocks, largest gap %llu); PRESIL_MEMORY sets the size",
                           (unsigned long long)bytes, why, (unsigned long long)device->memory.bytes,
                           (unsigned long long)(stats.allocated * PRESIL_HEAP_PAGE), (unsigned long long)stats.live,
                           (unsigned long long)(stats.largest_free * PRESIL_HEAP_PAGE));
    }
    out->value = device->memory.base.value + (uint64_t)page * PRESIL_HEAP_PAGE;
    return PRESIL_OK;
}

int presil_free(presil_device *device, presil_daddr address) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (address.value == 0) return PRESIL_OK;
    int status = -1;
    if (presil_memory_contains(device, address, 1) && address.value % PRESIL_HEAP_PAGE == 0 &&
        !presil_memory_is_own(device, (uint32_t)((address.value - device->memory.base.value) / PRESIL_HEAP_PAGE))) {
        const uint32_t page = (uint32_t)((address.value - device->memory.base.value) / PRESIL_HEAP_PAGE);
        (void)pthread_mutex_lock(&device->memory.lock);
        const bool ours = presil_layouts_owns(device, address) || presil_scratch_owns(device, address);
        const uint32_t pages = ours ? 0 : presil_heap_size(&device->memory.heap, page);
        if (device->residency.owned) presil_residency_owned(device, page, pages);
        presil_layouts_freed(device, page, pages);
        if (pages) status = presil_heap_free(&device->memory.heap, page);
        (void)pthread_mutex_unlock(&device->memory.lock);
    }
    return status ? presil_fail(PRESIL_EINVAL, "presil_free: no block starts at 0x%llx (freed twice?)",
                                (unsigned long long)address.value)
                  : PRESIL_OK;
}

int presil_memory_get_stats(presil_device *device, presil_memory_stats *out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out || out->size < 2 * sizeof(uint32_t))
        return presil_fail(PRESIL_EINVAL, "presil_memory_get_stats: out->size must be sizeof(presil_memory_stats)");
    presil_heap_stats s;
    (void)pthread_mutex_lock(&device->memory.lock);
    presil_heap_get_stats(&device->memory.heap, &s);
    /* The driver's own block is not the user's. */
    const uint64_t own = device->memory.own[PRESIL_HEAP_PAGES][PRESIL_HEAP_ALL].current,
                   own_allocations = device->memory.own[PRESIL_HEAP_BLOCKS][PRESIL_HEAP_ALL].gained,
                   scratch = device->scratch.block.bytes;
    (void)pthread_mutex_unlock(&device->memory.lock);
    const uint64_t page = PRESIL_HEAP_PAGE;
    const presil_memory_stats stats = {
        .size = out->size,
        .allocated = (s.allocated - own) * page,
        .allocated_peak = (s.allocated_peak - own) * page,
        .reserved = (s.reserved - own) * page,
        .reserved_peak = (s.reserved_peak - own) * page,
        .active_blocks = s.live - 1 - device->memory.gap_count,
        .allocations = s.allocations - own_allocations,
        .frees = s.frees,
        .failures = s.failures,
        .capacity = (device->memory.heap.pages - own) * page,
        .largest_free = s.largest_free * page,
        .bytes_to_device = atomic_load(&device->memory.bytes_to_device),
        .bytes_to_host = atomic_load(&device->memory.bytes_to_host),
        .packs = atomic_load(&device->layouts.packs),
        .pack_bytes = atomic_load(&device->layouts.pack_bytes),
        .pack_ns = atomic_load(&device->layouts.pack_ns),
        .unpacks = atomic_load(&device->layouts.unpacks),
        .unpack_bytes = atomic_load(&device->layouts.unpack_bytes),
        .unpack_ns = atomic_load(&device->layouts.unpack_ns),
        .scratch = scratch,
    };
    memcpy(out, &stats, out->size < sizeof stats ? out->size : sizeof stats);
    return PRESIL_OK;
}

static presil_memory_counter without_own(presil_heap_counter c, presil_heap_counter own, uint64_t unit) {
    return (presil_memory_counter){(c.current - own.current) * unit, (c.peak - own.current) * unit,
                                   (c.gained - own.gained) * unit, c.lost * unit};
}

int presil_memory_get_counters(presil_device *device, presil_memory_counters *out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out || out->size < 2 * sizeof(uint32_t))
        return presil_fail(PRESIL_EINVAL,
                           "presil_memory_get_counters: out->size must be sizeof(presil_memory_counters)");
    static const uint64_t units[] = {[PRESIL_MEMORY_BLOCKS] = 1,
                                     [PRESIL_MEMORY_BYTES] = PRESIL_HEAP_PAGE,
                                     [PRESIL_MEMORY_REQUESTED] = 1,
                                     [PRESIL_MEMORY_RESERVED] = PRESIL_HEAP_PAGE,
                                     [PRESIL_MEMORY_SEGMENTS] = 1};
    presil_memory_counters all = {.size = out->size};
    (void)pthread_mutex_lock(&device->memory.lock);
    all.failures = device->memory.heap.failures;
    all.flushes = device->memory.heap.flushes;
    for (int i = 0; i < PRESIL_MEMORY_COUNTERS; i++) {
        for (int kind = 0; kind < PRESIL_MEMORY_KINDS; kind++)
            all.counter[i][kind] =
                without_own(device->memory.heap.counters[i][kind], device->memory.own[i][kind], units[i]);
    }
    (void)pthread_mutex_unlock(&device->memory.lock);
    memcpy(out, &all, out->size < sizeof all ? out->size : sizeof all);
    return PRESIL_OK;
}

int presil_memory_snapshot(presil_device *device, presil_memory_block *blocks, uint64_t capacity, uint64_t *count) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!count || (capacity && !blocks))
        return presil_fail(PRESIL_EINVAL, "presil_memory_snapshot: count or blocks is NULL");
    uint64_t found = 0;
    (void)pthread_mutex_lock(&device->memory.lock);
    for (uint32_t n = 0; n != UINT32_MAX; n = device->memory.heap.nodes[n].above) {
        const presil_heap_node *node = &device->memory.heap.nodes[n];
        if (node->arena == 0 || presil_memory_is_own(device, node->page)) continue;
        if (found < capacity) {
            blocks[found] = (presil_memory_block){.address.value = device->memory.base.value +
                                                                   (uint64_t)node->page * PRESIL_HEAP_PAGE,
                                                  .bytes = (uint64_t)node->pages * PRESIL_HEAP_PAGE,
                                                  .requested = node->live ? node->requested : 0,
                                                  .pool = (node->arena - 1) / 2,
                                                  .kind = node->arena & 1 ? PRESIL_MEMORY_SMALL : PRESIL_MEMORY_LARGE,
                                                  .live = node->live};
        }
        found++;
    }
    (void)pthread_mutex_unlock(&device->memory.lock);
    *count = found;
    return PRESIL_OK;
}

int presil_memory_set_limit(presil_device *device, uint64_t bytes) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    (void)pthread_mutex_lock(&device->memory.lock);
    device->memory.limit = bytes / PRESIL_HEAP_PAGE + (bytes > 0 && bytes < PRESIL_HEAP_PAGE);
    (void)pthread_mutex_unlock(&device->memory.lock);
    return PRESIL_OK;
}

void presil_memory_reset_totals(presil_device *device) {
    if (presil_enter(device)) return;
    (void)pthread_mutex_lock(&device->memory.lock);
    presil_heap_reset_totals(&device->memory.heap);
    for (int i = 0; i < PRESIL_HEAP_COUNTERS; i++) {
        for (int kind = 0; kind < PRESIL_HEAP_KINDS; kind++)
            device->memory.own[i][kind].gained = device->memory.own[i][kind].lost = 0;
    }
    (void)pthread_mutex_unlock(&device->memory.lock);
}

void presil_memory_reset_peak(presil_device *device) {
    if (presil_enter(device)) return;
    (void)pthread_mutex_lock(&device->memory.lock);
    presil_heap_reset_peak(&device->memory.heap);
    (void)pthread_mutex_unlock(&device->memory.lock);
}

static void punch(void *context, uint32_t page, uint32_t pages) {
    presil_device *device = context;
    /* Never under a chip that may still reach them. */
    if (presil_io_unmap(device, page, pages)) {
        presil_warn("%llu bytes are kept: %s", (unsigned long long)pages * PRESIL_HEAP_PAGE, presil_error_text());
        return;
    }
    if (device->memory.fd < 0) return;
    presil_residency_forget(device, page, pages);
    (void)fallocate(device->memory.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page * PRESIL_HEAP_PAGE,
                    (off_t)pages * PRESIL_HEAP_PAGE);
}

/* Work that was enqueued before its blocks were freed may still read them: the pages go once it has passed. */
void presil_memory_empty_cache(presil_device *device) {
    if (presil_enter(device) || presil_layouts_release(device) || presil_exclusive_begin(device)) return;
    presil_scratch_release(device);
    (void)pthread_mutex_lock(&device->memory.lock);
    presil_heap_release(&device->memory.heap, punch, device);
    (void)pthread_mutex_unlock(&device->memory.lock);
    presil_exclusive_end(device);
}

int presil_pool_create(presil_device *device, presil_pool **out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out) return presil_fail(PRESIL_EINVAL, "presil_pool_create: out is NULL");
    presil_pool *pool = malloc(sizeof *pool);
    if (!pool) return presil_fail(PRESIL_EHOSTMEM, "presil_pool_create: host memory is full");
    (void)pthread_mutex_lock(&device->memory.lock);
    const int status = presil_heap_pool_create(&device->memory.heap, &pool->index);
    (void)pthread_mutex_unlock(&device->memory.lock);
    if (status) {
        free(pool);
        return presil_fail(PRESIL_EHOSTMEM, "presil_pool_create: host memory is full");
    }
    pool->device = device;
    presil_device_hold(device);
    *out = pool;
    return PRESIL_OK;
}

void presil_pool_destroy(presil_pool *pool) {
    if (!pool) return;
    presil_device *device = pool->device;
    if (!presil_enter(device)) {
        (void)pthread_mutex_lock(&device->memory.lock);
        (void)presil_heap_pool_destroy(&device->memory.heap, pool->index);
        (void)pthread_mutex_unlock(&device->memory.lock);
    }
    presil_device_drop(device);
    free(pool);
}

void presil_pool_keep(presil_pool *pool, int keep) {
    if (!pool || presil_enter(pool->device)) return;
    (void)pthread_mutex_lock(&pool->device->memory.lock);
    presil_heap_pool_keep(&pool->device->memory.heap, pool->index, keep);
    (void)pthread_mutex_unlock(&pool->device->memory.lock);
}

int presil_memory_pool_of(presil_device *device, presil_daddr address, uint32_t *number) {
    if (presil_enter(device) || !number || !presil_memory_contains(device, address, 1) ||
        address.value % PRESIL_HEAP_PAGE)
        return 0;
    (void)pthread_mutex_lock(&device->memory.lock);
    const int unknown = presil_heap_pool_of(
        &device->memory.heap, (uint32_t)((address.value - device->memory.base.value) / PRESIL_HEAP_PAGE), number);
    (void)pthread_mutex_unlock(&device->memory.lock);
    return !unknown;
}

uint64_t presil_memory_bytes_of(presil_device *device, presil_daddr address) {
    if (presil_enter(device) || !presil_memory_contains(device, address, 1) || address.value % PRESIL_HEAP_PAGE)
        return 0;
    (void)pthread_mutex_lock(&device->memory.lock);
    const uint64_t pages = presil_heap_size(&device->memory.heap,
                                            (uint32_t)((address.value - device->memory.base.value) / PRESIL_HEAP_PAGE));
    (void)pthread_mutex_unlock(&device->memory.lock);
    return pages * PRESIL_HEAP_PAGE;
}

uint32_t presil_pool_number(const presil_pool *pool) { return pool ? pool->index : 0; }
