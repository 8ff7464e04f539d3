/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both ends of the socket transport against mutated sessions: valid ones in which messages are bent, cut, doubled, left
 * out, or made of nothing; each session within a budget of time and memory. In one thread, over socketpairs.
 * Environment: PRESIL_FUZZ_CASES, messages for each end (default 100000), PRESIL_FUZZ_SEED (default 1; fuzz.h). Run
 * under AddressSanitizer and UBSan (stage c-sanitized).
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "client.h"
#include "fuzz.h"
#include "server.h"

enum { MEMORY = 1 << 20, BASE = 0x10000, SESSION = 200, ROOM = 1 << 16 };

static uint32_t random32(void) { return fuzz_random(); }
static uint32_t below(uint32_t n) { return fuzz_below(n); }
/* Of one session, at either end: 200 messages of at most 64 KiB, a buffer of a little over 1 MiB. */
static void session_budget(void) { fuzz_budget("a session", 10, 8 << 20); }

/* ---- messages and their mutations */
typedef struct {
    uint8_t bytes[ROOM];
    size_t used;
} message;
typedef enum { AS_IT_IS, BENT, CUT, LENGTH, NONSENSE, TWICE, MISSING, MUTATIONS } mutation;
static uint64_t seen[MUTATIONS];

/* One message in twelve; most of them a bit here and there. */
static mutation mutate(message *m) {
    static const uint32_t interesting[] = {0,
                                           1,
                                           0x7fffffff,
                                           0x80000000,
                                           0xffffffff,
                                           PRESIL_SERVE_CHUNK,
                                           PRESIL_SERVE_CHUNK + 1,
                                           PRESIL_SERVE_REGISTERS,
                                           PRESIL_SERVE_REGISTERS + 1,
                                           PROTOCOL_TEXT,
                                           PROTOCOL_TEXT + 1};
    mutation kind = below(12) ? AS_IT_IS : (mutation)(1 + below(MUTATIONS - 1));
    if (kind == CUT && m->used < 2) kind = AS_IT_IS;
    switch (kind) {
    case BENT:
        for (uint32_t n = 1 + below(3); n; n--) {
            const size_t at = below((uint32_t)m->used);
            if (below(2) || at + 4 > m->used)
                m->bytes[at] ^= (uint8_t)(1u << below(8));
            else
                memcpy(m->bytes + at, &interesting[below(sizeof interesting / sizeof *interesting)], 4);
        }
        break;
    case CUT: m->used = 1 + below((uint32_t)m->used - 1); break;
    case LENGTH: memcpy(m->bytes + 12, &interesting[below(sizeof interesting / sizeof *interesting)], 4); break;
    case NONSENSE:
        m->used = 1 + below(64);
        for (size_t i = 0; i < m->used; i++) m->bytes[i] = (uint8_t)random32();
        break;
    case TWICE:
        if (2 * m->used <= ROOM) {
            memcpy(m->bytes + m->used, m->bytes, m->used);
            m->used *= 2;
        }
        break;
    case MISSING: m->used = 0; break;
    default: break;
    }
    seen[kind]++;
    return kind;
}

static void drain(int fd) {
    static uint8_t sink[1 << 18];
    while (recv(fd, sink, sizeof sink, MSG_DONTWAIT) > 0) continue;
}

