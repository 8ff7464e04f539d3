/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome as JUnit XML, in the shape of regress' (docs/regress.md): a suite of one test for each launch, since only
 * suites have properties. */
#include "replay.h"

#include <inttypes.h>
#include <string.h>

/* Texts may be cut in the middle of a character, so what is not ASCII is not passed on. */
static void put_escaped(FILE *f, const char *text) {
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        if (*p == '&')
            (void)fputs("&amp;", f);
        else if (*p == '<')
            (void)fputs("&lt;", f);
        else if (*p == '>')
            (void)fputs("&gt;", f);
        else if (*p == '"')
            (void)fputs("&quot;", f);
        else
            (void)fputc(*p < ' ' || *p > '~' ? (*p == '\n' ? ' ' : '?') : *p, f);
    }
}

static void attribute(FILE *f, const char *name, const char *text) {
    (void)fprintf(f, " %s=\"", name);
    put_escaped(f, text);
    (void)fputc('"', f);
}

static void property(FILE *f, const char *name, const char *text) {
    if (!*text) return;
    (void)fputs("      <property", f);
    attribute(f, "name", name);
    attribute(f, "value", text);
    (void)fputs("/>\n", f);
}

static void count(FILE *f, const char *name, uint64_t value) {
    char text[32];
    (void)snprintf(text, sizeof text, "%" PRIu64, value);
    if (value) property(f, name, text);
}

static bool is_error(const replayed *l) { return l->outcome == EXIT_INTERNAL || l->outcome == EXIT_USAGE; }
static bool is_failure(const replayed *l) { return l->outcome != EXIT_PASS && !is_error(l); }

static void message(const replayed *l, char *out, size_t bytes) {
    const first_difference *d = &l->difference;
    if (*l->error)
        (void)snprintf(out, bytes, "%s", l->error);
    else if (d->present)
        (void)snprintf(out, bytes, "first difference: %s, at 0x%" PRIx64 ": 0x%02x, 0x%02x expected", d->where,
                       d->address, d->found, d->expected);
    else
        (void)snprintf(out, bytes, "%" PRIu64 " cycles, %" PRIu64 " recorded", l->cycles, l->recorded);
}

static void put_suite(FILE *f, const replay *r, const replayed *l) {
    char name[256], again[512], text[2400];
    (void)snprintf(name, sizeof name, "%" PRIu64 " %s%s%s", l->place, l->module, *l->module ? " " : "", l->label);
    (void)snprintf(again, sizeof again, "presil-replay %s --launches %" PRIu64, r->a->file, l->place);
    (void)fputs("  <testsuite", f);
    attribute(f, "name", name);
    (void)fprintf(f, " tests=\"1\" failures=\"%d\" errors=\"%d\" skipped=\"0\" time=\"%.3f\">\n    <properties>\n",
                  is_failure(l), is_error(l), l->seconds);
    property(f, "chip", r->info.config);
    property(f, "build", r->info.build);
    property(f, "mode", r->a->mode_name);
    count(f, "cycles", l->cycles);
    count(f, "recorded_cycles", l->recorded);
    property(f, "status", outcome_name(l->outcome));
    property(f, "unit", l->unit);
    property(f, "bundle", r->a->file);
    property(f, "replay", again);
    (void)fputs("    </properties>\n    <testcase", f);
    attribute(f, "classname", r->a->file);
    attribute(f, "name", name);
    (void)fprintf(f, " time=\"%.3f\"", l->seconds);
    if (l->outcome == EXIT_PASS) {
        (void)fputs("/>\n  </testsuite>\n", f);
        return;
    }
    message(l, text, sizeof text);
    (void)fprintf(f, ">\n      <%s", is_error(l) ? "error" : "failure");
    attribute(f, "type", outcome_name(l->outcome));
    attribute(f, "message", text);
    (void)fputs("/>\n    </testcase>\n  </testsuite>\n", f);
}

int write_junit(const replay *r, const replayed *all, uint64_t launches) {
    const char *path = r->a->junit;
    uint64_t failures = 0, errors = 0;
    FILE *f = open_report(path);
    if (!f) return EXIT_USAGE;
    for (uint64_t i = 0; i < launches; i++) failures += is_failure(&all[i]), errors += is_error(&all[i]);
    (void)fputs("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<testsuites", f);
    attribute(f, "name", "presil-replay");
    (void)fprintf(f, " tests=\"%" PRIu64 "\" failures=\"%" PRIu64 "\" errors=\"%" PRIu64 "\">\n", launches, failures,
                  errors);
    for (uint64_t i = 0; i < launches; i++) put_suite(f, r, &all[i]);
    (void)fputs("</testsuites>\n", f);
    return close_report(f, path);
}
