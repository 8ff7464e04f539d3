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
#include "bundle_bend.h"
#include "bundle_fixture.h"
#include "format.h"
#include "fuzz.h"

enum { RECORD_LIMIT = 1 << 20 };

/* Of the limit: the raw bytes of a record, and what they are decoded to (decode.c: at most 8 times). */
static const uint64_t memory_allowed = 10ull * RECORD_LIMIT;
static const double seconds_allowed = 0.25;

static plain_file model;
static uint8_t *file;
static uint64_t file_bytes;
static FILE *nowhere;

static int setup(void **state) {
    (void)state;
    fixture_fill(1);
    const char *path = fixture_path("model.presil");
    fixture_write_file(path, NULL, 1);
    file = fixture_load(path, &file_bytes);
    bend_take_apart(&model, file, file_bytes);
    nowhere = fopen("/dev/null", "w");
    return 0;
}

static int teardown(void **state) {
    (void)state;
    bend_forget(&model);
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
static void bent_contents(void **unused) {
    (void)unused;
    const uint64_t cases = fuzz_begin("test_fuzz_bundle: contents", 12000);
    uint64_t read = 0;
    made_file f = {.capacity = 1 << 20};
    f.at = malloc(f.capacity);
    for (uint64_t i = 0; i < cases; i++) {
        (void)bend_make(&model, &f);
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
        bend_append(&f, model.header, sizeof model.header);
        bend_append(&f, &h, sizeof h);
        bend_append(&f, raw, bytes);
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
