/* SPDX-License-Identifier: Apache-2.0 */
/* Finding a peer and saying hello, at open and again at reset. */
#define _GNU_SOURCE
#include "client.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { DEFAULT_TIMEOUT_MS = 10000, CONNECT_STEP_MS = 10 };

/* ---- options */
static int parse_options(presil_transport *t, const char *text) {
    const char *end = text + strcspn(text, ",");
    if (end == text || (size_t)(end - text) >= sizeof t->path)
        return socket_fail(
            t, PRESIL_TRANSPORT_EINVAL,
            "socket:%.120s: socket:PATH[,copy][,timeout=SECONDS][,uid=NUMBER] expected, PATH of 1 to 107 bytes", text);
    (void)snprintf(t->path, sizeof t->path, "%.*s", (int)(end - text), text);
    t->timeout_ms = DEFAULT_TIMEOUT_MS;
    t->uid = (unsigned)geteuid();
    while (*end) {
        const char *option = end + 1;
        const size_t bytes = strcspn(option, ",");
        end = option + bytes;
        char *stop = NULL;
        if (bytes == 4 && strncmp(option, "copy", 4) == 0) {
            t->copy = true;
        } else if (strncmp(option, "timeout=", 8) == 0) {
            const double seconds = strtod(option + 8, &stop);
            if (stop != end || !(seconds >= 0.05 && seconds <= 3600))
                return socket_fail(t, PRESIL_TRANSPORT_EINVAL,
                                   "socket:%s: timeout=SECONDS of 0.05 to 3600 expected, \"%.*s\" found", t->path,
                                   (int)bytes, option);
            t->timeout_ms = (int)(seconds * 1000);
        } else if (strncmp(option, "uid=", 4) == 0) {
            const unsigned long uid = strtoul(option + 4, &stop, 10);
            if (stop != end || stop == option + 4 || option[4] < '0' || option[4] > '9' || uid >= UINT32_MAX)
                return socket_fail(t, PRESIL_TRANSPORT_EINVAL,
                                   "socket:%s: uid=NUMBER of the server's user expected, \"%.*s\" found", t->path,
                                   (int)bytes, option);
            t->uid = (unsigned)uid;
            t->uid_given = true;
        } else {
            return socket_fail(t, PRESIL_TRANSPORT_EINVAL,
                               "socket:%s: the options are copy, timeout=SECONDS and uid=NUMBER, \"%.*s\" found",
                               t->path, (int)bytes, option);
        }
    }
    return 0;
}

static presil_transport *create(const presil_transport_options *options, const char *spec, int *status, char *error,
                                size_t error_bytes) {
    presil_transport *t = calloc(1, sizeof *t);
    *status = PRESIL_TRANSPORT_ENOMEM;
    if (!t) return NULL;
    t->link.fd = -1;
    memcpy(&t->options, options, options->size < sizeof t->options ? options->size : sizeof t->options);
    if (t->options.memory_model) t->memory_model = strdup(t->options.memory_model);
    t->options.memory_model = t->memory_model;
    t->options.options = NULL;
    *status = parse_options(t, spec);
    if (*status == 0) return t;
    (void)snprintf(error, error_bytes, "%s", t->error);
    socket_close(t);
    return NULL;
}

/* ---- the peer */
/* Whoever listens gets the device's memory to write to, and says what its results are. */
static int check_peer(presil_transport *t, int fd) {
    unsigned uid = 0;
    int pid = 0;
    if (!channel_peer(fd, &uid, &pid))
        return socket_fail(t, PRESIL_TRANSPORT_EIO, "socket:%s: who listens there is not known: %s", t->path,
                           strerror(errno));
    if (uid == t->uid || (uid == 0 && !t->uid_given)) return 0;
    return socket_fail(t, PRESIL_TRANSPORT_EIO,
                       "socket:%s: process %d of user %u listens there, user %u expected: choose a path where only you "
                       "can write ($XDG_RUNTIME_DIR), or say whom you trust: socket:%s,uid=%u",
                       t->path, pid, uid, t->uid, t->path, uid);
}

