/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop nest. Tiles of output pixels and sets of cell groups, in either order; for each: all parts of the reduction
 * into an accumulator half, then the epilogue into an output slot, then the store. Operands lie in slots that are found
 * again by key: what fits stays, what doesn't streams through.
 */
#include <stdlib.h>
#include <string.h>
#include "nest.h"
#include "spad.h"

chip_nest_slot *chip_nest_find(chip_nest_pool *pool, uint64_t key, bool *hit) {
    chip_nest_slot *oldest = &pool->slot[0];
    pool->clock++;
    for (uint32_t i = 0; i < pool->count; i++) {
        chip_nest_slot *slot = &pool->slot[i];
        if (slot->key == key) {
            slot->stamp = pool->clock;
            *hit = true;
            return slot;
        }
        if (slot->stamp < oldest->stamp) oldest = slot;
    }
    oldest->key = key;
    oldest->stamp = pool->clock;
    oldest->loaded = 0;
    for (uint32_t i = 0; i < NEST_ROW_MARKS; i++) oldest->war[i] = oldest->reader[i];
    *hit = false;
    return oldest;
}

static void marks_of(const chip_nest_pool *pool, int64_t row0, int64_t rows, uint32_t *first, uint32_t *last) {
    *first = (uint32_t)(row0 / pool->rows_per_mark);
    *last = (uint32_t)((row0 + rows - 1) / pool->rows_per_mark);
    if (*last >= NEST_ROW_MARKS) *last = NEST_ROW_MARKS - 1;
}

void chip_nest_read(const chip_nest_pool *pool, chip_nest_slot *slot, chip_op *op, uint32_t seq, int64_t row0,
                    int64_t rows) {
    uint32_t first, last;
    marks_of(pool, row0, rows, &first, &last);
    chip_need(op, LOAD, slot->writer);
    for (uint32_t i = first; i <= last; i++) slot->reader[i] = seq;
}

void chip_nest_write(const chip_nest_pool *pool, chip_nest_slot *slot, chip_op *op, uint32_t seq, int64_t row0,
                     int64_t rows) {
    uint32_t first, last;
    marks_of(pool, row0, rows, &first, &last);
    slot->writer = seq;
    for (uint32_t i = first; i <= last; i++) chip_need(op, pool->consumer, slot->war[i]);
}

static void pool_reset(chip_nest_pool *pool) {
    for (uint32_t i = 0; i < pool->count; i++) {
        uint32_t base = pool->slot[i].base;
        pool->slot[i] = (chip_nest_slot){.key = UINT64_MAX, .base = base};
    }
    pool->clock = 0;
}

static bool pool_place(presil_spad *spad, chip_nest_pool *pool, uint32_t slots, uint32_t words, uint32_t consumer,
                       int64_t rows, const char *tag) {
    uint32_t base = 0;
    pool->count = slots;
    pool->consumer = consumer;
    pool->rows_per_mark = (uint32_t)max64(1, ceil_div(rows, NEST_ROW_MARKS));
    if (slots && presil_spad_alloc(spad, slots * words, 1, tag, &base) != PRESIL_SPAD_OK) return false;
    for (uint32_t i = 0; i < slots; i++) pool->slot[i].base = base + i * words;
    pool_reset(pool);
    return true;
}

static int nest_place(chip_nest_state *s) {
    const chip_tiling *t = s->t;
    presil_spad spad;
    presil_spad_init(&spad, chip_words(s->p->config));
    uint32_t out = 0;
    bool ok =
        pool_place(&spad, &s->act, t->act_slots, t->act_slot_words, MATRIX,
                   t->act_row_words ? t->act_pitch / t->act_row_words : 1, "activations") &&
        pool_place(&spad, &s->wgt, t->wgt_slots, t->wgt_slot_words, MATRIX, 1, "weights") &&
        pool_place(&spad, &s->res, t->res_slots, t->res_slot_words, EPILOGUE, 1, "residual") &&
        pool_place(&spad, &s->param, t->param_slots, t->param_groups * s->p->param_words, EPILOGUE, 1, "parameters") &&
        presil_spad_alloc(&spad, t->out_slots * t->out_slot_words, 1, "output", &out) == PRESIL_SPAD_OK;
    if (!ok)
        return chip_fail(s->error, PRESIL_EUNSUPPORTED, "tiling of %u words does not fit the scratchpad of %u",
                         t->total_words, chip_words(s->p->config));
    for (uint32_t i = 0; i < 2; i++) s->out[i] = (chip_nest_out){out + i % t->out_slots * t->out_slot_words, 0};
    return PRESIL_OK;
}

