/* SPDX-License-Identifier: Apache-2.0 */
/* spec.h - what a board's file says (docs/silicon.md): where registers, memory and interrupt are. */
#ifndef PRESIL_BOARD_SPEC_H
#define PRESIL_BOARD_SPEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BOARD_PATH = 512, BOARD_REGIONS = 8 };

typedef struct {
    char path[BOARD_PATH]; /* absolute, "fd:N", or "" (a mailbox's memory) */
    bool inherited;        /* it is "fd:N" */
    int fd;                /* that N, which stays its opener's */
    uint64_t offset, bytes;
} board_window;

typedef struct {
    board_window window;
    uint64_t base; /* device address of its first byte */
    bool coherent; /* no write to it is overtaken by one to a register */
} board_memory;

typedef enum { BOARD_POLLED, BOARD_UIO, BOARD_EVENTFD } board_interrupt_kind;
typedef enum { BOARD_RESET_NONE, BOARD_RESET_FILE, BOARD_RESET_REGISTER, BOARD_RESET_MAILBOX } board_reset_kind;

typedef struct {
    char file[BOARD_PATH]; /* that says all this */
    char chip[32], config[32], build[32];
    uint32_t clock_mhz;
    board_window registers;
    bool mailbox; /* registers and what has no file of its own go through a mailbox */
    board_memory memory[BOARD_REGIONS];
    uint32_t memory_count;
    board_interrupt_kind interrupt;
    char interrupt_path[BOARD_PATH];
    int interrupt_fd;
    board_reset_kind reset;
    char reset_path[BOARD_PATH];
    uint32_t reset_offset, reset_value;
    bool iommu;       /* the chip reaches what the mailbox was asked to map */
    uint32_t witness; /* offset of a register that never reads 0xffffffff */
    uint32_t timeout_ms;
} board_spec;

/* 0, or -1 with a text that names file and line. */
int board_spec_read(const char *path, board_spec *out, char *error, size_t error_bytes);

#endif
