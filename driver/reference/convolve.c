/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of any number of dimensions, their transposition, their weights' gradient; and products of matrices. */
#include "job.h"

/* The dimensions between the first (images) and the last (channels). */
typedef struct {
    uint32_t n; /* how many there are */
    int64_t in[SPATIAL_MOST], out[SPATIAL_MOST], kernel[SPATIAL_MOST], stride[SPATIAL_MOST], padding[SPATIAL_MOST],
        dilation[SPATIAL_MOST], input_dilation[SPATIAL_MOST];
    int64_t images, channels, results; /* of input and output */
    int64_t groups, in_each, out_each; /* channels of a group */
    int64_t positions;                 /* of the kernel */
} window;

enum { OUTSIDE = -1, BETWEEN = -2 };

static int ask(job *j, window *w, bool dilates) {
    const uint32_t ndim = j->out->ndim;
    if (ndim < 3) return job_fail(j, PRESIL_EINVAL, "a convolution's operands have 3 dimensions or more, not %u", ndim);
    w->n = ndim - 2;
    job_integers(j, "stride", 1, w->stride, w->n);
    job_integers(j, "padding", 0, w->padding, w->n);
    job_integers(j, "dilation", 1, w->dilation, w->n);
    for (uint32_t i = 0; i < w->n; i++) w->input_dilation[i] = 1;
    if (dilates) job_integers(j, "input_dilation", 1, w->input_dilation, w->n);
    for (uint32_t i = 0; i < w->n; i++) {
        if (w->stride[i] < 1 || w->dilation[i] < 1 || w->input_dilation[i] < 1)
            return job_fail(j, PRESIL_EINVAL, "a stride or dilation of less than 1");
    }
    return PRESIL_OK;
}

static int set(job *j, window *w, const presil_operand *in, const presil_operand *out, const int64_t *kernel) {
    w->images = in->shape[0], w->channels = in->shape[in->ndim - 1], w->results = out->shape[out->ndim - 1];
    w->positions = element_count(kernel, w->n);
    for (uint32_t i = 0; i < w->n; i++) {
        w->in[i] = in->shape[1 + i];
        w->out[i] = out->shape[1 + i];
        w->kernel[i] = kernel[i];
    }
    if (w->groups < 1 || w->channels % w->groups || w->results % w->groups)
        return job_fail(j, PRESIL_EINVAL, "%lld groups of %lld channels and %lld results", (long long)w->groups,
                        (long long)w->channels, (long long)w->results);
    w->in_each = w->channels / w->groups;
    w->out_each = w->results / w->groups;
    return job_expect(j, out, 0, w->images);
}

/* The position in the input (a number in the order of rows) that an output's and a kernel's meet, or OUTSIDE, or
 * BETWEEN elements of a dilated input. */
static int64_t meet(const window *w, const int64_t *out, const int64_t *kernel) {
    int64_t number = 0;
    bool inside = true;
    for (uint32_t i = 0; i < w->n; i++) {
        const int64_t at = out[i] * w->stride[i] + kernel[i] * w->dilation[i] - w->padding[i];
        if (at % w->input_dilation[i]) return BETWEEN;
        inside = inside && at >= 0 && at / w->input_dilation[i] < w->in[i];
        number = number * w->in[i] + at / w->input_dilation[i];
    }
    return inside ? number : OUTSIDE;
}

/* The same the other way round: which input was spread to this output through this position of the kernel. */
static int64_t meet_transposed(const window *w, const int64_t *out, const int64_t *kernel) {
    int64_t number = 0;
    for (uint32_t i = 0; i < w->n; i++) {
        const int64_t at = out[i] + w->padding[i] - kernel[i] * w->dilation[i];
        if (at < 0 || at % w->stride[i] || at / w->stride[i] >= w->in[i]) return OUTSIDE;
        number = number * w->in[i] + at / w->stride[i];
    }
    return number;
}

/* ---- forward */
static int64_t pad_value(job *j, const elements *input) {
    const int64_t value = job_integer(j, "pad_value", 0);
    return input->operand->dtype == PRESIL_INT8 ? (int8_t)(uint8_t)value : value;
}

