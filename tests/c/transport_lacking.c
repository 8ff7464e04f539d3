/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport that PRESIL_NOMAP_LIBRARY names, without the functions that PRESIL_LACKING names ("launch,cycles").
 * What needs them is no longer promised in info(), unless the list starts with "promised,". "short": the table ends
 * behind reset().
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "presil_transport.h"

#define FUNCTION(name) {#name, offsetof(presil_transport_ops, name)}
static const struct {
    const char *name;
    size_t at;
} functions[] = {FUNCTION(open),      FUNCTION(close),           FUNCTION(info),          FUNCTION(last_error),
                 FUNCTION(read32),    FUNCTION(write32),         FUNCTION(region),        FUNCTION(mem_read),
                 FUNCTION(mem_write), FUNCTION(sync_for_device), FUNCTION(sync_for_host), FUNCTION(launch),
                 FUNCTION(wait),      FUNCTION(cycles),          FUNCTION(reset),         FUNCTION(trace),
                 FUNCTION(write_log), FUNCTION(write_log_fetch), FUNCTION(bus_fault),     FUNCTION(set_memory_model),
                 FUNCTION(inject),    FUNCTION(read32_many),     FUNCTION(wait_then),     FUNCTION(write_times)};

static const presil_transport_ops *inner;
static presil_transport_ops ops;
static bool promised;

static int lacking_info(presil_transport *t, presil_transport_info *out) {
    const int error = inner->info(t, out);
    if (error || promised) return error;
    if (!ops.cycles) out->capabilities &= ~(uint32_t)PRESIL_CAP_CLOCKED;
    if (!ops.trace) out->capabilities &= ~(uint32_t)PRESIL_CAP_TRACE;
    if (!ops.write_log || ops.size < sizeof ops) out->capabilities &= ~(uint32_t)PRESIL_CAP_WRITE_LOG;
    if (!ops.write_times || ops.size < sizeof ops) out->capabilities &= ~(uint32_t)PRESIL_CAP_WRITE_TIMES;
    return 0;
}

static bool names(const char *list, const char *name) {
    const size_t bytes = strlen(name);
    for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
        if (strncmp(at, name, bytes) == 0 && (at[bytes] == ',' || at[bytes] == 0)) return true;
    }
    return false;
}

const presil_transport_ops *presil_transport_entry(void);
__attribute__((visibility("default"))) const presil_transport_ops *presil_transport_entry(void) {
    const char *path = getenv("PRESIL_NOMAP_LIBRARY"), *lacking = getenv("PRESIL_LACKING");
    void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    void *entry = library ? dlsym(library, "presil_transport_entry") : NULL;
    if (!entry || !lacking) {
        (void)fprintf(stderr, "PRESIL_NOMAP_LIBRARY must name a transport library, PRESIL_LACKING functions\n");
        return NULL;
    }
    presil_transport_entry_fn function;
    memcpy(&function, &entry, sizeof function);
    inner = function();
    ops = *inner;
    ops.info = lacking_info;
    promised = names(lacking, "promised");
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (names(lacking, functions[i].name)) memset((char *)&ops + functions[i].at, 0, sizeof ops.open);
    }
    if (names(lacking, "short")) ops.size = offsetof(presil_transport_ops, reset) + sizeof ops.reset;
    return &ops;
}
