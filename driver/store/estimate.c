/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates of launches that are not in the store: what the chip expects of them, times how far it was off at the
 * launches most like it; stalls: their shares of the cycles, and how far off these were there. How far off the estimate
 * is, every launch says that is there: estimated from the others.
 */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "timing_store.h"

enum {
    LEAST = 32,      /* launches of a simulator, for an estimate */
    NEIGHBOURS = 16, /* of one */
    MOST = 4096,     /* launches that are looked at: those used last */
    TESTED = 1024,   /* of which at most so many are left out, each once */
    AXES = 1 + PRESIL_WORK_AMOUNTS,
    STALLS = PRESIL_ENGINES * PRESIL_CAUSES,
};
/* Logarithms. OTHER_KIND: as far away as if one amount were e^3 times as large. NEAR: no difference counts for less.
 * REACH: how far the expected cycles may be outside of all that are there. */
static const double OTHER_KIND = 3, NEAR = 0.1, REACH = 0.7;
static const double WORST_ERROR = 0.25; /* estimates that are further off are not given */

typedef struct {
    double axis[AXES], ratio; /* logarithms: of work; of cycles over those that the chip expected */
    uint64_t kind, cycles;
    bool expects;                          /* the chip said anything of stalls */
    float share[STALLS], expected[STALLS]; /* of the cycles, by engine and cause */
} sample;

struct store_samples {
    char *identity;
    size_t count;
    double low, high; /* of axis 0 */
    double median, error, stalls_median, stalls_error;
    bool stalls; /* some launch has any: the chip counts them */
    sample list[];
};

static sample sample_of(const presil_work *w, const presil_store_timing *t) {
    const uint64_t cycles = t ? t->cycles : 0;
    sample s = {.kind = w->kind, .cycles = cycles};
    for (size_t i = 0; i < STALLS && cycles; i++)
        s.share[i] = (float)((double)t->stalls[i / PRESIL_CAUSES][i % PRESIL_CAUSES] / (double)cycles);
    s.axis[0] = log((double)w->cycles);
    for (uint32_t i = 0; i < w->count && i < PRESIL_WORK_AMOUNTS; i++) s.axis[i + 1] = log1p((double)w->amounts[i]);
    for (size_t i = 0; i < STALLS; i++)
        s.expected[i] = (float)((double)w->stalls[i / PRESIL_CAUSES][i % PRESIL_CAUSES] / (double)w->cycles);
    for (size_t i = 0; i < STALLS; i++) s.expects |= s.expected[i] > 0;
    s.ratio = cycles ? log((double)cycles) - s.axis[0] : 0;
    return s;
}

static double distance(const sample *a, const sample *b) {
    double sum = a->kind == b->kind ? 0 : OTHER_KIND * OTHER_KIND;
    for (size_t i = 0; i < AXES; i++) sum += (a->axis[i] - b->axis[i]) * (a->axis[i] - b->axis[i]);
    return sqrt(sum);
}

typedef struct {
    double cycles, share[STALLS];
    uint32_t used;
} composed;

/* What the chip was off there it is off here, too. */
static void add_shares(const sample *of, const sample *near, double weight, composed *out) {
    const bool both = of->expects && near->expects;
    for (size_t k = 0; k < STALLS; k++)
        out->share[k] += weight * (double)(near->share[k] + (both ? of->expected[k] - near->expected[k] : 0));
}

/* No cause takes less than nothing; those of an engine keep their sum. */
static void clip_shares(composed *c) {
    for (size_t e = 0; e < PRESIL_ENGINES; e++) {
        double *share = &c->share[e * PRESIL_CAUSES], sum = 0, kept = 0;
        for (size_t k = 0; k < PRESIL_CAUSES; k++) {
            sum += share[k];
            share[k] = fmax(share[k], 0);
            kept += share[k];
        }
        for (size_t k = 0; k < PRESIL_CAUSES && kept > 0; k++) share[k] *= fmax(sum, 0) / kept;
    }
}

