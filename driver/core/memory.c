/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: a sparse memfd that the simulator and the host map, and blocks of it. */
#define _GNU_SOURCE
#include "core.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the mapping */
static int open_file(presil_device *device) {
    device->memory_fd = memfd_create("presil", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (device->memory_fd < 0)
        return presil_fail(PRESIL_EHOSTMEM, "device memory: memfd_create failed: %s", strerror(errno));
    if (ftruncate(device->memory_fd, (off_t)device->memory_bytes))
        return presil_fail(PRESIL_EHOSTMEM, "device memory: no sparse file of %llu bytes: %s",
                           (unsigned long long)device->memory_bytes, strerror(errno));
    /* A server maps it too, and would be killed if it shrank. */
    if (fcntl(device->memory_fd, F_ADD_SEALS, F_SEAL_SHRINK))
        return presil_fail(PRESIL_EHOSTMEM, "device memory: it can't be sealed: %s", strerror(errno));
    void *mapping =
        mmap(NULL, device->memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, device->memory_fd, 0);
    if (mapping == MAP_FAILED)
        return presil_fail(PRESIL_EHOSTMEM, "device memory: %llu bytes can't be mapped: %s; set PRESIL_MEMORY lower",
                           (unsigned long long)device->memory_bytes, strerror(errno));
    device->mapping = mapping;
    return PRESIL_OK;
}

static int open_heap(presil_device *device) {
    return presil_heap_init(&device->heap, (uint32_t)(device->memory_bytes / PRESIL_HEAP_PAGE))
               ? presil_fail(PRESIL_EHOSTMEM, "device memory: host memory is full")
               : PRESIL_OK;
}

int presil_memory_open(presil_device *device) {
    device->memory_base.value = MEMORY_BASE;
    const int status = open_file(device);
    return status ? status : open_heap(device);
}

void presil_memory_close(presil_device *device) {
    presil_residency_close(device);
    presil_heap_destroy(&device->heap);
    if (device->mapping && device->memory_fd >= 0) (void)munmap(device->mapping, device->memory_bytes);
    device->mapping = NULL;
    if (device->memory_fd >= 0) (void)close(device->memory_fd);
    device->memory_fd = -1;
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
    for (uint32_t i = 0; i < count && device->memory_wanted; i++) {
        const uint64_t before = out[i].base.value - out[0].base.value;
        if (before >= device->memory_wanted) return i;
        if (out[i].bytes > device->memory_wanted - before) out[i].bytes = device->memory_wanted - before;
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
    bool mapped = !device->no_map && device->transport.capabilities & PRESIL_CAP_MAPS;
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
    device->own_memory = true;
    device->maps = all_mapped(device, r, count);
    device->memory_base = r[0].base;
    device->memory_bytes = r[count - 1].base.value + r[count - 1].bytes - r[0].base.value;
    if (device->maps)
        device->mapping = r[0].host;
    else
        status = device->link.ops->mem_read ? open_file(device)
                                            : presil_fail(PRESIL_ENODEV, "the transport has neither mapped memory nor "
                                                                         "mem_read() and mem_write()");
    if (!status) status = open_heap(device);
    for (uint32_t i = 1; i < count && !status; i++) {
        const uint64_t from = r[i - 1].base.value + r[i - 1].bytes - r[0].base.value,
                       to = r[i].base.value - r[0].base.value;
        if (from == to) continue;
        device->gaps[device->gap_count++] = (uint32_t)(from / PRESIL_HEAP_PAGE);
        if (presil_heap_reserve(&device->heap, (uint32_t)(from / PRESIL_HEAP_PAGE),
                                (uint32_t)((to - from) / PRESIL_HEAP_PAGE)))
            status = presil_fail(PRESIL_EHOSTMEM, "device memory: host memory is full");
    }
    return status;
}

/* ---- the driver's own blocks */
static bool is_own(const presil_device *device, uint32_t page) {
    for (uint32_t i = 0; i < device->gap_count; i++) {
        if (device->gaps[i] == page) return true;
    }
    return page == (device->command.base.value - device->memory_base.value) / PRESIL_HEAP_PAGE;
}

/* The first blocks, in every mode, so that addresses of tensors do not depend on it. They count as neither allocated
 * nor free afterwards. */
int presil_memory_reserve_commands(presil_device *device) {
    const uint64_t command_pages = (device->limits.command_bytes + PRESIL_HEAP_PAGE - 1) / PRESIL_HEAP_PAGE,
                   staging_pages = STAGING_BYTES / PRESIL_HEAP_PAGE;
    uint32_t page = 0;
    if (presil_heap_alloc(&device->heap, 0, command_pages + staging_pages, &page)) {
        return presil_fail(PRESIL_ENOMEM,
                           "device memory of %llu bytes has no room for the chip's commands (%llu) and the copy buffer "
                           "(%llu): set PRESIL_MEMORY higher",
                           (unsigned long long)device->memory_bytes, (unsigned long long)device->limits.command_bytes,
                           (unsigned long long)STAGING_BYTES);
    }
    device->command.size = sizeof device->command;
    device->command.base.value = device->memory_base.value + (uint64_t)page * PRESIL_HEAP_PAGE;
    device->command.bytes = command_pages * PRESIL_HEAP_PAGE;
    device->staging.value = device->command.base.value + device->command.bytes;
    memcpy(device->own, device->heap.counters, sizeof device->own);
    return PRESIL_OK;
}

bool presil_memory_contains(const presil_device *device, presil_daddr address, uint64_t bytes) {
    const uint64_t offset = address.value - device->memory_base.value;
    return address.value >= device->memory_base.value && offset <= device->memory_bytes &&
           bytes <= device->memory_bytes - offset;
}

bool presil_memory_home_is_mapping(const presil_device *device) {
    return !atomic_load_explicit(&device->started, memory_order_acquire) || device->maps || device->host_memory;
}

uint8_t *presil_memory_at(const presil_device *device, presil_daddr address) {
    return device->mapping + (address.value - device->memory_base.value);
}

void *presil_host_pointer(presil_device *device, presil_daddr address, uint64_t bytes) {
    if (presil_enter(device) || device->no_map || !presil_memory_home_is_mapping(device)) return NULL;
    return presil_memory_contains(device, address, bytes) ? presil_memory_at(device, address) : NULL;
}

int presil_host_access(presil_device *device, const void *at, uint64_t bytes) {
    int status = presil_device_wait(device);
    if (status || !bytes || !atomic_load(&device->residency.stale)) return status;
    const uintptr_t offset = (uintptr_t)at - (uintptr_t)device->mapping;
    if ((uintptr_t)at < (uintptr_t)device->mapping || offset > device->memory_bytes ||
        bytes > device->memory_bytes - offset)
        return presil_fail(PRESIL_EINVAL, "presil_host_access: %llu bytes at %p are not in the mapping",
                           (unsigned long long)bytes, at);
    status = presil_exclusive_begin(device);
    if (status) return status;
    device->residency.seq = UINT64_MAX;
    status = presil_residency_fetch(device, (presil_daddr){device->memory_base.value + offset}, bytes);
    presil_exclusive_end(device);
    return status;
}

int presil_memory_settle(presil_device *device) {
    if (!atomic_load(&device->residency.stale)) return PRESIL_OK;
    int status = presil_exclusive_begin(device);
    if (status) return status;
    device->residency.seq = UINT64_MAX;
    status = presil_residency_fetch_all(device);
    presil_exclusive_end(device);
    return status;
}

int presil_device_address(presil_device *device, const void *p, presil_daddr *out) {
    if (presil_enter(device) || !out || device->no_map || !presil_memory_home_is_mapping(device)) return 0;
    const uintptr_t at = (uintptr_t)p, from = (uintptr_t)device->mapping;
    if (at < from || at - from >= device->memory_bytes) return 0;
    out->value = device->memory_base.value + (at - from);
    return 1;
}

/* ---- bytes, wherever they are */
int presil_memory_read(presil_device *device, presil_daddr from, void *to, uint64_t bytes) {
    if (presil_memory_home_is_mapping(device)) {
        const int status = presil_residency_fetch(device, from, bytes);
        if (!status) memmove(to, presil_memory_at(device, from), bytes);
        return status;
    }
    const int error = device->link.ops->mem_read(device->link.handle, from, to, bytes);
    atomic_store(&device->bytes_to_host, atomic_load(&device->bytes_to_host) + bytes);
    return error ? presil_transport_failed(device, "reading device memory", error) : PRESIL_OK;
}

int presil_memory_write(presil_device *device, presil_daddr to, const void *from, uint64_t bytes) {
    if (presil_memory_home_is_mapping(device)) {
        const int status = presil_residency_overwrite(device, to, bytes);
        if (!status) memmove(presil_memory_at(device, to), from, bytes);
        return status;
    }
    const int error = device->link.ops->mem_write(device->link.handle, to, from, bytes);
    atomic_store(&device->bytes_to_device, atomic_load(&device->bytes_to_device) + bytes);
    return error ? presil_transport_failed(device, "writing device memory", error) : PRESIL_OK;
}

int presil_memory_upload(presil_device *device) {
    off_t at = 0;
    while ((at = lseek(device->memory_fd, at, SEEK_DATA)) >= 0) {
        const off_t end = lseek(device->memory_fd, at, SEEK_HOLE);
        if (end < 0) break;
        const presil_daddr to = {device->memory_base.value + (uint64_t)at};
        const int error =
            device->link.ops->mem_write(device->link.handle, to, device->mapping + at, (uint64_t)(end - at));
        if (error) return presil_transport_failed(device, "moving device memory to the transport", error);
        at = end;
    }
    return PRESIL_OK;
}

/* ---- blocks */
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
    (void)pthread_mutex_lock(&device->heap_lock);
    presil_heap_stats stats = {0};
    const uint64_t in_use = device->heap.counters[PRESIL_HEAP_PAGES][PRESIL_HEAP_ALL].current -
                            device->own[PRESIL_HEAP_PAGES][PRESIL_HEAP_ALL].current;
    const bool beyond = device->memory_limit && (pages > device->memory_limit || in_use > device->memory_limit - pages);
    if (beyond) device->heap.failures++;
    const int status =
        beyond ? PRESIL_HEAP_FULL : presil_heap_alloc(&device->heap, pool ? pool->index : 0, pages, &page);
    if (!status) presil_heap_note_request(&device->heap, page, bytes);
    if (!status && device->residency.owned) presil_residency_owned(device, page, pages);
    if (status) presil_heap_get_stats(&device->heap, &stats);
    (void)pthread_mutex_unlock(&device->heap_lock);
    if (status == PRESIL_HEAP_NO_HOST_MEMORY) return presil_fail(PRESIL_EHOSTMEM, "presil_alloc: host memory is full");
    if (status) {
        const char *why = beyond                                         ? "more than the limit that was set"
                          : pages > device->heap.pages                   ? "more than the device has"
                          : pages > device->heap.pages - stats.allocated ? "more than is free"
                                                                         : "enough is free, but not in one piece";
        return presil_fail(PRESIL_ENOMEM,
                           "out of device memory: %llu bytes asked for; %s (%llu bytes in all, %llu in use by %llu "
                           "blocks, largest gap %llu); PRESIL_MEMORY sets the size",
                           (unsigned long long)bytes, why, (unsigned long long)device->memory_bytes,
                           (unsigned long long)(stats.allocated * PRESIL_HEAP_PAGE), (unsigned long long)stats.live,
                           (unsigned long long)(stats.largest_free * PRESIL_HEAP_PAGE));
    }
    out->value = device->memory_base.value + (uint64_t)page * PRESIL_HEAP_PAGE;
    return PRESIL_OK;
}

int presil_free(presil_device *device, presil_daddr address) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (address.value == 0) return PRESIL_OK;
    int status = -1;
    if (presil_memory_contains(device, address, 1) && address.value % PRESIL_HEAP_PAGE == 0 &&
        !is_own(device, (uint32_t)((address.value - device->memory_base.value) / PRESIL_HEAP_PAGE))) {
        const uint32_t page = (uint32_t)((address.value - device->memory_base.value) / PRESIL_HEAP_PAGE);
        (void)pthread_mutex_lock(&device->heap_lock);
        if (device->residency.owned) presil_residency_owned(device, page, presil_heap_size(&device->heap, page));
        status = presil_heap_free(&device->heap, page);
        (void)pthread_mutex_unlock(&device->heap_lock);
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
    (void)pthread_mutex_lock(&device->heap_lock);
    presil_heap_get_stats(&device->heap, &s);
    /* The driver's own block is not the user's. */
    const uint64_t own = device->own[PRESIL_HEAP_PAGES][PRESIL_HEAP_ALL].current,
                   own_allocations = device->own[PRESIL_HEAP_BLOCKS][PRESIL_HEAP_ALL].gained;
    (void)pthread_mutex_unlock(&device->heap_lock);
    const uint64_t page = PRESIL_HEAP_PAGE;
    const presil_memory_stats stats = {
        .size = out->size,
        .allocated = (s.allocated - own) * page,
        .allocated_peak = (s.allocated_peak - own) * page,
        .reserved = (s.reserved - own) * page,
        .reserved_peak = (s.reserved_peak - own) * page,
        .active_blocks = s.live - 1 - device->gap_count,
        .allocations = s.allocations - own_allocations,
        .frees = s.frees,
        .failures = s.failures,
        .capacity = (device->heap.pages - own) * page,
        .largest_free = s.largest_free * page,
        .bytes_to_device = atomic_load(&device->bytes_to_device),
        .bytes_to_host = atomic_load(&device->bytes_to_host),
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
    (void)pthread_mutex_lock(&device->heap_lock);
    all.failures = device->heap.failures;
    all.flushes = device->heap.flushes;
    for (int i = 0; i < PRESIL_MEMORY_COUNTERS; i++) {
        for (int kind = 0; kind < PRESIL_MEMORY_KINDS; kind++)
            all.counter[i][kind] = without_own(device->heap.counters[i][kind], device->own[i][kind], units[i]);
    }
    (void)pthread_mutex_unlock(&device->heap_lock);
    memcpy(out, &all, out->size < sizeof all ? out->size : sizeof all);
    return PRESIL_OK;
}

int presil_memory_snapshot(presil_device *device, presil_memory_block *blocks, uint64_t capacity, uint64_t *count) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!count || (capacity && !blocks))
        return presil_fail(PRESIL_EINVAL, "presil_memory_snapshot: count or blocks is NULL");
    uint64_t found = 0;
    (void)pthread_mutex_lock(&device->heap_lock);
    for (uint32_t n = 0; n != UINT32_MAX; n = device->heap.nodes[n].above) {
        const presil_heap_node *node = &device->heap.nodes[n];
        if (node->arena == 0 || is_own(device, node->page)) continue;
        if (found < capacity) {
            blocks[found] = (presil_memory_block){.address.value = device->memory_base.value +
                                                                   (uint64_t)node->page * PRESIL_HEAP_PAGE,
                                                  .bytes = (uint64_t)node->pages * PRESIL_HEAP_PAGE,
                                                  .requested = node->live ? node->requested : 0,
                                                  .pool = (node->arena - 1) / 2,
                                                  .kind = node->arena & 1 ? PRESIL_MEMORY_SMALL : PRESIL_MEMORY_LARGE,
                                                  .live = node->live};
        }
        found++;
    }
    (void)pthread_mutex_unlock(&device->heap_lock);
    *count = found;
    return PRESIL_OK;
}

