/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which sizes an operator has, and the operator with others. Operands stay where they are, with their strides: a
 * smaller one is the corner of the one that was captured. Three families: windows over an image (convolutions, their
 * gradients, pools), products of matrices, and what goes element by element.
 */
#include "operator.h"

#include <string.h>

enum { SPATIAL = PRESIL_OP_DIMS - 2 };

static presil_operand *named(presil_operand *list, uint32_t count, const char *name) {
    return (presil_operand *)(uintptr_t)presil_operand_of(list, count, name);
}

/* ---- windows: image [N, S.., C groups], kernel of K.. , result [N, R.., O groups] */
typedef struct {
    presil_operand *image, *kernel, *result;                                              /* kernel NULL: a pool */
    int64_t batch, in[SPATIAL], window[SPATIAL], out[SPATIAL], channels, outputs, groups; /* channels of one group */
    uint32_t spatial;
    bool transposed, groups_stay;
} windows;

static presil_attribute *attribute_of(asked_op *o, const char *name) {
    return (presil_attribute *)(uintptr_t)presil_op_attribute(&o->op, name);
}

static void set_integer(asked_op *o, const char *name, uint32_t i, int64_t value) {
    const presil_attribute *a = attribute_of(o, name);
    if (a && a->integers && i < a->count) o->integers[a - o->attributes][i] = value;
}

static int64_t integer_of(const asked_op *o, const char *name, uint32_t i, int64_t otherwise) {
    int64_t list[SPATIAL];
    (void)presil_op_integers(&o->op, name, otherwise, list, SPATIAL);
    return list[i];
}

static bool is_pool(const asked_op *o) {
    return o->op.kind == PRESIL_OP_POOL_MAX || o->op.kind == PRESIL_OP_POOL_AVERAGE;
}

/* What the three are called, by kind. */
static bool find_windows(asked_op *o, windows *w) {
    *w = (windows){.groups = 1, .transposed = o->op.kind == PRESIL_OP_CONV_TRANSPOSE};
    presil_operand *in = named(o->inputs, o->op.input_count, "input"),
                   *out = named(o->outputs, o->op.output_count, "output");
    const bool gradient = o->op.kind == PRESIL_OP_WEIGHT_GRADIENT;
    w->image = in;
    w->kernel = gradient ? out : is_pool(o) ? NULL : named(o->inputs, o->op.input_count, "weight");
    w->result = gradient ? named(o->inputs, o->op.input_count, "grad") : out;
    if (!in || !w->result || (!w->kernel && !is_pool(o)) || in->ndim < 3 || in->ndim != w->result->ndim) return false;
    return !w->kernel || w->kernel->ndim == in->ndim;
}

static bool read_windows(asked_op *o, windows *w) {
    if (!find_windows(o, w)) return false;
    const uint32_t last = w->image->ndim - 1;
    w->spatial = last - 1;
    w->batch = w->image->shape[0];
    for (uint32_t i = 0; i < w->spatial; i++) {
        w->in[i] = w->image->shape[1 + i];
        w->out[i] = w->result->shape[1 + i];
        w->window[i] = w->kernel ? w->kernel->shape[1 + i] : integer_of(o, "kernel", i, 0);
        if (w->window[i] < 1) return false;
    }
    if (o->op.kind == PRESIL_OP_DEPTHWISE || is_pool(o))
        w->groups = w->image->shape[last];
    else
        w->groups = integer_of(o, "groups", 0, 1);
    if (w->groups < 1 || w->image->shape[last] % w->groups || w->result->shape[last] % w->groups) return false;
    w->channels = w->image->shape[last] / w->groups;
    w->outputs = w->result->shape[last] / w->groups;
    w->groups_stay = attribute_of(o, "group_stride") != NULL;
    return w->result->shape[0] == w->batch;
}

