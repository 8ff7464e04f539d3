/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches on several processes (presil_jobs.h), each with the soft transport: what comes back, in which order, what
 * becomes of a process that dies, of a host without memory, of a cancel, and of several threads at once (which is for
 * ThreadSanitizer: stage c-threads). PRESIL_JOBS_SECONDS: how long the last one takes (default 1).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "core_fixture.h"
#include "presil_jobs.h"
#include "processors.h"

/* ---- the host's memory, as the library has it: this definition is before libc's */
static atomic_bool host_is_full;
__attribute__((visibility("default"))) int posix_fallocate(int fd, off_t from, off_t bytes) {
    if (atomic_load(&host_is_full)) return ENOSPC;
    return ftruncate(fd, from + bytes) ? errno : 0;
}

/* ---- who listens to the device's launches, as the library sets it: so that a test can be the device */
static presil_capture_ops listener;
static void *listener_context;
__attribute__((visibility("default"))) int presil_set_capture(presil_device *of, const presil_capture_ops *ops,
                                                              void *context) {
    int (*next)(presil_device *, const presil_capture_ops *, void *);
    *(void **)&next = dlsym(RTLD_NEXT, "presil_set_capture");
    if (ops) listener = *ops, listener_context = context;
    return next(of, ops, context);
}

/* ---- a device with processes */
enum { MATMULS = 6 };
static presil_device *device;
static presil_jobs *jobs;
static matmul_buffers buffers[MATMULS];
static char text[2048];
static uint64_t next_launch, bad_reports, good_reports;

static void on_report(void *context, const presil_report *report) {
    (void)context;
    if (report->launch != next_launch) bad_reports++;
    next_launch = report->launch + 1;
    if (report->mode != PRESIL_MODE_VERIFY) bad_reports++;
    if (report->verified == 1 && !report->status) good_reports++;
}

static void begin_with(presil_jobs_options options, int status) {
    device = open_device(PRESIL_MODE_MODEL, "soft");
    for (unsigned i = 0; i < MATMULS; i++) buffers[i] = matmul_alloc(device, i);
    next_launch = bad_reports = good_reports = 0;
    jobs = NULL;
    *text = 0;
    options.size = sizeof options;
    options.build = "soft";
    options.report = on_report;
    if (!options.workers) options.workers = 3;
    const int found = presil_jobs_open(device, &options, &jobs, text, sizeof text);
    if (found != status) fail_msg("presil_jobs_open: %d: %s", found, text);
}

static void end(void) {
    assert_int_equal(bad_reports, 0);
    presil_jobs_close(jobs);
    for (unsigned i = 0; i < MATMULS; i++) matmul_free(device, buffers[i]);
    presil_device_close(device);
    unsetenv("PRESIL_JOB_FAULT");
}

static void launch(unsigned count) {
    for (unsigned i = 0; i < count; i++) EXPECT_OK(matmul_enqueue(device, NULL, &buffers[i % MATMULS]));
    EXPECT_OK(presil_device_synchronize(device));
}

static int wait_for_jobs(void) {
    uint64_t origin;
    *text = 0;
    return presil_jobs_wait(jobs, text, sizeof text, &origin);
}

static void expect_jobs(int status, const char *part) {
    const int found = wait_for_jobs();
    if (found != status || !strstr(text, part))
        fail_msg("presil_jobs_wait: %d with \"%s\", %d with \"%s\" expected", found, text, status, part);
}

static presil_jobs_stats stats(void) {
    presil_jobs_stats s = {.size = sizeof s};
    EXPECT_OK(presil_jobs_get_stats(jobs, &s));
    return s;
}

/* ---- tests */
static void reports_come_in_order_whatever_ends_first(void **state) {
    (void)state;
    for (unsigned seed = 0; seed < 4; seed++) {
        char number[16];
        (void)snprintf(number, sizeof number, "%u", seed);
        if (seed) setenv("PRESIL_JOBS_ORDER", number, 1);
        begin_with((presil_jobs_options){.workers = 1 + seed}, PRESIL_OK);
        unsetenv("PRESIL_JOBS_ORDER");
        launch(60);
        for (unsigned i = 0; i < MATMULS; i++) matmul_check(device, &buffers[i], i);
        expect_jobs(PRESIL_OK, "");
        assert_int_equal(good_reports, 60);
        assert_int_equal(stats().launches, 60);
        assert_int_equal(stats().left_ns, 0);
        assert_int_equal(presil_jobs_ready(jobs, 0), 1);
        end();
    }
}