static void new_pair(int pair[2]) {
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    const int bytes = 1 << 20;
    for (int i = 0; i < 2; i++) (void)setsockopt(pair[i], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
}

static void print_seen(const char *who, uint64_t messages, uint64_t sessions, uint64_t what, const char *name) {
    print_message("%s: %llu messages in %llu sessions; bent %llu, cut %llu, length %llu, nonsense %llu, "
                  "twice %llu, missing %llu; %s %llu\n",
                  who, (unsigned long long)messages, (unsigned long long)sessions, (unsigned long long)seen[BENT],
                  (unsigned long long)seen[CUT], (unsigned long long)seen[LENGTH], (unsigned long long)seen[NONSENSE],
                  (unsigned long long)seen[TWICE], (unsigned long long)seen[MISSING], name, (unsigned long long)what);
    memset(seen, 0, sizeof seen);
}

/* ---- the server */
static uint8_t data[2048];
static uint32_t offsets[64];

static presil_request random_request(void) {
    const uint32_t kind = 3 + below(17); /* 19 is WAIT_THEN's: encode_wait_then() */
    presil_request q = {.kind = kind == 19 ? PRESIL_REQUEST_WRITE_TIMES : kind,
                        .offset = 4 * below(1024),
                        .value = random32(),
                        .address = BASE + below(MEMORY),
                        .bytes = below(sizeof data),
                        .launch = random32(),
                        .seed = random32(),
                        .first_cycle = random32(),
                        .last_cycle = random32(),
                        .count = 1 + below(64),
                        .offsets = offsets,
                        .data = data,
                        .text = below(4) ? "latency=3,some=text" : NULL};
    q.wait = (presil_wait){.deadline_cycles = random32(), .hang_cycles = random32()};
    return q;
}

static void encode(message *m, const presil_request *q, const protocol_hello *hello, uint32_t sequence) {
    protocol_writer w = {m->bytes + PROTOCOL_HEADER, sizeof m->bytes - PROTOCOL_HEADER, 0, false};
    assert_true(protocol_encode_request(&w, q, hello));
    if (q->kind == PRESIL_REQUEST_MEM_WRITE) protocol_put_bytes(&w, q->data, q->bytes);
    assert_false(w.failed);
    m->used = PROTOCOL_HEADER + w.used;
    protocol_put_header(m->bytes,
                        (protocol_frame){.type = (uint16_t)q->kind, .sequence = sequence, .length = (uint32_t)w.used});
}

static void encode_wait_then(message *m, uint32_t sequence) {
    static presil_register_access then[64];
    const presil_wait wait = {.hang_cycles = random32()};
    const uint32_t count = below(65);
    for (uint32_t i = 0; i < count; i++)
        then[i] = (presil_register_access){.offset = 4 * below(1024), .is_write = below(4) == 0, .value = random32()};
    protocol_writer w = {m->bytes + PROTOCOL_HEADER, sizeof m->bytes - PROTOCOL_HEADER, 0, false};
    protocol_put_wait_then(&w, &wait, then, count);
    m->used = PROTOCOL_HEADER + w.used;
    protocol_put_header(m->bytes,
                        (protocol_frame){.type = PROTOCOL_WAIT_THEN, .sequence = sequence, .length = (uint32_t)w.used});
}

/* What a server promises its caller of a request. */
static void check_request(const presil_request *q, bool open) {
    if (q->kind != PRESIL_REQUEST_WRITE_TIMES) assert_in_range(q->kind, PRESIL_REQUEST_OPEN, PRESIL_REQUEST_INJECT);
    assert_int_equal(q->kind == PRESIL_REQUEST_OPEN, !open);
    if (q->kind == PRESIL_REQUEST_READ32) assert_in_range(q->count, 1, PRESIL_SERVE_REGISTERS);
    if (q->kind == PRESIL_REQUEST_MEM_READ || q->kind == PRESIL_REQUEST_MEM_WRITE)
        assert_in_range(q->bytes, 0, PRESIL_SERVE_CHUNK);
    if (q->text) assert_in_range(strlen(q->text), 0, PROTOCOL_TEXT);
    if (q->kind == PRESIL_REQUEST_OPEN) {
        assert_true(q->open.memory_bytes && q->open.memory_bytes % 4096 == 0);
        assert_true(q->open.memory_fd < 0 || fcntl(q->open.memory_fd, F_GETFD) >= 0);
    }
}

static void reply(presil_server *s, const presil_request *q) {
    static uint32_t values[PRESIL_SERVE_REGISTERS];
    static uint8_t bytes[PRESIL_SERVE_CHUNK];
    static const presil_write_range ranges[9000];
    const presil_bus_fault fault = {.valid = 1};
    const presil_write_time times = {.size = sizeof times};
    int status = 0;
    for (uint32_t i = 0; q->kind == PRESIL_REQUEST_READ32 && i < q->count; i++) values[i] = q->offsets[i];
    for (uint64_t i = 0; q->kind == PRESIL_REQUEST_MEM_WRITE && i < q->bytes; i++)
        bytes[i] = ((const uint8_t *)q->data)[i];
    if (q->kind == PRESIL_REQUEST_WAIT && below(4) == 0) (void)presil_serve_poll(s, 5);
    if (below(16) == 0)
        status = presil_serve_reply_done(s, PRESIL_TRANSPORT_EBUS, "a fault");
    else if (q->kind == PRESIL_REQUEST_READ32)
        status = presil_serve_reply_values(s, values, q->count);
    else if (q->kind == PRESIL_REQUEST_MEM_READ)
        status = presil_serve_reply_bytes(s, bytes, q->bytes > 65536 ? 0 : q->bytes);
    else if (q->kind == PRESIL_REQUEST_WAIT)
        status = presil_serve_reply_wait(s, below(4), 9);
    else if (q->kind == PRESIL_REQUEST_WRITE_LOG_FETCH)
        status = presil_serve_reply_ranges(s, ranges, below(20) ? below(10) : 9000);
    else if (q->kind == PRESIL_REQUEST_BUS_FAULT)
        status = presil_serve_reply_fault(s, &fault);
    else if (q->kind == PRESIL_REQUEST_WRITE_TIMES)
        status = presil_serve_reply_times(s, &times);
    else
        status = presil_serve_reply_done(s, 0, NULL);
    if (status)
        status = presil_serve_reply_done(s, PRESIL_TRANSPORT_EINVAL, NULL); /* of more bytes than this test sends */
    assert_int_equal(status, 0);
}

static void server_takes(presil_server *s, bool *open, uint64_t *handed) {
    presil_request q;
    int got = 0;
    while ((got = presil_serve_next(s, &q, 0)) == 1) {
        ++*handed;
        if (q.kind == PRESIL_REQUEST_CLOSE) {
            assert_true(*open);
            *open = false;
            continue;
        }
        check_request(&q, *open);
        const bool opening = q.kind == PRESIL_REQUEST_OPEN;
        reply(s, &q);
        if (opening) *open = s->state == CLIENT_OPEN;
    }
    assert_int_equal(got, 0);
}

static void send_to_server(int fd, const message *m, int pass_fd) {
    struct iovec part = {(void *)(uintptr_t)m->bytes, m->used};
    if (m->used) (void)channel_send(fd, &part, 1, 0, pass_fd);
}

static void server_survives(void **unused) {
    (void)unused;
    const uint64_t most = fuzz_begin("test_socket_fuzz: server", 100000);
    const presil_serve_options options = {
        .size = sizeof options,
        .info = {.capabilities = PRESIL_CAP_WRITE_TIMES, .chip = "c", .config = "d", .build = "e"}};
    presil_server *s = presil_server_create(&options);
    const int memory = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_true(memory >= 0 && !ftruncate(memory, MEMORY) && !fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK));
    uint64_t messages = 0, sessions = 0, handed = 0;
    static message m;
    while (messages < most) {
        int pair[2];
        bool open = false;
        new_pair(pair);
        session_budget();
        presil_server_adopt(s, pair[1]);
        sessions++;
        uint32_t sequence = 0;
        for (uint32_t n = 0; n < SESSION && messages < most && s->state != CLIENT_NONE; n++, messages++) {
            presil_request q =
                n ? random_request()
                  : (presil_request){.kind = PRESIL_REQUEST_OPEN,
                                     .open = {.memory_base = {BASE}, .memory_bytes = MEMORY, .memory_model = "ideal"}};
            const bool with = n ? below(50) == 0 : below(2) != 0;
            const protocol_hello hello = {.version = PROTOCOL_VERSION,
                                          .abi = PRESIL_TRANSPORT_ABI,
                                          .flags = with ? PROTOCOL_OPEN_MEMORY_FD : 0,
                                          .client = "fuzz"};
            if (n && q.kind == PRESIL_REQUEST_WAIT && below(2))
                encode_wait_then(&m, sequence++);
            else
                encode(&m, &q, &hello, sequence++);
            if (n && below(20) == 0)
                protocol_put_header(m.bytes, (protocol_frame){.type = PROTOCOL_CANCEL, .sequence = --sequence}),
                    m.used = PROTOCOL_HEADER;
            (void)mutate(&m);
            send_to_server(pair[0], &m, with ? memory : -1);
            if (below(3) == 0) continue; /* several at once */
            server_takes(s, &open, &handed);
            drain(pair[0]);
        }
        (void)close(pair[0]);
        for (int tries = 0; s->state != CLIENT_NONE && tries < 10; tries++) server_takes(s, &open, &handed);
        assert_int_equal(s->state, CLIENT_NONE);
        assert_false(open); /* whoever was told OPEN is told CLOSE */
        fuzz_within_budget();
    }
    presil_serve_close(s);
    (void)close(memory);
    fuzz_end();
    assert_true(handed > messages / 4); /* most sessions get somewhere */
    print_seen("server", messages, sessions, handed, "requests handed out:");
}

