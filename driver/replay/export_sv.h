/* SPDX-License-Identifier: Apache-2.0 */
/* export_sv.h - the texts of an exported testbench (testbench.c), and what is filled in. */
#ifndef PRESIL_REPLAY_EXPORT_SV_H
#define PRESIL_REPLAY_EXPORT_SV_H

#include "replay.h"

typedef struct {
    uint32_t word; /* bytes of the bus */
    uint64_t pages, registers, limit, recorded;
    const char *top;
    char label[128], file[256];
} bench_values;

void print_bench(FILE *f, const bench_values *v);
void print_makefile(FILE *f);

#endif
