/* SPDX-License-Identifier: Apache-2.0 */
/* presil-replay: the launches of a bundle again, on the RTL, the model, or both: same bits, same cycles? */
#define _POSIX_C_SOURCE 200809L
#include "replay.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

static const char usage[] =
    "usage: presil-replay FILE [OPTIONS]\n"
    "Runs the launches of a bundle (.presil) and compares bits and cycles with what was recorded.\n"
    "\n"
    "  --launches A:B     of the file: from A, up to and without B (either may be missing; A alone: that one)\n"
    "  --mode MODE        rtl (default), model, verify\n"
    "  --library SO       this simulator library\n"
    "  --transport SPEC   socket:PATH\n"
    "  --build BUILD      fast, check, trace; default: as recorded\n"
    "  --memory MODEL     another memory model than the recorded one: cycles are not compared\n"
    "  --trace FST        a waveform, with the chip's build trace\n"
    "  --window A:B       with --trace: of the last launch, these cycles from its doorbell on\n"
    "  --bisect           of one launch: the first command behind which the chip has something else than the model\n"
    "  --minimize OUT     of one launch that fails: the smallest one that fails in the same way, as a bundle\n"
    "    --tries N        with at most so many runs (default 2000),\n"
    "    --seconds S      and in about so many seconds (default 60): what is found until then is written\n"
    "  --export-sv DIR    of one launch: a testbench in SystemVerilog, with memory images and a Makefile\n"
    "    --rtl LIST       with the sources that are named in LIST, one a line\n"
    "    --top MODULE     the chip's top module; default presil_top\n"
    "  --inject FAULT     each launch once more with a fault (docs/simulation.md; or cancel), and once more without:\n"
    "                     that one has to be exactly as before. @?: a beat, cycle or bit drawn from --seed\n"
    "  --expect A|B       with --inject: words of which one has to be in what comes of the fault: the name of a\n"
    "                     status and its text, other bits, other cycles, masked\n"
    "  --seed S           of what --inject draws; default: 0\n"
    "  --timeout-cycles N a launch with which all come to more than N cycles is hung, and the last one (of --bisect "
    "and\n"
    "                     --minimize: a run of more than N)\n"
    "  --json FILE        the outcome as JSON (-: to standard output)\n"
    "  --junit FILE       the outcome as JUnit XML\n"
    "\n"
    "Exit status: 0 as recorded, 1 other bits (or a failed launch), 2 wrong call or unusable file, 3 hung, 4 "
    "internal,\n"
    "5 other cycles.\n";

/* "A:B", "A:", ":B", "A"; last: what a missing B stands for. false: nonsense. */
static bool parse_span(const char *text, uint64_t *from, uint64_t *to, uint64_t last) {
    char *end = NULL;
    *from = 0;
    *to = last;
    errno = 0;
    if (*text != ':') {
        *from = strtoull(text, &end, 10);
        if (end == text || *text == '-' || errno) return false;
        if (!*end) {
            *to = *from + 1;
            return *from != UINT64_MAX;
        }
        text = end;
    }
    if (*text++ != ':') return false;
    if (!*text) return true;
    *to = strtoull(text, &end, 10);
    return end != text && !*end && *text != '-' && !errno && *to >= *from;
}

static bool parse_count(const char *text, uint64_t *out) {
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return end != text && !*end && *text != '-' && !errno && *out;
}

static int bad_value(const char *option, const char *value, const char *expected) {
    return replay_fail(EXIT_USAGE, "--%s %s: %s expected", option, value, expected);
}

