/* SPDX-License-Identifier: Apache-2.0 */
/* The queue: order, worker and caller, streams, events, two threads, two devices, recording, callbacks, fork. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "core_fixture.h"

static pthread_t ran_on[MAX_REPORTS];
static atomic_int ran;

static void on_report(void *context, const presil_report *report) {
    (void)context, (void)report;
    const int i = atomic_load(&ran);
    if (i < MAX_REPORTS) ran_on[i] = pthread_self();
    atomic_store(&ran, i + 1);
}

static void a_caller_that_waits_runs_it_itself(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    matmul_buffers m = matmul_alloc(d, 1);
    atomic_store(&ran, 0);
    presil_set_report(d, on_report, NULL);
    for (int i = 0; i < 20; i++) {
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_OK(presil_device_synchronize(d));
        assert_int_equal(atomic_load(&ran), i + 1);
        assert_true(pthread_equal(ran_on[i], pthread_self()));
    }
    matmul_check(d, &m, 1);
    matmul_free(d, m);
    presil_device_close(d);
}

static void *tagged_elsewhere(void *context) {
    (void)context;
    assert_int_equal(presil_set_tag(99), 0);
    return NULL;
}

static void reports_carry_the_tag_of_their_thread(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    matmul_buffers m = matmul_alloc(d, 1);
    pthread_t other;
    reports_begin(d);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    assert_int_equal(presil_set_tag(7), 0);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    assert_int_equal(pthread_create(&other, NULL, tagged_elsewhere, NULL), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    assert_int_equal(presil_set_tag(0), 7);
    EXPECT_OK(presil_device_synchronize(d)); /* the tag at the call counts, not the one when it runs */
    assert_int_equal(reports[0].tag, 0);
    assert_int_equal(reports[1].tag, 7);
    assert_int_equal(reports[2].tag, 7);
    matmul_free(d, m);
    presil_device_close(d);
}

static void wait_for(atomic_int *value, int expected) {
    const struct timespec nap = {0, 1000000};
    for (int i = 0; i < 10000 && atomic_load(value) < expected; i++) (void)nanosleep(&nap, NULL);
    assert_true(atomic_load(value) >= expected);
}

static void chosen_cpus_make_the_worker_run_it(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    EXPECT_STATUS(presil_device_set_affinity(d, "0-"), PRESIL_EINVAL);
    EXPECT_TEXT("list of CPUs");
    EXPECT_STATUS(presil_device_set_affinity(d, "1000"), PRESIL_EINVAL);
    EXPECT_TEXT("may use none");
    EXPECT_OK(presil_device_set_affinity(d, "0"));
    matmul_buffers m = matmul_alloc(d, 1);
    atomic_store(&ran, 0);
    presil_set_report(d, on_report, NULL);
    for (int i = 0; i < 20; i++) {
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_OK(presil_device_synchronize(d));
        assert_int_equal(atomic_load(&ran), i + 1);
        assert_false(pthread_equal(ran_on[i], pthread_self()));
        cpu_set_t cpus;
        assert_int_equal(pthread_getaffinity_np(ran_on[i], sizeof cpus, &cpus), 0);
        assert_int_equal(CPU_COUNT(&cpus), 1);
    }
    matmul_check(d, &m, 1);
    EXPECT_OK(presil_device_set_affinity(d, ""));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_device_synchronize(d));
    matmul_free(d, m);
    presil_device_close(d);
}

static void the_worker_runs_ahead(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    matmul_buffers m = matmul_alloc(d, 2);
    atomic_store(&ran, 0);
    presil_set_report(d, on_report, NULL);
    for (int i = 0; i < 50; i++) EXPECT_OK(matmul_enqueue(d, NULL, &m));
    wait_for(&ran, 47); /* nobody waits */
    assert_false(pthread_equal(ran_on[40], pthread_self()));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(atomic_load(&ran), 50);
    /* Whoever polls gets there too, with a single launch. */
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    while (!presil_stream_query(d, NULL)) {}
    assert_int_equal(atomic_load(&ran), 51);
    matmul_free(d, m);
    presil_device_close(d);
}

/* Far more than the queue takes. */
static void the_host_is_held_back(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    atomic_store(&ran, 0);
    presil_set_report(d, on_report, NULL);
    for (int i = 0; i < 5000; i++) EXPECT_OK(presil_nop(d, NULL));
    assert_true(atomic_load(&ran) >= 5000 - 1024);
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(atomic_load(&ran), 5000);
    presil_device_close(d);
}

