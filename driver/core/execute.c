/* SPDX-License-Identifier: Apache-2.0 */
/* What the runner does with an item of the queue. */
#include "execute.h"
#include "bytes.h"
#include "conversions.h"
#include "device.h"
#include "device_memory.h"
#include "event.h"
#include "fail.h"
#include "in_flight.h"
#include "kept_op.h"
#include "launch.h"
#include "layouts.h"
#include "life.h"
#include "listeners.h"
#include "peer.h"
#include "queue.h"
#include "recording.h"
#include "residency.h"
#include "scratch.h"
#include "weights.h"

#include <stdlib.h>
#include <string.h>

/* Between two blocks of a device whose memory is not mapped: through a buffer, from the end where the target lies
 * behind the source and over it. */
static int copy_unmapped(presil_device *device, const copy_item *copy) {
    const uint64_t size = copy->bytes < COPY_BLOCK_BYTES ? copy->bytes : COPY_BLOCK_BYTES;
    const bool backwards = copy->to.value > copy->from.value;
    void *buffer = malloc(size);
    if (!buffer)
        return presil_fail(PRESIL_EHOSTMEM, "copy on the device: no host memory for %llu bytes",
                           (unsigned long long)size);
    int status = PRESIL_OK;
    for (uint64_t done = 0, n; done < copy->bytes && !status; done += n) {
        n = copy->bytes - done < size ? copy->bytes - done : size;
        const uint64_t at = backwards ? copy->bytes - done - n : done;
        status = presil_memory_read(device, (presil_daddr){copy->from.value + at}, buffer, n);
        if (!status) status = presil_memory_write(device, (presil_daddr){copy->to.value + at}, buffer, n);
    }
    free(buffer);
    return status;
}

static int copy_bytes(presil_device *device, const copy_item *copy) {
    if (copy->host_to && copy->host_from) {
        memmove(copy->host_to, copy->host_from, copy->bytes);
        return PRESIL_OK;
    }
    int status = copy->host_from ? PRESIL_OK : presil_layouts_bring(device, copy->from, copy->bytes, false);
    if (!status && !copy->host_to) status = presil_layouts_overwrite(device, copy->to, copy->bytes);
    if (status) return status;
    if (copy->host_to) return presil_memory_read(device, copy->from, copy->host_to, copy->bytes);
    if (copy->host_from) return presil_memory_write(device, copy->to, copy->host_from, copy->bytes);
    if (!presil_memory_home_is_mapping(device)) return copy_unmapped(device, copy);
    status = presil_residency_fetch(device, copy->from, copy->bytes);
    if (!status) status = presil_residency_fetch(device, copy->to, copy->bytes);
    if (!status) memmove(presil_memory_at(device, copy->to), presil_memory_at(device, copy->from), copy->bytes);
    return status;
}

static int run_copy(presil_device *device, const work_item *item) {
    const copy_item *copy = &item->copy;
    int status = copy->peer ? presil_peer_before(copy->peer) : PRESIL_OK;
    if (!status && !copy->weights && presil_cancelled(device, item->seq))
        status = presil_fail(PRESIL_ECANCELLED, "%s of %llu bytes was cancelled before it began",
                             copy->peer ? "presil_copy_peer: a block" : "a copy", (unsigned long long)copy->bytes);
    if (!status) status = copy_bytes(device, copy);
    if (copy->peer) presil_peer_after(copy->peer, status);
    if (copy->weights) atomic_store(&copy->weights->unwritten, status != PRESIL_OK);
    return status;
}

static int execute(presil_device *device, const work_item *item) {
    device->residency.seq = item->seq;
    switch (item->kind) {
    case ITEM_EVENT: presil_event_passed(item->event); return PRESIL_OK;
    /* The other queue's items up to there were enqueued earlier, and wait for nothing later: no circle. A closed device
     * has passed everything. */
    case ITEM_WAIT:
        return atomic_load(&item->wait_device->closed) ? PRESIL_OK
                                                       : presil_queue_wait(item->wait_device, item->wait_seq);
    case ITEM_COPY: return run_copy(device, item);
    case ITEM_LAUNCH:
        if (presil_cancelled(device, item->seq))
            return presil_fail(PRESIL_ECANCELLED, "the launch was cancelled before it began");
        return presil_launch(device, item);
    }
    return PRESIL_OK;
}

static void item_free(work_item *item) {
    if (item->kind == ITEM_LAUNCH) {
        if (item->list)
            presil_list_drop(item->list);
        else if (!presil_capture_took(item->stream->device, item->plan)) {
            item->stream->device->chip_ops->plan_free(item->plan);
            presil_tensors_drop(item->tensors);
        }
        if (!item->list) presil_layouts_drop(item->layouts);
    }
    if (item->kind == ITEM_COPY) {
        free(item->copy.owned);
        presil_peer_drop(item->copy.peer);
        presil_weights_drop(item->copy.weights);
    }
    if (item->kind == ITEM_EVENT) presil_event_drop(item->event);
    if (item->kind == ITEM_WAIT) presil_device_drop(item->wait_device);
}

const queue_ops presil_execution = {.execute = execute,
                                    .item_free = item_free,
                                    .admit = presil_scratch_admit,
                                    .begin = presil_flight_begin,
                                    .finish = presil_flight_finish};
