/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bundles, bent: refused, torn or read, within a time and a memory that follow from the file's size and the reader's
 * limits (fuzz.h). Hashes are made right again after most bends: else they would be all that is tested.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zstd.h>
#include "bundle_fixture.h"
#include "format.h"
#include "fuzz.h"

enum { RECORD_LIMIT = 1 << 20, MOST_RECORDS = 64, MEBIBYTE = 1 << 20 };

/* Of the limit: the raw bytes of a record, and what they are decoded to (decode.c: at most 8 times). */
static const uint64_t memory_allowed = 10ull * RECORD_LIMIT;
static const double seconds_allowed = 0.25;

typedef struct { /* a record of the model, unpacked */
    uint16_t type;
    uint8_t *raw;
    uint64_t bytes;
} plain_record;

static plain_record records[MOST_RECORDS];
static uint32_t record_count;
static uint8_t file_header[sizeof(bundle_file_header)], *file;
static uint64_t file_bytes;
static FILE *nowhere;

static int setup(void **state) {
    (void)state;
    fixture_fill(1);
    const char *path = fixture_path("model.presil");
    fixture_write_file(path, NULL, 1);
    file = fixture_load(path, &file_bytes);
    memcpy(file_header, file, sizeof file_header);
    presil_bundle_reader *r;
    EXPECT_BUNDLE(bundle_open_bytes(file, file_bytes, NULL, &r));
    presil_bundle_summary s = {.size = sizeof s};
    EXPECT_BUNDLE(presil_bundle_get_summary(r, &s));
    for (uint64_t i = 0; i < s.records && i < MOST_RECORDS; i++, record_count++) {
        presil_bundle_record record = {.size = sizeof record};
        const void *raw;
        uint64_t bytes;
        EXPECT_BUNDLE(presil_bundle_get_record(r, i, &record));
        EXPECT_BUNDLE(presil_bundle_get_raw(r, i, &raw, &bytes));
        records[i] = (plain_record){record.type, malloc(bytes + 1), bytes};
        memcpy(records[i].raw, raw, bytes);
        presil_bundle_free(raw);
    }
    presil_bundle_reader_close(r);
    nowhere = fopen("/dev/null", "w");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    for (uint32_t i = 0; i < record_count; i++) free(records[i].raw);
    free(file);
    (void)fclose(nowhere);
    fixture_done();
    return 0;
}

/* Everything that a reader can be asked for, and what convert prints. */
static bool read_everything(const uint8_t *bytes, uint64_t count) {
    const presil_bundle_read_options limits = {
        .size = sizeof limits, .record_bytes = RECORD_LIMIT, .total_bytes = 4 * RECORD_LIMIT, .records = 4096};
    presil_bundle_reader *r;
    if (bundle_open_bytes(bytes, count, &limits, &r)) return false;
    presil_bundle_summary s = {.size = sizeof s};
    EXPECT_BUNDLE(presil_bundle_get_summary(r, &s));
    int status;
    (void)fixture_read_all(r, &status);
    for (uint64_t i = 0; i < s.records; i++) {
        presil_bundle_record record = {.size = sizeof record};
        EXPECT_BUNDLE(presil_bundle_get_record(r, i, &record));
        const bundle_fields *fields = bundle_fields_of(record.type);
        const void *raw;
        uint64_t length;
        if (!fields || presil_bundle_get_raw(r, i, &raw, &length)) continue;
        (void)bundle_json_fields(nowhere, fields, raw, length, true, fields->name);
        presil_bundle_free(raw);
    }
    presil_bundle_reader_close(r);
    return !status && !s.torn;
}

static bool within_budget(const char *what, const uint8_t *bytes, uint64_t count) {
    uint8_t *exact = malloc(count + !count); /* so that a sanitizer sees its end */
    memcpy(exact, bytes, count);
    fuzz_budget(what, seconds_allowed, memory_allowed);
    const bool read = read_everything(exact, count);
    fuzz_within_budget();
    free(exact);
    return read;
}

/* ---- bytes as they come */
static void bent_files(void **unused) {
    (void)unused;
    const uint64_t cases = fuzz_begin("test_fuzz_bundle: files", 4000);
    uint8_t *bent = malloc(file_bytes);
    for (uint64_t i = 0; i < cases; i++) {
        memcpy(bent, file, file_bytes);
        fuzz_bend(bent, file_bytes);
        (void)within_budget("reading a bent file", bent,
                            fuzz_below(10) ? file_bytes : fuzz_below((uint32_t)file_bytes));
    }
    free(bent);
    fuzz_end();
}

/* ---- with right hashes */
typedef struct {
    uint8_t *at;
    uint64_t count, capacity;
    bundle_hasher *headers;
} made_file;

static void append(made_file *f, const void *data, uint64_t bytes) {
    assert_true(f->count + BUNDLE_PADDED(bytes) <= f->capacity);
    memcpy(f->at + f->count, data, bytes);
    memset(f->at + f->count + bytes, 0, BUNDLE_PADDED(bytes) - bytes);
    f->count += BUNDLE_PADDED(bytes);
}

