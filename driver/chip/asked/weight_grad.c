/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gradient of a convolution's weights in the normal form: a matmul whose "pixels" are (kernel position, input
 * channel), whose cells are output channels and whose reduction runs over images, rows and columns of the output's
 * gradient. Groups are images.
 */
#include <string.h>
#include "asked.h"

static bool rows_follow(const presil_tensor *t) {
    return t->shape[1] == 1 || t->shape[2] == 1 || t->stride[1] == t->shape[2] * t->stride[2];
}

static bool is_float(uint32_t dtype) { return dtype == PRESIL_FP32 || dtype == PRESIL_BF16 || dtype == PRESIL_FP16; }

static int check(const presil_conv2d_weight_grad_desc *d, presil_error_buffer *error) {
    const presil_tensor *all[] = {&d->input, &d->grad, &d->out};
    int64_t groups = d->groups ? d->groups : 1;
    for (int i = 0; i < 3; i++) {
        if (all[i]->ndim != 4)
            return chip_fail(error, PRESIL_EINVAL, "input, grad and out have 4 dimensions, not %u", all[i]->ndim);
        for (int k = 0; k < 4; k++) {
            if (all[i]->shape[k] < 1) return chip_fail(error, PRESIL_EINVAL, "a dimension is empty: nothing to sum");
        }
        bool ok = i == 2 ? is_float(all[i]->dtype) : chip_float_operand(d->compute, all[i]->dtype);
        if (!ok)
            return chip_fail(error, PRESIL_EINVAL, "dtype %u does not go with compute %u", all[i]->dtype, d->compute);
    }
    if (d->compute == PRESIL_COMPUTE_INT8 || d->compute > PRESIL_COMPUTE_FP16)
        return chip_fail(error, PRESIL_EINVAL, "compute %u is none of bf16, fp32, fp16", d->compute);
    if ((d->input.dtype == PRESIL_FP16) != (d->grad.dtype == PRESIL_FP16))
        return chip_fail(error, PRESIL_EINVAL, "dtypes %u of input and %u of grad: both are fp16, or none",
                         d->input.dtype, d->grad.dtype);
    const int64_t *in = d->input.shape, *grad = d->grad.shape, *out = d->out.shape;
    if (in[0] != grad[0] || out[0] != grad[3] || out[3] * groups != in[3] || out[0] % groups) {
        return chip_fail(error, PRESIL_EINVAL,
                         "input [%lld, .., %lld], grad [%lld, .., %lld] and out [%lld, .., %lld] with %lld groups "
                         "don't fit together",
                         (long long)in[0], (long long)in[3], (long long)grad[0], (long long)grad[3], (long long)out[0],
                         (long long)out[3], (long long)groups);
    }
    for (int i = 0; i < 2; i++) {
        if (d->stride[i] < 1 || d->dilation[i] < 1)
            return chip_fail(error, PRESIL_EINVAL, "stride and dilation are at least 1");
        if (d->stride[i] > INT32_MAX || d->dilation[i] > INT32_MAX)
            return chip_fail(error, PRESIL_EUNSUPPORTED, "a stride or dilation above 2147483647");
        if (d->padding[i] < INT32_MIN || d->padding[i] > INT32_MAX)
            return chip_fail(error, PRESIL_EINVAL, "padding[%d] is %lld", i, (long long)d->padding[i]);
    }
    if ((double)grad[0] * (double)grad[1] * (double)grad[2] > INT32_MAX)
        return chip_fail(error, PRESIL_EUNSUPPORTED,
                         "sums over %lld x %lld x %lld positions; the driver counts to 2147483647", (long long)grad[0],
                         (long long)grad[1], (long long)grad[2]);
    if (!rows_follow(&d->out))
        return chip_fail(error, PRESIL_EUNSUPPORTED, "the kernel's rows don't follow each other in the result");
    const presil_tensor *r = d->residual;
    if (!r) return PRESIL_OK;
    if (r->ndim != 4 || memcmp(r->shape, out, sizeof r->shape))
        return chip_fail(error, PRESIL_EINVAL, "the residual's shape is not that of out");
    if (!is_float(r->dtype))
        return chip_fail(error, PRESIL_EINVAL, "residual dtype %u is none of bf16, fp16, fp32", r->dtype);
    return rows_follow(r)
               ? PRESIL_OK
               : chip_fail(error, PRESIL_EUNSUPPORTED, "the kernel's rows don't follow each other in the residual");
}

/* Two axes as one: positions of the inner go on where the outer's next begins, in both operands, and none is padding.
 */
