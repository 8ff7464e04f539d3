/* SPDX-License-Identifier: Apache-2.0 */
/* Plans: choosing a tiling, and where in the output an address lies. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "plan.h"

enum {
    SIMULATED = 100,
    SIMULATED_COMMANDS = 60000,
    FORCED = 1024,
    REMEMBERED = 512,
    WANTED_EDGES = 700,
    EARLY = 2
}; /* WANTED_EDGES: cycles of fill and drain that cost nothing extra. EARLY: ways to begin a depthwise launch, 0 and 1
    * for tiling.early: a first sum of one row waits least, but reads the window's other rows once more */

presil_plan *chip_plan_new(const presil_config *config, const char *label, const char *default_label) {
    presil_plan *plan = calloc(1, sizeof *plan);
    if (!plan) return NULL;
    plan->config = *config;
    plan->passes = 1;
    plan->segments = 1;
    const char *name = label ? label : default_label; /* snprintf would be a tenth of a warm plan */
    memcpy(plan->label, name, strnlen(name, sizeof plan->label - 1));
    return plan;
}

void chip_plan_free(presil_plan *plan) {
    if (!plan) return;
    chip_plan_drop_commands(plan);
    free(plan->reads);
    free(plan->writes);
    free(plan->boxes);
    free(plan->parts);
    free(plan);
}

int chip_plan_info(const presil_plan *plan, presil_plan_info *out) {
    const presil_plan_info own = {.label = plan->label,
                                  .macs = plan->macs,
                                  .passes = plan->passes,
                                  .peak_macs_per_cycle = plan->peak,
                                  .descriptors = plan->count,
                                  .signature = plan->signature,
                                  .estimate = plan->estimate,
                                  .segments = plan->segments,
                                  .reads = plan->reads,
                                  .writes = plan->writes,
                                  .read_count = plan->read_count,
                                  .write_count = plan->write_count,
                                  .write_boxes = plan->boxes,
                                  .write_box_count = plan->box_count};
    presil_give(out, &own, sizeof own);
    return PRESIL_OK;
}

/* ---- the choice, remembered by the shape of the problem ------------------------------------- */
static struct {
    uint64_t key;
    chip_tiling tiling;
} remembered[REMEMBERED];
static pthread_mutex_t remembered_lock = PTHREAD_MUTEX_INITIALIZER;

/* Everything that a tiling depends on: the shape, the strides, not the addresses. Never 0. */
static uint64_t shape_key(const chip_problem *p) {
    const int64_t v[] = {p->config->hash,
                         p->floats,
                         p->convert,
                         p->absent,
                         p->passes,
                         p->images,
                         p->out_h,
                         p->out_w,
                         p->out_c,
                         p->in_h,
                         p->in_w,
                         p->in_c,
                         p->stride_y,
                         p->stride_x,
                         p->pad_y,
                         p->pad_x,
                         p->dilation_y,
                         p->dilation_x,
                         p->input_dilation_y,
                         p->input_dilation_x,
                         p->grid_y,
                         p->grid_x,
                         p->blocks,
                         p->kernel_x,
                         p->pack_rows,
                         p->runs,
                         p->phased,
                         p->act,
                         p->wgt,
                         p->has_res,
                         p->wgt_per_image,
                         p->wgt_convert,
                         p->wgt_esize,
                         p->out_esize,
                         p->res_esize,
                         p->param_words,
                         p->in.sn,
                         p->in.sy,
                         p->in.sx,
                         p->in.sc,
                         p->in.esize,
                         p->out.sn,
                         p->out.sy,
                         p->out.sx,
                         p->out.sc,
                         p->res.sn,
                         p->res.sy,
                         p->res.sx,
                         p->res.sc,
                         p->wgt_sn,
                         p->wgt_so,
                         p->wgt_sk,
                         p->wgt_sy,
                         p->wgt_sx,
                         p->wgt_sg,
                         p->layout ? p->layout->groups : 0,
                         p->lane.count,
                         p->lane.stride,
                         p->lane.dilation,
                         p->lane.pad,
                         p->lane.size,
                         p->lane.act,
                         p->lane.wgt,
                         p->lane.axis,
                         p->inner.count,
                         p->inner.stride,
                         p->inner.dilation,
                         p->inner.pad,
                         p->inner.size,
                         p->outer.count,
                         p->outer.stride,
                         p->outer.dilation,
                         p->outer.pad,
                         p->outer.size,
                         p->kernel_w,
                         p->depthwise,
                         p->pieces_y.stride,
                         p->pieces_y.single,
                         p->pieces_x.stride,
                         p->pieces_x.single};
    uint64_t h = 1;
    for (size_t i = 0; i < sizeof v / sizeof *v; i++) h = chip_mix(h, (uint64_t)v[i]);
    for (uint32_t i = 0; i < p->runs; i++) h = chip_mix(h, (uint64_t)p->run[i].rows << 32 | p->run[i].blocks);
    return h ? h : 1;
}

