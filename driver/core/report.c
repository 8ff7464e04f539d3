/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks, and the names of what reports count. */
#include "core.h"

void presil_set_report(presil_device *device, presil_report_fn fn, void *context) {
    if (presil_enter(device)) return;
    (void)pthread_mutex_lock(&device->report_lock);
    const bool same = fn == device->report && context == device->report_context;
    device->report = fn;
    device->report_context = context;
    /* The one before may be running: its context is not the caller's again before it has returned. */
    while (!same && device->reporting && !pthread_equal(device->reporter, pthread_self()))
        (void)pthread_cond_wait(&device->reported, &device->report_lock);
    (void)pthread_mutex_unlock(&device->report_lock);
}

void presil_report_deliver(presil_device *device, const presil_report *report) {
    (void)pthread_mutex_lock(&device->report_lock);
    const presil_report_fn function = device->report;
    void *context = device->report_context;
    device->reporting = function != NULL;
    device->reporter = pthread_self();
    (void)pthread_mutex_unlock(&device->report_lock);
    if (!function) return;
    function(context, report);
    (void)pthread_mutex_lock(&device->report_lock);
    device->reporting = false;
    (void)pthread_cond_broadcast(&device->reported);
    (void)pthread_mutex_unlock(&device->report_lock);
}

void presil_set_progress(presil_device *device, presil_progress_fn fn, void *context) {
    if (presil_enter(device)) return;
    (void)pthread_mutex_lock(&device->report_lock);
    device->progress = fn;
    device->progress_context = context;
    (void)pthread_mutex_unlock(&device->report_lock);
}

int presil_device_get_names(presil_device *device, presil_names *out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out || out->size < sizeof out->size)
        return presil_fail(PRESIL_EINVAL, "presil_device_get_names: out->size must be sizeof(presil_names)");
    presil_names own = {.size = sizeof own};
    const int status = device->chip_ops->names ? device->chip_ops->names(device->chip, &own) : PRESIL_OK;
    if (status) return presil_fail(status, "the chip \"%s\" gives no names", device->chip_ops->name);
    if (own.engine_count > PRESIL_ENGINES || own.cause_count > PRESIL_CAUSES || own.counter_count > PRESIL_COUNTERS)
        return presil_fail(PRESIL_ENODEV,
                           "the chip \"%s\" names %u engines, %u causes, %u counters; reports have room for %d, %d, %d",
                           device->chip_ops->name, own.engine_count, own.cause_count, own.counter_count, PRESIL_ENGINES,
                           PRESIL_CAUSES, PRESIL_COUNTERS);
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}
