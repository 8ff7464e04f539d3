/* SPDX-License-Identifier: Apache-2.0 */
/* What each engine does in a cycle, as presil_issue and the engines name it for presil_counters; LOAD and STORE tell it
 * a cycle or two later there. */
#include "performance.h"

static uint32_t load_cause(const performance *p) {
    const load_engine *l = &p->load;
    if (l->stall) return PRESIL_CAUSE_SCRATCHPAD;
    if (l->working) return PRESIL_CAUSE_BUSY;
    if (l->waiting) return l->rows.left && !p->load_go ? PRESIL_CAUSE_BUS_REQUEST : PRESIL_CAUSE_BUS_DATA;
    return l->out.valid || !l->drained ? PRESIL_CAUSE_DRAIN : PRESIL_CAUSE_BUSY;
}

static uint32_t matrix_cause(const performance *p) {
    const matrix_engine *m = &p->matrix;
    if (m->take) return PRESIL_CAUSE_BUSY;
    return m->row_valid || p->now >= m->flows_until ? PRESIL_CAUSE_WEIGHTS : PRESIL_CAUSE_DRAIN;
}

static uint32_t epilogue_cause(const performance *p) {
    const epilogue_engine *e = &p->epilogue;
    if (e->step || e->grant) return PRESIL_CAUSE_BUSY;
    if (e->refused) return PRESIL_CAUSE_SCRATCHPAD;
    const bool drains = e->held[e->out_slot] && !e->fresh[e->out_slot] && !e->running;
    return drains ? PRESIL_CAUSE_DRAIN : PRESIL_CAUSE_BUSY;
}

static uint32_t store_cause(const performance *p) {
    const store_engine *s = &p->store;
    if (s->go) return PRESIL_CAUSE_BUSY;
    if (s->have && s->pieces < PIECES) return PRESIL_CAUSE_SCRATCHPAD;
    if (s->rows.left && s->burst_head - s->burst_tail >= WRITES_MOST) return PRESIL_CAUSE_BUS_REQUEST;
    if (s->beat_valid && !s->take_beat) return PRESIL_CAUSE_BUS_DATA;
    if (!s->d && s->walk == s->head && !s->pieces && !s->flush && !s->beat_valid) return PRESIL_CAUSE_BUS_RESPONSE;
    return s->have ? PRESIL_CAUSE_BUSY : PRESIL_CAUSE_DRAIN;
}

/* Of the tokens that a descriptor waits for, those of the first engine that has not given them. */
static uint32_t waiting_cause(const performance *p, const presil_desc *d) {
    for (uint32_t k = 0, wait = presil_desc_wait(d); wait; k++, wait >>= 1)
        if ((wait & 1) && !p->tokens[k]) return PRESIL_CAUSE_WAIT_LOAD + k / 4;
    return PRESIL_CAUSE_BUSY;
}

void charge_causes(performance *p) {
    const bool active[CHIP_ENGINES] = {p->load.held > 0, p->matrix.held > 0, p->epilogue.held[0] || p->epilogue.held[1],
                                       p->store.held > 0};
    static uint32_t (*const of[])(const performance *) = {load_cause, matrix_cause, epilogue_cause, store_cause};
    for (uint32_t e = 0; e < sizeof of / sizeof *of; e++) {
        const engine_queue *q = &p->queue[e];
        const uint32_t cause = active[e]        ? of[e](p)
                               : q->start_valid ? PRESIL_CAUSE_BUSY
                               : !q->held       ? PRESIL_CAUSE_COMMAND
                                                : waiting_cause(p, q->queue[q->head % QUEUE]);
        p->done.stalls[e][cause]++;
    }
}
