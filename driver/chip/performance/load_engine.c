/* SPDX-License-Identifier: Apache-2.0 */
/* presil_load, presil_load_walk, presil_load_columns. */
#include <string.h>
#include "performance.h"

enum { HELD = 8 };

static bool is_conv(const presil_desc *d) { return presil_load_conv(d) != PRESIL_CONV_NONE; }

void load_look(performance *p) {
    load_engine *l = &p->load;
    const bool refused = l->out.valid && l->out.bank == p->epilogue.out[p->now % DELAYS].bank,
               in_plain = l->column_valid || (l->c.valid ? !l->c.tr : l->b.valid && !l->b.conv && !l->b.tr),
               in_done = l->column_valid ? l->column_done
                         : l->c.valid    ? l->c.done
                                         : l->b.done;
    const uint32_t in_addr = l->column_valid ? l->column_addr : l->c.valid ? l->c.addr : l->b.addr;
    p->queue[LOAD].done = l->out.valid && !refused && l->out.done;
    l->stall = l->parked || (refused && !(in_plain && !in_done && in_addr != l->out.addr));
    l->refused = refused;
    const load_group *leaving = &l->group[l->column_set];
    l->open = l->groups + (l->groups && l->group_valid) < 2;
    l->open_early =
        l->open || (l->groups + l->group_valid == 2 && l->full[l->column_set] && l->column + 3 >= leaving->columns);
    l->drained = !l->p.valid && !l->b.valid && !l->c.valid && !l->groups && !l->group_valid && !l->column_valid;
    l->written = (load_piece){
        .valid = l->column_valid, .done = l->column_done, .addr = l->column_addr, .bank = bank_of(p, l->column_addr)};
}

/* ---- the scratchpad's end: align, split, merge; a word may pass one whose bank is taken */
static void step_columns(performance *p) {
    load_engine *l = &p->load;
    const bool go = l->groups && l->full[l->column_set] && !l->stall;
    bool last = false;
    if (!l->stall) l->column_valid = false;
    if (l->rows_in) l->full[l->rows_in_set] = true;
    if (go) {
        const uint32_t set = l->column_set;
        last = l->column + 1 >= l->group[set].columns;
        l->column_valid = true;
        l->column_addr = (uint32_t)(l->group[set].sp >> p->log2_word);
        l->column_done = last && l->group[set].last;
        if (!last) l->group[set].sp += l->group[set].step;
        l->column++;
        if (last) {
            l->column = 0;
            l->full[set] = false;
            l->column_set = !set;
        }
    }
    if (l->group_valid && !l->stall) {
        l->group[l->group_head] = l->group_next;
        l->group_head = !l->group_head;
        l->groups++;
    }
    if (last) l->groups--;
}

static void step_pipeline(performance *p) {
    load_engine *l = &p->load;
    const load_piece taken = l->c.valid ? l->c : l->b;
    l->rows_in = false;
    if (l->parked) {
        const load_piece other = l->out;
        l->out = l->aside;
        if (l->refused)
            l->aside = other;
        else
            l->parked = false;
        return;
    }
    if (l->stall) return;
    if (l->refused) {
        l->aside = l->out;
        l->parked = true;
    }
    const bool take = l->c.valid || (l->b.valid && !l->b.conv);
    l->out.valid = false;
    if (take && taken.tr) {
        l->rows_in = taken.group;
        l->rows_in_set = taken.set;
    } else if (take) {
        l->out = taken;
        l->out.bank = bank_of(p, taken.addr);
    }
    if (l->written.valid) l->out = l->written;
    l->c = l->b;
    l->c.valid = l->b.valid && l->b.conv;
    l->b = l->p;
}

/* ---- the walk */
typedef struct {
    bool go, word_end, chunk_end, row_end;
    int64_t len;
} walk_step;

/* What no later piece needs is free. */
static void free_window(const performance *p, load_engine *l) {
    int64_t keep = l->position;
    if (l->more && l->step0 < l->position - l->chunk_position) keep = l->chunk_position + l->step0;
    const int64_t beat = (l->w.rel + max64(0, keep)) >> p->log2_word;
    if (l->w.beats) l->freed = l->slot0 + (beat < l->w.beats ? (uint32_t)beat : l->w.beats);
}

static walk_step walk_piece(performance *p) {
    load_engine *l = &p->load;
    const int64_t word = p->config->word_bytes, half_word = word / 2;
    walk_step s = {.len = min64(l->chunk_left, l->word)};
    const int64_t off = l->tr ? 0 : l->sp & (word - 1), len = l->conv ? s.len >> 1 : s.len;
    const bool half = l->half || (l->conv && off >= half_word), more = l->conv && !half && off + len > half_word;
    const int64_t low = half ? half_word : 0, high = l->conv && !half ? half_word : word;
    int64_t from = l->position < 0 ? min64(s.len, -l->position) : 0,
            to = max64(0, min64(s.len, l->row_bytes - l->position));
    if (l->conv) from >>= 1, to >>= 1;
    from = max64(low, off + from), to = min64(high, off + to);
    const bool needs = l->w.beats && from < to;
    if (!needs) to = 0;
    const int64_t base = l->w.rel + l->position - (l->conv ? off << 1 : off) + (l->conv && half ? word : 0),
                  need = base + (l->conv ? (to - low) << 1 : to) - 1;
    bool ready = !needs || (int32_t)(l->got - (l->slot0 + (uint32_t)(need >> p->log2_word) + 1)) >= 0;
    if (l->tr && !l->k && !half && !(l->w.last1 ? l->open : l->open_early)) ready = false;
    free_window(p, l);
    s.go = ready;
    if (!ready) return s;
    s.word_end = !more;
    s.chunk_end = !more && (s.len == l->chunk_left || l->tr);
    s.row_end = s.chunk_end && !l->more;
    l->p = (load_piece){.valid = true,
                        .done = s.row_end && l->w.last && !l->tr,
                        .conv = l->conv,
                        .tr = l->tr,
                        .set = l->set,
                        .group = s.row_end && l->w.last1,
                        .addr = (uint32_t)((uint64_t)l->sp >> p->log2_word)};
    l->half = more;
    return s;
}

