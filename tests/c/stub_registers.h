/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of tests/rtl/presil_stub_top.sv. */
#ifndef STUB_REGISTERS_H
#define STUB_REGISTERS_H

enum {
    STUB_ID = 0x00, /* reads STUB_ID_VALUE */
    STUB_WORD = 0x04,
    STUB_SRC_LO = 0x08,
    STUB_SRC_HI = 0x0c,
    STUB_DST_LO = 0x10,
    STUB_DST_HI = 0x14,
    STUB_BEATS = 0x18,
    STUB_CONTROL = 0x1c,
    STUB_STATUS = 0x20,
    STUB_CYCLES = 0x24,
    STUB_ID_VALUE = 0x50534c43,
    STUB_CHUNK = 16, /* beats of a burst; addresses are multiples of STUB_CHUNK * WORD */
    /* CONTROL */
    STUB_START = 1,
    STUB_FATAL = 2,
    STUB_START_HANG = 4,
    STUB_STOP = 8,
    STUB_CHANGE_AR = 16, /* with STUB_START: breaches of the bus protocol */
    STUB_EARLY_WLAST = 32,
    /* STATUS */
    STUB_BUSY = 1,
    STUB_DONE = 2,
    STUB_BUS_ERROR = 4,
};

#endif
