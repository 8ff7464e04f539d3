/* SPDX-License-Identifier: Apache-2.0 */
/* One launch on the chip, from the doorbell to its counters; when it hangs or fails. */
#include "on_chip.h"
#include "callbacks.h"
#include "chip_writes.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "io_map.h"
#include "listeners.h"
#include "presil_clock.h"
#include "queue.h"
#include "ranges.h"
#include "residency.h"
#include "running.h"
#include "start.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_POLL_CYCLES = 256, SPURIOUS_INTERRUPTS = 1000, LOOK_CYCLES = 1024, PATIENCE = 4 };
/* Without a clock: how long to wait for an interrupt before the chip is asked all the same, or between two looks. */
enum { ASK_NS = 50000000, FIRST_POLL_NS = 10000, MOST_POLL_NS = 2000000 };

typedef struct {
    presil_device *device;
    const presil_plan *plan;
    const presil_plan_info *info;
    uint64_t seq, number, cycles; /* number: in its report; cycles: of the waits before the one that reports progress */
    uint64_t silent;              /* cycles since something moved on the bus, as far as the watchdog has seen */
    /* Without a clock: when it began, when the chip was looked at last, and what progress() said then. */
    uint64_t begin_ns, look_ns, work;
    bool looked;
    bool several; /* others are in flight behind it */
    bool told;    /* by the chip that it failed, or by the watchdog: nothing behind it has begun */
    presil_progress_fn progress;
    void *progress_context;
    presil_register_access accesses[PRESIL_COMPLETION_MOST];
} rtl_launch;

static void on_progress(void *context, uint64_t cycles) {
    const rtl_launch *launch = context;
    launch->progress(launch->progress_context, launch->info->label, launch->number, launch->cycles + cycles);
}

static void remember_hang(const rtl_launch *launch, bool timed_out) {
    presil_device *device = launch->device;
    presil_waiting rows[MOST_WAITING];
    uint32_t count = 0;
    int verdict = PRESIL_HUNG_OR_SLOW;
    if (!device->chip_ops->waits ||
        device->chip_ops->waits(device->chip, &device->link, launch->plan, rows, MOST_WAITING, &count, &verdict))
        count = 0;
    (void)pthread_mutex_lock(&device->reports.lock);
    device->reports.hang_rows = count < MOST_WAITING ? count : MOST_WAITING;
    memcpy(device->reports.hang, rows, device->reports.hang_rows * sizeof *rows);
    device->reports.hang_verdict = timed_out ? PRESIL_TIMED_OUT : verdict;
    (void)pthread_mutex_unlock(&device->reports.lock);
}

static int end_stuck(rtl_launch *launch, const char *what, bool timed_out) {
    char why[ERROR_TEXT / 2] = "";
    presil_device *device = launch->device;
    device->link.done_count = 0;
    if (device->chip_ops->why) (void)device->chip_ops->why(device->chip, &device->link, launch->plan, why, sizeof why);
    remember_hang(launch, timed_out);
    launch->told = true;
    return presil_fail(PRESIL_EHUNG, "%s: %s", what, *why ? why : "the chip does not say what it waits for");
}

static int stuck(rtl_launch *launch, const char *what) { return end_stuck(launch, what, false); }

static bool is_clocked(const presil_device *device) { return device->transport.capabilities & PRESIL_CAP_CLOCKED; }

/* UINT64_MAX: there is no time-out. */
static uint64_t cycles_left(const rtl_launch *launch) {
    const uint64_t most = launch->device->most_cycles;
    if (!most || !is_clocked(launch->device)) return UINT64_MAX;
    return most > launch->cycles ? most - launch->cycles : 0;
}

/* A chip that moves something for ever is never silent. */
static int look_at_timeout(rtl_launch *launch) {
    if (cycles_left(launch)) return PRESIL_OK;
    char text[160];
    (void)snprintf(text, sizeof text, "time-out: not done after %llu cycles, at most %llu expected",
                   (unsigned long long)launch->cycles, (unsigned long long)launch->device->most_cycles);
    return end_stuck(launch, text, true);
}

static int chip_error(const rtl_launch *launch, const presil_service *service) {
    const presil_device *device = launch->device;
    presil_bus_fault fault = {0};
    const int status = service->status ? service->status : PRESIL_EBUS;
    if (status == PRESIL_EBUS && device->link.ops->bus_fault &&
        device->link.ops->bus_fault(device->link.handle, &fault) == 0 && fault.valid)
        return presil_fail(status, "%s; the bus saw a %s of 0x%llx, outside the memory, in cycle %llu", service->text,
                           fault.is_write ? "write" : "read", (unsigned long long)fault.address.value,
                           (unsigned long long)fault.cycle);
    return presil_fail(status, "%s", service->text);
}

