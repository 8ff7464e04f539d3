/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mailbox.h - registers and memory of a board behind a program: a file that both map. The driver writes requests into a
 * ring and counts them in `posted`; the board carries them out in order and counts them in `done`.
 *
 * Order, as on a bus with posted writes: register accesses happen in the order of the ring. A MEM_WRITE may be carried
 * out later than what follows it, also later than another MEM_WRITE of other bytes, but before any READ32, MEM_READ or
 * FLUSH behind it is answered.
 */
#ifndef PRESIL_BOARD_MAILBOX_H
#define PRESIL_BOARD_MAILBOX_H

#include <stdint.h>

#define MAILBOX_MAGIC 0x58425250u /* "PRBX" */
enum { MAILBOX_VERSION = 1, MAILBOX_ENTRIES = 64, MAILBOX_SLOT = 65536 };

enum mailbox_kind {
    MAILBOX_READ32 = 1,    /* offset → value */
    MAILBOX_WRITE32 = 2,   /* offset, value; nobody waits for it */
    MAILBOX_MEM_READ = 3,  /* address, bytes (at most MAILBOX_SLOT) → the entry's slot */
    MAILBOX_MEM_WRITE = 4, /* address, bytes in the entry's slot; nobody waits for it */
    MAILBOX_FLUSH = 5,     /* everything before it has been carried out */
    MAILBOX_RESET = 6,     /* of the chip; value 1: its memory was lost, and nothing is mapped any more */
    MAILBOX_MAP = 7,       /* address, value pages of 4096 bytes: the chip reaches them from now on */
    MAILBOX_UNMAP = 8,     /* likewise: no longer; 0 pages: whatever is mapped (a session begins or ends) */
};

typedef struct {
    uint32_t kind;
    int32_t status; /* 0, or a presil_transport_error; of WRITE32 and MEM_WRITE: told by the next that is answered */
    uint64_t address;
    uint32_t bytes, value;
    uint32_t reserved[2];
} mailbox_entry;

/* The file: all little-endian, as the machine is. `posted` and `done` count modulo 2^32. */
typedef struct {
    uint32_t magic, version, entries, slot_bytes;
    uint32_t pad0[12];
    uint32_t posted; /* written by the driver, behind the entry */
    uint32_t pad1[15];
    uint32_t done; /* written by the board, behind the entry's results */
    uint32_t pad2[31];
    mailbox_entry entry[MAILBOX_ENTRIES];
    uint8_t pad3[4096 - 256 - MAILBOX_ENTRIES * sizeof(mailbox_entry)];
    uint8_t slot[MAILBOX_ENTRIES][MAILBOX_SLOT];
} mailbox_file;

_Static_assert(sizeof(mailbox_entry) == 32 && sizeof(mailbox_file) == 4096 + MAILBOX_ENTRIES * MAILBOX_SLOT, "layout");

#endif
