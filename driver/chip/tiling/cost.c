/* SPDX-License-Identifier: Apache-2.0 */
/* Which tilings fit, and what each costs: cycles of every engine and of the bus, whichever is most, plus what can't
 * overlap. */
#include <stdlib.h>
#include <string.h>
#include "nest.h"

enum { DESCRIPTOR_CYCLES = 6, EPILOGUE_CYCLES = 30, LAUNCH_CYCLES = 400 };

static int64_t axis_most(int64_t outs, int64_t ks, int64_t stride, int64_t dilation, int64_t input_dilation,
                         int64_t size) {
    return max64(1, min64(size, ((outs - 1) * stride + (ks - 1) * dilation) / input_dilation + 1));
}

bool chip_tiling_one_band(const chip_problem *lead, const chip_tiling *t) {
    return lead->phased && t->part_ky >= lead->grid_y && t->part_kx >= lead->grid_x;
}

static void derive(const chip_problem *p, chip_tiling *t) {
    const presil_config *c = p->config;
    int64_t rows, columns, blocks = min64(t->part_blocks, max64(1, p->blocks));
    if (p->act == ACT_PACKED) {
        rows = 0;
        for (uint32_t cb = 0; cb < (p->runs ? p->runs : 1); cb++)
            rows = max64(rows, chip_packed_map(p, cb, 0, t->band_h).count);
        columns = t->tile_w;
    } else if (chip_tiling_one_band(p, t)) {
        rows = axis_most(t->band_h, p->phase_y.reach, p->stride_y, 1, 1, p->in_h);
        columns = axis_most(t->tile_w, p->phase_x.reach, p->stride_x, 1, 1, p->in_w);
    } else {
        rows = axis_most(t->band_h, t->part_ky, p->stride_y, p->dilation_y, p->input_dilation_y, p->in_h);
        columns = axis_most(t->tile_w, t->part_kx, p->stride_x, p->dilation_x, p->input_dilation_x, p->in_w);
    }
    int64_t pitch = min64(rows * columns, 1 << 20);
    if (blocks > 1) pitch |= 1; /* blocks of a pixel in different banks */
    t->act_row_words = (uint32_t)min64(columns, 1 << 20);
    t->act_pitch = (uint32_t)pitch;
    t->act_slot_words = (uint32_t)min64(pitch * blocks, 1 << 28);
    t->wgt_slot_words =
        (uint32_t)min64(min64(blocks, p->most_blocks) *
                            (p->depthwise ? p->layout->grid_y * p->layout->grid_x : t->part_ky * t->part_kx * c->cells),
                        1 << 28);
    chip_unit out = chip_problem_unit(p, p->out_esize), res = chip_problem_unit(p, p->res_esize ? p->res_esize : 1);
    uint32_t pixels = t->tile_h * t->tile_w;
    t->out_unit_words = pixels * out.words | (out.words == 1);
    t->out_slot_words = (uint32_t)ceil_div(t->store_groups, out.groups_per_unit) * t->out_unit_words;
    t->res_unit_words = pixels * res.words | (res.words == 1);
    t->res_slot_words = p->has_res ? (uint32_t)ceil_div(t->store_groups, res.groups_per_unit) * t->res_unit_words : 0;
}

static uint64_t total_words(const chip_problem *p, const chip_tiling *t) {
    return (uint64_t)t->act_slots * t->act_slot_words + (uint64_t)t->wgt_slots * t->wgt_slot_words +
           (uint64_t)t->out_slots * t->out_slot_words + (uint64_t)t->res_slots * t->res_slot_words +
           (uint64_t)t->param_slots * t->param_groups * p->param_words;
}

static bool window_row_fits(const chip_kernel_axis_pieces *x, int64_t outs) {
    chip_piece columns; /* the first piece is as long as any */
    return chip_next_piece(x, NULL, &columns) &&
           chip_window_positions(outs, &columns, x->stride) <= CHIP_WINDOW_POSITIONS;
}

