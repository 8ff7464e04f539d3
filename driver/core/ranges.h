/* SPDX-License-Identifier: Apache-2.0 */
/* ranges.h - lists of DRAM byte ranges, and boxes as ranges. */
#ifndef PRESIL_CORE_RANGES_H
#define PRESIL_CORE_RANGES_H

#include <stdbool.h>
#include <stddef.h>
#include "presil_chip.h"

typedef struct {
    presil_byte_range *at;
    size_t count, capacity;
    bool lost; /* host memory was full: the list is not complete */
} range_list;

void ranges_add(range_list *list, presil_daddr base, uint64_t bytes);
void ranges_merge(range_list *list); /* sorted and disjoint afterwards */
void ranges_free(range_list *list);
/* Without those bytes, of a merged list. */
void ranges_cut(range_list *list, presil_byte_range without);
/* Bytes that are in one merged list but not in the other; *first: the address of the first of them, if there are any.
 */
uint64_t ranges_only_in(const range_list *a, const range_list *b, uint64_t *first);
/* From the first byte of a box to its last; bytes is UINT64_MAX if it does not fit 64 bits. */
presil_byte_range presil_box_hull(const presil_box *box);
/* All that a plan writes, some of it at a time, up to the first call that does not return 0: that is returned. Rows of
 * boxes are many: ask only if there is something to do. */
typedef int (*presil_ranges_fn)(presil_device *device, const presil_byte_range *ranges, uint32_t count);
int presil_each_write(presil_device *device, const presil_plan_info *info, presil_ranges_fn fn);
/* The same as one list. */
void ranges_add_writes(range_list *list, const presil_plan_info *info);

#endif
