/* SPDX-License-Identifier: Apache-2.0 */
/* presil-bundle: shows, converts and cuts bundles (docs/bundle.md). Needs no chip, no driver, no Python. */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "format.h"

static const char usage[] =
    "usage: presil-bundle info FILE [--json] [--verify]\n"
    "       presil-bundle convert FILE [--contents]                      JSON lines on standard output\n"
    "       presil-bundle extract FILE --launches A:B --out FILE [--overwrite]\n"
    "       presil-bundle attachment FILE NAME --out FILE [--overwrite]\n"
    "  --verify     read and check the contents of every record, too\n"
    "  --contents   blocks and attachments as well, in base64 (default: only how many bytes)\n"
    "  --launches   by their number in the file, as info shows it, from A to before B: 3:5, 3:, :5, or 3 alone\n"
    "Exit: 0; 2 wrong arguments, a file that can't be read or written, or (--verify, convert) one that is torn or\n"
    "damaged.\n";

enum { EXIT_UNUSABLE = 2, SHOWN_LAUNCHES = 60 };

typedef struct {
    const char *command, *file, *name, *out;
    bool json, verify, contents, overwrite;
    uint64_t first, last; /* launches */
    bool has_launches;
} arguments;

static int fail(const char *text) {
    (void)fprintf(stderr, "presil-bundle: %s\n", text);
    return EXIT_UNUSABLE;
}
static int failed(void) { return fail(presil_bundle_error_text()); }

static int misused(const char *what, const char *which) {
    (void)fprintf(stderr, "presil-bundle: %s%s\n%s", what, which, usage);
    return EXIT_UNUSABLE;
}

/* ---- arguments */
static bool parse_launches(const char *text, arguments *a) {
    char *end;
    a->first = 0;
    a->last = UINT64_MAX;
    a->has_launches = true;
    if (*text == '-') return false;
    if (*text != ':') {
        a->first = strtoull(text, &end, 10);
        if (end == text) return false;
        if (!*end) a->last = a->first + 1;
        text = end;
    }
    if (!*text) return true;
    if (*text++ != ':') return false;
    if (!*text) return true;
    if (*text < '0' || *text > '9') return false;
    a->last = strtoull(text, &end, 10);
    return !*end && a->first < a->last;
}

static int parse(int argc, char **argv, arguments *a) {
    for (int i = 1; i < argc; i++) {
        const bool last = i + 1 == argc;
        if (!strcmp(argv[i], "--json"))
            a->json = true;
        else if (!strcmp(argv[i], "--verify"))
            a->verify = true;
        else if (!strcmp(argv[i], "--contents"))
            a->contents = true;
        else if (!strcmp(argv[i], "--overwrite"))
            a->overwrite = true;
        else if ((!strcmp(argv[i], "--out") || !strcmp(argv[i], "--launches")) && last)
            return misused("a value is missing behind ", argv[i]);
        else if (!strcmp(argv[i], "--out"))
            a->out = argv[++i];
        else if (!strcmp(argv[i], "--launches")) {
            if (!parse_launches(argv[++i], a)) return misused("--launches: A:B, A:, :B or A expected, found ", argv[i]);
        } else if (argv[i][0] == '-' && argv[i][1])
            return misused("unknown option ", argv[i]);
        else if (!a->command)
            a->command = argv[i];
        else if (!a->file)
            a->file = argv[i];
        else if (!a->name)
            a->name = argv[i];
        else
            return misused("too many arguments: ", argv[i]);
    }
    if (!a->command || !a->file) return misused("a command and a file expected", "");
    return 0;
}

/* ---- info */
/* Texts are the file's: what a terminal might obey is not shown. The last eight stay valid. */
static const char *plain(const char *text) {
    static char buffers[8][256];
    static unsigned turn;
    char *to = buffers[turn++ % 8];
    (void)snprintf(to, sizeof *buffers, "%s", text);
    for (char *c = to; *c; c++) {
        if ((unsigned char)*c < ' ' || *c == 127) *c = '?';
    }
    return to;
}

