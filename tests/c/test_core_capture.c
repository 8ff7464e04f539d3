/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A listener at the seam of commands and memory (presil_capture.h): what it is told of each launch is what the launch
 * read and wrote, in every mode, in place, of failed launches, with memory that is mapped or not.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include "device.h"
#include "core_fixture.h"
#include "presil_capture.h"
#include "presil_image.h"

enum { OUT_BYTES = MATMUL_N * MATMUL_N * 4, IN_BYTES = MATMUL_N * MATMUL_N * 2, MOST = 1 << 16 };

typedef struct {
    presil_daddr base;
    uint64_t bytes;
    uint8_t *data;
} piece;

typedef struct {
    piece at[64];
    size_t count;
} pieces;

static struct {
    unsigned begun, ended, expectations;
    bool refuse, report_only;
    pieces reads, expected, writes;
    presil_report report;
    char label[64], error[512], where[256];
    uint64_t origin, signature, launch;
    uint32_t mode;
    presil_capture_tensor tensors[8];
    uint32_t tensor_count;
    uint8_t commands[MOST];
    uint64_t command_bytes;
    int commands_status, time_status;
    presil_write_time time;
    presil_daddr ask;
    const char *note;
} heard;

static void drop(pieces *p) {
    for (size_t i = 0; i < p->count; i++) free(p->at[i].data);
    p->count = 0;
}

static void forget(void) {
    drop(&heard.reads);
    drop(&heard.expected);
    drop(&heard.writes);
    memset(&heard, 0, sizeof heard);
}

static void keep(const presil_capture_launch *launch, const presil_capture_bytes *from, pieces *to) {
    drop(to);
    for (uint64_t i = 0; i < from->count; i++) {
        const presil_byte_range *r = &from->at[i];
        assert_true(to->count < 64);
        piece *p = &to->at[to->count++];
        *p = (piece){r->base, r->bytes, malloc(r->bytes)};
        if (from->host)
            memcpy(p->data, from->host + (r->base.value - from->base.value), r->bytes);
        else
            assert_int_equal(launch->read(launch, r->base, p->data, r->bytes), 0);
    }
}

static int on_begin(void *context, const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    assert_ptr_equal(context, &heard);
    heard.begun++;
    if (heard.refuse) return 0;
    keep(launch, reads, &heard.reads);
    heard.mode = launch->mode;
    heard.origin = launch->origin;
    heard.signature = launch->signature;
    heard.launch = launch->launch;
    (void)snprintf(heard.label, sizeof heard.label, "%s", launch->label);
    heard.tensor_count = launch->tensor_count;
    if (launch->tensor_count) memcpy(heard.tensors, launch->tensors, launch->tensor_count * sizeof *launch->tensors);
    heard.command_bytes = 0;
    heard.commands_status = launch->commands(launch, NULL, &heard.command_bytes);
    assert_true(heard.command_bytes < MOST);
    if (!heard.commands_status) heard.commands_status = launch->commands(launch, heard.commands, &heard.command_bytes);
    return heard.report_only ? PRESIL_CAPTURE_REPORT : PRESIL_CAPTURE_ALL;
}

static void on_expected(void *context, const presil_capture_launch *launch, const presil_capture_bytes *writes) {
    (void)context;
    heard.expectations++;
    keep(launch, writes, &heard.expected);
}

static const char *on_end(void *context, const presil_capture_launch *launch, const presil_report *report,
                          const presil_capture_bytes *writes) {
    (void)context;
    heard.ended++;
    heard.report = *report;
    keep(launch, writes, &heard.writes);
    (void)snprintf(heard.error, sizeof heard.error, "%s", launch->error ? launch->error : "");
    heard.time = (presil_write_time){.size = sizeof heard.time};
    heard.time_status = heard.ask.value ? launch->write_time(launch, heard.ask, &heard.time) : 0;
    if (heard.ask.value) (void)launch->describe(launch, heard.ask, heard.where, sizeof heard.where);
    return heard.note;
}

static const presil_capture_ops ops = {.size = sizeof ops, .begin = on_begin, .expected = on_expected, .end = on_end};

