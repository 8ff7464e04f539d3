/* SPDX-License-Identifier: Apache-2.0 */
/* Bundles: what is written is read, field by field; contents are stored once; groups are held, kept in a ring, dropped;
 * what can't be right is refused. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bundle_fixture.h"

static presil_bundle_reader *opened(const char *path) {
    presil_bundle_reader *r;
    EXPECT_BUNDLE(presil_bundle_open(path, NULL, &r));
    return r;
}

static presil_bundle_summary summary_of(presil_bundle_reader *r) {
    presil_bundle_summary s = {.size = sizeof s};
    EXPECT_BUNDLE(presil_bundle_get_summary(r, &s));
    return s;
}

static presil_bundle_summary file_summary(const char *path) {
    presil_bundle_reader *r = opened(path);
    const presil_bundle_summary s = summary_of(r);
    int status;
    (void)fixture_read_all(r, &status);
    assert_int_equal(status, PRESIL_OK);
    presil_bundle_reader_close(r);
    return s;
}

static int setup(void **state) {
    (void)state;
    fixture_fill(1);
    return 0;
}
static int teardown(void **state) {
    (void)state;
    fixture_done();
    return 0;
}

/* ---- what is written is read */
static void round_trip(void **unused) {
    (void)unused;
    for (uint32_t i = 0; i < 16; i++) {
        const presil_bundle_write_options options = {.size = sizeof options,
                                                     .hold = i & 1,
                                                     .ring = i & 2 ? 5 : 0,
                                                     .level = i & 4 ? -1 : 0,
                                                     .foreground = i >> 3,
                                                     .overwrite = 1};
        for (int small = 0; small < 2; small++) {
            const char *path = fixture_path("round.presil");
            fixture_write_file(path, &options, small);
            presil_bundle_reader *r = opened(path);
            fixture_check(r, small);
            presil_bundle_reader_close(r);
        }
    }
}

static void records_are_numbered(void **unused) {
    (void)unused;
    const char *path = fixture_path("numbers.presil");
    fixture_write_file(path, NULL, 1);
    presil_bundle_reader *r = opened(path);
    const presil_bundle_summary s = summary_of(r);
    uint64_t offset = 40;
    for (uint64_t i = 0; i < s.records; i++) {
        presil_bundle_record record = {.size = sizeof record};
        EXPECT_BUNDLE(presil_bundle_get_record(r, i, &record));
        assert_int_equal(record.number, i);
        assert_int_equal(record.offset, offset);
        offset += 64 + (record.stored_bytes + 7) / 8 * 8;
        assert_int_equal(record.type == PRESIL_BUNDLE_END, i + 1 == s.records);
    }
    assert_int_equal(offset, s.file_bytes);
    assert_int_equal(s.unknown, 0);
    presil_bundle_reader_close(r);
}