static void print_difference_json(const presil_bundle_difference *d) {
    if (!d->present) return;
    (void)printf(", \"difference\": {\"address\": %" PRIu64 ", \"expected\": %u, \"found\": %u, \"bytes\": %" PRIu64
                 ", \"cycle\": ",
                 d->address.value, d->expected, d->found, d->bytes);
    if (d->cycle == UINT64_MAX)
        (void)fputs("null", stdout);
    else
        (void)printf("%" PRIu64, d->cycle);
    (void)fputs(", \"text\": ", stdout);
    bundle_json_text(stdout, d->text);
    (void)fputs("}", stdout);
}

static const char *verdict(const presil_bundle_result *r) {
    return r->status == PRESIL_EMISMATCH || r->verified == 0 ? "differs" : r->status ? "failed" : "ok";
}

static int print_result(const presil_bundle_result *r, bool json, bool first) {
    if (json) {
        (void)fputs(first ? "" : ", ", stdout);
        (void)fputs("{\"executor\": ", stdout);
        bundle_json_text(stdout, r->executor);
        (void)printf(", \"status\": %d, \"verified\": %d, \"cycles\": %" PRIu64 ", \"written_bytes\": %" PRIu64
                     ", \"error\": ",
                     r->status, r->verified, r->cycles, r->writes ? r->writes->bytes : 0);
        bundle_json_text(stdout, r->error);
        print_difference_json(&r->difference);
        (void)fputs("}", stdout);
        return 0;
    }
    (void)printf("  %s %s", plain(r->executor), verdict(r));
    if (r->cycles) (void)printf(" %" PRIu64 " cycles", r->cycles);
    if (r->difference.present) (void)printf(" (%s)", plain(r->difference.text));
    return 0;
}

static int print_results(presil_bundle_reader *r, uint64_t launch, bool json) {
    bool first = true;
    for (uint64_t from = 0;; from++) {
        const presil_bundle_result *result;
        int status = presil_bundle_next_result(r, launch, from, &from);
        if (status || from == UINT64_MAX) return status;
        status = presil_bundle_get_result(r, from, &result);
        if (status) return status;
        (void)print_result(result, json, first);
        presil_bundle_free(result);
        first = false;
    }
}

static const char *module_of(const presil_bundle_launch *l) {
    for (uint32_t i = 0; i < l->label_count; i++) {
        if (!strcmp(l->labels[i].key, "module")) return l->labels[i].value;
    }
    return "";
}

/* What a launch writes: what it should, or else what its first result did. */
static int written_bytes(presil_bundle_reader *r, uint64_t launch, const presil_bundle_launch *l, uint64_t *bytes) {
    *bytes = l->expected ? l->expected->bytes : 0;
    for (uint64_t from = 0; !*bytes; from++) {
        const presil_bundle_result *result;
        int status = presil_bundle_next_result(r, launch, from, &from);
        if (status || from == UINT64_MAX) return status;
        status = presil_bundle_get_result(r, from, &result);
        if (status) return status;
        *bytes = result->writes ? result->writes->bytes : 0;
        presil_bundle_free(result);
    }
    return 0;
}

static int print_launch(presil_bundle_reader *r, uint64_t number, bool json) {
    const presil_bundle_launch *l;
    int status = presil_bundle_get_launch(r, number, &l);
    if (status) return status;
    const uint64_t reads = l->reads ? l->reads->bytes : 0, expected = l->expected ? l->expected->bytes : 0;
    if (json) {
        (void)printf("%s\n  {\"number\": %" PRIu64 ", \"chip\": %" PRIu64 ", \"launch\": %" PRIu64 ", \"label\": ",
                     number ? "," : "", number, l->chip, l->launch);
        bundle_json_text(stdout, l->label);
        (void)fputs(", \"module\": ", stdout);
        bundle_json_text(stdout, module_of(l));
        (void)printf(", \"macs\": %" PRIu64 ", \"estimate\": %" PRIu64 ", \"command_bytes\": %" PRIu64
                     ", \"read_bytes\": %" PRIu64 ", \"expected_bytes\": %" PRIu64 ", \"results\": [",
                     l->macs, l->estimate, l->commands.bytes, reads, expected);
    } else {
        uint64_t written;
        status = written_bytes(r, number, l, &written);
        (void)printf("%6" PRIu64 "  %-24.24s %-28.28s %11" PRIu64 " %11" PRIu64, number, plain(l->label),
                     plain(module_of(l)), reads, written);
    }
    presil_bundle_free(l);
    if (!status) status = print_results(r, number, json);
    (void)fputs(json ? "]}" : "\n", stdout);
    return status;
}

