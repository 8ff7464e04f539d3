/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_serve_transport(): any presil_transport_ops as a server.
 *
 * While ops->wait() runs, nobody of ours is called but its progress function, every 50 ms. So a second thread, the
 * watcher, looks at the socket every LOOK_MS and sets the cancel flag. `lock` says who may: the serving thread holds it
 * except during a wait. Progress is sent by the simulating thread itself, so that a simulation that hangs falls silent.
 */
#define _GNU_SOURCE
#include "server.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOK_MS = 5, IDLE_LOOKS = 200 };

typedef struct {
    presil_server *server;
    const presil_transport_ops *ops;
    presil_transport *inner;
    uint8_t *buffer;  /* PRESIL_SERVE_CHUNK bytes */
    uint32_t *values; /* PRESIL_SERVE_REGISTERS */
    volatile int cancel;

    pthread_t watcher; /* from the first wait on: a second thread makes every system call dearer */
    bool watched;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    atomic_bool asleep; /* the watcher, until a wait begins */
    bool quit;          /* under lock, as waiting */
    bool waiting;
} session;

/* ---- the watcher */
static void *watch(void *context) {
    session *t = context;
    const struct timespec pause = {0, LOOK_MS * 1000000};
    for (unsigned idle = 0;; idle++) {
        (void)nanosleep(&pause, NULL);
        if (idle < IDLE_LOOKS) {
            if (pthread_mutex_trylock(&t->lock)) continue;
        } else {
            (void)pthread_mutex_lock(&t->lock);
            atomic_store(&t->asleep, true);
            while (!t->waiting && !t->quit) (void)pthread_cond_wait(&t->wake, &t->lock);
            atomic_store(&t->asleep, false);
        }
        const bool quit = t->quit;
        if (t->waiting) {
            idle = 0;
            presil_server_look(t->server);
            if (t->server->cancelled || t->server->lost || presil_server_stopped(t->server))
                __atomic_store_n(&t->cancel, 1, __ATOMIC_RELAXED);
        }
        (void)pthread_mutex_unlock(&t->lock);
        if (quit) return NULL;
    }
}

static void on_progress(void *context, uint64_t cycles) {
    const session *t = context;
    presil_server_progress(t->server, cycles);
}

/* The model's own output goes to the client; it is not waited for. */
static void on_log(void *context, const char *text) {
    const session *t = context;
    uint8_t payload[4 + PROTOCOL_TEXT];
    char line[1024];
    protocol_writer w = {payload, sizeof payload, 0, false};
    (void)snprintf(line, sizeof line, "%s", text);
    protocol_put_text(&w, line);
    presil_server_tell(t->server, PROTOCOL_LOG, payload, w.used);
}

/* ---- requests */
static void stamp(session *t) {
    uint64_t cycles = 0;
    if (t->inner && t->ops->cycles && t->ops->cycles(t->inner, &cycles) == 0)
        presil_serve_set_cycles(t->server, cycles);
}

static int done(session *t, int status) {
    stamp(t);
    return presil_serve_reply_done(t->server, status, status ? t->ops->last_error(t->inner) : NULL);
}

/* Behind what may have changed it. What failed changed nothing, and its text stands until the next call. */
static int done_and_timed(session *t, int status) {
    if (status) return done(t, status);
    char timing[PRESIL_TRANSPORT_TIMING];
    const bool told = t->ops->timing && t->ops->timing(t->inner, timing, sizeof timing) == 0;
    (void)presil_serve_set_timing(t->server, told ? timing : NULL);
    return done(t, status);
}

static int unsupported(session *t) {
    return presil_serve_reply_done(t->server, PRESIL_TRANSPORT_ENOSYS, "this transport can't do that");
}

static void close_inner(session *t) {
    if (t->inner) t->ops->close(t->inner);
    t->inner = NULL;
}

