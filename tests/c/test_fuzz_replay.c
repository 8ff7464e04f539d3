/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bundles, bent, and replayed as presil-replay does: refused, or run inside the device's memory and ended; within a
 * time and a host memory that follow from the file's size (fuzz.h); a testbench's files are in its folder. The hashes
 * are right (bundle_bend.h).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#include "bundle_bend.h"
#include "bundle_fixture.h"
#include "core_fixture.h"
#include "fuzz.h"
#include "presil_bundle_capture.h"
#include "presil_debug.h"
#include "presil_desc.h"
#include "presil_image.h"
#include "replay.h"

enum { RECORD_LIMIT = 1 << 20, MEBIBYTE = 1 << 20, DEVICE_BYTES = 16 << 20 };

static plain_file model;
static made_file bent;
static FILE *nowhere, *usual_output, *usual_errors;
static char folder[] = "/tmp/presil-fuzz-replay-XXXXXX", bench[64];

/* As for a program's commands (test_fuzz_program.c): the file has several launches. */
static double seconds_for(uint64_t bytes) { return 0.5 + (double)bytes / 20000.0; }

/* ---- a good file: launches that are right, one that was refused, one that hung */
static presil_list *damaged(presil_device *d, const matmul_buffers *m, bool hangs) {
    presil_device_info info = {.size = sizeof info};
    presil_list *list = NULL, *out = NULL;
    uint64_t size = 0;
    EXPECT_OK(presil_device_get_info(d, &info));
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(matmul_enqueue(d, NULL, m));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    EXPECT_OK(presil_list_save(list, info.memory_base, NULL, &size));
    uint8_t *bytes = malloc(size);
    EXPECT_OK(presil_list_save(list, info.memory_base, bytes, &size));
    presil_desc last;
    memcpy(&last, bytes + size - sizeof last, sizeof last);
    if (hangs)
        presil_desc_wait_set(&last, presil_desc_wait(&last) | 1u << 8);
    else
        presil_desc_isa_set(&last, PRESIL_ISA_VERSION + 1);
    memcpy(bytes + size - sizeof last, &last, sizeof last);
    EXPECT_OK(presil_list_load_refused(d, bytes, size, info.memory_base, info.memory_bytes, &out));
    presil_list_destroy(list);
    free(bytes);
    return out;
}

static void enqueue_all(presil_device *d, const matmul_buffers *m) {
    presil_matmul_desc desc = matmul_desc(m);
    const presil_tensor residual = desc.out;
    EXPECT_OK(matmul_enqueue(d, NULL, m));
    desc.epilogue.residual = &residual;
    desc.label = "in place";
    EXPECT_OK(presil_matmul(d, NULL, &desc));
    EXPECT_OK(presil_copy_on_device(d, NULL, m->a, m->b, 64, PRESIL_COPY_DMA));
    EXPECT_OK(presil_device_synchronize(d));
    EXPECT_OK(presil_device_set_mode(d, PRESIL_MODE_RTL));
    for (int hangs = 0; hangs < 2; hangs++) {
        presil_list *list = damaged(d, m, hangs);
        if (hangs) EXPECT_OK(presil_inject(d, "hang")); /* the soft transport has no clock to find that out with */
        EXPECT_OK(presil_list_submit(list, NULL));
        EXPECT_STATUS(presil_device_synchronize(d), hangs ? PRESIL_EHUNG : PRESIL_EDESC);
        presil_list_destroy(list);
    }
}

static void silent(void *context, const char *text) { (void)context, (void)text; }

