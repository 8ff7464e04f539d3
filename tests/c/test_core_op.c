/* SPDX-License-Identifier: Apache-2.0 */
/* The seam between core and chip, at a chip of paper: operators by name, tables of other releases, what service() may
 * say, names of counters. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "core_fixture.h"
#include "negation.h"
#include "presil_chip.h"

enum { ELEMENTS = 2 * 3 * 1 * 2 * 1 * 2, BYTES = 2 * ELEMENTS };

static int open_paper_of(uint64_t bytes, const char *how, presil_device **out) {
    assert_int_equal(setenv("PRESIL_PAPER", how, 1), 0);
    const presil_device_options options = {.size = sizeof options,
                                           .mode = PRESIL_MODE_RTL,
                                           .config = "paper",
                                           .library = getenv("PRESIL_PAPER_LIBRARY"),
                                           .memory_bytes = bytes};
    return presil_device_open(&options, out);
}

static int open_paper(const char *how, presil_device **out) { return open_paper_of(64u << 20, how, out); }

static const presil_attribute neg = {.name = "function", .text = "neg"};

static void make(negation *n, presil_daddr from, presil_daddr to) {
    negation_make(n, PRESIL_INT16, from, to, ELEMENTS, NULL);
    n->in.ndim = n->out.ndim = 6;
    memcpy(n->in.shape, (const int64_t[]){2, 3, 1, 2, 1, 2}, 6 * sizeof(int64_t));
    memcpy(n->in.stride, (const int64_t[]){12, 4, 4, 2, 2, 1}, 6 * sizeof(int64_t));
    memcpy(n->out.shape, n->in.shape, sizeof n->in.shape);
    memcpy(n->out.stride, n->in.stride, sizeof n->in.stride);
}

static void negates(const char *how) {
    presil_device *d;
    presil_daddr a, b;
    negation n;
    EXPECT_OK(open_paper(how, &d));
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &a));
    EXPECT_OK(presil_alloc(d, NULL, NULL, BYTES, &b));
    make(&n, a, b);
    EXPECT_OK(presil_device_start(d));
    int16_t *from = presil_host_pointer(d, a, BYTES), *to = presil_host_pointer(d, b, BYTES);
    for (int i = 0; i < ELEMENTS; i++) from[i] = (int16_t)(1000 + i), to[i] = 0;
    reports_begin(d);
    EXPECT_OK(presil_op_supported(d, &n.op));
    EXPECT_OK(presil_op_enqueue(d, NULL, &n.op));
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    for (int i = 0; i < ELEMENTS; i++) assert_int_equal(to[i], -1000 - i);
    assert_int_equal(report_count, 2);
    assert_int_equal(reports[0].counters[0], 7);
    EXPECT_OK(presil_free(d, a));
    EXPECT_OK(presil_free(d, b));
    presil_device_close(d);
}

static void any_operator(void **state) {
    (void)state;
    negates("");
}

/* Interrupts that mean progress don't count as spurious ones; a thousand that mean nothing end the launch. */
static void progress(void **state) {
    (void)state;
    negates("interrupts=5000");
    presil_device *d;
    EXPECT_OK(open_paper("interrupts=5000,busy", &d));
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EHUNG);
    EXPECT_TEXT("the interrupt stays on");
    presil_device_close(d);
}

static void done_without_an_interrupt(void **state) {
    (void)state;
    negates("quiet");
}

static void tables_of_other_releases(void **state) {
    (void)state;
    negates("long");
    negates("short");
    presil_device *d = NULL;
    EXPECT_OK(open_paper("short", &d));
    presil_names names = {.size = sizeof names, .engine_count = 9};
    EXPECT_OK(presil_device_get_names(d, &names));
    assert_int_equal(names.engine_count, 0);
    presil_device_close(d);
    EXPECT_STATUS(open_paper("lack", &d), PRESIL_ENODEV);
    EXPECT_TEXT("has no submit");
}

