/* SPDX-License-Identifier: Apache-2.0 */
/* Devices over the transport `board`: every place memory can be, order, interrupts, links that go, boards in use. */
#define _GNU_SOURCE
#include "board_fixture.h"

#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static soft_board board;

static int clean_up(void **state) {
    (void)state;
    if (board.pid) soft_board_kill(&board);
    if (board.directory[0]) soft_board_remove(&board);
    return unsetenv("PRESIL_WATCHDOG_SECONDS") || unsetenv("PRESIL_SOFT_FAULT");
}

static presil_device *open_board(uint32_t host_memory) {
    presil_device *d = NULL;
    EXPECT_OK(board_device(&board, host_memory, &d));
    EXPECT_OK(presil_device_start(d));
    return d;
}

static presil_device_info info_of(presil_device *d) {
    presil_device_info info = {.size = sizeof info};
    EXPECT_OK(presil_device_get_info(d, &info));
    return info;
}

static void matmuls(presil_device *d, int count) {
    for (int i = 0; i < count; i++) {
        matmul_buffers m = matmul_alloc(d, 11 + (unsigned)i);
        EXPECT_OK(matmul_enqueue(d, NULL, &m));
        matmul_check(d, &m, 11 + (unsigned)i);
        matmul_free(d, m);
    }
}

