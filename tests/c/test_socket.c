/* SPDX-License-Identifier: Apache-2.0 */
/* Devices whose chip is in another process (here: in a thread behind a socket): the driver's whole way, in each mode,
 * mapped and copying; peers that go and come back. */
#define _GNU_SOURCE
#include "core_fixture.h"
#include "socket_fixture.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "client.h"
#include "device.h"

static presil_device *open_at(presil_mode mode, const char *spec) {
    const presil_device_options options = {
        .size = sizeof options, .mode = mode, .memory_bytes = 64u << 20, .transport = spec};
    presil_device *device = NULL;
    EXPECT_OK(presil_device_open(&options, &device));
    return device;
}

static void run_matmuls(presil_device *device, unsigned count) {
    for (unsigned seed = 0; seed < count; seed++) {
        const matmul_buffers m = matmul_alloc(device, seed);
        EXPECT_OK(matmul_enqueue(device, NULL, &m));
        matmul_check(device, &m, seed);
        matmul_free(device, m);
    }
}

/* ---- */
static void computes_in_every_mode(void **state) {
    (void)state;
    soft_server s;
    for (int copy = 0; copy < 3; copy++) { /* 0: mapped; 1: the server refuses; 2: the client asks for it */
        char spec[160];
        soft_server_name(&s);
        soft_server_start(&s, copy == 1);
        (void)snprintf(spec, sizeof spec, "%s%s", s.spec, copy == 2 ? ",copy" : "");
        static const presil_mode modes[] = {PRESIL_MODE_RTL, PRESIL_MODE_VERIFY, PRESIL_MODE_MODEL};
        for (size_t i = 0; i < 3; i++) {
            presil_device *device = open_at(modes[i], spec);
            if (modes[i] == PRESIL_MODE_MODEL) {
                presil_device_close(device);
                continue;
            }
            reports_begin(device);
            run_matmuls(device, 4);
            assert_int_equal(report_count, 4);
            for (size_t n = 0; n < 4; n++) {
                assert_int_equal(reports[n].verified, modes[i] == PRESIL_MODE_VERIFY ? 1 : -1);
                assert_true(reports[n].cycles >= 107); /* the soft transport's clock */
            }
            presil_daddr block;
            EXPECT_OK(presil_alloc(device, NULL, NULL, 4096, &block));
            assert_int_equal(presil_host_pointer(device, block, 4096) != NULL, copy == 0);
            EXPECT_OK(presil_free(device, block));
            presil_device_info info = {.size = sizeof info};
            EXPECT_OK(presil_device_get_info(device, &info));
            assert_string_equal(info.transport, spec);
            assert_string_equal(info.config, "tiny");
            assert_string_equal(info.build, "soft");
            presil_device_close(device);
        }
        soft_server_stop(&s);
        assert_int_equal(access(s.path, F_OK), -1);
    }
}

static void the_model_needs_no_server(void **state) {
    (void)state;
    soft_server s;
    soft_server_name(&s);
    presil_device_options options = {.size = sizeof options,
                                     .mode = PRESIL_MODE_MODEL,
                                     .config = "tiny",
                                     .memory_bytes = 64u << 20,
                                     .transport = s.spec};
    presil_device *device = NULL;
    EXPECT_OK(presil_device_open(&options, &device));
    run_matmuls(device, 2);
    EXPECT_OK(presil_device_set_mode(device, PRESIL_MODE_RTL));
    EXPECT_STATUS(presil_device_start(device), PRESIL_ENODEV);
    EXPECT_TEXT("nobody answers there");
    soft_server_start(&s, false);
    run_matmuls(device, 2);
    presil_device_close(device);
    /* Opened for another configuration than the server's. */
    options.config = "base";
    EXPECT_OK(presil_device_open(&options, &device));
    EXPECT_OK(presil_device_set_mode(device, PRESIL_MODE_RTL));
    EXPECT_STATUS(presil_device_start(device), PRESIL_ENODEV);
    EXPECT_TEXT("\"tiny\"");
    presil_device_close(device);
    options.mode = PRESIL_MODE_RTL;
    EXPECT_STATUS(presil_device_open(&options, &device), PRESIL_EINVAL);
    EXPECT_TEXT("has configuration \"tiny\"");
    soft_server_stop(&s);
}

