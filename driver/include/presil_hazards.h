/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_hazards.h - looks at the commands of a launch, whoever made them, for what no chip promises a result for
 * (docs/hazards.md). PRESIL_HAZARDS=1 does so for every launch of every device.
 */
#ifndef PRESIL_HAZARDS_H
#define PRESIL_HAZARDS_H

#include "presil.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    PRESIL_HAZARD_OVERLAP = 1,       /* writes what another command reads or writes, in no order */
    PRESIL_HAZARD_USE_BEFORE_LOAD,   /* reads what nobody has written, or not for sure yet */
    PRESIL_HAZARD_STORE_BEFORE_DONE, /* stores what may not be complete, or reads memory before the store to it is */
    PRESIL_HAZARD_OUT_OF_BOUNDS,     /* outside of a memory of the chip, or of the launch's own */
    PRESIL_HAZARD_LEAK,              /* gives a signal that nobody takes, or waits for one that nobody gives */
    PRESIL_HAZARD_ILLEGAL            /* the chip refuses the command, or a counter may overflow */
} presil_hazard_kind;

#define PRESIL_HAZARD_NONE SIZE_MAX

typedef struct {
    uint32_t size; /* of this struct */
    presil_hazard_kind kind;
    size_t command, other;           /* places in the list; other: in conflict with it, or PRESIL_HAZARD_NONE */
    uint32_t tile;                   /* of the command: its tag */
    const char *label, *other_label; /* the caller's lines of the two, or NULL */
    const char *text;                /* all of it, in one line; valid during the call */
} presil_hazard;

typedef void (*presil_hazard_sink)(void *context, const presil_hazard *hazard);

typedef struct {
    uint32_t size;        /* of this struct */
    const char *config;   /* name of the chip's configuration */
    const void *commands; /* as they lie in the ring */
    size_t count;
    const char *const *labels; /* of each command: where it was made ("tiler.c:120"); NULL: none */
    uint64_t memory, bytes;    /* what the launch may touch, from device address `memory` on; bytes 0: not looked at */
    presil_hazard_sink sink;   /* called for at most one hazard of each command, in no order; may be NULL */
    void *context;
} presil_hazard_options;

/* *found: how many hazards. EINVAL: an unknown configuration, or commands that would take more than 2^32 accesses to
 * look at. */
PRESIL_API PRESIL_CHECKED int presil_hazards(const presil_hazard_options *options, size_t *found);
PRESIL_API const char *presil_hazard_name(presil_hazard_kind kind); /* "overlap", "use before load", ... */

#ifdef __cplusplus
}
#endif
#endif
