/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conversions.h - activations in layouts of the chip's own (presil_chip.h: activation()). Such a tensor has a block of
 * device memory of its own beside the strided bytes, and one side or both hold its value: which, is the runner's.
 */
#ifndef PRESIL_CORE_CONVERSIONS_H
#define PRESIL_CORE_CONVERSIONS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "presil_chip.h"
#include "queue.h"

enum { MOST_PACKED = 1024 };

/* BOTH: unless the host was told since that it may write (seen). */
typedef enum { HOLDS_STRIDED = 0, HOLDS_BOTH = 1, HOLDS_PACKED = 2 } packed_state;

typedef struct {
    atomic_int references;  /* the table's, and of every launch that works on it */
    uint32_t kept;          /* by so many launches of lists; this and orphan: under the memory's lock */
    bool orphan;            /* what it was packed from was freed meanwhile */
    presil_operand tensor;  /* as it lies; layout: in which it is packed */
    presil_byte_range hull; /* of the strided elements */
    bool dense;             /* they are all that lies there */
    presil_daddr block;
    uint64_t bytes;         /* packed */
    _Atomic uint64_t freed; /* 1 + the position in the queue behind which it is nobody's; 0: it is somebody's */
    packed_state state;     /* the runner's */
    uint64_t seen;          /* likewise: layouts.told when both sides became equal */
} packed_tensor;

typedef struct {
    packed_tensor *tensor; /* a reference */
    bool read, written;
} packed_use;

/* Of one launch. */
struct launch_layouts {
    uint32_t count;
    packed_use at[PRESIL_OP_INPUTS + PRESIL_OP_OUTPUTS];
};

typedef struct {
    packed_tensor *
        *at; /* MOST_PACKED, NULL before the first; added to under the memory's lock, removed by the runner */
    atomic_uint count, freed; /* freed: of those in the table */
    atomic_uint stale;        /* packed alone; written by the runner */
    _Atomic uint64_t told;    /* how often the host was told that something has passed */
    /* Conversions since the device was opened; written by the runner. */
    atomic_ullong packs, pack_bytes, pack_ns, unpacks, unpack_bytes, unpack_ns;
} device_layouts;

/* ---- runner */
typedef struct {
    uint64_t count, bytes, ns;
} layout_totals;
layout_totals presil_layouts_totals(const presil_device *device);
int presil_layouts_before(presil_device *device, launch_layouts *uses, const presil_plan_info *info);
void presil_layouts_after(presil_device *device, const launch_layouts *uses, const presil_plan_info *info, int status);
/* The strided side holds these bytes; for the host: it may write them. */
int presil_layouts_bring(presil_device *device, presil_daddr base, uint64_t bytes, bool for_host);
int presil_layouts_bring_all(presil_device *device);
int presil_layouts_overwrite(presil_device *device, presil_daddr base, uint64_t bytes); /* they are about to be */
void presil_layouts_lost(presil_device *device); /* the device's memory is not what it was */
void presil_layouts_sweep(presil_device *device, bool all);

#endif