/* ---- two threads on one device: each sees its own stream in order */
typedef struct {
    presil_device *device;
    presil_daddr block;
    unsigned id;
    int failed;
} writer;

static void *writer_main(void *context) {
    writer *w = context;
    presil_stream *stream;
    presil_event *event;
    if (presil_stream_create(w->device, 0, &stream) || presil_event_create(w->device, &event))
        return w->failed = 1, NULL;
    static uint32_t values[2][500];
    for (uint32_t i = 0; i < 500 && !w->failed; i++) {
        uint32_t back = 0;
        values[w->id][i] = w->id << 16 | i;
        if (presil_copy_to_device(w->device, stream, w->block, &values[w->id][i], 4, PRESIL_COPY_DIRECT)) w->failed = 2;
        if (presil_copy_on_device(w->device, stream, (presil_daddr){w->block.value + 64}, w->block, 4,
                                  i % 3 ? PRESIL_COPY_DIRECT : PRESIL_COPY_DMA))
            w->failed = 3;
        if (presil_event_record(event, stream)) w->failed = 4;
        if (presil_copy_to_host(w->device, stream, &back, (presil_daddr){w->block.value + 64}, 4, PRESIL_COPY_DIRECT))
            w->failed = 5;
        if (i % 2 ? presil_stream_synchronize(w->device, stream)
                  : (presil_event_synchronize(event) || presil_stream_synchronize(w->device, stream)))
            w->failed = 6;
        if (presil_event_query(event) != 1) w->failed = 7;
        if (back != values[w->id][i]) w->failed = 8;
    }
    presil_event_destroy(event);
    presil_stream_destroy(stream);
    return NULL;
}

static void two_threads(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    writer writers[2] = {{.device = d, .id = 0}, {.device = d, .id = 1}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) {
        EXPECT_OK(presil_alloc(d, NULL, NULL, 4096, &writers[i].block));
        assert_int_equal(pthread_create(&threads[i], NULL, writer_main, &writers[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(writers[i].failed, 0);
        EXPECT_OK(presil_free(d, writers[i].block));
    }
    EXPECT_OK(presil_device_synchronize(d));
    presil_device_close(d);
    assert_string_equal(log_text(), "");
}

static void events(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL), *other = open_device(PRESIL_MODE_MODEL, NULL);
    matmul_buffers m = matmul_alloc(d, 3);
    presil_event *before, *after, *never;
    EXPECT_OK(presil_event_create(d, &before));
    EXPECT_OK(presil_event_create(d, &after));
    EXPECT_OK(presil_event_create(d, &never));
    assert_int_equal(presil_event_query(never), 1);
    EXPECT_OK(presil_event_synchronize(never));
    uint64_t c0 = 0, c1 = 0;
    EXPECT_STATUS(presil_event_cycles(never, &c0), PRESIL_EINVAL);
    EXPECT_OK(presil_event_record(before, NULL));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_event_record(after, NULL));
    assert_int_equal(presil_event_query(before), 1);
    presil_stream *stream;
    EXPECT_OK(presil_stream_create(other, 0, &stream));
    EXPECT_OK(presil_event_wait(after, other, NULL)); /* the other device's default stream waits for this one */
    EXPECT_OK(presil_stream_synchronize(other, NULL));
    assert_int_equal(presil_event_query(after), 1);
    EXPECT_OK(presil_event_cycles(after, &c1));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_event_record(after, NULL));
    EXPECT_OK(presil_event_wait(after, other, stream));
    EXPECT_STATUS(presil_event_wait(after, d, stream), PRESIL_EINVAL); /* of another device than the one named */
    EXPECT_STATUS(presil_event_wait(after, NULL, stream), PRESIL_EINVAL);
    EXPECT_OK(presil_stream_synchronize(other, stream));
    assert_int_equal(presil_event_query(after), 1);
    EXPECT_OK(presil_event_cycles(before, &c0));
    assert_true(c1 > c0 + 100);
    EXPECT_STATUS(presil_event_record(before, stream), PRESIL_EINVAL);
    presil_event *modelled;
    EXPECT_OK(presil_event_create(other, &modelled));
    EXPECT_OK(presil_event_record(modelled, stream));
    EXPECT_STATUS(presil_event_cycles(modelled, &c0), PRESIL_EUNSUPPORTED);
    presil_event_destroy(modelled);
    presil_stream_destroy(stream);
    presil_event_destroy(before);
    presil_event_destroy(never);
    matmul_free(d, m);
    presil_device_close(d);
    EXPECT_STATUS(presil_event_synchronize(after), PRESIL_ENODEV); /* outlives its device, harmlessly */
    presil_event_destroy(after);
    presil_device_close(other);
}