static int connect_to(presil_transport *t, int *out) {
    struct sockaddr_un address;
    socklen_t bytes = 0;
    if (!channel_address(t->path, &address, &bytes))
        return socket_fail(t, PRESIL_TRANSPORT_EINVAL, "socket:%s is no path of a socket", t->path);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return socket_fail(t, PRESIL_TRANSPORT_EIO, "socket:%s: no socket: %s", t->path, strerror(errno));
    const uint64_t until = channel_now_ms() + (uint64_t)t->timeout_ms;
    int failed = 0;
    while ((failed = connect(fd, (const struct sockaddr *)&address, bytes) ? errno : 0) != 0 &&
           (failed == EAGAIN || failed == EINTR) && channel_now_ms() < until)
        (void)poll(NULL, 0, CONNECT_STEP_MS);
    if (!failed) {
        const int status = check_peer(t, fd);
        *out = fd;
        if (status) (void)close(fd);
        return status;
    }
    (void)close(fd);
    if (failed == ENOENT || failed == ECONNREFUSED)
        return socket_fail(t, PRESIL_TRANSPORT_EIO,
                           "socket:%s: nobody answers there: start the server (presil-serve %s --library LIBRARY), or "
                           "correct PRESIL_TRANSPORT",
                           t->path, t->path);
    return socket_fail(t, PRESIL_TRANSPORT_EIO, "socket:%s: %s", t->path,
                       failed == EAGAIN ? "the server's queue of clients is full" : strerror(failed));
}

static int map_memory(presil_transport *t) {
    if (t->mapping) return 0;
    void *mapping = mmap(NULL, t->options.memory_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                         t->options.memory_fd, 0);
    if (mapping == MAP_FAILED)
        return socket_fail(t, PRESIL_TRANSPORT_ENOMEM, "socket:%s: %llu bytes can't be mapped: %s", t->path,
                           (unsigned long long)t->options.memory_bytes, strerror(errno));
    t->mapping = mapping;
    return 0;
}

/* The device has found out what its chip is; and who maps can't go on with a peer that doesn't, nor the other way
 * round. */
static int check_same(presil_transport *t, const protocol_welcome *now) {
    const presil_transport_info *was = &t->welcome.info;
    if (!t->greeted) return 0;
    if (strcmp(was->chip, now->info.chip) != 0 || strcmp(was->config, now->info.config) != 0)
        return socket_lost(t,
                           "the new peer has the chip \"%s\", configuration \"%s\"; \"%s\", \"%s\" expected: start "
                           "that one, or open another device",
                           now->info.chip, now->info.config, was->chip, was->config);
    if ((now->flags ^ t->welcome.flags) & PROTOCOL_WELCOME_MAPPED)
        return socket_lost(t, "the new peer %s the memory, the old one did otherwise",
                           now->flags & PROTOCOL_WELCOME_MAPPED ? "maps" : "does not map");
    if (was->capabilities & ~now->info.capabilities)
        return socket_lost(t, "the new peer has capabilities 0x%x, 0x%x expected", now->info.capabilities,
                           was->capabilities);
    return 0;
}

/* What the chip was made of, from a server that says so. The peer before may have been another build. */
static int identify(presil_transport *t) {
    const presil_request q = {.kind = PROTOCOL_IDENTITY};
    char rtl[sizeof t->welcome.info.rtl] = "", library[sizeof t->welcome.info.library] = "";
    protocol_reader body;
    if (!(t->welcome.flags & PROTOCOL_WELCOME_IDENTITY)) return 0;
    const int status = socket_ask(t, &q, NULL, &body, NULL);
    if (status) return status;
    (void)protocol_get_text(&body, rtl, sizeof rtl);
    (void)protocol_get_text(&body, library, sizeof library);
    if (!protocol_read_end(&body)) return socket_malformed(t, q.kind);
    memcpy(t->welcome.info.rtl, rtl, sizeof rtl);
    memcpy(t->welcome.info.library, library, sizeof library);
    return 0;
}

