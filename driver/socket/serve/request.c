/* SPDX-License-Identifier: Apache-2.0 */
/* From bytes to requests: what the client sends is checked, and handed out one at a time. */
#define _GNU_SOURCE
#include "server.h"
#include "presil_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    TICK_MS = 50,  /* how often `stop` is looked at */
    SPIN_US = 500, /* a client's work between an answer and its next request */
};

static void breach(presil_server *s, const char *what) {
    char text[SERVER_TEXT];
    (void)snprintf(text, sizeof text, "protocol: %s", what);
    presil_server_lose(s, text);
}

/* ---- OPEN */
/* The mapping of a file that its owner shortens would kill this process. */
static const char *check_memory(presil_server *s, uint64_t bytes) {
    struct stat file;
    const int access = fcntl(s->memory_fd, F_GETFL), seals = fcntl(s->memory_fd, F_GET_SEALS);
    if (access < 0 || (access & O_ACCMODE) != O_RDWR)
        return "the memory's descriptor is not open for reading and writing";
    if (fstat(s->memory_fd, &file) || !S_ISREG(file.st_mode) || seals < 0) return "the memory's descriptor is no memfd";
    if (!(seals & F_SEAL_SHRINK)) return "the memory's descriptor is not sealed against shrinking (F_SEAL_SHRINK)";
    if ((uint64_t)file.st_size < bytes) return "the memory's descriptor has less bytes than OPEN says";
    return NULL;
}

static const char *check_open(presil_server *s, presil_request *q, const protocol_hello *hello) {
    if (hello->abi != PRESIL_TRANSPORT_ABI) return "another version of presil_transport.h";
    const bool announced = hello->flags & PROTOCOL_OPEN_MEMORY_FD;
    if (s->extra_fds) return "one descriptor expected, more came";
    if (announced != (s->memory_fd >= 0))
        return announced ? "a descriptor of the memory is announced, none came"
                         : "a descriptor came that is not announced";
    const char *text = announced ? check_memory(s, q->open.memory_bytes) : NULL;
    if (text) return text;
    if (s->memory_fd >= 0 && s->copy_memory) {
        (void)close(s->memory_fd);
        s->memory_fd = -1;
    }
    q->open.memory_fd = s->memory_fd;
    s->regions[0] = (presil_region){.base = q->open.memory_base, .bytes = q->open.memory_bytes};
    s->region_count = 1;
    presil_server_log(s, "process %d (%s) connects: %llu MiB of memory, %s", s->pid,
                      hello->client ? hello->client : "no name", (unsigned long long)(q->open.memory_bytes >> 20),
                      s->memory_fd >= 0 ? "mapped" : "in messages");
    return NULL;
}

/* ---- others */
/* A posted request has failed: what follows it does not run; the next request that has an answer is told. RESET starts
 * afresh. */
static bool after_failure(presil_server *s, const presil_request *q, uint32_t sequence) {
    if (!s->posted_status) return false;
    if (q->kind == PRESIL_REQUEST_RESET) {
        s->posted_status = 0;
        return false;
    }
    if (protocol_is_posted(q->kind)) return true;
    const int status = s->posted_status;
    s->posted_status = 0;
    (void)presil_server_answer(s, sequence, 0, status, s->posted_text, NULL, 0);
    return true;
}

void presil_server_hand_out(presil_server *s, const presil_request *q, uint32_t sequence) {
    s->outstanding = true;
    s->kind = q->kind;
    s->count = q->count;
    s->bytes = q->bytes;
    s->sequence = sequence;
    s->cancelled = false;
    s->deadline_ns = q->kind == PRESIL_REQUEST_WAIT ? q->wait.deadline_ns : 0;
    s->wait_began = s->progress_at = presil_now_ns();
    s->looked_at = 0;
}

