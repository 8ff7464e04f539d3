/* SPDX-License-Identifier: Apache-2.0 */
/* Streams: sticky errors over the one queue of the device. */
#include "stream.h"
#include "device.h"
#include "fail.h"
#include "layouts.h"
#include "life.h"
#include "queue.h"
#include "recording.h"
#include "settle.h"

#include <stdlib.h>

int presil_stream_create(presil_device *device, int priority, presil_stream **out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    (void)priority; /* one queue: program order is the only priority */
    if (!out) return presil_fail(PRESIL_EINVAL, "presil_stream_create: out is NULL");
    presil_stream *stream = calloc(1, sizeof *stream);
    if (!stream) return presil_fail(PRESIL_EHOSTMEM, "presil_stream_create: host memory is full");
    stream->device = device;
    presil_device_hold(device);
    (void)pthread_mutex_lock(&device->queue.lock);
    stream->next = device->queue.streams;
    device->queue.streams = stream;
    (void)pthread_mutex_unlock(&device->queue.lock);
    *out = stream;
    return PRESIL_OK;
}

void presil_stream_destroy(presil_stream *stream) {
    if (!stream) return;
    presil_device *device = stream->device;
    if (!presil_enter(device)) {
        if (presil_queue_wait(device, stream->last_seq)) return; /* from a callback: it is still in use */
        (void)pthread_mutex_lock(&device->queue.lock);
        for (presil_stream **at = &device->queue.streams; *at; at = &(*at)->next) {
            if (*at != stream) continue;
            *at = stream->next;
            break;
        }
        (void)pthread_mutex_unlock(&device->queue.lock);
        if (stream->error) (void)atomic_fetch_sub(&device->queue.errors, 1);
        if (stream->error)
            presil_warn("presil_stream_destroy: an error was never asked for: %s: %s",
                        presil_status_name((presil_status)stream->error), stream->error_text);
    }
    presil_list_drop(stream->recording);
    presil_device_drop(device);
    free(stream);
}

/* Returns and clears the stream's error; with the lock held. */
static int take_error(presil_stream *stream) {
    const int status = stream->error;
    if (!status) return PRESIL_OK;
    presil_stream_clear_error(stream);
    (void)presil_fail(status, "%s", stream->error_text);
    presil_set_error_origin(stream->error_origin);
    return status;
}

int presil_stream_synchronize(presil_device *device, presil_stream *stream) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    stream = presil_stream_of(device, stream);
    if (!stream) return PRESIL_EINVAL;
    int status = presil_queue_wait(device, stream->last_seq);
    if (status) return status;
    presil_layouts_told(device);
    (void)pthread_mutex_lock(&device->queue.lock);
    status = take_error(stream);
    (void)pthread_mutex_unlock(&device->queue.lock);
    return status ? status : presil_memory_settle(device);
}

int presil_stream_query(presil_device *device, presil_stream *stream) {
    if (presil_enter(device)) return 1;
    stream = presil_stream_of(device, stream);
    const int passed = stream ? presil_queue_passed(device, stream->last_seq) : 1;
    if (passed) presil_layouts_told(device);
    return passed;
}

int presil_device_wait(presil_device *device) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    int status = presil_queue_wait(device, atomic_load(&device->queue.submitted));
    if (status || !atomic_load(&device->queue.errors)) return status;
    (void)pthread_mutex_lock(&device->queue.lock);
    presil_stream *first = device->queue.default_stream.error ? &device->queue.default_stream : NULL;
    for (presil_stream *s = device->queue.streams; s; s = s->next) {
        if (s->error && (!first || s->error_seq < first->error_seq)) first = s;
    }
    if (first) {
        status = take_error(first);
        presil_stream_clear_error(&device->queue.default_stream);
        for (presil_stream *s = device->queue.streams; s; s = s->next) presil_stream_clear_error(s);
    }
    (void)pthread_mutex_unlock(&device->queue.lock);
    return status;
}

int presil_device_synchronize(presil_device *device) {
    const int status = presil_device_wait(device);
    if (device) presil_layouts_told(device);
    return status ? status : presil_memory_settle(device);
}
