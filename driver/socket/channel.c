/* SPDX-License-Identifier: Apache-2.0 */
#define _GNU_SOURCE
#include "channel.h"
#include "presil_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum {
    PASSED_FDS = 8,
    REST_MS = 1000,    /* for the rest of a message that has begun */
    LOAD_NS = 5000000, /* how long what the kernel said of its load is believed */
};

int channel_open(channel *c, int fd) {
    *c = (channel){.fd = fd, .capacity = PROTOCOL_HEADER + PROTOCOL_PAYLOAD};
    c->buffer = malloc(c->capacity);
    if (c->buffer) return 0;
    channel_close(c);
    return -ENOMEM;
}

void channel_close(channel *c) {
    if (c->fd >= 0) (void)close(c->fd);
    free(c->buffer);
    *c = (channel){.fd = -1};
}

uint64_t channel_now_ms(void) { return presil_now_ns() / 1000000u; }

/* Whether a core is free for a thread that only looks: as many threads run as there are cores, at most. Looked up every
 * few milliseconds; where the kernel doesn't say, no core is. */
static bool core_to_spare(uint64_t now) {
    static _Thread_local uint64_t looked;
    static _Thread_local bool spare;
    if (looked && now - looked < LOAD_NS) return spare;
    looked = now;
    spare = false;
    char text[64] = "";
    const int fd = open("/proc/loadavg", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) (void)close(fd);
    int running = 0;
    cpu_set_t cores;
    if (n > 0 && sscanf(text, "%*s %*s %*s %d/", &running) == 1 && sched_getaffinity(0, sizeof cores, &cores) == 0)
        spare = running <= CPU_COUNT(&cores);
    return spare;
}

int channel_poll(struct pollfd *fds, size_t count, int timeout_ms, unsigned spin_us) {
    const uint64_t begin = presil_now_ns();
    uint64_t look_ns = spin_us * 1000ull;
    if (timeout_ms >= 0 && look_ns > (uint64_t)timeout_ms * 1000000u) look_ns = (uint64_t)timeout_ms * 1000000u;
    if (look_ns && core_to_spare(begin)) {
        for (uint64_t now = begin; now - begin < look_ns; now = presil_now_ns()) {
            const int ready = poll(fds, count, 0);
            if (ready) return ready;
        }
    }
    return poll(fds, count, timeout_ms);
}

bool channel_peer(int fd, unsigned *uid, int *pid) {
    struct ucred who = {0};
    socklen_t bytes = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes)) return false;
    *uid = who.uid;
    *pid = (int)who.pid;
    return true;
}

bool channel_address(const char *path, struct sockaddr_un *out, socklen_t *bytes) {
    const size_t n = strlen(path);
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (n == 0 || n >= sizeof out->sun_path) return false;
    memcpy(out->sun_path, path, n + 1);
    *bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
    return true;
}

int channel_send(int fd, struct iovec *parts, size_t count, int timeout_ms, int pass_fd) {
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    if (pass_fd >= 0) {
        memset(&control, 0, sizeof control);
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *c = CMSG_FIRSTHDR(&message);
        *c = (struct cmsghdr){.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
        memcpy(CMSG_DATA(c), &pass_fd, sizeof pass_fd);
    }
    bool begun = false;
    while (message.msg_iovlen) {
        const ssize_t sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EINTR) continue;
        if (sent < 0 && (errno != EAGAIN || (timeout_ms == 0 && !begun))) return -errno;
        if (sent < 0) {
            struct pollfd p = {.fd = fd, .events = POLLOUT};
            const int ready = poll(&p, 1, timeout_ms ? timeout_ms : REST_MS);
            if (ready == 0) return -ETIMEDOUT;
            if (ready < 0 && errno != EINTR) return -errno;
            continue;
        }
        begun = true;
        message.msg_control = NULL;
        message.msg_controllen = 0;
        size_t left = (size_t)sent;
        while (message.msg_iovlen && left >= message.msg_iov->iov_len) {
            left -= message.msg_iov->iov_len;
            message.msg_iov++;
            message.msg_iovlen--;
        }
        if (!message.msg_iovlen) break;
        message.msg_iov->iov_base = (char *)message.msg_iov->iov_base + left;
        message.msg_iov->iov_len -= left;
    }
    return 0;
}

int channel_send_some(int fd, struct iovec *parts, size_t count) {
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = count};
    ssize_t sent = 0;
    do sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent < 0 ? -errno : (int)sent;
}

static void make_room(channel *c) {
    if (c->start == 0 || c->end < c->capacity) return;
    memmove(c->buffer, c->buffer + c->start, c->end - c->start);
    c->end -= c->start;
    c->start = 0;
}

int channel_receive(channel *c) {
    make_room(c);
    if (c->end == c->capacity) return -ENOBUFS;
    ssize_t n = 0;
    do n = recv(c->fd, c->buffer + c->end, c->capacity - c->end, MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0) return -errno;
    c->end += (size_t)n;
    return (int)n;
}

int channel_receive_fd(channel *c, int *fd, unsigned *extra) {
    make_room(c);
    if (c->end == c->capacity) return -ENOBUFS;
    union {
        struct cmsghdr header;
        char bytes[CMSG_SPACE(PASSED_FDS * sizeof(int))];
    } control;
    struct iovec part = {c->buffer + c->end, c->capacity - c->end};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t n = 0;
    do n = recvmsg(c->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0) return -errno;
    if (message.msg_flags & MSG_CTRUNC) ++*extra;
    for (struct cmsghdr *h = CMSG_FIRSTHDR(&message); h; h = CMSG_NXTHDR(&message, h)) {
        if (h->cmsg_level != SOL_SOCKET || h->cmsg_type != SCM_RIGHTS) continue;
        for (size_t i = 0; i < (h->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
            int passed = -1;
            memcpy(&passed, CMSG_DATA(h) + i * sizeof(int), sizeof passed);
            if (*fd < 0) {
                *fd = passed;
            } else {
                (void)close(passed);
                ++*extra;
            }
        }
    }
    c->end += (size_t)n;
    return (int)n;
}

int channel_frame(const channel *c, protocol_frame *out, const uint8_t **payload, char *text, size_t text_bytes) {
    if (c->end - c->start < PROTOCOL_HEADER) return 0;
    if (protocol_header(c->buffer + c->start, out, text, text_bytes)) return -1;
    *payload = c->buffer + c->start + PROTOCOL_HEADER;
    return c->end - c->start >= PROTOCOL_HEADER + (size_t)out->length;
}

void channel_pop(channel *c, const protocol_frame *frame) {
    c->start += PROTOCOL_HEADER + (size_t)frame->length;
    if (c->start == c->end) c->start = c->end = 0;
}

size_t channel_pending(const channel *c) { return c->end - c->start; }
