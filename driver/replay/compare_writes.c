/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launch wrote against what it should have: the bytes that the bundle expects, and that nothing else was
 * written. While the listener has the launch, so that the log of writes still knows when.
 */
#include "replay.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const presil_capture_launch *launch;
    const presil_capture_bytes *writes;
    replayed *out;
    uint8_t *buffer; /* PRESIL_BUNDLE_PIECE bytes, where memory has to be read */
} comparison;

static const uint8_t *memory_at(const comparison *c, uint64_t address, uint64_t bytes) {
    if (c->writes->host) return c->writes->host + (address - c->writes->base.value);
    if (bytes > PRESIL_BUNDLE_PIECE || c->launch->read(c->launch, (presil_daddr){address}, c->buffer, bytes))
        return NULL;
    return c->buffer;
}

static int compare_range(void *context, presil_daddr address, const void *bytes, uint64_t count) {
    const comparison *c = context;
    const uint8_t *found = memory_at(c, address.value, count), *expected = bytes;
    first_difference *d = &c->out->difference;
    if (!found) return PRESIL_EDEAD;
    c->out->compared += count;
    if (memcmp(found, expected, count) == 0) return PRESIL_OK;
    for (uint64_t i = 0; i < count; i++) {
        if (found[i] == expected[i]) continue;
        if (d->bytes++) continue;
        d->present = true;
        d->address = address.value + i;
        d->expected = expected[i];
        d->found = found[i];
    }
    return PRESIL_OK;
}

/* Bytes of one sorted list that are not in the other, and the first of them. Both hold device addresses. */
typedef struct {
    uint64_t base, bytes;
} span;

static span bundle_span(const presil_bundle_memory *m, uint64_t i) {
    return (span){m->ranges[i].base.value, m->ranges[i].bytes};
}

static span written_span(const presil_capture_bytes *w, uint64_t i) {
    return (span){w->at[i].base.value, w->at[i].bytes};
}

static uint64_t uncovered(const span *a, uint64_t a_count, const span *b, uint64_t b_count, uint64_t *first) {
    uint64_t bytes = 0, k = 0;
    for (uint64_t i = 0; i < a_count; i++) {
        uint64_t at = a[i].base;
        const uint64_t end = at + a[i].bytes;
        while (at < end) {
            while (k < b_count && b[k].base + b[k].bytes <= at) k++;
            const bool covered = k < b_count && b[k].base <= at;
            uint64_t stop = k == b_count ? end : covered ? b[k].base + b[k].bytes : b[k].base;
            if (stop > end) stop = end;
            if (!covered && !bytes) *first = at;
            if (!covered) bytes += stop - at;
            at = stop;
        }
    }
    return bytes;
}

static bool compare_extent(comparison *c, const presil_bundle_memory *expected, uint64_t *stray_at,
                           uint64_t *missing_at) {
    span *want = malloc((expected->range_count + 1) * sizeof *want),
         *have = malloc((c->writes->count + 1) * sizeof *have);
    const bool ok = want && have;
    for (uint64_t i = 0; ok && i < expected->range_count; i++) want[i] = bundle_span(expected, i);
    for (uint64_t i = 0; ok && i < c->writes->count; i++) have[i] = written_span(c->writes, i);
    if (ok) {
        c->out->stray = uncovered(have, c->writes->count, want, expected->range_count, stray_at);
        c->out->missing = uncovered(want, expected->range_count, have, c->writes->count, missing_at);
    }
    free(want);
    free(have);
    return ok;
}

/* The tensor's coordinate from the file, tile and command from the chip. */
void describe_address(const replay *r, const presil_capture_launch *launch, uint64_t address, char *text,
                      size_t bytes) {
    char command[128] = "";
    presil_bundle_coordinate(r->record, (presil_daddr){address}, text, bytes / 2);
    if (launch->describe(launch, (presil_daddr){address}, command, sizeof command)) command[0] = 0;
    const size_t used = strlen(text);
    (void)snprintf(text + used, bytes - used, "%s%s", used && *command ? ", " : "", command);
    if (!*text) (void)snprintf(text, bytes, "outside every output of the operator");
}

static void describe(const replay *r, const presil_capture_launch *launch, first_difference *d) {
    describe_address(r, launch, d->address, d->where, sizeof d->where);
    presil_write_time time = {.size = sizeof time};
    d->cycle = launch->write_time(launch, (presil_daddr){d->address}, &time) ? UINT64_MAX : time.last_cycle;
}

