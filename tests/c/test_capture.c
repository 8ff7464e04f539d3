/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches as bundles, and bundles as launches: what is kept is what ran, and presil-replay runs it again: same bits,
 * same cycles, at the original addresses; and says so where they are not the same. On the soft transport, and on the
 * RTL of configuration tiny (PRESIL_TINY_LIBRARY).
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "core_fixture.h"
#include "presil_bundle_capture.h"
#include "presil_debug.h"
#include "presil_desc.h"
#include "presil_image.h"

static char folder[] = "/tmp/presil-capture-XXXXXX", path[128];
static char output[1 << 16];

static int make_folder(void **state) {
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) {
    (void)state;
    char command[160];
    (void)snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *in_folder(const char *name) {
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

/* Runs presil-replay; its output is kept. */
static int replay_file(const char *file, const char *options) {
    char command[512];
    (void)snprintf(command, sizeof command, "%s %s %s 2>&1", getenv("PRESIL_REPLAY"), file, options);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    output[fread(output, 1, sizeof output - 1, f)] = 0;
    const int status = pclose(f);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void expect_replay(const char *file, const char *options, int want, const char *text) {
    const int found = replay_file(file, options);
    if (found != want || !strstr(output, text))
        fail_msg("presil-replay %s %s: status %d, %d expected, with \"%s\":\n%s", file, options, found, want, text,
                 output);
}

static presil_bundle_capture *begin(presil_device *d, const char *file, presil_bundle_capture_options options) {
    presil_bundle_capture *c = NULL;
    char error[512] = "";
    options.size = sizeof options;
    const int status = presil_bundle_capture_open(d, file, &options, &c, error, sizeof error);
    if (status) fail_msg("capture: %s", error);
    return c;
}

static void finish(presil_bundle_capture *c, uint64_t want) {
    char error[512] = "";
    uint64_t count = 0;
    const int status = presil_bundle_capture_close(c, &count, error, sizeof error);
    if (status) fail_msg("close: %s", error);
    assert_int_equal(count, want);
}

static presil_bundle_reader *open_file(const char *file, uint64_t launches) {
    presil_bundle_reader *r = NULL;
    presil_bundle_summary s = {.size = sizeof s};
    const presil_bundle_read_options options = {.size = sizeof options, .verify = 1};
    if (presil_bundle_open(file, &options, &r)) fail_msg("%s: %s", file, presil_bundle_error_text());
    assert_int_equal(presil_bundle_get_summary(r, &s), 0);
    assert_int_equal(s.torn, 0);
    assert_int_equal(s.launches, launches);
    return r;
}

static const presil_bundle_launch *get_launch(presil_bundle_reader *r, uint64_t number) {
    const presil_bundle_launch *l = NULL;
    assert_int_equal(presil_bundle_get_launch(r, number, &l), 0);
    return l;
}

static void origin_of(void *context, const presil_capture_launch *launch, presil_bundle_label_fn add, void *to) {
    char text[32];
    (void)snprintf(text, sizeof text, "layer%llu.conv", (unsigned long long)launch->launch);
    add(to, "module", text);
    add(to, "from", context);
}

/* out = a·b + out: reads what it overwrites. */
static int enqueue_in_place(presil_device *d, const matmul_buffers *m, const char *label) {
    presil_matmul_desc desc = matmul_desc(m);
    const presil_tensor residual = desc.out;
    desc.epilogue.residual = &residual;
    desc.label = label;
    return presil_matmul(d, NULL, &desc);
}

static void zero_out(presil_device *d, const matmul_buffers *m) {
    static const float zero[MATMUL_N * MATMUL_N];
    EXPECT_OK(presil_copy_to_device(d, NULL, m->out, zero, sizeof zero, PRESIL_COPY_DIRECT));
}

static void chain_of(presil_mode mode, const char *build, const char *file) {
    presil_device *d = open_device(mode, build);
    matmul_buffers m = matmul_alloc(d, 3);
    zero_out(d, &m);
    presil_bundle_capture *c =
        begin(d, file, (presil_bundle_capture_options){.describe = origin_of, .context = "here"});
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    for (int i = 0; i < 3; i++)
        EXPECT_OK(enqueue_in_place(d, &m, "in place")); /* each reads what the one before wrote */
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    finish(c, 5);
    matmul_free(d, m);
    presil_device_close(d);
}

static void kept_as_it_ran(void **state) {
    (void)state;
    char file[128];
    (void)snprintf(file, sizeof file, "%s", in_folder("chain.presil"));
    chain_of(PRESIL_MODE_VERIFY, "soft", file);
    presil_bundle_reader *r = open_file(file, 5);
    const presil_bundle_chip *chip = NULL;
    assert_int_equal(presil_bundle_get_chip(r, 0, &chip), 0);
    assert_string_equal(chip->chip, "presil");
    assert_string_equal(chip->config, "tiny");
    assert_string_equal(chip->build, "soft");
    assert_string_equal(chip->engines[1], "matrix");
    assert_int_equal(chip->hang_cycles, 200000);
    presil_bundle_free(chip);
    const presil_bundle_launch *l = get_launch(r, 1);
    assert_string_equal(l->label, "in place");
    assert_string_equal(l->labels[0].value, "layer1.conv");
    assert_string_equal(l->labels[1].value, "here");
    assert_int_equal(l->tensor_count, 4);
    assert_string_equal(l->tensors[0].dtype, "float32");
    char where[64];
    presil_bundle_coordinate(l, (presil_daddr){l->tensors[0].data.value + 4 * (2 * MATMUL_N + 3)}, where, sizeof where);
    assert_string_equal(where, "output [0, 2, 3], byte 0");
    assert_int_equal(l->expected->bytes, 4 * MATMUL_N * MATMUL_N);
    assert_true(l->commands.bytes > 0);
    presil_bundle_free(l);
    const presil_bundle_result *result = NULL;
    assert_int_equal(presil_bundle_get_result(r, 1, &result), 0);
    assert_int_equal(result->verified, 1);
    assert_true(result->cycles > 0);
    assert_int_equal(result->stray_count + result->missing_count, 0);
    presil_bundle_free(result);
    presil_bundle_reader_close(r);
    expect_replay(file, "--mode model", 0, "5 of 5 launches as recorded");
    expect_replay(file, "--build soft", 0, "5 of 5 launches as recorded");
    expect_replay(file, "--build soft --mode verify --launches 1:3", 0, "2 of 2 launches as recorded");
}

static void chosen_launches(void **state) {
    (void)state;
    static const struct {
        presil_bundle_capture_options options;
        unsigned first, count;
    } cases[] = {{{.first = 2}, 2, 4},
                 {{.first = 1, .launches = 3}, 1, 3},
                 {{.last = 2}, 4, 2},
                 {{.labels = "^in place$"}, 3, 3},
                 {{.labels = "layer[12]\\.", .describe = origin_of, .context = ""}, 1, 2},
                 {{.labels = "nothing"}, 0, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        presil_device *d = open_device(PRESIL_MODE_RTL, "soft");
        matmul_buffers m = matmul_alloc(d, 3);
        zero_out(d, &m);
        presil_bundle_capture_options options = cases[i].options;
        options.overwrite = 1;
        presil_bundle_capture *c = begin(d, in_folder("chosen.presil"), options);
        for (unsigned k = 0; k < 6; k++)
            EXPECT_OK(k < 3 ? matmul_enqueue(d, NULL, &m) : enqueue_in_place(d, &m, "in place"));
        EXPECT_OK(presil_device_synchronize(d));
        finish(c, options.last ? 6 : cases[i].count);
        presil_bundle_reader *r = open_file(path, cases[i].count);
        for (unsigned k = 0; k < cases[i].count; k++) {
            const presil_bundle_launch *l = get_launch(r, k);
            assert_int_equal(l->launch, cases[i].first + k);
            presil_bundle_free(l);
        }
        presil_bundle_reader_close(r);
        if (cases[i].count) expect_replay(path, "--build soft", 0, "as recorded");
        matmul_free(d, m);
        presil_device_close(d);
    }
    presil_device *d = open_device(PRESIL_MODE_MODEL, "soft");
    presil_bundle_capture *c = NULL;
    char error[256];
    const presil_bundle_capture_options bad = {.size = sizeof bad, .labels = "("};
    EXPECT_STATUS(presil_bundle_capture_open(d, in_folder("bad.presil"), &bad, &c, error, sizeof error), PRESIL_EINVAL);
    assert_non_null(strstr(error, "regular expression"));
    EXPECT_STATUS(presil_bundle_capture_open(d, "/proc/no/such.presil", NULL, &c, error, sizeof error), PRESIL_EIO);
    c = begin(d, in_folder("one.presil"), (presil_bundle_capture_options){0});
    presil_bundle_capture *two = NULL;
    EXPECT_STATUS(presil_bundle_capture_open(d, in_folder("two.presil"), NULL, &two, error, sizeof error),
                  PRESIL_EINVAL);
    assert_int_not_equal(access(path, F_OK), 0);
    finish(c, 0);
    presil_device_close(d);
}

static unsigned files_in(const char *directory, char *first, size_t bytes) {
    unsigned count = 0;
    DIR *at = opendir(directory);
    assert_non_null(at);
    for (struct dirent *e; (e = readdir(at));) {
        if (e->d_name[0] == '.') continue;
        if (!count++) (void)snprintf(first, bytes, "%s/%.100s", directory, e->d_name);
    }
    (void)closedir(at);
    return count;
}

/* Only the launch that failed leaves a file, which has what it read in place, and shows the failure again. */
static void failures(void **state) {
    (void)state;
    static const struct {
        const char *fault;
        presil_mode mode;
        int status, replayed;
        const char *text;
    } faults[] = {{"flip", PRESIL_MODE_VERIFY, PRESIL_EMISMATCH, 0, "EMISMATCH"},
                  {"stray", PRESIL_MODE_VERIFY, PRESIL_EMISMATCH, 0, "EMISMATCH"},
                  {"slverr", PRESIL_MODE_RTL, PRESIL_EBUS, 0, "EBUS"},
                  {"hang", PRESIL_MODE_RTL, PRESIL_EHUNG, 0, "EHUNG"},
                  {"fatal", PRESIL_MODE_VERIFY, PRESIL_ESTOPPED, 0, "ESTOPPED"}};
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        for (int map = 0; map < 2; map++) {
            char directory[128], file[256], text[64], error[256];
            (void)snprintf(directory, sizeof directory, "%s/failures-%zu-%d", folder, i, map);
            presil_device *d = open_device(faults[i].mode, map ? "soft" : "nomap");
            EXPECT_OK(presil_device_start(d));
            matmul_buffers m = matmul_alloc(d, 3);
            presil_daddr far_away;
            EXPECT_OK(presil_alloc(d, NULL, NULL, 4096, &far_away));
            zero_out(d, &m);
            presil_bundle_capture *c = NULL;
            const presil_bundle_capture_options options = {
                .size = sizeof options, .describe = origin_of, .context = ""};
            EXPECT_OK(presil_bundle_capture_failures(d, directory, &options, &c, error, sizeof error));
            EXPECT_OK(enqueue_in_place(d, &m, "good"));
            EXPECT_OK(presil_device_synchronize(d));
            assert_int_equal(files_in(directory, file, sizeof file), 0);
            const uint64_t where = strcmp(faults[i].fault, "stray") ? m.out.value + 4 : far_away.value;
            (void)snprintf(text, sizeof text, "%s@0x%llx", faults[i].fault, (unsigned long long)where);
            EXPECT_OK(presil_inject(d, text));
            EXPECT_OK(enqueue_in_place(d, &m, "bad/one"));
            EXPECT_STATUS(presil_device_synchronize(d), faults[i].status);
            assert_int_equal(files_in(directory, file, sizeof file), 1);
            EXPECT_TEXT(file);
            assert_non_null(strstr(file, "bad-one-1-"));
            presil_bundle_reader *r = open_file(file, 1);
            const presil_bundle_result *result = NULL;
            assert_int_equal(presil_bundle_get_result(r, 0, &result), 0);
            assert_int_equal(result->status, faults[i].status);
            assert_int_equal(result->difference.present, faults[i].status == PRESIL_EMISMATCH);
            if (result->difference.present) assert_int_equal(result->difference.address.value, where);
            assert_int_equal(result->stray_count, !strcmp(faults[i].fault, "stray"));
            presil_bundle_free(result);
            presil_bundle_reader_close(r);
            finish(c, 1);
            /* The fault was injected, and is not in the commands: they run, and write what the model expected. */
            expect_replay(file, "--build soft", faults[i].replayed, faults[i].text);
            EXPECT_OK(presil_free(d, far_away));
            matmul_free(d, m);
            presil_device_close(d);
        }
    }
}

/* A bundle whose expectation is wrong by one bit: found, and said where. */
static void a_difference_is_found(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, "soft");
    matmul_buffers m = matmul_alloc(d, 3);
    presil_bundle_capture *c = begin(d, in_folder("wrong.presil"), (presil_bundle_capture_options){0});
    char text[64];
    (void)snprintf(text, sizeof text, "flip@0x%llx", (unsigned long long)m.out.value + 4 * (5 * MATMUL_N + 6));
    EXPECT_OK(presil_inject(d, text)); /* the recorded result has the wrong bit */
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_device_synchronize(d));
    finish(c, 1);
    expect_replay(path, "--build soft", 1, "output [0, 5, 6], byte 0, tile ");
    assert_non_null(strstr(output, "1 bytes differ"));
    assert_non_null(strstr(output, "written in cycle "));
    char json[128], options[256];
    (void)snprintf(json, sizeof json, "%s/wrong.json", folder);
    (void)snprintf(options, sizeof options, "--build soft --json %s", json);
    expect_replay(path, options, 1, "mismatch");
    FILE *f = fopen(json, "r");
    assert_non_null(f);
    output[fread(output, 1, sizeof output - 1, f)] = 0;
    (void)fclose(f);
    assert_non_null(strstr(output, "\"bits_equal\": false"));
    assert_non_null(strstr(output, "\"exit\": 1"));
    matmul_free(d, m);
    presil_device_close(d);
}

/* What is not as recorded, by its exit status; the first launch of the process has the fault. */
static void outcomes(void **state) {
    (void)state;
    static const struct {
        const char *variable, *value, *options, *text;
        int status;
    } cases[] = {{"PRESIL_SOFT_SLOWER", "1", "", "cycles changed", 5},
                 {"PRESIL_SOFT_FAULT", "hang", "--launches 1", "hung", 3},
                 {"PRESIL_SOFT_FAULT", "slverr", "--launches 1:", "3 of 4 launches as recorded", 1},
                 {"PRESIL_SOFT_FAULT", "fatal", "", "4 of 5 launches as recorded", 1},
                 {"PRESIL_SOFT_FAULT", "flip@0x100902004", "--launches 0", "output [0, 0, 1], byte 0, tile 0", 1},
                 {"PRESIL_SOFT_FAULT", "flip@0x100902004", "--launches 0 --mode verify", "EMISMATCH", 1},
                 {"PRESIL_SOFT_FAULT", "stray@0x100a00000", "--launches 0", "a stray write", 1},
                 {"PRESIL_SOFT_FAULT", "skip", "--launches 0", "bytes were written that should not be", 1}};
    char file[128], options[128];
    (void)snprintf(file, sizeof file, "%s", in_folder("chain.presil"));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(setenv(cases[i].variable, cases[i].value, 1), 0);
        (void)snprintf(options, sizeof options, "--build soft %s", cases[i].options);
        expect_replay(file, options, cases[i].status, strcmp(cases[i].text, "EMISMATCH") ? cases[i].text : "differ");
        assert_int_equal(unsetenv(cases[i].variable), 0);
    }
    expect_replay(file, "--build soft", 0, "5 of 5 launches as recorded");
}

