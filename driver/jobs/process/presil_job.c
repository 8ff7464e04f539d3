/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil-job: runs launches of another process (libpresil_jobs) on a chip of its own, in mode VERIFY; what they should
 * write comes with them. It is started by that library, with a socket as descriptor 3, and ends when that closes.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include "slot.h"
#include "presil_clock.h"
#include "presil_debug.h"
#include "presil_image.h"

/* The executor's thread, which somebody waits for, has precedence. */
enum { SOCKET = 3, NICE = 10 };

typedef struct {
    presil_device *device;
    presil_device_info info;
    slot slot; /* of the launch that runs */
    presil_report report;
    char timing[PRESIL_TRANSPORT_TIMING]; /* as it was introduced */
} process;

/* ---- the block */
static block *now(const process *p) { return slot_block(&p->slot); }

static bool map_block(process *p, int fd, uint64_t bytes) {
    struct stat is;
    p->slot = (slot){.fd = fd};
    if (fstat(fd, &is) || bytes < sizeof(block) || (uint64_t)is.st_size < bytes) return false;
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) return false;
    p->slot.at = at;
    p->slot.capacity = bytes;
    p->slot.used = now(p)->used <= bytes ? now(p)->used : bytes;
    return block_is_whole(now(p), bytes);
}

static void unmap_block(process *p) {
    if (p->slot.at) (void)munmap(p->slot.at, p->slot.capacity);
    if (p->slot.fd >= 0) (void)close(p->slot.fd);
    p->slot = (slot){.fd = -1};
}

/* ---- the launch */
static int supply(void *context, const presil_capture_launch *launch, presil_capture_put put, void *core) {
    const process *p = context;
    (void)launch;
    const block_memory *m = &now(p)->writes;
    const presil_byte_range *r = block_ranges(now(p), m);
    const uint8_t *from = block_bytes(now(p), m);
    for (uint64_t i = 0; i < m->count; from += r[i].bytes, i++) put(core, r[i].base, from, r[i].bytes);
    return PRESIL_OK;
}
static int on_begin(void *context, const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    (void)context, (void)launch, (void)reads;
    return 1;
}
static const char *on_end(void *context, const presil_capture_launch *launch, const presil_report *report,
                          const presil_capture_bytes *writes) {
    process *p = context;
    block_memory found;
    if (report->status && slot_put(&p->slot, &found, launch, writes)) now(p)->found = found;
    return NULL;
}
static void on_report(void *context, const presil_report *report) { ((process *)context)->report = *report; }

static int place(const process *p) {
    const block_memory *m = &now(p)->reads;
    const presil_byte_range *r = block_ranges(now(p), m);
    const uint8_t *from = block_bytes(now(p), m);
    for (uint64_t i = 0; i < m->count; i++) {
        void *host = presil_host_pointer(p->device, r[i].base, r[i].bytes);
        if (host) {
            memcpy(host, from, r[i].bytes);
        } else {
            int status = presil_copy_to_device(p->device, NULL, r[i].base, from, r[i].bytes, PRESIL_COPY_DIRECT);
            if (!status) status = presil_stream_synchronize(p->device, NULL);
            if (status) return status;
        }
        from += r[i].bytes;
    }
    return PRESIL_OK;
}

/* As presil_list_save writes a list of one launch. */
static int load(const process *p, presil_list **out) {
    const uint64_t bytes = now(p)->command_bytes, padded = (bytes + 7) / 8 * 8;
    uint8_t *image = calloc(1, 16 + padded);
    if (!image) return PRESIL_EHOSTMEM;
    memcpy(image, &(uint64_t){1}, 8);
    memcpy(image + 8, &bytes, 8);
    memcpy(image + 16, p->slot.at + now(p)->commands, bytes);
    const int status = presil_list_load(p->device, image, 16 + padded, p->info.memory_base, p->info.memory_bytes, out);
    free(image);
    return status;
}

/* The server that was started again may have another RTL. */
static bool timing_changed(const process *p) {
    presil_device_identity who = {.size = sizeof who};
    return presil_device_identify(p->device, &who) || strcmp(who.timing, p->timing) != 0;
}

static int run(process *p) {
    presil_list *list = NULL;
    p->report = (presil_report){.mode = PRESIL_MODE_VERIFY, .verified = -1, .difference_cycle = UINT64_MAX};
    int status = place(p);
    if (!status) status = presil_device_place_scratch(p->device, now(p)->scratch.base, now(p)->scratch.bytes);
    if (!status) status = load(p, &list);
    if (!status) status = presil_list_submit(list, NULL);
    if (!status) status = presil_device_synchronize(p->device);
    presil_list_destroy(list);
    if (status) {
        p->report.status = (uint32_t)-status;
        (void)snprintf(now(p)->text, sizeof now(p)->text, "%s", presil_error_text());
    }
    if (status == PRESIL_EDEAD && (presil_device_reset(p->device) || timing_changed(p))) return status;
    now(p)->report = p->report;
    return PRESIL_OK;
}

/* ---- the socket */
static bool say(const void *what, size_t bytes) {
    ssize_t sent;
    do sent = send(SOCKET, what, bytes, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)bytes;
}

