/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server of one's own: a "board" of the stub chip (tests/rtl/presil_stub_top.sv, driven by tests/chip_stub/),
 * registers in C, which copies blocks of memory. A clock of its own: two cycles an access, ten a beat. usage: board
 * PATH
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include "../c/stub_registers.h"
#include "presil_serve.h"

enum { WORD = 16, CYCLES_A_BEAT = 10 };

typedef struct {
    presil_server *server;
    uint8_t *memory;                       /* the client's, mapped, or ours */
    uint64_t base, bytes, cycles, running; /* running: cycles until the copy is done */
    uint32_t status, last_cycles, reg[STUB_BEATS / 4 + 1];
} board;

static volatile int stop;

static void on_signal(int number) { stop = number; }

static void on_log(void *context, const char *text) {
    (void)context;
    (void)fprintf(stderr, "board: %s\n", text);
}

static uint8_t *at(const board *b, uint64_t address, uint64_t bytes) {
    return address >= b->base && address - b->base <= b->bytes && bytes <= b->bytes - (address - b->base)
               ? b->memory + (address - b->base)
               : NULL;
}

/* ---- memory */
static int open_memory(board *b, const presil_request *q) {
    const int flags = q->open.memory_fd >= 0 ? MAP_SHARED | MAP_NORESERVE : MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void *memory = mmap(NULL, q->open.memory_bytes, PROT_READ | PROT_WRITE, flags, q->open.memory_fd, 0);
    if (memory == MAP_FAILED)
        return presil_serve_reply_done(b->server, PRESIL_TRANSPORT_ENOMEM, "the board can't map so much memory");
    *b = (board){
        .server = b->server, .memory = memory, .base = q->open.memory_base.value, .bytes = q->open.memory_bytes};
    return presil_serve_reply_done(b->server, 0, NULL);
}

static void close_memory(board *b) {
    if (b->memory) (void)munmap(b->memory, b->bytes);
    b->memory = NULL;
}

static int access_memory(board *b, const presil_request *q) {
    uint8_t *p = at(b, q->address, q->bytes);
    if (!p) return presil_serve_reply_done(b->server, PRESIL_TRANSPORT_EBUS, "outside the board's memory");
    if (q->kind == PRESIL_REQUEST_MEM_READ) return presil_serve_reply_bytes(b->server, p, q->bytes);
    if (q->kind == PRESIL_REQUEST_MEM_WRITE) memcpy(p, q->data, q->bytes);
    return presil_serve_reply_done(b->server, 0, NULL);
}

/* ---- registers */
static uint64_t pair(const board *b, uint32_t low) { return b->reg[low / 4] | (uint64_t)b->reg[low / 4 + 1] << 32; }

static void start_copy(board *b) {
    const uint64_t bytes = (uint64_t)b->reg[STUB_BEATS / 4] * WORD;
    const uint8_t *from = at(b, pair(b, STUB_SRC_LO), bytes);
    uint8_t *to = at(b, pair(b, STUB_DST_LO), bytes);
    if (from && to) memmove(to, from, bytes);
    b->last_cycles = CYCLES_A_BEAT * (b->reg[STUB_BEATS / 4] + 1);
    b->running = b->last_cycles;
    b->status = STUB_BUSY | (from && to ? 0 : STUB_BUS_ERROR);
}

static uint32_t read_register(board *b, uint32_t offset) {
    b->cycles += 2;
    switch (offset) {
    case STUB_ID: return STUB_ID_VALUE;
    case STUB_STATUS: return b->status;
    case STUB_CYCLES: return b->last_cycles;
    case STUB_WORD: return WORD;
    default: return offset <= STUB_BEATS ? b->reg[offset / 4] : 0;
    }
}

static int read_registers(board *b, const presil_request *q) {
    static uint32_t values[PRESIL_SERVE_REGISTERS];
    for (uint32_t i = 0; i < q->count; i++) values[i] = read_register(b, q->offsets[i]);
    presil_serve_set_cycles(b->server, b->cycles);
    return presil_serve_reply_values(b->server, values, q->count);
}

