/* SPDX-License-Identifier: Apache-2.0 */
/* tile_fixture.h - operators through the chip's plans and the twin, beside plain loops. */
#ifndef TILE_FIXTURE_H
#define TILE_FIXTURE_H

#include <stdbool.h>
#include <stdint.h>
#include "asked.h"

#define FIXTURE_BASE 0x100000000u
#define FIXTURE_BYTES (64u << 20)

typedef struct {
    presil_chip *chip;
    uint8_t *memory; /* FIXTURE_BYTES from FIXTURE_BASE */
    uint64_t used;
    uint32_t seed;
    char text[512];
} fixture;

void fixture_open(fixture *f, const char *config, uint32_t seed);
void fixture_close(fixture *f);
uint64_t fixture_alloc(fixture *f, uint64_t bytes); /* device address; a guard of garbage lies between blocks */
void *fixture_host(fixture *f, uint64_t address);
uint32_t fixture_random(fixture *f, uint32_t below);
/* Of the random cases every so manyth runs: PRESIL_TILE_EVERY, by default 1. */
uint32_t fixture_every(void);
/* Random element of dtype; values small enough that sums stay exact in int8 and well scaled in bf16 and fp32. */
void fixture_fill(fixture *f, uint64_t address, uint64_t elements, uint32_t dtype);
double fixture_get(const void *at, uint32_t dtype);
/* In what two plans differ: commands, where they lie, ranges, operators; NULL: in nothing. */
const char *fixture_difference(const presil_plan *a, const presil_plan *b);
/* Checks the plan (tokens, hazards), runs it on the twin. true, or text says why. Frees the plan. */
bool fixture_run(fixture *f, presil_plan *plan);

typedef struct {
    const char *config;
    uint32_t compute, in_dtype, weight_dtype, out_dtype, res_dtype, groups, tiling;
    bool bias, scale, residual, clamp;
    int layout, out_layout; /* 0 NHWC, 1 NHWC with gaps, 2 NCHW, 3 anything */
    int view;               /* kernel: 0 packed; by view: 1 OIHW, 2 OHWI, 3 IOHW turned, 4 with gaps */
    int64_t n, h, w, c, o, k[2], stride[2], pad[2], dilation[2], input_dilation[2];
} conv_case;

/* Runs a convolution on the twin and compares every output element with plain loops; returns the number compared, or -1
 * with text. out_copy: NULL or where to copy the output bytes. */
int64_t fixture_conv(fixture *f, const conv_case *c, uint8_t *out_copy);

typedef struct {
    const char *config;
    uint32_t compute, a_dtype, b_dtype, out_dtype, tiling;
    bool loose; /* a and b with strides above 1 everywhere */
    bool transpose_a, transpose_b, transpose_out, residual, broadcast_residual, share_b;
    int64_t batch, m, n, k;
} matmul_case;

void fixture_tensor(fixture *f, presil_tensor *t, uint32_t dtype, uint32_t ndim, const int64_t *shape,
                    const int64_t *stride, bool fill);
const uint8_t *fixture_element(fixture *f, const presil_tensor *t, int64_t a, int64_t b, int64_t c, int64_t d);
void fixture_strides(int layout, int64_t h, int64_t w, int64_t c, int64_t stride[4]);
/* An operand's element as the chip sees it with this presil_compute. */
double fixture_seen(const void *at, uint32_t dtype, uint32_t compute);

int64_t fixture_matmul(fixture *f, const matmul_case *c, uint8_t *out_copy);

#endif
