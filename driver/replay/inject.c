/* SPDX-License-Identifier: Apache-2.0 */
/* --inject: a launch three times: as recorded, with a fault, and again as if there had been none. */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

/* A cancelled launch is not a fault of the transport: it runs slowly until it is seen running. */
static const char cancel[] = "cancel", slowly[] = "slow=1000000";

static void on_progress(void *context, const char *label, uint64_t launch, uint64_t cycles) {
    (void)label, (void)launch, (void)cycles;
    presil_device_cancel(context);
}

/* splitmix64's finaliser. */
static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* The n-th byte of what the launch reads, from the memory's first one on. */
static uint64_t byte_read(const replay *r, uint64_t n) {
    const presil_bundle_memory *reads = r->record->reads;
    for (uint64_t i = 0; reads && i < reads->range_count; i++) {
        if (n < reads->ranges[i].bytes) return reads->ranges[i].base.value + n - r->info.memory_base.value;
        n -= reads->ranges[i].bytes;
    }
    return 0;
}

static uint64_t bytes_read(const replay *r) {
    uint64_t sum = 0;
    for (uint64_t i = 0; r->record->reads && i < r->record->reads->range_count; i++)
        sum += r->record->reads->ranges[i].bytes;
    return sum;
}

/* "read-slverr@?": the ? becomes a beat, a cycle or a bit of this launch, by the seed and the launch's place. */
static void draw(const replay *r, const replayed *before, const char *fault, char *to, size_t bytes) {
    const size_t length = strlen(fault);
    (void)snprintf(to, bytes, "%s", fault);
    if (length < 2 || strcmp(fault + length - 2, "@?") != 0 || length >= bytes) return;
    const uint64_t random = mix(mix(r->a->seed + 1) + before->place);
    const bool flips = strncmp(fault, "flip", 4) == 0;
    const uint64_t of = strncmp(fault, "read-", 5) == 0    ? before->read_beats
                        : strncmp(fault, "write-", 6) == 0 ? before->write_beats
                        : flips                            ? bytes_read(r)
                                                           : before->cycles;
    const uint64_t chosen = of ? random % of : 0;
    (void)snprintf(to + length - 1, bytes - length + 1, "%llu",
                   (unsigned long long)(flips ? 8 * byte_read(r, chosen) + (random >> 61) : chosen));
}

static int arm(const replay *r, const char *fault) {
    const bool cancels = fault && strcmp(fault, cancel) == 0;
    presil_set_progress(r->device, cancels ? on_progress : NULL, r->device);
    return presil_inject(r->device, cancels ? slowly : fault)
               ? replay_fail(EXIT_USAGE, "--inject %s: %s", fault ? fault : "", presil_error_text())
               : EXIT_PASS;
}

/* Whether one of the words that are separated by | is in the text; expected NULL: any will do. */
static bool is_among(const char *expected, const char *text) {
    if (!expected) return true;
    for (const char *word = expected;;) {
        const size_t length = strcspn(word, "|");
        for (const char *at = text; length && *at; at++) {
            if (strncmp(at, word, length) == 0) return true;
        }
        if (!word[length]) return false;
        word += length + 1;
    }
}

/* What the fault came to, in the words that --expect looks for. */
static void tell(const replayed *before, const replayed *hit, injection *out) {
    const bool same = hit->outcome == EXIT_PASS && hit->cycles == before->cycles;
    const char *what = hit->status                ? presil_status_name((presil_status)hit->status)
                       : hit->bits == BITS_DIFFER ? "other bits"
                       : same                     ? "masked"
                                                  : "other cycles";
    (void)snprintf(out->found, sizeof out->found, "%s", what);
    (void)snprintf(out->text, sizeof out->text, "%s", hit->status ? hit->error : hit->difference.where);
}

static bool is_exact(const replayed *before, const replayed *after) {
    return after->outcome == EXIT_PASS && after->cycles == before->cycles &&
           memcmp(after->stalls, before->stalls, sizeof after->stalls) == 0;
}

/* What a bit that was flipped in the chip has left may stay unnoticed: only a reset ends it. */
static int heal(replay *r, uint64_t place, const replayed *before, replayed *after, injection *out) {
    if (is_exact(before, after) || strncmp(out->what, "upset:", 6) != 0) return EXIT_PASS;
    if (presil_device_reset(r->device)) return replay_fail(EXIT_INTERNAL, "%s", presil_error_text());
    replayed *again = malloc(sizeof *again);
    if (!again) return replay_fail(EXIT_INTERNAL, "no host memory");
    const int status = replay_launch(r, place, again);
    out->healed = !status && is_exact(before, again);
    free(again);
    return status;
}

static int judge(const arguments *a, const replayed *before, replayed *after, injection *out) {
    char whole[sizeof out->found + sizeof out->text + 2];
    (void)snprintf(whole, sizeof whole, "%s: %s", out->found, out->text);
    out->as_expected = is_among(a->expect, whole);
    out->exact = is_exact(before, after);
    if (!out->exact && !out->healed)
        (void)snprintf(after->error, sizeof after->error,
                       "the launch behind the fault %s: %llu cycles instead of %llu, bits %s", out->what,
                       (unsigned long long)after->cycles, (unsigned long long)before->cycles,
                       after->bits == BITS_EQUAL ? "equal" : "other");
    else if (!out->as_expected)
        (void)snprintf(after->error, sizeof after->error, "the fault %s: expected %.200s, found %.1000s", out->what,
                       a->expect, whole);
    return (out->exact || out->healed) && out->as_expected ? EXIT_PASS : EXIT_MISMATCH;
}

/* In the place of arm(): here the launch's record is there. */
static int arm_drawn(const replay *r, const char *unused) {
    (void)unused;
    injection *i = &r->out->injected;
    draw(r, r->before, r->a->inject, i->what, sizeof i->what);
    return arm(r, i->what);
}

/* What the fault came to, and the launch behind it. */
static int look_behind(replay *r, uint64_t place, const replayed *hit, replayed *out, injection *found) {
    tell(r->before, hit, found);
    int status = arm(r, NULL);
    if (!status) status = replay_launch(r, place, out);
    if (status || r->timed_out) return status;
    status = heal(r, place, r->before, out, found);
    if (!status) out->outcome = judge(r->a, r->before, out, found);
    return status;
}

int replay_injected(replay *r, uint64_t place, replayed *out) {
    replayed *hit = malloc(sizeof *hit), *before = malloc(sizeof *before);
    injection found = {0};
    int status = hit && before ? EXIT_PASS : replay_fail(EXIT_INTERNAL, "no host memory");
    if (!status) status = replay_launch(r, place, before);
    if (!status && before->outcome) {
        *out = *before;
    } else if (!status) {
        r->before = before;
        status = replay_armed(r, place, hit, arm_drawn, NULL);
        found = hit->injected;
        if (!status && r->timed_out)
            *out = *hit; /* that is the limit's doing, whatever the fault's */
        else if (!status)
            status = look_behind(r, place, hit, out, &found);
        out->injected = found;
        r->before = NULL;
    }
    free(hit);
    free(before);
    return status;
}
