/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves whole plans: what check.c says of each launch (tokens, hazards, scratchpad, accumulators), that LOAD reads and
 * STORE writes nothing but what the plan declares, all of the latter, and that operators of a merged plan read and
 * write DRAM in their order (order.c). With PRESIL_CHECK_PLANS (presets check and asan) every plan is proved before
 * anybody gets it.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include "rows.h"

/* Commands that were proved already: the proof of check.c does not depend on addresses, so it is made once for all that
 * differ in them alone. */
enum { PROVED = 4096 };
static _Atomic uint64_t proved[PROVED];

static uint64_t commands_key(const presil_plan *plan) {
    uint64_t h = plan->signature ^ (uint64_t)plan->segments << 32;
    for (uint32_t s = 0; s < plan->segments; s++) {
        h = chip_mix(h, plan->segment_ends[s]);
    }
    return h ? h : 1;
}

static int prove_commands(const presil_plan *plan, char *text, size_t bytes) {
    const uint64_t key = commands_key(plan);
    _Atomic uint64_t *known = &proved[key % PROVED];
    if (atomic_load_explicit(known, memory_order_relaxed) == key) return 0;
    size_t first = 0;
    for (uint32_t s = 0; s < plan->segments; s++) {
        if (chip_check_plan(&plan->config, plan->list + first, plan->segment_ends[s] - first, text, bytes)) return -1;
        first = plan->segment_ends[s];
    }
    if (first != plan->count) {
        (void)snprintf(text, bytes, "the launches end at descriptor %zu of %zu", first, plan->count);
        return -1;
    }
    atomic_store_explicit(known, key, memory_order_relaxed);
    return 0;
}

/* ---- DRAM ----------------------------------------------------------------------------------- */
typedef struct {
    const presil_byte_range *list;
    uint32_t count, last; /* last: where the row before was found */
} ranges;

static bool holds(const presil_byte_range *r, uint64_t address, uint64_t bytes) {
    return address >= r->base.value && bytes <= r->bytes && address - r->base.value <= r->bytes - bytes;
}

static bool declared(ranges *r, uint64_t address, uint64_t bytes) {
    if (r->last < r->count && holds(&r->list[r->last], address, bytes)) return true;
    uint32_t low = 0, high = r->count; /* the first that begins behind the address */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (r->list[middle].base.value <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (!low) return false;
    r->last = low - 1;
    return holds(&r->list[low - 1], address, bytes);
}

/* The hull of all rows, if one range holds it: most tensors. */
static bool all_declared(ranges *r, const dram_rows *w) {
    const dram_span hull = rows_hull(w, 3, w->addr);
    return declared(r, hull.low, hull.high - hull.low);
}

/* false: *address is the first byte of a row that is not declared. */
static bool rows_declared(ranges *r, const dram_rows *w, uint64_t *address) {
    if (!w->length || all_declared(r, w)) return true;
    for (int64_t i3 = 0; i3 < w->n[2]; i3++) {
        for (int64_t i2 = 0; i2 < w->n[1]; i2++) {
            for (int64_t i1 = 0; i1 < w->n[0]; i1++) {
                const int64_t row = w->rp[0] + i1 * w->rp[1] + i2 * w->rp[2] + i3 * w->rp[3];
                if (w->limit && (row < 0 || row >= w->limit)) continue;
                *address = w->addr + (uint64_t)(i1 * w->ds[0] + i2 * w->ds[1] + i3 * w->ds[2]);
                if (!declared(r, *address, w->length)) return false;
            }
        }
    }
    return true;
}

static int prove_memory(const presil_plan *plan, const ranges *written, char *text, size_t bytes) {
    ranges reads = {plan->reads, plan->read_count, 0}, writes = *written;
    uint64_t stored = 0, promised = 0, address = 0;
    for (size_t i = 0; i < plan->count; i++) {
        const presil_desc *d = &plan->list[i];
        const bool store = presil_desc_opcode(d) == PRESIL_OPCODE_STORE;
        if (!store && presil_desc_opcode(d) != PRESIL_OPCODE_LOAD) continue;
        const uint64_t shift = chip_shift(plan, i);
        const dram_rows w = store ? store_rows(d, shift) : load_rows(d, shift);
        if (store) stored += w.length * (uint64_t)(w.n[0] * w.n[1] * w.n[2]);
        if (rows_declared(store ? &writes : &reads, &w, &address)) continue;
        (void)snprintf(
            text, bytes, "descriptor %zu (%s, tile %u): %llu bytes at 0x%llx are none that the plan declares", i,
            store ? "STORE" : "LOAD", presil_desc_tag(d), (unsigned long long)w.length, (unsigned long long)address);
        return -1;
    }
    for (uint32_t i = 0; i < written->count; i++) promised += written->list[i].bytes;
    if (stored >= promised || plan->parts) return 0; /* parts were proved one by one */
    (void)snprintf(text, bytes, "%llu bytes are stored, of %llu that the plan declares", (unsigned long long)stored,
                   (unsigned long long)promised);
    return -1;
}

/* Both lists are sorted. */
static bool reads_what_it_writes(const presil_plan *plan, const ranges *writes) {
    for (uint32_t r = 0, w = 0; r < plan->read_count && w < writes->count;) {
        const presil_byte_range *a = &plan->reads[r], *b = &writes->list[w];
        const dram_span read = {a->base.value, a->base.value + a->bytes},
                        written = {b->base.value, b->base.value + b->bytes};
        if (spans_meet(read, written)) return true;
        *(read.low < written.low ? &r : &w) += 1;
    }
    return false;
}

/* Of each launch by itself: at its end the chip is idle. */
static int prove_order(const presil_plan *plan, const ranges *written, char *text, size_t bytes) {
    if (!plan->parts || !reads_what_it_writes(plan, written)) return 0;
    size_t first = 0;
    for (uint32_t s = 0; s < plan->segments; first = plan->segment_ends[s++]) {
        if (chip_check_order(plan, first, plan->segment_ends[s], text, bytes)) return -1;
    }
    return 0;
}

int chip_prove(const presil_plan *plan, char *text, size_t bytes) {
    ranges written = {0};
    presil_byte_range *list = chip_plan_written(plan, &written.count);
    written.list = list;
    if (!list) (void)snprintf(text, bytes, "no host memory to prove a plan");
    const bool wrong = !list || prove_commands(plan, text, bytes) || prove_memory(plan, &written, text, bytes) ||
                       prove_order(plan, &written, text, bytes);
    free(list);
    return wrong ? -1 : 0;
}

int chip_plan_done(presil_plan *plan, presil_plan **out, presil_error_buffer *error) {
#ifdef PRESIL_CHECK_PLANS
    char text[256];
    if (chip_prove(plan, text, sizeof text)) {
        const int status = chip_fail(error, PRESIL_EDESC, "the plan is wrong, a defect of the driver: %s", text);
        chip_plan_free(plan);
        return status;
    }
#else
    (void)error;
#endif
    *out = plan;
    return PRESIL_OK;
}
