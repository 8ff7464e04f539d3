/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "worker.h"
#include "presil_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { SOCKET = 3, LOOK_MS = 50 };

int worker_start(worker *w, char *const argv[]) {
    int ends[2];
    *w = (worker){.fd = -1};
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends)) return errno;
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (!error) error = posix_spawnattr_init(&attributes);
    /* dup2 of a descriptor to itself would leave it to be closed: it can't be 3, where that is taken */
    if (ends[1] == SOCKET) {
        const int other = fcntl(ends[1], F_DUPFD_CLOEXEC, SOCKET + 1);
        (void)close(ends[1]);
        ends[1] = other;
    }
    if (!error) error = posix_spawn_file_actions_adddup2(&actions, ends[1], SOCKET);
    /* A group of its own: Ctrl-C is for the parent, which tells its processes. */
    if (!error) error = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    if (!error) error = posix_spawn(&w->pid, argv[0], &actions, &attributes, argv, environ);
    (void)posix_spawn_file_actions_destroy(&actions);
    (void)posix_spawnattr_destroy(&attributes);
    (void)close(ends[1]);
    if (error)
        (void)close(ends[0]);
    else
        w->fd = ends[0];
    return error;
}

/* 1: a message of that size; 0: none yet; -1: the process is gone. */
static int receive(const worker *w, void *out, size_t bytes) {
    const ssize_t got = recv(w->fd, out, bytes, MSG_DONTWAIT);
    if (got == (ssize_t)bytes) return 1;
    return got < 0 && (errno == EAGAIN || errno == EINTR) ? 0 : -1;
}

int worker_hello(worker *w, const atomic_bool *stop, uint64_t until, block_hello *out, char *text, size_t bytes) {
    int got = 0;
    bool late = false;
    for (struct pollfd p = {.fd = w->fd, .events = POLLIN}; got == 0 && !late && !(stop && atomic_load(stop));) {
        late = presil_now_ns() >= until; /* and looks once more */
        if (poll(&p, 1, LOOK_MS) < 0 && errno != EINTR) break;
        got = receive(w, out, sizeof *out);
    }
    if (got > 0)
        out->timing[PRESIL_TRANSPORT_TIMING - 1] = out->rtl[HELLO_NAME - 1] = out->library[HELLO_NAME - 1] =
            out->text[HELLO_TEXT - 1] = '\0';
    if (got > 0 && out->status == PRESIL_OK) return PRESIL_OK;
    char end[128];
    worker_end(w, got >= 0, end, sizeof end);
    if (got > 0)
        (void)snprintf(text, bytes, "%s", out->text);
    else if (late && got == 0)
        (void)snprintf(text, bytes,
                       "a process for launches has said nothing since it was started: expected that it opens a chip; "
                       "where that takes longer, give it more seconds in PRESIL_JOBS_START");
    else
        (void)snprintf(text, bytes, "a process for launches %s before it had a chip", end);
    return got > 0 ? out->status : PRESIL_ENODEV;
}

int worker_send(worker *w, const slot *s, uint64_t bytes) {
    block_order order = {bytes};
    struct iovec part = {&order, sizeof order};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    memset(&control, 0, sizeof control);
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(c), &s->fd, sizeof(int));
    ssize_t sent;
    do sent = sendmsg(w->fd, &message, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? errno : 0;
}

int worker_receive(worker *w, block_answer *out) {
    const int got = receive(w, out, sizeof *out);
    if (got > 0) out->text[HELLO_TEXT - 1] = '\0';
    return got;
}

void worker_end(worker *w, bool kill_it, char *text, size_t bytes) {
    int state = 0;
    if (text && bytes) *text = '\0';
    if (w->fd < 0) return;
    (void)close(w->fd);
    w->fd = -1;
    if (kill_it) (void)kill(w->pid, SIGKILL);
    pid_t ended;
    do ended = waitpid(w->pid, &state, 0);
    while (ended < 0 && errno == EINTR);
    if (!text) return;
    if (ended < 0)
        (void)snprintf(text, bytes, "is gone");
    else if (WIFSIGNALED(state))
        (void)snprintf(text, bytes, "ended by signal %d (%s)", WTERMSIG(state), strsignal(WTERMSIG(state)));
    else
        (void)snprintf(text, bytes, "ended with exit status %d", WEXITSTATUS(state));
}
