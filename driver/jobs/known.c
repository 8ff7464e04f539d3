/* SPDX-License-Identifier: Apache-2.0 */
/* Launches whose cycles are known (presil_jobs_timings). */
#include <stdio.h>
#include <string.h>
#include "jobs.h"

/* Chips behind several servers need not be one build: cycles of another one belong to no key here. */
bool jobs_same_timing(const presil_jobs *jobs, const block_hello *hello) {
    return strcmp(jobs->hello.timing, hello->timing) == 0;
}

static job *leader_of(const presil_jobs *jobs, const job *j) {
    job *found = NULL;
    for (job *other = jobs->first; other && !found; other = other->next)
        if (other->known == PRESIL_JOBS_UNKNOWN && !other->leader && !memcmp(other->key, j->key, sizeof j->key))
            found = other;
    return found;
}

static int find(const presil_jobs *jobs, job *j, const presil_capture_launch *launch) {
    const presil_jobs_timings *t = &jobs->timings;
    return t->find(t->context, jobs->hello.timing, launch, j->key, &j->before);
}

/* What the first look misses and the list hasn't got any more, the second one finds. */
int job_look_up(presil_jobs *jobs, job *j, const presil_capture_launch *launch) {
    j->known = PRESIL_JOBS_NEVER;
    if (!jobs->timings.find) return j->known;
    const int first = find(jobs, j, launch);
    if (first == PRESIL_JOBS_UNKNOWN) {
        (void)pthread_mutex_lock(&jobs->lock);
        j->known = first;
        j->leader = leader_of(jobs, j);
        const bool leads = !j->leader;
        (void)pthread_mutex_unlock(&jobs->lock);
        return leads ? (j->known = find(jobs, j, launch)) : first;
    }
    return j->known = first;
}

void job_follow(presil_jobs *jobs, job *j) {
    if (j->leader) {
        j->state = JOB_FOLLOWS;
    } else if (j->known == PRESIL_JOBS_KNOWN) { /* its leader ended meanwhile */
        job_take_known(j);
        j->state = JOB_ENDED;
        jobs_recycle(jobs, j);
    }
}

void job_leave_followers(presil_jobs *jobs, job *leader) {
    const presil_report *r = &leader->report;
    const bool good =
        leader->state == JOB_ENDED && !r->status && r->verified == 1 && leader->known != PRESIL_JOBS_NEVER;
    bool work = false;
    if (jobs->making && jobs->making->leader == leader) {
        jobs->making->leader = NULL;
        jobs->making->before = *r;
        if (good) jobs->making->known = PRESIL_JOBS_KNOWN;
    }
    for (job *j = leader->next; j; j = j->next) {
        if (j->leader != leader) continue;
        j->leader = NULL;
        j->before = *r;
        j->state = JOB_WAITS; /* it runs itself */
        work = true;
        if (!good) continue;
        j->known = PRESIL_JOBS_KNOWN;
        job_take_known(j);
        jobs_end_job(jobs, j);
    }
    if (work) jobs_wake(jobs);
}

void job_take_known(job *j) {
    presil_report *r = &j->report;
    const presil_report *b = &j->before;
    r->mode = PRESIL_MODE_HYBRID;
    r->cycles = b->cycles, r->fill = b->fill, r->drain = b->drain;
    r->read_bytes = b->read_bytes, r->write_bytes = b->write_bytes;
    r->read_beats = b->read_beats, r->write_beats = b->write_beats;
    r->descriptors = b->descriptors;
    memcpy(r->stalls, b->stalls, sizeof r->stalls);
    memcpy(r->counters, b->counters, sizeof r->counters);
    r->estimated = b->estimated, r->estimated_too = b->estimated_too;
    r->cycles_error = b->cycles_error, r->stalls_error = b->stalls_error;
}

void job_settle_timing(presil_jobs *jobs, job *j) {
    const presil_jobs_timings *t = &jobs->timings;
    presil_report *r = &j->report;
    if (r->status || r->verified != 1 || j->known == PRESIL_JOBS_NEVER || j->known == PRESIL_JOBS_KNOWN ||
        j->known == PRESIL_JOBS_ESTIMATED)
        return;
    if (j->known == PRESIL_JOBS_UNKNOWN) {
        t->keep(t->context, jobs->hello.timing, j->key, r);
        return;
    }
    char text[512] = "";
    if (t->check(t->context, j->key, &j->before, r, text, sizeof text)) return;
    r->status = -PRESIL_ETIMING;
    (void)snprintf(r->difference, sizeof r->difference, "%.255s", text);
    (void)snprintf(j->text, sizeof j->text, "%s: %s", r->label, text);
}
