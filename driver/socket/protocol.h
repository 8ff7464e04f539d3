/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.h - the messages of docs/transport-protocol.md: framing, encoding, decoding. Both ends use it; it does no
 * input or output and allocates nothing.
 *
 * Everything is little-endian. A message is a header of PROTOCOL_HEADER bytes and `length` bytes of payload. Every
 * length that comes from a peer is checked here: protocol_header() holds the header's against the type, a
 * protocol_reader never reads past the payload, protocol_read_end() wants nothing left over.
 */
#ifndef PRESIL_PROTOCOL_H
#define PRESIL_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "presil_serve.h"

#define PROTOCOL_VERSION 1u
#define PROTOCOL_MAGIC 0x4c535250u /* "PRSL" */
#define PROTOCOL_HEADER 16u
#define PROTOCOL_TEXT 4096u /* bytes of any text */
#define PROTOCOL_REGIONS 16u
#define PROTOCOL_PAYLOAD (PRESIL_SERVE_CHUNK + 4096u)
#define PROTOCOL_RANGES (PRESIL_SERVE_CHUNK / 16u) /* of one answer to WRITE_LOG_FETCH */

/* Requests have the numbers of presil_request_kind. */
enum protocol_type {
    PROTOCOL_WAIT_THEN =
        19,                 /* client: WAIT, and the register accesses after an interrupt; to a server that offers it */
    PROTOCOL_IDENTITY = 21, /* client: what the chip was made of; to a server that offers it, which answers by itself */
    PROTOCOL_TIMING = 22,   /* client: what cycles depend on now; as IDENTITY */
    PROTOCOL_CANCEL = 32,   /* client: ends the WAIT whose sequence it carries */
    PROTOCOL_ANSWER = 64,   /* server: to the request whose sequence it carries */
    PROTOCOL_PROGRESS = 65,
    PROTOCOL_LOG = 66,
    PROTOCOL_REFUSED = 67, /* instead of an answer to OPEN; then the connection ends */
    PROTOCOL_GOODBYE = 68, /* the server ends */
};

enum protocol_flag { PROTOCOL_MORE = 1u }; /* of ANSWER: another one of the same sequence follows */

enum protocol_open_flag {
    PROTOCOL_OPEN_MEMORY_FD = 1u, /* a file descriptor comes with the first byte of the message */
};

enum protocol_welcome_flag {
    PROTOCOL_WELCOME_MAPPED = 1u,   /* the server works on the client's file descriptor */
    PROTOCOL_WELCOME_THEN = 2u,     /* it takes WAIT_THEN */
    PROTOCOL_WELCOME_IDENTITY = 4u, /* it takes IDENTITY */
    PROTOCOL_WELCOME_TIMING = 8u,   /* it takes TIMING */
};

typedef struct {
    uint16_t type, flags;
    uint32_t sequence, length;
} protocol_frame;

typedef struct {
    uint8_t *at;
    size_t capacity, used;
    bool failed; /* it did not fit */
} protocol_writer;

typedef struct {
    const uint8_t *at;
    size_t bytes, used;
    bool failed; /* it was too short */
} protocol_reader;

/* ---- framing */
void protocol_put_header(uint8_t *to, protocol_frame frame);
/* 0, or -1 with a text: not a header, a type that nobody knows, or a length that the type does not have. */
int protocol_header(const uint8_t *from, protocol_frame *out, char *text, size_t text_bytes);
bool protocol_is_posted(uint32_t kind); /* a request without an answer */
const char *protocol_name(uint32_t type);

/* ---- values */
void protocol_put32(protocol_writer *w, uint32_t value);
void protocol_put64(protocol_writer *w, uint64_t value);
void protocol_put_bytes(protocol_writer *w, const void *from, size_t bytes);
void protocol_put_text(protocol_writer *w, const char *text); /* NULL is not "" */
uint32_t protocol_get32(protocol_reader *r);
uint64_t protocol_get64(protocol_reader *r);
const uint8_t *protocol_get_bytes(protocol_reader *r, size_t bytes); /* NULL: too short */
const char *protocol_get_text(protocol_reader *r, char *buffer,
                              size_t buffer_bytes); /* NULL: none, or too short, or longer than the buffer */
bool protocol_read_end(const protocol_reader *r);   /* all was there, and nothing is left */

/* ---- requests: presil_request is filled in from the payload, or the payload from it */
/* Of WAIT_THEN. */
typedef struct {
    uint32_t count;
    presil_register_access at[PRESIL_SERVE_ACCESSES];
} protocol_accesses;

typedef struct { /* what the pointers of a decoded request point to */
    uint32_t offsets[PRESIL_SERVE_REGISTERS];
    protocol_accesses then;
    char text[3][PROTOCOL_TEXT + 1];
} protocol_scratch;

typedef struct {
    uint32_t version, abi, flags;
    const char *client; /* for people */
} protocol_hello;

/* 0, or -1 with a text. The payload has to outlive the request's `data`. hello: of OPEN. */
int protocol_decode_request(const protocol_frame *frame, const uint8_t *payload, presil_request *out,
                            protocol_hello *hello, protocol_scratch *scratch, char *text, size_t text_bytes);
/* The payload of WAIT_THEN. */
void protocol_put_wait_then(protocol_writer *w, const presil_wait *wait, const presil_register_access *then,
                            uint32_t count);
/* Everything but `data` of MEM_WRITE, which follows the payload's first 8 bytes. hello: of OPEN. false: a text was too
 * long. */
bool protocol_encode_request(protocol_writer *w, const presil_request *request, const protocol_hello *hello);

/* ---- answers: status, cycles; then the text of a failure, or what was asked for */
#define PROTOCOL_ANSWER_HEAD 16u
typedef struct {
    int32_t status;
    uint64_t cycles;
    const char *text; /* of a failure */
} protocol_answer;

void protocol_put_answer(protocol_writer *w, int32_t status, uint64_t cycles);
/* Leaves r at what was asked for (status 0). 0, or -1: malformed. buffer: PROTOCOL_TEXT + 1 bytes. */
int protocol_get_answer(protocol_reader *r, protocol_answer *out, char *buffer);

typedef struct {
    uint32_t version, abi, flags, region_count;
    presil_transport_info info;
    presil_region regions[PROTOCOL_REGIONS];
} protocol_welcome;

void protocol_put_welcome(protocol_writer *w, const protocol_welcome *welcome);
int protocol_get_welcome(protocol_reader *r, protocol_welcome *out, char *text,
                         size_t text_bytes); /* 0, or -1 with a text */

#endif
