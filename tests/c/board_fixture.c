/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "board_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* Until the board has said so, or has ended. */
static void read_until(soft_board *b, const char *word) {
    size_t used = strlen(b->said);
    while (!word || !strstr(b->said, word)) {
        const ssize_t n = read(b->out, b->said + used, sizeof b->said - used - 1);
        if (n <= 0) break;
        used += (size_t)n;
        b->said[used] = 0;
    }
    if (word && !strstr(b->said, word)) fail_msg("the board did not say \"%s\": %s", word, b->said);
}

void soft_board_start(soft_board *b, const char *arguments) {
    char line[512], *word[24];
    int count = 0, ends[2];
    if (!b->directory[0]) {
        (void)snprintf(b->directory, sizeof b->directory, "/tmp/presil-board-XXXXXX");
        assert_non_null(mkdtemp(b->directory));
        (void)snprintf(b->spec, sizeof b->spec, "board:%s/board", b->directory);
    }
    b->said[0] = 0;
    (void)snprintf(line, sizeof line, "%s %s --library %s %s", getenv("PRESIL_SOFT_BOARD"), b->directory,
                   getenv("PRESIL_SOFT_LIBRARY"), arguments);
    char *at = NULL;
    for (char *w = strtok_r(line, " ", &at); w && count < 23; w = strtok_r(NULL, " ", &at)) word[count++] = w;
    word[count] = NULL;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    b->pid = fork();
    assert_true(b->pid >= 0);
    if (b->pid == 0) {
        (void)dup2(ends[1], STDOUT_FILENO);
        (void)execv(word[0], word);
        _exit(127);
    }
    (void)close(ends[1]);
    b->out = ends[0];
    read_until(b, "ready");
}

void soft_board_lose_link(soft_board *b) {
    assert_int_equal(kill(b->pid, SIGUSR1), 0);
    read_until(b, "link lost");
}

static int wait_for(soft_board *b) {
    int status = 0;
    assert_int_equal(waitpid(b->pid, &status, 0), b->pid);
    (void)close(b->out);
    b->pid = 0;
    return status;
}

void soft_board_kill(soft_board *b) {
    assert_int_equal(kill(b->pid, SIGKILL), 0);
    (void)wait_for(b);
}

void soft_board_stop(soft_board *b) {
    assert_int_equal(kill(b->pid, SIGTERM), 0);
    read_until(b, NULL);
    assert_int_equal(wait_for(b), 0);
}

uint64_t soft_board_told(const soft_board *b, const char *name) {
    char key[64];
    (void)snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(b->said, key);
    if (!at) fail_msg("the board told no \"%s\": %s", name, b->said);
    return strtoull(at + strlen(key), NULL, 10);
}

void soft_board_remove(soft_board *b) {
    static const char *const files[] = {"registers", "memory", "irq", "board"};
    char path[128];
    for (int i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", b->directory, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(b->directory);
    b->directory[0] = 0;
}

int board_device(const soft_board *b, uint32_t host_memory, presil_device **out) {
    const presil_device_options options = {
        .size = sizeof options, .mode = PRESIL_MODE_RTL, .transport = b->spec, .host_memory = host_memory};
    return presil_device_open(&options, out);
}
