/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of DRAM one by one, and as ranges. */
#include <stdlib.h>
#include "rows.h"

bool chip_each_row(const dram_rows *w, dram_row_fn row, void *context) {
    if (!w->length) return true;
    for (int64_t i3 = 0; i3 < w->n[2]; i3++) {
        for (int64_t i2 = 0; i2 < w->n[1]; i2++) {
            for (int64_t i1 = 0; i1 < w->n[0]; i1++) {
                const int64_t position = w->rp[0] + i1 * w->rp[1] + i2 * w->rp[2] + i3 * w->rp[3];
                if (w->limit && (position < 0 || position >= w->limit)) continue;
                const int64_t at = i1 * w->ds[0] + i2 * w->ds[1] + i3 * w->ds[2];
                if (!row(context, w->addr + (uint64_t)at, w->length)) return false;
            }
        }
    }
    return true;
}

/* A full list is merged, and grows where that leaves it more than half full: its length follows from the memory that
 * the rows cover, not from how often they cover it. */
bool chip_add_row(void *row_list, uint64_t base, uint64_t bytes) {
    dram_row_list *list = row_list;
    presil_byte_range *last = list->count ? &list->at[list->count - 1] : NULL;
    if (last && last->base.value + last->bytes == base) {
        last->bytes += bytes;
        return true;
    }
    const bool full = list->count == list->capacity;
    if (full) list->count = presil_merge_ranges(list->at, list->count);
    if (full && list->count >= list->capacity / 2) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 256;
        presil_byte_range *grown = realloc(list->at, capacity * sizeof *grown);
        if (!grown) return false;
        list->at = grown;
        list->capacity = capacity;
    }
    list->at[list->count++] = (presil_byte_range){{base}, bytes};
    return true;
}
