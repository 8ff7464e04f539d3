/* SPDX-License-Identifier: Apache-2.0 */
/* Many elements to one (sum, mean, largest...), and to as many (softmax, normalisations). */
#include "job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- elements that belong together: the coordinates that agree in all dimensions that are not `within` */
typedef struct {
    uint32_t ndim;
    int64_t shape[PRESIL_OP_DIMS];
    bool within[PRESIL_OP_DIMS];
    int64_t each, sets;
} grouping;

static void measure(grouping *g) {
    g->each = g->sets = 1;
    for (uint32_t i = 0; i < g->ndim; i++) *(g->within[i] ? &g->each : &g->sets) *= g->shape[i];
}

/* The number of element `member` of set `set`: both number their dimensions in the order of rows. */
static int64_t member_of(const grouping *g, int64_t set, int64_t member) {
    int64_t at[PRESIL_OP_DIMS];
    for (uint32_t i = g->ndim; i-- > 0;) {
        int64_t *from = g->within[i] ? &member : &set;
        at[i] = *from % g->shape[i];
        *from /= g->shape[i];
    }
    return number_of(g->shape, g->ndim, at);
}

static grouping all_of(const presil_operand *t) {
    grouping g = {.ndim = t->ndim};
    memcpy(g.shape, t->shape, sizeof g.shape);
    return g;
}

static int64_t dimension(const job *j, int64_t dim, uint32_t ndim, int *status) {
    const int64_t found = dim < 0 ? dim + ndim : dim;
    if (found < 0 || found >= (ndim ? (int64_t)ndim : 1))
        *status = job_fail(j, PRESIL_EINVAL, "dimension %lld of %u", (long long)dim, ndim);
    return found;
}

static int same_shape(const job *j, const presil_operand *t) {
    int status = t->ndim == j->out->ndim ? PRESIL_OK
                                         : job_fail(j, PRESIL_EINVAL, "%s has %u dimensions, the output %u", t->name,
                                                    t->ndim, j->out->ndim);
    for (uint32_t i = 0; i < t->ndim && !status; i++) status = job_expect(j, j->out, i, t->shape[i]);
    return status;
}

/* ---- reductions */
static const char *const reductions[] = {"sum", "mean", "prod", "max", "min", "amax", "amin"};
enum { SUM, MEAN, PROD, MAX, MIN, AMAX, AMIN };

static int64_t reduce_integers(const elements *x, const grouping *g, int64_t set, int what) {
    uint64_t total = what == PROD;
    int64_t found = 0;
    for (int64_t i = 0; i < g->each; i++) {
        const int64_t v = x->integers[member_of(g, set, i)];
        total = what == PROD ? total * (uint64_t)v : total + (uint64_t)v;
        const bool larger = what == MAX || what == AMAX ? v > found : v < found;
        if (i == 0 || larger) found = v;
    }
    return what == SUM || what == PROD ? (int64_t)total : found;
}

static void reduce_reals(const job *j, const elements *x, const grouping *g, int64_t set, int what) {
    double total = 0, magnitude = 0, product = 1, found = NAN;
    for (int64_t i = 0; i < g->each; i++) {
        const double v = real_of(x, member_of(g, set, i));
        total += v, magnitude += fabs(v), product *= v;
        const bool larger = what == MAX || what == AMAX ? v > found : v < found;
        if (i == 0 || larger || isnan(v)) found = v;
        if ((what >= MAX) && isnan(v)) break;
    }
    const double n = (double)g->each, any_order = (n + 2) * HALF_ULP;
    const double exact = x->integers ? 0 : any_order;
    if (what == SUM) put_real(j, set, total, exact * magnitude);
    if (what == MEAN) put_real(j, set, total / n, exact * magnitude / n + quotient_rounding(total / n, n));
    if (what == PROD) put_real(j, set, product, any_order * fabs(product));
    if (what >= MAX) put_real(j, set, found, 0);
}

static int check_reduced(const job *j, const grouping *g) {
    int status = PRESIL_OK;
    uint32_t kept = 0;
    const bool keeps = j->out->ndim == g->ndim;
    for (uint32_t i = 0; i < g->ndim && !status; i++) {
        if (!g->within[i])
            status = job_expect(j, j->out, keeps ? i : kept++, g->shape[i]);
        else if (keeps)
            status = job_expect(j, j->out, i, 1);
    }
    if (!status && !keeps && j->out->ndim != kept)
        status =
            job_fail(j, PRESIL_EINVAL, "the output has %u dimensions, %u or %u expected", j->out->ndim, kept, g->ndim);
    return status;
}

