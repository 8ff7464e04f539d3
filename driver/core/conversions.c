/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which side of a packed tensor holds its value, and conversions between them: before a launch of what it reads in
 * another form than it was written in, and when the host asks. No two tensors that overlap are packed alone.
 *
 * A tensor whose block was freed is nobody's for items behind that (packed_tensor.freed): it is never converted.
 */
#include "conversions.h"
#include "bytes.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "presil_clock.h"
#include "presil_heap.h"
#include "queue.h"
#include "ranges.h"
#include "residency.h"

#include <stdlib.h>

static bool overlap(presil_byte_range a, presil_byte_range b) {
    return a.base.value < b.base.value + b.bytes && b.base.value < a.base.value + a.bytes;
}

static bool contains(presil_byte_range a, presil_byte_range b) {
    return a.base.value <= b.base.value && b.base.value + b.bytes <= a.base.value + a.bytes;
}

/* ---- which side holds */
static void set_state(presil_device *device, packed_tensor *p, packed_state state) {
    if (p->state == HOLDS_PACKED && state != HOLDS_PACKED) (void)atomic_fetch_sub(&device->layouts.stale, 1);
    if (p->state != HOLDS_PACKED && state == HOLDS_PACKED) (void)atomic_fetch_add(&device->layouts.stale, 1);
    p->state = state;
    p->seen = atomic_load(&device->layouts.told);
}

static presil_byte_range block_of(const packed_tensor *p) {
    return (presil_byte_range){p->block, (p->bytes + PRESIL_HEAP_PAGE - 1) / PRESIL_HEAP_PAGE * PRESIL_HEAP_PAGE};
}

static bool is_alive(const presil_device *device, const packed_tensor *p) {
    const uint64_t freed = atomic_load(&p->freed);
    return !freed || freed > device->residency.seq;
}

static bool is_packed_alone(const presil_device *device, const packed_tensor *p) {
    return p->state == HOLDS_PACKED && is_alive(device, p);
}

static bool is_packed(const presil_device *device, const packed_tensor *p) {
    return p->state == HOLDS_PACKED ||
           (p->state == HOLDS_BOTH && p->seen == atomic_load_explicit(&device->layouts.told, memory_order_acquire));
}

/* The packed side is worth nothing any more. */
static void forget(presil_device *device, packed_tensor *p) {
    const presil_byte_range block = block_of(p);
    if (p->state == HOLDS_STRIDED) return;
    if (is_alive(device, p))
        presil_residency_forget(device, (block.base.value - device->memory.base.value) / PRESIL_HEAP_PAGE,
                                block.bytes / PRESIL_HEAP_PAGE);
    set_state(device, p, HOLDS_STRIDED);
}

/* ---- conversions */
typedef struct {
    presil_byte_range range;
    uint8_t *at, *owned; /* owned: a copy, where the transport has the bytes */
} window;

static int window_open(presil_device *device, presil_byte_range range, bool filled, window *out) {
    *out = (window){.range = range};
    if (presil_memory_home_is_mapping(device)) {
        out->at = presil_memory_at(device, range.base);
        return filled ? presil_residency_fetch(device, range.base, range.bytes)
                      : presil_residency_overwrite(device, range.base, range.bytes);
    }
    out->at = out->owned = malloc(range.bytes);
    if (!out->at)
        return presil_fail(PRESIL_EHOSTMEM, "no host memory for %llu bytes in another layout",
                           (unsigned long long)range.bytes);
    return filled ? presil_memory_read(device, range.base, out->at, range.bytes) : PRESIL_OK;
}

static int window_close(presil_device *device, window *w, int status, bool changed) {
    if (!status && w->owned && changed) status = presil_memory_write(device, w->range.base, w->owned, w->range.bytes);
    free(w->owned);
    return status;
}

layout_totals presil_layouts_totals(const presil_device *device) {
    const device_layouts *l = &device->layouts;
    return (layout_totals){atomic_load_explicit(&l->packs, memory_order_relaxed) +
                               atomic_load_explicit(&l->unpacks, memory_order_relaxed),
                           atomic_load_explicit(&l->pack_bytes, memory_order_relaxed) +
                               atomic_load_explicit(&l->unpack_bytes, memory_order_relaxed),
                           atomic_load_explicit(&l->pack_ns, memory_order_relaxed) +
                               atomic_load_explicit(&l->unpack_ns, memory_order_relaxed)};
}

