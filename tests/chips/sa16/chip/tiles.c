/* SPDX-License-Identifier: Apache-2.0 */
/* A layer cut into operations that fit the local buffers: rows x columns of the output, and some of its channel blocks.
 * Every tiling gives the same bits; the one that should take the fewest cycles is chosen. */
#include <stdlib.h>
#include <string.h>
#include "sa16.h"

typedef struct {
    int64_t rows, columns, blocks; /* of the output, at most */
    int64_t cycles;                /* of the whole layer, about */
} tiling;

static bool by_block(const layer *l) { return (l->mode & MODE_KIND) != MODE_CONV || l->mode & MODE_DEPTHWISE; }
static int64_t kernel_words(const layer *l) { return l->in_blocks * l->window.kernel[0] * l->window.kernel[1] * WORD; }
/* Rows or columns (d) of the input that `count` of the output need. */
static int64_t reach(const layer *l, int d, int64_t count) {
    return presil_kit_least(l->in.shape[d + 1],
                            (count - 1) * l->window.stride[d] + (l->window.kernel[d] - 1) * l->window.dilation[d] + 1);
}

/* The most rows that fit, evenly; false: not one does. */
static bool fit(const layer *l, tiling *t) {
    const bool conv = (l->mode & MODE_KIND) == MODE_CONV;
    const int64_t in_blocks = by_block(l) ? t->blocks : l->in_blocks, out_rows = l->out.shape[1];
    if (conv && t->blocks * kernel_words(l) > WEIGHT_WORDS) return false;
    int64_t rows = presil_kit_least(out_rows, OUT_WORDS / (t->blocks * t->columns));
    while (rows > 0 && in_blocks * reach(l, 1, t->columns) * reach(l, 0, rows) > IN_WORDS) rows--;
    if (rows < 1) return false;
    t->rows = presil_kit_parts(out_rows, presil_kit_parts(out_rows, rows));
    const int64_t pixels = t->rows * t->columns;
    const int64_t compute = 70 + (conv ? t->blocks * presil_kit_parts(pixels, WORD) * kernel_words(l)
                                       : t->blocks * pixels * l->window.kernel[0] * l->window.kernel[1]);
    int64_t load = 300 + in_blocks * reach(l, 1, t->columns) * reach(l, 0, t->rows);
    load += conv ? 100 + t->blocks * (kernel_words(l) + PARAM_WORDS) : 0;
    if (l->mode & MODE_RESIDUAL) load += 150 + t->blocks * pixels;
    const int64_t store = 150 + t->blocks * pixels;
    const int64_t count = l->out.shape[0] * presil_kit_parts(out_rows, t->rows) *
                          presil_kit_parts(l->out.shape[2], t->columns) *
                          presil_kit_parts(blocks_of(l->out.shape[3]), t->blocks);
    t->cycles = load + store + count * presil_kit_most(compute, presil_kit_most(load, store));
    return true;
}

/* The best one; or the n-th that there is, for tests. */
static bool choose(const layer *l, tiling *best) {
    uint32_t found = 0;
    const int64_t blocks = presil_kit_least(MOST_BLOCKS, blocks_of(l->out.shape[3]));
    for (int64_t of = 1; of <= blocks; of = of < blocks ? presil_kit_least(2 * of, blocks) : blocks + 1) {
        for (int64_t cut = 1; cut <= 2 * l->out.shape[2]; cut *= 2) {
            tiling t = {.blocks = presil_kit_parts(blocks, of), .columns = presil_kit_parts(l->out.shape[2], cut)};
            if (!fit(l, &t)) continue;
            found++;
            if (l->tiling ? found == l->tiling : found == 1 || t.cycles < best->cycles) *best = t;
        }
    }
    return l->tiling ? found >= l->tiling : found > 0;
}

static void set_wide(uint32_t *at, uint64_t value) {
    at[0] = (uint32_t)value;
    at[1] = (uint32_t)(value >> 32);
}
static uint32_t pair(int64_t high, int64_t low) { return (uint32_t)high << 16 | ((uint32_t)low & 0xffff); }
static uint32_t four(int64_t a, int64_t b, int64_t c, int64_t d) {
    return ((uint32_t)a & 0xff) | ((uint32_t)b & 0xff) << 8 | ((uint32_t)c & 0xff) << 16 | ((uint32_t)d & 0xff) << 24;
}

/* rows x columns pixels of `channels` bytes; in the buffer a plane of them for each 16 channels. Pixels side by side in
 * memory are one run a row; else each is one. Of planes, each is a run, or rows of it. */
static void set_transfer(uint32_t *at, const presil_kit_view *v, uint64_t base, int64_t rows, int64_t columns,
                         int64_t channels) {
    const int64_t blocks = blocks_of(channels), tail = channels - WORD * (blocks - 1);
    const bool dense = v->stride[2] == channels;
    set_wide(at, base);
    if (v->blocked) {
        const bool whole = columns == v->shape[2]; /* rows follow each other */
        at[T_COUNT] = pair(whole ? 1 : rows, blocks);
        at[T_OUTER] = (uint32_t)v->block;
        at[T_INNER] = (uint32_t)v->stride[1];
        at[T_RUN] = pair(1, whole ? rows * columns : columns);
        at[T_TAIL] = WORD;
        at[T_LOCAL] = pair(columns, rows * columns);
        at[T_LOCAL2] = pair(0, 1);
        return;
    }
    at[T_COUNT] = dense ? pair(rows, 1) : pair(columns, rows);
    at[T_OUTER] = dense ? 0 : (uint32_t)v->stride[1];
    at[T_INNER] = (uint32_t)(dense ? v->stride[1] : v->stride[2]);
    at[T_RUN] = pair(blocks, dense ? columns : 1);
    at[T_TAIL] = (uint32_t)tail;
    at[T_LOCAL] = dense ? pair(columns, 0) : pair(1, columns);
    at[T_LOCAL2] = pair(rows * columns, 1);
}

