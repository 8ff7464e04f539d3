/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport that does not map: it wraps the one that PRESIL_NOMAP_LIBRARY names, hides its mapping and does not take
 * the driver's memory, so that nothing gets through but registers, mem_read and mem_write.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "presil_transport.h"

static const presil_transport_ops *inner;

static int nomap_open(const presil_transport_options *options, presil_transport **out, char *error,
                      size_t error_bytes) {
    presil_transport_options own = *options;
    own.memory_fd = -1;
    return inner->open(&own, out, error, error_bytes);
}

static int nomap_info(presil_transport *t, presil_transport_info *out) {
    const int error = inner->info(t, out);
    if (!error) out->capabilities &= ~(uint32_t)PRESIL_CAP_MAPS;
    return error;
}

static int nomap_region(presil_transport *t, uint32_t index, presil_region *out) {
    const int error = inner->region(t, index, out);
    if (!error) out->host = NULL;
    return error;
}

const presil_transport_ops *presil_transport_entry(void);
__attribute__((visibility("default"))) const presil_transport_ops *presil_transport_entry(void) {
    static presil_transport_ops ops;
    const char *path = getenv("PRESIL_NOMAP_LIBRARY");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *entry = library ? dlsym(library, "presil_transport_entry") : NULL;
    if (!entry) {
        (void)fprintf(stderr, "transport_nomap: PRESIL_NOMAP_LIBRARY=%s is no transport\n", path ? path : "");
        return NULL;
    }
    presil_transport_entry_fn function;
    memcpy(&function, &entry, sizeof function);
    inner = function();
    ops = *inner;
    ops.open = nomap_open;
    ops.info = nomap_info;
    ops.region = nomap_region;
    return &ops;
}
