/* SPDX-License-Identifier: Apache-2.0 */
/* reading.h - what the parts of a program's file (docs/aot.md) are read with. All is little-endian; so is every machine
 * that this runs on. */
#ifndef PRESIL_AOT_READING_H
#define PRESIL_AOT_READING_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "program.h"

enum { TENSOR_BYTES = 208, CONSTANT_BYTES = 24 };

/* -1, with the text. */
__attribute__((format(printf, 3, 4))) static inline int wrong(char *text, size_t bytes, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, bytes, format, args);
    va_end(args);
    return -1;
}

static inline uint32_t u32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}
static inline uint64_t u64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

/* Names are shown and go into JSON: what is no plain character becomes '?'. */
static inline void make_plain(char *name) {
    for (; *name; name++) {
        if (*name < ' ' || *name > '~' || *name == '"' || *name == '\\') *name = '?';
    }
}

/* TENSOR_BYTES of the file; without codes. */
void program_parse_tensor(const uint8_t *from, program_tensor *t);
/* Positive sizes, non-negative strides, every element inside the program's memory. */
bool program_tensor_fits(const program_tensor *t, uint64_t arena);

/* The steps of version 3, `left` bytes at most from `from` on; into p->steps. *taken: how many bytes they were. 0, or
 * -1 with text, which doesn't name the file. */
int program_parse_steps(const uint8_t *from, uint64_t left, uint32_t count, program *p, uint64_t *taken, char *text,
                        size_t bytes);

#endif
