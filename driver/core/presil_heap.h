/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_heap.h - the caching allocator of device memory, in pages of 4 KiB. It keeps its books in host memory and
 * never looks at the device's.
 *
 * Deterministic: the same calls give the same pages. A block is raw (never used, or given back by presil_heap_release),
 * cached (freed, kept by the arena it came from) or live. Every pool has two arenas: small blocks (up to 1 MiB), carved
 * from raw runs of 2 MiB, and large ones, so that a long-lived scalar does not split the gap of an activation. Sizes
 * are rounded up to 16 classes an octave; the best fit is taken, the rest of it stays in the arena, neighbours of the
 * same arena are merged. O(1) but for blocks of one class with different sizes. Not thread-safe.
 */
#ifndef PRESIL_HEAP_H
#define PRESIL_HEAP_H

#include <stddef.h>
#include <stdint.h>

#define PRESIL_HEAP_PAGE 4096u
#define PRESIL_HEAP_BINS 464u

typedef struct {
    uint64_t allocated, allocated_peak, reserved, reserved_peak; /* pages; reserved: live and cached */
    uint64_t live, allocations, frees, failures,
        largest_free; /* largest_free: pages of the largest run without a live block */
} presil_heap_stats;

/* One quantity over the arenas of all pools, of small blocks, of large blocks. gained and lost: sums of the changes up
 * and down. */
typedef struct {
    uint64_t current, peak, gained, lost;
} presil_heap_counter;
enum {
    PRESIL_HEAP_BLOCKS,
    PRESIL_HEAP_PAGES,
    PRESIL_HEAP_REQUESTED,
    PRESIL_HEAP_RESERVED,
    PRESIL_HEAP_RUNS,
    PRESIL_HEAP_COUNTERS
};
enum { PRESIL_HEAP_ALL, PRESIL_HEAP_SMALL, PRESIL_HEAP_LARGE, PRESIL_HEAP_KINDS };

typedef struct {
    uint64_t requested; /* bytes, of a live block; 0 if nobody said */
    uint32_t page, pages;
    uint32_t below, above;   /* neighbours by address */
    uint32_t previous, next; /* in the bin; next also links unused nodes */
    uint32_t arena;
    uint32_t live;
} presil_heap_node;

typedef struct {
    uint32_t head[PRESIL_HEAP_BINS];
    uint64_t filled[(PRESIL_HEAP_BINS + 63) / 64];
    uint32_t used; /* the pool exists; 2: and keeps its cached blocks */
} presil_heap_arena;

typedef struct {
    uint32_t pages;
    uint32_t *first;         /* page -> node + 1 of the block that starts there, else 0 */
    presil_heap_node *nodes; /* node 0 starts at page 0 */
    uint32_t node_count, node_capacity, unused;
    presil_heap_arena *arenas; /* 0: raw; 1 + 2*pool: small, 2 + 2*pool: large */
    uint32_t arena_count;
    presil_heap_counter counters[PRESIL_HEAP_COUNTERS]
                                [PRESIL_HEAP_KINDS]; /* runs: neighbouring blocks of one arena, live or cached */
    uint64_t failures, flushes;                      /* flushes: caches given back because a block did not fit */
} presil_heap;

/* 0, or -1 when the host's memory is full. pages >= 1. Pool 0 exists from the start. */
int presil_heap_init(presil_heap *heap, uint32_t pages);
void presil_heap_destroy(presil_heap *heap);

enum { PRESIL_HEAP_OK = 0, PRESIL_HEAP_FULL = -1, PRESIL_HEAP_NO_HOST_MEMORY = -2 };
/* These pages, of raw memory, become a live block of pool 0: for what is no memory. */
int presil_heap_reserve(presil_heap *heap, uint32_t page, uint32_t pages);
/* pages >= 1. *page is untouched on failure. A full heap gives back what every pool caches before it fails. */
int presil_heap_alloc(presil_heap *heap, uint32_t pool, uint64_t pages, uint32_t *page);
/* Notes how many bytes of the live block at the page were asked for. */
void presil_heap_note_request(presil_heap *heap, uint32_t page, uint64_t bytes);
/* 0, or -1 if no live block starts at the page. */
int presil_heap_free(presil_heap *heap, uint32_t page);
/* Size of the live block that starts at the page, or 0. */
uint32_t presil_heap_size(const presil_heap *heap, uint32_t page);
/* Cached blocks become raw; hole (may be NULL) is told of each run. */
void presil_heap_release(presil_heap *heap, void (*hole)(void *context, uint32_t page, uint32_t pages), void *context);

int presil_heap_pool_create(presil_heap *heap, uint32_t *pool);
/* The pool of the live block that starts at the page; 0, or -1 if there is none. */
int presil_heap_pool_of(const presil_heap *heap, uint32_t page, uint32_t *pool);
void presil_heap_pool_keep(presil_heap *heap, uint32_t pool, int keep); /* kept: its cached blocks are not released */
/* Live blocks of the pool, which move to pool 0. */
uint32_t presil_heap_pool_destroy(presil_heap *heap, uint32_t pool);

void presil_heap_get_stats(const presil_heap *heap, presil_heap_stats *out);
void presil_heap_reset_peak(presil_heap *heap);
void presil_heap_reset_totals(presil_heap *heap); /* gained, lost, failures and flushes count from 0 again */
/* 0, or -1 and the first violated invariant in text. */
int presil_heap_check(const presil_heap *heap, char *text, size_t bytes);

#endif