static void wrong_calls(void **state) {
    (void)state;
    char file[128];
    (void)snprintf(file, sizeof file, "%s", in_folder("chain.presil"));
    expect_replay(file, "--mode fast", 2, "rtl, model or verify expected");
    expect_replay(file, "--launches 9:", 2, "none is chosen");
    expect_replay(file, "--launches x", 2, "A:B expected");
    expect_replay(file, "--window 1:2", 2, "--trace");
    expect_replay(file, "--library /no/such.so", 2, "/no/such.so");
    expect_replay("/no/such.presil", "", 2, "No such file");
    char *places = strdup(getenv("PRESIL_LIBRARY_PATH"));
    assert_int_equal(setenv("PRESIL_LIBRARY_PATH", "/no/such/folder", 1), 0);
    expect_replay(file, "--build soft", 2, "build it (cmake target presil_sim_tiny_soft)");
    assert_non_null(strstr(output, "or name one: --library SO"));
    assert_int_equal(setenv("PRESIL_LIBRARY_PATH", places, 1), 0);
    free(places);
    expect_replay(folder, "", 2, folder);
}

/* On the RTL: the same bits in the same cycles, in another process, with two memory models. */
static void same_cycles_on_the_rtl(void **state) {
    (void)state;
    static const char *const models[] = {NULL, "latency=33,bytes=16,stall=0.1"};
    if (!getenv("PRESIL_TINY_LIBRARY")) skip();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        const presil_device_options options = {.size = sizeof options,
                                               .mode = i ? PRESIL_MODE_RTL : PRESIL_MODE_VERIFY,
                                               .config = "tiny",
                                               .library = getenv("PRESIL_TINY_LIBRARY"),
                                               .memory_bytes = 64u << 20,
                                               .memory_model = models[i],
                                               .seed = 5 + i};
        presil_device *d = NULL;
        EXPECT_OK(presil_device_open(&options, &d));
        matmul_buffers m = matmul_alloc(d, 3), n = matmul_alloc(d, 4);
        zero_out(d, &m);
        presil_bundle_capture *c = begin(d, in_folder("rtl.presil"), (presil_bundle_capture_options){.overwrite = 1});
        EXPECT_OK(matmul_enqueue(d, NULL, &n));
        for (int k = 0; k < 2; k++) EXPECT_OK(enqueue_in_place(d, &m, "in place"));
        EXPECT_OK(presil_copy_on_device(d, NULL, n.a, m.out, 256, PRESIL_COPY_DMA));
        EXPECT_OK(presil_device_synchronize(d));
        finish(c, 4);
        char library[256];
        (void)snprintf(library, sizeof library, "--library %s", getenv("PRESIL_TINY_LIBRARY"));
        expect_replay(path, library, 0, "4 of 4 launches as recorded");
        assert_non_null(strstr(output, "RTL as recorded"));
        expect_replay(path, "--mode model", 0, "4 of 4");
        /* other cycles are no other bits, and are not compared where the memory is another */
        (void)snprintf(library, sizeof library, "--library %s --memory latency=7", getenv("PRESIL_TINY_LIBRARY"));
        expect_replay(path, library, 0, "4 of 4");
        matmul_free(d, m);
        matmul_free(d, n);
        presil_device_close(d);
    }
}

