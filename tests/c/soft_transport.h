/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soft_transport.h - a transport without a simulator: the chip's registers in C, its descriptors on the twin. For tests
 * of the driver under sanitizers. Configuration: environment PRESIL_SOFT_CONFIG (default tiny). cycles: 100 a
 * descriptor and 7 a launch.
 *
 * inject(), one-shot: "stray@ADDR" a byte is written that no descriptor writes; "flip@ADDR" a bit is wrong after the
 * launch; "skip" the last range that a launch writes is left as it was; "slverr" a bus error; "fatal" the model stops;
 * "hang" no progress; "long@N" the launch takes N cycles;
 * "silent@N" the bus is silent and the engines work for N cycles, then as usual; "slow" runs until it is cancelled;
 * "deaf" as fatal, and reset fails too. Until the next inject(): "unreadable", "unwritable": mem_read, mem_write fail;
 * "drain@N": after a queue reset STATUS is busy N times.
 */
#ifndef SOFT_TRANSPORT_H
#define SOFT_TRANSPORT_H

#include <stddef.h>
#include <stdint.h>

typedef enum { SOFT_READ, SOFT_WRITE, SOFT_LAUNCH, SOFT_WAIT, SOFT_RESET, SOFT_MEM_READ, SOFT_MEM_WRITE } soft_kind;
typedef struct {
    soft_kind kind;
    uint32_t offset, value;
} soft_access;

enum { SOFT_LOG = 4096 };

/* Exported as soft_log: what was called, in order, since the last call; at most SOFT_LOG of them. Valid until the next
 * one. */
typedef size_t (*soft_log_fn)(const soft_access **accesses);

#endif
