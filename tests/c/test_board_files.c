/* SPDX-License-Identifier: Apache-2.0 */
/* The transport `board` by itself: registers and memory that are files, loads and stores to them, the board's file. */
#define _GNU_SOURCE
#include "board.h"
#include "presil_clock.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64], path[96], error[512];
static const presil_transport_ops *ops;

static void write_file(const char *name, const void *bytes, size_t count) {
    char file[128];
    (void)snprintf(file, sizeof file, "%s/%s", directory, name);
    FILE *f = fopen(file, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, count, f), count);
    assert_int_equal(fclose(f), 0);
}

static void read_file(const char *name, size_t at, void *bytes, size_t count) {
    char file[128];
    (void)snprintf(file, sizeof file, "%s/%s", directory, name);
    const int fd = open(file, O_RDONLY);
    assert_int_equal(pread(fd, bytes, count, (off_t)at), (ssize_t)count);
    (void)close(fd);
}

static void patch_file(const char *name, size_t at, const void *bytes, size_t count) {
    char file[128];
    (void)snprintf(file, sizeof file, "%s/%s", directory, name);
    const int fd = open(file, O_WRONLY);
    assert_int_equal(pwrite(fd, bytes, count, (off_t)at), (ssize_t)count);
    (void)close(fd);
}

static int set_up(void **state) {
    (void)state;
    static uint8_t zeros[1 << 16];
    (void)snprintf(directory, sizeof directory, "/tmp/presil-files-XXXXXX");
    if (!mkdtemp(directory)) return -1;
    (void)snprintf(path, sizeof path, "%s/spec", directory);
    write_file("regs", zeros, 8192);
    write_file("mem", zeros, sizeof zeros);
    write_file("reset", "0", 1);
    ops = presil_board_ops();
    return 0;
}

static int clean_up(void **state) {
    (void)state;
    static const char *const names[] = {"regs", "mem", "reset", "spec"};
    for (int i = 0; i < 4; i++) {
        char file[128];
        (void)snprintf(file, sizeof file, "%s/%s", directory, names[i]);
        (void)unlink(file);
    }
    return rmdir(directory);
}

#define GOOD                                                                                                           \
    "# a board\nchip = presil\nconfig=tiny\nregisters = regs offset=0x1000 bytes=4K\n"                                 \
    "memory = mem base=0x10000 bytes=8K offset=4096 # the first\nmemory = mem base=0x20000 bytes=0x1000 coherent\n"

static int open_spec(const char *text, presil_transport **out) {
    write_file("spec", text, strlen(text));
    const presil_transport_options o = {
        .size = sizeof o, .abi = PRESIL_TRANSPORT_ABI, .memory_fd = -1, .options = path};
    return ops->open(&o, out, error, sizeof error);
}

static presil_transport *open_good(const char *more) {
    char text[1024];
    presil_transport *t = NULL;
    (void)snprintf(text, sizeof text, "%s%s", GOOD, more);
    if (open_spec(text, &t)) fail_msg("%s", error);
    return t;
}

/* ---- registers and memory are where the file says */
static void loads_and_stores(void **state) {
    (void)state;
    presil_transport *t = open_good("");
    uint32_t value = 0x11223344;
    patch_file("regs", 0x1020, &value, 4);
    assert_int_equal(ops->read32(t, 0x20, &value), 0);
    assert_int_equal(value, 0x11223344);
    assert_int_equal(ops->write32(t, 0xffc, 0xcafe0001), 0);
    read_file("regs", 0x1ffc, &value, 4);
    assert_int_equal(value, 0xcafe0001);
    assert_int_equal(ops->read32(t, 0x1000, &value), PRESIL_TRANSPORT_EBUS);
    assert_int_equal(ops->write32(t, 2, 0), PRESIL_TRANSPORT_EBUS);

    presil_region a, b;
    assert_int_equal(ops->region(t, 0, &a), 0);
    assert_int_equal(ops->region(t, 1, &b), 0);
    assert_int_equal(ops->region(t, 2, &b), PRESIL_TRANSPORT_EINVAL);
    assert_int_equal(a.base.value, 0x10000);
    assert_int_equal((char *)b.host - (char *)a.host, 0x10000); /* as their addresses */
    char text[6] = "";
    assert_int_equal(ops->mem_write(t, (presil_daddr){0x10010}, "hello", 6), 0);
    read_file("mem", 4096 + 0x10, text, 6);
    assert_string_equal(text, "hello");
    assert_int_equal(ops->mem_read(t, (presil_daddr){0x21010}, text, 6), PRESIL_TRANSPORT_EBUS);
    assert_int_equal(ops->mem_read(t, (presil_daddr){0x11ffc}, text, 6), PRESIL_TRANSPORT_EBUS);
    /* The second memory is the same file's first page: what the other wrote is behind it. */
    patch_file("mem", 8, "below", 6);
    assert_int_equal(ops->mem_read(t, (presil_daddr){0x20008}, text, 6), 0);
    assert_string_equal(text, "below");
    ops->close(t);
}