static void make(const layer *l, const tiling *t, operation *op) {
    uint32_t *r = op->reg;
    const int64_t rows = presil_kit_least(t->rows, l->out.shape[1] - op->y),
                  columns = presil_kit_least(t->columns, l->out.shape[2] - op->x);
    const int64_t blocks = presil_kit_least(t->blocks, blocks_of(l->out.shape[3]) - op->block),
                  channel = (int64_t)op->block * WORD;
    const int64_t out_channels = presil_kit_least(blocks * WORD, l->out.shape[3] - channel);
    int64_t y0, y1, x0, x1;
    presil_kit_under(&l->window, &l->in, 0, op->y, rows, &y0, &y1);
    presil_kit_under(&l->window, &l->in, 1, op->x, columns, &x0, &x1);
    const int64_t in_first = by_block(l) ? channel : 0, in_channels = by_block(l) ? out_channels : l->in.shape[3];
    r[R_MODE] = l->mode;
    set_transfer(&r[R_IN], &l->in, presil_kit_at(&l->in, op->n, y0, x0, in_first), y1 - y0, x1 - x0, in_channels);
    set_transfer(&r[R_OUT], &l->out, presil_kit_at(&l->out, op->n, op->y, op->x, channel), rows, columns, out_channels);
    if (l->mode & MODE_RESIDUAL) set_wide(&r[R_RES], presil_kit_at(&l->res, op->n, op->y, op->x, channel));
    if ((l->mode & MODE_KIND) == MODE_CONV) {
        set_wide(&r[R_W], l->weights + (uint64_t)(op->block * kernel_words(l) * WORD));
        r[R_W_WORDS] = (uint32_t)(blocks * kernel_words(l));
    }
    if (!(l->mode & MODE_UNIFORM)) set_wide(&r[R_P], l->params + (uint64_t)op->block * PARAM_WORDS * WORD);
    r[R_TILE] = pair(y1 - y0, x1 - x0);
    r[R_PLANES] = pair(rows * columns, (y1 - y0) * (x1 - x0));
    r[R_KERNEL] = four(l->window.kernel[1], l->window.kernel[0], l->window.stride[1], l->window.stride[0]);
    r[R_DILATION] = four(l->window.dilation[1], l->window.dilation[0], 0, 0);
    r[R_ORIGIN] = pair(op->y * l->window.stride[0] - l->window.padding[0] - y0,
                       op->x * l->window.stride[1] - l->window.padding[1] - x0);
    r[R_OUT_SIZE] = pair(rows, columns);
    r[R_BLOCKS] = pair(blocks, (l->mode & MODE_KIND) == MODE_CONV ? l->in_blocks : 1);
    r[R_QUANT] = four(l->quant.zero_point, l->quant.low, l->quant.high, l->pad);
    r[R_RES_ZERO] = (uint32_t)l->quant.residual_zero & 0xff;
    r[R_RES_MULT] = (uint32_t)l->res_mult;
    r[R_MULTIPLIER] = (uint32_t)l->multiplier;
    r[R_SHIFT] = l->shift;
}

/* With a 1x1 kernel rows, then images become columns: more pixels for the array's rows. */
static layer joined(const layer *asked) {
    layer l = *asked;
    const presil_kit_window *w = &l.window;
    presil_kit_view *const views[] = {&l.in, &l.out, &l.res};
    const int count = l.mode & MODE_RESIDUAL ? 3 : 2;
    if (w->kernel[0] == 1 && w->kernel[1] == 1 && w->stride[0] == 1 && w->stride[1] == 1 && !w->padding[0] &&
        !w->padding[1] && l.in.shape[1] == l.out.shape[1] && l.in.shape[2] == l.out.shape[2] &&
        presil_kit_join(views, count, 1))
        (void)presil_kit_join(views, count, 0);
    return l;
}

int sa16_tile(const layer *asked, presil_plan *plan, presil_error_buffer *error) {
    const layer l = joined(asked);
    tiling t = {0};
    if (!choose(&l, &t))
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                               l.tiling
                                   ? "there is no such tiling"
                                   : "sa16 has sums of at most %d products, over windows that fit its input buffer",
                               WEIGHT_WORDS);
    if (!plan) return PRESIL_OK;
    plan->estimate = (uint64_t)t.cycles;
    for (int64_t n = 0; n < l.out.shape[0]; n++) {
        for (int64_t y = 0; y < l.out.shape[1]; y += t.rows) {
            for (int64_t x = 0; x < l.out.shape[2]; x += t.columns) {
                for (int64_t b = 0; b < blocks_of(l.out.shape[3]); b += t.blocks) {
                    operation *op = presil_kit_plan_command(plan);
                    if (!op) return presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
                    *op = (operation){.n = (uint32_t)n, .y = (uint32_t)y, .x = (uint32_t)x, .block = (uint32_t)b};
                    make(&l, &t, op);
                }
            }
        }
    }
    return PRESIL_OK;
}