/* The bus was silent for the cycles of the watchdog: looks at the chip twice. */
static int look_again(rtl_launch *launch, uint64_t waited) {
    presil_device *device = launch->device;
    const uint64_t estimate = launch->info->estimate < MOST_HANG_CYCLES ? launch->info->estimate : MOST_HANG_CYCLES,
                   limit = device->hang_cycles + PATIENCE * estimate;
    uint64_t before = 0, after = 0;
    char text[160];
    launch->silent = waited > device->hang_cycles ? device->hang_cycles : launch->silent + waited;
    (void)snprintf(text, sizeof text, "no progress for %llu cycles", (unsigned long long)device->hang_cycles);
    if (!device->chip_ops->progress || device->chip_ops->progress(device->chip, &device->link, &before))
        return stuck(launch, text);
    const uint64_t left = cycles_left(launch);
    presil_wait w = {.size = sizeof w,
                     .deadline_cycles = left > LOOK_CYCLES ? LOOK_CYCLES
                                        : left             ? left
                                                           : 1,
                     .cancel = &device->queue.cancel_flag};
    const int error = device->link.ops->wait(device->link.handle, &w);
    if (error) return presil_transport_failed(&device->link, "the simulator stopped", error);
    launch->cycles += w.cycles;
    launch->silent += w.cycles;
    if (w.reason == PRESIL_WAIT_IRQ || w.reason == PRESIL_WAIT_CANCELLED) return PRESIL_OK;
    const int late = look_at_timeout(launch);
    if (late) return late;
    if (device->chip_ops->progress(device->chip, &device->link, &after) || after == before) return stuck(launch, text);
    if (!estimate || launch->silent <= limit) return PRESIL_OK;
    (void)snprintf(
        text, sizeof text,
        "engines work, but the bus is silent for %llu cycles, more than %d times what the launch should take",
        (unsigned long long)launch->silent, PATIENCE);
    return stuck(launch, text);
}

/* A chip that has done nothing between two looks, half the watchdog apart, hangs; one that can't tell has it all. */
static int look_by_wall_clock(rtl_launch *launch) {
    presil_device *device = launch->device;
    const bool tells = device->chip_ops->progress != NULL;
    const uint64_t now = presil_now_ns();
    if (now - launch->look_ns < (tells ? device->hang_ns / 2 : device->hang_ns)) return PRESIL_OK;
    char text[160];
    (void)snprintf(text, sizeof text, "no progress for %.3g s (PRESIL_WATCHDOG_SECONDS)",
                   (double)device->hang_ns * 1e-9);
    uint64_t work = 0;
    if (!tells || device->chip_ops->progress(device->chip, &device->link, &work)) return stuck(launch, text);
    const bool same = launch->looked && work == launch->work;
    launch->look_ns = now, launch->work = work, launch->looked = true;
    return same ? stuck(launch, text) : PRESIL_OK;
}

static bool interrupts(const presil_device *device) {
    return device->limits.has_interrupt && !(device->transport.capabilities & PRESIL_CAP_POLLED);
}

static void set_deadline(const rtl_launch *launch, presil_wait *w) {
    const presil_device *device = launch->device;
    const bool interrupt = interrupts(device);
    if (!is_clocked(device)) {
        const uint64_t interval = FIRST_POLL_NS + (presil_now_ns() - launch->begin_ns) / 4;
        w->deadline_ns = interrupt ? ASK_NS : interval < MOST_POLL_NS ? interval : MOST_POLL_NS;
    } else if (!interrupt) {
        const uint64_t interval = FIRST_POLL_CYCLES + launch->cycles / 4;
        w->deadline_cycles = interval < 2 * device->hang_cycles ? interval : 2 * device->hang_cycles;
    }
    const uint64_t left = cycles_left(launch);
    if (left != UINT64_MAX && (!w->deadline_cycles || left < w->deadline_cycles)) w->deadline_cycles = left ? left : 1;
}

/* The wait, and what the chip asks for behind every interrupt if that spares journeys. */
static int wait_once(rtl_launch *launch, presil_wait *w) {
    presil_device *device = launch->device;
    const presil_chip_ops *chip = device->chip_ops;
    presil_link *link = &device->link;
    link->done_count = 0;
    if (!link->ops->wait_then || !device->limits.has_interrupt || !chip->completion)
        return link->ops->wait(link->handle, w);
    const size_t count = chip->completion(device->chip, launch->accesses);
    const int error = link->ops->wait_then(link->handle, w, launch->accesses, count);
    link->done = launch->accesses;
    link->done_count = !error && w->reason == PRESIL_WAIT_IRQ ? count : 0;
    return error;
}