/* 0: the chip tells none. */
static void print_told(const char *name, uint64_t value) {
    if (value)
        (void)printf("\"%s\": %" PRIu64 ", ", name, value);
    else
        (void)printf("\"%s\": null, ", name);
}

static int print_chip(presil_bundle_reader *r, uint64_t number, bool json) {
    const presil_bundle_chip *c;
    const int status = presil_bundle_get_chip(r, number, &c);
    if (status) return status;
    if (json) {
        const char *const names[] = {"chip",     "config",       "build",        "transport",      "simulator",
                                     "rtl_hash", "library_hash", "memory_model", "presil_version", "torch_version"};
        const char *const values[] = {c->chip,           c->config,       c->build,        c->transport,
                                      c->simulator,      c->rtl_hash,     c->library_hash, c->memory_model,
                                      c->presil_version, c->torch_version};
        (void)fputs(number ? ", {" : "{", stdout);
        for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
            (void)printf("\"%s\": ", names[i]);
            bundle_json_text(stdout, values[i]);
            (void)fputs(", ", stdout);
        }
        print_told("config_hash", c->config_hash);
        print_told("clock_mhz", c->clock_mhz);
        (void)printf("\"memory_base\": %" PRIu64 ", \"memory_bytes\": %" PRIu64 ", \"seed\": %" PRIu64 "}",
                     c->memory_base.value, c->memory_bytes, c->seed);
    } else {
        (void)printf("chip %-9" PRIu64 "%s, configuration %s", number, plain(c->chip), plain(c->config));
        if (c->config_hash) (void)printf(" (hash %08" PRIx64 ")", c->config_hash);
        (void)printf(", build %s, %s\n", plain(c->build), plain(c->simulator));
        (void)printf("              memory %.1f GiB from 0x%" PRIx64 ", model %s, seed %" PRIu64 "; Presil %s\n",
                     (double)c->memory_bytes / (double)(1 << 30), c->memory_base.value,
                     *c->memory_model ? plain(c->memory_model) : "default", c->seed, plain(c->presil_version));
    }
    presil_bundle_free(c);
    return 0;
}

static int print_labels(presil_bundle_reader *r, bool json) {
    const presil_bundle_pair *pairs;
    uint32_t count;
    const int status = presil_bundle_get_labels(r, &pairs, &count);
    if (status) return status;
    for (uint32_t i = 0; i < count; i++) {
        if (json) {
            (void)fputs(i ? ", " : "", stdout);
            bundle_json_text(stdout, pairs[i].key);
            (void)fputs(": ", stdout);
            bundle_json_text(stdout, pairs[i].value);
        } else {
            (void)printf("label         %s: %s\n", plain(pairs[i].key), plain(pairs[i].value));
        }
    }
    presil_bundle_free(pairs);
    return 0;
}

static int print_attachments(presil_bundle_reader *r, const presil_bundle_summary *s, bool json) {
    for (uint64_t i = 0; i < s->attachments; i++) {
        const presil_bundle_attachment *a;
        const int status = presil_bundle_get_attachment(r, i, &a);
        if (status) return status;
        if (json) {
            (void)fputs(i ? ", {\"name\": " : "{\"name\": ", stdout);
            bundle_json_text(stdout, a->name);
            (void)fputs(", \"media_type\": ", stdout);
            bundle_json_text(stdout, a->media_type);
            (void)printf(", \"bytes\": %" PRIu64 "}", a->bytes);
        } else {
            (void)printf("attachment    %s (%s), %" PRIu64 " bytes\n", plain(a->name), plain(a->media_type), a->bytes);
        }
        presil_bundle_free(a);
    }
    return 0;
}

