/* SPDX-License-Identifier: Apache-2.0 */
/* The store as presil_jobs_timings: keys, the sample, and what a difference means. */
#define XXH_INLINE_ALL
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "timing_store.h"

enum { ASKED_MOST = 1 << 16 }; /* launches that failed stay in the list: it ends somewhere */
struct asked {
    uint8_t key[PRESIL_STORE_KEY_BYTES];
    presil_work work;
};
typedef struct {
    presil_store *store;
    uint64_t seed, found; /* found: launches so far */
    double sample;
    presil_store_warn_fn warn;
    void *warn_context;
    bool warned, estimate;
    pthread_mutex_t lock; /* of what the chip said of launches that run now */
    struct asked *asked;
    size_t asked_count, asked_room;
} known;

/* What goes wrong with the file costs time, and no result: it is told once. */
static void warn(known *k) {
    if (!k->warned && k->warn) k->warn(k->warn_context, presil_store_error());
    k->warned = true;
}

/* ---- keys */
static void add(void *context, const void *bytes, size_t count) {
    (void)XXH3_128bits_update((XXH3_state_t *)context, bytes, count);
}

/* The commands as they are, with whole addresses: what a memory with open rows sees. */
static bool add_commands(const presil_capture_launch *launch, XXH3_state_t *state) {
    uint64_t size = 0;
    void *image = launch->commands && launch->commands(launch, NULL, &size) == PRESIL_OK && size ? malloc(size) : NULL;
    const bool good = image && launch->commands(launch, image, &size) == PRESIL_OK;
    if (good) add(state, image, size);
    free(image);
    return good;
}

/* Lengths and order are fixed, so that no two lists of parts are the same bytes. */
static bool key_of(const char *timing, const presil_capture_launch *launch, uint8_t key[PRESIL_STORE_KEY_BYTES]) {
    const uint64_t numbers[] = {SCHEMA, strlen(timing), launch->signature, launch->segments};
    XXH3_state_t *state = XXH3_createState();
    if (!state || !launch->timing) {
        (void)XXH3_freeState(state);
        return false;
    }
    (void)XXH3_128bits_reset(state);
    add(state, numbers, sizeof numbers);
    add(state, timing, numbers[1]);
    const bool good = launch->timing(launch, add, state) == PRESIL_OK &&
                      (!strstr(timing, PRESIL_TIMING_ADDRESSES) || add_commands(launch, state));
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits_digest(state));
    memcpy(key, digest.digest, sizeof digest.digest);
    (void)XXH3_freeState(state);
    return good;
}

/* A function of the seed and of how many launches were found before. */
static bool is_sampled(known *k) {
    const uint64_t n = k->found++;
    return (double)(XXH3_64bits_withSeed(&n, sizeof n, k->seed) >> 11) * 0x1p-53 < k->sample;
}

/* ---- what is not known */
/* What was asked about a launch that runs; cycles 0: nothing. remove: nobody will ask again. */
static presil_work work_asked(known *k, const uint8_t *key, bool remove) {
    presil_work w = {.size = sizeof w};
    (void)pthread_mutex_lock(&k->lock);
    for (size_t i = k->asked_count; i-- > 0;) {
        if (memcmp(k->asked[i].key, key, PRESIL_STORE_KEY_BYTES) != 0) continue;
        w = k->asked[i].work;
        if (remove) k->asked[i] = k->asked[--k->asked_count];
        break;
    }
    (void)pthread_mutex_unlock(&k->lock);
    return w;
}

/* Without room it is forgotten: that launch is kept without its work. */
static void note_work(known *k, const uint8_t *key, const presil_work *work) {
    (void)pthread_mutex_lock(&k->lock);
    if (k->asked_count == ASKED_MOST) k->asked_count = 0;
    if (k->asked_count == k->asked_room) {
        const size_t room = k->asked_room ? 2 * k->asked_room : 64;
        struct asked *list = realloc(k->asked, room * sizeof *list);
        if (list) k->asked = list, k->asked_room = room;
    }
    if (k->asked_count < k->asked_room) {
        memcpy(k->asked[k->asked_count].key, key, PRESIL_STORE_KEY_BYTES);
        k->asked[k->asked_count++].work = *work;
    }
    (void)pthread_mutex_unlock(&k->lock);
}

/* Of the commands; rows that are `apart` are in no counter of bytes. A chip of before has no beats. */
static void add_usage(void *context, const presil_usage *usage) {
    presil_store_timing *to = context;
    if (usage->size >= sizeof *usage) to->read_beats = usage->read_beats, to->write_beats = usage->write_beats;
    for (uint32_t i = 0; i < usage->traffic_count; i++) {
        const presil_traffic *row = &usage->traffic[i];
        to->read_bytes += row->apart ? 0 : row->read_bytes;
        to->write_bytes += row->apart ? 0 : row->write_bytes;
    }
}

