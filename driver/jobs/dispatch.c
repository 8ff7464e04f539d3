/* SPDX-License-Identifier: Apache-2.0 */
/* The dispatcher: jobs to processes, answers back, reports in order. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "jobs.h"
#include "presil_clock.h"

/* What failed is told of when it is its turn, with what it read; of a sample that is known only then. */
void jobs_end_job(presil_jobs *jobs, job *j) {
    jobs->weight_left -= j->weight;
    if (!j->report.status && j->known != PRESIL_JOBS_SAMPLED) jobs_recycle(jobs, j);
    j->state = JOB_ENDED;
}

static void fail_job(presil_jobs *jobs, job *j, int status, const char *text) {
    j->report.mode = PRESIL_MODE_VERIFY;
    j->report.status = (uint32_t)-status;
    (void)snprintf(j->text, sizeof j->text, "%s: %s", j->report.label, text);
    jobs_end_job(jobs, j);
}

/* What the process says of the launch, and what the device knows of it. */
static void take_answer(presil_jobs *jobs, job *j) {
    const block *b = slot_block(j->slot);
    const presil_report own = j->report;
    presil_report *r = &j->report;
    *r = b->report;
    r->size = own.size;
    memcpy(r->label, own.label, sizeof r->label);
    r->launch = own.launch, r->origin = own.origin, r->tag = own.tag;
    r->macs = own.macs, r->passes = own.passes, r->peak_macs_per_cycle = own.peak_macs_per_cycle;
    r->twin_ns = own.twin_ns, r->host_ns = own.host_ns;
    r->conversions = own.conversions, r->conversion_bytes = own.conversion_bytes, r->conversion_ns = own.conversion_ns;
    r->difference[sizeof r->difference - 1] = '\0';
    if (r->status) {
        (void)snprintf(j->text, sizeof j->text, "%.*s", BLOCK_TEXT - 1, b->text);
        job_name_place(j);
    }
    jobs_end_job(jobs, j);
}

/* ---- processes; the lock is held */
static bool hopeless(const presil_jobs *jobs) {
    for (uint32_t i = 0; i < jobs->place_count; i++)
        if (jobs->places[i].process.fd >= 0 || !jobs->places[i].rests) return false;
    return true;
}

/* Nobody is there to answer, so nothing would wake the dispatcher for what is left. */
static void fail_waiting(presil_jobs *jobs, const char *text) {
    for (job *j = jobs->first; j; j = j->next)
        if (j->state == JOB_WAITS) fail_job(jobs, j, PRESIL_ENODEV, text);
}

/* A process that ended is started again when there is work for it. That may take long, so others go on meanwhile:
 * finish_start() hears what came of it. */
static void restart(presil_jobs *jobs, place *p) {
    jobs->stats.restarts++;
    const int error = jobs_start_process(jobs, p);
    if (!error) {
        p->until = presil_now_ns() + jobs->start_ns;
        return;
    }
    p->rests = true;
    (void)snprintf(p->why, sizeof p->why, "%s can't be started: %s", jobs->argv[0], strerror(error));
}

static void finish_start(presil_jobs *jobs, place *p) {
    block_hello hello;
    const uint64_t until = p->until;
    (void)pthread_mutex_unlock(&jobs->lock);
    const int status = worker_hello(&p->process, &jobs->cancelled, until, &hello, p->why, sizeof p->why);
    (void)pthread_mutex_lock(&jobs->lock);
    p->until = 0;
    p->rests = status != PRESIL_OK;
    p->timed = status == PRESIL_OK && jobs_same_timing(jobs, &hello);
}

static void gone(presil_jobs *jobs, place *p) {
    char how[128], text[256];
    worker_end(&p->process, false, how, sizeof how);
    if (!p->job) return;
    (void)snprintf(text, sizeof text, "the process that ran it %s", how);
    fail_job(jobs, p->job, PRESIL_ESTOPPED, text);
    p->job = NULL;
}

static void give(presil_jobs *jobs, place *p, job *j) {
    j->state = JOB_RUNS;
    p->job = j;
    if (worker_send(&p->process, j->slot, j->slot->capacity)) gone(jobs, p);
}

