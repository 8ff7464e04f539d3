/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Proves a command list. Tokens are turned into a happens-before relation (vector clocks over the engines); every
 * access to a scratchpad word or an accumulator row must be ordered after what it depends on. Also: fields, deadlock
 * with queues of four, token overflow, use of what was never written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "descriptors.h"

enum { QUEUE = 4, TOKENS = 20 };

typedef struct {
    uint32_t writer_seq, reader_seq[CHIP_ENGINES];
    uint8_t writer;
} cell_state; /* writer: engine + 1, 0: never written */

typedef struct {
    cell_state cell;
    uint8_t open;
} acc_state; /* open: a sum is being formed or waits for its epilogue */

typedef struct {
    uint32_t *list;
    uint32_t count, started, delivered;
    uint32_t known[CHIP_ENGINES];
} engine_state;

typedef struct {
    const presil_config *config;
    const presil_desc *list;
    size_t count;
    char *text;
    size_t bytes;
    cell_state *spad;
    acc_state *acc; /* [2][ACC_ROWS] */
    engine_state engine[CHIP_ENGINES];
    chip_moment *at;         /* of each descriptor */
    uint32_t *giver[TOKENS]; /* descriptor of the k-th signal */
    uint32_t given[TOKENS], taken[TOKENS];
    int consumer[TOKENS];
    uint32_t *taken_before[TOKENS]; /* waits on the counter by the consumer's operations up to its seq */
    size_t index;                   /* of the descriptor under examination */
    uint32_t self;                  /* its engine */
    const chip_accesses *accesses;  /* NULL: nobody looks on */
    size_t step;                    /* commands that have begun before this one */
    chip_hazards *hazards; /* NULL: a plan of ours, held to the tilers' rules too; the first violation ends it */
} checker;

static size_t command_text(const checker *k, size_t index, char *text, size_t bytes) {
    const presil_desc *d = &k->list[index];
    const int n = snprintf(text, bytes, "descriptor %zu (%s, tile %u)", index, chip_opcode_name(d), presil_desc_tag(d));
    return n > 0 && (size_t)n < bytes ? (size_t)n : 0;
}

/* other: the command in conflict, or PRESIL_HAZARD_NONE. */
static int found(checker *k, presil_hazard_kind kind, size_t other, const char *what, int64_t a, int64_t b) {
    size_t at = command_text(k, k->index, k->text, k->bytes);
    const int n = snprintf(k->text + at, k->bytes - at, ": %s (%lld, %lld)", what, (long long)a, (long long)b);
    at += n > 0 ? (size_t)n : 0;
    if (other != PRESIL_HAZARD_NONE && at + 6 < k->bytes) {
        memcpy(k->text + at, "; see ", 7);
        (void)command_text(k, other, k->text + at + 6, k->bytes - at - 6);
    }
    if (k->hazards) chip_hazard_tell(k->hazards, kind, &k->list[k->index], k->index, other, k->text);
    return -1;
}

static int wrong(checker *k, const char *what, int64_t a, int64_t b) {
    return found(k, PRESIL_HAZARD_ILLEGAL, PRESIL_HAZARD_NONE, what, a, b);
}

static size_t command_of(const checker *k, uint32_t engine, uint32_t seq) { return k->engine[engine].list[seq - 1]; }

static int access_cell(checker *k, cell_state *c, bool write, bool may_be_undefined, const char *what, int64_t where) {
    const uint32_t *clock = k->at[k->index].clock;
    const presil_hazard_kind early = k->self == STORE ? PRESIL_HAZARD_STORE_BEFORE_DONE : PRESIL_HAZARD_USE_BEFORE_LOAD;
    if (!write && !c->writer && !may_be_undefined)
        return found(k, PRESIL_HAZARD_USE_BEFORE_LOAD, PRESIL_HAZARD_NONE, "reads what was never written", where, 0);
    /* An engine works in order, but EPILOGUE reads ahead of what it has yet to write. */
    bool in_order = c->writer == k->self + 1 && (write || k->self != EPILOGUE);
    if (c->writer && !in_order && clock[c->writer - 1u] < c->writer_seq)
        return found(k, write ? PRESIL_HAZARD_OVERLAP : early, command_of(k, c->writer - 1u, c->writer_seq), what,
                     where, c->writer - 1);
    if (write) {
        for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
            if (e != k->self && clock[e] < c->reader_seq[e])
                return found(k, PRESIL_HAZARD_OVERLAP, command_of(k, e, c->reader_seq[e]), what, where, e);
        }
        c->writer = (uint8_t)(k->self + 1);
        c->writer_seq = k->at[k->index].seq;
    } else {
        c->reader_seq[k->self] = k->at[k->index].seq;
    }
    return 0;
}

