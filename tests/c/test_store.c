/* SPDX-License-Identifier: Apache-2.0 */
/* The timing store (driver/store): what is put is found, by several processes, after a kill, on a full disk; what is
 * not a store, torn, or another version's is refused and left as it is. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka needs the four above. */
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sqlite3.h>
#include <unistd.h>
#include "presil_store.h"

static char directory[64];
static char *path_of(const char *name) {
    static char paths[4][128];
    static unsigned turn;
    char *path = paths[turn++ % 4];
    (void)snprintf(path, sizeof *paths, "%s/%s", directory, name);
    return path;
}

static int begin(void **state) {
    (void)state;
    (void)snprintf(directory, sizeof directory, "/tmp/presil-store-XXXXXX");
    return mkdtemp(directory) ? 0 : -1;
}
static int end(void **state) {
    (void)state;
    char command[128];
    (void)snprintf(command, sizeof command, "rm -rf '%s'", directory);
    return system(command);
}

static void expect(int found, int status, const char *call, int line) {
    if (found == status) return;
    fail_msg("line %d: %s returned %d (%s), expected %d", line, call, found, presil_store_error(), status);
}
#define OK(call) expect((call), PRESIL_OK, #call, __LINE__)
#define STATUS(call, status) expect((call), (status), #call, __LINE__)
#define TEXT(part)                                                                                                     \
    do {                                                                                                               \
        if (!strstr(presil_store_error(), part)) fail_msg("\"%s\" lacks \"%s\"", presil_store_error(), part);          \
    } while (0)

static presil_store *open_as(const char *name, uint32_t flags, uint64_t bytes) {
    const presil_store_options o = {.size = sizeof o, .flags = flags, .path = path_of(name), .bytes = bytes};
    presil_store *store = NULL;
    OK(presil_store_open(&o, &store));
    return store;
}
static int open_status(const char *name, uint32_t flags) {
    const presil_store_options o = {.size = sizeof o, .flags = flags, .path = path_of(name)};
    presil_store *store = NULL;
    const int status = presil_store_open(&o, &store);
    assert_int_equal(store == NULL, status != PRESIL_OK);
    presil_store_close(store);
    return status;
}

/* Every member differs, and of every size of number. */
static presil_store_row row_of(uint32_t n) {
    presil_store_row r = {.size = sizeof r, .label = "conv 3", .identity = n % 2 ? "rtl=1" : "rtl=0"};
    memcpy(r.key, &n, sizeof n);
    r.key[15] = 7;
    presil_store_timing *t = &r.timing;
    *t = (presil_store_timing){.size = sizeof *t, .segments = n + 1, .cycles = 1000003ull * (n + 1), .fill = 5};
    t->drain = 300, t->read_bytes = 1ull << 40, t->write_bytes = UINT64_MAX, t->read_beats = 127, t->write_beats = 128;
    t->descriptors = 16384;
    for (uint64_t i = 0; i < PRESIL_ENGINES * PRESIL_CAUSES; i++)
        t->stalls[i / PRESIL_CAUSES][i % PRESIL_CAUSES] = i * n;
    for (uint64_t i = 0; i < PRESIL_COUNTERS; i++) t->counters[i] = 1ull << (i * 4 % 64);
    return r;
}
static void put(presil_store *store, uint32_t n) {
    const presil_store_row r = row_of(n);
    OK(presil_store_put(store, &r));
}
static int is_there(presil_store *store, uint32_t n) {
    const presil_store_row r = row_of(n);
    presil_store_timing t = {.size = sizeof t};
    int found = -1;
    OK(presil_store_find(store, r.key, &t, &found));
    if (found) assert_memory_equal(&t, &r.timing, sizeof t);
    return found;
}
static presil_store_info info_of(presil_store *store) {
    presil_store_info i = {.size = sizeof i};
    OK(presil_store_get_info(store, &i));
    return i;
}

/* By hand, past the library. */
static void sql(const char *name, const char *text) {
    sqlite3 *db = NULL;
    assert_int_equal(sqlite3_open(path_of(name), &db), SQLITE_OK);
    char *wrong = NULL;
    if (sqlite3_exec(db, text, NULL, NULL, &wrong)) fail_msg("%s: %s", text, wrong);
    (void)sqlite3_close(db);
}

