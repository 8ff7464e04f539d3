/* SPDX-License-Identifier: Apache-2.0 */
/* What presil-replay says: a table for people, JSON for programs. */
#include "replay.h"

#include <inttypes.h>
#include <string.h>

static const char *bits_name(const replayed *l) {
    return l->bits == BITS_EQUAL ? "equal" : l->bits == BITS_DIFFER ? "differ" : "-";
}

const char *outcome_name(int outcome) {
    switch (outcome) {
    case EXIT_PASS: return "pass";
    case EXIT_MISMATCH: return "mismatch";
    case EXIT_HUNG: return "hung";
    case EXIT_CYCLES: return "cycles changed";
    case EXIT_SKIPPED: return "skipped";
    case EXIT_USAGE: return "unusable";
    default: return "internal";
    }
}

static const char *changed(const char *recorded, const char *now) {
    return !*recorded || !*now ? "not known" : strcmp(recorded, now) == 0 ? "as recorded" : "changed";
}

void print_chip(const replay *r) {
    (void)printf("%s: chip %s, configuration %s; this is %s, build %s, RTL %s\n", r->a->file, r->chip->chip,
                 r->chip->config, r->a->mode == PRESIL_MODE_MODEL ? "the model" : r->info.simulator, r->info.build,
                 changed(r->chip->rtl_hash, r->identity.rtl ? r->identity.rtl : ""));
}

void print_head(void) {
    (void)printf("%8s  %-32s %12s %12s  %-7s %8s\n", "launch", "label", "cycles", "recorded", "bits", "seconds");
}

static void print_number(uint64_t value) {
    if (value)
        (void)printf(" %12" PRIu64, value);
    else
        (void)printf(" %12s", "-");
}

void print_launch(const replayed *l) {
    char label[200];
    (void)snprintf(label, sizeof label, "%s%s%s", *l->module ? l->module : l->label, *l->module ? "  " : "",
                   *l->module ? l->label : "");
    (void)printf("%8" PRIu64 "  %-32.32s", l->place, label);
    print_number(l->cycles);
    print_number(l->recorded);
    (void)printf("  %-7s %8.3f%s%s\n", bits_name(l), l->seconds, l->outcome ? "  " : "",
                 l->outcome ? outcome_name(l->outcome) : "");
    const first_difference *d = &l->difference;
    if (d->present) {
        (void)printf("          first difference: %s, at 0x%" PRIx64, d->where, d->address);
        if (d->cycle != UINT64_MAX) (void)printf(", written in cycle %" PRIu64, d->cycle);
        if (d->bytes)
            (void)printf(": 0x%02x, 0x%02x expected; %" PRIu64 " bytes differ\n", d->found, d->expected, d->bytes);
        else
            (void)printf(": %s\n", l->stray ? "a stray write" : "never written");
        if (l->stray || l->missing)
            (void)printf("          %" PRIu64 " bytes were written that should not be, %" PRIu64
                         " were not that should\n",
                         l->stray, l->missing);
    }
    if (*l->injected.found)
        (void)printf("          with %s: %s: %.200s; behind it: %s\n", l->injected.what, l->injected.found,
                     l->injected.text,
                     l->injected.exact    ? "exactly as before"
                     : l->injected.healed ? "not as before; behind a reset exactly"
                                          : "not as before");
    if (*l->error) (void)printf("          %s\n", l->error);
    if (l->recorded_status)
        (void)printf("          when it was captured: %s%s\n", presil_status_name((presil_status)l->recorded_status),
                     l->known_byte ? "; of what it should have written the first wrong byte alone is known" : "");
    (void)fflush(stdout);
}

void print_sum(const replayed *all, uint64_t count, int outcome, double seconds) {
    uint64_t passed = 0, cycles = 0;
    for (uint64_t i = 0; i < count; i++) passed += all[i].outcome == EXIT_PASS, cycles += all[i].cycles;
    (void)printf("%" PRIu64 " of %" PRIu64 " launches as recorded, %" PRIu64 " cycles, %.3f s: %s\n", passed, count,
                 cycles, seconds, outcome_name(outcome));
}

