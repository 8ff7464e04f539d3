/* SPDX-License-Identifier: Apache-2.0 */
/* nest.h - state of the loop nest: what lies in which scratchpad slot and who still uses it. */
#ifndef PRESIL_CHIP_NEST_H
#define PRESIL_CHIP_NEST_H

#include "tiling.h"

#define NEST_ROW_MARKS 32u /* a slot's readers are remembered by ranges of its rows */
#define NEST_SLOTS 64u

/* A scratchpad range that LOAD fills and one engine reads. Readers of the former contents must be done before a row is
 * overwritten: war. */
typedef struct {
    uint64_t key;
    uint32_t base, stamp, writer;
    int64_t loaded; /* rows that are there (or on their way) */
    uint32_t reader[NEST_ROW_MARKS], war[NEST_ROW_MARKS];
} chip_nest_slot;

typedef struct {
    chip_nest_slot slot[NEST_SLOTS];
    uint32_t count, clock, consumer; /* consumer: the engine that reads */
    uint32_t rows_per_mark;
} chip_nest_pool;

/* An output slot, filled by EPILOGUE, emptied by STORE. */
typedef struct {
    uint32_t base, stored;
} chip_nest_out;

/* A part of the reduction: blocks and kernel positions. */
typedef struct {
    uint32_t cb, ncb, ky, nky, kx, nkx;
} chip_nest_part;

/* Output pixels of one job and the band of input they read from. */
typedef struct {
    int64_t n, x0, nx, y0, ny;         /* of the tile */
    int64_t band_y0, band_ny, band_nx; /* band_nx: of all phases */
    uint64_t band_key;
} chip_nest_tile;

typedef struct {
    const chip_problem *p; /* &own: the phase that is worked on */
    const chip_tiling *t;
    chip_builder *b;
    presil_error_buffer *error;
    chip_nest_pool act, wgt, res, param;
    chip_nest_out out[2];
    uint32_t out_next;
    uint32_t half, acc_read[2]; /* last EPILOGUE of each accumulator half */
    chip_nest_part *parts;
    uint32_t part_count, most_parts; /* of this phase, of any */
    uint32_t phase, phases;
    bool one_band; /* all phases read the same input from a slot */
    chip_problem lead, own;
} chip_nest_state;

/* Rows [y0, y0 + ny) of a tile and cell group g in an accumulator half. first: the sum begins; pass: of those in
 * docs/numerics.md 5. */
typedef struct {
    uint32_t g, half, acc_base, pass;
    bool first;
    int64_t y0, ny;
} chip_nest_sum;

/* The slot that holds key, or the least recently used one, emptied for it. *hit tells. */
chip_nest_slot *chip_nest_find(chip_nest_pool *pool, uint64_t key, bool *hit);
void chip_nest_read(const chip_nest_pool *pool, chip_nest_slot *slot, chip_op *op, uint32_t seq, int64_t row0,
                    int64_t rows);
void chip_nest_write(const chip_nest_pool *pool, chip_nest_slot *slot, chip_op *op, uint32_t seq, int64_t row0,
                     int64_t rows);

/* sums.c: adds part `index` of the reduction, loading what isn't there; cold: the launch has just begun. */
void chip_nest_sum_part(chip_nest_state *s, const chip_nest_tile *tile, uint32_t index, const chip_nest_sum *sum,
                        bool cold);
void chip_nest_sum_nothing(chip_nest_state *s, const chip_nest_tile *tile, const chip_nest_sum *sum);
/* act.c: input rows of a tile's band, and its columns, that the activation slot of a part holds. */
chip_axis chip_nest_band(const chip_nest_state *s, const chip_nest_tile *tile, const chip_nest_part *part);
chip_axis chip_nest_columns(const chip_nest_state *s, const chip_nest_tile *tile, const chip_nest_part *part);
/* loads.c: each makes sure that what is named lies in the slot, and emits the LOADs for what is missing. */
void chip_nest_load_act(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *tile,
                        const chip_nest_part *part, uint32_t term, int64_t rows);
/* Rows [loaded, rows) of blocks [first, first + blocks) of the part; the caller counts them as loaded when all blocks
 * are there. */
void chip_nest_load_act_blocks(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *tile,
                               const chip_nest_part *part, uint32_t term, int64_t rows, uint32_t first,
                               uint32_t blocks);
/* windows.c: weight gradients. Rows [loaded, loaded + rows) of the input's windows; cell group g of the output's
 * gradient. */
void chip_nest_load_windows(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *tile,
                            const chip_nest_part *part, uint32_t term, int64_t rows, uint32_t first, uint32_t blocks);
void chip_nest_load_lanes(chip_nest_state *s, chip_nest_slot *slot, uint32_t g, int64_t n, const chip_nest_part *part,
                          uint32_t term);
/* wgt.c */
void chip_nest_load_wgt(chip_nest_state *s, chip_nest_slot *slot, uint32_t g, int64_t n, const chip_nest_part *part,
                        uint32_t term);
void chip_nest_load_res(chip_nest_state *s, chip_nest_slot *slot, const chip_nest_tile *tile, uint32_t g0,
                        uint32_t groups);
void chip_nest_load_params(chip_nest_state *s, chip_nest_slot *slot, uint32_t g0, uint32_t groups);
/* stores.c: rows [row0, row0 + rows) of the tile, cell groups [g0, g0 + groups) of a slot that begins with group
 * first_group. */
void chip_nest_store(chip_nest_state *s, uint32_t slot_base, const chip_nest_tile *tile, int64_t row0, int64_t rows,
                     uint32_t first_group, uint32_t g0, uint32_t groups, uint32_t after);

#endif
