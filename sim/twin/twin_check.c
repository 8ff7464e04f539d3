/* SPDX-License-Identifier: Apache-2.0 */
/* twin_check.c - what the command processor refuses at decode (docs/isa.md section 1). */
#include "twin_internal.h"

/* A stride that is never added may be anything. */
static uint32_t if_more(uint32_t count, int32_t stride) { return count > 1 ? (uint32_t)stride : 0; }

static int transposes_badly(const presil_config *c, const presil_desc *d) {
    int conv = presil_load_conv(d) != PRESIL_CONV_NONE;
    uint32_t source_log2 = conv ? 2u : presil_load_esize_log2(d), element_log2 = conv ? 1u : source_log2;
    uint32_t chunk = presil_load_chunk_bytes(d), columns = chunk >> source_log2;
    if (source_log2 > 2 || presil_load_n0(d) != 1 || presil_load_n1(d) > c->lanes >> element_log2) return 1;
    if (columns << source_log2 != chunk || chunk > c->word_bytes * (conv ? 2u : 1u)) return 1;
    uint32_t addresses = presil_load_sp_base(d) | if_more(columns, presil_load_sw(d)) |
                         if_more(presil_load_n2(d), presil_load_ss2(d)) |
                         if_more(presil_load_n3(d), presil_load_ss3(d));
    return addresses % c->word_bytes != 0;
}

/* Conversion to an address within an element. */
static int odd_address(const presil_desc *d) {
    uint32_t any = presil_load_sp_base(d) | if_more(presil_load_n0(d), presil_load_ss0(d)) |
                   if_more(presil_load_n1(d), presil_load_ss1(d)) | if_more(presil_load_n2(d), presil_load_ss2(d)) |
                   if_more(presil_load_n3(d), presil_load_ss3(d));
    if (presil_load_chunk_bytes(d) > presil_load_word_bytes(d)) any |= (uint32_t)presil_load_sw(d);
    return any % 2 != 0;
}

static int check_load(const presil_config *c, const presil_desc *d) {
    uint32_t conv = presil_load_conv(d);
    uint32_t chunk = presil_load_chunk_bytes(d), piece = presil_load_word_bytes(d);
    if (!presil_load_n0(d) || !presil_load_n1(d) || !presil_load_n2(d) || !presil_load_n3(d) || !chunk || !piece)
        return PRESIL_ERROR_FIELD;
    if (conv > PRESIL_CONV_TERM2 || piece > c->word_bytes * (conv ? 2u : 1u) || presil_load_step0(d) < 0)
        return PRESIL_ERROR_FIELD;
    if (conv &&
        (presil_load_row_bytes(d) % 4 || presil_load_pos0(d) % 4 || presil_load_step0(d) % 4 || chunk % 4 || piece % 4))
        return PRESIL_ERROR_FIELD;
    if (conv && !presil_load_transpose(d) && odd_address(d)) return PRESIL_ERROR_FIELD;
    return presil_load_transpose(d) && transposes_badly(c, d) ? PRESIL_ERROR_FIELD : PRESIL_ERROR_NONE;
}

/* Each piece has to lie in an aligned block of the largest power of two that divides WORD and all strides. */
static int check_store(const presil_config *c, const presil_desc *d) {
    uint32_t chunk = presil_store_chunk_bytes(d), piece = presil_store_word_bytes(d), block = c->word_bytes;
    uint32_t n[4] = {presil_store_n0(d), presil_store_n1(d), presil_store_n2(d), presil_store_n3(d)};
    if (!n[0] || !n[1] || !n[2] || !n[3] || !chunk || !piece || piece > c->word_bytes) return PRESIL_ERROR_FIELD;
    if (presil_store_conv(d) != PRESIL_CONV_NONE) return PRESIL_ERROR_FIELD;
    uint32_t strides = if_more(n[0], presil_store_ss0(d)) | if_more(n[1], presil_store_ss1(d)) |
                       if_more(n[2], presil_store_ss2(d)) | if_more(n[3], presil_store_ss3(d));
    if (chunk > piece) strides |= (uint32_t)presil_store_sw(d);
    while (strides % block) block /= 2;
    return presil_store_sp_base(d) % block + (chunk < piece ? chunk : piece) > block ? PRESIL_ERROR_FIELD
                                                                                     : PRESIL_ERROR_NONE;
}

/* Positions of a depthwise window along one axis, or 0 where the stride is neither once nor twice the dilation. */
static uint64_t window_positions(uint64_t n, uint64_t k, uint64_t stride, uint64_t dilation) {
    if (stride != dilation && stride != 2 * dilation) return 0;
    return (n - 1) * (stride == dilation ? 1 : 2) + k;
}