/* Not before `from`, which it moves on. In the order of launches; with PRESIL_JOBS_ORDER in any. */
static job *next_job(presil_jobs *jobs, job **from) {
    while (*from && (*from)->state != JOB_WAITS) *from = (*from)->next;
    job *chosen = *from;
    uint32_t seen = 1;
    if (!jobs->order || !chosen) return chosen;
    for (job *j = chosen->next; j; j = j->next) {
        if (j->state != JOB_WAITS) continue;
        jobs->order = jobs->order * 6364136223846793005u + 1442695040888963407u;
        if ((uint32_t)(jobs->order >> 33) % ++seen == 0) chosen = j;
    }
    return chosen;
}

/* Whether a process was lost while it was given a launch: who might take the next one is another question then. */
static bool give_each_one(presil_jobs *jobs) {
    bool lost = false;
    job *from = jobs->first;
    for (uint32_t i = 0; i < jobs->place_count; i++) {
        place *p = &jobs->places[i];
        if (p->job) continue;
        job *j = next_job(jobs, &from);
        if (!j) return false;
        if (p->process.fd < 0 && !p->rests) restart(jobs, p);
        if (p->process.fd < 0 || p->until) continue;
        give(jobs, p, j);
        lost = lost || p->process.fd < 0;
    }
    return lost;
}

static void give_all(presil_jobs *jobs) {
    while (give_each_one(jobs)) continue;
    if (hopeless(jobs)) fail_waiting(jobs, jobs->places[0].why);
}

static void hear(presil_jobs *jobs, place *p) {
    block_answer answer;
    const int got = worker_receive(&p->process, &answer);
    if (got < 0) gone(jobs, p);
    if (got <= 0 || !p->job) return;
    jobs->stats.busy_ns += answer.nanoseconds;
    jobs->weight_done += p->job->weight;
    slot *s = p->job->slot;
    const uint64_t before = s->capacity;
    const bool followed = slot_follow(s, answer.bytes);
    jobs->stats.bytes += s->capacity - before;
    if (answer.status)
        fail_job(jobs, p->job, answer.status, answer.text);
    else if (!followed)
        fail_job(jobs, p->job, PRESIL_EHOSTMEM, "the host has no memory for what the chip wrote");
    else
        take_answer(jobs, p->job);
    if (!p->timed) p->job->known = PRESIL_JOBS_NEVER;
    p->job = NULL;
}

static void drop_all(presil_jobs *jobs) {
    const uint64_t before = jobs->stats.lost;
    for (uint32_t i = 0; i < jobs->place_count; i++) {
        place *p = &jobs->places[i];
        if (p->job || p->until) worker_end(&p->process, true, NULL, 0);
        p->job = NULL;
        p->until = 0;
        p->rests = false;
    }
    job **at = &jobs->first;
    jobs->last = NULL;
    while (*at) {
        job *j = *at;
        if (j->state == JOB_ENDED) {
            jobs->last = j;
            at = &j->next;
            continue;
        }
        *at = j->next;
        jobs->weight_left -= j->weight;
        jobs_recycle(jobs, j);
        job_leave_followers(jobs, j);
        job_free(j);
        jobs->stats.waiting--;
        jobs->stats.lost++;
    }
    if (!jobs->failed && jobs->stats.lost > before) {
        jobs->failed = PRESIL_ECANCELLED;
        jobs->failed_origin = 0;
        (void)snprintf(jobs->failed_text, sizeof jobs->failed_text, "cancelled: %llu launches were not compared",
                       (unsigned long long)(jobs->stats.lost - before));
    }
    atomic_store(&jobs->cancelled, false);
    (void)pthread_cond_broadcast(&jobs->room);
}

/* ---- reports */
static void count_known(presil_jobs *jobs, int known) {
    presil_jobs_stats *s = &jobs->stats;
    switch (known) {
    case PRESIL_JOBS_KNOWN: s->known++; break;
    case PRESIL_JOBS_SAMPLED: s->sampled++; break;
    case PRESIL_JOBS_UNKNOWN: s->unknown++; break;
    case PRESIL_JOBS_ESTIMATED: s->estimated++; break;
    default: s->never++;
    }
}

