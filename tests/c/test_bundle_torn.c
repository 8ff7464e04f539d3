/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles that are torn, damaged, hostile, of other versions: what is whole is read, the rest is said, nothing crashes.
 * usage: test_bundle_torn GOLDEN (a file of version 1, which every later version must read) */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zstd.h>
#include "bundle_fixture.h"
#include "format.h"

static const char *golden;
static uint8_t *file; /* a small bundle */
static uint64_t file_bytes;

static int setup(void **state) {
    (void)state;
    fixture_fill(1);
    const char *path = fixture_path("small.presil");
    fixture_write_file(path, NULL, 1);
    file = fixture_load(path, &file_bytes);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    free(file);
    fixture_done();
    return 0;
}

static presil_bundle_summary summary_of(presil_bundle_reader *r) {
    presil_bundle_summary s = {.size = sizeof s};
    EXPECT_BUNDLE(presil_bundle_get_summary(r, &s));
    return s;
}

/* An exact copy, so that a sanitizer sees a read behind its end. */
static uint8_t *copy_of(const uint8_t *bytes, uint64_t count) {
    uint8_t *copy = malloc(count + !count);
    if (count) memcpy(copy, bytes, count);
    return copy;
}

static bundle_record_header *header_at(uint8_t *bytes, uint64_t offset) { return (void *)(bytes + offset); }
static uint64_t next_of(uint8_t *bytes, uint64_t offset) {
    return offset + sizeof(bundle_record_header) + BUNDLE_PADDED(header_at(bytes, offset)->stored_bytes);
}
static void seal(bundle_record_header *h) { h->check = bundle_check(h, offsetof(bundle_record_header, check)); }

/* ---- torn */
static void torn_at_every_byte(void **unused) {
    (void)unused;
    uint64_t records = 0, end = 40;
    for (uint64_t count = 0; count <= file_bytes; count++) {
        uint8_t *part = copy_of(file, count);
        presil_bundle_reader *r = NULL;
        const int status = bundle_open_bytes(part, count, NULL, &r);
        assert_int_equal(status, count < 8 ? PRESIL_EINVAL : PRESIL_OK);
        if (!status) {
            /* One more record than before, as soon as its last byte is there. */
            if (count >= 40 + sizeof(bundle_record_header) && count == next_of(file, end)) {
                records++;
                end = count;
            }
            const presil_bundle_summary s = summary_of(r);
            assert_int_equal(s.records, records);
            assert_int_equal(s.good_bytes, count < 40 ? 0 : end);
            assert_int_equal(s.torn, count != file_bytes);
            assert_int_equal(*s.tear_text != 0, s.torn);
            int found;
            (void)fixture_read_all(r, &found);
            assert_int_equal(found, PRESIL_OK); /* blocks are before the launches that name them */
            presil_bundle_reader_close(r);
        }
        free(part);
    }
    assert_true(records > 12 && end == file_bytes);
}

static void what_is_behind_the_end_is_said(void **unused) {
    (void)unused;
    uint8_t *more = malloc(file_bytes + 3);
    memcpy(more, file, file_bytes);
    memcpy(more + file_bytes, "abc", 3);
    presil_bundle_reader *r;
    EXPECT_BUNDLE(bundle_open_bytes(more, file_bytes + 3, NULL, &r));
    const presil_bundle_summary s = summary_of(r);
    assert_int_equal(s.torn, 1);
    assert_int_equal(s.good_bytes, file_bytes);
    assert_non_null(strstr(s.tear_text, "behind the closing record"));
    presil_bundle_reader_close(r);
    free(more);
}

/* The bytes that nothing depends on: the padding behind a record. */
static bool is_padding(uint64_t at) {
    for (uint64_t offset = 40; offset < file_bytes; offset = next_of(file, offset)) {
        const uint64_t end = offset + sizeof(bundle_record_header) + header_at(file, offset)->stored_bytes;
        if (at >= end && at < next_of(file, offset)) return true;
    }
    return false;
}

