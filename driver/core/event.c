/* SPDX-License-Identifier: Apache-2.0 */
/* Events: a position in a device's queue, and the chip's clock there. */
#include "event.h"
#include "device.h"
#include "fail.h"
#include "layouts.h"
#include "life.h"
#include "queue.h"
#include "running.h"
#include "settle.h"

#include <stdlib.h>

int presil_event_create(presil_device *device, presil_event **out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out) return presil_fail(PRESIL_EINVAL, "presil_event_create: out is NULL");
    presil_event *event = calloc(1, sizeof *event);
    if (!event) return presil_fail(PRESIL_EHOSTMEM, "presil_event_create: host memory is full");
    event->device = device;
    atomic_init(&event->references, 1);
    presil_device_hold(device);
    *out = event;
    return PRESIL_OK;
}

void presil_event_drop(presil_event *event) {
    if (!event || atomic_fetch_sub(&event->references, 1) != 1) return;
    presil_device_drop(event->device);
    free(event);
}

void presil_event_destroy(presil_event *event) { presil_event_drop(event); }

static int enter(const presil_event *event) {
    return event ? presil_enter(event->device) : presil_fail(PRESIL_EINVAL, "the event is NULL");
}

static uint64_t seq_of(presil_event *event) {
    (void)pthread_mutex_lock(&event->device->queue.lock);
    const uint64_t seq = event->seq;
    (void)pthread_mutex_unlock(&event->device->queue.lock);
    return seq;
}

int presil_event_record(presil_event *event, presil_stream *stream) {
    const int entered = enter(event);
    if (entered) return entered;
    presil_device *device = event->device;
    stream = presil_stream_of(device, stream);
    if (!stream) return PRESIL_EINVAL;
    atomic_fetch_add(&event->references, 1);
    work_item item = {.kind = ITEM_EVENT, .event = event};
    const int status = presil_queue_push(device, stream, &item, true);
    if (status) {
        presil_event_drop(event);
        return status;
    }
    (void)pthread_mutex_lock(&device->queue.lock);
    if (item.seq > event->seq) event->seq = item.seq;
    (void)pthread_mutex_unlock(&device->queue.lock);
    return PRESIL_OK;
}

/* The last one to pass wins: later records of the same event are later in the queue. */
void presil_event_passed(presil_event *event) {
    presil_device *device = event->device;
    const bool clocked = atomic_load(&device->mode) != PRESIL_MODE_MODEL &&
                         (!atomic_load(&device->started) || (device->transport.capabilities & PRESIL_CAP_CLOCKED));
    (void)pthread_mutex_lock(&device->queue.lock);
    event->cycles = device->run.clock;
    event->clocked = clocked;
    (void)pthread_mutex_unlock(&device->queue.lock);
}

int presil_event_wait(presil_event *event, presil_device *waiting, presil_stream *stream) {
    const int entered = enter(event);
    if (entered) return entered;
    const int other = presil_enter(waiting);
    if (other) return other;
    stream = presil_stream_of(waiting, stream);
    if (!stream) return PRESIL_EINVAL;
    if (waiting == event->device) return PRESIL_OK; /* one queue: it is already behind the event */
    const uint64_t seq = seq_of(event);
    if (seq == 0) return PRESIL_OK;
    presil_device_hold(event->device);
    work_item item = {.kind = ITEM_WAIT, .wait_device = event->device, .wait_seq = seq};
    const int status = presil_queue_push(waiting, stream, &item, false);
    if (status) presil_device_drop(event->device);
    return status;
}

int presil_event_synchronize(presil_event *event) {
    const int entered = enter(event);
    const int status = entered ? entered : presil_queue_wait(event->device, seq_of(event));
    if (!status) presil_layouts_told(event->device);
    return status ? status : presil_memory_settle(event->device);
}

int presil_event_query(presil_event *event) {
    const int left = enter(event), passed = left || presil_queue_passed(event->device, seq_of(event));
    if (!left && passed) presil_layouts_told(event->device);
    return passed;
}

int presil_event_cycles(presil_event *event, uint64_t *cycles) {
    const int entered = enter(event);
    if (entered) return entered;
    if (!cycles) return presil_fail(PRESIL_EINVAL, "presil_event_cycles: cycles is NULL");
    const uint64_t seq = seq_of(event);
    if (seq == 0) return presil_fail(PRESIL_EINVAL, "presil_event_cycles: the event was never recorded");
    const int status = presil_queue_wait(event->device, seq);
    if (status) return status;
    presil_layouts_told(event->device);
    (void)pthread_mutex_lock(&event->device->queue.lock);
    const bool clocked = event->clocked;
    const uint64_t value = event->cycles;
    (void)pthread_mutex_unlock(&event->device->queue.lock);
    if (!clocked)
        return presil_fail(PRESIL_EUNSUPPORTED, "presil_event_cycles: mode MODEL has no clock, nor has a loosely timed "
                                                "chip in another process; modes RTL and VERIFY have the RTL's");
    *cycles = value;
    return PRESIL_OK;
}