static void deliver(presil_jobs *jobs) {
    while (jobs->first && jobs->first->state == JOB_ENDED) {
        job *j = jobs->first;
        if (jobs->timings.find) {
            (void)pthread_mutex_unlock(&jobs->lock);
            job_settle_timing(jobs, j); /* before it leaves the list: whoever looks for its key finds it somewhere */
            (void)pthread_mutex_lock(&jobs->lock);
            count_known(jobs, j->known);
            job_leave_followers(jobs, j);
        }
        jobs->first = j->next;
        if (!jobs->first) jobs->last = NULL;
        if (j->report.status && j->slot) {
            (void)pthread_mutex_unlock(&jobs->lock);
            job_tell_listener(jobs, j);
            (void)pthread_mutex_lock(&jobs->lock);
        }
        if (j->slot) jobs_recycle(jobs, j);
        if (!j->told && j->report.status && !jobs->failed) {
            jobs->failed = -(int)j->report.status;
            jobs->failed_origin = j->report.origin;
            memcpy(jobs->failed_text, j->text, sizeof jobs->failed_text);
        }
        if (jobs->report) {
            (void)pthread_mutex_unlock(&jobs->lock);
            jobs->report(jobs->report_context, &j->report);
            (void)pthread_mutex_lock(&jobs->lock);
        }
        job_free(j);
        jobs->stats.launches++;
        jobs->stats.waiting--;
    }
    (void)pthread_cond_broadcast(&jobs->idle);
}

static size_t list_fds(const presil_jobs *jobs) {
    struct pollfd *fds = jobs->fds;
    fds[0] = (struct pollfd){.fd = jobs->wake, .events = POLLIN};
    for (uint32_t i = 0; i < jobs->place_count; i++)
        fds[i + 1] = (struct pollfd){.fd = jobs->places[i].process.fd, .events = POLLIN};
    return jobs->place_count + 1;
}

/* Milliseconds to the first time that a start has to be over by; -1: none goes on. */
static int first_deadline(const presil_jobs *jobs) {
    uint64_t first = UINT64_MAX;
    for (uint32_t i = 0; i < jobs->place_count; i++)
        if (jobs->places[i].until && jobs->places[i].until < first) first = jobs->places[i].until;
    const uint64_t now = presil_now_ns(), left = first > now ? (first - now) / 1000000 + 1 : 0;
    return first == UINT64_MAX ? -1 : left < INT32_MAX ? (int)left : INT32_MAX;
}

static void wait_for_news(const presil_jobs *jobs, size_t count, int milliseconds) {
    struct pollfd *fds = jobs->fds;
    uint64_t times;
    if (poll(fds, count, milliseconds) < 0) {
        for (size_t i = 0; i < count; i++) fds[i].revents = 0;
    } else if (fds[0].revents) {
        (void)!read(jobs->wake, &times, sizeof times);
    }
}

/* With news of another there may be again what a process lacked. */
static void take_news(presil_jobs *jobs) {
    bool other = jobs->fds[0].revents != 0;
    for (uint32_t i = 0; i < jobs->place_count; i++) {
        place *p = &jobs->places[i];
        const bool told = jobs->fds[i + 1].revents && jobs->fds[i + 1].fd >= 0;
        if (p->until && (told || presil_now_ns() >= p->until)) {
            finish_start(jobs, p);
            other = other || !p->rests;
        } else if (told && !p->until) {
            hear(jobs, p);
            other = true;
        }
    }
    for (uint32_t i = 0; other && i < jobs->place_count; i++) jobs->places[i].rests = false;
}

void *jobs_dispatch(void *context) {
    presil_jobs *jobs = context;
    (void)pthread_mutex_lock(&jobs->lock);
    for (;;) {
        if (atomic_load(&jobs->cancelled)) drop_all(jobs);
        give_all(jobs);
        deliver(jobs);
        if (jobs->closing && !jobs->stats.waiting) break;
        const size_t count = list_fds(jobs);
        const int milliseconds = first_deadline(jobs);
        (void)pthread_mutex_unlock(&jobs->lock);
        wait_for_news(jobs, count, milliseconds);
        (void)pthread_mutex_lock(&jobs->lock);
        take_news(jobs);
    }
    (void)pthread_mutex_unlock(&jobs->lock);
    return NULL;
}
