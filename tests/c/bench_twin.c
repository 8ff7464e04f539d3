/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_twin.c - speed of the twin on layer shapes of ResNet-50, base configuration, one thread.
 * usage: bench_twin [SIMD [SECONDS]]     (SIMD: generic, avx2, avx512; default the CPU's best. SECONDS of CPU time for
 * each figure, default 0.5) Prints one line for each shape and operand type: GMAC/s of useful multiplications (LOAD,
 * MATRIX, EPILOGUE, STORE of whole tiles).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "twin_lists.h"

/* One tile: h x h outputs of a kernel k x k over c channels; cell groups of `out` channels one after the other. */
typedef struct {
    const char *name;
    uint32_t h, k, c, out;
} shape;

static const shape shapes[] = {{"3x3x256->64 at 14x14", 14, 3, 256, 64},
                               {"1x1x64->256 at 32x32 (of 56x56)", 32, 1, 64, 256},
                               {"1x1x2048->64 at 7x7", 7, 1, 2048, 64}};

/* Of this process, so that other load counts little. */
static double now(void) { return (double)clock() / CLOCKS_PER_SEC; }

/* Descriptors of a tile: activations once, then for each cell group weights, matrix, epilogue, store. */
static size_t tile(const presil_config *c, const shape *s, int bf16, presil_desc *list) {
    uint32_t e = bf16 ? 2 : 1, blocks = s->c * e / c->lanes, groups = s->out / c->cells, rows = s->h * s->h,
             kernel = s->k * s->k;
    uint32_t act = s->h * s->h * blocks, weights = blocks * kernel * c->cells, out_slot = c->word_bytes;
    uint32_t act_base = 0, wgt_base = act, out_base = act + weights;
    size_t n = 0;
    list[n++] = contiguous_load(0, act, c->word_bytes, act_base, 0, 0);
    for (uint32_t g = 0; g < groups; g++) {
        list[n++] = contiguous_load((uint64_t)(act + g * weights) * c->word_bytes, weights, c->word_bytes,
                                    wgt_base * c->word_bytes, g ? TOKEN(MATRIX, 0) : 0, 1);
        list[n++] = square_matrix(bf16, s->h, s->k, blocks, act_base, wgt_base, TOKEN(LOAD, 0), 3);
        presil_desc p =
            plain_epilogue(rows, bf16, bf16 ? PRESIL_DTYPE_BF16 : PRESIL_DTYPE_INT8, out_base * c->word_bytes, out_slot,
                           TOKEN(MATRIX, 1) | (g ? TOKEN(STORE, 0) : 0), 1);
        presil_epilogue_bias_en_set(&p, 1);
        presil_epilogue_scale_en_set(&p, 1);
        list[n++] = p;
        list[n++] = row_store((act + groups * weights) * c->word_bytes + g * c->cells * e, rows, c->cells * e,
                              s->out * e, out_base * c->word_bytes, out_slot, TOKEN(EPILOGUE, 0), 1);
    }
    return n;
}

/* Roughly normal values: int8, or bf16 (half of them zero, as after ReLU). */
static void fill(uint8_t *to, size_t bytes, int bf16) {
    uint32_t state = 1;
    for (size_t i = 0; i < bytes; i += bf16 ? 2 : 1) {
        int32_t sum = 0;
        for (int k = 0; k < 4; k++) {
            state = state * 1664525u + 1013904223u;
            sum += (int32_t)(state >> 24) - 128;
        }
        if (bf16) {
            float f = (float)sum * 0.013f;
            uint32_t u;
            memcpy(&u, &f, 4);
            u = (state & 0x8000u) ? 0 : u >> 16;
            to[i] = (uint8_t)u;
            to[i + 1] = (uint8_t)(u >> 8);
        } else {
            to[i] = (uint8_t)(sum / 4);
        }
    }
}

int main(int argc, char **argv) {
    const presil_config *config = find_config("base");
    double seconds = argc > 2 ? atof(argv[2]) : 0.5;
    presil_twin_memory memory = {0, 16u << 20, malloc(16u << 20)};
    presil_twin *twin = presil_twin_create(config);
    presil_desc *list = malloc(64 * sizeof *list);
    if (!memory.host || !twin || !list) return 1;
    if (argc > 1 && presil_twin_simd(twin, argv[1])) {
        fprintf(stderr, "bench_twin: no %s here\n", argv[1]);
        return 1;
    }
    for (int bf16 = 0; bf16 < 2; bf16++) {
        fill(memory.host, memory.bytes, bf16);
        for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
            const shape *s = &shapes[i];
            size_t count = tile(config, s, bf16, list), runs = 0;
            double start = now(), spent = 0;
            while (spent < seconds) {
                presil_twin_error error;
                if (presil_twin_execute(twin, list, count, &memory, NULL, NULL, &error)) {
                    fprintf(stderr, "bench_twin: %s\n", error.text);
                    return 1;
                }
                runs++;
                spent = now() - start;
            }
            double macs = (double)runs * s->h * s->h * s->k * s->k * s->c * s->out;
            printf("%s %-32s %7.2f GMAC/s\n", bf16 ? "bf16" : "int8", s->name, macs / spent * 1e-9);
        }
    }
    presil_twin_destroy(twin);
    free(memory.host);
    free(list);
    return 0;
}
