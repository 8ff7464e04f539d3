/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The smallest launch that fails in the same way: its operator with smaller sizes (smaller.c); then commands are left
 * out, in runs that halve from try to try, as long as chip and model still part like before; then data are made zero,
 * in parts that halve likewise. Nothing is chosen by chance, and by the clock only where --seconds end it, so that the
 * same file and chip give the same result.
 */
#define _POSIX_C_SOURCE 200809L
#include "minimize.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include "presil_bundle_capture.h"
#include "presil_debug.h"

enum { SMALLEST = 4 }; /* SMALLEST: bytes that are made zero together at least */

/* ---- does it fail in the same way? */
/* Of a text: what stands before its first number, without the launch's name. */
static void say_kind(const probed *p, const char *label, char *out, size_t bytes) {
    const first_difference *d = &p->difference;
    const size_t named = strlen(label);
    const char *text = strncmp(p->error, label, named) == 0 ? p->error + named : p->error;
    if (d->present)
        (void)snprintf(out, bytes, "%s", d->bytes ? "wrong bytes" : "written by one of chip and model alone");
    else
        (void)snprintf(out, bytes, "%s%.*s", presil_status_name((presil_status)p->status),
                       (int)strcspn(text, "0123456789"), text);
}

static int put_data(reduction *m) {
    uint64_t at = 0;
    for (uint64_t i = 0; i < m->range_count; at += m->ranges[i++].bytes) {
        if (replay_put_bytes(m->r, m->ranges[i].base, m->data + at, m->ranges[i].bytes))
            return replay_fail(EXIT_INTERNAL, "%s", presil_error_text());
    }
    return EXIT_PASS;
}

