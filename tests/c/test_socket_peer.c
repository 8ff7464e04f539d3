/* SPDX-License-Identifier: Apache-2.0 */
/* Each end of the socket transport against a peer that does what it should not: wrong versions, lengths, sequences and
 * descriptors; silence, slowness, and an end in mid-message. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client.h"
#include "server.h"

enum { MEMORY = 1 << 20, BASE = 0x10000 };

static const presil_transport_ops *ops;

static int memory_fd(unsigned flags, unsigned seals, off_t bytes) {
    const int fd = memfd_create("test", MFD_CLOEXEC | flags);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, bytes), 0);
    if (seals) assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
    return fd;
}

static int good_memory(void) { return memory_fd(MFD_ALLOW_SEALING, F_SEAL_SHRINK, MEMORY); }

/* ---- messages by hand */
typedef struct {
    uint8_t bytes[4096];
    size_t used;
} message;

static void header(message *m, uint16_t type, uint16_t flags, uint32_t sequence, uint32_t length) {
    protocol_put_header(m->bytes + m->used,
                        (protocol_frame){.type = type, .flags = flags, .sequence = sequence, .length = length});
    m->used += PROTOCOL_HEADER;
}

static void put32(message *m, uint32_t value) {
    protocol_writer w = {m->bytes + m->used, 4, 0, false};
    protocol_put32(&w, value);
    m->used += 4;
}

static message frame(uint16_t type, uint32_t sequence, uint32_t length, const uint32_t *words) {
    message m = {.used = 0};
    header(&m, type, 0, sequence, length);
    for (uint32_t i = 0; words && i < length / 4; i++) put32(&m, words[i]);
    return m;
}

static message good_welcome(void) {
    message m = {.used = PROTOCOL_HEADER};
    protocol_writer w = {m.bytes + PROTOCOL_HEADER, sizeof m.bytes - PROTOCOL_HEADER, 0, false};
    protocol_put_answer(&w, 0, 0);
    const protocol_welcome welcome = {
        .version = PROTOCOL_VERSION,
        .abi = PRESIL_TRANSPORT_ABI,
        .region_count = 1,
        .regions = {{{BASE}, MEMORY, NULL}},
        .info = {
            .capabilities = PRESIL_CAP_CLOCKED, .clock_mhz = 1, .chip = "c", .config = "d", .build = "e", .text = "f"}};
    protocol_put_welcome(&w, &welcome);
    m.used += w.used;
    protocol_put_header(m.bytes, (protocol_frame){.type = PROTOCOL_ANSWER, .length = (uint32_t)w.used});
    return m;
}

static message answer(uint32_t sequence, uint32_t count, const uint32_t *words) {
    message m = {.used = 0};
    header(&m, PROTOCOL_ANSWER, 0, sequence, PROTOCOL_ANSWER_HEAD + 4 * count);
    for (int i = 0; i < 4; i++) put32(&m, i == 2 ? 77 : 0); /* status 0, cycles 77 */
    for (uint32_t i = 0; i < count; i++) put32(&m, words[i]);
    return m;
}