/* ---- the client */
static void put_frame(message *m, protocol_frame f, const void *payload) {
    protocol_put_header(m->bytes + m->used, f);
    memcpy(m->bytes + m->used + PROTOCOL_HEADER, payload, f.length);
    m->used += PROTOCOL_HEADER + f.length;
}

static void put_answer(message *m, uint32_t sequence, uint16_t flags, int32_t status, size_t body_bytes) {
    static uint8_t payload[ROOM / 2];
    protocol_writer w = {payload, sizeof payload, 0, false};
    protocol_put_answer(&w, status, random32());
    if (status)
        protocol_put_text(&w, "a failure");
    else
        for (size_t i = 0; i < body_bytes / 4; i++) protocol_put32(&w, i ? 0 : below(4));
    if (!status) protocol_put_bytes(&w, "abcd", body_bytes % 4);
    assert_false(w.failed);
    put_frame(
        m, (protocol_frame){.type = PROTOCOL_ANSWER, .flags = flags, .sequence = sequence, .length = (uint32_t)w.used},
        payload);
}

static void put_aside(message *m) {
    static const uint8_t progress[8], line[8] = {4, 0, 0, 0, 'l', 'i', 'n', 'e'};
    for (uint32_t n = below(3); n; n--)
        put_frame(m, (protocol_frame){.type = below(2) ? PROTOCOL_PROGRESS : PROTOCOL_LOG, .length = 8},
                  m->used % 2 ? progress : line);
}

