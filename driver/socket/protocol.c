/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol.h"

#include <stdio.h>
#include <string.h>

/* ---- framing */
#define TEXT_MAX (4u + PROTOCOL_TEXT)

/* Every message: its name, and the lengths of payload that it can have. */
static const struct {
    uint16_t type;
    const char *name;
    uint32_t least, most;
} types[] = {
    {PRESIL_REQUEST_OPEN, "OPEN", 4, 48 + 3 * TEXT_MAX},
    {PRESIL_REQUEST_CLOSE, "CLOSE", 0, 0},
    {PRESIL_REQUEST_READ32, "READ32", 8, 4 + 4 * PRESIL_SERVE_REGISTERS},
    {PRESIL_REQUEST_WRITE32, "WRITE32", 8, 8},
    {PRESIL_REQUEST_MEM_READ, "MEM_READ", 16, 16},
    {PRESIL_REQUEST_MEM_WRITE, "MEM_WRITE", 8, 8 + PRESIL_SERVE_CHUNK},
    {PRESIL_REQUEST_SYNC_DEVICE, "SYNC_DEVICE", 16, 16},
    {PRESIL_REQUEST_SYNC_HOST, "SYNC_HOST", 16, 16},
    {PRESIL_REQUEST_LAUNCH, "LAUNCH", 8, 8},
    {PRESIL_REQUEST_WAIT, "WAIT", 24, 24},
    {PRESIL_REQUEST_CYCLES, "CYCLES", 0, 0},
    {PRESIL_REQUEST_RESET, "RESET", 0, 0},
    {PRESIL_REQUEST_TRACE, "TRACE", 20, 16 + TEXT_MAX},
    {PRESIL_REQUEST_WRITE_LOG, "WRITE_LOG", 4, 4},
    {PRESIL_REQUEST_WRITE_LOG_FETCH, "WRITE_LOG_FETCH", 0, 0},
    {PRESIL_REQUEST_BUS_FAULT, "BUS_FAULT", 0, 0},
    {PRESIL_REQUEST_MEMORY_MODEL, "MEMORY_MODEL", 12, 8 + TEXT_MAX},
    {PRESIL_REQUEST_INJECT, "INJECT", 4, TEXT_MAX},
    {PROTOCOL_WAIT_THEN, "WAIT_THEN", 28, 28 + 12 * PRESIL_SERVE_ACCESSES},
    {PRESIL_REQUEST_WRITE_TIMES, "WRITE_TIMES", 8, 8},
    {PROTOCOL_IDENTITY, "IDENTITY", 0, 0},
    {PROTOCOL_TIMING, "TIMING", 0, 0},
    {PROTOCOL_CANCEL, "CANCEL", 0, 0},
    {PROTOCOL_ANSWER, "ANSWER", PROTOCOL_ANSWER_HEAD, PROTOCOL_ANSWER_HEAD + PRESIL_SERVE_CHUNK},
    {PROTOCOL_PROGRESS, "PROGRESS", 8, 8},
    {PROTOCOL_LOG, "LOG", 4, TEXT_MAX},
    {PROTOCOL_REFUSED, "REFUSED", 8, 4 + TEXT_MAX},
    {PROTOCOL_GOODBYE, "GOODBYE", 4, TEXT_MAX},
};
enum { TYPES = sizeof types / sizeof *types };

const char *protocol_name(uint32_t type) {
    for (size_t i = 0; i < TYPES; i++) {
        if (types[i].type == type) return types[i].name;
    }
    return "unknown message";
}

bool protocol_is_posted(uint32_t kind) {
    return kind == PRESIL_REQUEST_WRITE32 || kind == PRESIL_REQUEST_MEM_WRITE || kind == PRESIL_REQUEST_SYNC_DEVICE ||
           kind == PRESIL_REQUEST_LAUNCH || kind == PRESIL_REQUEST_CLOSE;
}

void protocol_put_header(uint8_t *to, protocol_frame frame) {
    protocol_writer w = {to, PROTOCOL_HEADER, 0, false};
    protocol_put32(&w, PROTOCOL_MAGIC);
    protocol_put32(&w, frame.type | (uint32_t)frame.flags << 16);
    protocol_put32(&w, frame.sequence);
    protocol_put32(&w, frame.length);
}

