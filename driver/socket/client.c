/* SPDX-License-Identifier: Apache-2.0 */
/* presil_transport_ops over a socket. */
#define _GNU_SOURCE
#include "client.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { RANGES_MOST = 1 << 24 };

static int client_info(presil_transport *t, presil_transport_info *out) {
    presil_transport_tell(&t->welcome.info, out);
    return 0;
}

static const char *client_last_error(presil_transport *t) { return t->error; }

/* ---- registers */
static int client_read32_many(presil_transport *t, const uint32_t *offsets, size_t count, uint32_t *values) {
    for (size_t at = 0; at < count; at += PRESIL_SERVE_REGISTERS) {
        const size_t n = count - at < PRESIL_SERVE_REGISTERS ? count - at : PRESIL_SERVE_REGISTERS;
        const presil_request q = {.kind = PRESIL_REQUEST_READ32, .count = (uint32_t)n, .offsets = offsets + at};
        protocol_reader body;
        const int status = socket_ask(t, &q, NULL, &body, NULL);
        if (status) return status;
        if (body.bytes - body.used != 4 * n) return socket_malformed(t, q.kind);
        for (size_t i = 0; i < n; i++) values[at + i] = protocol_get32(&body);
    }
    return 0;
}

static int client_read32(presil_transport *t, uint32_t offset, uint32_t *value) {
    return client_read32_many(t, &offset, 1, value);
}

static int client_write32(presil_transport *t, uint32_t offset, uint32_t value) {
    return socket_post(t, &(presil_request){.kind = PRESIL_REQUEST_WRITE32, .offset = offset, .value = value});
}

/* ---- memory */
static int client_region(presil_transport *t, uint32_t index, presil_region *out) {
    if (index >= t->welcome.region_count)
        return socket_fail(t, PRESIL_TRANSPORT_EINVAL, "region: there are %u", t->welcome.region_count);
    *out = t->welcome.regions[index];
    const uint64_t base = t->options.memory_base.value;
    const bool ours = t->mapping && out->base.value >= base && out->base.value - base <= t->options.memory_bytes &&
                      out->bytes <= t->options.memory_bytes - (out->base.value - base);
    out->host = ours ? (char *)t->mapping + (out->base.value - base) : NULL;
    return 0;
}

static int client_mem_read(presil_transport *t, presil_daddr from, void *to, uint64_t bytes) {
    for (uint64_t at = 0; at < bytes; at += PRESIL_SERVE_CHUNK) {
        const presil_request q = {.kind = PRESIL_REQUEST_MEM_READ,
                                  .address = from.value + at,
                                  .bytes = bytes - at < PRESIL_SERVE_CHUNK ? bytes - at : PRESIL_SERVE_CHUNK};
        protocol_reader body;
        const int status = socket_ask(t, &q, NULL, &body, NULL);
        if (status) return status;
        if (body.bytes - body.used != q.bytes) return socket_malformed(t, q.kind);
        memcpy((char *)to + at, protocol_get_bytes(&body, q.bytes), q.bytes);
    }
    return 0;
}

static int client_mem_write(presil_transport *t, presil_daddr to, const void *from, uint64_t bytes) {
    int status = 0;
    for (uint64_t at = 0; at < bytes && !status; at += PRESIL_SERVE_CHUNK) {
        const presil_request q = {.kind = PRESIL_REQUEST_MEM_WRITE,
                                  .address = to.value + at,
                                  .bytes = bytes - at < PRESIL_SERVE_CHUNK ? bytes - at : PRESIL_SERVE_CHUNK,
                                  .data = (const char *)from + at};
        status = socket_post(t, &q);
    }
    return status;
}

static bool nothing_to_sync(const presil_transport *t) {
    return t->mapping && t->welcome.info.capabilities & PRESIL_CAP_COHERENT;
}

static int client_sync_for_device(presil_transport *t, presil_daddr base, uint64_t bytes) {
    if (nothing_to_sync(t)) return 0;
    return socket_post(t, &(presil_request){.kind = PRESIL_REQUEST_SYNC_DEVICE, .address = base.value, .bytes = bytes});
}

static int client_sync_for_host(presil_transport *t, presil_daddr base, uint64_t bytes) {
    if (nothing_to_sync(t)) return 0;
    return socket_ask_done(t,
                           &(presil_request){.kind = PRESIL_REQUEST_SYNC_HOST, .address = base.value, .bytes = bytes});
}

/* ---- running */
static int client_launch(presil_transport *t, uint64_t launch) {
    return socket_post(t, &(presil_request){.kind = PRESIL_REQUEST_LAUNCH, .launch = launch});
}

static int take_wait(presil_transport *t, protocol_reader *body, presil_wait *w) {
    const uint32_t reason = protocol_get32(body), reserved = protocol_get32(body);
    const uint64_t cycles = protocol_get64(body);
    if (body->failed || reason > PRESIL_WAIT_HUNG || reserved) return socket_malformed(t, PRESIL_REQUEST_WAIT);
    w->reason = reason;
    w->cycles = cycles;
    return 0;
}

