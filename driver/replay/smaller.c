/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A smaller shape that fails in the same way. The chip is asked again for the operator that the launch was, of smaller
 * sizes: one size after the other is brought down as far as the failure stays, by halves, until no size gets smaller.
 * Operands are corners of those that were captured, where they were. What the chip had packed in an order of its own is
 * packed again, from the captured bytes as they follow each other (all of them values that were there).
 */
#include "minimize.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "operator.h"
#include "presil_debug.h"

enum { MOST_ROOMS = PRESIL_OP_INPUTS + PRESIL_OP_OUTPUTS + 1 }; /* 1: over what was captured */

struct shape_search {
    reduction *m;
    asked_op asked, trial;
    op_size sizes[MOST_SIZES], best[MOST_SIZES];
    uint32_t count;
    presil_daddr rooms[MOST_ROOMS];
    uint32_t room_count;
    presil_weights *weights;
    presil_list *list;
    kept_reads reads; /* of the last run */
    char unit[64];
    bool planned; /* the last one that was tried */
};
typedef shape_search search;

/* ---- what the launch may reach */
static uint64_t elements_of(const presil_operand *t) {
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (__builtin_mul_overflow(n, (uint64_t)t->shape[i], &n)) return UINT64_MAX;
    }
    return n;
}

/* A file may say anything. Operands of as many elements as the launch has bytes (some are read several times by strides
 * of 0), and so much to compute as fits them: planning and running stay in proportion to the file. */
static bool in_proportion(const reduction *m, const asked_op *o) {
    const presil_bundle_launch *l = m->r->record;
    const double bytes =
        4096.0 + (double)(l->reads ? l->reads->bytes : 0) + (double)(l->expected ? l->expected->bytes : 0);
    double product = 1;
    for (uint32_t i = 0; i < o->op.input_count + o->op.output_count; i++) {
        const presil_operand *t = i < o->op.input_count ? &o->inputs[i] : &o->outputs[i - o->op.input_count];
        const double n = (double)elements_of(t);
        if (n > 16 * bytes) return false;
        if (i < 2 || i >= o->op.input_count) product *= n;
    }
    return o->op.kind == PRESIL_OP_NOP || product <= 4096 * bytes * bytes * bytes;
}

/* The end of the highest operand, from the device's memory on; 0: one lies elsewhere. */
static uint64_t highest(const search *s) {
    const presil_bundle_memory *lists[] = {s->m->r->record->reads, s->m->r->record->expected};
    const uint64_t base = s->m->r->info.memory_base.value;
    uint64_t high = base;
    for (int i = 0; i < 2; i++) {
        if (!lists[i] || !lists[i]->range_count) continue;
        const presil_bundle_range *last = &lists[i]->ranges[lists[i]->range_count - 1];
        if (last->base.value + last->bytes > high) high = last->base.value + last->bytes;
    }
    return high - base;
}

/* ---- packed operands */
/* What was captured from there on, as far as it goes on without a gap. */
static uint64_t captured_from(const replay *r, presil_daddr at) {
    const presil_bundle_memory *m = r->record->reads;
    uint64_t end = at.value;
    for (uint64_t i = 0; m && i < m->range_count; i++) {
        const uint64_t base = m->ranges[i].base.value;
        if (base <= end && base + m->ranges[i].bytes > end) end = base + m->ranges[i].bytes;
    }
    return end - at.value;
}