/* Of a spatial dimension, how many results there are where nothing lies at the edges but what `padding` says. */
static int64_t results(const asked_op *o, uint32_t i, int64_t in, int64_t window, int64_t padding, bool transposed) {
    const int64_t stride = integer_of(o, "stride", i, is_pool(o) ? window : 1),
                  dilation = integer_of(o, "dilation", i, 1), between = integer_of(o, "input_dilation", i, 1),
                  reach = (window - 1) * dilation;
    if (stride < 1) return 0;
    if (transposed) return (in - 1) * stride - 2 * padding + reach + 1;
    const int64_t room = (in - 1) * between + 2 * padding - reach;
    return room < 0 ? 0 : room / stride + 1;
}

/* A window of one has no edge to pad. */
static int64_t padding_for(int64_t padding, int64_t before, int64_t after) {
    return before > 1 ? padding * (after - 1) / (before - 1) : padding;
}

static bool write_windows(const asked_op *from, const windows *was, const windows *now, asked_op *to) {
    windows w;
    if (!find_windows(to, &w)) return false;
    const uint32_t last = w.image->ndim - 1;
    const bool depthwise = to->op.kind == PRESIL_OP_DEPTHWISE;
    for (uint32_t i = 0; i < was->spatial; i++) {
        const int64_t padding = integer_of(from, "padding", i, 0),
                      own = padding_for(padding, was->window[i], now->window[i]),
                      more = was->out[i] - results(from, i, was->in[i], was->window[i], padding, was->transposed),
                      out = results(from, i, now->in[i], now->window[i], own, was->transposed) + more;
        if (out < 1 || out > was->out[i]) return false;
        w.image->shape[1 + i] = now->in[i];
        w.result->shape[1 + i] = out;
        if (w.kernel) w.kernel->shape[1 + i] = now->window[i];
        set_integer(to, "kernel", i, now->window[i]);
        set_integer(to, "padding", i, own);
    }
    w.image->shape[0] = w.result->shape[0] = now->batch;
    w.image->shape[last] = now->channels * now->groups;
    w.result->shape[last] = now->outputs * now->groups;
    if (w.kernel) {
        w.kernel->shape[0] = (was->transposed ? now->channels : now->outputs) * now->groups;
        w.kernel->shape[last] = depthwise ? 1 : was->transposed ? now->outputs : now->channels;
    }
    set_integer(to, "groups", 0, now->groups);
    return true;
}

/* The sizes of windows in the order in which they are told. */
static uint32_t each_window(windows *w, const char *names[MOST_SIZES], int64_t *values[MOST_SIZES]) {
    static const char *const rows[] = {"rows", "columns"}, *const kernel_rows[] = {"kernel rows", "kernel columns"};
    uint32_t count = 0;
    names[count] = "batch", values[count++] = &w->batch;
    for (uint32_t i = 0; i < w->spatial; i++) {
        names[count] = w->spatial == 2 ? rows[i] : "image", values[count++] = &w->in[i];
        names[count] = w->spatial == 2 ? kernel_rows[i] : "kernel", values[count++] = &w->window[i];
    }
    names[count] = "channels in", values[count++] = &w->channels;
    names[count] = "channels out", values[count++] = &w->outputs;
    if (w->groups > 1 && !w->groups_stay) names[count] = "groups", values[count++] = &w->groups;
    return count;
}

/* ---- a [B, M, K], b [B, K, N] -> [B, M, N] */
typedef struct {
    presil_operand *a, *b, *out;
} product;

static bool find_product(asked_op *o, product *p) {
    *p = (product){named(o->inputs, o->op.input_count, "a"), named(o->inputs, o->op.input_count, "b"),
                   named(o->outputs, o->op.output_count, "output")};
    return p->a && p->b && p->out && p->a->ndim == 3 && p->b->ndim == 3 && p->out->ndim == 3;
}

/* ---- each element of the output by those of the inputs at its place */
static bool is_by_element(const asked_op *o) {
    const char *function = presil_op_text(&o->op, "function", "");
    return o->op.kind == PRESIL_OP_COPY || o->op.kind == PRESIL_OP_ELEMENTWISE || o->op.kind == PRESIL_OP_SOFTMAX ||
           (o->op.kind == PRESIL_OP_NORM && strcmp(function, "group") != 0);
}