static void wrong_transports_are_refused(void **state) {
    (void)state;
    static const struct {
        const char *spec, *text;
        uint32_t index;
    } cases[] = {{"tcp:1", "expected", 0},
                 {"socket:", "expected", 0},
                 {"socket:/x,slow", "options are", 0},
                 {"socket:/x,timeout=0", "timeout=SECONDS", 0},
                 {"socket:/x,timeout=1x", "timeout=SECONDS", 0},
                 {"socket:/x;socket:/y", "has 2 entries", 2},
                 {"socket:/nowhere/x", "nobody answers", 0},
                 {"inproc;what", "expected", 1}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const presil_device_options options = {.size = sizeof options,
                                               .transport = cases[i].spec,
                                               .transport_index = cases[i].index,
                                               .memory_bytes = 64u << 20};
        presil_device *device = NULL;
        assert_true(presil_device_open(&options, &device) < 0);
        EXPECT_TEXT(cases[i].text);
    }
    const presil_device_options both = {.size = sizeof both, .transport = "socket:/x", .library = "x.so"};
    presil_device *device = NULL;
    EXPECT_STATUS(presil_device_open(&both, &device), PRESIL_EINVAL);
    EXPECT_TEXT("can't both be given");
}

/* Whoever has bound the path first does not get the memory. */
static void a_server_of_another_user_is_refused(void **state) {
    (void)state;
    soft_server s;
    char spec[160];
    presil_device *device = NULL;
    presil_device_options options = {.size = sizeof options, .memory_bytes = 64u << 20, .transport = spec};
    soft_server_name(&s);
    soft_server_start(&s, false);
    (void)snprintf(spec, sizeof spec, "%s,uid=%u", s.spec, (unsigned)getuid() + 1);
    EXPECT_STATUS(presil_device_open(&options, &device), PRESIL_ENODEV);
    EXPECT_TEXT("listens there, user ");
    soft_server_stop(&s);
    soft_server_start(&s, false);
    (void)snprintf(spec, sizeof spec, "%s,uid=%u", s.spec, (unsigned)getuid());
    EXPECT_OK(presil_device_open(&options, &device));
    run_matmuls(device, 1);
    presil_device_close(device);
    soft_server_stop(&s);
    if (getuid() != 0) return; /* only root can be somebody else */
    char folder[] = "/tmp/presil-other-XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    assert_int_equal(chmod(folder, 0777), 0);
    (void)snprintf(path, sizeof path, "%s/s", folder);
    const pid_t other = fork();
    if (other == 0) {
        const struct sockaddr_un at = {.sun_family = AF_UNIX};
        struct sockaddr_un name = at;
        (void)snprintf(name.sun_path, sizeof name.sun_path, "%s", path);
        const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
        if (setuid(65534) || bind(fd, (const struct sockaddr *)&name, sizeof name) || listen(fd, 1)) _exit(1);
        (void)pause();
        _exit(0);
    }
    (void)snprintf(spec, sizeof spec, "socket:%s,timeout=0.5", path);
    int status = PRESIL_OK;
    for (int tries = 0; tries < 500; tries++) {
        status = presil_device_open(&options, &device);
        if (!strstr(presil_error_text(), "nobody answers")) break;
        (void)usleep(10000);
    }
    assert_int_equal(status, PRESIL_ENODEV);
    EXPECT_TEXT("of user 65534 listens there, user 0 expected");
    assert_int_equal(kill(other, SIGKILL), 0);
    assert_int_equal(waitpid(other, NULL, 0), other);
    (void)unlink(path);
    (void)rmdir(folder);
}

/* Six messages: LAUNCH, SYNC_DEVICE and three WRITE32, posted; WAIT_THEN, which is answered. */
static void an_empty_launch_is_one_exchange(void **state) {
    (void)state;
    soft_server s;
    soft_server_name(&s);
    soft_server_start(&s, false);
    presil_device *device = open_at(PRESIL_MODE_RTL, s.spec);
    reports_begin(device);
    EXPECT_OK(presil_nop(device, NULL));
    EXPECT_OK(presil_device_synchronize(device));
    const presil_transport *client = device->link.handle;
    const uint32_t before = client->sequence;
    EXPECT_OK(presil_nop(device, NULL));
    EXPECT_OK(presil_device_synchronize(device));
    assert_int_equal(client->sequence - before, 6);
    assert_int_equal(reports[0].cycles, reports[1].cycles);
    presil_device_close(device);
    soft_server_stop(&s);
}

