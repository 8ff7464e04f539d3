/* SPDX-License-Identifier: Apache-2.0 */
/* On the thread that runs the device's launches: a launch becomes a job. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "jobs.h"
#include "presil_clock.h"

void job_free(job *j) {
    if (!j) return;
    slot_free(j->slot);
    presil_kept_free(j->kept);
    free(j->tensors);
    free(j);
}

void jobs_recycle(presil_jobs *jobs, job *j) {
    slot *s = j->slot;
    if (!s) return;
    j->slot = NULL;
    jobs->stats.bytes -= s->capacity;
    jobs->held--;
    if (jobs->spare_bytes + s->capacity > jobs->limit / 4 || jobs->spares >= jobs->files / 4) {
        slot_free(s);
    } else {
        s->next = jobs->spare;
        jobs->spare = s;
        jobs->spare_bytes += s->capacity;
        jobs->spares++;
    }
    (void)pthread_cond_broadcast(&jobs->room);
}

/* The smallest spare one that is large enough, or a new one. The lock is held. */
static slot *find(presil_jobs *jobs, uint64_t bytes) {
    slot **best = NULL;
    for (slot **s = &jobs->spare; *s; s = &(*s)->next)
        if ((*s)->capacity >= bytes && (!best || (*s)->capacity < (*best)->capacity)) best = s;
    if (!best) return slot_new(bytes);
    slot *s = *best;
    *best = s->next;
    jobs->spare_bytes -= s->capacity;
    jobs->spares--;
    s->next = NULL;
    return s;
}

static void count(presil_jobs *jobs, uint64_t more, uint64_t less) {
    presil_jobs_stats *s = &jobs->stats;
    s->bytes = s->bytes + more - less;
    if (s->bytes > s->peak_bytes) s->peak_bytes = s->bytes;
}

/* Waits for room; the lock is held. Alone, a launch of any size has it. */
static slot *take_room(presil_jobs *jobs, uint64_t bytes) {
    const uint64_t from = presil_now_ns(), room = slot_capacity(bytes);
    while (jobs->held && (jobs->stats.bytes + room > jobs->limit || jobs->held >= jobs->files) &&
           !atomic_load(&jobs->cancelled))
        (void)pthread_cond_wait(&jobs->room, &jobs->lock);
    jobs->stats.blocked_ns += presil_now_ns() - from;
    slot *s = find(jobs, bytes);
    if (s) count(jobs, s->capacity, 0);
    if (s) jobs->held++;
    return s;
}

static bool put_commands(slot *s, const presil_capture_launch *launch) {
    uint64_t bytes = 0;
    if (launch->commands(launch, NULL, &bytes)) return false;
    const uint64_t at = slot_take(s, bytes);
    if (!at || launch->commands(launch, s->at + at, &bytes)) return false;
    slot_block(s)->commands = at;
    slot_block(s)->command_bytes = bytes;
    return true;
}

static bool put_memory(slot *s, bool reads, const presil_capture_launch *launch, const presil_capture_bytes *from) {
    block_memory m;
    if (!slot_put(s, &m, launch, from)) return false;
    *(reads ? &slot_block(s)->reads : &slot_block(s)->writes) = m;
    return true;
}

static uint64_t size_of(const presil_byte_range *at, uint64_t count) {
    uint64_t bytes = count * sizeof *at;
    for (uint64_t i = 0; i < count; i++) bytes += at[i].bytes;
    return bytes;
}

/* There is no memory even to say so in its place. */
static void lose(presil_jobs *jobs, const presil_capture_launch *launch) {
    (void)pthread_mutex_lock(&jobs->lock);
    if (!jobs->failed) {
        jobs->failed = PRESIL_EHOSTMEM;
        jobs->failed_origin = launch->origin;
        (void)snprintf(jobs->failed_text, sizeof jobs->failed_text, "%s: not compared: the host has no memory",
                       launch->label);
    }
    (void)pthread_mutex_unlock(&jobs->lock);
}

