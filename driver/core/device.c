/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: opening, closing, mode, and everything that needs an idle device. */
#include "device.h"
#include "callbacks.h"
#include "chip_writes.h"
#include "choose_transport.h"
#include "device_memory.h"
#include "execute.h"
#include "fail.h"
#include "in_flight.h"
#include "io_map.h"
#include "layouts.h"
#include "life.h"
#include "listeners.h"
#include "model.h"
#include "presil_heap.h"
#include "queue.h"
#include "ranges.h"
#include "recording.h"
#include "residency.h"
#include "running.h"
#include "scratch.h"
#include "start.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what it is opened as */
/* "16G", "512M", bytes; 0 on nonsense. */
static uint64_t parse_bytes(const char *text) {
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 0);
    unsigned shift = 0;
    if (*end == 'k' || *end == 'K') shift = 10;
    if (*end == 'm' || *end == 'M') shift = 20;
    if (*end == 'g' || *end == 'G') shift = 30;
    if (shift) end++;
    if (*end == 'i') end++;
    if (*end == 'B') end++;
    if (errno || end == text || *end || *text == '-' || value > UINT64_MAX >> shift) return 0;
    return (uint64_t)value << shift;
}

#define DEFAULT_HANG_CYCLES 200000u
#define DEFAULT_HANG_NS 10000000000ull

static int choose_memory(presil_device *device, uint64_t wanted) {
    const char *text = getenv("PRESIL_MEMORY");
    uint64_t bytes = wanted ? wanted : 16ull << 30;
    if (!wanted && text && *text) {
        bytes = parse_bytes(text);
        if (!bytes) return presil_fail(PRESIL_EINVAL, "PRESIL_MEMORY=%s is no number of bytes (such as 4G)", text);
    }
    bytes &= ~(uint64_t)(PRESIL_HEAP_PAGE - 1);
    if (bytes == 0 || bytes / PRESIL_HEAP_PAGE >= UINT32_MAX)
        return presil_fail(PRESIL_EINVAL, "device memory of %llu bytes: 4096 to 2^44 - 4096 expected",
                           (unsigned long long)bytes);
    device->memory.bytes = bytes;
    device->memory.wanted = wanted || (text && *text) ? bytes : 0;
    return PRESIL_OK;
}

static char *copy_text(const char *text, int *status) {
    if (!text) return NULL;
    const size_t bytes = strlen(text) + 1;
    char *copy = malloc(bytes);
    if (!copy)
        *status = presil_fail(PRESIL_EHOSTMEM, "presil_device_open: host memory is full");
    else
        memcpy(copy, text, bytes);
    return copy;
}

static int is_name(const char *text, size_t bytes) {
    const size_t n = strlen(text);
    return n > 0 && n < bytes &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.") == n && *text != '.';
}

/* `wanted`, or what the variable says; 0: neither. */
static int choose_cycles(const char *variable, uint64_t wanted, uint64_t *out) {
    const char *text = getenv(variable);
    *out = wanted;
    if (wanted || !text || !*text) return PRESIL_OK;
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 0);
    return errno || *end || *text == '-' || !*out
               ? presil_fail(PRESIL_EINVAL, "%s=%s is no number of cycles (such as 200000)", variable, text)
               : PRESIL_OK;
}

/* Beyond 2^40 cycles it makes no difference, and no sum of them overflows. */
static int choose_watchdog(presil_device *device, uint64_t wanted) {
    const int status = choose_cycles("PRESIL_WATCHDOG", wanted, &wanted);
    if (status) return status;
    if (!wanted) wanted = DEFAULT_HANG_CYCLES;
    device->hang_cycles = wanted < MOST_HANG_CYCLES ? wanted : MOST_HANG_CYCLES;
    return PRESIL_OK;
}

/* Where the transport has no clock: wall time without a sign of life. */
static int choose_patience(presil_device *device, uint64_t wanted) {
    const char *text = getenv("PRESIL_WATCHDOG_SECONDS");
    device->hang_ns = wanted ? wanted : DEFAULT_HANG_NS;
    if (wanted || !text || !*text) return PRESIL_OK;
    char *end = NULL;
    const double seconds = strtod(text, &end);
    if (*end || !(seconds >= 0.01 && seconds <= 1e6))
        return presil_fail(PRESIL_EINVAL, "PRESIL_WATCHDOG_SECONDS=%s: 0.01 to 1000000 expected", text);
    device->hang_ns = (uint64_t)(seconds * 1e9);
    return PRESIL_OK;
}

