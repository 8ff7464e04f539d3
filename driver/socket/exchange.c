/* SPDX-License-Identifier: Apache-2.0 */
/* Requests and answers: posted messages travel with the next request, a silent peer is given up. */
#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    TICK_MS = 10,
    SPIN_US = 500, /* an empty launch of `base` takes 260 */
    REQUEST_BYTES = 3 * (PROTOCOL_TEXT + 64),
};

int socket_fail(presil_transport *t, int code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(t->error, sizeof t->error, format, args);
    va_end(args);
    return code;
}

int socket_lost(presil_transport *t, const char *format, ...) {
    char text[CLIENT_TEXT - 160];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    channel_close(&t->link);
    t->posted_bytes = 0;
    return socket_fail(t, PRESIL_TRANSPORT_EIO, "socket:%s: %s", t->path, text);
}

int socket_malformed(presil_transport *t, uint32_t kind) {
    return socket_lost(t, "protocol: the peer's answer to %s is malformed", protocol_name(kind));
}

/* ---- receiving */
/* What the peer says before it ends the connection is worth more than that it ended. */
static int ended(presil_transport *t, const char *why) {
    protocol_frame frame;
    const uint8_t *payload = NULL;
    char text[256];
    while (channel_receive(&t->link) > 0) continue;
    while (channel_frame(&t->link, &frame, &payload, text, sizeof text) == 1) {
        if (frame.type == PROTOCOL_REFUSED || frame.type == PROTOCOL_GOODBYE) {
            protocol_reader r = {payload, frame.length, 0, false};
            if (frame.type == PROTOCOL_REFUSED) (void)protocol_get32(&r);
            const char *said = protocol_get_text(&r, t->answer_text, sizeof t->answer_text);
            return socket_lost(t, "the peer %s: %.400s",
                               frame.type == PROTOCOL_REFUSED ? "refuses" : "ended the connection",
                               said ? said : "it gives no reason");
        }
        channel_pop(&t->link, &frame);
    }
    return socket_lost(t, "%s", why);
}

/* Waits for input, at most `ms`. 1: there is some; 0: none; else lost. */
static int await(presil_transport *t, int ms) {
    struct pollfd p = {.fd = t->link.fd, .events = POLLIN};
    const int ready = channel_poll(&p, 1, ms, SPIN_US);
    if (ready < 0 && errno != EINTR) return socket_lost(t, "poll: %s", strerror(errno));
    if (ready <= 0) return 0;
    const int n = channel_receive(&t->link);
    if (n == -EAGAIN) return 0;
    if (n == 0) return ended(t, "the peer has closed the connection: start it again, then reset the device");
    if (n < 0) return ended(t, strerror(-n));
    return 1;
}

/* A message that is no answer. */
static int aside(presil_transport *t, const protocol_frame *frame, const uint8_t *payload, const socket_watch *watch) {
    protocol_reader r = {payload, frame->length, 0, false};
    if (frame->type == PROTOCOL_PROGRESS) {
        const uint64_t cycles = protocol_get64(&r);
        if (watch && watch->progress) watch->progress(watch->progress_context, cycles);
        return 0;
    }
    if (frame->type == PROTOCOL_LOG) {
        const char *text = protocol_get_text(&r, t->answer_text, sizeof t->answer_text);
        if (!text || !protocol_read_end(&r)) return socket_lost(t, "protocol: a malformed LOG");
        if (t->options.log) t->options.log(t->options.log_context, text);
        return 0;
    }
    if (frame->type == PROTOCOL_REFUSED || frame->type == PROTOCOL_GOODBYE)
        return ended(t, "the peer has closed the connection");
    return socket_lost(t, "protocol: the peer sends %s, an answer expected", protocol_name(frame->type));
}

