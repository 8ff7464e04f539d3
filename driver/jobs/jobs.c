/* SPDX-License-Identifier: Apache-2.0 */
/* Opening, waiting, closing. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>
#include "jobs.h"
#include "presil_clock.h"
#include "presil_image.h"
#include "presil_sized.h"

enum { MOST_WORKERS = 1024, MOST_ARGUMENTS = 32 };
#define DEFAULT_BYTES (1ull << 30)
#define DEFAULT_START_SECONDS 120

void jobs_wake(presil_jobs *jobs) {
    const uint64_t one = 1;
    const int saved = errno;
    (void)!write(jobs->wake, &one, sizeof one);
    errno = saved;
}

__attribute__((format(printf, 4, 5))) static int fail(char *text, size_t bytes, int status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    if (bytes) (void)vsnprintf(text, bytes, format, args);
    va_end(args);
    return status;
}

/* ---- what was asked for */
static int from_environment(const char *name, bool suffix, uint64_t *out, char *text, size_t bytes) {
    const char *given = getenv(name);
    if (!given || !*given) return PRESIL_OK;
    char *end = NULL;
    errno = 0;
    const uint64_t n = strtoull(given, &end, 10);
    unsigned shift = 0;
    if (suffix && (*end == 'K' || *end == 'M' || *end == 'G')) shift = *end == 'K' ? 10 : *end == 'M' ? 20 : 30, end++;
    if (errno || n > UINT64_MAX >> shift || *end || *given < '0' || *given > '9' || n == 0)
        return fail(text, bytes, PRESIL_EINVAL, "%s=%s: expected a number above 0%s", name, given,
                    suffix ? ", or one with K, M or G" : "");
    *out = n << shift;
    return PRESIL_OK;
}

static int sizes(presil_jobs *jobs, const presil_jobs_options *o, char *text, size_t bytes) {
    uint64_t workers = presil_jobs_processors(), room = DEFAULT_BYTES, seconds = DEFAULT_START_SECONDS;
    const char *asked = getenv("PRESIL_JOBS"); /* 0: all processors, as 0 in Python */
    int status = PRESIL_OK;
    if (!o->workers && !(asked && strcmp(asked, "0") == 0))
        status = from_environment("PRESIL_JOBS", false, &workers, text, bytes);
    if (!status && !o->bytes) status = from_environment("PRESIL_JOBS_MEMORY", true, &room, text, bytes);
    if (!status) status = from_environment("PRESIL_JOBS_ORDER", false, &jobs->order, text, bytes);
    if (!status) status = from_environment("PRESIL_JOBS_START", false, &seconds, text, bytes);
    if (status) return status;
    if (o->workers) workers = o->workers;
    if (workers > MOST_WORKERS)
        return fail(text, bytes, PRESIL_EINVAL, "%" PRIu64 " processes: at most %d", workers, MOST_WORKERS);
    jobs->place_count = jobs->stats.workers = (uint32_t)workers;
    jobs->limit = o->bytes ? o->bytes : room;
    struct rlimit open_files; /* half of them, and an eighth for reuse: others need some, too */
    const bool known = getrlimit(RLIMIT_NOFILE, &open_files) == 0 && open_files.rlim_cur != RLIM_INFINITY;
    jobs->files = known ? open_files.rlim_cur / 2 + 1 : UINT64_MAX;
    jobs->start_ns = seconds < UINT32_MAX ? seconds * 1000000000u : UINT64_MAX / 2;
    return PRESIL_OK;
}

/* presil-job: lib/libpresil_jobs.so has it in bin/ beside lib/, the Python package in bin/ inside its folder. */
static bool find_program(const presil_jobs_options *o, char *path, size_t bytes) {
    const char *given = o->program ? o->program : getenv("PRESIL_JOB_PROGRAM");
    if (given && *given) {
        (void)snprintf(path, bytes, "%s", given);
        return access(path, X_OK) == 0;
    }
    static const char *const places[] = {"../bin/presil-job", "bin/presil-job", "presil-job"};
    Dl_info self;
    if (!dladdr((void *)(uintptr_t)&presil_jobs_open, &self)) return false;
    const char *slash = strrchr(self.dli_fname, '/');
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        (void)snprintf(path, bytes, "%.*s/%s", slash ? (int)(slash - self.dli_fname) : 1, slash ? self.dli_fname : ".",
                       places[i]);
        if (access(path, X_OK) == 0) return true;
    }
    return false;
}

