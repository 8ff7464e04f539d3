/* SPDX-License-Identifier: Apache-2.0 */
/* twin_epilogue.c - EPILOGUE (docs/isa.md section 5): parameters and addresses; the arithmetic is in the kernels. */
#include <string.h>

#include "twin_internal.h"

static int range_error(const twin_run *run, uint32_t index, uint64_t byte, const char *what) {
    uint64_t word = run->twin->dims.word;
    return twin_fail((twin_run *)(uintptr_t)run, PRESIL_ERROR_SPAD_RANGE, index, byte & ~(word - 1), what);
}

/* Bias and scale words into cells_pad elements each. */
static int read_parameters(twin_run *run, uint32_t base, uint32_t index, uint32_t *bias, uint32_t *scale) {
    const presil_twin *twin = run->twin;
    uint32_t word = twin->dims.word, words = (4 * twin->dims.cells + word - 1) / word;
    for (uint32_t i = 0; i < 2 * words; i++) {
        uint32_t at = (base + i) & 0xffffu, done = (i % words) * word, left = 4 * twin->dims.cells - done;
        if (at >= twin->dims.words) return range_error(run, index, (uint64_t)at * word, "parameter address");
        memcpy((uint8_t *)(i < words ? bias : scale) + done, twin->spad + (size_t)at * word, left < word ? left : word);
    }
    return 0;
}

int twin_epilogue(twin_run *run, const presil_desc *d, uint32_t index) {
    presil_twin *twin = run->twin;
    const twin_dims *dims = &twin->dims;
    uint32_t bias[TWIN_MAX_CELLS] = {0}, scale[TWIN_MAX_CELLS] = {0};
    twin_post post = {
        .bias = bias,
        .scale = scale,
        .acc_fp32 = presil_epilogue_acc_fp32(d) != 0,
        .bias_en = presil_epilogue_bias_en(d) != 0,
        .scale_en = presil_epilogue_scale_en(d) != 0,
        .res_en = presil_epilogue_res_en(d) != 0,
        .clamp_en = presil_epilogue_clamp_en(d) != 0,
        .res_type = presil_epilogue_res_type(d),
        .out_type = presil_epilogue_out_type(d),
        .res_scale = presil_epilogue_res_scale(d),
        .clamp_lo = presil_epilogue_clamp_lo(d),
        .clamp_hi = presil_epilogue_clamp_hi(d),
        .res_zp = presil_epilogue_res_zp(d),
        .out_zp = presil_epilogue_out_zp(d),
        .int_lo = presil_epilogue_int_lo(d),
        .int_hi = presil_epilogue_int_hi(d),
    };
    uint32_t rows = presil_epilogue_rows(d), bytes = dims->words * dims->word;
    int reads_res = post.res_en && post.out_type != PRESIL_DTYPE_RAW32;
    uint32_t e_out = twin_element_bytes(post.out_type),
             e_res = reads_res ? twin_element_bytes(post.res_type) : 0; /* else it may be anything */
    uint32_t out = presil_epilogue_out_base(d), res = presil_epilogue_res_base(d);
    const uint32_t *acc = twin->acc[presil_epilogue_half(d)] + (size_t)presil_epilogue_acc_base(d) * dims->cells_pad;
    uint8_t copy[4 * TWIN_MAX_CELLS];
    if ((post.bias_en || post.scale_en) && read_parameters(run, presil_epilogue_param_base(d), index, bias, scale))
        return -1;
    for (uint32_t r = 0; r < rows;
         r++, acc += dims->cells_pad, out += presil_epilogue_out_pitch(d), res += presil_epilogue_res_pitch(d)) {
        /* The chip names the first word that is outside, which need not be the row's first. */
        if (reads_res && (res >= bytes || dims->cells * e_res > bytes - res))
            return range_error(run, index, res < bytes ? bytes : res, "residual address");
        if (out >= bytes || dims->cells * e_out > bytes - out)
            return range_error(run, index, out < bytes ? bytes : out, "output address");
        const uint8_t *residual = reads_res ? twin->spad + res : NULL;
        if (residual && res < out + dims->cells * e_out &&
            out < res + dims->cells * e_res) /* a row is read before it is written */
            residual = memcpy(copy, residual, (size_t)dims->cells * e_res);
        twin->kernels->post_row(dims, &post, acc, residual, twin->spad + out);
    }
    return 0;
}
