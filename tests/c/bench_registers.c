/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_registers.c - reads of a register (ID, offset 0) a second, in turns of the simulator in this process and of the
 * one behind a socket, a DPI testbench.
 * usage: bench_registers LIBRARY SOCKET
 * Prints figures of `presil bench` as JSON: the best of several rounds, by the clock.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "client.h"

enum { ROUNDS = 10, READS = 2000, MEMORY = 1 << 20 };

typedef struct {
    const presil_transport_ops *ops;
    presil_transport *t;
    double best; /* seconds */
} place;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void fail(const char *what, const char *why) {
    fprintf(stderr, "bench_registers: %s: %s\n", what, why);
    exit(1);
}

static const presil_transport_ops *in_process(const char *library) {
    void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    presil_transport_entry_fn entry = NULL;
    if (!handle) fail(library, dlerror());
    *(void **)&entry = dlsym(handle, "presil_transport_entry");
    if (!entry) fail(library, dlerror());
    return entry();
}

static void open_place(place *p, const char *options) {
    char error[256] = "";
    const presil_transport_options own = {.size = sizeof own,
                                          .abi = PRESIL_TRANSPORT_ABI,
                                          .memory_fd = -1,
                                          .memory_bytes = MEMORY,
                                          .memory_base = {1ull << 32},
                                          .options = options};
    if (p->ops->open(&own, &p->t, error, sizeof error)) fail(options ? options : "open", error);
    if (p->ops->reset(p->t)) fail("reset", p->ops->last_error(p->t));
}

static void measure(place *p) {
    uint32_t value = 0;
    const double start = now();
    for (int i = 0; i < READS; i++)
        if (p->ops->read32(p->t, 0, &value)) fail("read32", p->ops->last_error(p->t));
    const double spent = now() - start;
    if (!p->best || spent < p->best) p->best = spent;
}

static double khz(const place *p) { return READS / p->best / 1e3; }

int main(int argc, char **argv) {
    if (argc != 3) fail("usage", "bench_registers LIBRARY SOCKET");
    place plain = {.ops = in_process(argv[1])}, dpi = {.ops = presil_socket_ops()};
    open_place(&plain, NULL);
    open_place(&dpi, argv[2]);
    for (int round = 0; round < ROUNDS; round++) {
        measure(&plain);
        measure(&dpi);
    }
    plain.ops->close(plain.t);
    dpi.ops->close(dpi.t);
    printf("{\"dpi_plain_registers_khz\": %f, \"dpi_registers_khz\": %f, \"dpi_registers_slowdown\": %f}\n",
           khz(&plain), khz(&dpi), khz(&plain) / khz(&dpi));
    return 0;
}