static int client_wait(presil_transport *t, presil_wait *w) {
    if (!w || w->size < sizeof *w) return socket_fail(t, PRESIL_TRANSPORT_EINVAL, "wait: size must be set");
    const presil_request q = {
        .kind = PRESIL_REQUEST_WAIT,
        .wait = {.deadline_cycles = w->deadline_cycles, .deadline_ns = w->deadline_ns, .hang_cycles = w->hang_cycles}};
    const socket_watch watch = {w->cancel, w->progress, w->progress_context};
    protocol_reader body;
    const int status = socket_ask(t, &q, &watch, &body, NULL);
    if (status) return status;
    presil_wait got = *w;
    if (take_wait(t, &body, &got) || !protocol_read_end(&body))
        return t->link.fd < 0 ? PRESIL_TRANSPORT_EIO : socket_malformed(t, q.kind);
    *w = got;
    return 0;
}

/* A peer of an older release. */
static int wait_and_access(presil_transport *t, presil_wait *w, presil_register_access *then, size_t count) {
    int status = client_wait(t, w);
    for (size_t i = 0; i < count && !status && w->reason == PRESIL_WAIT_IRQ; i++)
        status = then[i].is_write ? client_write32(t, then[i].offset, then[i].value)
                                  : client_read32(t, then[i].offset, &then[i].value);
    return status;
}

static int client_wait_then(presil_transport *t, presil_wait *w, presil_register_access *then, size_t count) {
    if (!w || w->size < sizeof *w) return socket_fail(t, PRESIL_TRANSPORT_EINVAL, "wait: size must be set");
    if (!(t->welcome.flags & PROTOCOL_WELCOME_THEN) || count > PRESIL_SERVE_ACCESSES)
        return wait_and_access(t, w, then, count);
    const socket_watch watch = {w->cancel, w->progress, w->progress_context};
    protocol_reader body;
    int status = socket_ask_wait_then(t, w, then, (uint32_t)count, &watch, &body);
    presil_wait got = *w;
    if (!status) status = take_wait(t, &body, &got);
    if (status) return status;
    size_t reads = 0;
    for (size_t i = 0; i < count; i++) reads += !then[i].is_write;
    if (body.bytes - body.used != (got.reason == PRESIL_WAIT_IRQ ? 4 * reads : 0))
        return socket_malformed(t, PRESIL_REQUEST_WAIT);
    for (size_t i = 0; i < count && got.reason == PRESIL_WAIT_IRQ; i++) {
        if (!then[i].is_write) then[i].value = protocol_get32(&body);
    }
    *w = got;
    return 0;
}

static int client_cycles(presil_transport *t, uint64_t *cycles) {
    if (!t->cycles_known) {
        const int status = socket_ask_done(t, &(presil_request){.kind = PRESIL_REQUEST_CYCLES});
        if (status) return status;
    }
    *cycles = t->cycles;
    return 0;
}

/* ---- the rest */
/* The peer has a directory of its own. */
static int client_trace(presil_transport *t, const char *path, uint64_t first, uint64_t last) {
    char absolute[PATH_MAX], here[PATH_MAX];
    if (path && *path && *path != '/') {
        if (!getcwd(here, sizeof here) ||
            (size_t)snprintf(absolute, sizeof absolute, "%s/%s", here, path) >= sizeof absolute)
            return socket_fail(t, PRESIL_TRANSPORT_EINVAL, "trace: the path %s is too long", path);
        path = absolute;
    }
    return socket_ask_done(
        t, &(presil_request){.kind = PRESIL_REQUEST_TRACE, .first_cycle = first, .last_cycle = last, .text = path});
}

static int client_write_log(presil_transport *t, int on) {
    return socket_ask_done(t, &(presil_request){.kind = PRESIL_REQUEST_WRITE_LOG, .value = on != 0});
}

static int keep_ranges(presil_transport *t, protocol_reader *body, size_t *count) {
    const size_t n = (body->bytes - body->used) / 16;
    if ((body->bytes - body->used) % 16 || *count + n > RANGES_MOST)
        return socket_malformed(t, PRESIL_REQUEST_WRITE_LOG_FETCH);
    if (*count + n > t->range_capacity) {
        const size_t capacity = 2 * (*count + n);
        presil_write_range *grown = realloc(t->ranges, capacity * sizeof *grown);
        if (!grown) return socket_lost(t, "no host memory for %zu ranges of the write log", capacity);
        t->ranges = grown;
        t->range_capacity = capacity;
    }
    for (size_t i = 0; i < n; i++) {
        presil_write_range *r = &t->ranges[(*count)++];
        r->base.value = protocol_get64(body);
        r->bytes = protocol_get64(body);
        if (r->bytes > UINT64_MAX - r->base.value) return socket_malformed(t, PRESIL_REQUEST_WRITE_LOG_FETCH);
    }
    return 0;
}