static int on_begin(void *context, const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    presil_jobs *jobs = context;
    job *j = calloc(1, sizeof *j);
    (void)pthread_mutex_lock(&jobs->lock);
    jobs->making = j;
    (void)pthread_mutex_unlock(&jobs->lock);
    const int known = j ? job_look_up(jobs, j, launch) : PRESIL_JOBS_NEVER;
    if (known == PRESIL_JOBS_KNOWN || known == PRESIL_JOBS_ESTIMATED) {
        j->state = JOB_ENDED; /* nobody will run it */
        return PRESIL_CAPTURE_REPORT;
    }
    uint64_t bytes = 0;
    (void)launch->commands(launch, NULL, &bytes);
    bytes +=
        sizeof(block) + size_of(reads->at, reads->count) + size_of(launch->may_write, launch->may_write_count) + 1024;
    (void)pthread_mutex_lock(&jobs->lock);
    slot *s = j ? take_room(jobs, bytes) : NULL;
    (void)pthread_mutex_unlock(&jobs->lock);
    const uint64_t from = presil_now_ns();
    bool done = false;
    if (s) {
        const uint64_t before = s->capacity;
        j->slot = s;
        s->used = 0;
        (void)slot_take(s, sizeof(block));
        *slot_block(s) = (block){.magic = BLOCK_MAGIC, .scratch = {launch->scratch, launch->scratch_bytes}};
        done = put_commands(s, launch) && put_memory(s, true, launch, reads);
        (void)pthread_mutex_lock(&jobs->lock);
        count(jobs, s->capacity, before);
        jobs->stats.copied_bytes += s->used;
        jobs->stats.copy_ns += presil_now_ns() - from;
        if (!done) jobs_recycle(jobs, j); /* it may be gone */
        (void)pthread_mutex_unlock(&jobs->lock);
    }
    if (!j) lose(jobs, launch);
    if (j && !done)
        (void)snprintf(j->text, sizeof j->text, "%s: can't be given to a process: %s", launch->label,
                       s ? "its chip has no format for commands, or the host has no memory"
                         : "the host has no memory for what it reads");
    return j ? PRESIL_CAPTURE_ALL : PRESIL_CAPTURE_NOTHING;
}

/* Nothing that is lost here would fail a launch: only less is told if it does. */
static void keep(job *j, const presil_capture_launch *launch) {
    j->kept = launch->keep(launch);
    j->launch = *launch;
    j->launch.label = j->report.label;
    if (!j->kept) j->launch.asked = NULL, j->launch.asked_weights = NULL;
    j->tensors = malloc(launch->tensor_count * sizeof *j->tensors + 1);
    if (!j->tensors)
        j->launch.tensor_count = 0;
    else if (launch->tensor_count)
        memcpy(j->tensors, launch->tensors, launch->tensor_count * sizeof *j->tensors);
    j->launch.tensors = j->tensors;
}

static void append(presil_jobs *jobs, job *j) {
    if (jobs->last)
        jobs->last->next = j;
    else
        jobs->first = j;
    jobs->last = j;
    jobs->stats.waiting++;
    if (j->state != JOB_ENDED) jobs->weight_left += j->weight;
}

/* Known, or nobody can run it: it stands in the order of launches with its report. */
static void end_at_once(presil_jobs *jobs, job *j) {
    if (j->report.status)
        j->told = true;
    else
        job_take_known(j);
    (void)pthread_mutex_lock(&jobs->lock);
    jobs->making = NULL;
    append(jobs, j);
    (void)pthread_mutex_unlock(&jobs->lock);
    jobs_wake(jobs);
}

static const char *on_end(void *context, const presil_capture_launch *launch, const presil_report *report,
                          const presil_capture_bytes *writes) {
    presil_jobs *jobs = context;
    job *j = jobs->making;
    j->report = *report;
    if (j->state == JOB_ENDED) {
        end_at_once(jobs, j);
        return NULL;
    }
    bool done = !report->status && j->slot;
    const uint64_t from = presil_now_ns(), before = j->slot ? j->slot->capacity : 0, used = j->slot ? j->slot->used : 0;
    if (done) {
        keep(j, launch);
        /* The plan's own estimate, or what it multiplies; a small launch has its costs, too. */
        j->weight = 1000 + (launch->estimate ? launch->estimate : launch->macs / 512);
        done = put_memory(j->slot, false, launch, writes);
        slot_block(j->slot)->used = j->slot->used;
        slot_block(j->slot)->report = *report;
    }
    if (report->status)
        (void)snprintf(j->text, sizeof j->text, "%s", launch->error ? launch->error : "");
    else if (!done && !*j->text)
        (void)snprintf(j->text, sizeof j->text, "%s: the host has no memory for what it wrote", launch->label);
    (void)pthread_mutex_lock(&jobs->lock);
    if (j->slot) {
        count(jobs, j->slot->capacity, before);
        jobs->stats.copied_bytes += j->slot->used - used;
        jobs->stats.copy_ns += presil_now_ns() - from;
    }
    if (!done) {
        jobs_recycle(jobs, j);
        j->state = JOB_ENDED;
        j->leader = NULL;
        j->told = report->status != 0;
        if (!j->told) j->report.mode = PRESIL_MODE_VERIFY, j->report.status = -PRESIL_EHOSTMEM;
    }
    jobs->making = NULL;
    if (done) job_follow(jobs, j);
    append(jobs, j);
    (void)pthread_mutex_unlock(&jobs->lock);
    jobs_wake(jobs);
    return NULL;
}

const presil_capture_ops jobs_listener = {.size = sizeof jobs_listener, .begin = on_begin, .end = on_end};
