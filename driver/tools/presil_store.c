/* SPDX-License-Identifier: Apache-2.0 */
/* presil-store: looks at a timing store (presil_store.h, docs/hybrid.md), and carries it between machines. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "presil_store.h"

enum { EXIT_DIFFERS = 1, EXIT_USAGE = 2, EXIT_UNUSABLE = 4 };

static const char usage[] =
    "usage: presil-store [--store FILE] [--json] COMMAND [FILE...]\n"
    "\n"
    "What launches cost on the RTL, kept for mode \"hybrid\" (docs/hybrid.md).\n"
    "\n"
    "  info             where it is, how many launches it has, how large it is and may become\n"
    "  list             each launch: cycles, how often it was found, last use, label, key; the last used first\n"
    "  estimates        each launch with the cycles that it would be estimated at if it were not there "
    "(docs/hybrid.md),\n"
    "                   and how far off that is: of each simulator the median, and what 95 of 100 are nearer than\n"
    "  verify           reads all of it: damage of the file or of a row is exit status 1\n"
    "  clear            removes every launch\n"
    "  merge FILE...    adds the launches of other stores, such as another machine's; a launch that has other numbers\n"
    "                   there is exit status 1, and nothing of that file is added\n"
    "  export FILE      a copy as one file, for another machine; with --new-since OTHER of those launches alone that\n"
    "                   the file OTHER lacks, or has with other numbers\n"
    "\n"
    "  --store FILE     else PRESIL_STORE, else presil/timings.sqlite in XDG_CACHE_HOME or ~/.cache\n"
    "  --json           the same as JSON\n"
    "\n"
    "Exit status: 0; 1: verify or merge found something wrong; 2: wrong arguments; 4: the file can't be used.\n";

typedef struct {
    const char *path, *command, *known, **files;
    size_t file_count;
    bool json;
} arguments;

static int misused(const char *what, const char *which) {
    (void)fprintf(stderr, "presil-store: %s%s\npresil-store --help says what there is\n", what, which);
    return EXIT_USAGE;
}

static int failed(int status) {
    (void)fprintf(stderr, "presil-store: %s\n", presil_store_error());
    return status == PRESIL_EMISMATCH ? EXIT_DIFFERS : status == PRESIL_EINVAL ? EXIT_USAGE : EXIT_UNUSABLE;
}

static void json_text(const char *text) {
    (void)putchar('"');
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            (void)printf("\\%c", *c);
        else if (*c < ' ' || *c == 127)
            (void)printf("\\u%04x", *c);
        else
            (void)putchar(*c);
    }
    (void)putchar('"');
}

static int info(presil_store *store, const arguments *a) {
    presil_store_info i = {.size = sizeof i};
    const int status = presil_store_get_info(store, &i);
    if (status) return failed(status);
    if (a->json) {
        (void)fputs("{\"path\": ", stdout);
        json_text(i.path);
        (void)printf(
            ", \"schema\": %u, \"read_only\": %s, \"launches\": %" PRIu64 ", \"simulators\": %" PRIu64
            ", \"bytes\": %" PRIu64 ", \"limit\": %" PRIu64 ", \"uses\": %" PRIu64 ", \"evicted\": %" PRIu64 "}\n",
            i.schema, i.read_only ? "true" : "false", i.rows, i.identities, i.bytes, i.limit, i.uses, i.evicted);
        return 0;
    }
    (void)printf("%s%s, schema %u\n%" PRIu64 " launches of %" PRIu64 " simulators, found %" PRIu64
                 " times; %.1f of at most %.0f MiB, %" PRIu64 " launches had to go\n",
                 i.path, i.read_only ? " (read only)" : "", i.schema, i.rows, i.identities, i.uses,
                 (double)i.bytes / 1048576, (double)i.limit / 1048576, i.evicted);
    return 0;
}

typedef struct {
    bool json, begun;
} listing;

static void key_text(const uint8_t *key, char *to) {
    for (size_t i = 0; i < PRESIL_STORE_KEY_BYTES; i++) (void)snprintf(to + 2 * i, 3, "%02x", key[i]);
}

static int list_one(void *context, const presil_store_row *row) {
    listing *l = context;
    char key[2 * PRESIL_STORE_KEY_BYTES + 1], when[32] = "?", label[64];
    key_text(row->key, key);
    if (l->json) {
        (void)printf("%s{\"key\": \"%s\", \"cycles\": %" PRIu64 ", \"segments\": %u, \"read_bytes\": %" PRIu64
                     ", \"write_bytes\": %" PRIu64 ", \"uses\": %" PRIu64 ", \"used\": %" PRId64 ", \"label\": ",
                     l->begun ? ",\n " : "", key, row->timing.cycles, row->timing.segments, row->timing.read_bytes,
                     row->timing.write_bytes, row->uses, row->used);
        json_text(row->label);
        (void)fputs(", \"identity\": ", stdout);
        json_text(row->identity);
        (void)putchar('}');
    } else {
        const time_t used = (time_t)row->used;
        struct tm parts;
        if (localtime_r(&used, &parts)) (void)strftime(when, sizeof when, "%Y-%m-%d %H:%M", &parts);
        (void)snprintf(label, sizeof label, "%s", row->label);
        for (char *c = label; *c; c++) /* the file's own text */
            if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
        if (!l->begun) (void)printf("%12s %6s  %-16s  %-32s  %s\n", "cycles", "found", "last used", "key", "launch");
        (void)printf("%12" PRIu64 " %6" PRIu64 "  %-16s  %s  %s\n", row->timing.cycles, row->uses, when, key, label);
    }
    l->begun = true;
    return 0;
}