/* ---- memory */
static void memory_at_any_address(void **state) {
    (void)state;
    static const struct {
        const char *arguments;
        uint64_t base, bytes;
        bool mapped;
    } cases[] = {{"--base 0 --bytes 0x2000000", 0, 0x2000000, true},
                 {"--base 0x80000000 --interrupt none", 0x80000000u, 64u << 20, true},
                 {"--base 0 --bytes 0x2000000 --memory mailbox", 0, 0x2000000, false},
                 {"--base 0x80000000 --memory mailbox --interrupt none", 0x80000000u, 64u << 20, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        soft_board_start(&board, cases[i].arguments);
        presil_device *d = open_board(0);
        const presil_device_info info = info_of(d);
        assert_int_equal(info.memory_base.value, cases[i].base);
        assert_int_equal(info.memory_bytes, cases[i].bytes);
        assert_string_equal(info.config, "tiny");
        assert_int_equal(presil_host_pointer(d, info.memory_base, info.memory_bytes) != NULL, cases[i].mapped);
        reports_begin(d);
        matmuls(d, 4);
        assert_int_equal(report_count, 4);
        assert_int_equal(reports[3].mode, PRESIL_MODE_RTL); /* the chip counts its cycles, without a clock here */
        assert_true(reports[3].cycles > 0);
        presil_device_close(d);
        soft_board_stop(&board);
        assert_int_equal(soft_board_told(&board, "interrupts") > 0, strstr(cases[i].arguments, "none") == NULL);
        assert_int_equal(soft_board_told(&board, "memory_writes") > 0, !cases[i].mapped);
    }
}

/* Nothing is allocated in the hole, and all of the rest can be. */
static void two_regions(const char *memory) {
    enum { HOLE_AT = 24 << 20, HOLE = 8 << 20, ALL = 64 << 20, BLOCK = 2 << 20 };
    char arguments[128];
    (void)snprintf(arguments, sizeof arguments, "--memory %s --hole %d,%d", memory, HOLE_AT, HOLE);
    soft_board_start(&board, arguments);
    presil_device *d = open_board(0);
    const uint64_t base = info_of(d).memory_base.value;
    presil_memory_stats stats = {.size = sizeof stats};
    EXPECT_OK(presil_memory_get_stats(d, &stats));
    assert_int_equal(stats.active_blocks, 0);
    assert_true(stats.capacity <= ALL - HOLE);
    presil_daddr blocks[ALL / BLOCK];
    int count = 0, behind = 0;
    while (presil_alloc(d, NULL, NULL, BLOCK, &blocks[count]) == PRESIL_OK) {
        const uint64_t at = blocks[count++].value - base;
        behind += at >= HOLE_AT + HOLE;
        if (at + BLOCK > HOLE_AT && at < HOLE_AT + HOLE) fail_msg("a block at +0x%llx", (unsigned long long)at);
    }
    assert_int_equal(behind, (ALL - HOLE_AT - HOLE) / BLOCK);
    EXPECT_STATUS(presil_free(d, (presil_daddr){base + HOLE_AT}), PRESIL_EINVAL);
    for (int i = 0; i < count; i += 2) EXPECT_OK(presil_free(d, blocks[i]));
    matmuls(d, count / 2); /* in both regions */
    for (int i = 1; i < count; i += 2) EXPECT_OK(presil_free(d, blocks[i]));
    presil_device_close(d);
    soft_board_stop(&board);
}

static void two_regions_with_a_hole(void **state) {
    (void)state;
    two_regions("mapped");
    two_regions("mailbox");
}

static void the_memory_asked_for(void **state) {
    (void)state;
    static const char *const arguments[] = {"", "--hole 25165824,8388608"}; /* 16 MiB end before the hole */
    for (int i = 0; i < 2; i++) {
        soft_board_start(&board, arguments[i]);
        const presil_device_options options = {
            .size = sizeof options, .transport = board.spec, .memory_bytes = 16u << 20};
        presil_device *d = NULL;
        EXPECT_OK(presil_device_open(&options, &d));
        assert_int_equal(info_of(d).memory_bytes, 16u << 20);
        presil_device_close(d);
        soft_board_stop(&board);
    }
}

/* ---- what the chip reaches */
static void the_chip_reaches_what_is_mapped(void **state) {
    (void)state;
    static const char *const arguments[] = {"--iommu 1", "--iommu 1 --memory mailbox --base 0 --bytes 0x2000000"};
    for (int i = 0; i < 2; i++) {
        soft_board_start(&board, arguments[i]);
        presil_device *d = open_board((uint32_t)i);
        matmuls(d, 3);
        presil_memory_empty_cache(d);
        matmuls(d, 1);
        soft_board_lose_link(&board);
        EXPECT_OK(presil_nop(d, NULL));
        EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EDEAD);
        EXPECT_OK(presil_device_reset(d)); /* which finds nothing mapped */
        matmuls(d, 2);
        presil_device_close(d);
        soft_board_stop(&board);
        assert_int_equal(soft_board_told(&board, "faults"), 0);
        assert_true(soft_board_told(&board, "maps") >= 4);
        assert_true(soft_board_told(&board, "unmaps") >= 1);
    }
}

/* What a session before mapped, that ended well or was killed, nobody unmaps by itself. */
static void a_session_before_mapped(void **state) {
    (void)state;
    soft_board_start(&board, "--iommu 1");
    for (int killed = 0; killed < 2; killed++) {
        const pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
            presil_device *d = NULL;
            int status = board_device(&board, 0, &d);
            if (!status) status = presil_device_start(d);
            if (!status) status = presil_nop(d, NULL);
            if (!status) status = presil_device_synchronize(d);
            if (!status && !killed) presil_device_close(d);
            _exit(status ? 1 : 0);
        }
        int ended = -1;
        assert_int_equal(waitpid(child, &ended, 0), child);
        assert_int_equal(ended, 0);
    }
    presil_device *d = open_board(0);
    matmuls(d, 2);
    presil_device_close(d);
    soft_board_stop(&board);
    assert_int_equal(soft_board_told(&board, "faults"), 0);
    assert_int_equal(soft_board_told(&board, "mapped_pages"), 0);
}