static int open_inner(session *t, presil_request *q) {
    char text[SERVER_TEXT] = "";
    close_inner(t);
    q->open.log = on_log;
    q->open.log_context = t;
    int status = t->ops->open(&q->open, &t->inner, text, sizeof text);
    if (status) {
        t->inner = NULL;
        return presil_serve_reply_done(t->server, status, text);
    }
    presil_transport_info info = {.size = sizeof info};
    presil_region regions[PROTOCOL_REGIONS];
    uint32_t count = 0;
    status = t->ops->info(t->inner, &info);
    const char *missing = status ? NULL : presil_transport_missing(t->ops, info.capabilities);
    if (missing) {
        (void)snprintf(text, sizeof text, "the transport has no %s(), which its capabilities promise", missing);
        (void)presil_serve_reply_done(t->server, PRESIL_TRANSPORT_EINVAL, text);
        close_inner(t);
        return 0;
    }
    while (!status && count < PROTOCOL_REGIONS && t->ops->region(t->inner, count, &regions[count]) == 0) count++;
    if (!status) status = presil_serve_describe(t->server, &info, regions, count);
    if (!status) return done_and_timed(t, 0);
    (void)presil_serve_reply_done(t->server, PRESIL_TRANSPORT_EIO, t->ops->last_error(t->inner));
    close_inner(t);
    return 0;
}

static int read_registers(session *t, const presil_request *q) {
    int status = 0;
    if (t->ops->read32_many)
        status = t->ops->read32_many(t->inner, q->offsets, q->count, t->values);
    else
        for (uint32_t i = 0; i < q->count && !status; i++)
            status = t->ops->read32(t->inner, q->offsets[i], &t->values[i]);
    stamp(t);
    return status ? done(t, status) : presil_serve_reply_values(t->server, t->values, q->count);
}

static int tell_wait(session *t, int status, const presil_wait *w) {
    stamp(t);
    return status ? done(t, status) : presil_serve_reply_wait(t->server, w->reason, w->cycles);
}

static int run_polling_wait(session *t, const presil_request *q) {
    presil_wait w = q->wait;
    w.size = sizeof w;
    return tell_wait(t, t->ops->wait(t->inner, &w), &w);
}

static int run_wait(session *t, const presil_request *q) {
    if (t->server->polls) return run_polling_wait(t, q);
    if (!t->watched && pthread_create(&t->watcher, NULL, watch, t))
        return presil_server_fail(t->server, PRESIL_SERVE_ESYSTEM, "presil_serve_transport: no second thread");
    t->watched = true;
    presil_wait w = {.size = sizeof w,
                     .deadline_cycles = q->wait.deadline_cycles,
                     .deadline_ns = q->wait.deadline_ns,
                     .hang_cycles = q->wait.hang_cycles,
                     .cancel = &t->cancel,
                     .progress = on_progress,
                     .progress_context = t};
    __atomic_store_n(&t->cancel, 0, __ATOMIC_RELAXED);
    t->waiting = true;
    if (atomic_load(&t->asleep)) (void)pthread_cond_signal(&t->wake);
    (void)pthread_mutex_unlock(&t->lock);
    const int status = t->ops->wait(t->inner, &w);
    (void)pthread_mutex_lock(&t->lock);
    t->waiting = false;
    return tell_wait(t, status, &w);
}

static int fetch_log(session *t) {
    const presil_write_range *ranges = NULL;
    size_t count = 0;
    stamp(t);
    if (!t->ops->write_log_fetch) return unsupported(t);
    const int status = t->ops->write_log_fetch(t->inner, &ranges, &count);
    return status ? done(t, status) : presil_serve_reply_ranges(t->server, ranges, count);
}

static int tell_times(session *t, const presil_request *q) {
    presil_write_time times = {.size = sizeof times};
    stamp(t);
    if (!t->ops->write_times) return unsupported(t);
    const int status = t->ops->write_times(t->inner, (presil_daddr){q->address}, &times);
    return status ? done(t, status) : presil_serve_reply_times(t->server, &times);
}

static int tell_fault(session *t) {
    presil_bus_fault fault = {0};
    stamp(t);
    const int status = t->ops->bus_fault ? t->ops->bus_fault(t->inner, &fault) : 0;
    return status ? done(t, status) : presil_serve_reply_fault(t->server, &fault);
}

static int read_memory(session *t, const presil_request *q) {
    if (!t->ops->mem_read) return unsupported(t);
    stamp(t);
    const int status = t->ops->mem_read(t->inner, (presil_daddr){q->address}, t->buffer, q->bytes);
    return status ? done(t, status) : presil_serve_reply_bytes(t->server, t->buffer, q->bytes);
}