/* Memory lies where the chip's addresses reach. */
static void few_address_bits(void **state) {
    (void)state;
    static const struct {
        const char *how;
        uint64_t asked, base, bytes;
    } cases[] = {{"bits=40", 64u << 20, 4ull << 30, 64u << 20},   {"bits=34", 12ull << 30, 4ull << 30, 12ull << 30},
                 {"bits=33", 4ull << 30, 4ull << 30, 4ull << 30}, {"bits=33", 6ull << 30, 2ull << 30, 6ull << 30},
                 {"bits=32", 64u << 20, 2ull << 30, 64u << 20},   {"bits=32", 2ull << 30, 2ull << 30, 2ull << 30},
                 {"bits=32", 3ull << 30, 1ull << 30, 3ull << 30}, {"bits=32", 0, 2ull << 30, 2ull << 30},
                 {"bits=34", 0, 8ull << 30, 8ull << 30},          {"bits=23", 2u << 20, 4u << 20, 2u << 20}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        presil_device *d;
        presil_device_info info = {.size = sizeof info};
        EXPECT_OK(open_paper_of(cases[i].asked, cases[i].how, &d));
        EXPECT_OK(presil_device_start(d));
        EXPECT_OK(presil_device_get_info(d, &info));
        assert_int_equal(info.memory_base.value, cases[i].base);
        assert_int_equal(info.memory_bytes, cases[i].bytes);
        presil_device_close(d);
    }
    negates("bits=32");
    presil_device *d = NULL;
    EXPECT_STATUS(open_paper_of(4ull << 30, "bits=32", &d), PRESIL_EINVAL);
    EXPECT_TEXT("32 address bits, which reach 4294967296 bytes: device memory of 4294967296 bytes");
    EXPECT_TEXT("set PRESIL_MEMORY to 2147483648 or less");
    EXPECT_STATUS(open_paper("bits=1", &d), PRESIL_EINVAL);
}

/* A chip without counters: reports have the cycles of the waits. */
static void without_counters(void **state) {
    (void)state;
    presil_device *d;
    EXPECT_OK(open_paper("uncounted,segments=3,interrupts=4", &d));
    reports_begin(d);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(report_count, 2);
    for (size_t i = 0; i < 2; i++) assert_int_equal(reports[i].cycles, 120);
    presil_device_close(d);
}

static void names(void **state) {
    (void)state;
    presil_device *d;
    presil_names names = {.size = sizeof names};
    EXPECT_OK(open_paper("", &d));
    EXPECT_OK(presil_device_get_names(d, &names));
    assert_int_equal(names.engine_count, 1);
    assert_string_equal(names.engines[0].name, "pen");
    assert_string_equal(names.causes[0].bound, "ink");
    assert_string_equal(names.counters[0].unit, "pages");
    /* A caller of an older release has less room. */
    presil_names older = {.size = offsetof(presil_names, counters)};
    EXPECT_OK(presil_device_get_names(d, &older));
    assert_ptr_equal(older.causes, names.causes);
    assert_null(older.counters);
    presil_device_close(d);
}

/* A table of reports is fixed: a chip whose names would reach beyond it is not opened, in any of the three directions.
 */
static void more_than_a_report_has(void **state) {
    (void)state;
    static const char *const many[][2] = {{"engines=6", "6 engines"},
                                          {"causes=17", "17 causes"},
                                          {"counters=17", "17 counters"}},
                             *const most[] = {"engines=5", "causes=16", "counters=16"};
    for (size_t i = 0; i < 3; i++) {
        presil_device *d = NULL;
        EXPECT_STATUS(open_paper(many[i][0], &d), PRESIL_ENODEV);
        EXPECT_TEXT(many[i][1]);
        EXPECT_TEXT("add up engines that work alike");
        assert_null(d);
        presil_names names = {.size = sizeof names};
        EXPECT_OK(open_paper(most[i], &d));
        EXPECT_OK(presil_device_get_names(d, &names));
        assert_int_equal(names.engine_count + names.cause_count + names.counter_count,
                         1 + 2 + 1 + (i ? 14 + (i == 2) : 4));
        presil_device_close(d);
    }
}

