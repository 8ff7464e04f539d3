/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimated timing of a command list on the default memory model: engines in order, LOAD and STORE sharing the bus,
 * EPILOGUE and LOAD losing some scratchpad cycles to the others. Decides the ring's order and which tiling is best;
 * nothing correct depends on it.
 */
#include <stdlib.h>
#include <string.h>
#include "descriptors.h"

/* Cycles, measured on the RTL: from a doorbell to the first descriptor's start, from a request to its first beat,
 * between descriptors of an engine, from the last work of a descriptor to its completion; from the last write to the
 * launch's end. */
enum { FETCH = 110, READ_LATENCY = 115, GAP = 4, MATRIX_TAIL = 16, EPILOGUE_TAIL = 24, LAUNCH_TAIL = 110 };

typedef struct {
    const uint32_t *queue; /* operations of the engine, in order */
    uint32_t count, next;  /* next: the one that runs or is to start */
    bool running;
    double left, rate; /* work of the running one, in cycles of its own */
    double begin, end; /* when the next one may begin at the earliest; end of the last one's work */
    double *done;      /* completion by sequence number, [0] unused */
    double issued;
} engine_clock;

typedef struct {
    const chip_op *ops; /* of the segment */
    engine_clock engine[CHIP_ENGINES];
    double now, first_matrix, last_matrix;
    double *starts; /* may be NULL */
} clockwork;

/* When everything that op needs is complete, or -1 while it isn't known. */
static double ready_at(const clockwork *k, const chip_op *op) {
    double ready = 0;
    for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
        if (!op->need[e]) continue;
        if (k->engine[e].next < op->need[e]) return -1;
        if (k->engine[e].done[op->need[e]] > ready) ready = k->engine[e].done[op->need[e]];
    }
    return ready;
}

/* The time at which the engine's next operation begins its work; -1: not yet known. */
static double begin_of(clockwork *k, uint32_t e) {
    engine_clock *c = &k->engine[e];
    if (c->running || c->next == c->count) return -1;
    double ready = ready_at(k, &k->ops[c->queue[c->next]]);
    if (ready < 0) return -1;
    if (ready < FETCH) ready = FETCH;
    if (e == LOAD) { /* its requests run ahead of the data */
        double issue = ready > c->issued ? ready : c->issued;
        if (k->starts) k->starts[c->queue[c->next]] = issue;
        c->issued = issue;
        return issue + READ_LATENCY > c->end ? issue + READ_LATENCY : c->end;
    }
    double begin = ready > c->end + GAP ? ready : c->end + GAP;
    if (k->starts) k->starts[c->queue[c->next]] = begin;
    return begin;
}

static void set_rates(clockwork *k) {
    engine_clock *load = &k->engine[LOAD], *store = &k->engine[STORE], *epilogue = &k->engine[EPILOGUE];
    for (uint32_t e = 0; e < CHIP_ENGINES; e++) k->engine[e].rate = 1;
    if (load->running && store->running) {
        const chip_op *l = &k->ops[load->queue[load->next]], *s = &k->ops[store->queue[store->next]];
        double want_l = (double)l->beats / (l->cycles ? l->cycles : 1),
               want_s = (double)s->beats / (s->cycles ? s->cycles : 1);
        if (want_l + want_s > 1) {
            double half_l = want_l < 0.5 ? want_l : want_s < 0.5 ? 1 - want_s : 0.5;
            load->rate = half_l / want_l;
            store->rate = (1 - half_l) / want_s < 1 ? (1 - half_l) / want_s : 1;
        }
    }
    if (epilogue->running && k->ops[epilogue->queue[epilogue->next]].reads_residual && k->engine[MATRIX].running &&
        store->running)
        epilogue->rate = 0.88;
    if (epilogue->running && load->running) load->rate *= 0.94;
}

static void finish_op(clockwork *k, uint32_t e) {
    static const double tail[CHIP_ENGINES] = {2, MATRIX_TAIL, EPILOGUE_TAIL, 2};
    engine_clock *c = &k->engine[e];
    c->running = false;
    c->end = k->now;
    c->done[++c->next] = k->now + tail[e];
    if (e == MATRIX) k->last_matrix = k->now;
}

/* To the next begin or end of anything; false when all is done. */
static bool step(clockwork *k) {
    double when = -1;
    for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
        engine_clock *c = &k->engine[e];
        c->begin = begin_of(k, e);
        double at = c->running ? k->now + c->left / c->rate : c->begin;
        if (at >= 0 && (when < 0 || at < when)) when = at;
    }
    if (when < 0) return false;
    if (when < k->now) when = k->now;
    for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
        engine_clock *c = &k->engine[e];
        if (c->running) c->left -= (when - k->now) * c->rate;
    }
    k->now = when;
    for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
        engine_clock *c = &k->engine[e];
        if (c->running && c->left < 0.01) {
            finish_op(k, e);
        } else if (!c->running && c->begin >= 0 && c->begin <= when) {
            c->running = true;
            c->left = k->ops[c->queue[c->next]].cycles;
            if (e == LOAD)
                c->issued =
                    c->begin + c->left - READ_LATENCY > c->issued ? c->begin + c->left - READ_LATENCY : c->issued;
            if (e == MATRIX && k->first_matrix < 0) k->first_matrix = when;
        }
    }
    set_rates(k);
    return true;
}

uint64_t chip_builder_time(const chip_builder *b, uint64_t *starts, uint64_t *edges) {
    size_t n = b->count ? b->count : 1, first = 0;
    uint32_t *queues = malloc(n * sizeof *queues);
    double *times = malloc((2 * n + 2 * CHIP_ENGINES) * sizeof *times), total = 0;
    *edges = 0;
    if (!queues || !times) {
        free(queues);
        free(times);
        return UINT64_MAX;
    }
    for (size_t s = 0; s <= b->cut_count; s++) {
        size_t end = s < b->cut_count ? b->cuts[s] : b->count;
        clockwork k = {
            .ops = b->ops + first, .first_matrix = -1, .starts = starts ? times + n + 2 * CHIP_ENGINES : NULL};
        uint32_t count[CHIP_ENGINES] = {0}, at[CHIP_ENGINES], from = 0;
        for (size_t i = first; i < end; i++) count[b->ops[i].engine]++;
        for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
            k.engine[e] = (engine_clock){.queue = queues + from, .count = count[e], .done = times + from + e};
            at[e] = from;
            from += count[e];
        }
        for (size_t i = first; i < end; i++) queues[at[b->ops[i].engine]++] = (uint32_t)(i - first);
        while (step(&k)) continue;
        for (size_t i = first; starts && i < end; i++) starts[i] = (uint64_t)(k.starts[i - first] * 16);
        total += k.now + LAUNCH_TAIL;
        if (k.first_matrix >= 0) *edges += (uint64_t)(k.first_matrix + k.now + LAUNCH_TAIL - k.last_matrix);
        first = end;
    }
    free(queues);
    free(times);
    return (uint64_t)total;
}
