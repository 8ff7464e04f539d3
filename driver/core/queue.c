/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of a device: one order for all its streams, which makes reuse of freed blocks across streams safe, and
 * events within a device trivial.
 *
 * A thread switch costs more than a small launch. So the worker is only woken when the queue gets long or a launch is
 * heavy; a caller that waits runs what is left itself, unless the user has chosen the worker's CPUs. `running` says
 * that somebody does.
 */
#define _GNU_SOURCE
#include "queue.h"
#include "device.h"
#include "fail.h"
#include "look_at_plan.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 64, SHORT_QUEUE = 4, QUEUE_LIMIT = 1024 }; /* LIMIT: a caller further ahead waits */

int presil_queue_open(presil_device *device, const queue_ops *ops) {
    device->queue.ops = ops;
    device->queue.default_stream.device = device;
    (void)pthread_mutex_init(&device->queue.lock, NULL);
    (void)pthread_cond_init(&device->queue.work, NULL);
    (void)pthread_cond_init(&device->queue.done, NULL);
    device->queue.items = malloc(FIRST_CAPACITY * sizeof *device->queue.items);
    if (!device->queue.items) return presil_fail(PRESIL_EHOSTMEM, "presil_device_open: host memory is full");
    device->queue.capacity = FIRST_CAPACITY;
    return PRESIL_OK;
}

/* ---- running; these are called with the lock held */
static void note_error(presil_stream *stream, int status, const work_item *item) {
    if (stream->error) return; /* the first one wins */
    (void)atomic_fetch_add(&stream->device->queue.errors, 1);
    stream->error = status;
    stream->error_seq = item->seq;
    stream->error_origin = item->origin;
    memcpy(stream->error_text, presil_error_text(), ERROR_TEXT);
    stream->error_text[ERROR_TEXT - 1] = 0;
}

static void finish_oldest(presil_device *device) {
    work_queue *queue = &device->queue;
    work_item item = queue->items[queue->head];
    (void)pthread_mutex_unlock(&queue->lock);
    const int status = queue->ops->finish(device);
    queue->ops->item_free(&item);
    (void)pthread_mutex_lock(&queue->lock);
    queue->head = (queue->head + 1) % queue->capacity;
    queue->pending--;
    queue->begun--;
    if (status) note_error(item.stream, status, &item);
    atomic_store_explicit(&queue->completed, item.seq, memory_order_release);
    if (queue->waiters) (void)pthread_cond_broadcast(&queue->done);
}

/* One item more in flight, or one less; false: nothing is, and the next item runs alone. */
static bool run_deep(presil_device *device) {
    work_queue *queue = &device->queue;
    bool began = false;
    if (queue->begun < queue->pending) {
        const work_item item = queue->items[(queue->head + queue->begun) % queue->capacity];
        (void)pthread_mutex_unlock(&queue->lock);
        began = queue->ops->begin(device, &item);
        (void)pthread_mutex_lock(&queue->lock);
    }
    if (began)
        queue->begun++;
    else if (queue->begun)
        finish_oldest(device);
    else
        return false;
    return true;
}

static void run_one(presil_device *device) {
    if (device->queue.deep && run_deep(device)) return;
    work_item item = device->queue.items[device->queue.head];
    device->queue.head = (device->queue.head + 1) % device->queue.capacity;
    device->queue.pending--;
    (void)pthread_mutex_unlock(&device->queue.lock);
    const int status = device->queue.ops->execute(device, &item);
    device->queue.ops->item_free(&item);
    (void)pthread_mutex_lock(&device->queue.lock);
    if (status) note_error(item.stream, status, &item);
    atomic_store_explicit(&device->queue.completed, item.seq, memory_order_release);
    if (device->queue.waiters) (void)pthread_cond_broadcast(&device->queue.done);
}

static void start_running(presil_device *device) {
    device->queue.running = true;
    device->queue.runner = pthread_self();
}