static bool merge(chip_sum_axis *outer, chip_sum_axis *inner) {
    bool whole = outer->stride == 1 && inner->stride == 1 && outer->pad == 0 && inner->pad == 0 &&
                 outer->size == outer->count && inner->size == inner->count;
    if (!whole ||
        (outer->count > 1 && (outer->act != inner->count * inner->act || outer->wgt != inner->count * inner->wgt)))
        return false;
    inner->count *= outer->count;
    inner->size = inner->count;
    outer->count = outer->size = 1;
    return true;
}

static int64_t blocks_of(const chip_sum_axis a[3], int lane, int64_t block) {
    int64_t n = ceil_div(a[lane].count, block);
    for (int i = 0; i < 3; i++) n *= i == lane ? 1 : a[i].count;
    return n;
}

static void choose_lanes(chip_problem *p, chip_sum_axis a[3]) {
    if (p->out_h == 1) { /* a kernel of one position: pixels may be one axis, and images too */
        if (merge(&a[1], &a[2])) (void)merge(&a[0], &a[2]);
    }
    int lane = 2;
    for (int i = 1; i >= 0; i--) {
        if (blocks_of(a, i, p->block) < blocks_of(a, lane, p->block)) lane = i;
    }
    p->lane = a[lane];
    p->outer = a[lane == 0 ? 1 : 0];
    p->inner = a[lane == 2 ? 1 : 2];
    p->blocks = (uint32_t)blocks_of(a, lane, p->block);
}

static chip_view tensor_view(const presil_tensor *t) {
    int64_t e = chip_element_bytes(t->dtype);
    return (chip_view){t->data.value,    t->stride[0] * e, t->stride[1] * e, t->stride[2] * e,
                       t->stride[3] * e, (uint32_t)e,      t->dtype};
}

/* A tensor of kernels as the matmul's result: rows are (kernel position, channel), cells outputs, images groups. */
static chip_view result_view(const presil_tensor *t, int64_t group_outputs) {
    int64_t e = chip_element_bytes(t->dtype);
    return (chip_view){t->data.value,
                       group_outputs * t->stride[0] * e,
                       t->stride[t->shape[2] > 1 ? 2 : 1] * e,
                       t->stride[3] * e,
                       t->stride[0] * e,
                       (uint32_t)e,
                       t->dtype};
}

static void fill(const presil_chip *chip, const presil_conv2d_weight_grad_desc *d, chip_problem *p) {
    const presil_tensor *in = &d->input, *grad = &d->grad, *out = &d->out;
    int64_t ie = chip_element_bytes(in->dtype), ge = chip_element_bytes(grad->dtype),
            groups = d->groups ? d->groups : 1;
    p->config = &chip->config;
    p->floats = true;
    p->fp16 = in->dtype == PRESIL_FP16;
    p->esize = 2;
    p->block = chip->config.lanes / 2;
    p->terms = chip_terms(d->compute, p->fp16);
    p->passes = chip_passes(p->terms);
    p->images = groups;
    p->kernel_w = out->shape[2];
    p->out_h = p->in_h = out->shape[1] * out->shape[2];
    p->out_w = p->in_w = out->shape[3];
    p->out_c = out->shape[0] / groups;
    p->stride_y = p->stride_x = p->dilation_y = p->dilation_x = p->input_dilation_y = p->input_dilation_x = 1;
    p->grid_y = p->grid_x = p->kernel_x = p->pack_rows = 1;
    p->split = chip_whole_split(&chip->config, p->out_c);
    p->cell_groups = chip_split_groups(&p->split);
    p->act = ACT_WINDOWS;
    p->wgt = WGT_LANES;
    p->convert = in->dtype == PRESIL_FP32;
    p->wgt_convert = grad->dtype == PRESIL_FP32;
    p->in = (chip_view){
        in->data.value, p->out_w * in->stride[3] * ie, 0, in->stride[3] * ie, in->stride[3] * ie, (uint32_t)ie,
        in->dtype};
    p->out = result_view(out, p->out_c);
    if (d->residual) p->res = result_view(d->residual, p->out_c);
    p->wgt_base = grad->data.value;
    p->wgt_so = grad->stride[3] * ge;
    p->wgt_sn = p->out_c * p->wgt_so;
    p->wgt_esize = (uint32_t)ge;
    p->wgt_per_image = groups > 1;
    chip_sum_axis a[3] = {
        {grad->shape[0], 1, 1, 0, in->shape[0], in->stride[0] * ie, grad->stride[0] * ge, KERNEL_NONE},
        {grad->shape[1], d->stride[0], d->dilation[0], d->padding[0], in->shape[1], in->stride[1] * ie,
         grad->stride[1] * ge, KERNEL_ROW},
        {grad->shape[2], d->stride[1], d->dilation[1], d->padding[1], in->shape[2], in->stride[2] * ie,
         grad->stride[2] * ge, KERNEL_COLUMN}};
    choose_lanes(p, a);
    p->most_blocks = p->blocks;
    p->in_c = (int64_t)p->blocks * p->block;
}

