/* SPDX-License-Identifier: Apache-2.0 */
/* transport_rig.h - a simulator of the stub chip with its memory, for test_transport.c. */
#ifndef TRANSPORT_RIG_H
#define TRANSPORT_RIG_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "presil_transport.h"
#include "stub_registers.h"

enum { WORD = 16, MEMORY_BYTES = 1 << 20 };
static const uint64_t BASE = 0x80000000u;

static const char *library_path; /* the one under test */
static const char *library_names[3];
static const presil_transport_ops *ops;

typedef struct {
    presil_transport *t;
    int fd;
    uint8_t *memory; /* our own view of the memfd */
    char log[4096];
} rig;

static void keep_log(void *context, const char *text) {
    rig *r = context;
    strncat(r->log, text, sizeof r->log - strlen(r->log) - 2);
    strcat(r->log, "\n");
}

static rig *rig_open_with(const char *memory_model, uint64_t seed, const char *options) {
    rig *r = calloc(1, sizeof *r);
    r->fd = memfd_create("test_transport", MFD_CLOEXEC);
    assert_int_equal(ftruncate(r->fd, MEMORY_BYTES), 0);
    r->memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, r->fd, 0);
    assert_ptr_not_equal(r->memory, MAP_FAILED);
    presil_transport_options o = {.size = sizeof o,
                                  .abi = PRESIL_TRANSPORT_ABI,
                                  .memory_fd = r->fd,
                                  .memory_bytes = MEMORY_BYTES,
                                  .memory_base = {BASE},
                                  .memory_model = memory_model,
                                  .seed = seed,
                                  .options = options,
                                  .log = keep_log,
                                  .log_context = r};
    char error[256] = "";
    if (ops->open(&o, &r->t, error, sizeof error)) fail_msg("open: %s", error);
    for (uint32_t i = 0; i < MEMORY_BYTES / 4; i++) ((uint32_t *)r->memory)[i] = i * 2654435761u;
    return r;
}

static rig *rig_open(const char *memory_model, uint64_t seed) { return rig_open_with(memory_model, seed, NULL); }

static void rig_close(rig *r) {
    ops->close(r->t);
    munmap(r->memory, MEMORY_BYTES);
    close(r->fd);
    free(r);
}

static uint32_t get(rig *r, uint32_t offset) {
    uint32_t value = 0;
    if (ops->read32(r->t, offset, &value)) fail_msg("read32: %s", ops->last_error(r->t));
    return value;
}

static void put(rig *r, uint32_t offset, uint32_t value) {
    if (ops->write32(r->t, offset, value)) fail_msg("write32: %s", ops->last_error(r->t));
}

static void begin_copy(rig *r, uint64_t launch, uint64_t to, uint64_t from, uint32_t beats, uint32_t control) {
    assert_int_equal(ops->launch(r->t, launch), 0);
    put(r, STUB_SRC_LO, (uint32_t)from);
    put(r, STUB_SRC_HI, (uint32_t)(from >> 32));
    put(r, STUB_DST_LO, (uint32_t)to);
    put(r, STUB_DST_HI, (uint32_t)(to >> 32));
    put(r, STUB_BEATS, beats);
    put(r, STUB_CONTROL, control);
}

static presil_wait wait_for(rig *r, presil_wait w) {
    w.size = sizeof w;
    if (ops->wait(r->t, &w)) fail_msg("wait: %s", ops->last_error(r->t));
    return w;
}

/* Copies and returns the chip's own count of cycles; checks the bytes where both ranges are inside. */
static uint32_t copy(rig *r, uint64_t launch, uint64_t to, uint64_t from, uint32_t beats) {
    begin_copy(r, launch, to, from, beats, STUB_START);
    presil_wait w = wait_for(r, (presil_wait){.deadline_cycles = 1000000});
    assert_int_equal(w.reason, PRESIL_WAIT_IRQ);
    assert_int_equal(get(r, STUB_STATUS), STUB_DONE);
    put(r, STUB_STATUS, STUB_DONE);
    assert_memory_equal(r->memory + (to - BASE), r->memory + (from - BASE), (size_t)beats * WORD);
    return get(r, STUB_CYCLES);
}

static uint64_t wall_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static const uint64_t FROM = 0x80000000u, TO = 0x80010000u;

#endif
