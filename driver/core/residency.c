/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where memory is not mapped but the host has a copy (`host_memory`): which pages the device has, and on which side
 * they are newer. Before a launch the pages that it touches are sent, unless the device has them as they are here; what
 * it wrote is fetched behind it (host_memory 1), or when the host asks (2).
 *
 * Whether the host wrote to a page is found by comparing it with what the device was sent: nobody has to announce
 * anything. A page that is newer on the device has an owner: it is dead once its block was freed, or allocated anew,
 * behind the launch that wrote it and before the one that asks. All but residency_owned() is the runner's.
 */
#define _GNU_SOURCE
#include "residency.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "presil_heap.h"
#include "queue.h"
#include "ranges.h"

#include <string.h>
#include <sys/mman.h>

enum { AT_HOST = 0, SAME = 1, AT_DEVICE = 2 };

static void *sparse(uint64_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

int presil_residency_open(presil_device *device) {
    const uint64_t pages = device->memory.bytes / PRESIL_HEAP_PAGE;
    residency *r = &device->residency;
    r->state = sparse(pages);
    r->sent = sparse(device->memory.bytes);
    r->written = sparse(pages * sizeof *r->written);
    (void)pthread_mutex_lock(&device->memory.lock);
    r->owned = sparse(pages * sizeof *r->owned);
    (void)pthread_mutex_unlock(&device->memory.lock);
    if (r->state && r->sent && r->written && r->owned) return PRESIL_OK;
    presil_residency_close(device);
    return presil_fail(PRESIL_EHOSTMEM, "no address space for what the device has of its memory");
}

void presil_residency_close(presil_device *device) {
    const uint64_t pages = device->memory.bytes / PRESIL_HEAP_PAGE;
    residency *r = &device->residency;
    if (r->state) (void)munmap(r->state, pages);
    if (r->sent) (void)munmap(r->sent, device->memory.bytes);
    if (r->written) (void)munmap(r->written, pages * sizeof *r->written);
    if (r->owned) (void)munmap(r->owned, pages * sizeof *r->owned);
    r->state = r->sent = NULL;
    r->written = r->owned = NULL;
}

/* With heap_lock held: launches that are enqueued by now worked for somebody else. */
void presil_residency_owned(presil_device *device, uint32_t page, uint64_t pages) {
    const uint64_t seq = atomic_load_explicit(&device->queue.submitted, memory_order_acquire);
    uint64_t *owned = device->residency.owned;
    for (uint64_t i = 0; owned && i < pages; i++) __atomic_store_n(&owned[page + i], seq, __ATOMIC_RELAXED);
}

/* ---- pages */
typedef struct {
    uint64_t first, end;
} page_run;

static page_run pages_of(const presil_device *device, presil_daddr base, uint64_t bytes) {
    const uint64_t at = base.value - device->memory.base.value;
    return (page_run){at / PRESIL_HEAP_PAGE, (at + bytes + PRESIL_HEAP_PAGE - 1) / PRESIL_HEAP_PAGE};
}

static void set_state(residency *r, uint64_t page, uint8_t state) {
    if (r->state[page] == AT_DEVICE && state != AT_DEVICE) (void)atomic_fetch_sub(&r->stale, 1);
    if (r->state[page] != AT_DEVICE && state == AT_DEVICE) {
        if (atomic_fetch_add(&r->stale, 1) == 0) r->low = UINT64_MAX, r->high = 0;
        if (page < r->low) r->low = page;
        if (page > r->high) r->high = page;
    }
    r->state[page] = state;
}

/* Newer on the device, and somebody's; what is nobody's any more is the host's. A block that was freed behind the item
 * that runs is still that item's. */
static bool is_newer_there(residency *r, uint64_t page) {
    if (r->state[page] != AT_DEVICE) return false;
    const uint64_t owned = __atomic_load_n(&r->owned[page], __ATOMIC_RELAXED);
    if (r->written[page] > owned || owned >= r->seq) return true;
    set_state(r, page, AT_HOST);
    return false;
}

static bool is_newer_here(const presil_device *device, uint64_t page) {
    residency *r = (residency *)&device->residency;
    if (is_newer_there(r, page)) return false;
    const uint64_t at = page * PRESIL_HEAP_PAGE;
    return r->state[page] == AT_HOST || memcmp(device->memory.mapping + at, r->sent + at, PRESIL_HEAP_PAGE) != 0;
}

static int send_pages(presil_device *device, uint64_t from, uint64_t end) {
    residency *r = &device->residency;
    const uint64_t at = from * PRESIL_HEAP_PAGE, bytes = (end - from) * PRESIL_HEAP_PAGE;
    memcpy(r->sent + at, device->memory.mapping + at, bytes);
    const int error = device->link.ops->mem_write(device->link.handle, (presil_daddr){device->memory.base.value + at},
                                                  r->sent + at, bytes);
    for (uint64_t page = from; page < end; page++) set_state(r, page, error ? AT_HOST : SAME);
    if (error) return presil_transport_failed(&device->link, "sending memory", error);
    atomic_store(&device->memory.bytes_to_device, atomic_load(&device->memory.bytes_to_device) + bytes);
    return PRESIL_OK;
}

static int send_run(presil_device *device, page_run run) {
    int status = PRESIL_OK;
    for (uint64_t page = run.first, end; page < run.end && !status; page = end) {
        end = page + 1;
        if (!is_newer_here(device, page)) continue;
        while (end < run.end && is_newer_here(device, end)) end++;
        status = send_pages(device, page, end);
    }
    return status;
}

/* The pages that lie in the range as a whole. */
static page_run inner_pages(const presil_device *device, const presil_byte_range *range) {
    const uint64_t at = range->base.value - device->memory.base.value;
    const page_run run = {(at + PRESIL_HEAP_PAGE - 1) / PRESIL_HEAP_PAGE, (at + range->bytes) / PRESIL_HEAP_PAGE};
    return run.first < run.end ? run : (page_run){run.first, run.first};
}

/* Of what is written, the bytes beside it in its first and its last page. */
static int send_beside(presil_device *device, const presil_byte_range *ranges, uint32_t count) {
    uint64_t *checked = &device->residency.checked; /* rows share pages */
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        const page_run all = pages_of(device, ranges[i].base, ranges[i].bytes), inner = inner_pages(device, &ranges[i]);
        if (all.end == *checked && all.first + 1 == all.end) continue;
        *checked = all.end;
        if (inner.first == inner.end) {
            status = send_run(device, all);
            continue;
        }
        status = send_run(device, (page_run){all.first, inner.first});
        if (!status) status = send_run(device, (page_run){inner.end, all.end});
        if (inner.end == all.end) *checked = 0;
    }
    return status;
}