/* Depthwise: a window's rows are in the line buffer, and no kernel is cut. */
static bool window_fits(const chip_problem *p, const chip_tiling *t) {
    if (t->part_ky != p->grid_y || t->part_kx != p->grid_x) return false;
    if (chip_window_turned(p, t->tile_h)) return true;
    chip_kernel_axis_pieces less = p->pieces_x; /* other phases of a dilated input: one column less, longer pieces */
    if (p->phased && p->phase_x.step > 1 && less.size > 1) less.size--;
    return window_row_fits(&p->pieces_x, t->tile_w) && window_row_fits(&less, t->tile_w);
}

bool chip_tiling_fit(const chip_problem *p, chip_tiling *t) {
    derive(p, t);
    if (p->depthwise && !window_fits(p, t)) return false;
    uint64_t words = total_words(p, t);
    t->total_words = (uint32_t)(words > UINT32_MAX ? UINT32_MAX : words);
    /* MATRIX counts input positions in 16 signed bits from the slot's first row. */
    int64_t span_y = (int64_t)t->band_h * p->stride_y + (int64_t)t->part_ky * p->pack_rows * p->dilation_y;
    int64_t span_x =
        p->act == ACT_PACKED ? t->tile_w : (int64_t)t->tile_w * p->stride_x + (int64_t)t->part_kx * p->dilation_x;
    if (max64(span_y, span_x) > INT16_MAX - p->pad_y - p->pad_x &&
        (t->band_h > 1 || t->tile_w > 1 || t->part_ky > 1 || t->part_kx > 1))
        return false;
    return words <= chip_words(p->config) && t->act_pitch < 65536 &&
           t->tile_h * t->tile_w * t->interleave <= p->config->acc_rows;
}

int64_t chip_tiling_parts(const chip_problem *p, const chip_tiling *t) {
    int64_t rows = 0; /* parts of all kernel rows */
    for (uint32_t i = 0; i < p->runs; i++) rows += ceil_div(p->run[i].blocks, t->part_ky);
    if (!p->runs) rows = ceil_div(p->blocks, t->part_blocks) * ceil_div(p->grid_y, t->part_ky);
    return max64(1, rows * ceil_div(p->grid_x, t->part_kx));
}

/* Slots of activations and weights from what the other buffers leave. first: which of them is served first. */
static bool give_slots(const chip_problem *p, chip_tiling *t, bool act_first) {
    int64_t parts = chip_tiling_parts(p, t) * p->terms,
            bands = ceil_div(p->out_h, t->band_h) * ceil_div(p->out_w, t->tile_w) * p->images;
    int64_t act_want = t->group_outer ? bands * parts : min64(2, bands) * parts;
    int64_t wgt_want =
        (t->group_outer ? (int64_t)t->store_groups + t->interleave : (int64_t)p->cell_groups * chip_phases(p)) * parts;
    if (p->wgt_per_image && !t->group_outer) wgt_want = min64(wgt_want, 4 * parts);
    act_want = min64(act_want, NEST_SLOTS), wgt_want = min64(wgt_want, NEST_SLOTS);
    t->act_slots = t->wgt_slots = 0;
    int64_t left = (int64_t)chip_words(p->config) - (int64_t)total_words(p, t);
    int64_t act_min = min64(act_want, 2), wgt_min = min64(wgt_want, 2);
    if (act_min * t->act_slot_words + wgt_min * t->wgt_slot_words > left) act_min = 1;
    if (act_min * t->act_slot_words + wgt_min * t->wgt_slot_words > left) wgt_min = 1;
    if (act_min * t->act_slot_words + wgt_min * t->wgt_slot_words > left) return false;
    left -= act_min * t->act_slot_words + wgt_min * t->wgt_slot_words;
    for (int k = 0; k < 2; k++) {
        bool act = act_first == (k == 0);
        int64_t min = act ? act_min : wgt_min, more = (act ? act_want : wgt_want) - min,
                size = act ? t->act_slot_words : t->wgt_slot_words;
        more = min64(more, left / size);
        left -= more * size;
        if (act)
            t->act_slots = (uint32_t)(min + more);
        else
            t->wgt_slots = (uint32_t)(min + more);
    }
    return true;
}

/* Pieces of which a word of a packed layer is made, each a kernel row of some columns or, unless these lie one after
 * another in memory, one element. Of runs: the mean. */
