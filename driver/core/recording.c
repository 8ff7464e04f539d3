/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded command lists. */
#include "recording.h"
#include "conversions.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "kept_op.h"
#include "layouts.h"
#include "life.h"
#include "look_at_plan.h"
#include "presil_clock.h"
#include "presil_debug.h"
#include "presil_heap.h"
#include "presil_image.h"
#include "queue.h"
#include "scratch.h"
#include "start.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

presil_list *presil_list_new(presil_device *device) {
    presil_list *list = calloc(1, sizeof *list);
    if (!list) return NULL;
    list->device = device;
    atomic_init(&list->references, 1);
    presil_device_hold(device);
    return list;
}

int presil_list_give_up(presil_list *list, int status) {
    char text[ERROR_TEXT];
    (void)snprintf(text, sizeof text, "%s", presil_error_text());
    presil_list_drop(list);
    return presil_fail(status, "%s", text);
}

int presil_record_begin(presil_device *device, presil_stream *stream) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    stream = presil_stream_of(device, stream);
    if (!stream) return PRESIL_EINVAL;
    if (stream->recording) return presil_fail(PRESIL_EINVAL, "presil_record_begin: the stream is recording already");
    stream->recording = presil_list_new(device);
    return stream->recording ? PRESIL_OK : presil_fail(PRESIL_EHOSTMEM, "presil_record_begin: host memory is full");
}

int presil_record_end(presil_device *device, presil_stream *stream, presil_list **out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    stream = presil_stream_of(device, stream);
    if (!stream) return PRESIL_EINVAL;
    if (!out) return presil_fail(PRESIL_EINVAL, "presil_record_end: out is NULL");
    if (!stream->recording) return presil_fail(PRESIL_EINVAL, "presil_record_end: the stream is not recording");
    *out = stream->recording;
    stream->recording = NULL;
    return PRESIL_OK;
}

recorded_plan presil_recorded(const presil_device *device, presil_plan *plan, launch_tensors *tensors,
                              uint64_t plan_ns) {
    presil_plan_info info;
    recorded_plan out = {.plan = plan, .tensors = tensors, .plan_ns = plan_ns};
    if (!presil_plan_look(device, plan, &info)) out.scratch = presil_scratch_of(&info);
    return out;
}

int presil_list_append(presil_list *list, presil_plan *plan, launch_tensors *tensors, launch_layouts *layouts,
                       uint64_t plan_ns) {
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? list->capacity * 2 : 16;
        recorded_plan *plans = realloc(list->plans, capacity * sizeof *plans);
        if (!plans) return presil_fail(PRESIL_EHOSTMEM, "recording: host memory is full");
        list->plans = plans;
        list->capacity = capacity;
    }
    recorded_plan *recorded = &list->plans[list->count++];
    *recorded = presil_recorded(list->device, plan, tensors, plan_ns);
    recorded->layouts = layouts;
    presil_layouts_keep(list->device, layouts);
    return PRESIL_OK;
}

int presil_list_as_it_lies(const presil_list *list, const char *what) {
    for (size_t i = 0; i < list->count; i++) {
        if (list->plans[i].layouts)
            return presil_fail(
                PRESIL_EUNSUPPORTED,
                "%s: launch %zu has tensors in the chip's own layout, as \"%s\" takes no others there, and "
                "the driver converts before each launch: submit the list as it was recorded",
                what, i, list->device->chip_ops->name);
    }
    return PRESIL_OK;
}

static void free_plans(presil_list *list) {
    for (size_t i = 0; i < list->count; i++) {
        list->device->chip_ops->plan_free(list->plans[i].plan);
        presil_tensors_drop(list->plans[i].tensors);
        presil_layouts_unkeep(list->device, list->plans[i].layouts);
    }
}

void presil_list_drop(presil_list *list) {
    if (!list || atomic_fetch_sub(&list->references, 1) != 1) return;
    free_plans(list);
    free(list->plans);
    presil_device_drop(list->device);
    free(list);
}

