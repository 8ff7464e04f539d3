/* SPDX-License-Identifier: Apache-2.0 */
/* The invariants of the caching allocator, for tests. */
#include "presil_heap.h"

#include <stdarg.h>
#include <stdio.h>

#define NONE UINT32_MAX

__attribute__((format(printf, 3, 4))) static int violated(char *text, size_t bytes, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, bytes, format, args);
    va_end(args);
    return -1;
}

static int in_some_bin(const presil_heap *heap, uint32_t n) {
    const presil_heap_arena *arena = &heap->arenas[heap->nodes[n].arena];
    for (uint32_t bin = 0; bin < PRESIL_HEAP_BINS; bin++) {
        if (((arena->filled[bin / 64] >> (bin % 64)) & 1) != (arena->head[bin] != NONE)) return 0;
        for (uint32_t m = arena->head[bin]; m != NONE; m = heap->nodes[m].next) {
            if (m == n) return 1;
        }
    }
    return 0;
}

int presil_heap_check(const presil_heap *heap, char *text, size_t bytes) {
    uint64_t at = 0, allocated = 0, reserved = 0, live = 0, runs = 0;
    uint32_t below = NONE;
    for (uint32_t n = 0; n != NONE; below = n, n = heap->nodes[n].above) {
        const presil_heap_node *node = &heap->nodes[n];
        if (node->page != at || node->pages == 0)
            return violated(text, bytes, "node %u starts at page %u (%u pages), expected %llu", n, node->page,
                            node->pages, (unsigned long long)at);
        if (node->below != below) return violated(text, bytes, "node %u: wrong neighbour below", n);
        if (heap->first[node->page] != n + 1)
            return violated(text, bytes, "page %u does not lead to node %u", node->page, n);
        if (node->arena >= heap->arena_count || !heap->arenas[node->arena].used)
            return violated(text, bytes, "node %u is in arena %u, which does not exist", n, node->arena);
        if (!node->live && !in_some_bin(heap, n)) return violated(text, bytes, "free node %u is in no bin", n);
        if (below != NONE && !node->live && !heap->nodes[below].live && heap->nodes[below].arena == node->arena)
            return violated(text, bytes, "nodes %u and %u are free neighbours of one arena", below, n);
        at += node->pages;
        allocated += node->live ? node->pages : 0;
        live += node->live;
        reserved += node->arena ? node->pages : 0;
        runs += node->arena && (below == NONE || heap->nodes[below].arena != node->arena);
    }
    if (at != heap->pages)
        return violated(text, bytes, "nodes cover %llu of %u pages", (unsigned long long)at, heap->pages);
    const uint64_t found[] = {live, allocated, reserved, runs};
    static const int quantities[] = {PRESIL_HEAP_BLOCKS, PRESIL_HEAP_PAGES, PRESIL_HEAP_RESERVED, PRESIL_HEAP_RUNS};
    for (int i = 0; i < 4; i++) {
        const presil_heap_counter *c = heap->counters[quantities[i]];
        if (c[0].current != found[i] || c[1].current + c[2].current != found[i])
            return violated(text, bytes,
                            "counted %llu of quantity %d, the statistics say %llu = %llu small + %llu large",
                            (unsigned long long)found[i], quantities[i], (unsigned long long)c[0].current,
                            (unsigned long long)c[1].current, (unsigned long long)c[2].current);
    }
    return 0;
}
