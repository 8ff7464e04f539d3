/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A launch that failed, told as if this process had run it: its text names the place in the words of the chip for the
 * launch itself, of which the other process had the commands alone; and whoever listens to failures (a bundle's
 * capture) is given its memory as it was, as it should have become, and as it became.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "jobs.h"

/* ---- the text */
static const char at_address[] = ", at 0x"; /* driver/core/verify.c: behind the place */

/* The first `from` of a text of `bytes` becomes `to`, as far as there is room. */
static void replace(char *text, size_t bytes, const char *from, const char *to) {
    char *at = strstr(text, from);
    if (!at) return;
    char rest[BLOCK_TEXT];
    (void)snprintf(rest, sizeof rest, "%s", at + strlen(from));
    (void)snprintf(at, bytes - (size_t)(at - text), "%s%s", to, rest);
}

void job_name_place(job *j) {
    presil_report *r = &j->report;
    char before[sizeof r->difference], where[100];
    const char *end = strstr(r->difference, at_address);
    if (!end || !j->kept || presil_kept_describe(j->kept, (presil_daddr){r->difference_address}, where, sizeof where))
        return;
    (void)snprintf(before, sizeof before, "%.*s%s", (int)(end - r->difference), r->difference, at_address);
    char now[sizeof where + sizeof at_address];
    (void)snprintf(now, sizeof now, "%s%s", where, at_address);
    replace(r->difference, sizeof r->difference, before, now);
    replace(j->text, sizeof j->text, before, now);
}

/* ---- memory, of a launch that is over */
typedef struct {
    const presil_byte_range *at; /* sorted, disjoint */
    uint64_t count;
    const uint8_t *bytes;
    uint64_t *offsets;
} contents;

typedef struct {
    presil_capture_launch launch; /* first: a listener that has it has this */
    const job *job;
    contents reads, expected, found;
    const contents *now[2]; /* where a byte is looked for, in this order */
} stand_in;

static bool open_contents(contents *c, const slot *s, const block_memory *m) {
    const block *b = slot_block(s);
    const bool there = m->ranges && block_has_memory(b, s->capacity, m);
    *c = (contents){there ? block_ranges(b, m) : NULL, there ? m->count : 0, there ? block_bytes(b, m) : NULL, NULL};
    c->offsets = malloc((c->count + 1) * sizeof *c->offsets);
    if (!c->offsets) return false;
    uint64_t offset = 0;
    for (uint64_t i = 0; i < c->count; i++) {
        c->offsets[i] = offset;
        offset += c->at[i].bytes;
    }
    return true;
}

/* How many of the bytes at an address it has, and where; 0: not even the first. */
static uint64_t look(const contents *c, uint64_t address, const uint8_t **out) {
    uint64_t low = 0, high = c->count;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (c->at[middle].base.value + c->at[middle].bytes <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == c->count || c->at[low].base.value > address) return 0;
    const uint64_t skip = address - c->at[low].base.value;
    *out = c->bytes + c->offsets[low] + skip;
    return c->at[low].bytes - skip;
}

static int read_memory(const presil_capture_launch *launch, presil_daddr from, void *to, uint64_t bytes) {
    const stand_in *s = (const stand_in *)launch;
    for (uint64_t done = 0, n; done < bytes; done += n) {
        const uint8_t *at = NULL;
        n = look(s->now[0], from.value + done, &at);
        if (!n && s->now[1]) n = look(s->now[1], from.value + done, &at);
        if (!n) return PRESIL_EINVAL;
        if (n > bytes - done) n = bytes - done;
        memcpy((uint8_t *)to + done, at, n);
    }
    return PRESIL_OK;
}

static int commands(const presil_capture_launch *launch, void *to, uint64_t *size) {
    const slot *s = ((const stand_in *)launch)->job->slot;
    const block *b = slot_block(s);
    if (to && *size < b->command_bytes) return PRESIL_EINVAL;
    if (to) memcpy(to, s->at + b->commands, b->command_bytes);
    *size = b->command_bytes;
    return PRESIL_OK;
}

static int describe(const presil_capture_launch *launch, presil_daddr address, char *text, size_t bytes) {
    const job *j = ((const stand_in *)launch)->job;
    return j->kept ? presil_kept_describe(j->kept, address, text, bytes) : PRESIL_EUNSUPPORTED;
}

