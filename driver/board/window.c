/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are registers or memory: opened, locked, mapped. */
#define _GNU_SOURCE
#include "board.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Devices and sysfs tell no size, or 0; a plain file that is too short would be a SIGBUS later. */
static int too_short(presil_transport *t, int fd, const board_window *w) {
    struct stat s;
    if (fstat(fd, &s) || !S_ISREG(s.st_mode) || (s.st_size == 0 && !w->inherited)) return 0;
    if ((uint64_t)s.st_size >= w->offset && (uint64_t)s.st_size - w->offset >= w->bytes) return 0;
    return board_fail(t, PRESIL_TRANSPORT_EINVAL, "%s has %llu bytes, the board's file wants %llu at offset 0x%llx",
                      w->path, (unsigned long long)s.st_size, (unsigned long long)w->bytes,
                      (unsigned long long)w->offset);
}

static int open_path(presil_transport *t, const board_window *w, int *fd) {
    *fd = open(w->path, O_RDWR | O_SYNC | O_CLOEXEC);
    return *fd >= 0
               ? 0
               : board_fail(t, PRESIL_TRANSPORT_EIO, "%s can't be opened: %s (is the board there, and may this user?)",
                            w->path, strerror(errno));
}

/* A descriptor of our own, so that nobody closes the number under us, and no program that we start gets it. */
static int take_inherited(presil_transport *t, const board_window *w, int *fd) {
    *fd = fcntl(w->fd, F_DUPFD_CLOEXEC, 0);
    if (*fd < 0 && errno == EBADF)
        return board_fail(t, PRESIL_TRANSPORT_EINVAL,
                          "%s is no open descriptor of this process: whoever starts it opens %d without O_CLOEXEC "
                          "(Python: pass_fds), and nobody closes it, a reset takes it again",
                          w->path, w->fd);
    if (*fd < 0) return board_fail(t, PRESIL_TRANSPORT_EIO, "%s can't be duplicated: %s", w->path, strerror(errno));
    if ((fcntl(*fd, F_GETFL) & O_ACCMODE) == O_RDWR) return 0;
    (void)close(*fd);
    return board_fail(t, PRESIL_TRANSPORT_EINVAL, "%s is open for reading or writing alone: open it with O_RDWR",
                      w->path);
}

static int open_file(presil_transport *t, const board_window *w, int *fd) {
    int status = w->inherited ? take_inherited(t, w, fd) : open_path(t, w, fd);
    if (status) return status;
    status = too_short(t, *fd, w);
    if (status) (void)close(*fd);
    return status;
}

static int set_lock(int fd, const board_window *w, short type) {
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = (off_t)w->offset, .l_len = (off_t)w->bytes};
    return fcntl(fd, F_OFD_SETLK, &range);
}

/* Descriptors without a file (eventfds; older kernels' VFIO) share one inode: a lock on one is on each of them, of
 * whatever process. */
static bool is_anonymous(int fd) {
    struct stat s;
    return fstat(fd, &s) == 0 && (s.st_mode & S_IFMT) == 0;
}

/* On the window, so that two boards may share a file such as /dev/mem. It goes with the process, however that ends. */
static int lock(presil_transport *t, int fd, const board_window *w) {
    if (is_anonymous(fd) || set_lock(fd, w, F_WRLCK) == 0) return 0;
    if (errno == EAGAIN || errno == EACCES)
        return board_fail(t, PRESIL_TRANSPORT_EINVAL,
                          "%s is in use by another process or device: one at a time (%s%s says who)", w->path,
                          w->inherited ? "fuser of its file" : "fuser ", w->inherited ? "" : w->path);
    return board_fail(t, PRESIL_TRANSPORT_EIO, "%s can't be locked: %s", w->path, strerror(errno));
}

static int map(presil_transport *t, int fd, const board_window *w, void *at, void **out) {
    const uint64_t bytes = (w->bytes + BOARD_PAGE - 1) / BOARD_PAGE * BOARD_PAGE;
    *out = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | (at ? MAP_FIXED : 0), fd, (off_t)w->offset);
    if (*out != MAP_FAILED) return 0;
    *out = NULL;
    return board_fail(t, PRESIL_TRANSPORT_EIO, "%s: %llu bytes at 0x%llx can't be mapped: %s", w->path,
                      (unsigned long long)w->bytes, (unsigned long long)w->offset, strerror(errno));
}

