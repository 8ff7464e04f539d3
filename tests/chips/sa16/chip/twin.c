/* SPDX-License-Identifier: Apache-2.0 */
/* What the chip does, without a clock: operations on memory, from their registers alone. */
#include "sa16.h"

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define MANY_CPUS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define MANY_CPUS
#endif

typedef struct {
    int8_t in[IN_WORDS][WORD], out[OUT_WORDS][WORD], residual[OUT_WORDS][WORD];
    const presil_executor_memory *memory;
    const uint32_t *reg;
} twin;

static uint64_t wide(const uint32_t *at) { return (uint64_t)at[1] << 32 | at[0]; }
static uint32_t low(uint32_t v) { return v & 0xffff; }
static uint32_t high(uint32_t v) { return v >> 16; }
static int32_t byte(uint32_t v, int n) { return (int8_t)(v >> 8 * n); }

/* NULL: not in memory. */
static uint8_t *at(const twin *t, uint64_t address, uint64_t bytes) {
    const presil_executor_memory *m = t->memory;
    if (address < m->base.value || bytes > m->bytes || address - m->base.value > m->bytes - bytes) return NULL;
    return m->host + (address - m->base.value);
}

/* Moves a transfer's words between memory and a buffer of `words`; false: it leaves one of them. */
static bool transfer(twin *t, const uint32_t *x, uint64_t base, int8_t (*buffer)[WORD], uint32_t words, bool store) {
    const uint32_t px = low(x[T_RUN]), nb = high(x[T_RUN]), tail = x[T_TAIL];
    const uint64_t run = (uint64_t)px * ((nb - 1) * WORD + tail);
    for (uint32_t o = 0; o < low(x[T_COUNT]); o++) {
        for (uint32_t i = 0; i < high(x[T_COUNT]); i++) {
            const int64_t step = (int64_t)o * (int32_t)x[T_OUTER] + (int64_t)i * (int32_t)x[T_INNER];
            const uint64_t address = base + (uint64_t)step;
            uint8_t *dram = at(t, address, run);
            if (!dram) return false;
            const uint32_t line = o * low(x[T_LOCAL]) + i * high(x[T_LOCAL]);
            uint8_t *byte_at = dram;
            for (uint32_t p = 0; p < px; p++) {
                for (uint32_t b = 0; b < nb; b++) {
                    const uint32_t bytes = b + 1 == nb ? tail : WORD;
                    const uint32_t word = line + p * low(x[T_LOCAL2]) + b * high(x[T_LOCAL2]);
                    if (word >= words) return false;
                    if (store) {
                        memcpy(byte_at, buffer[word], bytes);
                    } else {
                        memset(buffer[word], 0, WORD);
                        memcpy(buffer[word], byte_at, bytes);
                    }
                    byte_at += bytes;
                }
            }
            if (store && t->memory->on_write) t->memory->on_write(t->memory->context, (presil_daddr){address}, run);
        }
    }
    return true;
}

/* The word of the input under a window's tap; NULL: padding. */
static const int8_t *tap(const twin *t, int32_t y, int32_t x, uint32_t block) {
    const uint32_t *r = t->reg;
    const int32_t rows = (int32_t)high(r[R_TILE]), columns = (int32_t)low(r[R_TILE]);
    if (y < 0 || x < 0 || y >= rows || x >= columns) return NULL;
    return t->in[(block * low(r[R_PLANES]) + (uint32_t)(y * columns + x)) % IN_WORDS];
}

typedef struct {
    int32_t y, x; /* of a window */
} corner;

static corner corner_of(const uint32_t *r, uint32_t pixel) {
    const uint32_t columns = low(r[R_OUT_SIZE]);
    return (corner){(int16_t)high(r[R_ORIGIN]) + (int32_t)(pixel / columns * (r[R_KERNEL] >> 24)),
                    (int16_t)low(r[R_ORIGIN]) + (int32_t)(pixel % columns * (r[R_KERNEL] >> 16 & 0xff))};
}

/* sums += the products of 16 inputs with 16 x 16 weights. */
MANY_CPUS static void products(const int8_t *word, const int8_t *weights, int32_t *sums) {
    int32_t own[WORD];
    memcpy(own, sums, sizeof own);
    for (int c = 0; c < WORD; c++) {
        const int32_t a = word[c];
        for (int o = 0; o < WORD; o++) own[o] += a * weights[c * WORD + o];
    }
    memcpy(sums, own, sizeof own);
}

static void convolve(const twin *t, uint32_t block, uint32_t pixel, const int8_t *weights, int32_t *sums) {
    const uint32_t *r = t->reg;
    const corner from = corner_of(r, pixel);
    const bool depthwise = r[R_MODE] & MODE_DEPTHWISE;
    int8_t pad[WORD];
    memset(pad, byte(r[R_QUANT], 3), sizeof pad);
    const int32_t kh = (int32_t)(r[R_KERNEL] >> 8 & 0xff), kw = (int32_t)(r[R_KERNEL] & 0xff);
    const int32_t dy = (int32_t)(r[R_DILATION] >> 8 & 0xff), dx = (int32_t)(r[R_DILATION] & 0xff);
    for (uint32_t c = 0; c < low(r[R_BLOCKS]); c++) {
        for (int32_t ky = 0; ky < kh; ky++) {
            for (int32_t kx = 0; kx < kw; kx++, weights += WORD * WORD) {
                const int8_t *word = tap(t, from.y + ky * dy, from.x + kx * dx, depthwise ? block : c);
                products(word ? word : pad, weights, sums);
            }
        }
    }
}