static bool add(presil_jobs *jobs, size_t *count, const char *name, const char *format, ...) {
    char *value = NULL;
    va_list args;
    va_start(args, format);
    const int n = vasprintf(&value, format, args);
    va_end(args);
    if (n < 0) return false;
    if (name) jobs->argv[(*count)++] = strdup(name);
    jobs->argv[(*count)++] = value;
    return !name || jobs->argv[*count - 2];
}

static bool add_index(presil_jobs *jobs, size_t *count) {
    char *name = strdup("--index");
    jobs->index = malloc(INDEX_TEXT);
    if (name) jobs->argv[(*count)++] = name;
    if (name && jobs->index) jobs->argv[(*count)++] = jobs->index;
    if (!name) free(jobs->index);
    return name && jobs->index;
}

/* There is one chip behind each remote transport. */
static int enough_transports(const presil_jobs *jobs, const char *list, char *text, size_t bytes) {
    uint32_t count = 1;
    if (!list || !strcmp(list, "inproc")) return PRESIL_OK;
    for (const char *at = list; (at = strchr(at, ';')); at++) count++;
    if (count >= jobs->transport_first + jobs->place_count) return PRESIL_OK;
    return fail(text, bytes, PRESIL_EINVAL,
                "%u processes need a chip each, and transport names %u (\"%.120s\"): separate several with \";\", or "
                "have fewer processes",
                jobs->transport_first + jobs->place_count, count, list);
}

static int describe_device(presil_jobs *jobs, const presil_jobs_options *o, const char *program, char *text,
                           size_t bytes) {
    presil_device_info info = {.size = sizeof info};
    presil_device_identity who = {.size = sizeof who};
    int status = presil_device_get_info(jobs->device, &info);
    if (!status) status = presil_device_identify(jobs->device, &who);
    if (status) return fail(text, bytes, status, "%s", presil_error_text());
    if (info.mode != PRESIL_MODE_MODEL)
        return fail(text, bytes, PRESIL_EINVAL, "the device must be in mode \"model\": its executor answers first");
    jobs->argv = calloc(MOST_ARGUMENTS, sizeof *jobs->argv);
    size_t n = 0;
    bool ok = jobs->argv && add(jobs, &n, NULL, "%s", program) && add(jobs, &n, "--config", "%s", info.config) &&
              add(jobs, &n, "--memory", "%" PRIu64, info.memory_bytes) &&
              add(jobs, &n, "--seed", "%" PRIu64, who.seed) && add(jobs, &n, "--watchdog", "%" PRIu64, who.hang_cycles);
    const struct {
        const char *name, *value;
    } texts[] = {{"--memory-model", who.memory_model},
                 {"--build", o->build},
                 {"--library", o->library},
                 {"--chip-library", o->chip_library},
                 {"--transport", o->transport}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts && ok; i++)
        if (texts[i].value && *texts[i].value) ok = add(jobs, &n, texts[i].name, "%s", texts[i].value);
    if (ok) ok = add_index(jobs, &n);
    return ok ? PRESIL_OK : fail(text, bytes, PRESIL_EHOSTMEM, "no host memory");
}

/* A launch goes to its process as the chip's own image of its commands. */
static int can_be_sent(presil_device *device, char *text, size_t bytes) {
    presil_stream *stream = NULL;
    presil_list *list = NULL;
    uint64_t size = 0;
    int stored = PRESIL_OK, status = presil_stream_create(device, 0, &stream);
    if (!status) status = presil_record_begin(device, stream);
    if (!status) {
        const int planned = presil_nop(device, stream);
        status = presil_record_end(device, stream, &list);
        if (planned) status = planned;
    }
    if (!status) stored = presil_list_save(list, (presil_daddr){0}, NULL, &size);
    if (stored == PRESIL_EUNSUPPORTED) /* the first launch will say what else is wrong */
        (void)fail(text, bytes, stored, "its launches can't go to other processes: %s", presil_error_text());
    presil_list_destroy(list);
    presil_stream_destroy(stream);
    return stored == PRESIL_EUNSUPPORTED ? stored : PRESIL_OK;
}

