/* SPDX-License-Identifier: Apache-2.0 */
/* A transport whose chip reaches what map() was told: it wraps the one that PRESIL_NOMAP_LIBRARY names, whose chip runs
 * in wait(), and says in the test's io_state what came. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "presil_transport.h"
#include "transport_iommu.h"

enum { PAGE = 4096, MOST = 1 << 16 };

static const presil_transport_ops *inner;
static io_state *state;
static uint8_t *memory, owner[MOST]; /* owner: 0, or which map() has the page, modulo 255 */
static uint64_t base, bytes;

static int io_open(const presil_transport_options *options, presil_transport **out, char *error, size_t error_bytes) {
    const int status = inner->open(options, out, error, error_bytes);
    presil_region region = {0};
    if (status || inner->region(*out, 0, &region)) return status;
    memory = region.host, base = region.base.value, bytes = region.bytes;
    memset(owner, 0, sizeof owner);
    return bytes / PAGE <= MOST ? 0 : PRESIL_TRANSPORT_EINVAL;
}

static int io_info(presil_transport *t, presil_transport_info *out) {
    const int error = inner->info(t, out);
    if (!error)
        out->capabilities = (out->capabilities | PRESIL_CAP_MAP_BLOCKS | (state->second ? PRESIL_CAP_OWN_MEMORY : 0u)) &
                            ~(uint32_t)(PRESIL_CAP_WRITE_LOG | PRESIL_CAP_WRITE_TIMES);
    return error;
}

static int io_region(presil_transport *t, uint32_t index, presil_region *out) {
    const uint64_t split = state->second * PAGE;
    const int error = index <= (split != 0) ? inner->region(t, 0, out) : PRESIL_TRANSPORT_EINVAL;
    if (error || !split) return error;
    if (index) out->base.value += split, out->host = (uint8_t *)out->host + split;
    out->bytes = index ? out->bytes - split : split;
    return 0;
}

static int io_map(presil_transport *t, presil_daddr at, uint64_t size) {
    (void)t;
    const uint64_t first = (at.value - base) / PAGE, end = first + size / PAGE;
    if (state->refuse_map) return PRESIL_TRANSPORT_ENOMEM;
    state->wrong |= at.value % PAGE || size % PAGE || !size || end > bytes / PAGE;
    state->wrong |= first < state->second && end > state->second;
    state->maps++;
    for (uint64_t i = first; i < end && !state->wrong; i++) {
        state->wrong |= owner[i] != 0;
        owner[i] = (uint8_t)(state->maps % 255 + 1);
    }
    state->pages += end - first, state->first = first, state->last = end;
    return 0;
}

static int io_unmap(presil_transport *t, presil_daddr at, uint64_t size) {
    (void)t;
    const uint64_t first = (at.value - base) / PAGE, end = first + size / PAGE;
    if (state->refuse_unmap) return PRESIL_TRANSPORT_EIO;
    const uint8_t who = owner[first];
    state->wrong |= !who || (first && owner[first - 1] == who) || (end < bytes / PAGE && owner[end] == who);
    for (uint64_t i = first; i < end; i++) {
        state->wrong |= owner[i] != who;
        owner[i] = 0;
    }
    state->last_unmapped_byte = memory[first * PAGE];
    state->unmaps++, state->pages -= end - first;
    return 0;
}

/* The chip runs in here: its log of writes says what it touched. */
static int io_wait(presil_transport *t, presil_wait *w) {
    const presil_write_range *ranges = NULL;
    size_t count = 0;
    (void)inner->write_log(t, 1);
    const int status = inner->wait(t, w);
    if (inner->write_log_fetch(t, &ranges, &count)) return status;
    for (size_t i = 0; i < count; i++) {
        for (uint64_t at = ranges[i].base.value; at < ranges[i].base.value + ranges[i].bytes; at++)
            state->unreached += owner[(at - base) / PAGE] == 0;
    }
    return status;
}

const presil_transport_ops *presil_transport_entry(void);
__attribute__((visibility("default"))) const presil_transport_ops *presil_transport_entry(void) {
    static presil_transport_ops ops;
    const char *path = getenv("PRESIL_NOMAP_LIBRARY"), *at = getenv("PRESIL_IO_STATE");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *entry = library ? dlsym(library, "presil_transport_entry") : NULL;
    if (!entry || !at) {
        (void)fprintf(stderr, "transport_iommu: PRESIL_NOMAP_LIBRARY and PRESIL_IO_STATE are needed\n");
        return NULL;
    }
    state = (io_state *)(uintptr_t)strtoull(at, NULL, 16);
    presil_transport_entry_fn function;
    memcpy(&function, &entry, sizeof function);
    inner = function();
    ops = *inner;
    ops.size = sizeof ops;
    ops.open = io_open;
    ops.info = io_info;
    ops.region = io_region;
    ops.map = io_map;
    ops.unmap = io_unmap;
    ops.wait = io_wait;
    ops.write_log = NULL;
    ops.write_log_fetch = NULL;
    ops.write_times = NULL;
    return &ops;
}
