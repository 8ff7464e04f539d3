/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves the order of LOAD and STORE in DRAM: a LOAD sees what STOREs before it in the list wrote (they are complete
 * and, by an `ordered` one of or behind them, have their responses), and a STORE overwrites nothing that a LOAD before
 * it still reads. STOREs among themselves are in order. Of a merged plan each operator is held to those before it; what
 * an operator's own operands do to each other, where a caller lets them overlap, is the caller's affair.
 */
#include <stdio.h>
#include <stdlib.h>
#include "rows.h"

#define NONE SIZE_MAX
enum { BLOCK = 64 }; /* transfers whose hull is looked at together: most have nothing to do with each other */

/* LOADs, or STOREs, of the list so far: number i has the sequence number i + 1. */
typedef struct {
    size_t *index; /* in the list */
    dram_rows *rows;
    dram_span *blocks;
    size_t count;
} transfers;

static bool transfers_alloc(transfers *t, size_t most) {
    t->index = malloc((most + 1) * sizeof *t->index);
    t->rows = malloc((most + 1) * sizeof *t->rows);
    t->blocks = malloc((most / BLOCK + 1) * sizeof *t->blocks);
    return t->index && t->rows && t->blocks;
}

static void transfers_free(transfers *t) {
    free(t->index);
    free(t->rows);
    free(t->blocks);
}

static void transfers_add(transfers *t, size_t index, const dram_rows *rows) {
    dram_span *block = &t->blocks[t->count / BLOCK];
    const dram_span hull = rows_hull(rows, 3, rows->addr);
    if (t->count % BLOCK == 0) *block = hull;
    if (hull.low < block->low) block->low = hull.low;
    if (hull.high > block->high) block->high = hull.high;
    t->index[t->count] = index;
    t->rows[t->count++] = *rows;
}

/* Whether a row of the innermost `dims` dimensions, the first of them at `at` and position `row`, has a byte of s. */
static bool row_meets_span(const dram_rows *w, int dims, uint64_t at, int64_t row, dram_span s) {
    if (!w->length || !spans_meet(rows_hull(w, dims, at), s)) return false;
    if (dims == 0) return !w->limit || (row >= 0 && row < w->limit);
    for (int64_t i = 0; i < w->n[dims - 1]; i++) {
        if (row_meets_span(w, dims - 1, at + (uint64_t)(i * w->ds[dims - 1]), row + i * w->rp[dims], s)) return true;
    }
    return false;
}

static bool rows_meet(const dram_rows *a, int dims, uint64_t at, int64_t row, const dram_rows *b) {
    if (!a->length || !row_meets_span(b, 3, b->addr, b->rp[0], rows_hull(a, dims, at))) return false;
    if (dims == 0) return !a->limit || (row >= 0 && row < a->limit);
    for (int64_t i = 0; i < a->n[dims - 1]; i++) {
        if (rows_meet(a, dims - 1, at + (uint64_t)(i * a->ds[dims - 1]), row + i * a->rp[dims], b)) return true;
    }
    return false;
}

/* The first transfer of numbers [from, end) that shares a byte with w; NONE: no one does. */
static size_t first_shared(const transfers *t, size_t from, size_t end, const dram_rows *w) {
    const dram_span hull = rows_hull(w, 3, w->addr);
    for (size_t i = from; i < end; i++) {
        if (!spans_meet(t->blocks[i / BLOCK], hull)) {
            i = i / BLOCK * BLOCK + BLOCK - 1;
            continue;
        }
        if (rows_meet(w, 3, w->addr, w->rp[0], &t->rows[i])) return i;
    }
    return NONE;
}

typedef struct {
    transfers loads, stores;
    size_t *visible;                /* of each STORE: how many have their responses when it is complete */
    size_t part_loads, part_stores; /* those before the operator's first */
    chip_hazards *hazards;          /* NULL: the first violation ends it */
} memory_order;

