/* SPDX-License-Identifier: Apache-2.0 */
/* emit_load.h - the fields of a LOAD as numbers, and what loads.c and act.c share. */
#ifndef PRESIL_CHIP_EMIT_LOAD_H
#define PRESIL_CHIP_EMIT_LOAD_H

#include "nest.h"

/* Names as in docs/isa.md section 2; bytes. [0] of ds is not used, [0] of rp is the start. esize: source element. */
typedef struct {
    uint64_t addr;
    int64_t row_bytes, pos0, step0, chunk_bytes, word_bytes, n[4], ds[4], sp_base, sw, ss[4], rp[4], row_limit;
    uint32_t esize, conv, transpose, pad; /* pad: 32 bits, as the descriptor has it */
} load_shape;

/* Pixels in DRAM (dx, dy bytes apart) and in the scratchpad (px, py). span: bytes wanted of each. */
typedef struct {
    int64_t nx, ny, dx, dy, px, py, span;
} load_grid;

chip_op *emit_load(nest *s, nest_pool *pool, nest_slot *slot, int64_t row0, int64_t rows, const load_shape *l);
/* Words that are padding, in three loops; counts may be 0. */
typedef struct {
    int64_t n[3], ss[3], sp_base;
    uint32_t pad;
} pad_shape;
void emit_padding(nest *s, nest_pool *pool, nest_slot *slot, int64_t row0, int64_t rows, const pad_shape *f);
void load_pixels(load_shape *l, const load_grid *grid, int64_t word);

#endif