static int client_write_log_fetch(presil_transport *t, const presil_write_range **ranges, size_t *count) {
    size_t found = 0;
    protocol_reader body;
    bool more = false;
    int status = socket_ask(t, &(presil_request){.kind = PRESIL_REQUEST_WRITE_LOG_FETCH}, NULL, &body, &more);
    if (!status) status = keep_ranges(t, &body, &found);
    while (!status && more) {
        status = socket_next_part(t, &body, &more);
        if (!status) status = keep_ranges(t, &body, &found);
    }
    if (status) return status;
    *ranges = t->ranges;
    *count = found;
    return 0;
}

static int client_write_times(presil_transport *t, presil_daddr address, presil_write_time *out) {
    if (!(t->welcome.info.capabilities & PRESIL_CAP_WRITE_TIMES) || !out || out->size < sizeof *out)
        return socket_fail(t, PRESIL_TRANSPORT_EINVAL, "write_times: the peer does not keep them, or size is not set");
    const presil_request q = {.kind = PRESIL_REQUEST_WRITE_TIMES, .address = address.value};
    protocol_reader body;
    const int status = socket_ask(t, &q, NULL, &body, NULL);
    if (status) return status;
    presil_write_time times = {.size = sizeof times, .first_launch = protocol_get32(&body)};
    times.last_launch = protocol_get32(&body);
    times.first_cycle = protocol_get64(&body);
    times.last_cycle = protocol_get64(&body);
    if (!protocol_read_end(&body)) return socket_malformed(t, q.kind);
    *out = times;
    return 0;
}

static int client_bus_fault(presil_transport *t, presil_bus_fault *out) {
    const presil_request q = {.kind = PRESIL_REQUEST_BUS_FAULT};
    protocol_reader body;
    const int status = socket_ask(t, &q, NULL, &body, NULL);
    if (status) return status;
    presil_bus_fault fault;
    fault.valid = protocol_get32(&body);
    fault.is_write = protocol_get32(&body);
    fault.address.value = protocol_get64(&body);
    fault.cycle = protocol_get64(&body);
    if (!protocol_read_end(&body)) return socket_malformed(t, q.kind);
    *out = fault;
    return 0;
}

static int client_set_memory_model(presil_transport *t, const char *memory_model, uint64_t seed) {
    char *copy = memory_model ? strdup(memory_model) : NULL;
    if (memory_model && !copy) return socket_fail(t, PRESIL_TRANSPORT_ENOMEM, "no host memory");
    const int status =
        socket_ask_done(t, &(presil_request){.kind = PRESIL_REQUEST_MEMORY_MODEL, .text = memory_model, .seed = seed});
    if (status) {
        free(copy);
        return status;
    }
    free(t->memory_model); /* the next peer is told in OPEN */
    t->options.memory_model = t->memory_model = copy;
    t->options.seed = seed;
    return 0;
}

static int client_inject(presil_transport *t, const char *fault) {
    return socket_ask_done(t, &(presil_request){.kind = PRESIL_REQUEST_INJECT, .text = fault});
}

static int client_timing(presil_transport *t, char *text, size_t bytes) {
    const presil_request q = {.kind = PROTOCOL_TIMING};
    protocol_reader body;
    char found[PRESIL_TRANSPORT_TIMING];
    if (!(t->welcome.flags & PROTOCOL_WELCOME_TIMING))
        return socket_fail(t, PRESIL_TRANSPORT_ENOSYS, "timing: the peer is of an older release");
    const int status = socket_ask(t, &q, NULL, &body, NULL);
    if (status) return status;
    const bool told = protocol_get_text(&body, found, sizeof found) != NULL;
    if (!protocol_read_end(&body)) return socket_malformed(t, q.kind);
    if (!told) return socket_fail(t, PRESIL_TRANSPORT_ENOSYS, "timing: the peer does not know it");
    if (strlen(found) >= bytes) return socket_fail(t, PRESIL_TRANSPORT_EINVAL, "timing: there is no room for it");
    memcpy(text, found, strlen(found) + 1);
    return 0;
}

const presil_transport_ops *presil_socket_ops(void) {
    static const presil_transport_ops ops = {
        .size = sizeof ops,
        .abi = PRESIL_TRANSPORT_ABI,
        .open = socket_open,
        .close = socket_close,
        .info = client_info,
        .last_error = client_last_error,
        .read32 = client_read32,
        .write32 = client_write32,
        .region = client_region,
        .mem_read = client_mem_read,
        .mem_write = client_mem_write,
        .sync_for_device = client_sync_for_device,
        .sync_for_host = client_sync_for_host,
        .launch = client_launch,
        .wait = client_wait,
        .cycles = client_cycles,
        .reset = socket_reset,
        .trace = client_trace,
        .write_log = client_write_log,
        .write_log_fetch = client_write_log_fetch,
        .bus_fault = client_bus_fault,
        .set_memory_model = client_set_memory_model,
        .inject = client_inject,
        .read32_many = client_read32_many,
        .wait_then = client_wait_then,
        .write_times = client_write_times,
        .timing = client_timing,
    };
    return &ops;
}
