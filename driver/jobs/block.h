/* SPDX-License-Identifier: Apache-2.0 */
/* block.h - a launch on its way to a process and back: a piece of memory that both map. Offsets are from its start. */
#ifndef PRESIL_JOBS_BLOCK_H
#define PRESIL_JOBS_BLOCK_H

#include <stdbool.h>
#include "presil_capture.h"

#define BLOCK_MAGIC 0x32424f4a4c495350ull /* "PSILJOB2" */
enum { BLOCK_TEXT = 2048, HELLO_TEXT = 1024, HELLO_NAME = 160 };

typedef struct {
    uint64_t ranges, count; /* presil_byte_range */
    uint64_t bytes, size;   /* their contents, one after the other */
} block_memory;

typedef struct {
    uint64_t magic, used;
    uint64_t commands, command_bytes; /* as presil_capture_launch.commands gives them */
    block_memory reads, writes;       /* writes: what the executor wrote */
    block_memory found;               /* of a launch that failed: what the chip wrote; ranges 0: not known */
    presil_report report;             /* from the device; the answer is in it */
    char text[BLOCK_TEXT];            /* the answer's, if it failed */
    presil_byte_range scratch;        /* presil_capture_launch.scratch */
} block;

static inline const presil_byte_range *block_ranges(const block *b, const block_memory *m) {
    return (const void *)((const uint8_t *)b + m->ranges);
}
static inline const uint8_t *block_bytes(const block *b, const block_memory *m) {
    return (const uint8_t *)b + m->bytes;
}
/* Of `size` bytes: whether all that it names is inside. */
bool block_has_memory(const block *b, uint64_t size, const block_memory *m);
bool block_is_whole(const block *b, uint64_t size); /* but for `found` */

/* Over the socket, one message each. From the process, when it has a chip: a hello. To it: an order, with the
 * descriptor of a block. From it, after each launch: an answer. */
typedef struct {
    int32_t status; /* of opening the chip */
    uint32_t capabilities;
    presil_device_info info;
    char rtl[HELLO_NAME], library[HELLO_NAME], timing[PRESIL_TRANSPORT_TIMING]; /* presil_device_identity */
    char text[HELLO_TEXT];
} block_hello;

typedef struct {
    uint64_t bytes;
} block_order;

typedef struct {
    int32_t status; /* 0: the block has its own */
    uint32_t reserved;
    uint64_t nanoseconds;
    uint64_t bytes; /* of the block, which may have grown */
    char text[HELLO_TEXT];
} block_answer;

#endif