static int greet(presil_transport *t, int fd) {
    if (channel_open(&t->link, fd)) return socket_fail(t, PRESIL_TRANSPORT_ENOMEM, "socket:%s: no memory", t->path);
    const bool hand_over = !t->copy && t->options.memory_fd >= 0;
    const presil_request q = {.kind = PRESIL_REQUEST_OPEN, .open = t->options};
    const protocol_hello hello = {.version = PROTOCOL_VERSION,
                                  .abi = PRESIL_TRANSPORT_ABI,
                                  .flags = hand_over ? PROTOCOL_OPEN_MEMORY_FD : 0,
                                  .client = program_invocation_short_name};
    protocol_welcome welcome;
    int status = socket_greet(t, &q, &hello, hand_over ? t->options.memory_fd : -1, &welcome);
    if (status) return status;
    if (welcome.abi != PRESIL_TRANSPORT_ABI)
        return socket_lost(t, "transport ABI %u expected, %u found: both sides have to come from the same release",
                           PRESIL_TRANSPORT_ABI, welcome.abi);
    if (welcome.flags & PROTOCOL_WELCOME_MAPPED && !hand_over)
        return socket_lost(t, "protocol: the peer maps memory that it was not given");
    status = check_same(t, &welcome);
    if (!status && welcome.flags & PROTOCOL_WELCOME_MAPPED) status = map_memory(t);
    if (status) {
        channel_close(&t->link);
        return status;
    }
    welcome.info.capabilities &= ~(uint32_t)PRESIL_CAP_MAPS;
    if (welcome.flags & PROTOCOL_WELCOME_MAPPED) welcome.info.capabilities |= PRESIL_CAP_MAPS;
    t->welcome = welcome;
    t->greeted = true;
    t->error[0] = 0;
    return identify(t);
}

static int finish_open(presil_transport *t, int status, presil_transport **out, char *error, size_t error_bytes) {
    if (status == 0) {
        *out = t;
        return 0;
    }
    (void)snprintf(error, error_bytes, "%s", t->error);
    socket_close(t);
    return status;
}

static int check_arguments(const presil_transport_options *o, char *error, size_t error_bytes) {
    if (o->size >= sizeof *o && o->abi == PRESIL_TRANSPORT_ABI && o->options && o->memory_bytes) return 0;
    (void)snprintf(error, error_bytes,
                   "socket: presil_transport_options of ABI %u with memory and \"PATH[,...]\" as options expected",
                   PRESIL_TRANSPORT_ABI);
    return PRESIL_TRANSPORT_EINVAL;
}

int socket_open(const presil_transport_options *options, presil_transport **out, char *error, size_t error_bytes) {
    int fd = -1, status = check_arguments(options, error, error_bytes);
    presil_transport *t = status ? NULL : create(options, options->options, &status, error, error_bytes);
    if (!t) return status;
    status = connect_to(t, &fd);
    if (!status) status = greet(t, fd);
    return finish_open(t, status, out, error, error_bytes);
}

int socket_open_fd(const presil_transport_options *options, int fd, presil_transport **out, char *error,
                   size_t error_bytes) {
    int status = check_arguments(options, error, error_bytes);
    presil_transport *t = status ? NULL : create(options, options->options, &status, error, error_bytes);
    if (!t) {
        (void)close(fd);
        return status;
    }
    return finish_open(t, greet(t, fd), out, error, error_bytes);
}

void socket_close(presil_transport *t) {
    if (!t) return;
    if (t->link.fd >= 0 && t->greeted) {
        const presil_request q = {.kind = PRESIL_REQUEST_CLOSE};
        if (socket_post(t, &q) == 0) (void)send(t->link.fd, t->posted, t->posted_bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    channel_close(&t->link);
    if (t->mapping) (void)munmap(t->mapping, t->options.memory_bytes);
    free(t->memory_model);
    free(t->ranges);
    free(t);
}

int socket_reset(presil_transport *t) {
    if (t->link.fd >= 0) {
        const int status = socket_ask_done(t, &(presil_request){.kind = PRESIL_REQUEST_RESET});
        if (status != PRESIL_TRANSPORT_EIO) return status;
        t->was_silent = false;
        return status;
    }
    /* Who has just waited for a silent peer does not wait for it a second time. */
    if (t->was_silent) {
        t->was_silent = false;
        return PRESIL_TRANSPORT_EIO;
    }
    int fd = -1, status = connect_to(t, &fd);
    t->cycles_known = false;
    if (!status) status = greet(t, fd);
    t->was_silent = false;
    if (status) return status == PRESIL_TRANSPORT_EINVAL ? PRESIL_TRANSPORT_EIO : status;
    return t->welcome.flags & PROTOCOL_WELCOME_MAPPED ? 0 : PRESIL_TRANSPORT_MEMORY_LOST;
}