void probe_compare(const replay *r, const presil_capture_launch *launch, const presil_report *report) {
    first_difference *d = &r->probe->difference;
    r->probe->cycles = report->cycles;
    if (report->status != -PRESIL_EMISMATCH || !*report->difference) return;
    if (!report->differing_bytes && !report->stray_bytes && !report->missing_bytes) return; /* the model refused it */
    *d = (first_difference){.present = true,
                            .address = report->difference_address,
                            .bytes = report->differing_bytes,
                            .expected = (uint8_t)report->difference_expected,
                            .found = (uint8_t)report->difference_found};
    describe(r, launch, d);
}

/* The file may name any address. Its ranges are sorted. */
static bool inside(const replay *r, const presil_bundle_memory *m) {
    if (!m->range_count) return true;
    const presil_bundle_range *last = &m->ranges[m->range_count - 1];
    const uint64_t base = r->info.memory_base.value, end = base + r->info.memory_bytes;
    return m->ranges[0].base.value >= base && last->base.value <= end && last->bytes <= end - last->base.value;
}

/* Of a launch that differed from the reference in C (of a chip without a model) the file knows one byte of what it
 * should have written. As wrong as then, or right; of another value nobody can say: floats may be anything near. */
static void compare_known_byte(replay *r, const presil_capture_launch *launch, const presil_capture_bytes *writes) {
    replayed *out = r->out;
    const presil_bundle_difference *was = &r->result->difference;
    uint8_t buffer[1];
    comparison c = {launch, writes, out, buffer};
    const uint64_t base = r->info.memory_base.value;
    if (was->address.value < base || was->address.value - base >= r->info.memory_bytes) return;
    const uint8_t *found = memory_at(&c, was->address.value, 1);
    if (!found || (*found != was->found && *found != was->expected)) return;
    out->compared = 1;
    out->known_byte = true;
    out->bits = *found == was->expected ? BITS_EQUAL : BITS_DIFFER;
    if (out->bits == BITS_EQUAL) return;
    out->difference = (first_difference){
        .present = true, .address = was->address.value, .bytes = 1, .expected = was->expected, .found = *found};
    describe(r, launch, &out->difference);
}

void replay_compare(replay *r, const presil_capture_launch *launch, const presil_report *report,
                    const presil_capture_bytes *writes) {
    replayed *out = r->out;
    out->cycles = report->cycles;
    out->names = (presil_names){.size = sizeof out->names};
    if (presil_device_get_names(r->device, &out->names)) out->names.engine_count = 0;
    memcpy(out->stalls, report->stalls, sizeof out->stalls);
    out->counted = *report;
    out->read_beats = report->read_beats;
    out->write_beats = report->write_beats;
    out->seconds = (double)(report->sim_ns + report->twin_ns) * 1e-9;
    const bool completed = report->status == 0 || report->status == -PRESIL_EMISMATCH;
    const presil_bundle_memory *expected = r->record->expected                   ? r->record->expected
                                           : r->result && r->result->status == 0 ? r->result->writes
                                                                                 : NULL;
    out->bits = BITS_NOT_COMPARED;
    const bool differed = r->result && r->result->status == PRESIL_EMISMATCH && r->result->difference.present &&
                          r->result->difference.bytes;
    if (completed && !expected && differed) compare_known_byte(r, launch, writes);
    if (!completed || !expected) return;
    if (!inside(r, expected)) {
        out->outcome = replay_fail(EXIT_USAGE, "launch %llu: what it should write is outside of the device's memory",
                                   (unsigned long long)out->place);
        return;
    }
    comparison c = {launch, writes, out, writes->host ? NULL : malloc(PRESIL_BUNDLE_PIECE)};
    uint64_t stray_at = 0, missing_at = 0;
    int status = !writes->host && !c.buffer ? PRESIL_EHOSTMEM : PRESIL_OK;
    if (!status) status = presil_bundle_get_memory(r->reader, expected, compare_range, &c);
    if (!status && !compare_extent(&c, expected, &stray_at, &missing_at)) status = PRESIL_EHOSTMEM;
    free(c.buffer);
    if (status) {
        out->outcome = replay_fail(EXIT_INTERNAL, "launch %llu: what it wrote can't be compared: %s",
                                   (unsigned long long)out->place, presil_bundle_error_text());
        return;
    }
    first_difference *d = &out->difference;
    if (!d->present && (out->stray || out->missing)) {
        d->present = true;
        d->address = out->stray ? stray_at : missing_at;
    }
    out->bits = d->present ? BITS_DIFFER : BITS_EQUAL;
    if (d->present) describe(r, launch, d);
}