static void results_are_those_of_their_launch(void **unused) {
    (void)unused;
    const char *path = fixture_path("results.presil");
    fixture_write_file(path, NULL, 1);
    presil_bundle_reader *r = opened(path);
    uint64_t found;
    for (uint64_t launch = 0; launch < 2; launch++) {
        EXPECT_BUNDLE(presil_bundle_next_result(r, launch, 0, &found));
        assert_int_equal(found, launch);
        EXPECT_BUNDLE(presil_bundle_next_result(r, launch, launch + 1, &found));
        assert_true(found == UINT64_MAX);
        EXPECT_BUNDLE(presil_bundle_find_launch(r, 0, 40 + launch, &found));
        assert_int_equal(found, launch);
    }
    EXPECT_BUNDLE_STATUS(presil_bundle_next_result(r, 2, 0, &found), PRESIL_EINVAL);
    EXPECT_BUNDLE_STATUS(presil_bundle_find_launch(r, 0, 42, &found), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT("no launch 42 of chip 0");
    EXPECT_BUNDLE_STATUS(presil_bundle_find_launch(r, 1, 40, &found), PRESIL_EINVAL);
    presil_bundle_reader_close(r);
}

/* ---- contents are stored once */
static void stored_once(void **unused) {
    (void)unused;
    const char *path = fixture_path("once.presil");
    presil_bundle_writer *w;
    presil_bundle_group *g;
    uint64_t file, content;
    EXPECT_BUNDLE(presil_bundle_create(path, NULL, &w));
    const presil_bundle_memory *first, *again, *part;
    /* Not aligned: a partial piece at each end, and two whole windows. */
    const presil_bundle_range whole = {{FIXTURE_BASE + 1000}, 3 * 65536 - 1000 - 7};
    EXPECT_BUNDLE(presil_bundle_begin(w, &g));
    EXPECT_BUNDLE(presil_bundle_put_memory(g, &fixture_source, &whole, 1, &first));
    assert_int_equal(first->piece_count, 3);
    assert_int_equal(first->pieces[1].block.bytes, 65536);
    EXPECT_BUNDLE(presil_bundle_put_memory(g, &fixture_source, &whole, 1, &again));
    assert_memory_equal(first->pieces, again->pieces, 3 * sizeof *first->pieces);
    /* A tensor that begins elsewhere has the same windows in the middle. */
    const presil_bundle_range other = {{FIXTURE_BASE + 65536}, 65536 + 9};
    EXPECT_BUNDLE(presil_bundle_put_memory(g, &fixture_source, &other, 1, &part));
    assert_memory_equal(&part->pieces[0].block, &first->pieces[1].block, sizeof(presil_bundle_id));
    EXPECT_BUNDLE(presil_bundle_commit(g));
    EXPECT_BUNDLE(presil_bundle_flush(w));
    presil_bundle_written(w, &file, &content);
    assert_int_equal(content, 2 * whole.bytes + other.bytes);
    EXPECT_BUNDLE(presil_bundle_close(w));
    const presil_bundle_summary s = file_summary(path);
    assert_int_equal(s.blocks, 4);
    assert_true(s.file_bytes > file && s.raw_bytes < content);
}

static int read_memory(void *context, presil_daddr address, void *to, uint64_t bytes) {
    *(uint64_t *)context += 1;
    memcpy(to, fixture_memory + (address.value - FIXTURE_BASE), bytes);
    return PRESIL_OK;
}
static int refuse(void *context, presil_daddr address, void *to, uint64_t bytes) {
    (void)context, (void)address, (void)to, (void)bytes;
    return PRESIL_EBUS;
}

/* Rows of a tensor: joined where they touch, one block a window. */
static void ranges_are_joined_and_cut(void **unused) {
    (void)unused;
    presil_bundle_writer *w;
    presil_bundle_group *g;
    const presil_bundle_memory *m;
    uint64_t calls = 0;
    const presil_bundle_source source = {.read = read_memory, .context = &calls};
    const presil_bundle_range rows[] = {{{FIXTURE_BASE + 65530}, 20}, {{FIXTURE_BASE + 100}, 10},
                                        {{FIXTURE_BASE + 50}, 50},    {{FIXTURE_BASE + 105}, 10},
                                        {{FIXTURE_BASE + 7}, 0},      {{FIXTURE_BASE + 200}, 8}};
    EXPECT_BUNDLE(presil_bundle_create(fixture_path("rows.presil"), NULL, &w));
    EXPECT_BUNDLE(presil_bundle_begin(w, &g));
    EXPECT_BUNDLE(presil_bundle_put_memory(g, &source, rows, 6, &m));
    static const presil_bundle_range expected[] = {{{FIXTURE_BASE + 50}, 65},
                                                   {{FIXTURE_BASE + 200}, 8},
                                                   {{FIXTURE_BASE + 65530}, 6},
                                                   {{FIXTURE_BASE + 65536}, 14}};
    assert_int_equal(m->range_count, 4);
    assert_memory_equal(m->ranges, expected, sizeof expected);
    assert_int_equal(m->piece_count, 2);
    assert_int_equal(m->pieces[0].ranges, 3);
    assert_int_equal(m->pieces[0].block.bytes, 79);
    assert_int_equal(m->bytes, 93);
    assert_int_equal(calls, 4);
    EXPECT_BUNDLE(presil_bundle_put_memory(g, &source, NULL, 0, &m));
    assert_int_equal(m->piece_count, 0);
    const presil_bundle_source broken = {.read = refuse};
    EXPECT_BUNDLE_STATUS(presil_bundle_put_memory(g, &broken, rows, 1, &m), PRESIL_EBUS);
    EXPECT_BUNDLE_TEXT("at 0x4000fffa can't be read");
    const presil_bundle_range beyond = {{UINT64_MAX - 3}, 5};
    EXPECT_BUNDLE_STATUS(presil_bundle_put_memory(g, &source, &beyond, 1, &m), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT("run over the end");
    EXPECT_BUNDLE(presil_bundle_commit(g));
    EXPECT_BUNDLE(presil_bundle_close(w));
}

/* ---- groups */
static void put_numbered(presil_bundle_group *g, uint64_t number, uint64_t bytes) {
    presil_bundle_launch l = {.size = sizeof l, .launch = number, .label = "numbered"};
    const presil_bundle_range range = {{FIXTURE_BASE + 256 * number}, bytes};
    EXPECT_BUNDLE(presil_bundle_put_memory(g, &fixture_source, &range, 1, &l.reads));
    EXPECT_BUNDLE(presil_bundle_put_launch(g, &l));
}

static presil_bundle_writer *writer_with_chip(const char *path, const presil_bundle_write_options *options) {
    const presil_bundle_chip chip = {.size = sizeof chip, .chip = "c"};
    presil_bundle_writer *w;
    EXPECT_BUNDLE(presil_bundle_create(path, options, &w));
    EXPECT_BUNDLE(presil_bundle_put_chip(w, &chip, NULL));
    return w;
}

static void expect_launches(const char *path, const uint64_t *numbers, uint64_t count) {
    presil_bundle_reader *r = opened(path);
    const presil_bundle_summary s = summary_of(r);
    assert_int_equal(s.torn, 0);
    assert_int_equal(s.launches, count);
    for (uint64_t i = 0; i < count; i++) {
        const presil_bundle_launch *l;
        EXPECT_BUNDLE(presil_bundle_get_launch(r, i, &l));
        assert_int_equal(l->launch, numbers[i]);
        presil_bundle_free(l);
        uint64_t found = 99;
        EXPECT_BUNDLE(presil_bundle_find_launch(r, 0, numbers[i], &found));
        assert_int_equal(found, i);
        EXPECT_BUNDLE(presil_bundle_next_result(r, i, 0, &found));
        assert_true(found == UINT64_MAX);
    }
    assert_int_equal(s.blocks, count);
    presil_bundle_reader_close(r);
    (void)file_summary(path);
}

/* The ring keeps the last ones, with the contents that they need and no others. */
static void ring_keeps_the_last(void **unused) {
    (void)unused;
    const char *path = fixture_path("ring.presil");
    const presil_bundle_write_options options = {.size = sizeof options, .ring = 3};
    presil_bundle_writer *w = writer_with_chip(path, &options);
    for (uint64_t i = 0; i < 10; i++) {
        presil_bundle_group *g;
        EXPECT_BUNDLE(presil_bundle_begin(w, &g));
        put_numbered(g, i, 5000 + i);
        EXPECT_BUNDLE(presil_bundle_commit(g));
    }
    EXPECT_BUNDLE(presil_bundle_close(w));
    expect_launches(path, (const uint64_t[]){7, 8, 9}, 3);
}

/* Flushed when something failed; what comes behind it is a ring again. Contents that are written stay known. */
static void ring_is_flushed(void **unused) {
    (void)unused;
    const char *path = fixture_path("flush.presil");
    const presil_bundle_write_options options = {.size = sizeof options, .ring = 2};
    presil_bundle_writer *w = writer_with_chip(path, &options);
    for (uint64_t i = 0; i < 8; i++) {
        presil_bundle_group *g;
        EXPECT_BUNDLE(presil_bundle_begin(w, &g));
        put_numbered(g, i, 300);
        EXPECT_BUNDLE(presil_bundle_commit(g));
        if (i == 3) EXPECT_BUNDLE(presil_bundle_flush(w));
    }
    EXPECT_BUNDLE(presil_bundle_close(w));
    expect_launches(path, (const uint64_t[]){2, 3, 6, 7}, 4);
}

static void held_is_dropped(void **unused) {
    (void)unused;
    const char *path = fixture_path("hold.presil");
    const presil_bundle_write_options options = {.size = sizeof options, .hold = 1};
    presil_bundle_writer *w = writer_with_chip(path, &options);
    presil_bundle_group *a, *b;
    EXPECT_BUNDLE(presil_bundle_begin(w, &a));
    EXPECT_BUNDLE(presil_bundle_begin(w, &b));
    put_numbered(a, 1, 400);
    put_numbered(b, 1, 400); /* the same contents: they stay for b when a goes */
    put_numbered(a, 2, 400);
    presil_bundle_abandon(a);
    EXPECT_BUNDLE(presil_bundle_commit(b));
    EXPECT_BUNDLE(presil_bundle_begin(w, &a)); /* left open */
    put_numbered(a, 3, 400);
    EXPECT_BUNDLE(presil_bundle_close(w));
    expect_launches(path, (const uint64_t[]){1}, 1);
}

static void held_is_bounded(void **unused) {
    (void)unused;
    const char *path = fixture_path("bound.presil");
    const presil_bundle_write_options options = {.size = sizeof options, .ring = 100, .hold_bytes = 16000};
    presil_bundle_writer *w = writer_with_chip(path, &options);
    presil_bundle_group *g;
    for (uint64_t i = 0; i < 20; i++) {
        EXPECT_BUNDLE(presil_bundle_begin(w, &g));
        put_numbered(g, i, 4000);
        EXPECT_BUNDLE(presil_bundle_commit(g));
    }
    EXPECT_BUNDLE(presil_bundle_begin(w, &g));
    const presil_bundle_memory *m;
    const presil_bundle_range range = {{FIXTURE_BASE}, 20000};
    EXPECT_BUNDLE_STATUS(presil_bundle_put_memory(g, &fixture_source, &range, 1, &m), PRESIL_EHOSTMEM);
    EXPECT_BUNDLE_TEXT("raise hold_bytes");
    presil_bundle_abandon(g);
    for (uint64_t i = 20; i < 22; i++) {
        EXPECT_BUNDLE(presil_bundle_begin(w, &g));
        put_numbered(g, i, 4000);
        EXPECT_BUNDLE(presil_bundle_commit(g));
    }
    EXPECT_BUNDLE(presil_bundle_close(w));
    expect_launches(path, (const uint64_t[]){20, 21}, 2); /* the large one drove the others out */
}

static void aborted_is_torn(void **unused) {
    (void)unused;
    const char *path = fixture_path("abort.presil");
    presil_bundle_writer *w;
    EXPECT_BUNDLE(presil_bundle_create(path, NULL, &w));
    fixture_write(w, 1);
    presil_bundle_abort(w);
    const presil_bundle_summary s = file_summary(path);
    assert_int_equal(s.torn, 1);
    assert_int_equal(s.launches, 2);
    assert_non_null(strstr(s.tear_text, "closing record is missing"));
}

/* ---- threads */
enum { THREADS = 4, EACH = 40 };
typedef struct {
    presil_bundle_writer *writer;
    uint64_t number;
} thread_of;

static void *put_many(void *context) {
    const thread_of *t = context;
    for (uint64_t i = 0; i < EACH; i++) {
        presil_bundle_group *g;
        EXPECT_BUNDLE(presil_bundle_begin(t->writer, &g));
        put_numbered(g, t->number * EACH + i, 256);
        EXPECT_BUNDLE(presil_bundle_commit(g));
    }
    return NULL;
}

static void from_several_threads(void **unused) {
    (void)unused;
    for (uint32_t ring = 0; ring < 2; ring++) {
        const char *path = fixture_path("threads.presil");
        const presil_bundle_write_options options = {.size = sizeof options, .ring = ring * 1000, .overwrite = 1};
        presil_bundle_writer *w = writer_with_chip(path, &options);
        pthread_t threads[THREADS];
        thread_of contexts[THREADS];
        for (uint64_t i = 0; i < THREADS; i++) {
            contexts[i] = (thread_of){w, i};
            assert_int_equal(pthread_create(&threads[i], NULL, put_many, &contexts[i]), 0);
        }
        for (uint64_t i = 0; i < THREADS; i++) (void)pthread_join(threads[i], NULL);
        EXPECT_BUNDLE(presil_bundle_close(w));
        const presil_bundle_summary s = file_summary(path);
        assert_int_equal(s.torn, 0);
        assert_int_equal(s.launches, THREADS * EACH);
        assert_int_equal(s.blocks, THREADS * EACH);
    }
}

/* ---- size */
static uint64_t written_with(int level, const uint8_t *data, uint64_t bytes) {
    const presil_bundle_write_options options = {.size = sizeof options, .level = level, .overwrite = 1};
    const presil_bundle_source source = {.host = data, .base = {FIXTURE_BASE}};
    const presil_bundle_range range = {{FIXTURE_BASE}, bytes};
    const presil_bundle_memory *memory;
    presil_bundle_group *g;
    presil_bundle_writer *w = writer_with_chip(fixture_path("size.presil"), &options);
    uint64_t file = 0;
    EXPECT_BUNDLE(presil_bundle_begin(w, &g));
    EXPECT_BUNDLE(presil_bundle_put_memory(g, &source, &range, 1, &memory));
    EXPECT_BUNDLE(presil_bundle_commit(g));
    EXPECT_BUNDLE(presil_bundle_flush(w));
    presil_bundle_written(w, &file, NULL);
    EXPECT_BUNDLE(presil_bundle_close(w));
    return file;
}

/* The default is quicker than level 1, and as small: of activations, half of them 0; of what repeats, small enough. */
static void contents_are_small(void **unused) {
    (void)unused;
    enum { BYTES = 1 << 20 };
    uint8_t *data = malloc(BYTES);
    for (int repeats = 0; repeats < 2; repeats++) {
        uint32_t state = 1;
        for (uint64_t i = 0; i < BYTES; i++) {
            state = state * 1664525u + 1013904223u;
            const uint32_t bell = (state >> 28) + (state >> 24 & 15) + (state >> 20 & 15);
            data[i] = bell < 22 ? 0 : (uint8_t)bell;
            if (repeats && i >= 1500) data[i] = data[i - 1500];
        }
        const uint64_t stored = written_with(-1, data, BYTES), one = written_with(1, data, BYTES),
                       usual = written_with(0, data, BYTES);
        assert_true(stored > BYTES && one < stored / 2);
        assert_in_range(usual, 1, repeats ? stored / 10 : one + one / 10);
    }
    free(data);
}

/* ---- refused */
static void writer_refuses(void **unused) {
    (void)unused;
    const char *path = fixture_path("refuse.presil");
    presil_bundle_writer *w = writer_with_chip(path, NULL), *second;
    presil_bundle_group *g;
    EXPECT_BUNDLE_STATUS(presil_bundle_create(path, NULL, &second), PRESIL_EIO);
    EXPECT_BUNDLE_TEXT("name another file");
    EXPECT_BUNDLE_STATUS(presil_bundle_create("/nowhere/x.presil", NULL, &second), PRESIL_EIO);
    EXPECT_BUNDLE_TEXT("No such file");
    const presil_bundle_write_options level = {.size = sizeof level, .level = 20};
    EXPECT_BUNDLE_STATUS(presil_bundle_create(fixture_path("l.presil"), &level, &second), PRESIL_EINVAL);
    EXPECT_BUNDLE(presil_bundle_begin(w, &g));
    presil_bundle_launch l = {.size = sizeof l, .commands = {{1}, 5}};
    EXPECT_BUNDLE_STATUS(presil_bundle_put_launch(g, &l), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT("block that was not put");
    l.commands.bytes = 0;
    l.chip = 1;
    EXPECT_BUNDLE_STATUS(presil_bundle_put_launch(g, &l), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT("chip 1: 1 were put");
    l.chip = 0;
    const presil_bundle_tensor flat = {.ndim = 2};
    l.tensors = &flat, l.tensor_count = 1;
    EXPECT_BUNDLE_STATUS(presil_bundle_put_launch(g, &l), PRESIL_EINVAL);
    l.size = 4;
    EXPECT_BUNDLE_STATUS(presil_bundle_put_launch(g, &l), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT("sizeof");
    presil_bundle_result result = {.size = sizeof result, .stall_count = 3};
    EXPECT_BUNDLE_STATUS(presil_bundle_put_result(g, &result), PRESIL_EINVAL);
    EXPECT_BUNDLE_TEXT("its chip has 0 and 0");
    static const char *const names[] = {"", ".", "..", "a/b", "../x", "x\ny", ".hidden", NULL};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const presil_bundle_attachment a = {.size = sizeof a, .name = names[i]};
        EXPECT_BUNDLE_STATUS(presil_bundle_put_attachment(g, &a), PRESIL_EINVAL);
    }
    const presil_bundle_attachment large = {.size = sizeof large, .name = "l", .data = path, .bytes = 1ull << 33};
    EXPECT_BUNDLE_STATUS(presil_bundle_put_attachment(g, &large), PRESIL_EHOSTMEM);
    presil_bundle_abandon(g);
    EXPECT_BUNDLE(presil_bundle_close(w));
    assert_int_equal(file_summary(path).records, 2);
}

/* Paths may be any bytes: what is no UTF-8 is replaced, and the file stays readable. */
static void texts_are_utf8(void **unused) {
    (void)unused;
    const char *path = fixture_path("utf8.presil");
    presil_bundle_writer *w;
    EXPECT_BUNDLE(presil_bundle_create(path, NULL, &w));
    const presil_bundle_pair pairs[] = {
        {"a", "x\xff\xc3y"}, {"b", "\xed\xa0\x80"}, {"c", "\xf0\x9f\x98\x80"}, {"d", NULL}};
    static const char *const expected[] = {"x??y", "???", "\xf0\x9f\x98\x80", ""};
    EXPECT_BUNDLE(presil_bundle_put_labels(w, pairs, 4));
    EXPECT_BUNDLE(presil_bundle_close(w));
    presil_bundle_reader *r = opened(path);
    const presil_bundle_pair *found;
    uint32_t count;
    EXPECT_BUNDLE(presil_bundle_get_labels(r, &found, &count));
    assert_int_equal(count, 4);
    for (uint32_t i = 0; i < count; i++) assert_string_equal(found[i].value, expected[i]);
    presil_bundle_free(found);
    presil_bundle_reader_close(r);
}

/* ---- coordinates */
static void addresses_become_coordinates(void **unused) {
    (void)unused;
    const int64_t shape[] = {2, 3, 4}, channels_last[] = {12, 1, 3}, broadcast[] = {0, 4, 1}, back[] = {-12, 4, 1};
    presil_bundle_tensor t[] = {
        {.name = "in", .data = {1000}, .element_bytes = 2, .shape = shape, .stride = channels_last, .ndim = 3},
        {.name = "out",
         .data = {1020},
         .element_bytes = 1,
         .shape = shape,
         .stride = channels_last,
         .ndim = 3,
         .written = 1},
        {.name = "bias", .data = {2000}, .element_bytes = 4, .shape = shape, .stride = broadcast, .ndim = 3},
        {.name = "turned", .data = {3000}, .element_bytes = 1, .shape = shape, .stride = back, .ndim = 3},
    };
    const presil_bundle_launch l = {.size = sizeof l, .tensors = t, .tensor_count = 4};
    static const struct {
        uint64_t address;
        const char *text;
    } cases[] = {{1000, "in [0, 0, 0], byte 0"},
                 {1019, "in [0, 0, 3], byte 1"},
                 {1020, "out [0, 0, 0]"},
                 {1043, "out [1, 2, 3]"},
                 {1044, "in [1, 1, 3], byte 0"},
                 {1048, ""},
                 {2000, "bias [0, 0, 0], byte 0"},
                 {2047, "bias [0, 2, 3], byte 3"},
                 {2048, ""},
                 {999, ""},
                 {3011, "turned [0, 2, 3]"},
                 {2988, "turned [1, 0, 0]"},
                 {2987, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64] = "x";
        presil_bundle_coordinate(&l, (presil_daddr){cases[i].address}, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
    char small[4];
    presil_bundle_coordinate(&l, (presil_daddr){1020}, small, sizeof small);
    assert_string_equal(small, "out");
}

/* Two elements in a byte; eight dimensions; strides of any sign. */
static void half_bytes_become_coordinates(void **unused) {
    (void)unused;
    const int64_t wide[] = {1, 2, 1, 1, 3, 1, 1, 1}, steps[] = {6, 3, 3, 3, 1, 1, 1, 1}, five[] = {5}, one[] = {1},
                  turned[] = {-1}, apart[] = {2};
    presil_bundle_tensor t[] = {
        {.name = "wide", .data = {1000}, .element_bits = 4, .shape = wide, .stride = steps, .ndim = 8},
        {.name = "five", .data = {1100}, .element_bits = 4, .shape = five, .stride = one, .ndim = 1},
        {.name = "turned", .data = {1200}, .element_bits = 4, .shape = five, .stride = turned, .ndim = 1},
        {.name = "even", .data = {1300}, .element_bits = 4, .shape = five, .stride = apart, .ndim = 1},
    };
    const presil_bundle_launch l = {.size = sizeof l, .tensors = t, .tensor_count = 4};
    static const struct {
        uint64_t address;
        const char *text;
    } cases[] = {{999, ""},
                 {1000, "wide [0, 0, 0, 0, 0, 0, 0, 0] or [0, 0, 0, 0, 1, 0, 0, 0]"},
                 {1001, "wide [0, 0, 0, 0, 2, 0, 0, 0] or [0, 1, 0, 0, 0, 0, 0, 0]"},
                 {1002, "wide [0, 1, 0, 0, 1, 0, 0, 0] or [0, 1, 0, 0, 2, 0, 0, 0]"},
                 {1003, ""},
                 {1101, "five [2] or [3]"},
                 {1102, "five [4]"},
                 {1103, ""},
                 {1197, ""},
                 {1198, "turned [4] or [3]"},
                 {1199, "turned [2] or [1]"},
                 {1200, "turned [0]"},
                 {1201, ""},
                 {1301, "even [1]"},
                 {1304, "even [4]"},
                 {1305, ""}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[128] = "x";
        presil_bundle_coordinate(&l, (presil_daddr){cases[i].address}, text, sizeof text);
        assert_string_equal(text, cases[i].text);
    }
    t[2].shape = (const int64_t[]){4}; /* the lowest element is the upper half of its byte */
    char text[64];
    presil_bundle_coordinate(&l, (presil_daddr){1198}, text, sizeof text);
    assert_string_equal(text, "turned [3]");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_bytes_become_coordinates),
        cmocka_unit_test(round_trip),
        cmocka_unit_test(records_are_numbered),
        cmocka_unit_test(results_are_those_of_their_launch),
        cmocka_unit_test(stored_once),
        cmocka_unit_test(ranges_are_joined_and_cut),
        cmocka_unit_test(ring_keeps_the_last),
        cmocka_unit_test(ring_is_flushed),
        cmocka_unit_test(held_is_dropped),
        cmocka_unit_test(held_is_bounded),
        cmocka_unit_test(aborted_is_torn),
        cmocka_unit_test(from_several_threads),
        cmocka_unit_test(contents_are_small),
        cmocka_unit_test(writer_refuses),
        cmocka_unit_test(texts_are_utf8),
        cmocka_unit_test(addresses_become_coordinates),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
