/* SPDX-License-Identifier: Apache-2.0 */
/*
 * burst_rig.h - tests/rtl/presil_burst_top.sv behind a transport, its memory, and AXI4's rules (ARM IHI 0022, A3.4.1)
 * written down a second time. Everything here fails the test where something goes wrong.
 */
#ifndef PRESIL_BURST_RIG_H
#define PRESIL_BURST_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "presil_transport.h"

enum { BURST_MEMORY_BYTES = 64 << 10, BURST_MAX_WORD = 128, BURST_FIXED = 0, BURST_INCR = 1, BURST_WRAP = 2 };
#define BURST_BASE UINT64_C(0x80000000)

enum burst_breach {
    BREACH_NONE,
    BREACH_ARADDR,
    BREACH_ARVALID,
    BREACH_AWLEN,
    BREACH_AWVALID,
    BREACH_WDATA,
    BREACH_WVALID,
    BREACH_WSTRB,
    BREACH_WLAST,
    BREACH_EARLY_WLAST,
    BREACH_NO_WLAST,
    BREACH_ALL_LANES,
};

typedef struct {
    uint64_t address;
    unsigned beats, size, kind; /* size: log2 of a beat's bytes */
    uint32_t id;
    bool write;
} burst;

typedef struct {
    uint8_t lanes[BURST_MAX_WORD];
    uint32_t id;
    unsigned response;
    bool last;
} burst_beat;

typedef struct {
    presil_transport *t;
    int fd;
    uint8_t *memory;           /* our view of the memfd */
    unsigned word, id_bits;    /* word: bytes of a bus beat */
    uint64_t launches, cycles; /* cycles: of the last run, from its start to the interrupt */
    int started;               /* what the doorbell's write returned */
    uint32_t seed;             /* of the data written */
    bool holes;
    char build[32];
} burst_rig;

/* Of the library that the transport is in, or "socket:PATH": all rigs from then on. */
bool burst_library(const char *name);
const presil_transport_ops *burst_ops(void);
burst_rig *burst_open(const char *memory_model, uint64_t seed, const char *options);
void burst_close(burst_rig *r);
void burst_model(burst_rig *r, const char *memory_model, uint64_t seed);
void burst_put(burst_rig *r, uint32_t offset, uint32_t value);
uint32_t burst_get(burst_rig *r, uint32_t offset);
void burst_lazy(burst_rig *r, unsigned chance); /* of RREADY and BREADY being low, in 256ths */

/* Runs these together, reads and writes beside each other, as launch r->launches++. burst_start: up to the doorbell;
 * burst_finish returns what wait() did, and takes at most a million cycles. */
void burst_start(burst_rig *r, const burst *all, unsigned count);
int burst_finish(burst_rig *r);
void burst_run(burst_rig *r, const burst *all, unsigned count);
burst_beat burst_kept(burst_rig *r, unsigned index, unsigned low, unsigned high); /* lanes low to high of a read beat */

unsigned burst_answer(burst_rig *r, unsigned index); /* response of a write */
uint32_t burst_answer_id(burst_rig *r, unsigned index);
uint32_t burst_id(const burst_rig *r,
                  unsigned n); /* ID n of 16 spread over the chip's bits; of fewer where it has 1 to 3 */

/* A3.4.1: the bytes [*first, *end) of beat n. */
void burst_bytes(const burst *b, unsigned n, uint64_t *first, uint64_t *end);
uint8_t burst_data(const burst_rig *r, unsigned beat, unsigned lane); /* what the chip writes */
bool burst_strobed(const burst_rig *r, uint8_t data);
/* What these writes, one after the other, make of a copy of the memory. */
void burst_apply(const burst_rig *r, uint8_t *memory, const burst *all, unsigned count);

#endif