static presil_device *listen(presil_mode mode, bool map) {
    forget();
    presil_device *d = open_device(mode, map ? "soft" : "nomap");
    if (mode != PRESIL_MODE_MODEL) EXPECT_OK(presil_device_start(d));
    reports_begin(d);
    EXPECT_OK(presil_set_capture(d, &ops, &heard));
    return d;
}

static const uint8_t *byte_of(const pieces *p, uint64_t address) {
    for (size_t i = 0; i < p->count; i++) {
        if (address - p->at[i].base.value < p->at[i].bytes) return p->at[i].data + (address - p->at[i].base.value);
    }
    return NULL;
}

static void holds(const pieces *p, presil_daddr at, const void *want, size_t bytes, const char *what) {
    for (size_t i = 0; i < bytes; i++) {
        const uint8_t *found = byte_of(p, at.value + i);
        if (!found) fail_msg("%s: byte %zu is not there", what, i);
        if (*found != ((const uint8_t *)want)[i]) fail_msg("%s: byte %zu differs", what, i);
    }
}

static uint64_t total(const pieces *p) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < p->count; i++) bytes += p->at[i].bytes;
    return bytes;
}

static uint64_t an_origin(void) { return 4711; }

static void every_mode(void **state) {
    (void)state;
    presil_set_origin(an_origin);
    for (int mode = PRESIL_MODE_RTL; mode <= PRESIL_MODE_VERIFY; mode++) {
        for (int map = 0; map < 2; map++) {
            presil_device *d = listen((presil_mode)mode, map);
            matmul_buffers m = matmul_alloc(d, 3);
            uint8_t a[IN_BYTES], b[IN_BYTES], out[OUT_BYTES];
            EXPECT_OK(presil_copy_to_host(d, NULL, a, m.a, sizeof a, PRESIL_COPY_DIRECT));
            EXPECT_OK(presil_copy_to_host(d, NULL, b, m.b, sizeof b, PRESIL_COPY_DIRECT));
            EXPECT_OK(matmul_enqueue(d, NULL, &m));
            matmul_check(d, &m, 3);
            EXPECT_OK(presil_copy_to_host(d, NULL, out, m.out, sizeof out, PRESIL_COPY_DIRECT));
            EXPECT_OK(presil_device_synchronize(d));
            assert_int_equal(heard.begun, 1);
            assert_int_equal(heard.ended, 1);
            assert_int_equal(heard.mode, mode);
            assert_int_equal(heard.origin, 4711);
            assert_int_equal(heard.launch, reports[0].launch);
            assert_string_equal(heard.label, "matmul");
            assert_string_equal(heard.error, "");
            assert_int_equal(heard.report.cycles, reports[0].cycles);
            holds(&heard.reads, m.a, a, sizeof a, "a");
            holds(&heard.reads, m.b, b, sizeof b, "b");
            holds(&heard.writes, m.out, out, sizeof out, "out");
            assert_int_equal(total(&heard.writes), sizeof out);
            assert_int_equal(heard.expectations, mode == PRESIL_MODE_VERIFY);
            if (mode == PRESIL_MODE_VERIFY) holds(&heard.expected, m.out, out, sizeof out, "expected");
            assert_int_equal(heard.tensor_count, 3);
            assert_string_equal(heard.tensors[0].name, "output");
            assert_int_equal(heard.tensors[0].written, 1);
            assert_int_equal(heard.tensors[0].tensor.data.value, m.out.value);
            assert_string_equal(heard.tensors[1].name, "a");
            assert_int_equal(heard.tensors[1].tensor.data.value, m.a.value);
            assert_int_equal(heard.tensors[1].tensor.shape[2], MATMUL_N);
            EXPECT_OK(presil_set_capture(d, NULL, NULL));
            EXPECT_OK(matmul_enqueue(d, NULL, &m));
            EXPECT_OK(presil_device_synchronize(d));
            assert_int_equal(heard.begun, 1); /* off */
            matmul_free(d, m);
            presil_device_close(d);
        }
    }
    presil_set_origin(NULL);
}