static bool is_windowed(const asked_op *o) {
    const uint32_t kind = o->op.kind;
    return (kind >= PRESIL_OP_CONV && kind <= PRESIL_OP_DEPTHWISE) || kind == PRESIL_OP_WEIGHT_GRADIENT || is_pool(o);
}

/* Those that are aligned with the output at the last dimension, and as large there, follow it. */
static void follow_output(const asked_op *from, asked_op *to, const presil_operand *const *own, uint32_t own_count) {
    const presil_operand *was = presil_op_output(&from->op, "output"), *now = presil_op_output(&to->op, "output");
    for (uint32_t i = 0; i < to->op.input_count && was && now; i++) {
        presil_operand *t = &to->inputs[i];
        bool skip = false;
        for (uint32_t k = 0; k < own_count; k++) skip |= own[k] == t;
        for (uint32_t d = 1; !skip && d <= t->ndim && d <= was->ndim; d++) {
            if (t->shape[t->ndim - d] == was->shape[was->ndim - d]) t->shape[t->ndim - d] = now->shape[now->ndim - d];
        }
    }
}

/* ---- all of them */
uint32_t operator_sizes(const asked_op *o, op_size out[MOST_SIZES]) {
    static const char *const axes[] = {"dimension 0", "dimension 1", "dimension 2", "dimension 3",
                                       "dimension 4", "dimension 5", "dimension 6", "dimension 7"};
    asked_op own = *o;
    windows w;
    product p;
    uint32_t count = 0;
    operator_link(&own);
    if (is_windowed(o) && read_windows(&own, &w)) {
        const char *names[MOST_SIZES];
        int64_t *values[MOST_SIZES];
        count = each_window(&w, names, values);
        for (uint32_t i = 0; i < count; i++) out[i] = (op_size){names[i], *values[i]};
    } else if (o->op.kind == PRESIL_OP_MATMUL && find_product(&own, &p)) {
        const op_size sizes[] = {{"batch", p.out->shape[0]},
                                 {"rows", p.out->shape[1]},
                                 {"columns", p.out->shape[2]},
                                 {"depth", p.a->shape[2]}};
        memcpy(out, sizes, sizeof sizes);
        count = 4;
    } else if (is_by_element(o) && o->op.output_count == 1) {
        for (; count < o->outputs[0].ndim; count++) out[count] = (op_size){axes[count], o->outputs[0].shape[count]};
    }
    return count;
}

static bool shrink_product(const op_size *sizes, asked_op *to) {
    product p;
    if (!find_product(to, &p)) return false;
    p.a->shape[0] = p.b->shape[0] = p.out->shape[0] = sizes[0].size;
    p.a->shape[1] = p.out->shape[1] = sizes[1].size;
    p.b->shape[2] = p.out->shape[2] = sizes[2].size;
    p.a->shape[2] = p.b->shape[1] = sizes[3].size;
    return true;
}

bool operator_shrink(const asked_op *from, const op_size *sizes, uint32_t count, asked_op *to) {
    *to = *from;
    operator_link(to);
    if (is_windowed(from)) {
        asked_op own = *from;
        windows was, now;
        const char *names[MOST_SIZES];
        int64_t *values[MOST_SIZES];
        operator_link(&own);
        if (!read_windows(&own, &was)) return false;
        now = was;
        if (each_window(&now, names, values) != count) return false;
        for (uint32_t i = 0; i < count; i++) *values[i] = sizes[i].size;
        if (!write_windows(&own, &was, &now, to)) return false;
        windows w;
        (void)find_windows(to, &w);
        follow_output(&own, to, (const presil_operand *const[]){w.image, w.kernel, w.result}, 3);
        return true;
    }
    if (from->op.kind == PRESIL_OP_MATMUL) {
        product p;
        if (count != 4 || !shrink_product(sizes, to) || !find_product(to, &p)) return false;
        follow_output(from, to, (const presil_operand *const[]){p.a, p.b}, 2);
        return true;
    }
    if (!is_by_element(from) || count != to->outputs[0].ndim) return false;
    for (uint32_t i = 0; i < count; i++) to->outputs[0].shape[i] = sizes[i].size;
    follow_output(from, to, NULL, 0);
    return true;
}