static double packed_pieces(const chip_problem *p) {
    bool whole = p->in.sc == p->in.esize && p->in.sx == p->in_c * p->in.esize;
    double pieces = 0, elements = (double)p->kernel_x * (double)p->in_c / (double)p->blocks;
    if (!p->runs) return p->pack_rows * (whole ? 1 : elements);
    for (uint32_t i = 0; i < p->runs; i++) pieces += p->run[i].rows * (whole ? 1.0 : p->run[i].count);
    return pieces / p->runs;
}

/* Beats of a piece of `bytes` of every pixel, `pitch` apart, for each that it would take in one aligned stretch. */
static double beats_of_pieces(const chip_problem *p, int64_t bytes, int64_t pitch) {
    const int64_t word = p->config->word_bytes, apart = pitch | bytes, low = apart & -apart;
    if (low >= word || bytes <= 0 || bytes == pitch) return bytes < word ? (double)word / (double)max64(bytes, 1) : 1;
    return (double)(bytes + word - low) / (double)bytes;
}

/* LOAD cycles and bus beats of one word of activations. */
static void act_word_cost(const chip_problem *p, const chip_tiling *t, double *cycles, double *beats) {
    double wide = p->convert ? 2 : 1, columns = (double)p->config->word_bytes * wide / p->in.esize;
    *cycles = *beats = wide * p->block * p->esize / p->config->word_bytes;
    if (*cycles < wide) *cycles = wide;
    if (p->act == ACT_DIRECT && t->part_blocks < p->blocks && p->in.sx > 0) {
        *beats *= beats_of_pieces(p, (int64_t)t->part_blocks * p->block * p->in.esize, p->in.sx);
        if (*cycles < *beats) *cycles = *beats;
    }
    if (p->act == ACT_TRANSPOSED) *cycles = p->block > columns ? p->block / columns : 1;
    if (p->act == ACT_WINDOWS && !(p->lane.act == p->in.esize && p->lane.stride == 1))
        *cycles = p->in.sc == p->in.esize ? p->block > columns ? p->block / columns : 1 : p->block;
    if (p->act == ACT_ELEMENTS) *cycles = *beats = (double)p->block * wide;
    if (p->act == ACT_PACKED) {
        *cycles = wide * packed_pieces(p);
        *beats = *cycles * 0.15;
    }
}

/* Parts of the reduction that a set of cell groups sums: a depthwise one needs its own channels alone. */
static int64_t set_parts(const chip_problem *p, const chip_tiling *t) {
    const int64_t parts = chip_tiling_parts(p, t);
    return p->depthwise && t->group_outer ? min64(parts, ceil_div(t->store_groups, t->part_blocks)) : parts;
}

/* How often activations are read, unless they stay. */
static double act_times(const chip_problem *p, const chip_tiling *t, int64_t bands) {
    const int64_t keyed = chip_tiling_parts(p, t) * p->terms, sets = ceil_div(p->cell_groups, t->store_groups),
                  chunks = ceil_div(p->cell_groups, t->interleave), phases = chip_phases(p);
    const double times = (double)(keyed > t->act_slots ? p->passes : p->terms);
    const bool streams = t->group_outer && bands * keyed > t->act_slots;
    if (p->depthwise) /* sets whose channels lie in one part */
        return times * (double)(streams ? ceil_div(min64(t->part_blocks, p->blocks), t->store_groups) : 1);
    if (keyed > t->act_slots) return times * (double)(chunks * phases);
    return streams ? times * (double)(sets * phases) : times;
}

