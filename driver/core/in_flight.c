/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several launches with the chip at once: doorbells are rung in the queue's order while there is room, and launches end
 * in that order. One that fails takes the chip's state along: those behind it, which have not begun, are submitted
 * again; where that is not known, they fail too.
 */
#include "in_flight.h"
#include "conversions.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "io_map.h"
#include "launch.h"
#include "listeners.h"
#include "look_at_plan.h"
#include "on_chip.h"
#include "presil_clock.h"
#include "queue.h"
#include "running.h"
#include "start.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST_DEPTH = 64 };

struct flight {
    work_item item;
    presil_plan_info info;
    presil_report report;
    uint64_t ns;     /* wall time spent on it */
    uint64_t cycles; /* waited for it */
    int status;      /* it can't end well: a submit() failed, or it was with the chip when another one did */
    bool unclear;    /* the chip may have a part of it: to be reset when it is its turn */
    char text[ERROR_TEXT];
};

int presil_flights_open(presil_device *device, uint32_t wanted) {
    const char *text = getenv("PRESIL_QUEUE_DEPTH");
    device_flights *f = &device->flights;
    if (!wanted && text && *text) {
        char *end = NULL;
        const unsigned long value = strtoul(text, &end, 10);
        if (*end || *text < '0' || *text > '9' || value > UINT32_MAX)
            return presil_fail(PRESIL_EINVAL, "PRESIL_QUEUE_DEPTH=%s: a number of launches (such as 4) expected", text);
        wanted = (uint32_t)value;
    }
    f->wanted = wanted;
    if (wanted == 1 || device->limits.queue_depth < 2) return PRESIL_OK;
    f->ring = calloc(MOST_DEPTH, sizeof *f->ring);
    if (!f->ring) return presil_fail(PRESIL_EHOSTMEM, "presil_device_open: host memory is full");
    device->queue.deep = true;
    return PRESIL_OK;
}

void presil_flights_close(presil_device *device) {
    free(device->flights.ring);
    device->flights.ring = NULL;
    device->queue.deep = false;
}

static uint32_t depth_of(const presil_device *device) {
    const uint32_t chip = device->limits.queue_depth < MOST_DEPTH ? device->limits.queue_depth : MOST_DEPTH,
                   wanted = device->flights.wanted;
    if (!wanted) return device->transport.capabilities & PRESIL_CAP_CLOCKED ? 1 : chip;
    return wanted < chip ? wanted : chip;
}

static flight *flight_at(const device_flights *f, uint32_t n) { return &f->ring[(f->first + n) % MOST_DEPTH]; }

/* The host does nothing with memory around it, and nobody looks at the chip before or behind it. */
static bool may_overlap(const presil_device *device, const work_item *item) {
    return item->kind == ITEM_LAUNCH && atomic_load(&device->mode) == PRESIL_MODE_RTL &&
           atomic_load(&device->started) && !device->dead && device->memory.maps &&
           device->transport.capabilities & PRESIL_CAP_COHERENT && !atomic_load(&device->capture.on) &&
           !device->run.trace_path && !item->layouts && !atomic_load(&device->layouts.count);
}

/* Beside those that are with the chip. */
static bool has_room(const presil_device *device, const presil_plan_info *info, uint32_t depth) {
    const device_flights *f = &device->flights;
    const uint32_t most = device->limits.queue_commands;
    uint64_t commands = info->descriptors;
    for (uint32_t n = 0; n < f->count; n++) commands += flight_at(f, n)->info.descriptors;
    return info->segments <= depth - f->doorbells && (!most || commands <= most);
}

/* All its doorbells: there is room. */
static int submit(presil_device *device, flight *next) {
    device_flights *f = &device->flights;
    const presil_byte_range scratch = {next->item.scratch.at, next->item.scratch.bytes};
    int status = presil_io_map_plan(device, &next->info);
    if (!status && scratch.bytes) status = presil_io_map(device, scratch.base, scratch.bytes);
    for (uint32_t segment = 0; segment < next->info.segments && !status; segment++) {
        status = presil_chip_submit(device, next->item.plan, &next->info, segment, scratch, f->doorbells == 0);
        if (!status) f->doorbells++;
    }
    next->status = status;
    next->unclear = status != PRESIL_OK;
    if (status) (void)snprintf(next->text, sizeof next->text, "%s", presil_error_text());
    return status;
}

