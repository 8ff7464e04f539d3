/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded lists for operands at other places. */
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "kept_op.h"
#include "life.h"
#include "presil_clock.h"
#include "presil_heap.h"
#include "queue.h"
#include "recording.h"

#include <stdlib.h>
#include <string.h>

static int by_place(const void *a, const void *b) {
    const uint64_t x = ((const presil_move *)a)->from.value, y = ((const presil_move *)b)->from.value;
    return (x > y) - (x < y);
}

static int check(const presil_device *device, const presil_move *m) {
    if ((m->to.value - m->from.value) % PRESIL_HEAP_PAGE)
        return presil_fail(PRESIL_EINVAL,
                           "presil_list_moved: from 0x%llx to 0x%llx: the distance is no multiple of %u, and what a "
                           "launch does depends on addresses within a page: record it there",
                           (unsigned long long)m->from.value, (unsigned long long)m->to.value, PRESIL_HEAP_PAGE);
    if (!presil_memory_contains(device, m->to, m->bytes))
        return presil_fail(PRESIL_EINVAL, "presil_list_moved: %llu bytes at 0x%llx are not all device memory",
                           (unsigned long long)m->bytes, (unsigned long long)m->to.value);
    return PRESIL_OK;
}

/* Sorted and disjoint; *count: how many are left. */
static int normalise(const presil_device *device, presil_move *list, uint32_t *count) {
    uint32_t kept = 0;
    qsort(list, *count, sizeof *list, by_place);
    for (uint32_t i = 0; i < *count; i++) {
        presil_move *last = kept ? &list[kept - 1] : NULL;
        const presil_move m = list[i];
        if (!m.bytes) continue;
        const int status = check(device, &m);
        if (status) return status;
        if (!last || m.from.value >= last->from.value + last->bytes) {
            list[kept++] = m;
            continue;
        }
        if (m.to.value - m.from.value != last->to.value - last->from.value)
            return presil_fail(PRESIL_EINVAL,
                               "presil_list_moved: what begins at 0x%llx and at 0x%llx shares bytes, and is to part",
                               (unsigned long long)last->from.value, (unsigned long long)m.from.value);
        const uint64_t end = m.from.value + m.bytes;
        if (end > last->from.value + last->bytes) last->bytes = end - last->from.value;
    }
    *count = kept;
    return PRESIL_OK;
}

/* NULL: no host memory, or nothing is known. */
static launch_tensors *moved_tensors(const launch_tensors *from, const presil_move *moves, uint32_t count) {
    launch_tensors *out = from ? malloc(sizeof *out + from->count * sizeof *from->at) : NULL;
    if (!out) return NULL;
    out->count = from->count;
    for (size_t i = 0; i < from->count; i++) {
        out->at[i] = from->at[i];
        out->at[i].tensor.data = presil_moved(moves, count, from->at[i].tensor.data);
    }
    out->op = from->op ? presil_keep_moved_op(from->op, moves, count) : NULL;
    return out;
}

static int move_plan(presil_list *to, const recorded_plan *from, const presil_move *moves, uint32_t count) {
    const presil_chip_ops *chip = to->device->chip_ops;
    const uint64_t start = presil_now_ns();
    char text[ERROR_TEXT] = "";
    presil_plan *plan = NULL;
    int status =
        chip->moved(to->device->chip, from->plan, moves, count, &plan, &(presil_error_buffer){text, sizeof text});
    if (status) return presil_fail(status, "presil_list_moved: %s", text);
    launch_tensors *tensors = moved_tensors(from->tensors, moves, count);
    status = presil_list_append(to, plan, tensors, NULL, presil_now_ns() - start);
    if (status) {
        chip->plan_free(plan);
        presil_tensors_drop(tensors);
    }
    return status;
}

int presil_list_moved(const presil_list *list, const presil_move *moves, uint32_t count, presil_list **out) {
    if (!list || !out || (count && !moves))
        return presil_fail(PRESIL_EINVAL, "presil_list_moved: list, moves or out is NULL");
    presil_device *device = list->device;
    int status = presil_enter(device);
    if (!status) status = presil_list_as_it_lies(list, "presil_list_moved");
    if (status) return status;
    if (!device->chip_ops->moved)
        return presil_fail(PRESIL_EUNSUPPORTED, "presil_list_moved: the chip \"%s\" can't move its commands",
                           device->chip_ops->name);
    presil_move *own = malloc((count + 1) * sizeof *own);
    presil_list *to = own ? presil_list_new(device) : NULL;
    if (!to) {
        free(own);
        return presil_fail(PRESIL_EHOSTMEM, "presil_list_moved: host memory is full");
    }
    if (count) memcpy(own, moves, count * sizeof *own);
    status = normalise(device, own, &count);
    for (size_t i = 0; i < list->count && !status; i++) status = move_plan(to, &list->plans[i], own, count);
    free(own);
    if (status) return presil_list_give_up(to, status);
    *out = to;
    return PRESIL_OK;
}
