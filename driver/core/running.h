/* SPDX-License-Identifier: Apache-2.0 */
/* running.h - what stays between launches; the runner's. */
#ifndef PRESIL_CORE_RUNNING_H
#define PRESIL_CORE_RUNNING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include "presil_chip.h"

typedef struct {
    uint64_t launches;
    atomic_ullong compared, differed, not_compared; /* in mode VERIFY; read by any thread */
    uint64_t clock;                                 /* of the chip, after the last launch */
    char *trace_path;
    uint64_t trace_first, trace_count;
    bool tracing, trace_window; /* window: these cycles of one launch */
    uint64_t trace_from, trace_to;
    presil_byte_range scratch; /* of the launch that runs; bytes 0: none */
} run_state;

#endif
