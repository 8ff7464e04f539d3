/* SPDX-License-Identifier: Apache-2.0 */
/* The registers of rtl/toy_top.sv. */
#ifndef TOY_REGISTERS_H
#define TOY_REGISTERS_H

enum {
  TOY_ID = 0x00, /* reads TOY_ID_VALUE */
  TOY_A_LO = 0x04,
  TOY_A_HI = 0x08,
  TOY_B_LO = 0x0c,
  TOY_B_HI = 0x10,
  TOY_C_LO = 0x14,
  TOY_C_HI = 0x18,
  TOY_M = 0x1c,
  TOY_N = 0x20,
  TOY_K = 0x24,
  TOY_A_STRIDE = 0x28, /* bytes from a row to the next */
  TOY_B_STRIDE = 0x2c,
  TOY_C_STRIDE = 0x30,
  TOY_CONTROL = 0x34,    /* TOY_MULTIPLY or TOY_COPY starts; M = 0: nothing to do */
  TOY_STATUS = 0x38,     /* a 1 written clears DONE, ERROR */
  TOY_CYCLES = 0x3c,     /* of the last start */
  TOY_MAC_CYCLES = 0x40, /* in which the array worked */
  TOY_ID_VALUE = 0x544f5931,
  /* CONTROL */
  TOY_MULTIPLY = 1,
  TOY_COPY = 2,
  /* STATUS */
  TOY_BUSY = 1,
  TOY_DONE = 2, /* the interrupt */
  TOY_ERROR = 4,
  /* limits */
  TOY_WORD = 16,  /* bytes of the bus; rows of A and B begin at multiples of it */
  TOY_ROW = 4096, /* bytes of a row of A or B, at most */
  /* sizes */
  TOY_PRODUCTS = 16 /* of int8, a cycle */
};

#endif