/* A simulator that lies away from its chip: the chip's library is given, by option or by environment. */
static void the_library_of_a_chip(void **state) {
    (void)state;
    char folder[] = "/tmp/presil_chip_XXXXXX", simulator[64];
    const char *ours = getenv("PRESIL_PAPER_LIBRARY");
    assert_non_null(mkdtemp(folder));
    (void)snprintf(simulator, sizeof simulator, "%s/sim.so", folder);
    assert_int_equal(symlink(ours, simulator), 0);
    char *places = strdup(getenv("PRESIL_LIBRARY_PATH"));
    assert_int_equal(setenv("PRESIL_LIBRARY_PATH", folder, 1), 0);
    assert_int_equal(setenv("PRESIL_PAPER", "", 1), 0);
    presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_RTL, .library = simulator, .memory_bytes = 64u << 20};
    presil_device *d;
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_ENODEV);
    EXPECT_TEXT("libpresil_chip_paper.so is neither in");
    options.chip_library = "/nowhere/chip.so";
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_ENODEV);
    EXPECT_TEXT("can't load /nowhere/chip.so");
    options.chip_library = NULL;
    assert_int_equal(setenv("PRESIL_CHIP_LIBRARY", getenv("PRESIL_PAPER_CHIP"), 1), 0);
    EXPECT_OK(presil_device_open(&options, &d));
    presil_names found = {.size = sizeof found};
    EXPECT_OK(presil_device_get_names(d, &found));
    assert_string_equal(found.engines[0].name, "pen");
    EXPECT_OK(presil_device_start(d));
    presil_device_close(d);
    (void)unsetenv("PRESIL_CHIP_LIBRARY");
    options.chip_library = getenv("PRESIL_OUR_CHIP"); /* another one than the simulator's */
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_ENODEV);
    EXPECT_TEXT("no configuration named 'paper'");
    assert_int_equal(setenv("PRESIL_LIBRARY_PATH", places, 1), 0);
    free(places);
    assert_int_equal(unlink(simulator) | rmdir(folder), 0);
}

/* What the transport does not say is what was asked for, or the chip's default. */
static void a_transport_without_a_configuration(void **state) {
    (void)state;
    presil_device_options options = {.size = sizeof options,
                                     .mode = PRESIL_MODE_RTL,
                                     .library = getenv("PRESIL_PAPER_LIBRARY"),
                                     .memory_bytes = 64u << 20};
    presil_device *d;
    presil_device_info info = {.size = sizeof info};
    for (int asked = 0; asked < 2; asked++) {
        options.config = asked ? "paper" : NULL;
        assert_int_equal(setenv("PRESIL_PAPER", asked ? "unsaid" : "unsaid,default", 1), 0);
        EXPECT_OK(presil_device_open(&options, &d));
        EXPECT_OK(presil_device_get_info(d, &info));
        assert_string_equal(info.config, "paper");
        presil_device_close(d);
    }
    options.config = NULL;
    assert_int_equal(setenv("PRESIL_PAPER", "unsaid", 1), 0);
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EINVAL);
    EXPECT_TEXT("one configuration, \"paper\"");
    assert_int_equal(setenv("PRESIL_PAPER", "unsaid,default,nameless", 1), 0);
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_ENODEV);
    EXPECT_TEXT("\"paper\" does not say which configuration its default is");
}

/* A chip that can only be asked for a plan: operands lie apart in it, packed ones too. */
static void asked_for_a_plan(void **state) {
    (void)state;
    static const uint32_t layout[4]; /* as it lies */
    presil_device *d;
    negation n;
    EXPECT_OK(open_paper("planned", &d));
    make(&n, (presil_daddr){0}, (presil_daddr){0});
    for (int64_t rows = 1; rows <= 4096; rows *= 64) {
        n.in.shape[0] = n.out.shape[0] = rows;
        for (int packed = 0; packed < 2; packed++) {
            n.in.layout = packed ? (const presil_layout *)(const void *)layout : NULL;
            EXPECT_OK(presil_op_supported(d, &n.op));
        }
    }
    presil_device_close(d);
}

