/* SPDX-License-Identifier: Apache-2.0 */
/* twin_lists.h - descriptors for the tests of the twin, and random numbers that depend on a seed only. */
#ifndef TWIN_LISTS_H
#define TWIN_LISTS_H
#include <stdint.h>
#include <string.h>

#include "presil_twin.h"

#define TOKEN(engine, n) (1u << (4 * (PRESIL_OPCODE_##engine - 1) + (n)))

static inline const presil_config *find_config(const char *name) {
    const presil_config *c = presil_configs;
    while (c->name && strcmp(c->name, name)) c++;
    return c;
}

static inline presil_desc command(uint32_t opcode, uint32_t wait, uint32_t signal) {
    presil_desc d = {{0}};
    presil_desc_opcode_set(&d, opcode);
    presil_desc_isa_set(&d, PRESIL_ISA_VERSION);
    presil_desc_wait_set(&d, wait);
    presil_desc_signal_set(&d, signal);
    return d;
}

/* `words` whole words from DRAM `address` to scratchpad byte sp_base. */
static inline presil_desc contiguous_load(uint64_t address, uint32_t words, uint32_t word, uint32_t sp_base,
                                          uint32_t wait, uint32_t signal) {
    presil_desc d = command(PRESIL_OPCODE_LOAD, wait, signal);
    presil_load_addr_set(&d, address);
    presil_load_row_bytes_set(&d, words * word);
    presil_load_chunk_bytes_set(&d, word);
    presil_load_step0_set(&d, (int32_t)word);
    presil_load_n0_set(&d, words);
    presil_load_n1_set(&d, 1);
    presil_load_n2_set(&d, 1);
    presil_load_n3_set(&d, 1);
    presil_load_word_bytes_set(&d, word);
    presil_load_sp_base_set(&d, sp_base);
    presil_load_sw_set(&d, (int32_t)word);
    presil_load_ss0_set(&d, (int32_t)word);
    return d;
}

/* `rows` rows of `bytes` <= word from scratchpad byte sp_base, one word apart, to DRAM rows `pitch` apart. */
static inline presil_desc row_store(uint64_t address, uint32_t rows, uint32_t bytes, uint32_t pitch, uint32_t sp_base,
                                    uint32_t word, uint32_t wait, uint32_t signal) {
    presil_desc d = command(PRESIL_OPCODE_STORE, wait, signal);
    presil_store_addr_set(&d, address);
    presil_store_chunk_bytes_set(&d, bytes);
    presil_store_n0_set(&d, 1);
    presil_store_n1_set(&d, rows);
    presil_store_n2_set(&d, 1);
    presil_store_n3_set(&d, 1);
    presil_store_word_bytes_set(&d, bytes);
    presil_store_ds1_set(&d, (int32_t)pitch);
    presil_store_sp_base_set(&d, sp_base);
    presil_store_ss1_set(&d, (int32_t)word);
    return d;
}

/* dtype: PRESIL_DTYPE_INT8 (0), _BF16 (1) or _FP16. A convolution tile with h x h inputs and outputs, kernel k x k
 * (same padding), activations [y][x][block]. */
static inline presil_desc square_matrix(uint32_t dtype, uint32_t h, uint32_t k, uint32_t blocks, uint32_t act_base,
                                        uint32_t wgt_base, uint32_t wait, uint32_t signal) {
    presil_desc m = command(PRESIL_OPCODE_MATRIX, wait, signal);
    presil_matrix_dtype_set(&m, dtype);
    presil_matrix_first_set(&m, 1);
    presil_matrix_act_base_set(&m, act_base);
    presil_matrix_wgt_base_set(&m, wgt_base);
    presil_matrix_nx_set(&m, h);
    presil_matrix_ny_set(&m, h);
    presil_matrix_sx_set(&m, 1);
    presil_matrix_sy_set(&m, 1);
    presil_matrix_kx_set(&m, k);
    presil_matrix_ky_set(&m, k);
    presil_matrix_ncb_set(&m, blocks);
    presil_matrix_dx_set(&m, 1);
    presil_matrix_dy_set(&m, 1);
    presil_matrix_ox_set(&m, -(int32_t)(k / 2));
    presil_matrix_oy_set(&m, -(int32_t)(k / 2));
    presil_matrix_lim_x_set(&m, h);
    presil_matrix_lim_y_set(&m, h);
    presil_matrix_x_stride_set(&m, blocks);
    presil_matrix_y_stride_set(&m, blocks * h);
    presil_matrix_cb_stride_set(&m, 1);
    presil_matrix_idx_set(&m, 1);
    presil_matrix_idy_set(&m, 1);
    return m;
}

static inline presil_desc plain_epilogue(uint32_t rows, int acc_fp32, uint32_t out_type, uint32_t out_base,
                                         uint32_t out_pitch, uint32_t wait, uint32_t signal) {
    presil_desc p = command(PRESIL_OPCODE_EPILOGUE, wait, signal);
    presil_epilogue_acc_fp32_set(&p, acc_fp32 != 0);
    presil_epilogue_out_type_set(&p, out_type);
    presil_epilogue_rows_set(&p, rows);
    presil_epilogue_out_base_set(&p, out_base);
    presil_epilogue_out_pitch_set(&p, out_pitch);
    presil_epilogue_int_lo_set(&p, -128);
    presil_epilogue_int_hi_set(&p, 127);
    return p;
}

static inline uint32_t next_random(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 32);
}

static inline uint32_t below(uint64_t *state, uint32_t limit) {
    return (uint32_t)(((uint64_t)next_random(state) * limit) >> 32);
}
#endif
