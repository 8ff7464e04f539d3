/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_serve.h - the serving end of the socket transport (docs/transport-protocol.md): what a simulator, an FPGA host
 * or a board uses to be driven by libpresil in another process. libpresil_serve has no dependencies but libc and
 * pthread.
 *
 * Two ways to use it
 * - presil_serve_transport() offers any implementation of presil_transport_ops (presil_transport.h). presil-serve does
 * that with a simulator library.
 * - presil_serve_next() hands out one request at a time, to be answered with one of the presil_serve_reply functions.
 * Between two calls nothing runs in the library, so it can be called from a simulator's own thread: simulated time then
 * stands still while it waits for the next request.
 *
 * The library accepts clients (one at a time; a second one is refused with a text), speaks the protocol, checks every
 * message, and closes the connection of a peer that breaks the protocol; the next client finds a server that works. Not
 * thread-safe: one thread at a time calls into a server.
 */
#ifndef PRESIL_SERVE_H
#define PRESIL_SERVE_H

#include "presil_transport.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define PRESIL_SERVE_API __attribute__((visibility("default")))
#else
#define PRESIL_SERVE_API
#endif

typedef struct presil_server presil_server;

enum presil_serve_error {
    PRESIL_SERVE_EINVAL = -1,  /* a wrong argument, or a reply that does not fit the request */
    PRESIL_SERVE_ESYSTEM = -2, /* the operating system refused: text in presil_serve_error_text */
};

/* size = sizeof(struct); a missing tail is zero. Strings are copied. */
typedef struct {
    uint32_t size;
    uint32_t copy_memory;       /* 1: refuse the client's file descriptor, so that memory travels in messages */
    const char *path;           /* of the socket, at most 107 bytes. A socket file that nobody answers on is replaced */
    presil_transport_info info; /* what the client is told. PRESIL_CAP_MAPS is set and cleared by the library */
    uint32_t once;              /* 1: presil_serve_next ends when the first client has gone */
    uint32_t polls; /* 1: the wait() that presil_serve_transport calls calls presil_serve_poll itself, which spares a
                       second thread; it has neither cancel nor progress */
    const volatile int
        *stop; /* non-zero (from a signal handler, say): presil_serve_next and presil_serve_poll end; may be NULL */
    void (*log)(void *context, const char *text); /* clients coming and going, breaches of the protocol; may be NULL */
    void *log_context;
} presil_serve_options;

enum presil_request_kind {
    PRESIL_REQUEST_OPEN = 1,   /* a client: `open` says with which memory, memory model and seed. reply_done; on failure
                                  the client is told and dropped */
    PRESIL_REQUEST_CLOSE = 2,  /* the client has gone, orderly or not: release its memory. No reply */
    PRESIL_REQUEST_READ32 = 3, /* `count` registers at `offsets`, in this order: reply_values */
    PRESIL_REQUEST_WRITE32 = 4,     /* register `offset` = `value` */
    PRESIL_REQUEST_MEM_READ = 5,    /* `bytes` (at most PRESIL_SERVE_CHUNK) at `address`: reply_bytes */
    PRESIL_REQUEST_MEM_WRITE = 6,   /* `data`, `bytes` at `address` */
    PRESIL_REQUEST_SYNC_DEVICE = 7, /* `bytes` at `address` */
    PRESIL_REQUEST_SYNC_HOST = 8,   /* `bytes` at `address` */
    PRESIL_REQUEST_LAUNCH = 9,      /* number `launch` */
    PRESIL_REQUEST_WAIT = 10,   /* `wait`: reply_wait. Call presil_serve_poll meanwhile. A client may have sent along
                                   which registers it accesses after an interrupt: they are handed out next, as
                                   READ32 and WRITE32, and the client gets one answer to all */
    PRESIL_REQUEST_CYCLES = 11, /* reply_done: the cycles travel with every reply */
    PRESIL_REQUEST_RESET = 12,
    PRESIL_REQUEST_TRACE = 13,           /* `text` (a path on this side, NULL: off), `first_cycle`, `last_cycle` */
    PRESIL_REQUEST_WRITE_LOG = 14,       /* `value`: on */
    PRESIL_REQUEST_WRITE_LOG_FETCH = 15, /* reply_ranges */
    PRESIL_REQUEST_BUS_FAULT = 16,       /* reply_fault */
    PRESIL_REQUEST_MEMORY_MODEL = 17,    /* `text` (NULL: default), `seed` */
    PRESIL_REQUEST_INJECT = 18,          /* `text` (NULL: none) */
    PRESIL_REQUEST_WRITE_TIMES = 20,     /* of the byte at `address`: reply_times. Only from clients that were told
                                            PRESIL_CAP_WRITE_TIMES */
};