static int access_word(checker *k, int64_t word, bool write, bool may_be_undefined) {
    if (word < 0 || word >= chip_words(k->config))
        return found(k, PRESIL_HAZARD_OUT_OF_BOUNDS, PRESIL_HAZARD_NONE, "outside the scratchpad", word,
                     chip_words(k->config));
    if (k->accesses) k->accesses->touch(k->accesses->context, k->step, CHIP_SCRATCHPAD, (uint32_t)word, write);
    return access_cell(k, &k->spad[word], write, may_be_undefined,
                       write ? "overwrites a word in use" : "reads a word too early", word);
}

static int access_bytes(checker *k, int64_t address, int64_t bytes, bool write) {
    int64_t word = k->config->word_bytes;
    if (k->hazards) address = (uint32_t)address; /* what LOAD has beyond the word's end is dropped */
    if (address < 0) return wrong(k, "negative scratchpad address", address, 0);
    if (address % word + bytes > word && !(k->hazards && write))
        return wrong(k, "a word crosses its scratchpad word", address, bytes);
    return access_word(k, address / word, write, false);
}

/* ---- the engines' accesses ------------------------------------------------------------------ */
static int check_load(checker *k, const presil_desc *d) {
    int64_t word = k->config->word_bytes,
            n[4] = {presil_load_n0(d), presil_load_n1(d), presil_load_n2(d), presil_load_n3(d)};
    int64_t chunk = presil_load_chunk_bytes(d), piece = presil_load_word_bytes(d), wide = presil_load_conv(d) ? 2 : 1,
            e = 1 << presil_load_esize_log2(d);
    if (!n[0] || !n[1] || !n[2] || !n[3] || !chunk || !piece) return wrong(k, "a count is zero", n[0], chunk);
    if (piece > word * wide) return wrong(k, "word_bytes too large", piece, word * wide);
    if (presil_load_step0(d) < 0) return wrong(k, "step0 is negative", presil_load_step0(d), 0);
    if (wide == 2 &&
        (chunk % 4 || piece % 4 || presil_load_pos0(d) % 4 || presil_load_step0(d) % 4 || presil_load_row_bytes(d) % 4))
        return wrong(k, "conversion of parts of fp32", chunk, piece);
    bool transpose = presil_load_transpose(d);
    if (transpose && (e == 8 || chunk % e)) return wrong(k, "transposed parts of elements", chunk, e);
    if (transpose && (n[0] != 1 || n[1] > (int64_t)k->config->lanes / (wide == 2 ? 2 : e) || chunk > word * wide))
        return wrong(k, "transposed block too large", n[1], chunk);
    for (int64_t i3 = 0; i3 < n[3]; i3++) {
        for (int64_t i2 = 0; i2 < n[2]; i2++) {
            int64_t outer = (int64_t)presil_load_sp_base(d) + i2 * presil_load_ss2(d) + i3 * presil_load_ss3(d);
            if (transpose) {
                for (int64_t j = 0; j < chunk / e; j++) {
                    int64_t s = outer + j * presil_load_sw(d);
                    if (s % word) return wrong(k, "transposed word not aligned", s, word);
                    if (access_bytes(k, s, word, true)) return -1;
                }
                continue;
            }
            for (int64_t i1 = 0; i1 < n[1]; i1++) {
                for (int64_t i0 = 0; i0 < n[0]; i0++) {
                    int64_t at = outer + i0 * presil_load_ss0(d) + i1 * presil_load_ss1(d);
                    for (int64_t w = 0, left = chunk; left > 0; w++, left -= piece) {
                        int64_t s = at + w * presil_load_sw(d);
                        if (wide == 2 && s % 2) return wrong(k, "conversion to an odd address", s, piece);
                        if (access_bytes(k, s, min64(left, piece) / wide, true)) return -1;
                    }
                }
            }
        }
    }
    return 0;
}

