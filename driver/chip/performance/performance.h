/* SPDX-License-Identifier: Apache-2.0 */
/*
 * performance.h - a performance model of the chip: what its engines do in each cycle, without the data. Command
 * processor, queues and tokens, requests and beats of the bus, banks of the scratchpad; delays are those of the RTL's
 * pipelines. Nothing correct depends on it: estimates do (docs/hybrid.md).
 */
#ifndef PRESIL_CHIP_PERFORMANCE_H
#define PRESIL_CHIP_PERFORMANCE_H

#include "descriptors.h"

/* What it knows of the memory: transport_settings.h's latency, response, bytes (here never 0). */
typedef struct {
    uint64_t latency, response, bytes;
} chip_memory;

typedef struct {
    uint64_t cycles, rows, read_beats, write_beats; /* rows: of MATRIX */
    uint64_t stalls[CHIP_ENGINES][PRESIL_CAUSES];   /* about: by cause */
} chip_performance;

/* Adds what a launch of these descriptors takes. false: it doesn't end, or there is no host memory. */
bool chip_perform(const presil_config *config, const chip_memory *memory, const presil_desc *list, size_t count,
                  chip_performance *out);

/* ---- the model */
enum { NO_BANK = -1, QUEUE = 4, FLIGHTS = 8, BURSTS = 512, ROWS = 256, STORE_ROWS = 16, PIECES = 8, DELAYS = 64 };
enum { WRITES_MOST = 128 }; /* bursts under way */

/* ---- what engines share */
typedef struct { /* presil_issue */
    const presil_desc *queue[QUEUE], *start;
    uint32_t head, held, gives[FLIGHTS], given, taken; /* gives: signals of those in flight */
    bool start_valid, begins, done;                    /* begins: the engine takes `start` in this cycle */
} engine_queue;

typedef struct { /* presil_rows, presil_bursts: rows of a LOAD or STORE, one a cycle, cut into bursts */
    bool run, valid, last1, last;
    uint32_t i[4], n[4];                    /* iterations; how many */
    int64_t address[4], sp[4], position[4]; /* [i]: where loop i began last; position: of the row, for its limit */
    int64_t address_step[4], sp_step[4], position_step[4], position_limit;
    int64_t pos, first_pos, pos_step, span, row_bytes;
    /* the row that waits */
    int64_t row_beat, rel, row_pos, row_sp;
    uint32_t beats;
    /* the run of beats that is cut into bursts */
    int64_t burst_beat;
    uint32_t left;
} row_walker;

typedef struct {
    uint64_t ready;
    uint32_t beats;
    bool fetch;
} read_burst;

typedef struct {
    int64_t rel, pos, sp;
    uint32_t beats;
    bool last1, last;
} load_row;

typedef struct {
    bool valid, done, conv, tr, group, set;
    int32_t bank;
    uint32_t addr;
} load_piece;

typedef struct { /* columns of the transposer */
    int64_t sp, step;
    uint32_t columns;
    bool last;
} load_group;

typedef struct {
    row_walker rows;
    const presil_desc *queued[QUEUE], *d; /* d: the one being walked */
    uint32_t queued_count, held, own[QUEUE];
    load_row row[ROWS], w;
    uint32_t row_head, row_count;
    /* the walk of row w */
    bool have, half, set, conv, tr, own_chunks;
    int64_t step0, size, word, position, chunk_position, sp, chunk_sp, chunk_left, row_bytes;
    uint32_t k, more;                     /* more: chunks of the row after this one */
    uint32_t slot0, got, freed, released; /* beats */
    /* its pipeline; aside: parked */
    load_piece p, b, c, out, aside;
    bool parked, refused, stall, drained, rows_in, rows_in_set;
    bool working, waiting; /* the walk: a piece went on its way; its beats aren't there */
    load_piece written;    /* a column */
    load_group group[2], group_next;
    uint32_t groups, column, column_addr;
    bool group_valid, full[2], group_head, column_set, column_valid, column_done;
    bool open, open_early; /* for a further group; for one of two rows or more */
} load_engine;

