/* SPDX-License-Identifier: Apache-2.0 */
/* The scratchpad allocator: a sorted array of live blocks. A tile has about ten of them, so linear walks beat any tree.
 */
#include "spad.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void presil_spad_init(presil_spad *spad, uint32_t capacity) {
    memset(spad, 0, sizeof *spad);
    spad->capacity = capacity;
}

/* Units of [low, high) that live blocks cover. */
static uint32_t used_within(const presil_spad *spad, uint32_t low, uint32_t high) {
    uint32_t used = 0;
    for (uint32_t i = 0; i < spad->count; i++) {
        const uint32_t from = spad->blocks[i].address > low ? spad->blocks[i].address : low;
        const uint32_t end = spad->blocks[i].address + spad->blocks[i].size;
        const uint32_t to = end < high ? end : high;
        if (to > from) used += to - from;
    }
    return used;
}

/* Best gap of [low, high): its index in the array and the aligned address, or 0 if there is none. */
static int find_gap(const presil_spad *spad, uint32_t low, uint32_t high, uint32_t size, uint32_t align,
                    uint32_t *index, uint32_t *address) {
    uint32_t best = UINT32_MAX;
    uint32_t from = low;
    for (uint32_t i = 0; i <= spad->count; i++) {
        const uint32_t block = i < spad->count ? spad->blocks[i].address : spad->capacity;
        const uint32_t to = block < high ? block : high;
        if (to > from) {
            const uint64_t aligned = ((uint64_t)from + align - 1) & ~((uint64_t)align - 1);
            if (aligned + size <= to && to - from < best) {
                best = to - from;
                *index = i;
                *address = (uint32_t)aligned;
            }
        }
        if (i < spad->count && block + spad->blocks[i].size > from) from = block + spad->blocks[i].size;
    }
    return best != UINT32_MAX;
}

static int fail(presil_spad *spad, int error) {
    spad->failures++;
    return error;
}

int presil_spad_alloc_within(presil_spad *spad, uint32_t low, uint32_t high, uint32_t size, uint32_t align,
                             const char *tag, uint32_t *address) {
    if (size == 0 || align == 0 || (align & (align - 1)) != 0 || low >= high || high > spad->capacity)
        return fail(spad, PRESIL_SPAD_EINVAL);
    const uint64_t first = ((uint64_t)low + align - 1) & ~((uint64_t)align - 1);
    if (first + size > high) return fail(spad, PRESIL_SPAD_ETOOLARGE);
    if (size > high - low - used_within(spad, low, high)) return fail(spad, PRESIL_SPAD_EFULL);
    if (spad->count == PRESIL_SPAD_BLOCKS) return fail(spad, PRESIL_SPAD_EBLOCKS);
    uint32_t index = 0, found = 0;
    if (!find_gap(spad, low, high, size, align, &index, &found)) return fail(spad, PRESIL_SPAD_EFRAGMENTED);
    memmove(&spad->blocks[index + 1], &spad->blocks[index], (spad->count - index) * sizeof spad->blocks[0]);
    spad->blocks[index] = (presil_spad_block){found, size, tag ? tag : "?"};
    spad->count++;
    spad->allocations++;
    spad->used += size;
    if (spad->used > spad->high_water) spad->high_water = spad->used;
    *address = found;
    return PRESIL_SPAD_OK;
}

int presil_spad_alloc(presil_spad *spad, uint32_t size, uint32_t align, const char *tag, uint32_t *address) {
    return presil_spad_alloc_within(spad, 0, spad->capacity, size, align, tag, address);
}

int presil_spad_free(presil_spad *spad, uint32_t address) {
    for (uint32_t i = 0; i < spad->count; i++) {
        if (spad->blocks[i].address != address) continue;
        spad->used -= spad->blocks[i].size;
        spad->frees++;
        spad->count--;
        memmove(&spad->blocks[i], &spad->blocks[i + 1], (spad->count - i) * sizeof spad->blocks[0]);
        return PRESIL_SPAD_OK;
    }
    return PRESIL_SPAD_EINVAL;
}

void presil_spad_get_stats(const presil_spad *spad, presil_spad_stats *out) {
    uint32_t largest = 0, from = 0;
    for (uint32_t i = 0; i <= spad->count; i++) {
        const uint32_t to = i < spad->count ? spad->blocks[i].address : spad->capacity;
        if (to - from > largest) largest = to - from;
        if (i < spad->count) from = to + spad->blocks[i].size;
    }
    *out = (presil_spad_stats){spad->capacity, spad->used,        spad->high_water, largest,
                               spad->count,    spad->allocations, spad->frees,      spad->failures};
}

__attribute__((format(printf, 3, 4))) static int violated(char *text, size_t bytes, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, bytes, format, args);
    va_end(args);
    return -1;
}

int presil_spad_check(const presil_spad *spad, char *text, size_t bytes) {
    uint64_t sum = 0, end = 0;
    if (spad->count > PRESIL_SPAD_BLOCKS)
        return violated(text, bytes, "%u blocks, at most %u", spad->count, PRESIL_SPAD_BLOCKS);
    for (uint32_t i = 0; i < spad->count; i++) {
        const presil_spad_block *b = &spad->blocks[i];
        if (b->size == 0) return violated(text, bytes, "block %u (%s) is empty", i, b->tag);
        if (b->address < end)
            return violated(text, bytes, "block %u (%s) at %u overlaps the one before, which ends at %llu", i, b->tag,
                            b->address, (unsigned long long)end);
        end = (uint64_t)b->address + b->size;
        if (end > spad->capacity)
            return violated(text, bytes, "block %u (%s) ends at %llu of %u", i, b->tag, (unsigned long long)end,
                            spad->capacity);
        sum += b->size;
    }
    if (sum != spad->used)
        return violated(text, bytes, "blocks sum to %llu, used says %u", (unsigned long long)sum, spad->used);
    if (spad->high_water < spad->used)
        return violated(text, bytes, "high water %u below used %u", spad->high_water, spad->used);
    if (spad->allocations - spad->frees != spad->count)
        return violated(text, bytes, "%u allocations - %u frees, but %u blocks", spad->allocations, spad->frees,
                        spad->count);
    return 0;
}

uint32_t presil_spad_leaks(const presil_spad *spad, char *text, size_t bytes) {
    size_t at = 0;
    if (bytes) text[0] = 0;
    for (uint32_t i = 0; i < spad->count && at < bytes; i++) {
        const int n = snprintf(text + at, bytes - at, "%s%s %u@%u", i ? ", " : "", spad->blocks[i].tag,
                               spad->blocks[i].size, spad->blocks[i].address);
        at += n > 0 ? (size_t)n : 0;
    }
    return spad->count;
}

const char *presil_spad_error_name(int error) {
    switch (error) {
    case PRESIL_SPAD_OK: return "ok";
    case PRESIL_SPAD_EINVAL: return "invalid argument";
    case PRESIL_SPAD_ETOOLARGE: return "larger than the scratchpad";
    case PRESIL_SPAD_EFULL: return "scratchpad full";
    case PRESIL_SPAD_EFRAGMENTED: return "scratchpad fragmented";
    case PRESIL_SPAD_EBLOCKS: return "too many blocks";
    default: return "unknown";
    }
}
