/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights: [output block][input block][row][column][16 inputs][16 outputs], then for each output block 16
 * biases, 16 multipliers and 16 shifts. */
#include "sa16.h"

int sa16_layout(const presil_chip *chip, const presil_weights_desc *desc, presil_layout **out, uint64_t *bytes,
                presil_error_buffer *error) {
    (void)chip;
    const int64_t o = desc->shape[0], i = desc->shape[1], groups = desc->groups ? desc->groups : 1;
    if (desc->compute != PRESIL_COMPUTE_INT8 || desc->weight_dtype != PRESIL_INT8)
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "sa16 computes in int8 alone");
    if (desc->input_dilation[0] > 1 || desc->input_dilation[1] > 1)
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "sa16 has no transposed convolutions (input dilation)");
    if (o < 1 || i < 1 || desc->shape[2] < 1 || desc->shape[3] < 1)
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "an empty kernel");
    const bool diagonal = groups > 1;
    if (diagonal && (o % groups || o / groups != i || WORD % i))
        return presil_kit_fail(
            error, PRESIL_EUNSUPPORTED,
            "sa16 has grouped convolutions with 1, 2, 4, 8 or 16 channels in and as many out of each group"
            ", not %lld in and %lld out",
            (long long)i, (long long)(o / groups));
    presil_layout *l = calloc(1, sizeof *l);
    if (!l) return presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a layout");
    memcpy(l->shape, desc->shape, sizeof l->shape);
    l->groups = groups;
    l->diagonal = diagonal;
    l->in_blocks = diagonal ? 1 : blocks_of(i);
    l->out_blocks = blocks_of(o);
    l->params_at = (uint64_t)(l->out_blocks * l->in_blocks * l->shape[2] * l->shape[3]) * WORD * WORD;
    l->bytes = *bytes = l->params_at + (uint64_t)l->out_blocks * PARAM_WORDS * WORD;
    *out = l;
    return PRESIL_OK;
}

void sa16_layout_free(presil_layout *layout) { free(layout); }

static int pack_params(const presil_layout *l, const presil_weights_desc *desc, uint8_t *to,
                       presil_error_buffer *error) {
    for (int64_t o = 0; o < l->shape[0]; o++) {
        uint8_t *block = to + o / WORD * PARAM_WORDS * WORD;
        int32_t multiplier = 0;
        uint32_t shift = 0;
        if (!sa16_scale(desc->scale ? desc->scale[o] : 1.0, &multiplier, &shift))
            return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "sa16 scales by less than 32768; channel %lld has %g",
                                   (long long)o, (double)desc->scale[o]);
        if (desc->bias) memcpy(block + o % WORD * 4, (const int32_t *)desc->bias + o, 4);
        memcpy(block + 4 * WORD + o % WORD * 4, &multiplier, 4);
        block[8 * WORD + o % WORD] = (uint8_t)shift;
    }
    return PRESIL_OK;
}

int sa16_pack(const presil_chip *chip, const presil_layout *l, const presil_weights_desc *desc, void *to,
              presil_error_buffer *error) {
    (void)chip;
    uint8_t *bytes = to;
    const int64_t kh = l->shape[2], kw = l->shape[3];
    memset(to, 0, l->bytes);
    for (int64_t o = 0; o < l->shape[0]; o++) {
        for (int64_t i = 0; i < l->shape[1]; i++) {
            /* where the input channel is among those of its block */
            const int64_t lane = l->diagonal ? o % WORD / l->shape[1] * l->shape[1] + i : i % WORD;
            const int64_t block = o / WORD * l->in_blocks + (l->diagonal ? 0 : i / WORD);
            for (int64_t k = 0; k < kh * kw; k++) {
                const int8_t *from = (const int8_t *)desc->weight + o * desc->stride[0] + i * desc->stride[1] +
                                     k / kw * desc->stride[2] + k % kw * desc->stride[3];
                bytes[((block * kh * kw + k) * WORD + lane) * WORD + o % WORD] = (uint8_t)*from;
            }
        }
    }
    return pack_params(l, desc, bytes + l->params_at, error);
}