static void estimate(const chip_problem *p, chip_tiling *t) {
    const presil_config *c = p->config;
    int64_t parts = chip_tiling_parts(p, t), keyed = parts * p->terms, columns = ceil_div(p->out_w, t->tile_w),
            bands = ceil_div(p->out_h, t->band_h) * columns * p->images;
    int64_t tiles = ceil_div(p->out_h, t->tile_h) * columns * p->images;
    int64_t pass_parts = parts * p->passes, phases = chip_phases(p);
    double pixels = (double)p->out_h * (double)p->out_w * (double)p->images, rows = pixels / (double)tiles;
    double word = (double)c->word_bytes, position = p->depthwise ? 1 : c->cells;
    double blocks_all = p->layout ? (double)p->layout->term_bytes / (position * word)
                                  : (double)p->blocks * p->cell_groups; /* of all groups */
    double most_rows = rows > c->cells ? rows : c->cells,
           sum_cycles = p->depthwise ? (double)chip_window_cycles(p, t->tile_w, t->tile_h)
                                     : blocks_all / p->cell_groups * most_rows; /* of a cell group in a tile */
    double matrix = (double)tiles * p->cell_groups * p->passes * sum_cycles +
                    (double)(tiles * p->cell_groups * pass_parts * phases) * DESCRIPTOR_CYCLES;
    chip_unit out = chip_problem_unit(p, p->out_esize), res = chip_problem_unit(p, p->res_esize ? p->res_esize : 1);
    uint32_t row_words = p->has_res && res.words > out.words ? res.words : out.words;
    pixels *= (double)phases; /* of all of them from here on */
    double epilogue = pixels * p->cell_groups * row_words + (double)(tiles * p->cell_groups * phases) * EPILOGUE_CYCLES;
    /* Loads of each operand: once if it stays, else as often as the loops come back to it. */
    int64_t planes =
        p->runs ? parts : max64(1, p->blocks) * ceil_div(p->grid_y, t->part_ky) * ceil_div(p->grid_x, t->part_kx);
    double band_words = (double)(t->act_pitch * planes);
    double wgt_words = blocks_all * position, wgt_times;
    const int64_t kernels = p->depthwise ? 1 : phases; /* of a cell group; a depthwise phase has the whole one */
    int64_t wgt_keys = (t->group_outer ? min64(t->store_groups, p->cell_groups) : p->cell_groups * kernels) * keyed;
    if (wgt_keys <= t->wgt_slots)
        wgt_times = (double)p->terms * (double)(p->wgt_per_image ? p->images : 1);
    else
        wgt_times = (double)tiles * p->passes;
    double act_cycles, act_beats, wide = p->wgt_convert ? 2 : 1;
    act_word_cost(p, t, &act_cycles, &act_beats);
    double act = (double)bands * band_words * act_times(p, t, bands), wgt = wgt_words * wgt_times;
    double res_beats = p->has_res && p->res.sy ? pixels * (double)p->out_c * p->res_esize / c->word_bytes : 0;
    bool single =
        p->wgt == WGT_ELEMENTS || (p->wgt == WGT_LANES && p->lane.wgt != p->wgt_esize && p->wgt_so != p->wgt_esize);
    double wgt_cycles = wide * (single                                         ? p->block
                                : p->wgt == WGT_COLUMNS && p->block > c->cells ? (double)p->block / c->cells
                                                                               : 1);
    double load = act * act_cycles + wgt * wgt_cycles + res_beats;
    double store =
        pixels * (double)p->out_c * p->out_esize / c->word_bytes *
        beats_of_pieces(p, min64(p->out_c, (int64_t)t->store_groups * p->split.cells) * p->out_esize, p->out.sx);
    double bus = act * act_beats + wgt * wide + res_beats + store;
    /* What can't overlap: the first operands, the last output, and slots too few to load ahead. */
    double part_rows = (double)min64((int64_t)t->tile_h * t->tile_w, 4 * c->cells),
           act_part = (double)t->act_slot_words * act_cycles * part_rows / ((double)t->band_h * t->tile_w);
    double wgt_part =
        (double)t->wgt_slot_words * wide / (double)min64(6, t->part_blocks > 1 ? t->part_blocks : t->part_ky);
    double first_load = (double)(t->act_slot_words * set_parts(p, t) * p->terms * t->tile_h) * act_cycles / t->band_h +
                        blocks_all / p->cell_groups * position * wide * t->interleave * p->terms / (double)phases;
    double first_sum = sum_cycles * p->passes * t->interleave / (double)phases;
    double first = act_part + wgt_part + (first_load > first_sum ? first_load - first_sum : 0);
    double most = matrix, worst[3] = {epilogue, load, bus};
    for (int i = 0; i < 3; i++) most = worst[i] > most ? worst[i] : most;
    double sum = matrix + epilogue + load + bus - most;
    /* With little to sum the epilogue is a whole job behind when the last sum is ready. */
    if (matrix < 1.2 * epilogue) first += rows * row_words;
    if (t->act_slots == 1 && bands * parts > 1 && t->band_h == t->tile_h) most += load;
    if (t->wgt_slots == 1 && p->cell_groups * parts > 1) most += load;
    t->estimate = (uint64_t)(most + 0.02 * sum + first + LAUNCH_CYCLES);
}

