/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_twin.h - the C functional twin: executes the chip's descriptors (docs/isa.md) with the chip's bits
 * (docs/numerics.md), without a clock. A twin is one chip's scratchpad, accumulators and tokens; not thread-safe;
 * several twins may run at once.
 */
#ifndef PRESIL_TWIN_H
#define PRESIL_TWIN_H
#include <stddef.h>
#include <stdint.h>
#include "presil_config.h"
#include "presil_desc.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct presil_twin presil_twin;

/* The DRAM as the twin sees it: one window. An access outside it is error READ_BUS or WRITE_BUS, as on the chip. */
typedef struct {
    uint64_t base, bytes;
    uint8_t *host;
} presil_twin_memory;

/* Called for every contiguous range of DRAM bytes written, in order; may be NULL. index: position of the STORE in the
 * list. */
typedef void (*presil_twin_write_fn)(void *context, uint64_t address, uint64_t bytes, uint32_t index);

typedef struct {
    int code;         /* PRESIL_ERROR_* of presil_desc.h; 0: none */
    uint32_t index;   /* descriptor, from 0 in the list */
    uint64_t address; /* as ERROR_ADDR of the chip */
    int deadlock;     /* 1: engines wait for tokens nobody will give; index names the first waiting descriptor */
    uint32_t wait_mask;
    char text[160];
} presil_twin_error;

presil_twin *presil_twin_create(const presil_config *config); /* NULL: out of memory */
void presil_twin_destroy(presil_twin *twin);                  /* NULL is allowed */
void presil_twin_threads(presil_twin *twin,
                         unsigned threads); /* 1 (default) .. 64: threads used inside one descriptor; same bits */

/* Runs a list as one launch (tokens start at zero; scratchpad and accumulators are undefined). 0, or -1 with *error
 * filled. Engines run in an order that their tokens allow. */
int presil_twin_execute(presil_twin *twin, const presil_desc *list, size_t count, const presil_twin_memory *memory,
                        presil_twin_write_fn on_write, void *context, presil_twin_error *error);

/* The same list with its memory elsewhere: descriptor i, a LOAD or STORE, has `by[owner[i]]` added to its address. */
typedef struct {
    const uint8_t *owner; /* `count` of them */
    const uint64_t *by;
} presil_twin_shift;
int presil_twin_execute_at(presil_twin *twin, const presil_desc *list, size_t count,
                           const presil_twin_shift *shift /* NULL: none */, const presil_twin_memory *memory,
                           presil_twin_write_fn on_write, void *context, presil_twin_error *error);

/* The DMA windows of what is executed from now on (docs/isa.md section 1), as registers WINDOWn_FIRST and WINDOWn_LAST
 * hold them; at the start none. What a LOAD reads and a STORE writes outside of them is error WINDOW. */
enum { PRESIL_TWIN_WINDOWS = 4 };
typedef struct {
    uint32_t first[PRESIL_TWIN_WINDOWS], last[PRESIL_TWIN_WINDOWS];
} presil_twin_windows;
void presil_twin_set_windows(presil_twin *twin, const presil_twin_windows *windows);
/* Whether these permit a read, or a write, of the page that holds the address. */
int presil_twin_permits(const presil_twin_windows *windows, uint64_t address, int write);

/* Fills scratchpad and accumulators with pseudo-random bits of the seed: what is undefined at a launch's start must not
 * show in its results. */
void presil_twin_scramble(presil_twin *twin, uint64_t seed);

/* Chooses the inner loops: "generic", "avx2", "avx512", or NULL for the best that the CPU has (the default). Same bits.
 * -1: unknown, or not on this CPU. */
int presil_twin_simd(presil_twin *twin, const char *name);

/* For block tests: direct view of the state after execute. */
uint8_t *presil_twin_scratchpad(presil_twin *twin, size_t *bytes);
#ifdef __cplusplus
}
#endif
#endif
