/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the request that was handed out. */
#define _GNU_SOURCE
#include "server.h"

#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

int presil_server_answer(presil_server *s, uint32_t sequence, uint16_t flags, int status, const char *text,
                         const void *body, size_t bytes) {
    uint8_t head[PROTOCOL_HEADER + PROTOCOL_ANSWER_HEAD + 4 + SERVER_TEXT];
    protocol_writer w = {head + PROTOCOL_HEADER, sizeof head - PROTOCOL_HEADER, 0, false};
    protocol_put_answer(&w, status, s->cycles);
    if (status) {
        char copy[SERVER_TEXT];
        (void)snprintf(copy, sizeof copy, "%s", text ? text : "");
        protocol_put_text(&w, copy);
        bytes = 0;
    }
    protocol_put_header(
        head, (protocol_frame){
                  .type = PROTOCOL_ANSWER, .flags = flags, .sequence = sequence, .length = (uint32_t)(w.used + bytes)});
    struct iovec parts[3] = {
        {s->rest, s->rest_bytes}, {head, PROTOCOL_HEADER + w.used}, {(void *)(uintptr_t)body, bytes}};
    const size_t skip = s->rest_bytes ? 0 : 1;
    const int failed = channel_send(s->client.fd, parts + skip, (bytes ? 3 : 2) - skip, SERVER_SEND_MS, -1);
    s->rest_bytes = 0;
    s->cut = failed != 0;
    if (failed) presil_server_lose(s, strerror(-failed));
    return 0;
}

static int begin(presil_server *s, const char *function, uint32_t kind) {
    if (!s) return PRESIL_SERVE_EINVAL;
    if (!s->outstanding)
        return presil_server_fail(s, PRESIL_SERVE_EINVAL, "%s: there is no request to answer", function);
    if (kind && s->kind != kind)
        return presil_server_fail(s, PRESIL_SERVE_EINVAL, "%s does not answer %s", function, protocol_name(s->kind));
    return 0;
}

/* The client may have gone meanwhile: presil_serve_next says so. */
static int finish(presil_server *s, const void *body, size_t bytes) {
    s->outstanding = false;
    return s->lost ? 0 : presil_server_answer(s, s->sequence, 0, 0, NULL, body, bytes);
}

static int welcome_client(presil_server *s) {
    uint8_t body[512 + 16 * PROTOCOL_REGIONS];
    protocol_writer w = {body, sizeof body, 0, false};
    protocol_welcome welcome = {.version = PROTOCOL_VERSION,
                                .abi = PRESIL_TRANSPORT_ABI,
                                .flags = s->memory_fd >= 0 ? PROTOCOL_WELCOME_MAPPED : 0,
                                .region_count = s->region_count,
                                .info = s->told};
    welcome.flags |= PROTOCOL_WELCOME_THEN | PROTOCOL_WELCOME_IDENTITY | PROTOCOL_WELCOME_TIMING;
    welcome.info.capabilities =
        (s->told.capabilities & ~(uint32_t)PRESIL_CAP_MAPS) | (s->memory_fd >= 0 ? PRESIL_CAP_MAPS : 0);
    memcpy(welcome.regions, s->regions, sizeof welcome.regions);
    protocol_put_welcome(&w, &welcome);
    s->state = CLIENT_OPEN;
    return finish(s, body, w.used);
}

int presil_serve_describe(presil_server *s, const presil_transport_info *info, const presil_region *regions,
                          uint32_t count) {
    const int failed = begin(s, "presil_serve_describe", PRESIL_REQUEST_OPEN);
    if (failed) return failed;
    if (count > PROTOCOL_REGIONS || (count && !regions))
        return presil_server_fail(s, PRESIL_SERVE_EINVAL,
                                  "presil_serve_describe: at most %u regions expected, %u found", PROTOCOL_REGIONS,
                                  count);
    if (info) {
        s->told = *info;
        s->told.chip[sizeof s->told.chip - 1] = s->told.config[sizeof s->told.config - 1] =
            s->told.build[sizeof s->told.build - 1] = s->told.text[sizeof s->told.text - 1] = 0;
        s->told.rtl[sizeof s->told.rtl - 1] = s->told.library[sizeof s->told.library - 1] = 0;
    }
    if (regions) {
        memcpy(s->regions, regions, count * sizeof *regions);
        s->region_count = count;
    }
    return 0;
}

