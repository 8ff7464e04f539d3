/* SPDX-License-Identifier: Apache-2.0 */
/* slot.h - memory for blocks: files without a name, mapped here, which grow and are used again. */
#ifndef PRESIL_JOBS_SLOT_H
#define PRESIL_JOBS_SLOT_H

#include "block.h"

typedef struct slot slot;
struct slot {
    slot *next;
    int fd;
    uint8_t *at;
    uint64_t capacity, used;
};

uint64_t slot_capacity(uint64_t bytes); /* that a new one has */
slot *slot_new(uint64_t bytes);         /* NULL: the host has no memory, errno says what */
void slot_free(slot *s);                /* NULL is allowed */
/* Room for `bytes` more, 64-aligned; `at` may move. Its offset, or 0: no memory. */
uint64_t slot_take(slot *s, uint64_t bytes);
static inline block *slot_block(const slot *s) { return (block *)(void *)s->at; }
/* The file has grown to so many bytes in another process. false: it can't be mapped. */
bool slot_follow(slot *s, uint64_t capacity);
/* Ranges and bytes of them. false: no memory, or they can't be read. */
bool slot_put(slot *s, block_memory *memory, const presil_capture_launch *launch, const presil_capture_bytes *from);

#endif