static void list_parts(chip_nest_state *s) {
    const chip_problem *p = s->p;
    const chip_tiling *t = s->t;
    uint32_t at = 0;
    for (uint32_t cb = 0; cb < p->blocks; cb += t->part_blocks) {
        uint32_t rows = chip_grid_rows(p, cb);
        for (uint32_t ky = 0; ky < rows; ky += t->part_ky) {
            for (uint32_t kx = 0; kx < p->grid_x; kx += t->part_kx) {
                s->parts[at++] = (chip_nest_part){cb, (uint32_t)min64(t->part_blocks, p->blocks - cb),
                                                  ky, (uint32_t)min64(t->part_ky, rows - ky),
                                                  kx, (uint32_t)min64(t->part_kx, p->grid_x - kx)};
            }
        }
    }
    s->part_count = at;
}

static int nest_parts(chip_nest_state *s) {
    s->most_parts = (uint32_t)chip_tiling_parts(&s->lead, s->t);
    s->parts = calloc(s->most_parts ? s->most_parts : 1, sizeof *s->parts); /* of none NULL could be no error */
    if (!s->parts) return chip_fail(s->error, PRESIL_EHOSTMEM, "no host memory for %u parts", s->most_parts);
    list_parts(s);
    return PRESIL_OK;
}

static void turn_to_phase(chip_nest_state *s, const chip_problem *whole, uint32_t phase) {
    if (s->phases == 1 || s->phase == phase) return;
    chip_problem_phase(whole, phase, &s->own);
    s->phase = phase;
    list_parts(s);
}

static void nest_reset(chip_nest_state *s) {
    pool_reset(&s->act);
    pool_reset(&s->wgt);
    pool_reset(&s->res);
    pool_reset(&s->param);
    s->out[0].stored = s->out[1].stored = 0;
    s->acc_read[0] = s->acc_read[1] = 0;
    s->half = s->out_next = 0;
}

typedef struct {
    uint32_t g0, groups, out_slot;
    chip_nest_slot *res;
} superjob;

static void emit_epilogue(chip_nest_state *s, const chip_nest_tile *t, superjob *job, const chip_nest_sum *m) {
    const chip_problem *p = s->p;
    int64_t word = p->config->word_bytes, row = (m->y0 - t->y0) * t->nx, rows = m->ny * t->nx;
    bool hit;
    if (p->has_res && !job->res) {
        job->res = chip_nest_find(&s->res, s->b->count, &hit); /* used once: any fresh key */
        chip_nest_load_res(s, job->res, t, job->g0, job->groups);
    }
    chip_nest_slot *param = NULL;
    if (p->param_words) {
        uint32_t set = m->g / s->t->param_groups;
        param = chip_nest_find(&s->param, set, &hit);
        if (!hit)
            chip_nest_load_params(s, param, set * s->t->param_groups,
                                  (uint32_t)min64(s->t->param_groups, p->cell_groups - set * s->t->param_groups));
    }
    chip_op *op = chip_emit(s->b, EPILOGUE);
    uint32_t seq = s->b->seq[EPILOGUE];
    presil_desc *d = &op->d;
    uint32_t tag = presil_desc_tag(d);
    *d = p->epilogue;
    presil_desc_opcode_set(d, PRESIL_OPCODE_EPILOGUE);
    presil_desc_isa_set(d, PRESIL_ISA_VERSION);
    presil_desc_tag_set(d, tag);
    chip_need(op, MATRIX, s->b->seq[MATRIX]);
    chip_need(op, STORE, s->out[job->out_slot].stored);
    s->acc_read[m->half] = seq;
    presil_epilogue_half_set(d, m->half);
    presil_epilogue_rows_set(d, rows);
    presil_epilogue_acc_base_set(d, m->acc_base);
    chip_unit out = chip_problem_unit(p, p->out_esize), res = chip_problem_unit(p, p->res_esize ? p->res_esize : 1);
    uint32_t index = m->g - job->g0;
    presil_epilogue_out_pitch_set(d, out.words * word);
    presil_epilogue_out_base_set(d, (s->out[job->out_slot].base +
                                     (int64_t)index / out.groups_per_unit * s->t->out_unit_words + row * out.words) *
                                            word +
                                        index % out.groups_per_unit * p->config->cells * p->out_esize);
    if (job->res) {
        chip_nest_read(&s->res, job->res, op, seq, 0, 1);
        op->reads_residual = true;
        presil_epilogue_res_pitch_set(d, res.words * word);
        presil_epilogue_res_base_set(
            d, (job->res->base + (int64_t)index / res.groups_per_unit * s->t->res_unit_words + row * res.words) * word +
                   index % res.groups_per_unit * p->config->cells * p->res_esize);
    }
    if (param) {
        chip_nest_read(&s->param, param, op, seq, 0, 1);
        presil_epilogue_param_base_set(d, param->base + m->g % s->t->param_groups * p->param_words);
    }
    op->cycles = (uint32_t)rows * (job->res && res.words > out.words ? res.words : out.words);
}

