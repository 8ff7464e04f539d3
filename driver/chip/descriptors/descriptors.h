/* SPDX-License-Identifier: Apache-2.0 */
/* descriptors.h - operations of the engines, estimates of their time, and proofs of lists of them. */
#ifndef PRESIL_CHIP_DESCRIPTORS_H
#define PRESIL_CHIP_DESCRIPTORS_H

#include "chip.h"
#include "presil_hazards.h"

/* Whose address a LOAD or STORE has. PARAMETERS: bias and scales, which lie in the packed image too. */
enum {
    OPERAND_NONE,
    OPERAND_INPUT,
    OPERAND_WEIGHTS,
    OPERAND_PACKED,
    OPERAND_PARAMETERS,
    OPERAND_RESIDUAL,
    OPERAND_OUTPUT,
    CHIP_OPERANDS
};

/* ---- operations ----------------------------------------------------------------------------- */
typedef struct {
    presil_desc d;
    uint32_t need[CHIP_ENGINES]; /* number of operations of each engine that must be complete */
    uint32_t cycles;             /* estimate: engine occupied */
    uint32_t beats;              /* estimate: bus */
    uint32_t engine;
    uint8_t operand;     /* LOAD, STORE: chip_operand that the address lies in */
    bool reads_residual; /* EPILOGUE */
} chip_op;

typedef struct {
    const presil_config *config;
    chip_op *ops;
    size_t count, capacity;
    size_t *cuts; /* first operation of each segment after the first */
    size_t cut_count, cut_capacity;
    uint32_t seq[CHIP_ENGINES]; /* operations of this segment so far */
    uint32_t tile;              /* tag of the next operations */
    bool failed;                /* out of host memory */
    chip_op discard;            /* where operations go then; the plan fails */
} chip_builder;

chip_op *chip_emit(chip_builder *b, uint32_t engine); /* never NULL; seq[engine] is its number */
void chip_builder_cut(chip_builder *b);               /* a new segment begins: nothing may be carried over */
void chip_builder_free(chip_builder *b);
/* timing.c: estimated cycles of all segments, and of them before the first and after the last work of MATRIX; fills
 * start times if `starts` is not NULL. */
uint64_t chip_builder_time(const chip_builder *b, uint64_t *starts, uint64_t *edges);
static inline void chip_need(chip_op *op, uint32_t engine, uint32_t seq) {
    if (seq > op->need[engine]) op->need[engine] = seq;
}

/* depthwise.c: a depthwise MATRIX as one that reads the same positions, each once; others as they are. Words of weights
 * of any MATRIX; where word n of them lies (not yet modulo 2^16). */
presil_desc chip_walked(const presil_desc *d);
/* Positions between the windows of a depthwise MATRIX, in steps of its kernel (sx, dx or sy, dy). */
static inline uint32_t chip_window_step(uint32_t step, uint32_t dilation) { return step == dilation ? 1 : 2; }
uint64_t chip_weight_words(const presil_config *config, const presil_desc *d);
int64_t chip_weight_word(const presil_desc *d, uint64_t n);

/* The address of a LOAD or STORE. */
static inline uint64_t chip_address(const presil_desc *d) {
    return presil_load_addr(d); /* STORE has it in the same place */
}
/* Its stride in DRAM of loop 1, 2 or 3, as the chip adds it: modulo 2^40, so no sum of as many as a descriptor walks
 * overflows. */
static inline int64_t chip_stride(const presil_desc *d, int loop) {
    const int64_t stride = loop == 1 ? presil_load_ds1(d) : loop == 2 ? presil_load_ds2(d) : presil_load_ds3(d);
    return (int64_t)((uint64_t)stride << 24) >> 24;
}
static inline void chip_address_set(presil_desc *d, uint64_t address) { presil_load_addr_set(d, address); }
static inline uint32_t chip_token_slot(uint32_t engine, uint32_t consumer) {
    return consumer < engine ? consumer : consumer - 1;
} /* 0..3: counter of `engine` that it gives to `consumer` */
/* Proves a launch: no deadlock, no overflow of tokens, no hazard on scratchpad or accumulators, every field legal. 0,
 * or -1 with the first violation in text. */
int chip_check_plan(const presil_config *config, const presil_desc *list, size_t count, char *text, size_t bytes);
/* The same; -1: also the descriptor that is wrong. */
int chip_check_first(const presil_config *config, const presil_desc *list, size_t count, size_t *index, char *text,
                     size_t bytes);
typedef struct {
    uint32_t clock[CHIP_ENGINES]; /* operations of each engine that are complete when the descriptor starts */
    uint32_t seq;                 /* its number among its engine's, from 1 */
} chip_moment;
/* The same, and what tokens say of each descriptor; at: `count` of them, set if 0 is returned. */
int chip_check_moments(const presil_config *config, const presil_desc *list, size_t count, chip_moment *at, char *text,
                       size_t bytes);
/* Looks on as a launch is proved: each access to a scratchpad word or an accumulator row, in an order in which the
 * commands may begin; `step` of them have begun before. -1: it isn't right, and not all was told. */
enum { CHIP_SCRATCHPAD, CHIP_ACCUMULATORS, CHIP_MEMORIES };
typedef struct {
    void (*touch)(void *context, size_t step, int memory, uint32_t where, bool write);
    void *context;
} chip_accesses;
int chip_check_accesses(const presil_config *config, const presil_desc *list, size_t count,
                        const chip_accesses *accesses);
extern const char *const chip_engine_names[PRESIL_ENGINES];
const char *chip_opcode_name(const presil_desc *d);
/* sanitizer.c: what presil_hazards tells, as it is found. */
typedef struct {
    const char *const *labels; /* of each command; may be NULL */
    presil_hazard_sink sink;   /* may be NULL */
    void *context;
    size_t found, last; /* last: the command that was told of last */
} chip_hazards;
void chip_hazard_tell(chip_hazards *h, presil_hazard_kind kind, const presil_desc *d, size_t command, size_t other,
                      const char *text);
/* Any list, by the rules of docs/isa.md alone: all that is found is told, one for each command. at: as above. -1: some
 * of it never runs. */
int chip_check_hazards(const presil_config *config, const presil_desc *list, size_t count, chip_moment *at,
                       chip_hazards *hazards);
/* Words and rows that chip_check_plan and the executor walk for a list; UINT64_MAX: more than fit. */
uint64_t chip_effort(const presil_config *config, const presil_desc *list, size_t count);

#endif