static void test_put_and_find(void **state) {
    (void)state;
    presil_store *store = open_as("new/folders/a", 0, 0);
    assert_int_equal(is_there(store, 0), 0);
    put(store, 0);
    put(store, 1);
    assert_int_equal(is_there(store, 0) + is_there(store, 1), 2);
    assert_int_equal(is_there(store, 2), 0);
    presil_store_row other = row_of(1); /* the newer one counts */
    other.timing.cycles = 5;
    OK(presil_store_put(store, &other));
    presil_store_timing t = {.size = sizeof t};
    int found;
    OK(presil_store_find(store, other.key, &t, &found));
    assert_int_equal(t.cycles, 5);
    presil_store_close(store);
    store = open_as("new/folders/a", PRESIL_STORE_MUST_EXIST, 0);
    const presil_store_info i = info_of(store);
    assert_int_equal(i.rows, 2);
    assert_int_equal(i.identities, 2);
    assert_int_equal(i.uses, 3);
    assert_int_equal(is_there(store, 0), 1);
    uint64_t removed;
    OK(presil_store_clear(store, &removed));
    assert_int_equal(removed, 2);
    assert_int_equal(is_there(store, 0), 0);
    presil_store_close(store);
}

static void test_report(void **state) {
    (void)state;
    presil_report from = {.size = sizeof from, .cycles = 9, .fill = 1, .drain = 2, .segments = 3}, to = {.launch = 77};
    from.stalls[4][15] = 4, from.counters[15] = 5, from.write_beats = 6, from.read_beats = 7, from.descriptors = 8;
    from.read_bytes = 10, from.write_bytes = 11;
    presil_store_timing t;
    presil_store_take(&t, &from);
    presil_store_give(&t, &to);
    to.size = from.size;
    assert_int_equal(to.launch, 77);
    to.launch = 0;
    assert_memory_equal(&to, &from, sizeof to);
}

static void test_bound(void **state) {
    (void)state;
    enum { MIB = 1 << 20, ROWS = 6000 };
    presil_store *store = open_as("a", 0, MIB);
    put(store, 0);
    for (uint32_t n = 1; n < ROWS; n++) {
        put(store, n);
        if (n % 50 == 0) assert_int_equal(is_there(store, 0), 1); /* in use: it stays */
    }
    const presil_store_info i = info_of(store);
    assert_true(i.evicted > 0 && i.rows + i.evicted == ROWS);
    assert_true(i.bytes <= MIB);
    assert_int_equal(is_there(store, 1), 0);
    assert_int_equal(is_there(store, ROWS - 1), 1);
    presil_store_close(store);
    struct stat file;
    assert_int_equal(stat(path_of("a"), &file), 0);
    assert_true(file.st_size <= MIB + 65536);
    const presil_store_options small = {.size = sizeof small, .path = path_of("a"), .bytes = 1000};
    STATUS(presil_store_open(&small, &store), PRESIL_EINVAL);
    TEXT("at least 1 MiB");
}

/* ---- several processes */
static int child_puts(uint32_t from, uint32_t count) {
    const presil_store_options o = {.size = sizeof o, .path = path_of("a")};
    presil_store *store = NULL;
    if (presil_store_open(&o, &store)) return 1;
    for (uint32_t n = from; n < from + count; n++) {
        const presil_store_row r = row_of(n);
        if (presil_store_put(store, &r)) return 2;
    }
    presil_store_close(store);
    return 0;
}

static void test_processes_share(void **state) {
    (void)state;
    enum { PROCESSES = 3, EACH = 200 };
    pid_t ids[PROCESSES];
    for (uint32_t i = 0; i < PROCESSES; i++) {
        ids[i] = fork();
        if (!ids[i]) _exit(child_puts(i * EACH, EACH)); /* one of them makes the file */
    }
    for (uint32_t i = 0; i < PROCESSES; i++) {
        int how;
        assert_int_equal(waitpid(ids[i], &how, 0), ids[i]);
        assert_int_equal(how, 0);
    }
    presil_store *store = open_as("a", 0, 0);
    for (uint32_t n = 0; n < PROCESSES * EACH; n++) assert_int_equal(is_there(store, n), 1);
    presil_store_close(store);
}

