/* SPDX-License-Identifier: Apache-2.0 */
/* Elements that only change their place: copies, and what an index names. */
#include "job.h"

#include <string.h>

static int begin(job *j, const elements **x) {
    int status = job_input(j, "input", 0, x);
    if (!status && (*x)->operand->dtype != j->out->dtype)
        status = job_fail(j, PRESIL_EINVAL, "input and output have different dtypes");
    return status ? status : job_results(j, (*x)->integers != NULL);
}

static void move(const job *j, int64_t to, const elements *x, int64_t from) {
    if (x->integers)
        j->result->integers[to] = x->integers[from];
    else
        put_real(j, to, x->reals[from], 0);
}

int reference_copy(job *j) {
    const elements *x;
    int status = begin(j, &x);
    if (!status && x->operand->ndim != j->out->ndim)
        status = job_fail(j, PRESIL_EINVAL, "input and output have different shapes");
    for (uint32_t i = 0; i < j->out->ndim && !status; i++) status = job_expect(j, j->out, i, x->operand->shape[i]);
    for (int64_t i = 0; !status && i < j->result->count; i++) move(j, i, x, i);
    return status;
}

/* Where index stands element by element beside the output (torch.gather), or in place of a dimension of the input
 * (torch.index_select, embeddings). */
static bool beside(const job *j, const presil_operand *x, const presil_operand *index) {
    return x->ndim == index->ndim && index->ndim == j->out->ndim &&
           memcmp(index->shape, j->out->shape, index->ndim * sizeof *index->shape) == 0;
}

static int check_shapes(const job *j, const presil_operand *x, const presil_operand *index, uint32_t dim) {
    if (beside(j, x, index)) return PRESIL_OK;
    if (j->out->ndim + 1 != x->ndim + index->ndim)
        return job_fail(j, PRESIL_EINVAL, "an output of %u dimensions from %u, by an index of %u", j->out->ndim,
                        x->ndim, index->ndim);
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < j->out->ndim && !status; i++)
        status = job_expect(j, j->out, i,
                            i < dim                 ? x->shape[i]
                            : i < dim + index->ndim ? index->shape[i - dim]
                                                    : x->shape[i - index->ndim + 1]);
    return status;
}

int reference_gather(job *j) {
    const elements *x, *index;
    int status = begin(j, &x);
    if (!status) status = job_input(j, "index", 0, &index);
    if (status) return status;
    const presil_operand *from = x->operand;
    int64_t dim = job_integer(j, "dim", 0);
    if (dim < 0) dim += from->ndim;
    if (!index->integers || dim < 0 || dim >= from->ndim)
        return job_fail(j, PRESIL_EINVAL, "dimension %lld of %u, by an index of dtype %u", (long long)dim, from->ndim,
                        index->operand->dtype);
    status = check_shapes(j, from, index->operand, (uint32_t)dim);
    const bool each = beside(j, from, index->operand);
    for (int64_t number = 0; !status && number < j->result->count; number++) {
        int64_t out[PRESIL_OP_DIMS] = {0}, at[PRESIL_OP_DIMS] = {0};
        coordinate_of(j->out->shape, j->out->ndim, number, out);
        const uint32_t wide = each ? 1 : index->operand->ndim;
        const int64_t place = each ? number : number_of(index->operand->shape, wide, &out[dim]);
        for (uint32_t i = 0; i < from->ndim; i++) at[i] = i < dim ? out[i] : i > dim ? out[i + wide - 1] : 0;
        at[dim] = index->integers[place];
        if (at[dim] < 0 || at[dim] >= from->shape[dim])
            return job_fail(j, PRESIL_EINVAL, "index %lld of %lld", (long long)at[dim], (long long)from->shape[dim]);
        if (each) {
            for (uint32_t i = 0; i < from->ndim; i++) {
                if (at[i] >= from->shape[i])
                    return job_fail(j, PRESIL_EINVAL, "index has more rows than input in dimension %u", i);
            }
        }
        move(j, number, x, number_of(from->shape, from->ndim, at));
    }
    return status;
}