static bool recall(uint64_t key, chip_tiling *out) {
    pthread_mutex_lock(&remembered_lock);
    bool hit = remembered[key % REMEMBERED].key == key;
    if (hit) *out = remembered[key % REMEMBERED].tiling;
    pthread_mutex_unlock(&remembered_lock);
    return hit;
}

static void remember(uint64_t key, const chip_tiling *tiling) {
    pthread_mutex_lock(&remembered_lock);
    remembered[key % REMEMBERED].key = key;
    remembered[key % REMEMBERED].tiling = *tiling;
    pthread_mutex_unlock(&remembered_lock);
}

static int choose(const chip_problem *p, chip_tiling *out, presil_error_buffer *error) {
    chip_tiling list[SIMULATED];
    uint32_t count;
    uint64_t best = UINT64_MAX;
    size_t emitted = 0;
    int status = chip_tilings(p, list, SIMULATED, &count, error);
    if (status != PRESIL_OK) return status;
    const uint32_t ways = p->depthwise ? EARLY : 1;
    for (uint32_t i = 0; i < count * ways; i++) {
        chip_builder b = {.config = p->config};
        chip_tiling tiling = list[i / ways];
        tiling.early = i % ways;
        status = chip_nest(p, &tiling, &b, error);
        uint64_t edges = 0,
                 cycles = status == PRESIL_OK && !b.failed ? chip_builder_time(&b, NULL, &edges) : UINT64_MAX;
        if (cycles != UINT64_MAX && edges > WANTED_EDGES) cycles += (edges - WANTED_EDGES) / 2;
        emitted += b.count;
        chip_builder_free(&b);
        if (cycles < best) best = cycles, *out = tiling;
        if (emitted > SIMULATED_COMMANDS * ways && best != UINT64_MAX)
            break; /* long lists differ little: the estimate decides */
    }
    return best == UINT64_MAX
               ? status != PRESIL_OK ? status : chip_fail(error, PRESIL_EHOSTMEM, "no host memory to plan")
               : PRESIL_OK;
}

/* The n-th of tilings spread over all that are legal. */
static int force(const chip_problem *p, uint32_t n, chip_tiling *out, presil_error_buffer *error) {
    chip_tiling *list = malloc(FORCED * sizeof *list);
    if (!list) return chip_fail(error, PRESIL_EHOSTMEM, "no host memory for tilings");
    uint32_t count;
    int status = chip_tilings(p, list, FORCED, &count, error);
    if (status == PRESIL_OK) *out = list[(uint64_t)n * (count > 8 ? count / 7 : 1) % count];
    free(list);
    return status;
}

static int make(const chip_problem *p, uint32_t forced, presil_plan *plan, presil_error_buffer *error) {
    chip_tiling tiling;
    uint64_t key = shape_key(p);
    int status = PRESIL_OK;
    if (forced) {
        status = force(p, forced, &tiling, error);
    } else if (!recall(key, &tiling)) {
        status = choose(p, &tiling, error);
        if (status == PRESIL_OK) remember(key, &tiling);
    }
    if (status != PRESIL_OK) return status;
    chip_builder b = {.config = p->config};
    status = chip_nest(p, &tiling, &b, error);
    if (status == PRESIL_OK) status = chip_plan_from(&b, plan, error);
    chip_builder_free(&b);
    plan->tiling = tiling;
    return status;
}

int chip_solve(const chip_problem *p, uint32_t forced, presil_plan *plan, presil_error_buffer *error) {
    int status = PRESIL_OK;
    if (forced || !chip_template_recall(p, plan)) {
        status = make(p, forced, plan, error);
        if (status == PRESIL_OK && !forced) chip_template_remember(p, plan);
    }
    return status;
}