static void every_flipped_byte_is_seen(void **unused) {
    (void)unused;
    const presil_bundle_read_options verify = {.size = sizeof verify, .verify = 1};
    for (uint64_t at = 0; at < file_bytes; at++) {
        uint8_t *bent = copy_of(file, file_bytes);
        bent[at] ^= (uint8_t)(1u << at % 8);
        presil_bundle_reader *r = NULL;
        int status = bundle_open_bytes(bent, file_bytes, &verify, &r), found = 0;
        bool torn = false;
        if (!status) {
            torn = summary_of(r).torn;
            (void)fixture_read_all(r, &found);
            assert_int_equal(found, PRESIL_OK); /* up to the tear all is well */
            presil_bundle_reader_close(r);
        }
        assert_int_equal(status || torn, !is_padding(at));
        /* Without verify nothing wrong is given, either. */
        if (!bundle_open_bytes(bent, file_bytes, NULL, &r)) {
            torn = summary_of(r).torn;
            (void)fixture_read_all(r, &found);
            assert_int_equal(torn || found, !is_padding(at));
            presil_bundle_reader_close(r);
        }
        free(bent);
    }
}

/* ---- the disk and the process */
static void write_until_full(uint64_t limit, uint32_t foreground) {
    const char *path = fixture_path("full.presil");
    const presil_bundle_write_options options = {.size = sizeof options, .foreground = foreground, .overwrite = 1};
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = limit;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    presil_bundle_writer *w;
    int failed = presil_bundle_create(path, &options, &w), closed = failed;
    if (!failed) {
        const presil_bundle_chip chip = {.size = sizeof chip, .chip = "c"};
        failed = presil_bundle_put_chip(w, &chip, NULL);
        for (uint64_t i = 0; i < 40 && !failed; i++) {
            presil_bundle_group *g;
            presil_bundle_launch l = {.size = sizeof l, .launch = i};
            const presil_bundle_range range = {{FIXTURE_BASE + i * 1000}, 1000};
            EXPECT_BUNDLE(presil_bundle_begin(w, &g));
            failed = presil_bundle_put_memory(g, &fixture_source, &range, 1, &l.reads);
            if (!failed) failed = presil_bundle_put_launch(g, &l);
            presil_bundle_abandon(g);
        }
        closed = presil_bundle_close(w);
    }
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_int_equal(closed, PRESIL_EIO); /* whenever it was noticed */
    EXPECT_BUNDLE_TEXT("can't be written after");
    EXPECT_BUNDLE_TEXT("File too large");
    presil_bundle_reader *r;
    if (limit < sizeof(bundle_file_header)) {
        EXPECT_BUNDLE_STATUS(presil_bundle_open(path, NULL, &r), PRESIL_EINVAL);
        return;
    }
    EXPECT_BUNDLE(presil_bundle_open(path, NULL, &r));
    const presil_bundle_summary s = summary_of(r);
    assert_int_equal(s.torn, 1);
    assert_int_equal(s.good_bytes, s.file_bytes); /* nothing of the record that did not fit is left */
    int found;
    (void)fixture_read_all(r, &found);
    assert_int_equal(found, PRESIL_OK);
    presil_bundle_reader_close(r);
}

static void disk_is_full(void **unused) {
    (void)unused;
    for (uint64_t limit = 0; limit < 6000; limit += limit < 900 ? 13 : 257) {
        write_until_full(limit, 0);
        write_until_full(limit, 1);
    }
    presil_bundle_writer *w;
    const presil_bundle_write_options options = {.size = sizeof options, .overwrite = 1};
    EXPECT_BUNDLE_STATUS(presil_bundle_create("/dev/full", &options, &w), PRESIL_EIO);
    EXPECT_BUNDLE_TEXT("No space left");
}

static void child_writes(const char *path, uint32_t foreground) {
    const presil_bundle_write_options options = {.size = sizeof options, .foreground = foreground, .overwrite = 1};
    const presil_bundle_chip chip = {.size = sizeof chip, .chip = "c"};
    presil_bundle_writer *w;
    if (presil_bundle_create(path, &options, &w) || presil_bundle_put_chip(w, &chip, NULL)) _exit(3);
    for (uint64_t i = 0;; i++) {
        presil_bundle_group *g;
        presil_bundle_launch l = {.size = sizeof l, .launch = i};
        const presil_bundle_range range = {{FIXTURE_BASE + i * 64 % 100000}, 100000};
        fixture_memory[i % FIXTURE_BYTES]++;
        if (presil_bundle_begin(w, &g) || presil_bundle_put_memory(g, &fixture_source, &range, 1, &l.reads) ||
            presil_bundle_put_launch(g, &l) || presil_bundle_commit(g))
            _exit(3);
    }
}

