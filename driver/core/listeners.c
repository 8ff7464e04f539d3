/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whoever listens to launches (presil_capture.h). The launch's own state is in device->capture while one runs; without
 * a listener nothing here is called.
 */
#include "listeners.h"
#include "bytes.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "kept_op.h"
#include "life.h"
#include "model.h"
#include "queue.h"
#include "ranges.h"
#include "recording.h"
#include "residency.h"
#include "running.h"
#include "chip_writes.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

launch_tensors *presil_tensors_new(const presil_capture_tensor *from, size_t count) {
    launch_tensors *out = malloc(sizeof *out + count * sizeof *from);
    if (!out) return NULL; /* a launch does without */
    out->count = count;
    out->op = NULL;
    memcpy(out->at, from, count * sizeof *from);
    return out;
}

/* ---- what a listener may ask */
static int commands(const presil_capture_launch *launch, void *to, uint64_t *size) {
    const presil_device *device = launch->core;
    if (!device->chip_ops->save)
        return presil_fail(PRESIL_EUNSUPPORTED, "the chip \"%s\" has no format for stored commands",
                           device->chip_ops->name);
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    const int status = device->chip_ops->save(device->capture.plan, device->memory.base, to, size, &error);
    return status ? presil_fail(status, "the commands can't be stored: %s", text) : PRESIL_OK;
}

/* After the chip has run, its memory is asked, which may have bytes that were never fetched. */
static bool asks_transport(const presil_device *device) {
    return device->capture.ran && !device->memory.maps && device->memory.host_copy;
}

static int read_memory(const presil_capture_launch *launch, presil_daddr from, void *to, uint64_t bytes) {
    presil_device *device = ((const capture_state *)launch)->device;
    if (!presil_memory_contains(device, from, bytes))
        return presil_fail(PRESIL_EINVAL, "0x%llx is not in device memory", (unsigned long long)from.value);
    if (!asks_transport(device)) return presil_memory_read(device, from, to, bytes);
    const int error = device->link.ops->mem_read(device->link.handle, from, to, bytes);
    return error ? presil_transport_failed(&device->link, "reading device memory", error) : PRESIL_OK;
}

static int describe(const presil_capture_launch *launch, presil_daddr address, char *text, size_t bytes) {
    const presil_device *device = launch->core;
    return device->chip_ops->describe ? device->chip_ops->describe(device->capture.plan, address, text, bytes)
                                      : presil_fail(PRESIL_EUNSUPPORTED, "the chip \"%s\" does not describe addresses",
                                                    device->chip_ops->name);
}

static int write_time(const presil_capture_launch *launch, presil_daddr address, presil_write_time *out) {
    return presil_write_time_of(launch->core, address, out)
               ? PRESIL_OK
               : presil_fail(PRESIL_EUNSUPPORTED, "when 0x%llx was written is not known",
                             (unsigned long long)address.value);
}

static int timing(const presil_capture_launch *launch, presil_timing_add add, void *context) {
    const presil_device *device = launch->core;
    if (!device->chip_ops->timing || device->limits.timing_needs_data)
        return presil_fail(PRESIL_EUNSUPPORTED, "the chip \"%s\" does not say what its cycles depend on",
                           device->chip_ops->name);
    return device->chip_ops->timing(device->chip, device->capture.plan, add, context);
}

static int work(const presil_capture_launch *launch, const char *simulator, presil_work *out) {
    const presil_device *device = launch->core;
    return device->chip_ops->work
               ? device->chip_ops->work(device->chip, device->capture.plan, simulator, out)
               : presil_fail(PRESIL_EUNSUPPORTED, "the chip \"%s\" does not say what its cycles are made of",
                             device->chip_ops->name);
}

static int usage(const presil_capture_launch *launch, presil_usage_tell tell, void *context) {
    const presil_device *device = launch->core;
    return device->chip_ops->usage
               ? device->chip_ops->usage(device->chip, device->capture.plan, tell, context)
               : presil_fail(PRESIL_EUNSUPPORTED, "the chip \"%s\" does not say what it moves", device->chip_ops->name);
}

