/* SPDX-License-Identifier: Apache-2.0 */
/* Matmul in the normal form: pixels are rows of one operand, cells columns of the other; and plain copies, which are
 * LOADs and STOREs. */
#include <string.h>
#include "asked.h"

/* A batch of matrices: rows × columns, strides in bytes. Strides of dimensions of size 1 don't matter and are 0. */
typedef struct {
    uint64_t base;
    int64_t batch, rows, columns, sb, sr, sc;
    uint32_t esize, dtype;
} matrix;

static matrix matrix_of(const presil_tensor *t) {
    int64_t e = chip_element_bytes(t->dtype);
    matrix m = {t->data.value,    t->shape[0],      t->shape[1], t->shape[2], t->stride[0] * e,
                t->stride[1] * e, t->stride[2] * e, (uint32_t)e, t->dtype};
    if (m.batch == 1) m.sb = 0;
    if (m.rows == 1) m.sr = 0;
    if (m.columns == 1) m.sc = 0;
    return m;
}

static matrix transposed(matrix m) {
    matrix t = m;
    t.rows = m.columns, t.columns = m.rows, t.sr = m.sc, t.sc = m.sr;
    return t;
}

static int check(const presil_matmul_desc *d, presil_error_buffer *error) {
    const int64_t *a = d->a.shape, *b = d->b.shape, *o = d->out.shape;
    if (d->a.ndim != 3 || d->b.ndim != 3 || d->out.ndim != 3)
        return chip_fail(error, PRESIL_EINVAL, "a, b, out have 3 dimensions, not %u, %u, %u", d->a.ndim, d->b.ndim,
                         d->out.ndim);
    if (a[0] != b[0] || a[0] != o[0] || a[1] != o[1] || a[2] != b[1] || b[2] != o[2]) {
        return chip_fail(error, PRESIL_EINVAL, "[%lld, %lld, %lld] x [%lld, %lld, %lld] is not [%lld, %lld, %lld]",
                         (long long)a[0], (long long)a[1], (long long)a[2], (long long)b[0], (long long)b[1],
                         (long long)b[2], (long long)o[0], (long long)o[1], (long long)o[2]);
    }
    for (int i = 0; i < 2; i++) {
        uint32_t t = i ? d->b.dtype : d->a.dtype;
        bool ok = d->compute == PRESIL_COMPUTE_INT8 ? t == PRESIL_INT8 : chip_float_operand(d->compute, t);
        if (!ok || d->compute > PRESIL_COMPUTE_FP16)
            return chip_fail(error, PRESIL_EINVAL, "dtype %u of %s does not go with compute %u", t, i ? "b" : "a",
                             d->compute);
    }
    if ((d->a.dtype == PRESIL_FP16) != (d->b.dtype == PRESIL_FP16))
        return chip_fail(error, PRESIL_EINVAL, "dtypes %u of a and %u of b: both are fp16, or none", d->a.dtype,
                         d->b.dtype);
    const presil_tensor *r = d->epilogue.residual;
    if (r && (r->ndim != 3 || memcmp(r->shape, o, 3 * sizeof *o)))
        return chip_fail(error, PRESIL_EINVAL, "the residual's shape is not the output's");
    return PRESIL_OK;
}

/* Pixels [rows of a], cells [columns of b]. */
static void fill(const presil_chip *chip, const presil_matmul_desc *d, const matrix *a, const matrix *b,
                 const matrix *out, const matrix *res, chip_problem *p) {
    p->config = &chip->config;
    p->floats = d->compute != PRESIL_COMPUTE_INT8;
    p->fp16 = a->dtype == PRESIL_FP16;
    p->esize = p->floats ? 2 : 1;
    p->block = chip->config.lanes / p->esize;
    p->terms = chip_terms(d->compute, p->fp16);
    p->passes = chip_passes(p->terms);
    p->images = a->batch;
    p->out_h = p->in_h = 1;
    p->out_w = p->in_w = a->rows;
    p->out_c = b->columns;
    p->in_c = a->columns;
    p->stride_y = p->stride_x = p->dilation_y = p->dilation_x = p->input_dilation_y = p->input_dilation_x = 1;
    p->grid_y = p->grid_x = p->kernel_x = p->pack_rows = 1;
    p->blocks = (uint32_t)ceil_div(p->in_c, p->block);
    p->most_blocks = p->blocks ? p->blocks : 1;
    p->split = chip_whole_split(&chip->config, p->out_c);
    p->cell_groups = chip_split_groups(&p->split);
    p->in = (chip_view){a->base, a->sb, 0, a->sr, a->sc, a->esize, a->dtype};
    p->out = (chip_view){out->base, out->sb, 0, out->sr, out->sc, out->esize, out->dtype};
    if (res) p->res = (chip_view){res->base, res->sb, 0, res->sr, res->sc, res->esize, res->dtype};
    p->convert = p->floats && a->dtype == PRESIL_FP32;
    p->wgt_convert = p->floats && b->dtype == PRESIL_FP32;
    p->wgt_base = b->base;
    p->wgt_sn = b->sb, p->wgt_sk = b->sr, p->wgt_so = b->sc;
    p->wgt_esize = b->esize;
    p->wgt_per_image = b->batch > 1 && b->sb != 0;
    if (p->in_c == 1) p->in.sc = p->in.esize, p->wgt_sk = b->esize;
    if (p->out_c == 1) p->out.sc = p->out.esize, p->res.sc = p->res.esize;
    if (p->in.sc == p->in.esize)
        p->act = ACT_DIRECT;
    else if (p->in.sx == p->in.esize || p->in_w == 1)
        p->act = p->in_w == 1 ? ACT_ELEMENTS : ACT_TRANSPOSED;
    else
        p->act = ACT_ELEMENTS;
    p->wgt = p->wgt_sk == b->esize ? WGT_ROWS : p->wgt_so == b->esize || b->columns == 1 ? WGT_COLUMNS : WGT_ELEMENTS;
}