/* The bits of no finite number of a usual size would hide every other fault: such an element becomes 1. */
static void make_usual(uint8_t *bytes, uint64_t count, uint32_t dtype) {
    enum { LARGE = 127 + 20 };
    for (uint64_t i = 0; dtype == PRESIL_BF16 && i + 2 <= count; i += 2) {
        uint16_t x;
        memcpy(&x, bytes + i, 2);
        if ((x >> 7 & 0xff) > LARGE) memcpy(bytes + i, &(uint16_t){0x3f80}, 2);
    }
    for (uint64_t i = 0; dtype == PRESIL_FP16 && i + 2 <= count; i += 2) {
        uint16_t x;
        memcpy(&x, bytes + i, 2);
        if ((x & 0x7c00) == 0x7c00) memcpy(bytes + i, &(uint16_t){0x3c00}, 2);
    }
    for (uint64_t i = 0; dtype == PRESIL_FP32 && i + 4 <= count; i += 4) {
        uint32_t x;
        memcpy(&x, bytes + i, 4);
        if ((x >> 23 & 0xff) > LARGE) memcpy(bytes + i, &(uint32_t){0x3f800000}, 4);
    }
}

/* As many bytes as the operand has, without gaps; from the beginning again where fewer were captured. The captured
 * memory is in place. NULL: no host memory, or nothing was captured. */
static uint8_t *values_of(const search *s, const presil_operand *t, presil_daddr captured) {
    const uint64_t bytes = elements_of(t) * presil_dtype_bits(t->dtype) / 8 + 4,
                   known = captured_from(s->m->r, captured);
    const uint8_t *from = known ? presil_host_pointer(s->m->r->device, captured, known) : NULL;
    uint8_t *to = from ? malloc(bytes) : NULL;
    for (uint64_t i = 0; to && i < bytes; i += known) memcpy(to + i, from, known < bytes - i ? known : bytes - i);
    if (to) make_usual(to, bytes, t->dtype);
    return to;
}

static int pack_weights(search *s, presil_operand *t) {
    const presil_bundle_asked *asked = &s->m->r->record->asked;
    const uint64_t outputs = (uint64_t)t->shape[0] * sizeof(float);
    const asked_op *o = &s->trial;
    if (t->ndim != 4 || (asked->bias_bytes && asked->bias_bytes < outputs) ||
        (asked->scale_bytes && asked->scale_bytes < outputs))
        return PRESIL_EUNSUPPORTED;
    presil_weights_desc d = {.size = sizeof d,
                             .compute = o->op.compute,
                             .weight_dtype = t->dtype,
                             .groups = (uint32_t)presil_op_integer(&o->op, "groups", 1),
                             .shape = {t->shape[0], t->shape[3], t->shape[1], t->shape[2]},
                             .bias = asked->bias_bytes ? asked->bias : NULL,
                             .scale = asked->scale_bytes ? asked->scale : NULL};
    d.stride[0] = t->shape[1] * t->shape[2] * t->shape[3];
    d.stride[1] = 1;
    d.stride[2] = t->shape[2] * t->shape[3];
    d.stride[3] = t->shape[3];
    (void)presil_op_integers(&o->op, "dilation", 1, d.dilation, 2);
    (void)presil_op_integers(&o->op, "input_dilation", 1, d.input_dilation, 2);
    uint8_t *values = values_of(s, t, t->data);
    d.weight = values;
    int status = values ? presil_weights_create(s->m->r->device, &d, &s->weights) : PRESIL_EUNSUPPORTED;
    free(values);
    return status ? status : presil_weights_operand(s->weights, t);
}

/* An activation: without gaps, in a room of its own. */
static int lay_out(search *s, presil_operand *t, bool is_input) {
    const uint64_t bytes = elements_of(t) * presil_dtype_bits(t->dtype) / 8 + 4;
    int64_t stride = 1;
    for (uint32_t i = t->ndim; i-- > 0; stride *= t->shape[i]) t->stride[i] = stride;
    uint8_t *values = is_input ? values_of(s, t, t->data) : NULL;
    if (is_input && !values) return PRESIL_EUNSUPPORTED;
    int status = presil_alloc(s->m->r->device, NULL, NULL, bytes, &t->data);
    if (!status) s->rooms[s->room_count++] = t->data;
    if (!status && is_input) status = replay_put_bytes(s->m->r, t->data, values, bytes);
    free(values);
    return status;
}

