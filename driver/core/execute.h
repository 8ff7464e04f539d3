/* SPDX-License-Identifier: Apache-2.0 */
/* execute.h - what the runner does with an item of the queue. */
#ifndef PRESIL_CORE_EXECUTE_H
#define PRESIL_CORE_EXECUTE_H

#include "queue.h"

extern const queue_ops presil_execution;

#endif