/* What the chip says: a status if that failed; else what service() answers, and whether the launch is over. */
static int ask(rtl_launch *launch, bool *over) {
    const presil_device *device = launch->device;
    presil_service service = {.size = sizeof service};
    const int status = device->chip_ops->service(device->chip, &device->link, launch->plan, &service);
    if (status)
        return presil_fail(status, "asking the chip failed: %s",
                           *service.text ? service.text : device->link.ops->last_error(device->link.handle));
    launch->told = service.result == PRESIL_SERVICE_ERROR;
    if (service.result == PRESIL_SERVICE_ERROR) return chip_error(launch, &service);
    if (service.result == PRESIL_SERVICE_PROGRESS) launch->silent = 0, launch->looked = false;
    *over = service.result == PRESIL_SERVICE_DONE;
    return *over ? PRESIL_OK : service.result;
}

/* Waits in steps: to the interrupt, or (a chip that has none) for intervals that grow, so that the transport's watchdog
 * still gets its turn. */
static int wait_done(rtl_launch *launch) {
    presil_device *device = launch->device;
    if (!is_clocked(device)) launch->begin_ns = launch->look_ns = presil_now_ns();
    launch->looked = false;
    if (device->limits.asks_first || launch->several) {
        bool over = false;
        device->link.done_count = 0;
        const int result = ask(launch, &over);
        if (result < 0 || over) return result;
    }
    for (unsigned spurious = 0; spurious < SPURIOUS_INTERRUPTS;) {
        presil_wait w = {.size = sizeof w,
                         .hang_cycles = device->hang_cycles,
                         .cancel = &device->queue.cancel_flag,
                         .progress = launch->progress ? on_progress : NULL,
                         .progress_context = launch};
        set_deadline(launch, &w);
        const int error = wait_once(launch, &w);
        if (error) return presil_transport_failed(&device->link, "the simulator stopped", error);
        launch->cycles += w.cycles;
        if (w.reason == PRESIL_WAIT_CANCELLED) {
            if (presil_cancelled(device, launch->seq))
                return presil_fail(PRESIL_ECANCELLED, "cancelled after %llu cycles",
                                   (unsigned long long)launch->cycles);
            continue;
        }
        if (w.reason == PRESIL_WAIT_HUNG) {
            bool over = false; /* a chip that is polled may be at the next one */
            const int result = launch->several ? ask(launch, &over) : PRESIL_OK;
            if (result < 0 || over) return result;
            const int status = look_again(launch, w.cycles);
            if (status) return status;
            continue;
        }
        /* Not asked then: a chip that is done, and did not say so, has lost its interrupt. */
        const int late = w.reason == PRESIL_WAIT_DEADLINE && interrupts(device) ? look_at_timeout(launch) : PRESIL_OK;
        if (late) return late;
        bool over = false;
        const int result = ask(launch, &over);
        if (result < 0 || over) return result;
        spurious = w.reason == PRESIL_WAIT_IRQ && result == PRESIL_SERVICE_BUSY ? spurious + 1 : 0;
        const int hung = is_clocked(device) ? look_at_timeout(launch) : look_by_wall_clock(launch);
        if (hung) return hung;
    }
    return stuck(launch, "the interrupt stays on, but the chip says that it is busy");
}

void presil_trace_begin(presil_device *device, uint64_t launch) {
    if (!device->run.trace_path || device->run.tracing || launch != device->run.trace_first ||
        !atomic_load(&device->started))
        return;
    const int error = device->link.ops->trace(device->link.handle, device->run.trace_path, device->run.trace_from,
                                              device->run.trace_to);
    if (error) {
        (void)presil_transport_failed(&device->link, "tracing", error);
        presil_warn("%s", presil_error_text());
    }
    device->run.tracing = !error;
}

int presil_chip_submit(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint32_t segment,
                       presil_byte_range scratch, bool idle) {
    char text[ERROR_TEXT];
    presil_error_buffer buffer = {text, sizeof text};
    text[0] = 0;
    const int error =
        idle && device->link.ops->launch ? device->link.ops->launch(device->link.handle, info->signature + segment) : 0;
    if (error) return presil_transport_failed(&device->link, "preparing the launch", error);
    device->memory.command.scratch = scratch.base;
    device->memory.command.scratch_bytes = scratch.bytes;
    const int status =
        device->chip_ops->submit(device->chip, &device->link, &device->memory.command, plan, segment, &buffer);
    return status ? presil_fail(status, "%s", text) : PRESIL_OK;
}