static int check_fields(const chip_problem *p, presil_error_buffer *error) {
    const chip_sum_axis *lane = &p->lane, *inner = &p->inner;
    int64_t last = (lane->count - 1) * lane->stride + (p->out_h - 1) * lane->dilation;
    bool checked = lane->axis != KERNEL_NONE && (lane->pad > 0 || last - lane->pad >= lane->size);
    if (checked && (lane->stride > 127 || lane->size > 65535 || lane->pad > 32767 || last - lane->pad > 32767)) {
        return chip_fail(
            error, PRESIL_EUNSUPPORTED,
            "stride %lld over %lld padded positions; the chip's LOAD checks 16 bits of them in steps of at most 127",
            (long long)lane->stride, (long long)lane->size);
    }
    bool ok = lane->size * p->in.esize <= INT32_MAX && chip_stride_fits(lane->stride * lane->act) &&
              chip_stride_fits(inner->stride * inner->act) && chip_strides_fit(lane->act, lane->size) &&
              chip_strides_fit(inner->act, inner->size) && chip_strides_fit(lane->wgt, lane->count) &&
              chip_strides_fit(inner->wgt, inner->count) && chip_stride_fits(p->wgt_so * p->config->cells) &&
              chip_stride_fits(p->in.sc * p->block) && chip_stride_fits(p->out.sc) &&
              chip_strides_fit(p->out.sx, p->out_w) && chip_strides_fit(p->out.sy, p->out_h) &&
              chip_stride_fits(p->res.sc * p->config->cells) && chip_strides_fit(p->res.sx, p->out_w) &&
              chip_strides_fit(p->res.sy, p->out_h);
    return ok ? PRESIL_OK
              : chip_fail(error, PRESIL_EUNSUPPORTED,
                          "a line of 2 GiB or a stride of 512 GiB or more; the chip's addresses have 40 bits: make the "
                          "tensors contiguous");
}

int chip_plan_weight_grad(const presil_chip *chip, const presil_conv2d_weight_grad_desc *d, presil_plan **result,
                          presil_error_buffer *error) {
    int status = check(d, error);
    if (status != PRESIL_OK) return status;
    chip_problem p;
    memset(&p, 0, sizeof p); /* compared byte by byte: plan/templates.c */
    fill(chip, d, &p);
    const presil_epilogue epilogue = {.residual = d->residual};
    status = chip_epilogue_template(&p, &epilogue, d->out.dtype, false, false, error);
    if (status == PRESIL_OK) status = check_fields(&p, error);
    if (status != PRESIL_OK) return status;
    presil_plan *plan = chip_plan_new(&chip->config, d->label, "conv2d_weight_grad");
    if (!plan) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    const presil_tensor *const tensors[] = {&d->input, &d->grad, d->residual};
    const uint32_t reads = d->residual ? 3 : 2;
    chip_view views[3];
    const chip_view *const read_views[] = {&views[0], &views[1], &views[2]};
    int64_t shapes[3][4];
    for (uint32_t i = 0; i < reads; i++) {
        views[i] = tensor_view(tensors[i]);
        memcpy(shapes[i], tensors[i]->shape, sizeof shapes[i]);
    }
    plan->of = OF_WEIGHT_GRADIENT;
    plan->out = tensor_view(&d->out);
    memcpy(plan->out_shape, d->out.shape, sizeof plan->out_shape);
    plan->passes = p.passes;
    plan->peak = (uint64_t)p.block * chip->config.cells;
    plan->macs = (uint64_t)(p.images * p.out_h * p.out_w * p.out_c) *
                 (uint64_t)(d->grad.shape[0] * d->grad.shape[1] * d->grad.shape[2]);
    status = chip_plan_ranges(plan, read_views, (const int64_t (*)[4])shapes, reads, NULL, 0, error);
    if (status == PRESIL_OK) status = chip_solve(&p, d->tiling, plan, error);
    if (status != PRESIL_OK) {
        chip_plan_free(plan);
        return status;
    }
    return chip_plan_done(plan, result, error);
}