/* The stored commands, loaded at the same place, are the launch: same bits, same signature. */
static void commands_run_again(void **state) {
    (void)state;
    presil_device *d = listen(PRESIL_MODE_VERIFY, true);
    matmul_buffers m = matmul_alloc(d, 8);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_device_synchronize(d));
    const uint64_t signature = heard.signature;
    assert_int_equal(heard.commands_status, PRESIL_OK);
    const uint8_t zero[OUT_BYTES] = {0};
    EXPECT_OK(presil_copy_to_device(d, NULL, m.out, zero, sizeof zero, PRESIL_COPY_DIRECT));
    presil_device_info info = {.size = sizeof info};
    EXPECT_OK(presil_device_get_info(d, &info));
    static uint64_t image[MOST / 8];
    image[0] = 1;
    image[1] = heard.command_bytes;
    memcpy(&image[2], heard.commands, heard.command_bytes);
    presil_list *list = NULL;
    EXPECT_OK(
        presil_list_load(d, image, 16 + (heard.command_bytes + 7) / 8 * 8, info.memory_base, info.memory_bytes, &list));
    EXPECT_OK(presil_list_submit(list, NULL));
    matmul_check(d, &m, 8);
    assert_int_equal(heard.begun, 2);
    assert_int_equal(heard.signature, signature);
    assert_int_equal(reports[1].cycles, reports[0].cycles);
    assert_int_equal(total(&heard.reads), 2 * IN_BYTES); /* the image's own ranges, not all of memory */
    assert_int_equal(heard.tensor_count, 0);
    presil_list_destroy(list);
    matmul_free(d, m);
    presil_device_close(d);
}

/* out = a·b + out: what it read is gone when it ends. */
static void in_place(void **state) {
    (void)state;
    for (int mode = PRESIL_MODE_RTL; mode <= PRESIL_MODE_VERIFY; mode++) {
        presil_device *d = listen((presil_mode)mode, mode != PRESIL_MODE_RTL);
        matmul_buffers m = matmul_alloc(d, 5);
        float before[MATMUL_N * MATMUL_N];
        for (int i = 0; i < MATMUL_N * MATMUL_N; i++) before[i] = (float)(i + 1);
        EXPECT_OK(presil_copy_to_device(d, NULL, m.out, before, sizeof before, PRESIL_COPY_DIRECT));
        presil_matmul_desc desc = matmul_desc(&m);
        const presil_tensor residual = desc.out;
        desc.epilogue.residual = &residual;
        float after[MATMUL_N * MATMUL_N];
        EXPECT_OK(presil_matmul(d, NULL, &desc));
        EXPECT_OK(presil_copy_to_host(d, NULL, after, m.out, sizeof after, PRESIL_COPY_DIRECT));
        EXPECT_OK(presil_device_synchronize(d));
        assert_true(memcmp(before, after, sizeof before) != 0);
        holds(&heard.reads, m.out, before, sizeof before, "read in place");
        holds(&heard.writes, m.out, after, sizeof after, "written in place");
        assert_int_equal(heard.tensor_count, 4);
        matmul_free(d, m);
        presil_device_close(d);
    }
}

static void inject_at(presil_device *d, const char *kind, uint64_t address) {
    char text[64];
    (void)snprintf(text, sizeof text, "%s@0x%" PRIx64, kind, address);
    EXPECT_OK(presil_inject(d, text));
}

/* A wrong bit, and a byte outside: both are in what it wrote, neither in what was expected. */
static void wrong_writes(void **state) {
    (void)state;
    for (int map = 0; map < 2; map++) {
        presil_device *d = listen(PRESIL_MODE_VERIFY, map);
        matmul_buffers m = matmul_alloc(d, 6);
        heard.ask.value = m.out.value + 4;
        inject_at(d, "flip", heard.ask.value);
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        heard.note = "kept in wrong.presil";
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EMISMATCH);
        EXPECT_TEXT("; kept in wrong.presil");
        EXPECT_TEXT("RTL and model differ");
        assert_int_equal(heard.report.difference_address, heard.ask.value);
        assert_int_equal(heard.time_status, PRESIL_OK);
        assert_int_equal(heard.time.last_cycle, heard.report.difference_cycle);
        assert_non_null(strstr(heard.where, "output [0, 0, 0, 1]"));
        assert_int_equal(*byte_of(&heard.writes, heard.ask.value) ^ *byte_of(&heard.expected, heard.ask.value), 0x10);
        assert_int_equal(heard.report.status, -PRESIL_EMISMATCH);
        presil_daddr far_away;
        EXPECT_OK(presil_alloc(d, NULL, NULL, 4096, &far_away));
        inject_at(d, "stray", far_away.value);
        heard.note = NULL;
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EMISMATCH);
        assert_non_null(byte_of(&heard.writes, far_away.value));
        assert_null(byte_of(&heard.expected, far_away.value));
        EXPECT_OK(presil_free(d, far_away));
        matmul_free(d, m);
        presil_device_close(d);
    }
}