static void killed_in_mid_write(void **unused) {
    (void)unused;
    uint64_t launches = 0;
    for (uint32_t i = 0; i < 16; i++) {
        const char *path = fixture_path("killed.presil");
        (void)unlink(path);
        const pid_t child = fork();
        if (child == 0) child_writes(path, i & 1);
        const struct timespec wait = {0, 1000000 + 970000 * (long)i};
        (void)nanosleep(&wait, NULL);
        assert_int_equal(kill(child, SIGKILL), 0);
        int status;
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(WIFSIGNALED(status));
        presil_bundle_reader *r;
        if (access(path, R_OK)) continue; /* it had not begun */
        if (presil_bundle_open(path, NULL, &r)) {
            EXPECT_BUNDLE_TEXT("does not begin with");
            continue;
        }
        const presil_bundle_summary s = summary_of(r);
        assert_int_equal(s.torn, 1);
        launches += s.launches;
        (void)fixture_read_all(r, &status);
        assert_int_equal(status, PRESIL_OK);
        presil_bundle_reader_close(r);
    }
    assert_true(launches > 16);
}

/* ---- versions */
static presil_bundle_reader *opened(const uint8_t *bytes, uint64_t count) {
    presil_bundle_reader *r;
    EXPECT_BUNDLE(bundle_open_bytes(bytes, count, NULL, &r));
    return r;
}

static void newer_major_is_refused(void **unused) {
    (void)unused;
    uint8_t *bent = copy_of(file, file_bytes);
    bundle_file_header *h = (void *)bent;
    presil_bundle_reader *r;
    h->major = 2;
    EXPECT_BUNDLE_STATUS(bundle_open_bytes(bent, file_bytes, NULL, &r), PRESIL_EUNSUPPORTED);
    EXPECT_BUNDLE_TEXT("has format 2.0, this reader knows 1.0: use a newer Presil");
    free(bent);
}

/* A newer minor version: a longer header, other types of record, fields that nobody knows. */
static void newer_minor_is_read(void **unused) {
    (void)unused;
    static const char unknown[] = "\xff\x00\x63\x00\x05\x00\x00\x00hello\0\0\0"; /* tag 255, kind 99 */
    const uint64_t room = 2 * file_bytes + 4096;
    uint8_t *newer = calloc(1, room), *raw = malloc(1 << 20);
    bundle_file_header *h = (void *)newer;
    memcpy(h, file, sizeof *h);
    h->minor = 7;
    h->header_bytes = 64;
    h->check = bundle_check(h, offsetof(bundle_file_header, check));
    uint64_t to = 64, number = 0, launches = 0;
    bundle_hasher *headers = bundle_hasher_new();
    for (uint64_t from = 40; from < file_bytes; from = next_of(file, from)) {
        bundle_record_header record = *header_at(file, from);
        const uint8_t *stored = file + from + sizeof record;
        uint64_t bytes = record.raw_bytes;
        if (record.flags & BUNDLE_ZSTD)
            assert_int_equal(ZSTD_decompress(raw, 1 << 20, stored, record.stored_bytes), bytes);
        else
            memcpy(raw, stored, bytes);
        if (record.type != PRESIL_BUNDLE_BLOCK) { /* a field before and one behind what is known */
            memmove(raw + 16, raw, bytes);
            memcpy(raw, unknown, 16);
            memcpy(raw + 16 + bytes, unknown, 16);
            bytes += 32;
        }
        if (record.type == PRESIL_BUNDLE_END) {
            uint8_t hash[16], *at = memmem(raw, bytes, "\x03\x00\x05\x00\x10", 5);
            bundle_hasher_get(headers, hash);
            memcpy(at + 8, hash, sizeof hash);
            at = memmem(raw, bytes, "\x01\x00\x01\x00\x08", 5);
            memcpy(at + 8, &number, 8);
        }
        for (int extra = record.type != PRESIL_BUNDLE_END; extra >= 0;
             extra--) { /* one of an unknown type behind each */
            bundle_record_header *made = header_at(newer, to);
            const uint64_t stored_bytes = extra ? bytes : record.type == PRESIL_BUNDLE_END ? bytes : 3;
            const uint8_t *what = extra || record.type == PRESIL_BUNDLE_END ? raw : (const uint8_t *)"new";
            *made = (bundle_record_header){.magic = BUNDLE_RECORD_MAGIC,
                                           .number = number++,
                                           .raw_bytes = stored_bytes,
                                           .stored_bytes = stored_bytes,
                                           .stored_check = bundle_hash64(what, stored_bytes),
                                           .flags = 1u << 8};
            made->type = extra || record.type == PRESIL_BUNDLE_END ? record.type : 4711;
            bundle_hash128(what, stored_bytes, made->hash);
            seal(made);
            memcpy(newer + to + sizeof *made, what, stored_bytes);
            bundle_hasher_add(headers, made, sizeof *made);
            launches += made->type == PRESIL_BUNDLE_LAUNCH;
            to = next_of(newer, to);
            assert_true(to < room);
        }
    }
    bundle_hasher_free(headers);
    presil_bundle_reader *r = opened(newer, to);
    const presil_bundle_summary s = summary_of(r);
    assert_int_equal(s.minor, 7);
    assert_int_equal(s.unknown, (s.records - 1) / 2);
    assert_int_equal(launches, 2);
    fixture_check(r, 1);
    presil_bundle_reader_close(r);
    /* One of them must be understood. */
    const uint64_t second = next_of(newer, 64);
    header_at(newer, second)->flags |= BUNDLE_CRITICAL;
    seal(header_at(newer, second));
    EXPECT_BUNDLE_STATUS(bundle_open_bytes(newer, to, NULL, &r), PRESIL_EUNSUPPORTED);
    EXPECT_BUNDLE_TEXT("record 1 of type 4711 must be understood");
    free(raw);
    free(newer);
}

