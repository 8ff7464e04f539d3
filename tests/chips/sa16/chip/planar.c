/* SPDX-License-Identifier: Apache-2.0 */
/* Activations as planes of 16 channels (NC/16HW16): [image][channel block][row][column][16 channels]. */
#include <string.h>
#include "sa16.h"

const presil_layout sa16_planar = {.bytes = 0};

/* A row of pixels (a linear layer's tensor) is one run as it lies, and as planes one for each 16 channels; images with
 * a few channels are as good as they lie. */
int sa16_activation(const presil_chip *chip, const presil_op *op, const presil_operand *t, const presil_layout **out,
                    uint64_t *bytes) {
    (void)chip;
    const int64_t *s = t->shape;
    if (op->kind != PRESIL_OP_CONV && op->kind != PRESIL_OP_POOL_MAX && op->kind != PRESIL_OP_POOL_AVERAGE)
        return PRESIL_EUNSUPPORTED;
    if (t->dtype != PRESIL_INT8 || t->ndim != 4 || strcmp(t->name, "weight") == 0 || s[3] <= 4 || s[1] < 2 ||
        s[1] * s[2] > INT32_MAX / WORD)
        return PRESIL_EUNSUPPORTED;
    *out = &sa16_planar;
    *bytes = (uint64_t)(s[0] * blocks_of(s[3]) * s[1] * s[2] * WORD);
    return PRESIL_OK;
}

static void convert(const presil_operand *t, int8_t *strided, int8_t *words, bool pack) {
    const int64_t *s = t->shape;
    for (int64_t n = 0; n < s[0]; n++) {
        for (int64_t first = 0; first < s[3]; first += WORD) {
            const int64_t channels = s[3] - first < WORD ? s[3] - first : WORD;
            for (int64_t pixel = 0; pixel < s[1] * s[2]; pixel++, words += WORD) {
                int8_t *at = strided + n * t->stride[0] + pixel / s[2] * t->stride[1] + pixel % s[2] * t->stride[2] +
                             first * t->stride[3];
                if (pack) memset(words, 0, WORD);
                for (int64_t c = 0; c < channels; c++) {
                    if (pack)
                        words[c] = at[c * t->stride[3]];
                    else
                        at[c * t->stride[3]] = words[c];
                }
            }
        }
    }
}

int sa16_pack_planar(const presil_chip *chip, const presil_operand *t, const void *strided, void *packed) {
    (void)chip;
    convert(t, (int8_t *)(uintptr_t)strided, packed, true);
    return PRESIL_OK;
}

int sa16_unpack_planar(const presil_chip *chip, const presil_operand *t, const void *packed, void *strided) {
    (void)chip;
    convert(t, strided, (int8_t *)(uintptr_t)packed, false);
    return PRESIL_OK;
}