static int depthwise_badly(const presil_config *c, const presil_desc *d) {
    uint32_t kx = presil_matrix_kx(d), ky = presil_matrix_ky(d);
    uint64_t row = window_positions(presil_matrix_nx(d), kx, presil_matrix_sx(d), presil_matrix_dx(d)),
             rows = window_positions(presil_matrix_ny(d), ky, presil_matrix_sy(d), presil_matrix_dy(d));
    if (kx > TWIN_DEPTH_KERNEL || ky > TWIN_DEPTH_KERNEL || !row || !rows || row > TWIN_DEPTH_ROW) return 1;
    if (presil_matrix_extra_cells(d) >= c->cells) return 1;
    return presil_matrix_ncb(d) != 1 || presil_matrix_idx(d) != 1 || presil_matrix_idy(d) != 1;
}

static int check_matrix(const presil_config *c, const presil_desc *d) {
    uint64_t nx = presil_matrix_nx(d), ny = presil_matrix_ny(d);
    const uint32_t dtype = presil_matrix_dtype(d);
    if (dtype != PRESIL_DTYPE_INT8 && dtype != PRESIL_DTYPE_BF16 && dtype != PRESIL_DTYPE_FP16)
        return PRESIL_ERROR_FIELD;
    if (!nx || !ny || !presil_matrix_kx(d) || !presil_matrix_ky(d) || !presil_matrix_ncb(d)) return PRESIL_ERROR_FIELD;
    if (!presil_matrix_sx(d) || !presil_matrix_sy(d) || !presil_matrix_idx(d) || !presil_matrix_idy(d))
        return PRESIL_ERROR_FIELD;
    if (presil_matrix_depthwise(d) ? depthwise_badly(c, d) : presil_matrix_extra_cells(d) != 0)
        return PRESIL_ERROR_FIELD;
    return nx * ny + presil_matrix_acc_base(d) > c->acc_rows ? PRESIL_ERROR_FIELD : PRESIL_ERROR_NONE;
}

/* Whether rows of CELLS elements of e bytes begin where isa.md section 5 has them. */
static int rows_aligned(const presil_config *c, uint32_t e, uint32_t base, uint32_t rows, uint32_t pitch) {
    uint32_t unit = c->word_bytes;
    while (unit / 2 >= c->cells * e) unit /= 2;
    return !(base % unit) && (rows == 1 || !(pitch % unit));
}

static int subnormal(uint32_t f) { return !(f & 0x7f800000u) && (f & 0x007fffffu); }

static int is_type(uint32_t dtype, uint32_t last) { return dtype <= last || dtype == PRESIL_DTYPE_FP16; }

static int check_epilogue(const presil_config *c, const presil_desc *d) {
    uint32_t rows = presil_epilogue_rows(d), res = presil_epilogue_res_type(d), out = presil_epilogue_out_type(d);
    if (!is_type(out, PRESIL_DTYPE_RAW32) || !rows || rows + presil_epilogue_acc_base(d) > c->acc_rows)
        return PRESIL_ERROR_FIELD;
    if (!rows_aligned(c, twin_element_bytes(out), presil_epilogue_out_base(d), rows, presil_epilogue_out_pitch(d)))
        return PRESIL_ERROR_FIELD;
    if (presil_epilogue_res_en(d) &&
        (!is_type(res, PRESIL_DTYPE_FP32) ||
         !rows_aligned(c, twin_element_bytes(res), presil_epilogue_res_base(d), rows, presil_epilogue_res_pitch(d))))
        return PRESIL_ERROR_FIELD;
    int clamps_badly = presil_epilogue_clamp_en(d) &&
                       (subnormal(presil_epilogue_clamp_lo(d)) || subnormal(presil_epilogue_clamp_hi(d)));
    return clamps_badly ? PRESIL_ERROR_FIELD : PRESIL_ERROR_NONE;
}

static int check_nop(const presil_desc *d) {
    return presil_desc_reserved(d) || presil_desc_wait(d) || presil_desc_signal(d) ? PRESIL_ERROR_FIELD
                                                                                   : PRESIL_ERROR_NONE;
}

int twin_check(const presil_config *config, const presil_desc *d) {
    uint32_t opcode = presil_desc_opcode(d);
    if (opcode >= PRESIL_OPCODE_VECTOR) return PRESIL_ERROR_OPCODE;
    if (presil_desc_isa(d) != PRESIL_ISA_VERSION) return PRESIL_ERROR_VERSION;
    switch (opcode) {
    case PRESIL_OPCODE_LOAD: return presil_load_reserved(d) ? PRESIL_ERROR_FIELD : check_load(config, d);
    case PRESIL_OPCODE_STORE: return presil_store_reserved(d) ? PRESIL_ERROR_FIELD : check_store(config, d);
    case PRESIL_OPCODE_MATRIX: return presil_matrix_reserved(d) ? PRESIL_ERROR_FIELD : check_matrix(config, d);
    case PRESIL_OPCODE_EPILOGUE: return presil_epilogue_reserved(d) ? PRESIL_ERROR_FIELD : check_epilogue(config, d);
    default: return check_nop(d);
    }
}