/* What the next write to a register reads back first. */
static void stores_are_read_back(void **state) {
    (void)state;
    presil_transport *t = open_good("");
    assert_int_equal(ops->sync_for_device(t, (presil_daddr){0x10100}, 0x100), 0);
    assert_ptr_equal(t->stored[0], t->memory + 0x1ff);
    assert_int_equal(ops->sync_for_device(t, (presil_daddr){0x20000}, 0x100), 0);
    assert_null(t->stored[1]); /* coherent */
    assert_int_equal(ops->sync_for_device(t, (presil_daddr){0x10100}, 0x10000), PRESIL_TRANSPORT_EBUS);
    assert_int_equal(ops->write32(t, 0, 1), 0);
    assert_null(t->stored[0]);
    assert_int_equal(ops->mem_write(t, (presil_daddr){0x10000}, "x", 1), 0);
    assert_ptr_equal(t->stored[0], t->memory);
    ops->close(t);
}

static uint32_t capabilities_of(const char *text) {
    presil_transport *t = NULL;
    presil_transport_info info = {.size = sizeof info};
    if (open_spec(text, &t)) fail_msg("%s", error);
    assert_int_equal(ops->info(t, &info), 0);
    ops->close(t);
    return info.capabilities;
}

/* Several launches are with the chip at once only where all memory is coherent. */
static void coherent_is_all_of_it(void **state) {
    (void)state;
    static const char *const memories[] = {
        "memory = mem base=0 bytes=4K coherent\nmemory = mem base=0x2000 bytes=8K offset=4K coherent\n",
        "memory = mem base=0 bytes=4K coherent\nmemory = mem base=0x2000 bytes=8K offset=4K\n",
        "memory = mem base=0 bytes=4K\n",
        "memory = mem base=0 bytes=4K coherent\nmemory = mailbox base=0x2000 bytes=8K coherent\n",
        "memory = mailbox base=0x2000 bytes=8K coherent\n"};
    static mailbox_file box = {
        .magic = MAILBOX_MAGIC, .version = MAILBOX_VERSION, .entries = MAILBOX_ENTRIES, .slot_bytes = MAILBOX_SLOT};
    write_file("regs", &box, sizeof box);
    for (int i = 0; i < 5; i++) {
        for (int mailbox = i > 2; mailbox < 2; mailbox++) {
            char text[512];
            (void)snprintf(text, sizeof text, "chip = presil\nconfig = tiny\nregisters = regs bytes=0x%zx%s\n%s",
                           mailbox ? sizeof box : (size_t)4096, mailbox ? " mailbox" : "", memories[i]);
            assert_int_equal((capabilities_of(text) & PRESIL_CAP_COHERENT) != 0, i == 0);
        }
    }
}

/* ---- descriptors that were inherited */
static int memory_file(off_t bytes) {
    const int fd = memfd_create("board", 0);
    assert_true(fd >= 0 && ftruncate(fd, bytes) == 0);
    return fd;
}

static int open_inherited(int registers, int memory, presil_transport **out) {
    char text[256];
    (void)snprintf(text, sizeof text,
                   "chip = presil\nconfig = tiny\nreset = register:0x40 value=3\nwitness = 0x10\n"
                   "registers = fd:%d offset=0x1000 bytes=4K\nmemory = fd:%d base=0x10000 bytes=8K offset=0x2000\n",
                   registers, memory);
    return open_spec(text, out);
}