static int setup(void **state) {
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(bench, sizeof bench, "%s/sv", folder);
    char path[64], error[256];
    (void)snprintf(path, sizeof path, "%s/model.presil", folder);
    const presil_device_options options = {.size = sizeof options,
                                           .mode = PRESIL_MODE_VERIFY,
                                           .config = "tiny",
                                           .build = "soft",
                                           .memory_bytes = DEVICE_BYTES,
                                           .hang_cycles = 20000};
    presil_device *d = NULL;
    presil_bundle_capture *c = NULL;
    presil_set_log(silent, NULL);
    EXPECT_OK(presil_device_open(&options, &d));
    matmul_buffers m = matmul_alloc(d, 3);
    const presil_bundle_capture_options all = {.size = sizeof all};
    EXPECT_OK(presil_bundle_capture_open(d, path, &all, &c, error, sizeof error));
    enqueue_all(d, &m);
    EXPECT_OK(presil_bundle_capture_close(c, NULL, error, sizeof error));
    matmul_free(d, m);
    presil_device_close(d);
    uint64_t bytes;
    uint8_t *file = fixture_load(path, &bytes);
    bend_take_apart(&model, file, bytes);
    free(file);
    EXPECT_OK(unlink(path));
    bent = (made_file){.at = malloc(MEBIBYTE), .capacity = MEBIBYTE};
    nowhere = fopen("/dev/null", "w");
    usual_output = stdout, usual_errors = stderr;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    bend_forget(&model);
    free(bent.at);
    if (nowhere) (void)fclose(nowhere);
    return rmdir(folder);
}

/* ---- one file */
typedef struct {
    arguments a;
    replay r;
    uint32_t runs; /* of each launch, about: --bisect and --minimize run it again and again */
} session;         /* keeps its device from file to file, as presil-replay does from launch to launch */

static void begin(session *s, const char *mode_name, uint32_t mode) {
    *s = (session){.a = {.file = "bent.presil", .mode = mode, .mode_name = mode_name, .build = "soft"}, .runs = 1};
    s->a.tries = MINIMIZE_TRIES;
    s->a.seconds = MINIMIZE_SECONDS;
    s->r.a = &s->a;
}

static void hush(bool quiet) {
    stdout = quiet ? nowhere : usual_output;
    stderr = quiet ? nowhere : usual_errors;
}

/* What is done with each launch of the file; how many could be judged. */
typedef int (*deed)(session *s, uint64_t place, replayed *out);

static uint64_t each_launch(session *s, const uint8_t *bytes, uint64_t count, deed act) {
    const presil_bundle_read_options limits = {
        .size = sizeof limits, .record_bytes = RECORD_LIMIT, .total_bytes = 4 * RECORD_LIMIT, .records = 4096};
    static replayed out[16];
    presil_bundle_summary summary = {.size = sizeof summary};
    uint64_t judged = 0;
    if (bundle_open_bytes(bytes, count, &limits, &s->r.reader)) return 0;
    EXPECT_BUNDLE(presil_bundle_get_summary(s->r.reader, &summary));
    for (uint64_t i = 0; i < summary.launches && i < 16; i++) judged += !act(s, i, &out[i]);
    presil_bundle_reader_close(s->r.reader);
    return judged;
}

static uint64_t within_budget(const char *what, session *s, deed act) {
    uint8_t *exact = malloc(bent.count); /* so that a sanitizer sees its end */
    memcpy(exact, bent.at, bent.count);
    hush(true);
    fuzz_budget(what, s->runs * seconds_for(bent.count), 16 * MEBIBYTE);
    const uint64_t judged = each_launch(s, exact, bent.count, act);
    fuzz_within_budget();
    hush(false);
    free(exact);
    return judged;
}

/* share: one of so many of PRESIL_FUZZ_CASES, since some take longer. */
static void fuzz(const char *name, uint64_t share, session *s, deed act) {
    const uint64_t cases = fuzz_begin(name, 4000) / share;
    const bool once = getenv("PRESIL_SOFT_FAULT") != NULL; /* a fault that a device has once */
    uint64_t judged = 0, launches = 0;
    for (uint64_t i = 0; i < cases; i++) {
        const bool chip = model.records[bend_make(&model, &bent)].type == PRESIL_BUNDLE_CHIP;
        if (chip || once) replay_close_chip(&s->r); /* else the one before would stand for it */
        judged += within_budget(name, s, act);
        if (chip) replay_close_chip(&s->r);
        fuzz_progress(i + 1);
    }
    for (uint32_t i = 0; i < model.count; i++) launches += model.records[i].type == PRESIL_BUNDLE_LAUNCH;
    replay_close_chip(&s->r);
    (void)printf("%s: %llu files, %llu launches of them ran\n", name, (unsigned long long)cases,
                 (unsigned long long)judged);
    /* some bends are harmless, most are not */
    if (cases >= 1000) assert_in_range(judged, cases / 10, cases * launches - cases / 4);
    fuzz_end();
}