static int read_options(presil_device *device, const presil_device_options *o) {
    const char *config = o->config ? o->config : "", *build = o->build ? o->build : "fast";
    if (o->mode > PRESIL_MODE_VERIFY)
        return presil_fail(PRESIL_EINVAL, "presil_device_open: mode %u is not one of presil_mode", o->mode);
    if (o->host_memory > 2)
        return presil_fail(PRESIL_EINVAL, "presil_device_open: host_memory %u: 0, 1 or 2 expected", o->host_memory);
    if (o->config && !is_name(config, sizeof device->config))
        return presil_fail(PRESIL_EINVAL, "presil_device_open: \"%s\" is not the name of a configuration", config);
    if (!is_name(build, sizeof device->build))
        return presil_fail(PRESIL_EINVAL, "presil_device_open: \"%s\" is not the name of a build", build);
    device->config_given = o->config != NULL;
    device->build_given = o->build != NULL;
    (void)snprintf(device->config, sizeof device->config, "%s", config);
    (void)snprintf(device->build, sizeof device->build, "%s", build);
    int status = choose_memory(device, o->memory_bytes);
    device->library_path = copy_text(o->library, &status);
    const char *chip = o->chip_library ? o->chip_library : getenv("PRESIL_CHIP_LIBRARY");
    device->chip_path = copy_text(chip && *chip ? chip : NULL, &status);
    device->memory_model = copy_text(o->memory_model, &status);
    atomic_init(&device->mode, (int)o->mode);
    device->seed = o->seed;
    if (!status) status = choose_watchdog(device, o->hang_cycles);
    if (!status) status = choose_cycles("PRESIL_TIMEOUT_CYCLES", 0, &device->most_cycles);
    if (!status) status = choose_patience(device, o->hang_ns);
    atomic_init(&device->twin.threads, o->twin_threads ? o->twin_threads : 1);
    device->memory.no_map = o->no_map != 0;
    device->memory.host_copy = o->host_memory != 0;
    device->residency.late = o->host_memory == 2;
    return status ? status : presil_choose_transport(device, o->transport, o->transport_index);
}

static int check_mode(const presil_device *device, int mode) {
    if (mode != PRESIL_MODE_MODEL || device->limits.has_executor) return PRESIL_OK;
    return presil_fail(PRESIL_EUNSUPPORTED, "the chip \"%s\" has no model in C: only modes RTL and VERIFY work",
                       device->chip_ops->name);
}

/* ---- life */
static void destroy(presil_device *device) {
    if (device->chip) device->chip_ops->destroy(device->chip);
    presil_queue_destroy(device);
    (void)pthread_mutex_destroy(&device->memory.lock);
    presil_reports_close(&device->reports);
    free(device->library_path);
    free(device->chip_path);
    free(device->memory_model);
    free(device->run.trace_path);
    free(device);
}

static void close_parts(presil_device *device) {
    if (device->link.handle) device->link.ops->close(device->link.handle);
    device->link.handle = NULL;
    presil_io_forget(device);
    presil_view_close(device);
    ranges_free(&device->log.writes);
    ranges_free(&device->capture.may_write);
    presil_queue_close(device);
    presil_flights_close(device);
    presil_residency_close(device);
    presil_memory_close(device);
}

int presil_device_open(const presil_device_options *options, presil_device **out) {
    if (!out) return presil_fail(PRESIL_EINVAL, "presil_device_open: out is NULL");
    presil_device_options o = {.size = sizeof o};
    int status = options
                     ? presil_take(&o, sizeof o, options, options->size, 2 * sizeof(uint32_t), "presil_device_options")
                     : PRESIL_OK;
    if (status) return status;
    const unsigned process = presil_watch_forks();
    presil_device *device = calloc(1, sizeof *device);
    if (!device) return presil_fail(PRESIL_EHOSTMEM, "presil_device_open: host memory is full");
    atomic_init(&device->references, 1);
    device->process = process;
    device->destroy = destroy;
    device->memory.fd = -1;
    (void)pthread_mutex_init(&device->memory.lock, NULL);
    presil_reports_open(&device->reports);
    status = presil_queue_open(device, &presil_execution);
    if (!status) status = read_options(device, &o);
    const char *affinity = o.affinity ? o.affinity : getenv("PRESIL_AFFINITY");
    if (!status && affinity) status = presil_queue_set_affinity(device, affinity);
    if (!status) status = presil_memory_open(device);
    if (!status) status = presil_choose_chip(device);
    if (!status) status = check_mode(device, (int)o.mode);
    if (!status) status = presil_memory_reserve_commands(device);
    if (!status) status = presil_flights_open(device, o.queue_depth);
    if (status) {
        close_parts(device);
        presil_device_drop(device);
        return status;
    }
    *out = device;
    return PRESIL_OK;
}