/* ---- order */
static void held_back_writes_are_flushed(void **state) {
    (void)state;
    for (int seed = 1; seed <= 3; seed++) {
        char arguments[64];
        (void)snprintf(arguments, sizeof arguments, "--memory mailbox --late-us 20000 --seed %d", seed);
        soft_board_start(&board, arguments);
        presil_device *d = open_board(seed == 2);
        matmuls(d, 20);
        presil_device_close(d);
        soft_board_stop(&board);
        assert_true(soft_board_told(&board, "swapped") > 0); /* else nothing was tried */
        assert_true(soft_board_told(&board, "late") > 0);
        assert_int_equal(soft_board_told(&board, "overtaken"), 0); /* no register was written before them */
    }
}

static void verify_compares_on_a_board(void **state) {
    (void)state;
    for (int mailbox = 0; mailbox < 2; mailbox++) {
        soft_board_start(&board, mailbox ? "--memory mailbox" : "");
        presil_device *d = open_board(0);
        EXPECT_OK(presil_device_set_mode(d, PRESIL_MODE_VERIFY));
        reports_begin(d);
        matmuls(d, 2);
        assert_int_equal(reports[1].verified, 1);
        presil_device_close(d);
        soft_board_stop(&board);
    }
}

/* ---- what goes wrong */
static void a_lost_link(uint32_t host_memory, const char *memory) {
    soft_board_start(&board, memory);
    presil_device *d = open_board(host_memory);
    const presil_device_info info = info_of(d);
    (void)info;
    matmul_buffers m = matmul_alloc(d, 3);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    matmul_check(d, &m, 3);
    soft_board_lose_link(&board);
    EXPECT_OK(matmul_enqueue(d, NULL, &m));
    const int status = presil_device_synchronize(d);
    assert_int_equal(status, PRESIL_EDEAD);
    EXPECT_TEXT("link lost");
    EXPECT_TEXT("0xffffffff");
    EXPECT_OK(presil_device_reset(d));
    matmul_free(d, m);
    matmuls(d, 3);
    presil_device_close(d);
    soft_board_stop(&board);
    assert_int_equal(soft_board_told(&board, "losses"), 1);
}

static void a_lost_link_is_named_and_mended(void **state) {
    (void)state;
    a_lost_link(0, "");
    a_lost_link(0, "--memory mailbox");
    a_lost_link(1, "--memory mailbox");
}

/* Opened, and not yet used: what the text says has to help there too. */
static void a_link_lost_before_the_chip_is_started(void **state) {
    (void)state;
    static const char *const arguments[] = {"", "--memory mailbox", "--iommu 1"};
    for (int i = 0; i < 3; i++) {
        soft_board_start(&board, arguments[i]);
        presil_device *d = NULL;
        EXPECT_OK(board_device(&board, i == 1, &d));
        soft_board_lose_link(&board);
        EXPECT_STATUS(presil_device_start(d), PRESIL_ENODEV);
        EXPECT_TEXT("then presil_device_reset()");
        EXPECT_OK(presil_device_reset(d));
        EXPECT_OK(presil_device_start(d));
        matmuls(d, 2);
        presil_device_close(d);
        soft_board_stop(&board);
        assert_int_equal(soft_board_told(&board, "losses"), 1);
    }
}

static void a_dead_board_and_another(void **state) {
    (void)state;
    soft_board_start(&board, "--memory mailbox");
    char line[32];
    FILE *f = fopen(board.spec + 6, "a");
    assert_non_null(f);
    (void)snprintf(line, sizeof line, "timeout_ms = 200\n");
    (void)fputs(line, f);
    (void)fclose(f);
    presil_device *d = open_board(1);
    matmuls(d, 1);
    soft_board_kill(&board);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EDEAD);
    EXPECT_TEXT("took no request for 200 ms");
    EXPECT_STATUS(presil_device_reset(d), PRESIL_EDEAD);
    soft_board_start(&board, "--memory mailbox");
    EXPECT_OK(presil_device_reset(d));
    matmuls(d, 2);
    presil_device_close(d);
    soft_board_stop(&board);
}