int presil_residency_send(presil_device *device, const presil_plan_info *info) {
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < info->read_count && !status; i++)
        status = send_run(device, pages_of(device, info->reads[i].base, info->reads[i].bytes));
    device->residency.checked = 0;
    return status ? status : presil_each_write(device, info, send_beside);
}

static int fetch_pages(presil_device *device, uint64_t from, uint64_t end) {
    residency *r = &device->residency;
    const uint64_t at = from * PRESIL_HEAP_PAGE, bytes = (end - from) * PRESIL_HEAP_PAGE;
    const int error = device->link.ops->mem_read(device->link.handle, (presil_daddr){device->memory.base.value + at},
                                                 device->memory.mapping + at, bytes);
    if (error) return presil_transport_failed(&device->link, "fetching memory", error);
    memcpy(r->sent + at, device->memory.mapping + at, bytes);
    for (uint64_t page = from; page < end; page++) set_state(r, page, SAME);
    atomic_store(&device->memory.bytes_to_host, atomic_load(&device->memory.bytes_to_host) + bytes);
    return PRESIL_OK;
}

static int fetch_run(presil_device *device, page_run run) {
    residency *r = &device->residency;
    int status = PRESIL_OK;
    for (uint64_t page = run.first, end; page < run.end && !status; page = end) {
        end = page + 1;
        if (!is_newer_there(r, page)) continue;
        while (end < run.end && is_newer_there(r, end)) end++;
        status = fetch_pages(device, page, end);
    }
    return status;
}

int presil_residency_fetch(presil_device *device, presil_daddr base, uint64_t bytes) {
    if (!device->residency.state || !bytes || !atomic_load(&device->residency.stale)) return PRESIL_OK;
    return fetch_run(device, pages_of(device, base, bytes));
}

int presil_residency_fetch_all(presil_device *device) {
    const residency *r = &device->residency;
    if (!r->state || !atomic_load(&r->stale)) return PRESIL_OK;
    return fetch_run(device, (page_run){r->low, r->high + 1});
}