/* Rows of a tile are worked off in pieces: short ones first when nothing is loaded yet, a short last one when nothing
 * follows. */
static uint32_t cut_rows(const chip_nest_state *s, const chip_nest_tile *t, bool cold, bool last, int64_t end[4]) {
    int64_t cells = s->p->config->cells, early = ceil_div(2 * cells, t->nx), late = ceil_div(2 * cells, t->nx), at = 0;
    uint32_t n = 0;
    if (s->t->early) early = s->t->early;
    if (cold && t->ny >= 2 * early) end[n++] = at = early;
    if (cold && t->ny >= 8 * early) end[n++] = at = 4 * early;
    if (last && t->ny - at - late >= late) end[n++] = t->ny - late;
    end[n++] = t->ny;
    return n;
}

static void run_superjob(chip_nest_state *s, const chip_nest_tile *t, uint32_t g0, uint32_t groups, bool cold,
                         bool last) {
    const chip_problem *p = s->p;
    superjob job = {g0, groups, s->out_next % s->t->out_slots, NULL};
    chip_unit unit = chip_problem_unit(p, p->out_esize);
    int64_t end[4];
    uint32_t tile_rows = s->t->tile_h * s->t->tile_w;
    s->out_next++;
    /* At the end group by group, if nothing has to be loaded again for it: the last epilogue is short then. */
    uint32_t most = last && s->part_count * p->terms <= s->t->act_slots ? 1 : s->t->interleave;
    for (uint32_t at = g0; at < g0 + groups; at += most) {
        uint32_t together = (uint32_t)min64(most, g0 + groups - at);
        bool first_set = cold && at == g0, last_set = last && at + together == g0 + groups;
        uint32_t cuts = cut_rows(s, t, first_set, last_set, end), half = s->half;
        s->half ^= 1;
        for (uint32_t cut = 0; cut < cuts; cut++) {
            int64_t y = cut ? end[cut - 1] : 0, ny = end[cut] - y;
            chip_nest_sum m = {.half = half, .y0 = t->y0 + y, .ny = ny};
            for (uint32_t pass = 0; pass < p->passes && p->blocks; pass++) {
                for (uint32_t i = 0; i < s->part_count; i++) {
                    for (uint32_t k = 0; k < together; k++) {
                        uint32_t low, count;
                        chip_problem_blocks(p, at + k, &low, &count);
                        m.g = at + k, m.pass = pass, m.acc_base = k * tile_rows + (uint32_t)(y * t->nx);
                        m.first = pass == 0 && s->parts[i].ky == 0 && s->parts[i].kx == 0 && low >= s->parts[i].cb &&
                                  low < s->parts[i].cb + s->parts[i].ncb;
                        chip_nest_sum_part(s, t, i, &m, first_set && cut == 0);
                    }
                }
            }
            for (uint32_t k = 0; k < together; k++) {
                m.g = at + k, m.acc_base = k * tile_rows + (uint32_t)(y * t->nx);
                if (!s->part_count) chip_nest_sum_nothing(s, t, &m);
                emit_epilogue(s, t, &job, &m);
                bool closes = (m.g + 1 - g0) % unit.groups_per_unit == 0 || m.g + 1 == g0 + groups;
                uint32_t begin = m.g - (m.g - g0) % unit.groups_per_unit;
                if (last && closes)
                    chip_nest_store(s, job.out_slot, t, y, ny, g0, begin, m.g + 1 - begin,
                                    s->b->seq[EPILOGUE]); /* units leave as they are complete */
            }
        }
    }
    if (!last) chip_nest_store(s, job.out_slot, t, 0, t->ny, g0, g0, groups, s->b->seq[EPILOGUE]);
}

/* All tiles in order; index from 0. */
typedef struct {
    uint64_t per_band, bands, columns, count;
} tile_space;

static tile_space space_of(const chip_problem *p, const chip_tiling *t) {
    tile_space sp = {t->band_h / t->tile_h, (uint64_t)ceil_div(p->out_h, t->band_h),
                     (uint64_t)ceil_div(p->out_w, t->tile_w), 0};
    sp.count = (uint64_t)ceil_div(p->out_h, t->tile_h) * sp.columns * (uint64_t)p->images;
    return sp;
}