static int wrong(memory_order *o, const presil_desc *list, size_t at, size_t other, const char *what, char *text,
                 size_t bytes) {
    (void)snprintf(text, bytes, "descriptor %zu (%s, tile %u): %s descriptor %zu (tile %u)", at,
                   presil_desc_opcode(&list[at]) == PRESIL_OPCODE_LOAD ? "LOAD" : "STORE", presil_desc_tag(&list[at]),
                   what, other, presil_desc_tag(&list[other]));
    if (!o->hazards) return -1;
    const bool load = presil_desc_opcode(&list[at]) == PRESIL_OPCODE_LOAD;
    chip_hazard_tell(o->hazards, load ? PRESIL_HAZARD_STORE_BEFORE_DONE : PRESIL_HAZARD_OVERLAP, &list[at], at, other,
                     text);
    return 0;
}

static int visit_load(memory_order *o, const presil_desc *list, size_t i, uint64_t shift, const chip_moment *at,
                      char *text, size_t bytes) {
    const dram_rows w = load_rows(&list[i], shift);
    const uint32_t known = at[i].clock[STORE];
    const size_t k = first_shared(&o->stores, known ? o->visible[known - 1] : 0, o->part_stores, &w);
    transfers_add(&o->loads, i, &w);
    if (k == NONE) return 0;
    return wrong(o, list, i, o->stores.index[k],
                 k < known ? "reads bytes that may be on their way: \"ordered\" is missing from STORE"
                           : "reads bytes too early: no token says that they are written by STORE",
                 text, bytes);
}

static int visit_store(memory_order *o, const presil_desc *list, size_t i, uint64_t shift, const chip_moment *at,
                       char *text, size_t bytes) {
    const dram_rows w = store_rows(&list[i], shift);
    const size_t k = first_shared(&o->loads, at[i].clock[LOAD], o->part_loads, &w), n = o->stores.count;
    o->visible[n] = presil_store_ordered(&list[i]) ? n + 1 : n ? o->visible[n - 1] : 0;
    transfers_add(&o->stores, i, &w);
    if (k == NONE) return 0;
    return wrong(o, list, i, o->loads.index[k], "overwrites bytes too early: no token says that they are read by LOAD",
                 text, bytes);
}

static int walk(memory_order *o, const presil_plan *plan, size_t first, size_t count, const chip_moment *at, char *text,
                size_t bytes) {
    const presil_desc *list = plan->list + first;
    uint32_t part = 0;
    for (size_t i = 0; i < count; i++) {
        while (part < plan->part_count && plan->parts[part].end <= first + i) part++;
        if (!plan->parts || plan->parts[part].first == first + i)
            o->part_loads = o->loads.count, o->part_stores = o->stores.count;
        const uint32_t op = presil_desc_opcode(&list[i]);
        const uint64_t shift = chip_shift(plan, first + i);
        if (op == PRESIL_OPCODE_LOAD && visit_load(o, list, i, shift, at, text, bytes)) return -1;
        if (op == PRESIL_OPCODE_STORE && visit_store(o, list, i, shift, at, text, bytes)) return -1;
    }
    return 0;
}

int chip_order_hazards(const presil_desc *list, size_t count, const chip_moment *at, chip_hazards *hazards) {
    const presil_plan plan = {.list = list, .count = count};
    memory_order o = {.hazards = hazards};
    char text[256];
    o.visible = malloc((count + 1) * sizeof *o.visible);
    const bool room = transfers_alloc(&o.loads, count) && transfers_alloc(&o.stores, count) && o.visible;
    if (room) (void)walk(&o, &plan, 0, count, at, text, sizeof text);
    transfers_free(&o.loads);
    transfers_free(&o.stores);
    free(o.visible);
    return room ? 0 : -1;
}

int chip_check_order(const presil_plan *plan, size_t first, size_t end, char *text, size_t bytes) {
    const size_t count = end - first;
    memory_order o = {0};
    chip_moment *at = calloc(count + 1, sizeof *at);
    o.visible = malloc((count + 1) * sizeof *o.visible);
    int status = -1;
    if (transfers_alloc(&o.loads, count) && transfers_alloc(&o.stores, count) && at && o.visible) {
        status = chip_check_moments(&plan->config, plan->list + first, count, at, text, bytes);
        if (!status) status = walk(&o, plan, first, count, at, text, bytes);
    } else {
        (void)snprintf(text, bytes, "no host memory to check a plan");
    }
    transfers_free(&o.loads);
    transfers_free(&o.stores);
    free(o.visible);
    free(at);
    return status;
}