int protocol_header(const uint8_t *from, protocol_frame *out, char *text, size_t text_bytes) {
    protocol_reader r = {from, PROTOCOL_HEADER, 0, false};
    const uint32_t magic = protocol_get32(&r), type = protocol_get32(&r), sequence = protocol_get32(&r),
                   length = protocol_get32(&r);
    const protocol_frame frame = {
        .type = (uint16_t)type, .flags = (uint16_t)(type >> 16), .sequence = sequence, .length = length};
    if (magic != PROTOCOL_MAGIC) {
        (void)snprintf(text, text_bytes, "a message starts with 0x%08x, \"PRSL\" (0x%08x) expected", magic,
                       PROTOCOL_MAGIC);
        return -1;
    }
    size_t i = 0;
    while (i < TYPES && types[i].type != frame.type) i++;
    if (i == TYPES || frame.flags & ~(frame.type == PROTOCOL_ANSWER ? (unsigned)PROTOCOL_MORE : 0u)) {
        (void)snprintf(text, text_bytes, "a message of unknown type %u with flags 0x%x", frame.type, frame.flags);
        return -1;
    }
    if (frame.length < types[i].least || frame.length > types[i].most) {
        (void)snprintf(text, text_bytes, "a message %s of %u bytes, %u to %u expected", types[i].name, frame.length,
                       types[i].least, types[i].most);
        return -1;
    }
    *out = frame;
    return 0;
}

/* ---- values */
static uint8_t *room(protocol_writer *w, size_t bytes) {
    if (w->failed || bytes > w->capacity - w->used) {
        w->failed = true;
        return NULL;
    }
    uint8_t *at = w->at + w->used;
    w->used += bytes;
    return at;
}

void protocol_put32(protocol_writer *w, uint32_t value) {
    uint8_t *to = room(w, 4);
    for (unsigned i = 0; to && i < 4; i++) to[i] = (uint8_t)(value >> 8 * i);
}

void protocol_put64(protocol_writer *w, uint64_t value) {
    protocol_put32(w, (uint32_t)value);
    protocol_put32(w, (uint32_t)(value >> 32));
}

void protocol_put_bytes(protocol_writer *w, const void *from, size_t bytes) {
    uint8_t *to = room(w, bytes);
    if (to && bytes) memcpy(to, from, bytes);
}

void protocol_put_text(protocol_writer *w, const char *text) {
    const size_t bytes = text ? strlen(text) : 0;
    if (bytes > PROTOCOL_TEXT) {
        w->failed = true;
        return;
    }
    protocol_put32(w, text ? (uint32_t)bytes : UINT32_MAX);
    protocol_put_bytes(w, text, bytes);
}

const uint8_t *protocol_get_bytes(protocol_reader *r, size_t bytes) {
    if (r->failed || bytes > r->bytes - r->used) {
        r->failed = true;
        return NULL;
    }
    const uint8_t *at = r->at + r->used;
    r->used += bytes;
    return at;
}

