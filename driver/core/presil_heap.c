/* SPDX-License-Identifier: Apache-2.0 */
/* The caching allocator: boundary tags in an array of nodes, binned free lists with a bitmap. */
#define _GNU_SOURCE
#include "presil_heap.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { RAW = 0, SMALL_PAGES = 256, SMALL_RUN = 512 };
#define NONE UINT32_MAX

static uint32_t log2_floor(uint32_t x) { return 31u - (uint32_t)__builtin_clz(x); }

/* Bins below 16 hold one size each, above there are 16 to an octave. */
static uint32_t bin_of(uint32_t pages) {
    if (pages < 16) return pages;
    const uint32_t l = log2_floor(pages);
    return 16 + (l - 4) * 16 + ((pages >> (l - 4)) & 15);
}

static uint64_t round_to_class(uint64_t pages) {
    if (pages < 16 || pages > UINT32_MAX) return pages;
    const uint64_t step = 1ull << (log2_floor((uint32_t)pages) - 4);
    return (pages + step - 1) & ~(step - 1);
}

static uint32_t arena_of(uint32_t pool, uint64_t pages) { return 1 + 2 * pool + (pages > SMALL_PAGES); }

/* ---- nodes and bins */
static int reserve_nodes(presil_heap *heap) {
    /* An allocation splits at most twice. */
    if (heap->node_count + 2 <= heap->node_capacity) return 0;
    const uint32_t capacity = heap->node_capacity ? heap->node_capacity * 2 : 256;
    presil_heap_node *nodes = realloc(heap->nodes, capacity * sizeof *nodes);
    if (!nodes) return -1;
    heap->nodes = nodes;
    heap->node_capacity = capacity;
    return 0;
}

static uint32_t new_node(presil_heap *heap) {
    uint32_t n = heap->unused;
    if (n != NONE)
        heap->unused = heap->nodes[n].next;
    else
        n = heap->node_count++;
    return n;
}

static void drop_node(presil_heap *heap, uint32_t n) {
    heap->first[heap->nodes[n].page] = 0;
    heap->nodes[n].pages = 0;
    heap->nodes[n].next = heap->unused;
    heap->unused = n;
}

static void bin_insert(presil_heap *heap, uint32_t n) {
    presil_heap_node *node = &heap->nodes[n];
    presil_heap_arena *arena = &heap->arenas[node->arena];
    const uint32_t bin = bin_of(node->pages);
    uint32_t previous = NONE, next = arena->head[bin];
    while (next != NONE && heap->nodes[next].pages < node->pages) {
        previous = next;
        next = heap->nodes[next].next;
    }
    node->previous = previous;
    node->next = next;
    if (next != NONE) heap->nodes[next].previous = n;
    if (previous != NONE)
        heap->nodes[previous].next = n;
    else
        arena->head[bin] = n;
    arena->filled[bin / 64] |= 1ull << (bin % 64);
}

static void bin_remove(presil_heap *heap, uint32_t n) {
    const presil_heap_node *node = &heap->nodes[n];
    presil_heap_arena *arena = &heap->arenas[node->arena];
    const uint32_t bin = bin_of(node->pages);
    if (node->next != NONE) heap->nodes[node->next].previous = node->previous;
    if (node->previous != NONE)
        heap->nodes[node->previous].next = node->next;
    else
        arena->head[bin] = node->next;
    if (arena->head[bin] == NONE) arena->filled[bin / 64] &= ~(1ull << (bin % 64));
}

/* The smallest free block of the arena with so many pages; NONE if there is none. */
static uint32_t find(const presil_heap *heap, uint32_t arena, uint32_t pages) {
    const presil_heap_arena *a = &heap->arenas[arena];
    const uint32_t bin = bin_of(pages);
    for (uint32_t n = a->head[bin]; n != NONE; n = heap->nodes[n].next) {
        if (heap->nodes[n].pages >= pages) return n;
    }
    for (uint32_t from = bin + 1; from < PRESIL_HEAP_BINS; from = (from | 63) + 1) {
        const uint64_t later = a->filled[from / 64] & (~0ull << (from % 64));
        if (later) return a->head[(from & ~63u) + (uint32_t)__builtin_ctzll(later)];
    }
    return NONE;
}