/* ---- commands that stay */
struct presil_kept_launch {
    presil_device *device;
    presil_list *list; /* a reference; NULL: plan and tensors are ours */
    const presil_plan *plan;
    launch_tensors *tensors;
};

static presil_kept_launch *keep(const presil_capture_launch *launch) {
    const capture_state *now = (const capture_state *)launch;
    capture_state *c = &now->device->capture;
    presil_kept_launch *kept = malloc(sizeof *kept);
    if (!kept) return NULL;
    *kept = (presil_kept_launch){c->device, c->item->list, c->plan, c->item->list ? NULL : c->item->tensors};
    if (kept->list)
        (void)atomic_fetch_add(&kept->list->references, 1);
    else
        c->kept = c->plan;
    presil_device_hold(c->device);
    return kept;
}

bool presil_capture_took(presil_device *device, const presil_plan *plan) {
    capture_state *c = &device->capture;
    const bool took = c->kept && c->kept == plan;
    if (took) c->kept = NULL;
    return took;
}

int presil_kept_describe(const presil_kept_launch *kept, presil_daddr address, char *text, size_t bytes) {
    const presil_chip_ops *chip = kept->device->chip_ops;
    return chip->describe ? chip->describe(kept->plan, address, text, bytes) : PRESIL_EUNSUPPORTED;
}

void presil_kept_free(presil_kept_launch *kept) {
    if (!kept) return;
    if (kept->list)
        presil_list_drop(kept->list);
    else
        kept->device->chip_ops->plan_free((presil_plan *)(uintptr_t)kept->plan);
    presil_tensors_drop(kept->tensors);
    presil_device_drop(kept->device);
    free(kept);
}

/* ---- around a launch */
static presil_capture_bytes bytes_of(const presil_device *device, const presil_byte_range *at, uint64_t count) {
    const bool mapped = presil_memory_home_is_mapping(device) && !asks_transport(device);
    return (presil_capture_bytes){
        .at = at, .count = count, .host = mapped ? device->memory.mapping : NULL, .base = device->memory.base};
}

void presil_capture_begin(presil_device *device, const work_item *item, const presil_plan_info *info,
                          const presil_report *report) {
    capture_state *c = &device->capture;
    c->item = item;
    c->plan = item->plan;
    c->ran = false;
    (void)presil_residency_fetch_all(device); /* what can't be fetched is as it was */
    c->launch = (presil_capture_launch){.size = sizeof c->launch,
                                        .mode = report->mode,
                                        .launch = report->launch,
                                        .label = report->label,
                                        .signature = info->signature,
                                        .macs = info->macs,
                                        .passes = info->passes,
                                        .peak_macs_per_cycle = info->peak_macs_per_cycle,
                                        .descriptors = info->descriptors,
                                        .estimate = info->estimate,
                                        .segments = info->segments,
                                        .tensor_count = item->tensors ? (uint32_t)item->tensors->count : 0,
                                        .tensors = item->tensors ? item->tensors->at : NULL,
                                        .origin = report->origin,
                                        .tag = report->tag,
                                        .may_write = info->writes,
                                        .may_write_count = info->write_count,
                                        .commands = commands,
                                        .read = read_memory,
                                        .describe = describe,
                                        .write_time = write_time,
                                        .core = device,
                                        .scratch = device->run.scratch.base,
                                        .scratch_bytes = device->run.scratch.bytes,
                                        .keep = keep,
                                        .timing = timing,
                                        .work = work,
                                        .usage = usage};
    const kept_op *op = item->tensors ? item->tensors->op : NULL;
    if (op && !(item->list && presil_kept_op_outdated(op))) {
        c->launch.asked = presil_kept_op_get(op);
        c->launch.asked_weights = presil_kept_op_weights(op);
    }
    c->may_write.count = 0;
    c->may_write.lost = false;
    if (info->write_box_count) {
        ranges_add_writes(&c->may_write, info);
        c->launch.may_write = c->may_write.at;
        c->launch.may_write_count = c->may_write.count;
    }
    if (c->may_write.lost) {
        presil_warn("%s: not captured: no host memory for the list of what it writes", report->label);
        return;
    }
    const presil_capture_bytes reads = bytes_of(device, info->reads, info->read_count);
    const int wanted = c->ops.begin(c->context, &c->launch, &reads);
    c->listening = wanted > PRESIL_CAPTURE_NOTHING;
    c->wants_writes = c->listening && wanted != PRESIL_CAPTURE_REPORT;
}

