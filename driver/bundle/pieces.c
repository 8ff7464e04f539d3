/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory is cut at multiples of 64 KiB of its address: a tensor that one launch writes and the next one reads
 * has the same cuts in both, and is stored once. */
#include <stdlib.h>
#include <string.h>
#include "writer.h"

static int by_base(const void *a, const void *b) {
    const uint64_t x = ((const presil_bundle_range *)a)->base.value, y = ((const presil_bundle_range *)b)->base.value;
    return (x > y) - (x < y);
}

/* Empty ones go, those that overlap or touch become one. How many are left. */
static uint64_t join(presil_bundle_range *ranges, uint64_t count) {
    uint64_t to = 0;
    for (uint64_t i = 0; i < count; i++) {
        if (!ranges[i].bytes) continue;
        presil_bundle_range *last = to ? &ranges[to - 1] : NULL;
        const uint64_t end = ranges[i].base.value + ranges[i].bytes;
        if (last && ranges[i].base.value <= last->base.value + last->bytes) {
            if (end > last->base.value + last->bytes) last->bytes = end - last->base.value;
        } else {
            ranges[to++] = ranges[i];
        }
    }
    return to;
}

static uint64_t window_of(uint64_t address) { return address / PRESIL_BUNDLE_PIECE; }

/* How many ranges and pieces joined ranges become; with room, they are written there. */
static void cut(const presil_bundle_range *ranges, uint64_t count, presil_bundle_memory *memory,
                presil_bundle_range *to_ranges, presil_bundle_piece *to_pieces) {
    uint64_t n_ranges = 0, n_pieces = 0, window = UINT64_MAX, total = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = ranges[i].base.value;
        for (uint64_t left = ranges[i].bytes, bytes; left; left -= bytes, at += bytes, n_ranges++) {
            bytes = PRESIL_BUNDLE_PIECE - at % PRESIL_BUNDLE_PIECE;
            if (bytes > left) bytes = left;
            if (window_of(at) != window) n_pieces++;
            window = window_of(at);
            total += bytes;
            if (!to_ranges) continue;
            to_ranges[n_ranges] = (presil_bundle_range){{at}, bytes};
            to_pieces[n_pieces - 1].ranges++;
            to_pieces[n_pieces - 1].block.bytes += bytes;
        }
    }
    memory->range_count = n_ranges;
    memory->piece_count = n_pieces;
    memory->bytes = total;
}

int bundle_pieces_make(const presil_bundle_range *ranges, uint64_t count, presil_bundle_memory **out) {
    for (uint64_t i = 0; i < count; i++) {
        if (ranges[i].bytes > UINT64_MAX - ranges[i].base.value)
            return bundle_fail(PRESIL_EINVAL, "range %llu: 0x%llx and %llu bytes run over the end of addresses",
                               (unsigned long long)i, (unsigned long long)ranges[i].base.value,
                               (unsigned long long)ranges[i].bytes);
    }
    presil_bundle_range *joined = count > SIZE_MAX / sizeof *joined ? NULL : malloc((count + 1) * sizeof *joined);
    if (!joined) return bundle_fail(PRESIL_EHOSTMEM, "no memory for %llu ranges", (unsigned long long)count);
    if (count) memcpy(joined, ranges, count * sizeof *joined);
    qsort(joined, count, sizeof *joined, by_base);
    const uint64_t left = join(joined, count);
    presil_bundle_memory sizes = {0};
    cut(joined, left, &sizes, NULL, NULL);
    presil_bundle_memory *made = calloc(1, sizeof *made + sizes.range_count * sizeof(presil_bundle_range) +
                                               sizes.piece_count * sizeof(presil_bundle_piece));
    if (made) {
        presil_bundle_range *to = (void *)(made + 1);
        presil_bundle_piece *pieces = (void *)(to + sizes.range_count);
        cut(joined, left, &sizes, to, pieces);
        *made = sizes;
        made->ranges = to;
        made->pieces = pieces;
    }
    free(joined);
    if (!made) return bundle_fail(PRESIL_EHOSTMEM, "no memory for %llu ranges", (unsigned long long)sizes.range_count);
    *out = made;
    return PRESIL_OK;
}