/* Commands of a product of matrices, the last of them (a STORE) bent: of another version, or waiting for nobody. */
static presil_list *bent(presil_device *d, const matmul_buffers *m, bool waits) {
    presil_device_info info = {.size = sizeof info};
    presil_list *list = NULL, *out = NULL;
    uint64_t size = 0;
    EXPECT_OK(presil_device_get_info(d, &info));
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(matmul_enqueue(d, NULL, m));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    EXPECT_OK(presil_list_save(list, info.memory_base, NULL, &size));
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    EXPECT_OK(presil_list_save(list, info.memory_base, bytes, &size));
    presil_desc last;
    memcpy(&last, bytes + size - sizeof last, sizeof last);
    assert_int_equal(presil_desc_opcode(&last), PRESIL_OPCODE_STORE);
    if (waits)
        presil_desc_wait_set(&last, presil_desc_wait(&last) | 1u << 8);
    else
        presil_desc_isa_set(&last, PRESIL_ISA_VERSION + 1);
    memcpy(bytes + size - sizeof last, &last, sizeof last);
    EXPECT_STATUS(presil_list_load(d, bytes, size, info.memory_base, info.memory_bytes, &out), PRESIL_EINVAL);
    EXPECT_TEXT("the commands are damaged");
    EXPECT_OK(presil_list_load_refused(d, bytes, size, info.memory_base, info.memory_bytes, &out));
    presil_list_destroy(list);
    free(bytes);
    return out;
}