/* ---- JSON */
void put_text(FILE *f, const char *text) {
    (void)fputc('"', f);
    for (const unsigned char *p = (const unsigned char *)(text ? text : ""); *p; p++) {
        if (*p == '"' || *p == '\\')
            (void)fprintf(f, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            (void)fprintf(f, "\\u%04x", *p);
        else
            (void)fputc(*p, f);
    }
    (void)fputc('"', f);
}

static void put_member(FILE *f, const char *name, const char *text) {
    (void)fprintf(f, "\"%s\": ", name);
    put_text(f, text);
    (void)fputs(", ", f);
}

static void put_number(FILE *f, const char *name, uint64_t value, bool known) {
    if (known)
        (void)fprintf(f, "\"%s\": %" PRIu64 ", ", name, value);
    else
        (void)fprintf(f, "\"%s\": null, ", name);
}

/* Cycles by engine and cause, those of 0 left out: as presil regress compares them. */
static void put_stalls(FILE *f, const replayed *l) {
    (void)fputs("\"stalls\": {", f);
    const presil_names *names = &l->names;
    for (uint32_t e = 0, some = 0; e < names->engine_count; e++) {
        bool begun = false;
        for (uint32_t c = 0; c < names->cause_count; c++) {
            if (!l->stalls[e][c] || !names->causes[c].name) continue;
            if (!begun) (void)fprintf(f, "%s\"%s\": {", some++ ? ", " : "", names->engines[e].name);
            (void)fprintf(f, "%s\"%s\": %" PRIu64, begun ? ", " : "", names->causes[c].name, l->stalls[e][c]);
            begun = true;
        }
        if (begun) (void)fputs("}", f);
    }
    (void)fputs("}, ", f);
}

/* What else the chip counts: with these a launch's report is whole. */
static void put_counted(FILE *f, const replayed *l) {
    const presil_report *c = &l->counted;
    if (!c->size) return;
    (void)fputs("\"counted\": {", f);
    put_number(f, "segments", c->segments, true);
    put_number(f, "fill", c->fill, true);
    put_number(f, "drain", c->drain, true);
    put_number(f, "read_bytes", c->read_bytes, true);
    put_number(f, "write_bytes", c->write_bytes, true);
    put_number(f, "read_beats", c->read_beats, true);
    put_number(f, "write_beats", c->write_beats, true);
    put_number(f, "commands", c->descriptors, true);
    put_number(f, "sim_ns", c->sim_ns, true);
    (void)fputs("\"counters\": {", f);
    for (uint32_t n = 0, some = 0; n < l->names.counter_count; n++)
        if (l->names.counters[n].name)
            (void)fprintf(f, "%s\"%s\": %" PRIu64, some++ ? ", " : "", l->names.counters[n].name, c->counters[n]);
    (void)fputs("}}, ", f);
}

static void put_launch(FILE *f, const replayed *l) {
    (void)fputs("{", f);
    put_number(f, "launch", l->place, true);
    put_number(f, "number", l->number, true);
    put_member(f, "label", l->label);
    put_member(f, "module", l->module);
    put_member(f, "outcome", outcome_name(l->outcome));
    put_member(f, "status", presil_status_name((presil_status)l->status));
    put_member(f, "recorded_status", presil_status_name((presil_status)l->recorded_status));
    put_member(f, "error", l->error);
    put_number(f, "cycles", l->cycles, l->cycles != 0);
    put_number(f, "recorded_cycles", l->recorded, l->recorded != 0);
    put_stalls(f, l);
    put_counted(f, l);
    put_number(f, "compared_bytes", l->compared, true);
    put_number(f, "stray_bytes", l->stray, true);
    put_number(f, "missing_bytes", l->missing, true);
    (void)fprintf(f, "\"seconds\": %.6f, \"bits_equal\": %s, \"difference\": ", l->seconds,
                  l->bits == BITS_EQUAL    ? "true"
                  : l->bits == BITS_DIFFER ? "false"
                                           : "null");
    const first_difference *d = &l->difference;
    if (d->present) {
        (void)fputs("{", f);
        put_member(f, "where", d->where);
        put_number(f, "address", d->address, true);
        put_number(f, "bytes", d->bytes, true);
        put_number(f, "cycle", d->cycle, d->cycle != UINT64_MAX);
        (void)fprintf(f, "\"expected\": %u, \"found\": %u}", d->expected, d->found);
    } else {
        (void)fputs("null", f);
    }
    if (*l->injected.found) {
        (void)fputs(", \"fault\": {", f);
        put_member(f, "what", l->injected.what);
        put_member(f, "found", l->injected.found);
        put_member(f, "text", l->injected.text);
        (void)fprintf(f, "\"as_expected\": %s, \"exact\": %s, \"healed\": %s}",
                      l->injected.as_expected ? "true" : "false", l->injected.exact ? "true" : "false",
                      l->injected.healed ? "true" : "false");
    }
    (void)fputs("}", f);
}

FILE *open_report(const char *path) {
    FILE *f = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!f) (void)replay_fail(EXIT_USAGE, "%s: can't be written", path);
    return f;
}

int close_report(FILE *f, const char *path) {
    const bool written = fflush(f) == 0 && !ferror(f);
    if (f != stdout) (void)fclose(f);
    return written ? EXIT_PASS : replay_fail(EXIT_USAGE, "%s: writing failed", path);
}

int write_json(const replay *r, const replayed *all, uint64_t count, int outcome) {
    const char *path = r->a->json;
    FILE *f = open_report(path);
    if (!f) return EXIT_USAGE;
    (void)fputs("{", f);
    put_member(f, "bundle", r->a->file);
    put_member(f, "mode", r->a->mode_name);
    put_member(f, "chip", r->info.chip);
    put_member(f, "config", r->info.config);
    put_member(f, "build", r->info.build);
    put_number(f, "clock_mhz", r->info.clock_mhz, r->info.known & PRESIL_INFO_CLOCK_MHZ);
    put_member(f, "rtl", r->identity.rtl);
    put_member(f, "recorded_rtl", r->chip ? r->chip->rtl_hash : "");
    put_member(f, "outcome", outcome_name(outcome));
    (void)fprintf(f, "\"exit\": %d, \"launches\": [", outcome);
    for (uint64_t i = 0; i < count; i++) {
        if (i) (void)fputs(", ", f);
        put_launch(f, &all[i]);
    }
    (void)fputs("]}\n", f);
    return close_report(f, path);
}
