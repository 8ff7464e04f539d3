/* SPDX-License-Identifier: Apache-2.0 */
/* replay.h - the parts of presil-replay: arguments and the loop (main.c), one launch (run_launch.c), comparing with
 * what was recorded (compare_writes.c), the first command that differs (bisect.c) and the way of what is wrong from
 * there (way.c), the smallest launch that fails alike (minimize.c; smaller.c, of a smaller shape, by operator.h), a
 * testbench (export_sv.c), tables and JSON (print.c), JUnit (junit.c). */
#ifndef PRESIL_REPLAY_H
#define PRESIL_REPLAY_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "presil_bundle.h"
#include "presil_capture.h"

/* Of all programs that eat bundles (docs/replay.md). */
enum {
    EXIT_PASS = 0,
    EXIT_MISMATCH = 1,
    EXIT_USAGE = 2,
    EXIT_HUNG = 3,
    EXIT_INTERNAL = 4,
    EXIT_CYCLES = 5,
    EXIT_SKIPPED = 77
};

enum { MINIMIZE_TRIES = 2000, MINIMIZE_SECONDS = 60 }; /* unless --tries, --seconds say otherwise */

typedef struct {
    const char *file, *mode_name, *build, *library, *transport, *trace, *memory_model, *json, *junit, *minimize,
        *export_sv, *rtl, *top;
    const char *inject, *expect;   /* a fault, and what has to come of it */
    uint64_t seed;                 /* of what is drawn */
    uint64_t tries, seconds;       /* most runs and time of --minimize */
    uint64_t timeout_cycles;       /* of all launches together, of each run of a search; 0: none */
    uint64_t first, end;           /* launches of the file, by their place in it */
    uint64_t from_cycle, to_cycle; /* of the trace */
    uint32_t mode;                 /* presil_mode */
    bool windowed, memory_given, bisect;
} arguments;

typedef struct {
    bool present;
    uint64_t address, bytes, cycle; /* cycle UINT64_MAX: not known */
    uint8_t expected, found;
    char where[256]; /* coordinate, tile, command */
} first_difference;

/* What a fault came to. */
typedef struct {
    char what[64];              /* as it was injected */
    char found[24], text[2048]; /* name of a status, "other bits", "other cycles", "masked"; the error, the place */
    bool healed;                /* where it is not exact: it is behind a reset of the device */
    bool as_expected, exact;    /* exact: the launch behind it took the cycles, and wrote the bits, of the one before */
} injection;

typedef enum { BITS_EQUAL, BITS_DIFFER, BITS_NOT_COMPARED } bits_outcome;

/* What became of one launch. */
typedef struct {
    uint64_t place, number; /* in the file; in the device that ran it */
    char label[64], module[128];
    int status, recorded_status; /* presil_status */
    char error[2048];            /* a hang has a row for each engine */
    uint64_t cycles, recorded;   /* recorded 0: not comparable */
    presil_names names;          /* of the chip that ran it */
    uint64_t stalls[PRESIL_ENGINES][PRESIL_CAUSES];
    uint64_t read_beats, write_beats;
    presil_report counted; /* size 0: it did not run */
    bits_outcome bits;
    first_difference difference;
    uint64_t compared, stray, missing; /* bytes */
    bool known_byte;                   /* compared is the one byte that is known of what it should write */
    double seconds;                    /* inside the transport and the model */
    int outcome;                       /* one of the exit statuses */
    char unit[64]; /* the engine behind which it is wrong first; empty: not known, or not looked for */
    injection injected;
} replayed;

typedef struct {
    uint64_t low, high; /* device addresses: from, up to and without */
} extent;

/* In one of the chip's memories, or in the device's, the first byte that is wrong behind a part of a launch. */
typedef struct {
    char kind[48]; /* what it is called, up to its first number: "scratchpad word", "output" */
    char where[256];
    uint64_t address;
    uint8_t expected, found;
} wrong_place;
enum { MOST_PLACES = 8 };

/* What became of a part of a launch, the chip against the model. */
typedef struct {
    int status; /* presil_status; EMISMATCH: they differ */
    char error[2048];
    first_difference difference;
    uint64_t cycles;
    extent touched; /* what its commands can read or write */
    wrong_place places[MOST_PLACES];
    uint32_t place_count;
} probed;

/* What the model wrote; presil_bundle_free() frees none of it, probe_forget() does. */
typedef struct {
    presil_byte_range *at;
    uint64_t count;
    uint8_t *bytes; /* of all ranges, one behind the other */
} model_writes;

/* What a launch read, as it was: ranges as those of a bundle, their bytes one behind the other. */
typedef struct {
    presil_bundle_range *at;
    uint64_t count, total;
    uint8_t *bytes; /* NULL: no host memory */
} kept_reads;

