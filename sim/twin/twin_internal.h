/* SPDX-License-Identifier: Apache-2.0 */
/* twin_internal.h - what the files of the twin share. */
#ifndef PRESIL_TWIN_INTERNAL_H
#define PRESIL_TWIN_INTERNAL_H
#include "presil_twin.h"

#define TWIN_QUEUE 4 /* descriptors an engine holds, as on the chip: bounds how far decoding runs ahead */
#define TWIN_TOKENS 20
#define TWIN_MAX_CELLS 256
#define TWIN_MAX_LANES 512
#define TWIN_DEPTH_KERNEL 5 /* most rows and columns of a depthwise kernel */
#define TWIN_DEPTH_ROW 64   /* most positions of a row of its window */

typedef struct {
    uint32_t lanes, cells, cells_pad, word, words;
} twin_dims; /* cells_pad: cells rounded up to 16; words: scratchpad words */

/* What 16-bit elements are, bf16 if not fp16, and which of them count: fields of MATRIX. */
typedef struct {
    int fp16, skip_special, absent;
} twin_floats;

/* Rows of one weight block. rows[i]: LANES activation bytes; acc: row i at acc + i*cells_pad; add to zero instead of
 * the old value if first. */
typedef struct {
    const uint8_t *const *rows;
    uint32_t *acc;
    uint32_t count;
    int first;
    twin_floats floats;
} twin_rows;

/* One output row of a depthwise MATRIX: output x meets with kernel position (ky, kx) the words window[ky][x*step + kx]
 * and weights[ky][kx], element c of each for cell c. Cells from `used` on add zero. acc as in twin_rows. */
typedef struct {
    const uint8_t *window[TWIN_DEPTH_KERNEL][TWIN_DEPTH_ROW], *weights[TWIN_DEPTH_KERNEL][TWIN_DEPTH_KERNEL];
    uint32_t *acc;
    uint32_t count, step, kx, ky, used;
    int first;
    twin_floats floats;
} twin_depth;

/* Everything of an EPILOGUE descriptor that its rows share. bias and scale have cells_pad elements. */
typedef struct {
    const uint32_t *bias, *scale;
    int acc_fp32, bias_en, scale_en, res_en, clamp_en;
    uint32_t res_type, out_type, res_scale, clamp_lo, clamp_hi;
    int32_t res_zp, out_zp, int_lo, int_hi;
} twin_post;

/* One implementation of the inner loops. The packed weights are private to it; pack and rows of one kernel set go
 * together. */
typedef struct {
    const char *name;
    void (*pack_int8)(const twin_dims *dims, const uint8_t *const *weights, void *packed);
    void (*rows_int8)(const twin_dims *dims, const void *packed, const twin_rows *rows);
    void (*pack_float)(const twin_dims *dims, const uint8_t *const *weights, const twin_floats *floats, void *packed);
    void (*rows_float)(const twin_dims *dims, const void *packed, const twin_rows *rows);
    void (*depth_int8)(const twin_dims *dims, const twin_depth *row);
    void (*depth_float)(const twin_dims *dims, const twin_depth *row);
    /* acc: cells values; res, out: cells elements of the descriptor's types; res may be NULL without res_en. */
    void (*post_row)(const twin_dims *dims, const twin_post *post, const uint32_t *acc, const uint8_t *res,
                     uint8_t *out);
    /* fp32 source elements to term t (0..2), bf16. */
    void (*split)(const uint8_t *source, uint8_t *out, size_t elements, unsigned term);
} twin_kernels;

extern const twin_kernels twin_kernels_generic;
#ifdef PRESIL_TWIN_X86
extern const twin_kernels twin_kernels_avx2, twin_kernels_avx512;
#endif
const twin_kernels *twin_kernels_best(void);
const twin_kernels *twin_kernels_named(const char *name); /* NULL: unknown, or the CPU lacks it */

typedef struct twin_pool twin_pool;
twin_pool *twin_pool_create(unsigned threads);
void twin_pool_destroy(twin_pool *pool);
/* Calls work(context, part, parts) for every part in 0..parts-1, parts = threads of the pool, and returns when all have
 * returned. */
void twin_pool_run(twin_pool *pool, void (*work)(void *context, unsigned part, unsigned parts), void *context);

struct presil_twin {
    presil_config config;
    twin_dims dims;
    const twin_kernels *kernels;
    uint8_t *spad;
    uint32_t *acc[2];
    uint8_t *workspace; /* workspace_bytes for each thread */
    size_t workspace_bytes;
    unsigned threads;
    twin_pool *pool;
    presil_twin_windows windows;
    int guarded; /* one of them is enabled */
};

/* One execution: what the engines need beside the twin. */
typedef struct {
    presil_twin *twin;
    const presil_twin_memory *memory;
    const presil_twin_shift *shift; /* NULL: none */
    presil_twin_write_fn on_write;
    void *context;
    presil_twin_error *error;
} twin_run;

/* Records the error and returns -1. */
int twin_fail(twin_run *run, int code, uint32_t index, uint64_t address, const char *what);

int twin_check(const presil_config *config, const presil_desc *d); /* PRESIL_ERROR_* found at decode */
int twin_load(twin_run *run, const presil_desc *d, uint32_t index);
int twin_store(twin_run *run, const presil_desc *d, uint32_t index);
int twin_matrix(twin_run *run, const presil_desc *d, uint32_t index);
int twin_epilogue(twin_run *run, const presil_desc *d, uint32_t index);
size_t twin_matrix_workspace(const presil_config *config); /* bytes a thread needs */

/* G of numerics.md 4.4, for n = lanes / 2 elements. */
static inline unsigned twin_alignment_bits(uint32_t lanes) {
    uint32_t n = lanes / 2;
    unsigned log2 = n > 1 ? 32u - (unsigned)__builtin_clz(n - 1) : 0;
    return 16 - log2 < 11 ? 16 - log2 : 11;
}

/* The code of a weight that `absent` makes nothing of. */
static inline uint16_t twin_absent_code(const twin_floats *floats) { return floats->fp16 ? 0x7c01 : 1; }

/* Bytes of an element of a type that EPILOGUE knows. */
static inline uint32_t twin_element_bytes(uint32_t dtype) {
    return dtype == PRESIL_DTYPE_INT8 ? 1 : dtype == PRESIL_DTYPE_BF16 || dtype == PRESIL_DTYPE_FP16 ? 2 : 4;
}

/* numerics.md clause 4 in integers: the dot product of n 16-bit elements, as fp32. */
uint32_t twin_dot(const uint8_t *a, const uint8_t *w, uint32_t n, unsigned g, const twin_floats *floats);

/* The same over the kernel's positions: cell c of output x of a depthwise row. */
uint32_t twin_depth_cell(const twin_dims *dims, const twin_depth *row, uint32_t x, uint32_t c);
#endif
