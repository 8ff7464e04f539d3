/* SPDX-License-Identifier: Apache-2.0 */
#include "block.h"

static bool inside(uint64_t size, uint64_t at, uint64_t bytes) {
    return at >= sizeof(block) && at <= size && bytes <= size - at;
}

bool block_has_memory(const block *b, uint64_t size, const block_memory *m) {
    if (m->count > size / sizeof(presil_byte_range) || m->ranges % sizeof(uint64_t) ||
        !inside(size, m->ranges, m->count * sizeof(presil_byte_range)) || !inside(size, m->bytes, m->size))
        return false;
    const presil_byte_range *r = block_ranges(b, m);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < m->count && bytes <= m->size; i++)
        bytes += r[i].bytes <= m->size ? r[i].bytes : m->size + 1;
    return bytes == m->size;
}

bool block_is_whole(const block *b, uint64_t size) {
    return b->magic == BLOCK_MAGIC && inside(size, b->commands, b->command_bytes) &&
           block_has_memory(b, size, &b->reads) && block_has_memory(b, size, &b->writes);
}
