/* SPDX-License-Identifier: Apache-2.0 */
/* Error texts of the calling thread, names of statuses, and the check of sized structs. */
#include "fail.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "presil_sized.h"

static _Thread_local char error_text[ERROR_TEXT];
static _Thread_local uint64_t error_origin;
static _Atomic(presil_origin_fn) origin_function;

int presil_fail(int status, const char *format, ...) {
    char text[ERROR_TEXT]; /* arguments may point into error_text */
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(error_text, text, sizeof text);
    error_origin = 0;
    return status;
}

void presil_set_origin(presil_origin_fn origin) { atomic_store(&origin_function, origin); }

uint64_t presil_origin(void) {
    const presil_origin_fn function = atomic_load_explicit(&origin_function, memory_order_acquire);
    return function ? function() : 0;
}

void presil_set_error_origin(uint64_t origin) { error_origin = origin; }
uint64_t presil_error_origin(void) { return error_origin; }

const char *presil_error_text(void) { return error_text; }

const char *presil_status_name(presil_status status) {
    static const char *const names[] = {"OK",       "EINVAL",    "ENOMEM", "EHOSTMEM", "EUNSUPPORTED",
                                        "ENODEV",   "EBUS",      "EDESC",  "EHUNG",    "ECANCELLED",
                                        "ESTOPPED", "EMISMATCH", "EDEAD",  "EIO",      "ETIMING"};
    const unsigned index = 0u - (unsigned)status; /* a file's status may be any number, INT_MIN included */
    return index < sizeof names / sizeof *names ? names[index] : "unknown status";
}

int presil_transport_failed(const presil_link *link, const char *doing, int error) {
    const char *text = link->handle ? link->ops->last_error(link->handle) : "not open";
    int status = PRESIL_EBUS;
    switch (error) {
    case PRESIL_TRANSPORT_EINVAL: status = PRESIL_EINVAL; break;
    case PRESIL_TRANSPORT_ENOMEM: status = PRESIL_EHOSTMEM; break;
    case PRESIL_TRANSPORT_EIO: status = PRESIL_EDEAD; break;
    case PRESIL_TRANSPORT_ENOSYS: status = PRESIL_EUNSUPPORTED; break;
    case PRESIL_TRANSPORT_ESTOPPED: status = PRESIL_ESTOPPED; break;
    default: break;
    }
    return presil_fail(status, "%s: %s", doing, text && *text ? text : "the transport gave no reason");
}

int presil_take(void *to, size_t to_bytes, const void *from, uint32_t size, size_t least, const char *what) {
    char text[160];
    return presil_sized_take(to, to_bytes, from, size, least, text, sizeof text)
               ? presil_fail(PRESIL_EINVAL, "%s: %s", what, text)
               : PRESIL_OK;
}