/* The answer to `sequence`; the caller pops it. */
static int receive_answer(presil_transport *t, uint32_t kind, uint32_t sequence, const socket_watch *watch,
                          protocol_frame *frame, const uint8_t **payload) {
    char text[256];
    uint64_t heard = channel_now_ms();
    bool cancelled = false;
    for (;;) {
        int found = 0;
        while ((found = channel_frame(&t->link, frame, payload, text, sizeof text)) == 1 &&
               frame->type != PROTOCOL_ANSWER) {
            const protocol_frame done = *frame;
            const int failed = aside(t, frame, *payload, watch);
            if (failed) return failed;
            channel_pop(&t->link, &done);
            if (!cancelled) heard = channel_now_ms();
        }
        if (found < 0) return socket_lost(t, "protocol: %s", text);
        if (found && frame->sequence != sequence)
            return socket_lost(t, "protocol: an answer with sequence %u, %u (%s) expected", frame->sequence, sequence,
                               protocol_name(kind));
        if (found) return 0;
        const int got = await(t, watch && watch->cancel ? TICK_MS : t->timeout_ms);
        if (got < 0) return got;
        const uint64_t now = channel_now_ms();
        if (got && !cancelled) heard = now;
        if ((!got || cancelled) && now - heard >= (uint64_t)t->timeout_ms) {
            t->was_silent = true;
            return socket_lost(t,
                               "the peer said nothing for %.3g s; %s to %s expected (it hangs, or is stopped: start it "
                               "again, then reset the device)",
                               t->timeout_ms / 1000.0,
                               kind == PRESIL_REQUEST_WAIT ? "progress or an answer" : "an answer",
                               protocol_name(kind));
        }
        if (watch && watch->cancel && !cancelled && __atomic_load_n(watch->cancel, __ATOMIC_RELAXED)) {
            uint8_t header[PROTOCOL_HEADER];
            protocol_put_header(header, (protocol_frame){.type = PROTOCOL_CANCEL, .sequence = sequence});
            struct iovec part = {header, sizeof header};
            const int failed = channel_send(t->link.fd, &part, 1, t->timeout_ms, -1);
            if (failed) return ended(t, strerror(-failed));
            cancelled = true; /* from here on progress does not count: it has to end */
            heard = now;
        }
    }
}

/* ---- sending */
static int no_peer(presil_transport *t) {
    if (!*t->error) (void)socket_fail(t, 0, "socket:%s: there is no peer", t->path);
    return PRESIL_TRANSPORT_EIO;
}

static int send_parts(presil_transport *t, struct iovec *parts, size_t count, uint32_t kind, int pass_fd) {
    const int failed = channel_send(t->link.fd, parts, count, t->timeout_ms, pass_fd);
    t->posted_bytes = 0;
    if (!failed) return 0;
    if (failed == -ETIMEDOUT) {
        t->was_silent = true;
        return socket_lost(t, "the peer read nothing for %.3g s, while %s was sent", t->timeout_ms / 1000.0,
                           protocol_name(kind));
    }
    return ended(t, failed == -EPIPE ? "the peer has closed the connection: start it again, then reset the device"
                                     : strerror(-failed));
}

/* Header and payload without MEM_WRITE's data, at `to`. Bytes used, or 0: does not fit. */
static size_t encode(presil_transport *t, const presil_request *q, const protocol_hello *hello, uint8_t *to,
                     size_t capacity) {
    if (capacity < PROTOCOL_HEADER) return 0;
    protocol_writer w = {to + PROTOCOL_HEADER, capacity - PROTOCOL_HEADER, 0, false};
    if (!protocol_encode_request(&w, q, hello)) return 0;
    const size_t data = q->kind == PRESIL_REQUEST_MEM_WRITE ? (size_t)q->bytes : 0;
    protocol_put_header(
        to,
        (protocol_frame){.type = (uint16_t)q->kind, .sequence = t->sequence++, .length = (uint32_t)(w.used + data)});
    return PROTOCOL_HEADER + w.used;
}

int socket_post(presil_transport *t, const presil_request *q) {
    enum { MOST = 64 };
    if (t->link.fd < 0) return no_peer(t);
    const size_t data = q->kind == PRESIL_REQUEST_MEM_WRITE ? (size_t)q->bytes : 0;
    if (t->posted_bytes + MOST + (data < CLIENT_POSTED ? data : 0) > CLIENT_POSTED || data >= CLIENT_POSTED / 2) {
        uint8_t head[MOST];
        const size_t bytes = encode(t, q, NULL, head, sizeof head);
        struct iovec parts[3] = {{t->posted, t->posted_bytes}, {head, bytes}, {(void *)(uintptr_t)q->data, data}};
        t->cycles_known = false;
        return send_parts(t, parts, 3, q->kind, -1);
    }
    t->posted_bytes += encode(t, q, NULL, t->posted + t->posted_bytes, CLIENT_POSTED - t->posted_bytes);
    if (data) memcpy(t->posted + t->posted_bytes, q->data, data);
    t->posted_bytes += data;
    t->cycles_known = false;
    return 0;
}

/* The common end of every answer: status, cycles, where the body is. The frame stays in the buffer until the next
 * exchange pops it by reading on. */
