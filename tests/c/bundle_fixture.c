/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "bundle_fixture.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

uint8_t fixture_memory[FIXTURE_BYTES];
const presil_bundle_source fixture_source = {.host = fixture_memory, .base = {FIXTURE_BASE}};

void expect_bundle(int found, int expected, const char *call) {
    if (found != expected)
        print_error("%s: %d expected, %d found: %s\n", call, expected, found, presil_bundle_error_text());
    assert_int_equal(found, expected);
}

void expect_bundle_text(const char *part) {
    if (!strstr(presil_bundle_error_text(), part))
        print_error("'%s' is not in: %s\n", part, presil_bundle_error_text());
    assert_non_null(strstr(presil_bundle_error_text(), part));
}

void fixture_fill(uint32_t seed) {
    uint64_t state = seed;
    for (size_t i = 0; i < FIXTURE_BYTES; i++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        fixture_memory[i] = (uint8_t)(state >> 60); /* can be compressed a little */
    }
}

/* ---- files */
static char directory[64];

const char *fixture_path(const char *name) {
    static char path[2][128];
    static int turn;
    if (!*directory) {
        (void)snprintf(directory, sizeof directory, "/tmp/presil-bundle-XXXXXX");
        assert_non_null(mkdtemp(directory));
    }
    turn ^= 1;
    (void)snprintf(path[turn], sizeof path[turn], "%s/%s", directory, name);
    return path[turn];
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where) {
    (void)about, (void)kind, (void)where;
    return remove(path);
}

void fixture_done(void) {
    if (*directory) (void)nftw(directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    *directory = 0;
}

uint8_t *fixture_load(const char *path, uint64_t *bytes) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *bytes = (uint64_t)ftell(f);
    rewind(f);
    uint8_t *at = malloc(*bytes + 1);
    assert_int_equal(fread(at, 1, *bytes, f), *bytes);
    (void)fclose(f);
    return at;
}