int reference_reduction(job *j) {
    const char *name = job_function(j);
    int what = -1;
    for (int i = 0; i < (int)(sizeof reductions / sizeof *reductions); i++)
        what = strcmp(name, reductions[i]) == 0 ? i : what;
    if (what < 0) return job_fail(j, PRESIL_EUNSUPPORTED, "the reference knows no reduction \"%s\"", name);
    const elements *x;
    int status = job_input(j, "input", 0, &x);
    if (status) return status;
    grouping g = all_of(x->operand);
    const presil_attribute *dims = presil_op_attribute(j->op, "dims");
    int64_t list[PRESIL_OP_DIMS] = {0};
    job_integers(j, "dims", 0, list, PRESIL_OP_DIMS);
    for (uint32_t i = 0; i < g.ndim; i++) g.within[i] = !dims || dims->count == 0;
    for (uint32_t i = 0; dims && i < dims->count && i < PRESIL_OP_DIMS; i++) {
        const int64_t at = dimension(j, list[i], g.ndim, &status);
        if (status) return status;
        if (g.ndim) g.within[at] = true;
    }
    measure(&g);
    status = check_reduced(j, &g);
    if (!status && g.each == 0 && what >= MAX && g.sets) status = job_fail(j, PRESIL_EINVAL, "%s of no elements", name);
    const bool integers = x->integers && what != MEAN;
    if (!status) status = job_results(j, integers);
    for (int64_t set = 0; !status && set < g.sets; set++) {
        if (integers)
            j->result->integers[set] = reduce_integers(x, &g, set, what);
        else
            reduce_reals(j, x, &g, set, what);
    }
    if (!status) j->result->from_integers = x->integers != NULL;
    return status;
}

/* ---- softmax */
static void soften(const job *j, const elements *x, const grouping *g, int64_t set, bool logarithm) {
    double most = -INFINITY, total = 0;
    for (int64_t i = 0; i < g->each; i++) most = fmax(most, real_of(x, member_of(g, set, i)));
    for (int64_t i = 0; i < g->each; i++) total += exp(real_of(x, member_of(g, set, i)) - most);
    for (int64_t i = 0; i < g->each; i++) {
        const int64_t at = member_of(g, set, i);
        const double below = real_of(x, at) - most;
        const double value = logarithm ? below - log(total) : exp(below) / total;
        const double off = ((double)g->each + 8) * HALF_ULP;
        const double slack = logarithm ? off + 4 * HALF_ULP * (fabs(below) + fabs(log(total)))
                                       : (off + 4 * HALF_ULP * fabs(below)) * value;
        put_real(j, at, value, isfinite(slack) ? slack : 0);
    }
}

int reference_softmax(job *j) {
    const elements *x;
    int status = job_input(j, "input", 0, &x);
    if (status) return status;
    grouping g = all_of(x->operand);
    const int64_t dim = dimension(j, job_integer(j, "dim", -1), g.ndim, &status);
    const bool logarithm = job_integer(j, "log", 0) != 0;
    if (!status) status = same_shape(j, x->operand);
    if (!status) status = job_results(j, false);
    if (!status && g.ndim) g.within[dim] = true;
    measure(&g);
    for (int64_t set = 0; !status && set < g.sets; set++) soften(j, x, &g, set, logarithm);
    return status;
}

/* ---- normalisation */
typedef struct {
    const elements *x, *weight, *bias, *mean, *variance;
    double epsilon;
    bool centred;                    /* a mean is subtracted */
    int64_t own;                     /* weight, bias: the last dimensions, so many elements, in their order */
    bool own_statistics;             /* mean and variance are given, for each channel */
    presil_reference *means, *rstds; /* results; NULL: not wanted */
} norm;

static void normalise(const job *j, const norm *n, const grouping *g, int64_t set) {
    double mean = 0, variance = 0, magnitude = 0, square = 0;
    const double count = (double)g->each;
    for (int64_t i = 0; i < g->each; i++) {
        const double v = real_of(n->x, member_of(g, set, i));
        mean += v / count, magnitude += fabs(v) / count, square += v * v / count;
    }
    if (!n->centred) mean = 0;
    for (int64_t i = 0; i < g->each; i++) {
        const double off = real_of(n->x, member_of(g, set, i)) - mean;
        variance += off * off / count;
    }
    if (n->own_statistics) mean = real_of(n->mean, set), variance = real_of(n->variance, set), magnitude = fabs(mean);
    const double by = 1 / sqrt(variance + n->epsilon);
    const double spread = n->own_statistics ? variance : square;
    const double off_by = (count + 8) * HALF_ULP;
    if (n->means) put_real_to(n->means, set, mean, off_by * magnitude);
    if (n->rstds) put_real_to(n->rstds, set, by, off_by * (1 + square * by * by) * by);
    for (int64_t i = 0; i < g->each; i++) {
        const int64_t at = member_of(g, set, i);
        const double v = real_of(n->x, at), off = (v - mean) * by;
        const double weight = n->weight->operand ? real_of(n->weight, at % n->own) : 1;
        const double bias = n->bias->operand ? real_of(n->bias, at % n->own) : 0;
        /* Of the mean and the variance, each a sum of as many terms as the set has, in whatever way they are formed. */
        const double terms = n->own_statistics ? 8 : count + 8;
        const double slack =
            terms * HALF_ULP * fabs(weight) * ((fabs(v) + magnitude) * by + fabs(off) * (1 + spread * by * by)) +
            2 * HALF_ULP * fabs(bias);
        put_real(j, at, off * weight + bias, slack);
    }
}