/* docs/isa.md, FIELD: the largest power of two that divides the word and every stride that is used. */
static int64_t store_grain(const presil_config *c, const presil_desc *d) {
    const int64_t used[5] = {
        presil_store_chunk_bytes(d) > presil_store_word_bytes(d) ? presil_store_sw(d) : 0,
        presil_store_n0(d) > 1 ? presil_store_ss0(d) : 0, presil_store_n1(d) > 1 ? presil_store_ss1(d) : 0,
        presil_store_n2(d) > 1 ? presil_store_ss2(d) : 0, presil_store_n3(d) > 1 ? presil_store_ss3(d) : 0};
    int64_t all = c->word_bytes;
    for (int i = 0; i < 5; i++) all |= used[i];
    return all & -all;
}

static int check_store(checker *k, const presil_desc *d) {
    int64_t n[4] = {presil_store_n0(d), presil_store_n1(d), presil_store_n2(d), presil_store_n3(d)},
            chunk = presil_store_chunk_bytes(d), piece = presil_store_word_bytes(d);
    if (!n[0] || !n[1] || !n[2] || !n[3] || !chunk || !piece) return wrong(k, "a count is zero", n[0], chunk);
    if (piece > k->config->word_bytes) return wrong(k, "word_bytes too large", piece, k->config->word_bytes);
    const int64_t grain = store_grain(k->config, d);
    if (presil_store_sp_base(d) % grain + min64(chunk, piece) > grain)
        return wrong(k, "words of a STORE may cross those of the scratchpad", presil_store_sp_base(d), grain);
    for (int64_t i3 = 0; i3 < n[3]; i3++) {
        for (int64_t i2 = 0; i2 < n[2]; i2++) {
            for (int64_t i1 = 0; i1 < n[1]; i1++) {
                for (int64_t i0 = 0; i0 < n[0]; i0++) {
                    int64_t at = (int64_t)presil_store_sp_base(d) + i0 * presil_store_ss0(d) +
                                 i1 * presil_store_ss1(d) + i2 * presil_store_ss2(d) + i3 * presil_store_ss3(d);
                    for (int64_t w = 0, left = chunk; left > 0; w++, left -= piece) {
                        if (access_bytes(k, at + w * presil_store_sw(d), min64(left, piece), false)) return -1;
                    }
                }
            }
        }
    }
    return 0;
}

static int check_acc(checker *k, uint32_t half, uint32_t base, int64_t rows, bool first, bool read) {
    if (!rows || base + rows > (int64_t)k->config->acc_rows)
        return found(k, PRESIL_HAZARD_OUT_OF_BOUNDS, PRESIL_HAZARD_NONE, "outside the accumulators", base, rows);
    for (uint32_t r = base; r < base + rows; r++) {
        const uint32_t where = half * k->config->acc_rows + r;
        acc_state *a = &k->acc[where];
        if (k->hazards ? !first && !a->cell.writer : read ? !a->open : first ? a->open : !a->open)
            return found(k, PRESIL_HAZARD_USE_BEFORE_LOAD, PRESIL_HAZARD_NONE,
                         read    ? "reads a row without a sum"
                         : first ? "begins over an unread sum"
                                 : "adds to no sum",
                         half, r);
        if (access_cell(k, &a->cell, !read, false, read ? "reads a row too early" : "overwrites a row in use", r))
            return -1;
        if (k->accesses) k->accesses->touch(k->accesses->context, k->step, CHIP_ACCUMULATORS, where, !read);
        a->open = !read;
    }
    return 0;
}

/* Word addresses are modulo 2^16; none of ours is as large. */
static int64_t wrapped(const checker *k, int64_t word) { return k->hazards ? word & 0xffff : word; }