/* ---- processes */
int jobs_start_process(presil_jobs *jobs, place *p) {
    (void)snprintf(jobs->index, INDEX_TEXT, "%u", jobs->transport_first + (uint32_t)(p - jobs->places));
    return worker_start(&p->process, jobs->argv);
}

static int start_all(presil_jobs *jobs, char *text, size_t bytes) {
    const uint64_t until = presil_now_ns() + jobs->start_ns;
    block_hello other;
    jobs->places = calloc(jobs->place_count, sizeof *jobs->places);
    if (!jobs->places) return fail(text, bytes, PRESIL_EHOSTMEM, "no host memory");
    for (uint32_t i = 0; i < jobs->place_count; i++) jobs->places[i].process.fd = -1;
    for (uint32_t i = 0; i < jobs->place_count; i++) {
        const int error = jobs_start_process(jobs, &jobs->places[i]);
        if (error) return fail(text, bytes, PRESIL_ENODEV, "%s can't be started: %s", jobs->argv[0], strerror(error));
    }
    for (uint32_t i = 0; i < jobs->place_count; i++) {
        block_hello *hello = i ? &other : &jobs->hello;
        const int status = worker_hello(&jobs->places[i].process, NULL, until, hello, text, bytes);
        if (status) return status;
        jobs->places[i].timed = jobs_same_timing(jobs, hello);
    }
    return PRESIL_OK;
}

static void end_all(presil_jobs *jobs) {
    for (uint32_t i = 0; jobs->places && i < jobs->place_count; i++)
        worker_end(&jobs->places[i].process, true, NULL, 0);
}

static void destroy(presil_jobs *jobs) {
    end_all(jobs);
    for (slot *next, *s = jobs->spare; s; s = next) {
        next = s->next;
        slot_free(s);
    }
    for (char **a = jobs->argv; a && *a; a++) free(*a);
    free(jobs->argv);
    free(jobs->places);
    free(jobs->fds);
    if (jobs->wake >= 0) (void)close(jobs->wake);
    (void)pthread_mutex_destroy(&jobs->lock);
    (void)pthread_mutex_destroy(&jobs->listening);
    (void)pthread_cond_destroy(&jobs->room);
    (void)pthread_cond_destroy(&jobs->idle);
    free(jobs);
}

static int begin(presil_jobs *jobs, char *text, size_t bytes) {
    jobs->fds = calloc(jobs->place_count + 1, sizeof *jobs->fds);
    if (!jobs->fds) return fail(text, bytes, PRESIL_EHOSTMEM, "no host memory");
    jobs->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (jobs->wake < 0) return fail(text, bytes, PRESIL_EHOSTMEM, "no eventfd: %s", strerror(errno));
    int status = start_all(jobs, text, bytes);
    if (status) return status;
    if (pthread_create(&jobs->dispatcher, NULL, jobs_dispatch, jobs))
        return fail(text, bytes, PRESIL_EHOSTMEM, "no thread to give launches to processes");
    status = presil_set_capture(jobs->device, &jobs_listener, jobs);
    if (!status) return PRESIL_OK;
    (void)fail(text, bytes, status, "%s", presil_error_text());
    (void)pthread_mutex_lock(&jobs->lock);
    jobs->closing = true;
    (void)pthread_mutex_unlock(&jobs->lock);
    jobs_wake(jobs);
    (void)pthread_join(jobs->dispatcher, NULL);
    return status;
}

/* ---- the API */
int presil_jobs_open(presil_device *device, const presil_jobs_options *options, presil_jobs **out, char *text,
                     size_t bytes) {
    presil_jobs_options o;
    char path[4096], wrong[256];
    if (!device || !out || !options ||
        presil_sized_take(&o, sizeof o, options, options->size, sizeof options->size, wrong, sizeof wrong))
        return fail(text, bytes, PRESIL_EINVAL,
                    "presil_jobs_open: a device, options with their size, and `out` expected");
    presil_jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs) return fail(text, bytes, PRESIL_EHOSTMEM, "no host memory");
    jobs->device = device;
    jobs->process = getpid();
    jobs->report = o.report;
    jobs->report_context = o.report_context;
    jobs->transport_first = o.transport_first;
    if (o.timings) memcpy(&jobs->timings, o.timings, sizeof jobs->timings);
    jobs->wake = -1;
    jobs->stats.size = sizeof jobs->stats;
    (void)pthread_mutex_init(&jobs->lock, NULL);
    (void)pthread_mutex_init(&jobs->listening, NULL);
    (void)pthread_cond_init(&jobs->room, NULL);
    pthread_condattr_t monotonic; /* as presil_now_ns() */
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&jobs->idle, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
    int status = sizes(jobs, &o, text, bytes);
    if (!status && !find_program(&o, path, sizeof path))
        status = fail(text, bytes, PRESIL_ENODEV,
                      "presil-job, which runs launches in a process of its own, was not found: name it in "
                      "PRESIL_JOB_PROGRAM");
    if (!status) status = enough_transports(jobs, o.transport, text, bytes);
    if (!status) status = describe_device(jobs, &o, path, text, bytes);
    if (!status) status = can_be_sent(device, text, bytes);
    if (!status) status = begin(jobs, text, bytes);
    if (status)
        destroy(jobs);
    else
        *out = jobs;
    return status;
}

