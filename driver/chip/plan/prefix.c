/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches made of a part of a plan, for whoever looks for a fault: its first commands, or a choice of them. The chip
 * has no door to its scratchpad and accumulators, so what they hold is carried to memory by its own commands, behind
 * those in question; and because both are undefined when a launch begins, others clear them before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plan.h"

enum { TOKENS = 4 * PRESIL_ENGINES, OWN_SLOT = 3, BEFORE = 3, BEHIND = 4, RING_ENTRIES = 1 << CHIP_RING_LOG2 };

int chip_commands(const presil_plan *plan, uint64_t *count) {
    *count = plan->count;
    return PRESIL_OK;
}

int chip_command_name(const presil_plan *plan, uint64_t n, char *text, size_t bytes) {
    if (n >= plan->count)
        return chip_fail(&(presil_error_buffer){text, bytes}, PRESIL_EINVAL, "descriptor %llu of %zu",
                         (unsigned long long)n, plan->count);
    const presil_desc *d = &plan->list[n];
    const int used = snprintf(text, bytes, "%s, tile %u", chip_opcode_name(d), presil_desc_tag(d));
    uint32_t i = 0;
    while (i < plan->part_count && n >= plan->parts[i].end) i++;
    if (i < plan->part_count && used > 0 && (size_t)used < bytes)
        (void)snprintf(text + used, bytes - (size_t)used, " of %s", plan->parts[i].label);
    return PRESIL_OK;
}

/* ---- tokens */
/* Of a launch that is a part of another: a signal that nobody in it waits for goes. false: somebody waits for one that
 * nobody in it gives. */
static bool balance(presil_desc *list, size_t count) {
    uint32_t waits[TOKENS] = {0}, given[TOKENS] = {0};
    for (size_t i = 0; i < count; i++) {
        for (uint32_t t = 0; t < TOKENS; t++) waits[t] += presil_desc_wait(&list[i]) >> t & 1u;
    }
    for (size_t i = 0; i < count; i++) {
        const uint32_t op = presil_desc_opcode(&list[i]);
        uint32_t signal = presil_desc_signal(&list[i]);
        /* Of commands that the chip refused there may be others than its engines have. */
        for (uint32_t s = 0; op && op <= PRESIL_ENGINES && s < 4; s++) {
            const uint32_t t = 4 * (op - 1) + s;
            if ((signal >> s & 1u) && given[t]++ >= waits[t]) signal &= ~(1u << s);
        }
        presil_desc_signal_set(&list[i], signal);
    }
    for (uint32_t t = 0; t < TOKENS; t++) {
        if (given[t] < waits[t]) return false;
    }
    return true;
}

static void give(presil_desc *d, uint32_t slot) { presil_desc_signal_set(d, presil_desc_signal(d) | 1u << slot); }
static void take(presil_desc *d, uint32_t engine, uint32_t slot) {
    presil_desc_wait_set(d, presil_desc_wait(d) | 1u << (4 * engine + slot));
}

static presil_desc *find(presil_desc *list, size_t count, uint32_t engine, bool last) {
    for (size_t i = 0; i < count; i++) {
        presil_desc *d = &list[last ? count - 1 - i : i];
        if (presil_desc_opcode(d) == engine + 1) return d;
    }
    return NULL;
}

/* ---- clearing and carrying out */
static presil_desc command(uint32_t opcode) {
    presil_desc d = {{0}};
    presil_desc_opcode_set(&d, opcode);
    presil_desc_isa_set(&d, PRESIL_ISA_VERSION);
    return d;
}

/* Every word of the scratchpad is padding: none of its rows is read. */
static presil_desc clear_scratchpad(const presil_config *c) {
    presil_desc d = command(PRESIL_OPCODE_LOAD);
    presil_load_row_bytes_set(&d, c->word_bytes);
    presil_load_chunk_bytes_set(&d, c->word_bytes);
    presil_load_word_bytes_set(&d, c->word_bytes);
    presil_load_n0_set(&d, c->bank_words);
    presil_load_n1_set(&d, c->banks);
    presil_load_n2_set(&d, 1), presil_load_n3_set(&d, 1);
    presil_load_ss0_set(&d, c->word_bytes);
    presil_load_ss1_set(&d, (int64_t)c->word_bytes * c->bank_words);
    presil_load_rp0_set(&d, 1), presil_load_row_limit_set(&d, 1);
    return d;
}

