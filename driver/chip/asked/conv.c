/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d in the normal form. */
#include <string.h>
#include "asked.h"

static chip_view view_of(const presil_tensor *t) {
    int64_t e = chip_element_bytes(t->dtype);
    return (chip_view){t->data.value,    t->stride[0] * e, t->stride[1] * e, t->stride[2] * e,
                       t->stride[3] * e, (uint32_t)e,      t->dtype};
}

static int check(const presil_conv2d_desc *d, const presil_layout *l, presil_error_buffer *error) {
    const int64_t *in = d->input.shape, *out = d->output.shape;
    if (d->input.ndim != 4 || d->output.ndim != 4)
        return chip_fail(error, PRESIL_EINVAL, "input and output have 4 dimensions (N, H, W, C), not %u and %u",
                         d->input.ndim, d->output.ndim);
    if (in[0] != out[0])
        return chip_fail(error, PRESIL_EINVAL, "input has %lld images, output %lld", (long long)in[0],
                         (long long)out[0]);
    if (in[3] != l->in_channels || out[3] != l->out_channels) {
        return chip_fail(error, PRESIL_EINVAL,
                         "weights want %lld input and %lld output channels, tensors have %lld and %lld",
                         (long long)l->in_channels, (long long)l->out_channels, (long long)in[3], (long long)out[3]);
    }
    for (int i = 0; i < 2; i++) {
        int64_t dilation = d->dilation[i] ? d->dilation[i] : 1,
                input_dilation = d->input_dilation[i] ? d->input_dilation[i] : 1;
        if (d->stride[i] < 1) return chip_fail(error, PRESIL_EINVAL, "stride[%d] is %lld", i, (long long)d->stride[i]);
        if (dilation != l->dilation[i] || input_dilation != l->input_dilation[i])
            return chip_fail(error, PRESIL_EINVAL, "dilation differs from what the weights were packed for");
        if (d->padding[i] < INT32_MIN || d->padding[i] > INT32_MAX)
            return chip_fail(error, PRESIL_EINVAL, "padding[%d] is %lld", i, (long long)d->padding[i]);
    }
    bool ok = l->compute == PRESIL_COMPUTE_INT8
                  ? d->input.dtype == PRESIL_INT8
                  : chip_float_operand(l->compute, d->input.dtype) && (d->input.dtype == PRESIL_FP16) == l->fp16;
    if (!ok)
        return chip_fail(error, PRESIL_EINVAL, "input dtype %u does not go with compute %u of %s weights",
                         d->input.dtype, l->compute, l->fp16 ? "fp16" : "these");
    const presil_tensor *r = d->epilogue.residual;
    if (r && (r->ndim != 4 || memcmp(r->shape, out, sizeof r->shape)))
        return chip_fail(error, PRESIL_EINVAL, "the residual's shape is not the output's");
    return PRESIL_OK;
}

/* The layout that a kernel by view has: never packed; for what does not depend on where the weights come from. */
static int layout_of_view(const presil_chip *chip, const presil_conv2d_desc *d, presil_layout *l,
                          presil_error_buffer *error) {
    const presil_tensor *k = &d->kernel;
    uint32_t groups = d->groups ? d->groups : 1;
    if (k->ndim != 4)
        return chip_fail(error, PRESIL_EINVAL, "a kernel by view has 4 dimensions (O, KH, KW, I), not %u", k->ndim);
    for (int i = 0; i < 4; i++) {
        if (k->shape[i] < 1 || k->shape[i] > INT32_MAX)
            return chip_fail(error, PRESIL_EINVAL, "kernel shape[%d] is %lld", i, (long long)k->shape[i]);
    }
    if (k->shape[0] % groups)
        return chip_fail(error, PRESIL_EINVAL, "%lld output channels are not divisible by %u groups",
                         (long long)k->shape[0], groups);
    if (d->compute == PRESIL_COMPUTE_INT8 || d->compute > PRESIL_COMPUTE_FP16 ||
        !chip_float_operand(d->compute, k->dtype))
        return chip_fail(error, PRESIL_EUNSUPPORTED, "kernel dtype %u does not go with compute %u", k->dtype,
                         d->compute);
    for (int i = 0; i < 2; i++) {
        if (d->dilation[i] < 0 || d->input_dilation[i] < 0) return chip_fail(error, PRESIL_EINVAL, "negative dilation");
    }
    const presil_weights_desc w = {.compute = d->compute,
                                   .weight_dtype = k->dtype,
                                   .groups = groups,
                                   .shape = {k->shape[0], k->shape[3], k->shape[1], k->shape[2]},
                                   .dilation = {d->dilation[0], d->dilation[1]},
                                   .input_dilation = {d->input_dilation[0], d->input_dilation[1]}};
    const bool even = !d->group_stride || d->group_stride == k->shape[0] / groups * k->stride[0];
    chip_layout_view(chip, &w, even, l);
    return PRESIL_OK;
}