typedef struct {
    const chip_problem *p;
    chip_tiling *list;
    uint32_t capacity, count;
    bool too_long; /* a tiling fits, but the commands of one of its sums don't fit a launch */
} candidates;

/* LOADs of windows that one accumulator half needs, about: each kernel position has its own, for every run of blocks,
 * padding before and after. */
static int64_t window_commands(const chip_problem *p, const chip_tiling *t) {
    int64_t parts = chip_tiling_parts(p, t), keyed = parts * p->terms,
            runs = 3 * ceil_div(p->blocks, min64(t->part_blocks, p->inner.count)) + parts;
    return runs * t->tile_h * (keyed > t->act_slots ? p->passes : p->terms);
}

/* Both ways of giving slots often end in the same. */
static bool known(const candidates *k, const chip_tiling *t) {
    for (uint32_t i = 0; i < k->count && k->list[i].estimate <= t->estimate; i++)
        if (!memcmp(&k->list[i], t, sizeof *t)) return true;
    return false;
}

static void consider(candidates *k, chip_tiling t) {
    for (int way = 0; way < 2; way++) {
        t.out_slots = 2;
        t.res_slots = k->p->has_res ? 2 : 0;
        derive(k->p, &t);
        bool ok = give_slots(k->p, &t, way == 0);
        if (!ok) {
            t.out_slots = 1;
            t.res_slots = k->p->has_res ? 1 : 0;
            ok = give_slots(k->p, &t, way == 0);
        }
        if (!ok || !chip_tiling_fit(k->p, &t)) continue;
        /* A band of several tiles pays only where its parts stay. */
        if (t.band_h > t.tile_h && set_parts(k->p, &t) * k->p->terms > t.act_slots) continue;
        /* What is summed in one accumulator half is one launch. */
        int64_t sums = chip_tiling_parts(k->p, &t) * k->p->passes * min64(t.store_groups, k->p->cell_groups);
        bool too_long = sums > (1 << CHIP_RING_LOG2) / 4 ||
                        (k->p->act == ACT_WINDOWS && window_commands(k->p, &t) > (1 << CHIP_RING_LOG2) * 3 / 4);
        k->too_long |= too_long;
        if (too_long) continue;
        estimate(k->p, &t);
        uint32_t at = k->count;
        if (known(k, &t)) continue;
        if (at == k->capacity) {
            if (k->list[at - 1].estimate <= t.estimate) continue;
            at--;
        } else {
            k->count++;
        }
        while (at > 0 && k->list[at - 1].estimate > t.estimate) {
            k->list[at] = k->list[at - 1];
            at--;
        }
        k->list[at] = t;
    }
}

static void consider_parts(candidates *k, chip_tiling t) {
    const chip_problem *p = k->p;
    int64_t blocks = max64(1, p->blocks), before = -1;
    for (int64_t cut = p->runs ? blocks : ceil_div(blocks, 255);; cut *= 2) {
        int64_t size = ceil_div(blocks, cut);
        if (size == before) break;
        before = size;
        t.part_blocks = (uint32_t)size;
        t.part_ky = p->grid_y < 255 ? p->grid_y : 255;
        t.part_kx = p->grid_x < 255 ? p->grid_x : 255;
        bool whole = t.part_ky == p->grid_y && t.part_kx == p->grid_x;
        uint32_t had = k->count;
        if (whole || size == 1) consider(k, t);
        if (size == 1 && k->count == had &&
            (p->grid_y > 1 || p->grid_x > 1)) { /* not even one block fits: cut the kernel too */
            t.part_ky = 1;
            consider(k, t);
            for (t.part_kx = (t.part_kx + 1) / 2; k->count == had && p->grid_x > 1; t.part_kx = (t.part_kx + 1) / 2) {
                consider(k, t);
                if (t.part_kx == 1) break;
            }
        }
    }
}