static void kill_processes(void) {
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    for (int pid; fscanf(file, "%d", &pid) == 1;) (void)kill(pid, SIGKILL);
    (void)fclose(file);
}

static void processes_that_die_are_replaced(void **state) {
    (void)state;
    begin_with((presil_jobs_options){.workers = 2}, PRESIL_OK);
    launch(4);
    expect_jobs(PRESIL_OK, "");
    kill_processes();
    uint64_t launches = 4;
    while (stats().restarts < 2) { /* on a busy machine one process may take twenty launches before the other has one */
        launch(20);
        launches += 20;
        const int status = wait_for_jobs(); /* none, if they were seen to be gone before a launch was sent */
        assert_true(status == PRESIL_OK || (status == PRESIL_ESTOPPED && strstr(text, "signal 9")));
        expect_jobs(PRESIL_OK, "");
    }
    assert_int_equal(stats().launches, launches);
    assert_true(good_reports >= launches - 2);
    assert_int_equal(stats().restarts, 2);
    end();
}

/* Keeps what a failed launch read, should have written, and wrote: a byte of each. */
typedef struct {
    unsigned begun, ended;
    uint64_t read_bytes, expected_bytes, found_bytes, differing;
    uint8_t expected[4096];
    int refused;
} heard;

static uint64_t copy_bytes(const presil_capture_launch *l, const presil_capture_bytes *from, uint8_t *to,
                           uint64_t most) {
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < from->count; i++) {
        assert_true(bytes + from->at[i].bytes <= most);
        assert_int_equal(l->read(l, from->at[i].base, to + bytes, from->at[i].bytes), PRESIL_OK);
        bytes += from->at[i].bytes;
    }
    return bytes;
}
static int heard_begin(void *context, const presil_capture_launch *l, const presil_capture_bytes *reads) {
    heard *h = context;
    uint8_t bytes[4096], image[4096];
    uint64_t size = sizeof image;
    h->begun++;
    h->read_bytes = copy_bytes(l, reads, bytes, sizeof bytes);
    assert_int_equal(l->commands(l, image, &size), PRESIL_OK);
    assert_true(size > 0 && l->tensor_count == 3);
    h->refused = l->read(l, (presil_daddr){reads->at[reads->count - 1].base.value + (1u << 20)}, bytes, 4);
    return 1;
}
static void heard_expected(void *context, const presil_capture_launch *l, const presil_capture_bytes *writes) {
    heard *h = context;
    h->expected_bytes = copy_bytes(l, writes, h->expected, sizeof h->expected);
}
static const char *heard_end(void *context, const presil_capture_launch *l, const presil_report *report,
                             const presil_capture_bytes *writes) {
    heard *h = context;
    uint8_t found[4096];
    (void)report;
    h->ended++;
    h->found_bytes = copy_bytes(l, writes, found, sizeof found);
    for (uint64_t i = 0; i < h->found_bytes && i < h->expected_bytes; i++) h->differing += found[i] != h->expected[i];
    return "heard";
}

static heard hear_failure(const char *fault, int status, const char *part) {
    static const presil_capture_ops ops = {
        .size = sizeof ops, .begin = heard_begin, .expected = heard_expected, .end = heard_end};
    heard h = {0};
    if (fault) setenv("PRESIL_JOB_FAULT", fault, 1);
    begin_with((presil_jobs_options){.workers = 1}, PRESIL_OK);
    presil_capture_source source = {.size = sizeof source};
    presil_jobs_source(jobs, &source);
    assert_int_equal(source.set_capture(source.who, &ops, &h), PRESIL_OK);
    assert_int_equal(source.set_capture(source.who, &ops, &h), PRESIL_EINVAL);
    launch(3);
    expect_jobs(status, part);
    expect_jobs(PRESIL_OK, "");
    assert_int_equal(source.set_capture(source.who, NULL, NULL), PRESIL_OK);
    launch(1);
    expect_jobs(PRESIL_OK, "");
    assert_int_equal(good_reports, 3);
    end();
    assert_int_equal(h.begun, 1);
    assert_int_equal(h.ended, 1);
    assert_int_equal(h.read_bytes, 2 * MATMUL_N * MATMUL_N * 2);
    assert_int_equal(h.expected_bytes, MATMUL_N * MATMUL_N * 4);
    assert_int_equal(h.refused, PRESIL_EINVAL);
    return h;
}