static int convolve(job *j, const elements *x, const elements *weight, const window *w) {
    int status = job_expect(j, weight->operand, 0, w->results);
    if (!status) status = job_expect(j, weight->operand, w->n + 1, w->in_each);
    if (!status) status = job_results(j, both_integers(x, weight));
    if (status) return status;
    int64_t around = pad_value(j, x);
    double around_real = (double)around;
    const elements pad = {.operand = x->operand,
                          .count = 1,
                          .integers = x->integers ? &around : NULL,
                          .reals = x->reals ? &around_real : NULL};
    const int64_t inside = element_count(w->in, w->n);
    for (int64_t number = 0; number < j->result->count; number++) {
        int64_t out[PRESIL_OP_DIMS], kernel[SPATIAL_MOST];
        sum s = {0};
        coordinate_of(j->out->shape, j->out->ndim, number, out);
        const int64_t result = out[w->n + 1], first = result / w->out_each * w->in_each;
        for (int64_t k = 0; k < w->positions; k++) {
            coordinate_of(w->kernel, w->n, k, kernel);
            const int64_t place = meet(w, &out[1], kernel), row = (out[0] * inside + place) * w->channels + first;
            if (place == BETWEEN && x->reals) continue; /* of integers, the zero point is there */
            for (int64_t c = 0; c < w->in_each; c++)
                add_product(&s, place < 0 ? &pad : x, place < 0 ? 0 : row + c, weight,
                            (result * w->positions + k) * w->in_each + c);
        }
        put_sum(j, number, &s);
    }
    return PRESIL_OK;
}

int reference_conv(job *j) {
    window w = {0};
    const elements *x, *weight;
    int status = ask(j, &w, true);
    if (!status) status = job_input(j, "input", j->out->ndim, &x);
    w.groups = job_integer(j, "groups", 1);
    const int64_t apart = job_integer(j, "group_stride", 0);
    if (!status && w.groups < 1) status = job_fail(j, PRESIL_EINVAL, "%lld groups", (long long)w.groups);
    if (!status) status = job_kernel(j, "weight", w.groups, w.groups > 1 ? apart : 0, &weight);
    if (!status) status = set(j, &w, x->operand, j->out, &weight->operand->shape[1]);
    return status ? status : convolve(j, x, weight, &w);
}

int reference_depthwise(job *j) {
    window w = {0};
    const elements *x, *weight;
    int status = ask(j, &w, true);
    if (!status) status = job_input(j, "input", j->out->ndim, &x);
    if (!status) status = job_kernel(j, "weight", 1, 0, &weight);
    if (status) return status;
    w.groups = x->operand->shape[w.n + 1];
    if (w.groups == 0) return job_results(j, both_integers(x, weight));
    status = set(j, &w, x->operand, j->out, &weight->operand->shape[1]);
    return status ? status : convolve(j, x, weight, &w);
}

/* ---- transposed */
int reference_conv_transpose(job *j) {
    window w = {0};
    const elements *x, *weight;
    int status = ask(j, &w, false);
    if (!status) status = job_input(j, "input", j->out->ndim, &x);
    if (!status) status = job_kernel(j, "weight", 1, 0, &weight);
    w.groups = job_integer(j, "groups", 1);
    if (!status) status = set(j, &w, x->operand, j->out, &weight->operand->shape[1]);
    if (!status) status = job_expect(j, weight->operand, 0, w.channels);
    if (!status) status = job_expect(j, weight->operand, w.n + 1, w.out_each);
    if (!status) status = job_results(j, both_integers(x, weight));
    const int64_t inside = element_count(w.in, w.n);
    for (int64_t number = 0; !status && number < j->result->count; number++) {
        int64_t out[PRESIL_OP_DIMS], kernel[SPATIAL_MOST];
        sum s = {0};
        coordinate_of(j->out->shape, j->out->ndim, number, out);
        const int64_t group = out[w.n + 1] / w.out_each, result = out[w.n + 1] % w.out_each;
        for (int64_t k = 0; k < w.positions; k++) {
            coordinate_of(w.kernel, w.n, k, kernel);
            const int64_t place = meet_transposed(&w, &out[1], kernel);
            if (place == OUTSIDE) continue;
            for (int64_t c = group * w.in_each; c < (group + 1) * w.in_each; c++)
                add_product(&s, x, (out[0] * inside + place) * w.channels + c, weight,
                            (c * w.positions + k) * w.out_each + result);
        }
        put_sum(j, number, &s);
    }
    return status;
}

