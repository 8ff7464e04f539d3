/* SPDX-License-Identifier: Apache-2.0 */
/* presil_store, presil_store_pack, presil_axi_write, and the memory behind it. */
#include "performance.h"

enum { HELD = 6, READ_TO_PIECE = 1 };

static bool idle_pack(const store_engine *s) { return !s->pieces && !s->flush && !s->beat_valid; }

void store_look(performance *p) {
    store_engine *s = &p->store;
    const bool wants = s->have && s->pieces < PIECES;
    const int32_t bank = wants ? bank_of(p, s->sp >> p->log2_word) : NO_BANK;
    s->go = wants && bank != p->read[0] && bank != p->read[1];
    p->read[2] = s->go ? bank : NO_BANK;
    const uint32_t t = s->tail % 8;
    p->queue[STORE].done =
        s->held && s->read[t] &&
        (!presil_store_ordered(s->queue[t]) || (s->addressed[t] && (int32_t)(s->owed[t] - s->responses) <= 0));
    s->take_beat = s->beat_valid && s->burst_data != s->issued;
    s->answered = s->answer_head != s->answer_tail && s->answers[s->answer_head % BURSTS] <= p->now;
    s->idle = !s->held && idle_pack(s) && !s->rows.left && !s->rows.valid && s->burst_head == s->burst_tail &&
              !s->address_valid;
}

/* ---- beats of the pieces that were read */
static void step_pack(performance *p) {
    store_engine *s = &p->store;
    const uint32_t word = p->config->word_bytes;
    const bool free = !s->beat_valid || s->take_beat, arrives = s->arriving & 1;
    p->done.write_beats += s->take_beat;
    if (s->take_beat) s->beat_valid = false;
    s->arriving >>= 1;
    if (s->flush && free) {
        s->beat_valid = true;
        s->flush = false;
    } else if (s->readable && free) {
        const uint32_t k = s->piece_head++ % PIECES, stop = s->piece[k].at + s->piece[k].len;
        s->beat_valid = stop >= word || s->piece[k].end;
        s->flush = s->piece[k].end && stop > word;
        s->readable--;
        s->pieces--;
    }
    s->readable += arrives;
}

static void step_bus(performance *p, bool burst, uint32_t beats) {
    store_engine *s = &p->store;
    if (s->take_beat && ++s->beat == s->lengths[s->burst_data % BURSTS]) {
        s->beat = 0;
        s->burst_data++;
        s->answers[s->answer_tail++ % BURSTS] = p->now + p->memory.response;
    }
    if (s->address_valid) s->issued++;
    s->address_valid = burst;
    if (burst) s->lengths[s->burst_head++ % BURSTS] = beats;
    if (s->answered) s->answer_head++, s->burst_tail++, s->responses++;
}

/* ---- the walk */
static void take_row(store_engine *s) {
    s->w = s->row[s->row_head++ % STORE_ROWS];
    s->row_count--;
    s->have = true;
    s->sp = s->chunk_sp = s->w.sp;
    s->at = s->w.at;
    s->left = s->size;
    s->more = presil_store_n0(s->d) - 1;
}

static void next_piece(store_engine *s, int64_t len, uint32_t mask) {
    s->at = (s->at + (uint32_t)len) & mask;
    if (s->left > s->word) {
        s->sp += presil_store_sw(s->d), s->left -= len;
        return;
    }
    s->chunk_sp += presil_store_ss0(s->d);
    s->sp = s->chunk_sp, s->left = s->size;
    s->more--;
}

static void step_walk(performance *p) {
    store_engine *s = &p->store;
    const int64_t len = min64(s->left, s->word);
    const bool row_end = s->go && s->left <= s->word && !s->more, ends = row_end && s->w.last,
               pop = s->d && s->row_count && (!s->have || (row_end && !s->w.last)), take = !s->d && s->walk != s->head;
    if (s->go) {
        const uint32_t k = (s->piece_head + s->pieces++) % PIECES;
        s->piece[k].at = s->at, s->piece[k].len = (uint32_t)len, s->piece[k].end = row_end;
        s->arriving |= 1u << READ_TO_PIECE;
        if (!row_end) next_piece(s, len, p->config->word_bytes - 1);
    }
    if (row_end && !pop) s->have = false;
    if (pop) take_row(s);
    if (take) {
        s->d = s->queue[s->walk % 8];
        s->word = presil_store_word_bytes(s->d);
        s->size = presil_store_chunk_bytes(s->d);
    }
    if (ends) {
        s->d = NULL;
        s->read[s->walk++ % 8] = true;
    }
}

void store_step(performance *p) {
    store_engine *s = &p->store;
    engine_queue *q = &p->queue[STORE];
    const uint32_t beats = rows_burst(p, &s->rows), left = s->rows.left;
    const bool burst = left && s->burst_head - s->burst_tail < WRITES_MOST, room = s->row_count < STORE_ROWS,
               run_over = burst && left == beats, last = s->rows.last;
    const int64_t sp = s->rows.row_sp, at = s->rows.rel;
    bool taken;
    q->begins = starts(q, !s->rows.run && s->held < HELD);
    step_pack(p);
    step_bus(p, burst, beats);
    if (burst) s->bursts++;
    if (s->a_last && run_over) {
        s->addressed[s->addr_at % 8] = true;
        s->owed[s->addr_at++ % 8] = s->bursts;
        s->a_last = false;
    }
    step_walk(p);
    rows_step(p, &s->rows, room, burst, &taken);
    if (taken) {
        const uint32_t k = (s->row_head + s->row_count++) % STORE_ROWS;
        s->row[k].sp = sp, s->row[k].at = (uint32_t)at, s->row[k].last = last;
        s->a_last = last;
    }
    if (q->done) s->tail++, s->held--;
    if (!q->begins) return;
    rows_start_store(&s->rows, q->start);
    s->addressed[s->head % 8] = s->read[s->head % 8] = false;
    s->queue[s->head++ % 8] = q->start;
    s->held++;
}
