/* SPDX-License-Identifier: Apache-2.0 */
/* Activations as planes of 16 channels (NC/16HW16): [image][channel block][row][column][16 channels]. */
#include "sa16.h"

const presil_layout sa16_planar = {.bytes = 0};

/* A row of pixels (a linear layer's tensor) is one run as it lies, and as planes one for each 16 channels; images with
 * a few channels are as good as they lie. */
int sa16_activation(const presil_chip *chip, const presil_op *op, const presil_operand *t, const presil_layout **out,
                    uint64_t *bytes) {
    (void)chip;
    const int64_t *s = t->shape;
    if (op->kind == PRESIL_OP_COPY || op->kind >= 64 || !(SA16_KINDS >> op->kind & 1)) return PRESIL_EUNSUPPORTED;
    if (t->dtype != PRESIL_INT8 || t->ndim != 4 || strcmp(t->name, "weight") == 0 || s[3] <= 4 || s[1] < 2 ||
        s[1] * s[2] > INT32_MAX / WORD)
        return PRESIL_EUNSUPPORTED;
    *out = &sa16_planar;
    *bytes = presil_kit_blocked_bytes(t, 1, WORD);
    return PRESIL_OK;
}

int sa16_pack_planar(const presil_chip *chip, const presil_operand *t, const void *strided, void *packed) {
    (void)chip;
    presil_kit_blocked_pack(t, 1, WORD, strided, packed);
    return PRESIL_OK;
}

int sa16_unpack_planar(const presil_chip *chip, const presil_operand *t, const void *packed, void *strided) {
    (void)chip;
    presil_kit_blocked_unpack(t, 1, WORD, packed, strided);
    return PRESIL_OK;
}