static int map_registers(presil_transport *t) {
    void *at = (void *)(uintptr_t)t->registers, *mapped = NULL;
    int fd = -1, status = open_file(t, &t->spec.registers, &fd);
    if (status) return status;
    status = lock(t, fd, &t->spec.registers);
    if (!status) status = map(t, fd, &t->spec.registers, at, &mapped);
    if (status) {
        (void)close(fd);
        return status;
    }
    t->lock_fd = fd;
    t->registers = mapped;
    if (!t->spec.mailbox) return 0;
    t->mailbox = mapped;
    if (t->spec.registers.bytes >= sizeof *t->mailbox && t->mailbox->magic == MAILBOX_MAGIC &&
        t->mailbox->version == MAILBOX_VERSION && t->mailbox->entries == MAILBOX_ENTRIES &&
        t->mailbox->slot_bytes == MAILBOX_SLOT) {
        t->posted = __atomic_load_n(&t->mailbox->done, __ATOMIC_ACQUIRE);
        __atomic_store_n(&t->mailbox->posted, t->posted, __ATOMIC_RELEASE); /* what a dead driver asked for last */
        return 0;
    }
    t->mailbox = NULL;
    return board_fail(t, PRESIL_TRANSPORT_EINVAL,
                      "%s is no mailbox of version %d with %zu bytes: is the board's program running?",
                      t->spec.registers.path, MAILBOX_VERSION, sizeof(mailbox_file));
}

uint8_t *board_host(const presil_transport *t, const board_memory *m) {
    return m->window.path[0] ? t->memory + (m->base - t->memory_base) : NULL;
}

static int map_memory(presil_transport *t) {
    for (uint32_t i = 0; i < t->spec.memory_count; i++) {
        const board_memory *m = &t->spec.memory[i];
        if (!m->window.path[0]) continue;
        void *mapped = NULL;
        int fd = -1, status = open_file(t, &m->window, &fd);
        if (status) return status;
        status = lock(t, fd, &m->window);
        if (!status) status = map(t, fd, &m->window, board_host(t, m), &mapped);
        if (status) {
            (void)close(fd);
            return status;
        }
        t->memory_lock_fd[i] = fd;
    }
    return 0;
}

static int reserve(presil_transport *t) {
    uint64_t first = UINT64_MAX, last = 0;
    for (uint32_t i = 0; i < t->spec.memory_count; i++) {
        const board_memory *m = &t->spec.memory[i];
        if (!m->window.path[0]) continue;
        if (m->base < first) first = m->base;
        if (m->base + m->window.bytes > last) last = m->base + m->window.bytes;
    }
    if (!last) return 0;
    void *range = mmap(NULL, last - first, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED)
        return board_fail(t, PRESIL_TRANSPORT_ENOMEM, "no address space for memory from 0x%llx to 0x%llx: %s",
                          (unsigned long long)first, (unsigned long long)last, strerror(errno));
    t->memory = range;
    t->memory_base = first;
    t->memory_bytes = last - first;
    return 0;
}

int board_windows_open(presil_transport *t) {
    int status = map_registers(t);
    if (!status) status = reserve(t);
    return status ? status : map_memory(t);
}

/* still_open: a mapping, or the descriptor that was inherited, would keep the lock. */
static void give_up(int *fd, const board_window *w, bool still_open) {
    if (*fd >= 0 && still_open) (void)set_lock(*fd, w, F_UNLCK);
    if (*fd >= 0) (void)close(*fd);
    *fd = -1;
}

static void give_up_all(presil_transport *t, bool mapped) {
    const board_spec *s = &t->spec;
    give_up(&t->lock_fd, &s->registers, mapped || s->registers.inherited);
    for (uint32_t i = 0; i < s->memory_count; i++)
        give_up(&t->memory_lock_fd[i], &s->memory[i].window, mapped || s->memory[i].window.inherited);
}

/* Locks are given up and taken again: a file of a device that went is not the one that came. */
int board_windows_again(presil_transport *t) {
    give_up_all(t, true);
    const int status = map_registers(t);
    return status ? status : map_memory(t);
}

void board_windows_close(presil_transport *t) {
    if (t->registers) (void)munmap((void *)(uintptr_t)t->registers, t->spec.registers.bytes);
    if (t->memory) (void)munmap(t->memory, t->memory_bytes);
    give_up_all(t, false);
    t->registers = NULL;
    t->memory = NULL;
}

int board_reset_by_file(presil_transport *t) {
    const int fd = open(t->spec.reset_path, O_WRONLY | O_CLOEXEC);
    const bool done = fd >= 0 && write(fd, "1", 1) == 1;
    const int failed = errno;
    if (fd >= 0) (void)close(fd);
    return done ? 0
                : board_fail(t, PRESIL_TRANSPORT_EIO, "reset: \"1\" can't be written to %s: %s", t->spec.reset_path,
                             strerror(failed));
}