static void report_leaks(presil_device *device) {
    for (presil_stream *s = &device->queue.default_stream; s;
         s = s == &device->queue.default_stream ? device->queue.streams : s->next) {
        if (s->error)
            presil_warn("presil_device_close: an error was never asked for: %s: %s",
                        presil_status_name((presil_status)s->error), s->error_text);
    }
    presil_memory_stats stats = {.size = sizeof stats};
    if (presil_memory_get_stats(device, &stats) == PRESIL_OK && stats.active_blocks)
        presil_warn("presil_device_close: %llu blocks (%llu bytes) of device memory were never freed",
                    (unsigned long long)stats.active_blocks, (unsigned long long)stats.allocated);
}

void presil_device_close(presil_device *device) {
    if (!device || presil_enter(device)) return;
    if (presil_exclusive_begin(device)) {
        presil_warn("presil_device_close: called from a callback of the device; it stays open");
        return;
    }
    presil_layouts_close(device);
    presil_scratch_release(device);
    report_leaks(device);
    atomic_store(&device->closed, true);
    presil_exclusive_end(device);
    presil_list_drop(device->queue.default_stream.recording);
    device->queue.default_stream.recording = NULL;
    close_parts(device);
    presil_device_drop(device);
}

/* ---- an idle device */
int presil_device_start(presil_device *device) {
    const int entered = presil_enter(device);
    return entered ? entered : presil_start_if_needed(device);
}

/* What the chip told: a number, or the bit of a 0. */
static uint32_t known_of(const presil_device_info *i) {
    const uint32_t numbers[] = {i->lanes,      i->cells,    i->word_bytes, i->banks,
                                i->bank_words, i->acc_rows, i->clock_mhz,  i->config_hash};
    uint32_t known = i->known;
    for (uint32_t n = 0; n < sizeof numbers / sizeof *numbers; n++) known |= (uint32_t)(numbers[n] != 0) << n;
    return known;
}

int presil_device_get_info(presil_device *device, presil_device_info *out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out || out->size < 2 * sizeof(uint32_t))
        return presil_fail(PRESIL_EINVAL, "presil_device_get_info: out->size must be sizeof(presil_device_info)");
    presil_device_info info = {.size = sizeof info};
    const int status = device->chip_ops->info(device->chip, &info);
    if (status) return presil_fail(status, "the chip \"%s\" gives no information", device->chip_ops->name);
    info.size = out->size;
    info.known = known_of(&info);
    info.mode = (uint32_t)atomic_load(&device->mode);
    info.memory_bytes = device->memory.bytes;
    info.memory_base = device->memory.base;
    (void)snprintf(info.chip, sizeof info.chip, "%s", device->chip_ops->name);
    (void)snprintf(info.config, sizeof info.config, "%s", device->config);
    (void)snprintf(info.build, sizeof info.build, "%s", device->build);
    (void)snprintf(info.transport, sizeof info.transport, "%s", device->transport_spec);
    (void)snprintf(info.simulator, sizeof info.simulator, "%s",
                   atomic_load(&device->started) ? device->transport.text : "");
    memcpy(out, &info, out->size < sizeof info ? out->size : sizeof info);
    return PRESIL_OK;
}

int presil_device_set_mode(presil_device *device, presil_mode mode) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if ((unsigned)mode > PRESIL_MODE_VERIFY)
        return presil_fail(PRESIL_EINVAL, "presil_device_set_mode: %d is not one of presil_mode", (int)mode);
    int status = check_mode(device, (int)mode);
    if (!status) status = presil_exclusive_begin(device);
    if (status) return status;
    if ((int)mode != atomic_load(&device->mode) && atomic_load(&device->started) && !device->dead)
        status = presil_recover(device, false); /* a clean queue for the new mode */
    if (!status) atomic_store(&device->mode, (int)mode);
    presil_exclusive_end(device);
    return status;
}

int presil_device_get_verified(presil_device *device, presil_verified *out) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (!out || out->size < sizeof *out)
        return presil_fail(PRESIL_EINVAL, "presil_device_get_verified: out is NULL, or its size is not set");
    const run_state *run = &device->run;
    *out = (presil_verified){.size = out->size,
                             .compared = atomic_load(&run->compared),
                             .differed = atomic_load(&run->differed),
                             .not_compared = atomic_load(&run->not_compared)};
    return PRESIL_OK;
}