int presil_serve_reply_done(presil_server *s, int status, const char *text) {
    const int failed = begin(s, "presil_serve_reply_done", 0);
    if (failed) return failed;
    if (status > 0 || status < PRESIL_TRANSPORT_ESTOPPED)
        return presil_server_fail(s, PRESIL_SERVE_EINVAL,
                                  "presil_serve_reply_done: 0 or a presil_transport_error expected, %d found", status);
    if (status == 0) {
        switch (s->kind) {
        case PRESIL_REQUEST_OPEN: return welcome_client(s);
        case PRESIL_REQUEST_READ32:
        case PRESIL_REQUEST_MEM_READ:
        case PRESIL_REQUEST_WAIT:
        case PRESIL_REQUEST_WRITE_LOG_FETCH:
        case PRESIL_REQUEST_BUS_FAULT:
        case PRESIL_REQUEST_WRITE_TIMES:
            return presil_server_fail(s, PRESIL_SERVE_EINVAL, "presil_serve_reply_done: %s has an answer of its own",
                                      protocol_name(s->kind));
        default: break;
        }
    }
    if (protocol_is_posted(s->kind)) {
        s->outstanding = false;
        if (!status) return 0;
        s->posted_status = status;
        (void)snprintf(s->posted_text, sizeof s->posted_text, "%s: %s", protocol_name(s->kind), text ? text : "failed");
        return 0;
    }
    if (status && s->kind == PRESIL_REQUEST_OPEN) {
        s->outstanding = false;
        presil_server_lose(s, text && *text ? text : "the server does not open, and gives no reason");
        return 0;
    }
    if (status == 0) return finish(s, NULL, 0);
    s->outstanding = s->then_running = false;
    return s->lost ? 0 : presil_server_answer(s, s->sequence, 0, status, text, NULL, 0);
}

int presil_serve_reply_values(presil_server *s, const uint32_t *values, uint32_t count) {
    const int failed = begin(s, "presil_serve_reply_values", PRESIL_REQUEST_READ32);
    if (failed) return failed;
    if (count != s->count || !values)
        return presil_server_fail(s, PRESIL_SERVE_EINVAL, "presil_serve_reply_values: %u values expected, %u found",
                                  s->count, count);
    if (s->then_running) {
        presil_server_then_values(s, values);
        return 0;
    }
    uint8_t body[4 * PRESIL_SERVE_REGISTERS];
    protocol_writer w = {body, sizeof body, 0, false};
    for (uint32_t i = 0; i < count; i++) protocol_put32(&w, values[i]);
    return finish(s, body, w.used);
}

int presil_serve_reply_bytes(presil_server *s, const void *data, uint64_t bytes) {
    const int failed = begin(s, "presil_serve_reply_bytes", PRESIL_REQUEST_MEM_READ);
    if (failed) return failed;
    if (bytes != s->bytes || (bytes && !data))
        return presil_server_fail(s, PRESIL_SERVE_EINVAL, "presil_serve_reply_bytes: %llu bytes expected, %llu found",
                                  (unsigned long long)s->bytes, (unsigned long long)bytes);
    return finish(s, data, bytes);
}

int presil_serve_reply_wait(presil_server *s, uint32_t reason, uint64_t cycles) {
    const int failed = begin(s, "presil_serve_reply_wait", PRESIL_REQUEST_WAIT);
    if (failed) return failed;
    if (reason > PRESIL_WAIT_HUNG)
        return presil_server_fail(s, PRESIL_SERVE_EINVAL,
                                  "presil_serve_reply_wait: %u is not one of presil_wait_reason", reason);
    if (presil_server_then_begin(s, reason, cycles)) return 0;
    uint8_t body[16];
    protocol_writer w = {body, sizeof body, 0, false};
    protocol_put32(&w, reason);
    protocol_put32(&w, 0);
    protocol_put64(&w, cycles);
    return finish(s, body, w.used);
}