/* Zero weights, and activations that are all padding. */
static presil_desc clear_accumulators(const presil_config *c, uint32_t half) {
    presil_desc d = command(PRESIL_OPCODE_MATRIX);
    presil_matrix_first_set(&d, 1);
    presil_matrix_half_set(&d, half);
    presil_matrix_nx_set(&d, c->acc_rows), presil_matrix_ny_set(&d, 1);
    presil_matrix_sx_set(&d, 1), presil_matrix_sy_set(&d, 1);
    presil_matrix_kx_set(&d, 1), presil_matrix_ky_set(&d, 1), presil_matrix_ncb_set(&d, 1);
    presil_matrix_idx_set(&d, 1), presil_matrix_idy_set(&d, 1);
    return d;
}

static presil_desc carry_scratchpad(const presil_config *c, uint64_t to) {
    presil_desc d = command(PRESIL_OPCODE_STORE);
    presil_store_addr_set(&d, to);
    presil_store_chunk_bytes_set(&d, c->word_bytes), presil_store_word_bytes_set(&d, c->word_bytes);
    presil_store_n0_set(&d, c->bank_words), presil_store_n1_set(&d, c->banks);
    presil_store_n2_set(&d, 1), presil_store_n3_set(&d, 1);
    presil_store_ds1_set(&d, (int64_t)c->word_bytes * c->bank_words);
    presil_store_ss0_set(&d, c->word_bytes), presil_store_ss1_set(&d, (int64_t)c->word_bytes * c->bank_words);
    return d;
}

static uint32_t sums_bytes(const presil_config *c) { return 4 * c->cells; } /* of a row of accumulators */
static uint32_t sums_pitch(const presil_config *c) { return chip_unit_of(c, 4).words * c->word_bytes; }

static presil_desc carry_half(const presil_config *c, uint32_t half) {
    presil_desc d = command(PRESIL_OPCODE_EPILOGUE);
    presil_epilogue_out_type_set(&d, PRESIL_DTYPE_RAW32);
    presil_epilogue_half_set(&d, half);
    presil_epilogue_rows_set(&d, c->acc_rows);
    presil_epilogue_out_base_set(&d, (int64_t)half * c->acc_rows * sums_pitch(c));
    presil_epilogue_out_pitch_set(&d, sums_pitch(c));
    return d;
}

static presil_desc carry_accumulators(const presil_config *c, uint64_t to) {
    presil_desc d = command(PRESIL_OPCODE_STORE);
    presil_store_addr_set(&d, to);
    presil_store_chunk_bytes_set(&d, sums_bytes(c)), presil_store_word_bytes_set(&d, c->word_bytes);
    presil_store_n0_set(&d, c->acc_rows), presil_store_n1_set(&d, 2);
    presil_store_n2_set(&d, 1), presil_store_n3_set(&d, 1);
    presil_store_ds1_set(&d, (int64_t)c->acc_rows * sums_bytes(c));
    presil_store_sw_set(&d, c->word_bytes);
    presil_store_ss0_set(&d, sums_pitch(c));
    presil_store_ss1_set(&d, (int64_t)c->acc_rows * sums_pitch(c));
    return d;
}

static uint64_t spad_bytes(const presil_config *c) { return (uint64_t)chip_words(c) * c->word_bytes; }
static uint64_t acc_bytes(const presil_config *c) { return (uint64_t)2 * c->acc_rows * sums_bytes(c); }

int chip_observed(const presil_chip *chip, uint64_t *bytes) {
    *bytes = spad_bytes(&chip->config) + acc_bytes(&chip->config);
    return PRESIL_OK;
}

/* Around `count` balanced commands at list + BEFORE. The counters of VECTOR's slots carry what is waited for behind
 * them: no plan uses those. false: this one does, or it begins in a way that leaves no room for a token. */
static bool observe(const presil_config *c, presil_desc *list, size_t count, uint64_t to) {
    presil_desc *inner = list + BEFORE, *behind = inner + count;
    for (size_t i = 0; i < count; i++) {
        if (presil_desc_wait(&inner[i]) & 0x8888u || presil_desc_signal(&inner[i]) >> OWN_SLOT & 1u) return false;
    }
    const uint32_t loaded = chip_token_slot(LOAD, MATRIX), cleared = chip_token_slot(MATRIX, LOAD);
    list[0] = clear_scratchpad(c);
    list[1] = clear_accumulators(c, 0);
    list[2] = clear_accumulators(c, 1);
    behind[0] = carry_scratchpad(c, to);
    behind[1] = carry_half(c, 0);
    behind[2] = carry_half(c, 1);
    behind[3] = carry_accumulators(c, to + spad_bytes(c));
    give(&list[0], loaded), take(&list[1], LOAD, loaded);
    presil_desc *first_load = find(inner, count, LOAD, false);
    if (first_load && (presil_desc_wait(first_load) >> (4 * MATRIX + cleared) & 1u)) return false;
    if (first_load) give(&list[2], cleared), take(first_load, MATRIX, cleared);
    static const uint32_t engines[] = {LOAD, MATRIX, EPILOGUE};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        presil_desc *last = find(inner, count, engines[i], true);
        if (!last && engines[i] == MATRIX) last = &list[2];
        if (last) give(last, OWN_SLOT), take(&behind[0], engines[i], OWN_SLOT);
    }
    give(&behind[0], OWN_SLOT), take(&behind[1], STORE, OWN_SLOT);
    give(&behind[2], OWN_SLOT), take(&behind[3], EPILOGUE, OWN_SLOT);
    return true;
}

