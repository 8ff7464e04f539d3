/* SPDX-License-Identifier: Apache-2.0 */
/* One launch: what is common to all modes (numbering, tracing, report). */
#include "launch.h"
#include "by_reference.h"
#include "callbacks.h"
#include "chip_writes.h"
#include "conversions.h"
#include "device.h"
#include "fail.h"
#include "listeners.h"
#include "look_at_plan.h"
#include "model.h"
#include "on_chip.h"
#include "presil_clock.h"
#include "queue.h"
#include "running.h"
#include "start.h"
#include "verify.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_clocked(const presil_device *device) { return device->transport.capabilities & PRESIL_CAP_CLOCKED; }

/* A waveform that can't be written (a full disk) has stopped the model: the launch has its results, but is not what was
 * asked for. */
static int trace_end(presil_device *device, uint64_t launch) {
    if (!device->run.tracing || launch + 1 < device->run.trace_first + device->run.trace_count) return PRESIL_OK;
    const int error = device->link.ops->trace(device->link.handle, NULL, 0, 0);
    int status = error ? presil_transport_failed(&device->link, "tracing", error) : PRESIL_OK;
    device->run.tracing = false;
    free(device->run.trace_path);
    device->run.trace_path = NULL;
    if (!status) return PRESIL_OK;
    char text[ERROR_TEXT];
    (void)snprintf(text, sizeof text, "%s", presil_error_text());
    return presil_recover(device, false) ? presil_fail(PRESIL_EDEAD, "%.200s; then: %.200s", text, presil_error_text())
                                         : presil_fail(status, "%s", text);
}

/* *began: it may have written. */
static int run(presil_device *device, const work_item *item, int mode, const presil_plan_info *info,
               presil_report *report, bool *began) {
    const int status =
        mode == PRESIL_MODE_MODEL ? PRESIL_OK : presil_start(device); /* a list may have been recorded in MODEL */
    if (status) return status;
    if (mode != PRESIL_MODE_MODEL && device->dead)
        return presil_fail(PRESIL_EDEAD, "the device is unusable until presil_device_reset()");
    const int converted = presil_layouts_before(device, item->layouts, info);
    if (converted) return converted;
    *began = true;
    if (atomic_load_explicit(&device->capture.on, memory_order_relaxed))
        presil_capture_begin(device, item, info, report);
    if (mode == PRESIL_MODE_MODEL)
        return presil_launch_model(device, item->plan, info, device->capture.listening && device->capture.wants_writes,
                                   report);
    if (!device->run.trace_window) presil_trace_begin(device, report->launch);
    if (mode == PRESIL_MODE_VERIFY || device->capture.listening) presil_log_begin(device);
    const int ran = mode == PRESIL_MODE_RTL       ? presil_launch_rtl(device, item->plan, info, item->seq, report)
                    : device->limits.has_executor ? presil_launch_verify(device, item->plan, info, item->seq, report)
                                                  : presil_launch_by_reference(device, item, info, report);
    if (!ran && device->capture.listening) (void)presil_log_fetch(device);
    if (!ran) return trace_end(device, report->launch);
    char text[ERROR_TEXT];
    (void)snprintf(text, sizeof text, "%s", presil_error_text());
    (void)trace_end(device, report->launch);
    return presil_fail(ran, "%s", text);
}

/* Failures of another kind are neither. */
static void count(run_state *run, const presil_report *report, int status) {
    if (status && report->verified < 0) return;
    (void)atomic_fetch_add(report->verified < 0 ? &run->not_compared : &run->compared, 1);
    if (report->verified == 0) (void)atomic_fetch_add(&run->differed, 1);
}

/* snprintf would be a tenth of an empty launch. */
static void take_label(presil_report *report, const char *label) {
    const size_t length = label ? strnlen(label, sizeof report->label - 1) : 0;
    if (length) memcpy(report->label, label, length);
    report->label[length] = 0;
}

void presil_launch_open(presil_device *device, const work_item *item, int mode, const presil_plan_info *info,
                        presil_report *report) {
    *report = (presil_report){.size = sizeof *report,
                              .mode = (uint32_t)mode,
                              .launch = device->run.launches++,
                              .macs = info->macs,
                              .passes = info->passes,
                              .peak_macs_per_cycle = info->peak_macs_per_cycle,
                              .descriptors = 0,
                              .segments = info->segments,
                              .verified = -1,
                              .difference_cycle = UINT64_MAX,
                              .origin = item->origin,
                              .tag = item->tag};
    take_label(report, info->label);
    presil_usage_deliver(device, report->launch, item->plan);
}

int presil_launch_close(presil_device *device, const work_item *item, int mode, uint64_t ns, int status,
                        presil_report *report) {
    if (status) status = presil_fail(status, "%s: %s", report->label, presil_error_text());
    /* A chip that counts no cycles is a model, wherever it runs. */
    if (mode != PRESIL_MODE_MODEL && atomic_load(&device->started) && !is_clocked(device) && !report->cycles)
        report->mode = PRESIL_MODE_MODEL;
    report->status = (uint32_t)-status;
    if (mode == PRESIL_MODE_VERIFY) count(&device->run, report, status);
    report->host_ns = item->plan_ns + ns - report->sim_ns - report->twin_ns;
    char text[ERROR_TEXT];
    text[0] = 0;
    if (status) (void)snprintf(text, sizeof text, "%s", presil_error_text());
    if (device->capture.listening) presil_capture_end(device, report, text);
    if (device->log.on) presil_log_end(device);
    presil_report_deliver(&device->reports, report);
    return status ? presil_fail(status, "%s", text) : PRESIL_OK; /* the callback may have failed in calls of its own */
}

int presil_launch(presil_device *device, const work_item *item) {
    const uint64_t start = presil_now_ns();
    presil_plan_info info;
    int status = presil_plan_look(device, item->plan, &info);
    if (status) return presil_fail(status, "the plan can't be read");
    const int mode = atomic_load(&device->mode);
    presil_report report;
    presil_launch_open(device, item, mode, &info, &report);
    const layout_totals before = presil_layouts_totals(device);
    bool began = false;
    device->run.scratch = (presil_byte_range){item->scratch.at, item->scratch.bytes};
    status = run(device, item, mode, &info, &report, &began);
    if (atomic_load_explicit(&device->layouts.count, memory_order_relaxed)) {
        const layout_totals after = presil_layouts_totals(device);
        if (began) presil_layouts_after(device, item->layouts, &info, status);
        report.conversions = after.count - before.count;
        report.conversion_bytes = after.bytes - before.bytes;
        report.conversion_ns = after.ns - before.ns;
    }
    return presil_launch_close(device, item, mode, presil_now_ns() - start, status, &report);
}
