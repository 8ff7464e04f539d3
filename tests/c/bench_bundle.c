/* SPDX-License-Identifier: Apache-2.0 */
/* What capture costs: 500 MB like activations into a bundle, by level and thread. usage: bench_bundle [DIRECTORY]
 * caller: processor time of the thread that has the launches; both: of the process; wall: until the file is closed. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "presil_bundle.h"

enum { LAUNCH_BYTES = 2000000, LAUNCHES = 250, BASE = 1 << 30 };

static double seconds(clockid_t clock) {
    struct timespec t;
    (void)clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static uint64_t state = 1;
static uint32_t next(void) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 32);
}

/* A sum of uniform numbers, as good as normal here; ReLU. */
static float activation(void) {
    float sum = -4.0f;
    for (int i = 0; i < 8; i++) sum += (float)(next() >> 8) / (float)(1 << 24);
    return sum < 0 ? 0 : sum;
}

static void fill(uint8_t *to, uint64_t bytes, const char *kind) {
    for (uint64_t i = 0; i + 4 <= bytes; i += 4) {
        const float v[4] = {activation(), activation(), activation(), activation()};
        uint32_t word;
        memcpy(&word, v, 4);
        if (!strcmp(kind, "bf16")) {
            uint32_t second;
            memcpy(&second, v + 1, 4);
            word = word >> 16 | (second & 0xffff0000u);
        } else if (!strcmp(kind, "int8")) {
            word = 0;
            for (int k = 0; k < 4; k++) word |= ((uint32_t)(v[k] * 40.0f) & 0x7fu) << (8 * k);
        } else if (!strcmp(kind, "random")) {
            word = next();
        }
        memcpy(to + i, &word, 4);
    }
}

static int fail(void) { return (void)fprintf(stderr, "%s\n", presil_bundle_error_text()), 1; }

static int measure(const char *path, uint8_t *data, const char *kind, int level, uint32_t foreground) {
    const presil_bundle_write_options options = {
        .size = sizeof options, .level = level, .foreground = foreground, .overwrite = 1};
    const presil_bundle_chip chip = {.size = sizeof chip, .chip = "bench"};
    presil_bundle_writer *w;
    uint64_t file = 0;
    if (presil_bundle_create(path, &options, &w) || presil_bundle_put_chip(w, &chip, NULL)) return fail();
    const double wall = seconds(CLOCK_MONOTONIC), both = seconds(CLOCK_PROCESS_CPUTIME_ID),
                 caller = seconds(CLOCK_THREAD_CPUTIME_ID);
    double stopped = 0;
    for (uint64_t i = 0; i < LAUNCHES; i++) {
        presil_bundle_group *g;
        presil_bundle_launch l = {.size = sizeof l, .launch = i};
        const presil_bundle_range range = {{BASE + 4096}, LAUNCH_BYTES};
        const presil_bundle_source source = {.host = data, .base = range.base};
        for (uint64_t at = 0; at < LAUNCH_BYTES; at += 4096) data[at] = (uint8_t)next(); /* nothing is stored twice */
        const double began = seconds(CLOCK_MONOTONIC);
        if (presil_bundle_begin(w, &g) || presil_bundle_put_memory(g, &source, &range, 1, &l.reads) ||
            presil_bundle_put_launch(g, &l) || presil_bundle_commit(g))
            return fail();
        stopped += seconds(CLOCK_MONOTONIC) - began;
    }
    const double mine = seconds(CLOCK_THREAD_CPUTIME_ID) - caller;
    if (presil_bundle_flush(w)) return fail();
    presil_bundle_written(w, &file, NULL);
    if (presil_bundle_close(w)) return fail();
    const double mb = (double)LAUNCHES * LAUNCH_BYTES / 1e6;
    (void)printf("%-8s %5d  %-6s %9.0f %9.0f %9.0f %9.0f %8.3f\n", kind, level, foreground ? "caller" : "worker",
                 mb / mine, mb / (seconds(CLOCK_PROCESS_CPUTIME_ID) - both), mb / stopped,
                 mb / (seconds(CLOCK_MONOTONIC) - wall), (double)file / 1e6 / mb);
    return 0;
}

int main(int argc, char **argv) {
    char path[512];
    (void)snprintf(path, sizeof path, "%s/presil-bench.presil", argc > 1 ? argv[1] : "/tmp");
    uint8_t *data = malloc(LAUNCH_BYTES);
    (void)puts("MB/s of:                 caller's   process's  caller's      whole     file /\n"
               "data     level  thread  cpu time   cpu time   waiting       wall   contents");
    static const char *const kinds[] = {"fp32", "bf16", "int8", "random"};
    static const int levels[] = {-1, 0, 1, 3};
    int status = 0;
    for (size_t k = 0; k < 4 && !status; k++) {
        fill(data, LAUNCH_BYTES, kinds[k]);
        for (size_t l = 0; l < sizeof levels / sizeof *levels && !status; l++) {
            for (uint32_t foreground = 0; foreground < 2 && !status; foreground++)
                status = measure(path, data, kinds[k], levels[l], foreground);
        }
    }
    free(data);
    (void)unlink(path);
    return status;
}