static bool window_step_fits(uint32_t step, uint32_t dilation, uint32_t kernel) {
    return kernel <= CHIP_WINDOW_KERNEL && (step == dilation || step == 2 * dilation);
}

/* docs/isa.md, FIELD: of a depthwise MATRIX. */
static bool window_fits(const presil_config *c, const presil_desc *d) {
    const int64_t step = chip_window_step(presil_matrix_sx(d), presil_matrix_dx(d));
    return presil_matrix_extra_cells(d) < c->cells && presil_matrix_ncb(d) == 1 && presil_matrix_idx(d) == 1 &&
           presil_matrix_idy(d) == 1 &&
           window_step_fits(presil_matrix_sx(d), presil_matrix_dx(d), presil_matrix_kx(d)) &&
           window_step_fits(presil_matrix_sy(d), presil_matrix_dy(d), presil_matrix_ky(d)) &&
           ((int64_t)presil_matrix_nx(d) - 1) * step + presil_matrix_kx(d) <= CHIP_WINDOW_POSITIONS;
}

static int check_matrix(checker *k, const presil_desc *d) {
    int64_t nx = presil_matrix_nx(d), ny = presil_matrix_ny(d), kx = presil_matrix_kx(d), ky = presil_matrix_ky(d),
            ncb = presil_matrix_ncb(d);
    int64_t idx = presil_matrix_idx(d), idy = presil_matrix_idy(d);
    if (!nx || !ny || !kx || !ky || !ncb || !idx || !idy || !presil_matrix_sx(d) || !presil_matrix_sy(d))
        return wrong(k, "a count is zero", nx, ny);
    if (presil_matrix_depthwise(d) ? !window_fits(k->config, d) : presil_matrix_extra_cells(d) != 0)
        return wrong(k, "a depthwise window", nx, kx);
    if (check_acc(k, presil_matrix_half(d), presil_matrix_acc_base(d), nx * ny, presil_matrix_first(d), false))
        return -1;
    bool touches = presil_matrix_lim_x(d) && presil_matrix_lim_y(d);
    for (uint64_t w = 0; w < chip_weight_words(k->config, d); w++) {
        if (access_word(k, wrapped(k, chip_weight_word(d, w)), false, !touches)) return -1;
    }
    const presil_desc walked = chip_walked(d);
    d = &walked;
    nx = presil_matrix_nx(d), ny = presil_matrix_ny(d), kx = presil_matrix_kx(d), ky = presil_matrix_ky(d);
    for (int64_t y = 0; y < ny && touches; y++) {
        for (int64_t j = 0; j < ky; j++) {
            int64_t uy = presil_matrix_oy(d) + y * presil_matrix_sy(d) + j * presil_matrix_dy(d);
            if (uy < 0 || uy % idy || uy / idy >= presil_matrix_lim_y(d)) continue;
            for (int64_t x = 0; x < nx; x++) {
                for (int64_t i = 0; i < kx; i++) {
                    int64_t ux = presil_matrix_ox(d) + x * presil_matrix_sx(d) + i * presil_matrix_dx(d);
                    if (ux < 0 || ux % idx || ux / idx >= presil_matrix_lim_x(d)) continue;
                    int64_t word = presil_matrix_act_base(d) + ux / idx * presil_matrix_x_stride(d) +
                                   uy / idy * presil_matrix_y_stride(d);
                    for (int64_t cb = 0; cb < ncb; cb++) {
                        if (access_word(k, wrapped(k, word + cb * presil_matrix_cb_stride(d)), false, false)) return -1;
                    }
                }
            }
        }
    }
    return 0;
}

static int check_rows(checker *k, int64_t base, int64_t pitch, int64_t rows, int64_t esize, bool write) {
    int64_t bytes = k->config->cells * esize, word = k->config->word_bytes, slot = 1;
    while (slot < bytes) slot *= 2;
    for (int64_t r = 0; r < rows; r++) {
        int64_t at = base + r * pitch;
        if (k->hazards) at = (uint32_t)at;
        if (bytes > word / 2 && at % word) return wrong(k, "an epilogue row is not aligned", at, word);
        if (bytes <= word / 2 && at % slot) return wrong(k, "an epilogue slot is not aligned", at, slot);
        for (int64_t w = 0; w < ceil_div(bytes, word); w++) {
            /* what a tiler's row has beyond its tensor may be anything */
            if (access_word(k, at / word + w, write, !write && !k->hazards)) return -1;
        }
    }
    return 0;
}

