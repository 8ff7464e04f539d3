/* SPDX-License-Identifier: Apache-2.0 */
/* board_fixture.h - software boards (tests/board/soft_board.c) in processes of their own, and devices over them. */
#ifndef BOARD_FIXTURE_H
#define BOARD_FIXTURE_H

#include <sys/types.h>
#include "core_fixture.h"

typedef struct {
    char directory[64], spec[96]; /* spec: "board:DIRECTORY/board" */
    pid_t pid;                    /* 0: not running */
    int out;                      /* of its standard output */
    char said[4096];              /* by then */
} soft_board;

/* arguments: words of soft-board behind the library, separated by spaces */
void soft_board_start(soft_board *b, const char *arguments);
void soft_board_lose_link(soft_board *b);
void soft_board_kill(soft_board *b);
/* Ends it; the value of a name in what it tells at its end. */
void soft_board_stop(soft_board *b);
uint64_t soft_board_told(const soft_board *b, const char *name);
void soft_board_remove(soft_board *b); /* its files */

int board_device(const soft_board *b, uint32_t host_memory, presil_device **out);

#endif