static void known_are(const char *how, const char *config, uint32_t known) {
    struct {
        presil_device_info info;
        uint8_t behind[64];
    } out;
    presil_device *d;
    const presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_MODEL, .config = config, .memory_bytes = 64u << 20};
    assert_int_equal(setenv("PRESIL_PAPER", how, 1), 0);
    EXPECT_OK(presil_device_open(&options, &d));
    out.info.size = sizeof out.info;
    EXPECT_OK(presil_device_get_info(d, &out.info));
    assert_int_equal(out.info.known, known);
    memset(&out, 0x5a, sizeof out); /* a caller of before the bits, and one of after them */
    out.info.size = offsetof(presil_device_info, known);
    EXPECT_OK(presil_device_get_info(d, &out.info));
    assert_int_equal(out.info.known, 0x5a5a5a5a);
    out.info.size = sizeof out;
    EXPECT_OK(presil_device_get_info(d, &out.info));
    assert_int_equal(out.info.known, known);
    for (size_t i = 0; i < sizeof out.behind; i++) assert_int_equal(out.behind[i], 0x5a);
    presil_device_close(d);
}

/* What a chip does not tell is absent; a 0 that it tells is there. */
static void what_a_chip_tells(void **state) {
    (void)state;
    known_are("", "tiny", 0xff);
    assert_int_equal(setenv("PRESIL_CHIP_LIBRARY", getenv("PRESIL_PAPER_CHIP"), 1), 0);
    known_are("twin", "paper", 0);
    known_are("twin,zero", "paper", PRESIL_INFO_CONFIG_HASH);
    (void)unsetenv("PRESIL_CHIP_LIBRARY");
}

static int open_model(const char *config, presil_device **out) {
    const presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_MODEL, .config = config, .memory_bytes = 64u << 20};
    return presil_device_open(&options, out);
}

static void opens_as(const char *how, const char *config) {
    const presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_MODEL, .memory_bytes = 64u << 20};
    presil_device *d;
    presil_device_info info = {.size = sizeof info};
    assert_int_equal(setenv("PRESIL_PAPER", how, 1), 0);
    EXPECT_OK(presil_device_open(&options, &d));
    EXPECT_OK(presil_device_get_info(d, &info));
    assert_string_equal(info.config, config);
    presil_device_close(d);
}

/* Nobody names a configuration: the one chip that has a default, of those that are found, or the one that is given. */
static void the_default_chip(const char *given) {
    presil_device *d;
    presil_device_options rtl = {.size = sizeof rtl, .mode = PRESIL_MODE_RTL, .config = ""};
    opens_as("", "base");
    assert_int_equal(setenv("PRESIL_PAPER", "default,twin", 1), 0);
    EXPECT_STATUS(open_model(NULL, &d), PRESIL_EINVAL);
    EXPECT_TEXT("the chips \"paper\" and \"presil\" both have a default configuration: say which");
    assert_int_equal(setenv("PRESIL_CHIP_LIBRARY", given, 1), 0);
    opens_as("default,twin", "paper");
    assert_int_equal(setenv("PRESIL_PAPER", "default,nameless,twin", 1), 0);
    EXPECT_STATUS(open_model(NULL, &d), PRESIL_ENODEV);
    EXPECT_TEXT("\"paper\" does not say which configuration its default is");
    EXPECT_STATUS(presil_device_open(&rtl, &d), PRESIL_EINVAL);
    EXPECT_TEXT("\"\" is not the name of a configuration");
    rtl.config = NULL;
    assert_int_equal(setenv("PRESIL_PAPER", "", 1), 0);
    EXPECT_STATUS(presil_device_open(&rtl, &d), PRESIL_EINVAL);
    EXPECT_TEXT("one configuration, \"paper\""); /* no simulator is looked for: nobody said of what */
    (void)unsetenv("PRESIL_CHIP_LIBRARY");
}