static double now_seconds(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

bool minimize_may_go_on(const reduction *m) {
    return !m->stopped && m->runs < m->tries && now_seconds() - m->start < m->seconds;
}

bool minimize_run(reduction *m, presil_list *list) {
    char kind[256];
    m->outcome = replay_probe(m->r, list, &m->now);
    m->stopped = m->outcome || replay_stopped;
    m->runs++;
    if (m->stopped || m->now.status != m->first.status) return false;
    say_kind(&m->now, m->r->record->label, kind, sizeof kind);
    return strcmp(kind, m->kind) == 0;
}

int minimize_renew(reduction *m) {
    replay *r = m->r;
    presil_list_destroy(m->whole);
    m->whole = NULL;
    if (m->shapes) shape_forget(m->shapes);
    if (r->a->transport) return EXIT_PASS; /* who serves it is somebody else */
    const uint64_t chip = r->record->chip;
    replay_close_chip(r);
    const int status = replay_open_chip(r, chip);
    return status ? status : replay_place_scratch(r);
}

/* The commands whose byte in `keep` is not 0 on a new device, with the data; NULL: all. */
static int take_list(reduction *m, const uint8_t *keep, presil_list **out) {
    int status = minimize_renew(m);
    if (!status) status = m->shapes ? shape_plan(m->shapes, &m->whole) : replay_load(m->r, &m->whole);
    if (!status) status = put_data(m);
    *out = m->whole;
    if (status || !keep || m->kept == m->commands) return status;
    memcpy(m->cut, keep, m->commands);
    return presil_list_subset(m->whole, m->cut, out) ? replay_fail(EXIT_INTERNAL, "%s", presil_error_text())
                                                     : EXIT_PASS;
}

static bool same(reduction *m, const uint8_t *keep) {
    presil_list *list = NULL;
    if (!minimize_may_go_on(m)) {
        m->limited |= !m->stopped;
        m->stopped = true;
        return false;
    }
    m->outcome = take_list(m, keep, &list);
    m->stopped = m->outcome != EXIT_PASS;
    const bool good = !m->stopped && minimize_run(m, list);
    if (list != m->whole) presil_list_destroy(list);
    return good;
}

void minimize_tell(reduction *m, bool always) {
    const time_t now = time(NULL);
    if (!always && now - m->told < 2) return;
    m->told = now;
    (void)fprintf(stderr,
                  "  %" PRIu64 " runs: %" PRIu64 " of %" PRIu64 " commands, %" PRIu64 " of %" PRIu64 " bytes of data\n",
                  m->runs, m->kept, m->commands_before, m->filled, m->bytes_before);
}

/* ---- commands */
/* Without `count` commands from `from` on, and what makes no sense without them. */
static bool leave_out(reduction *m, uint64_t from, uint64_t count) {
    presil_list *list = NULL;
    uint64_t kept = 0;
    memcpy(m->trial, m->keep, m->commands);
    memset(m->trial + from, 0, count);
    if (memcmp(m->trial, m->keep, m->commands) == 0) return false;
    const int status = presil_list_subset(m->whole, m->trial, &list);
    presil_list_destroy(list);
    if (status) {
        if (status != PRESIL_EINVAL) m->outcome = replay_fail(EXIT_INTERNAL, "%s", presil_error_text());
        m->stopped |= status != PRESIL_EINVAL;
        return false;
    }
    for (uint64_t i = 0; i < m->commands; i++) kept += m->trial[i] != 0;
    const uint64_t before = m->kept;
    const bool first = before == m->commands;
    m->kept = kept;
    const bool good = same(m, m->trial);
    if (good)
        memcpy(m->keep, m->trial, m->commands);
    else
        m->kept = before;
    minimize_tell(m, good && first);
    return good;
}

static void shrink_commands(reduction *m) {
    bool better = true;
    for (uint64_t size = (m->commands + 1) / 2; size && !m->stopped;) {
        better = false;
        for (uint64_t end = m->commands; end && !m->stopped; end -= end < size ? end : size)
            better |= leave_out(m, end < size ? 0 : end - size, end < size ? end : size);
        if (size == 1 && !better) return;
        if (size > 1) size /= 2;
    }
}

/* ---- data */
static bool is_zero(const uint8_t *p, uint64_t bytes) { return !bytes || (!*p && !memcmp(p, p + 1, bytes - 1)); }

static void shrink_data(reduction *m, uint64_t from, uint64_t bytes) {
    if (m->stopped || is_zero(m->data + from, bytes)) return;
    memset(m->data + from, 0, bytes);
    if (same(m, m->keep)) {
        m->filled -= bytes;
        minimize_tell(m, false);
        return;
    }
    memcpy(m->data + from, m->original + from, bytes);
    minimize_tell(m, false);
    if (bytes <= SMALLEST) return;
    const uint64_t half = (bytes / 2 + SMALLEST - 1) / SMALLEST * SMALLEST;
    shrink_data(m, from, half);
    shrink_data(m, from + half, bytes - half);
}

typedef struct {
    reduction *m;
    uint64_t at;
} filling;

static int fill(void *context, presil_daddr address, const void *bytes, uint64_t count) {
    filling *f = context;
    reduction *m = f->m;
    presil_bundle_range *last = m->range_count ? &m->ranges[m->range_count - 1] : NULL;
    memcpy(m->data + f->at, bytes, count);
    f->at += count;
    if (last && last->base.value + last->bytes == address.value)
        last->bytes += count;
    else
        m->ranges[m->range_count++] = (presil_bundle_range){address, count};
    return PRESIL_OK;
}

static int read_data(reduction *m) {
    const presil_bundle_memory *reads = m->r->record->reads;
    const uint64_t count = reads ? reads->range_count : 0;
    m->bytes = m->filled = reads ? reads->bytes : 0;
    m->ranges = calloc(count + 1, sizeof *m->ranges);
    m->data = malloc(m->bytes + 1);
    m->original = malloc(m->bytes + 1);
    if (!m->ranges || !m->data || !m->original)
        return replay_fail(EXIT_INTERNAL, "no host memory for %" PRIu64 " bytes of data", m->bytes);
    filling f = {m, 0};
    if (reads && presil_bundle_get_memory(m->r->reader, reads, fill, &f))
        return replay_fail(EXIT_USAGE, "%s: %s", m->r->a->file, presil_bundle_error_text());
    memcpy(m->original, m->data, m->bytes);
    return EXIT_PASS;
}

/* ---- the result */
static void describe(void *context, const presil_capture_launch *launch, presil_bundle_label_fn add, void *to) {
    const presil_bundle_launch *record = ((const replay *)context)->record;
    (void)launch;
    for (uint32_t i = 0; i < record->label_count; i++) add(to, record->labels[i].key, record->labels[i].value);
    add(to, "minimized_from", ((const replay *)context)->a->file);
}

/* Runs it once more, so that the file has its result too. */
static int write_bundle(reduction *m) {
    replay *r = m->r;
    char error[512] = "";
    presil_bundle_capture *capture = NULL;
    const presil_bundle_capture_options options = {.size = sizeof options, .describe = describe, .context = r};
    presil_list *list = NULL;
    int status = take_list(m, m->keep, &list);
    if (status) return status;
    if (presil_set_capture(r->device, NULL, NULL))
        status = replay_fail(EXIT_INTERNAL, "%s", presil_error_text());
    else if (presil_bundle_capture_open(r->device, r->a->minimize, &options, &capture, error, sizeof error))
        status = replay_fail(EXIT_USAGE, "%s", error);
    else if (!presil_list_submit(list, NULL))
        (void)!presil_device_synchronize(r->device);
    if (list != m->whole) presil_list_destroy(list);
    if (status) return status;
    if (presil_bundle_capture_close(capture, NULL, error, sizeof error))
        status = replay_fail(EXIT_USAGE, "%s: %s", r->a->minimize, error);
    return status;
}

static void print_result(const reduction *m) {
    const arguments *a = m->r->a;
    uint64_t filled = 0;
    for (uint64_t i = 0; i < m->bytes; i++) filled += m->data[i] != 0;
    if (*m->shape) (void)printf("a smaller shape: %s\n", m->shape);
    (void)fputs(m->stopped ? "stopped: " : "", stdout);
    if (m->cuts) (void)printf("%" PRIu64 " of %" PRIu64 " commands and ", m->kept, m->commands_before);
    (void)printf("%" PRIu64 " of %" PRIu64 " bytes of data (the rest is zero) fail in the same way: %s\n", filled,
                 m->bytes_before, m->kind);
    if (m->limited)
        (void)printf("the search ended before nothing could be made smaller: more by --tries (%" PRIu64
                     ") and --seconds (%" PRIu64 ")\n",
                     a->tries, a->seconds);
    (void)printf("%" PRIu64 " runs; written to %s\n", m->runs, a->minimize);
}

/* How it fails, from all of its commands. */
static int begin(reduction *m) {
    const int count = presil_list_commands(m->whole, &m->commands);
    if (count && count != PRESIL_EUNSUPPORTED) return replay_fail(EXIT_USAGE, "%s", presil_error_text());
    m->cuts = !count;
    if (!m->cuts) (void)fprintf(stderr, "  %s: shape and data alone are made smaller\n", presil_error_text());
    const int status = read_data(m);
    if (status) return status;
    m->commands_before = m->kept = m->commands;
    m->bytes_before = m->bytes;
    (void)same(m, NULL);
    if (m->stopped) return m->outcome ? m->outcome : replay_fail(EXIT_INTERNAL, "stopped before anything was found");
    m->first = m->now;
    if (!m->first.status)
        return replay_fail(EXIT_USAGE, "the launch is right: chip and model agree, there is nothing to minimize");
    say_kind(&m->first, m->r->record->label, m->kind, sizeof m->kind);
    minimize_tell(m, true);
    return EXIT_PASS;
}

/* All commands, of the shape that was found. */
static int take_commands(reduction *m) {
    m->keep = malloc(m->commands + 1);
    m->trial = malloc(m->commands + 1);
    m->cut = malloc(m->commands + 1);
    if (!m->keep || !m->trial || !m->cut) return replay_fail(EXIT_INTERNAL, "no host memory");
    memset(m->keep, 1, m->commands);
    m->kept = m->commands;
    return EXIT_PASS;
}

/* Half of the runs and of the time is for the shape. */
static int minimize(reduction *m) {
    const arguments *a = m->r->a;
    const char *out = a->minimize;
    if (access(out, F_OK) == 0) return replay_fail(EXIT_USAGE, "--minimize %s: that file is there already", out);
    m->start = now_seconds();
    m->tries = a->tries / 2 + 1;
    m->seconds = (double)a->seconds / 2;
    int status = begin(m);
    if (!status) status = minimize_shape(m);
    if (status) return status;
    m->tries = a->tries;
    m->seconds = (double)a->seconds;
    status = m->cuts ? take_commands(m) : EXIT_PASS;
    if (status) return status;
    if (m->cuts) shrink_commands(m);
    shrink_data(m, 0, m->bytes);
    if (m->stopped && m->outcome) return m->outcome;
    status = write_bundle(m);
    if (!status) print_result(m);
    return status;
}

int replay_minimize(replay *r, uint64_t place) {
    replayed out;
    reduction *m = calloc(1, sizeof *m);
    if (!m) return replay_fail(EXIT_INTERNAL, "no host memory");
    m->r = r;
    int status = replay_take(r, place, &out);
    if (!status) status = replay_load(r, &m->whole);
    if (!status) print_chip(r);
    if (!status) status = minimize(m);
    presil_list_destroy(m->whole);
    shape_free(m->shapes);
    free(m->keep);
    free(m->trial);
    free(m->cut);
    free(m->ranges);
    free(m->data);
    free(m->original);
    replay_drop(r);
    free(m);
    return status;
}