static void a_failure_is_told_with_its_memory(void **state) {
    (void)state;
    char fault[64];
    device = open_device(PRESIL_MODE_MODEL, "soft");
    const matmul_buffers first = matmul_alloc(device, 0); /* the same addresses each time */
    (void)snprintf(fault, sizeof fault, "flip@%llu", (unsigned long long)first.out.value);
    matmul_free(device, first);
    presil_device_close(device);
    /* The text of one process, whose first launch has the fault. */
    char alone[512];
    device = open_device(PRESIL_MODE_VERIFY, "soft");
    const matmul_buffers same = matmul_alloc(device, 0);
    assert_true(same.out.value == first.out.value);
    EXPECT_OK(presil_device_start(device));
    EXPECT_OK(presil_inject(device, fault));
    EXPECT_OK(matmul_enqueue(device, NULL, &same));
    EXPECT_STATUS(presil_device_synchronize(device), PRESIL_EMISMATCH);
    const char *words = strstr(presil_error_text(), "RTL and model differ");
    assert_non_null(words);
    (void)snprintf(alone, sizeof alone, "%s", words);
    matmul_free(device, same);
    presil_device_close(device);
    const heard wrong = hear_failure(fault, PRESIL_EMISMATCH, alone);
    assert_non_null(strstr(alone, "output [0, 0, 0, 0], tile 0, descriptor "));
    assert_int_equal(wrong.found_bytes, MATMUL_N * MATMUL_N * 4);
    assert_int_equal(wrong.differing, 1);
    const heard stopped = hear_failure("fatal", PRESIL_ESTOPPED, "; heard");
    assert_int_equal(stopped.differing, stopped.found_bytes ? stopped.differing : 0);
}

static void a_full_host_is_the_launch_s_error(void **state) {
    (void)state;
    begin_with((presil_jobs_options){.workers = 2}, PRESIL_OK);
    atomic_store(&host_is_full, true);
    launch(1);
    expect_jobs(PRESIL_EHOSTMEM, "the host has no memory for what it reads");
    atomic_store(&host_is_full, false);
    launch(1);
    expect_jobs(PRESIL_OK, "");
    assert_int_equal(good_reports, 1);
    end();
}

static int no_commands(const presil_capture_launch *l, void *to, uint64_t *size) {
    (void)l;
    *size = 8;
    return to ? PRESIL_EHOSTMEM : PRESIL_OK;
}

/* Its memory is too large to be kept for the next launch (bytes / 4): it is gone when the launch is. */
static void commands_that_can_not_be_stored_are_the_launch_s_error(void **state) {
    (void)state;
    begin_with((presil_jobs_options){.workers = 1, .bytes = 100000}, PRESIL_OK);
    const presil_capture_launch l = {.size = sizeof l, .label = "odd", .commands = no_commands};
    const presil_capture_bytes none = {0};
    const presil_report report = {.size = sizeof report};
    assert_int_equal(listener.begin(listener_context, &l, &none), 1);
    assert_null(listener.end(listener_context, &l, &report, &none));
    expect_jobs(PRESIL_EHOSTMEM, "odd: can't be given to a process");
    assert_int_equal(stats().bytes, 0);
    bad_reports = 0; /* a launch has the number 0, too */
    end();
}

static void little_memory_makes_launches_wait(void **state) {
    (void)state;
    begin_with((presil_jobs_options){.bytes = 100000}, PRESIL_OK);
    launch(30);
    expect_jobs(PRESIL_OK, "");
    assert_int_equal(good_reports, 30);
    assert_true(stats().peak_bytes <= 100000 && stats().blocked_ns > 0);
    end();
}