void fixture_save(const char *path, const void *bytes, uint64_t count) {
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

/* ---- what is written */
static const char *const engines[] = {"fetch", "compute"};
static const char *const causes[] = {"busy", "waits", "bus"};
static const presil_bundle_counter counters[] = {{"beats", "beats"}, {"bytes", "bytes"}};
static const presil_bundle_chip chip = {.size = sizeof chip,
                                        .abi_chip = 2,
                                        .abi_transport = 3,
                                        .capabilities = 31,
                                        .chip = "other",
                                        .config = "tiny",
                                        .build = "fast",
                                        .transport = "inproc",
                                        .simulator = "Verilator 5.048",
                                        .rtl_hash = "0123abcd",
                                        .library_hash = "fedc",
                                        .memory_model = "latency=100,stall=0.05",
                                        .presil_version = "0.1.0",
                                        .torch_version = "2.13.0",
                                        .config_hash = 0xdeadbeef,
                                        .clock_mhz = 1000,
                                        .memory_bytes = 1ull << 34,
                                        .seed = UINT64_MAX,
                                        .hang_cycles = 200000,
                                        .memory_base = {FIXTURE_BASE},
                                        .engines = engines,
                                        .causes = causes,
                                        .counters = counters,
                                        .engine_count = 2,
                                        .cause_count = 3,
                                        .counter_count = 2};
static const presil_bundle_pair file_labels[] = {{"model", "r\xc3\xa9snet"}, {"host", "a"}};
static const presil_bundle_pair labels[] = {{"module", "layer1.0.conv1"}, {"file", "model.py:12"}, {"operator", ""}};
static const int64_t shape[] = {1, 4, 4, 8}, stride[] = {128, 32, 8, 1}, flat[] = {16}, one[] = {1};
static const presil_bundle_tensor tensors[] = {
    {.name = "input",
     .dtype = "bfloat16",
     .data = {FIXTURE_BASE},
     .element_bytes = 2,
     .shape = shape,
     .stride = stride,
     .ndim = 4},
    {.name = "output",
     .dtype = "int8",
     .data = {FIXTURE_BASE + 4096},
     .element_bytes = 1,
     .shape = flat,
     .stride = one,
     .ndim = 1,
     .written = 1},
    {.name = "scalar", .dtype = "float32", .data = {FIXTURE_BASE + 8192}, .element_bytes = 4},
};
static const presil_bundle_range stray[] = {{{FIXTURE_BASE + 64}, 4}, {{FIXTURE_BASE + 100}, 1}};
static const uint64_t stalls[] = {1, 2, 3, UINT64_MAX, 5, 6}, counted[] = {7, 8};
static const char log_text[] = "a log\n";

static const presil_bundle_operand asked_inputs[] = {
    {.name = "input", .dtype = "bfloat16", .data = {FIXTURE_BASE}, .shape = shape, .stride = stride, .ndim = 4},
    {.name = "weight",
     .dtype = "bfloat16",
     .data = {FIXTURE_BASE},
     .shape = shape,
     .stride = stride,
     .ndim = 4,
     .packed = 1}};
static const presil_bundle_operand asked_outputs[] = {
    {.name = "output", .dtype = "int8", .data = {FIXTURE_BASE + 4096}, .shape = flat, .stride = one, .ndim = 1}};
static const int64_t paddings[] = {1, -1};
static const uint64_t epsilons[] = {0x3ee4f8b588e368f1};
static const presil_bundle_attribute attributes[] = {{.name = "padding", .integers = paddings, .integer_count = 2},
                                                     {.name = "epsilon", .reals = epsilons, .real_count = 1},
                                                     {.name = "function", .text = "add"}};
static const presil_bundle_step steps[] = {
    {.kind = "clamp", .input = -1, .high_bits = 0x7f800000},
    {.kind = "quantize", .input = -1, .zero_point = -3, .int_low = -128, .int_high = 127}};
static const float biases[] = {1, -2, 3};

static presil_bundle_asked asked_of(uint64_t number) {
    if (number % 2) return (presil_bundle_asked){.present = 0};
    return (presil_bundle_asked){.present = 1,
                                 .compute = 2,
                                 .kind = "conv",
                                 .inputs = asked_inputs,
                                 .outputs = asked_outputs,
                                 .attributes = attributes,
                                 .steps = steps,
                                 .input_count = 2,
                                 .output_count = 1,
                                 .attribute_count = 3,
                                 .step_count = 2,
                                 .bias = biases,
                                 .bias_bytes = sizeof biases};
}

static presil_bundle_launch launch_of(uint64_t number) {
    return (presil_bundle_launch){.size = sizeof(presil_bundle_launch),
                                  .mode = PRESIL_MODE_VERIFY,
                                  .launch = 40 + number,
                                  .label = "conv2d",
                                  .signature = 0x1234567890abcdef,
                                  .macs = 1 << 20,
                                  .passes = 6,
                                  .peak_macs_per_cycle = 1024,
                                  .descriptors = 17,
                                  .segments = 2,
                                  .estimate = 4000,
                                  .origin = 99,
                                  .tag = 7,
                                  .labels = labels,
                                  .tensors = tensors,
                                  .label_count = 3,
                                  .tensor_count = 3,
                                  .asked = asked_of(number)};
}

static presil_bundle_result result_of(uint64_t number) {
    presil_bundle_result r = {.size = sizeof r,
                              .status = -11,
                              .verified = 0,
                              .launch = 40 + number,
                              .executor = "rtl",
                              .error = "RTL and model differ",
                              .cycles = 4100,
                              .fill = 50,
                              .drain = 60,
                              .sim_ns = 1,
                              .twin_ns = 2,
                              .host_ns = 3,
                              .stalls = stalls,
                              .stall_count = 6,
                              .counters = counted,
                              .counter_count = 2,
                              .stray = stray,
                              .stray_count = 2};
    if (number == 0)
        r.difference = (presil_bundle_difference){.present = 1,
                                                  .expected = 255,
                                                  .found = 1,
                                                  .address = {FIXTURE_BASE + 70},
                                                  .bytes = 9,
                                                  .cycle = 3000,
                                                  .text = "output [0, 1], tile 3"};
    return r;
}

/* What the two launches read and write: the second one reads what the first one wrote. */
static void ranges_of(uint64_t number, int small, presil_bundle_range *reads, presil_bundle_range *writes) {
    const uint64_t each = small ? 40 : 90000;
    reads[0] = (presil_bundle_range){{FIXTURE_BASE + number * each}, each};
    reads[1] = (presil_bundle_range){{FIXTURE_BASE + 2 * each + 8}, 24};
    writes[0] = (presil_bundle_range){{FIXTURE_BASE + (number + 1) * each}, each};
}

static void write_launch(presil_bundle_writer *w, uint64_t number, int small) {
    presil_bundle_group *group;
    presil_bundle_launch l = launch_of(number);
    presil_bundle_result r = result_of(number);
    presil_bundle_range reads[2], writes[1];
    char commands[300];
    ranges_of(number, small, reads, writes);
    memset(commands, (int)('a' + number), sizeof commands);
    EXPECT_BUNDLE(presil_bundle_begin(w, &group));
    EXPECT_BUNDLE(presil_bundle_put_block(group, commands, sizeof commands, &l.commands));
    EXPECT_BUNDLE(presil_bundle_put_memory(group, &fixture_source, reads, 2, &l.reads));
    EXPECT_BUNDLE(presil_bundle_put_memory(group, &fixture_source, writes, 1, &l.expected));
    EXPECT_BUNDLE(presil_bundle_put_launch(group, &l));
    r.writes = number ? NULL : l.expected;
    EXPECT_BUNDLE(presil_bundle_put_result(group, &r));
    const presil_bundle_attachment a = {.size = sizeof a,
                                        .has_launch = 1,
                                        .launch = 40,
                                        .name = "run.log",
                                        .media_type = "text/plain",
                                        .data = log_text,
                                        .bytes = sizeof log_text - 1};
    if (!number) EXPECT_BUNDLE(presil_bundle_put_attachment(group, &a));
    EXPECT_BUNDLE(presil_bundle_commit(group));
}

void fixture_write(presil_bundle_writer *w, int small) {
    uint64_t number = 9;
    EXPECT_BUNDLE(presil_bundle_put_chip(w, &chip, &number));
    assert_int_equal(number, 0);
    EXPECT_BUNDLE(presil_bundle_put_labels(w, file_labels, 2));
    write_launch(w, 0, small);
    write_launch(w, 1, small);
    EXPECT_BUNDLE(presil_bundle_put_labels(w, &(presil_bundle_pair){"host", "b"}, 1));
}

void fixture_write_file(const char *path, const presil_bundle_write_options *options, int small) {
    presil_bundle_writer *w;
    EXPECT_BUNDLE(presil_bundle_create(path, options, &w));
    fixture_write(w, small);
    EXPECT_BUNDLE(presil_bundle_close(w));
}

/* ---- what is read */
static int compare_memory(void *context, presil_daddr address, const void *bytes, uint64_t count) {
    uint64_t *total = context;
    assert_true(address.value >= FIXTURE_BASE && address.value + count <= FIXTURE_BASE + FIXTURE_BYTES);
    assert_memory_equal(bytes, fixture_memory + (address.value - FIXTURE_BASE), count);
    *total += count;
    return PRESIL_OK;
}

static void check_memory(presil_bundle_reader *r, const presil_bundle_memory *m, const presil_bundle_range *ranges,
                         uint64_t count) {
    uint64_t total = 0, expected = 0;
    assert_non_null(m);
    EXPECT_BUNDLE(presil_bundle_get_memory(r, m, compare_memory, &total));
    for (uint64_t i = 0; i < count; i++) expected += ranges[i].bytes;
    assert_int_equal(total, expected);
    assert_int_equal(m->bytes, expected);
    assert_int_equal(m->ranges[0].base.value, ranges[0].base.value);
}

static void check_tensors(const presil_bundle_launch *l) {
    assert_int_equal(l->tensor_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(l->tensors[i].name, tensors[i].name);
        assert_string_equal(l->tensors[i].dtype, tensors[i].dtype);
        assert_int_equal(l->tensors[i].data.value, tensors[i].data.value);
        assert_int_equal(l->tensors[i].element_bytes, tensors[i].element_bytes);
        assert_int_equal(l->tensors[i].written, tensors[i].written);
        assert_int_equal(l->tensors[i].ndim, tensors[i].ndim);
        if (!tensors[i].ndim) continue;
        assert_memory_equal(l->tensors[i].shape, tensors[i].shape, 8 * tensors[i].ndim);
        assert_memory_equal(l->tensors[i].stride, tensors[i].stride, 8 * tensors[i].ndim);
    }
}

/* version1.presil is of before there was one. */
static void check_asked(const presil_bundle_asked *a, const presil_bundle_asked *e) {
    if (!a->present || !e->present) return;
    assert_string_equal(a->kind, e->kind);
    assert_int_equal(a->compute, e->compute);
    assert_int_equal(a->input_count, e->input_count);
    for (uint32_t i = 0; i < e->input_count; i++) {
        assert_string_equal(a->inputs[i].name, e->inputs[i].name);
        assert_int_equal(a->inputs[i].packed, e->inputs[i].packed);
        assert_memory_equal(a->inputs[i].stride, e->inputs[i].stride, 8 * e->inputs[i].ndim);
    }
    assert_int_equal(a->attribute_count, e->attribute_count);
    assert_memory_equal(a->attributes[0].integers, paddings, sizeof paddings);
    assert_memory_equal(a->attributes[1].reals, epsilons, sizeof epsilons);
    assert_string_equal(a->attributes[2].text, "add");
    assert_int_equal(a->step_count, e->step_count);
    assert_int_equal(a->steps[0].high_bits, e->steps[0].high_bits);
    assert_int_equal(a->steps[1].zero_point, e->steps[1].zero_point);
    assert_int_equal(a->bias_bytes, e->bias_bytes);
    assert_memory_equal(a->bias, e->bias, e->bias_bytes);
    assert_int_equal(a->scale_bytes, 0);
}

static void check_launch(presil_bundle_reader *r, uint64_t number, int small) {
    const presil_bundle_launch *l, e = launch_of(number);
    presil_bundle_range reads[2], writes[1];
    uint8_t commands[300];
    ranges_of(number, small, reads, writes);
    EXPECT_BUNDLE(presil_bundle_get_launch(r, number, &l));
    assert_int_equal(l->size, sizeof *l);
    assert_int_equal(l->mode, e.mode);
    assert_int_equal(l->chip, 0);
    assert_int_equal(l->launch, e.launch);
    assert_string_equal(l->label, e.label);
    assert_memory_equal(&l->signature, &e.signature, 9 * sizeof l->signature); /* to `tag` */
    assert_int_equal(l->commands.bytes, sizeof commands);
    EXPECT_BUNDLE(presil_bundle_get_block(r, &l->commands, commands));
    for (size_t i = 0; i < sizeof commands; i++) assert_int_equal(commands[i], 'a' + number);
    check_memory(r, l->reads, reads, 2);
    check_memory(r, l->expected, writes, 1);
    assert_int_equal(l->label_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_string_equal(l->labels[i].key, labels[i].key);
        assert_string_equal(l->labels[i].value, labels[i].value);
    }
    check_tensors(l);
    check_asked(&l->asked, &e.asked);
    presil_bundle_free(l);
}

static void check_result(presil_bundle_reader *r, uint64_t number, int small) {
    const presil_bundle_result *g, e = result_of(number);
    presil_bundle_range reads[2], writes[1];
    ranges_of(number, small, reads, writes);
    EXPECT_BUNDLE(presil_bundle_get_result(r, number, &g));
    assert_int_equal(g->status, e.status);
    assert_int_equal(g->verified, e.verified);
    assert_int_equal(g->chip, 0);
    assert_int_equal(g->launch, e.launch);
    assert_string_equal(g->executor, e.executor);
    assert_string_equal(g->error, e.error);
    assert_memory_equal(&g->cycles, &e.cycles, 6 * sizeof g->cycles); /* to `host_ns` */
    assert_int_equal(g->stall_count, 6);
    assert_memory_equal(g->stalls, stalls, sizeof stalls);
    assert_int_equal(g->counter_count, 2);
    assert_memory_equal(g->counters, counted, sizeof counted);
    if (number)
        assert_null(g->writes);
    else
        check_memory(r, g->writes, writes, 1);
    const presil_bundle_difference *d = &g->difference, *f = &e.difference;
    assert_int_equal(d->present, f->present);
    assert_int_equal(d->expected, f->expected);
    assert_int_equal(d->found, f->found);
    assert_int_equal(d->address.value, f->address.value);
    assert_int_equal(d->bytes, f->bytes);
    assert_int_equal(d->cycle, f->cycle);
    assert_string_equal(d->text, f->text ? f->text : "");
    assert_int_equal(g->stray_count, 2);
    assert_memory_equal(g->stray, stray, sizeof stray);
    assert_int_equal(g->missing_count, 0);
    presil_bundle_free(g);
}

static void check_chip(presil_bundle_reader *r) {
    const presil_bundle_chip *c;
    EXPECT_BUNDLE(presil_bundle_get_chip(r, 0, &c));
    const char *const found[] = {c->chip,     c->config,       c->build,        c->transport,      c->simulator,
                                 c->rtl_hash, c->library_hash, c->memory_model, c->presil_version, c->torch_version};
    const char *const expected[] = {chip.chip,           chip.config,       chip.build,        chip.transport,
                                    chip.simulator,      chip.rtl_hash,     chip.library_hash, chip.memory_model,
                                    chip.presil_version, chip.torch_version};
    for (size_t i = 0; i < 10; i++) assert_string_equal(found[i], expected[i]);
    assert_memory_equal(&c->config_hash, &chip.config_hash, 6 * 8); /* to memory_base */
    assert_memory_equal(&c->abi_chip, &chip.abi_chip, 3 * 4);
    assert_int_equal(c->engine_count, 2);
    assert_int_equal(c->cause_count, 3);
    assert_int_equal(c->counter_count, 2);
    for (size_t i = 0; i < 2; i++) {
        assert_string_equal(c->engines[i], engines[i]);
        assert_string_equal(c->counters[i].name, counters[i].name);
        assert_string_equal(c->counters[i].unit, counters[i].unit);
    }
    for (size_t i = 0; i < 3; i++) assert_string_equal(c->causes[i], causes[i]);
    presil_bundle_free(c);
}

void fixture_check(presil_bundle_reader *r, int small) {
    presil_bundle_summary s = {.size = sizeof s};
    EXPECT_BUNDLE(presil_bundle_get_summary(r, &s));
    if (s.torn) print_error("%s\n", s.tear_text);
    assert_int_equal(s.torn, 0);
    assert_int_equal(s.good_bytes, s.file_bytes);
    assert_int_equal(s.chips, 1);
    assert_int_equal(s.launches, 2);
    assert_int_equal(s.results, 2);
    assert_int_equal(s.attachments, 1);
    check_chip(r);
    for (uint64_t i = 0; i < 2; i++) {
        check_launch(r, i, small);
        check_result(r, i, small);
    }
    const presil_bundle_attachment *a;
    EXPECT_BUNDLE(presil_bundle_get_attachment(r, 0, &a));
    assert_string_equal(a->name, "run.log");
    assert_string_equal(a->media_type, "text/plain");
    assert_int_equal(a->has_launch, 1);
    assert_int_equal(a->launch, 40);
    assert_int_equal(a->bytes, sizeof log_text - 1);
    assert_memory_equal(a->data, log_text, a->bytes);
    presil_bundle_free(a);
    const presil_bundle_pair *pairs;
    uint32_t count;
    EXPECT_BUNDLE(presil_bundle_get_labels(r, &pairs, &count));
    assert_int_equal(count, 2);
    assert_string_equal(pairs[0].value, file_labels[0].value);
    assert_string_equal(pairs[1].value, "b"); /* the last one */
    presil_bundle_free(pairs);
}

static int ignore(void *context, presil_daddr address, const void *bytes, uint64_t count) {
    (void)address, (void)bytes;
    *(uint64_t *)context += count;
    return PRESIL_OK;
}

static void note(int *status, int found) {
    if (found && !*status) *status = found;
}

static uint64_t read_launch(presil_bundle_reader *r, uint64_t number, int *status) {
    const presil_bundle_launch *l;
    uint64_t read = 0;
    const int found = presil_bundle_get_launch(r, number, &l);
    note(status, found);
    if (found) return 0;
    const presil_bundle_memory *memories[] = {l->reads, l->expected};
    for (size_t i = 0; i < 2; i++) {
        if (memories[i]) note(status, presil_bundle_get_memory(r, memories[i], ignore, &read));
    }
    uint8_t *commands = l->commands.bytes <= 65536 ? malloc(l->commands.bytes + 1) : NULL;
    if (commands && l->commands.bytes) note(status, presil_bundle_get_block(r, &l->commands, commands));
    free(commands);
    char text[256];
    for (uint64_t address = FIXTURE_BASE; address < FIXTURE_BASE + 256; address += 37)
        presil_bundle_coordinate(l, (presil_daddr){address}, text, sizeof text);
    uint64_t result;
    note(status, presil_bundle_next_result(r, number, 0, &result));
    presil_bundle_free(l);
    return read;
}

uint64_t fixture_read_all(presil_bundle_reader *r, int *status) {
    presil_bundle_summary s = {.size = sizeof s};
    EXPECT_BUNDLE(presil_bundle_get_summary(r, &s));
    uint64_t read = 0;
    *status = PRESIL_OK;
    for (uint64_t i = 0; i < s.records; i++) {
        const void *raw;
        uint64_t bytes;
        const int found = presil_bundle_get_raw(r, i, &raw, &bytes);
        note(status, found);
        if (!found) presil_bundle_free(raw);
    }
    const void *got;
    for (uint64_t i = 0; i < s.chips; i++) {
        const int found = presil_bundle_get_chip(r, i, (const presil_bundle_chip **)&got);
        note(status, found);
        if (!found) presil_bundle_free(got);
    }
    for (uint64_t i = 0; i < s.launches; i++) read += read_launch(r, i, status);
    for (uint64_t i = 0; i < s.results; i++) {
        const presil_bundle_result *result;
        const int found = presil_bundle_get_result(r, i, &result);
        note(status, found);
        if (found) continue;
        if (result->writes) note(status, presil_bundle_get_memory(r, result->writes, ignore, &read));
        presil_bundle_free(result);
    }
    for (uint64_t i = 0; i < s.attachments; i++) {
        const int found = presil_bundle_get_attachment(r, i, (const presil_bundle_attachment **)&got);
        note(status, found);
        if (!found) presil_bundle_free(got);
    }
    uint32_t count;
    const presil_bundle_pair *pairs;
    const int found = presil_bundle_get_labels(r, &pairs, &count);
    note(status, found);
    if (!found) presil_bundle_free(pairs);
    return read;
}
