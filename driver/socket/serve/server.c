/* SPDX-License-Identifier: Apache-2.0 */
/* A server's life: its socket, and clients that come and go. */
#define _GNU_SOURCE
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

int presil_server_fail(presil_server *s, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(s->error, sizeof s->error, format, args);
    va_end(args);
    return status;
}

void presil_server_log(presil_server *s, const char *format, ...) {
    if (!s->log) return;
    char text[SERVER_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    s->log(s->log_context, text);
}

bool presil_server_stopped(const presil_server *s) { return s->stop && __atomic_load_n(s->stop, __ATOMIC_RELAXED); }

/* ---- opening */
enum { HOLD_TRIES = 500, HOLD_MS = 10 }; /* another server settles in milliseconds; another program may never let go */

static int wrong(char *error, size_t bytes, int status, const char *format, const char *path, const char *why) {
    if (error && bytes) (void)snprintf(error, bytes, format, path, why);
    return status;
}

/* Whoever settles in a folder holds it: of two that find the same dead socket at once, the second would replace the
 * first one's. -1 where it can't be had: a folder that may not be read, or no descriptor left. */
static int hold_folder(const char *path) {
    char folder[sizeof((struct sockaddr_un *)NULL)->sun_path];
    const char *slash = strrchr(path, '/');
    (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int tries = 0; fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) && tries < HOLD_TRIES; tries++)
        (void)poll(NULL, 0, HOLD_MS);
    return fd;
}

/* A socket file that nobody answers on is left from a server that was killed. 0: the name may be taken. */
static int is_free(const char *path, const struct sockaddr_un *address, socklen_t bytes, char *error,
                   size_t error_bytes) {
    struct stat file;
    if (lstat(path, &file))
        return errno == ENOENT ? 0 : wrong(error, error_bytes, PRESIL_SERVE_ESYSTEM, "%s: %s", path, strerror(errno));
    if (!S_ISSOCK(file.st_mode))
        return wrong(error, error_bytes, PRESIL_SERVE_EINVAL, "%s is there and %s: choose another path", path,
                     "no socket");
    const int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (probe < 0)
        return wrong(error, error_bytes, PRESIL_SERVE_ESYSTEM, "does a server answer at %s? No socket to ask: %s", path,
                     strerror(errno));
    const int refused = connect(probe, (const struct sockaddr *)address, bytes) && errno == ECONNREFUSED;
    (void)close(probe);
    if (!refused)
        return wrong(error, error_bytes, PRESIL_SERVE_EINVAL, "%s: %s", path,
                     "another server answers there: choose another path, or end it");
    return 0;
}

/* Under a name of its own first: whoever waits for `path` finds a server that listens, for this user alone. */
static int settle(presil_server *s, const char *path, char *error, size_t error_bytes) {
    char made[sizeof s->path];
    struct sockaddr_un address;
    socklen_t bytes = 0;
    struct stat file;
    (void)snprintf(made, sizeof made, "%s~", path);
    (void)channel_address(made, &address, &bytes);
    if (lstat(made, &file) == 0 && S_ISSOCK(file.st_mode)) (void)unlink(made);
    s->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s->listener < 0 || bind(s->listener, (const struct sockaddr *)&address, bytes))
        return wrong(error, error_bytes, PRESIL_SERVE_ESYSTEM, "no socket at %s: %s", made, strerror(errno));
    if (chmod(made, S_IRUSR | S_IWUSR) || listen(s->listener, 8) || rename(made, path)) {
        const int reason = errno;
        (void)unlink(made);
        return wrong(error, error_bytes, PRESIL_SERVE_ESYSTEM, "can't listen at %s: %s", path, strerror(reason));
    }
    (void)snprintf(s->path, sizeof s->path, "%s", path);
    if (lstat(path, &file) == 0) {
        s->file_device = (uint64_t)file.st_dev;
        s->file_inode = (uint64_t)file.st_ino;
    }
    return 0;
}

static int listen_at(presil_server *s, const char *path, char *error, size_t error_bytes) {
    struct sockaddr_un address;
    socklen_t bytes = 0;
    if (!path || !channel_address(path, &address, &bytes) || strlen(path) + 1 >= sizeof address.sun_path)
        return wrong(error, error_bytes, PRESIL_SERVE_EINVAL, "\"%s\" is no path of a socket: %s expected",
                     path ? path : "", "1 to 106 bytes");
    const int folder = hold_folder(path);
    int status = is_free(path, &address, bytes, error, error_bytes);
    if (!status) status = settle(s, path, error, error_bytes);
    if (folder >= 0) (void)close(folder);
    return status;
}

presil_server *presil_server_create(const presil_serve_options *options) {
    presil_serve_options o = {0};
    memcpy(&o, options, options->size < sizeof o ? options->size : sizeof o);
    presil_server *s = calloc(1, sizeof *s);
    if (!s) return NULL;
    s->copy_memory = o.copy_memory != 0;
    s->once = o.once != 0;
    s->polls = o.polls != 0;
    s->stop = o.stop;
    s->log = o.log;
    s->log_context = o.log_context;
    s->info = o.info;
    s->listener = s->memory_fd = s->client.fd = -1;
    return s;
}