static void give_estimate(const presil_store_estimate *e, const presil_capture_launch *launch, presil_report *to) {
    presil_store_timing t = {.size = sizeof t, .segments = launch->segments, .cycles = e->cycles};
    const bool bytes = launch->usage && launch->usage(launch, add_usage, &t) == PRESIL_OK;
    if (e->has_stalls) memcpy(t.stalls, e->stalls, sizeof t.stalls);
    presil_store_give(&t, to);
    to->estimated = 1;
    to->estimated_too = (bytes ? PRESIL_ESTIMATED_BYTES : 0) | (e->has_stalls ? PRESIL_ESTIMATED_STALLS : 0) |
                        (t.read_beats + t.write_beats ? PRESIL_ESTIMATED_BEATS : 0);
    to->cycles_error = e->error;
    to->stalls_error = e->has_stalls ? e->stalls_error : 0;
}

static int unknown(known *k, const char *timing, const presil_capture_launch *launch, const uint8_t *key,
                   presil_report *report) {
    presil_work w = work_asked(k, key, false);
    presil_store_estimate e = {.size = sizeof e};
    int found = 0;
    if (w.cycles || !launch->work || launch->work(launch, timing, &w)) return PRESIL_JOBS_UNKNOWN; /* it runs now */
    if (k->estimate && presil_store_estimate_of(k->store, timing, &w, &e, &found)) warn(k);
    if (!found) {
        note_work(k, key, &w);
        return PRESIL_JOBS_UNKNOWN;
    }
    give_estimate(&e, launch, report);
    return PRESIL_JOBS_ESTIMATED;
}

static int find(void *context, const char *timing, const presil_capture_launch *launch, uint8_t key[PRESIL_JOBS_KEY],
                presil_report *report) {
    known *k = context;
    presil_store_timing t = {.size = sizeof t};
    int found = 0;
    if (!*timing || !key_of(timing, launch, key)) return PRESIL_JOBS_NEVER;
    if (presil_store_find(k->store, key, &t, &found)) {
        warn(k);
        found = 0;
    }
    if (!found) return unknown(k, timing, launch, key, report);
    presil_store_give(&t, report);
    return is_sampled(k) ? PRESIL_JOBS_SAMPLED : PRESIL_JOBS_KNOWN;
}

static void keep(void *context, const char *timing, const uint8_t key[PRESIL_JOBS_KEY], const presil_report *report) {
    known *k = context;
    presil_store_row row = {.size = sizeof row, .label = report->label, .identity = timing};
    memcpy(row.key, key, sizeof row.key);
    row.work = work_asked(k, key, true);
    presil_store_take(&row.timing, report);
    if (presil_store_put(k->store, &row)) warn(k);
}

/* ---- the sample */
static const char *other_than_cycles(const presil_store_timing *a, const presil_store_timing *b) {
    return memcmp(a->stalls, b->stalls, sizeof a->stalls)         ? "causes of stalls"
           : memcmp(a->counters, b->counters, sizeof a->counters) ? "counters"
                                                                  : "bytes, beats or commands";
}

static int check(void *context, const uint8_t key[PRESIL_JOBS_KEY], const presil_report *before,
                 const presil_report *now, char *text, size_t bytes) {
    known *k = context;
    presil_store_timing stored, rtl;
    (void)key;
    presil_store_take(&stored, before);
    presil_store_take(&rtl, now);
    if (memcmp(&stored, &rtl, sizeof rtl) == 0) return 1;
    char what[96];
    if (stored.cycles != rtl.cycles)
        (void)snprintf(what, sizeof what, "%llu cycles, the RTL now takes %llu", (unsigned long long)stored.cycles,
                       (unsigned long long)rtl.cycles);
    else
        (void)snprintf(what, sizeof what, "other %s than the RTL now has", other_than_cycles(&stored, &rtl));
    const int emptied = presil_store_clear(k->store, NULL);
    (void)snprintf(text, bytes,
                   "the timing store has %s: its cycles are not what the key says that they depend on (commands, RTL, "
                   "memory model), or the file was changed. Cycles of this run that came from the store can't be "
                   "relied on. %s%s",
                   what, emptied ? "The store could not be emptied: " : "The store was emptied: run again",
                   emptied ? presil_store_error() : "");
    return 0;
}

/* ---- the table */
int presil_store_timings(presil_store *store, const presil_store_use *use, presil_jobs_timings *out) {
    if (!store || !use || use->size < offsetof(presil_store_use, estimate) || !out ||
        !(use->sample >= 0 && use->sample <= 1))
        return store_fail(PRESIL_EINVAL, "presil_store_timings: a store, `use` with its size and a sample of 0 to 1, "
                                         "and `out` expected");
    known *k = calloc(1, sizeof *k);
    if (!k) return store_fail(PRESIL_EHOSTMEM, "no host memory");
    k->store = store;
    k->seed = use->sample_seed, k->sample = use->sample;
    k->warn = use->warn, k->warn_context = use->warn_context;
    k->estimate = use->size >= offsetof(presil_store_use, reserved1) && use->estimate;
    (void)pthread_mutex_init(&k->lock, NULL);
    *out = (presil_jobs_timings){.size = sizeof *out, .context = k, .find = find, .keep = keep, .check = check};
    return PRESIL_OK;
}

void presil_store_timings_free(presil_jobs_timings *timings) {
    if (!timings) return;
    known *k = timings->context;
    if (k) {
        (void)pthread_mutex_destroy(&k->lock);
        free(k->asked);
    }
    free(k);
    *timings = (presil_jobs_timings){0};
}