typedef struct {
    const arguments *a;
    presil_bundle_reader *reader;
    presil_device *device;
    const presil_bundle_chip *chip; /* that `device` was opened as */
    uint64_t chip_number;
    presil_device_info info;
    presil_device_identity identity;
    /* the launch that runs */
    const presil_bundle_launch *record;
    const presil_bundle_result *result; /* recorded; NULL: none */
    replayed *out;
    probed *probe;          /* instead of comparing with what was recorded */
    model_writes model;     /* of the probe */
    kept_reads *reads;      /* of the probe; NULL: not wanted */
    const replayed *before; /* with --inject: the launch without the fault */
    uint64_t taken;         /* cycles of the launches so far */
    bool timed_out;         /* the last one */
    bool injected;          /* a fault that the launch was captured with */
} replay;

/* ---- run_launch.c: EXIT_PASS, or EXIT_USAGE, EXIT_INTERNAL with a text on stderr */
int replay_open_chip(replay *r, uint64_t chip);
void replay_close_chip(replay *r);
int replay_launch(replay *r, uint64_t place, replayed *out);
int replay_take(replay *r, uint64_t place, replayed *out); /* record, device, result; until replay_drop() */
void replay_drop(replay *r);
int replay_put_memory(replay *r);          /* what the launch reads */
int replay_place_scratch(const replay *r); /* where it was, of a device that is opened again */
int replay_put_bytes(const replay *r, presil_daddr address, const void *bytes, uint64_t count); /* a presil_status */
int replay_load(replay *r, presil_list **out);
int replay_probe(replay *r, presil_list *list, probed *out); /* mode VERIFY; a failed launch is EXIT_PASS */
void replay_interrupted(int signal);                         /* a handler */
extern volatile sig_atomic_t replay_stopped;
/* With something done to the device when all is in place: arm(r, argument), which returns as these do. */
int replay_armed(replay *r, uint64_t place, replayed *out, int (*arm)(const replay *, const char *),
                 const char *argument);
__attribute__((format(printf, 2, 3))) int replay_fail(int status, const char *format, ...);

/* ---- inject.c */
int replay_injected(replay *r, uint64_t place, replayed *out);

/* ---- compare_writes.c: in the listener's end() */
void replay_compare(replay *r, const presil_capture_launch *launch, const presil_report *report,
                    const presil_capture_bytes *writes);
void probe_compare(const replay *r, const presil_capture_launch *launch, const presil_report *report);
void describe_address(const replay *r, const presil_capture_launch *launch, uint64_t address, char *text, size_t bytes);

/* ---- way.c: of a probe, all places that are wrong, one of each kind */
void probe_expected(replay *r, const presil_capture_bytes *writes); /* keeps what the model wrote */
void probe_places(replay *r, const presil_capture_launch *launch, const presil_capture_bytes *writes);
void probe_forget(replay *r);

typedef struct {
    wrong_place place;
    uint64_t right, wrong; /* so many commands, and it is right still; it is wrong */
} way_step;

/* The steps of wrong data through the chip's memories, in the order of the commands behind which they show. */
typedef struct {
    way_step steps[MOST_PLACES];
    uint32_t count;
} way;

void way_note(way *w, const probed *p, uint64_t commands); /* behind so many commands */
void way_sort(way *w);

/* ---- bisect.c, minimize.c, export_sv.c: an exit status */
int replay_export_sv(replay *r, uint64_t place); /* mode MODEL: no simulator is opened */
int replay_bisect(replay *r, uint64_t place);
/* The engine of the first command behind which the list goes wrong, up to the first comma of its name; empty: not known
 * (the chip can't run a part of a launch, or it is right when it is watched). Adds its runs. Quiet. */
int replay_first_unit(replay *r, presil_list *list, char *unit, size_t bytes, uint64_t *runs);
/* The same of a launch that failed: into failed->unit. On a device of its own, so r's must be closed. */
int replay_name_unit(const replay *r, replayed *failed);
int replay_minimize(replay *r, uint64_t place);

/* ---- junit.c: an exit status */
int write_junit(const replay *r, const replayed *all, uint64_t launches);

/* ---- print.c */
void print_chip(const replay *r);
void print_head(void);
void print_launch(const replayed *l);
void print_sum(const replayed *all, uint64_t count, int outcome, double seconds);
void put_text(FILE *f, const char *text);    /* a string of JSON */
FILE *open_report(const char *path);         /* -: standard output; NULL: told */
int close_report(FILE *f, const char *path); /* an exit status */
const char *outcome_name(int outcome);
int write_json(const replay *r, const replayed *all, uint64_t count, int outcome);

#endif
