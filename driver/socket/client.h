/* SPDX-License-Identifier: Apache-2.0 */
/* client.h - the driver's end of the socket transport: presil_transport_ops whose options are
 * "PATH[,copy][,timeout=SECONDS][,uid=NUMBER]". */
#ifndef PRESIL_SOCKET_CLIENT_H
#define PRESIL_SOCKET_CLIENT_H

#include "channel.h"

enum { CLIENT_TEXT = 768, CLIENT_POSTED = 1 << 16 };

struct presil_transport {
    /* as opened */
    char path[108];
    bool copy;
    int timeout_ms;
    unsigned uid;                     /* of who may listen there */
    bool uid_given;                   /* else root may too */
    presil_transport_options options; /* strings are ours; memory_fd the caller's */
    char *memory_model;

    channel link; /* fd -1: no peer; `error` says why */
    protocol_welcome welcome;
    bool greeted;      /* there was a peer once: the next one has to be of the same chip and configuration */
    bool was_silent;   /* the peer was lost by silence, and no reset() has failed with that yet */
    void *mapping;     /* of memory_fd; NULL: memory travels in messages */
    uint32_t sequence; /* of the next request */
    uint64_t cycles;
    bool cycles_known; /* nothing was posted since the last answer */

    uint8_t posted[CLIENT_POSTED]; /* messages that wait for the next one with an answer */
    size_t posted_bytes;
    presil_write_range *ranges;
    size_t range_capacity;
    char error[CLIENT_TEXT];
    char answer_text[PROTOCOL_TEXT + 1];
};

const presil_transport_ops *presil_socket_ops(void);

__attribute__((format(printf, 3, 4))) int socket_fail(presil_transport *t, int code, const char *format, ...);
/* The peer is no more: closes, and every call fails with this text until reset() finds another. */
__attribute__((format(printf, 2, 3))) int socket_lost(presil_transport *t, const char *format, ...);

/* ---- exchange.c */
typedef struct {
    const volatile int *cancel; /* looked at every 10 ms; NULL: none */
    void (*progress)(void *context, uint64_t cycles);
    void *progress_context;
} socket_watch;

/* Sends with the next exchange. data: of MEM_WRITE, q->bytes of them. */
int socket_post(presil_transport *t, const presil_request *q);
/* WAIT with accesses behind the interrupt; as socket_ask. */
int socket_ask_wait_then(presil_transport *t, const presil_wait *wait, const presil_register_access *then,
                         uint32_t count, const socket_watch *watch, protocol_reader *body);
/* Sends what was posted and this request, waits for the answer. 0: *body is at what was asked for, valid until the next
 * call (pop: socket_finish); *more: of WRITE_LOG_FETCH. */
int socket_ask(presil_transport *t, const presil_request *q, const socket_watch *watch, protocol_reader *body,
               bool *more);
int socket_next_part(presil_transport *t, protocol_reader *body, bool *more); /* after *more */
int socket_ask_done(presil_transport *t, const presil_request *q);            /* without a body */
int socket_malformed(presil_transport *t, uint32_t kind);
/* Sends OPEN with the memory, reads the welcome. */
int socket_greet(presil_transport *t, const presil_request *q, const protocol_hello *hello, int pass_fd,
                 protocol_welcome *out);

/* ---- connect.c */
int socket_open(const presil_transport_options *options, presil_transport **out, char *error, size_t error_bytes);
void socket_close(presil_transport *t);
int socket_reset(presil_transport *t);
/* The same over a connected socket (tests); takes fd. */
int socket_open_fd(const presil_transport_options *options, int fd, presil_transport **out, char *error,
                   size_t error_bytes);

#endif