static const char identifier[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

static int parse(int argc, char **argv, arguments *a) {
    static const struct option options[] = {{"launches", 1, 0, 'l'},
                                            {"mode", 1, 0, 'm'},
                                            {"library", 1, 0, 's'},
                                            {"transport", 1, 0, 't'},
                                            {"build", 1, 0, 'b'},
                                            {"memory", 1, 0, 'y'},
                                            {"trace", 1, 0, 'w'},
                                            {"window", 1, 0, 'c'},
                                            {"json", 1, 0, 'j'},
                                            {"junit", 1, 0, 'J'},
                                            {"bisect", 0, 0, 'B'},
                                            {"minimize", 1, 0, 'M'},
                                            {"export-sv", 1, 0, 'e'},
                                            {"rtl", 1, 0, 'r'},
                                            {"top", 1, 0, 'T'},
                                            {"inject", 1, 0, 'i'},
                                            {"expect", 1, 0, 'E'},
                                            {"seed", 1, 0, 'd'},
                                            {"tries", 1, 0, 'n'},
                                            {"seconds", 1, 0, 'S'},
                                            {"help", 0, 0, 'h'},
                                            {"timeout-cycles", 1, 0, 'C'},
                                            {0, 0, 0, 0}};
    static const char *const modes[] = {"rtl", "model", "verify"};
    *a = (arguments){.mode_name = "rtl",
                     .end = UINT64_MAX,
                     .to_cycle = UINT64_MAX,
                     .tries = MINIMIZE_TRIES,
                     .seconds = MINIMIZE_SECONDS};
    bool limited = false;
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (c) {
        case 'l':
            if (!parse_span(optarg, &a->first, &a->end, UINT64_MAX)) return bad_value("launches", optarg, "A:B");
            break;
        case 'm': a->mode_name = optarg; break;
        case 's': a->library = optarg; break;
        case 't': a->transport = optarg; break;
        case 'b': a->build = optarg; break;
        case 'y': a->memory_model = optarg, a->memory_given = true; break;
        case 'w': a->trace = optarg; break;
        case 'c':
            if (!parse_span(optarg, &a->from_cycle, &a->to_cycle, UINT64_MAX))
                return bad_value("window", optarg, "A:B");
            a->windowed = true;
            break;
        case 'j': a->json = optarg; break;
        case 'J': a->junit = optarg; break;
        case 'B': a->bisect = true; break;
        case 'M': a->minimize = optarg; break;
        case 'e': a->export_sv = optarg; break;
        case 'r': a->rtl = optarg; break;
        case 'T': a->top = optarg; break;
        case 'i': a->inject = optarg; break;
        case 'E': a->expect = optarg; break;
        case 'd': a->seed = strtoull(optarg, NULL, 0); break;
        case 'C':
            if (!parse_count(optarg, &a->timeout_cycles))
                return bad_value("timeout-cycles", optarg, "a number from 1 on");
            break;
        case 'n':
            if (!parse_count(optarg, &a->tries)) return bad_value("tries", optarg, "a number from 1 on");
            limited = true;
            break;
        case 'S':
            if (!parse_count(optarg, &a->seconds)) return bad_value("seconds", optarg, "a number from 1 on");
            limited = true;
            break;
        case 'h': (void)fputs(usage, stdout); exit(EXIT_PASS);
        default: (void)fputs(usage, stderr); return EXIT_USAGE;
        }
    }
    while (a->mode < 3 && strcmp(modes[a->mode], a->mode_name) != 0) a->mode++;
    if (a->mode == 3) return bad_value("mode", a->mode_name, "rtl, model or verify");
    if (a->windowed && !a->trace) return replay_fail(EXIT_USAGE, "--window is of a waveform: --trace FST is missing");
    if (a->bisect + (a->minimize != NULL) + (a->export_sv != NULL) > 1)
        return replay_fail(EXIT_USAGE, "one of --bisect, --minimize and --export-sv expected, not several");
    if (a->junit && (a->bisect || a->minimize || a->export_sv))
        return replay_fail(EXIT_USAGE,
                           "--junit is of a replay: neither --bisect, --minimize nor --export-sv go with it");
    if (limited && !a->minimize)
        return replay_fail(EXIT_USAGE, "--tries and --seconds are of a search: --minimize OUT is missing");
    if ((a->rtl || a->top) && !a->export_sv)
        return replay_fail(EXIT_USAGE, "--rtl and --top are of a testbench: --export-sv DIR is missing");
    if (a->top && a->top[strspn(a->top, identifier)])
        return bad_value("top", a->top, "a module's name (letters, digits, _)");
    if (a->export_sv) a->mode = PRESIL_MODE_MODEL, a->mode_name = "model";
    if ((a->bisect || a->minimize) && (a->trace || a->mode == PRESIL_MODE_MODEL))
        return replay_fail(EXIT_USAGE,
                           "--%s compares the chip with the model: neither --mode model nor --trace go "
                           "with it",
                           a->bisect ? "bisect" : "minimize");
    if (a->bisect || a->minimize) a->mode = PRESIL_MODE_VERIFY, a->mode_name = "verify";
    if (a->trace && a->mode == PRESIL_MODE_MODEL)
        return replay_fail(EXIT_USAGE, "--trace: the model has no signals; --mode rtl or verify expected");
    if (a->windowed && a->inject)
        return replay_fail(EXIT_USAGE, "--window is of one launch, --inject makes three: one of them expected");
    if (a->expect && !a->inject) return replay_fail(EXIT_USAGE, "--expect is of a fault: --inject FAULT is missing");
    if (argc - optind != 1) {
        (void)fputs(usage, stderr);
        return replay_fail(EXIT_USAGE, "one file expected, %d found", argc - optind);
    }
    a->file = argv[optind];
    return EXIT_PASS;
}

static double now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int start_trace(const replay *r, uint64_t count) {
    const arguments *a = r->a;
    if (!a->trace) return EXIT_PASS;
    const uint64_t launches = a->inject ? 3 * count : count;
    const int status = a->windowed
                           ? presil_device_trace_window(r->device, a->trace, count - 1, a->from_cycle, a->to_cycle)
                           : presil_device_trace(r->device, a->trace, 0, launches);
    return status ? replay_fail(EXIT_USAGE, "%s", presil_error_text()) : EXIT_PASS;
}

/* A wrong bit is more than a hang, a hang more than other cycles; what can't be judged ends the run. */
static int worst(int a, int b) {
    static const int order[] = {EXIT_INTERNAL, EXIT_USAGE, EXIT_MISMATCH, EXIT_HUNG, EXIT_CYCLES, EXIT_PASS};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (a == order[i] || b == order[i]) return order[i];
    }
    return EXIT_INTERNAL;
}