static void each_device_has_its_server(void **state) {
    (void)state;
    soft_server s[2];
    presil_device *device[2];
    char list[300];
    for (int i = 0; i < 2; i++) {
        soft_server_name(&s[i]);
        soft_server_start(&s[i], i == 1);
    }
    (void)snprintf(list, sizeof list, "%s;%s", s[0].spec, s[1].spec);
    assert_int_equal(setenv("PRESIL_TRANSPORT", list, 1), 0);
    for (uint32_t i = 0; i < 2; i++) {
        const presil_device_options options = {.size = sizeof options, .transport_index = i, .memory_bytes = 64u << 20};
        EXPECT_OK(presil_device_open(&options, &device[i]));
    }
    assert_int_equal(unsetenv("PRESIL_TRANSPORT"), 0);
    for (int i = 0; i < 2; i++) run_matmuls(device[i], 2);
    for (int i = 0; i < 2; i++) {
        presil_device_close(device[i]);
        soft_server_stop(&s[i]);
        assert_non_null(strstr(s[i].log, "connects"));
    }
}

static void a_second_client_is_told_of_the_first(void **state) {
    (void)state;
    soft_server s;
    soft_server_name(&s);
    soft_server_start(&s, false);
    presil_device *first = open_at(PRESIL_MODE_RTL, s.spec), *second = NULL;
    const presil_device_options options = {.size = sizeof options, .memory_bytes = 64u << 20, .transport = s.spec};
    char pid[32];
    (void)snprintf(pid, sizeof pid, "process %d is connected", (int)getpid());
    EXPECT_STATUS(presil_device_open(&options, &second), PRESIL_ENODEV);
    EXPECT_TEXT(pid);
    run_matmuls(first, 1);
    presil_device_close(first);
    second = open_at(PRESIL_MODE_RTL, s.spec);
    run_matmuls(second, 1);
    presil_device_close(second);
    soft_server_stop(&s);
}