/* Weights load best where they are contiguous one way or the other; activations may lie anyhow. */
static bool weights_fit(const matrix *b) {
    return b->sr == b->esize || b->sc == b->esize || b->rows == 1 || b->columns == 1;
}

int chip_plan_matmul(const presil_chip *chip, const presil_matmul_desc *d, presil_plan **result,
                     presil_error_buffer *error) {
    int status = check(d, error);
    if (status != PRESIL_OK) return status;
    matrix a = matrix_of(&d->a), b = matrix_of(&d->b), out = matrix_of(&d->out), res = {0};
    bool has_res = d->epilogue.residual != NULL;
    if (has_res) res = matrix_of(d->epilogue.residual);
    presil_plan *plan = chip_plan_new(&chip->config, d->label, "matmul");
    if (!plan) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for a plan");
    plan->out = (chip_view){out.base, out.sb, 0, out.sr, out.sc, out.esize, out.dtype};
    const int64_t shape[4] = {out.batch, 1, out.rows, out.columns};
    memcpy(plan->out_shape, shape, sizeof shape);
    plan->macs = (uint64_t)(out.batch * out.rows * out.columns) * (uint64_t)a.columns;
    chip_view va = {a.base, a.sb, 0, a.sr, a.sc, a.esize, a.dtype},
              vb = {b.base, b.sb, 0, b.sr, b.sc, b.esize, b.dtype},
              vr = {res.base, res.sb, 0, res.sr, res.sc, res.esize, res.dtype};
    const chip_view *const views[] = {&va, &vb, &vr};
    const int64_t shapes[3][4] = {
        {a.batch, 1, a.rows, a.columns}, {b.batch, 1, b.rows, b.columns}, {out.batch, 1, out.rows, out.columns}};
    bool empty = out.batch * out.rows * out.columns == 0;
    if (!empty) status = chip_plan_ranges(plan, views, shapes, has_res ? 3 : 2, NULL, 0, error);
    /* The product of the transposes has its output channels where the output is contiguous. */
    bool columns_dense = out.sc == out.esize || out.columns == 1, rows_dense = out.sr == out.esize || out.rows == 1;
    matrix at = transposed(a);
    bool swap = !columns_dense && rows_dense;
    if (swap ? !weights_fit(&at) && weights_fit(&b) : !weights_fit(&b) && weights_fit(&at)) swap = !swap;
    if (swap) {
        matrix bt = transposed(b);
        a = bt, b = at, out = transposed(out), res = transposed(res);
    }
    plan->of = swap ? OF_MATMUL_TURNED : OF_MATMUL;
    chip_problem p;
    memset(&p, 0, sizeof p); /* compared byte by byte: plan/templates.c */
    fill(chip, d, &a, &b, &out, has_res ? &res : NULL, &p);
    plan->passes = p.passes;
    plan->peak = (uint64_t)p.block * chip->config.cells;
    if (status == PRESIL_OK) status = chip_epilogue_template(&p, &d->epilogue, d->out.dtype, false, false, error);
    if (status == PRESIL_OK && empty) {
        chip_builder none = {.config = &chip->config};
        status = chip_plan_from(&none, plan, error);
        chip_builder_free(&none);
    } else if (status == PRESIL_OK) {
        chip_problem_normalise(&p);
        status = chip_problem_check(&p, error);
        if (status == PRESIL_OK) status = chip_solve(&p, d->tiling, plan, error);
    }
    if (status != PRESIL_OK) {
        chip_plan_free(plan);
        return status;
    }
    return chip_plan_done(plan, result, error);
}