/* ---- what presil-replay does */
static int once_more(session *s, uint64_t place, replayed *out) {
    const int status = replay_launch(&s->r, place, out);
    if (!status) print_launch(out);
    if (!status && fuzz_below(16) == 0) {
        s->a.json = s->a.junit = "/dev/null";
        if (write_json(&s->r, out, 1, 0) || write_junit(&s->r, out, 1)) fail_msg("no report of launch %d", (int)place);
    }
    return status;
}

static void on_the_model(void **state) {
    (void)state;
    session s;
    begin(&s, "model", PRESIL_MODE_MODEL);
    fuzz("test_fuzz_replay: model", 1, &s, once_more);
}

static void on_both(void **state) {
    (void)state;
    session s;
    begin(&s, "verify", PRESIL_MODE_VERIFY);
    fuzz("test_fuzz_replay: verify", 10, &s, once_more);
}

static int look_for_the_command(session *s, uint64_t place, replayed *out) {
    (void)out;
    const int status = replay_bisect(&s->r, place);
    return status != EXIT_PASS && status != EXIT_MISMATCH && status != EXIT_HUNG;
}

static void bisected(void **state) {
    (void)state;
    session s;
    begin(&s, "verify", PRESIL_MODE_VERIFY);
    s.a.bisect = true;
    s.runs = 10;
    fuzz("test_fuzz_replay: --bisect", 100, &s, look_for_the_command);
}

static int make_smaller(session *s, uint64_t place, replayed *out) {
    (void)out;
    const int status = replay_minimize(&s->r, place);
    (void)unlink(s->a.minimize);
    return status;
}

static void minimized(void **state) {
    (void)state;
    session s;
    char out[64];
    (void)snprintf(out, sizeof out, "%s/small.presil", folder);
    begin(&s, "verify", PRESIL_MODE_VERIFY);
    s.a.minimize = out;
    s.runs = 500;
    EXPECT_OK(setenv("PRESIL_SOFT_FAULT", "slverr", 1));
    fuzz("test_fuzz_replay: --minimize", 200, &s, make_smaller);
    EXPECT_OK(unsetenv("PRESIL_SOFT_FAULT"));
}

/* ---- a testbench */
static const char *const files[] = {"testbench.sv", "Makefile",      "before.hex", "after.hex",
                                    "pages.hex",    "registers.hex", "rtl.f"};
enum { FILES = sizeof files / sizeof *files };

/* How many entries a folder has, and whether a file of ours is among them. */
static unsigned entries(const char *path, const char *expected) {
    DIR *at = opendir(path);
    unsigned count = 0;
    bool found = false;
    assert_non_null(at);
    for (struct dirent *e; (e = readdir(at));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        count++;
        found |= !strcmp(e->d_name, expected);
    }
    (void)closedir(at);
    assert_true(!count || found);
    return count;
}

static uint64_t lines_of(const char *path) {
    uint64_t lines = 0;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (int c; (c = fgetc(f)) != EOF;) {
        if (c != '\n' && (c < ' ' || c > '~')) fail_msg("%s has a byte %d", path, c);
        lines += c == '\n';
    }
    (void)fclose(f);
    return lines;
}

static uint64_t bench_lines;

/* Of the folder all is removed again, so whatever is left has been written by another name. */
static int testbench(session *s, uint64_t place, replayed *out) {
    (void)out;
    char path[128];
    const int status = replay_export_sv(&s->r, place);
    if (access(bench, F_OK)) return status;
    (void)entries(folder, "sv");
    assert_int_equal(entries(folder, "sv"), 1);
    assert_true(status || entries(bench, files[0]) == FILES);
    for (unsigned i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", bench, files[i]);
        if (!status && i == 0) {
            const uint64_t lines = lines_of(path);
            if (!bench_lines) bench_lines = lines;
            assert_int_equal(lines, bench_lines); /* no text of the file has begun a line */
        }
        (void)unlink(path);
    }
    assert_int_equal(entries(bench, ""), 0);
    assert_int_equal(rmdir(bench), 0);
    return status;
}