static void version_1_is_read(void **unused) {
    (void)unused;
    presil_bundle_reader *r;
    EXPECT_BUNDLE(presil_bundle_open(golden, NULL, &r));
    const presil_bundle_summary s = summary_of(r);
    assert_int_equal(s.major, 1);
    assert_int_equal(s.minor, 0);
    fixture_check(r, 1);
    presil_bundle_reader_close(r);
}

/* ---- other files */
static void refused(const char *name, const void *bytes, uint64_t count, int status, const char *text) {
    const char *path = fixture_path(name);
    presil_bundle_reader *r;
    fixture_save(path, bytes, count);
    EXPECT_BUNDLE_STATUS(presil_bundle_open(path, NULL, &r), status);
    EXPECT_BUNDLE_TEXT(text);
}

static void other_files_are_refused(void **unused) {
    (void)unused;
    presil_bundle_reader *r;
    refused("empty", "", 0, PRESIL_EINVAL, "is no bundle");
    refused("text", "some text that is long enough to have a header", 46, PRESIL_EINVAL, "does not begin with PRESILB");
    refused("program", "PRESILPR........................................", 48, PRESIL_EINVAL, "presil-run runs it");
    EXPECT_BUNDLE_STATUS(presil_bundle_open("/tmp", NULL, &r), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT("is no file");
    EXPECT_BUNDLE_STATUS(presil_bundle_open("/nowhere.presil", NULL, &r), PRESIL_EIO);
}

/* ---- hostile: limits, and lengths that are not what is said */
static void limits_hold(void **unused) {
    (void)unused;
    presil_bundle_reader *r;
    const presil_bundle_read_options record = {.size = sizeof record, .record_bytes = 299};
    EXPECT_BUNDLE_STATUS(bundle_open_bytes(file, file_bytes, &record, &r), PRESIL_EHOSTMEM);
    EXPECT_BUNDLE_TEXT("bytes in a record, at most 299 are allowed");
    const presil_bundle_read_options total = {.size = sizeof total, .total_bytes = 1500};
    EXPECT_BUNDLE_STATUS(bundle_open_bytes(file, file_bytes, &total, &r), PRESIL_EHOSTMEM);
    EXPECT_BUNDLE_TEXT("in all records, at most 1500");
    const presil_bundle_read_options records = {.size = sizeof records, .records = 3};
    EXPECT_BUNDLE_STATUS(bundle_open_bytes(file, file_bytes, &records, &r), PRESIL_EHOSTMEM);
    EXPECT_BUNDLE_TEXT("4 records, at most 3");
}

/* One BLOCK of `stored`, said to have `raw_bytes`. */
static uint8_t *one_block(const void *stored, uint64_t stored_bytes, uint64_t raw_bytes, uint64_t *count) {
    uint8_t *bytes = calloc(1, 40 + 64 + BUNDLE_PADDED(stored_bytes));
    memcpy(bytes, file, 40);
    bundle_record_header *h = header_at(bytes, 40);
    *h = (bundle_record_header){.magic = BUNDLE_RECORD_MAGIC,
                                .type = PRESIL_BUNDLE_BLOCK,
                                .flags = BUNDLE_ZSTD,
                                .raw_bytes = raw_bytes,
                                .stored_bytes = stored_bytes,
                                .stored_check = bundle_hash64(stored, stored_bytes)};
    seal(h);
    memcpy(h + 1, stored, stored_bytes);
    static uint8_t raw[1 << 20];
    const size_t unpacked = ZSTD_decompress(raw, sizeof raw, stored, stored_bytes); /* so that the hash is right */
    if (!ZSTD_isError(unpacked)) bundle_hash128(raw, unpacked, h->hash);
    seal(h);
    *count = next_of(bytes, 40);
    return bytes;
}

static void lengths_are_not_believed(void **unused) {
    (void)unused;
    enum { LARGE = 1 << 20 };
    uint8_t *zeros = calloc(1, LARGE), packed[4096];
    const size_t small = ZSTD_compress(packed, sizeof packed, zeros, LARGE, 1);
    assert_false(ZSTD_isError(small));
    static const uint64_t said[] = {0, 1, 65536, LARGE - 1, LARGE + 1, 200u << 20};
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        uint64_t count;
        uint8_t *bytes = one_block(packed, small, said[i], &count);
        presil_bundle_reader *r = opened(bytes, count);
        const void *raw;
        uint64_t got;
        assert_int_equal(summary_of(r).records, 1);
        EXPECT_BUNDLE_STATUS(presil_bundle_get_raw(r, 0, &raw, &got), PRESIL_EINVAL);
        EXPECT_BUNDLE_TEXT("can't be decompressed to the length");
        presil_bundle_reader_close(r);
        free(bytes);
    }
    free(zeros);
}

