/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory for contents. One thread takes it and another gives it back: the allocator returns it to the system each time,
 * and each page of the next one is a fault, which costs as much as a third of all else of a capture. So a few of one
 * size stay, for all writers of the process.
 */
#include <pthread.h>
#include <stdlib.h>
#include "writer.h"

enum { SIZE = PRESIL_BUNDLE_PIECE, LEAST = SIZE / 4, MOST_SPARE = 48 }; /* 3 MiB in all */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t *spare[MOST_SPARE];
static unsigned spares;

static bool is_usual(uint64_t bytes) { return bytes > LEAST && bytes <= SIZE; }

uint8_t *bundle_contents_new(uint64_t bytes) {
    if (!is_usual(bytes)) return malloc(bytes + 1);
    (void)pthread_mutex_lock(&lock);
    uint8_t *at = spares ? spare[--spares] : NULL;
    (void)pthread_mutex_unlock(&lock);
    return at ? at : malloc(SIZE);
}

void bundle_contents_free(uint8_t *at, uint64_t bytes) {
    if (at && is_usual(bytes)) {
        (void)pthread_mutex_lock(&lock);
        const bool stays = spares < MOST_SPARE;
        if (stays) spare[spares++] = at;
        (void)pthread_mutex_unlock(&lock);
        if (stays) return;
    }
    free(at);
}