static void exported(void **state) {
    (void)state;
    session s;
    begin(&s, "model", PRESIL_MODE_MODEL);
    s.a.export_sv = bench;
    s.a.top = "presil_top";
    fuzz("test_fuzz_replay: --export-sv", 50, &s, testbench);
    assert_true(bench_lines > 100);
}

/* ---- what the fuzzer has found, and what it is too small for */
/* Of the first launch: a field's value. */
static uint8_t *launch_field(uint16_t tag) {
    for (uint32_t i = 0; i < model.count; i++) {
        if (model.records[i].type != PRESIL_BUNDLE_LAUNCH) continue;
        for (uint8_t *at = model.records[i].raw;;) {
            bundle_field_header h;
            memcpy(&h, at, sizeof h);
            if (h.tag == tag) return at + sizeof h;
            at += sizeof h + BUNDLE_PADDED(h.bytes);
        }
    }
    fail_msg("no launch");
    return NULL;
}

/* 32 GiB were asked for. */
static void a_length_that_no_block_has(void **state) {
    (void)state;
    session s;
    uint64_t right;
    uint8_t *at = launch_field(5) + 16; /* commands: hash, length */
    begin(&s, "model", PRESIL_MODE_MODEL);
    (void)fuzz_begin("test_fuzz_replay: commands of 32 GiB", 0);
    bend_nothing(&model, &bent);
    assert_int_equal(within_budget("nothing is bent", &s, once_more), 5);
    memcpy(&right, at, 8);
    memcpy(at, &(uint64_t){1ull << 35}, 8);
    bend_nothing(&model, &bent);
    memcpy(at, &right, 8);
    assert_int_equal(within_budget("commands of 32 GiB", &s, once_more), 4);
    replay_close_chip(&s.r);
    fuzz_end();
}

/* It was compared with whatever lies there. */
static void expected_outside_of_memory(void **state) {
    (void)state;
    session s;
    uint64_t right;
    uint8_t *at = launch_field(21) + 16; /* expected: ranges, pieces, the first address */
    begin(&s, "model", PRESIL_MODE_MODEL);
    (void)fuzz_begin("test_fuzz_replay: expected elsewhere", 0);
    memcpy(&right, at, 8);
    for (int behind = 0; behind < 2; behind++) {
        memcpy(at, &(uint64_t){behind ? 1ull << 46 : 4096}, 8);
        bend_nothing(&model, &bent);
        memcpy(at, &right, 8);
        assert_int_equal(within_budget("expected elsewhere", &s, once_more), 4);
    }
    replay_close_chip(&s.r);
    fuzz_end();
}

/* Tokens of an engine that the chip has not were counted behind the end of an array. */
static void commands_of_no_engine(void **state) {
    (void)state;
    const presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_MODEL, .config = "tiny", .memory_bytes = DEVICE_BYTES};
    presil_device_info info = {.size = sizeof info};
    presil_device *d = NULL;
    presil_list *list = NULL, *part = NULL;
    uint64_t size = 0;
    EXPECT_OK(presil_device_open(&options, &d));
    EXPECT_OK(presil_device_get_info(d, &info));
    matmul_buffers m = matmul_alloc(d, 3);
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    EXPECT_OK(presil_list_save(list, info.memory_base, NULL, &size));
    uint8_t *bytes = malloc(size);
    EXPECT_OK(presil_list_save(list, info.memory_base, bytes, &size));
    presil_list_destroy(list);
    presil_desc last;
    memcpy(&last, bytes + size - sizeof last, sizeof last);
    presil_desc_opcode_set(&last, 15), presil_desc_signal_set(&last, 15);
    memcpy(bytes + size - sizeof last, &last, sizeof last);
    EXPECT_OK(presil_list_load_refused(d, bytes, size, info.memory_base, info.memory_bytes, &list));
    uint64_t commands;
    EXPECT_OK(presil_list_commands(list, &commands));
    EXPECT_OK(presil_list_prefix(list, commands, NULL, &part));
    presil_list_destroy(part);
    presil_list_destroy(list);
    free(bytes);
    matmul_free(d, m);
    presil_device_close(d);
}

