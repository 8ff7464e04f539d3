/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - the bytes of a bundle (docs/bundle.md), and what the files of driver/bundle share. All numbers are
 * little-endian; this code runs on little-endian machines only. */
#ifndef BUNDLE_FORMAT_H
#define BUNDLE_FORMAT_H

#include <stddef.h>
#include <stdint.h>
#include "presil_bundle.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bundles are read and written on little-endian machines only"
#endif

/* ---- the file's header, and a record's */
#define BUNDLE_MAGIC "PRESILB\n"
#define BUNDLE_RECORD_MAGIC 0x63655250u /* "PRec" */

typedef struct {
    char magic[8];
    uint16_t major, minor;
    uint32_t header_bytes; /* where the first record begins: a newer minor version may have more */
    uint8_t id[16];
    uint32_t reserved0;
    uint32_t check; /* low half of XXH3-64 of the bytes before it */
} bundle_file_header;

enum { BUNDLE_ZSTD = 1, BUNDLE_CRITICAL = 2 };

typedef struct {
    uint32_t magic;
    uint16_t type, flags;
    uint64_t number, raw_bytes, stored_bytes;
    uint8_t hash[16];      /* XXH3-128 of the raw bytes, canonical */
    uint64_t stored_check; /* XXH3-64 of the stored bytes */
    uint32_t reserved0;
    uint32_t check; /* low half of XXH3-64 of the bytes before it */
} bundle_record_header;

_Static_assert(sizeof(bundle_file_header) == 40, "docs/bundle.md");
_Static_assert(sizeof(bundle_record_header) == 64, "docs/bundle.md");

/* ---- errors */
int bundle_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A struct of the caller's that begins with its size, which may be of another version. */
int bundle_take(void *to, size_t to_bytes, const void *from, uint32_t size, size_t least, const char *what);

#endif