int presil_memory_set_limit(presil_device *device, uint64_t bytes) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    (void)pthread_mutex_lock(&device->heap_lock);
    device->memory_limit = bytes / PRESIL_HEAP_PAGE + (bytes > 0 && bytes < PRESIL_HEAP_PAGE);
    (void)pthread_mutex_unlock(&device->heap_lock);
    return PRESIL_OK;
}

void presil_memory_reset_totals(presil_device *device) {
    if (presil_enter(device)) return;
    (void)pthread_mutex_lock(&device->heap_lock);
    presil_heap_reset_totals(&device->heap);
    for (int i = 0; i < PRESIL_HEAP_COUNTERS; i++) {
        for (int kind = 0; kind < PRESIL_HEAP_KINDS; kind++)
            device->own[i][kind].gained = device->own[i][kind].lost = 0;
    }
    (void)pthread_mutex_unlock(&device->heap_lock);
}

void presil_memory_reset_peak(presil_device *device) {
    if (presil_enter(device)) return;
    (void)pthread_mutex_lock(&device->heap_lock);
    presil_heap_reset_peak(&device->heap);
    (void)pthread_mutex_unlock(&device->heap_lock);
}

static void punch(void *context, uint32_t page, uint32_t pages) {
    presil_device *device = context;
    if (device->memory_fd < 0) return;
    presil_residency_forget(device, page, pages);
    (void)fallocate(device->memory_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)page * PRESIL_HEAP_PAGE,
                    (off_t)pages * PRESIL_HEAP_PAGE);
}

