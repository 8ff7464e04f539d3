/* SPDX-License-Identifier: Apache-2.0 */
#include "format.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "presil_sized.h"

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
    char text[160];
    return presil_sized_take(to, to_bytes, from, size, least, text, sizeof text)
               ? bundle_fail(PRESIL_EINVAL, "%s: %s", what, text)
               : PRESIL_OK;
}
