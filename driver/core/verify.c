/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mode VERIFY: the twin runs first, on a private copy-on-write view of memory; then the chip on the real one. Compared
 * is every byte that either wrote.
 *
 * Order matters for in-place operators: pages that the twin has not written show the real memory, so the twin has to be
 * done before the chip writes. For the same reason a byte that only the chip wrote can't be judged by value afterwards:
 * that it was written at all is the difference.
 */
#define _GNU_SOURCE
#include "verify.h"
#include "bytes.h"
#include "chip_writes.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "listeners.h"
#include "model.h"
#include "on_chip.h"
#include "presil_heap.h"
#include "ranges.h"
#include "residency.h"
#include "running.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define CHUNK 65536u

/* ---- the view */
static int view_open(presil_device *device) {
    if (device->twin.view && !device->twin.view_is_copy) return PRESIL_OK;
    presil_view_close(device);
    void *view =
        mmap(NULL, device->memory.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, device->memory.fd, 0);
    if (view == MAP_FAILED)
        return presil_fail(PRESIL_EHOSTMEM, "no private view of device memory: %s", strerror(errno));
    device->twin.view = view;
    return PRESIL_OK;
}

/* After each launch: private pages drop back to what the memfd holds. Only those that the twin wrote can be private. */
static void view_refresh(presil_device *device) {
    if (!device->twin.view || device->twin.view_is_copy) return;
    const presil_byte_range scratch = device->run.scratch;
    if (scratch.bytes) { /* whole pages are ours, and the executor need not report it */
        const uint64_t page = PRESIL_HEAP_PAGE, from = (scratch.base.value - device->memory.base.value) & ~(page - 1);
        (void)madvise(device->twin.view + from, scratch.base.value - device->memory.base.value + scratch.bytes - from,
                      MADV_DONTNEED);
    }
    if (device->twin.writes.lost) {
        (void)madvise(device->twin.view, device->memory.bytes, MADV_DONTNEED);
        return;
    }
    for (size_t i = 0; i < device->twin.writes.count; i++) {
        const uint64_t page = PRESIL_HEAP_PAGE;
        const uint64_t from = (device->twin.writes.at[i].base.value - device->memory.base.value) & ~(page - 1);
        uint64_t to = 0;
        /* Rows of a tensor share pages: one call for a run of them. */
        for (;; i++) {
            const presil_byte_range *r = &device->twin.writes.at[i];
            to = (r->base.value + r->bytes - device->memory.base.value + page - 1) & ~(page - 1);
            if (i + 1 == device->twin.writes.count || r[1].base.value - device->memory.base.value > to) break;
        }
        (void)madvise(device->twin.view + from, to - from, MADV_DONTNEED);
    }
}

/* ---- comparing */
typedef struct {
    presil_device *device;
    const presil_plan *plan;
    presil_report *report;
    uint8_t *buffer; /* CHUNK bytes, where the transport has the memory */
    uint64_t differences, first;
    uint8_t rtl, twin;
} comparison;

static void note(comparison *c, uint64_t address, uint8_t rtl, uint8_t twin) {
    if (c->differences++ == 0) {
        c->first = address;
        c->rtl = rtl;
        c->twin = twin;
    }
}

static int compare_range(comparison *c, uint64_t base, uint64_t bytes) {
    const presil_device *device = c->device;
    for (uint64_t at = 0; at < bytes; at += CHUNK) {
        const uint64_t n = bytes - at < CHUNK ? bytes - at : CHUNK;
        const uint8_t *twin = device->twin.view + (base + at - device->memory.base.value),
                      *rtl = device->memory.mapping + (base + at - device->memory.base.value);
        if (c->buffer) {
            const int status = presil_memory_read(c->device, (presil_daddr){base + at}, c->buffer, n);
            if (status) return status;
            rtl = c->buffer;
        }
        if (memcmp(rtl, twin, n) == 0) continue;
        for (uint64_t i = 0; i < n; i++) {
            if (rtl[i] != twin[i]) note(c, base + at + i, rtl[i], twin[i]);
        }
    }
    return PRESIL_OK;
}

__attribute__((format(printf, 3, 4))) static int mismatch(const comparison *c, uint64_t address, const char *format,
                                                          ...) {
    char what[160], where[128] = "", when[40] = "";
    presil_write_time time;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    if (!c->device->chip_ops->describe)
        (void)snprintf(where, sizeof where, "the chip does not say where that is");
    else if (c->device->chip_ops->describe(c->plan, (presil_daddr){address}, where, sizeof where))
        (void)snprintf(where, sizeof where, "outside every output of the operator");
    c->report->difference_address = address;
    if (presil_write_time_of(c->device, (presil_daddr){address}, &time)) {
        c->report->difference_cycle = time.last_cycle;
        c->report->difference_segment = time.last_launch;
        (void)snprintf(when, sizeof when, ", written in cycle %llu", (unsigned long long)time.last_cycle);
    }
    (void)snprintf(c->report->difference, sizeof c->report->difference, "%.100s, at 0x%llx%s: %.88s", where,
                   (unsigned long long)address, when, what);
    c->report->verified = 0;
    return presil_fail(PRESIL_EMISMATCH, "RTL and model differ: %s", c->report->difference);
}