static launch_tensors *join_tensors(const recorded_plan *plans, size_t count) {
    size_t all = 0;
    for (size_t i = 0; i < count; i++) all += plans[i].tensors ? plans[i].tensors->count : 0;
    launch_tensors *out = all ? malloc(sizeof *out + all * sizeof *out->at) : NULL;
    if (!out) return NULL;
    out->count = 0;
    out->op = NULL;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; plans[i].tensors && k < plans[i].tensors->count; k++)
            out->at[out->count++] = plans[i].tensors->at[k];
    }
    return out;
}

int presil_list_merge(presil_list *list, const char *label) {
    if (!list) return presil_fail(PRESIL_EINVAL, "presil_list_merge: list is NULL");
    presil_device *device = list->device;
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (atomic_load(&list->submitted))
        return presil_fail(PRESIL_EINVAL, "presil_list_merge: the list is submitted already");
    if (!device->chip_ops->merge)
        return presil_fail(PRESIL_EUNSUPPORTED, "presil_list_merge: this chip takes one operator a launch");
    if (list->count < 2) return PRESIL_OK;
    const int packed = presil_list_as_it_lies(list, "presil_list_merge");
    if (packed) return packed;
    const presil_plan **plans = malloc(list->count * sizeof *plans);
    if (!plans) return presil_fail(PRESIL_EHOSTMEM, "presil_list_merge: host memory is full");
    const uint64_t start = presil_now_ns();
    uint64_t ns = 0;
    for (size_t i = 0; i < list->count; i++) {
        plans[i] = list->plans[i].plan;
        ns += list->plans[i].plan_ns;
    }
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_plan *merged = NULL;
    const int status = device->chip_ops->merge(device->chip, plans, (uint32_t)list->count, label, &merged, &error);
    free(plans);
    if (status) return presil_fail(status, "presil_list_merge: %s", text);
    launch_tensors *tensors = join_tensors(list->plans, list->count);
    free_plans(list);
    list->plans[0] = presil_recorded(device, merged, tensors, ns + presil_now_ns() - start);
    list->count = 1;
    return PRESIL_OK;
}

/* Blocks in layouts of the chip's own give way. */
int presil_launch_push(presil_device *device, presil_stream *stream, work_item *item) {
    int status = presil_queue_push(device, stream, item, false);
    if (status == PRESIL_ENOMEM && atomic_load(&device->layouts.count) && !presil_layouts_release(device))
        status = presil_queue_push(device, stream, item, false);
    if (status == PRESIL_ENOMEM) presil_memory_count_failure(device);
    return status;
}

uint32_t presil_list_launches(const presil_list *list) { return list ? (uint32_t)list->count : 0; }

int presil_list_submit(presil_list *list, presil_stream *stream) {
    if (!list) return presil_fail(PRESIL_EINVAL, "presil_list_submit: list is NULL");
    presil_device *device = list->device;
    int status = presil_enter(device);
    if (status) return status;
    stream = presil_stream_of(device, stream);
    if (!stream) return PRESIL_EINVAL;
    if (stream->recording) return presil_fail(PRESIL_EINVAL, "presil_list_submit: the stream is recording");
    const bool again = atomic_exchange(&list->submitted, true); /* planning is charged to the first time */
    if (atomic_load(&device->mode) != PRESIL_MODE_MODEL) status = presil_start_if_needed(device);
    const uint64_t origin = presil_origin();
    for (size_t i = 0; i < list->count && !status; i++) {
        (void)atomic_fetch_add(&list->references, 1);
        work_item item = {.kind = ITEM_LAUNCH,
                          .plan = list->plans[i].plan,
                          .list = list,
                          .tensors = list->plans[i].tensors,
                          .layouts = list->plans[i].layouts,
                          .scratch = list->plans[i].scratch,
                          .plan_ns = again ? 0 : list->plans[i].plan_ns,
                          .origin = origin};
        status = presil_launch_push(device, stream, &item);
        if (status) presil_list_drop(list);
    }
    return status;
}

void presil_list_destroy(presil_list *list) { presil_list_drop(list); }

/* ---- as bytes: the number of plans, then for each its size and its image, both padded to 8 bytes */
static uint64_t padded(uint64_t bytes) { return (bytes + 7) & ~(uint64_t)7; }