/* ---- one shape */
void shape_forget(search *s) {
    presil_list_destroy(s->list);
    presil_weights_destroy(s->weights);
    for (uint32_t i = 0; i < s->room_count; i++) (void)!presil_free(s->m->r->device, s->rooms[i]);
    s->list = NULL;
    s->weights = NULL;
    s->room_count = 0;
}

/* A presil_status: what the chip can't plan is no candidate. The captured memory is in place; a block over all of it is
 * taken first, so that new ones lie elsewhere. */
static int plan(search *s) {
    presil_device *device = s->m->r->device;
    asked_op *o = &s->trial;
    int status = presil_alloc(device, NULL, NULL, highest(s) + 1, &s->rooms[0]);
    s->room_count = status == PRESIL_OK;
    for (uint32_t i = 0; i < o->op.input_count && !status; i++) {
        if (!o->packed_inputs[i]) continue;
        status = strcmp(o->inputs[i].name, "weight") == 0 && presil_packs_weights(device) && !s->weights
                     ? pack_weights(s, &o->inputs[i])
                     : lay_out(s, &o->inputs[i], true);
    }
    for (uint32_t i = 0; i < o->op.output_count && !status; i++)
        status = o->packed_outputs[i] ? lay_out(s, &o->outputs[i], false) : PRESIL_OK;
    if (!status) status = presil_record_begin(device, NULL);
    if (status) return status;
    status = presil_op_enqueue(device, NULL, &o->op);
    const int ended = presil_record_end(device, NULL, &s->list);
    return status ? status : ended;
}

/* The engine behind which it is wrong first; empty: not known. */
static void find_unit(search *s, char unit[64]) {
    unit[0] = 0;
    if (s->m->first.difference.present && s->m->cuts && !s->m->stopped)
        s->m->outcome = replay_first_unit(s->m->r, s->list, unit, 64, &s->m->runs);
    s->m->stopped |= s->m->outcome != EXIT_PASS || replay_stopped;
}

/* Plans and runs the sizes; true: it fails in the same way. s->list stays until shape_forget(). */
static bool fails(search *s, const op_size *sizes) {
    reduction *m = s->m;
    char unit[64];
    if (!minimize_may_go_on(m) || !operator_shrink(&s->asked, sizes, s->count, &s->trial)) return false;
    if (!in_proportion(m, &s->trial)) return false;
    shape_forget(s);
    m->outcome = minimize_renew(m);
    if (!m->outcome) m->outcome = replay_put_memory(m->r);
    m->stopped = m->outcome != EXIT_PASS;
    uint64_t commands = 0;
    s->planned = !m->stopped && !plan(s);
    if (!s->planned) return false;
    if (m->cuts && (presil_list_commands(s->list, &commands) || commands > 4 * m->commands_before + 256)) return false;
    m->r->reads = &s->reads;
    const bool same = minimize_run(m, s->list);
    m->r->reads = NULL;
    if (!same || !*s->unit) return same;
    find_unit(s, unit);
    return !m->stopped && strcmp(unit, s->unit) == 0;
}

/* ---- the search */
/* Its commands and what it read become what is made smaller from here on. */
static int accept(search *s, const op_size *sizes) {
    reduction *m = s->m;
    kept_reads *k = &s->reads;
    uint8_t *original = malloc(k->total + 1);
    if (!original || !k->bytes) {
        free(original);
        return replay_fail(EXIT_INTERNAL, "no host memory for %" PRIu64 " bytes of data", k->total);
    }
    memcpy(original, k->bytes, k->total);
    free(m->ranges);
    free(m->data);
    free(m->original);
    m->ranges = k->at;
    m->range_count = k->count;
    m->data = k->bytes;
    m->original = original;
    m->bytes = m->filled = k->total;
    *k = (kept_reads){0};
    memcpy(s->best, sizes, sizeof s->best);
    const bool first = !m->shapes;
    m->shapes = s;
    if (m->cuts && presil_list_commands(s->list, &m->commands))
        return replay_fail(EXIT_INTERNAL, "%s", presil_error_text());
    m->kept = m->commands;
    minimize_tell(m, first);
    return EXIT_PASS;
}