static int write_time(const presil_capture_launch *launch, presil_daddr address, presil_write_time *out) {
    (void)launch, (void)address, (void)out;
    return PRESIL_EUNSUPPORTED; /* the report has that of the first difference */
}

static presil_kept_launch *keep(const presil_capture_launch *launch) {
    (void)launch;
    return NULL;
}

/* ---- the listener */
static presil_capture_bytes bytes_of(const contents *c) {
    return (presil_capture_bytes){.at = c->at, .count = c->count};
}

static void tell(presil_jobs *jobs, job *j, stand_in *s) {
    const presil_capture_ops *to = &jobs->listener;
    void *context = jobs->listener_context;
    const presil_capture_bytes reads = bytes_of(&s->reads), expected = bytes_of(&s->expected),
                               found = bytes_of(&s->found);
    s->now[0] = &s->reads;
    if (to->begin(context, &s->launch, &reads) <= 0) return;
    s->now[0] = &s->expected;
    if (to->expected) to->expected(context, &s->launch, &expected);
    s->now[0] = &s->found;
    s->now[1] = &s->reads;
    const char *note = to->end(context, &s->launch, &j->report, &found);
    const size_t used = strlen(j->text);
    if (note && used + strlen(note) + 3 < sizeof j->text)
        (void)snprintf(j->text + used, sizeof j->text - used, "; %s", note);
}

void job_tell_listener(presil_jobs *jobs, job *j) {
    (void)pthread_mutex_lock(&jobs->listening);
    if (jobs->listener.begin) {
        const block *b = slot_block(j->slot);
        stand_in s = {.launch = j->launch, .job = j};
        const bool ok = open_contents(&s.reads, j->slot, &b->reads) & open_contents(&s.expected, j->slot, &b->writes) &
                        open_contents(&s.found, j->slot, &b->found);
        s.launch.mode = PRESIL_MODE_VERIFY;
        s.launch.timing = NULL;
        s.launch.work = NULL;
        s.launch.usage = NULL;
        s.launch.may_write = s.found.at;
        s.launch.may_write_count = s.found.count;
        s.launch.error = j->text;
        s.launch.commands = commands;
        s.launch.read = read_memory;
        s.launch.describe = describe;
        s.launch.write_time = write_time;
        s.launch.keep = keep;
        if (ok) tell(jobs, j, &s);
        free(s.reads.offsets);
        free(s.expected.offsets);
        free(s.found.offsets);
    }
    (void)pthread_mutex_unlock(&jobs->listening);
}

/* ---- the API */
static int set_capture(void *who, const presil_capture_ops *ops, void *context) {
    presil_jobs *jobs = who;
    (void)pthread_mutex_lock(&jobs->listening);
    const bool taken = ops && jobs->listener.begin;
    if (!taken) {
        jobs->listener = (presil_capture_ops){0};
        if (ops) memcpy(&jobs->listener, ops, ops->size < sizeof *ops ? ops->size : sizeof *ops);
        jobs->listener_context = context;
    }
    (void)pthread_mutex_unlock(&jobs->listening);
    return taken ? PRESIL_EINVAL : PRESIL_OK;
}

static int identify(void *who, presil_device_info *info, presil_device_identity *identity) {
    const presil_jobs *jobs = who;
    int status = presil_device_get_info(jobs->device, info);
    if (!status) status = presil_device_identify(jobs->device, identity);
    if (status) return status;
    const block_hello *h = &jobs->hello;
    memcpy(info->build, h->info.build, sizeof info->build);
    memcpy(info->simulator, h->info.simulator, sizeof info->simulator);
    memcpy(info->transport, h->info.transport, sizeof info->transport);
    info->clock_mhz = h->info.clock_mhz;
    info->known = (info->known & ~(uint32_t)PRESIL_INFO_CLOCK_MHZ) | (h->info.known & PRESIL_INFO_CLOCK_MHZ);
    identity->capabilities = h->capabilities;
    identity->rtl = h->rtl;
    identity->library = h->library;
    return PRESIL_OK;
}

void presil_jobs_source(presil_jobs *jobs, presil_capture_source *out) {
    const presil_capture_source own = {
        .size = out->size, .who = jobs, .set_capture = set_capture, .identify = identify};
    memcpy(out, &own, out->size < sizeof own ? out->size : sizeof own);
}
