/* SPDX-License-Identifier: Apache-2.0 */
/* What the runner does with an item of the queue. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

/* Between two blocks of a device whose memory is not mapped: through a buffer. */
static int copy_unmapped(presil_device *device, const copy_item *copy) {
    void *buffer = malloc(copy->bytes);
    if (!buffer)
        return presil_fail(PRESIL_EHOSTMEM, "copy on the device: no host memory for %llu bytes",
                           (unsigned long long)copy->bytes);
    int status = presil_memory_read(device, copy->from, buffer, copy->bytes);
    if (!status) status = presil_memory_write(device, copy->to, buffer, copy->bytes);
    free(buffer);
    return status;
}

static int copy_bytes(presil_device *device, const copy_item *copy) {
    if (copy->host_to && copy->host_from) {
        memmove(copy->host_to, copy->host_from, copy->bytes);
        return PRESIL_OK;
    }
    if (copy->host_to) return presil_memory_read(device, copy->from, copy->host_to, copy->bytes);
    if (copy->host_from) return presil_memory_write(device, copy->to, copy->host_from, copy->bytes);
    if (!presil_memory_home_is_mapping(device)) return copy_unmapped(device, copy);
    memmove(presil_memory_at(device, copy->to), presil_memory_at(device, copy->from), copy->bytes);
    return PRESIL_OK;
}

int presil_execute(presil_device *device, const work_item *item) {
    switch (item->kind) {
    case ITEM_EVENT: presil_event_passed(item->event); return PRESIL_OK;
    /* The other queue's items up to there were enqueued earlier, and wait for nothing later: no circle. A closed device
     * has passed everything. */
    case ITEM_WAIT:
        return atomic_load(&item->wait_device->closed) ? PRESIL_OK
                                                       : presil_queue_wait(item->wait_device, item->wait_seq);
    case ITEM_COPY:
        if (presil_cancelled(device, item->seq))
            return presil_fail(PRESIL_ECANCELLED, "a copy of %llu bytes was cancelled before it began",
                               (unsigned long long)item->copy.bytes);
        return copy_bytes(device, &item->copy);
    case ITEM_LAUNCH:
        if (presil_cancelled(device, item->seq))
            return presil_fail(PRESIL_ECANCELLED, "the launch was cancelled before it began");
        return presil_launch(device, item);
    }
    return PRESIL_OK;
}

void presil_item_free(work_item *item) {
    if (item->kind == ITEM_LAUNCH) {
        if (item->list)
            presil_list_drop(item->list);
        else
            item->stream->device->chip_ops->plan_free(item->plan);
    }
    if (item->kind == ITEM_COPY) free(item->copy.owned);
    if (item->kind == ITEM_EVENT) presil_event_drop(item->event);
    if (item->kind == ITEM_WAIT) presil_device_drop(item->wait_device);
}