static void count(atomic_ullong *which, uint64_t more) {
    atomic_store_explicit(which, atomic_load_explicit(which, memory_order_relaxed) + more, memory_order_relaxed);
}

static int call_chip(presil_device *device, const packed_tensor *p, uint8_t *strided, uint8_t *packed, bool pack) {
    const presil_chip_ops *chip = device->chip_ops;
    uint8_t *first = strided + (p->tensor.data.value - p->hull.base.value);
    const int status = pack ? chip->pack_activation(device->chip, &p->tensor, first, packed)
                            : chip->unpack_activation(device->chip, &p->tensor, packed, first);
    return status ? presil_fail(status, "the chip \"%s\" can't %s a tensor %s its own layout", chip->name,
                                pack ? "bring" : "fetch", pack ? "to" : "from")
                  : PRESIL_OK;
}

static int convert(presil_device *device, packed_tensor *p, bool pack) {
    device_layouts *l = &device->layouts;
    const uint64_t start = presil_now_ns();
    window strided, packed = {0};
    int status = window_open(device, p->hull, true, &strided);
    if (!status) status = window_open(device, block_of(p), !pack, &packed);
    if (!status) status = call_chip(device, p, strided.at, packed.at, pack);
    status = window_close(device, &packed, status, pack);
    status = window_close(device, &strided, status, !pack);
    if (status) return status;
    set_state(device, p, HOLDS_BOTH);
    count(pack ? &l->packs : &l->unpacks, 1);
    count(pack ? &l->pack_bytes : &l->unpack_bytes, p->bytes);
    count(pack ? &l->pack_ns : &l->unpack_ns, presil_now_ns() - start);
    return PRESIL_OK;
}

/* ---- launches */
static bool any_overlaps(const presil_byte_range *ranges, uint32_t count_of, presil_byte_range hull) {
    for (uint32_t i = 0; i < count_of; i++) {
        if (overlap(ranges[i], hull)) return true;
    }
    return false;
}

static bool box_overlaps(const presil_plan_info *info, presil_byte_range hull) {
    for (uint32_t i = 0; i < info->write_box_count; i++) {
        if (overlap(presil_box_hull(&info->write_boxes[i]), hull)) return true;
    }
    return false;
}

/* All of it becomes something else, whichever form that is written in. */
static bool is_overwritten(const launch_layouts *uses, const presil_plan_info *info, const packed_tensor *p) {
    for (uint32_t i = 0; i < info->write_count; i++) {
        if (contains(info->writes[i], p->hull)) return true;
    }
    for (uint32_t i = 0; uses && i < uses->count; i++) {
        const packed_tensor *other = uses->at[i].tensor;
        if (uses->at[i].written && other != p && other->dense && contains(other->hull, p->hull)) return true;
    }
    return false;
}

static bool is_written(const launch_layouts *uses, const presil_plan_info *info, const packed_tensor *p) {
    for (uint32_t i = 0; uses && i < uses->count; i++) {
        if (uses->at[i].written && uses->at[i].tensor != p && overlap(uses->at[i].tensor->hull, p->hull)) return true;
    }
    return any_overlaps(info->writes, info->write_count, p->hull) || box_overlaps(info, p->hull);
}

static bool is_read(const launch_layouts *uses, const presil_plan_info *info, const packed_tensor *p) {
    for (uint32_t i = 0; uses && i < uses->count; i++) {
        if (uses->at[i].read && uses->at[i].tensor != p && overlap(uses->at[i].tensor->hull, p->hull)) return true;
    }
    return any_overlaps(info->reads, info->read_count, p->hull);
}