static void recording(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    matmul_buffers m = matmul_alloc(d, 4);
    presil_list *list;
    reports_begin(d);
    EXPECT_STATUS(presil_record_end(d, NULL, &list), PRESIL_EINVAL);
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_STATUS(presil_record_begin(d, NULL), PRESIL_EINVAL);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    char byte = 0;
    EXPECT_STATUS(presil_copy_to_device(d, NULL, m.a, &byte, 1, PRESIL_COPY_DIRECT), PRESIL_EINVAL);
    EXPECT_OK(presil_record_end(d, NULL, &list));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(report_count, 0);
    /* Recorded in one mode, submitted in another, and destroyed while it is queued. */
    EXPECT_OK(presil_device_set_mode(d, PRESIL_MODE_VERIFY));
    for (int i = 0; i < 3; i++) EXPECT_OK(presil_list_submit(list, NULL));
    presil_list_destroy(list);
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(report_count, 6);
    assert_int_equal(reports[5].verified, 1);
    matmul_check(d, &m, 4);
    /* As one launch. */
    reports_begin(d);
    EXPECT_OK(presil_record_begin(d, NULL));
    for (int i = 0; i < 3; i++) EXPECT_OK(matmul_enqueue(d, NULL, &m));
    EXPECT_OK(presil_record_end(d, NULL, &list));
    assert_int_equal(presil_list_launches(list), 3);
    EXPECT_OK(presil_list_merge(list, "three"));
    assert_int_equal(presil_list_launches(list), 1);
    for (int i = 0; i < 2; i++) EXPECT_OK(presil_list_submit(list, NULL));
    EXPECT_STATUS(presil_list_merge(list, "late"), PRESIL_EINVAL);
    EXPECT_OK(presil_device_synchronize(d));
    presil_list_destroy(list);
    assert_int_equal(report_count, 2);
    assert_int_equal(reports[1].verified, 1);
    assert_string_equal(reports[1].label, "three");
    assert_int_equal(reports[1].macs, 3 * MATMUL_N * MATMUL_N * MATMUL_N);
    matmul_check(d, &m, 4);
    /* Left open at close. */
    EXPECT_OK(presil_record_begin(d, NULL));
    EXPECT_OK(presil_nop(d, NULL));
    matmul_free(d, m);
    presil_device_close(d);
}

static int nested_status;

static void waits_in_a_callback(void *context, const presil_report *report) {
    (void)report;
    presil_device *d = context;
    nested_status = presil_device_synchronize(d);
    presil_memory_stats stats = {.size = sizeof stats};
    if (nested_status == PRESIL_EINVAL) nested_status = presil_memory_get_stats(d, &stats) ? -100 : PRESIL_EINVAL;
}

static void a_callback_can_not_wait(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    presil_set_report(d, waits_in_a_callback, d);
    nested_status = 0;
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    assert_int_equal(nested_status, PRESIL_EINVAL);
    presil_device_close(d);
}

static void a_forked_child_gets_enodev(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    matmul_buffers m = matmul_alloc(d, 6);
    for (int i = 0; i < 10; i++) EXPECT_OK(matmul_enqueue(d, NULL, &m)); /* a worker lives */
    (void)fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        presil_daddr a;
        int wrong = presil_alloc(d, NULL, NULL, 1, &a) != PRESIL_ENODEV || !strstr(presil_error_text(), "forked");
        wrong |= matmul_enqueue(d, NULL, &m) != PRESIL_ENODEV || presil_device_synchronize(d) != PRESIL_ENODEV;
        wrong |= presil_host_pointer(d, m.a, 1) != NULL;
        presil_device_close(d);
        presil_device *own;
        const presil_device_options options = {
            .size = sizeof options, .mode = PRESIL_MODE_MODEL, .config = "tiny", .memory_bytes = 16u << 20};
        wrong |= presil_device_open(&options, &own) != PRESIL_OK || presil_nop(own, NULL) != PRESIL_OK ||
                 presil_device_synchronize(own) != PRESIL_OK;
        presil_device_close(own);
        _exit(wrong);
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    matmul_check(d, &m, 6);
    matmul_free(d, m);
    presil_device_close(d);
}