static void print_summary(const presil_bundle_summary *s, const char *file, bool json) {
    if (json) {
        (void)fputs("{\"file\": ", stdout);
        bundle_json_text(stdout, file);
        (void)printf(", \"version\": [%u, %u], \"id\": ", s->major, s->minor);
        bundle_json_hex(stdout, s->id, sizeof s->id);
        (void)printf(", \"torn\": %s, \"tear\": ", s->torn ? "true" : "false");
        bundle_json_text(stdout, s->tear_text);
        (void)printf(",\n \"file_bytes\": %" PRIu64 ", \"good_bytes\": %" PRIu64 ", \"records\": %" PRIu64
                     ", \"blocks\": %" PRIu64 ", \"unknown\": %" PRIu64 ", \"raw_bytes\": %" PRIu64
                     ", \"stored_bytes\": %" PRIu64,
                     s->file_bytes, s->good_bytes, s->records, s->blocks, s->unknown, s->raw_bytes, s->stored_bytes);
        return;
    }
    (void)printf("file          %s, %.2f MB, format %u.%u\n", file, (double)s->file_bytes / 1e6, s->major, s->minor);
    (void)printf("state         %s\n", s->torn ? s->tear_text : "whole");
    (void)printf("records       %" PRIu64 ": %" PRIu64 " launches, %" PRIu64 " results, %" PRIu64
                 " blocks; %.2f MB of contents, %.2f MB stored\n",
                 s->records, s->launches, s->results, s->blocks, (double)s->raw_bytes / 1e6,
                 (double)s->stored_bytes / 1e6);
}

static int print_all(presil_bundle_reader *r, const presil_bundle_summary *s, const arguments *a) {
    print_summary(s, a->file, a->json);
    (void)fputs(a->json ? ",\n \"chips\": [" : "", stdout);
    int status = 0;
    for (uint64_t i = 0; i < s->chips && !status; i++) status = print_chip(r, i, a->json);
    (void)fputs(a->json ? "],\n \"labels\": {" : "", stdout);
    if (!status) status = print_labels(r, a->json);
    (void)fputs(a->json ? "},\n \"attachments\": [" : "", stdout);
    if (!status) status = print_attachments(r, s, a->json);
    (void)fputs(a->json ? "],\n \"launches\": [" : "", stdout);
    if (!a->json && s->launches)
        (void)printf("number  %-24s %-28s %11s %11s  results\n", "label", "module", "reads", "writes");
    const uint64_t shown = a->json || s->launches < SHOWN_LAUNCHES ? s->launches : SHOWN_LAUNCHES;
    for (uint64_t i = 0; i < shown && !status; i++) status = print_launch(r, i, a->json);
    if (shown < s->launches) (void)printf("... and %" PRIu64 " more (--json has all)\n", s->launches - shown);
    (void)fputs(a->json ? "]}\n" : "", stdout);
    return status;
}

static int info(presil_bundle_reader *r, const presil_bundle_summary *s, const arguments *a) {
    if (print_all(r, s, a)) {
        (void)fflush(stdout);
        return failed();
    }
    return a->verify && s->torn ? fail(s->tear_text) : 0;
}

/* ---- convert */
static int convert_record(presil_bundle_reader *r, uint64_t number, bool contents) {
    presil_bundle_record record = {.size = sizeof record};
    int status = presil_bundle_get_record(r, number, &record);
    if (status) return status;
    const char *name = bundle_type_name(record.type);
    const bundle_fields *fields = bundle_fields_of(record.type);
    (void)printf("{\"record\": %" PRIu64 ", \"type\": ", number);
    if (name)
        bundle_json_text(stdout, name);
    else
        (void)printf("%u", record.type);
    (void)printf(", \"raw_bytes\": %" PRIu64 ", \"stored_bytes\": %" PRIu64 ", \"hash\": ", record.raw_bytes,
                 record.stored_bytes);
    bundle_json_hex(stdout, record.hash, sizeof record.hash);
    const void *raw;
    uint64_t bytes;
    if (fields || contents) status = presil_bundle_get_raw(r, number, &raw, &bytes);
    if (!status && fields) {
        (void)fputs(", \"fields\": ", stdout);
        status = bundle_json_fields(stdout, fields, raw, bytes, contents, name);
        if (status) (void)fputs("null", stdout);
        presil_bundle_free(raw);
    } else if (!status && contents) {
        (void)fputs(", \"contents\": ", stdout);
        bundle_json_base64(stdout, raw, bytes);
        presil_bundle_free(raw);
    }
    if (status) {
        (void)fputs(", \"error\": ", stdout);
        bundle_json_text(stdout, presil_bundle_error_text());
    }
    (void)fputs("}\n", stdout);
    return status;
}

