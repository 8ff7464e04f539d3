/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of DRAM byte ranges, and boxes as ranges. */
#include "ranges.h"

#include <stdlib.h>

void ranges_add(range_list *list, presil_daddr base, uint64_t bytes) {
    if (bytes == 0) return;
    if (list->count) { /* rows of a tile often continue the one before */
        presil_byte_range *last = &list->at[list->count - 1];
        if (base.value == last->base.value + last->bytes) {
            last->bytes += bytes;
            return;
        }
    }
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? list->capacity * 2 : 256;
        presil_byte_range *at = realloc(list->at, capacity * sizeof *at);
        if (!at) {
            list->lost = true;
            return;
        }
        list->at = at;
        list->capacity = capacity;
    }
    list->at[list->count++] = (presil_byte_range){base, bytes};
}

void ranges_merge(range_list *list) { list->count = presil_merge_ranges(list->at, list->count); }

void ranges_free(range_list *list) {
    free(list->at);
    *list = (range_list){0};
}

void ranges_cut(range_list *list, presil_byte_range without) {
    const uint64_t from = without.base.value, end = from + without.bytes;
    const size_t count = without.bytes ? list->count : 0;
    presil_byte_range behind = {{end}, 0};
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const presil_byte_range r = list->at[i];
        const uint64_t last = r.base.value + r.bytes;
        if (last <= from || r.base.value >= end) {
            list->at[kept++] = r;
            continue;
        }
        if (last > end) behind.bytes = last - end;
        if (r.base.value < from) list->at[kept++] = (presil_byte_range){r.base, from - r.base.value};
    }
    if (count) list->count = kept;
    if (!behind.bytes) return;
    ranges_add(list, behind.base, behind.bytes);
    ranges_merge(list);
}

/* ---- boxes */
presil_byte_range presil_box_hull(const presil_box *box) {
    uint64_t bytes = box->bytes;
    for (uint32_t i = 0; i < box->dims; i++) {
        uint64_t reach;
        if (box->count[i] == 0) return (presil_byte_range){box->base, 0};
        if (__builtin_mul_overflow(box->count[i] - 1, box->stride[i], &reach) ||
            __builtin_add_overflow(bytes, reach, &bytes))
            return (presil_byte_range){box->base, UINT64_MAX};
    }
    return (presil_byte_range){box->base, bytes};
}

/* The next row's index; false: that was the last. */
static bool next_row(const presil_box *box, uint64_t index[PRESIL_BOX_DIMS], uint64_t *at) {
    for (uint32_t i = 0; i < box->dims; i++) {
        *at += box->stride[i];
        if (++index[i] < box->count[i]) return true;
        *at -= box->count[i] * box->stride[i];
        index[i] = 0;
    }
    return false;
}

static int each_row(presil_device *device, const presil_box *box, presil_ranges_fn fn) {
    enum { TOGETHER = 64 };
    presil_byte_range rows[TOGETHER];
    uint64_t index[PRESIL_BOX_DIMS] = {0}, at = box->base.value;
    uint32_t n = 0;
    if (presil_box_hull(box).bytes == 0) return 0;
    for (bool more = true; more;) {
        rows[n++] = (presil_byte_range){{at}, box->bytes};
        more = next_row(box, index, &at);
        if (n < TOGETHER && more) continue;
        const int status = fn(device, rows, n);
        if (status) return status;
        n = 0;
    }
    return 0;
}

int presil_each_write(presil_device *device, const presil_plan_info *info, presil_ranges_fn fn) {
    int status = info->write_count ? fn(device, info->writes, info->write_count) : 0;
    for (uint32_t i = 0; i < info->write_box_count && !status; i++)
        status = each_row(device, &info->write_boxes[i], fn);
    return status;
}

void ranges_add_writes(range_list *list, const presil_plan_info *info) {
    for (uint32_t i = 0; i < info->write_count; i++) ranges_add(list, info->writes[i].base, info->writes[i].bytes);
    for (uint32_t i = 0; i < info->write_box_count; i++) {
        const presil_box *box = &info->write_boxes[i];
        uint64_t index[PRESIL_BOX_DIMS] = {0}, at = box->base.value;
        if (presil_box_hull(box).bytes == 0) continue;
        do ranges_add(list, (presil_daddr){at}, box->bytes);
        while (next_row(box, index, &at));
    }
    ranges_merge(list);
}

uint64_t ranges_only_in(const range_list *a, const range_list *b, uint64_t *first) {
    uint64_t bytes = 0;
    size_t j = 0;
    for (size_t i = 0; i < a->count; i++) {
        uint64_t at = a->at[i].base.value;
        const uint64_t end = at + a->at[i].bytes;
        while (at < end) {
            while (j < b->count && b->at[j].base.value + b->at[j].bytes <= at) j++;
            const bool covered = j < b->count && b->at[j].base.value <= at;
            const uint64_t next = j == b->count ? end
                                  : covered     ? b->at[j].base.value + b->at[j].bytes
                                                : b->at[j].base.value;
            const uint64_t stop = next < end ? next : end;
            if (!covered) {
                if (bytes == 0) *first = at;
                bytes += stop - at;
            }
            at = stop;
        }
    }
    return bytes;
}
