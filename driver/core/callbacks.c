/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks, and the names of what reports count. */
#include "callbacks.h"
#include "device.h"
#include "fail.h"
#include "life.h"

#include <string.h>

void presil_reports_open(report_state *reports) {
    (void)pthread_mutex_init(&reports->lock, NULL);
    (void)pthread_cond_init(&reports->done, NULL);
}

void presil_reports_close(report_state *reports) {
    (void)pthread_mutex_destroy(&reports->lock);
    (void)pthread_cond_destroy(&reports->done);
}

/* The one before may be running: its context is not the caller's again before it has returned. With the lock held. */
static void wait_for_other(report_state *reports) {
    while (reports->busy && !pthread_equal(reports->reporter, pthread_self()))
        (void)pthread_cond_wait(&reports->done, &reports->lock);
}

void presil_set_report(presil_device *device, presil_report_fn fn, void *context) {
    if (presil_enter(device)) return;
    (void)pthread_mutex_lock(&device->reports.lock);
    const bool same = fn == device->reports.report && context == device->reports.report_context;
    device->reports.report = fn;
    device->reports.report_context = context;
    if (!same) wait_for_other(&device->reports);
    (void)pthread_mutex_unlock(&device->reports.lock);
}

void presil_set_usage(presil_device *device, presil_usage_fn fn, void *context) {
    if (presil_enter(device)) return;
    (void)pthread_mutex_lock(&device->reports.lock);
    const bool same = fn == device->reports.usage && context == device->reports.usage_context;
    device->reports.usage = fn;
    device->reports.usage_context = context;
    if (!same) wait_for_other(&device->reports);
    (void)pthread_mutex_unlock(&device->reports.lock);
}

/* `wanted` of these: somebody listens. */
static void begin(report_state *reports, bool wanted) {
    reports->busy = wanted;
    reports->reporter = pthread_self();
}

static void end(report_state *reports) {
    (void)pthread_mutex_lock(&reports->lock);
    reports->busy = false;
    (void)pthread_cond_broadcast(&reports->done);
    (void)pthread_mutex_unlock(&reports->lock);
}

void presil_report_deliver(report_state *reports, const presil_report *report) {
    (void)pthread_mutex_lock(&reports->lock);
    const presil_report_fn function = reports->report;
    void *context = reports->report_context;
    begin(reports, function != NULL);
    (void)pthread_mutex_unlock(&reports->lock);
    if (!function) return;
    function(context, report);
    end(reports);
}

typedef struct {
    presil_usage_fn function;
    void *context;
    uint64_t launch;
} usage_listener;

static void tell_usage(void *context, const presil_usage *usage) {
    const usage_listener *to = context;
    to->function(to->context, to->launch, usage);
}

void presil_usage_deliver(presil_device *device, uint64_t launch, const presil_plan *plan) {
    report_state *reports = &device->reports;
    if (!device->chip_ops->usage) return;
    (void)pthread_mutex_lock(&reports->lock);
    usage_listener to = {reports->usage, reports->usage_context, launch};
    if (to.function) begin(reports, true);
    (void)pthread_mutex_unlock(&reports->lock);
    if (!to.function) return;
    (void)device->chip_ops->usage(device->chip, plan, tell_usage, &to); /* what it can't tell is absent */
    end(reports);
}

void presil_set_progress(presil_device *device, presil_progress_fn fn, void *context) {
    if (presil_enter(device)) return;
    (void)pthread_mutex_lock(&device->reports.lock);
    device->reports.progress = fn;
    device->reports.progress_context = context;
    (void)pthread_mutex_unlock(&device->reports.lock);
}

int presil_report_names(const presil_device *device, presil_names *out) {
    *out = (presil_names){.size = sizeof *out};
    const int status = device->chip_ops->names ? device->chip_ops->names(device->chip, out) : PRESIL_OK;
    if (status) return presil_fail(status, "the chip \"%s\" gives no names", device->chip_ops->name);
    if (out->engine_count <= PRESIL_ENGINES && out->cause_count <= PRESIL_CAUSES &&
        out->counter_count <= PRESIL_COUNTERS)
        return PRESIL_OK;
    return presil_fail(
        PRESIL_ENODEV,
        "the chip \"%s\" names %u engines, %u causes, %u counters; reports have room for %d, %d, %d: add "
        "up engines that work alike and causes that mean the same, or give what is more as counters",
        device->chip_ops->name, out->engine_count, out->cause_count, out->counter_count, PRESIL_ENGINES, PRESIL_CAUSES,
        PRESIL_COUNTERS);
}

int presil_device_get_names(presil_device *device, presil_names *out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out || out->size < sizeof out->size)
        return presil_fail(PRESIL_EINVAL, "presil_device_get_names: out->size must be sizeof(presil_names)");
    presil_names own;
    const int status = presil_report_names(device, &own);
    if (!status) presil_give(out, &own, sizeof own);
    return status;
}

int presil_device_last_hang(presil_device *device, presil_waiting *rows, uint32_t most, uint32_t *count, int *verdict) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    (void)pthread_mutex_lock(&device->reports.lock);
    const uint32_t found = device->reports.hang_rows;
    if (rows) memcpy(rows, device->reports.hang, sizeof *rows * (found < most ? found : most));
    if (count) *count = found;
    if (verdict) *verdict = device->reports.hang_verdict;
    (void)pthread_mutex_unlock(&device->reports.lock);
    return PRESIL_OK;
}