/* ---- describe ------------------------------------------------------------------------------- */
static bool store_covers(const presil_plan *plan, size_t n, uint64_t address) {
    const presil_desc *d = &plan->list[n];
    if (presil_desc_opcode(d) != PRESIL_OPCODE_STORE) return false;
    uint64_t base = chip_address(d) + chip_shift(plan, n),
             row = (uint64_t)presil_store_n0(d) * presil_store_chunk_bytes(d);
    for (uint32_t i3 = 0; i3 < presil_store_n3(d); i3++) {
        for (uint32_t i2 = 0; i2 < presil_store_n2(d); i2++) {
            int64_t at = (int64_t)i3 * chip_stride(d, 3) + (int64_t)i2 * chip_stride(d, 2), step = chip_stride(d, 1);
            for (uint32_t i1 = 0; i1 < presil_store_n1(d); i1++) {
                if (address - (base + (uint64_t)(at + (int64_t)i1 * step)) < row) return true;
            }
        }
    }
    return false;
}

/* Index of the element at `offset` bytes of the output; false: between elements. */
static bool find_element(const chip_part *part, int64_t offset, int64_t index[4]) {
    const int64_t stride[4] = {part->out.sn, part->out.sy, part->out.sx, part->out.sc};
    int order[4] = {0, 1, 2, 3};
    for (int i = 0; i < 4; i++) index[i] = 0;
    for (int i = 0; i < 4; i++) {
        for (int k = i + 1; k < 4; k++) {
            int64_t a = stride[order[i]] < 0 ? -stride[order[i]] : stride[order[i]],
                    b = stride[order[k]] < 0 ? -stride[order[k]] : stride[order[k]];
            if (b > a) {
                int swap = order[i];
                order[i] = order[k];
                order[k] = swap;
            }
        }
    }
    for (int i = 0; i < 4; i++) { /* from the lowest address of the view */
        if (part->out_shape[i] > 1 && stride[i] < 0) offset -= (part->out_shape[i] - 1) * stride[i];
    }
    for (int i = 0; i < 4; i++) {
        int k = order[i];
        int64_t s = stride[k] < 0 ? -stride[k] : stride[k];
        if (part->out_shape[k] <= 1 || s == 0) continue;
        int64_t at = offset / s;
        if (offset < 0 || at >= part->out_shape[k]) return false;
        offset -= at * s;
        index[k] = stride[k] < 0 ? part->out_shape[k] - 1 - at : at;
    }
    return offset >= 0 && offset < part->out.esize;
}

/* A merged plan may reuse memory: the last operator that wrote the address is the one to blame. */
static bool find_part(const presil_plan *plan, uint64_t address, chip_part *out, int64_t index[4]) {
    if (plan->write_count + plan->box_count && !plan->parts) {
        *out = (chip_part){.out = plan->out, .end = plan->count};
        memcpy(out->out_shape, plan->out_shape, sizeof out->out_shape);
        return find_element(out, (int64_t)(address - plan->out.base), index);
    }
    for (uint32_t i = plan->part_count; i-- > 0;) {
        *out = plan->parts[i];
        if (find_element(out, (int64_t)(address - out->out.base), index)) return true;
    }
    return false;
}

int chip_plan_describe(const presil_plan *plan, presil_daddr address, char *text, size_t bytes) {
    int64_t index[4];
    chip_part part;
    if (chip_describe_observed(plan, address.value, text, bytes)) return PRESIL_OK;
    if (!plan->out.esize && !plan->parts) { /* read back from an image, which has commands and no tensors */
        size_t at = 0;
        while (at < plan->count && !store_covers(plan, at, address.value)) at++;
        if (at < plan->count) {
            const size_t added = at >= plan->observed.first ? plan->observed.before : 0;
            (void)snprintf(text, bytes, "tile %u, descriptor %zu (STORE)", presil_desc_tag(&plan->list[at]),
                           at - added);
            return PRESIL_OK;
        }
    }
    if (!find_part(plan, address.value, &part, index)) {
        return chip_fail(&(presil_error_buffer){text, bytes}, PRESIL_EINVAL, "0x%llx is no element of the output",
                         (unsigned long long)address.value);
    }
    size_t k = part.first;
    while (k < part.end && !store_covers(plan, k, address.value)) k++;
    int used = snprintf(text, bytes, "%s%soutput [%lld, %lld, %lld, %lld]", part.label, *part.label ? ": " : "",
                        (long long)index[0], (long long)index[1], (long long)index[2], (long long)index[3]);
    if (k < part.end && used > 0 && (size_t)used < bytes)
        (void)snprintf(text + used, bytes - (size_t)used, ", tile %u, descriptor %zu (STORE)",
                       presil_desc_tag(&plan->list[k]), k);
    return PRESIL_OK;
}
