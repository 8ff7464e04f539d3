/* SPDX-License-Identifier: Apache-2.0 */
#include "core.h"

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

static int by_base(const void *a, const void *b) {
    const uint64_t x = ((const presil_byte_range *)a)->base.value, y = ((const presil_byte_range *)b)->base.value;
    return (x > y) - (x < y);
}

void ranges_merge(range_list *list) {
    if (list->count < 2) return;
    bool sorted = true;
    for (size_t i = 1; i < list->count && sorted; i++) sorted = list->at[i - 1].base.value <= list->at[i].base.value;
    if (!sorted) qsort(list->at, list->count, sizeof *list->at, by_base);
    size_t to = 0;
    for (size_t i = 1; i < list->count; i++) {
        presil_byte_range *last = &list->at[to];
        const uint64_t end = last->base.value + last->bytes, other = list->at[i].base.value + list->at[i].bytes;
        if (list->at[i].base.value > end)
            list->at[++to] = list->at[i];
        else if (other > end)
            last->bytes = other - last->base.value;
    }
    list->count = to + 1;
}

void ranges_free(range_list *list) {
    free(list->at);
    *list = (range_list){0};
}