static ssize_t hear(block_order *order, int *fd) {
    struct iovec part = {order, sizeof *order};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    ssize_t got;
    do got = recvmsg(SOCKET, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    const struct cmsghdr *c = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    *fd = -1;
    if (c && c->cmsg_type == SCM_RIGHTS) memcpy(fd, CMSG_DATA(c), sizeof *fd);
    return got;
}

static int serve(process *p) {
    for (;;) {
        block_order order;
        block_answer answer = {0};
        int fd;
        if (hear(&order, &fd) != (ssize_t)sizeof order) return 0; /* it has closed */
        const uint64_t from = presil_now_ns();
        answer.status = map_block(p, fd, order.bytes) ? run(p) : PRESIL_EINVAL;
        if (answer.status)
            (void)snprintf(answer.text, sizeof answer.text, "%s",
                           answer.status == PRESIL_EINVAL ? "the launch is damaged" : presil_error_text());
        answer.nanoseconds = presil_now_ns() - from;
        answer.bytes = p->slot.capacity;
        unmap_block(p);
        if (!say(&answer, sizeof answer)) return 0;
        if (answer.status == PRESIL_EDEAD) return 1; /* a new process has a chip that works */
    }
}

/* A launch may take hours: nobody waits for it once the other end is gone. */
static void *watch(void *unused) {
    struct pollfd end = {.fd = SOCKET, .events = POLLRDHUP};
    (void)unused;
    while (poll(&end, 1, -1) < 0 && errno == EINTR) {}
    _exit(0);
}

/* ---- the chip */
static presil_device_options arguments(int argc, char **argv) {
    presil_device_options o = {.size = sizeof o, .mode = PRESIL_MODE_VERIFY, .transport = "inproc", .host_memory = 1};
    static const struct option known[] = {{"config", required_argument, NULL, 'c'},
                                          {"memory", required_argument, NULL, 'm'},
                                          {"seed", required_argument, NULL, 's'},
                                          {"watchdog", required_argument, NULL, 'w'},
                                          {"memory-model", required_argument, NULL, 'd'},
                                          {"build", required_argument, NULL, 'b'},
                                          {"library", required_argument, NULL, 'l'},
                                          {"chip-library", required_argument, NULL, 'k'},
                                          {"transport", required_argument, NULL, 't'},
                                          {"index", required_argument, NULL, 'i'},
                                          {NULL, 0, NULL, 0}};
    for (int c; (c = getopt_long(argc, argv, "", known, NULL)) != -1;) {
        switch (c) {
        case 'c': o.config = optarg; break;
        case 'm': o.memory_bytes = strtoull(optarg, NULL, 10); break;
        case 's': o.seed = strtoull(optarg, NULL, 10); break;
        case 'w': o.hang_cycles = strtoull(optarg, NULL, 10); break;
        case 'd': o.memory_model = optarg; break;
        case 'b': o.build = optarg; break;
        case 'l': o.library = optarg; break;
        case 'k': o.chip_library = optarg; break;
        case 't': o.transport = optarg; break;
        case 'i': o.transport_index = (uint32_t)strtoul(optarg, NULL, 10); break;
        default: exit(2);
        }
    }
    return o;
}

static int open_chip(process *p, const presil_device_options *options, block_hello *hello) {
    static const presil_capture_ops listener = {
        .size = sizeof listener, .begin = on_begin, .end = on_end, .supply = supply};
    int status = presil_device_open(options, &p->device);
    if (!status) status = presil_device_start(p->device);
    p->info.size = sizeof p->info;
    if (!status) status = presil_device_get_info(p->device, &p->info);
    if (!status && p->info.memory_bytes < options->memory_bytes) {
        (void)snprintf(hello->text, sizeof hello->text,
                       "%s has %" PRIu64 " bytes of memory, the device that the launches are for %" PRIu64
                       ": let them have the same (PRESIL_MEMORY; a server's own option)",
                       p->info.transport, p->info.memory_bytes, options->memory_bytes);
        return PRESIL_EINVAL;
    }
    if (!status) status = presil_set_capture(p->device, &listener, p);
    if (!status) presil_set_report(p->device, on_report, p);
    const char *fault = getenv("PRESIL_JOB_FAULT"); /* for tests: as presil_inject() */
    if (!status && fault && *fault) status = presil_inject(p->device, fault);
    if (status) (void)snprintf(hello->text, sizeof hello->text, "%s", presil_error_text());
    return status;
}

static void introduce(process *p, block_hello *out) {
    presil_device_identity who = {.size = sizeof who};
    out->info = p->info;
    if (presil_device_identify(p->device, &who)) return;
    out->capabilities = who.capabilities;
    (void)snprintf(out->rtl, sizeof out->rtl, "%s", who.rtl);
    (void)snprintf(out->library, sizeof out->library, "%s", who.library);
    (void)snprintf(out->timing, sizeof out->timing, "%s", who.timing);
    (void)snprintf(p->timing, sizeof p->timing, "%s", who.timing);
}

int main(int argc, char **argv) {
    struct stat is;
    if (fstat(SOCKET, &is) || !S_ISSOCK(is.st_mode)) {
        (void)fputs("presil-job is started by Presil, with a socket as descriptor 3 (docs/jobs.md)\n", stderr);
        return 2;
    }
    (void)fcntl(SOCKET, F_SETFD, FD_CLOEXEC); /* a program that the chip's library starts would keep it open */
    (void)signal(SIGINT, SIG_IGN);
    (void)setpriority(PRIO_PROCESS, 0, NICE);
    const presil_device_options options = arguments(argc, argv);
    static process p;
    pthread_t watcher;
    static block_hello hello;
    hello.status = open_chip(&p, &options, &hello);
    if (!hello.status) introduce(&p, &hello);
    if (pthread_create(&watcher, NULL, watch, NULL) || !say(&hello, sizeof hello) || hello.status) return 1;
    return serve(&p);
}
