/* SPDX-License-Identifier: Apache-2.0 */
/* board.h - a chip behind files: presil_transport_ops whose options are the path of a board's file (docs/silicon.md).
 * It knows no chip. */
#ifndef PRESIL_BOARD_H
#define PRESIL_BOARD_H

#include "board_ops.h"
#include "mailbox.h"
#include "spec.h"

enum { BOARD_TEXT = 768, BOARD_PAGE = 4096 };

struct presil_transport {
    board_spec spec;
    int lock_fd;                       /* of the registers' file, with our lock on its window */
    int memory_lock_fd[BOARD_REGIONS]; /* likewise; -1: none */
    volatile uint8_t *registers;
    mailbox_file *mailbox; /* the same bytes, of a mailbox; else NULL */
    uint32_t posted;       /* requests */
    int interrupt_fd;      /* -1: none */
    /* One range of addresses for all memory, so that host and device addresses differ by a constant; what has no file
     * is inaccessible. NULL: no memory has one. */
    uint8_t *memory;
    uint64_t memory_base, memory_bytes;
    const volatile uint8_t *stored[BOARD_REGIONS]; /* the last byte that was stored since the last flush; NULL: none */
    bool mailbox_stored;                           /* likewise, through the mailbox */
    bool lost;                                     /* the link: nothing works until reset() */
    char error[BOARD_TEXT];
};

__attribute__((format(printf, 3, 4))) int board_fail(presil_transport *t, int code, const char *format, ...);

/* ---- window.c: opens what the specification names; again after a reset, at the same host addresses */
int board_windows_open(presil_transport *t);
void board_windows_close(presil_transport *t);
int board_windows_again(presil_transport *t);
int board_reset_by_file(presil_transport *t);
uint8_t *board_host(const presil_transport *t, const board_memory *m); /* NULL: it has no file */

/* ---- ask.c: through the mailbox; what is answered is waited for */
int board_ask(presil_transport *t, uint32_t kind, uint64_t address, uint32_t bytes, uint32_t *value);
int board_post(presil_transport *t, uint32_t kind, uint64_t address, const void *from, uint32_t bytes, uint32_t value);
const void *board_answer(const presil_transport *t); /* the bytes of the last MEM_READ */

/* ---- interrupt.c */
int board_interrupt_open(presil_transport *t);
void board_interrupt_close(presil_transport *t);
int board_wait(presil_transport *t, presil_wait *w);

#endif