static int check_epilogue(checker *k, const presil_desc *d) {
    uint32_t rows = presil_epilogue_rows(d);
    if (check_acc(k, presil_epilogue_half(d), presil_epilogue_acc_base(d), rows, false, true)) return -1;
    if (presil_epilogue_bias_en(d) || presil_epilogue_scale_en(d)) {
        int64_t words = 2 * ceil_div(4 * (int64_t)k->config->cells, k->config->word_bytes);
        for (int64_t w = 0; w < words; w++) {
            if (access_word(k, wrapped(k, presil_epilogue_param_base(d) + w), false, false)) return -1;
        }
    }
    const bool raw = presil_epilogue_out_type(d) == PRESIL_DTYPE_RAW32; /* has no residual */
    if (presil_epilogue_res_en(d) && !raw &&
        check_rows(k, presil_epilogue_res_base(d), presil_epilogue_res_pitch(d), rows,
                   chip_type_bytes(presil_epilogue_res_type(d)), false))
        return -1;
    return check_rows(k, presil_epilogue_out_base(d), presil_epilogue_out_pitch(d), rows,
                      chip_type_bytes(presil_epilogue_out_type(d)), true);
}

/* ---- tokens --------------------------------------------------------------------------------- */
/* Starts the next descriptor of engine e if its tokens are there: 1 started, 0 waits, -1 wrong. */
static int start(checker *k, uint32_t e) {
    engine_state *s = &k->engine[e];
    if (s->started == s->delivered) return 0;
    k->index = s->list[s->started];
    k->self = e;
    const presil_desc *d = &k->list[k->index];
    uint32_t wait = presil_desc_wait(d), signal = presil_desc_signal(d);
    for (uint32_t t = 0; t < TOKENS; t++) {
        if ((wait >> t & 1u) && k->given[t] == k->taken[t]) return 0;
    }
    chip_moment *m = &k->at[k->index];
    m->seq = ++s->started;
    for (uint32_t t = 0; t < TOKENS; t++) {
        if (wait >> t & 1u) {
            if (k->consumer[t] >= 0 && k->consumer[t] != (int)e &&
                (wrong(k, "two engines take from one counter", t, k->consumer[t]), !k->hazards))
                return -1;
            k->consumer[t] = (int)e;
            const chip_moment *from = &k->at[k->giver[t][k->taken[t]++]];
            uint32_t owner = t / 4;
            for (uint32_t q = 0; q < CHIP_ENGINES; q++) {
                if (from->clock[q] > s->known[q]) s->known[q] = from->clock[q];
            }
            if (from->seq > s->known[owner]) s->known[owner] = from->seq;
        }
        k->taken_before[t][k->index] = k->taken[t];
    }
    memcpy(m->clock, s->known, sizeof m->clock);
    int status = e == LOAD       ? check_load(k, d)
                 : e == MATRIX   ? check_matrix(k, d)
                 : e == EPILOGUE ? check_epilogue(k, d)
                                 : check_store(k, d);
    k->step++;
    if (status && !k->hazards) return -1;
    for (uint32_t i = 0; i < 4; i++) {
        if (signal >> i & 1u) k->giver[4 * e + i][k->given[4 * e + i]++] = (uint32_t)k->index;
    }
    return 1;
}

/* When the k-th signal is given, how many of the earlier ones may still be there: those whose taker is not known to
 * have started. */