/* `of`, from its nearest; but for list[but]. */
static void compose(const struct store_samples *s, const sample *of, size_t but, composed *out) {
    const sample *nearest[NEIGHBOURS];
    double far[NEIGHBOURS], weights = 0, sum = 0;
    uint32_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (i == but) continue;
        const double d = distance(of, &s->list[i]);
        if (count == NEIGHBOURS && d >= far[count - 1]) continue;
        uint32_t at = count < NEIGHBOURS ? count++ : count - 1;
        for (; at && far[at - 1] > d; at--) far[at] = far[at - 1], nearest[at] = nearest[at - 1];
        far[at] = d;
        nearest[at] = &s->list[i];
    }
    *out = (composed){.used = count};
    for (uint32_t i = 0; i < count; i++) weights += 1 / (far[i] + NEAR);
    for (uint32_t i = 0; i < count; i++) {
        const double weight = 1 / (far[i] + NEAR) / weights;
        sum += weight * nearest[i]->ratio;
        if (s->stalls) add_shares(of, nearest[i], weight, out);
    }
    clip_shares(out);
    out->cycles = exp(of->axis[0] + sum);
}

/* Whole cycles, of each engine all of them; what is left over is its longest cause's. */
static void share_out(const composed *c, uint64_t cycles, uint64_t stalls[PRESIL_ENGINES][PRESIL_CAUSES]) {
    for (size_t e = 0; e < PRESIL_ENGINES; e++) {
        const double *share = &c->share[e * PRESIL_CAUSES];
        uint64_t given = 0;
        double shares = 0;
        size_t most = 0;
        for (size_t k = 0; k < PRESIL_CAUSES; k++) shares += share[k];
        for (size_t k = 0; k < PRESIL_CAUSES && shares > 0; k++) {
            stalls[e][k] = (uint64_t)(share[k] / shares * (double)cycles);
            given += stalls[e][k];
            if (share[k] > share[most]) most = k;
        }
        if (shares > 0) stalls[e][most] += cycles - given;
    }
}

