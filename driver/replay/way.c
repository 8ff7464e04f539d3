/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of wrong data: a part of a launch leaves wrong bytes in several memories of the chip, which its driver names
 * ("scratchpad word 7, byte 3"). What comes before the first number of a name is the kind; of each kind the first byte
 * that is wrong counts, and the shortest part of the launch behind which it is.
 */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

enum { LINE = 64 }; /* bytes of memory of which one is given a name: a name costs more than a comparison */

/* ---- what the model wrote */
void probe_forget(replay *r) {
    free(r->model.at);
    free(r->model.bytes);
    r->model = (model_writes){0};
}

/* Without memory for it, there is the first difference alone. */
void probe_expected(replay *r, const presil_capture_bytes *writes) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < writes->count; i++) bytes += writes->at[i].bytes;
    probe_forget(r);
    if (!writes->host || !bytes) return;
    r->model = (model_writes){malloc(writes->count * sizeof *writes->at), writes->count, malloc(bytes)};
    if (!r->model.at || !r->model.bytes) {
        probe_forget(r);
        return;
    }
    memcpy(r->model.at, writes->at, writes->count * sizeof *writes->at);
    for (uint64_t i = 0, done = 0; i < writes->count; done += writes->at[i++].bytes)
        memcpy(r->model.bytes + done, writes->host + (writes->at[i].base.value - writes->base.value),
               writes->at[i].bytes);
}

/* ---- against what the chip wrote */
static void kind_of(const char *where, char *kind, size_t bytes) {
    (void)snprintf(kind, bytes, "%.*s", (int)strcspn(where, "0123456789[("), where);
    for (size_t n = strlen(kind); n && kind[n - 1] == ' '; n--) kind[n - 1] = 0;
}

static void add_place(const replay *r, const presil_capture_launch *launch, uint64_t address, uint8_t expected,
                      uint8_t found) {
    probed *p = r->probe;
    wrong_place place = {.address = address, .expected = expected, .found = found};
    describe_address(r, launch, address, place.where, sizeof place.where);
    kind_of(place.where, place.kind, sizeof place.kind);
    for (uint32_t i = 0; i < p->place_count; i++) {
        if (strcmp(p->places[i].kind, place.kind) == 0) return;
    }
    if (p->place_count < MOST_PLACES) p->places[p->place_count++] = place;
}

static void compare_line(const replay *r, const presil_capture_launch *launch, uint64_t address,
                         const uint8_t *expected, const uint8_t *found, uint64_t bytes) {
    if (memcmp(expected, found, bytes) == 0) return;
    uint64_t i = 0;
    while (expected[i] == found[i]) i++;
    add_place(r, launch, address + i, expected[i], found[i]);
}

void probe_places(replay *r, const presil_capture_launch *launch, const presil_capture_bytes *writes) {
    uint8_t line[LINE];
    const uint8_t *expected = r->model.bytes;
    for (uint64_t i = 0; i < r->model.count; i++) {
        const uint64_t base = r->model.at[i].base.value, bytes = r->model.at[i].bytes;
        for (uint64_t at = 0, n = 0; at < bytes; at += n, expected += n) {
            n = bytes - at < LINE ? bytes - at : LINE;
            const uint8_t *found = writes->host ? writes->host + (base + at - writes->base.value) : line;
            if (!writes->host && launch->read(launch, (presil_daddr){base + at}, line, n)) return;
            compare_line(r, launch, base + at, expected, found, n);
        }
    }
}

/* ---- the steps */
void way_note(way *w, const probed *p, uint64_t commands) {
    bool seen[MOST_PLACES] = {false};
    for (uint32_t i = 0; i < p->place_count; i++) {
        uint32_t k = 0;
        while (k < w->count && strcmp(w->steps[k].place.kind, p->places[i].kind) != 0) k++;
        if (k == MOST_PLACES) continue;
        if (k == w->count) w->steps[w->count++] = (way_step){.wrong = UINT64_MAX};
        seen[k] = true;
        if (commands >= w->steps[k].wrong) continue;
        w->steps[k].place = p->places[i];
        w->steps[k].wrong = commands;
    }
    for (uint32_t k = 0; k < w->count; k++) {
        way_step *s = &w->steps[k];
        if (!seen[k] && commands < s->wrong && commands > s->right) s->right = commands;
    }
}

static int by_command(const void *a, const void *b) {
    const way_step *left = a, *right = b;
    return (left->wrong > right->wrong) - (left->wrong < right->wrong);
}

void way_sort(way *w) { qsort(w->steps, w->count, sizeof *w->steps, by_command); }
