/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many words and rows a descriptor makes a reader of it walk (chip_check_plan, load_inside, the twin), from its
 * counts alone. 128 bytes can ask for 2^80 of them: what comes from a file is measured before it is walked.
 */
#include "descriptors.h"

static uint64_t times(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static uint64_t plus(uint64_t a, uint64_t b) {
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

static uint64_t pieces(uint64_t chunk, uint64_t piece) { return piece ? (chunk + piece - 1) / piece : 1; }

static uint64_t load_effort(const presil_desc *d) {
    const uint64_t outer = times(presil_load_n2(d), presil_load_n3(d)), rows = times(outer, presil_load_n1(d)),
                   chunk = presil_load_chunk_bytes(d),
                   words = presil_load_transpose(d)
                               ? times(outer, chunk)
                               : times(times(rows, presil_load_n0(d)), pieces(chunk, presil_load_word_bytes(d)));
    return plus(rows, words);
}

static uint64_t store_effort(const presil_desc *d) {
    return times(times(times(presil_store_n0(d), presil_store_n1(d)), times(presil_store_n2(d), presil_store_n3(d))),
                 pieces(presil_store_chunk_bytes(d), presil_store_word_bytes(d)));
}

static uint64_t matrix_effort(const presil_config *config, const presil_desc *d) {
    /* A window has up to two positions a result, and the kernel's, in each direction. */
    const bool window = presil_matrix_depthwise(d);
    const uint64_t nx = presil_matrix_nx(d), ny = presil_matrix_ny(d), kx = presil_matrix_kx(d),
                   ky = presil_matrix_ky(d),
                   rows = window ? times(plus(times(2, nx), kx), plus(times(2, ny), ky)) : times(nx, ny),
                   slices = times(times(kx, ky), presil_matrix_ncb(d));
    return plus(plus(rows, times(slices, config->cells)), times(rows, slices));
}

uint64_t chip_effort(const presil_config *config, const presil_desc *list, size_t count) {
    uint64_t sum = 0;
    for (size_t i = 0; i < count; i++) {
        const presil_desc *d = &list[i];
        switch (presil_desc_opcode(d)) {
        case PRESIL_OPCODE_LOAD: sum = plus(sum, load_effort(d)); break;
        case PRESIL_OPCODE_STORE: sum = plus(sum, store_effort(d)); break;
        case PRESIL_OPCODE_MATRIX: sum = plus(sum, matrix_effort(config, d)); break;
        case PRESIL_OPCODE_EPILOGUE: sum = plus(sum, times(presil_epilogue_rows(d), 1 + 3 * config->cells)); break;
        default: break;
        }
    }
    return sum;
}