static void ignore(void *context, uint64_t cycles) { (void)context, (void)cycles; }
static void ignore_log(void *context, const char *text) { *(size_t *)context += strlen(text); }

/* One operation with its answer ahead of it. Its status. */
static int client_asks(const presil_transport_ops *ops, presil_transport *t, int peer, bool *bent) {
    static message m;
    static uint8_t buffer[4096];
    uint32_t values[64], registers[64] = {0}, count = 1 + below(64);
    const uint32_t kind = below(11);
    presil_register_access then[] = {{.offset = 4}, {.offset = 8, .is_write = 1, .value = 3}, {.offset = 12}};
    const size_t bytes = below(sizeof buffer);
    const int32_t status = below(8) ? 0 : PRESIL_TRANSPORT_EINVAL + -(int32_t)below(6);
    static const size_t bodies[11] = {0, 0, 16, 0, 0, 0, 0, 24, 0, 0, 0};
    m.used = 0;
    memset(values, 0x5a, sizeof values);
    put_aside(&m);
    if (kind == 6 && !status) put_answer(&m, t->sequence, PROTOCOL_MORE, 0, 32);
    put_answer(&m, t->sequence, 0, status,
               kind == 0    ? 4 * count
               : kind == 1  ? bytes
               : kind == 6  ? 16 * below(40)
               : kind == 10 ? 16 + 8 * below(2)
                            : bodies[kind]);
    *bent = mutate(&m) != AS_IT_IS;
    struct iovec part = {m.bytes, m.used};
    if (m.used) (void)channel_send(peer, &part, 1, 0, -1);
    if (*bent) (void)shutdown(peer, SHUT_WR); /* else it would be waited for */
    presil_wait w = {.size = sizeof w, .reason = 99, .progress = ignore};
    presil_bus_fault fault = {.valid = 99};
    const presil_write_range *ranges = NULL;
    size_t found = 99;
    uint64_t cycles = 0;
    int result = 0;
    switch (kind) {
    case 0:
        result = ops->read32_many(t, registers, count, values);
        if (result)
            for (uint32_t i = 0; i < count; i++) assert_int_equal(values[i], 0x5a5a5a5a); /* untouched */
        break;
    case 1: result = ops->mem_read(t, (presil_daddr){BASE}, buffer, bytes ? bytes : 1); break;
    case 2:
        result = ops->wait(t, &w);
        if (!result)
            assert_in_range(w.reason, 0, PRESIL_WAIT_HUNG);
        else
            assert_int_equal(w.reason, 99);
        break;
    case 3: result = ops->reset(t); break;
    case 4: result = ops->write_log(t, 1); break;
    case 5: result = ops->set_memory_model(t, "x", 1); break;
    case 6:
        result = ops->write_log_fetch(t, &ranges, &found);
        for (size_t i = 0; !result && i < found; i++) assert_true(ranges[i].bytes <= UINT64_MAX - ranges[i].base.value);
        if (result) assert_int_equal(found, 99);
        break;
    case 7:
        result = ops->bus_fault(t, &fault);
        if (result) assert_int_equal(fault.valid, 99);
        break;
    case 8: result = ops->inject(t, NULL); break;
    case 10: /* a reason without an interrupt has no values, and the answer may have the wrong ones */
        result = ops->wait_then(t, &w, then, 3);
        if (result == PRESIL_TRANSPORT_EIO) *bent = true;
        if (result)
            assert_true(w.reason == 99 && then[1].value == 3);
        else
            assert_in_range(w.reason, 0, PRESIL_WAIT_HUNG);
        break;
    default:
        result = ops->cycles(t, &cycles); /* known from the answer before: the peer's is one too many */
        if (m.used) *bent = true;
    }
    return result;
}