static int zeros(void *context, presil_daddr address, void *to, uint64_t bytes) {
    (void)context, (void)address;
    memset(to, 0, bytes);
    return PRESIL_OK;
}

/* A byte of each of many pages: a search of all of them for each took minutes for a file of a megabyte. */
static void a_testbench_of_many_pages(void **state) {
    (void)state;
    enum { PAGES = 20000, PAGE = 4096 };
    char path[64];
    session s;
    presil_bundle_writer *w = NULL;
    presil_bundle_group *g = NULL;
    const presil_bundle_chip *chip = NULL;
    const presil_bundle_launch *good = NULL;
    (void)snprintf(path, sizeof path, "%s/pages.presil", folder);
    (void)fuzz_begin("test_fuzz_replay: pages", 0);
    begin(&s, "model", PRESIL_MODE_MODEL);
    bend_nothing(&model, &bent);
    EXPECT_BUNDLE(bundle_open_bytes(bent.at, bent.count, NULL, &s.r.reader));
    EXPECT_BUNDLE(presil_bundle_get_chip(s.r.reader, 0, &chip));
    EXPECT_BUNDLE(presil_bundle_get_launch(s.r.reader, 0, &good));
    uint8_t *commands = malloc(good->commands.bytes);
    presil_bundle_range *ranges = calloc(PAGES, sizeof *ranges);
    for (uint64_t i = 0; i < PAGES; i++) ranges[i] = (presil_bundle_range){{chip->memory_base.value + i * PAGE}, 1};
    EXPECT_BUNDLE(presil_bundle_get_block(s.r.reader, &good->commands, commands));
    EXPECT_BUNDLE(presil_bundle_create(path, NULL, &w));
    EXPECT_BUNDLE(presil_bundle_put_chip(w, chip, NULL));
    EXPECT_BUNDLE(presil_bundle_begin(w, &g));
    presil_bundle_launch launch = *good;
    const presil_bundle_source source = {.read = zeros};
    EXPECT_BUNDLE(presil_bundle_put_block(g, commands, good->commands.bytes, &launch.commands));
    EXPECT_BUNDLE(presil_bundle_put_memory(g, &source, ranges, PAGES, &launch.reads));
    launch.expected = launch.reads;
    EXPECT_BUNDLE(presil_bundle_put_launch(g, &launch));
    EXPECT_BUNDLE(presil_bundle_commit(g));
    EXPECT_BUNDLE(presil_bundle_close(w));
    presil_bundle_reader_close(s.r.reader);
    EXPECT_BUNDLE(presil_bundle_open(path, NULL, &s.r.reader));
    s.a.export_sv = "/dev/null/here"; /* its files are not what is looked at */
    s.a.top = "presil_top";
    hush(true);
    fuzz_budget("a byte of each of 20,000 pages", 2, 1024 * MEBIBYTE);
    const int status = replay_export_sv(&s.r, 0);
    fuzz_within_budget();
    hush(false);
    assert_int_equal(status, EXIT_USAGE);
    replay_close_chip(&s.r);
    presil_bundle_reader_close(s.r.reader);
    presil_bundle_free(chip);
    presil_bundle_free(good);
    free(commands);
    free(ranges);
    EXPECT_OK(unlink(path));
    fuzz_end();
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_the_model),
                                       cmocka_unit_test(on_both),
                                       cmocka_unit_test(bisected),
                                       cmocka_unit_test(minimized),
                                       cmocka_unit_test(exported),
                                       cmocka_unit_test(a_length_that_no_block_has),
                                       cmocka_unit_test(expected_outside_of_memory),
                                       cmocka_unit_test(commands_of_no_engine),
                                       cmocka_unit_test(a_testbench_of_many_pages)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
