/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PRESIL_BOARD_OPS_H
#define PRESIL_BOARD_OPS_H

#include "presil_transport.h"

/* A chip behind files; its options are the path of the board's file (docs/silicon.md). */
const presil_transport_ops *presil_board_ops(void);

#endif
