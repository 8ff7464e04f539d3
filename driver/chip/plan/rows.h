/* SPDX-License-Identifier: Apache-2.0 */
/* rows.h - the bytes of DRAM that LOAD and STORE touch, by rows (for proofs of plans). */
#ifndef PRESIL_CHIP_ROWS_H
#define PRESIL_CHIP_ROWS_H

#include "plan.h"

/* Rows of LOAD and STORE: `length` bytes each, from addr; a LOAD's are read where their position is inside. */
typedef struct {
    uint64_t addr, length;
    int64_t n[3], ds[3], rp[4], limit;
} dram_rows;

typedef struct {
    uint64_t low, high; /* from low to before high */
} dram_span;

static inline dram_rows load_rows(const presil_desc *d, uint64_t shift) {
    const int64_t from = max64(0, presil_load_pos0(d)),
                  last = presil_load_pos0(d) + ((int64_t)presil_load_n0(d) - 1) * presil_load_step0(d) +
                         presil_load_chunk_bytes(d),
                  length = min64(presil_load_row_bytes(d), last) - from;
    return (dram_rows){.addr = chip_address(d) + shift + (uint64_t)from,
                       .length = (uint64_t)max64(0, length),
                       .n = {presil_load_n1(d), presil_load_n2(d), presil_load_n3(d)},
                       .ds = {chip_stride(d, 1), chip_stride(d, 2), chip_stride(d, 3)},
                       .rp = {presil_load_rp0(d), presil_load_rp1(d), presil_load_rp2(d), presil_load_rp3(d)},
                       .limit = presil_load_row_limit(d)};
}

static inline dram_rows store_rows(const presil_desc *d, uint64_t shift) {
    return (dram_rows){.addr = chip_address(d) + shift,
                       .length = (uint64_t)presil_store_n0(d) * presil_store_chunk_bytes(d),
                       .n = {presil_store_n1(d), presil_store_n2(d), presil_store_n3(d)},
                       .ds = {chip_stride(d, 1), chip_stride(d, 2), chip_stride(d, 3)}};
}

/* Calls row() for each that is read or written; false: it said so. */
typedef bool (*dram_row_fn)(void *context, uint64_t base, uint64_t bytes);
bool chip_each_row(const dram_rows *w, dram_row_fn row, void *context);

/* Rows joined as they come; presil_merge_ranges() makes them disjoint. */
typedef struct {
    presil_byte_range *at;
    size_t count, capacity;
} dram_row_list;
bool chip_add_row(void *row_list, uint64_t base, uint64_t bytes); /* a dram_row_fn; false: no host memory */

/* All that the innermost `dims` dimensions walk from `at`. */
static inline dram_span rows_hull(const dram_rows *w, int dims, uint64_t at) {
    dram_span hull = {at, at + w->length};
    for (int i = 0; i < dims; i++) {
        const int64_t reach = (w->n[i] - 1) * w->ds[i];
        if (reach < 0)
            hull.low += (uint64_t)reach;
        else
            hull.high += (uint64_t)reach;
    }
    return hull;
}

static inline bool spans_meet(dram_span a, dram_span b) { return a.low < b.high && b.low < a.high; }

#endif
