/* SPDX-License-Identifier: Apache-2.0 */
/* loads.h - the fields of a LOAD as numbers, and what loads.c and act.c share. */
#ifndef PRESIL_CHIP_LOADS_H
#define PRESIL_CHIP_LOADS_H

#include "nest.h"

/* Names as in docs/isa.md section 2; bytes. [0] of ds is not used, [0] of rp is the start. esize: source element. */
typedef struct {
    uint64_t addr;
    int64_t row_bytes, pos0, step0, chunk_bytes, word_bytes, n[4], ds[4], sp_base, sw, ss[4], rp[4], row_limit;
    uint32_t esize, conv, transpose, pad; /* pad: 32 bits, as the descriptor has it */
} chip_load_shape;

/* Pixels in DRAM (dx, dy bytes apart) and in the scratchpad (px, py). span: bytes wanted of each. */
typedef struct {
    int64_t nx, ny, dx, dy, px, py, span;
} chip_load_grid;

chip_op *chip_emit_load(chip_nest_state *s, chip_nest_pool *pool, chip_nest_slot *slot, int64_t row0, int64_t rows,
                        const chip_load_shape *l);
/* Words that are padding, in three loops; counts may be 0. */
typedef struct {
    int64_t n[3], ss[3], sp_base;
    uint32_t pad;
} chip_pad_shape;
void chip_emit_padding(chip_nest_state *s, chip_nest_pool *pool, chip_nest_slot *slot, int64_t row0, int64_t rows,
                       const chip_pad_shape *f);
void chip_load_pixels(chip_load_shape *l, const chip_load_grid *grid, int64_t word);

#endif