/* The host is about to overwrite these bytes. */
int presil_residency_overwrite(presil_device *device, presil_daddr base, uint64_t bytes) {
    residency *r = &device->residency;
    if (!r->state || !bytes || !atomic_load(&r->stale)) return PRESIL_OK;
    const page_run run = pages_of(device, base, bytes);
    const uint64_t at = base.value - device->memory.base.value;
    for (uint64_t page = run.first; page < run.end; page++) {
        const bool whole = page * PRESIL_HEAP_PAGE >= at && (page + 1) * PRESIL_HEAP_PAGE <= at + bytes;
        if (whole) set_state(r, page, AT_HOST);
    }
    int status = fetch_run(device, (page_run){run.first, run.first + 1});
    if (!status) status = fetch_run(device, (page_run){run.end - 1, run.end});
    return status;
}

/* ---- launches */
/* Exactly these bytes: those beside them may be the host's, who is at them. */
static int fetch_exactly(presil_device *device, const presil_byte_range *range) {
    const uint64_t at = range->base.value - device->memory.base.value;
    const int error =
        device->link.ops->mem_read(device->link.handle, range->base, device->memory.mapping + at, range->bytes);
    if (error) return presil_transport_failed(&device->link, "fetching memory", error);
    memcpy(device->residency.sent + at, device->memory.mapping + at, range->bytes);
    atomic_store(&device->memory.bytes_to_host, atomic_load(&device->memory.bytes_to_host) + range->bytes);
    return PRESIL_OK;
}

static int fetch_beside(presil_device *device, page_run all, page_run inner) {
    if (inner.first == inner.end) return fetch_run(device, all);
    const int status = fetch_run(device, (page_run){all.first, inner.first});
    return status ? status : fetch_run(device, (page_run){inner.end, all.end});
}

static int fetch_written(presil_device *device, const presil_byte_range *ranges, uint32_t count) {
    residency *r = &device->residency;
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < count && !status; i++) {
        const page_run inner = inner_pages(device, &ranges[i]);
        status = fetch_beside(device, pages_of(device, ranges[i].base, ranges[i].bytes), inner);
        if (!status) status = fetch_exactly(device, &ranges[i]);
        for (uint64_t page = inner.first; !status && page < inner.end; page++) set_state(r, page, SAME);
    }
    return status;
}

static int note_written(presil_device *device, const presil_byte_range *ranges, uint32_t count) {
    residency *r = &device->residency;
    for (uint32_t i = 0; i < count; i++) {
        const page_run run = pages_of(device, ranges[i].base, ranges[i].bytes);
        for (uint64_t page = run.first; page < run.end; page++) {
            r->written[page] = r->seq;
            set_state(r, page, AT_DEVICE);
        }
    }
    return PRESIL_OK;
}

int presil_residency_wrote(presil_device *device, const presil_plan_info *info, bool now) {
    return presil_each_write(device, info, now ? fetch_written : note_written);
}

/* What may have been written is not what was sent. */
static int note_spoilt(presil_device *device, const presil_byte_range *ranges, uint32_t count) {
    residency *r = &device->residency;
    for (uint32_t i = 0; i < count; i++) {
        const page_run run = pages_of(device, ranges[i].base, ranges[i].bytes);
        for (uint64_t page = run.first; page < run.end; page++) {
            if (!is_newer_there(r, page)) set_state(r, page, AT_HOST);
        }
    }
    return PRESIL_OK;
}

void presil_residency_spoilt(presil_device *device, const presil_plan_info *info) {
    if (device->residency.state) (void)presil_each_write(device, info, note_spoilt);
}

/* Pages that were given back to the system. */
void presil_residency_forget(presil_device *device, uint64_t page, uint64_t pages) {
    residency *r = &device->residency;
    for (uint64_t i = 0; r->state && i < pages; i++) set_state(r, page + i, AT_HOST);
}

/* Memory that nobody reads: what the device has there is not what was sent. */
void presil_residency_scribbled(presil_device *device, presil_daddr base, uint64_t bytes) {
    const page_run run = pages_of(device, base, bytes);
    presil_residency_forget(device, run.first, run.end - run.first);
}

uint64_t presil_residency_lost(presil_device *device) {
    residency *r = &device->residency;
    const uint64_t pages = device->memory.bytes / PRESIL_HEAP_PAGE;
    uint64_t lost = 0;
    if (!r->state) return 0;
    for (uint64_t page = r->low; atomic_load(&r->stale) && page <= r->high; page++) {
        lost += is_newer_there(r, page);
        set_state(r, page, AT_HOST);
    }
    (void)madvise(r->state, pages, MADV_DONTNEED); /* all AT_HOST */
    return lost * PRESIL_HEAP_PAGE;
}