/* What the chip refused, or hung in, it does again, in another process. */
static void refused_launches(void **state) {
    (void)state;
    static const struct {
        bool rtl, waits;
        int status, replayed;
        const char *text;
    } cases[] = {{false, false, PRESIL_EDESC, 1, "EDESC"},
                 {true, false, PRESIL_EDESC, 1, "EDESC"},
                 {true, true, PRESIL_EHUNG, 3, "EHUNG"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const bool rtl = cases[i].rtl;
        if (rtl && !getenv("PRESIL_TINY_LIBRARY")) continue;
        const presil_device_options options = {.size = sizeof options,
                                               .mode = PRESIL_MODE_RTL,
                                               .config = "tiny",
                                               .build = rtl ? NULL : "soft",
                                               .library = rtl ? getenv("PRESIL_TINY_LIBRARY") : NULL,
                                               .memory_bytes = 64u << 20,
                                               .hang_cycles = 20000};
        presil_device *d = NULL;
        EXPECT_OK(presil_device_open(&options, &d));
        matmul_buffers m = matmul_alloc(d, 3);
        presil_bundle_capture *c =
            begin(d, in_folder("refused.presil"), (presil_bundle_capture_options){.overwrite = 1});
        presil_list *list = bent(d, &m, cases[i].waits);
        EXPECT_OK(presil_list_submit(list, NULL));
        EXPECT_STATUS(presil_device_synchronize(d), cases[i].status);
        finish(c, 1);
        char how[256];
        (void)snprintf(how, sizeof how, rtl ? "--library %s" : "--build soft", getenv("PRESIL_TINY_LIBRARY"));
        expect_replay(path, how, cases[i].replayed, cases[i].text);
        assert_null(strstr(output, "the commands are damaged"));
        presil_list_destroy(list);
        matmul_free(d, m);
        presil_device_close(d);
    }
}

/* Operands of every dtype, in as many dimensions as there may be, are in the file. */
static void operands_of_any_kind(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint32_t bytes, bits;
    } dtypes[] = {{"int8", 1, 0},          {"bfloat16", 2, 0},    {"float32", 4, 0}, {"int32", 4, 0},
                  {"uint8", 1, 0},         {"int16", 2, 0},       {"float16", 2, 0}, {"int4", 0, 4},
                  {"float8_e4m3fn", 1, 0}, {"float8_e5m2", 1, 0}, {"int64", 8, 0}};
    const presil_attribute neg = {.name = "function", .text = "neg"};
    assert_int_equal(setenv("PRESIL_PAPER", "anything", 1), 0);
    const presil_device_options options = {.size = sizeof options,
                                           .mode = PRESIL_MODE_RTL,
                                           .config = "paper",
                                           .library = getenv("PRESIL_PAPER_LIBRARY"),
                                           .memory_bytes = 64u << 20};
    presil_device *d;
    presil_daddr at;
    EXPECT_OK(presil_device_open(&options, &d));
    EXPECT_OK(presil_alloc(d, NULL, NULL, 8192, &at));
    for (uint32_t dtype = 0; dtype < sizeof dtypes / sizeof *dtypes; dtype++) {
        presil_operand in = {.name = "input",
                             .data = at,
                             .dtype = dtype,
                             .ndim = 8,
                             .shape = {1, 2, 3, 1, 2, 1, 2, 1},
                             .stride = {24, 12, 4, 4, 2, 2, 1, 1}},
                       out = in;
        out.name = "output";
        out.data.value += 4096;
        const presil_op op = {.size = sizeof op,
                              .kind = PRESIL_OP_ELEMENTWISE,
                              .inputs = &in,
                              .outputs = &out,
                              .input_count = 1,
                              .output_count = 1,
                              .attributes = &neg,
                              .attribute_count = 1};
        presil_bundle_capture *c = begin(d, in_folder("kinds.presil"), (presil_bundle_capture_options){.overwrite = 1});
        EXPECT_OK(presil_op_enqueue(d, NULL, &op));
        finish(c, 1);
        presil_bundle_reader *r = open_file(path, 1);
        const presil_bundle_launch *l = get_launch(r, 0);
        assert_int_equal(l->tensor_count, 2);
        for (uint32_t i = 0; i < 2; i++) {
            const presil_bundle_tensor *t = &l->tensors[i];
            assert_string_equal(t->name, i ? "input" : "output");
            assert_string_equal(t->dtype, dtypes[dtype].name);
            assert_int_equal(t->element_bytes, dtypes[dtype].bytes);
            assert_int_equal(t->element_bits, dtypes[dtype].bits);
            assert_int_equal(t->written, i == 0);
            assert_int_equal(t->ndim, 8);
            assert_memory_equal(t->shape, in.shape, sizeof in.shape);
            assert_memory_equal(t->stride, in.stride, sizeof in.stride);
        }
        assert_string_equal(l->asked.kind, "elementwise");
        assert_string_equal(l->asked.inputs[0].dtype, dtypes[dtype].name);
        assert_string_equal(l->asked.attributes[0].text, "neg");
        char text[128];
        const uint64_t last = at.value + 4096 + presil_dtype_bits(dtype) * 24 / 8 - 1;
        presil_bundle_coordinate(l, (presil_daddr){last}, text, sizeof text);
        assert_non_null(strstr(text, "output [0, 1, 2, 0, 1, 0, "));
        assert_non_null(strstr(text, "[0, 1, 2, 0, 1, 0, 1, 0]"));
        presil_bundle_free(l);
        presil_bundle_reader_close(r);
    }
    EXPECT_OK(presil_free(d, at));
    presil_device_close(d);
}

