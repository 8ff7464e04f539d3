/* SPDX-License-Identifier: Apache-2.0 */
/* regs.h - what the driver knows of the registers beyond their generated addresses and fields (rtl/presil.rdl). */
#ifndef PRESIL_CHIP_REGS_H
#define PRESIL_CHIP_REGS_H

#include "presil_regs.h"

enum { REG_ID_VALUE = 0x5052534c, REG_VERSION_MAJOR = PRESIL_ISA_VERSION };
enum {
    CONTROL_QUEUE_RESET = PRESIL_CONTROL_QUEUE_RESET_MASK,
    CONTROL_COUNTER_SNAPSHOT = PRESIL_CONTROL_COUNTER_SNAPSHOT_MASK,
    CONTROL_COUNTER_CLEAR = PRESIL_CONTROL_COUNTER_CLEAR_MASK
};
enum { IRQ_DONE = PRESIL_IRQ_STATUS_DONE_MASK, IRQ_ERROR = PRESIL_IRQ_STATUS_ERROR_MASK };
/* Numbers of the counters; before them engine * 16 + cause. */
enum {
    COUNTER_CYCLES = 80,
    COUNTER_READ_BEATS,
    COUNTER_WRITE_BEATS,
    COUNTER_READ_BYTES,
    COUNTER_WRITE_BYTES,
    COUNTER_DESCRIPTORS,
    COUNTER_LAUNCHES,
    COUNTER_FETCH_BEATS,
    COUNTER_MATRIX_FIRST,
    COUNTER_MATRIX_LAST,
    COUNTERS
};

#endif