/* ---- plans */
presil_plan *chip_plan_part(const presil_plan *plan, size_t more) {
    presil_plan *out = chip_plan_new(&plan->config, plan->label, plan->label);
    if (!out) return NULL;
    out->macs = plan->macs, out->passes = plan->passes, out->peak = plan->peak, out->estimate = plan->estimate;
    if (chip_plan_room(out, plan->count + more, plan->segments, false)) return out;
    chip_plan_free(out);
    return NULL;
}

/* Of the segment that holds command n - 1. */
static uint32_t segment_of(const presil_plan *plan, size_t n) {
    uint32_t s = 0;
    while (s + 1 < plan->segments && plan->segment_ends[s] < n) s++;
    return s;
}

int chip_plan_part_done(presil_plan *out, presil_plan **result, presil_error_buffer *error) {
    if (!chip_image_ranges(out)) {
        chip_plan_free(out);
        return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a part of a plan");
    }
    out->signature = chip_plan_signature(out);
    *result = out;
    return PRESIL_OK;
}

int chip_prefix(const presil_chip *chip, const presil_plan *plan, uint64_t commands, const presil_daddr *to,
                presil_plan **result, presil_error_buffer *error) {
    const size_t n = (size_t)commands;
    if (commands > plan->count || (!n && !to))
        return chip_fail(error, PRESIL_EINVAL, "the first %llu descriptors of %zu", (unsigned long long)commands,
                         plan->count);
    const uint32_t segment = segment_of(plan, n);
    const size_t first = chip_segment_first(plan, segment), count = n - first, before = to ? BEFORE : 0;
    presil_plan *out = chip_plan_part(plan, BEFORE + BEHIND);
    if (!out) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a part of a plan");
    presil_desc *list = chip_own_list(out) + first;
    chip_commands_at(plan, 0, first, list - first);
    chip_commands_at(plan, first, count, list + before);
    memcpy(chip_own_ends(out), plan->segment_ends, segment * sizeof *out->segment_ends);
    out->segments = segment + 1;
    out->count = n + (to ? BEFORE + BEHIND : 0);
    chip_own_ends(out)[segment] = out->count;
    const char *wrong = NULL;
    if (!balance(list + before, count))
        wrong = "one of the descriptors waits for a later one";
    else if (to && (out->count - first > RING_ENTRIES || !observe(&chip->config, list, count, to->value)))
        wrong = "the launch leaves no room to observe it: its ring or its tokens are all in use";
    if (wrong) {
        chip_plan_free(out);
        return chip_fail(error, PRESIL_EINVAL, "%s", wrong);
    }
    if (to) out->observed = (chip_observation){to->value, first, before};
    return chip_plan_part_done(out, result, error);
}

/* Also which byte of what was carried out; false: the address is none of these. */
bool chip_describe_observed(const presil_plan *plan, uint64_t address, char *text, size_t bytes) {
    const presil_config *c = &plan->config;
    if (!plan->observed.to || address < plan->observed.to) return false;
    uint64_t at = address - plan->observed.to;
    if (at < spad_bytes(c)) {
        (void)snprintf(text, bytes, "scratchpad word %llu, byte %llu", (unsigned long long)(at / c->word_bytes),
                       (unsigned long long)(at % c->word_bytes));
        return true;
    }
    at -= spad_bytes(c);
    if (at >= acc_bytes(c)) return false;
    const uint64_t row = at / sums_bytes(c);
    (void)snprintf(text, bytes, "accumulators half %llu, row %llu, cell %llu, byte %llu",
                   (unsigned long long)(row / c->acc_rows), (unsigned long long)(row % c->acc_rows),
                   (unsigned long long)(at % sums_bytes(c) / 4), (unsigned long long)(at % 4));
    return true;
}