static int read_answer(presil_transport *t, uint32_t kind, const protocol_frame *frame, const uint8_t *payload,
                       protocol_reader *body, bool *more) {
    protocol_answer answer;
    *body = (protocol_reader){payload, frame->length, 0, false};
    if (protocol_get_answer(body, &answer, t->answer_text)) return socket_malformed(t, kind);
    if (frame->flags & PROTOCOL_MORE && (!more || answer.status)) return socket_malformed(t, kind);
    if (more) *more = frame->flags & PROTOCOL_MORE;
    channel_pop(&t->link, frame); /* the bytes stay until something is received */
    t->cycles = answer.cycles;
    t->cycles_known = true;
    return answer.status ? socket_fail(t, answer.status, "%s",
                                       answer.text && *answer.text ? answer.text : "the peer gives no reason")
                         : 0;
}

int socket_ask(presil_transport *t, const presil_request *q, const socket_watch *watch, protocol_reader *body,
               bool *more) {
    if (t->link.fd < 0) return no_peer(t);
    uint8_t request[REQUEST_BYTES + 4 * PRESIL_SERVE_REGISTERS];
    const uint32_t sequence = t->sequence;
    const size_t bytes = encode(t, q, NULL, request, sizeof request);
    if (!bytes)
        return socket_fail(t, PRESIL_TRANSPORT_EINVAL, "%s: a text has at most %u bytes", protocol_name(q->kind),
                           PROTOCOL_TEXT);
    struct iovec parts[2] = {{t->posted, t->posted_bytes}, {request, bytes}};
    protocol_frame frame;
    const uint8_t *payload = NULL;
    int failed = send_parts(t, parts, 2, q->kind, -1);
    if (!failed) failed = receive_answer(t, q->kind, sequence, watch, &frame, &payload);
    return failed ? failed : read_answer(t, q->kind, &frame, payload, body, more);
}

int socket_ask_wait_then(presil_transport *t, const presil_wait *wait, const presil_register_access *then,
                         uint32_t count, const socket_watch *watch, protocol_reader *body) {
    if (t->link.fd < 0) return no_peer(t);
    uint8_t request[PROTOCOL_HEADER + 28 + 12 * PRESIL_SERVE_ACCESSES];
    protocol_writer w = {request + PROTOCOL_HEADER, sizeof request - PROTOCOL_HEADER, 0, false};
    protocol_put_wait_then(&w, wait, then, count);
    const uint32_t sequence = t->sequence++;
    protocol_put_header(request,
                        (protocol_frame){.type = PROTOCOL_WAIT_THEN, .sequence = sequence, .length = (uint32_t)w.used});
    struct iovec parts[2] = {{t->posted, t->posted_bytes}, {request, PROTOCOL_HEADER + w.used}};
    protocol_frame frame;
    const uint8_t *payload = NULL;
    int failed = send_parts(t, parts, 2, PRESIL_REQUEST_WAIT, -1);
    if (!failed) failed = receive_answer(t, PRESIL_REQUEST_WAIT, sequence, watch, &frame, &payload);
    return failed ? failed : read_answer(t, PRESIL_REQUEST_WAIT, &frame, payload, body, NULL);
}

int socket_next_part(presil_transport *t, protocol_reader *body, bool *more) {
    protocol_frame frame;
    const uint8_t *payload = NULL;
    const int failed = receive_answer(t, PRESIL_REQUEST_WRITE_LOG_FETCH, t->sequence - 1, NULL, &frame, &payload);
    return failed ? failed : read_answer(t, PRESIL_REQUEST_WRITE_LOG_FETCH, &frame, payload, body, more);
}

int socket_ask_done(presil_transport *t, const presil_request *q) {
    protocol_reader body;
    const int status = socket_ask(t, q, NULL, &body, NULL);
    if (status) return status;
    return protocol_read_end(&body) ? 0 : socket_malformed(t, q->kind);
}

int socket_greet(presil_transport *t, const presil_request *q, const protocol_hello *hello, int pass_fd,
                 protocol_welcome *out) {
    uint8_t request[PROTOCOL_HEADER + REQUEST_BYTES];
    char text[256] = "";
    t->sequence = 0;
    const size_t bytes = encode(t, q, hello, request, sizeof request);
    if (!bytes)
        return socket_fail(t, PRESIL_TRANSPORT_EINVAL, "socket:%s: a text has at most %u bytes", t->path,
                           PROTOCOL_TEXT);
    struct iovec part = {request, bytes};
    protocol_frame frame;
    protocol_reader body;
    const uint8_t *payload = NULL;
    int failed = send_parts(t, &part, 1, q->kind, pass_fd);
    if (!failed) failed = receive_answer(t, q->kind, 0, NULL, &frame, &payload);
    if (!failed) failed = read_answer(t, q->kind, &frame, payload, &body, NULL);
    if (failed) return failed;
    return protocol_get_welcome(&body, out, text, sizeof text) ? socket_lost(t, "%s", text) : 0;
}