int presil_serve_open(const presil_serve_options *options, presil_server **out, char *error, size_t error_bytes) {
    if (!options || !out || options->size < offsetof(presil_serve_options, info))
        return wrong(error, error_bytes, PRESIL_SERVE_EINVAL, "%s: %s", "presil_serve_open",
                     "options (with size) and out must be given");
    presil_server *s = presil_server_create(options);
    if (!s) return wrong(error, error_bytes, PRESIL_SERVE_ESYSTEM, "%s: %s", "presil_serve_open", "no memory");
    const int status = listen_at(s, options->path, error, error_bytes);
    if (status) {
        presil_serve_close(s);
        return status;
    }
    *out = s;
    return 0;
}

void presil_serve_close(presil_server *s) {
    if (!s) return;
    presil_server_drop(s, "the server ends");
    struct stat file;
    if (*s->path && lstat(s->path, &file) == 0 && (uint64_t)file.st_dev == s->file_device &&
        (uint64_t)file.st_ino == s->file_inode)
        (void)unlink(s->path);
    if (s->listener >= 0) (void)close(s->listener);
    free(s);
}

const char *presil_serve_error_text(const presil_server *s) { return s ? s->error : "the server is NULL"; }

/* ---- clients */
static void send_farewell(int fd, uint16_t type, const char *text, const uint8_t *rest, size_t rest_bytes) {
    uint8_t header[PROTOCOL_HEADER], payload[8 + SERVER_TEXT];
    protocol_writer w = {payload, sizeof payload, 0, false};
    if (type == PROTOCOL_REFUSED) protocol_put32(&w, PROTOCOL_VERSION);
    protocol_put_text(&w, text);
    protocol_put_header(header, (protocol_frame){.type = type, .length = (uint32_t)w.used});
    struct iovec parts[3] = {{(void *)(uintptr_t)rest, rest_bytes}, {header, sizeof header}, {payload, w.used}};
    (void)channel_send(fd, rest_bytes ? parts : parts + 1, rest_bytes ? 3 : 2, 0, -1);
}

/* Keeps what of `parts` has not gone out. */
static void keep_rest(presil_server *s, const struct iovec *parts, size_t count, size_t sent) {
    for (size_t i = 0; i < count; i++) {
        const size_t skip = sent < parts[i].iov_len ? sent : parts[i].iov_len;
        memcpy(s->rest + s->rest_bytes, (const uint8_t *)parts[i].iov_base + skip, parts[i].iov_len - skip);
        s->rest_bytes += parts[i].iov_len - skip;
        sent -= skip;
    }
}

static bool send_rest(presil_server *s) {
    if (!s->rest_bytes) return true;
    struct iovec part = {s->rest, s->rest_bytes};
    const int sent = channel_send_some(s->client.fd, &part, 1);
    if (sent > 0) {
        s->rest_bytes -= (size_t)sent;
        memmove(s->rest, s->rest + sent, s->rest_bytes);
    }
    return s->rest_bytes == 0;
}

void presil_server_tell(presil_server *s, uint16_t type, const void *payload, size_t bytes) {
    if (s->state != CLIENT_OPEN || s->lost || !send_rest(s)) return;
    uint8_t header[PROTOCOL_HEADER];
    protocol_put_header(header, (protocol_frame){.type = type, .length = (uint32_t)bytes});
    struct iovec parts[2] = {{header, sizeof header}, {(void *)(uintptr_t)payload, bytes}};
    const int sent = channel_send_some(s->client.fd, parts, 2);
    if (sent > 0) keep_rest(s, parts, 2, (size_t)sent);
}

void presil_server_adopt(presil_server *s, int fd) {
    unsigned uid = 0;
    int pid = 0;
    (void)channel_peer(fd, &uid, &pid);
    if (s->state != CLIENT_NONE) {
        char text[SERVER_TEXT];
        (void)snprintf(
            text, sizeof text,
            "process %d is connected to %s, and there is one client at a time: end it, or start another server", s->pid,
            *s->path ? s->path : "this server");
        presil_server_log(s, "refused process %d: process %d is connected", pid, s->pid);
        send_farewell(fd, PROTOCOL_REFUSED, text, NULL, 0);
        (void)close(fd);
        return;
    }
    if (fcntl(fd, F_SETFL, O_NONBLOCK) || channel_open(&s->client, fd)) {
        presil_server_log(s, "a client can't be served: %s", strerror(errno));
        channel_close(&s->client);
        return;
    }
    s->state = CLIENT_GREETING;
    s->pid = pid;
    s->greeting_until = channel_now_ms() + SERVER_GREETING_MS;
    s->expected = s->region_count = 0;
    s->extra_fds = 0;
    s->lost = s->losing = s->told_close = s->cut = false;
    s->rest_bytes = 0;
    s->posted_status = 0;
    s->cycles = 0;
    s->told = s->info;
}

void presil_server_accept(presil_server *s) {
    const int fd = s->listener < 0 ? -1 : accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) presil_server_adopt(s, fd);
}

void presil_server_lose(presil_server *s, const char *text) {
    if (atomic_exchange(&s->losing, true)) return;
    (void)snprintf(s->lost_text, sizeof s->lost_text, "%s", text);
    s->lost = true;
}

void presil_server_drop(presil_server *s, const char *farewell) {
    if (s->state == CLIENT_NONE) return;
    if (farewell && !s->cut)
        send_farewell(s->client.fd, s->state == CLIENT_OPEN ? PROTOCOL_GOODBYE : PROTOCOL_REFUSED, farewell, s->rest,
                      s->rest_bytes);
    channel_close(&s->client);
    if (s->memory_fd >= 0) (void)close(s->memory_fd);
    s->memory_fd = -1;
    s->state = CLIENT_NONE;
    s->outstanding = s->lost = s->losing = s->then_running = false;
}
