/* SPDX-License-Identifier: Apache-2.0 */
/* The chip sa16 for Presil's driver: what its files share. Registers: ../README.md. */
#ifndef SA16_H
#define SA16_H

#include <stdbool.h>
#include <stdint.h>
#include "presil_kit_plan.h"

enum { WORD = 16, IN_WORDS = 4096, WEIGHT_WORDS = 8192, OUT_WORDS = 1024, MOST_BLOCKS = 64, PARAM_WORDS = 9 };
enum { A_ID = 0x00, A_VERSION = 0x04, A_SIZES = 0x08, A_CONTROL = 0x0c, A_STATUS = 0x10 };
enum { A_ENABLE = 0x14, A_EVENTS = 0x18, A_ERROR = 0x1c, A_COUNTERS = 0x400, A_SET = 0x1000 };
enum { SA16_ID = 0x53413136, SA16_VERSION = 1, SA16_SIZES = 0x060a0d0c };
enum { EVENT_SETS = 3, EVENT_BUS = 4, EVENT_REFUSED = 8 };

/* Registers of a set, in words. */
enum { R_GO, R_MODE, R_IN, R_OUT = 11, R_RES = 20, R_W = 22, R_W_WORDS = 24, R_P = 25, R_TILE = 27, R_PLANES };
enum { R_KERNEL = 29, R_DILATION, R_ORIGIN, R_OUT_SIZE, R_BLOCKS, R_QUANT, R_RES_ZERO, R_RES_MULT, R_MULTIPLIER };
enum { R_SHIFT = 38, SET_REGS };
enum { T_LO, T_HI, T_COUNT, T_OUTER, T_INNER, T_RUN, T_TAIL, T_LOCAL, T_LOCAL2 }; /* of a transfer */
enum { MODE_CONV, MODE_MAX, MODE_AVERAGE, MODE_KIND = 3 };
enum { MODE_DEPTHWISE = 4, MODE_RESIDUAL = 8, MODE_AFTER = 16, MODE_UNIFORM = 32 };

/* One operation of the chip; which tile of the output it makes. */
typedef struct {
    uint32_t reg[SET_REGS];
    uint32_t n, y, x, block;
} operation;

typedef struct {
    uint32_t mode, tiling;
    presil_kit_view in, out, res;
    presil_kit_window window;
    presil_kit_epilogue quant;
    uint64_t weights, params;
    int64_t in_blocks; /* channel blocks of the input that a block of the output needs */
    int32_t pad, res_mult;
    int32_t multiplier; /* MODE_UNIFORM */
    uint32_t shift;
    uint64_t macs;
} layer;

struct presil_layout {
    int64_t shape[4]; /* O, I/groups, KH, KW */
    int64_t in_blocks, out_blocks;
    bool diagonal; /* block b of the output has only block b of the input */
    int64_t groups;
    uint64_t params_at, bytes;
};
extern const presil_layout sa16_planar; /* of activations */
#define SA16_KINDS                                                                                                     \
    (1u << PRESIL_OP_NOP | 1u << PRESIL_OP_COPY | 1u << PRESIL_OP_CONV | 1u << PRESIL_OP_POOL_MAX |                    \
     1u << PRESIL_OP_POOL_AVERAGE)
extern const presil_kit_commands sa16_commands;

struct presil_chip {
    uint32_t next, done;        /* operations of the running launch */
    uint32_t held[2][SET_REGS]; /* what the sets' registers hold, since the launch began */
    bool known[2];
};

static inline int64_t blocks_of(int64_t channels) { return presil_kit_parts(channels, WORD); }
/* scale = multiplier / 2^(shift + 16); false: it can't be said so. */
static inline bool sa16_scale(double scale, int32_t *multiplier, uint32_t *shift) {
    if (!presil_kit_multiplier(scale, 16, 79, multiplier, shift)) return false;
    *shift -= 16;
    return true;
}

/* weights.c */
int sa16_layout(const presil_chip *, const presil_weights_desc *, presil_layout **, uint64_t *, presil_error_buffer *);
int sa16_pack(const presil_chip *, const presil_layout *, const presil_weights_desc *, void *, presil_error_buffer *);
void sa16_layout_free(presil_layout *);
/* planar.c */
int sa16_activation(const presil_chip *, const presil_op *, const presil_operand *, const presil_layout **, uint64_t *);
int sa16_pack_planar(const presil_chip *, const presil_operand *, const void *, void *);
int sa16_unpack_planar(const presil_chip *, const presil_operand *, const void *, void *);
/* op.c: EUNSUPPORTED with the reason. */
int sa16_layer_of(const presil_op *op, layer *out, presil_error_buffer *error);
/* plan.c, tiles.c */
int sa16_supports(const presil_chip *, const presil_op *, presil_error_buffer *);
int sa16_plan(const presil_chip *, const presil_op *, presil_plan **, presil_error_buffer *);
int sa16_describe(const presil_plan *, presil_daddr, char *, size_t);
int sa16_merge(const presil_chip *, const presil_plan *const *, uint32_t, const char *, presil_plan **,
               presil_error_buffer *);
int sa16_load(const presil_chip *, const void *, uint64_t, presil_daddr, uint64_t, presil_plan **,
              presil_error_buffer *);
int sa16_work(const presil_chip *, const presil_plan *, const char *, presil_work *);
int sa16_usage(const presil_chip *, const presil_plan *, presil_usage_tell, void *);
/* To `plan`; NULL: only whether it can. */
int sa16_tile(const layer *l, presil_plan *plan, presil_error_buffer *error);
/* run.c */
int sa16_probe(presil_chip *, const presil_link *, presil_error_buffer *);
int sa16_reset(presil_chip *, const presil_link *, const presil_command_memory *, presil_error_buffer *);
int sa16_submit(presil_chip *, const presil_link *, const presil_command_memory *, const presil_plan *, uint32_t,
                presil_error_buffer *);
int sa16_timing(const presil_chip *, const presil_plan *, presil_timing_add, void *);
int sa16_service(presil_chip *, const presil_link *, const presil_plan *, presil_service *);
int sa16_why(presil_chip *, const presil_link *, const presil_plan *, char *, size_t);
int sa16_counters(presil_chip *, const presil_link *, presil_report *);
int sa16_progress(presil_chip *, const presil_link *, uint64_t *);
int sa16_names(const presil_chip *, presil_names *);
/* twin.c */
int sa16_execute(presil_chip *, const presil_plan *, const presil_executor_memory *, presil_error_buffer *);
#endif
