/* SPDX-License-Identifier: Apache-2.0 */
/* presil_clock.h - the host's monotonic clock, for core and transports. Needs _POSIX_C_SOURCE 200809L. */
#ifndef PRESIL_CLOCK_H
#define PRESIL_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline uint64_t presil_now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