/* In mode RTL too the writes are those that the chip made, not those of the plan. */
static void strays_without_a_model(void **state) {
    (void)state;
    presil_device *d = listen(PRESIL_MODE_RTL, true);
    matmul_buffers m = matmul_alloc(d, 7);
    presil_daddr far_away;
    EXPECT_OK(presil_alloc(d, NULL, NULL, 4096, &far_away));
    inject_at(d, "stray", far_away.value);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_device_synchronize(d));
    assert_non_null(byte_of(&heard.writes, far_away.value));
    assert_int_equal(total(&heard.writes), OUT_BYTES + 1);
    EXPECT_OK(presil_free(d, far_away));
    matmul_free(d, m);
    presil_device_close(d);
}

static void failed_launches(void **state) {
    (void)state;
    static const struct {
        const char *fault;
        int status;
    } faults[] = {{"slverr", PRESIL_EBUS}, {"hang", PRESIL_EHUNG}, {"fatal", PRESIL_ESTOPPED}};
    for (int mode = PRESIL_MODE_RTL; mode <= PRESIL_MODE_VERIFY; mode += 2) {
        for (size_t f = 0; f < sizeof faults / sizeof *faults; f++) {
            presil_device *d = listen((presil_mode)mode, f % 2);
            matmul_buffers m = matmul_alloc(d, 9);
            uint8_t a[IN_BYTES];
            EXPECT_OK(presil_copy_to_host(d, NULL, a, m.a, sizeof a, PRESIL_COPY_DIRECT));
            EXPECT_OK(presil_inject(d, faults[f].fault));
            heard.note = "kept";
            EXPECT_OK(matmul_enqueue(d, NULL, &m));
            EXPECT_STATUS(presil_device_synchronize(d), faults[f].status);
            EXPECT_TEXT("; kept");
            assert_int_equal(heard.ended, 1);
            assert_int_equal(heard.report.status, -faults[f].status);
            assert_true(strlen(heard.error) > 0);
            assert_int_equal(heard.commands_status, PRESIL_OK);
            holds(&heard.reads, m.a, a, sizeof a, "a");
            EXPECT_OK(matmul_enqueue(d, NULL, &m)); /* and the next one is heard as ever */
            matmul_check(d, &m, 9);
            assert_int_equal(heard.ended, 2);
            assert_int_equal(heard.report.status, 0);
            matmul_free(d, m);
            presil_device_close(d);
        }
    }
}

static void one_at_a_time(void **state) {
    (void)state;
    presil_device *d = listen(PRESIL_MODE_MODEL, true);
    EXPECT_STATUS(presil_set_capture(d, &ops, &heard), PRESIL_EINVAL);
    EXPECT_TEXT("already");
    const presil_capture_ops short_one = {.size = 8, .begin = on_begin, .end = on_end};
    EXPECT_STATUS(presil_set_capture(d, &short_one, NULL), PRESIL_EINVAL);
    heard.refuse = true;
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(heard.begun, 1);
    assert_int_equal(heard.ended, 0);
    presil_device_close(d);
}

/* A list of what was written. */
void __real_ranges_merge(range_list *list);
void __wrap_ranges_merge(range_list *list);
static int lists;
void __wrap_ranges_merge(range_list *list) {
    lists++;
    __real_ranges_merge(list);
}