static void freed_blocks_are_reused_in_order(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_RTL, NULL);
    /* Weights packed into a block that a queued launch still reads: the launch comes first. */
    for (unsigned round = 0; round < 20; round++) {
        matmul_buffers m = matmul_alloc(d, round);
        matmul_buffers kept = m;
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        EXPECT_OK(presil_free(d, m.a));
        float weight[MATMUL_N * MATMUL_N] = {0};
        const presil_weights_desc desc = {.size = sizeof desc,
                                          .compute = PRESIL_COMPUTE_BF16,
                                          .weight = weight,
                                          .weight_dtype = PRESIL_FP32,
                                          .groups = 1,
                                          .shape = {MATMUL_N, MATMUL_N, 1, 1},
                                          .stride = {MATMUL_N, 1, 1, 1},
                                          .dilation = {1, 1},
                                          .input_dilation = {1, 1}};
        presil_weights *weights;
        EXPECT_OK(presil_weights_create(d, &desc, &weights));
        assert_true(presil_weights_bytes(weights) > 0);
        matmul_check(d, &kept, round);
        presil_weights_destroy(weights);
        EXPECT_OK(presil_free(d, m.b));
        EXPECT_OK(presil_free(d, m.out));
    }
    presil_device_close(d);
    assert_string_equal(log_text(), "");
}

/* ---- reports */
typedef struct {
    atomic_int entered, left;
} slow_report;

static void sleep_in_report(void *context, const presil_report *report) {
    slow_report *s = context;
    const struct timespec nap = {0, 100000000};
    (void)report;
    atomic_store(&s->entered, 1);
    (void)nanosleep(&nap, NULL);
    atomic_store(&s->left, 1);
}

static void *wait_for_device(void *device) {
    const int status = presil_device_synchronize(device);
    return status ? device : NULL;
}

/* What a report is given may be freed once another is set. */
static void a_report_that_runs_is_waited_for(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    slow_report s = {0};
    pthread_t thread;
    void *failed;
    presil_set_report(d, sleep_in_report, &s);
    EXPECT_OK(presil_nop(d, NULL));
    assert_int_equal(pthread_create(&thread, NULL, wait_for_device, d), 0);
    while (!atomic_load(&s.entered)) (void)sched_yield();
    presil_set_report(d, NULL, NULL);
    assert_int_equal(atomic_load(&s.left), 1);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    presil_device_close(d);
}

static uint64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Planning is host time once, however often the list runs. */
static void host_time_is_time_that_passed(void **state) {
    (void)state;
    presil_device *d = open_device(PRESIL_MODE_MODEL, NULL);
    matmul_buffers m = matmul_alloc(d, 1);
    presil_list *list;
    reports_begin(d);
    const uint64_t start = now_ns();
    EXPECT_OK(presil_record_begin(d, NULL));
    for (int i = 0; i < 4; i++) {
        presil_matmul_desc desc = matmul_desc(&m);
        desc.tiling = (uint32_t)i + 1; /* planned anew each */
        EXPECT_OK(presil_matmul(d, NULL, &desc));
    }
    EXPECT_OK(presil_record_end(d, NULL, &list));
    for (int i = 0; i < 50; i++) EXPECT_OK(presil_list_submit(list, NULL));
    EXPECT_OK(presil_device_synchronize(d));
    const uint64_t passed = now_ns() - start;
    uint64_t host = 0;
    assert_int_equal(report_count, 200);
    for (size_t i = 0; i < report_count; i++) host += reports[i].host_ns;
    if (host > passed)
        fail_msg("%llu ns of host time are reported, %llu passed", (unsigned long long)host,
                 (unsigned long long)passed);
    presil_list_destroy(list);
    matmul_free(d, m);
    presil_device_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_caller_that_waits_runs_it_itself),
        cmocka_unit_test(chosen_cpus_make_the_worker_run_it),
        cmocka_unit_test(reports_carry_the_tag_of_their_thread),
        cmocka_unit_test(the_worker_runs_ahead),
        cmocka_unit_test(the_host_is_held_back),
        cmocka_unit_test(two_threads),
        cmocka_unit_test(events),
        cmocka_unit_test(recording),
        cmocka_unit_test(a_callback_can_not_wait),
        cmocka_unit_test(a_forked_child_gets_enodev),
        cmocka_unit_test(freed_blocks_are_reused_in_order),
        cmocka_unit_test(a_report_that_runs_is_waited_for),
        cmocka_unit_test(host_time_is_time_that_passed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