int presil_device_set_memory_model(presil_device *device, const char *memory_model, uint64_t seed) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    int status = PRESIL_OK;
    char *copy = copy_text(memory_model, &status);
    if (!status) status = presil_exclusive_begin(device);
    if (status) {
        free(copy);
        return status;
    }
    if (device->link.handle && !device->link.ops->set_memory_model) {
        status = presil_fail(PRESIL_EUNSUPPORTED, "presil_device_set_memory_model: this transport has no memory model "
                                                  "that can be changed");
    } else if (device->link.handle) {
        const int error = device->link.ops->set_memory_model(device->link.handle, memory_model, seed);
        if (error) status = presil_transport_failed(&device->link, "presil_device_set_memory_model", error);
        presil_ask_timing(device);
    }
    if (!status) {
        char *old = device->memory_model;
        device->memory_model = copy;
        device->seed = seed;
        copy = old;
    }
    presil_exclusive_end(device);
    free(copy);
    return status;
}

int presil_device_set_watchdog(presil_device *device, uint64_t cycles) {
    const int entered = presil_enter(device);
    int status = entered ? entered : presil_exclusive_begin(device);
    if (status) return status;
    status = choose_watchdog(device, cycles);
    presil_exclusive_end(device);
    return status;
}

int presil_device_set_timeout(presil_device *device, uint64_t cycles) {
    const int entered = presil_enter(device);
    int status = entered ? entered : presil_exclusive_begin(device);
    if (status) return status;
    status = choose_cycles("PRESIL_TIMEOUT_CYCLES", cycles, &device->most_cycles);
    presil_exclusive_end(device);
    return status;
}

/* 40 bits of address, as every transport has them at most. */
static int check_window(presil_daddr base, uint64_t bytes, uint32_t access) {
    const uint64_t end = UINT64_C(1) << 40;
    if (base.value % PRESIL_HEAP_PAGE || bytes % PRESIL_HEAP_PAGE)
        return presil_fail(PRESIL_EINVAL,
                           "presil_device_set_window: 0x%llx bytes at 0x%llx: multiples of 4096 expected",
                           (unsigned long long)bytes, (unsigned long long)base.value);
    if (base.value >= end || bytes > end - base.value)
        return presil_fail(PRESIL_EINVAL, "presil_device_set_window: 0x%llx bytes at 0x%llx end above 2^40",
                           (unsigned long long)bytes, (unsigned long long)base.value);
    if (access & ~(uint32_t)(PRESIL_WINDOW_READ | PRESIL_WINDOW_WRITE))
        return presil_fail(PRESIL_EINVAL,
                           "presil_device_set_window: access 0x%x: bits of presil_window_access expected", access);
    return PRESIL_OK;
}

/* Begins what changes windows; the link, NULL where the chip was not brought up: it hears of them when it is. */
static int windows_begin(presil_device *device, const char *who, const presil_link **link) {
    if (!device->chip_ops->set_window || !device->chip_ops->lock_windows)
        return presil_fail(PRESIL_EUNSUPPORTED, "%s: the chip \"%s\" has no DMA windows", who, device->chip_ops->name);
    const int status = presil_exclusive_begin(device);
    if (status) return status;
    *link = atomic_load(&device->started) ? &device->link : NULL;
    if (!device->dead) return PRESIL_OK;
    presil_exclusive_end(device);
    return presil_fail(PRESIL_EDEAD, "%s: the device is unusable until presil_device_reset()", who);
}

int presil_device_set_window(presil_device *device, uint32_t window, presil_daddr base, uint64_t bytes,
                             uint32_t access) {
    const int entered = presil_enter(device);
    const presil_link *link;
    int status = entered ? entered : check_window(base, bytes, access);
    if (!status) status = windows_begin(device, "presil_device_set_window", &link);
    if (status) return status;
    char text[512] = "";
    presil_error_buffer error = {text, sizeof text};
    status = device->chip_ops->set_window(device->chip, link, window, base, bytes, access, &error);
    presil_exclusive_end(device);
    return status ? presil_fail(status, "presil_device_set_window: %s", text) : PRESIL_OK;
}