/* Headers that are right in themselves, and wrong in the file. */
static void headers_are_compared_with_the_file(void **unused) {
    (void)unused;
    static const uint64_t lengths[] = {UINT64_MAX, UINT64_MAX - 6, 1ull << 63, 1 << 20};
    uint8_t *bent = copy_of(file, file_bytes);
    const uint64_t second = next_of(bent, 40);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        bundle_record_header *h = header_at(bent, second), before = *h;
        h->stored_bytes = lengths[i];
        h->flags = BUNDLE_ZSTD;
        seal(h);
        presil_bundle_reader *r = opened(bent, file_bytes);
        assert_int_equal(summary_of(r).records, 1);
        assert_non_null(strstr(summary_of(r).tear_text, "the next record is cut"));
        presil_bundle_reader_close(r);
        *h = before;
    }
    header_at(bent, second)->number = 2;
    seal(header_at(bent, second));
    presil_bundle_reader *r = opened(bent, file_bytes);
    assert_non_null(strstr(summary_of(r).tear_text, "has another number"));
    presil_bundle_reader_close(r);
    free(bent);
}

/* A closing record that is right in itself, and does not fit what is before it. */
static void the_end_is_compared(void **unused) {
    (void)unused;
    uint64_t last = 40;
    while (next_of(file, last) < file_bytes) last = next_of(file, last);
    static const uint64_t values[] = {8, 24, 40}; /* records, launches, the hash of the headers */
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        uint8_t *bent = copy_of(file, file_bytes), *raw = bent + last + sizeof(bundle_record_header);
        bundle_record_header *h = header_at(bent, last);
        assert_int_equal(h->flags, 0);
        raw[values[i]] ^= 4;
        bundle_hash128(raw, h->raw_bytes, h->hash);
        h->stored_check = bundle_hash64(raw, h->raw_bytes);
        seal(h);
        presil_bundle_reader *r = opened(bent, file_bytes);
        assert_non_null(strstr(summary_of(r).tear_text, "the closing record does not fit"));
        assert_int_equal(summary_of(r).launches, 2);
        presil_bundle_reader_close(r);
        free(bent);
    }
}

