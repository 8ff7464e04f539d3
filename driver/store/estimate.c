/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Estimates of launches that are not in the store: what the chip expects of them, times how far it was off at the
 * launches most like it. How far off that is, every launch says that is there: estimated from the others.
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
};
/* Logarithms. OTHER_KIND: as far away as if one amount were e^3 times as large. NEAR: no difference counts for less.
 * REACH: how far the expected cycles may be outside of all that are there. */
static const double OTHER_KIND = 3, NEAR = 0.1, REACH = 0.7;
static const double WORST_ERROR = 0.25; /* estimates that are further off are not given */

typedef struct {
    double axis[AXES], ratio; /* logarithms: of work; of cycles over those that the chip expected */
    uint64_t kind, cycles;
} sample;

struct store_samples {
    char *identity;
    size_t count;
    double low, high; /* of axis 0 */
    double median, error;
    sample list[];
};

static sample sample_of(const presil_work *w, uint64_t cycles) {
    sample s = {.kind = w->kind, .cycles = cycles};
    s.axis[0] = log((double)w->cycles);
    for (uint32_t i = 0; i < w->count && i < PRESIL_WORK_AMOUNTS; i++) s.axis[i + 1] = log1p((double)w->amounts[i]);
    s.ratio = cycles ? log((double)cycles) - s.axis[0] : 0;
    return s;
}

static double distance(const sample *a, const sample *b) {
    double sum = a->kind == b->kind ? 0 : OTHER_KIND * OTHER_KIND;
    for (size_t i = 0; i < AXES; i++) sum += (a->axis[i] - b->axis[i]) * (a->axis[i] - b->axis[i]);
    return sqrt(sum);
}

/* The cycles of `of`, from its nearest; but for list[but]. */
static double compose(const struct store_samples *s, const sample *of, size_t but, uint32_t *used) {
    double far[NEIGHBOURS], ratio[NEIGHBOURS], weights = 0, sum = 0;
    uint32_t count = 0;
    for (size_t i = 0; i < s->count; i++) {
        if (i == but) continue;
        const double d = distance(of, &s->list[i]);
        if (count == NEIGHBOURS && d >= far[count - 1]) continue;
        uint32_t at = count < NEIGHBOURS ? count++ : count - 1;
        for (; at && far[at - 1] > d; at--) far[at] = far[at - 1], ratio[at] = ratio[at - 1];
        far[at] = d;
        ratio[at] = s->list[i].ratio;
    }
    for (uint32_t i = 0; i < count; i++) {
        weights += 1 / (far[i] + NEAR);
        sum += ratio[i] / (far[i] + NEAR);
    }
    *used = count;
    return exp(of->axis[0] + (weights > 0 ? sum / weights : 0));
}

static int in_order(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void leave_out(struct store_samples *s) {
    double errors[TESTED];
    const size_t tested = s->count < TESTED ? s->count : TESTED;
    uint32_t used;
    for (size_t i = 0; i < tested; i++) {
        const size_t n = i * s->count / tested;
        errors[i] = fabs(compose(s, &s->list[n], n, &used) / (double)s->list[n].cycles - 1);
    }
    qsort(errors, tested, sizeof *errors, in_order);
    s->median = tested ? errors[tested / 2] : 0;
    s->error = tested ? errors[(size_t)ceil(0.95 * (double)tested) - 1] : 0;
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
    s->list[s->count++] = sample_of(&row->work, row->timing.cycles);
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
    out->median_error = s->median, out->error = s->error;
    if (can) out->cycles = (uint64_t)(compose(s, of, but, &out->neighbours) + 0.5);
    return can;
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
        const sample of = sample_of(work, 0);
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
        const sample of = sample_of(&row->work, row->timing.cycles);
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