static void consider_groups(candidates *k, chip_tiling t) {
    const chip_problem *p = k->p;
    chip_unit out = chip_problem_unit(p, p->out_esize), res = chip_problem_unit(p, p->res_esize ? p->res_esize : 4);
    uint32_t unit = out.groups_per_unit > res.groups_per_unit ? out.groups_per_unit : res.groups_per_unit;
    uint32_t most = p->cell_groups > 16 ? 16 : p->cell_groups;
    for (uint32_t groups = unit;; groups *= 2) {
        t.store_groups = groups;
        if (groups < t.interleave && groups < most) continue;
        for (t.group_outer = 0; t.group_outer < 2; t.group_outer++) consider_parts(k, t);
        if (groups >= most) break;
    }
}

static void consider_tiles(candidates *k, chip_tiling t) {
    const chip_problem *p = k->p;
    for (t.interleave = 1; t.interleave <= 8 && (t.interleave == 1 || t.interleave < 2 * p->cell_groups);
         t.interleave *= 2) {
        int64_t most = p->config->acc_rows / t.interleave / t.tile_w;
        if (most < 1) break;
        int64_t least = ceil_div(p->out_h, min64(most, p->out_h)), before = -1;
        for (int64_t split = 0; split < 6; split++) {
            int64_t tiles = split == 0   ? least
                            : split == 1 ? least + 1
                                         : least << (split - 1),
                    h = ceil_div(p->out_h, tiles);
            if (h == before || (split > 1 && h * t.tile_w < p->config->cells && before > 0)) continue;
            before = h;
            t.tile_h = (uint32_t)h;
            int64_t count = ceil_div(p->out_h, h);
            t.band_h = t.tile_h;
            consider_groups(k, t);
            bool halo = p->act == ACT_PACKED || p->grid_y > 1;
            static const int64_t cuts[] = {1, 2, 3, 4, 6, 9, 14};
            int64_t last = 1;
            for (size_t i = 0; halo && i < sizeof cuts / sizeof *cuts; i++) { /* bands of equal numbers of tiles */
                int64_t per = ceil_div(count, cuts[i]);
                if (per == last || per == 1) break;
                last = per;
                t.band_h = (uint32_t)(per * h);
                consider_groups(k, t);
            }
        }
    }
}

int chip_tilings(const chip_problem *problem, chip_tiling *list, uint32_t capacity, uint32_t *count,
                 presil_error_buffer *error) {
    chip_problem lead;
    chip_problem_lead(problem, &lead);
    const chip_problem *p = &lead;
    candidates k = {p, list, capacity, 0, false};
    chip_tiling t = {0};
    if (p->param_words) {
        uint32_t per = 256 / p->param_words, sixteenth = chip_words(p->config) / 16 / p->param_words;
        if (per > sixteenth) per = sixteenth;
        t.param_groups = per < 1 ? 1 : per < p->cell_groups ? per : p->cell_groups;
        t.param_slots = t.param_groups < p->cell_groups ? 2 : 1;
    }
    for (int64_t cut = 1;; cut *= 2) {
        int64_t w = ceil_div(p->out_w, cut);
        t.tile_w = (uint32_t)w;
        if (w <= p->config->acc_rows) consider_tiles(&k, t);
        if (w == 1 || (k.count && (p->depthwise ? w <= 28 : cut > 1 || w <= 256))) break;
    }
    *count = k.count;
    if (!k.count && k.too_long)
        return chip_fail(error, PRESIL_EUNSUPPORTED,
                         "a sum over %lld elements needs more than the %u commands of a launch: sum parts of it",
                         (long long)(p->blocks * (int64_t)p->block * p->grid_y * p->grid_x), 1u << CHIP_RING_LOG2);
    if (!k.count)
        return chip_fail(error, PRESIL_EUNSUPPORTED, "no tile of this operator fits the scratchpad of %u words",
                         chip_words(p->config));
    return PRESIL_OK;
}
