/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "slot.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ALIGN = 64, PAGE = 4096, LEAST = 65536 };

/* Pages that the host has not are an error here, and not SIGBUS where they are first written. */
static bool resize(int fd, uint64_t from, uint64_t to) {
    int error;
    do error = posix_fallocate(fd, (off_t)from, (off_t)(to - from));
    while (error == EINTR);
    errno = error;
    return error == 0;
}

static uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

uint64_t slot_capacity(uint64_t bytes) { return round_up(bytes < LEAST ? LEAST : bytes, PAGE); }

slot *slot_new(uint64_t bytes) {
    slot *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->capacity = slot_capacity(bytes);
    s->fd = memfd_create("presil-job", MFD_CLOEXEC);
    void *at = MAP_FAILED;
    if (s->fd >= 0 && resize(s->fd, 0, s->capacity))
        at = mmap(NULL, s->capacity, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
    if (at != MAP_FAILED) {
        s->at = at;
        return s;
    }
    slot_free(s);
    return NULL;
}

void slot_free(slot *s) {
    if (!s) return;
    if (s->at) (void)munmap(s->at, s->capacity);
    if (s->fd >= 0) (void)close(s->fd);
    free(s);
}

uint64_t slot_take(slot *s, uint64_t bytes) {
    const uint64_t at = s->used, end = at + round_up(bytes, ALIGN);
    if (end < at) return 0;
    if (end > s->capacity) {
        const uint64_t wanted = round_up(end + end / 2, PAGE);
        void *moved =
            resize(s->fd, s->capacity, wanted) ? mremap(s->at, s->capacity, wanted, MREMAP_MAYMOVE) : MAP_FAILED;
        if (moved == MAP_FAILED) return 0;
        s->at = moved;
        s->capacity = wanted;
    }
    s->used = end;
    return at;
}

bool slot_follow(slot *s, uint64_t capacity) {
    struct stat is;
    if (capacity <= s->capacity) return true;
    if (fstat(s->fd, &is) || (uint64_t)is.st_size < capacity) return false;
    void *moved = mremap(s->at, s->capacity, capacity, MREMAP_MAYMOVE);
    if (moved == MAP_FAILED) return false;
    s->at = moved;
    s->capacity = capacity;
    return true;
}

bool slot_put(slot *s, block_memory *memory, const presil_capture_launch *launch, const presil_capture_bytes *from) {
    const uint64_t list = from->count * sizeof *from->at;
    block_memory m = {.count = from->count};
    for (uint64_t i = 0; i < from->count; i++) m.size += from->at[i].bytes;
    m.ranges = slot_take(s, list);
    m.bytes = slot_take(s, m.size);
    if (!m.ranges || !m.bytes) return false;
    if (list) memcpy(s->at + m.ranges, from->at, list);
    uint8_t *to = s->at + m.bytes;
    for (uint64_t i = 0; i < from->count; i++) {
        const presil_byte_range *r = &from->at[i];
        if (from->host)
            memcpy(to, from->host + (r->base.value - from->base.value), r->bytes);
        else if (launch->read(launch, r->base, to, r->bytes))
            return false;
        to += r->bytes;
    }
    *memory = m; /* of the caller's, not in the slot: that may have moved */
    return true;
}
