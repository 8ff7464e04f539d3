/* SPDX-License-Identifier: Apache-2.0 */
/* fail.h - statuses with a text, and warnings; structs of callers that may be older or newer. */
#ifndef PRESIL_CORE_FAIL_H
#define PRESIL_CORE_FAIL_H

#include <stddef.h>
#include <stdint.h>
#include "presil.h"
#include "presil_chip.h"

#define ERROR_TEXT 2048

/* Sets the thread's error text and returns status. */
__attribute__((format(printf, 2, 3))) int presil_fail(int status, const char *format, ...);
__attribute__((format(printf, 1, 2))) void presil_warn(const char *format, ...);
void presil_log_transport(void *context, const char *text);
void presil_set_error_origin(uint64_t origin); /* after presil_fail, which clears it */
uint64_t presil_origin(void);                  /* of the caller's launch */
/* Status for a presil_transport_error, with the transport's text. */
int presil_transport_failed(const presil_link *link, const char *doing, int error);
/* Copies a caller's struct of `size` bytes into one of ours; 0, or EINVAL if it is too small for `least` or has an
 * unknown tail that is not zero. */
int presil_take(void *to, size_t to_bytes, const void *from, uint32_t size, size_t least, const char *what);

#endif