static int check_overflow(checker *k) {
    for (uint32_t t = 0; t < TOKENS; t++) {
        int taker = k->consumer[t];
        for (uint32_t i = 0; i < k->given[t]; i++) {
            k->index = k->giver[t][i];
            const chip_moment *m = &k->at[k->index];
            uint32_t known = taker < 0 ? 0 : m->clock[taker];
            uint32_t gone = known ? k->taken_before[t][k->engine[taker].list[known - 1]] : 0;
            if (i + 1 - gone > 255) return wrong(k, "token counter may overflow", t, i + 1 - gone);
        }
        if (k->given[t] != k->taken[t]) {
            k->index = k->giver[t][k->taken[t]];
            (void)found(k, PRESIL_HAZARD_LEAK, PRESIL_HAZARD_NONE, "token never taken", t, k->given[t] - k->taken[t]);
            if (!k->hazards) return -1;
        }
    }
    return 0;
}

/* As many as can start; how many, or -1. */
static int start_all(checker *k) {
    int started = 0, r = 0;
    for (uint32_t e = 0; e < CHIP_ENGINES && r >= 0; e++) {
        while ((r = start(k, e)) == 1) started++;
    }
    return r < 0 ? -1 : started;
}

/* The first of the list that can start: of two commands in no order the later one is told of. */
static int start_first(checker *k) {
    size_t least = 0;
    for (uint32_t n = 0; n < CHIP_ENGINES; n++) {
        uint32_t first = CHIP_ENGINES;
        size_t index = k->count;
        for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
            const engine_state *s = &k->engine[e];
            if (s->started < s->delivered && s->list[s->started] >= least && s->list[s->started] < index)
                first = e, index = s->list[s->started];
        }
        if (first == CHIP_ENGINES) return 0;
        if (start(k, first) == 1) return 1;
        least = index + 1;
    }
    return 0;
}

/* What a chip of this version doesn't have, in a descriptor of each kind; NULL: nothing. */
static const char RESERVED[] = "reserved bits are not 0";

static const char *unknown_load(const presil_desc *d) {
    return presil_load_reserved(d) ? RESERVED : presil_load_conv(d) > PRESIL_CONV_TERM2 ? "unknown conversion" : NULL;
}

static const char *unknown_store(const presil_desc *d) {
    return presil_store_reserved(d) ? RESERVED : presil_store_conv(d) ? "unknown conversion" : NULL;
}

static const char *unknown_matrix(const presil_desc *d) {
    const uint32_t type = presil_matrix_dtype(d);
    return presil_matrix_reserved(d)                               ? RESERVED
           : type > PRESIL_DTYPE_BF16 && type != PRESIL_DTYPE_FP16 ? "none of int8, bf16, fp16"
                                                                   : NULL;
}

static const char *unknown_epilogue(const presil_desc *d) {
    const uint32_t res = presil_epilogue_res_type(d), out = presil_epilogue_out_type(d);
    const bool known = (out <= PRESIL_DTYPE_RAW32 || out == PRESIL_DTYPE_FP16) &&
                       (!presil_epilogue_res_en(d) || res <= PRESIL_DTYPE_FP32 || res == PRESIL_DTYPE_FP16);
    return presil_epilogue_reserved(d) ? RESERVED : known ? NULL : "unknown type of elements";
}

/* What decode refuses whatever the configuration; NULL: nothing. */
static const char *refused(const presil_desc *d) {
    const uint32_t op = presil_desc_opcode(d);
    if (op > PRESIL_OPCODE_STORE) return "unknown opcode";
    if (presil_desc_isa(d) != PRESIL_ISA_VERSION) return "isa version, not this driver's";
    if (op == PRESIL_OPCODE_NOP && (presil_desc_wait(d) || presil_desc_signal(d))) return "NOP with tokens";
    return op == PRESIL_OPCODE_LOAD       ? unknown_load(d)
           : op == PRESIL_OPCODE_STORE    ? unknown_store(d)
           : op == PRESIL_OPCODE_MATRIX   ? unknown_matrix(d)
           : op == PRESIL_OPCODE_EPILOGUE ? unknown_epilogue(d)
           : presil_desc_reserved(d)      ? RESERVED
                                          : NULL;
}

