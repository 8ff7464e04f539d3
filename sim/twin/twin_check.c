/* SPDX-License-Identifier: Apache-2.0 */
/* twin_check.c - what the command processor refuses at decode (docs/isa.md section 1). */
#include "twin_internal.h"

static int check_load(const presil_config *c, const presil_desc *d) {
    uint32_t conv = presil_load_conv(d), limit = c->word_bytes * (conv != PRESIL_CONV_NONE ? 2u : 1u);
    if (!presil_load_n0(d) || !presil_load_n1(d) || !presil_load_n2(d) || !presil_load_n3(d)) return PRESIL_ERROR_FIELD;
    if (!presil_load_chunk_bytes(d) || !presil_load_word_bytes(d) || presil_load_word_bytes(d) > limit)
        return PRESIL_ERROR_FIELD;
    if (presil_load_transpose(d)) {
        uint32_t esize_log2 = conv != PRESIL_CONV_NONE ? 1u : presil_load_esize_log2(d);
        if (presil_load_n0(d) != 1 || presil_load_n1(d) > c->lanes >> esize_log2) return PRESIL_ERROR_FIELD;
    }
    return PRESIL_ERROR_NONE;
}

static int check_store(const presil_config *c, const presil_desc *d) {
    if (!presil_store_n0(d) || !presil_store_n1(d) || !presil_store_n2(d) || !presil_store_n3(d))
        return PRESIL_ERROR_FIELD;
    if (!presil_store_chunk_bytes(d) || !presil_store_word_bytes(d)) return PRESIL_ERROR_FIELD;
    return presil_store_word_bytes(d) > c->word_bytes ? PRESIL_ERROR_FIELD : PRESIL_ERROR_NONE;
}

static int check_matrix(const presil_config *c, const presil_desc *d) {
    uint64_t nx = presil_matrix_nx(d), ny = presil_matrix_ny(d);
    if (!nx || !ny || !presil_matrix_kx(d) || !presil_matrix_ky(d) || !presil_matrix_ncb(d)) return PRESIL_ERROR_FIELD;
    if (!presil_matrix_sx(d) || !presil_matrix_sy(d) || !presil_matrix_idx(d) || !presil_matrix_idy(d))
        return PRESIL_ERROR_FIELD;
    return nx * ny + presil_matrix_acc_base(d) > c->acc_rows ? PRESIL_ERROR_FIELD : PRESIL_ERROR_NONE;
}

static int check_epilogue(const presil_config *c, const presil_desc *d) {
    uint32_t rows = presil_epilogue_rows(d);
    return !rows || rows + presil_epilogue_acc_base(d) > c->acc_rows ? PRESIL_ERROR_FIELD : PRESIL_ERROR_NONE;
}

int twin_check(const presil_config *config, const presil_desc *d) {
    uint32_t opcode = presil_desc_opcode(d);
    if (opcode >= PRESIL_OP_VECTOR) return PRESIL_ERROR_OPCODE;
    if (presil_desc_isa(d) != PRESIL_ISA_VERSION) return PRESIL_ERROR_VERSION;
    switch (opcode) {
    case PRESIL_OP_LOAD: return check_load(config, d);
    case PRESIL_OP_STORE: return check_store(config, d);
    case PRESIL_OP_MATRIX: return check_matrix(config, d);
    case PRESIL_OP_EPILOGUE: return check_epilogue(config, d);
    default: return PRESIL_ERROR_NONE;
    }
}
