/* SPDX-License-Identifier: Apache-2.0 */
/* Copies through the chip's own DMA, and the empty launch. */
#include "asked.h"

static void emit_copy(chip_builder *b, uint64_t to, uint64_t from, int64_t bytes, uint32_t slot, uint32_t slot_bytes,
                      uint32_t stored) {
    const uint32_t word = b->config->word_bytes;
    int64_t chunk = min64(bytes, 32768), n = bytes / chunk;
    chip_op *op = chip_emit(b, LOAD);
    presil_desc *d = &op->d;
    op->operand = OPERAND_INPUT;
    chip_need(op, STORE, stored);
    presil_load_addr_set(d, from);
    presil_load_row_bytes_set(d, n * chunk);
    presil_load_step0_set(d, chunk);
    presil_load_chunk_bytes_set(d, chunk);
    presil_load_word_bytes_set(d, word);
    presil_load_n0_set(d, n);
    presil_load_n1_set(d, 1), presil_load_n2_set(d, 1), presil_load_n3_set(d, 1);
    presil_load_sp_base_set(d, slot * slot_bytes);
    presil_load_sw_set(d, word);
    presil_load_ss0_set(d, chunk);
    op->cycles = op->beats = (uint32_t)ceil_div(bytes, word) + 1;
    uint32_t loaded = b->seq[LOAD];
    op = chip_emit(b, STORE);
    d = &op->d;
    op->operand = OPERAND_OUTPUT;
    chip_need(op, LOAD, loaded);
    presil_store_addr_set(d, to);
    presil_store_chunk_bytes_set(d, chunk);
    presil_store_word_bytes_set(d, word);
    presil_store_n0_set(d, n);
    presil_store_n1_set(d, 1), presil_store_n2_set(d, 1), presil_store_n3_set(d, 1);
    presil_store_sp_base_set(d, slot * slot_bytes);
    presil_store_sw_set(d, word);
    presil_store_ss0_set(d, chunk);
    op->cycles = op->beats = (uint32_t)ceil_div(bytes, word) + 1;
}

int chip_plan_copy(const presil_chip *chip, presil_daddr to, presil_daddr from, uint64_t bytes, presil_plan **out,
                   presil_error_buffer *error) {
    enum { SLOTS = 4 };
    const presil_config *c = &chip->config;
    presil_plan *plan = chip_plan_new(c, NULL, "copy");
    if (!plan) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    chip_builder b = {.config = c};
    uint32_t slot_bytes = chip_words(c) / SLOTS * c->word_bytes & ~32767u, stored[SLOTS] = {0};
    if (!slot_bytes) slot_bytes = chip_words(c) / SLOTS * c->word_bytes;
    if (slot_bytes > 131072) slot_bytes = 131072;
    size_t segment = 0;
    uint32_t slot = 0;
    /* A piece is stored after it was loaded: from the end, where the target lies behind the source and over it, no
     * piece overwrites one that is still to be loaded. */
    const bool backwards = to.value > from.value && to.value - from.value < bytes;
    for (uint64_t done = 0; done < bytes;) {
        int64_t piece = min64((int64_t)(bytes - done), slot_bytes);
        if (piece > 32768) piece -= piece % 32768;
        const uint64_t at = backwards ? bytes - done - (uint64_t)piece : done;
        if (b.count - segment > CHIP_SEGMENT_LIMIT) {
            chip_builder_cut(&b);
            segment = b.count;
            for (uint32_t i = 0; i < SLOTS; i++) stored[i] = 0;
        }
        emit_copy(&b, to.value + at, from.value + at, piece, slot, slot_bytes, stored[slot]);
        stored[slot] = b.seq[STORE];
        slot = (slot + 1) % SLOTS;
        done += (uint64_t)piece;
    }
    plan->of = OF_COPY;
    plan->out = (chip_view){.base = to.value, .sc = 1, .esize = 1};
    plan->out_shape[0] = plan->out_shape[1] = plan->out_shape[2] = 1;
    plan->out_shape[3] = (int64_t)bytes;
    presil_byte_range source = {from, bytes};
    int status = chip_plan_ranges(plan, NULL, NULL, 0, &source, bytes ? 1 : 0, error);
    if (status == PRESIL_OK) status = chip_plan_from(&b, plan, error);
    chip_builder_free(&b);
    if (status != PRESIL_OK) {
        chip_plan_free(plan);
        return status;
    }
    return chip_plan_done(plan, out, error);
}

int chip_plan_nop(const presil_chip *chip, presil_plan **out, presil_error_buffer *error) {
    presil_plan *plan = chip_plan_new(&chip->config, NULL, "nop");
    chip_builder b = {.config = &chip->config};
    int status =
        plan ? chip_plan_from(&b, plan, error) : chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    if (status != PRESIL_OK) {
        chip_plan_free(plan);
        return status;
    }
    /* One NOP, so that the launch has a descriptor to fetch. */
    presil_desc *d = chip_own_list(plan);
    *d = (presil_desc){{0}};
    presil_desc_opcode_set(d, PRESIL_OPCODE_NOP);
    presil_desc_isa_set(d, PRESIL_ISA_VERSION);
    chip_own_operands(plan)[0] = OPERAND_NONE;
    plan->count = chip_own_ends(plan)[0] = 1;
    return chip_plan_done(plan, out, error);
}
