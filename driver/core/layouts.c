/* SPDX-License-Identifier: Apache-2.0 */
/* Which tensors have a block in a layout of the chip's own: decided in program order, as their addresses are. */
#include "layouts.h"
#include "conversions.h"
#include "device.h"
#include "device_memory.h"
#include "presil_heap.h"
#include "queue.h"
#include "residency.h"

#include <stdlib.h>
#include <string.h>

/* ---- tensors and what they cover; op.c has checked that nothing overflows */
static presil_byte_range hull_of(const presil_operand *t, bool *dense) {
    const int64_t bytes = presil_dtype_bits(t->dtype) / 8;
    int64_t low = 0, high = bytes, elements = 1;
    for (uint32_t i = 0; i < t->ndim; i++) {
        const int64_t reach = (t->shape[i] - 1) * t->stride[i] * bytes;
        *(reach < 0 ? &low : &high) += reach;
        elements *= t->shape[i];
    }
    *dense = elements * bytes == high - low;
    return (presil_byte_range){{t->data.value + (uint64_t)low}, (uint64_t)(high - low)};
}

/* Elements that share a place are none of ours to write. */
static bool is_spread(const presil_operand *t) {
    bool dense;
    int64_t elements = presil_dtype_bits(t->dtype) / 8;
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] > 1 && t->stride[i] == 0) return false;
        elements *= t->shape[i];
    }
    return (uint64_t)elements <= hull_of(t, &dense).bytes;
}

static bool is_candidate(const presil_operand *t) {
    if (t->layout || t->ndim == 0 || presil_dtype_bits(t->dtype) % 8) return false;
    for (uint32_t i = 0; i < t->ndim; i++) {
        if (t->shape[i] == 0) return false;
    }
    return true;
}

static bool is_same(const presil_operand *a, const presil_operand *b) {
    if (a->data.value != b->data.value || a->dtype != b->dtype || a->ndim != b->ndim) return false;
    for (uint32_t i = 0; i < a->ndim; i++) {
        if (a->shape[i] != b->shape[i] || (a->shape[i] > 1 && a->stride[i] != b->stride[i])) return false;
    }
    return true;
}

typedef struct {
    const presil_op *op;
    presil_operand *inputs, *outputs;
} operands;

static presil_operand *operand_at(operands *room, uint32_t i) {
    return i < room->op->input_count ? &room->inputs[i] : &room->outputs[i - room->op->input_count];
}

/* What an output shares with another operand that is not the same tensor would be two blocks. */
static bool shares(operands *room) {
    const uint32_t all = room->op->input_count + room->op->output_count;
    bool dense;
    for (uint32_t o = room->op->input_count; o < all; o++) {
        const presil_operand *out = operand_at(room, o);
        if (out->layout || !is_candidate(out)) continue;
        const presil_byte_range own = hull_of(out, &dense);
        for (uint32_t i = 0; i < o; i++) {
            const presil_operand *t = operand_at(room, i);
            if (!is_candidate(t) || is_same(t, out)) continue;
            const presil_byte_range other = hull_of(t, &dense);
            if (own.base.value < other.base.value + other.bytes && other.base.value < own.base.value + own.bytes)
                return true;
        }
    }
    return false;
}

/* ---- the table; with the memory's lock held */
static packed_tensor *find(const presil_device *device, const presil_operand *t, const presil_layout *layout) {
    const uint32_t count = atomic_load_explicit(&device->layouts.count, memory_order_relaxed);
    for (uint32_t i = count; i-- > 0;) {
        packed_tensor *p = device->layouts.at[i];
        if (p->tensor.layout == layout && !atomic_load(&p->freed) && is_same(&p->tensor, t)) return p;
    }
    return NULL;
}

static uint32_t page_of(const presil_device *device, presil_daddr at) {
    return (uint32_t)((at.value - device->memory.base.value) / PRESIL_HEAP_PAGE);
}

static bool is_in_one_block(const presil_device *device, const presil_byte_range *hull) {
    const presil_heap *heap = &device->memory.heap;
    uint32_t page = page_of(device, hull->base);
    while (page > 0 && !heap->first[page]) page--;
    const uint64_t end = device->memory.base.value + ((uint64_t)page + presil_heap_size(heap, page)) * PRESIL_HEAP_PAGE;
    return !presil_memory_is_own(device, page) && hull->base.value + hull->bytes <= end;
}