/* Which elements share a mean: of "group", the channels are in two dimensions, the groups and each group's. */
static int set_of(job *j, norm *n, grouping *g, const char *name) {
    const uint32_t ndim = g->ndim;
    const int64_t channels = ndim ? g->shape[ndim - 1] : 1, groups = job_integer(j, "groups", 1);
    const bool batch = strcmp(name, "batch") == 0, group = strcmp(name, "group") == 0;
    n->own = channels;
    if (!ndim) return job_fail(j, PRESIL_EINVAL, "a normalisation of no dimensions");
    if (batch) {
        for (uint32_t i = 0; i + 1 < ndim; i++) g->within[i] = true;
    } else if (group) {
        if (ndim == PRESIL_OP_DIMS || groups < 1 || channels % groups)
            return job_fail(j, PRESIL_EINVAL, "%lld groups of %lld channels", (long long)groups, (long long)channels);
        for (uint32_t i = 1; i <= ndim; i++) g->within[i] = i != ndim - 1;
        g->shape[ndim - 1] = groups;
        g->shape[ndim] = channels / groups;
        g->ndim++;
    } else { /* layer, rms: over as many of the last dimensions as weight has */
        const uint32_t last = n->weight->operand ? n->weight->operand->ndim : 1;
        for (uint32_t i = 0; i < last && i < ndim; i++) g->within[ndim - 1 - i] = true;
        n->own = element_count(&g->shape[ndim - (last < ndim ? last : ndim)], last < ndim ? last : ndim);
    }
    return PRESIL_OK;
}

static int check_norm(const job *j, const norm *n, const grouping *g) {
    const elements *const parts[] = {n->weight, n->bias, n->mean, n->variance};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        const int64_t wanted = i < 2 ? n->own : g->sets;
        if (parts[i]->operand && parts[i]->count != wanted)
            return job_fail(j, PRESIL_EINVAL, "%s has %lld elements, %lld expected", parts[i]->operand->name,
                            (long long)parts[i]->count, (long long)wanted);
    }
    return PRESIL_OK;
}

/* Of a norm that goes over whole dimensions. */
static int statistics(job *j, const grouping *g, const char *name, presil_reference **out) {
    int status = job_results_of(j, name, false, out);
    if (status || !*out) return status;
    const presil_operand *t = &(*out)->output;
    if (t->ndim != g->ndim) return job_fail(j, PRESIL_EINVAL, "%s: %u dimensions, %u expected", name, t->ndim, g->ndim);
    for (uint32_t i = 0; i < g->ndim && !status; i++) status = job_expect(j, t, i, g->within[i] ? 1 : g->shape[i]);
    return status;
}

int reference_norm(job *j) {
    const char *name = job_function(j);
    const bool batch = strcmp(name, "batch") == 0;
    const bool known = batch || strcmp(name, "layer") == 0 || strcmp(name, "group") == 0;
    norm n = {.centred = strcmp(name, "rms") != 0};
    if (!known && n.centred) return job_fail(j, PRESIL_EUNSUPPORTED, "the reference knows no norm \"%s\"", name);
    static const elements none;
    n.mean = n.variance = &none;
    int status = job_input(j, "input", 0, &n.x);
    if (!status) status = job_optional(j, "weight", &n.weight);
    if (!status) status = job_optional(j, "bias", &n.bias);
    if (!status && batch) status = job_optional(j, "mean", &n.mean);
    if (!status && batch) status = job_optional(j, "variance", &n.variance);
    if (status) return status;
    n.epsilon = job_real(j, "epsilon", 1e-5);
    n.own_statistics = n.mean->operand && n.variance->operand;
    grouping g = all_of(n.x->operand);
    status = same_shape(j, n.x->operand);
    if (!status) status = set_of(j, &n, &g, name);
    measure(&g);
    if (!status) status = check_norm(j, &n, &g);
    if (!status) status = job_results(j, false);
    const bool layer = strcmp(name, "layer") == 0;
    if (!status && layer) status = statistics(j, &g, "mean", &n.means);
    if (!status && (layer || !n.centred)) status = statistics(j, &g, "rstd", &n.rstds);
    for (int64_t set = 0; !status && g.each && set < g.sets; set++) normalise(j, &n, &g, set);
    return status;
}
