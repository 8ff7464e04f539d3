/* SPDX-License-Identifier: Apache-2.0 */
/* Copies: directly (memcpy in the mapping, or the transport's access), or through the chip's own DMA by way of the
 * staging block. */
#include "copy.h"
#include "device.h"
#include "device_memory.h"
#include "enqueue.h"
#include "fail.h"
#include "life.h"
#include "op.h"
#include "queue.h"
#include "start.h"

#include <stdlib.h>

int presil_copy_check_range(const presil_device *device, presil_daddr address, uint64_t bytes) {
    if (presil_memory_contains(device, address, bytes)) return PRESIL_OK;
    return presil_fail(PRESIL_EINVAL, "copy: %llu bytes at 0x%llx are not in device memory (0x%llx to 0x%llx)",
                       (unsigned long long)bytes, (unsigned long long)address.value,
                       (unsigned long long)device->memory.base.value,
                       (unsigned long long)(device->memory.base.value + device->memory.bytes));
}

/* Bytes of a transport that does not map are there only once it runs. */
static int need_memory(presil_device *device) {
    return device->memory.no_map && atomic_load(&device->mode) != PRESIL_MODE_MODEL ? presil_start_if_needed(device)
                                                                                    : PRESIL_OK;
}

int presil_copy_begin(presil_device *device, presil_stream **stream, presil_copy_path path) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    *stream = presil_stream_of(device, *stream);
    if (!*stream) return PRESIL_EINVAL;
    if ((*stream)->recording) return presil_fail(PRESIL_EINVAL, "copies can't be recorded: end the recording first");
    if (path != PRESIL_COPY_DIRECT && path != PRESIL_COPY_DMA)
        return presil_fail(PRESIL_EINVAL, "copy: %d is not one of presil_copy_path", (int)path);
    return need_memory(device);
}

static int begin_host(presil_device *device, presil_stream **stream, const void *host, uint64_t bytes,
                      presil_copy_path path) {
    const int status = presil_copy_begin(device, stream, path);
    return !status && !host && bytes ? presil_fail(PRESIL_EINVAL, "copy: the host buffer is NULL") : status;
}

static int push_copy(presil_device *device, presil_stream *stream, copy_item copy, bool run_now) {
    work_item item = {.kind = ITEM_COPY, .copy = copy};
    return presil_queue_push(device, stream, &item, run_now);
}

static int plan_copy(presil_device *device, presil_daddr to, presil_daddr from, uint64_t bytes, presil_plan **out) {
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_tensor end = {.data = from, .dtype = PRESIL_INT8, .ndim = 1, .shape = {(int64_t)bytes}, .stride = {1}};
    op_room room;
    presil_op_begin(&room, PRESIL_OP_COPY, "copy", 0, 0);
    (void)presil_op_add(&room, "input", &end);
    end.data = to;
    presil_op_add_output(&room, &end);
    const int status = device->chip_ops->plan(device->chip, &room.op, out, &error);
    return status ? presil_fail(status, "copy by DMA: %s", text) : PRESIL_OK;
}

/* Plans one launch for each staging block before the first is enqueued, so that a refusal leaves nothing half done. to
 * or from is the staging block, or neither (count 1). */
static int plan_all(presil_device *device, presil_daddr to, presil_daddr from, uint64_t bytes, uint64_t step,
                    bool to_staging, bool from_staging, presil_plan **plans, uint64_t *planned) {
    for (uint64_t at = 0; at < bytes; at += step) {
        const presil_daddr block_to = {to_staging ? device->memory.staging.value : to.value + at},
                           block_from = {from_staging ? device->memory.staging.value : from.value + at};
        const int status =
            plan_copy(device, block_to, block_from, bytes - at < step ? bytes - at : step, &plans[*planned]);
        if (status) return status;
        ++*planned;
    }
    return PRESIL_OK;
}

static int copy_dma(presil_device *device, presil_stream *stream, presil_daddr to, void *host_to, presil_daddr from,
                    const void *host_from, uint64_t bytes) {
    int status = atomic_load(&device->mode) == PRESIL_MODE_MODEL ? PRESIL_OK : presil_start_if_needed(device);
    if (status || bytes == 0) return status;
    const bool staged = host_to || host_from;
    const uint64_t step = staged ? STAGING_BYTES : bytes, count = (bytes - 1) / step + 1;
    presil_plan **plans = calloc(count, sizeof(presil_plan *));
    if (!plans) return presil_fail(PRESIL_EHOSTMEM, "copy by DMA: host memory is full");
    uint64_t planned = 0, used = 0;
    status = plan_all(device, to, from, bytes, step, host_to != NULL, host_from != NULL, plans, &planned);
    for (uint64_t i = 0; i < count && !status; i++) {
        const uint64_t at = i * step, n = bytes - at < step ? bytes - at : step;
        if (host_from)
            status = push_copy(
                device, stream,
                (copy_item){.to = device->memory.staging, .host_from = (const char *)host_from + at, .bytes = n},
                false);
        if (status) break;
        status = presil_plan_enqueue(device, stream, plans[used++], NULL, NULL, 0);
        if (!status && host_to)
            status = push_copy(device, stream,
                               (copy_item){.host_to = (char *)host_to + at, .from = device->memory.staging, .bytes = n},
                               false);
    }
    while (used < planned) device->chip_ops->plan_free(plans[used++]);
    free(plans);
    return status;
}

int presil_copy_to_device(presil_device *device, presil_stream *stream, presil_daddr to, const void *from,
                          uint64_t bytes, presil_copy_path path) {
    int status = begin_host(device, &stream, from, bytes, path);
    if (!status) status = presil_copy_check_range(device, to, bytes);
    if (status || bytes == 0) return status;
    if (path == PRESIL_COPY_DMA) return copy_dma(device, stream, to, NULL, (presil_daddr){0}, from, bytes);
    return push_copy(device, stream, (copy_item){.to = to, .host_from = from, .bytes = bytes}, true);
}

int presil_copy_to_host(presil_device *device, presil_stream *stream, void *to, presil_daddr from, uint64_t bytes,
                        presil_copy_path path) {
    int status = begin_host(device, &stream, to, bytes, path);
    if (!status) status = presil_copy_check_range(device, from, bytes);
    if (status || bytes == 0) return status;
    if (path == PRESIL_COPY_DMA) return copy_dma(device, stream, (presil_daddr){0}, to, from, NULL, bytes);
    return push_copy(device, stream, (copy_item){.host_to = to, .from = from, .bytes = bytes}, true);
}

int presil_copy_on_device(presil_device *device, presil_stream *stream, presil_daddr to, presil_daddr from,
                          uint64_t bytes, presil_copy_path path) {
    int status = presil_copy_begin(device, &stream, path);
    if (!status) status = presil_copy_check_range(device, to, bytes);
    if (!status) status = presil_copy_check_range(device, from, bytes);
    if (status || bytes == 0) return status;
    if (path == PRESIL_COPY_DMA && to.value != from.value) return copy_dma(device, stream, to, NULL, from, NULL, bytes);
    return push_copy(device, stream, (copy_item){.to = to, .from = from, .bytes = bytes}, true);
}