static int write_register(board *b, const presil_request *q) {
    b->cycles += 2;
    if (q->offset == STUB_CONTROL && q->value & STUB_START)
        start_copy(b);
    else if (q->offset == STUB_STATUS)
        b->status &= ~q->value;
    else if (q->offset <= STUB_BEATS && q->offset % 4 == 0)
        b->reg[q->offset / 4] = q->value;
    else
        return presil_serve_reply_done(b->server, PRESIL_TRANSPORT_EBUS, "the board has no such register");
    return presil_serve_reply_done(b->server, 0, NULL);
}

/* ---- time: a millisecond of wall time is a million cycles here, so that there is something to wait for */
static int run(board *b, const presil_request *q) {
    const struct timespec step = {0, 1000000};
    uint64_t waited = 0;
    uint32_t reason = b->status & STUB_DONE ? PRESIL_WAIT_IRQ : PRESIL_WAIT_HUNG + 1;
    while (reason > PRESIL_WAIT_HUNG) {
        uint64_t cycles = 1000000;
        if (b->running && b->running < cycles) cycles = b->running;
        if (q->wait.deadline_cycles && q->wait.deadline_cycles - waited < cycles)
            cycles = q->wait.deadline_cycles - waited;
        (void)nanosleep(&step, NULL);
        waited += cycles;
        b->cycles += cycles;
        const uint32_t other = presil_serve_poll(b->server, waited);
        if (b->running)
            b->running -= cycles;
        else if (q->wait.hang_cycles && waited >= q->wait.hang_cycles)
            reason = PRESIL_WAIT_HUNG;
        if (b->status & STUB_BUSY && !b->running)
            b->status = (b->status & ~(uint32_t)STUB_BUSY) | STUB_DONE, reason = PRESIL_WAIT_IRQ;
        else if (q->wait.deadline_cycles && waited >= q->wait.deadline_cycles)
            reason = PRESIL_WAIT_DEADLINE;
        else if (other)
            reason = other;
    }
    presil_serve_set_cycles(b->server, b->cycles);
    return presil_serve_reply_wait(b->server, reason, waited);
}

static int answer(board *b, const presil_request *q) {
    switch (q->kind) {
    case PRESIL_REQUEST_OPEN: return open_memory(b, q);
    case PRESIL_REQUEST_CLOSE: close_memory(b); return 0;
    case PRESIL_REQUEST_READ32: return read_registers(b, q);
    case PRESIL_REQUEST_WRITE32: return write_register(b, q);
    case PRESIL_REQUEST_MEM_READ:
    case PRESIL_REQUEST_MEM_WRITE:
    case PRESIL_REQUEST_SYNC_DEVICE:
    case PRESIL_REQUEST_SYNC_HOST: return access_memory(b, q);
    case PRESIL_REQUEST_WAIT: return run(b, q);
    case PRESIL_REQUEST_LAUNCH: return presil_serve_reply_done(b->server, 0, NULL);
    case PRESIL_REQUEST_CYCLES:
        presil_serve_set_cycles(b->server, b->cycles);
        return presil_serve_reply_done(b->server, 0, NULL);
    case PRESIL_REQUEST_RESET: b->status = 0, b->running = 0; return presil_serve_reply_done(b->server, 0, NULL);
    case PRESIL_REQUEST_BUS_FAULT: return presil_serve_reply_fault(b->server, NULL);
    default: return presil_serve_reply_done(b->server, PRESIL_TRANSPORT_ENOSYS, "the board can't do that");
    }
}

int main(int argc, char **argv) {
    char error[256] = "";
    board b = {0};
    presil_serve_options options = {
        .size = sizeof options, .path = argc == 2 ? argv[1] : "", .stop = &stop, .log = on_log};
    options.info = (presil_transport_info){.capabilities = PRESIL_CAP_CLOCKED | PRESIL_CAP_COHERENT,
                                           .clock_mhz = 500,
                                           .chip = "stub",
                                           .config = "stub",
                                           .build = "board",
                                           .text = "registers in C"};
    (void)signal(SIGTERM, on_signal);
    (void)signal(SIGINT, on_signal);
    if (presil_serve_open(&options, &b.server, error, sizeof error))
        return (void)fprintf(stderr, "board: %s\n", error), 1;
    presil_request request;
    int status = 0;
    while (status == 0 && (status = presil_serve_next(b.server, &request, -1)) == 1) status = answer(&b, &request);
    if (status < 0) (void)fprintf(stderr, "board: %s\n", presil_serve_error_text(b.server));
    close_memory(&b);
    presil_serve_close(b.server);
    return status < 0;
}