/* Without a simulator: the one chip that has the configuration, of those whose libraries are there. */
static void the_chip_of_a_configuration(void **state) {
    (void)state;
    char folder[] = "/tmp/presil_chips_XXXXXX", ours[64], other[64], *places = strdup(getenv("PRESIL_LIBRARY_PATH"));
    presil_device *d;
    presil_device_info info = {.size = sizeof info};
    assert_non_null(mkdtemp(folder));
    (void)snprintf(ours, sizeof ours, "%s/libpresil_chip_presil.so", folder);
    (void)snprintf(other, sizeof other, "%s/libpresil_chip_paper.so", folder);
    assert_int_equal(setenv("PRESIL_LIBRARY_PATH", folder, 1), 0);
    assert_int_equal(setenv("PRESIL_PAPER", "", 1), 0);
    assert_int_equal(symlink(getenv("PRESIL_PAPER_CHIP"), other) | symlink(getenv("PRESIL_OUR_CHIP"), ours), 0);
    EXPECT_STATUS(open_model("unknown", &d), PRESIL_EINVAL);
    EXPECT_TEXT("no chip has a configuration \"unknown\"; ");
    EXPECT_TEXT("; paper: one configuration");
    EXPECT_TEXT("; presil: no configuration named 'unknown'");
    EXPECT_OK(open_model("tiny", &d));
    EXPECT_OK(presil_device_get_info(d, &info));
    assert_string_equal(info.chip, "presil");
    presil_device_close(d);
    EXPECT_STATUS(open_model("paper", &d), PRESIL_EUNSUPPORTED); /* found: it has no model */
    EXPECT_TEXT("the chip \"paper\" has no model in C");
    assert_int_equal(setenv("PRESIL_PAPER", "configs", 1), 0); /* it has ours, too */
    EXPECT_STATUS(open_model("tiny", &d), PRESIL_EINVAL);
    EXPECT_TEXT("the chips \"paper\" and \"presil\" both have a configuration \"tiny\"");
    the_default_chip(other);
    assert_int_equal(setenv("PRESIL_CHIP_LIBRARY", ours, 1), 0);
    EXPECT_OK(open_model("tiny", &d));
    presil_device_close(d);
    (void)unsetenv("PRESIL_CHIP_LIBRARY");
    assert_int_equal(setenv("PRESIL_LIBRARY_PATH", places, 1), 0);
    free(places);
    assert_int_equal(unlink(ours) | unlink(other) | rmdir(folder), 0);
}

