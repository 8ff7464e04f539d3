/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "burst_rig.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "client.h"

enum {
    ID = 0x00,
    WORD = 0x04,
    ADDR_LO = 0x08,
    SHAPE = 0x10,
    CONTROL = 0x14,
    LAZY = 0x18,
    SELECT = 0x2c,
    BEAT = 0x30,
    ANSWER = 0x34,
    HOLES = 0x38,
    SEED = 0x3c,
    DATA = 0x40,
    NEXT_ID = 0xd0,
    ID_BITS = 0xd4,
    BEAT_ID = 0xd8,
    ANSWER_ID = 0xdc
};

static const presil_transport_ops *ops;
static const char *peer; /* "socket:PATH" or NULL */

bool burst_library(const char *name) {
    peer = NULL;
    if (strncmp(name, "socket:", 7) == 0) {
        peer = name + 7;
        ops = presil_socket_ops();
        return true;
    }
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    void *entry = library ? dlsym(library, "presil_transport_entry") : NULL;
    if (!entry) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        return false;
    }
    presil_transport_entry_fn function;
    memcpy(&function, &entry, sizeof function);
    ops = function();
    return true;
}

const presil_transport_ops *burst_ops(void) { return ops; }

burst_rig *burst_open(const char *memory_model, uint64_t seed, const char *options) {
    burst_rig *r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->fd = memfd_create("bursts", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    assert_int_equal(ftruncate(r->fd, BURST_MEMORY_BYTES), 0);
    assert_int_equal(fcntl(r->fd, F_ADD_SEALS, F_SEAL_SHRINK), 0); /* a server asks for it */
    r->memory = mmap(NULL, BURST_MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    assert_ptr_not_equal(r->memory, MAP_FAILED);
    presil_transport_options o = {.size = sizeof o,
                                  .abi = PRESIL_TRANSPORT_ABI,
                                  .memory_fd = r->fd,
                                  .memory_bytes = BURST_MEMORY_BYTES,
                                  .memory_base = {BURST_BASE},
                                  .memory_model = memory_model,
                                  .seed = seed,
                                  .options = peer ? peer : options};
    char error[256] = "";
    if (ops->open(&o, &r->t, error, sizeof error)) fail_msg("open: %s", error);
    for (uint32_t i = 0; i < BURST_MEMORY_BYTES; i++) r->memory[i] = (uint8_t)((i * 2654435761u) >> 13);
    presil_transport_info info = {.size = sizeof info};
    assert_int_equal(ops->info(r->t, &info), 0);
    memcpy(r->build, info.build, sizeof r->build);
    assert_int_equal(burst_get(r, ID), 0x42525354);
    r->word = burst_get(r, WORD);
    r->id_bits = burst_get(r, ID_BITS);
    return r;
}

void burst_close(burst_rig *r) {
    ops->close(r->t);
    munmap(r->memory, BURST_MEMORY_BYTES);
    close(r->fd);
    free(r);
}

void burst_model(burst_rig *r, const char *memory_model, uint64_t seed) {
    if (ops->set_memory_model(r->t, memory_model, seed)) fail_msg("%s: %s", memory_model, ops->last_error(r->t));
}

uint32_t burst_get(burst_rig *r, uint32_t offset) {
    uint32_t value = 0;
    if (ops->read32(r->t, offset, &value)) fail_msg("read32: %s", ops->last_error(r->t));
    return value;
}

void burst_put(burst_rig *r, uint32_t offset, uint32_t value) {
    if (ops->write32(r->t, offset, value)) fail_msg("write32: %s", ops->last_error(r->t));
}

void burst_lazy(burst_rig *r, unsigned chance) { burst_put(r, LAZY, chance); }

void burst_start(burst_rig *r, const burst *all, unsigned count) {
    if (ops->launch(r->t, r->launches++)) fail_msg("launch: %s", ops->last_error(r->t));
    burst_put(r, CONTROL, 2);
    burst_put(r, SEED, r->seed);
    burst_put(r, HOLES, r->holes);
    for (unsigned i = 0; i < count; i++) {
        const burst *b = &all[i];
        burst_put(r, ADDR_LO, (uint32_t)b->address);
        assert_int_equal(b->address >> 32, 0); /* what ADDR_HI is from the reset on */
        burst_put(r, NEXT_ID, b->id);
        burst_put(r, SHAPE, (b->beats - 1) | b->size << 8 | b->kind << 12 | (uint32_t)b->write << 31);
    }
    r->started = ops->write32(r->t, CONTROL, 1);
}

int burst_finish(burst_rig *r) {
    presil_wait w = {.size = sizeof w, .deadline_cycles = 1000000};
    if (r->started) return r->started; /* a breach may show at once */
    const int status = ops->wait(r->t, &w);
    if (!status) assert_int_equal(w.reason, PRESIL_WAIT_IRQ);
    r->cycles = w.cycles;
    return status;
}

void burst_run(burst_rig *r, const burst *all, unsigned count) {
    burst_start(r, all, count);
    if (burst_finish(r)) fail_msg("wait: %s", ops->last_error(r->t));
}

burst_beat burst_kept(burst_rig *r, unsigned index, unsigned low, unsigned high) {
    burst_beat beat = {0};
    burst_put(r, SELECT, index);
    const uint32_t info = burst_get(r, BEAT);
    beat.id = burst_get(r, BEAT_ID);
    beat.response = info >> 2 & 3;
    beat.last = info >> 4 & 1;
    for (unsigned lane = low & ~3u; lane <= high; lane += 4) {
        const uint32_t value = burst_get(r, DATA + lane);
        memcpy(beat.lanes + lane, &value, 4);
    }
    return beat;
}

unsigned burst_answer(burst_rig *r, unsigned index) {
    burst_put(r, SELECT, index);
    return burst_get(r, ANSWER) >> 2 & 3;
}

uint32_t burst_answer_id(burst_rig *r, unsigned index) {
    burst_put(r, SELECT, index);
    return burst_get(r, ANSWER_ID);
}

/* The second of two bits is the highest: what cuts an ID makes one of two. */
uint32_t burst_id(const burst_rig *r, unsigned n) {
    const unsigned bits = r->id_bits;
    const unsigned places[] = {0, bits - 1, bits > 9 ? 8 : 1, bits > 17 ? 16 : 2};
    uint32_t id = 0;
    for (unsigned i = 0; i < 4; i++) {
        if (places[i] < bits) id |= (uint32_t)(n >> i & 1) << places[i];
    }
    return id;
}

void burst_bytes(const burst *b, unsigned n, uint64_t *first, uint64_t *end) {
    const uint64_t number_bytes = UINT64_C(1) << b->size, aligned = b->address / number_bytes * number_bytes;
    const uint64_t container = number_bytes * b->beats, boundary = b->address / container * container;
    uint64_t address = aligned + n * number_bytes;
    if (b->kind == BURST_FIXED) address = aligned;
    if (b->kind == BURST_WRAP && address >= boundary + container) address -= container;
    *end = address + number_bytes;
    *first = n == 0 || b->kind == BURST_FIXED ? b->address : address;
}

uint8_t burst_data(const burst_rig *r, unsigned beat, unsigned lane) {
    return (uint8_t)(r->seed + 73 * (37 * beat + lane) + 11 * (beat >> 3));
}

bool burst_strobed(const burst_rig *r, uint8_t data) { return !r->holes || data % 4; }

void burst_apply(const burst_rig *r, uint8_t *memory, const burst *all, unsigned count) {
    unsigned beat = 0;
    for (unsigned i = 0; i < count; i++) {
        for (unsigned n = 0; all[i].write && n < all[i].beats; n++, beat++) {
            uint64_t first, end;
            burst_bytes(&all[i], n, &first, &end);
            for (uint64_t at = first; at < end; at++) {
                const uint8_t data = burst_data(r, beat, (unsigned)(at % r->word));
                if (burst_strobed(r, data)) memory[at - BURST_BASE] = data;
            }
        }
    }
}