static void end_group(const performance *p, load_engine *l) {
    const int64_t bytes = l->conv ? l->size >> 1 : l->size;
    const uint32_t element = l->conv ? 1 : presil_load_esize_log2(l->d);
    l->group_next.columns = (uint32_t)(min64(bytes, p->config->word_bytes) >> element);
    l->group_next.last = l->w.last;
    l->group_next.sp = l->chunk_sp;
    l->group_next.step = presil_load_sw(l->d);
    l->set = !l->set;
}

static void advance(const performance *p, load_engine *l, const walk_step *s) {
    if (s->word_end && !s->chunk_end) {
        l->position += s->len, l->chunk_left -= s->len, l->sp += presil_load_sw(l->d);
    } else if (s->chunk_end && !s->row_end) {
        l->more--;
        l->chunk_position += l->step0, l->chunk_sp += presil_load_ss0(l->d);
        l->position = l->chunk_position, l->sp = l->chunk_sp, l->chunk_left = l->size;
    } else if (s->row_end) {
        if (l->tr && l->w.last1) end_group(p, l);
        l->slot0 += l->w.beats;
        l->freed = l->slot0;
        l->k = l->w.last1 ? 0 : l->k + 1;
    }
}

static void take_row(load_engine *l) {
    l->w = l->row[l->row_head % ROWS];
    l->row_head++, l->row_count--;
    l->have = true;
    l->half = false;
    l->position = l->chunk_position = l->w.pos;
    l->sp = l->chunk_sp = l->w.sp;
    l->chunk_left = l->size;
    l->more = l->own_chunks ? 0 : presil_load_n0(l->d) - 1;
}

static void take_descriptor(const performance *p, load_engine *l) {
    const presil_desc *d = l->queued[0];
    l->d = d;
    l->own_chunks = l->own[0];
    l->k = 0;
    l->conv = is_conv(d), l->tr = presil_load_transpose(d);
    l->step0 = presil_load_step0(d), l->row_bytes = presil_load_row_bytes(d), l->size = presil_load_chunk_bytes(d);
    l->word = !l->tr ? presil_load_word_bytes(d) : (int64_t)p->config->word_bytes << l->conv;
    memmove(l->queued, l->queued + 1, (QUEUE - 1) * sizeof *l->queued);
    memmove(l->own, l->own + 1, (QUEUE - 1) * sizeof *l->own);
    l->queued_count--;
}

static void step_walk(performance *p) {
    load_engine *l = &p->load;
    const bool next = !l->d && l->queued_count &&
                      (!(l->conv || l->tr) || l->drained ||
                       (l->conv == is_conv(l->queued[0]) && l->tr == presil_load_transpose(l->queued[0])));
    walk_step s = {0};
    if (!l->stall) {
        l->p.valid = false;
        l->released = l->freed;
        if (l->have) s = walk_piece(p);
    }
    if (!l->stall) l->working = s.go;
    l->waiting = l->have && !l->stall && !s.go;
    const bool pop = l->d && l->row_count && (!l->have || (s.row_end && !l->w.last)), ends = s.row_end && l->w.last;
    if (!l->stall) l->group_valid = s.row_end && l->tr && l->w.last1;
    if (l->have) advance(p, l, &s);
    if (s.row_end && !pop) l->have = false;
    if (pop) take_row(l);
    if (ends) l->d = NULL;
    if (next) take_descriptor(p, l);
}

/* ---- the bus's end */
static bool reads_own_chunks(const performance *p, const presil_desc *d) {
    const uint32_t chunk = presil_load_chunk_bytes(d);
    return presil_load_n0(d) != 1 && presil_load_step0(d) < (int64_t)chunk && chunk > 14 * p->config->word_bytes;
}

void load_step(performance *p) {
    load_engine *l = &p->load;
    engine_queue *q = &p->queue[LOAD];
    const bool begins = starts(q, !l->rows.run && l->queued_count < QUEUE && l->held < HELD);
    const bool room = l->row_count < ROWS, go = p->load_go;
    const load_row row = {l->rows.rel, l->rows.row_pos, l->rows.row_sp, l->rows.beats, l->rows.last1, l->rows.last};
    bool taken;
    step_columns(p);
    step_pipeline(p);
    step_walk(p);
    rows_step(p, &l->rows, room, go, &taken);
    if (taken) l->row[(l->row_head + l->row_count++) % ROWS] = row;
    if (begins) {
        const bool own = reads_own_chunks(p, q->start);
        rows_start_load(&l->rows, q->start, own);
        l->own[l->queued_count] = own;
        l->queued[l->queued_count++] = q->start;
        l->held++;
    }
    if (q->done) l->held--;
    q->begins = begins;
}