/* The smallest that still fails, as if all larger ones did: 1, or between one that is right and one that is wrong. */
static void bring_down(search *s, uint32_t i) {
    int64_t right = 0;
    while (s->best[i].size - right > 1 && !s->m->stopped) {
        op_size sizes[MOST_SIZES];
        memcpy(sizes, s->best, sizeof sizes);
        sizes[i].size = right ? right + (s->best[i].size - right) / 2 : 1;
        if (!fails(s, sizes)) {
            right = sizes[i].size;
        } else {
            s->m->outcome = accept(s, sizes);
            s->m->stopped |= s->m->outcome != EXIT_PASS;
        }
        minimize_tell(s->m, false);
        if (!minimize_may_go_on(s->m)) return;
    }
}

static bool differs(const search *s, const op_size *before) {
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->best[i].size != before[i].size) return true;
    }
    return false;
}

static void say_shape(search *s) {
    reduction *m = s->m;
    size_t used = 0;
    m->shape[0] = 0;
    for (uint32_t i = 0; i < s->count && used < sizeof m->shape; i++) {
        if (s->best[i].size == s->sizes[i].size) continue;
        used += (size_t)snprintf(m->shape + used, sizeof m->shape - used, "%s%s %" PRId64 " -> %" PRId64,
                                 used ? ", " : "", s->best[i].name, s->sizes[i].size, s->best[i].size);
    }
}

static void look_for(search *s) {
    op_size before[MOST_SIZES];
    if (!fails(s, s->sizes)) {
        if (!s->m->stopped)
            (void)fprintf(stderr,
                          "  asked of the chip again, the operator does not fail in the same way%s%s: commands and "
                          "data alone are made smaller\n",
                          s->planned ? "" : ": ", s->planned ? "" : presil_error_text());
        return;
    }
    find_unit(s, s->unit);
    memcpy(s->best, s->sizes, sizeof s->best);
    do {
        memcpy(before, s->best, sizeof before);
        for (uint32_t i = 0; i < s->count && !s->m->stopped && minimize_may_go_on(s->m); i++) bring_down(s, i);
    } while (differs(s, before) && !s->m->stopped && minimize_may_go_on(s->m));
    say_shape(s);
}

int minimize_shape(reduction *m) {
    char why[160];
    search *s = calloc(1, sizeof *s);
    if (!s) return replay_fail(EXIT_INTERNAL, "no host memory");
    s->m = m;
    if (!operator_take(&m->r->record->asked, m->r->record->label, &s->asked, why, sizeof why)) {
        (void)fprintf(stderr, "  %s: commands and data alone are made smaller\n", why);
    } else if (!(s->count = operator_sizes(&s->asked, s->sizes)) || !in_proportion(m, &s->asked)) {
        (void)fprintf(stderr,
                      "  no smaller shapes of this operator (\"%s\") are known: commands and data alone are made "
                      "smaller\n",
                      m->r->record->asked.kind);
    } else {
        look_for(s);
        shape_forget(s);
    }
    if (m->shapes != s) shape_free(s);
    return m->outcome;
}

int shape_plan(search *s, presil_list **out) {
    replay *r = s->m->r;
    (void)operator_shrink(&s->asked, s->best, s->count, &s->trial);
    const int status = replay_put_memory(r);
    if (status) return status;
    if (plan(s)) return replay_fail(EXIT_INTERNAL, "%s", presil_error_text());
    *out = s->list;
    s->list = NULL;
    return EXIT_PASS;
}

void shape_free(search *s) {
    if (!s) return;
    shape_forget(s);
    free(s->reads.at);
    free(s->reads.bytes);
    free(s);
}