static void fill_kernel(const presil_conv2d_desc *d, chip_problem *p) {
    const presil_tensor *k = &d->kernel;
    int64_t e = chip_element_bytes(k->dtype);
    p->wgt_base = k->data.value;
    p->wgt_esize = (uint32_t)e;
    p->wgt_convert = k->dtype == PRESIL_FP32;
    p->wgt_so = k->stride[0] * e, p->wgt_sy = k->stride[1] * e, p->wgt_sx = k->stride[2] * e,
    p->wgt_sk = k->stride[3] * e;
    p->wgt_sg = d->group_stride ? d->group_stride * e : p->layout->group_outputs * p->wgt_so;
    if (k->shape[3] == 1) p->wgt_sk = e;
    p->wgt = p->layout->depthwise                 ? WGT_CHANNELS
             : p->layout->groups > 1              ? WGT_GROUPS
             : p->wgt_sk == e                     ? WGT_ROWS
             : p->wgt_so == e || k->shape[0] == 1 ? WGT_COLUMNS
                                                  : WGT_ELEMENTS;
}

/* From the kernel's lowest byte to its highest. */
static presil_byte_range kernel_range(const chip_problem *p) {
    const int64_t n[5] = {p->layout->groups, p->layout->group_outputs, p->layout->group_channels, p->grid_y, p->grid_x},
                  s[5] = {p->wgt_sg, p->wgt_so, p->wgt_sk, p->wgt_sy, p->wgt_sx};
    int64_t low = 0, high = p->wgt_esize;
    for (int i = 0; i < 5; i++) {
        if (s[i] < 0)
            low += (n[i] - 1) * s[i];
        else
            high += (n[i] - 1) * s[i];
    }
    return (presil_byte_range){{p->wgt_base + (uint64_t)low}, (uint64_t)(high - low)};
}

static void fill(const presil_chip *chip, const presil_conv2d_desc *d, const presil_layout *l, presil_daddr packed,
                 chip_problem *p) {
    p->config = &chip->config;
    p->floats = l->compute != PRESIL_COMPUTE_INT8;
    p->fp16 = l->fp16;
    p->absent = l->absent;
    p->depthwise = l->depthwise;
    if (l->depthwise) p->extra_cells = (uint32_t)min64(l->group_outputs, chip->config.cells) - 1;
    p->pieces_y = chip_kernel_pieces(l->grid_y, d->stride[0], l->dilation[0], d->output.shape[1]);
    p->pieces_x = chip_kernel_pieces(l->grid_x, d->stride[1], l->dilation[1], d->output.shape[2]);
    p->esize = l->esize;
    p->block = l->block;
    p->terms = l->terms;
    p->passes = chip_passes(l->terms);
    p->images = d->output.shape[0], p->out_h = d->output.shape[1], p->out_w = d->output.shape[2],
    p->out_c = d->output.shape[3];
    p->in_h = d->input.shape[1], p->in_w = d->input.shape[2], p->in_c = d->input.shape[3];
    p->stride_y = d->stride[0], p->stride_x = d->stride[1];
    p->pad_y = d->padding[0], p->pad_x = d->padding[1];
    p->dilation_y = l->dilation[0], p->dilation_x = l->dilation[1];
    p->input_dilation_y = l->input_dilation[0], p->input_dilation_x = l->input_dilation[1];
    p->grid_y = l->grid_y, p->grid_x = l->grid_x, p->blocks = l->blocks;
    p->kernel_x = (uint32_t)l->kernel[1];
    p->pack_rows = l->pack_rows;
    p->runs = l->runs;
    memcpy(p->run, l->run, sizeof p->run);
    p->split = l->split;
    p->cell_groups = l->cell_groups;
    p->most_blocks = 1;
    for (uint32_t g = 0; g < (l->groups > 1 ? l->cell_groups : 1); g++) {
        uint32_t first, count;
        chip_layout_blocks(l, g, &first, &count);
        if (count > p->most_blocks) p->most_blocks = count;
    }
    p->pad_byte = p->floats ? 0 : d->pad_value & 255u;
    p->param_words = l->param_words;
    p->layout = l;
    p->packed = packed.value;
    p->wgt = WGT_IMAGE;
    p->in = view_of(&d->input);
    p->out = view_of(&d->output);
    p->convert = p->floats && d->input.dtype == PRESIL_FP32;
    if (d->epilogue.residual) p->res = view_of(d->epilogue.residual);
    p->act = ACT_ELEMENTS;
    if (p->in.sc == p->in.esize || p->in_c == 1) {
        p->act = ACT_DIRECT;
        p->in.sc = p->in.esize;
    } else if (p->in.sx == p->in.esize) {
        p->act = ACT_TRANSPOSED;
    }
    if (l->packed) p->act = ACT_PACKED;
}

