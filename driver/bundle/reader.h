/* SPDX-License-Identifier: Apache-2.0 */
/* reader.h - index.c opens a file and walks its headers; reader.c gives what the records hold. */
#ifndef BUNDLE_READER_H
#define BUNDLE_READER_H

#include "format.h"

typedef struct { /* of a record: what its header said, checked against the limits and the file */
    uint64_t offset, raw_bytes, stored_bytes, stored_check;
    uint8_t hash[16];
    uint16_t type, flags;
} bundle_entry;

typedef struct {
    uint64_t *at; /* numbers of records */
    uint64_t count, capacity;
} bundle_numbers;

typedef struct {
    uint64_t chip, launch;
} bundle_key;

typedef struct {
    bool known;
    uint64_t stalls, counters; /* how many a result has */
} bundle_counts;

struct presil_bundle_reader {
    char *path;
    int file;             /* or */
    const uint8_t *bytes; /* in memory, the caller's */
    presil_bundle_read_options limits;
    presil_bundle_summary summary;
    bundle_entry *entries;
    uint64_t capacity;
    bundle_numbers chips, launches, results, attachments, labels, blocks; /* blocks: sorted by hash when needed */
    bool blocks_sorted;
    bundle_key *launch_keys, *result_keys; /* when needed */
    bundle_counts *counts;
    struct ZSTD_DCtx_s *zstd;
};

int bundle_read_at(const presil_bundle_reader *r, uint64_t offset, void *to, uint64_t bytes);
/* The raw bytes of a record to `to` (raw_bytes of them), checked. */
int bundle_read_record(presil_bundle_reader *r, uint64_t number, void *to);

#endif