static void inherited_descriptors(void **state) {
    (void)state;
    presil_transport *t = NULL;
    const int fd = memory_file(0x4000); /* of one device, as VFIO has it: its regions are offsets */
    uint32_t value = 0x11223344;
    if (open_inherited(fd, fd, &t)) fail_msg("%s", error);
    assert_int_equal(pwrite(fd, &value, 4, 0x1020), 4);
    assert_int_equal(ops->read32(t, 0x20, &value), 0);
    assert_int_equal(value, 0x11223344);
    assert_int_equal(ops->write32(t, 0xffc, 0xcafe0001), 0);
    assert_int_equal(pread(fd, &value, 4, 0x1ffc), 4);
    assert_int_equal(value, 0xcafe0001);
    assert_int_equal(ops->mem_write(t, (presil_daddr){0x11ffc}, &value, 4), 0);
    value = 0;
    assert_int_equal(pread(fd, &value, 4, 0x3ffc), 4);
    assert_int_equal(value, 0xcafe0001);
    ops->close(t);
    assert_int_equal(close(fd), 0); /* it was the caller's */
}

static void a_descriptor_closed_later(void **state) {
    (void)state;
    presil_transport *t = NULL;
    const int registers = memory_file(0x2000), memory = memory_file(0x4000);
    const uint32_t ones = UINT32_MAX;
    uint32_t value = 0;
    if (open_inherited(registers, memory, &t)) fail_msg("%s", error);
    const int other = dup(registers);
    assert_int_equal(close(registers), 0);
    assert_int_equal(ops->read32(t, 0x10, &value), 0); /* what is mapped stays so */
    assert_int_equal(pwrite(other, &ones, 4, 0x1010), 4);
    assert_int_equal(ops->read32(t, 0x10, &value), PRESIL_TRANSPORT_EIO); /* lost, and a reset maps again */
    value = 0;
    assert_int_equal(pwrite(other, &value, 4, 0x1010), 4);
    assert_int_equal(ops->reset(t), PRESIL_TRANSPORT_EIO);
    assert_non_null(strstr(ops->last_error(t), "is no open descriptor of this process"));
    assert_int_equal(dup2(other, registers), registers);
    assert_int_equal(ops->reset(t), PRESIL_TRANSPORT_MEMORY_LOST);
    ops->close(t);
    assert_int_equal(close(registers) | close(memory) | close(other), 0);
}

static void inherited_refused(int registers, int memory, const char *part) {
    presil_transport *t = NULL;
    error[0] = 0;
    if (open_inherited(registers, memory, &t) == 0) fail_msg("accepted: fd:%d, fd:%d", registers, memory);
    if (!strstr(error, part)) fail_msg("\"%s\" lacks \"%s\"", error, part);
}

static void unusable_descriptors(void **state) {
    (void)state;
    const int good = memory_file(0x4000), is_short = memory_file(0x3000), empty = memory_file(0);
    char file[64];
    (void)snprintf(file, sizeof file, "/proc/self/fd/%d", good);
    const int reading = open(file, O_RDONLY), alike = open(file, O_RDWR), event = eventfd(0, 0), other = eventfd(0, 0);
    presil_transport *t = NULL;
    inherited_refused(1023, good, "fd:1023 is no open descriptor of this process");
    inherited_refused(good, 1023, "fd:1023 is no open descriptor of this process");
    inherited_refused(reading, good, "open it with O_RDWR");
    inherited_refused(good, is_short, "has 12288 bytes");
    inherited_refused(good, empty, "has 0 bytes");
    if (open_inherited(good, good, &t)) fail_msg("%s", error);
    inherited_refused(alike, alike, "is in use by another process or device");
    ops->close(t);
    if (open_inherited(alike, alike, &t)) fail_msg("%s", error); /* although `good` is still open */
    ops->close(t);
    /* All that have no file look like one to a lock: another's says nothing. */
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(other, F_OFD_SETLK, &all), 0);
    inherited_refused(event, good, "can't be mapped");
    assert_int_equal(close(good) | close(is_short) | close(empty) | close(reading) | close(alike), 0);
    assert_int_equal(close(event) | close(other), 0);
}

/* ---- one user */
/* A process that has the board, until it is killed. */
static pid_t another_process(const char *text) {
    int ends[2];
    char opened = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        presil_transport *t = NULL;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (open_spec(text, &t) || write(ends[1], "y", 1) != 1) _exit(1);
        for (;;) (void)pause();
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &opened, 1), 1);
    (void)close(ends[0]);
    return child;
}

#define WITH(registers, memory)                                                                                        \
    "chip = presil\nconfig = tiny\nregisters = regs bytes=4K " registers "\nmemory = mem base=0 bytes=8K " memory "\n"

static void refused(const char *text, const char *part);