static int in_order(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void leave_out(struct store_samples *s) {
    double errors[TESTED], stalls[TESTED];
    const size_t tested = s->count < TESTED ? s->count : TESTED;
    const size_t most = tested ? (size_t)ceil(0.95 * (double)tested) - 1 : 0;
    composed c;
    for (size_t i = 0; i < tested; i++) {
        const sample *left = &s->list[i * s->count / tested];
        compose(s, left, (size_t)(left - s->list), &c);
        errors[i] = fabs(c.cycles / (double)left->cycles - 1);
        stalls[i] = 0;
        for (size_t k = 0; k < STALLS; k++) stalls[i] = fmax(stalls[i], fabs(c.share[k] - (double)left->share[k]));
    }
    qsort(errors, tested, sizeof *errors, in_order);
    qsort(stalls, tested, sizeof *stalls, in_order);
    s->median = tested ? errors[tested / 2] : 0;
    s->error = tested ? errors[most] : 0;
    s->stalls_median = tested ? stalls[tested / 2] : 0;
    s->stalls_error = tested ? stalls[most] : 0;
}

/* ---- what is there of a simulator */
typedef struct {
    struct store_samples *to;
    const char *identity;
} collecting;

static int collect(void *context, const presil_store_row *row, bool good) {
    const collecting *c = context;
    struct store_samples *s = c->to;
    if (!good || !row->work.cycles || !row->timing.cycles || strcmp(row->identity, c->identity) != 0) return 0;
    const sample *now = &s->list[s->count];
    s->list[s->count++] = sample_of(&row->work, &row->timing);
    for (size_t i = 0; i < STALLS; i++) s->stalls |= now->share[i] > 0;
    return s->count == MOST;
}

static int load(presil_store *store, const char *identity, struct store_samples **out) {
    struct store_samples *s = calloc(1, sizeof *s + MOST * sizeof *s->list);
    collecting c = {s, identity};
    if (!s || !(s->identity = strdup(identity))) {
        store_samples_free(s);
        return store_fail(PRESIL_EHOSTMEM, "no host memory");
    }
    const int status = store_walk(store, collect, &c);
    if (status) {
        store_samples_free(s);
        return status;
    }
    for (size_t i = 0; i < s->count; i++) {
        const double x = s->list[i].axis[0];
        s->low = i && s->low < x ? s->low : x;
        s->high = i && s->high > x ? s->high : x;
    }
    leave_out(s);
    *out = s;
    return PRESIL_OK;
}

void store_samples_free(struct store_samples *samples) {
    if (samples) free(samples->identity);
    free(samples);
}

/* Those of last time serve until an eighth more has come. */
static int get(presil_store *store, const char *identity, const struct store_samples **out) {
    struct store_samples *s = store->samples;
    const bool fresh = s && strcmp(s->identity, identity) == 0 && store->put_since <= s->count / 8;
    int status = PRESIL_OK;
    if (!fresh) {
        store->samples = NULL;
        store->put_since = 0;
        store_samples_free(s);
        status = load(store, identity, &store->samples);
    }
    *out = store->samples;
    return status;
}

static bool fill(const struct store_samples *s, const sample *of, size_t but, presil_store_estimate *out) {
    const bool can = s->count - (but < s->count) >= LEAST && of->axis[0] >= s->low - REACH &&
                     of->axis[0] <= s->high + REACH && s->error <= WORST_ERROR;
    composed c;
    out->median_error = s->median, out->error = s->error;
    out->has_stalls = s->stalls, out->stalls_median = s->stalls_median, out->stalls_error = s->stalls_error;
    if (!can) return false;
    compose(s, of, but, &c);
    out->neighbours = c.used;
    out->cycles = (uint64_t)(c.cycles + 0.5);
    share_out(&c, out->cycles, out->stalls);
    return true;
}

static void give(const presil_store_estimate *own, presil_store_estimate *out) {
    const uint32_t size = out->size < sizeof *own ? out->size : (uint32_t)sizeof *own;
    const uint32_t room = out->size;
    memcpy(out, own, size);
    out->size = room;
}

int presil_store_estimate_of(presil_store *store, const char *identity, const presil_work *work,
                             presil_store_estimate *out, int *found) {
    if (!store || !identity || !work || !out || !found || out->size < 2 * sizeof(uint32_t))
        return store_fail(PRESIL_EINVAL, "presil_store_estimate_of: a store, an identity, work, `out` with its size, "
                                         "and `found` expected");
    const struct store_samples *s = NULL;
    presil_store_estimate own = {.size = out->size};
    *found = 0;
    if (!work->cycles) return PRESIL_OK;
    (void)pthread_mutex_lock(&store->lock);
    const int status = get(store, identity, &s);
    if (!status) {
        const sample of = sample_of(work, NULL);
        *found = fill(s, &of, SIZE_MAX, &own);
    }
    (void)pthread_mutex_unlock(&store->lock);
    if (!status) give(&own, out);
    return status;
}

/* ---- all of them */
typedef struct {
    presil_store *store;
    int (*each)(void *, const presil_store_row *, const presil_store_estimate *);
    void *context;
    struct store_samples **of; /* each simulator's */
    size_t *place, count;      /* place: how many of its launches were told */
    int status;
} telling;

static bool add_simulator(telling *t, const char *identity) {
    struct store_samples **of = realloc(t->of, (t->count + 1) * sizeof *of);
    if (of) t->of = of;
    size_t *place = realloc(t->place, (t->count + 1) * sizeof *place);
    if (place) t->place = place;
    t->status = of && place ? load(t->store, identity, &of[t->count]) : store_fail(PRESIL_EHOSTMEM, "no host memory");
    if (!t->status) place[t->count++] = 0;
    return !t->status;
}

/* Rows come in the order in which their simulator's were collected. */
static int tell_one(void *context, const presil_store_row *row, bool good) {
    telling *t = context;
    presil_store_estimate e = {.size = sizeof e};
    size_t k = 0;
    if (!good) return 0;
    while (k < t->count && strcmp(t->of[k]->identity, row->identity) != 0) k++;
    if (k == t->count && !add_simulator(t, row->identity)) return 1;
    struct store_samples *s = t->of[k];
    if (row->work.cycles && row->timing.cycles) {
        const sample of = sample_of(&row->work, &row->timing);
        const size_t n = t->place[k]++;
        (void)fill(s, &of, n < s->count ? n : SIZE_MAX, &e);
    }
    return t->each(t->context, row, &e);
}

int presil_store_leave_one_out(presil_store *store,
                               int (*each)(void *context, const presil_store_row *row,
                                           const presil_store_estimate *estimate),
                               void *context) {
    if (!store || !each)
        return store_fail(PRESIL_EINVAL, "presil_store_leave_one_out: a store and a function expected");
    telling t = {.store = store, .each = each, .context = context};
    (void)pthread_mutex_lock(&store->lock);
    int status = store_flush_uses(store);
    if (!status) status = store_walk(store, tell_one, &t);
    (void)pthread_mutex_unlock(&store->lock);
    for (size_t i = 0; i < t.count; i++) store_samples_free(t.of[i]);
    free(t.of);
    free(t.place);
    return status ? status : t.status;
}