#define PRESIL_SERVE_CHUNK (1u << 20)
#define PRESIL_SERVE_REGISTERS 4096u /* at most, of one READ32 */
#define PRESIL_SERVE_ACCESSES 1024u  /* at most, behind one WAIT */

/* Pointers stay valid until the next call of presil_serve_next. Only the members named at the request's kind mean
 * something. */
typedef struct {
    uint32_t kind, count, offset, value;
    uint64_t address, bytes, launch, seed, first_cycle, last_cycle;
    const uint32_t *offsets;
    const void *data;
    const char *text;
    presil_wait wait; /* deadline_cycles and hang_cycles; deadlines of wall time, cancellation and progress are
                         presil_serve_poll's */
    presil_transport_options open; /* memory_fd: -1 where memory travels in messages; it stays the library's, valid
                                      until CLOSE. log is the client's own: NULL here */
} presil_request;

/* Makes the socket and listens. 0, or a presil_serve_error with a text of at most error_bytes. */
PRESIL_SERVE_API int presil_serve_open(const presil_serve_options *options, presil_server **out, char *error,
                                       size_t error_bytes);
PRESIL_SERVE_API void presil_serve_close(
    presil_server *server); /* tells the client, removes the socket file; NULL is allowed */
PRESIL_SERVE_API const char *presil_serve_error_text(const presil_server *server);

/* Waits for the next request, at most timeout_ms (-1: for ever). 1: *out is filled in; 0: timeout; PRESIL_SERVE_ENDED:
 * stopped, or the only client has gone. */
#define PRESIL_SERVE_ENDED 2
PRESIL_SERVE_API int presil_serve_next(presil_server *server, presil_request *out, int timeout_ms);

/* In OPEN, before reply_done: what the client is told instead of the options' info and of one region with its memory.
 * At most 16 regions; host is not looked at; NULL: as it is. */
PRESIL_SERVE_API int presil_serve_describe(presil_server *server, const presil_transport_info *info,
                                           const presil_region *regions, uint32_t count);

/* What the cycles of a launch depend on from now on, as presil_transport_ops.timing says it (copied): whoever has it
 * needn't simulate a launch twice. NULL: they are no such function, as of a board, or with a fault injected. At each
 * OPEN it is NULL; say it again behind all that changes it: MEMORY_MODEL, INJECT. */
PRESIL_SERVE_API int presil_serve_set_timing(presil_server *server, const char *timing);

/* Simulated cycles since OPEN, sent with every reply from now on. */
PRESIL_SERVE_API void presil_serve_set_cycles(presil_server *server, uint64_t cycles);

/*
 * Answers of the request last handed out; each exactly once. status: 0 or a presil_transport_error, with a text for
 * people (NULL: none). WRITE32, MEM_WRITE, SYNC_DEVICE and LAUNCH are posted: their failure is kept, and told instead
 * of the next answer; what the client has sent in between is not handed out (but for RESET, which forgets the failure).
 * A failed request of any kind is answered with reply_done.
 */
PRESIL_SERVE_API int presil_serve_reply_done(presil_server *server, int status, const char *text);
PRESIL_SERVE_API int presil_serve_reply_values(presil_server *server, const uint32_t *values, uint32_t count);
PRESIL_SERVE_API int presil_serve_reply_bytes(presil_server *server, const void *data, uint64_t bytes);
PRESIL_SERVE_API int presil_serve_reply_wait(presil_server *server, uint32_t reason,
                                             uint64_t cycles); /* presil_wait_reason */
PRESIL_SERVE_API int presil_serve_reply_ranges(presil_server *server, const presil_write_range *ranges, size_t count);
PRESIL_SERVE_API int presil_serve_reply_fault(presil_server *server, const presil_bus_fault *fault);
PRESIL_SERVE_API int presil_serve_reply_times(presil_server *server, const presil_write_time *times);

/*
 * cycles: simulated by this WAIT so far. During WAIT, every millisecond of wall time or so (more often costs little: it
 * looks at the clock first): sends progress, which is also what tells the client that this side lives; sees
 * cancellation, the wall-time deadline, and a client that has gone; refuses other clients. 0: go on; else the
 * presil_wait_reason to answer with (CANCELLED also if the client has gone or the server is stopped). Any other request
 * that takes longer than a second should call it too, with 0: the client takes a server that is silent for 10 s (its
 * `timeout`) to be dead.
 */
PRESIL_SERVE_API uint32_t presil_serve_poll(presil_server *server, uint64_t cycles);

/* Serves clients with `ops`, one after the other, until stopped (or the first one has gone, with `once`). 0, or a
 * presil_serve_error. */
PRESIL_SERVE_API int presil_serve_transport(presil_server *server, const presil_transport_ops *ops);

#ifdef __cplusplus
}
#endif
#endif