static void a_hang_is_seen_by_the_wall_clock(void **state) {
    (void)state;
    assert_int_equal(setenv("PRESIL_WATCHDOG_SECONDS", "0.2", 1), 0);
    assert_int_equal(setenv("PRESIL_SOFT_FAULT", "hang", 1), 0);
    soft_board_start(&board, "");
    assert_int_equal(unsetenv("PRESIL_SOFT_FAULT"), 0);
    presil_device *d = open_board(0);
    EXPECT_OK(presil_nop(d, NULL));
    EXPECT_STATUS(presil_device_synchronize(d), PRESIL_EHUNG);
    EXPECT_TEXT("no progress for 0.2 s");
    matmuls(d, 1); /* the reset cleared the fault */
    presil_device_close(d);
    soft_board_stop(&board);
    assert_int_equal(setenv("PRESIL_WATCHDOG_SECONDS", "soon", 1), 0);
    EXPECT_STATUS(board_device(&board, 0, &d), PRESIL_EINVAL);
    EXPECT_TEXT("PRESIL_WATCHDOG_SECONDS=soon");
}

/* A process that has the board, until it is killed. */
static pid_t another_user(void) {
    int ends[2];
    char started = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        presil_device *d = NULL;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (board_device(&board, 0, &d) || presil_device_start(d) || write(ends[1], "y", 1) != 1) _exit(1);
        for (;;) (void)pause();
    }
    (void)close(ends[1]);
    assert_int_equal(read(ends[0], &started, 1), 1);
    (void)close(ends[0]);
    return child;
}

static void one_board_one_user(void **state) {
    (void)state;
    char told[160];
    soft_board_start(&board, "");
    (void)snprintf(told, sizeof told, "%s/registers is in use by another process or device", board.directory);
    const pid_t child = another_user();
    presil_device *d = NULL, *second = NULL;
    EXPECT_STATUS(board_device(&board, 0, &d), PRESIL_EINVAL);
    EXPECT_TEXT(told);
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
    d = open_board(0);
    EXPECT_STATUS(board_device(&board, 0, &second), PRESIL_EINVAL); /* another device of this process */
    EXPECT_TEXT(told);
    matmuls(d, 1);
    presil_device_close(d);
    d = open_board(0);
    matmuls(d, 1);
    presil_device_close(d);
    soft_board_stop(&board);
}

static void another_configuration_is_refused(void **state) {
    (void)state;
    soft_board_start(&board, "");
    const presil_device_options options = {.size = sizeof options, .transport = board.spec, .config = "base"};
    presil_device *d = NULL;
    EXPECT_STATUS(presil_device_open(&options, &d), PRESIL_EINVAL);
    EXPECT_TEXT("has configuration \"tiny\"");
    soft_board_stop(&board);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(memory_at_any_address, clean_up),
                                       cmocka_unit_test_teardown(two_regions_with_a_hole, clean_up),
                                       cmocka_unit_test_teardown(the_memory_asked_for, clean_up),
                                       cmocka_unit_test_teardown(the_chip_reaches_what_is_mapped, clean_up),
                                       cmocka_unit_test_teardown(a_session_before_mapped, clean_up),
                                       cmocka_unit_test_teardown(held_back_writes_are_flushed, clean_up),
                                       cmocka_unit_test_teardown(verify_compares_on_a_board, clean_up),
                                       cmocka_unit_test_teardown(a_lost_link_is_named_and_mended, clean_up),
                                       cmocka_unit_test_teardown(a_link_lost_before_the_chip_is_started, clean_up),
                                       cmocka_unit_test_teardown(a_dead_board_and_another, clean_up),
                                       cmocka_unit_test_teardown(a_hang_is_seen_by_the_wall_clock, clean_up),
                                       cmocka_unit_test_teardown(one_board_one_user, clean_up),
                                       cmocka_unit_test_teardown(another_configuration_is_refused, clean_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