static void memory_has_one_user(void **state) {
    (void)state;
    presil_transport *t = NULL, *other = NULL;
    char told[160];
    (void)snprintf(told, sizeof told, "%s/mem is in use by another process or device", directory);
    const pid_t child = another_process(WITH("", ""));
    refused(WITH("offset=4K", ""), told);
    refused(WITH("offset=4K", "offset=4K"), told); /* a page of it is enough */
    if (open_spec(WITH("offset=4K", "offset=8K"), &t)) fail_msg("%s", error);
    ops->close(t);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    if (open_spec(WITH("offset=4K", ""), &t)) fail_msg("%s", error);
    refused(WITH("", "offset=4K"), told); /* another device of this process */
    const uint32_t ones = UINT32_MAX, id = 1;
    uint32_t value = 0;
    patch_file("regs", 4096, &ones, 4);
    assert_int_equal(ops->read32(t, 0, &value), PRESIL_TRANSPORT_EIO);
    patch_file("regs", 4096, &id, 4);
    assert_int_equal(ops->reset(t), PRESIL_TRANSPORT_MEMORY_LOST);
    refused(WITH("", "offset=4K"), told); /* locked again */
    ops->close(t);
    if (open_spec(WITH("", "offset=4K"), &other)) fail_msg("%s", error);
    ops->close(other);
}

/* ---- a link that goes */
static void all_ones(void **state) {
    (void)state;
    presil_transport *t = open_good("witness = 0x10\nreset = file:reset\n");
    const uint32_t ones = UINT32_MAX, id = 0x5052;
    uint32_t value = 7;
    patch_file("regs", 0x1020, &ones, 4);
    assert_int_equal(ops->read32(t, 0x20, &value), 0); /* the witness says that this is a value */
    assert_int_equal(value, ones);
    patch_file("regs", 0x1010, &ones, 4);
    assert_int_equal(ops->read32(t, 0x20, &value), PRESIL_TRANSPORT_EIO);
    assert_non_null(strstr(ops->last_error(t), "link lost: registers 0x20 and 0x10"));
    patch_file("regs", 0x1010, &id, 4);
    assert_int_equal(ops->read32(t, 0x20, &value), PRESIL_TRANSPORT_EIO); /* until a reset */
    assert_int_equal(ops->write32(t, 0x20, 1), PRESIL_TRANSPORT_EIO);
    assert_non_null(strstr(ops->last_error(t), "link lost"));
    patch_file("regs", 0x1010, &ones, 4);
    assert_int_equal(ops->reset(t), PRESIL_TRANSPORT_EIO);
    patch_file("regs", 0x1010, &id, 4);
    assert_int_equal(ops->reset(t), PRESIL_TRANSPORT_MEMORY_LOST);
    assert_int_equal(ops->read32(t, 0x10, &value), 0);
    assert_int_equal(value, id);
    char told = 0;
    read_file("reset", 0, &told, 1);
    assert_int_equal(told, '1');
    assert_int_equal(ops->reset(t), 0); /* the link was there: so is the memory */
    ops->close(t);
}

static void reset_by_a_register(void **state) {
    (void)state;
    presil_transport *t = open_good("reset = register:0x40 value=0x80\n");
    uint32_t value = 0;
    assert_int_equal(ops->reset(t), 0);
    read_file("regs", 0x1040, &value, 4);
    assert_int_equal(value, 0x80);
    ops->close(t);
}

/* ---- waiting */
static void an_eventfd_wakes(void **state) {
    (void)state;
    const int fd = eventfd(0, EFD_NONBLOCK);
    char text[64];
    (void)snprintf(text, sizeof text, "interrupt = eventfd:%d\n", fd);
    presil_transport *t = open_good(text);
    presil_transport_info info = {.size = sizeof info};
    assert_int_equal(ops->info(t, &info), 0);
    assert_int_equal(info.capabilities, PRESIL_CAP_OWN_MEMORY | PRESIL_CAP_MAPS);
    presil_wait w = {.size = sizeof w, .deadline_ns = 2000000};
    assert_int_equal(ops->wait(t, &w), 0);
    assert_int_equal(w.reason, PRESIL_WAIT_DEADLINE);
    const uint64_t one = 1;
    assert_int_equal(write(fd, &one, sizeof one), sizeof one);
    w.deadline_ns = 0;
    assert_int_equal(ops->wait(t, &w), 0);
    assert_int_equal(w.reason, PRESIL_WAIT_IRQ);
    volatile int cancel = 1;
    w.cancel = &cancel;
    assert_int_equal(ops->wait(t, &w), 0);
    assert_int_equal(w.reason, PRESIL_WAIT_CANCELLED);
    ops->close(t);
    assert_int_equal(close(fd), 0); /* it was the caller's */
}