static void *worker_main(void *context) {
    presil_device *device = context;
    (void)pthread_mutex_lock(&device->queue.lock);
    while (!device->queue.quit) {
        if (!device->queue.kicked || device->queue.running || device->queue.pending == 0) {
            if (!device->queue.running && device->queue.pending == 0) device->queue.kicked = false;
            (void)pthread_cond_wait(&device->queue.work, &device->queue.lock);
            continue;
        }
        start_running(device);
        while (device->queue.pending) run_one(device);
        device->queue.running = false;
        device->queue.kicked = false;
        if (device->queue.waiters) (void)pthread_cond_broadcast(&device->queue.done);
    }
    (void)pthread_mutex_unlock(&device->queue.lock);
    return NULL;
}

/* ---- the worker's CPUs */
static const char *read_number(const char *text, unsigned *value) {
    *value = 0;
    if (*text < '0' || *text > '9') return NULL;
    while (*text >= '0' && *text <= '9' && *value < CPU_SETSIZE) *value = *value * 10 + (unsigned)(*text++ - '0');
    return *value < CPU_SETSIZE ? text : NULL;
}

/* "2,4-7"; 0, or -1 on nonsense. */
static int read_cpus(const char *text, cpu_set_t *cpus) {
    CPU_ZERO(cpus);
    for (;; text++) {
        unsigned first, last;
        text = read_number(text, &first);
        last = first;
        if (text && *text == '-') text = read_number(text + 1, &last);
        if (!text || last < first) return -1;
        for (unsigned cpu = first; cpu <= last; cpu++) CPU_SET(cpu, cpus);
        if (!*text) return 0;
        if (*text != ',') return -1;
    }
}

static void move_worker(presil_device *device) {
    cpu_set_t cpus;
    if (!read_cpus(device->queue.affinity, &cpus))
        (void)pthread_setaffinity_np(device->queue.worker, sizeof cpus, &cpus);
}

/* Asks the system with the calling thread, because there may be no worker yet. */
static int check_cpus(const char *text) {
    cpu_set_t cpus, before;
    if (read_cpus(text, &cpus))
        return presil_fail(PRESIL_EINVAL, "affinity \"%s\": a list of CPUs such as \"0\" or \"2,4-7\" expected", text);
    if (pthread_getaffinity_np(pthread_self(), sizeof before, &before)) return PRESIL_OK;
    const int error = pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus);
    (void)pthread_setaffinity_np(pthread_self(), sizeof before, &before);
    return error ? presil_fail(PRESIL_EINVAL, "affinity \"%s\": this process may use none of these CPUs", text)
                 : PRESIL_OK;
}

int presil_queue_set_affinity(presil_device *device, const char *cpus) {
    char *copy = NULL;
    if (cpus && *cpus) {
        const int status = check_cpus(cpus);
        if (status) return status;
        copy = strdup(cpus);
        if (!copy) return presil_fail(PRESIL_EHOSTMEM, "affinity: host memory is full");
    }
    (void)pthread_mutex_lock(&device->queue.lock);
    free(device->queue.affinity);
    device->queue.affinity = copy;
    cpu_set_t own;
    if (device->queue.worker_started && copy)
        move_worker(device);
    else if (device->queue.worker_started && !pthread_getaffinity_np(pthread_self(), sizeof own, &own))
        (void)pthread_setaffinity_np(device->queue.worker, sizeof own, &own);
    (void)pthread_mutex_unlock(&device->queue.lock);
    return PRESIL_OK;
}

static void kick(presil_device *device) {
    if (device->queue.kicked) return;
    if (!device->queue.worker_started) {
        /* Without a worker everything still runs, when somebody waits. */
        if (pthread_create(&device->queue.worker, NULL, worker_main, device)) return;
        device->queue.worker_started = true;
        if (device->queue.affinity) move_worker(device);
    }
    device->queue.kicked = true;
    if (!device->queue.running) (void)pthread_cond_signal(&device->queue.work);
}

static void stop_running(presil_device *device) {
    device->queue.running = false;
    if (device->queue.waiters) (void)pthread_cond_broadcast(&device->queue.done);
    if (device->queue.pending == 0)
        device->queue.kicked = false;
    else if (device->queue.kicked)
        (void)pthread_cond_signal(&device->queue.work);
    else if (device->queue.pending >= SHORT_QUEUE)
        kick(device);
}