/* The report, the same bits, and no list of what was written; the next launch has one again. */
static void the_report_alone(void **state) {
    (void)state;
    for (int mode = PRESIL_MODE_RTL; mode <= PRESIL_MODE_VERIFY; mode++) {
        presil_device *d = listen((presil_mode)mode, mode % 2);
        matmul_buffers m = matmul_alloc(d, 3);
        for (int i = 0; i < 2; i++) {
            heard.report_only = i == 0;
            lists = 0;
            EXPECT_OK(matmul_enqueue(d, NULL, &m));
            matmul_check(d, &m, 3);
            EXPECT_OK(presil_device_synchronize(d));
            if (mode == PRESIL_MODE_MODEL) assert_int_equal(lists, i); /* it takes time */
            assert_int_equal(heard.ended, i + 1);
            assert_int_equal(heard.report.cycles, reports[i].cycles);
            assert_int_equal(heard.report.verified, reports[i].verified);
            assert_int_equal(heard.expectations, mode == PRESIL_MODE_VERIFY && i);
            assert_int_equal(total(&heard.writes), i ? OUT_BYTES : 0);
        }
        matmul_free(d, m);
        presil_device_close(d);
    }
}

static void a_merged_list(void **state) {
    (void)state;
    presil_device *d = listen(PRESIL_MODE_VERIFY, true);
    matmul_buffers m = matmul_alloc(d, 2), n = matmul_alloc(d, 3);
    presil_list *list;
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(matmul_enqueue(d, NULL, &n));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    EXPECT_OK(presil_list_merge(list, "both"));
    EXPECT_OK(presil_list_submit(list, NULL));
    matmul_check(d, &m, 2);
    matmul_check(d, &n, 3);
    assert_int_equal(heard.begun, 1);
    assert_int_equal(heard.tensor_count, 6);
    assert_int_equal(heard.tensors[3].tensor.data.value, n.out.value);
    presil_list_destroy(list);
    matmul_free(d, m);
    matmul_free(d, n);
    presil_device_close(d);
}

static void identity(void **state) {
    (void)state;
    const presil_device_options options = {.size = sizeof options,
                                           .config = "tiny",
                                           .build = "soft",
                                           .memory_bytes = 64u << 20,
                                           .memory_model = "ideal",
                                           .seed = 77};
    presil_device *d = NULL;
    presil_device_identity who = {.size = sizeof who};
    EXPECT_OK(presil_device_open(&options, &d));
    EXPECT_OK(presil_device_start(d));
    EXPECT_OK(presil_device_identify(d, &who));
    assert_string_equal(who.memory_model, "ideal");
    assert_int_equal(who.seed, 77);
    assert_int_equal(who.hang_cycles, 200000);
    assert_true(who.capabilities & PRESIL_CAP_WRITE_TIMES);
    assert_string_equal(who.rtl, "");
    presil_device_close(d);
}

/* Tensors are kept for a listener, or in a list that one may hear later; else nothing is allocated for them. */
launch_tensors *__real_presil_tensors_new(const presil_capture_tensor *from, size_t count);
launch_tensors *__wrap_presil_tensors_new(const presil_capture_tensor *from, size_t count);
static int kept;
launch_tensors *__wrap_presil_tensors_new(const presil_capture_tensor *from, size_t count) {
    kept++;
    return __real_presil_tensors_new(from, count);
}

static void tensors_are_kept_for_somebody(void **state) {
    (void)state;
    presil_device *d = listen(PRESIL_MODE_MODEL, true);
    matmul_buffers m = matmul_alloc(d, 8);
    kept = 0;
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_set_capture(d, NULL, NULL)); /* waits */
    assert_int_equal(kept, 1);
    assert_int_equal(heard.tensor_count, 3);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    assert_int_equal(kept, 1);
    presil_list *list = NULL;
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    assert_int_equal(kept, 2);
    EXPECT_OK(presil_set_capture(d, &ops, &heard));
    heard.tensor_count = 0;
    EXPECT_OK(presil_list_submit(list, NULL));
    EXPECT_OK(presil_set_capture(d, NULL, NULL));
    assert_int_equal(heard.tensor_count, 3);
    presil_list_destroy(list);
    matmul_free(d, m);
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_mode),       cmocka_unit_test(commands_run_again),
        cmocka_unit_test(in_place),         cmocka_unit_test(wrong_writes),
        cmocka_unit_test(failed_launches),  cmocka_unit_test(strays_without_a_model),
        cmocka_unit_test(one_at_a_time),    cmocka_unit_test(a_merged_list),
        cmocka_unit_test(identity),         cmocka_unit_test(tensors_are_kept_for_somebody),
        cmocka_unit_test(the_report_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