static void say(int fd, const message *m, size_t bytes) {
    assert_int_equal(send(fd, m->bytes, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

/* ---- the client's side: pair[0] is the peer's */
static int open_client(int *peer, const message *welcome, size_t bytes, const char *options, presil_transport **out,
                       char *error) {
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(fcntl(pair[1], F_SETFL, O_NONBLOCK), 0);
    if (welcome)
        say(pair[0], welcome, bytes);
    else
        assert_int_equal(shutdown(pair[0], SHUT_WR), 0);
    const presil_transport_options o = {.size = sizeof o,
                                        .abi = PRESIL_TRANSPORT_ABI,
                                        .memory_fd = -1,
                                        .memory_bytes = MEMORY,
                                        .memory_base = {BASE},
                                        .options = options};
    *peer = pair[0];
    return socket_open_fd(&o, pair[1], out, error, 512);
}

static void welcome_fails(const message *m, size_t bytes, const char *text) {
    presil_transport *t = NULL;
    char error[512] = "";
    int peer = -1;
    assert_int_equal(open_client(&peer, m, bytes, "test,timeout=0.1", &t, error), PRESIL_TRANSPORT_EIO);
    assert_null(t);
    if (!strstr(error, text)) fail_msg("\"%s\" expected, \"%s\" found", text, error);
    assert_non_null(strstr(error, "socket:test"));
    (void)close(peer);
}

static void bad_welcomes(void **state) {
    (void)state;
    const message good = good_welcome();
    message m = good;
    m.bytes[PROTOCOL_HEADER + PROTOCOL_ANSWER_HEAD] = 9;
    welcome_fails(&m, m.used, "protocol version 1 expected, 9 found");
    m = good;
    m.bytes[PROTOCOL_HEADER + PROTOCOL_ANSWER_HEAD + 4] = 1;
    welcome_fails(&m, m.used, "transport ABI 2 expected, 1 found");
    m = good;
    m.bytes[PROTOCOL_HEADER + PROTOCOL_ANSWER_HEAD + 8] = PROTOCOL_WELCOME_MAPPED;
    welcome_fails(&m, m.used, "maps memory that it was not given");
    m = good;
    m.bytes[m.used - 20] = 17; /* regions */
    welcome_fails(&m, m.used, "malformed");
    m = good;
    memset(m.bytes + PROTOCOL_HEADER + PROTOCOL_ANSWER_HEAD + 20, 'x', 32); /* a name without an end */
    welcome_fails(&m, m.used, "malformed");
    m = good;
    m.bytes[0] = 'Q';
    welcome_fails(&m, m.used, "\"PRSL\"");
    m = good;
    m.bytes[8] = 1;
    welcome_fails(&m, m.used, "sequence 1, 0 (OPEN) expected");
    m = frame(PROTOCOL_ANSWER, 0, 0x7fffffff, NULL);
    welcome_fails(&m, m.used, "a message ANSWER of 2147483647 bytes");
    m = frame(999, 0, 4, (const uint32_t[]){0});
    welcome_fails(&m, m.used, "unknown type 999");
    m = frame(PRESIL_REQUEST_RESET, 0, 0, NULL);
    welcome_fails(&m, m.used, "sends RESET");
    m = (message){.used = 0};
    header(&m, PROTOCOL_REFUSED, 0, 0, 4 + 4 + 3);
    put32(&m, PROTOCOL_VERSION), put32(&m, 3);
    memcpy(m.bytes + m.used, "why", 3);
    welcome_fails(&m, m.used + 3, "the peer refuses: why");
    welcome_fails(NULL, 0, "closed the connection");
    welcome_fails(&good, good.used - 1, "said nothing for 0.1 s");
    welcome_fails(&good, 0, "said nothing for 0.1 s; an answer to OPEN expected");
}

static presil_transport *good_client(int *peer, const char *options) {
    presil_transport *t = NULL;
    char error[512] = "";
    const message m = good_welcome();
    if (open_client(peer, &m, m.used, options, &t, error)) fail_msg("%s", error);
    return t;
}

static void lost(presil_transport *t, int peer, const char *text) {
    uint32_t value = 5;
    if (!strstr(ops->last_error(t), text)) fail_msg("\"%s\" expected, \"%s\" found", text, ops->last_error(t));
    assert_int_equal(ops->read32(t, 0, &value), PRESIL_TRANSPORT_EIO);
    assert_int_equal(ops->write32(t, 0, 1), PRESIL_TRANSPORT_EIO);
    assert_int_equal(value, 5);
    assert_non_null(strstr(ops->last_error(t), text)); /* it stays */
    ops->close(t);
    (void)close(peer);
}

static void bad_answers(void **state) {
    (void)state;
    static const uint32_t words[] = {9, 9, 9, 9};
    static const struct {
        uint32_t count;
        int end;
    } lengths[] = {{0, 0}, {2, 0}, {1, 3}};
    uint32_t value = 5;
    int peer;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        presil_transport *t = good_client(&peer, "test,timeout=0.2");
        const message m = answer(1, lengths[i].count, words);
        say(peer, &m, m.used - (size_t)lengths[i].end);
        if (lengths[i].end) (void)shutdown(peer, SHUT_WR);
        assert_int_equal(ops->read32(t, 0, &value), PRESIL_TRANSPORT_EIO);
        assert_int_equal(value, 5);
        lost(t, peer, lengths[i].end ? "closed the connection" : "answer to READ32 is malformed");
    }
    presil_transport *t = good_client(&peer, "test,timeout=0.2");
    message m = answer(1, 4, (const uint32_t[]){7, 0, 0, 0}); /* no reason of a wait */
    presil_wait w = {.size = sizeof w, .reason = 3, .cycles = 4};
    say(peer, &m, m.used);
    assert_int_equal(ops->wait(t, &w), PRESIL_TRANSPORT_EIO);
    assert_true(w.reason == 3 && w.cycles == 4);
    lost(t, peer, "answer to WAIT is malformed");
    t = good_client(&peer, "test,timeout=0.2");
    m = answer(1, 1, words);
    m.bytes[6] = PROTOCOL_MORE;
    say(peer, &m, m.used);
    assert_int_equal(ops->read32(t, 0, &value), PRESIL_TRANSPORT_EIO);
    lost(t, peer, "malformed");
    t = good_client(&peer, "test,timeout=0.2");
    m = answer(1, 0, NULL);
    memset(m.bytes + PROTOCOL_HEADER, 0x80, 4); /* a status that there is not */
    say(peer, &m, m.used);
    assert_int_equal(ops->reset(t), PRESIL_TRANSPORT_EIO);
    lost(t, peer, "malformed");
}

static void a_silent_peer_is_given_up(void **state) {
    (void)state;
    int peer;
    presil_transport *t = good_client(&peer, "test,timeout=1");
    const uint64_t start = channel_now_ms();
    presil_wait w = {.size = sizeof w};
    assert_int_equal(ops->wait(t, &w), PRESIL_TRANSPORT_EIO);
    const uint64_t given_up = channel_now_ms();
    assert_in_range(given_up - start, 999, 20000);
    assert_non_null(strstr(ops->last_error(t), "said nothing for 1 s; progress or an answer to WAIT expected"));
    assert_int_equal(ops->reset(t), PRESIL_TRANSPORT_EIO); /* at once: who has waited does not wait twice */
    assert_in_range(channel_now_ms() - given_up, 0, 900);
    lost(t, peer, "said nothing");
    /* One that does not read: what is posted fills the socket. */
    t = good_client(&peer, "test,timeout=0.2");
    char *block = calloc(1, 8 << 20);
    assert_int_equal(ops->mem_write(t, (presil_daddr){BASE}, block, 8 << 20), PRESIL_TRANSPORT_EIO);
    free(block);
    lost(t, peer, "read nothing for 0.2 s");
}

/* ---- a peer in a thread */
typedef struct {
    int fd;
    unsigned progress;
    bool obeys;
    uint64_t cancelled_at;
} waiting_peer;

static void *wait_slowly(void *context) {
    waiting_peer *p = context;
    const message progress = frame(PROTOCOL_PROGRESS, 0, 8, (const uint32_t[]){1000, 0});
    uint8_t buffer[512];
    for (unsigned i = 0; i < p->progress; i++) {
        const ssize_t n = recv(p->fd, buffer, sizeof buffer, MSG_DONTWAIT);
        if (n > 0 && buffer[n - 12] == PROTOCOL_CANCEL) p->cancelled_at = channel_now_ms();
        if (p->cancelled_at && p->obeys) break;
        if (send(p->fd, progress.bytes, progress.used, MSG_NOSIGNAL) < 0) return NULL;
        (void)usleep(5000);
    }
    const message m =
        answer(1, 4, (const uint32_t[]){p->cancelled_at ? PRESIL_WAIT_CANCELLED : PRESIL_WAIT_IRQ, 0, 1234, 0});
    for (size_t i = 0; i < m.used; i++) { /* byte by byte */
        if (send(p->fd, m.bytes + i, 1, MSG_NOSIGNAL) < 0) return NULL;
        (void)usleep(500);
    }
    return NULL;
}

typedef struct {
    unsigned calls;
    volatile int cancel;
    uint64_t cancel_at;
} watcher;

static void on_progress(void *context, uint64_t cycles) {
    watcher *w = context;
    assert_int_equal(cycles, 1000);
    if (++w->calls == 10 && w->cancel_at == 1) {
        w->cancel_at = channel_now_ms();
        w->cancel = 1;
    }
}

static void a_slow_peer_is_waited_for_and_cancelled(void **state) {
    (void)state;
    for (int cancels = 0; cancels < 3; cancels++) { /* 0: not; 1: the peer obeys; 2: it does not */
        pthread_t thread;
        waiting_peer p = {.progress = cancels == 2 ? 400 : 60, .obeys = cancels == 1};
        watcher seen = {.cancel_at = cancels != 0};
        presil_transport *t = good_client(&p.fd, cancels == 2 ? "test,timeout=0.3" : "test,timeout=5");
        assert_int_equal(pthread_create(&thread, NULL, wait_slowly, &p), 0);
        presil_wait w = {.size = sizeof w, .cancel = &seen.cancel, .progress = on_progress, .progress_context = &seen};
        const int status = ops->wait(t, &w);
        const uint64_t ended = channel_now_ms();
        if (cancels == 2) {
            assert_int_equal(status, PRESIL_TRANSPORT_EIO);
            assert_in_range(ended - seen.cancel_at, 290, 1500);
            assert_non_null(strstr(ops->last_error(t), "said nothing"));
        } else {
            if (status) fail_msg("%d: %s", cancels, ops->last_error(t));
            assert_int_equal(w.reason, cancels ? PRESIL_WAIT_CANCELLED : PRESIL_WAIT_IRQ);
            assert_int_equal(w.cycles, 1234);
            if (!cancels)
                assert_int_equal(seen.calls, 60);
            else
                assert_in_range(p.cancelled_at - seen.cancel_at, 0, 2000);
            uint64_t cycles = 0;
            assert_int_equal(ops->cycles(t, &cycles), 0); /* came with the answer */
            assert_int_equal(cycles, 77);
        }
        ops->close(t);
        assert_int_equal(pthread_join(thread, NULL), 0);
        (void)close(p.fd);
    }
}

/* ---- the server's side */
static char server_log[2048];

static void on_log(void *context, const char *text) {
    (void)context;
    (void)snprintf(server_log, sizeof server_log, "%s", text);
}

static presil_server *new_server(int *client) {
    static const presil_serve_options options = {
        .size = sizeof options, .log = on_log, .info = {.chip = "c", .config = "d", .build = "e"}};
    int pair[2];
    presil_server *s = presil_server_create(&options);
    assert_non_null(s);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    presil_server_adopt(s, pair[1]);
    *client = pair[0];
    return s;
}

static message good_open(uint32_t flags) {
    message m = {.used = PROTOCOL_HEADER};
    protocol_writer w = {m.bytes + PROTOCOL_HEADER, sizeof m.bytes - PROTOCOL_HEADER, 0, false};
    const presil_request q = {
        .kind = PRESIL_REQUEST_OPEN,
        .open = {.memory_base = {BASE}, .memory_bytes = MEMORY, .memory_model = "ideal", .seed = 3}};
    const protocol_hello hello = {
        .version = PROTOCOL_VERSION, .abi = PRESIL_TRANSPORT_ABI, .flags = flags, .client = "test"};
    assert_true(protocol_encode_request(&w, &q, &hello));
    m.used += w.used;
    protocol_put_header(m.bytes, (protocol_frame){.type = PRESIL_REQUEST_OPEN, .length = (uint32_t)w.used});
    return m;
}

static void send_fds(int fd, const message *m, const int *fds, size_t count) {
    union {
        struct cmsghdr h;
        char bytes[CMSG_SPACE(16 * sizeof(int))];
    } control = {0};
    struct iovec part = {(void *)(uintptr_t)m->bytes, m->used};
    struct msghdr h = {.msg_iov = &part,
                       .msg_iovlen = 1,
                       .msg_control = control.bytes,
                       .msg_controllen = CMSG_SPACE(count * sizeof(int))};
    *CMSG_FIRSTHDR(&h) =
        (struct cmsghdr){.cmsg_len = CMSG_LEN(count * sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(&h)), fds, count * sizeof(int));
    assert_int_equal(sendmsg(fd, &h, 0), (ssize_t)m->used);
}

/* What the server says last, as text. */
static void hears(int client, uint16_t type, const char *text) {
    static uint8_t bytes[1 << 16];
    ssize_t n = 0, got = 0;
    while ((got = recv(client, bytes + n, sizeof bytes - (size_t)n, MSG_DONTWAIT)) > 0) n += got;
    for (size_t at = 0; at + PROTOCOL_HEADER <= (size_t)n;) {
        protocol_frame f;
        char why[128];
        assert_int_equal(protocol_header(bytes + at, &f, why, sizeof why), 0);
        if (f.type == type && memmem(bytes + at + PROTOCOL_HEADER, f.length, text, strlen(text))) return;
        at += PROTOCOL_HEADER + f.length;
    }
    fail_msg("%s with \"%s\" expected; log: %s", protocol_name(type), text, server_log);
}

static void refused(const message *m, const int *fds, size_t count, const char *text) {
    int client;
    presil_server *s = new_server(&client);
    presil_request q;
    if (count)
        send_fds(client, m, fds, count);
    else
        say(client, m, m->used);
    assert_int_equal(presil_serve_next(s, &q, 0), 0);
    assert_int_equal(presil_serve_next(s, &q, 0), 0);
    hears(client, PROTOCOL_REFUSED, text);
    (void)close(client);
    presil_serve_close(s);
}

static void bad_hellos(void **state) {
    (void)state;
    const message with = good_open(PROTOCOL_OPEN_MEMORY_FD), without = good_open(0);
    message m = without;
    m.bytes[PROTOCOL_HEADER] = 2;
    refused(&m, NULL, 0, "protocol version 1 expected, 2 found");
    m = without;
    m.bytes[PROTOCOL_HEADER + 4] = 1;
    refused(&m, NULL, 0, "another version of presil_transport.h");
    m = without;
    m.bytes[PROTOCOL_HEADER + 24] = 1; /* memory_bytes */
    refused(&m, NULL, 0, "multiples of 4096");
    m = without;
    m.bytes[PROTOCOL_HEADER + 8] = 8; /* flags */
    refused(&m, NULL, 0, "not known");
    m = frame(PRESIL_REQUEST_RESET, 0, 0, NULL);
    refused(&m, NULL, 0, "RESET, OPEN expected");
    m = frame(PRESIL_REQUEST_MEM_WRITE, 0, UINT32_MAX, NULL);
    refused(&m, NULL, 0, "4294967295 bytes");
    int fds[12];
    for (int i = 0; i < 12; i++) fds[i] = good_memory();
    refused(&with, NULL, 0, "none came");
    refused(&without, fds, 1, "not announced");
    refused(&with, fds, 2, "one descriptor expected");
    refused(&with, fds, 12, "one descriptor expected");
    const int unsealed = memory_fd(MFD_ALLOW_SEALING, 0, MEMORY),
              small = memory_fd(MFD_ALLOW_SEALING, F_SEAL_SHRINK, MEMORY / 2), null = open("/dev/null", O_RDWR);
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fds[0]);
    const int readable = open(path, O_RDONLY);
    refused(&with, &unsealed, 1, "F_SEAL_SHRINK");
    refused(&with, &small, 1, "less bytes");
    refused(&with, &null, 1, "no memfd");
    refused(&with, &readable, 1, "reading and writing");
    for (int i = 0; i < 12; i++) (void)close(fds[i]);
    (void)close(unsealed), (void)close(small), (void)close(null), (void)close(readable);
}

static presil_server *open_server(int *client) {
    presil_server *s = new_server(client);
    presil_request q;
    const message m = good_open(0);
    say(*client, &m, m.used);
    assert_int_equal(presil_serve_next(s, &q, 0), 1);
    assert_int_equal(q.kind, PRESIL_REQUEST_OPEN);
    assert_string_equal(q.open.memory_model, "ideal");
    assert_int_equal(q.open.memory_fd, -1);
    assert_int_equal(presil_serve_reply_done(s, 0, NULL), 0);
    return s;
}

static void dropped(const message *m, size_t bytes, bool ends, const char *text) {
    int client;
    presil_server *s = open_server(&client);
    presil_request q;
    say(client, m, bytes);
    if (ends) (void)shutdown(client, SHUT_WR);
    assert_int_equal(presil_serve_next(s, &q, 1000), 1);
    assert_int_equal(q.kind, PRESIL_REQUEST_CLOSE);
    if (!strstr(server_log, text)) fail_msg("\"%s\" expected, \"%s\" found", text, server_log);
    hears(client, PROTOCOL_GOODBYE, text);
    assert_int_equal(presil_serve_next(s, &q, 0), 0); /* told once */
    /* The next one finds a server that works. */
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    presil_server_adopt(s, pair[1]);
    const message hello = good_open(0);
    say(pair[0], &hello, hello.used);
    assert_int_equal(presil_serve_next(s, &q, 0), 1);
    assert_int_equal(q.kind, PRESIL_REQUEST_OPEN);
    (void)close(client), (void)close(pair[0]);
    presil_serve_close(s);
}

static void bad_requests(void **state) {
    (void)state;
    message m = good_open(0);
    dropped(&m, m.used, false, "OPEN, a request expected");
    m = frame(PRESIL_REQUEST_RESET, 7, 0, NULL);
    dropped(&m, m.used, false, "RESET has sequence 7, 1 expected");
    m = frame(PRESIL_REQUEST_READ32, 1, 12, (const uint32_t[]){3, 0, 0});
    dropped(&m, m.used, false, "a malformed READ32 of 12 bytes");
    m = frame(PRESIL_REQUEST_READ32, 1, 8, (const uint32_t[]){0xffffffff, 0});
    dropped(&m, m.used, false, "malformed READ32");
    m = frame(PRESIL_REQUEST_MEM_READ, 1, 16, (const uint32_t[]){0, 0, PRESIL_SERVE_CHUNK + 1, 0});
    dropped(&m, m.used, false, "malformed MEM_READ");
    m = frame(PRESIL_REQUEST_INJECT, 1, 8, (const uint32_t[]){4, 0x00610061}); /* a text with zeros in it */
    dropped(&m, m.used, false, "malformed INJECT");
    m = frame(PRESIL_REQUEST_WRITE_TIMES, 1, 8, (const uint32_t[]){0, 0});
    dropped(&m, m.used, false, "WRITE_TIMES, which this server does not offer");
    m = frame(PROTOCOL_ANSWER, 1, 16, (const uint32_t[]){0, 0, 0, 0});
    dropped(&m, m.used, false, "ANSWER is no request");
    m = frame(PRESIL_REQUEST_WRITE32, 1, 8, (const uint32_t[]){0, 0});
    dropped(&m, m.used - 1, true, "in the middle of a message");
    dropped(&m, 0, true, "without CLOSE");
}

static void posted_failures_come_with_the_next_answer(void **state) {
    (void)state;
    int client;
    presil_server *s = open_server(&client);
    presil_request q;
    const message w = frame(PRESIL_REQUEST_WRITE32, 1, 8, (const uint32_t[]){4, 5}),
                  v = frame(PRESIL_REQUEST_WRITE32, 2, 8, (const uint32_t[]){8, 9}),
                  r = frame(PRESIL_REQUEST_READ32, 3, 8, (const uint32_t[]){1, 4}),
                  again = frame(PRESIL_REQUEST_READ32, 4, 8, (const uint32_t[]){1, 4});
    say(client, &w, w.used), say(client, &v, v.used), say(client, &r, r.used), say(client, &again, again.used);
    assert_int_equal(presil_serve_next(s, &q, 0), 1);
    assert_true(q.kind == PRESIL_REQUEST_WRITE32 && q.offset == 4 && q.value == 5);
    assert_int_equal(presil_serve_next(s, &q, 0), PRESIL_SERVE_EINVAL); /* not answered */
    assert_int_equal(presil_serve_reply_done(s, PRESIL_TRANSPORT_EBUS, "no such register"), 0);
    /* The second write and the first read are not handed out. */
    assert_int_equal(presil_serve_next(s, &q, 0), 1);
    assert_int_equal(q.kind, PRESIL_REQUEST_READ32);
    hears(client, PROTOCOL_ANSWER, "WRITE32: no such register");
    const uint32_t value = 6;
    assert_int_equal(presil_serve_reply_bytes(s, &value, 4), PRESIL_SERVE_EINVAL);
    assert_int_equal(presil_serve_reply_values(s, &value, 2), PRESIL_SERVE_EINVAL);
    assert_int_equal(presil_serve_reply_done(s, 0, NULL), PRESIL_SERVE_EINVAL);
    assert_int_equal(presil_serve_reply_done(s, 1, NULL), PRESIL_SERVE_EINVAL);
    assert_int_equal(presil_serve_reply_values(s, &value, 1), 0);
    assert_int_equal(presil_serve_reply_values(s, &value, 1), PRESIL_SERVE_EINVAL); /* once */
    (void)close(client);
    presil_serve_close(s);
}

/* A client that reads late: LOGs that found room in part are finished before the answer, none is cut. */
static void nothing_lands_in_the_middle_of_a_message(void **state) {
    (void)state;
    int pair[2];
    const int least = 1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_int_equal(setsockopt(pair[1], SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    const presil_serve_options options = {.size = sizeof options, .info = {.chip = "c", .config = "d", .build = "e"}};
    presil_server *s = presil_server_create(&options);
    presil_server_adopt(s, pair[1]);
    const message hello = good_open(0);
    say(pair[0], &hello, hello.used);
    presil_request q;
    assert_int_equal(presil_serve_next(s, &q, 1000), 1);
    assert_int_equal(presil_serve_reply_done(s, 0, NULL), 0);
    const message wait = frame(PRESIL_REQUEST_WAIT, 1, 24, (const uint32_t[]){0, 0, 0, 0, 0, 0});
    say(pair[0], &wait, wait.used);
    assert_int_equal(presil_serve_next(s, &q, 1000), 1);
    uint8_t log[4 + PROTOCOL_TEXT];
    memset(log, 'x', sizeof log);
    protocol_writer w = {log, sizeof log, 0, false};
    protocol_put32(&w, PROTOCOL_TEXT);
    const uint64_t start = channel_now_ms();
    for (int i = 0; i < 40; i++) presil_server_tell(s, PROTOCOL_LOG, log, sizeof log);
    assert_true(s->rest_bytes > 0);                     /* one is half out */
    assert_in_range(channel_now_ms() - start, 0, 5000); /* and nobody waited for the client */
    channel link;
    uint32_t logs = 0, answers = 0;
    bool replied = false;
    assert_int_equal(fcntl(pair[0], F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(channel_open(&link, pair[0]), 0);
    while (answers < 2) {
        protocol_frame f;
        const uint8_t *payload = NULL;
        char text[256] = "";
        const int got = channel_receive(&link);
        assert_true(got > 0 || got == -EAGAIN);
        for (int found; (found = channel_frame(&link, &f, &payload, text, sizeof text)) != 0;) {
            if (found < 0) fail_msg("%s", text);
            assert_true(f.type == PROTOCOL_LOG || f.type == PROTOCOL_ANSWER);
            if (f.type == PROTOCOL_LOG) assert_memory_equal(payload, log, sizeof log);
            logs += f.type == PROTOCOL_LOG;
            answers += f.type == PROTOCOL_ANSWER;
            channel_pop(&link, &f);
        }
        if (!replied && got == -EAGAIN) assert_int_equal(presil_serve_reply_wait(s, PRESIL_WAIT_IRQ, 5), 0);
        replied |= got == -EAGAIN;
        assert_true(channel_now_ms() - start < 10000);
    }
    assert_true(logs > 0 && logs < 40);
    channel_close(&link);
    presil_serve_close(s);
}

/* WAIT_THEN reaches whoever serves as WAIT, WRITE32 and READ32; the client gets one answer. */
static message wait_then(uint32_t sequence) {
    static const presil_register_access then[] = {
        {.offset = 4}, {.offset = 8, .is_write = 1, .value = 9}, {.offset = 12}, {.offset = 16}};
    message m = {.used = PROTOCOL_HEADER};
    protocol_writer w = {m.bytes + PROTOCOL_HEADER, sizeof m.bytes - PROTOCOL_HEADER, 0, false};
    protocol_put_wait_then(&w, &(presil_wait){.size = sizeof(presil_wait), .hang_cycles = 5}, then, 4);
    protocol_put_header(m.bytes,
                        (protocol_frame){.type = PROTOCOL_WAIT_THEN, .sequence = sequence, .length = (uint32_t)w.used});
    m.used += w.used;
    return m;
}

static void accesses_follow_the_interrupt(void **state) {
    (void)state;
    int client = -1;
    presil_server *s = open_server(&client);
    presil_request q;
    uint8_t welcome[1024];
    assert_true(recv(client, welcome, sizeof welcome, MSG_DONTWAIT) > 0);
    static const uint32_t values[] = {40, 41, 42};
    for (int kind = 0; kind < 4; kind++) { /* all well; no interrupt; a write fails; a read fails */
        const message m = wait_then((uint32_t)kind + 1);
        say(client, &m, m.used);
        assert_int_equal(presil_serve_next(s, &q, 1000), 1);
        assert_int_equal(q.kind, PRESIL_REQUEST_WAIT);
        assert_int_equal(q.wait.hang_cycles, 5);
        assert_int_equal(presil_serve_reply_wait(s, kind == 1 ? PRESIL_WAIT_HUNG : PRESIL_WAIT_IRQ, 77), 0);
        if (kind != 1) {
            assert_int_equal(presil_serve_next(s, &q, 1000), 1);
            assert_true(q.kind == PRESIL_REQUEST_READ32 && q.count == 1 && q.offsets[0] == 4);
            if (kind == 3)
                assert_int_equal(presil_serve_reply_done(s, PRESIL_TRANSPORT_EBUS, "no answer"), 0);
            else
                assert_int_equal(presil_serve_reply_values(s, values, 1), 0);
        }
        if (kind == 0 || kind == 2) {
            assert_int_equal(presil_serve_next(s, &q, 1000), 1);
            assert_true(q.kind == PRESIL_REQUEST_WRITE32 && q.offset == 8 && q.value == 9);
            assert_int_equal(presil_serve_reply_done(s, kind ? PRESIL_TRANSPORT_EBUS : 0, kind ? "refused" : NULL), 0);
        }
        if (kind == 0) {
            assert_int_equal(presil_serve_next(s, &q, 1000), 1);
            assert_true(q.kind == PRESIL_REQUEST_READ32 && q.count == 2 && q.offsets[0] == 12 && q.offsets[1] == 16);
            assert_int_equal(presil_serve_reply_values(s, values + 1, 2), 0);
        }
        assert_int_equal(presil_serve_next(s, &q, 0), 0);
        uint8_t bytes[512];
        const ssize_t got = recv(client, bytes, sizeof bytes, MSG_DONTWAIT);
        protocol_reader r = {bytes + PROTOCOL_HEADER, (size_t)(got - (ssize_t)PROTOCOL_HEADER), 0, false};
        protocol_frame f;
        char text[PROTOCOL_TEXT + 1];
        assert_int_equal(protocol_header(bytes, &f, text, sizeof text), 0);
        assert_true(f.type == PROTOCOL_ANSWER && f.sequence == (uint32_t)kind + 1 && f.length == r.bytes);
        protocol_answer a;
        assert_int_equal(protocol_get_answer(&r, &a, text), 0);
        assert_int_equal(a.status, kind < 2 ? 0 : PRESIL_TRANSPORT_EBUS);
        if (kind >= 2) continue;
        assert_int_equal(protocol_get32(&r), kind ? PRESIL_WAIT_HUNG : PRESIL_WAIT_IRQ);
        assert_int_equal(protocol_get32(&r), 0);
        assert_int_equal(protocol_get64(&r), 77);
        for (uint32_t i = 0; i < 3 && kind == 0; i++) assert_int_equal(protocol_get32(&r), 40 + i);
        assert_true(protocol_read_end(&r));
    }
    (void)close(client);
    presil_serve_close(s);
}

static void a_wait_sees_cancel_and_the_end(void **state) {
    (void)state;
    for (int ends = 0; ends < 3; ends++) { /* 0: CANCEL; 1: the client goes; 2: it sends what it may not */
        int client;
        presil_server *s = open_server(&client);
        presil_request q;
        const message w = frame(PRESIL_REQUEST_WAIT, 1, 24, (const uint32_t[]){0, 0, 0, 0, 9, 0}),
                      stale = frame(PROTOCOL_CANCEL, 0, 0, NULL), cancel = frame(PROTOCOL_CANCEL, 1, 0, NULL),
                      other = frame(PRESIL_REQUEST_RESET, 2, 0, NULL);
        say(client, &w, w.used);
        assert_int_equal(presil_serve_next(s, &q, 0), 1);
        assert_true(q.kind == PRESIL_REQUEST_WAIT && q.wait.hang_cycles == 9);
        assert_int_equal(presil_serve_poll(s, 1), 0);
        say(client, &stale, stale.used);
        const uint64_t start = channel_now_ms();
        while (channel_now_ms() - start < 70) assert_int_equal(presil_serve_poll(s, 5), 0);
        assert_int_equal(presil_serve_poll(s, 5), 0); /* a busy machine may have slept through all the others */
        if (ends == 0) say(client, &cancel, cancel.used);
        if (ends == 1) (void)shutdown(client, SHUT_WR);
        if (ends == 2) say(client, &other, other.used);
        (void)usleep(2000);
        assert_int_equal(presil_serve_poll(s, 9), PRESIL_WAIT_CANCELLED);
        assert_int_equal(presil_serve_reply_wait(s, 4, 9), PRESIL_SERVE_EINVAL);
        assert_int_equal(presil_serve_reply_wait(s, PRESIL_WAIT_CANCELLED, 9), 0);
        const int next = presil_serve_next(s, &q, 0);
        assert_int_equal(next, ends != 0);
        if (next) assert_int_equal(q.kind, PRESIL_REQUEST_CLOSE);
        static const char five[] = {5, 0, 0, 0, 0, 0, 0}, reset[] = "RESET before the answer to WAIT";
        if (ends < 2)
            hears(client, PROTOCOL_PROGRESS, five);
        else
            hears(client, PROTOCOL_GOODBYE, reset);
        (void)close(client);
        presil_serve_close(s);
    }
}

int main(void) {
    ops = presil_socket_ops();
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_welcomes),
                                       cmocka_unit_test(bad_answers),
                                       cmocka_unit_test(a_silent_peer_is_given_up),
                                       cmocka_unit_test(a_slow_peer_is_waited_for_and_cancelled),
                                       cmocka_unit_test(bad_hellos),
                                       cmocka_unit_test(bad_requests),
                                       cmocka_unit_test(posted_failures_come_with_the_next_answer),
                                       cmocka_unit_test(nothing_lands_in_the_middle_of_a_message),
                                       cmocka_unit_test(accesses_follow_the_interrupt),
                                       cmocka_unit_test(a_wait_sees_cancel_and_the_end)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