int presil_serve_reply_ranges(presil_server *s, const presil_write_range *ranges, size_t count) {
    const int failed = begin(s, "presil_serve_reply_ranges", PRESIL_REQUEST_WRITE_LOG_FETCH);
    if (failed) return failed;
    if (count && !ranges)
        return presil_server_fail(s, PRESIL_SERVE_EINVAL, "presil_serve_reply_ranges: ranges is NULL");
    enum { STEP = 4096 };
    static _Thread_local uint8_t body[16 * STEP];
    for (size_t at = 0;; at += STEP) {
        const size_t n = count - at < STEP ? count - at : STEP;
        protocol_writer w = {body, sizeof body, 0, false};
        for (size_t i = 0; i < n; i++) {
            protocol_put64(&w, ranges[at + i].base.value);
            protocol_put64(&w, ranges[at + i].bytes);
        }
        if (at + n == count) return finish(s, body, w.used);
        if (!s->lost) (void)presil_server_answer(s, s->sequence, PROTOCOL_MORE, 0, NULL, body, w.used);
    }
}

int presil_serve_reply_fault(presil_server *s, const presil_bus_fault *fault) {
    const int failed = begin(s, "presil_serve_reply_fault", PRESIL_REQUEST_BUS_FAULT);
    if (failed) return failed;
    uint8_t body[24];
    protocol_writer w = {body, sizeof body, 0, false};
    protocol_put32(&w, fault ? fault->valid : 0);
    protocol_put32(&w, fault ? fault->is_write : 0);
    protocol_put64(&w, fault ? fault->address.value : 0);
    protocol_put64(&w, fault ? fault->cycle : 0);
    return finish(s, body, w.used);
}

int presil_serve_reply_times(presil_server *s, const presil_write_time *times) {
    const int failed = begin(s, "presil_serve_reply_times", PRESIL_REQUEST_WRITE_TIMES);
    if (failed) return failed;
    if (!times) return presil_server_fail(s, PRESIL_SERVE_EINVAL, "presil_serve_reply_times: times is NULL");
    uint8_t body[24];
    protocol_writer w = {body, sizeof body, 0, false};
    protocol_put32(&w, times->first_launch);
    protocol_put32(&w, times->last_launch);
    protocol_put64(&w, times->first_cycle);
    protocol_put64(&w, times->last_cycle);
    return finish(s, body, w.used);
}

/* The library's own: whoever serves has said it in presil_serve_describe and presil_serve_set_timing. */
void presil_server_tell_own(presil_server *s, uint32_t kind, uint32_t sequence) {
    uint8_t body[8 + sizeof s->told.rtl + sizeof s->told.library + sizeof s->timing];
    protocol_writer w = {body, sizeof body, 0, false};
    if (kind == PROTOCOL_TIMING) {
        protocol_put_text(&w, *s->timing ? s->timing : NULL);
    } else {
        protocol_put_text(&w, s->told.rtl);
        protocol_put_text(&w, s->told.library);
    }
    (void)presil_server_answer(s, sequence, 0, 0, NULL, body, w.used);
}

void presil_serve_set_cycles(presil_server *s, uint64_t cycles) {
    if (s) s->cycles = cycles;
}

int presil_serve_set_timing(presil_server *s, const char *timing) {
    if (!s) return PRESIL_SERVE_EINVAL;
    if (timing && strlen(timing) >= sizeof s->timing)
        return presil_server_fail(s, PRESIL_SERVE_EINVAL,
                                  "presil_serve_set_timing: less than %zu bytes expected, %zu found", sizeof s->timing,
                                  strlen(timing));
    memmove(s->timing, timing ? timing : "", timing ? strlen(timing) + 1 : 1);
    return 0;
}