/* Cuts a free block that is in no bin; what is above `pages` becomes a free block of the same arena. */
static void split(presil_heap *heap, uint32_t n, uint32_t pages) {
    if (heap->nodes[n].pages == pages) return;
    const uint32_t rest = new_node(heap);
    presil_heap_node *low = &heap->nodes[n], *high = &heap->nodes[rest];
    *high = (presil_heap_node){
        .page = low->page + pages, .pages = low->pages - pages, .below = n, .above = low->above, .arena = low->arena};
    if (low->above != NONE) heap->nodes[low->above].below = rest;
    low->above = rest;
    low->pages = pages;
    heap->first[high->page] = rest + 1;
    bin_insert(heap, rest);
}

static int same_gap(const presil_heap *heap, uint32_t a, uint32_t b) {
    return a != NONE && b != NONE && !heap->nodes[a].live && !heap->nodes[b].live &&
           heap->nodes[a].arena == heap->nodes[b].arena;
}

/* Merges the free block n, which is in no bin, with its neighbours and bins the result, whose node is returned. */
static uint32_t merge(presil_heap *heap, uint32_t n) {
    const uint32_t below = heap->nodes[n].below, above = heap->nodes[n].above;
    if (same_gap(heap, n, above)) {
        bin_remove(heap, above);
        heap->nodes[n].pages += heap->nodes[above].pages;
        heap->nodes[n].above = heap->nodes[above].above;
        if (heap->nodes[n].above != NONE) heap->nodes[heap->nodes[n].above].below = n;
        drop_node(heap, above);
    }
    if (same_gap(heap, below, n)) {
        bin_remove(heap, below);
        heap->nodes[below].pages += heap->nodes[n].pages;
        heap->nodes[below].above = heap->nodes[n].above;
        if (heap->nodes[n].above != NONE) heap->nodes[heap->nodes[n].above].below = below;
        drop_node(heap, n);
        n = below;
    }
    bin_insert(heap, n);
    return n;
}

/* ---- interface */
static void arena_init(presil_heap_arena *arena) {
    memset(arena, 0, sizeof *arena);
    memset(arena->head, 0xff, sizeof arena->head);
    arena->used = 1;
}

int presil_heap_init(presil_heap *heap, uint32_t pages) {
    memset(heap, 0, sizeof *heap);
    heap->pages = pages;
    heap->unused = NONE;
    /* One word a page of a sparse table: pages that nobody allocates cost nothing. */
    void *table = mmap(NULL, (size_t)pages * sizeof(uint32_t), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) return -1;
    heap->first = table;
    heap->arenas = malloc(3 * sizeof *heap->arenas);
    if (!heap->arenas || reserve_nodes(heap)) {
        presil_heap_destroy(heap);
        return -1;
    }
    heap->arena_count = 3;
    for (uint32_t i = 0; i < 3; i++) arena_init(&heap->arenas[i]);
    const uint32_t n = new_node(heap);
    heap->nodes[n] = (presil_heap_node){.page = 0, .pages = pages, .below = NONE, .above = NONE, .arena = RAW};
    heap->first[0] = n + 1;
    bin_insert(heap, n);
    return 0;
}

void presil_heap_destroy(presil_heap *heap) {
    if (heap->first) (void)munmap(heap->first, (size_t)heap->pages * sizeof(uint32_t));
    free(heap->nodes);
    free(heap->arenas);
    memset(heap, 0, sizeof *heap);
}

/* ---- statistics */
static void count_one(presil_heap_counter *c, int64_t change) {
    if (change >= 0)
        c->gained += (uint64_t)change;
    else
        c->lost += (uint64_t)-change;
    c->current += (uint64_t)change;
    if (c->current > c->peak) c->peak = c->current;
}

static void count(presil_heap *heap, int quantity, uint32_t arena, int64_t change) {
    count_one(&heap->counters[quantity][PRESIL_HEAP_ALL], change);
    count_one(&heap->counters[quantity][arena & 1 ? PRESIL_HEAP_SMALL : PRESIL_HEAP_LARGE], change);
}

static int64_t beside(const presil_heap *heap, uint32_t n, uint32_t arena) {
    const uint32_t below = heap->nodes[n].below, above = heap->nodes[n].above;
    return (below != NONE && heap->nodes[below].arena == arena) + (above != NONE && heap->nodes[above].arena == arena);
}

/* A raw block becomes the arena's, or (sign -1) the reverse: a run of its own, the end of one, or the link between two.
 */
static void count_reserved(presil_heap *heap, uint32_t n, uint32_t arena, int64_t sign) {
    count(heap, PRESIL_HEAP_RESERVED, arena, sign * heap->nodes[n].pages);
    count(heap, PRESIL_HEAP_RUNS, arena, sign * (1 - beside(heap, n, arena)));
}

