/* SPDX-License-Identifier: Apache-2.0 */
/* Operations of the engines in program order, with what each must wait for. */
#include <stdlib.h>
#include <string.h>
#include "descriptors.h"

chip_op *chip_emit(chip_builder *b, uint32_t engine) {
    if (b->count == b->capacity) {
        size_t capacity = b->capacity ? 2 * b->capacity : 256;
        chip_op *ops = realloc(b->ops, capacity * sizeof *ops);
        if (!ops) {
            b->failed = true;
            return &b->discard;
        }
        b->ops = ops;
        b->capacity = capacity;
    }
    static const uint32_t opcode[CHIP_ENGINES] = {PRESIL_OPCODE_LOAD, PRESIL_OPCODE_MATRIX, PRESIL_OPCODE_EPILOGUE,
                                                  PRESIL_OPCODE_STORE};
    chip_op *op = &b->ops[b->count++];
    memset(op, 0, sizeof *op);
    op->engine = engine;
    presil_desc_opcode_set(&op->d, opcode[engine]);
    presil_desc_isa_set(&op->d, PRESIL_ISA_VERSION);
    presil_desc_tag_set(&op->d, b->tile);
    b->seq[engine]++;
    return op;
}

void chip_builder_cut(chip_builder *b) {
    if (b->cut_count == b->cut_capacity) {
        size_t capacity = b->cut_capacity ? 2 * b->cut_capacity : 16;
        size_t *cuts = realloc(b->cuts, capacity * sizeof *cuts);
        if (!cuts) {
            b->failed = true;
            return;
        }
        b->cuts = cuts;
        b->cut_capacity = capacity;
    }
    b->cuts[b->cut_count++] = b->count;
    memset(b->seq, 0, sizeof b->seq);
}

void chip_builder_free(chip_builder *b) {
    free(b->ops);
    free(b->cuts);
    memset(b, 0, sizeof *b);
}