static void pool(const twin *t, uint32_t block, uint32_t pixel, int32_t *sums) {
    const uint32_t *r = t->reg;
    const corner from = corner_of(r, pixel);
    const bool average = (r[R_MODE] & MODE_KIND) == MODE_AVERAGE;
    for (uint32_t k = 0; k < (r[R_KERNEL] >> 8 & 0xff) * (r[R_KERNEL] & 0xff); k++) {
        const uint32_t ky = k / (r[R_KERNEL] & 0xff), kx = k % (r[R_KERNEL] & 0xff);
        const int8_t *word = tap(t, from.y + (int32_t)(ky * (r[R_DILATION] >> 8 & 0xff)),
                                 from.x + (int32_t)(kx * (r[R_DILATION] & 0xff)), block);
        for (int c = 0; c < WORD; c++) {
            const int32_t v = word ? word[c] : byte(r[R_QUANT], 3);
            sums[c] = k == 0 ? v : average ? sums[c] + v : v > sums[c] ? v : sums[c];
        }
    }
}

/* params: 16 biases, 16 multipliers, 16 shifts; NULL: uniform. */
static void requantise(const twin *t, const int32_t *sums, const uint8_t *params, uint32_t place) {
    const uint32_t *r = t->reg;
    for (uint32_t c = 0; c < WORD; c++) {
        int32_t bias = 0, multiplier = (int32_t)r[R_MULTIPLIER];
        uint32_t shift = r[R_SHIFT] & 63;
        if (params) {
            memcpy(&bias, params + 4 * c, 4);
            memcpy(&multiplier, params + 4 * WORD + 4 * c, 4);
            shift = params[8 * WORD + c] & 63;
        }
        const int64_t product = (int64_t)(int32_t)((uint32_t)sums[c] + (uint32_t)bias) * multiplier;
        int64_t q = product >> shift;
        if (r[R_MODE] & MODE_RESIDUAL)
            q += ((int64_t)t->residual[place][c] - byte(r[R_RES_ZERO], 0)) * (int32_t)r[R_RES_MULT];
        q = ((q + 0x7fff + (q >> 16 & 1)) >> 16) + byte(r[R_QUANT], 0);
        if (q < byte(r[R_QUANT], 1)) q = byte(r[R_QUANT], 1);
        if (q > byte(r[R_QUANT], 2)) q = byte(r[R_QUANT], 2);
        ((twin *)t)->out[place][c] = (int8_t)q;
    }
}

static bool run(twin *t) {
    const uint32_t *r = t->reg;
    const bool conv = (r[R_MODE] & MODE_KIND) == MODE_CONV;
    const uint32_t blocks = high(r[R_BLOCKS]), pixels = low(r[R_OUT_SIZE]) * high(r[R_OUT_SIZE]);
    if (!transfer(t, &r[R_IN], wide(&r[R_IN]), t->in, IN_WORDS, false)) return false;
    if (r[R_MODE] & MODE_RESIDUAL && !transfer(t, &r[R_OUT], wide(&r[R_RES]), t->residual, OUT_WORDS, false))
        return false;
    const uint8_t *weights = conv ? at(t, wide(&r[R_W]), (uint64_t)r[R_W_WORDS] * WORD) : NULL;
    const bool uniform = r[R_MODE] & MODE_UNIFORM;
    const uint8_t *params = uniform ? NULL : at(t, wide(&r[R_P]), (uint64_t)blocks * PARAM_WORDS * WORD);
    if ((conv && !weights) || (!uniform && !params)) return false;
    const uint64_t taps = (uint64_t)low(r[R_BLOCKS]) * (r[R_KERNEL] >> 8 & 0xff) * (r[R_KERNEL] & 0xff) * WORD;
    if (!blocks || (conv && r[R_W_WORDS] < taps * blocks)) return false; /* stored commands may say anything */
    const uint64_t block_bytes = conv ? (uint64_t)r[R_W_WORDS] / blocks * WORD : 0;
    for (uint32_t b = 0; b < blocks; b++) {
        for (uint32_t p = 0; p < pixels; p++) {
            const uint32_t place = b * high(r[R_PLANES]) + p;
            int32_t sums[WORD] = {0};
            if (place >= OUT_WORDS) return false;
            if (conv)
                convolve(t, b, p, (const int8_t *)weights + b * block_bytes, sums);
            else
                pool(t, b, p, sums);
            requantise(t, sums, params ? params + b * PARAM_WORDS * WORD : NULL, place);
        }
    }
    return transfer(t, &r[R_OUT], wide(&r[R_OUT]), t->out, OUT_WORDS, true);
}

int sa16_execute(presil_chip *chip, const presil_plan *plan, const presil_executor_memory *memory,
                 presil_error_buffer *error) {
    (void)chip;
    twin *t = malloc(sizeof *t);
    if (!t) return presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for the twin");
    t->memory = memory;
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < plan->count && !status; i++) {
        t->reg = ((const operation *)presil_kit_command(plan, i))->reg;
        if (!run(t)) status = presil_kit_fail(error, PRESIL_EBUS, "operation %u leaves memory or a local buffer", i);
    }
    free(t);
    return status;
}