/* Its locks may be held by threads that are not here, and the processes are the parent's. */
static bool is_forked(const presil_jobs *jobs) { return jobs->process != getpid(); }

int presil_jobs_wait(presil_jobs *jobs, char *text, size_t bytes, uint64_t *origin) {
    if (origin) *origin = 0;
    if (is_forked(jobs))
        return fail(text, bytes, PRESIL_ENODEV,
                    "this process was forked after its jobs were opened: open a device of "
                    "its own");
    (void)pthread_mutex_lock(&jobs->lock);
    const presil_jobs_stats *s = &jobs->stats;
    const uint64_t until = s->launches + s->lost + s->waiting; /* others may launch all the time */
    while (s->launches + s->lost < until) (void)pthread_cond_wait(&jobs->idle, &jobs->lock);
    const int status = jobs->failed;
    jobs->failed = PRESIL_OK;
    if (status && bytes) (void)snprintf(text, bytes, "%s", jobs->failed_text);
    if (origin) *origin = status ? jobs->failed_origin : 0;
    (void)pthread_mutex_unlock(&jobs->lock);
    return status;
}

int presil_jobs_ready(presil_jobs *jobs, uint64_t timeout_ns) {
    if (is_forked(jobs)) return 1;
    const uint64_t at = presil_now_ns() + timeout_ns;
    const struct timespec end = {(time_t)(at / 1000000000u), (long)(at % 1000000000u)};
    (void)pthread_mutex_lock(&jobs->lock);
    const presil_jobs_stats *s = &jobs->stats;
    const uint64_t until = s->launches + s->lost + s->waiting;
    int error = 0;
    while (s->launches + s->lost < until && !error) error = pthread_cond_timedwait(&jobs->idle, &jobs->lock, &end);
    const int ready = s->launches + s->lost >= until;
    (void)pthread_mutex_unlock(&jobs->lock);
    return ready;
}

void presil_jobs_cancel(presil_jobs *jobs) {
    if (is_forked(jobs)) return;
    atomic_store(&jobs->cancelled, true);
    jobs_wake(jobs);
}

int presil_jobs_get_stats(presil_jobs *jobs, presil_jobs_stats *out) {
    if (!out || out->size < sizeof out->size) return PRESIL_EINVAL;
    if (is_forked(jobs)) return PRESIL_ENODEV;
    (void)pthread_mutex_lock(&jobs->lock);
    presil_jobs_stats own = jobs->stats;
    if (jobs->weight_done) {
        const uint64_t side_by_side = own.waiting < own.workers ? own.waiting : own.workers;
        const double each = (double)own.busy_ns / (double)jobs->weight_done;
        own.left_ns = side_by_side ? (uint64_t)(each * (double)jobs->weight_left / (double)side_by_side) : 0;
    }
    (void)pthread_mutex_unlock(&jobs->lock);
    own.size = out->size;
    memcpy(out, &own, own.size < sizeof own ? own.size : sizeof own);
    return PRESIL_OK;
}

void presil_jobs_close(presil_jobs *jobs) {
    if (!jobs || is_forked(jobs)) return;
    (void)!presil_set_capture(jobs->device, NULL, NULL);
    (void)pthread_mutex_lock(&jobs->lock);
    jobs->closing = true;
    (void)pthread_mutex_unlock(&jobs->lock);
    jobs_wake(jobs);
    (void)pthread_join(jobs->dispatcher, NULL);
    destroy(jobs);
}
