/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h - what the files of the serving library share.
 *
 * Threads: one at a time, but for WAIT in presil_serve_transport(): there the simulating thread sends progress, while
 * presil_server_look(), which only receives and refuses other clients, runs in another. It therefore never closes the
 * client's descriptor: it notes `lost`, and presil_serve_next() closes.
 */
#ifndef PRESIL_SERVER_H
#define PRESIL_SERVER_H

#include <stdatomic.h>
#include "../channel.h"

enum { SERVER_TEXT = 512, SERVER_SEND_MS = 10000, SERVER_GREETING_MS = 5000, SERVER_PROGRESS_MS = 50 };

typedef enum { CLIENT_NONE, CLIENT_GREETING, CLIENT_OPENING, CLIENT_OPEN } client_state;

struct presil_server {
    /* as opened */
    char path[108];
    presil_transport_info info;
    bool copy_memory, once, polls;
    const volatile int *stop;
    void (*log)(void *context, const char *text);
    void *log_context;
    int listener; /* -1: clients come from presil_server_adopt alone */
    uint64_t file_device, file_inode;

    /* the client */
    client_state state;
    channel client;
    int pid;
    uint64_t greeting_until; /* ms */
    uint32_t expected;       /* sequence of its next message */
    int memory_fd;
    unsigned extra_fds;
    presil_region regions[PROTOCOL_REGIONS]; /* what it is told */
    uint32_t region_count;
    presil_transport_info told;
    char timing[PRESIL_TRANSPORT_TIMING]; /* "": not known */
    atomic_bool losing;                   /* somebody writes lost_text */
    atomic_bool lost;                     /* to be dropped by the next presil_serve_next */
    char lost_text[SERVER_TEXT];
    bool told_close; /* CLOSE was handed out */
    /* Of a PROGRESS or LOG that the client had no room for: goes out before anything else */
    uint8_t rest[PROTOCOL_HEADER + 4 + PROTOCOL_TEXT];
    size_t rest_bytes;
    bool cut; /* an answer ended in the middle: nothing may follow */

    /* the request that was handed out */
    bool outstanding;
    uint32_t kind, count, sequence;

    /* WAIT_THEN: scratch.then has the accesses; script.c hands them out behind the interrupt */
    bool then_running;
    uint32_t then_at; /* the next one */
    uint64_t then_cycles;

    uint64_t bytes;
    uint64_t wait_began, progress_at, looked_at, deadline_ns; /* ns */
    atomic_bool cancelled;
    int posted_status; /* of a posted request that failed: told with the next answer */
    char posted_text[SERVER_TEXT];

    uint64_t cycles;
    char error[SERVER_TEXT];
    protocol_scratch scratch;
};

__attribute__((format(printf, 3, 4))) int presil_server_fail(presil_server *s, int status, const char *format, ...);
__attribute__((format(printf, 2, 3))) void presil_server_log(presil_server *s, const char *format, ...);
bool presil_server_stopped(const presil_server *s);

/* A server without a listener, for one connected socket at a time (tests). */
presil_server *presil_server_create(const presil_serve_options *options);
/* Takes the descriptor. If there is a client, the new one is refused. */
void presil_server_adopt(presil_server *s, int fd);
/* One: it may have gone already, and whoever is behind it has to find the place free. */
void presil_server_accept(presil_server *s);

void presil_server_lose(presil_server *s,
                        const char *text); /* notes that the client has to be dropped; the first text stays */
void presil_server_drop(presil_server *s,
                        const char *farewell); /* closes; farewell (NULL: none) is told to the client */
/* Sends a message without waiting for a client that does not read. */
void presil_server_tell(presil_server *s, uint16_t type, const void *payload, size_t bytes);
/* During WAIT: takes CANCEL, notices a client that has gone or breaks the protocol, refuses others. Touches nothing
 * that sending needs. */
void presil_server_look(presil_server *s);
void presil_server_progress(presil_server *s, uint64_t cycles);
/* ---- script.c: what a client wants done behind the interrupt */
bool presil_server_then_begin(presil_server *s, uint32_t reason, uint64_t cycles); /* false: nothing */
/* The next accesses as a request. 1: *out is filled in; 0: all are done, and the client has its answer. */
int presil_server_then_next(presil_server *s, presil_request *out);
void presil_server_then_values(presil_server *s, const uint32_t *values); /* of the READ32 handed out last */
void presil_server_hand_out(presil_server *s, const presil_request *q, uint32_t sequence);
/* Answers IDENTITY, TIMING. */
void presil_server_tell_own(presil_server *s, uint32_t kind, uint32_t sequence);
int presil_server_answer(presil_server *s, uint32_t sequence, uint16_t flags, int status, const char *text,
                         const void *body, size_t bytes);

#endif