/* A free block of the arena with at least `pages`, taken from its bin or carved from raw memory. */
static uint32_t take(presil_heap *heap, uint32_t arena, uint32_t pages) {
    uint32_t n = find(heap, arena, pages);
    if (n != NONE) {
        bin_remove(heap, n);
        return n;
    }
    uint32_t run = pages;
    if (pages <= SMALL_PAGES) {
        n = find(heap, RAW, SMALL_RUN);
        if (n != NONE) run = SMALL_RUN;
    }
    if (n == NONE) n = find(heap, RAW, pages);
    if (n == NONE) return NONE;
    bin_remove(heap, n);
    split(heap, n, run);
    count_reserved(heap, n, arena, 1);
    heap->nodes[n].arena = arena;
    return n;
}

int presil_heap_alloc(presil_heap *heap, uint32_t pool, uint64_t pages, uint32_t *page) {
    if (reserve_nodes(heap)) return PRESIL_HEAP_NO_HOST_MEMORY;
    uint64_t want = round_to_class(pages);
    uint32_t n = NONE;
    if (want <= heap->pages) n = take(heap, arena_of(pool, want), (uint32_t)want);
    if (n == NONE && pages <= heap->pages) {
        want = pages; /* the last resort does not waste the rounding */
        n = take(heap, arena_of(pool, want), (uint32_t)want);
        if (n == NONE) {
            presil_heap_release(heap, NULL, NULL);
            heap->flushes++;
            n = take(heap, arena_of(pool, want), (uint32_t)want);
        }
    }
    if (n == NONE) {
        heap->failures++;
        return PRESIL_HEAP_FULL;
    }
    split(heap, n, (uint32_t)want);
    heap->nodes[n].live = 1;
    heap->nodes[n].requested = 0;
    count(heap, PRESIL_HEAP_BLOCKS, heap->nodes[n].arena, 1);
    count(heap, PRESIL_HEAP_PAGES, heap->nodes[n].arena, (int64_t)want);
    *page = heap->nodes[n].page;
    return PRESIL_HEAP_OK;
}

int presil_heap_reserve(presil_heap *heap, uint32_t page, uint32_t pages) {
    if (reserve_nodes(heap)) return PRESIL_HEAP_NO_HOST_MEMORY;
    uint32_t n = 0;
    while (n != NONE && heap->nodes[n].page + (uint64_t)heap->nodes[n].pages <= page) n = heap->nodes[n].above;
    if (n == NONE || heap->nodes[n].live || heap->nodes[n].arena != RAW ||
        page + (uint64_t)pages > heap->nodes[n].page + (uint64_t)heap->nodes[n].pages)
        return PRESIL_HEAP_FULL;
    bin_remove(heap, n);
    if (heap->nodes[n].page < page) {
        split(heap, n, page - heap->nodes[n].page);
        bin_insert(heap, n);
        n = heap->nodes[n].above;
        bin_remove(heap, n);
    }
    split(heap, n, pages);
    const uint32_t arena = arena_of(0, pages);
    count_reserved(heap, n, arena, 1);
    heap->nodes[n].arena = arena;
    heap->nodes[n].live = 1;
    heap->nodes[n].requested = 0;
    count(heap, PRESIL_HEAP_BLOCKS, arena, 1);
    count(heap, PRESIL_HEAP_PAGES, arena, pages);
    return PRESIL_HEAP_OK;
}

static uint32_t live_at(const presil_heap *heap, uint32_t page) {
    if (page >= heap->pages || !heap->first[page]) return NONE;
    const uint32_t n = heap->first[page] - 1;
    return heap->nodes[n].live ? n : NONE;
}

uint32_t presil_heap_size(const presil_heap *heap, uint32_t page) {
    const uint32_t n = live_at(heap, page);
    return n == NONE ? 0 : heap->nodes[n].pages;
}

void presil_heap_note_request(presil_heap *heap, uint32_t page, uint64_t bytes) {
    const uint32_t n = live_at(heap, page);
    if (n == NONE) return;
    count(heap, PRESIL_HEAP_REQUESTED, heap->nodes[n].arena, (int64_t)(bytes - heap->nodes[n].requested));
    heap->nodes[n].requested = bytes;
}

int presil_heap_free(presil_heap *heap, uint32_t page) {
    const uint32_t n = live_at(heap, page);
    if (n == NONE) return -1;
    const uint32_t arena = heap->nodes[n].arena;
    count(heap, PRESIL_HEAP_BLOCKS, arena, -1);
    count(heap, PRESIL_HEAP_PAGES, arena, -(int64_t)heap->nodes[n].pages);
    count(heap, PRESIL_HEAP_REQUESTED, arena, -(int64_t)heap->nodes[n].requested);
    heap->nodes[n].live = 0;
    (void)merge(heap, n);
    return 0;
}