static int handle(session *t, presil_request *q) {
    const presil_transport_ops *o = t->ops;
    presil_transport *p = t->inner;
    const presil_daddr at = {q->address};
    switch (q->kind) {
    case PRESIL_REQUEST_OPEN: return open_inner(t, q);
    case PRESIL_REQUEST_CLOSE: close_inner(t); return 0;
    case PRESIL_REQUEST_READ32: return read_registers(t, q);
    case PRESIL_REQUEST_WRITE32: return done(t, o->write32(p, q->offset, q->value));
    case PRESIL_REQUEST_MEM_READ: return read_memory(t, q);
    case PRESIL_REQUEST_MEM_WRITE:
        return o->mem_write ? done(t, o->mem_write(p, at, q->data, q->bytes)) : unsupported(t);
    case PRESIL_REQUEST_SYNC_DEVICE: return done(t, o->sync_for_device ? o->sync_for_device(p, at, q->bytes) : 0);
    case PRESIL_REQUEST_SYNC_HOST: return done(t, o->sync_for_host ? o->sync_for_host(p, at, q->bytes) : 0);
    case PRESIL_REQUEST_LAUNCH: return done(t, o->launch ? o->launch(p, q->launch) : 0);
    case PRESIL_REQUEST_WAIT: return run_wait(t, q);
    case PRESIL_REQUEST_CYCLES: return done(t, 0);
    case PRESIL_REQUEST_RESET: return done(t, o->reset(p));
    case PRESIL_REQUEST_TRACE:
        return o->trace ? done(t, o->trace(p, q->text, q->first_cycle, q->last_cycle)) : unsupported(t);
    case PRESIL_REQUEST_WRITE_LOG: return o->write_log ? done(t, o->write_log(p, q->value != 0)) : unsupported(t);
    case PRESIL_REQUEST_WRITE_LOG_FETCH: return fetch_log(t);
    case PRESIL_REQUEST_WRITE_TIMES: return tell_times(t, q);
    case PRESIL_REQUEST_BUS_FAULT: return tell_fault(t);
    case PRESIL_REQUEST_MEMORY_MODEL:
        return o->set_memory_model ? done_and_timed(t, o->set_memory_model(p, q->text, q->seed)) : unsupported(t);
    case PRESIL_REQUEST_INJECT: return o->inject ? done_and_timed(t, o->inject(p, q->text)) : unsupported(t);
    default: return presil_serve_reply_done(t->server, PRESIL_TRANSPORT_ENOSYS, "an unknown request");
    }
}

static int serve(session *t) {
    for (;;) {
        presil_request request;
        const int got = presil_serve_next(t->server, &request, -1);
        if (got == PRESIL_SERVE_ENDED) return 0;
        if (got < 0) return got;
        const int status = handle(t, &request);
        if (status < 0) return status;
    }
}

int presil_serve_transport(presil_server *server, const presil_transport_ops *ops) {
    if (!server) return PRESIL_SERVE_EINVAL;
    if (!ops || ops->abi != PRESIL_TRANSPORT_ABI ||
        ops->size < offsetof(presil_transport_ops, reset) + sizeof ops->reset)
        return presil_server_fail(server, PRESIL_SERVE_EINVAL,
                                  "presil_serve_transport: transport ABI %u expected, %u found", PRESIL_TRANSPORT_ABI,
                                  ops ? ops->abi : 0);
    presil_transport_ops table = {0};
    memcpy(&table, ops, ops->size < sizeof table ? ops->size : sizeof table);
    const char *missing = presil_transport_missing(&table, 0);
    if (missing)
        return presil_server_fail(server, PRESIL_SERVE_EINVAL,
                                  "presil_serve_transport: the transport has no %s(), which every transport must have",
                                  missing);
    session t = {.server = server,
                 .ops = &table,
                 .buffer = malloc(PRESIL_SERVE_CHUNK),
                 .values = malloc(sizeof(uint32_t) * PRESIL_SERVE_REGISTERS)};
    int status = PRESIL_SERVE_ESYSTEM;
    (void)pthread_mutex_init(&t.lock, NULL);
    (void)pthread_cond_init(&t.wake, NULL);
    (void)pthread_mutex_lock(&t.lock);
    if (!t.buffer || !t.values) {
        (void)presil_server_fail(server, status, "presil_serve_transport: no memory");
    } else {
        status = serve(&t);
        t.quit = true;
        (void)pthread_cond_signal(&t.wake);
        (void)pthread_mutex_unlock(&t.lock);
        if (t.watched) (void)pthread_join(t.watcher, NULL);
        (void)pthread_mutex_lock(&t.lock);
    }
    close_inner(&t);
    (void)pthread_mutex_unlock(&t.lock);
    (void)pthread_cond_destroy(&t.wake);
    (void)pthread_mutex_destroy(&t.lock);
    free(t.buffer);
    free(t.values);
    return status;
}