/* Of a phase: empty where the phase has fewer outputs than the others. */
static chip_nest_tile tile_at(const chip_nest_state *s, const tile_space *sp, uint64_t index) {
    const chip_problem *p = &s->lead;
    const chip_tiling *t = s->t;
    uint64_t per_column = (uint64_t)ceil_div(p->out_h, t->tile_h), row = index % per_column,
             column = index / per_column % sp->columns;
    chip_nest_tile k = {.n = (int64_t)(index / per_column / sp->columns),
                        .x0 = (int64_t)column * t->tile_w,
                        .y0 = (int64_t)row * t->tile_h};
    k.nx = min64(t->tile_w, s->p->out_w - k.x0);
    k.ny = min64(t->tile_h, s->p->out_h - k.y0);
    k.band_nx = min64(t->tile_w, p->out_w - k.x0);
    uint64_t band = row / sp->per_band;
    k.band_y0 = (int64_t)band * t->band_h;
    k.band_ny = min64(t->band_h, p->out_h - k.band_y0);
    k.band_key = ((uint64_t)k.n * sp->columns + column) * sp->bands + band;
    return k;
}

/* Where the epilogue takes as long as the sums it would end a whole tile after them: the last tile gets smaller and
 * smaller, if its weights stay. */
static bool halve(const chip_nest_state *s, const chip_nest_tile *t, uint32_t groups) {
    const chip_problem *p = s->p;
    bool light = p->depthwise ? p->passes == 1 : chip_sum_blocks(p) * p->passes <= 4,
         stay = groups * s->part_count * p->terms <= s->t->wgt_slots;
    return light && stay && t->ny > 1 && t->ny * t->nx >= 6 * p->config->cells;
}

/* Which of all jobs is the i-th. Cell groups outside: a phase's weights stay for all tiles. Tiles outside: their input
 * stays for all cell groups and phases. The first phase, which has outputs if any has, comes last. */
typedef struct {
    uint64_t set, tile;
    uint32_t phase;
} nest_job;

static nest_job job_at(const chip_nest_state *s, const tile_space *sp, uint64_t sets, uint64_t i) {
    const uint64_t phases = s->phases;
    if (s->t->group_outer)
        return (nest_job){i / (phases * sp->count), i % sp->count, (uint32_t)(phases - 1 - i / sp->count % phases)};
    return (nest_job){i / phases % sets, i / (phases * sets), (uint32_t)(phases - 1 - i % phases)};
}

static chip_nest_state *nest_new(const chip_problem *whole, const chip_tiling *t, chip_builder *b,
                                 presil_error_buffer *error) {
    chip_nest_state *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->p = &s->own, s->t = t, s->b = b, s->error = error;
    chip_problem_lead(whole, &s->lead);
    chip_problem_phase(whole, 0, &s->own);
    s->phases = chip_phases(whole);
    s->one_band = chip_tiling_one_band(&s->lead, t);
    return s;
}

int chip_nest(const chip_problem *p, const chip_tiling *t, chip_builder *b, presil_error_buffer *error) {
    chip_nest_state *s = nest_new(p, t, b, error);
    if (!s) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    int status = nest_place(s);
    if (status == PRESIL_OK) status = nest_parts(s);
    tile_space sp = space_of(&s->lead, t);
    uint64_t sets = (uint64_t)ceil_div(p->cell_groups, t->store_groups), total = sets * sp.count * s->phases;
    size_t segment = b->count;
    bool cold = true;
    for (uint64_t i = 0; status == PRESIL_OK && i < total; i++) {
        const nest_job job = job_at(s, &sp, sets, i);
        turn_to_phase(s, p, job.phase);
        chip_nest_tile tile = tile_at(s, &sp, job.tile);
        if (tile.nx <= 0 || tile.ny <= 0) continue;
        uint32_t g0 = (uint32_t)job.set * t->store_groups;
        if (b->count - segment > CHIP_SEGMENT_LIMIT) {
            chip_builder_cut(b);
            segment = b->count;
            nest_reset(s);
            cold = true;
        }
        b->tile = (uint32_t)i;
        uint32_t groups = (uint32_t)min64(t->store_groups, p->cell_groups - g0);
        while (i + 1 == total && halve(s, &tile, groups)) {
            chip_nest_tile part = tile;
            part.ny = tile.ny / 2;
            run_superjob(s, &part, g0, groups, cold, false);
            tile.y0 += part.ny, tile.ny -= part.ny;
            cold = false;
        }
        run_superjob(s, &tile, g0, groups, cold, i + 1 == total);
        cold = false;
        if (b->count - segment > 1u << CHIP_RING_LOG2) {
            status =
                chip_fail(error, PRESIL_EUNSUPPORTED,
                          "a sum over %lld elements needs more than the %u commands of a launch: sum parts of it",
                          (long long)(p->blocks * (int64_t)p->block * p->grid_y * p->grid_x), 1u << CHIP_RING_LOG2);
        }
    }
    free(s->parts);
    free(s);
    const int fits = chip_fields_fit(error);
    return status != PRESIL_OK ? status : fits;
}