typedef struct {
    /* presil_agen: the next descriptor, the running one, a row that waits */
    const presil_desc *set, *run;
    presil_desc walked[2];
    uint32_t walked_at, divide, x, y, kx, ky, cb;
    bool row_valid, row_pad, row_end, row_last, take, weight;
    int32_t row_bank;
    /* presil_weights */
    const presil_desc *weights;
    uint32_t cell, word, weight_number, words, begun, full;
    uint64_t done;        /* bit n: a descriptor is done in n cycles */
    uint64_t flows_until; /* when the last row that was taken is in the accumulators */
    uint32_t held;
} matrix_engine;

typedef struct {
    const presil_desc *slot[2];
    bool held[2], fresh[2], parameters[2], in, next, slot_running, running, read, grant, step, refused;
    uint32_t parameter, rows_left, step_no, steps, residual_words, gap, words, out_slot;
    int64_t residual, out_row;
    struct { /* what is written n cycles from now */
        int32_t bank;
        bool last;
    } out[DELAYS];
} epilogue_engine;

typedef struct {
    row_walker rows;
    const presil_desc *queue[8], *d; /* d: the one being walked */
    uint32_t head, walk, tail, held, bursts, responses, owed[8], addr_at;
    bool addressed[8], read[8], a_last;
    struct {
        int64_t sp;
        uint32_t at;
        bool last;
    } row[STORE_ROWS], w;
    uint32_t row_head, row_count;
    /* the walk of row w */
    bool have, go;
    int64_t sp, chunk_sp, left, word, size;
    uint32_t more, at;
    /* presil_store_pack */
    struct {
        uint32_t at, len;
        bool end;
    } piece[PIECES];
    uint32_t piece_head, pieces, readable, arriving; /* arriving: bit n: a piece's data is there in n cycles */
    bool flush, beat_valid, take_beat;
    /* presil_axi_write and the memory behind it */
    uint32_t lengths[BURSTS], burst_head, burst_data, burst_tail, issued, beat;
    bool address_valid, answered, idle;
    uint64_t answers[BURSTS];
    uint32_t answer_head, answer_tail;
} store_engine;

typedef struct {
    const presil_config *config;
    chip_memory memory;
    uint32_t log2_word, banks;
    chip_performance done; /* so far */
    uint64_t now;
    /* presil_command */
    const presil_desc *list, *push;
    uint32_t count, asked, got, got_beats, head, state, fetch_count;
    int32_t pushed; /* engine that is given `push` in this cycle, or NO_BANK */
    bool fetch_valid;
    /* presil_axi_read and the memory behind it */
    bool address_valid, load_go; /* LOAD's burst is taken */
    read_burst address, reads[BURSTS];
    int64_t credit; /* bytes that may move */
    bool offered, read_was_last;
    uint32_t read_head, read_count, load_bursts;
    int32_t read[3]; /* banks that MATRIX (rows, weights) and STORE read in this cycle */
    uint32_t tokens[20];
    engine_queue queue[CHIP_ENGINES];
    load_engine load;
    matrix_engine matrix;
    epilogue_engine epilogue;
    store_engine store;
} performance;

static inline int32_t bank_of(const performance *p, int64_t word) { return (int32_t)((uint64_t)word % p->banks); }
static inline bool starts(const engine_queue *q, bool ready) { return q->start_valid && ready; }

/* row_walker.c */
void rows_start_load(row_walker *w, const presil_desc *d, bool own_chunks);
void rows_start_store(row_walker *w, const presil_desc *d);
/* A cycle. room: for a row. go: the burst that is offered is taken. *taken: the row that waited is. */
void rows_step(const performance *p, row_walker *w, bool room, bool go, bool *taken);
/* Beats of the burst that is offered; 0: none is. */
uint32_t rows_burst(const performance *p, const row_walker *w);

/* One cycle: first all look(), at what was there before it, then all step(). */
void load_look(performance *p);
void load_step(performance *p);
void matrix_look(performance *p);
void matrix_step(performance *p);
void store_look(performance *p);
void store_step(performance *p);
void epilogue_look(performance *p);
void epilogue_step(performance *p);
/* causes.c: behind all look(): adds the cycle to the cause of each engine. */
void charge_causes(performance *p);

#endif