/* ---- the weights' gradient */
static void gradient(const job *j, const window *w, const elements *x, const elements *grad, int64_t number) {
    int64_t at[PRESIL_OP_DIMS], out[SPATIAL_MOST];
    sum s = {0};
    coordinate_of(j->out->shape, j->out->ndim, number, at);
    const int64_t channel = at[0] / w->out_each * w->in_each + at[w->n + 1];
    const int64_t inside = element_count(w->in, w->n), outputs = element_count(w->out, w->n);
    for (int64_t image = 0; image < w->images; image++) {
        for (int64_t o = 0; o < outputs; o++) {
            coordinate_of(w->out, w->n, o, out);
            const int64_t place = meet(w, out, &at[1]);
            if (place < 0) continue;
            add_product(&s, x, (image * inside + place) * w->channels + channel, grad,
                        (image * outputs + o) * w->results + at[0]);
        }
    }
    put_sum(j, number, &s);
}

int reference_weight_gradient(job *j) {
    window w = {0};
    const elements *x, *grad;
    int status = ask(j, &w, false);
    if (!status) status = job_input(j, "input", j->out->ndim, &x);
    if (!status) status = job_input(j, "grad", j->out->ndim, &grad);
    w.groups = job_integer(j, "groups", 1);
    if (!status) status = set(j, &w, x->operand, grad->operand, &j->out->shape[1]);
    if (!status) status = job_expect(j, j->out, 0, w.results);
    if (!status) status = job_expect(j, j->out, w.n + 1, w.in_each);
    if (!status) status = job_results(j, both_integers(x, grad));
    for (int64_t number = 0; !status && number < j->result->count; number++) gradient(j, &w, x, grad, number);
    return status;
}

/* ---- matrices: whatever lies before the last two dimensions is a batch, of the output's size or of 1 */
static int64_t batch_of(const presil_operand *t, const int64_t *out) {
    int64_t number = 0;
    for (uint32_t i = 0; i + 2 < t->ndim; i++) number = number * t->shape[i] + (t->shape[i] == 1 ? 0 : out[i]);
    return number;
}

static int check_batches(const job *j, const presil_operand *t) {
    int status = PRESIL_OK;
    for (uint32_t i = 0; i + 2 < t->ndim && !status; i++)
        status = t->shape[i] == 1 ? PRESIL_OK : job_expect(j, t, i, j->out->shape[i]);
    return status;
}

int reference_matmul(job *j) {
    const uint32_t ndim = j->out->ndim;
    const elements *a, *b;
    if (ndim < 2) return job_fail(j, PRESIL_EINVAL, "a matrix has 2 dimensions or more, not %u", ndim);
    int status = job_input(j, "a", ndim, &a);
    if (!status) status = job_input(j, "b", ndim, &b);
    if (status) return status;
    const int64_t rows = j->out->shape[ndim - 2], columns = j->out->shape[ndim - 1];
    const int64_t depth = a->operand->shape[ndim - 1];
    status = check_batches(j, a->operand);
    if (!status) status = check_batches(j, b->operand);
    if (!status) status = job_expect(j, a->operand, ndim - 2, rows);
    if (!status) status = job_expect(j, b->operand, ndim - 2, depth);
    if (!status) status = job_expect(j, b->operand, ndim - 1, columns);
    if (!status) status = job_results(j, both_integers(a, b));
    for (int64_t number = 0; !status && number < j->result->count; number++) {
        int64_t out[PRESIL_OP_DIMS];
        sum s = {0};
        coordinate_of(j->out->shape, ndim, number, out);
        const int64_t row = (batch_of(a->operand, out) * rows + out[ndim - 2]) * depth;
        const int64_t matrix = batch_of(b->operand, out) * depth;
        for (int64_t k = 0; k < depth; k++) add_product(&s, a, row + k, b, (matrix + k) * columns + out[ndim - 1]);
        put_sum(j, number, &s);
    }
    return status;
}