static int reap(rtl_launch *launch, presil_report *report) {
    presil_device *device = launch->device;
    const uint64_t before = launch->cycles;
    int status = wait_done(launch);
    if (status) return status;
    if (device->chip_ops->counters)
        status = device->chip_ops->counters(device->chip, &device->link, report);
    else
        report->cycles += launch->cycles - before;
    device->link.done_count = 0;
    if (!status) return PRESIL_OK;
    return presil_fail(status, "reading the counters: %s", device->link.ops->last_error(device->link.handle));
}

static void prepare(rtl_launch *launch, presil_device *device, const presil_plan *plan, const presil_plan_info *info,
                    uint64_t seq, const presil_report *report) {
    launch->device = device, launch->plan = plan, launch->info = info, launch->seq = seq;
    launch->number = report->launch, launch->cycles = launch->silent = 0;
    launch->several = launch->told = false;
    (void)pthread_mutex_lock(&device->reports.lock);
    launch->progress = device->reports.progress;
    launch->progress_context = device->reports.progress_context;
    (void)pthread_mutex_unlock(&device->reports.lock);
}

int presil_chip_reap(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint64_t seq,
                     presil_report *report, uint64_t *cycles, bool *told) {
    rtl_launch launch;
    prepare(&launch, device, plan, info, seq, report);
    launch.several = true;
    launch.cycles = *cycles;
    const int status = reap(&launch, report);
    *cycles = launch.cycles;
    *told = launch.told;
    return status;
}

static int run_segment(rtl_launch *launch, uint32_t segment, presil_report *report) {
    presil_device *device = launch->device;
    const int status = presil_chip_submit(device, launch->plan, launch->info, segment, device->run.scratch, true);
    if (status) return status;
    if (device->run.trace_window && segment == 0)
        presil_trace_begin(device, report->launch); /* counts from the doorbell */
    return reap(launch, report);
}

static bool is_coherent(const presil_device *device) {
    return !device->memory.maps || device->transport.capabilities & PRESIL_CAP_COHERENT;
}

static int sync_ranges(const presil_device *device, int (*sync)(presil_transport *, presil_daddr, uint64_t),
                       const presil_byte_range *ranges, uint32_t count) {
    if (is_coherent(device) || !sync) return PRESIL_OK;
    for (uint32_t i = 0; i < count; i++) {
        const int error = sync(device->link.handle, ranges[i].base, ranges[i].bytes);
        if (error) return presil_transport_failed(&device->link, "synchronising memory", error);
    }
    return PRESIL_OK;
}

static int sync_for_host(presil_device *device, const presil_byte_range *ranges, uint32_t count) {
    return sync_ranges(device, device->link.ops->sync_for_host, ranges, count);
}

int presil_launch_rtl(presil_device *device, const presil_plan *plan, const presil_plan_info *info, uint64_t seq,
                      presil_report *report) {
    rtl_launch launch;
    prepare(&launch, device, plan, info, seq, report);
    const uint64_t start = presil_now_ns();
    int status = sync_ranges(device, device->link.ops->sync_for_device, info->reads, info->read_count);
    const bool two = device->residency.state != NULL;
    if (!status) status = presil_io_map_plan(device, info);
    const presil_byte_range scratch = device->run.scratch;
    if (!status && scratch.bytes) status = presil_io_map(device, scratch.base, scratch.bytes);
    if (!status && two) status = presil_residency_send(device, info);
    for (uint32_t segment = 0; segment < info->segments && !status; segment++)
        status = run_segment(&launch, segment, report);
    if (!status && !is_coherent(device)) status = presil_each_write(device, info, sync_for_host);
    const bool now = !device->residency.late || report->mode == PRESIL_MODE_VERIFY || device->capture.listening;
    if (two && scratch.bytes) presil_residency_scribbled(device, scratch.base, scratch.bytes);
    if (!status && two) status = presil_residency_wrote(device, info, now);
    if (!status && device->link.ops->cycles) (void)device->link.ops->cycles(device->link.handle, &device->run.clock);
    if (status) {
        char text[ERROR_TEXT];
        (void)snprintf(text, sizeof text, "%s", presil_error_text());
        presil_residency_spoilt(device, info);
        if (device->capture.listening) (void)presil_log_fetch(device); /* what it wrote until then */
        status = presil_recover(device, false)
                     ? presil_fail(PRESIL_EDEAD, "%.200s; then: %.200s", text, presil_error_text())
                     : presil_fail(status, "%s", text);
    }
    report->sim_ns += presil_now_ns() - start;
    return status;
}