/* One message. 1: *out is for the caller; 0: it was taken care of; s->lost may be set. */
static int take(presil_server *s, const protocol_frame *frame, const uint8_t *payload, presil_request *out) {
    char text[SERVER_TEXT - 32] = "";
    protocol_hello hello = {0};
    if (frame->type == PROTOCOL_CANCEL && s->state == CLIENT_OPEN) return 0; /* of a wait that has just ended */
    if ((frame->type == PRESIL_REQUEST_OPEN) != (s->state == CLIENT_GREETING)) {
        (void)snprintf(text, sizeof text, "%s, %s expected", protocol_name(frame->type),
                       s->state == CLIENT_GREETING ? "OPEN" : "a request");
    } else if (frame->sequence != s->expected) {
        (void)snprintf(text, sizeof text, "%s has sequence %u, %u expected", protocol_name(frame->type),
                       frame->sequence, s->expected);
    } else if (frame->type == PRESIL_REQUEST_WRITE_TIMES && !(s->told.capabilities & PRESIL_CAP_WRITE_TIMES)) {
        /* Who serves may have been compiled before there was such a request. */
        (void)snprintf(text, sizeof text, "%s, which this server does not offer", protocol_name(frame->type));
    } else if (protocol_decode_request(frame, payload, out, &hello, &s->scratch, text, sizeof text) == 0) {
        s->expected++;
        if (out->kind == PRESIL_REQUEST_CLOSE) {
            presil_server_lose(s, "");
            return 0;
        }
        const char *refused = out->kind == PRESIL_REQUEST_OPEN ? check_open(s, out, &hello) : NULL;
        if (refused) {
            presil_server_lose(s, refused);
            return 0;
        }
        if (after_failure(s, out, frame->sequence)) return 0;
        if (out->kind == PROTOCOL_IDENTITY || out->kind == PROTOCOL_TIMING) {
            presil_server_tell_own(s, out->kind, frame->sequence);
            return 0;
        }
        if (out->kind == PRESIL_REQUEST_OPEN) {
            s->state = CLIENT_OPENING;
            s->timing[0] = 0;
        }
        presil_server_hand_out(s, out, frame->sequence);
        return 1;
    }
    breach(s, text);
    return 0;
}

static void receive(presil_server *s) {
    const int n = s->state == CLIENT_GREETING ? channel_receive_fd(&s->client, &s->memory_fd, &s->extra_fds)
                                              : channel_receive(&s->client);
    if (n == 0)
        presil_server_lose(s, channel_pending(&s->client) ? "it went in the middle of a message"
                                                          : "it went without CLOSE");
    else if (n < 0 && n != -EAGAIN)
        presil_server_lose(s, strerror(-n));
}

static int next_message(presil_server *s, presil_request *out) {
    protocol_frame frame;
    const uint8_t *payload = NULL;
    char text[SERVER_TEXT - 32];
    while (s->state != CLIENT_NONE && !s->lost) {
        const int found = channel_frame(&s->client, &frame, &payload, text, sizeof text);
        if (found < 0) breach(s, text);
        if (found <= 0) return 0;
        const int taken = take(s, &frame, payload, out);
        channel_pop(&s->client, &frame);
        if (taken) return 1;
    }
    return 0;
}

/* ---- the loop */
/* A client that has to go. 1: CLOSE is for the caller. */
static int let_go(presil_server *s, presil_request *out) {
    const bool was_open = s->state == CLIENT_OPEN;
    char text[SERVER_TEXT];
    (void)snprintf(text, sizeof text, "%s", s->lost_text);
    presil_server_log(s, "process %d has gone%s%s", s->pid, *text ? ": " : "", text);
    presil_server_drop(s, *text ? text : NULL);
    if (!was_open) return 0;
    *out = (presil_request){.kind = PRESIL_REQUEST_CLOSE};
    s->told_close = true;
    return 1;
}