static void a_server_that_comes_back_works_again(void **state) {
    (void)state;
    soft_server s;
    for (int copy = 0; copy < 2; copy++) {
        soft_server_name(&s);
        soft_server_start(&s, copy);
        presil_device *device = open_at(PRESIL_MODE_RTL, s.spec);
        presil_set_log(NULL, NULL);
        const matmul_buffers m = matmul_alloc(device, 5);
        EXPECT_OK(matmul_enqueue(device, NULL, &m));
        matmul_check(device, &m, 5);
        soft_server_stop(&s);
        EXPECT_OK(matmul_enqueue(device, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(device), PRESIL_EDEAD);
        EXPECT_TEXT(s.path);
        EXPECT_TEXT("the server ends");
        EXPECT_STATUS(presil_device_reset(device), PRESIL_EDEAD);
        EXPECT_TEXT("nobody answers");
        soft_server_start(&s, copy);
        EXPECT_OK(presil_device_reset(device));
        EXPECT_OK(matmul_enqueue(device, NULL, &m));
        if (!copy) matmul_check(device, &m, 5); /* memory was ours */
        EXPECT_OK(presil_device_synchronize(device));
        run_matmuls(device, 2);
        matmul_free(device, m);
        presil_device_close(device);
        soft_server_stop(&s);
    }
}

static void faults_come_through(void **state) {
    (void)state;
    static const struct {
        const char *fault;
        presil_status status;
        const char *text;
    } cases[] = {{"slverr", PRESIL_EBUS, "bus error on a read"},
                 {"fatal", PRESIL_ESTOPPED, "$fatal"},
                 {"hang", PRESIL_EHUNG, "no progress for 200000 cycles"},
                 {"flip@0x100000000", PRESIL_OK, ""}};
    soft_server s;
    soft_server_name(&s);
    soft_server_start(&s, false);
    presil_device *device = open_at(PRESIL_MODE_RTL, s.spec);
    const matmul_buffers m = matmul_alloc(device, 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EXPECT_OK(presil_inject(device, cases[i].fault));
        EXPECT_OK(matmul_enqueue(device, NULL, &m));
        EXPECT_STATUS(presil_device_synchronize(device), cases[i].status);
        if (cases[i].status) EXPECT_TEXT(cases[i].text);
        EXPECT_OK(matmul_enqueue(device, NULL, &m));
        matmul_check(device, &m, 1);
    }
    EXPECT_STATUS(presil_device_set_memory_model(device, "nonsense", 1), PRESIL_EINVAL);
    EXPECT_TEXT("unknown memory model");
    EXPECT_OK(presil_device_set_memory_model(device, "ideal", 1));
    EXPECT_OK(presil_device_set_mode(device, PRESIL_MODE_VERIFY));
    EXPECT_OK(presil_inject(device, "stray@0x100000000"));
    EXPECT_OK(matmul_enqueue(device, NULL, &m));
    EXPECT_STATUS(presil_device_synchronize(device), PRESIL_EMISMATCH);
    EXPECT_TEXT("stray write");
    matmul_free(device, m);
    presil_device_close(device);
    soft_server_stop(&s);
}

static void expect_refused(const char *path, int expected, const char *text) {
    const presil_serve_options options = {.size = sizeof options, .path = path};
    presil_server *second = NULL;
    char error[256] = "";
    assert_int_equal(presil_serve_open(&options, &second, error, sizeof error), expected);
    assert_null(second);
    if (!strstr(error, text)) fail_msg("\"%s\" expected in: %s", text, error);
}

/* Also by a server that can't ask whether anybody answers there. */
static void a_server_keeps_its_socket(void **state) {
    (void)state;
    soft_server s;
    soft_server_name(&s);
    soft_server_start(&s, false);
    expect_refused(s.path, PRESIL_SERVE_EINVAL, "another server answers there");
    const int next = dup(0); /* the lowest descriptor that is free */
    assert_true(next > 0);
    (void)close(next);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none_left = {(rlim_t)next, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none_left), 0);
    expect_refused(s.path, PRESIL_SERVE_ESYSTEM, "No socket to ask");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    presil_device *device = open_at(PRESIL_MODE_RTL, s.spec);
    run_matmuls(device, 1);
    presil_device_close(device);
    soft_server_stop(&s);
}

static int connected(const char *path) {
    struct sockaddr_un address;
    socklen_t bytes = 0;
    assert_true(channel_address(path, &address, &bytes));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, bytes), 0);
    return fd;
}

/* As a server does that looks whether another is there. */
static void who_has_gone_bars_nobody(void **state) {
    (void)state;
    soft_server name;
    soft_server_name(&name);
    const presil_serve_options options = {.size = sizeof options, .path = name.path};
    presil_server *server = NULL;
    char error[256] = "", byte = 0;
    assert_int_equal(presil_serve_open(&options, &server, error, sizeof error), 0);
    (void)close(connected(name.path));
    const int client = connected(name.path);
    presil_request request;
    assert_int_equal(presil_serve_next(server, &request, 100), 0);
    const ssize_t told = recv(client, &byte, 1, MSG_DONTWAIT);
    assert_true(told < 0 && errno == EAGAIN); /* no refusal: it may say OPEN */
    (void)close(client);
    presil_serve_close(server);
}

/* ---- who settles where */
enum { ROUNDS = 40, SERVERS = 6 };

/* As of a server that was killed. */
static void leave_dead_socket(const char *path) {
    struct sockaddr_un address;
    socklen_t bytes = 0;
    assert_true(channel_address(path, &address, &bytes));
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, bytes), 0);
    (void)close(fd);
}

/* In a process of its own: begins when `go` ends, says how it went, keeps the socket until `done` ends. */
static void try_to_settle(const char *path, int go, int said, int done) {
    char byte = 0;
    (void)!read(go, &byte, 1);
    const presil_serve_options options = {.size = sizeof options, .path = path};
    presil_server *server = NULL;
    char error[256] = "";
    const int status = presil_serve_open(&options, &server, error, sizeof error);
    byte = !status ? 'y' : status == PRESIL_SERVE_EINVAL && strstr(error, "another server answers") ? 'n' : '?';
    (void)!write(said, &byte, 1);
    (void)!read(done, &byte, 1);
    presil_serve_close(server);
    _exit(0);
}