static void client_survives(void **unused) {
    (void)unused;
    const uint64_t most = fuzz_begin("test_socket_fuzz: client", 100000);
    const presil_transport_ops *ops = presil_socket_ops();
    size_t logged = 0;
    const presil_transport_options options = {.size = sizeof options,
                                              .abi = PRESIL_TRANSPORT_ABI,
                                              .memory_fd = -1,
                                              .memory_bytes = MEMORY,
                                              .memory_base = {BASE},
                                              .options = "fuzz,timeout=5",
                                              .log = ignore_log,
                                              .log_context = &logged};
    uint64_t messages = 0, sessions = 0, answered = 0;
    static message hello;
    while (messages < most) {
        int pair[2];
        char error[512];
        uint8_t body[1024];
        presil_transport *t = NULL;
        new_pair(pair);
        session_budget();
        protocol_writer w = {body, sizeof body, 0, false};
        const protocol_welcome welcome = {.version = PROTOCOL_VERSION,
                                          .abi = PRESIL_TRANSPORT_ABI,
                                          .flags = PROTOCOL_WELCOME_THEN,
                                          .region_count = 1,
                                          .regions = {{{BASE}, MEMORY, NULL}},
                                          .info = {.chip = "c", .config = "d", .build = "e"}};
        protocol_put_answer(&w, 0, 0);
        protocol_put_welcome(&w, &welcome);
        hello.used = 0;
        put_frame(&hello, (protocol_frame){.type = PROTOCOL_ANSWER, .length = (uint32_t)w.used}, body);
        bool bent = mutate(&hello) != AS_IT_IS;
        struct iovec part = {hello.bytes, hello.used};
        if (hello.used) (void)channel_send(pair[0], &part, 1, 0, -1);
        if (bent) (void)shutdown(pair[0], SHUT_WR);
        sessions++;
        messages++;
        int status = socket_open_fd(&options, pair[1], &t, error, sizeof error);
        assert_int_equal(status == 0, t != NULL);
        for (uint32_t n = 0; t && !bent && n < SESSION && messages < most; n++, messages++) {
            status = client_asks(ops, t, pair[0], &bent);
            answered += status != PRESIL_TRANSPORT_EIO;
            drain(pair[0]);
            if (t->link.fd < 0) break;
        }
        if (t && t->link.fd < 0) assert_true(strlen(ops->last_error(t)) > 10);
        ops->close(t);
        (void)close(pair[0]);
        fuzz_within_budget();
    }
    fuzz_end();
    assert_true(answered > messages / 4);
    print_seen("client", messages, sessions, answered, "answers taken:");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(server_survives), cmocka_unit_test(client_survives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
