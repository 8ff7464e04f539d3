/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_launch.c - what a launch costs its caller: CPU time of the calling thread for one enqueue on the twin, planning
 * included, µs.
 * usage: bench_launch [CONFIG [ROUNDS]]      (default base; its library is looked for as always; 200)
 * Prints a line for each operator: its name, µs of the first launch (the planner at work), µs of a warm one: the best
 * of several rounds.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "presil.h"

enum { BATCH = 16 };

static int rounds = 200; /* of the long one a twentieth */

typedef struct {
    const char *name;
    int64_t m, n, k; /* of a bf16 product; 0: an empty launch */
} work;

static const work works[] = {{"nop", 0, 0, 0}, {"matmul16", 16, 16, 16}, {"gemv4096", 1, 4096, 4096}};

static void check(int status, const char *what) {
    if (!status) return;
    fprintf(stderr, "bench_launch: %s: %s\n", what, presil_error_text());
    exit(1);
}

static double now_us(void) { /* of this thread, so that other load counts little */
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static presil_tensor matrix(presil_device *device, int64_t rows, int64_t columns) {
    presil_tensor t = {
        .dtype = PRESIL_BF16, .ndim = 3, .shape = {1, rows, columns}, .stride = {rows * columns, columns, 1}};
    check(presil_alloc(device, NULL, NULL, (uint64_t)(rows * columns) * 2, &t.data), "presil_alloc");
    return t;
}

static double enqueue(presil_device *device, const presil_matmul_desc *desc, int count) {
    const double start = now_us();
    for (int i = 0; i < count; i++)
        check(desc ? presil_matmul(device, NULL, desc) : presil_nop(device, NULL), "enqueue");
    const double spent = now_us() - start;
    check(presil_device_synchronize(device), "presil_device_synchronize");
    return spent / count;
}

static void measure(presil_device *device, const work *w) {
    presil_matmul_desc desc = {.size = sizeof desc, .compute = PRESIL_COMPUTE_BF16};
    if (w->m) {
        desc.a = matrix(device, w->m, w->k);
        desc.b = matrix(device, w->k, w->n);
        desc.out = matrix(device, w->m, w->n);
    }
    const presil_matmul_desc *given = w->m ? &desc : NULL;
    const double first = enqueue(device, given, 1);
    double best = 1e30;
    for (int i = 0; i < (w->k > 1000 ? (rounds + 19) / 20 : rounds); i++) {
        const double t = enqueue(device, given, BATCH);
        if (t < best) best = t;
    }
    printf("%s %.2f %.2f\n", w->name, first, best);
    if (!w->m) return;
    check(presil_free(device, desc.a.data), "presil_free");
    check(presil_free(device, desc.b.data), "presil_free");
    check(presil_free(device, desc.out.data), "presil_free");
}

int main(int argc, char **argv) {
    presil_device *device;
    if (argc > 2) rounds = atoi(argv[2]);
    const presil_device_options options = {.size = sizeof options,
                                           .mode = PRESIL_MODE_MODEL,
                                           .config = argc > 1 ? argv[1] : "base",
                                           .memory_bytes = 256u << 20};
    check(presil_device_open(&options, &device), "presil_device_open");
    check(presil_device_start(device), "presil_device_start");
    for (size_t i = 0; i < sizeof works / sizeof *works; i++) measure(device, &works[i]);
    presil_device_close(device);
    return 0;
}