int presil_device_lock_windows(presil_device *device) {
    const int entered = presil_enter(device);
    const presil_link *link;
    int status = entered ? entered : windows_begin(device, "presil_device_lock_windows", &link);
    if (status) return status;
    char text[512] = "";
    presil_error_buffer error = {text, sizeof text};
    status = device->chip_ops->lock_windows(device->chip, link, &error);
    presil_exclusive_end(device);
    return status ? presil_fail(status, "presil_device_lock_windows: %s", text) : PRESIL_OK;
}

int presil_device_set_twin_threads(presil_device *device, uint32_t threads) {
    const int entered = presil_enter(device);
    if (!entered) atomic_store_explicit(&device->twin.threads, threads ? threads : 1, memory_order_relaxed);
    return entered;
}

int presil_device_set_affinity(presil_device *device, const char *cpus) {
    const int entered = presil_enter(device);
    return entered ? entered : presil_queue_set_affinity(device, cpus);
}

int presil_device_reset(presil_device *device) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    presil_cancel_all(device);
    int status = presil_exclusive_begin(device);
    if (status) return status;
    __atomic_store_n(&device->queue.cancel_flag, 0, __ATOMIC_RELAXED);
    (void)pthread_mutex_lock(&device->queue.lock);
    presil_stream_clear_error(&device->queue.default_stream);
    for (presil_stream *s = device->queue.streams; s; s = s->next) presil_stream_clear_error(s);
    (void)pthread_mutex_unlock(&device->queue.lock);
    /* Not started, but open: a link may have gone before the chip was brought up. */
    if (device->link.handle) status = presil_recover(device, true);
    presil_layouts_told(device);
    presil_exclusive_end(device);
    return status;
}

void presil_device_cancel(presil_device *device) {
    /* In a signal handler: no locks, no texts. */
    if (device && !atomic_load(&device->closed)) presil_cancel_all(device);
}

static int trace(presil_device *device, const char *path, uint64_t first_launch, uint64_t launches,
                 uint64_t first_cycle, uint64_t last_cycle) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    if (path && launches == 0) return presil_fail(PRESIL_EINVAL, "presil_device_trace: no launches to trace");
    int status = path ? presil_start_if_needed(device) : PRESIL_OK;
    char *copy = status ? NULL : copy_text(path, &status);
    if (!status) status = presil_exclusive_begin(device);
    if (status) {
        free(copy);
        return status;
    }
    if (path && !(device->transport.capabilities & PRESIL_CAP_TRACE)) {
        free(copy);
        presil_exclusive_end(device);
        return presil_fail(PRESIL_EUNSUPPORTED,
                           "presil_device_trace: build \"%s\" of \"%s\" can't trace: use build \"trace\"",
                           device->build, device->config);
    }
    if (device->run.tracing) (void)device->link.ops->trace(device->link.handle, NULL, 0, 0);
    device->run.tracing = false;
    free(device->run.trace_path);
    device->run.trace_path = copy;
    device->run.trace_first = first_launch > device->run.launches ? first_launch : device->run.launches;
    device->run.trace_count = launches;
    device->run.trace_from = first_cycle;
    device->run.trace_to = last_cycle;
    device->run.trace_window = first_cycle != 0 || last_cycle != UINT64_MAX;
    presil_exclusive_end(device);
    return PRESIL_OK;
}

int presil_device_trace(presil_device *device, const char *path, uint64_t first_launch, uint64_t launches) {
    return trace(device, path, first_launch, launches, 0, UINT64_MAX);
}

int presil_device_trace_window(presil_device *device, const char *path, uint64_t launch, uint64_t first_cycle,
                               uint64_t last_cycle) {
    if (last_cycle < first_cycle)
        return presil_fail(PRESIL_EINVAL, "presil_device_trace_window: the window ends in cycle %llu, before it begins",
                           (unsigned long long)last_cycle);
    return trace(device, path, launch, 1, first_cycle, last_cycle);
}

int presil_inject(presil_device *device, const char *fault) {
    const int entered = presil_enter(device);
    if (entered) return entered;
    int status = presil_start_if_needed(device);
    if (!status) status = presil_exclusive_begin(device);
    if (status) return status;
    const int error = device->link.ops->inject ? device->link.ops->inject(device->link.handle, fault) : 0;
    if (error) status = presil_transport_failed(&device->link, "presil_inject", error);
    presil_ask_timing(device);
    if (!device->link.ops->inject)
        status = presil_fail(PRESIL_EUNSUPPORTED, "presil_inject: this transport can't inject faults");
    presil_exclusive_end(device);
    return status;
}
