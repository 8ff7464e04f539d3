/* SPDX-License-Identifier: Apache-2.0 */
/* residency.h - which side has a page's newer bytes, where memory is not mapped (residency.c). */
#ifndef PRESIL_CORE_RESIDENCY_H
#define PRESIL_CORE_RESIDENCY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "presil_chip.h"

/* All NULL where there is one memory. A byte, and two positions in the queue, a page. */
typedef struct {
    uint8_t *state, *sent;     /* sent: the device's bytes, as far as they were sent or fetched */
    uint64_t *written, *owned; /* by the launch of that position; owned: by nobody whose launches are older */
    uint64_t low, high;        /* pages that are newer on the device are among these */
    atomic_ullong stale;       /* how many there are */
    uint64_t seq, checked;     /* of the item that runs, UINT64_MAX: none; the page that was compared last, plus 1 */
    bool late;                 /* fetched when the host asks */
} residency;

/* The runner's, but for owned(); they do nothing where there is one memory. */
int presil_residency_open(presil_device *device);
void presil_residency_close(presil_device *device);
void presil_residency_owned(presil_device *device, uint32_t page,
                            uint64_t pages);                                    /* any thread, the heap's lock held */
int presil_residency_send(presil_device *device, const presil_plan_info *info); /* what its launch touches */
int presil_residency_wrote(presil_device *device, const presil_plan_info *info, bool now); /* now: fetches it */
void presil_residency_spoilt(presil_device *device, const presil_plan_info *info);
int presil_residency_fetch(presil_device *device, presil_daddr base, uint64_t bytes);
int presil_residency_fetch_all(presil_device *device);
int presil_residency_overwrite(presil_device *device, presil_daddr base, uint64_t bytes);
void presil_residency_scribbled(presil_device *device, presil_daddr base, uint64_t bytes);
void presil_residency_forget(presil_device *device, uint64_t page, uint64_t pages);
uint64_t presil_residency_lost(presil_device *device); /* all is sent anew; bytes that only the device had */

#endif
