/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_jobs.h - launches on all cores: the device's executor (mode MODEL) answers at once; each launch then goes with
 * what it reads to one of several processes, each with a chip of its own, which runs it on the RTL and compares. Bits,
 * cycles and counters are those of mode VERIFY, one launch after the other, because they depend on a launch's inputs
 * alone (docs/jobs.md). The rules of presil.h hold.
 */
#ifndef PRESIL_JOBS_H
#define PRESIL_JOBS_H

#include "presil_capture.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct presil_jobs presil_jobs;

/* Where launches' cycles are known from (presil_store_timings() makes one): a launch that is known, and not sampled, is
 * not run; its report has the mode HYBRID, verified -1. */
enum { PRESIL_JOBS_KEY = 16 };
enum presil_jobs_known {
    PRESIL_JOBS_NEVER = -1,  /* its cycles can't be known from others' */
    PRESIL_JOBS_UNKNOWN = 0, /* it runs; keep() is told if it was compared and equal */
    PRESIL_JOBS_KNOWN = 1,
    PRESIL_JOBS_SAMPLED = 2,   /* KNOWN, but it runs, and check() is told */
    PRESIL_JOBS_ESTIMATED = 3, /* it doesn't run: *report's cycles are an estimate, and it says so */
};
typedef struct {
    uint32_t size, reserved0;
    void *context;
    /* On the device's thread, before the launch. timing: presil_device_identity.timing of the processes. UNKNOWN: fills
     * in key; else *report's cycles and what the chip counts, too. */
    int (*find)(void *context, const char *timing, const presil_capture_launch *launch, uint8_t key[PRESIL_JOBS_KEY],
                presil_report *report);
    /* On a thread of the jobs' own. */
    void (*keep)(void *context, const char *timing, const uint8_t key[PRESIL_JOBS_KEY], const presil_report *report);
    /* Likewise. 1: `found`, the RTL's, is what was `known`; 0: it is not, and `text` says how. */
    int (*check)(void *context, const uint8_t key[PRESIL_JOBS_KEY], const presil_report *known,
                 const presil_report *found, char *text, size_t bytes);
} presil_jobs_timings;

typedef struct {
    uint32_t size;
    uint32_t workers; /* processes; 0: PRESIL_JOBS, or presil_jobs_processors(), as for PRESIL_JOBS=0 */
    /* Of launches that wait or run, about, at most; a launch that finds no room waits for it, unless nothing runs. 0:
     * PRESIL_JOBS_MEMORY (bytes, or with K, M, G), or 1 GiB. */
    uint64_t bytes;
    const char *program; /* NULL: PRESIL_JOB_PROGRAM, or presil-job, in bin/ beside this library or its folder */
    /* What a process opens, as in presil_device_options; the rest it has from the device. transport NULL: "inproc". */
    const char *build, *library, *chip_library, *transport;
    /* After each launch, in the order of launches, on a thread of the jobs' own, which may call nothing of this header:
     * mode VERIFY, twin_ns and host_ns of the device, sim_ns of the process. May be NULL. */
    presil_report_fn report;
    void *report_context;
    uint32_t transport_first; /* of several remote ones: the first process has this one, the next the next */
    uint32_t reserved0;
    const presil_jobs_timings *timings; /* copied; what it refers to stays until the jobs are closed. May be NULL */
} presil_jobs_options;

typedef struct {
    uint32_t size, workers;
    uint64_t launches, waiting;     /* ended; enqueued and not yet ended */
    uint64_t lost;                  /* dropped by a cancel: neither compared nor reported */
    uint64_t restarts;              /* processes that were started again */
    uint64_t bytes, peak_bytes;     /* of launches that wait or run: now, and at most */
    uint64_t copied_bytes, copy_ns; /* what the device's thread copied for the processes, and how long that took */
    uint64_t blocked_ns;            /* how long the device's thread waited for room */
    uint64_t busy_ns;               /* all processes: from a launch's start to its answer */
    uint64_t left_ns;               /* about, until what is enqueued has ended; 0: nothing is, or not known yet */
    /* Of launches: known, and not run; known, and run all the same; not known, and run; whose cycles can't be known. */
    uint64_t known, sampled, unknown, never;
    uint64_t estimated; /* not known, and not run */
} presil_jobs_stats;

/* That this process may use: its affinity, and the quota of its control groups, rounded up. At least 1. */
PRESIL_API uint32_t presil_jobs_processors(void);

/* The device must be in mode MODEL, and not be captured (presil_capture.h): this takes that place. Returns when every
 * process has a chip. `text`: why it failed (ENODEV: no simulator, or no program), at most `bytes`. */
PRESIL_CHECKED int presil_jobs_open(presil_device *device, const presil_jobs_options *options, presil_jobs **out,
                                    char *text, size_t bytes);
/* Waits until all launches of the device that have passed its queue are compared (call presil_device_synchronize()
 * first). Returns the first failure since the last call, with its text and origin (presil_set_origin): EMISMATCH,
 * ETIMING (check() of presil_jobs_timings), EHUNG, ...; ESTOPPED if the process died; ECANCELLED. Launches behind it
 * are compared all the same. */
PRESIL_CHECKED int presil_jobs_wait(presil_jobs *jobs, char *text, size_t bytes, uint64_t *origin);
/* Waits at most so long, and takes no failure. 1: presil_jobs_wait() would return at once for what was enqueued when
 * this was called; 0: not yet. */
PRESIL_CHECKED int presil_jobs_ready(presil_jobs *jobs, uint64_t timeout_ns);
/* Async-signal-safe. Launches that wait are dropped, those that run are ended; the next one finds everything ready. */
PRESIL_API void presil_jobs_cancel(presil_jobs *jobs);
PRESIL_CHECKED int presil_jobs_get_stats(presil_jobs *jobs, presil_jobs_stats *out);
/* For presil_bundle_capture_failures() (presil_bundle_capture.h): launches that failed are told on a thread of the
 * jobs' own, before their report, with their memory as in mode VERIFY of the device; of a process that died, what the
 * chip wrote is not known. End that before the jobs are closed. */
PRESIL_API void presil_jobs_source(presil_jobs *jobs, presil_capture_source *out);
/* Waits as presil_jobs_wait() does, unless cancelled; ends the processes. The device is as before presil_jobs_open().
 * It must still be open. NULL is allowed. */
PRESIL_API void presil_jobs_close(presil_jobs *jobs);

#ifdef __cplusplus
}
#endif
#endif
