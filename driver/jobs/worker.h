/* SPDX-License-Identifier: Apache-2.0 */
/* worker.h - one process with a chip, seen from here. */
#ifndef PRESIL_JOBS_WORKER_H
#define PRESIL_JOBS_WORKER_H

#include <stdatomic.h>
#include <sys/types.h>
#include "slot.h"

typedef struct {
    pid_t pid;
    int fd; /* of the socket; -1: there is no process */
} worker;

/* argv: the program and its arguments, but for the socket's descriptor, which becomes 3. 0 or an errno. */
int worker_start(worker *w, char *const argv[]);
/* Waits for its hello: PRESIL_OK, or a status with a text. Gives up at presil_now_ns() = until, or when *stop is true
 * (NULL is allowed). */
int worker_hello(worker *w, const atomic_bool *stop, uint64_t until, block_hello *out, char *text, size_t bytes);
int worker_send(worker *w, const slot *s, uint64_t bytes); /* 0 or an errno */
/* 1: an answer; 0: none yet; -1: the process is gone. */
int worker_receive(worker *w, block_answer *out);
/* The process has closed its socket, or is to be ended: says how it ended. */
void worker_end(worker *w, bool kill, char *text, size_t bytes);

#endif