uint32_t protocol_get32(protocol_reader *r) {
    const uint8_t *p = protocol_get_bytes(r, 4);
    return p ? (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24 : 0;
}

uint64_t protocol_get64(protocol_reader *r) {
    const uint64_t low = protocol_get32(r);
    return low | (uint64_t)protocol_get32(r) << 32;
}

const char *protocol_get_text(protocol_reader *r, char *buffer, size_t buffer_bytes) {
    const uint32_t bytes = protocol_get32(r);
    if (r->failed || bytes == UINT32_MAX) return NULL;
    const uint8_t *from = bytes < buffer_bytes ? protocol_get_bytes(r, bytes) : NULL;
    if (!from || memchr(from, 0, bytes)) {
        r->failed = true;
        return NULL;
    }
    memcpy(buffer, from, bytes);
    buffer[bytes] = 0;
    return buffer;
}

bool protocol_read_end(const protocol_reader *r) { return !r->failed && r->used == r->bytes; }

/* ---- requests */
static int decode_open(protocol_reader *r, presil_request *out, protocol_hello *hello, protocol_scratch *scratch,
                       char *text, size_t text_bytes) {
    hello->version = protocol_get32(r);
    if (hello->version != PROTOCOL_VERSION) {
        (void)snprintf(
            text, text_bytes,
            "protocol version %u expected, %u found: both sides have to come from releases of the same protocol",
            PROTOCOL_VERSION, hello->version);
        return -1;
    }
    hello->abi = protocol_get32(r);
    hello->flags = protocol_get32(r);
    const uint32_t reserved = protocol_get32(r);
    out->open = (presil_transport_options){.size = sizeof out->open, .abi = hello->abi, .memory_fd = -1};
    out->open.memory_base.value = protocol_get64(r);
    out->open.memory_bytes = protocol_get64(r);
    out->open.seed = protocol_get64(r);
    out->open.memory_model = protocol_get_text(r, scratch->text[0], sizeof scratch->text[0]);
    out->open.options = protocol_get_text(r, scratch->text[1], sizeof scratch->text[1]);
    hello->client = protocol_get_text(r, scratch->text[2], sizeof scratch->text[2]);
    if (!protocol_read_end(r)) return 0; /* the caller says so */
    const uint64_t base = out->open.memory_base.value, bytes = out->open.memory_bytes;
    if (reserved || hello->flags & ~(uint32_t)PROTOCOL_OPEN_MEMORY_FD)
        (void)snprintf(text, text_bytes, "OPEN: flags 0x%x and reserved 0x%x are not known", hello->flags, reserved);
    else if (!bytes || bytes % 4096 || base % 4096 || bytes > UINT64_MAX - base)
        (void)snprintf(text, text_bytes, "OPEN: memory of %llu bytes at 0x%llx: multiples of 4096 below 2^64 expected",
                       (unsigned long long)bytes, (unsigned long long)base);
    else
        return 0;
    return -1;
}

static void decode_offsets(protocol_reader *r, presil_request *out, protocol_scratch *scratch) {
    out->count = protocol_get32(r);
    if (out->count > PRESIL_SERVE_REGISTERS || out->count == 0) r->failed = true;
    for (uint32_t i = 0; i < out->count && !r->failed; i++) scratch->offsets[i] = protocol_get32(r);
    out->offsets = scratch->offsets;
}

static void get_wait(protocol_reader *r, presil_wait *out) {
    out->deadline_cycles = protocol_get64(r);
    out->deadline_ns = protocol_get64(r);
    out->hang_cycles = protocol_get64(r);
}

static void put_wait(protocol_writer *w, const presil_wait *wait) {
    protocol_put64(w, wait->deadline_cycles);
    protocol_put64(w, wait->deadline_ns);
    protocol_put64(w, wait->hang_cycles);
}

static void decode_accesses(protocol_reader *r, protocol_accesses *out) {
    out->count = protocol_get32(r);
    if (out->count > PRESIL_SERVE_ACCESSES) r->failed = true;
    for (uint32_t i = 0; i < out->count && !r->failed; i++) {
        presil_register_access *a = &out->at[i];
        *a = (presil_register_access){.offset = protocol_get32(r)};
        a->is_write = protocol_get32(r);
        a->value = protocol_get32(r);
        if (a->is_write > 1) r->failed = true;
    }
}

void protocol_put_wait_then(protocol_writer *w, const presil_wait *wait, const presil_register_access *then,
                            uint32_t count) {
    put_wait(w, wait);
    protocol_put32(w, count);
    for (uint32_t i = 0; i < count; i++) {
        protocol_put32(w, then[i].offset);
        protocol_put32(w, then[i].is_write != 0);
        protocol_put32(w, then[i].is_write ? then[i].value : 0);
    }
}

int protocol_decode_request(const protocol_frame *frame, const uint8_t *payload, presil_request *out,
                            protocol_hello *hello, protocol_scratch *scratch, char *text, size_t text_bytes) {
    protocol_reader reader = {payload, frame->length, 0, false}, *r = &reader;
    *out = (presil_request){.kind = frame->type, .wait.size = sizeof(presil_wait)};
    scratch->then.count = 0;
    text[0] = 0;
    switch (frame->type) {
    case PRESIL_REQUEST_OPEN:
        if (decode_open(r, out, hello, scratch, text, text_bytes)) return -1;
        break;
    case PRESIL_REQUEST_READ32: decode_offsets(r, out, scratch); break;
    case PRESIL_REQUEST_WRITE32:
        out->offset = protocol_get32(r);
        out->value = protocol_get32(r);
        break;
    case PRESIL_REQUEST_MEM_READ:
    case PRESIL_REQUEST_SYNC_DEVICE:
    case PRESIL_REQUEST_SYNC_HOST:
        out->address = protocol_get64(r);
        out->bytes = protocol_get64(r);
        if (frame->type == PRESIL_REQUEST_MEM_READ && out->bytes > PRESIL_SERVE_CHUNK) r->failed = true;
        break;
    case PRESIL_REQUEST_MEM_WRITE:
        out->address = protocol_get64(r);
        out->bytes = r->bytes - r->used;
        out->data = protocol_get_bytes(r, out->bytes);
        break;
    case PRESIL_REQUEST_WRITE_TIMES: out->address = protocol_get64(r); break;
    case PRESIL_REQUEST_LAUNCH: out->launch = protocol_get64(r); break;
    case PRESIL_REQUEST_WAIT: get_wait(r, &out->wait); break;
    case PROTOCOL_WAIT_THEN:
        out->kind = PRESIL_REQUEST_WAIT;
        get_wait(r, &out->wait);
        decode_accesses(r, &scratch->then);
        break;
    case PRESIL_REQUEST_TRACE:
        out->first_cycle = protocol_get64(r);
        out->last_cycle = protocol_get64(r);
        out->text = protocol_get_text(r, scratch->text[0], sizeof scratch->text[0]);
        break;
    case PRESIL_REQUEST_WRITE_LOG: out->value = protocol_get32(r); break;
    case PRESIL_REQUEST_MEMORY_MODEL:
        out->seed = protocol_get64(r);
        out->text = protocol_get_text(r, scratch->text[0], sizeof scratch->text[0]);
        break;
    case PRESIL_REQUEST_INJECT: out->text = protocol_get_text(r, scratch->text[0], sizeof scratch->text[0]); break;
    case PRESIL_REQUEST_CLOSE:
    case PRESIL_REQUEST_CYCLES:
    case PRESIL_REQUEST_RESET:
    case PRESIL_REQUEST_WRITE_LOG_FETCH:
    case PROTOCOL_IDENTITY:
    case PROTOCOL_TIMING:
    case PRESIL_REQUEST_BUS_FAULT: break;
    default: (void)snprintf(text, text_bytes, "%s is no request", protocol_name(frame->type)); return -1;
    }
    if (protocol_read_end(r)) return 0;
    (void)snprintf(text, text_bytes, "a malformed %s of %u bytes", protocol_name(frame->type), frame->length);
    return -1;
}

static void encode_open(protocol_writer *w, const presil_transport_options *o, const protocol_hello *hello) {
    protocol_put32(w, hello->version);
    protocol_put32(w, hello->abi);
    protocol_put32(w, hello->flags);
    protocol_put32(w, 0);
    protocol_put64(w, o->memory_base.value);
    protocol_put64(w, o->memory_bytes);
    protocol_put64(w, o->seed);
    protocol_put_text(w, o->memory_model);
    protocol_put_text(w, o->options);
    protocol_put_text(w, hello->client);
}

bool protocol_encode_request(protocol_writer *w, const presil_request *q, const protocol_hello *hello) {
    switch (q->kind) {
    case PRESIL_REQUEST_OPEN: encode_open(w, &q->open, hello); break;
    case PRESIL_REQUEST_READ32:
        protocol_put32(w, q->count);
        for (uint32_t i = 0; i < q->count; i++) protocol_put32(w, q->offsets[i]);
        break;
    case PRESIL_REQUEST_WRITE32:
        protocol_put32(w, q->offset);
        protocol_put32(w, q->value);
        break;
    case PRESIL_REQUEST_MEM_READ:
    case PRESIL_REQUEST_SYNC_DEVICE:
    case PRESIL_REQUEST_SYNC_HOST:
        protocol_put64(w, q->address);
        protocol_put64(w, q->bytes);
        break;
    case PRESIL_REQUEST_MEM_WRITE:
    case PRESIL_REQUEST_WRITE_TIMES: protocol_put64(w, q->address); break;
    case PRESIL_REQUEST_LAUNCH: protocol_put64(w, q->launch); break;
    case PRESIL_REQUEST_WAIT: put_wait(w, &q->wait); break;
    case PRESIL_REQUEST_TRACE:
        protocol_put64(w, q->first_cycle);
        protocol_put64(w, q->last_cycle);
        protocol_put_text(w, q->text);
        break;
    case PRESIL_REQUEST_WRITE_LOG: protocol_put32(w, q->value); break;
    case PRESIL_REQUEST_MEMORY_MODEL:
        protocol_put64(w, q->seed);
        protocol_put_text(w, q->text);
        break;
    case PRESIL_REQUEST_INJECT: protocol_put_text(w, q->text); break;
    default: break;
    }
    return !w->failed;
}

/* ---- answers */
void protocol_put_answer(protocol_writer *w, int32_t status, uint64_t cycles) {
    protocol_put32(w, (uint32_t)status);
    protocol_put32(w, 0);
    protocol_put64(w, cycles);
}

int protocol_get_answer(protocol_reader *r, protocol_answer *out, char *buffer) {
    const uint32_t status = protocol_get32(r), reserved = protocol_get32(r);
    const uint64_t cycles = protocol_get64(r);
    *out = (protocol_answer){.status = (int32_t)status, .cycles = cycles};
    if (r->failed || reserved || out->status > 0 || out->status < PRESIL_TRANSPORT_ESTOPPED) return -1;
    if (out->status == 0) return 0;
    out->text = protocol_get_text(r, buffer, PROTOCOL_TEXT + 1);
    return protocol_read_end(r) ? 0 : -1;
}

void protocol_put_welcome(protocol_writer *w, const protocol_welcome *welcome) {
    protocol_put32(w, welcome->version);
    protocol_put32(w, welcome->abi);
    protocol_put32(w, welcome->flags);
    protocol_put32(w, welcome->info.capabilities);
    protocol_put32(w, welcome->info.clock_mhz);
    protocol_put_bytes(w, welcome->info.chip, sizeof welcome->info.chip);
    protocol_put_bytes(w, welcome->info.config, sizeof welcome->info.config);
    protocol_put_bytes(w, welcome->info.build, sizeof welcome->info.build);
    protocol_put_bytes(w, welcome->info.text, sizeof welcome->info.text);
    protocol_put32(w, welcome->region_count);
    for (uint32_t i = 0; i < welcome->region_count; i++) {
        protocol_put64(w, welcome->regions[i].base.value);
        protocol_put64(w, welcome->regions[i].bytes);
    }
}

static void get_name(protocol_reader *r, char *to, size_t bytes) {
    const uint8_t *from = protocol_get_bytes(r, bytes);
    if (!from || !memchr(from, 0, bytes))
        r->failed = true;
    else
        memcpy(to, from, bytes);
}

int protocol_get_welcome(protocol_reader *r, protocol_welcome *out, char *text, size_t text_bytes) {
    *out = (protocol_welcome){.version = protocol_get32(r)};
    if (!r->failed && out->version != PROTOCOL_VERSION) {
        (void)snprintf(text, text_bytes, "protocol version %u expected, %u found", PROTOCOL_VERSION, out->version);
        return -1;
    }
    out->abi = protocol_get32(r);
    out->flags = protocol_get32(r);
    const uint32_t capabilities = protocol_get32(r), clock_mhz = protocol_get32(r);
    out->info = (presil_transport_info){
        .size = sizeof out->info, .abi = out->abi, .capabilities = capabilities, .clock_mhz = clock_mhz};
    get_name(r, out->info.chip, sizeof out->info.chip);
    get_name(r, out->info.config, sizeof out->info.config);
    get_name(r, out->info.build, sizeof out->info.build);
    get_name(r, out->info.text, sizeof out->info.text);
    out->region_count = protocol_get32(r);
    if (out->region_count > PROTOCOL_REGIONS) r->failed = true;
    for (uint32_t i = 0; i < out->region_count && !r->failed; i++) {
        out->regions[i].base.value = protocol_get64(r);
        out->regions[i].bytes = protocol_get64(r);
        if (out->regions[i].bytes > UINT64_MAX - out->regions[i].base.value) r->failed = true;
    }
    if (protocol_read_end(r)) return 0;
    (void)snprintf(text, text_bytes, "a malformed answer to OPEN");
    return -1;
}
