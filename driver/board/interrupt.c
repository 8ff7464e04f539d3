/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting: for a descriptor that becomes readable (UIO, eventfd), or for time to pass. */
#define _GNU_SOURCE
#include "board.h"
#include "presil_clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { STEP_NS = 10000000, PROGRESS_NS = 50000000 };

int board_interrupt_open(presil_transport *t) {
    if (t->spec.interrupt == BOARD_EVENTFD) t->interrupt_fd = t->spec.interrupt_fd;
    if (t->spec.interrupt == BOARD_EVENTFD && fcntl(t->interrupt_fd, F_GETFD) < 0) {
        t->interrupt_fd = -1;
        return board_fail(t, PRESIL_TRANSPORT_EINVAL, "interrupt = eventfd:%d: no open descriptor of this process",
                          t->spec.interrupt_fd);
    }
    if (t->spec.interrupt != BOARD_UIO) return 0;
    t->interrupt_fd = open(t->spec.interrupt_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    return t->interrupt_fd >= 0 ? 0
                                : board_fail(t, PRESIL_TRANSPORT_EIO, "interrupt = uio:%s can't be opened: %s",
                                             t->spec.interrupt_path, strerror(errno));
}

void board_interrupt_close(presil_transport *t) {
    if (t->spec.interrupt == BOARD_UIO && t->interrupt_fd >= 0) (void)close(t->interrupt_fd);
    t->interrupt_fd = -1;
}

/* The kernel masks a UIO interrupt when it comes; what is no device (a FIFO of a test) has nothing to unmask. */
static void unmask(const presil_transport *t) {
    struct stat s;
    const uint32_t on = 1;
    if (t->spec.interrupt == BOARD_UIO && fstat(t->interrupt_fd, &s) == 0 && S_ISCHR(s.st_mode))
        (void)!write(t->interrupt_fd, &on, sizeof on);
}

/* Takes the count of one event: UIO gives 4 bytes, an eventfd 8. */
static bool take_event(const presil_transport *t) {
    uint64_t count = 0;
    const size_t bytes = t->spec.interrupt == BOARD_UIO ? 4 : 8;
    return read(t->interrupt_fd, &count, bytes) == (ssize_t)bytes;
}

/* True if an event came within ns. */
static bool sleep_or_event(const presil_transport *t, uint64_t ns) {
    const struct timespec time = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    struct pollfd p = {.fd = t->interrupt_fd, .events = POLLIN};
    if (t->interrupt_fd >= 0) return ppoll(&p, 1, &time, NULL) > 0 && take_event(t);
    (void)nanosleep(&time, NULL);
    return false;
}

/* Without a clock: cycles become time by the chip's nominal frequency; nobody sees whether the bus is silent. */
static uint64_t deadline_of(const presil_transport *t, const presil_wait *w) {
    const uint64_t mhz = t->spec.clock_mhz ? t->spec.clock_mhz : 1000,
                   cycles = w->deadline_cycles < 1ull << 50 ? w->deadline_cycles * 1000 / mhz + 1 : UINT64_MAX;
    if (!w->deadline_cycles) return w->deadline_ns;
    return w->deadline_ns && w->deadline_ns < cycles ? w->deadline_ns : cycles;
}

int board_wait(presil_transport *t, presil_wait *w) {
    const uint64_t start = presil_now_ns(), limit = deadline_of(t, w);
    uint64_t told = start;
    w->cycles = 0;
    if (t->interrupt_fd >= 0) unmask(t);
    for (;;) {
        const uint64_t now = presil_now_ns();
        w->reason = PRESIL_WAIT_CANCELLED;
        if (w->cancel && __atomic_load_n(w->cancel, __ATOMIC_RELAXED)) return 0;
        w->reason = PRESIL_WAIT_DEADLINE;
        if (limit && now - start >= limit) return 0;
        if (w->progress && now - told >= PROGRESS_NS) {
            w->progress(w->progress_context, 0);
            told = now;
        }
        const uint64_t left = limit ? limit - (now - start) : STEP_NS;
        w->reason = PRESIL_WAIT_IRQ;
        if (sleep_or_event(t, left < STEP_NS ? left : STEP_NS)) return 0;
    }
}
