/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz.h - what the fuzzers share: a seed that is printed and replays, and a budget of processor time and host memory
 * for everything that reads what others wrote. PRESIL_FUZZ_SEED: the seed; PRESIL_FUZZ_CASES: how many.
 * A fuzzer is linked with FUZZ_WRAP (tests/c/fuzz.cmake), which lets fuzz.c count malloc, calloc, realloc and free.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sets and prints the seed; the number of cases, `otherwise` unless the environment says so. */
uint64_t fuzz_begin(const char *name, uint64_t otherwise);
uint32_t fuzz_random(void);
uint32_t fuzz_below(uint32_t n); /* 0 to n - 1 */

/* Bends 1 to 4 places of `bytes`: a bit, a byte, or 1, 2, 4 or 8 bytes of an interesting number. */
void fuzz_bend(uint8_t *at, uint64_t bytes);

/* Between the two: at most `seconds` of this thread's processor time and `bytes` more of host memory than before, at
 * any moment; else the test fails, and prints `what` and the seed. */
void fuzz_budget(const char *what, double seconds, uint64_t bytes);
void fuzz_within_budget(void);
/* Every 100,000 cases prints how many are done: a run that is cut off has a figure too. */
void fuzz_progress(uint64_t done);
/* The most that any budget since fuzz_begin() was used up: seconds and bytes, printed. */
void fuzz_end(void);

#ifdef __cplusplus
}
#endif
#endif