static int run(checker *k) {
    size_t fetched = 0, done = 0, total = k->count;
    for (bool moved = true; moved;) {
        moved = false;
        while (fetched < k->count) {
            const presil_desc *d = &k->list[fetched];
            const char *const refusal = refused(d);
            const uint32_t op = presil_desc_opcode(d);
            k->index = fetched;
            if (refusal && (wrong(k, refusal, op, presil_desc_isa(d)), !k->hazards)) return -1;
            if (refusal || op == PRESIL_OPCODE_NOP) {
                fetched++, total--;
                moved = true;
                continue;
            }
            engine_state *s = &k->engine[op - 1];
            if (s->delivered - s->started == QUEUE) break;
            s->list[s->delivered++] = (uint32_t)fetched++;
            moved = true;
        }
        const int r = k->hazards || k->accesses ? start_first(k) : start_all(k);
        if (r < 0) return -1;
        done += (size_t)r;
        moved |= r > 0;
    }
    if (done != total) {
        for (uint32_t e = 0; e < CHIP_ENGINES; e++) {
            if (k->engine[e].started < k->engine[e].delivered) {
                k->index = k->engine[e].list[k->engine[e].started];
                (void)found(k, PRESIL_HAZARD_LEAK, PRESIL_HAZARD_NONE, "deadlock: waits for tokens that nobody gives",
                            presil_desc_wait(&k->list[k->index]), 0);
                if (!k->hazards) return -1;
            }
        }
        return k->hazards ? -1 : wrong(k, "deadlock", 0, 0);
    }
    return check_overflow(k);
}

static int check(checker *k) {
    size_t n = k->count ? k->count : 1;
    k->spad = calloc(chip_words(k->config), sizeof *k->spad);
    k->acc = calloc(2 * (size_t)k->config->acc_rows, sizeof *k->acc);
    uint32_t *space = malloc((2 * TOKENS + CHIP_ENGINES) * n * sizeof *space);
    int status = -1;
    if (k->spad && k->acc && space) {
        for (uint32_t t = 0; t < TOKENS; t++) {
            k->giver[t] = space + t * n;
            k->taken_before[t] = space + (TOKENS + t) * n;
            k->consumer[t] = -1;
        }
        for (uint32_t e = 0; e < CHIP_ENGINES; e++) k->engine[e].list = space + (2 * TOKENS + e) * n;
        status = run(k);
    } else {
        (void)snprintf(k->text, k->bytes, "no host memory to check a plan");
    }
    free(k->spad);
    free(k->acc);
    free(space);
    return status;
}

int chip_check_moments(const presil_config *config, const presil_desc *list, size_t count, chip_moment *at, char *text,
                       size_t bytes) {
    checker k = {.config = config, .list = list, .count = count, .text = text, .bytes = bytes, .at = at};
    return check(&k);
}

int chip_check_accesses(const presil_config *config, const presil_desc *list, size_t count,
                        const chip_accesses *accesses) {
    char text[256];
    chip_moment *at = calloc(count + 1, sizeof *at);
    checker k = {.config = config,
                 .list = list,
                 .count = count,
                 .text = text,
                 .bytes = sizeof text,
                 .at = at,
                 .accesses = accesses};
    const int status = at ? check(&k) : -1;
    free(at);
    return status;
}

int chip_check_hazards(const presil_config *config, const presil_desc *list, size_t count, chip_moment *at,
                       chip_hazards *hazards) {
    char text[256];
    checker k = {.config = config,
                 .list = list,
                 .count = count,
                 .text = text,
                 .bytes = sizeof text,
                 .at = at,
                 .hazards = hazards};
    return check(&k);
}

int chip_check_first(const presil_config *config, const presil_desc *list, size_t count, size_t *index, char *text,
                     size_t bytes) {
    chip_moment *at = calloc(count + 1, sizeof *at);
    checker k = {.config = config, .list = list, .count = count, .text = text, .bytes = bytes, .at = at};
    if (!at) (void)snprintf(text, bytes, "no host memory to check a plan");
    const int status = at ? check(&k) : -1;
    *index = k.index;
    free(at);
    return status;
}

int chip_check_plan(const presil_config *config, const presil_desc *list, size_t count, char *text, size_t bytes) {
    size_t index;
    return chip_check_first(config, list, count, &index, text, bytes);
}
