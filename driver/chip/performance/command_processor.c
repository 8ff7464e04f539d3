/* SPDX-License-Identifier: Apache-2.0 */
/* presil_command, presil_issue, presil_tokens, presil_axi_read, and the default memory model. */
#include <stdlib.h>
#include "performance.h"

/* AROUND: cycles of the loop that the counter does not have. */
enum {
    AROUND = 2,
    SLOTS = 16,
    FETCHED = 8,
    DESCRIPTOR = 128,
    PAGE = 32,
    WINDOW = 16,
    OUTSTANDING = 256,
    PATIENCE = 100000
};

/* ---- reads: descriptors and LOAD */
/* Reads and writes share what may move, in turns. */
static void look_at_memory(performance *p) {
    const int64_t word = p->config->word_bytes, rate = (int64_t)p->memory.bytes;
    bool read = p->read_count && !p->offered && p->reads[p->read_head % BURSTS].ready <= p->now,
         write = p->store.take_beat;
    p->credit = min64(p->credit + rate, rate + word - 1);
    if (read && write && p->credit < 2 * word) *(p->read_was_last ? &read : &write) = false;
    read = read && p->credit >= word;
    write = write && p->credit >= word;
    p->credit -= word * (read + write);
    if (read != write) p->read_was_last = read;
    p->offered |= read;
    p->store.take_beat = write;
}

static void deliver(performance *p) {
    read_burst *b = &p->reads[p->read_head % BURSTS];
    if (!p->offered || (int32_t)(p->load.got - p->load.released) >= WINDOW) return;
    p->offered = false;
    p->done.read_beats++;
    if (b->fetch)
        p->got_beats++;
    else
        p->load.got++;
    if (!--b->beats) {
        p->load_bursts -= !b->fetch;
        p->read_head++;
        p->read_count--;
    }
}

static void step_read(performance *p) {
    const uint32_t beats = DESCRIPTOR / p->config->word_bytes;
    if (p->address_valid) {
        p->address.ready = p->now + p->memory.latency;
        p->reads[(p->read_head + p->read_count++) % BURSTS] = p->address;
    }
    p->address_valid = p->fetch_valid || p->load_go;
    if (p->fetch_valid) {
        p->address = (read_burst){.beats = p->fetch_count * beats, .fetch = true};
    } else if (p->load_go) {
        p->address = (read_burst){.beats = rows_burst(p, &p->load.rows)};
        p->load_bursts++;
    }
}

/* ---- commands */
static bool hand_over(performance *p) {
    const presil_desc *d = &p->list[p->head];
    const uint32_t opcode = presil_desc_opcode(d);
    if (opcode == PRESIL_OPCODE_NOP) return true;
    const uint32_t e = opcode - PRESIL_OPCODE_LOAD;
    if (e >= CHIP_ENGINES || p->queue[e].held == QUEUE) return false;
    p->pushed = (int32_t)e;
    p->push = d;
    return true;
}

static void step_command(performance *p) {
    const uint32_t beats = DESCRIPTOR / p->config->word_bytes, ahead = p->count - p->asked,
                   page = PAGE - p->asked % PAGE;
    uint32_t count = FETCHED < ahead ? FETCHED : ahead;
    if (page < count) count = page;
    const bool ask = !p->fetch_valid && ahead && p->asked + count - p->head <= SLOTS;
    const uint32_t got = p->got;
    p->fetch_valid = false;
    if (ask) {
        p->fetch_valid = true;
        p->fetch_count = count;
        p->asked += count;
    }
    p->got = p->got_beats / beats;
    p->pushed = NO_BANK;
    switch (p->state) {
    case 0: p->state = p->head != got; break;
    case 1: p->state = 2; break;
    case 2: p->state = hand_over(p) ? 3 : 2; break;
    default: p->state = 0, p->head++; break;
    }
}

static bool has_tokens(const performance *p, uint32_t wait) {
    for (uint32_t k = 0; wait; k++, wait >>= 1)
        if ((wait & 1) && !p->tokens[k]) return false;
    return true;
}

static void step_queue(performance *p, uint32_t e, bool grant) {
    engine_queue *q = &p->queue[e];
    if (q->begins) {
        q->gives[q->given++ % FLIGHTS] = presil_desc_signal(q->start);
        q->start_valid = false;
    }
    if (grant) {
        q->start = q->queue[q->head++ % QUEUE];
        q->start_valid = true;
        q->held--;
    }
    if (p->pushed == (int32_t)e) q->queue[(q->head + q->held++) % QUEUE] = p->push;
}

static void step_queues(performance *p) {
    bool grant[CHIP_ENGINES];
    for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
        const engine_queue *q = &p->queue[e];
        const uint32_t wait = q->held ? presil_desc_wait(q->queue[q->head % QUEUE]) : 0;
        grant[e] = q->held && !q->start_valid && has_tokens(p, wait);
        for (uint32_t k = 0; grant[e] && k < 20; k++) p->tokens[k] -= wait >> k & 1;
    }
    for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
        engine_queue *q = &p->queue[e];
        if (!q->done) continue;
        const uint32_t gives = q->gives[q->taken++ % FLIGHTS];
        for (uint32_t k = 0; k < 4; k++) p->tokens[4 * e + k] += gives >> k & 1;
    }
    for (uint32_t e = 0; e < CHIP_ENGINES; e++) step_queue(p, e, grant[e]);
}

static bool is_over(const performance *p) {
    if (p->head != p->count || p->state) return false;
    for (uint32_t e = 0; e < CHIP_ENGINES; e++)
        if (p->queue[e].held || p->queue[e].start_valid) return false;
    return !p->load.held && !p->matrix.held && !p->epilogue.held[0] && !p->epilogue.held[1] && !p->store.held &&
           p->store.idle;
}

static void step(performance *p) {
    matrix_look(p);
    store_look(p);
    epilogue_look(p);
    load_look(p);
    look_at_memory(p);
    p->load_go = p->load.rows.left && !p->fetch_valid && p->load_bursts < OUTSTANDING;
    if (p->now >= AROUND) charge_causes(p); /* before that no engine has anything yet */
    deliver(p);
    step_read(p);
    load_step(p);
    matrix_step(p);
    epilogue_step(p);
    store_step(p);
    step_queues(p);
    step_command(p);
    p->now++;
}

bool chip_perform(const presil_config *config, const chip_memory *memory, const presil_desc *list, size_t count,
                  chip_performance *out) {
    performance *p = calloc(1, sizeof *p);
    if (!p) return false;
    p->config = config;
    p->memory = *memory;
    p->list = list;
    p->count = (uint32_t)count;
    p->banks = config->banks;
    while (1u << p->log2_word < config->word_bytes) p->log2_word++;
    for (uint32_t i = 0; i < DELAYS; i++) p->epilogue.out[i].bank = NO_BANK;
    p->pushed = NO_BANK;
    uint32_t head = 0;
    uint64_t since = 0;
    do {
        step(p);
        if (p->head != head) head = p->head, since = p->now;
    } while (!is_over(p) && p->now - since < memory->latency + PATIENCE);
    const bool over = is_over(p);
    out->cycles += p->now - AROUND;
    out->rows += p->done.rows;
    out->read_beats += p->done.read_beats, out->write_beats += p->done.write_beats;
    for (uint32_t e = 0; e < CHIP_ENGINES; e++)
        for (uint32_t c = 0; c < PRESIL_CAUSES; c++) out->stalls[e][c] += p->done.stalls[e][c];
    free(p);
    return over;
}
