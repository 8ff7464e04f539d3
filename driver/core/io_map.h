/* SPDX-License-Identifier: Apache-2.0 */
/* io_map.h - blocks that the chip reaches, behind a transport that wants to be told (PRESIL_CAP_MAP_BLOCKS). */
#ifndef PRESIL_CORE_IO_MAP_H
#define PRESIL_CORE_IO_MAP_H

#include <stddef.h>
#include <stdint.h>
#include "presil_chip.h"

typedef struct {
    uint64_t first, end; /* pages; unmapped as they were mapped */
} io_mapping;

/* Sorted, disjoint. */
typedef struct {
    io_mapping *at;
    size_t count, capacity;
} io_mappings;

/* Runner; they do nothing where the chip reaches everything. */
int presil_io_map(presil_device *device, presil_daddr base, uint64_t bytes); /* the blocks that these bytes are in */
int presil_io_map_plan(presil_device *device, const presil_plan_info *info); /* those that its launch touches */
int presil_io_unmap(presil_device *device, uint64_t page, uint64_t pages);   /* all that reaches into these pages */
void presil_io_forget(presil_device *device);                                /* the transport has forgotten them */

#endif
