/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spad.h - the scratchpad allocator of the tilers.
 *
 * Addresses and sizes are in units of the caller's choice (driver/chip: scratchpad words). The caller owns the struct;
 * nothing is allocated on the heap and no device memory is read. Deterministic: the same calls give the same addresses
 * on every host. Not thread-safe. Placement: best fit; among equal gaps the lowest address; within a gap the lowest
 * aligned address.
 */
#ifndef PRESIL_CHIP_SPAD_H
#define PRESIL_CHIP_SPAD_H

#include <stddef.h>
#include <stdint.h>

#define PRESIL_SPAD_BLOCKS 64 /* live blocks at a time */

enum presil_spad_error {
    PRESIL_SPAD_OK = 0,
    PRESIL_SPAD_EINVAL = -1,    /* size 0, alignment not a power of two, an empty range, an address that is no block */
    PRESIL_SPAD_ETOOLARGE = -2, /* more than the whole range, even if it were empty */
    PRESIL_SPAD_EFULL = -3,     /* more than what is free in the range now */
    PRESIL_SPAD_EFRAGMENTED = -4, /* enough is free, but no gap (with this alignment) is large enough */
    PRESIL_SPAD_EBLOCKS = -5,     /* PRESIL_SPAD_BLOCKS blocks are live */
};

typedef struct {
    uint32_t address, size;
    const char *tag; /* the caller's; must outlive the block */
} presil_spad_block;

typedef struct {
    uint32_t capacity, used, high_water, largest_free; /* high_water: most units used at a time */
    uint32_t blocks, allocations, frees, failures;
} presil_spad_stats;

typedef struct {
    uint32_t capacity, used, high_water, count, allocations, frees, failures;
    presil_spad_block blocks[PRESIL_SPAD_BLOCKS]; /* live ones, by address */
} presil_spad;

/* Empties the allocator. capacity >= 1. */
void presil_spad_init(presil_spad *spad, uint32_t capacity);

/* size >= 1, align: a power of two >= 1. tag: what the block is for, shown by reports (NULL: "?"). *address is
 * untouched on failure. */
int presil_spad_alloc(presil_spad *spad, uint32_t size, uint32_t align, const char *tag, uint32_t *address);
/* The same within [low, high): for operands that shall lie in banks of their own. */
int presil_spad_alloc_within(presil_spad *spad, uint32_t low, uint32_t high, uint32_t size, uint32_t align,
                             const char *tag, uint32_t *address);
/* address: as given by alloc. */
int presil_spad_free(presil_spad *spad, uint32_t address);

void presil_spad_get_stats(const presil_spad *spad, presil_spad_stats *out);
/* 0 if every invariant holds (sorted, disjoint, inside, sums right); otherwise -1 and the first violation in text. */
int presil_spad_check(const presil_spad *spad, char *text, size_t bytes);
/* Number of live blocks, listed as "tag size@address, ..." in text (truncated to bytes; "" if none). */
uint32_t presil_spad_leaks(const presil_spad *spad, char *text, size_t bytes);
const char *presil_spad_error_name(int error);

#endif
