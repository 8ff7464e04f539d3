/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "bundle_bend.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>
#include "bundle_fixture.h"
#include "fuzz.h"

void bend_take_apart(plain_file *file, const uint8_t *bytes, uint64_t count) {
    *file = (plain_file){0};
    memcpy(file->header, bytes, sizeof file->header);
    presil_bundle_reader *r;
    EXPECT_BUNDLE(bundle_open_bytes(bytes, count, NULL, &r));
    presil_bundle_summary s = {.size = sizeof s};
    EXPECT_BUNDLE(presil_bundle_get_summary(r, &s));
    assert_true(s.records <= BEND_RECORDS);
    for (; file->count < s.records; file->count++) {
        presil_bundle_record record = {.size = sizeof record};
        const void *raw;
        uint64_t length;
        EXPECT_BUNDLE(presil_bundle_get_record(r, file->count, &record));
        EXPECT_BUNDLE(presil_bundle_get_raw(r, file->count, &raw, &length));
        file->records[file->count] = (plain_record){record.type, malloc(length + 1), length};
        memcpy(file->records[file->count].raw, raw, length);
        presil_bundle_free(raw);
    }
    presil_bundle_reader_close(r);
}

void bend_forget(plain_file *file) {
    for (uint32_t i = 0; i < file->count; i++) free(file->records[i].raw);
    file->count = 0;
}

void bend_append(made_file *f, const void *data, uint64_t bytes) {
    assert_true(f->count + BUNDLE_PADDED(bytes) <= f->capacity);
    memcpy(f->at + f->count, data, bytes);
    memset(f->at + f->count + bytes, 0, BUNDLE_PADDED(bytes) - bytes);
    f->count += BUNDLE_PADDED(bytes);
}

static void append_record(made_file *f, uint16_t type, uint64_t number, const uint8_t *raw, uint64_t bytes, bool bend) {
    bundle_record_header h = {
        .magic = BUNDLE_RECORD_MAGIC, .type = type, .number = number, .raw_bytes = bytes, .stored_bytes = bytes};
    static uint8_t packed[16384];
    static ZSTD_CCtx *context; /* made once: making it takes longer than the rest of a file */
    const void *stored = raw;
    bundle_hash128(raw, bytes, h.hash);
    if (bend && fuzz_below(4) == 0 && bytes < 8192) {
        if (!context) context = ZSTD_createCCtx();
        h.stored_bytes = ZSTD_compressCCtx(context, packed, sizeof packed, raw, bytes, 1);
        h.flags = BUNDLE_ZSTD;
        stored = packed;
        if (fuzz_below(8) == 0) fuzz_bend(packed, h.stored_bytes); /* what zstd must survive */
    }
    h.stored_check = bundle_hash64(stored, h.stored_bytes);
    const uint64_t stored_bytes = h.stored_bytes;
    if (bend && fuzz_below(64) == 0) fuzz_bend((uint8_t *)&h, sizeof h);
    h.check = bundle_check(&h, offsetof(bundle_record_header, check));
    bend_append(f, &h, sizeof h);
    bend_append(f, stored, stored_bytes);
    bundle_hasher_add(f->headers, &h, sizeof h);
}

/* A place where a field begins: bent there, a length or a kind is hit. */
static void bend_field(uint8_t *raw, uint64_t bytes) {
    for (uint32_t steps = fuzz_below(12); bytes >= 8; steps--) {
        uint32_t length;
        memcpy(&length, raw + 4, 4);
        const uint64_t step = 8 + BUNDLE_PADDED((uint64_t)length);
        if (!steps || step >= bytes) {
            fuzz_bend(raw, bytes < 40 ? bytes : 40);
            return;
        }
        raw += step;
        bytes -= step;
    }
}

static void append_end(made_file *out, uint64_t records, uint64_t launches, bool bend) {
    uint8_t hash[16];
    bundle_hasher_get(out->headers, hash);
    bundle_hasher_free(out->headers);
    out->headers = bundle_hasher_new();
    const bundle_end end = {records, launches, hash, sizeof hash};
    bundle_buffer b = {0};
    bundle_encode(&b, bundle_fields_of(PRESIL_BUNDLE_END), &end);
    append_record(out, PRESIL_BUNDLE_END, records, b.at, b.count, bend);
    bundle_hasher_free(out->headers);
    free(b.at);
}

void bend_nothing(const plain_file *from, made_file *out) {
    uint64_t number = 0, launches = 0;
    out->count = 0;
    out->headers = bundle_hasher_new();
    bend_append(out, from->header, sizeof from->header);
    for (uint32_t n = 0; n < from->count; n++) {
        const plain_record *record = &from->records[n];
        if (record->type == PRESIL_BUNDLE_END) continue;
        append_record(out, record->type, number++, record->raw, record->bytes, false);
        launches += record->type == PRESIL_BUNDLE_LAUNCH;
    }
    append_end(out, number, launches, false);
}

/* What names a block by its hash and length goes on doing so when the block is another. */
typedef struct {
    uint8_t was[16], is[16];
    uint64_t bytes_were, bytes_are;
} renamed_block;

static void rename_block(const renamed_block *r, uint8_t *raw, uint64_t bytes) {
    uint8_t *at = raw;
    while ((at = memmem(at, bytes - (uint64_t)(at - raw), r->was, sizeof r->was))) {
        memcpy(at, r->is, sizeof r->is);
        at += sizeof r->is;
        if (raw + bytes - at >= 8 && memcmp(at, &r->bytes_were, 8) == 0) memcpy(at, &r->bytes_are, 8);
    }
}

uint32_t bend_make(const plain_file *from, made_file *out) {
    uint8_t raw[8192];
    renamed_block renamed = {{0}, {0}, 0, 0};
    bool rename = false;
    const uint32_t target = fuzz_below(from->count), drop = fuzz_below(8) ? UINT32_MAX : fuzz_below(from->count);
    uint64_t number = 0, launches = 0;
    out->count = 0;
    out->headers = bundle_hasher_new();
    bend_append(out, from->header, sizeof from->header);
    for (uint32_t n = 0; n < from->count; n++) {
        const plain_record *record = &from->records[n];
        if (n == drop || record->type == PRESIL_BUNDLE_END || record->bytes > sizeof raw) continue;
        memcpy(raw, record->raw, record->bytes);
        if (rename) rename_block(&renamed, raw, record->bytes);
        if (n == target && record->type != PRESIL_BUNDLE_BLOCK && fuzz_below(2)) fuzz_bend(raw, record->bytes);
        if (n == target && record->type != PRESIL_BUNDLE_BLOCK) bend_field(raw, record->bytes);
        if (n == target && record->type == PRESIL_BUNDLE_BLOCK) fuzz_bend(raw, record->bytes);
        const uint64_t cut =
            n == target && fuzz_below(8) == 0 ? fuzz_below((uint32_t)record->bytes + 1) : record->bytes;
        if (n == target && record->type == PRESIL_BUNDLE_BLOCK) {
            rename = true;
            renamed.bytes_were = record->bytes, renamed.bytes_are = cut;
            bundle_hash128(record->raw, record->bytes, renamed.was);
            bundle_hash128(raw, cut, renamed.is);
        }
        append_record(out, record->type, number++, raw, cut, true);
        launches += record->type == PRESIL_BUNDLE_LAUNCH;
    }
    append_end(out, number, launches, true);
    return target;
}