static void append_record(made_file *f, uint16_t type, uint64_t number, const uint8_t *raw, uint64_t bytes) {
    bundle_record_header h = {
        .magic = BUNDLE_RECORD_MAGIC, .type = type, .number = number, .raw_bytes = bytes, .stored_bytes = bytes};
    static uint8_t packed[16384];
    const void *stored = raw;
    bundle_hash128(raw, bytes, h.hash);
    if (fuzz_below(4) == 0 && bytes < 8192) {
        h.stored_bytes = ZSTD_compress(packed, sizeof packed, raw, bytes, 1);
        h.flags = BUNDLE_ZSTD;
        stored = packed;
        if (fuzz_below(8) == 0) fuzz_bend(packed, h.stored_bytes); /* what zstd must survive */
    }
    h.stored_check = bundle_hash64(stored, h.stored_bytes);
    const uint64_t stored_bytes = h.stored_bytes;
    if (fuzz_below(64) == 0) fuzz_bend((uint8_t *)&h, sizeof h);
    h.check = bundle_check(&h, offsetof(bundle_record_header, check));
    append(f, &h, sizeof h);
    append(f, stored, stored_bytes);
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

static void bent_contents(void **unused) {
    (void)unused;
    const uint64_t cases = fuzz_begin("test_fuzz_bundle: contents", 12000);
    uint8_t raw[8192];
    uint64_t read = 0;
    made_file f = {.capacity = 1 << 20};
    f.at = malloc(f.capacity);
    for (uint64_t i = 0; i < cases; i++) {
        const uint32_t target = fuzz_below(record_count), drop = fuzz_below(8) ? UINT32_MAX : fuzz_below(record_count);
        uint64_t number = 0, launches = 0;
        f.count = 0;
        f.headers = bundle_hasher_new();
        append(&f, file_header, sizeof file_header);
        for (uint32_t n = 0; n < record_count; n++) {
            const plain_record *from = &records[n];
            if (n == drop || from->type == PRESIL_BUNDLE_END || from->bytes > sizeof raw) continue;
            memcpy(raw, from->raw, from->bytes);
            if (n == target && fuzz_below(2)) fuzz_bend(raw, from->bytes);
            if (n == target) bend_field(raw, from->bytes);
            const uint64_t cut =
                n == target && fuzz_below(8) == 0 ? fuzz_below((uint32_t)from->bytes + 1) : from->bytes;
            append_record(&f, from->type, number++, raw, cut);
            launches += from->type == PRESIL_BUNDLE_LAUNCH;
        }
        uint8_t hash[16];
        bundle_hasher_get(f.headers, hash);
        bundle_hasher_free(f.headers);
        f.headers = bundle_hasher_new();
        const bundle_end end = {number, launches, hash, sizeof hash};
        bundle_buffer b = {0};
        bundle_encode(&b, bundle_fields_of(PRESIL_BUNDLE_END), &end);
        append_record(&f, PRESIL_BUNDLE_END, number, b.at, b.count);
        bundle_hasher_free(f.headers);
        free(b.at);
        read += within_budget("reading bent contents", f.at, f.count);
    }
    free(f.at);
    assert_true(cases < 1000 || (read > cases / 200 && read < cases)); /* some bends are harmless, most are not */
    fuzz_end();
}

/* ---- as large as the limits allow */
/* A list of the shortest fields there are, which takes the most memory when it is decoded. */
static void amplified_is_bounded(void **unused) {
    (void)unused;
    (void)fuzz_begin("test_fuzz_bundle: many fields", 0);
    static const struct {
        uint16_t type, tag, kind;
        uint8_t inner; /* bytes of the value: a label needs a key */
    } cases[] = {{PRESIL_BUNDLE_CHIP, 32, BUNDLE_TEXT, 0},    {PRESIL_BUNDLE_CHIP, 34, BUNDLE_GROUP, 0},
                 {PRESIL_BUNDLE_LAUNCH, 23, BUNDLE_GROUP, 0}, {PRESIL_BUNDLE_LAUNCH, 22, BUNDLE_GROUP, 16},
                 {PRESIL_BUNDLE_LABELS, 1, BUNDLE_GROUP, 16}, {PRESIL_BUNDLE_LAUNCH, 999, 1, 0}};
    static const uint8_t key[16] = {1, 0, BUNDLE_TEXT, 0, 1, 0, 0, 0, 'k'};
    made_file f = {.capacity = 4 << 20};
    f.at = malloc(f.capacity);
    uint8_t *raw = malloc(RECORD_LIMIT);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t bytes = 0;
        for (; bytes + 24 <= RECORD_LIMIT; bytes += 8u + cases[i].inner) {
            const bundle_field_header h = {cases[i].tag, cases[i].kind, cases[i].inner};
            memcpy(raw + bytes, &h, sizeof h);
            memcpy(raw + bytes + 8, key, cases[i].inner);
        }
        bundle_record_header h = {.magic = BUNDLE_RECORD_MAGIC,
                                  .type = cases[i].type,
                                  .raw_bytes = bytes,
                                  .stored_bytes = bytes,
                                  .stored_check = bundle_hash64(raw, bytes)};
        bundle_hash128(raw, bytes, h.hash);
        h.check = bundle_check(&h, offsetof(bundle_record_header, check));
        f.count = 0;
        append(&f, file_header, sizeof file_header);
        append(&f, &h, sizeof h);
        append(&f, raw, bytes);
        (void)within_budget("a record of nothing but short fields", f.at, f.count);
    }
    free(raw);
    free(f.at);
    fuzz_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bent_files), cmocka_unit_test(bent_contents),
                                       cmocka_unit_test(amplified_is_bounded)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