/* All of them at once find no file, or one that is half made. */
static void test_processes_make_it(void **state) {
    (void)state;
    enum { PROCESSES = 4, ROUNDS = 60 };
    for (unsigned round = 0; round < ROUNDS; round++) {
        pid_t ids[PROCESSES];
        for (uint32_t i = 0; i < PROCESSES; i++) {
            ids[i] = fork();
            if (!ids[i]) _exit(child_puts(i, 1));
        }
        for (uint32_t i = 0; i < PROCESSES; i++) {
            int how;
            assert_int_equal(waitpid(ids[i], &how, 0), ids[i]);
            assert_int_equal(how, 0);
        }
        presil_store *store = open_as("a", 0, 0);
        assert_int_equal(info_of(store).rows, PROCESSES);
        presil_store_close(store);
        assert_int_equal(remove(path_of("a")), 0);
    }
}

static void test_killed_while_it_writes(void **state) {
    (void)state;
    for (unsigned round = 0; round < 5; round++) {
        int ends[2];
        char begun;
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        if (!child) {
            (void)(child_puts(round * 1000000, 1) || write(ends[1], "!", 1) != 1);
            _exit(child_puts(round * 1000000 + 1, 999999));
        }
        assert_int_equal(read(ends[0], &begun, 1), 1);
        assert_int_equal(close(ends[0]) | close(ends[1]), 0);
        (void)usleep(50000 + round * 7000);
        assert_int_equal(kill(child, SIGKILL), 0);
        int how;
        assert_int_equal(waitpid(child, &how, 0), child);
        assert_true(WIFSIGNALED(how));
        presil_store *store = open_as("a", 0, 0);
        uint64_t damaged = 1;
        OK(presil_store_check(store, &damaged));
        assert_int_equal(damaged, 0);
        const uint64_t rows = info_of(store).rows;
        assert_true(rows > round); /* each of them got somewhere */
        assert_int_equal(is_there(store, round * 1000000), 1);
        put(store, 7000000 + round);
        presil_store_close(store);
    }
}