bool presil_flight_begin(presil_device *device, const work_item *item) {
    device_flights *f = &device->flights;
    const uint32_t depth = depth_of(device);
    presil_plan_info info;
    if (depth < 2 || !may_overlap(device, item) || (f->count && flight_at(f, f->count - 1)->status)) return false;
    /* A cancel is for what is in flight first. */
    if (f->count ? __atomic_load_n(&device->queue.cancel_flag, __ATOMIC_SEQ_CST) : presil_cancelled(device, item->seq))
        return false;
    if (presil_plan_look(device, item->plan, &info) || !info.segments || !has_room(device, &info, depth)) return false;
    const uint64_t start = presil_now_ns();
    flight *next = flight_at(f, f->count++);
    *next = (flight){.item = *item, .info = info};
    presil_launch_open(device, item, PRESIL_MODE_RTL, &info, &next->report);
    (void)submit(device, next);
    next->ns = next->report.sim_ns = presil_now_ns() - start;
    return true;
}

/* ---- one fails */
/* The launches from the n-th on. */
static void fail_from(presil_device *device, uint32_t n, int status, const char *why) {
    const device_flights *f = &device->flights;
    for (; n < f->count; n++) {
        flight *other = flight_at(f, n);
        other->unclear = false; /* nothing of it is with the chip any more */
        if (other->status) continue;
        other->status = status;
        (void)snprintf(other->text, sizeof other->text, "it was with the chip when another launch failed: %.300s", why);
    }
}

static void submit_again(presil_device *device) {
    const device_flights *f = &device->flights;
    for (uint32_t n = 1; n < f->count; n++) {
        flight *other = flight_at(f, n);
        const bool again = !other->status || other->unclear; /* a chip that has failed may take no more */
        if (again && submit(device, other)) fail_from(device, n + 1, other->status, other->text);
    }
}

/* The oldest has failed, with text. told: nothing behind it has begun. Its status, with text. */
static int give_up(presil_device *device, int status, bool told) {
    char text[ERROR_TEXT], more[ERROR_TEXT];
    const uint32_t behind = device->flights.count - 1;
    (void)snprintf(text, sizeof text, "%s", presil_error_text());
    device->flights.doorbells = 0;
    if (presil_recover(device, false)) {
        (void)snprintf(more, sizeof more, "%s", presil_error_text());
        fail_from(device, 1, PRESIL_EDEAD, more);
        return presil_fail(PRESIL_EDEAD, "%.200s; then: %.200s", text, more);
    }
    if (told)
        submit_again(device);
    else
        fail_from(device, 1, status, text);
    if (told || status == PRESIL_ECANCELLED || behind == 0) return presil_fail(status, "%s", text);
    return presil_fail(status, "%.400s; it may have been one of the %u launches behind it that were with the chip",
                       text, behind);
}

/* ---- the oldest */
static int wait_for(presil_device *device, flight *oldest) {
    bool told = false;
    int status = oldest->status;
    if (status) (void)presil_fail(status, "%s", oldest->text);
    if (status) return oldest->unclear ? give_up(device, status, false) : status;
    for (uint32_t segment = 0; segment < oldest->info.segments && !status; segment++) {
        status = presil_chip_reap(device, oldest->item.plan, &oldest->info, oldest->item.seq, &oldest->report,
                                  &oldest->cycles, &told);
        if (!status) device->flights.doorbells--;
    }
    return status ? give_up(device, status, told) : PRESIL_OK;
}

int presil_flight_finish(presil_device *device) {
    device_flights *f = &device->flights;
    flight *oldest = flight_at(f, 0);
    const uint64_t start = presil_now_ns();
    const int status = wait_for(device, oldest);
    if (!status && device->link.ops->cycles) (void)device->link.ops->cycles(device->link.handle, &device->run.clock);
    const uint64_t ns = presil_now_ns() - start;
    oldest->report.sim_ns += ns;
    f->first = (f->first + 1) % MOST_DEPTH;
    f->count--;
    return presil_launch_close(device, &oldest->item, PRESIL_MODE_RTL, oldest->ns + ns, status, &oldest->report);
}
