/* SPDX-License-Identifier: Apache-2.0 */
/* From an address to a tensor's coordinate, by shape and strides alone. */
#include "format.h"

#include <stdio.h>
#include <string.h>

enum { MOST_DIMENSIONS = 16 };

static uint64_t magnitude(int64_t v) { return v < 0 ? 0 - (uint64_t)v : (uint64_t)v; }

/* Takes dimensions from the largest stride down; that finds every element of a tensor whose dimensions don't
 * interleave, and what it finds is the element. A dimension that runs backwards is counted from its end: `element` is
 * relative to the lowest address, and turned round in the end. */
static bool find(const presil_bundle_tensor *t, uint64_t element, int64_t *at) {
    bool done[MOST_DIMENSIONS] = {false};
    for (uint32_t n = 0; n < t->ndim; n++) {
        uint32_t best = MOST_DIMENSIONS;
        for (uint32_t i = 0; i < t->ndim; i++) {
            if (!done[i] && (best == MOST_DIMENSIONS || magnitude(t->stride[i]) > magnitude(t->stride[best]))) best = i;
        }
        done[best] = true;
        const uint64_t stride = magnitude(t->stride[best]), last = (uint64_t)t->shape[best] - 1;
        uint64_t index = stride ? element / stride : 0;
        if (index > last) index = last;
        element -= index * stride;
        at[best] = (int64_t)(t->stride[best] < 0 ? last - index : index);
    }
    return element == 0;
}

/* The address of the element that lies lowest. False: the tensor has no element, or no sane place. */
static bool lowest(const presil_bundle_tensor *t, uint64_t *address) {
    *address = t->data.value;
    for (uint32_t i = 0; i < t->ndim; i++) {
        uint64_t back;
        if (t->shape[i] <= 0) return false;
        if (t->stride[i] >= 0) continue;
        if (__builtin_mul_overflow((uint64_t)t->shape[i] - 1, magnitude(t->stride[i]), &back) ||
            __builtin_mul_overflow(back, t->element_bytes, &back) || back > *address)
            return false;
        *address -= back;
    }
    return true;
}

static void print(const presil_bundle_tensor *t, const int64_t *at, uint64_t byte, char *text, size_t bytes) {
    int used = snprintf(text, bytes, "%s [", t->name ? t->name : "");
    for (uint32_t i = 0; i < t->ndim && used >= 0 && (size_t)used < bytes; i++) {
        const int more = snprintf(text + used, bytes - (size_t)used, "%s%lld", i ? ", " : "", (long long)at[i]);
        used = more < 0 ? more : used + more;
    }
    if (used < 0 || (size_t)used >= bytes) return;
    if (t->element_bytes > 1)
        (void)snprintf(text + used, bytes - (size_t)used, "], byte %llu", (unsigned long long)byte);
    else
        (void)snprintf(text + used, bytes - (size_t)used, "]");
}

void presil_bundle_coordinate(const presil_bundle_launch *launch, presil_daddr address, char *text, size_t bytes) {
    if (!bytes) return;
    *text = 0;
    for (uint32_t written = 2; written-- > 0;) {
        for (uint32_t i = 0; i < launch->tensor_count; i++) {
            const presil_bundle_tensor *t = &launch->tensors[i];
            int64_t at[MOST_DIMENSIONS] = {0};
            uint64_t low;
            if ((t->written != 0) != written || !t->element_bytes || t->ndim > MOST_DIMENSIONS || !lowest(t, &low) ||
                address.value < low)
                continue;
            const uint64_t offset = address.value - low;
            if (!find(t, offset / t->element_bytes, at)) continue;
            print(t, at, offset % t->element_bytes, text, bytes);
            return;
        }
    }
}