/* The chip's reason, or the core's: what doesn't lie in memory never reaches the chip. */
static void refusals(void **state) {
    (void)state;
    presil_device *d;
    presil_daddr a;
    negation n;
    EXPECT_OK(open_paper("", &d));
    EXPECT_OK(presil_alloc(d, NULL, NULL, 4096, &a));
    make(&n, a, a);
    n.in.stride[0] = 24;
    EXPECT_STATUS(presil_op_supported(d, &n.op), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("elementwise: paper only knows contiguous tensors");
    EXPECT_STATUS(presil_op_enqueue(d, NULL, &n.op), PRESIL_EUNSUPPORTED);
    make(&n, a, a);
    n.in.data.value = 16;
    EXPECT_OK(presil_op_supported(d, &n.op)); /* wherever it lies */
    EXPECT_STATUS(presil_op_enqueue(d, NULL, &n.op), PRESIL_EINVAL);
    EXPECT_TEXT("not in device memory");
    make(&n, a, a);
    n.in.shape[0] = (int64_t)1 << 40, n.in.stride[0] = (int64_t)1 << 30;
    EXPECT_STATUS(presil_op_enqueue(d, NULL, &n.op), PRESIL_EINVAL);
    make(&n, a, a);
    n.in.ndim = 9;
    EXPECT_STATUS(presil_op_enqueue(d, NULL, &n.op), PRESIL_EINVAL);
    EXPECT_TEXT("at most 8");
    make(&n, a, a);
    n.in.dtype = 77;
    EXPECT_STATUS(presil_op_supported(d, &n.op), PRESIL_EINVAL);
    make(&n, a, a);
    n.op.kind = 999;
    EXPECT_STATUS(presil_op_supported(d, &n.op), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("kind 999");
    make(&n, a, a);
    n.op.input_count = 9;
    EXPECT_STATUS(presil_op_enqueue(d, NULL, &n.op), PRESIL_EINVAL);
    make(&n, a, a);
    const presil_step step = {.kind = PRESIL_STEP_ADD, .input = 1};
    n.op.steps = &step, n.op.step_count = 1;
    EXPECT_STATUS(presil_op_supported(d, &n.op), PRESIL_EINVAL);
    EXPECT_TEXT("refers to input 1 of 1");
    EXPECT_STATUS(presil_op_supported(d, NULL), PRESIL_EINVAL);
    const presil_weights_desc w = {.size = sizeof w, .weight = &n, .groups = 1, .shape = {1, 1, 1, 1}};
    presil_weights *weights;
    EXPECT_STATUS(presil_weights_create(d, &w, &weights), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("packs none");
    EXPECT_OK(presil_free(d, a));
    presil_device_close(d);
}

/* The chip of rtl/, asked in the same words: a matmul with steps, and what it has none of. */
static void our_own(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    matmul_buffers m = matmul_alloc(d, 3);
    presil_operand in[] = {{.name = "a", .data = m.a, .dtype = PRESIL_BF16, .ndim = 3},
                           {.name = "b", .data = m.b, .dtype = PRESIL_BF16, .ndim = 3}},
                   out = {.name = "output", .data = m.out, .dtype = PRESIL_FP32, .ndim = 3};
    presil_operand *all[] = {&in[0], &in[1], &out};
    for (int i = 0; i < 3; i++) {
        all[i]->shape[0] = 1, all[i]->shape[1] = all[i]->shape[2] = MATMUL_N;
        all[i]->stride[1] = MATMUL_N, all[i]->stride[2] = 1;
    }
    presil_op op = {.size = sizeof op,
                    .kind = PRESIL_OP_MATMUL,
                    .compute = PRESIL_COMPUTE_BF16,
                    .inputs = in,
                    .outputs = &out,
                    .input_count = 2,
                    .output_count = 1};
    EXPECT_OK(presil_op_supported(d, &op));
    EXPECT_OK(presil_op_enqueue(d, NULL, &op));
    matmul_check(d, &m, 3);
    const presil_step steps[] = {{.kind = PRESIL_STEP_CLAMP, .input = PRESIL_NO_OPERAND, .low = 1, .high = 2},
                                 {.kind = PRESIL_STEP_SCALE, .input = PRESIL_NO_OPERAND, .scale = 2}};
    op.steps = steps, op.step_count = 1;
    EXPECT_OK(presil_op_enqueue(d, NULL, &op));
    float result[MATMUL_N * MATMUL_N];
    EXPECT_OK(presil_copy_to_host(d, NULL, result, m.out, sizeof result, PRESIL_COPY_DIRECT));
    EXPECT_OK(presil_device_synchronize(d));
    for (int i = 0; i < MATMUL_N * MATMUL_N; i++) assert_true(result[i] >= 1 && result[i] <= 2);
    op.step_count = 2;
    EXPECT_STATUS(presil_op_supported(d, &op), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("step 1");
    op.step_count = 0, op.attributes = &neg, op.attribute_count = 1;
    EXPECT_STATUS(presil_op_supported(d, &op), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("1 attributes, of which this chip knows 2 and 0");
    op.attribute_count = 0, op.kind = PRESIL_OP_POOL_MAX;
    EXPECT_STATUS(presil_op_supported(d, &op), PRESIL_EUNSUPPORTED);
    EXPECT_TEXT("pool_max: the chip \"presil\" has no operator of the kind \"pool_max\"");
    EXPECT_STATUS(presil_op_enqueue(d, NULL, &op), PRESIL_EUNSUPPORTED);
    assert_int_equal(presil_op_kinds(d) >> PRESIL_OP_MATMUL & 1, 1);
    assert_int_equal(presil_op_kinds(d) >> PRESIL_OP_POOL_MAX & 1, 0);
    matmul_free(d, m);
    presil_device_close(d);
}

/* Questions: nothing is enqueued, addresses mean nothing, weights have no bytes. The chip of rtl/ has no supports():
 * its plans are thrown away, and a kernel that is read backwards has to lie somewhere for that. */
static void only_asked(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    presil_weights_desc w = {.size = sizeof w,
                             .compute = PRESIL_COMPUTE_BF16,
                             .weight_dtype = PRESIL_BF16,
                             .groups = 1,
                             .shape = {8, 4, 3, 3}};
    presil_weights *weights = NULL;
    EXPECT_OK(presil_weights_create(d, &w, &weights));
    assert_true(presil_weights_bytes(weights) >= (uint64_t)8 * 4 * 9 * 2);
    presil_conv2d_desc c = {
        .size = sizeof c,
        .label = "asked",
        .input = {.dtype = PRESIL_BF16, .ndim = 4, .shape = {1, 8, 8, 4}, .stride = {256, 32, 4, 1}},
        .output = {.dtype = PRESIL_BF16, .ndim = 4, .shape = {1, 6, 6, 8}, .stride = {288, 48, 8, 1}},
        .weights = weights,
        .stride = {1, 1},
        .dilation = {1, 1}};
    EXPECT_OK(presil_conv2d(d, PRESIL_ONLY_ASK, &c));
    EXPECT_STATUS(presil_conv2d(d, NULL, &c), PRESIL_EINVAL);
    EXPECT_TEXT("only to ask about");
    presil_operand operand;
    EXPECT_STATUS(presil_weights_operand(weights, &operand), PRESIL_EINVAL);
    w.weight = &w;
    EXPECT_STATUS(presil_weights_update(weights, &w), PRESIL_EINVAL);
    c.weights = NULL;
    c.compute = PRESIL_COMPUTE_BF16;
    c.kernel = (presil_tensor){.dtype = PRESIL_BF16, .ndim = 4, .shape = {8, 3, 3, 4}, .stride = {36, -12, -4, 1}};
    EXPECT_OK(presil_conv2d(d, PRESIL_ONLY_ASK, &c));
    c.output.shape[0] = 2;
    EXPECT_STATUS(presil_conv2d(d, PRESIL_ONLY_ASK, &c), PRESIL_EINVAL);
    EXPECT_OK(presil_device_synchronize(d));
    presil_weights_destroy(weights);
    assert_int_equal(presil_packs_weights(d), 1);
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(any_operator),
                                       cmocka_unit_test(only_asked),
                                       cmocka_unit_test(progress),
                                       cmocka_unit_test(done_without_an_interrupt),
                                       cmocka_unit_test(tables_of_other_releases),
                                       cmocka_unit_test(few_address_bits),
                                       cmocka_unit_test(without_counters),
                                       cmocka_unit_test(names),
                                       cmocka_unit_test(more_than_a_report_has),
                                       cmocka_unit_test(the_library_of_a_chip),
                                       cmocka_unit_test(a_transport_without_a_configuration),
                                       cmocka_unit_test(the_chip_of_a_configuration),
                                       cmocka_unit_test(what_a_chip_tells),
                                       cmocka_unit_test(asked_for_a_plan),
                                       cmocka_unit_test(refusals),
                                       cmocka_unit_test(our_own)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