static int first_chip(replay *r, uint64_t place) {
    const presil_bundle_launch *l = NULL;
    if (presil_bundle_get_launch(r->reader, place, &l))
        return replay_fail(EXIT_USAGE, "%s: %s", r->a->file, presil_bundle_error_text());
    const uint64_t chip = l->chip;
    presil_bundle_free(l);
    return replay_open_chip(r, chip);
}

/* A waveform without a change. */
static bool is_empty(const char *path) {
    struct stat s;
    return stat(path, &s) == 0 && s.st_size == 0;
}

/* With the engine of the first launch that failed alone: it takes a dozen runs, and the others mostly follow from it. A
 * launch whose engine can't be named failed all the same. */
static int junit(replay *r, replayed *all, uint64_t count) {
    uint64_t i = 0;
    while (i < count && all[i].outcome != EXIT_MISMATCH && all[i].outcome != EXIT_HUNG) i++;
    if (i < count && !r->a->inject && r->a->mode != PRESIL_MODE_MODEL && !replay_stopped) {
        replay_close_chip(r);
        (void)replay_name_unit(r, &all[i]);
    }
    return write_junit(r, all, count);
}

static int replay_all(replay *r, uint64_t first, uint64_t count) {
    const arguments *a = r->a;
    replayed *all = calloc(count, sizeof *all);
    if (!all) return replay_fail(EXIT_INTERNAL, "no host memory for %llu launches", (unsigned long long)count);
    const bool quiet = a->json && strcmp(a->json, "-") == 0;
    const double start = now();
    int status = first_chip(r, first), outcome = EXIT_PASS;
    if (!status) status = start_trace(r, count);
    if (!status && !quiet) {
        print_chip(r);
        print_head();
    }
    uint64_t done = 0;
    while (done < count && !status) {
        status = (a->inject ? replay_injected : replay_launch)(r, first + done, &all[done]);
        if (status) break;
        outcome = worst(outcome, all[done].outcome);
        if (!quiet) print_launch(&all[done]);
        if (all[done++].status == PRESIL_ECANCELLED || r->timed_out || replay_stopped) break;
    }
    if (status) outcome = worst(outcome, status);
    if (r->timed_out && done < count)
        (void)replay_fail(0, "time-out (--timeout-cycles %llu): launches %llu to %llu are not replayed",
                          (unsigned long long)a->timeout_cycles, (unsigned long long)(first + done),
                          (unsigned long long)(first + count - 1));
    if (done && !quiet) print_sum(all, done, outcome, now() - start);
    if (!status && a->windowed && done == count && is_empty(a->trace))
        outcome =
            worst(outcome,
                  replay_fail(EXIT_USAGE,
                              "--window from cycle %llu: %s is empty, since the last launch ends in cycle %llu: choose "
                              "cycles before that",
                              (unsigned long long)a->from_cycle, a->trace, (unsigned long long)all[done - 1].cycles));
    if (a->json && r->chip) {
        const int failed = write_json(r, all, done, outcome);
        if (failed) outcome = worst(outcome, failed);
    }
    if (a->junit && r->chip) {
        const int failed = junit(r, all, done);
        if (failed) outcome = worst(outcome, failed);
    }
    free(all);
    return outcome;
}

int main(int argc, char **argv) {
    arguments a;
    replay r = {.a = &a};
    int status = parse(argc, argv, &a);
    if (status) return status;
    if (presil_bundle_open(a.file, NULL, &r.reader)) return replay_fail(EXIT_USAGE, "%s", presil_bundle_error_text());
    presil_bundle_summary s = {.size = sizeof s};
    status = presil_bundle_get_summary(r.reader, &s) ? replay_fail(EXIT_USAGE, "%s", presil_bundle_error_text()) : 0;
    if (!status && s.torn)
        (void)replay_fail(0, "%s is not whole (%s): what is before that is replayed", a.file, s.tear_text);
    if (a.end > s.launches) a.end = s.launches;
    if (!status && a.first >= a.end)
        status =
            replay_fail(EXIT_USAGE, "%s has %llu launches: none is chosen", a.file, (unsigned long long)s.launches);
    const struct sigaction on_interrupt = {.sa_handler = replay_interrupted, .sa_flags = (int)SA_RESETHAND};
    (void)sigaction(SIGINT, &on_interrupt, NULL);
    const char *single = a.bisect ? "bisect" : a.minimize ? "minimize" : a.export_sv ? "export-sv" : NULL;
    if (!status && single && a.end - a.first != 1)
        status = replay_fail(EXIT_USAGE, "--%s is of one launch, %llu are chosen: --launches A", single,
                             (unsigned long long)(a.end - a.first));
    if (!status)
        status = a.bisect      ? replay_bisect(&r, a.first)
                 : a.minimize  ? replay_minimize(&r, a.first)
                 : a.export_sv ? replay_export_sv(&r, a.first)
                               : replay_all(&r, a.first, a.end - a.first);
    replay_close_chip(&r);
    presil_bundle_reader_close(r.reader);
    return status;
}