/* In a folder of its own, where the dynamic one finds no libpresil. */
static void without_shared_libraries(void **state) {
    (void)state;
    char command[512], file[128], *usual = strdup(getenv("PRESIL_REPLAY"));
    (void)snprintf(file, sizeof file, "%s", in_folder("chain.presil"));
    (void)snprintf(command, sizeof command, "cp %s %s", getenv("PRESIL_REPLAY_STATIC"), in_folder("replay"));
    assert_int_equal(system(command), 0);
    assert_int_equal(setenv("PRESIL_REPLAY", path, 1), 0);
    expect_replay(file, "--build soft", 0, "5 of 5 launches as recorded");
    expect_replay(file, "--mode model", 0, "5 of 5 launches as recorded");
    assert_int_equal(setenv("PRESIL_REPLAY", usual, 1), 0);
    free(usual);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kept_as_it_ran),
        cmocka_unit_test(chosen_launches),
        cmocka_unit_test(failures),
        cmocka_unit_test(outcomes),
        cmocka_unit_test(wrong_calls),
        cmocka_unit_test(a_difference_is_found),
        cmocka_unit_test(same_cycles_on_the_rtl),
        cmocka_unit_test(refused_launches),
        cmocka_unit_test(operands_of_any_kind),

        cmocka_unit_test(without_shared_libraries),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
