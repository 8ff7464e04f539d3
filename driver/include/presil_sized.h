/* SPDX-License-Identifier: Apache-2.0 */
/* presil_sized.h - for the libraries of Presil alone: the check of structs that begin with their size (presil.h). */
#ifndef PRESIL_SIZED_H
#define PRESIL_SIZED_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Copies a caller's struct of `size` bytes to ours of `to_bytes`: what it lacks is zero, what it has beyond must be.
 * `least`: bytes that it must have. 0, or -1 with a text. */
static inline int presil_sized_take(void *to, size_t to_bytes, const void *from, uint32_t size, size_t least,
                                    char *text, size_t text_bytes) {
    if (size < least) {
        (void)snprintf(text, text_bytes, "size is %u, at least %zu expected: set it to sizeof(struct)", size, least);
        return -1;
    }
    for (size_t i = to_bytes; i < size; i++) {
        if (!((const unsigned char *)from)[i]) continue;
        (void)snprintf(text, text_bytes,
                       "byte %zu is not zero, but this library knows only %zu bytes: it is older than the header", i,
                       to_bytes);
        return -1;
    }
    memset(to, 0, to_bytes);
    memcpy(to, from, size < to_bytes ? size : to_bytes);
    return 0;
}

#endif
