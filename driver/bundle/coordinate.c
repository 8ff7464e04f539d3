/* SPDX-License-Identifier: Apache-2.0 */
/* From an address to a tensor's coordinate, by shape and strides alone. */
#include "format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_DIMENSIONS = 16 };

static uint64_t magnitude(int64_t v) { return v < 0 ? 0 - (uint64_t)v : (uint64_t)v; }

/* Takes dimensions from the largest stride down; that finds every element of a tensor whose dimensions don't
 * interleave, and what it finds is the element. A dimension that runs backwards is counted from its end: `element` is
 * relative to the lowest one, and turned round in the end. */
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

/* How many elements lie below the first one. False: the tensor has no element, or no sane place. */
static bool count_below(const presil_bundle_tensor *t, uint64_t *elements) {
    *elements = 0;
    for (uint32_t i = 0; i < t->ndim; i++) {
        uint64_t back;
        if (t->shape[i] <= 0) return false;
        if (t->stride[i] >= 0) continue;
        if (__builtin_mul_overflow((uint64_t)t->shape[i] - 1, magnitude(t->stride[i]), &back) ||
            __builtin_add_overflow(*elements, back, elements))
            return false;
    }
    return true;
}

typedef struct {
    const presil_bundle_tensor *tensor;
    uint64_t element, byte; /* element: from the lowest one; byte: of it */
    uint32_t count;         /* of elements that share the byte */
} place;

/* The elements that have a byte at this address, if they are the tensor's. */
static bool place_of(const presil_bundle_tensor *t, uint64_t address, place *out) {
    uint64_t below, bytes;
    const uint64_t shared = t->element_bits == 4 ? 2 : 1, size = shared == 2 ? 1 : t->element_bytes;
    if (!size || t->ndim > MOST_DIMENSIONS || !count_below(t, &below)) return false;
    const uint64_t units = below / shared + below % shared; /* of `size` bytes */
    if (__builtin_mul_overflow(units, size, &bytes) || bytes > t->data.value || address < t->data.value - bytes)
        return false;
    const uint64_t offset = address - (t->data.value - bytes), gap = units * shared - below;
    *out = (place){t, offset / size * shared, offset % size, (uint32_t)shared};
    if (out->element < gap) { /* half of the lowest byte is not the tensor's */
        out->count -= (uint32_t)gap;
        out->element = gap;
    }
    out->element -= gap;
    return true;
}

/* Appends what snprintf says; false: no room is left. */
__attribute__((format(printf, 4, 5))) static bool append(char *text, size_t bytes, size_t *used, const char *format,
                                                         ...) {
    va_list args;
    va_start(args, format);
    const int more = vsnprintf(text + *used, bytes - *used, format, args);
    va_end(args);
    if (more < 0 || (size_t)more >= bytes - *used) return false;
    *used += (size_t)more;
    return true;
}

static bool print_at(const presil_bundle_tensor *t, const int64_t *at, char *text, size_t bytes, size_t *used) {
    bool room = append(text, bytes, used, "[");
    for (uint32_t i = 0; i < t->ndim && room; i++)
        room = append(text, bytes, used, "%s%lld", i ? ", " : "", (long long)at[i]);
    return room && append(text, bytes, used, "]");
}

/* "output [0, 3], byte 1"; two that share a byte: "output [0, 2] or [0, 3]". False: none of them is the tensor's. */
static bool print(const place *p, char *text, size_t bytes) {
    bool any = false;
    size_t used = 0;
    for (uint32_t i = 0; i < p->count; i++) {
        int64_t at[MOST_DIMENSIONS] = {0};
        if (!find(p->tensor, p->element + i, at)) continue;
        const char *name = p->tensor->name ? p->tensor->name : "";
        if (!append(text, bytes, &used, "%s ", any ? " or" : name) || !print_at(p->tensor, at, text, bytes, &used))
            return true;
        any = true;
    }
    if (any && p->tensor->element_bytes > 1 && p->count == 1)
        (void)append(text, bytes, &used, ", byte %llu", (unsigned long long)p->byte);
    return any;
}

void presil_bundle_coordinate(const presil_bundle_launch *launch, presil_daddr address, char *text, size_t bytes) {
    if (!bytes) return;
    *text = 0;
    for (uint32_t written = 2; written-- > 0;) {
        for (uint32_t i = 0; i < launch->tensor_count; i++) {
            place p;
            if ((launch->tensors[i].written != 0) == written && place_of(&launch->tensors[i], address.value, &p) &&
                print(&p, text, bytes))
                return;
        }
    }
}