static void many_launches_do_not_take_all_files(void **state) {
    (void)state;
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit few = {64, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    begin_with((presil_jobs_options){.workers = 1}, PRESIL_OK);
    launch(400);
    expect_jobs(PRESIL_OK, "");
    assert_int_equal(good_reports, 400);
    end();
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
}

static void a_cancel_drops_launches_and_the_next_one_runs(void **state) {
    (void)state;
    setenv("PRESIL_JOB_FAULT", "slow", 1);
    begin_with((presil_jobs_options){.workers = 2}, PRESIL_OK);
    launch(10);
    assert_int_equal(presil_jobs_ready(jobs, 1000000), 0);
    unsetenv("PRESIL_JOB_FAULT"); /* of the processes that follow */
    presil_jobs_cancel(jobs);
    expect_jobs(PRESIL_ECANCELLED, "10 launches were not compared");
    assert_int_equal(stats().lost, 10);
    /* A process that had no launch yet was not ended, and still has its fault. */
    for (uint64_t first = 10;; first += 2) {
        next_launch = first;
        good_reports = 0;
        launch(2);
        if (presil_jobs_ready(jobs, 10000000000u)) break;
        presil_jobs_cancel(jobs);
        (void)wait_for_jobs();
    }
    expect_jobs(PRESIL_OK, "");
    assert_int_equal(good_reports, 2);
    end();
}

static void refuse(presil_jobs_options options, int status, const char *part) {
    begin_with(options, status);
    if (!strstr(text, part)) fail_msg("\"%s\" lacks \"%s\"", text, part);
    presil_device_close(device);
}

static void what_can_not_start_is_refused(void **state) {
    (void)state;
    refuse((presil_jobs_options){.program = "/nowhere"}, PRESIL_ENODEV, "PRESIL_JOB_PROGRAM");
    refuse((presil_jobs_options){.program = "/bin/true"}, PRESIL_ENODEV, "ended with exit status 0");
    refuse((presil_jobs_options){.workers = 2000}, PRESIL_EINVAL, "2000 processes: at most 1024");
    refuse((presil_jobs_options){.transport = "socket:/a;socket:/b", .transport_first = 1}, PRESIL_EINVAL,
           "4 processes need a chip each, and transport names 2");
    char mute[] = "/tmp/presil-mute-XXXXXX";
    const int fd = mkstemp(mute);
    assert_true(fd >= 0 && dprintf(fd, "#!/bin/sh\nexec sleep 1000\n") > 0 && fchmod(fd, 0700) == 0);
    (void)close(fd);
    setenv("PRESIL_JOBS_START", "1", 1);
    refuse((presil_jobs_options){.program = mute, .workers = 2}, PRESIL_ENODEV,
           "has said nothing since it was started");
    unsetenv("PRESIL_JOBS_START");
    (void)unlink(mute);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* no process is left */
}

static void no_process_asked_for_means_all(void **state) {
    (void)state;
    setenv("PRESIL_JOBS", "0", 1);
    device = open_device(PRESIL_MODE_MODEL, "soft");
    const presil_jobs_options options = {.size = sizeof options, .build = "soft"};
    const int found = presil_jobs_open(device, &options, &jobs, text, sizeof text);
    unsetenv("PRESIL_JOBS");
    if (found) fail_msg("presil_jobs_open: %d: %s", found, text);
    assert_int_equal(stats().workers, presil_jobs_processors());
    presil_jobs_close(jobs);
    presil_device_close(device);
}

/* ---- processors */
static void put(const char *folder, const char *name, const char *what) {
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    (void)fputs(what, file);
    (void)fclose(file);
}

static void processors_are_those_of_the_quota(void **state) {
    (void)state;
    char root[] = "/tmp/presil-group-XXXXXX", inner[64], group[64], old[64];
    assert_non_null(mkdtemp(root));
    (void)snprintf(inner, sizeof inner, "%s/job", root);
    (void)snprintf(old, sizeof old, "%s/cpu", root);
    (void)snprintf(group, sizeof group, "%s/self", root);
    assert_int_equal(mkdir(inner, 0700) | mkdir(old, 0700), 0);
    put(root, "self", "0::/job\n");
    assert_int_equal(processors_of_quota(group, root), UINT32_MAX);
    put(inner, "cpu.max", "max 100000\n");
    assert_int_equal(processors_of_quota(group, root), UINT32_MAX);
    put(inner, "cpu.max", "250000 100000\n");
    assert_int_equal(processors_of_quota(group, root), 3);
    put(root, "cpu.max", "150000 100000\n"); /* of the group above it */
    assert_int_equal(processors_of_quota(group, root), 2);
    put(root, "self", "7:memory:/job\n0::/\n3:cpuacct,cpu:/x\n2:cpu:/not/seen/here\n"); /* version 1 */
    put(root, "cpu.max", "max 100000\n");
    put(old, "cpu.cfs_quota_us", "-1\n");
    put(old, "cpu.cfs_period_us", "100000\n");
    assert_int_equal(processors_of_quota(group, root), UINT32_MAX);
    put(old, "cpu.cfs_quota_us", "400000\n");
    assert_int_equal(processors_of_quota(group, root), 4);
    assert_int_equal(processors_of_quota("/nowhere", root), UINT32_MAX);
    assert_true(presil_jobs_processors() >= 1);
    char command[96];
    (void)snprintf(command, sizeof command, "rm -r %s", root);
    assert_int_equal(system(command), 0);
}

/* ---- threads */
static atomic_bool stop;

static void *enqueue_all_the_time(void *context) {
    const matmul_buffers *m = context;
    while (!atomic_load(&stop)) {
        EXPECT_OK(matmul_enqueue(device, NULL, m));
        (void)!presil_device_synchronize(device);
    }
    return NULL;
}

static void *wait_all_the_time(void *unused) {
    (void)unused;
    while (!atomic_load(&stop)) {
        char what[256];
        uint64_t origin;
        const int status = presil_jobs_wait(jobs, what, sizeof what, &origin);
        if (status && status != PRESIL_ECANCELLED) {
            print_error("%d: %s\n", status, what);
            abort();
        }
        (void)!presil_jobs_ready(jobs, 1000);
        (void)stats();
    }
    return NULL;
}

static void threads_at_once(void **state) {
    (void)state;
    const char *seconds = getenv("PRESIL_JOBS_SECONDS");
    pthread_t threads[4];
    begin_with((presil_jobs_options){.workers = 3, .bytes = 400000}, PRESIL_OK);
    atomic_store(&stop, false);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, enqueue_all_the_time, &buffers[i]), 0);
    assert_int_equal(pthread_create(&threads[3], NULL, wait_all_the_time, NULL), 0);
    for (int i = 0; i < 10 * (seconds ? atoi(seconds) : 1); i++) {
        (void)nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
        if (i % 5 == 4) presil_jobs_cancel(jobs);
    }
    atomic_store(&stop, true);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    (void)wait_for_jobs();
    const presil_jobs_stats s = stats();
    assert_true(s.launches > 0 && s.waiting == 0);
    assert_int_equal(good_reports, s.launches);
    bad_reports = 0; /* some numbers are missing: they were cancelled */
    end();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reports_come_in_order_whatever_ends_first),
        cmocka_unit_test(processes_that_die_are_replaced),
        cmocka_unit_test(a_failure_is_told_with_its_memory),
        cmocka_unit_test(a_full_host_is_the_launch_s_error),
        cmocka_unit_test(commands_that_can_not_be_stored_are_the_launch_s_error),
        cmocka_unit_test(little_memory_makes_launches_wait),
        cmocka_unit_test(many_launches_do_not_take_all_files),
        cmocka_unit_test(a_cancel_drops_launches_and_the_next_one_runs),
        cmocka_unit_test(what_can_not_start_is_refused),
        cmocka_unit_test(no_process_asked_for_means_all),
        cmocka_unit_test(processors_are_those_of_the_quota),
        cmocka_unit_test(threads_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
