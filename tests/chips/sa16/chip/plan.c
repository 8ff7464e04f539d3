/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: a layer's operations, and the bytes that they read and write. */
#include "sa16.h"

int sa16_supports(const presil_chip *chip, const presil_op *op, presil_error_buffer *error) {
    (void)chip;
    if (op->kind == PRESIL_OP_NOP) return PRESIL_OK;
    layer l;
    const int status = sa16_layer_of(op, &l, error);
    return status ? status : sa16_tile(&l, NULL, error);
}

static int plan_layer(const presil_op *op, presil_plan *p, presil_error_buffer *error) {
    layer l;
    int status = sa16_layer_of(op, &l, error);
    if (status) return status;
    const bool residual = l.mode & MODE_RESIDUAL;
    if (presil_kit_overlap(&l.out, &l.in))
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED,
                               "sa16 can't write where it still has to read (output over input)");
    if (residual && l.out.data != l.res.data && presil_kit_overlap(&l.out, &l.res))
        return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "sa16 can't write over a residual that lies elsewhere");
    status = sa16_tile(&l, p, error);
    if (status) return status;
    const uint64_t params = (uint64_t)blocks_of(l.out.shape[3]) * PARAM_WORDS * WORD;
    const bool ok = presil_kit_add_view(&p->reads, &l.in) && (!residual || presil_kit_add_view(&p->reads, &l.res)) &&
                    (l.mode & MODE_UNIFORM || presil_kit_add(&p->reads, l.weights, l.params - l.weights + params)) &&
                    presil_kit_add_view(&p->writes, &l.out);
    p->macs = l.macs;
    p->out = op->kind == PRESIL_OP_COPY ? presil_kit_flat(l.out.data, op->inputs[0].shape[0]) : l.out;
    return ok ? PRESIL_OK : presil_kit_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
}

int sa16_plan(const presil_chip *chip, const presil_op *op, presil_plan **out, presil_error_buffer *error) {
    (void)chip;
    const char *label = op->label ? op->label : op->kind == PRESIL_OP_NOP ? "nop" : "layer";
    presil_plan *p = presil_kit_plan_new(&sa16_commands, label, error);
    if (!p) return PRESIL_EHOSTMEM;
    int status = op->kind == PRESIL_OP_NOP ? PRESIL_OK : plan_layer(op, p, error);
    if (!status) status = presil_kit_plan_done(p, error);
    return presil_kit_give_plan(p, status, out);
}

static void after(void *command) { ((operation *)command)->reg[R_MODE] |= MODE_AFTER; }

/* Operations of one plan after those of another: the first of each waits until all before are stored. */
int sa16_merge(const presil_chip *chip, const presil_plan *const *plans, uint32_t count, const char *label,
               presil_plan **out, presil_error_buffer *error) {
    (void)chip;
    return presil_kit_merge(plans, count, label, after, out, error);
}

/* ---- what an operation touches, from its registers */

enum { WEIGHTS = PRESIL_TRAFFIC_WEIGHTS, INPUT, RESIDUAL, PARAMETERS, OUTPUT, ROLES }; /* of presil_traffic_role */
typedef bool (*visit)(void *context, uint32_t role, uint64_t from, uint64_t bytes);

static uint64_t wide(const uint32_t *at) { return (uint64_t)at[1] << 32 | at[0]; }

/* Runs of a transfer at `base`: calls `found` for each until that says true. */
static bool any_run(uint32_t role, const uint32_t *t, uint64_t base, visit found, void *context) {
    const uint64_t bytes = (uint64_t)(t[T_RUN] & 0xffff) * ((uint64_t)(t[T_RUN] >> 16) * WORD - WORD + t[T_TAIL]);
    for (uint32_t o = 0; o < (t[T_COUNT] & 0xffff); o++) {
        for (uint32_t i = 0; i < t[T_COUNT] >> 16; i++) {
            const int64_t step = (int64_t)o * (int32_t)t[T_OUTER] + (int64_t)i * (int32_t)t[T_INNER];
            if (found(context, role, base + (uint64_t)step, bytes)) return true;
        }
    }
    return false;
}

/* All that it reads and writes: likewise. */
static bool any(const uint32_t *r, visit found, void *context) {
    return any_run(INPUT, &r[R_IN], wide(&r[R_IN]), found, context) ||
           any_run(OUTPUT, &r[R_OUT], wide(&r[R_OUT]), found, context) ||
           (r[R_MODE] & MODE_RESIDUAL && any_run(RESIDUAL, &r[R_OUT], wide(&r[R_RES]), found, context)) ||
           ((r[R_MODE] & MODE_KIND) == MODE_CONV && found(context, WEIGHTS, wide(&r[R_W]), r[R_W_WORDS] * 16ull)) ||
           (!(r[R_MODE] & MODE_UNIFORM) &&
            found(context, PARAMETERS, wide(&r[R_P]), (r[R_BLOCKS] >> 16) * PARAM_WORDS * 16ull));
}

/* Which address registers an operation has. */
static uint32_t addresses(const void *command, uint32_t *words) {
    const uint32_t mode = ((const operation *)command)->reg[R_MODE];
    uint32_t count = 0;
    words[count++] = R_IN;
    words[count++] = R_OUT;
    if (mode & MODE_RESIDUAL) words[count++] = R_RES;
    if ((mode & MODE_KIND) == MODE_CONV) words[count++] = R_W;
    if (!(mode & MODE_UNIFORM)) words[count++] = R_P;
    return count;
}

