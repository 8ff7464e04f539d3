/* SPDX-License-Identifier: Apache-2.0 */
/* twin.c - the twin's life and a launch: decode, queues, tokens, errors (docs/isa.md section 1). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "twin_host_float.h"
#include "presil_regs.h"
#include "twin_internal.h"

enum { ENGINES = 4 }; /* LOAD, MATRIX, EPILOGUE, STORE: opcode - 1 */
static const char *const engine_names[5] = {"LOAD", "MATRIX", "EPILOGUE", "STORE", "VECTOR"};

static void *zeroed(size_t bytes) {
    void *p = aligned_alloc(64, (bytes + 63) & ~(size_t)63);
    if (p) memset(p, 0, (bytes + 63) & ~(size_t)63);
    return p;
}

static int allocate_workspace(presil_twin *twin, unsigned threads) {
    size_t bytes = (twin_matrix_workspace(&twin->config) + 63) & ~(size_t)63;
    uint8_t *workspace = zeroed(bytes * threads);
    if (!workspace) return -1;
    free(twin->workspace);
    twin->workspace = workspace;
    twin->workspace_bytes = bytes;
    return 0;
}

presil_twin *presil_twin_create(const presil_config *config) {
    if (config->cells > TWIN_MAX_CELLS || config->lanes > TWIN_MAX_LANES || config->lanes > config->word_bytes)
        return NULL;
    presil_twin *twin = calloc(1, sizeof *twin);
    if (!twin) return NULL;
    twin->config = *config;
    twin->dims = (twin_dims){.lanes = config->lanes,
                             .cells = config->cells,
                             .cells_pad = (config->cells + 15u) & ~15u,
                             .word = config->word_bytes,
                             .words = config->banks * config->bank_words};
    twin->kernels = twin_kernels_best();
    twin->threads = 1;
    /* The kernels may read a vector from an activation row's start, so the last word needs room behind it. */
    twin->spad = zeroed((size_t)twin->dims.words * twin->dims.word + 64);
    for (int half = 0; half < 2; half++) twin->acc[half] = zeroed((size_t)config->acc_rows * twin->dims.cells_pad * 4);
    if (!twin->spad || !twin->acc[0] || !twin->acc[1] || allocate_workspace(twin, 1)) {
        presil_twin_destroy(twin);
        return NULL;
    }
    return twin;
}

void presil_twin_destroy(presil_twin *twin) {
    if (!twin) return;
    twin_pool_destroy(twin->pool);
    free(twin->spad);
    free(twin->acc[0]);
    free(twin->acc[1]);
    free(twin->workspace);
    free(twin);
}

void presil_twin_threads(presil_twin *twin, unsigned threads) {
    threads = threads < 1 ? 1 : threads > 64 ? 64 : threads;
    if (threads == twin->threads || allocate_workspace(twin, threads)) return;
    twin_pool_destroy(twin->pool);
    twin->pool = threads > 1 ? twin_pool_create(threads) : NULL;
    twin->threads = twin->pool ? threads : 1;
}

int presil_twin_simd(presil_twin *twin, const char *name) {
    const twin_kernels *kernels = name ? twin_kernels_named(name) : twin_kernels_best();
    if (!kernels) return -1;
    twin->kernels = kernels;
    return 0;
}

uint8_t *presil_twin_scratchpad(presil_twin *twin, size_t *bytes) {
    if (bytes) *bytes = (size_t)twin->dims.words * twin->dims.word;
    return twin->spad;
}

static int any_enabled(const presil_twin_windows *windows) {
    uint32_t enabled = 0;
    for (unsigned w = 0; w < PRESIL_TWIN_WINDOWS; w++) enabled |= windows->last[w] & PRESIL_WINDOW0_LAST_ENABLE_MASK;
    return enabled != 0;
}

void presil_twin_set_windows(presil_twin *twin, const presil_twin_windows *windows) {
    twin->windows = *windows;
    twin->guarded = any_enabled(windows);
}

int presil_twin_permits(const presil_twin_windows *windows, uint64_t address, int write) {
    const uint32_t page = (uint32_t)(address >> 12) & PRESIL_WINDOW0_FIRST_PAGE_MASK;
    const uint32_t wanted =
        PRESIL_WINDOW0_LAST_ENABLE_MASK | (write ? PRESIL_WINDOW0_LAST_WRITE_MASK : PRESIL_WINDOW0_LAST_READ_MASK);
    for (unsigned w = 0; w < PRESIL_TWIN_WINDOWS; w++) {
        if ((windows->last[w] & wanted) == wanted && page >= windows->first[w] &&
            page <= (windows->last[w] & PRESIL_WINDOW0_LAST_PAGE_MASK))
            return 1;
    }
    return !any_enabled(windows);
}

static void scramble(uint8_t *p, size_t bytes, uint64_t *state) {
    for (size_t i = 0; i + 8 <= bytes; i += 8) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        memcpy(p + i, state, 8);
    }
}

void presil_twin_scramble(presil_twin *twin, uint64_t seed) {
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) | 1;
    scramble(twin->spad, (size_t)twin->dims.words * twin->dims.word, &state);
    for (int half = 0; half < 2; half++)
        scramble((uint8_t *)twin->acc[half], (size_t)twin->config.acc_rows * twin->dims.cells_pad * 4, &state);
}

int twin_fail(twin_run *run, int code, uint32_t index, uint64_t address, const char *what) {
    presil_twin_error *e = run->error;
    e->code = code;
    e->index = index;
    e->address = address;
    snprintf(e->text, sizeof e->text, "descriptor %u: %s 0x%llx", (unsigned)index, what, (unsigned long long)address);
    return -1;
}

