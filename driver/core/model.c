/* SPDX-License-Identifier: Apache-2.0 */
/* Launches without the chip: its executor (the twin) on the mapping, or on a staged copy of what the plan touches. */
#define _GNU_SOURCE
#include "model.h"
#include "bytes.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "presil_clock.h"
#include "ranges.h"
#include "residency.h"
#include "running.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static void on_write(void *context, presil_daddr address, uint64_t bytes) {
    presil_device *device = context;
    ranges_add(&device->twin.writes, address, bytes);
}

int presil_twin_run(presil_device *device, const presil_plan *plan, uint8_t *memory, uint32_t log_writes,
                    presil_report *report) {
    char text[ERROR_TEXT];
    presil_error_buffer error = {text, sizeof text};
    text[0] = 0;
    const presil_executor_memory window = {.size = sizeof window,
                                           .base = device->memory.base,
                                           .bytes = device->memory.bytes,
                                           .host = memory,
                                           .on_write = log_writes ? on_write : NULL,
                                           .context = device,
                                           .scratch = device->run.scratch.base,
                                           .scratch_bytes = device->run.scratch.bytes,
                                           .threads =
                                               atomic_load_explicit(&device->twin.threads, memory_order_relaxed)};
    device->twin.writes.count = 0;
    device->twin.writes.lost = false;
    const uint64_t start = presil_now_ns();
    const int status = device->chip_ops->execute(device->chip, plan, &window, &error);
    report->twin_ns += presil_now_ns() - start;
    if (log_writes) ranges_merge(&device->twin.writes);
    if (log_writes) ranges_cut(&device->twin.writes, device->run.scratch);
    return status ? presil_fail(status, "%s", text) : PRESIL_OK;
}

/* ---- the twin's memory where the transport has the bytes */
static int view_open(presil_device *device) {
    if (device->twin.view && device->twin.view_is_copy) return PRESIL_OK;
    presil_view_close(device);
    void *view =
        mmap(NULL, device->memory.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (view == MAP_FAILED)
        return presil_fail(PRESIL_EHOSTMEM, "no address space for the model's memory: %s", strerror(errno));
    device->twin.view = view;
    device->twin.view_is_copy = true;
    return PRESIL_OK;
}

static int stage(presil_device *device, const presil_byte_range *ranges, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        const int status =
            presil_memory_read(device, ranges[i].base,
                               device->twin.view + (ranges[i].base.value - device->memory.base.value), ranges[i].bytes);
        if (status) return status;
    }
    return PRESIL_OK;
}

/* Written ranges are fetched too: a plan may write them in part. */
int presil_view_stage(presil_device *device, const presil_plan_info *info) {
    int status = view_open(device);
    if (!status) status = stage(device, info->reads, info->read_count);
    return status ? status : presil_each_write(device, info, stage);
}

void presil_view_close(presil_device *device) {
    if (device->twin.view) (void)munmap(device->twin.view, device->memory.bytes);
    device->twin.view = NULL;
    device->twin.view_is_copy = false;
    ranges_free(&device->twin.writes);
}

static int write_back(presil_device *device) {
    if (device->twin.writes.lost)
        return presil_fail(PRESIL_EHOSTMEM, "no host memory for the list of what the model wrote");
    for (size_t i = 0; i < device->twin.writes.count; i++) {
        const presil_byte_range *r = &device->twin.writes.at[i];
        const int status = presil_memory_write(
            device, r->base, device->twin.view + (r->base.value - device->memory.base.value), r->bytes);
        if (status) return status;
    }
    return PRESIL_OK;
}

int presil_launch_model(presil_device *device, const presil_plan *plan, const presil_plan_info *info, bool log_writes,
                        presil_report *report) {
    report->descriptors = info->descriptors;
    int status = presil_residency_fetch_all(device);
    if (status) return status;
    if (presil_memory_home_is_mapping(device))
        return presil_twin_run(device, plan, device->memory.mapping, log_writes, report);
    status = presil_view_stage(device, info);
    if (!status) status = presil_twin_run(device, plan, device->twin.view, 1, report);
    return status ? status : write_back(device);
}