static void polled_waits_are_time(void **state) {
    (void)state;
    presil_transport *t = open_good("clock_mhz = 10\n");
    presil_transport_info info = {.size = sizeof info};
    assert_int_equal(ops->info(t, &info), 0);
    assert_int_equal(info.capabilities, PRESIL_CAP_OWN_MEMORY | PRESIL_CAP_MAPS | PRESIL_CAP_POLLED);
    presil_wait w = {.size = sizeof w, .deadline_cycles = 1000000};
    const uint64_t start = presil_now_ns();
    assert_int_equal(ops->wait(t, &w), 0);
    assert_int_equal(w.reason, PRESIL_WAIT_DEADLINE);
    assert_true(presil_now_ns() - start >= 100000000); /* 1,000,000 cycles at 10 MHz */
    ops->close(t);
}

/* ---- the board's file */
static void refused(const char *text, const char *part) {
    presil_transport *t = NULL;
    error[0] = 0;
    if (open_spec(text, &t) == 0) fail_msg("accepted: %s", text);
    if (!strstr(error, part)) fail_msg("\"%s\" lacks \"%s\"", error, part);
}

static void nonsense_is_refused(void **state) {
    (void)state;
    refused("", "chip = ... is missing");
    refused("chip = presil\nconfig = tiny\nmemory = mem base=0 bytes=4K\n", "registers = ... is missing");
    refused(GOOD "colour = blue\n", "line 7: \"colour\" is no key");
    refused(GOOD "memory = mem base=0x11000 bytes=4K\n", "overlaps the memory at 0x10000");
    refused(GOOD "memory = mem bytes=4K\n", "base=ADDRESS (where the chip sees it) is missing");
    refused(GOOD "memory = mem base=0x1 bytes=4K\n", "multiples of 4096");
    refused(GOOD "memory = mem base=0x30000 bytes=many\n", "\"many\" found");
    refused(GOOD "memory = mem base=0x30000 bytes=4K wide\n", "\"wide\" is not known here");
    refused(GOOD "memory = mailbox base=0x30000 bytes=4K\n", "needs registers that are one");
    refused(GOOD "memory = mem base=0x30000 bytes=128K offset=12K\n", "has 65536 bytes");
    refused(GOOD "memory = mem base=0x30000 bytes=8K offset=8K\n", "the memory at 0x30000 is bytes of /tmp/");
    refused(GOOD "memory = regs base=0x30000 bytes=8K\n", "regs that another line has: give each its offset=");
    refused(GOOD "memory = nowhere base=0x30000 bytes=4K\n", "nowhere can't be opened");
    refused(GOOD "memory = fd:x base=0x30000 bytes=4K\n", "fd:NUMBER of an open descriptor expected, \"fd:x\" found");
    refused(GOOD "memory = fd:-1 base=0x30000 bytes=4K\n", "fd:NUMBER of an open descriptor expected");
    refused(GOOD "memory = fd:4294967296 base=0x30000 bytes=4K\n", "fd:NUMBER of an open descriptor expected");
    refused(GOOD "memory = fd:3x base=0x30000 bytes=4K\n", "fd:NUMBER of an open descriptor expected");
    refused(GOOD "interrupt = carrier-pigeon\n", "none, uio:PATH or eventfd:NUMBER expected");
    refused(GOOD "interrupt = eventfd:1023\n", "no open descriptor");
    refused(GOOD "interrupt\n", "interrupt has no value");
    refused(GOOD "reset = mailbox\n", "the registers are none");
    refused(GOOD "witness = 0x100000000\n", "witness of 0 to");
    refused("chip = presil\nconfig = tiny\nregisters = regs bytes=4K mailbox\nmemory = mem base=0 bytes=4K\n",
            "is no mailbox");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_setup_teardown(loads_and_stores, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(stores_are_read_back, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(coherent_is_all_of_it, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(inherited_descriptors, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(a_descriptor_closed_later, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(unusable_descriptors, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(memory_has_one_user, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(all_ones, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(reset_by_a_register, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(an_eventfd_wakes, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(polled_waits_are_time, set_up, clean_up),
                                       cmocka_unit_test_setup_teardown(nonsense_is_refused, set_up, clean_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