static int list(presil_store *store, const arguments *a) {
    listing l = {.json = a->json};
    if (a->json) (void)putchar('[');
    const int status = presil_store_list(store, list_one, &l);
    if (a->json) (void)puts("]");
    return status ? failed(status) : 0;
}

/* ---- estimates */
enum { SIMULATORS = 64 };
typedef struct {
    bool json, begun;
    struct {
        char *identity;
        uint64_t launches, estimated;
        double median, error, stalls_median, stalls_error;
        bool stalls;
    } of[SIMULATORS];
    size_t count; /* of simulators; what is behind SIMULATORS is listed, and not summed up */
} estimating;

static void sum_up(estimating *s, const presil_store_row *row, const presil_store_estimate *e) {
    size_t k = 0;
    while (k < s->count && strcmp(s->of[k].identity, row->identity) != 0) k++;
    if (k == SIMULATORS) return;
    if (k == s->count && !(s->of[s->count++].identity = strdup(row->identity))) exit(EXIT_UNUSABLE);
    s->of[k].launches++;
    s->of[k].estimated += e->cycles != 0;
    s->of[k].median = e->median_error, s->of[k].error = e->error;
    s->of[k].stalls_median = e->stalls_median, s->of[k].stalls_error = e->stalls_error;
    s->of[k].stalls = e->has_stalls;
}

static int estimate_one(void *context, const presil_store_row *row, const presil_store_estimate *e) {
    estimating *s = context;
    const double off = 100 * ((double)e->cycles / (double)row->timing.cycles - 1);
    sum_up(s, row, e);
    if (s->json) {
        (void)printf("%s{\"cycles\": %" PRIu64 ", \"estimate\": ", s->begun ? ",\n " : "", row->timing.cycles);
        (void)(e->cycles ? printf("%" PRIu64 ", \"label\": ", e->cycles) : fputs("null, \"label\": ", stdout));
        json_text(row->label);
        (void)putchar('}');
    } else {
        if (!s->begun) (void)printf("%12s %12s %9s  %s\n", "cycles", "estimate", "off", "launch");
        (void)printf("%12" PRIu64 " ", row->timing.cycles);
        if (e->cycles)
            (void)printf("%12" PRIu64 " %7.2f %%  ", e->cycles, off);
        else
            (void)printf("%12s %9s  ", "none", "");
        (void)printf("%.60s\n", row->label);
    }
    s->begun = true;
    return 0;
}

static void tell_simulator(const estimating *s, size_t k) {
    const uint64_t launches = s->of[k].launches, estimated = s->of[k].estimated;
    if (s->json) {
        (void)fputs(k ? ", {\"identity\": " : "{\"identity\": ", stdout);
        json_text(s->of[k].identity);
        (void)printf(", \"launches\": %" PRIu64 ", \"estimated\": %" PRIu64 ", \"median_error\": %.6f, \"error\": %.6f",
                     launches, estimated, s->of[k].median, s->of[k].error);
        if (s->of[k].stalls)
            (void)printf(", \"stalls_median\": %.6f, \"stalls_error\": %.6f", s->of[k].stalls_median,
                         s->of[k].stalls_error);
        (void)putchar('}');
        return;
    }
    (void)printf("%" PRIu64 " launches of %.60s...: ", launches, s->of[k].identity);
    if (estimated)
        (void)printf("estimates, each from the others: median %.2f %%, 95 of 100 nearer than %.2f %%\n",
                     100 * s->of[k].median, 100 * s->of[k].error);
    if (estimated && s->of[k].stalls)
        (void)printf("  their stalls, the cause that is furthest off: median %.2f %% of the cycles, 95 of 100 nearer "
                     "than %.2f %%\n",
                     100 * s->of[k].stalls_median, 100 * s->of[k].stalls_error);
    if (!estimated) (void)puts("no estimates: too few, the chip says nothing of them, or they are far off");
}