void presil_heap_release(presil_heap *heap, void (*hole)(void *context, uint32_t page, uint32_t pages), void *context) {
    for (uint32_t n = 0; n != NONE; n = heap->nodes[n].above) {
        if (heap->nodes[n].live || heap->nodes[n].arena == RAW || heap->arenas[heap->nodes[n].arena].used == 2)
            continue;
        if (hole) hole(context, heap->nodes[n].page, heap->nodes[n].pages);
        bin_remove(heap, n);
        count_reserved(heap, n, heap->nodes[n].arena, -1);
        heap->nodes[n].arena = RAW;
        n = merge(heap, n);
    }
}

int presil_heap_pool_of(const presil_heap *heap, uint32_t page, uint32_t *pool) {
    const uint32_t n = live_at(heap, page);
    if (n == NONE) return -1;
    *pool = (heap->nodes[n].arena - 1) / 2;
    return 0;
}

void presil_heap_pool_keep(presil_heap *heap, uint32_t pool, int keep) {
    heap->arenas[1 + 2 * pool].used = heap->arenas[2 + 2 * pool].used = keep ? 2 : 1;
}

int presil_heap_pool_create(presil_heap *heap, uint32_t *pool) {
    uint32_t found = 1;
    while (1 + 2 * found < heap->arena_count && heap->arenas[1 + 2 * found].used) found++;
    if (1 + 2 * found >= heap->arena_count) {
        presil_heap_arena *arenas = realloc(heap->arenas, (heap->arena_count + 2) * sizeof *arenas);
        if (!arenas) return PRESIL_HEAP_NO_HOST_MEMORY;
        heap->arenas = arenas;
        heap->arena_count += 2;
    }
    arena_init(&heap->arenas[1 + 2 * found]);
    arena_init(&heap->arenas[2 + 2 * found]);
    *pool = found;
    return PRESIL_HEAP_OK;
}

uint32_t presil_heap_pool_destroy(presil_heap *heap, uint32_t pool) {
    uint32_t live = 0;
    for (uint32_t n = 0; n != NONE; n = heap->nodes[n].above) {
        presil_heap_node *node = &heap->nodes[n];
        if (node->arena != 1 + 2 * pool && node->arena != 2 + 2 * pool) continue;
        if (node->live) {
            count_reserved(heap, n, node->arena, -1);
            count_reserved(heap, n, node->arena - 2 * pool, 1);
            node->arena -= 2 * pool;
            live++;
        } else {
            bin_remove(heap, n);
            count_reserved(heap, n, node->arena, -1);
            node->arena = RAW;
            n = merge(heap, n);
        }
    }
    heap->arenas[1 + 2 * pool].used = 0;
    heap->arenas[2 + 2 * pool].used = 0;
    return live;
}

void presil_heap_get_stats(const presil_heap *heap, presil_heap_stats *out) {
    const presil_heap_counter *blocks = heap->counters[PRESIL_HEAP_BLOCKS], *pages = heap->counters[PRESIL_HEAP_PAGES],
                              *reserved = heap->counters[PRESIL_HEAP_RESERVED];
    *out = (presil_heap_stats){.allocated = pages->current,
                               .allocated_peak = pages->peak,
                               .reserved = reserved->current,
                               .reserved_peak = reserved->peak,
                               .live = blocks->current,
                               .allocations = blocks->gained,
                               .frees = blocks->lost,
                               .failures = heap->failures};
    uint32_t run = 0, largest = 0;
    for (uint32_t n = 0; n != NONE; n = heap->nodes[n].above) {
        run = heap->nodes[n].live ? 0 : run + heap->nodes[n].pages;
        if (run > largest) largest = run;
    }
    out->largest_free = largest;
}

void presil_heap_reset_peak(presil_heap *heap) {
    for (int i = 0; i < PRESIL_HEAP_COUNTERS; i++) {
        for (int kind = 0; kind < PRESIL_HEAP_KINDS; kind++)
            heap->counters[i][kind].peak = heap->counters[i][kind].current;
    }
}

void presil_heap_reset_totals(presil_heap *heap) {
    for (int i = 0; i < PRESIL_HEAP_COUNTERS; i++) {
        for (int kind = 0; kind < PRESIL_HEAP_KINDS; kind++)
            heap->counters[i][kind].gained = heap->counters[i][kind].lost = 0;
    }
    heap->failures = heap->flushes = 0;
}
