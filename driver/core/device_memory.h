/* SPDX-License-Identifier: Apache-2.0 */
/* device_memory.h - device memory: where it lies, in the mapping or behind the transport, and the heap of its blocks.
 */
#ifndef PRESIL_CORE_DEVICE_MEMORY_H
#define PRESIL_CORE_DEVICE_MEMORY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include "presil_chip.h"
#include "presil_heap.h"

#define STAGING_BYTES (1ull << 20) /* for copies through the chip */
#define MOST_REGIONS 16u           /* of a transport's own memory */

typedef struct {
    int fd;
    uint8_t *mapping;
    uint64_t bytes, wanted; /* wanted: as asked for; 0: not */
    presil_daddr base;
    bool no_map, host_copy;                       /* as asked for; host_copy: residency.h */
    bool maps;                                    /* the transport works on our mapping */
    bool of_transport;                            /* the mapping, or what is behind mem_read(), is its own */
    uint32_t gaps[MOST_REGIONS], gap_count;       /* first pages of what lies between regions, and is no memory */
    uint32_t borders[MOST_REGIONS], border_count; /* first pages of regions that begin where another ends */
    atomic_ullong bytes_to_device, bytes_to_host; /* written by the runner */
    presil_command_memory command;
    presil_daddr staging;
    pthread_mutex_t lock; /* of what follows */
    presil_heap heap;
    presil_heap_counter own[PRESIL_HEAP_COUNTERS][PRESIL_HEAP_KINDS]; /* the driver's own block */
    uint64_t limit;                                                   /* pages; 0: none */
} device_memory;

int presil_memory_open(presil_device *device);
/* Instead of what was opened: a place in reach of limits.address_bits. Nobody may have seen the old one. */
int presil_memory_open_lower(presil_device *device);
void presil_memory_close(presil_device *device);
int presil_memory_adopt(presil_device *device); /* of a transport that is open, where the memory is its own */
int presil_memory_reserve_commands(presil_device *device);
bool presil_memory_is_own(const presil_device *device, uint32_t page);     /* a block there is not the user's */
bool presil_memory_is_beyond(const presil_device *device, uint64_t pages); /* so many more, the limit; under the lock */
void presil_memory_count_failure(presil_device *device); /* somebody's wish, however often it was tried */
bool presil_memory_contains(const presil_device *device, presil_daddr address, uint64_t bytes);
bool presil_memory_home_is_mapping(const presil_device *device);              /* else the transport has the bytes */
uint8_t *presil_memory_at(const presil_device *device, presil_daddr address); /* in the mapping */

#endif