static int estimates(presil_store *store, const arguments *a) {
    estimating s = {.json = a->json};
    if (a->json) (void)fputs("{\"launches\": [", stdout);
    const int status = presil_store_leave_one_out(store, estimate_one, &s);
    if (a->json) (void)fputs("],\n \"simulators\": [", stdout);
    for (size_t k = 0; k < s.count; k++) {
        tell_simulator(&s, k);
        free(s.of[k].identity);
    }
    if (a->json) (void)puts("]}");
    return status ? failed(status) : 0;
}

static int verify(presil_store *store, const arguments *a) {
    uint64_t damaged = 0;
    const int status = presil_store_check(store, &damaged);
    if (status == PRESIL_EIO) return failed(PRESIL_EMISMATCH);
    if (status) return failed(status);
    if (a->json)
        (void)printf("{\"damaged\": %" PRIu64 "}\n", damaged);
    else
        (void)printf("%" PRIu64 " launches are damaged%s\n", damaged,
                     damaged ? ": they are not used, and will be simulated and written again" : "");
    return damaged ? EXIT_DIFFERS : 0;
}

static int say(const arguments *a, const char *name, const char *text, uint64_t count) {
    if (a->json)
        (void)printf("{\"%s\": %" PRIu64 "}\n", name, count);
    else
        (void)printf("%" PRIu64 " launches %s\n", count, text);
    return 0;
}

static int clear(presil_store *store, const arguments *a) {
    uint64_t removed = 0;
    const int status = presil_store_clear(store, &removed);
    return status ? failed(status) : say(a, "removed", "removed", removed);
}

static int merge(presil_store *store, const arguments *a) {
    uint64_t all = 0;
    for (size_t i = 0; i < a->file_count; i++) {
        uint64_t added = 0;
        const int status = presil_store_merge(store, a->files[i], &added);
        if (status) return failed(status);
        all += added;
    }
    return say(a, "added", "added", all);
}

static int export_to(presil_store *store, const arguments *a) {
    if (a->known) {
        uint64_t count = 0;
        const int done = presil_store_export_new(store, a->known, a->files[0], &count);
        return done ? failed(done) : say(a, "exported", "exported", count);
    }
    const int status = presil_store_export(store, a->files[0]);
    presil_store_info i = {.size = sizeof i};
    if (status || presil_store_get_info(store, &i)) return failed(status);
    return say(a, "exported", "exported", i.rows);
}

static int parse(int argc, char **argv, arguments *a) {
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--json"))
            a->json = true;
        else if ((!strcmp(argv[i], "--store") || !strcmp(argv[i], "--new-since")) && i + 1 == argc)
            return misused("a value is missing behind ", argv[i]);
        else if (!strcmp(argv[i], "--store"))
            a->path = argv[++i];
        else if (!strcmp(argv[i], "--new-since"))
            a->known = argv[++i];
        else if (argv[i][0] == '-')
            return misused("unknown option ", argv[i]);
        else if (!a->command)
            a->command = argv[i];
        else
            a->files[a->file_count++] = argv[i];
    }
    if (!a->command) return misused("a command expected", "");
    return a->known && strcmp(a->command, "export") != 0 ? misused("--new-since is of export, not of ", a->command) : 0;
}

static const struct {
    const char *name;
    int (*run)(presil_store *, const arguments *);
    uint32_t flags;
    size_t least, most; /* files */
} commands[] = {
    {"info", info, PRESIL_STORE_MUST_EXIST, 0, 0},          {"list", list, PRESIL_STORE_READ_ONLY, 0, 0},
    {"estimates", estimates, PRESIL_STORE_READ_ONLY, 0, 0}, {"verify", verify, PRESIL_STORE_READ_ONLY, 0, 0},
    {"clear", clear, PRESIL_STORE_MUST_EXIST, 0, 0},        {"merge", merge, 0, 1, SIZE_MAX},
    {"export", export_to, PRESIL_STORE_READ_ONLY, 1, 1}};

static int run(const arguments *a) {
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, a->command) != 0) continue;
        if (a->file_count < commands[i].least) return misused("a file expected behind ", a->command);
        if (a->file_count > commands[i].most) return misused("too many arguments: ", a->files[commands[i].most]);
        const presil_store_options options = {.size = sizeof options, .flags = commands[i].flags, .path = a->path};
        presil_store *store = NULL;
        int status = presil_store_open(&options, &store);
        if (status) return failed(status);
        status = commands[i].run(store, a);
        presil_store_close(store);
        return status;
    }
    return misused("unknown command ", a->command);
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++)
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) return fputs(usage, stdout) < 0;
    arguments a = {.files = calloc((size_t)argc, sizeof *a.files)};
    if (!a.files) return EXIT_UNUSABLE;
    int status = parse(argc, argv, &a);
    if (!status) status = run(&a);
    free(a.files);
    return status;
}