static bool outside(void *may, uint32_t role, uint64_t from, uint64_t bytes) {
    return !presil_kit_hold(&((presil_kit_ranges *)may)[role == OUTPUT], from, bytes);
}

static bool inside(const presil_plan *p, const void *command) {
    const uint32_t *r = ((const operation *)command)->reg;
    presil_kit_ranges may[] = {p->reads, p->writes};
    return r[R_IN + T_TAIL] <= WORD && r[R_OUT + T_TAIL] <= WORD && !any(r, outside, may);
}

const presil_kit_commands sa16_commands = {.magic = "sa16 v3",
                                           .bytes = sizeof(operation),
                                           .timed = sizeof((operation *)0)->reg,
                                           .peak = 256,
                                           .addresses = addresses,
                                           .inside = inside};

int sa16_load(const presil_chip *chip, const void *from, uint64_t size, presil_daddr base, uint64_t bytes,
              presil_plan **out, presil_error_buffer *error) {
    (void)chip;
    return presil_kit_load(&sa16_commands, from, size, base, bytes, out, error);
}

static bool holds(void *address, uint32_t role, uint64_t from, uint64_t bytes) {
    return role == OUTPUT && *(uint64_t *)address - from < bytes;
}

int sa16_describe(const presil_plan *plan, presil_daddr address, char *text, size_t bytes) {
    for (uint32_t i = plan->count; i-- > 0;) {
        const operation *op = presil_kit_command(plan, i);
        uint64_t at = address.value;
        if (!any(op->reg, holds, &at)) continue;
        char element[128];
        const bool known = presil_kit_describe(&plan->out, at, element, sizeof element) > 0;
        (void)snprintf(text, bytes, "%s%soperation %u of %u (register set %u)", element, known ? ", " : "", i,
                       plan->count, i % 2);
        return PRESIL_OK;
    }
    return PRESIL_EINVAL;
}

/* ---- what a plan's operations move, and about how long that takes */

/* Whoever reads or writes takes the beats from the first byte's to the last byte's. */
static bool add_beats(void *rows, uint32_t role, uint64_t from, uint64_t bytes) {
    presil_traffic *row = &((presil_traffic *)rows)[role];
    *(role == OUTPUT ? &row->write_bytes : &row->read_bytes) += (from % WORD + bytes + WORD - 1) / WORD * WORD;
    return false;
}

int sa16_usage(const presil_chip *chip, const presil_plan *plan, presil_usage_tell tell, void *context) {
    (void)chip;
    static const char *const names[ROLES] = {"", "weight", "input", "residual", "parameters", "output"};
    presil_traffic rows[ROLES] = {0};
    for (uint32_t k = WEIGHTS; k < ROLES; k++) rows[k].name = names[k], rows[k].role = k;
    for (uint32_t i = 0; i < plan->count; i++)
        (void)any(((const operation *)presil_kit_command(plan, i))->reg, add_beats, rows);
    tell(context, &(presil_usage){.size = sizeof(presil_usage), .traffic_count = OUTPUT, .traffic = &rows[WEIGHTS]});
    return PRESIL_OK;
}

static int64_t product(uint32_t pair) { return (int64_t)(pair >> 16) * (pair & 0xffff); }
/* A cycle a word, and one a run. */
static int64_t transfer(const uint32_t *t) { return product(t[T_COUNT]) * (1 + product(t[T_RUN])); }

/* Operations load, compute and store side by side, one behind the other. When one is stored, the host writes the
 * registers of the one behind the next (at `ready` it may begin). The constants: from launches of the RTL. */
int sa16_work(const presil_chip *chip, const presil_plan *plan, const char *simulator, presil_work *out) {
    (void)chip;
    const char *latency = strstr(simulator, "latency=");
    const int64_t first = 5 + (latency ? strtoll(latency + 8, NULL, 10) : 100);
    int64_t ready = 0, loaded = 0, computed = 0, stored = 0;
    presil_work own = {.count = 3, .amounts = {plan->count}};
    for (uint32_t i = 0; i < plan->count; i++) {
        const uint32_t *r = ((const operation *)presil_kit_command(plan, i))->reg, blocks = r[R_BLOCKS] >> 16;
        const bool conv = (r[R_MODE] & MODE_KIND) == MODE_CONV;
        const int64_t pixels = product(r[R_OUT_SIZE]), store = transfer(&r[R_OUT]);
        int64_t words = (conv ? presil_kit_parts(pixels, WORD) * WORD : pixels) * product(r[R_BLOCKS]);
        words *= (r[R_KERNEL] & 0xff) * (r[R_KERNEL] >> 8 & 0xff);
        int64_t load = first + transfer(&r[R_IN]);
        if (r[R_MODE] & MODE_RESIDUAL) load += first + store;
        if (conv) load += first + r[R_W_WORDS];
        if (!(r[R_MODE] & MODE_UNIFORM)) load += first + blocks * PARAM_WORDS;
        loaded = presil_kit_most(loaded, r[R_MODE] & MODE_AFTER ? stored : ready) + load;
        ready = stored + 80;
        computed = presil_kit_most(computed, loaded) + 70 + words;
        stored = presil_kit_most(computed, stored) + 44 + store;
        own.kind |= 1ull << (r[R_MODE] & 63);
        own.amounts[1] += (uint64_t)load, own.amounts[2] += (uint64_t)words;
    }
    own.cycles = (uint64_t)stored;
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}