/* Of several that start where a dead one's socket is left, one serves, and the others are told. */
static void one_of_several_takes_over(void **state) {
    (void)state;
    soft_server name;
    soft_server_name(&name);
    for (int round = 0; round < ROUNDS; round++) {
        int go[2], said[2], done[2], yes = 0;
        pid_t child[SERVERS];
        assert_true(pipe(go) == 0 && pipe(said) == 0 && pipe(done) == 0);
        leave_dead_socket(name.path);
        for (int i = 0; i < SERVERS; i++) {
            child[i] = fork();
            assert_true(child[i] >= 0);
            if (child[i]) continue;
            (void)close(go[1]);
            (void)close(done[1]);
            try_to_settle(name.path, go[0], said[1], done[0]);
        }
        (void)close(go[1]);
        for (int i = 0; i < SERVERS; i++) {
            char byte = 0;
            assert_int_equal(read(said[0], &byte, 1), 1);
            assert_true(byte == 'y' || byte == 'n');
            yes += byte == 'y';
        }
        assert_int_equal(yes, 1);
        (void)close(connected(name.path));
        (void)close(done[1]);
        for (int i = 0; i < SERVERS; i++) assert_int_equal(waitpid(child[i], NULL, 0), child[i]);
        for (int i = 0; i < 2; i++) (void)close(i ? go[0] : done[0]), (void)close(said[i]);
        assert_int_equal(access(name.path, F_OK), -1); /* each took what it had made with it */
    }
}

/* Until the file is there; returns the reason for which that one time failed, or NULL. */
static void *connect_when_there(void *path) {
    struct sockaddr_un address;
    socklen_t bytes = 0;
    if (!channel_address(path, &address, &bytes)) return strerror(EINVAL);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int failed = 0;
    while ((failed = connect(fd, (const struct sockaddr *)&address, bytes)) && errno == ENOENT) continue;
    char *reason = failed ? strerror(errno) : NULL;
    (void)close(fd);
    return reason;
}

/* A script that waits for the file can connect at once. */
static void who_is_there_listens(void **state) {
    (void)state;
    soft_server name;
    soft_server_name(&name);
    const presil_serve_options options = {.size = sizeof options, .path = name.path};
    for (int round = 0; round < 50 * ROUNDS; round++) {
        pthread_t waiting;
        presil_server *server = NULL;
        assert_int_equal(pthread_create(&waiting, NULL, connect_when_there, name.path), 0);
        assert_int_equal(presil_serve_open(&options, &server, NULL, 0), 0);
        void *reason = NULL;
        assert_int_equal(pthread_join(waiting, &reason), 0);
        if (reason) fail_msg("round %d: %s", round, (char *)reason);
        presil_serve_close(server);
    }
}

/* On a machine with a free core this looks instead of sleeping, and may not look beyond the deadline. */
static void looking_ends_with_the_deadline(void **state) {
    (void)state;
    const unsigned hour_us = 3600000000u;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    struct pollfd p = {.fd = ends[0], .events = POLLIN};
    assert_int_equal(channel_poll(&p, 1, 0, hour_us), 0);
    assert_int_equal(channel_poll(&p, 1, 20, hour_us), 0);
    assert_int_equal(write(ends[1], "x", 1), 1);
    assert_int_equal(channel_poll(&p, 1, -1, hour_us), 1);
    assert_int_equal(p.revents, POLLIN);
    (void)close(ends[0]);
    (void)close(ends[1]);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(computes_in_every_mode),
                                       cmocka_unit_test(the_model_needs_no_server),
                                       cmocka_unit_test(wrong_transports_are_refused),
                                       cmocka_unit_test(a_server_of_another_user_is_refused),
                                       cmocka_unit_test(an_empty_launch_is_one_exchange),
                                       cmocka_unit_test(each_device_has_its_server),
                                       cmocka_unit_test(a_second_client_is_told_of_the_first),
                                       cmocka_unit_test(a_server_that_comes_back_works_again),
                                       cmocka_unit_test(faults_come_through),
                                       cmocka_unit_test(a_server_keeps_its_socket),
                                       cmocka_unit_test(who_has_gone_bars_nobody),
                                       cmocka_unit_test(one_of_several_takes_over),
                                       cmocka_unit_test(who_is_there_listens),
                                       cmocka_unit_test(looking_ends_with_the_deadline)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