static void wait_for_input(presil_server *s, uint64_t until_ms) {
    const uint64_t now = channel_now_ms();
    uint64_t wait = until_ms > now ? until_ms - now : 0;
    if (s->stop && wait > TICK_MS) wait = TICK_MS;
    if (s->state == CLIENT_GREETING && s->greeting_until > now && wait > s->greeting_until - now)
        wait = s->greeting_until - now;
    if (wait > 60000) wait = 60000;
    struct pollfd p[2] = {{.fd = s->state == CLIENT_NONE ? -1 : s->client.fd, .events = POLLIN},
                          {.fd = s->listener, .events = POLLIN}};
    if (channel_poll(p, 2, (int)wait, s->state == CLIENT_OPEN ? SPIN_US : 0) < 0) return;
    /* The client first: the next one may come because it is going. */
    if (p[0].revents)
        receive(s);
    else if (p[1].revents)
        presil_server_accept(s);
    if (s->state == CLIENT_GREETING && !p[0].revents && channel_now_ms() >= s->greeting_until)
        presil_server_lose(s, "it connected and did not say OPEN");
}

int presil_serve_next(presil_server *s, presil_request *out, int timeout_ms) {
    if (!s || !out) return PRESIL_SERVE_EINVAL;
    if (s->outstanding && !s->lost)
        return presil_server_fail(s, PRESIL_SERVE_EINVAL, "presil_serve_next: %s has not been answered",
                                  protocol_name(s->kind));
    const uint64_t until = timeout_ms < 0 ? UINT64_MAX : channel_now_ms() + (uint64_t)timeout_ms;
    for (bool waited = false;; waited = true) {
        if (presil_server_stopped(s) && s->state != CLIENT_NONE) presil_server_lose(s, "the server ends");
        if (s->lost && let_go(s, out)) return 1;
        if (presil_server_stopped(s) || (s->once && s->told_close)) return PRESIL_SERVE_ENDED;
        if (s->then_running && presil_server_then_next(s, out)) return 1;
        if (next_message(s, out)) return 1;
        if (s->lost) continue;
        if (waited && channel_now_ms() >= until) return 0;
        wait_for_input(s, until);
    }
}

/* ---- while a request runs */
static void look_at_client(presil_server *s) {
    protocol_frame frame;
    const uint8_t *payload = NULL;
    char text[SERVER_TEXT - 32];
    receive(s);
    while (!s->lost) {
        const int found = channel_frame(&s->client, &frame, &payload, text, sizeof text);
        if (found < 0) breach(s, text);
        if (found <= 0) return;
        if (frame.type != PROTOCOL_CANCEL) {
            (void)snprintf(text, sizeof text, "%s before the answer to %s", protocol_name(frame.type),
                           protocol_name(s->kind));
            breach(s, text);
            return;
        }
        if (frame.sequence == s->sequence && s->kind == PRESIL_REQUEST_WAIT) s->cancelled = true;
        channel_pop(&s->client, &frame);
    }
}

void presil_server_look(presil_server *s) {
    if (s->lost || s->state != CLIENT_OPEN) return;
    struct pollfd p[2] = {{.fd = s->client.fd, .events = POLLIN}, {.fd = s->listener, .events = POLLIN}};
    if (poll(p, 2, 0) <= 0) return;
    if (p[0].revents)
        look_at_client(s);
    else if (p[1].revents)
        presil_server_accept(s);
}

void presil_server_progress(presil_server *s, uint64_t cycles) {
    uint8_t payload[8];
    protocol_writer w = {payload, sizeof payload, 0, false};
    protocol_put64(&w, cycles);
    presil_server_tell(s, PROTOCOL_PROGRESS, payload, sizeof payload);
}

uint32_t presil_serve_poll(presil_server *s, uint64_t cycles) {
    if (!s || !s->outstanding) return 0;
    const uint64_t now = presil_now_ns();
    if (s->deadline_ns && now - s->wait_began >= s->deadline_ns) return PRESIL_WAIT_DEADLINE;
    if (now - s->looked_at < 1000000u) return 0;
    s->looked_at = now;
    presil_server_look(s);
    if (s->cancelled || s->lost || presil_server_stopped(s)) return PRESIL_WAIT_CANCELLED;
    if (now - s->progress_at >= SERVER_PROGRESS_MS * 1000000u) {
        s->progress_at = now;
        presil_server_progress(s, cycles);
    }
    return 0;
}