/* The launch in progress: descriptors decoded and not yet run, per engine, and the tokens. */
typedef struct {
    twin_run run;
    const presil_desc *list;
    size_t count, decoded;
    uint32_t queue[ENGINES][TWIN_QUEUE];
    unsigned held[ENGINES];
    unsigned tokens[TWIN_TOKENS];
} launch;

static const char *refusal(int code) {
    return code == PRESIL_ERROR_OPCODE    ? "unknown opcode, address"
           : code == PRESIL_ERROR_VERSION ? "wrong isa version, address"
                                          : "field out of range, address";
}

/* Decodes until a queue is full or the list is over. */
static int decode(launch *l) {
    for (; l->decoded < l->count; l->decoded++) {
        const presil_desc *d = &l->list[l->decoded];
        uint32_t opcode = presil_desc_opcode(d);
        int code = twin_check(&l->run.twin->config, d);
        if (code) return twin_fail(&l->run, code, (uint32_t)l->decoded, 0, refusal(code));
        if (opcode == PRESIL_OPCODE_NOP) continue;
        unsigned engine = opcode - 1u;
        if (l->held[engine] == TWIN_QUEUE) return 0;
        l->queue[engine][l->held[engine]++] = (uint32_t)l->decoded;
    }
    return 0;
}

/* The tokens that the engine's oldest descriptor waits for and that are not there. */
static uint32_t missing(const launch *l, unsigned engine) {
    uint32_t wait = presil_desc_wait(&l->list[l->queue[engine][0]]), out = 0;
    for (unsigned t = 0; t < TWIN_TOKENS; t++)
        if ((wait >> t & 1u) && !l->tokens[t]) out |= 1u << t;
    return out;
}

static int run_oldest(launch *l, unsigned engine) {
    static int (*const engines[ENGINES])(twin_run *, const presil_desc *, uint32_t) = {twin_load, twin_matrix,
                                                                                       twin_epilogue, twin_store};
    uint32_t index = l->queue[engine][0];
    const presil_desc *d = &l->list[index];
    for (unsigned t = 0; t < TWIN_TOKENS; t++) l->tokens[t] -= presil_desc_wait(d) >> t & 1u;
    /* The split of fp32 in LOAD needs subnormal remainders; MATRIX sets the mode in each of its threads. */
    unsigned mode = twin_float_enter(engine == PRESIL_OPCODE_EPILOGUE - 1);
    int failed = engines[engine](&l->run, d, index);
    twin_float_leave(mode);
    if (failed) return -1;
    for (unsigned s = 0; s < 4; s++)
        if ((presil_desc_signal(d) >> s & 1u) && ++l->tokens[4 * engine + s] > 255)
            return twin_fail(&l->run, PRESIL_ERROR_TOKEN_OVERFLOW, index, 0, "token count above 255, address");
    memmove(&l->queue[engine][0], &l->queue[engine][1], (TWIN_QUEUE - 1) * sizeof l->queue[engine][0]);
    l->held[engine]--;
    return 0;
}

/* Describes who waits for what; the queues hold something and nothing can run. */
static int deadlock(launch *l) {
    presil_twin_error *e = l->run.error;
    size_t used = 0;
    e->deadlock = 1;
    e->index = UINT32_MAX;
    for (unsigned engine = 0; engine < ENGINES; engine++) {
        if (!l->held[engine]) continue;
        uint32_t index = l->queue[engine][0], mask = missing(l, engine);
        if (index < e->index) {
            e->index = index;
            e->wait_mask = mask;
        }
        if (used < sizeof e->text)
            used += (size_t)snprintf(e->text + used, sizeof e->text - used, "%s%s descriptor %u waits for",
                                     used ? "; " : "deadlock: ", engine_names[engine], (unsigned)index);
        for (unsigned t = 0; t < TWIN_TOKENS && used < sizeof e->text; t++)
            if (mask >> t & 1u)
                used +=
                    (size_t)snprintf(e->text + used, sizeof e->text - used, " token %u (%s)", t, engine_names[t / 4]);
    }
    return -1;
}

int presil_twin_execute_at(presil_twin *twin, const presil_desc *list, size_t count, const presil_twin_shift *shift,
                           const presil_twin_memory *memory, presil_twin_write_fn on_write, void *context,
                           presil_twin_error *error) {
    /* Consumers first: like on the chip, where they run at once, tokens do not pile up. */
    static const unsigned order[ENGINES] = {PRESIL_OPCODE_STORE - 1, PRESIL_OPCODE_EPILOGUE - 1,
                                            PRESIL_OPCODE_MATRIX - 1, PRESIL_OPCODE_LOAD - 1};
    presil_twin_error local;
    launch l = {.run = {twin, memory, shift, on_write, context, error ? error : &local}, .list = list, .count = count};
    memset(l.run.error, 0, sizeof *l.run.error);
    for (;;) {
        if (decode(&l)) return -1;
        unsigned i = 0, waiting = 0;
        while (i < ENGINES && (!l.held[order[i]] || missing(&l, order[i]))) waiting += l.held[order[i++]] != 0;
        if (i < ENGINES) {
            if (run_oldest(&l, order[i])) return -1;
        } else {
            return waiting ? deadlock(&l) : 0;
        }
    }
}

int presil_twin_execute(presil_twin *twin, const presil_desc *list, size_t count, const presil_twin_memory *memory,
                        presil_twin_write_fn on_write, void *context, presil_twin_error *error) {
    return presil_twin_execute_at(twin, list, count, NULL, memory, on_write, context, error);
}
