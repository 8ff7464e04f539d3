/* SPDX-License-Identifier: Apache-2.0 */
#include "format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { ERROR_TEXT = 1024 };
static _Thread_local char error_text[ERROR_TEXT];

int bundle_fail(int status, const char *format, ...) {
    char text[ERROR_TEXT]; /* arguments may point into error_text */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(error_text, text, sizeof text);
    return status;
}

const char *presil_bundle_error_text(void) { return error_text; }

int bundle_take(void *to, size_t to_bytes, const void *from, uint32_t size, size_t least, const char *what) {
    if (size < least)
        return bundle_fail(PRESIL_EINVAL, "%s: size is %u, at least %zu expected: set it to sizeof(struct)", what, size,
                           least);
    for (size_t i = to_bytes; i < size; i++) {
        if (((const unsigned char *)from)[i])
            return bundle_fail(
                PRESIL_EINVAL,
                "%s: byte %zu is not zero, but this library knows only %zu bytes: it is older than the header", what, i,
                to_bytes);
    }
    memset(to, 0, to_bytes);
    memcpy(to, from, size < to_bytes ? size : to_bytes);
    return PRESIL_OK;
}
