/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layouts.h - which tensors have a block in a layout of the chip's own (conversions.h): decided where operators are
 * enqueued, in program order. A block lives as long as the one that the tensor lies in.
 */
#ifndef PRESIL_CORE_LAYOUTS_H
#define PRESIL_CORE_LAYOUTS_H

#include <stdbool.h>
#include <stdint.h>
#include "presil_op.h"
#include "queue.h"

/* inputs, outputs: those of `op`. The operands that the chip wants packed become so, with a block; NULL: none of them.
 * presil_layouts_undo() puts them back as they lay and gives the uses up. */
launch_layouts *presil_layouts_choose(presil_device *device, const presil_op *op, presil_operand *inputs,
                                      presil_operand *outputs);
void presil_layouts_undo(const presil_op *op, presil_operand *inputs, presil_operand *outputs, launch_layouts *uses);
void presil_layouts_drop(launch_layouts *uses); /* NULL is allowed */
/* Of a recorded launch: blocks stay where they are until it is given up, whatever becomes of the tensors' own. NULL is
 * allowed. */
void presil_layouts_keep(presil_device *device, launch_layouts *uses);
void presil_layouts_unkeep(presil_device *device, launch_layouts *uses); /* and drops */
/* The block of these pages is given back; the memory's lock is held. */
void presil_layouts_freed(presil_device *device, uint32_t page, uint64_t pages);
bool presil_layouts_owns(const presil_device *device,
                         presil_daddr address); /* likewise; a block of ours starts there */
/* What is packed alone becomes strided, and every block is given back; not while work is queued by a callback's
 * thread. Any thread. */
int presil_layouts_release(presil_device *device);
void presil_layouts_close(presil_device *device); /* the queue is empty; nothing is converted */
/* The host was told that work has passed: it may write to any memory now. */
void presil_layouts_told(presil_device *device);

#endif