int chip_plan_conv2d(const presil_chip *chip, const presil_conv2d_desc *d, const presil_layout *l, presil_daddr packed,
                     presil_plan **out, presil_error_buffer *error) {
    chip_problem p;
    memset(&p, 0, sizeof p); /* compared byte by byte: plan/templates.c */
    presil_layout view;
    bool by_view = l == NULL;
    if (by_view) {
        int wrong = layout_of_view(chip, d, &view, error);
        if (wrong != PRESIL_OK) return wrong;
        l = &view;
    }
    int status = check(d, l, error);
    if (status != PRESIL_OK) return status;
    fill(chip, d, l, packed, &p);
    if (by_view) fill_kernel(d, &p);
    status = chip_epilogue_template(&p, &d->epilogue, d->output.dtype, l->has_bias, l->has_scale, error);
    if (status != PRESIL_OK) return status;
    presil_plan *plan = chip_plan_new(&chip->config, d->label, "conv2d");
    if (!plan) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    plan->of = OF_CONV;
    plan->out = p.out;
    memcpy(plan->out_shape, d->output.shape, sizeof plan->out_shape);
    plan->passes = p.passes;
    plan->peak = (uint64_t)(chip->config.lanes / p.esize) * chip->config.cells;
    plan->macs = (uint64_t)(p.images * p.out_h * p.out_w * p.out_c) *
                 (uint64_t)(l->group_channels * l->kernel[0] * l->kernel[1]);
    const chip_view in_view = p.in, res_view = p.res;
    const chip_view *views[2] = {&in_view};
    int64_t shapes[2][4];
    uint32_t reads = 1;
    memcpy(shapes[0], d->input.shape, sizeof shapes[0]);
    if (p.has_res) memcpy(shapes[reads], d->output.shape, sizeof shapes[0]), views[reads++] = &res_view;
    presil_byte_range weights = by_view ? kernel_range(&p) : (presil_byte_range){packed, l->bytes};
    bool empty = p.images * p.out_h * p.out_w * p.out_c == 0;
    if (empty) {
        chip_builder b = {.config = &chip->config};
        status = chip_plan_from(&b, plan, error);
        chip_builder_free(&b);
    } else {
        status = chip_plan_ranges(plan, views, (const int64_t (*)[4])shapes, reads, &weights, 1, error);
        chip_problem_normalise(&p);
        chip_problem_cut(&p);
        if (p.phased) /* zeros between a dilated input's elements are no products */
            plan->macs = (uint64_t)(p.images * p.out_c * l->group_channels) *
                         (uint64_t)(p.phase_y.products * p.phase_x.products);
        if (status == PRESIL_OK) status = chip_problem_check(&p, error);
        if (status == PRESIL_OK) status = chip_solve(&p, d->tiling, plan, error);
    }
    if (status != PRESIL_OK) {
        chip_plan_free(plan);
        return status;
    }
    return chip_plan_done(plan, out, error);
}
