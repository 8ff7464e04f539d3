/* SPDX-License-Identifier: Apache-2.0 */
/* block.h - a launch on its way to a process and back: a piece of memory that both map. Offsets are from its start. */
#ifndef PRESIL_JOBS_BLOCK_H
#define PRESIL_JOBS_BLOCK_H

#include "presil_capture.h"

#define BLOCK_MAGIC 0x31424f4a4c495350ull /* "PSILJOB1" */
enum { BLOCK_TEXT = 2048, HELLO_TEXT = 1024 };

typedef struct {
    uint64_t ranges, count; /* presil_byte_range */
    uint64_t bytes, size;   /* their contents, one after the other */
} block_memory;

typedef struct {
    uint64_t magic, used;
    uint64_t commands, command_bytes; /* as presil_capture_launch.commands gives them */
    block_memory reads, writes;       /* writes: what the executor wrote */
    presil_report report;             /* from the device; the answer is in it */
    char text[BLOCK_TEXT];            /* the answer's, if it failed */
    presil_byte_range scratch;        /* presil_capture_launch.scratch */
} block;

/* Over the socket, one message each. To the process: with the descriptor of a block. From it: when it has a chip, then
 * after each launch. */
typedef struct {
    uint64_t bytes;
} block_order;

typedef struct {
    int32_t status; /* of opening the chip; of a launch: 0, the block has its own */
    uint32_t reserved;
    uint64_t nanoseconds;
    char text[HELLO_TEXT];
} block_answer;

#endif