/* The stored bytes are as they were stored, but not those that the record is named by. */
static void contents_have_their_hash(void **unused) {
    (void)unused;
    uint64_t count;
    uint8_t *bytes = one_block("what", 4, 4, &count);
    bundle_record_header *h = header_at(bytes, 40);
    const void *raw;
    uint64_t got;
    h->flags = 0;
    h->hash[0] = 1;
    seal(h);
    presil_bundle_reader *r = opened(bytes, count);
    EXPECT_BUNDLE_STATUS(presil_bundle_get_raw(r, 0, &raw, &got), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT("record 0 at byte 40: its contents have another hash");
    presil_bundle_reader_close(r);
    free(bytes);
}

/* One frame that declares its length, or none at all: Python's zstd would read no other. */
static void frames_declare_their_length(void **unused) {
    (void)unused;
    uint8_t raw[400] = {0}, packed[1024];
    ZSTD_CCtx *zstd = ZSTD_createCCtx();
    assert_false(ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_contentSizeFlag, 0)));
    const size_t silent = ZSTD_compress2(zstd, packed, sizeof packed, raw, sizeof raw);
    assert_false(ZSTD_isError(silent));
    uint64_t count, got;
    const void *out;
    uint8_t *bytes = one_block(packed, silent, sizeof raw, &count);
    presil_bundle_reader *r = opened(bytes, count);
    EXPECT_BUNDLE_STATUS(presil_bundle_get_raw(r, 0, &out, &got), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT("can't be decompressed to the length");
    presil_bundle_reader_close(r);
    free(bytes);
    const size_t first = ZSTD_compress(packed, sizeof packed, raw, 200, 1);
    const size_t second = ZSTD_compress(packed + first, sizeof packed - first, raw, 200, 1);
    bytes = one_block(packed, first + second, sizeof raw, &count);
    r = opened(bytes, count);
    EXPECT_BUNDLE_STATUS(presil_bundle_get_raw(r, 0, &out, &got), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT("can't be decompressed to the length");
    presil_bundle_reader_close(r);
    free(bytes);
    (void)ZSTD_freeCCtx(zstd);
}

/* ---- hostile: fields */
typedef struct {
    uint8_t at[1024];
    uint64_t bytes;
} field_list;

static void add_field(field_list *list, unsigned tag, unsigned kind, const void *value, uint32_t bytes) {
    const bundle_field_header h = {(uint16_t)tag, (uint16_t)kind, bytes};
    memcpy(list->at + list->bytes, &h, sizeof h);
    if (bytes) memcpy(list->at + list->bytes + sizeof h, value, bytes);
    list->bytes += sizeof h + BUNDLE_PADDED((uint64_t)bytes);
}

static void decode_refuses(unsigned type, const field_list *list, const char *text) {
    const bundle_fields *fields = bundle_fields_of(type);
    uint8_t *exact = copy_of(list->at, list->bytes);
    bundle_arena *arena;
    void *value = bundle_got_new(fields->struct_bytes, &arena);
    EXPECT_BUNDLE_STATUS(bundle_decode(arena, fields, exact, list->bytes, value, fields->name), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT(text);
    presil_bundle_free(value);
    free(exact);
}

static void memory_is_refused(uint64_t ranges, uint64_t pieces, const uint64_t *words, uint32_t count,
                              const char *text) {
    uint64_t value[64] = {ranges, pieces};
    memcpy(value + 2, words, 8 * count);
    field_list list = {.bytes = 0};
    add_field(&list, 20, BUNDLE_MEMORY, value, 8 * (2 + count));
    decode_refuses(PRESIL_BUNDLE_LAUNCH, &list, text);
}

static void memories_are_checked(void **unused) {
    (void)unused;
    static const uint64_t good[] = {4096, 8, 0, 0, 8, 1}; /* one range; a piece: hash, bytes, ranges */
    static const uint64_t many[] = {4096, 8, 0, 0, 8, 2}, none[] = {4096, 8, 0, 0, 0, 0},
                          huge[] = {4096, 8, 0, 0, 8, 1ull << 60};
    static const uint64_t other[] = {4096, 8, 0, 0, 9, 1}, empty[] = {4096, 0, 0, 0, 0, 1},
                          end[] = {UINT64_MAX, 8, 0, 0, 8, 1};
    static const uint64_t across[] = {65532, 8, 0, 0, 8, 1}, alone[] = {4096, 8};
    static const uint64_t twice[] = {4096, 8, 4100, 8, 0, 0, 16, 2}, apart[] = {4096, 8, 70000, 8, 0, 0, 16, 2};
    memory_is_refused(2, 1, good, 6, "counts don't fit");
    memory_is_refused(1ull << 60, 1, good, 6, "counts don't fit");
    memory_is_refused(1, 1ull << 59, good, 6, "counts don't fit");
    memory_is_refused(1, 1, many, 6, "other ranges than there are");
    memory_is_refused(1, 1, huge, 6, "other ranges than there are");
    memory_is_refused(1, 1, none, 6, "other ranges than there are");
    memory_is_refused(1, 1, other, 6, "another length");
    memory_is_refused(1, 1, empty, 6, "are empty");
    memory_is_refused(1, 1, end, 6, "are empty, overlap");
    memory_is_refused(1, 1, across, 6, "crosses a multiple");
    memory_is_refused(2, 1, twice, 8, "overlap");
    memory_is_refused(2, 1, apart, 8, "crosses a multiple");
    memory_is_refused(1, 0, alone, 2, "ranges without a piece");
}

static void fields_are_checked(void **unused) {
    (void)unused;
    static const int64_t three[3] = {1, 2, 3};
    static const uint64_t large = 1ull << 32;
    field_list tensor = {.bytes = 0}, list = {.bytes = 0};
    add_field(&tensor, 5, BUNDLE_I64, NULL, 0);   /* a shape of no dimension, */
    add_field(&tensor, 6, BUNDLE_I64, three, 24); /* strides of three */
    add_field(&list, 23, BUNDLE_GROUP, tensor.at, (uint32_t)tensor.bytes);
    decode_refuses(PRESIL_BUNDLE_LAUNCH, &list, "a shape or with strides, not both");
    tensor.bytes = list.bytes = 0;
    add_field(&tensor, 5, BUNDLE_I64, three, 16);
    add_field(&tensor, 6, BUNDLE_I64, three, 24);
    add_field(&list, 23, BUNDLE_GROUP, tensor.at, (uint32_t)tensor.bytes);
    decode_refuses(PRESIL_BUNDLE_LAUNCH, &list, "different lengths");
    list.bytes = 0;
    add_field(&list, 3, BUNDLE_U64, &large, 8); /* mode has 32 bits */
    decode_refuses(PRESIL_BUNDLE_LAUNCH, &list, "out of range");
    list.bytes = 0;
    add_field(&list, 4, BUNDLE_TEXT, "a", 1);
    add_field(&list, 4, BUNDLE_TEXT, "a", 1);
    decode_refuses(PRESIL_BUNDLE_LAUNCH, &list, "there twice");
    list.bytes = 0;
    add_field(&list, 4, BUNDLE_BYTES, "a", 1);
    decode_refuses(PRESIL_BUNDLE_LAUNCH, &list, "another kind");
    list.bytes = 0;
    add_field(&list, 4, BUNDLE_TEXT, "a\0b", 3);
    decode_refuses(PRESIL_BUNDLE_LAUNCH, &list, "no UTF-8");
    list.bytes = 0;
    add_field(&list, 1, BUNDLE_TEXT, "a/x", 3);
    decode_refuses(PRESIL_BUNDLE_ATTACHMENT, &list, "no name of a file");
    list.bytes = 0;
    decode_refuses(PRESIL_BUNDLE_ATTACHMENT, &list, "empty");
    add_field(&list, 1, BUNDLE_GROUP, NULL, 0);
    decode_refuses(PRESIL_BUNDLE_LABELS, &list, "without a key");
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "--write-golden")) { /* once for each version */
        fixture_fill(1);
        const presil_bundle_write_options options = {.size = sizeof options, .overwrite = 1};
        fixture_write_file(argv[2], &options, 1);
        return 0;
    }
    golden = argc > 1 ? argv[1] : "tests/bundle/version1.presil";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torn_at_every_byte),          cmocka_unit_test(what_is_behind_the_end_is_said),
        cmocka_unit_test(every_flipped_byte_is_seen),  cmocka_unit_test(disk_is_full),
        cmocka_unit_test(killed_in_mid_write),         cmocka_unit_test(newer_major_is_refused),
        cmocka_unit_test(newer_minor_is_read),         cmocka_unit_test(version_1_is_read),
        cmocka_unit_test(other_files_are_refused),     cmocka_unit_test(limits_hold),
        cmocka_unit_test(lengths_are_not_believed),    cmocka_unit_test(headers_are_compared_with_the_file),
        cmocka_unit_test(the_end_is_compared),         cmocka_unit_test(contents_have_their_hash),
        cmocka_unit_test(frames_declare_their_length), cmocka_unit_test(memories_are_checked),
        cmocka_unit_test(fields_are_checked),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