/* ---- disks and files that are not as they should be */
static void test_disk_full(void **state) {
    (void)state;
    presil_store *store = open_as("a", 0, 0);
    put(store, 0);
    presil_store_close(store);
    const pid_t child = fork();
    if (!child) { /* files of 64 KiB at most */
        (void)signal(SIGXFSZ, SIG_IGN);
        const struct rlimit small = {65536, 65536};
        if (setrlimit(RLIMIT_FSIZE, &small)) _exit(1);
        const presil_store_options o = {.size = sizeof o, .path = path_of("a")};
        presil_store *full = NULL;
        int status = presil_store_open(&o, &full);
        for (uint32_t n = 1; n < 5000 && !status; n++) {
            const presil_store_row r = row_of(n);
            status = presil_store_put(full, &r);
        }
        int found = 0;
        presil_store_timing t = {.size = sizeof t};
        if (status != PRESIL_EIO || presil_store_find(full, row_of(0).key, &t, &found) || !found) _exit(2);
        presil_store_close(full);
        _exit(0);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_int_equal(how, 0);
    store = open_as("a", 0, 0);
    uint64_t damaged = 1;
    OK(presil_store_check(store, &damaged));
    assert_int_equal(damaged, 0);
    assert_true(is_there(store, 0) && is_there(store, 1));
    presil_store_close(store);
}

static void test_read_only(void **state) {
    (void)state;
    STATUS(open_status("a", PRESIL_STORE_READ_ONLY), PRESIL_EIO);
    TEXT("there is no timing store");
    assert_int_not_equal(access(path_of("a"), F_OK), 0);
    presil_store *store = open_as("a", 0, 0);
    put(store, 0);
    presil_store_close(store);
    store = open_as("a", PRESIL_STORE_READ_ONLY, 0);
    assert_int_equal(is_there(store, 0), 1);
    const presil_store_row r = row_of(1);
    STATUS(presil_store_put(store, &r), PRESIL_EUNSUPPORTED);
    TEXT("is read only");
    STATUS(presil_store_clear(store, NULL), PRESIL_EUNSUPPORTED);
    assert_int_equal(info_of(store).read_only, 1);
    presil_store_close(store);
}

/* What is refused is not touched. */
static void expect_refused(const char *name, const char *why) {
    struct stat before, after;
    assert_int_equal(stat(path_of(name), &before), 0);
    STATUS(open_status(name, 0), PRESIL_EIO);
    TEXT(why);
    assert_int_equal(stat(path_of(name), &after), 0);
    assert_int_equal(before.st_size, after.st_size);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

static void test_strange_files(void **state) {
    (void)state;
    presil_store *store = open_as("newer", 0, 0);
    put(store, 0);
    presil_store_close(store);
    sql("newer", "PRAGMA user_version = 2");
    expect_refused("newer", "its schema is 2, this one reads 1");
    sql("newer", "PRAGMA user_version = 1");
    store = open_as("newer", 0, 0);
    assert_int_equal(is_there(store, 0), 1);
    presil_store_close(store);
    sql("other", "CREATE TABLE t (x)");
    expect_refused("other", "another program");
    FILE *f = fopen(path_of("text"), "w");
    assert_non_null(f);
    for (int i = 0; i < 1000; i++) (void)fputs("this is no database\n", f);
    assert_int_equal(fclose(f), 0);
    expect_refused("text", "not a timing store");
    assert_int_equal(mkdir(path_of("folder"), 0777), 0);
    STATUS(open_status("folder", 0), PRESIL_EIO);
    assert_int_equal(close(open(path_of("empty"), O_CREAT | O_WRONLY, 0666)), 0);
    store = open_as("empty", 0, 0); /* as mktemp makes it */
    put(store, 0);
    presil_store_close(store);
}

static void test_torn(void **state) {
    (void)state;
    presil_store *store = open_as("a", 0, 0);
    for (uint32_t n = 0; n < 500; n++) put(store, n);
    presil_store_close(store);
    struct stat file;
    assert_int_equal(stat(path_of("a"), &file), 0);
    assert_int_equal(truncate(path_of("a"), file.st_size / 2), 0);
    const int opened = open_status("a", 0);
    if (opened) {
        STATUS(opened, PRESIL_EIO);
    } else {
        store = open_as("a", 0, 0);
        uint64_t damaged;
        STATUS(presil_store_check(store, &damaged), PRESIL_EIO);
        presil_store_close(store);
    }
    TEXT("damaged");
}

/* A row that is not what was written is none. */
static void test_falsified_row(void **state) {
    (void)state;
    presil_store *store = open_as("a", 0, 0);
    put(store, 0);
    put(store, 1);
    presil_store_close(store);
    sql("a", "UPDATE launch SET cycles = cycles + 1 WHERE label = 'conv 3' AND identity = 1");
    store = open_as("a", 0, 0);
    uint64_t damaged = 0;
    OK(presil_store_check(store, &damaged));
    assert_int_equal(damaged, 1);
    assert_int_equal(is_there(store, 0) + is_there(store, 1), 1);
    put(store, 0); /* simulated again */
    OK(presil_store_check(store, &damaged));
    assert_int_equal(damaged, 0);
    presil_store_close(store);
}

/* ---- between machines */
static int count(void *context, const presil_store_row *row) {
    uint32_t n;
    memcpy(&n, row->key, sizeof n);
    const presil_store_row r = row_of(n);
    assert_memory_equal(&row->timing, &r.timing, sizeof r.timing);
    assert_string_equal(row->identity, r.identity);
    return ++*(int *)context == 100; /* no more */
}

static void test_merge(void **state) {
    (void)state;
    presil_store *one = open_as("one", 0, 0), *two = open_as("two", 0, 0);
    for (uint32_t n = 0; n < 10; n++) put(one, n);
    for (uint32_t n = 5; n < 20; n++) put(two, n);
    OK(presil_store_export(two, path_of("copy")));
    STATUS(presil_store_export(two, path_of("copy")), PRESIL_EIO);
    uint64_t added = 0;
    OK(presil_store_merge(one, path_of("copy"), &added));
    assert_int_equal(added, 10);
    for (uint32_t n = 0; n < 20; n++) assert_int_equal(is_there(one, n), 1);
    int rows = 0;
    OK(presil_store_list(one, count, &rows));
    assert_int_equal(rows, 20);
    presil_store_row other = row_of(3); /* another opinion, and something new */
    other.timing.stalls[0][1]++;
    OK(presil_store_put(two, &other));
    put(two, 30);
    STATUS(presil_store_merge(one, path_of("two"), &added), PRESIL_EMISMATCH);
    TEXT("one of the two is wrong");
    assert_int_equal(is_there(one, 30), 0);
    STATUS(presil_store_merge(one, path_of("none"), NULL), PRESIL_EIO);
    presil_store_close(one);
    presil_store_close(two);
}

/* What a machine has measured since it got a copy, and nothing that it got. */
static void test_export_new(void **state) {
    (void)state;
    presil_store *here = open_as("here", 0, 0);
    for (uint32_t n = 0; n < 10; n++) put(here, n);
    OK(presil_store_export(here, path_of("known")));
    uint64_t exported = 1;
    OK(presil_store_export_new(here, path_of("known"), path_of("nothing"), &exported));
    assert_int_equal(exported, 0);
    for (uint32_t n = 8; n < 13; n++) put(here, n);
    OK(presil_store_export_new(here, path_of("known"), path_of("new"), &exported));
    assert_int_equal(exported, 3);
    STATUS(presil_store_export_new(here, path_of("known"), path_of("new"), NULL), PRESIL_EIO);
    presil_store *there = open_as("there", 0, 0);
    OK(presil_store_merge(there, path_of("new"), NULL));
    for (uint32_t n = 0; n < 15; n++) assert_int_equal(is_there(there, n), n >= 10 && n < 13);
    presil_store_row other = row_of(3); /* measured again, with other numbers: whoever has it is told */
    other.timing.cycles++;
    OK(presil_store_put(here, &other));
    OK(presil_store_export_new(here, path_of("known"), path_of("other"), &exported));
    assert_int_equal(exported, 4);
    presil_store *old = open_as("known", 0, 0);
    STATUS(presil_store_merge(old, path_of("other"), NULL), PRESIL_EMISMATCH);
    presil_store_close(old);
    sql("known", "PRAGMA user_version = 77");
    STATUS(presil_store_export_new(here, path_of("known"), path_of("refused"), NULL), PRESIL_EIO);
    TEXT("another version of Presil");
    assert_int_equal(access(path_of("refused"), F_OK), -1);
    STATUS(presil_store_export_new(here, path_of("none"), path_of("refused"), NULL), PRESIL_EIO);
    presil_store_close(here);
    presil_store_close(there);
}

static void test_path(void **state) {
    (void)state;
    const presil_store_options o = {.size = sizeof o};
    presil_store *store = NULL;
    assert_int_equal(setenv("XDG_CACHE_HOME", directory, 1) | unsetenv("PRESIL_STORE"), 0);
    OK(presil_store_open(&o, &store));
    assert_string_equal(info_of(store).path, path_of("presil/timings.sqlite"));
    presil_store_close(store);
    assert_int_equal(setenv("PRESIL_STORE", path_of("named"), 1) | setenv("PRESIL_STORE_BYTES", "3M", 1), 0);
    OK(presil_store_open(&o, &store));
    assert_string_equal(info_of(store).path, path_of("named"));
    assert_int_equal(info_of(store).limit, 3 << 20);
    presil_store_close(store);
    assert_int_equal(setenv("PRESIL_STORE_BYTES", "3X", 1), 0);
    STATUS(presil_store_open(&o, &store), PRESIL_EINVAL);
    TEXT("PRESIL_STORE_BYTES=3X");
    (void)unsetenv("PRESIL_STORE");
    (void)unsetenv("PRESIL_STORE_BYTES");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
int main(void) {
    const struct CMUnitTest tests[] = {TEST(test_put_and_find),
                                       TEST(test_report),
                                       TEST(test_bound),
                                       TEST(test_processes_share),
                                       TEST(test_processes_make_it),
                                       TEST(test_killed_while_it_writes),
                                       TEST(test_disk_full),
                                       TEST(test_read_only),
                                       TEST(test_strange_files),
                                       TEST(test_torn),
                                       TEST(test_falsified_row),
                                       TEST(test_merge),
                                       TEST(test_export_new),
                                       TEST(test_path)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