static bool is_runner(const presil_device *device) {
    return device->queue.running && pthread_equal(device->queue.runner, pthread_self());
}

static _Atomic(void (*)(void)) before_wait;

void presil_set_before_wait(void (*about_to_wait)(void)) { atomic_store(&before_wait, about_to_wait); }

static void say_wait(void) {
    void (*const about_to_wait)(void) = atomic_load_explicit(&before_wait, memory_order_acquire);
    if (about_to_wait) about_to_wait();
}

static int wait_locked(presil_device *device, uint64_t seq) {
    if (is_runner(device)) return presil_fail(PRESIL_EINVAL, "a callback of the device can't wait for it");
    if (atomic_load_explicit(&device->queue.completed, memory_order_relaxed) < seq) say_wait();
    while (atomic_load_explicit(&device->queue.completed, memory_order_relaxed) < seq) {
        if (device->queue.affinity && device->queue.pending) kick(device);
        if (!device->queue.running && !(device->queue.affinity && device->queue.worker_started)) {
            start_running(device);
            while (device->queue.pending && atomic_load_explicit(&device->queue.completed, memory_order_relaxed) < seq)
                run_one(device);
            stop_running(device);
        } else {
            device->queue.waiters++;
            (void)pthread_cond_wait(&device->queue.done, &device->queue.lock);
            device->queue.waiters--;
        }
    }
    return PRESIL_OK;
}

/* ---- interface */
static int grow(presil_device *device) {
    work_item *items = malloc(device->queue.capacity * 2 * sizeof *items);
    if (!items) return presil_fail(PRESIL_EHOSTMEM, "the queue can't grow: host memory is full");
    const size_t first = device->queue.capacity - device->queue.head;
    memcpy(items, device->queue.items + device->queue.head, first * sizeof *items);
    memcpy(items + first, device->queue.items, device->queue.head * sizeof *items);
    free(device->queue.items);
    device->queue.items = items;
    device->queue.head = 0;
    device->queue.capacity *= 2;
    return PRESIL_OK;
}

static _Thread_local uint64_t thread_tag;

uint64_t presil_set_tag(uint64_t tag) {
    const uint64_t before = thread_tag;
    thread_tag = tag;
    return before;
}

/* Takes milliseconds: worth a thread switch at once. */
static bool is_heavy(const presil_device *device, const work_item *item) {
    if (item->kind != ITEM_LAUNCH || atomic_load(&device->mode) == PRESIL_MODE_MODEL) return false;
    presil_plan_info info;
    return !presil_plan_look(device, item->plan, &info) && info.macs > (1u << 22);
}

int presil_queue_push(presil_device *device, presil_stream *stream, work_item *item, bool run_now) {
    item->stream = stream;
    item->tag = thread_tag;
    const bool heavy = is_heavy(device, item);
    (void)pthread_mutex_lock(&device->queue.lock);
    int status = PRESIL_OK;
    if (device->queue.pending >= QUEUE_LIMIT)
        status =
            wait_locked(device, atomic_load_explicit(&device->queue.submitted, memory_order_relaxed) - QUEUE_LIMIT / 2);
    if (!status && device->queue.pending == device->queue.capacity) status = grow(device);
    if (!status && item->kind == ITEM_LAUNCH && item->scratch.bytes) status = device->queue.ops->admit(device, item);
    if (!status) {
        item->seq = atomic_load_explicit(&device->queue.submitted, memory_order_relaxed) + 1;
        device->queue.items[(device->queue.head + device->queue.pending) % device->queue.capacity] = *item;
        device->queue.pending++;
        stream->last_seq = item->seq;
        atomic_store_explicit(&device->queue.submitted, item->seq, memory_order_release);
        if (device->queue.affinity) {
            kick(device);
        } else if (run_now && device->queue.pending == 1 && !device->queue.running) {
            start_running(device);
            run_one(device);
            stop_running(device);
        } else if (heavy || device->queue.pending >= SHORT_QUEUE) {
            kick(device);
        }
    }
    (void)pthread_mutex_unlock(&device->queue.lock);
    return status;
}