static packed_tensor *add(presil_device *device, const presil_operand *t, const presil_layout *layout, uint64_t bytes) {
    device_layouts *l = &device->layouts;
    const uint32_t count = atomic_load(&l->count);
    bool dense;
    uint32_t page = 0;
    const presil_byte_range hull = hull_of(t, &dense);
    if (!l->at) l->at = calloc(MOST_PACKED, sizeof(packed_tensor *));
    if (!l->at || count == MOST_PACKED || !is_in_one_block(device, &hull)) return NULL;
    packed_tensor *p = calloc(1, sizeof *p);
    const uint64_t pages = (bytes - 1) / PRESIL_HEAP_PAGE + 1;
    presil_heap *heap = &device->memory.heap;
    if (!p || presil_memory_is_beyond(device, pages) || presil_heap_alloc(heap, 0, pages, &page)) {
        free(p);
        return NULL;
    }
    presil_heap_note_request(heap, page, bytes);
    if (device->residency.owned) presil_residency_owned(device, page, pages);
    *p = (packed_tensor){.tensor = *t, .hull = hull, .dense = dense, .bytes = bytes};
    atomic_init(&p->references, 1);
    p->tensor.layout = layout;
    p->block.value = device->memory.base.value + (uint64_t)page * PRESIL_HEAP_PAGE;
    l->at[count] = p;
    atomic_store_explicit(&l->count, count + 1, memory_order_release);
    return p;
}

static void give_back(presil_device *device, packed_tensor *p) {
    const uint32_t page = page_of(device, p->block);
    atomic_store(&p->freed, 1 + atomic_load(&device->queue.submitted));
    (void)atomic_fetch_add(&device->layouts.freed, 1);
    if (device->residency.owned) presil_residency_owned(device, page, presil_heap_size(&device->memory.heap, page));
    (void)presil_heap_free(&device->memory.heap, page);
}

void presil_layouts_freed(presil_device *device, uint32_t page, uint64_t pages) {
    const uint64_t from = device->memory.base.value + (uint64_t)page * PRESIL_HEAP_PAGE;
    const uint32_t count = atomic_load(&device->layouts.count);
    for (uint32_t i = 0; i < count; i++) {
        packed_tensor *p = device->layouts.at[i];
        if (p->hull.base.value - from >= pages * PRESIL_HEAP_PAGE || atomic_load(&p->freed)) continue;
        p->orphan = p->kept > 0;
        if (!p->orphan) give_back(device, p);
    }
}

bool presil_layouts_owns(const presil_device *device, presil_daddr address) {
    const uint32_t count = atomic_load(&device->layouts.count);
    for (uint32_t i = 0; i < count; i++) {
        const packed_tensor *p = device->layouts.at[i];
        if (p->block.value == address.value && !atomic_load(&p->freed)) return true;
    }
    return false;
}

/* ---- operators */
static packed_tensor *block_for(presil_device *device, const presil_operand *t, const presil_layout *layout,
                                uint64_t bytes) {
    (void)pthread_mutex_lock(&device->memory.lock);
    packed_tensor *p = find(device, t, layout);
    if (!p) p = add(device, t, layout, bytes);
    if (p) p->orphan = false;
    if (p) (void)atomic_fetch_add(&p->references, 1);
    (void)pthread_mutex_unlock(&device->memory.lock);
    return p;
}

static void drop(packed_tensor *p) {
    if (atomic_fetch_sub(&p->references, 1) == 1) free(p);
}

static void note_use(launch_layouts *uses, packed_tensor *p, bool written) {
    for (uint32_t i = 0; i < uses->count; i++) {
        if (uses->at[i].tensor != p) continue;
        drop(p);
        *(written ? &uses->at[i].written : &uses->at[i].read) = true;
        return;
    }
    uses->at[uses->count++] = (packed_use){p, !written, written};
}

