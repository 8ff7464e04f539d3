/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan reads and writes: reads from the first byte of a tensor to its last; writes exactly, an output with gaps
 * as a box of rows. */
#include <stdlib.h>
#include "plan.h"

enum { DIMS = 4 };

/* The bytes of a view, upwards: dimensions that touch are one. false: it has none. */
static bool box_of(const chip_view *v, const int64_t shape[DIMS], presil_box *box) {
    const int64_t strides[DIMS] = {v->sc, v->sx, v->sy, v->sn};
    struct {
        int64_t n, stride;
    } dim[DIMS];
    int dims = 0;
    *box = (presil_box){.base = {v->base}, .bytes = v->esize};
    for (int i = 0; i < DIMS; i++) {
        const int64_t n = shape[DIMS - 1 - i], stride = strides[i];
        if (n == 0) return false;
        if (n == 1 || stride == 0) continue;
        if (stride < 0) box->base.value += (uint64_t)((n - 1) * stride); /* the same bytes, walked upwards */
        const int64_t step = stride < 0 ? -stride : stride;
        int at = dims++;
        for (; at > 0 && dim[at - 1].stride > step; at--) dim[at] = dim[at - 1];
        dim[at].n = n, dim[at].stride = step;
    }
    for (int i = 0; i < dims; i++) {
        if (box->dims == 0 && (uint64_t)dim[i].stride <= box->bytes) {
            box->bytes += (uint64_t)((dim[i].n - 1) * dim[i].stride);
        } else {
            box->count[box->dims] = (uint64_t)dim[i].n;
            box->stride[box->dims++] = (uint64_t)dim[i].stride;
        }
    }
    return true;
}

static presil_byte_range hull_of(const presil_box *box) {
    presil_byte_range hull = {box->base, box->bytes};
    for (uint32_t i = 0; i < box->dims; i++) hull.bytes += (box->count[i] - 1) * box->stride[i];
    return hull;
}

static bool set_reads(presil_plan *plan, const chip_view *const *views, const int64_t (*shapes)[DIMS], uint32_t count,
                      const presil_byte_range *extra, uint32_t extra_count) {
    size_t n = 0;
    presil_box box;
    plan->reads = malloc((count + extra_count + 1) * sizeof *plan->reads);
    if (!plan->reads) return false;
    for (uint32_t i = 0; i < count; i++) {
        if (box_of(views[i], shapes[i], &box)) plan->reads[n++] = hull_of(&box);
    }
    for (uint32_t i = 0; i < extra_count; i++) {
        if (extra[i].bytes) plan->reads[n++] = extra[i];
    }
    plan->read_count = (uint32_t)presil_merge_ranges(plan->reads, n);
    return true;
}

static bool set_writes(presil_plan *plan) {
    presil_box box;
    if (!box_of(&plan->out, plan->out_shape, &box)) return true;
    if (box.dims) {
        plan->boxes = malloc(sizeof *plan->boxes);
        if (plan->boxes) plan->boxes[plan->box_count++] = box;
        return plan->boxes;
    }
    plan->writes = malloc(sizeof *plan->writes);
    if (plan->writes) plan->writes[plan->write_count++] = (presil_byte_range){box.base, box.bytes};
    return plan->writes;
}

int chip_plan_ranges(presil_plan *plan, const chip_view *const *reads, const int64_t (*read_shapes)[DIMS],
                     uint32_t count, const presil_byte_range *extra, uint32_t extra_count, presil_error_buffer *error) {
    return set_reads(plan, reads, read_shapes, count, extra, extra_count) && set_writes(plan)
               ? PRESIL_OK
               : chip_fail(error, PRESIL_EHOSTMEM, "no host memory for the ranges of a plan");
}

/* ---- for who has to know each byte */
static size_t rows_of(const presil_box *box) {
    size_t rows = 1;
    for (uint32_t i = 0; i < box->dims; i++) rows *= box->count[i];
    return rows;
}

presil_byte_range *chip_plan_written(const presil_plan *plan, uint32_t *count) {
    size_t n = plan->write_count;
    for (uint32_t b = 0; b < plan->box_count; b++) n += rows_of(&plan->boxes[b]);
    presil_byte_range *list = malloc((n + 1) * sizeof *list);
    if (!list) return NULL;
    n = 0;
    for (uint32_t i = 0; i < plan->write_count; i++) list[n++] = plan->writes[i];
    for (uint32_t b = 0; b < plan->box_count; b++) {
        const presil_box *box = &plan->boxes[b];
        for (size_t row = 0, rows = rows_of(box); row < rows; row++) {
            uint64_t rest = row, at = box->base.value;
            for (uint32_t i = 0; i < box->dims; rest /= box->count[i++]) at += rest % box->count[i] * box->stride[i];
            list[n++] = (presil_byte_range){{at}, box->bytes};
        }
    }
    *count = (uint32_t)presil_merge_ranges(list, n);
    return list;
}