static int convert(presil_bundle_reader *r, const presil_bundle_summary *s, const arguments *a) {
    (void)printf("{\"format\": \"presil bundle\", \"version\": [%u, %u], \"id\": ", s->major, s->minor);
    bundle_json_hex(stdout, s->id, sizeof s->id);
    (void)printf(", \"file_bytes\": %" PRIu64 ", \"records\": %" PRIu64 ", \"torn\": %s, \"tear\": ", s->file_bytes,
                 s->records, s->torn ? "true" : "false");
    bundle_json_text(stdout, s->tear_text);
    (void)fputs("}\n", stdout);
    bool damaged = false;
    for (uint64_t i = 0; i < s->records; i++) damaged |= convert_record(r, i, a->contents) != 0;
    if (fflush(stdout)) return fail("standard output can't be written");
    if (damaged) return fail("damaged records: their lines have an \"error\"");
    return s->torn ? fail(s->tear_text) : 0;
}

/* ---- extract */
static int copy_block(presil_bundle_reader *r, presil_bundle_group *g, const presil_bundle_id *id) {
    presil_bundle_id same;
    if (!id->bytes) return 0;
    if (id->bytes > 256u << 20) return bundle_fail(PRESIL_EINVAL, "a block of more than 256 MiB");
    void *data = malloc(id->bytes);
    int status = data ? presil_bundle_get_block(r, id, data) : bundle_fail(PRESIL_EHOSTMEM, "no memory for a block");
    if (!status) status = presil_bundle_put_block(g, data, id->bytes, &same);
    free(data);
    return status;
}

static int copy_memory(presil_bundle_reader *r, presil_bundle_group *g, const presil_bundle_memory *m) {
    int status = 0;
    for (uint64_t i = 0; m && i < m->piece_count && !status; i++) status = copy_block(r, g, &m->pieces[i].block);
    return status;
}

static int copy_results(presil_bundle_reader *r, presil_bundle_group *g, uint64_t launch) {
    for (uint64_t from = 0;; from++) {
        const presil_bundle_result *result;
        int status = presil_bundle_next_result(r, launch, from, &from);
        if (status || from == UINT64_MAX) return status;
        status = presil_bundle_get_result(r, from, &result);
        if (status) return status;
        status = copy_memory(r, g, result->writes);
        if (!status) status = presil_bundle_put_result(g, result);
        presil_bundle_free(result);
        if (status) return status;
    }
}

static int copy_launch(presil_bundle_reader *r, presil_bundle_group *g, uint64_t number) {
    const presil_bundle_launch *l;
    int status = presil_bundle_get_launch(r, number, &l);
    if (status) return status;
    status = copy_block(r, g, &l->commands);
    if (!status) status = copy_memory(r, g, l->reads);
    if (!status) status = copy_memory(r, g, l->expected);
    if (!status) status = presil_bundle_put_launch(g, l);
    presil_bundle_free(l);
    return status ? status : copy_results(r, g, number);
}

/* Those of the whole file, and those of the launches that are taken. */
static int copy_attachments(presil_bundle_reader *r, presil_bundle_group *g, const presil_bundle_summary *s,
                            const arguments *a) {
    int status = 0;
    for (uint64_t i = 0; i < s->attachments && !status; i++) {
        const presil_bundle_attachment *one;
        uint64_t launch = a->first;
        status = presil_bundle_get_attachment(r, i, &one);
        if (status) return status;
        const bool known = !one->has_launch || !presil_bundle_find_launch(r, one->chip, one->launch, &launch);
        if (known && launch >= a->first && launch < a->last) status = presil_bundle_put_attachment(g, one);
        presil_bundle_free(one);
    }
    return status;
}