void presil_capture_expected(presil_device *device) {
    capture_state *c = &device->capture;
    if (!c->wants_writes || !c->ops.expected || device->twin.writes.lost) return;
    const presil_capture_bytes writes = {.at = device->twin.writes.at,
                                         .count = device->twin.writes.count,
                                         .host = device->twin.view,
                                         .base = device->memory.base};
    c->ops.expected(c->context, &c->launch, &writes);
}

void presil_capture_end(presil_device *device, const presil_report *report, char *text) {
    capture_state *c = &device->capture;
    c->listening = false;
    c->ran = atomic_load(&device->mode) != PRESIL_MODE_MODEL;
    c->launch.error = report->status ? text : NULL;
    const range_list *known = !c->ran ? &device->twin.writes : device->log.known ? &device->log.writes : NULL;
    const presil_capture_bytes writes = !c->wants_writes ? (presil_capture_bytes){0}
                                        : known && !known->lost
                                            ? bytes_of(device, known->at, known->count)
                                            : bytes_of(device, c->launch.may_write, c->launch.may_write_count);
    const char *note = c->ops.end(c->context, &c->launch, report, &writes);
    if (!note || !report->status) return;
    const size_t used = strlen(text), added = strlen(note) + 2; /* the end of a long text gives way to the note */
    const size_t at = added >= ERROR_TEXT ? used : used + added < ERROR_TEXT ? used : ERROR_TEXT - 1 - added;
    (void)snprintf(text + at, ERROR_TEXT - at, "; %s", note);
}

/* ---- the API */
int presil_set_capture(presil_device *device, const presil_capture_ops *ops, void *context) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    enum { LEAST = offsetof(presil_capture_ops, end) + sizeof ops->end };
    if (ops && (ops->size < LEAST || !ops->begin || !ops->end))
        return presil_fail(PRESIL_EINVAL, "presil_set_capture: size, begin() and end() must be given");
    int status = presil_exclusive_begin(device);
    if (status) return status;
    capture_state *c = &device->capture;
    if (ops && atomic_load(&c->on)) {
        status = presil_fail(PRESIL_EINVAL, "presil_set_capture: the device is being captured already: end that first");
    } else {
        c->device = device;
        c->ops = (presil_capture_ops){0};
        ranges_free(&c->may_write);
        if (ops) memcpy(&c->ops, ops, ops->size < sizeof c->ops ? ops->size : sizeof c->ops);
        c->context = context;
        atomic_store_explicit(&c->on, ops != NULL, memory_order_release);
    }
    presil_exclusive_end(device);
    return status;
}

int presil_device_identify(presil_device *device, presil_device_identity *out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out || out->size < 2 * sizeof(uint32_t))
        return presil_fail(PRESIL_EINVAL, "presil_device_identify: out->size must be sizeof(presil_device_identity)");
    const bool started = atomic_load(&device->started);
    const presil_device_identity own = {.size = out->size,
                                        .abi_chip = PRESIL_CHIP_ABI,
                                        .abi_transport = PRESIL_TRANSPORT_ABI,
                                        .capabilities = started ? device->transport.capabilities : 0,
                                        .memory_model = device->memory_model,
                                        .rtl = started ? device->transport.rtl : "",
                                        .library = started ? device->transport.library : "",
                                        .seed = device->seed,
                                        .hang_cycles = device->hang_cycles,
                                        .timing = started ? device->timing : ""};
    memcpy(out, &own, out->size < sizeof own ? out->size : sizeof own);
    return PRESIL_OK;
}