int presil_list_save(const presil_list *list, presil_daddr base, void *to, uint64_t *size) {
    if (!list || !size) return presil_fail(PRESIL_EINVAL, "presil_list_save: list or size is NULL");
    const presil_chip_ops *chip = list->device->chip_ops;
    if (!chip->save) return presil_fail(PRESIL_EUNSUPPORTED, "presil_list_save: this chip's commands can't be stored");
    const int packed = presil_list_as_it_lies(list, "presil_list_save");
    if (packed) return packed;
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    uint64_t need = 8;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t bytes = 0;
        const int status = chip->save(list->plans[i].plan, base, NULL, &bytes, &error);
        if (status) return presil_fail(status, "presil_list_save: %s", text);
        need += 8 + padded(bytes);
    }
    if (to && *size < need)
        return presil_fail(PRESIL_EINVAL, "presil_list_save: %llu bytes needed, room for %llu",
                           (unsigned long long)need, (unsigned long long)*size);
    *size = need;
    if (!to) return PRESIL_OK;
    uint8_t *p = to;
    memset(p, 0, need);
    memcpy(p, &(uint64_t){list->count}, 8);
    p += 8;
    for (size_t i = 0; i < list->count; i++) {
        uint64_t bytes = need;
        const int status = chip->save(list->plans[i].plan, base, p + 8, &bytes, &error);
        if (status) return presil_fail(status, "presil_list_save: %s", text);
        memcpy(p, &bytes, 8);
        p += 8 + padded(bytes);
    }
    return PRESIL_OK;
}

typedef int (*load_fn)(const presil_chip *, const void *, uint64_t, presil_daddr, uint64_t, presil_plan **,
                       presil_error_buffer *);

static int load_plans(presil_list *list, const uint8_t *from, uint64_t size, presil_daddr base, uint64_t bytes,
                      load_fn load) {
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    uint64_t count, at = 8;
    memcpy(&count, from, 8);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t length;
        if (size - at < 8)
            return presil_fail(PRESIL_EINVAL, "presil_list_load: the commands end after %llu of %llu launches",
                               (unsigned long long)i, (unsigned long long)count);
        memcpy(&length, from + at, 8);
        at += 8;
        if (length > size - at || padded(length) > size - at)
            return presil_fail(PRESIL_EINVAL, "presil_list_load: launch %llu has %llu bytes, %llu are left",
                               (unsigned long long)i, (unsigned long long)length, (unsigned long long)(size - at));
        presil_plan *plan = NULL;
        int status = load(list->device->chip, from + at, length, base, bytes, &plan, &error);
        if (status) return presil_fail(status, "presil_list_load: %s", text);
        status = presil_list_append(list, plan, NULL, NULL, 0);
        if (status) {
            list->device->chip_ops->plan_free(plan);
            return status;
        }
        at += padded(length);
    }
    return at == size ? PRESIL_OK
                      : presil_fail(PRESIL_EINVAL, "presil_list_load: %llu bytes behind the last launch",
                                    (unsigned long long)(size - at));
}

static int load_list(presil_device *device, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                     load_fn load, presil_list **out) {
    if (!from || !out || size < 8)
        return presil_fail(PRESIL_EINVAL, "presil_list_load: from or out is NULL, or size %llu is below 8",
                           (unsigned long long)size);
    if (!load) return presil_fail(PRESIL_EUNSUPPORTED, "presil_list_load: this chip's commands can't be stored");
    if (base.value % PRESIL_HEAP_PAGE || !presil_memory_contains(device, base, bytes))
        return presil_fail(PRESIL_EINVAL, "presil_list_load: 0x%llx is not 4 KiB-aligned in device memory",
                           (unsigned long long)base.value);
    presil_list *list = presil_list_new(device);
    if (!list) return presil_fail(PRESIL_EHOSTMEM, "presil_list_load: host memory is full");
    const int status = load_plans(list, from, size, base, bytes, load);
    if (status) return presil_list_give_up(list, status);
    *out = list;
    return PRESIL_OK;
}

int presil_list_load(presil_device *device, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                     presil_list **out) {
    const int entered = presil_enter(device);
    return entered ? entered : load_list(device, from, size, base, bytes, device->chip_ops->load, out);
}

int presil_list_load_refused(presil_device *device, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
                             presil_list **out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    const presil_chip_ops *chip = device->chip_ops;
    const load_fn load = chip->load_refused ? chip->load_refused : chip->load;
    return load_list(device, from, size, base, bytes, load, out);
}