static int copy_all(presil_bundle_reader *r, presil_bundle_writer *w, const presil_bundle_summary *s,
                    const arguments *a) {
    const presil_bundle_pair *pairs;
    presil_bundle_group *g;
    uint32_t count;
    int status = 0;
    for (uint64_t i = 0; i < s->chips && !status; i++) {
        const presil_bundle_chip *chip;
        status = presil_bundle_get_chip(r, i, &chip);
        if (status) return status;
        status = presil_bundle_put_chip(w, chip, NULL);
        presil_bundle_free(chip);
    }
    if (!status) status = presil_bundle_get_labels(r, &pairs, &count);
    if (status) return status;
    if (count) status = presil_bundle_put_labels(w, pairs, count);
    presil_bundle_free(pairs);
    time_t told = time(NULL) + 1;
    for (uint64_t i = a->first; i < a->last && i < s->launches && !status; i++) {
        status = presil_bundle_begin(w, &g);
        if (!status) status = copy_launch(r, g, i);
        if (!status) status = presil_bundle_commit(g);
        if (time(NULL) <= told) continue;
        told = time(NULL);
        (void)fprintf(stderr, "presil-bundle: launch %" PRIu64 " of %" PRIu64 "\n", i + 1, s->launches);
    }
    if (!status) status = presil_bundle_begin(w, &g);
    if (!status) status = copy_attachments(r, g, s, a);
    return status ? status : presil_bundle_commit(g);
}

static int extract(presil_bundle_reader *r, const presil_bundle_summary *s, const arguments *a) {
    if (!a->has_launches || !a->out) return misused("extract: --launches and --out expected", "");
    if (a->first >= s->launches) return fail("extract: no such launch is in the file; info shows which there are");
    const presil_bundle_write_options options = {.size = sizeof options, .overwrite = a->overwrite};
    presil_bundle_writer *w;
    if (presil_bundle_create(a->out, &options, &w)) return failed();
    if (copy_all(r, w, s, a)) {
        const int status = failed();
        presil_bundle_abort(w);
        return status;
    }
    return presil_bundle_close(w) ? failed() : 0;
}

/* ---- attachment: to where the user says, never to where the file says */
static int write_out(const presil_bundle_attachment *found, const arguments *a) {
    FILE *f = fopen(a->out, a->overwrite ? "wb" : "wbx");
    if (!f || fwrite(found->data, 1, found->bytes, f) != found->bytes) {
        perror(a->out);
        if (f) (void)fclose(f);
        return EXIT_UNUSABLE;
    }
    if (!fclose(f)) return 0;
    perror(a->out);
    return EXIT_UNUSABLE;
}

static int attachment(presil_bundle_reader *r, const presil_bundle_summary *s, const arguments *a) {
    if (!a->name || !a->out) return misused("attachment: its name and --out expected", "");
    for (uint64_t i = 0; i < s->attachments; i++) {
        const presil_bundle_attachment *one;
        if (presil_bundle_get_attachment(r, i, &one)) return failed();
        const bool found = !strcmp(one->name, a->name);
        const int status = found ? write_out(one, a) : 0;
        presil_bundle_free(one);
        if (found) return status;
    }
    return fail("attachment: none of this name is in the file; info shows which there are");
}

int main(int argc, char **argv) {
    arguments a = {0};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-h") || !strcmp(argv[i], "--help")) return fputs(usage, stdout) < 0;
    }
    const int wrong = parse(argc, argv, &a);
    if (wrong) return wrong;
    static const struct {
        const char *name;
        int (*run)(presil_bundle_reader *, const presil_bundle_summary *, const arguments *);
    } commands[] = {{"info", info}, {"convert", convert}, {"extract", extract}, {"attachment", attachment}};
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        if (strcmp(commands[i].name, a.command) != 0) continue;
        const presil_bundle_read_options options = {.size = sizeof options, .verify = a.verify};
        presil_bundle_summary summary = {.size = sizeof summary};
        presil_bundle_reader *reader;
        if (presil_bundle_open(a.file, &options, &reader)) return failed();
        int status = presil_bundle_get_summary(reader, &summary) ? failed() : commands[i].run(reader, &summary, &a);
        presil_bundle_reader_close(reader);
        return status;
    }
    return misused("unknown command ", a.command);
}