static launch_layouts *choose(presil_device *device, operands *room) {
    const presil_chip_ops *chip = device->chip_ops;
    const uint32_t inputs = room->op->input_count, all = inputs + room->op->output_count;
    const presil_layout *wanted[PRESIL_OP_INPUTS + PRESIL_OP_OUTPUTS] = {NULL};
    uint64_t bytes[PRESIL_OP_INPUTS + PRESIL_OP_OUTPUTS] = {0};
    bool any = false;
    for (uint32_t i = 0; i < all; i++) {
        const presil_operand *t = operand_at(room, i);
        if (!is_candidate(t) || (i >= inputs && !is_spread(t)) ||
            chip->activation(device->chip, room->op, t, &wanted[i], &bytes[i]) || !bytes[i])
            wanted[i] = NULL;
        any = any || wanted[i];
    }
    if (!any || shares(room)) return NULL;
    launch_layouts *uses = malloc(sizeof *uses);
    if (!uses) return NULL;
    uses->count = 0;
    if (atomic_load(&device->layouts.count) + all > MOST_PACKED) (void)presil_layouts_release(device);
    for (uint32_t i = 0; i < all; i++) {
        presil_operand *t = operand_at(room, i);
        packed_tensor *p = wanted[i] ? block_for(device, t, wanted[i], bytes[i]) : NULL;
        if (!p) continue;
        t->layout = wanted[i];
        t->data = p->block;
        note_use(uses, p, i >= inputs);
    }
    if (uses->count) return uses;
    presil_layouts_drop(uses);
    return NULL;
}

launch_layouts *presil_layouts_choose(presil_device *device, const presil_op *op, presil_operand *inputs,
                                      presil_operand *outputs) {
    return choose(device, &(operands){op, inputs, outputs});
}

void presil_layouts_undo(const presil_op *op, presil_operand *inputs, presil_operand *outputs, launch_layouts *uses) {
    operands *room = &(operands){op, inputs, outputs};
    const uint32_t all = op->input_count + op->output_count;
    for (uint32_t i = 0; i < all; i++) {
        presil_operand *t = operand_at(room, i);
        for (uint32_t k = 0; t->layout && k < uses->count; k++) {
            const packed_tensor *p = uses->at[k].tensor;
            if (t->layout != p->tensor.layout || t->data.value != p->block.value) continue;
            t->data = p->tensor.data;
            t->layout = NULL;
        }
    }
    presil_layouts_drop(uses);
}

void presil_layouts_drop(launch_layouts *uses) {
    for (uint32_t i = 0; uses && i < uses->count; i++) drop(uses->at[i].tensor);
    free(uses);
}

/* ---- recorded lists */
void presil_layouts_keep(presil_device *device, launch_layouts *uses) {
    (void)pthread_mutex_lock(&device->memory.lock);
    for (uint32_t i = 0; uses && i < uses->count; i++) uses->at[i].tensor->kept++;
    (void)pthread_mutex_unlock(&device->memory.lock);
}

void presil_layouts_unkeep(presil_device *device, launch_layouts *uses) {
    if (!uses) return;
    (void)pthread_mutex_lock(&device->memory.lock);
    for (uint32_t i = 0; i < uses->count; i++) {
        packed_tensor *p = uses->at[i].tensor;
        if (--p->kept == 0 && p->orphan && !atomic_load(&p->freed)) give_back(device, p);
    }
    (void)pthread_mutex_unlock(&device->memory.lock);
    presil_layouts_drop(uses);
}

/* ---- all of them */
/* Nothing is queued: what has more references than the table's is of an operator that another thread plans, and stays
 * its; so does what a list keeps, but at the end. */
static void give_all_back(presil_device *device, bool closing) {
    (void)pthread_mutex_lock(&device->memory.lock);
    const uint32_t count = atomic_load(&device->layouts.count);
    for (uint32_t i = 0; i < count; i++) {
        packed_tensor *p = device->layouts.at[i];
        if (!atomic_load(&p->freed) && (closing || atomic_load(&p->references) == 1)) give_back(device, p);
    }
    (void)pthread_mutex_unlock(&device->memory.lock);
    presil_layouts_sweep(device, true);
}

int presil_layouts_release(presil_device *device) {
    if (!atomic_load(&device->layouts.count)) return PRESIL_OK;
    int status = presil_exclusive_begin(device);
    if (status) return status;
    device->residency.seq = UINT64_MAX;
    status = presil_layouts_bring_all(device);
    if (!status) give_all_back(device, false);
    presil_exclusive_end(device);
    return status;
}

void presil_layouts_close(presil_device *device) {
    if (device->layouts.at) give_all_back(device, true);
    free(device->layouts.at);
    device->layouts.at = NULL;
    atomic_store(&device->layouts.count, 0);
}

void presil_layouts_told(presil_device *device) {
    if (atomic_load_explicit(&device->layouts.count, memory_order_relaxed))
        (void)atomic_fetch_add(&device->layouts.told, 1);
}