/* Work that was enqueued before its blocks were freed may still read them: the pages go once it has passed. */
void presil_memory_empty_cache(presil_device *device) {
    if (presil_enter(device) || presil_exclusive_begin(device)) return;
    (void)pthread_mutex_lock(&device->heap_lock);
    presil_heap_release(&device->heap, punch, device);
    (void)pthread_mutex_unlock(&device->heap_lock);
    presil_exclusive_end(device);
}

int presil_pool_create(presil_device *device, presil_pool **out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out) return presil_fail(PRESIL_EINVAL, "presil_pool_create: out is NULL");
    presil_pool *pool = malloc(sizeof *pool);
    if (!pool) return presil_fail(PRESIL_EHOSTMEM, "presil_pool_create: host memory is full");
    (void)pthread_mutex_lock(&device->heap_lock);
    const int status = presil_heap_pool_create(&device->heap, &pool->index);
    (void)pthread_mutex_unlock(&device->heap_lock);
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
        (void)pthread_mutex_lock(&device->heap_lock);
        (void)presil_heap_pool_destroy(&device->heap, pool->index);
        (void)pthread_mutex_unlock(&device->heap_lock);
    }
    presil_device_drop(device);
    free(pool);
}

void presil_pool_keep(presil_pool *pool, int keep) {
    if (!pool || presil_enter(pool->device)) return;
    (void)pthread_mutex_lock(&pool->device->heap_lock);
    presil_heap_pool_keep(&pool->device->heap, pool->index, keep);
    (void)pthread_mutex_unlock(&pool->device->heap_lock);
}

int presil_memory_pool_of(presil_device *device, presil_daddr address, uint32_t *number) {
    if (presil_enter(device) || !number || !presil_memory_contains(device, address, 1) ||
        address.value % PRESIL_HEAP_PAGE)
        return 0;
    (void)pthread_mutex_lock(&device->heap_lock);
    const int unknown = presil_heap_pool_of(
        &device->heap, (uint32_t)((address.value - device->memory_base.value) / PRESIL_HEAP_PAGE), number);
    (void)pthread_mutex_unlock(&device->heap_lock);
    return !unknown;
}

uint64_t presil_memory_bytes_of(presil_device *device, presil_daddr address) {
    if (presil_enter(device) || !presil_memory_contains(device, address, 1) || address.value % PRESIL_HEAP_PAGE)
        return 0;
    (void)pthread_mutex_lock(&device->heap_lock);
    const uint64_t pages =
        presil_heap_size(&device->heap, (uint32_t)((address.value - device->memory_base.value) / PRESIL_HEAP_PAGE));
    (void)pthread_mutex_unlock(&device->heap_lock);
    return pages * PRESIL_HEAP_PAGE;
}

uint32_t presil_pool_number(const presil_pool *pool) { return pool ? pool->index : 0; }
