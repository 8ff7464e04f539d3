/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked: an operator as a layer of this chip, or why not. */
#include "sa16.h"

static int no(presil_error_buffer *error, const char *what) {
    return presil_kit_fail(error, PRESIL_EUNSUPPORTED, "sa16 %s", what);
}

static int view_of(const presil_operand *t, presil_kit_view *out, presil_error_buffer *error) {
    if (t->dtype != PRESIL_INT8) return no(error, "computes in int8 alone, from int8 to int8");
    return presil_kit_view_of(t, 1, WORD, out, error);
}

static int steps_of(const presil_op *op, layer *l, presil_error_buffer *error) {
    int status = presil_kit_read_epilogue(op, INT8_MIN, INT8_MAX, &l->quant, error);
    if (status || !l->quant.residual) return status;
    if (!(fabs(l->quant.residual_scale) < 32767.0)) return no(error, "scales a residual by less than 32767");
    l->mode |= MODE_RESIDUAL;
    l->res_mult = (int32_t)rint(l->quant.residual_scale * 65536.0);
    status = view_of(l->quant.residual, &l->res, error);
    if (!status && !presil_kit_alike(&l->res, &l->out))
        return no(error, "wants a residual of the output's shape and strides");
    return status;
}

static int window_of(const presil_op *op, layer *l, uint32_t can, presil_error_buffer *error) {
    presil_kit_window *w = &l->window;
    const int status = presil_kit_read_window(op, can | PRESIL_KIT_DILATION, w, error);
    for (int d = 0; d < 2 && !status; d++) {
        if (w->kernel[d] < 1 || w->kernel[d] > 255 || w->stride[d] < 1 || w->stride[d] > 255 || w->dilation[d] < 1 ||
            w->dilation[d] > 255 || w->padding[d] < -16384 || w->padding[d] > 16384)
            return no(error, "has kernels, strides and dilations up to 255");
    }
    return status ? status : presil_kit_window_fits(w, &l->in, &l->out, error);
}

static int conv_of(const presil_op *op, layer *l, presil_error_buffer *error) {
    const presil_operand *weight = presil_op_input(op, "weight");
    if (!weight || !weight->layout || op->compute != PRESIL_COMPUTE_INT8)
        return no(error, "computes in int8 alone, with packed weights");
    const presil_layout *p = weight->layout;
    l->weights = weight->data.value;
    l->params = weight->data.value + p->params_at;
    l->in_blocks = p->in_blocks;
    l->mode = MODE_CONV | (p->diagonal ? MODE_DEPTHWISE : 0);
    const int status = window_of(op, l, PRESIL_KIT_GROUPS | PRESIL_KIT_PAD_VALUE, error);
    if (status) return status;
    if (l->window.groups != p->groups) return no(error, "got weights that were packed for another number of groups");
    if (l->in.shape[3] != p->shape[1] * p->groups || l->out.shape[3] != p->shape[0])
        return no(error, "got weights of other channels than the tensors have");
    l->pad = (int32_t)l->window.pad_value;
    l->macs = (uint64_t)(p->shape[0] * p->shape[1] * p->shape[2] * p->shape[3]) *
              (uint64_t)(l->out.shape[0] * l->out.shape[1] * l->out.shape[2]);
    return PRESIL_OK;
}

static int pool_of(const presil_op *op, layer *l, presil_error_buffer *error) {
    const bool average = op->kind == PRESIL_OP_POOL_AVERAGE;
    l->mode = (average ? MODE_AVERAGE : MODE_MAX) | MODE_UNIFORM;
    l->in_blocks = 1;
    l->pad = average ? 0 : INT8_MIN;
    const int status = window_of(op, l, PRESIL_KIT_DIVISOR | PRESIL_KIT_ZERO_POINT, error);
    if (status) return status;
    return l->in.shape[3] == l->out.shape[3] ? PRESIL_OK : no(error, "pools channel by channel");
}

/* The unit adds codes as they are, so their zero point is in the mean, and the output's is less by it. Halves go to
 * even codes: those of an odd zero point would go the other way. */
static int zero_point_of(layer *l, presil_error_buffer *error) {
    const int64_t zero = l->window.zero_point, count = l->window.kernel[0] * l->window.kernel[1];
    if (!zero) return PRESIL_OK;
    if (zero < INT8_MIN || zero > INT8_MAX || l->window.divisor != count || l->quant.scale != 1.0 ||
        l->quant.zero_point - zero < INT8_MIN || l->quant.zero_point - zero > INT8_MAX)
        return no(error, "takes a zero point from a mean of all elements, unscaled, with one like it behind");
    if (zero % 2 && count % 2 == 0) return no(error, "averages an odd number of codes whose zero point is odd");
    l->pad = (int32_t)zero;
    l->quant.zero_point -= (int32_t)zero;
    return PRESIL_OK;
}

/* Bytes, as the maximum of windows of one word: pixels of 16 channels. */
static int copy_of(const presil_op *op, layer *l, presil_error_buffer *error) {
    uint64_t from = 0, to = 0, bytes = 0;
    const int status = presil_kit_read_copy(op, &from, &to, &bytes, error);
    if (status) return status;
    if (bytes % WORD) return no(error, "copies multiples of 16 bytes");
    const int64_t size = (int64_t)bytes;
    l->in = (presil_kit_view){from, {1, 1, size / WORD, WORD}, {size, size, WORD, 1}, WORD, WORD, 0, 0};
    l->out = l->in;
    l->out.data = to;
    l->window = (presil_kit_window){{1, 1}, {1, 1}, {0, 0}, {1, 1}, {1, 1}, 1, 0, 1, 0};
    l->quant = (presil_kit_epilogue){.scale = 1.0, .low = INT8_MIN, .high = INT8_MAX};
    l->mode = MODE_MAX | MODE_UNIFORM;
    l->in_blocks = 1;
    return PRESIL_OK;
}

int sa16_layer_of(const presil_op *op, layer *l, presil_error_buffer *error) {
    *l = (layer){.tiling = op->tiling};
    const presil_operand *in = presil_op_input(op, "input"), *out = presil_op_output(op, "output");
    if (op->kind >= 64 || !(SA16_KINDS >> op->kind & 1))
        return no(error, "has convolutions, linear layers with packed weights, and pooling");
    if (!in || !out) return no(error, "wants an input and an output");
    int status = PRESIL_OK;
    if (op->kind == PRESIL_OP_COPY) {
        status = copy_of(op, l, error);
    } else {
        status = view_of(in, &l->in, error);
        if (!status) status = view_of(out, &l->out, error);
        if (!status) status = op->kind == PRESIL_OP_CONV ? conv_of(op, l, error) : pool_of(op, l, error);
        if (!status) status = steps_of(op, l, error);
        if (!status) status = zero_point_of(l, error);
    }
    if (status) return status;
    if (l->quant.scale != 1.0 && !(l->mode & MODE_UNIFORM)) return no(error, "scales by channel, with the weights");
    if (!sa16_scale(l->quant.scale * (1.0 / (double)l->window.divisor), &l->multiplier, &l->shift))
        return no(error, "scales by less than 32768");
    return PRESIL_OK;
}