int presil_queue_wait(presil_device *device, uint64_t seq) {
    if (atomic_load_explicit(&device->queue.completed, memory_order_acquire) >= seq) return PRESIL_OK;
    (void)pthread_mutex_lock(&device->queue.lock);
    const int status = wait_locked(device, seq);
    (void)pthread_mutex_unlock(&device->queue.lock);
    return status;
}

bool presil_queue_passed(presil_device *device, uint64_t seq) {
    if (atomic_load_explicit(&device->queue.completed, memory_order_acquire) >= seq) return true;
    (void)pthread_mutex_lock(&device->queue.lock);
    kick(device); /* whoever polls must not wait for ever */
    (void)pthread_mutex_unlock(&device->queue.lock);
    return false;
}

int presil_exclusive_begin(presil_device *device) {
    int status = PRESIL_OK;
    (void)pthread_mutex_lock(&device->queue.lock);
    while (!status && (device->queue.running || device->queue.pending)) {
        if (device->queue.pending || is_runner(device)) {
            status = wait_locked(device, atomic_load_explicit(&device->queue.submitted, memory_order_relaxed));
        } else {
            device->queue.waiters++;
            (void)pthread_cond_wait(&device->queue.done, &device->queue.lock);
            device->queue.waiters--;
        }
    }
    if (!status) start_running(device);
    (void)pthread_mutex_unlock(&device->queue.lock);
    return status;
}

void presil_exclusive_end(presil_device *device) {
    (void)pthread_mutex_lock(&device->queue.lock);
    stop_running(device);
    (void)pthread_mutex_unlock(&device->queue.lock);
}

/* ---- streams */
presil_stream *presil_stream_of(presil_device *device, presil_stream *stream) {
    if (!stream) return &device->queue.default_stream;
    if (stream->device == device) return stream;
    (void)presil_fail(PRESIL_EINVAL, "the stream belongs to another device");
    return NULL;
}

void presil_stream_clear_error(presil_stream *stream) {
    if (stream->error) (void)atomic_fetch_sub(&stream->device->queue.errors, 1);
    stream->error = PRESIL_OK;
}

/* ---- cancelling */
bool presil_cancelled(presil_device *device, uint64_t seq) {
    if (!__atomic_load_n(&device->queue.cancel_flag, __ATOMIC_SEQ_CST)) return false;
    if (seq <= atomic_load(&device->queue.cancel_seq)) return true;
    /* Meant for work that has passed. Looked at again, so that a signal in between is not lost. */
    __atomic_store_n(&device->queue.cancel_flag, 0, __ATOMIC_SEQ_CST);
    if (seq > atomic_load(&device->queue.cancel_seq)) return false;
    __atomic_store_n(&device->queue.cancel_flag, 1, __ATOMIC_SEQ_CST);
    return true;
}

/* Async-signal-safe: two lock-free stores. */
void presil_cancel_all(presil_device *device) {
    atomic_store(&device->queue.cancel_seq, atomic_load(&device->queue.submitted));
    __atomic_store_n(&device->queue.cancel_flag, 1, __ATOMIC_SEQ_CST);
}

/* ---- the end */
void presil_queue_close(presil_device *device) {
    (void)pthread_mutex_lock(&device->queue.lock);
    device->queue.quit = true;
    (void)pthread_cond_broadcast(&device->queue.work);
    const bool join = device->queue.worker_started;
    (void)pthread_mutex_unlock(&device->queue.lock);
    if (join) (void)pthread_join(device->queue.worker, NULL);
    free(device->queue.items);
    device->queue.items = NULL;
    device->queue.capacity = device->queue.pending = 0;
}

void presil_queue_destroy(presil_device *device) {
    (void)pthread_mutex_destroy(&device->queue.lock);
    (void)pthread_cond_destroy(&device->queue.work);
    (void)pthread_cond_destroy(&device->queue.done);
    free(device->queue.affinity);
}