int presil_layouts_before(presil_device *device, launch_layouts *uses, const presil_plan_info *info) {
    if (!atomic_load_explicit(&device->layouts.count, memory_order_acquire)) return PRESIL_OK;
    int status = PRESIL_OK;
    presil_layouts_sweep(device, false);
    for (uint32_t i = 0; uses && i < uses->count; i++) { /* an output that is written in part is read */
        if (any_overlaps(info->reads, info->read_count, block_of(uses->at[i].tensor))) uses->at[i].read = true;
    }
    const uint32_t all = atomic_load(&device->layouts.stale) ? atomic_load(&device->layouts.count) : 0;
    for (uint32_t i = 0; i < all && !status; i++) {
        packed_tensor *p = device->layouts.at[i];
        if (!is_packed_alone(device, p)) continue;
        if (is_read(uses, info, p) || (is_written(uses, info, p) && !is_overwritten(uses, info, p)))
            status = convert(device, p, false);
    }
    for (uint32_t i = 0; uses && i < uses->count && !status; i++) {
        packed_tensor *p = uses->at[i].tensor;
        if (uses->at[i].read && !is_packed(device, p)) status = convert(device, p, true);
    }
    return status;
}

void presil_layouts_after(presil_device *device, const launch_layouts *uses, const presil_plan_info *info, int status) {
    const uint32_t all = atomic_load_explicit(&device->layouts.count, memory_order_acquire);
    for (uint32_t i = 0; i < all; i++) {
        packed_tensor *p = device->layouts.at[i];
        if (p->state != HOLDS_STRIDED && is_written(uses, info, p)) forget(device, p);
    }
    for (uint32_t i = 0; uses && i < uses->count; i++) {
        packed_tensor *p = uses->at[i].tensor;
        if (!uses->at[i].written) continue;
        if (status && status != PRESIL_EMISMATCH) /* what the chip wrote instead is shown */
            forget(device, p);
        else
            set_state(device, p, HOLDS_PACKED);
    }
}

/* ---- the host, and copies */
int presil_layouts_bring(presil_device *device, presil_daddr base, uint64_t bytes, bool for_host) {
    const presil_byte_range range = {base, bytes};
    const uint32_t all = atomic_load_explicit(&device->layouts.count, memory_order_acquire);
    for (uint32_t i = 0; i < all; i++) {
        packed_tensor *p = device->layouts.at[i];
        if (!overlap(range, p->hull)) continue;
        const int status = is_packed_alone(device, p) ? convert(device, p, false) : PRESIL_OK;
        if (status) return status;
        if (for_host) forget(device, p);
    }
    return PRESIL_OK;
}

int presil_layouts_bring_all(presil_device *device) {
    return presil_layouts_bring(device, device->memory.base, device->memory.bytes, true);
}

int presil_layouts_overwrite(presil_device *device, presil_daddr base, uint64_t bytes) {
    const presil_byte_range range = {base, bytes};
    const uint32_t all = atomic_load_explicit(&device->layouts.count, memory_order_acquire);
    for (uint32_t i = 0; i < all; i++) {
        packed_tensor *p = device->layouts.at[i];
        if (!overlap(range, p->hull)) continue;
        const int status =
            is_packed_alone(device, p) && !contains(range, p->hull) ? convert(device, p, false) : PRESIL_OK;
        if (status) return status;
        forget(device, p);
    }
    return PRESIL_OK;
}

/* ---- what is over */
void presil_layouts_lost(presil_device *device) {
    const uint32_t all = atomic_load(&device->layouts.count);
    for (uint32_t i = 0; i < all; i++) forget(device, device->layouts.at[i]);
}

/* Those that were freed behind items that have passed leave the table; `all`: nothing is queued. */
void presil_layouts_sweep(presil_device *device, bool all) {
    device_layouts *l = &device->layouts;
    if (!atomic_load(&l->freed)) return;
    (void)pthread_mutex_lock(&device->memory.lock);
    const uint64_t completed = atomic_load(&device->queue.completed);
    const uint32_t before = atomic_load(&l->count);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < before; i++) {
        packed_tensor *p = l->at[i];
        const uint64_t freed = atomic_load(&p->freed);
        if (!freed || (!all && freed > completed + 1)) {
            l->at[kept++] = p;
            continue;
        }
        set_state(device, p, HOLDS_STRIDED);
        (void)atomic_fetch_sub(&l->freed, 1);
        if (atomic_fetch_sub(&p->references, 1) == 1) free(p);
    }
    atomic_store(&l->count, kept);
    (void)pthread_mutex_unlock(&device->memory.lock);
}
