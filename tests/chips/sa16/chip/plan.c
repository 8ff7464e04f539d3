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
    const bool uniform = l.mode & MODE_UNIFORM;
    const bool ok = presil_kit_add_view(&p->reads, &l.in) && (!residual || presil_kit_add_view(&p->reads, &l.res)) &&
                    (uniform || presil_kit_add(&p->reads, l.weights, l.params - l.weights + params)) &&
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
    if (status)
        presil_kit_plan_free(p);
    else
        *out = p;
    return status;
}

static void after(void *command) { ((operation *)command)->reg[R_MODE] |= MODE_AFTER; }

/* Operations of one plan after those of another: the first of each waits until all before are stored. */
int sa16_merge(const presil_chip *chip, const presil_plan *const *plans, uint32_t count, const char *label,
               presil_plan **out, presil_error_buffer *error) {
    (void)chip;
    return presil_kit_merge(plans, count, label, after, out, error);
}

/* ---- what a stored operation touches, from its registers */

static uint64_t wide(const uint32_t *at) { return (uint64_t)at[1] << 32 | at[0]; }

/* Runs of a transfer at `base`: calls `found` for each until that says true. */
static bool any_run(const uint32_t *t, uint64_t base, bool (*found)(void *, uint64_t, uint64_t), void *context) {
    const uint64_t bytes = (uint64_t)(t[T_RUN] & 0xffff) * ((uint64_t)(t[T_RUN] >> 16) * WORD - WORD + t[T_TAIL]);
    for (uint32_t o = 0; o < (t[T_COUNT] & 0xffff); o++) {
        for (uint32_t i = 0; i < t[T_COUNT] >> 16; i++) {
            const int64_t step = (int64_t)o * (int32_t)t[T_OUTER] + (int64_t)i * (int32_t)t[T_INNER];
            if (found(context, base + (uint64_t)step, bytes)) return true;
        }
    }
    return false;
}

static bool outside(void *ranges, uint64_t from, uint64_t bytes) { return !presil_kit_hold(ranges, from, bytes); }
static bool holds(void *address, uint64_t from, uint64_t bytes) { return *(uint64_t *)address - from < bytes; }

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

static bool inside(const presil_plan *p, const void *command) {
    const uint32_t *r = ((const operation *)command)->reg, mode = r[R_MODE];
    presil_kit_ranges reads = p->reads, writes = p->writes;
    const uint64_t params = (r[R_BLOCKS] >> 16) * (uint64_t)(PARAM_WORDS * WORD);
    return r[R_IN + T_TAIL] <= WORD && r[R_OUT + T_TAIL] <= WORD &&
           !any_run(&r[R_IN], wide(&r[R_IN]), outside, &reads) &&
           !any_run(&r[R_OUT], wide(&r[R_OUT]), outside, &writes) &&
           !(mode & MODE_RESIDUAL && any_run(&r[R_OUT], wide(&r[R_RES]), outside, &reads)) &&
           ((mode & MODE_KIND) != MODE_CONV || presil_kit_hold(&reads, wide(&r[R_W]), r[R_W_WORDS] * 16ull)) &&
           (mode & MODE_UNIFORM || presil_kit_hold(&reads, wide(&r[R_P]), params));
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

int sa16_describe(const presil_plan *plan, presil_daddr address, char *text, size_t bytes) {
    for (uint32_t i = plan->count; i-- > 0;) {
        const operation *op = presil_kit_command(plan, i);
        uint64_t at = address.value;
        if (!any_run(&op->reg[R_OUT], wide(&op->reg[R_OUT]), holds, &at)) continue;
        char element[128];
        const bool known = presil_kit_describe(&plan->out, at, element, sizeof element) > 0;
        (void)snprintf(text, bytes, "%s%soperation %u of %u (register set %u)", element, known ? ", " : "", i,
                       plan->count, i % 2);
        return PRESIL_OK;
    }
    return PRESIL_EINVAL;
}
