/* SPDX-License-Identifier: Apache-2.0 */
/* tiling.h - how a problem is cut to fit scratchpad and accumulators, and what engines do for it then. */
#ifndef PRESIL_CHIP_TILING_H
#define PRESIL_CHIP_TILING_H

#include "descriptors.h"
#include "problem.h"

/* ---- tilings -------------------------------------------------------------------------------- */
typedef struct {
    uint32_t group_outer;      /* 1: cell groups outside, pixels inside */
    uint32_t tile_w, tile_h;   /* output pixels of a job */
    uint32_t band_h;           /* output rows whose input is held together; a multiple of tile_h */
    uint32_t part_blocks;      /* channel blocks of a part of the reduction (with runs: one run) ... */
    uint32_t part_ky, part_kx; /* ... and kernel rows and columns (less than all only if part_blocks = 1) */
    uint32_t interleave;       /* cell groups that share an accumulator half */
    uint32_t store_groups;     /* cell groups that leave together */
    uint32_t early;            /* rows of the launch's first sum; 0: enough for MATRIX to be efficient */
    uint32_t act_slots, wgt_slots, out_slots, res_slots, param_groups, param_slots;
    /* derived */
    uint32_t act_row_words, act_pitch, act_slot_words, wgt_slot_words, out_unit_words, out_slot_words, res_unit_words,
        res_slot_words, total_words;
    uint64_t estimate;
} chip_tiling;

/* Candidates that fit, best estimate first; count > 0 or EUNSUPPORTED with a text. */
int chip_tilings(const chip_problem *problem, chip_tiling *list, uint32_t capacity, uint32_t *count,
                 presil_error_buffer *error);
/* Fills the derived members; false if it doesn't fit. */
bool chip_tiling_fit(const chip_problem *p, chip_tiling *t);

/* Of phases: whether the kernel is not cut, so that one band of the input serves all of them. */
bool chip_tiling_one_band(const chip_problem *lead, const chip_tiling *t);

/* Parts of the reduction, each summed by a MATRIX of its own for every job. */
int64_t chip_tiling_parts(const chip_problem *p, const chip_tiling *t);

/* Emits all operations of a problem under a tiling. */
int chip_nest(const chip_problem *p, const chip_tiling *t, chip_builder *b, presil_error_buffer *error);

#endif
