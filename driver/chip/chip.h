/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chip.h - what all rooms of driver/chip share. They read downhill, and include only what is below (tests/lint):
 *   asked/        what is asked for: an operator, checked, as a problem/ in the normal form
 *   plan/         is it known? else a tiling is chosen; commands with what they read and write
 *   tiling/       how a problem is cut to fit, and a nest of loops that walks it, emitting operations
 *   performance/  how long a list takes: a model of the engines, without data
 *   descriptors/  operations become descriptors with tokens; their timing, their proof
 *   registers/    a plan on the chip: ring, doorbell, interrupt, counters, why it waits
 * chip.c is the table of functions for the core, executor.c runs plans on the C twin.
 */
#ifndef PRESIL_CHIP_INTERNAL_H
#define PRESIL_CHIP_INTERNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "presil_chip.h"
#include "presil_config.h"

/* misfit.c: a setter of presil_desc.h was given what its field can't hold. The first of them is remembered for this
 * thread, and fails the plan that is being made. */
void chip_misfit(const char *field, int64_t value, int64_t low, int64_t high);
#define PRESIL_DESC_MISFIT chip_misfit
#include "presil_desc.h"
#include "presil_twin.h"

enum { LOAD = 0, MATRIX = 1, EPILOGUE = 2, STORE = 3, CHIP_ENGINES = 4, VECTOR = 4 }; /* VECTOR: reserved */

#define CHIP_RING_LOG2 16u
#define CHIP_RING_BYTES ((uint64_t)sizeof(presil_desc) << CHIP_RING_LOG2)
enum { CHIP_LAUNCHES = 8, CHIP_RECORD_STRIDE = 1024, CHIP_RECORD_WORDS = 96 }; /* docs/isa.md section 1 */
#define CHIP_RECORD_BYTES (CHIP_LAUNCHES * CHIP_RECORD_STRIDE)                 /* of command memory, behind the ring */
#define CHIP_SEGMENT_LIMIT 16000u /* descriptors of one launch: below the ring's size */
#define CHIP_TERMS 3u
enum { CHIP_WINDOW_KERNEL = 5, CHIP_WINDOW_POSITIONS = 64 }; /* what a depthwise MATRIX holds: docs/isa.md, FIELD */

enum { LOOK_CYCLES = 4 * PRESIL_CAUSES, LOOKS }; /* engine * causes + cause, cycles */

typedef struct {
    uint32_t first, count; /* ring count of its first descriptor; how many */
    uint32_t segment;
    uint32_t engines; /* bit n: engine n has descriptors in it */
} chip_launch;

struct presil_chip {
    presil_config config;
    _Atomic bool fp16;        /* as the configurations have it; of a chip that was probed: CAP_FEATURES.fp16 */
    struct presil_twin *twin; /* created at the first execute() */
    uint32_t launches_submitted;
    chip_launch launch; /* that runs, or ran last */
    bool looked;        /* look: counters at the first look since something worked (why.c) */
    uint32_t look[LOOKS];
    uint64_t look_work;
    uint64_t ring, ring_bytes; /* command memory */
    /* DMA windows as their registers hold them, for the chip and the twin; guarded: one was set, and is to be written
     * again when the chip was reset. */
    presil_twin_windows windows;
    bool guarded, locked;
    bool records;                                       /* PRESIL_RECORDS: a launch has a completion record */
    uint8_t *record;                                    /* where they are mapped, or NULL */
    chip_launch behind[CHIP_LAUNCHES];                  /* rung behind `launch`, the oldest at `behind_first` */
    uint32_t behind_first, behind_count, record_number; /* of `launch`: 1 behind a queue reset */
    bool running;                                       /* `launch` is not over */
    uint64_t said[CHIP_RECORD_WORDS];                   /* the last record that was read */
};

int chip_fail(const presil_error_buffer *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* EUNSUPPORTED: `what` is fp16, and the chip has none. */
int chip_fail_fp16(const presil_error_buffer *error, const char *what);

/* PRESIL_OK, or EUNSUPPORTED with text if a value did not fit since the last call. */
int chip_fields_fit(const presil_error_buffer *error);

static inline int64_t ceil_div(int64_t a, int64_t b) { return a >= 0 ? (a + b - 1) / b : -(-a / b); }
static inline int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }
static inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }
/* The next value of a hash. */
static inline uint64_t chip_mix(uint64_t h, uint64_t v) {
    h = (h ^ v) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 29);
}

/* bf16 terms of an operand, or 1 of fp16 operands as they lie; passes over their products (docs/numerics.md 5). */
static inline uint32_t chip_terms(uint32_t compute, bool fp16) {
    return compute == PRESIL_COMPUTE_FP32 ? CHIP_TERMS : compute == PRESIL_COMPUTE_FP16 && !fp16 ? 2 : 1;
}
static inline uint32_t chip_passes(uint32_t terms) { return terms == 3 ? 6 : terms == 2 ? 4 : 1; }
/* Bytes of an element: of a presil_dtype that this chip has in memory; of a descriptor's type. */
static inline uint32_t chip_element_bytes(uint32_t dtype) {
    return dtype == PRESIL_INT8 ? 1 : dtype == PRESIL_BF16 || dtype == PRESIL_FP16 ? 2 : 4;
}
static inline uint32_t chip_type_bytes(uint32_t type) {
    return type == PRESIL_DTYPE_INT8 ? 1 : type == PRESIL_DTYPE_BF16 || type == PRESIL_DTYPE_FP16 ? 2 : 4;
}
static inline uint32_t chip_words(const presil_config *c) { return c->banks * c->bank_words; }

/* Bus beats of each of several rows, `stride` apart: about, where they are not aligned alike. */
static inline int64_t chip_row_beats(uint64_t address, int64_t bytes, int64_t stride, int64_t word) {
    int64_t offset = (int64_t)(address % (uint64_t)word);
    return stride % word ? ceil_div(bytes, word) + (bytes % word != 1) : ceil_div(offset + bytes, word);
}
/* executor.c: a plan on the twin */
int chip_execute(presil_chip *chip, const presil_plan *plan, const presil_executor_memory *memory,
                 presil_error_buffer *error);

#endif
