/* SPDX-License-Identifier: Apache-2.0 */
/* bundle_bend.h - what the fuzzers of bundles share: a good file taken apart, and put together again with one record
 * bent and right hashes (else they would be all that is tested). */
#ifndef BUNDLE_BEND_H
#define BUNDLE_BEND_H

#include <stdbool.h>
#include <stdint.h>
#include "format.h"

enum { BEND_RECORDS = 128 };

typedef struct { /* a record of the good file, unpacked */
    uint16_t type;
    uint8_t *raw;
    uint64_t bytes;
} plain_record;

typedef struct {
    plain_record records[BEND_RECORDS];
    uint32_t count;
    uint8_t header[sizeof(bundle_file_header)];
} plain_file;

/* The test fails if `bytes` is no good file, or has more records. Behind bend_forget() it is empty. */
void bend_take_apart(plain_file *file, const uint8_t *bytes, uint64_t count);
void bend_forget(plain_file *file);

typedef struct {
    uint8_t *at; /* malloc()ed by the caller: `capacity` bytes */
    uint64_t count, capacity;
    bundle_hasher *headers;
} made_file;

void bend_append(made_file *f, const void *data, uint64_t bytes); /* padded to 8 */

/* One bent file, drawn with fuzz_random(). The record that was bent, as its place in `from`. */
uint32_t bend_make(const plain_file *from, made_file *out);

/* The same without a bend: what the test has changed in `from` itself. */
void bend_nothing(const plain_file *from, made_file *out);

#endif