static int compare(comparison *c, const range_list *rtl) {
    const range_list *twin = &c->device->twin.writes;
    for (size_t i = 0; i < twin->count; i++) {
        const int status = compare_range(c, twin->at[i].base.value, twin->at[i].bytes);
        if (status) return status;
    }
    uint64_t stray_at = 0, missing_at = 0, stray = 0, missing = 0;
    if (rtl) {
        stray = ranges_only_in(rtl, twin, &stray_at);
        missing = ranges_only_in(twin, rtl, &missing_at);
    }
    c->report->differing_bytes = c->differences;
    c->report->stray_bytes = stray;
    c->report->missing_bytes = missing;
    c->report->difference_expected = c->twin;
    c->report->difference_found = c->rtl;
    if (c->differences)
        return mismatch(c, c->first, "RTL 0x%02x, model 0x%02x; %llu bytes differ, %llu written by RTL alone", c->rtl,
                        c->twin, (unsigned long long)c->differences, (unsigned long long)stray);
    if (stray)
        return mismatch(c, stray_at, "a stray write: the RTL wrote %llu bytes that the model did not",
                        (unsigned long long)stray);
    if (missing)
        return mismatch(c, missing_at, "the RTL never wrote %llu bytes that the model did",
                        (unsigned long long)missing);
    c->report->verified = 1;
    return PRESIL_OK;
}

/* ---- the launch */
static int check_rtl(presil_device *device, const presil_plan *plan, presil_report *report) {
    comparison c = {.device = device, .plan = plan, .report = report};
    const range_list *rtl = &device->log.writes;
    int status = presil_log_fetch(device);
    if (!status && !presil_memory_home_is_mapping(device)) {
        c.buffer = malloc(CHUNK);
        if (!c.buffer) status = presil_fail(PRESIL_EHOSTMEM, "no host memory to compare with");
    }
    if (!status && (rtl->lost || device->twin.writes.lost)) {
        presil_warn("%s: not compared: no host memory for the list of what was written", report->label);
    } else if (!status) {
        status = compare(&c, device->log.known ? rtl : NULL);
    }
    free(c.buffer);
    return status;
}

static int prepare(presil_device *device, const presil_plan_info *info) {
    const bool ours = presil_memory_home_is_mapping(device) && device->memory.fd >= 0;
    return ours ? view_open(device) : presil_view_stage(device, info);
}

static void put(void *core, presil_daddr to, const void *bytes, uint64_t count) {
    presil_device *device = core;
    if (!presil_memory_contains(device, to, count)) {
        device->twin.writes.lost = true;
        return;
    }
    memcpy(device->twin.view + (to.value - device->memory.base.value), bytes, count);
    ranges_add(&device->twin.writes, to, count);
}

/* What the launch should write: of whoever listens, or of the executor. */
static int expect(presil_device *device, const presil_plan *plan, presil_report *report) {
    const capture_state *c = &device->capture;
    if (!c->listening || !c->ops.supply) return presil_twin_run(device, plan, device->twin.view, 1, report);
    device->twin.writes.count = 0;
    device->twin.writes.lost = false;
    const int status = c->ops.supply(c->context, &c->launch, put, device);
    ranges_merge(&device->twin.writes);
    return status ? presil_fail(status, "what it should write is not known") : PRESIL_OK;
}

int presil_launch_verify(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint64_t seq,
                         presil_report *report) {
    int status = presil_residency_fetch_all(device);
    if (!status) status = prepare(device, info);
    if (status) return status;
    char refused[ERROR_TEXT] = "";
    const int twin = expect(device, plan, report);
    if (twin) (void)snprintf(refused, sizeof refused, "%s", presil_error_text());
    if (!twin && device->capture.listening) presil_capture_expected(device);
    status = presil_launch_rtl(device, plan, info, seq, report);
    if (!status && twin) {
        (void)snprintf(report->difference, sizeof report->difference, "the model refused what the RTL did: %.200s",
                       refused);
        report->verified = 0;
        status = presil_fail(PRESIL_EMISMATCH, "%s", report->difference);
    } else if (!status) {
        status = check_rtl(device, plan, report);
    }
    view_refresh(device);
    return status;
}
