/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_store.h - what launches cost on the RTL, kept in a file for whoever runs the same ones again (docs/hybrid.md).
 * A row's key is a hash of all that the cycles of a launch are a function of; its value are the numbers of its report.
 *
 * - One file, shared by threads and processes of one machine, not over a network's file system: merge copies instead.
 * - Functions return PRESIL_OK or a presil_status (presil.h): EINVAL (a bad argument), EIO (the file can't be read or
 *   written, is damaged, or is another program's or another version's), EUNSUPPORTED (it is read only), EMISMATCH.
 *   presil_store_error() of the calling thread says what was expected, what was found and what to do. A file that is
 *   refused is left as it is.
 * - Any thread may call them; a forked child opens a store of its own.
 */
#ifndef PRESIL_STORE_H
#define PRESIL_STORE_H

#include "presil_jobs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct presil_store presil_store;

enum { PRESIL_STORE_KEY_BYTES = 16 };

enum presil_store_flag {
    PRESIL_STORE_READ_ONLY = 1u << 0,  /* nothing is written; else it is made if it is not there, folders too */
    PRESIL_STORE_MUST_EXIST = 1u << 1, /* EIO if it does not */
};

typedef struct {
    uint32_t size, flags; /* presil_store_flag */
    /* NULL: PRESIL_STORE, else presil/timings.sqlite in XDG_CACHE_HOME or ~/.cache. */
    const char *path;
    /* Of the file, at most, at least 1 MiB; the rows that were not used for longest go first. A journal of up to 4 MiB
     * lies beside it. 0: PRESIL_STORE_BYTES (or with K, M, G), else 1 GiB. */
    uint64_t bytes;
} presil_store_options;

/* What a launch cost: the members of presil_report that the chip and its clock give. */
typedef struct {
    uint32_t size, segments;
    uint64_t cycles, fill, drain, read_bytes, write_bytes, read_beats, write_beats, descriptors;
    uint64_t stalls[PRESIL_ENGINES][PRESIL_CAUSES];
    uint64_t counters[PRESIL_COUNTERS];
} presil_store_timing;

typedef struct {
    uint32_t size, reserved0;
    uint8_t key[PRESIL_STORE_KEY_BYTES];
    const char *label;    /* of the launch that was measured; for people */
    const char *identity; /* of the simulator that measured it (presil_transport_ops.timing) */
    uint64_t uses;        /* how often it was found, about */
    int64_t used;         /* when it was last, in seconds since 1970 */
    presil_store_timing timing;
    presil_work work; /* what the chip said of it (presil_chip.h); cycles 0: nothing */
} presil_store_row;

/* Of a launch that is not in the store. */
typedef struct {
    uint32_t size, neighbours; /* launches that it is made of */
    uint64_t cycles;
    /* Of launches that are there, each estimated from the others: relative errors; 50 and 95 of 100 are smaller. */
    double median_error, error;
    /* Of stalls: the cause of an engine whose share of the cycles is furthest off, as a part of the cycles: 50 and 95
     * of 100 are nearer. Each engine's add up to `cycles`, if it has any. */
    double stalls_median, stalls_error;
    uint32_t has_stalls, reserved0; /* 0: no launch there has any */
    uint64_t stalls[PRESIL_ENGINES][PRESIL_CAUSES];
} presil_store_estimate;

typedef struct {
    uint32_t size, schema;
    const char *path; /* valid until the store is closed */
    uint32_t read_only, reserved0;
    uint64_t rows, identities; /* launches; simulators that they were measured on */
    uint64_t bytes, limit;     /* of the file: in use; at most */
    uint64_t uses, evicted;    /* since it was made or cleared: rows found; rows that had to go */
} presil_store_info;

PRESIL_API const char *presil_store_error(void); /* of the calling thread's last failure; never NULL */

PRESIL_CHECKED int presil_store_open(const presil_store_options *options, presil_store **out);
PRESIL_API void presil_store_close(presil_store *store); /* NULL is allowed */
PRESIL_CHECKED int presil_store_get_info(presil_store *store, presil_store_info *out);

/* *found: 1, and *out is filled in; 0: there is no such row. A row that is damaged is none. */
PRESIL_CHECKED int presil_store_find(presil_store *store, const uint8_t key[PRESIL_STORE_KEY_BYTES],
                                     presil_store_timing *out, int *found);
/* The row of that key, whatever it was. uses and used are the store's own. */
PRESIL_CHECKED int presil_store_put(presil_store *store, const presil_store_row *row);
/* Every row in the order of use, the last used first, until `each` returns not 0; it may not call this store. */
PRESIL_CHECKED int presil_store_list(presil_store *store, int (*each)(void *context, const presil_store_row *row),
                                     void *context);
/* Reads all of the file. *damaged: rows that are not what was written; EIO if the file itself is damaged. */
PRESIL_CHECKED int presil_store_check(presil_store *store, uint64_t *damaged);
/* What a launch of such work takes on the simulator `identity`, from those most like it that ran there. *found: 0 if
 * there are too few, if it is much larger or smaller than all of them, or if estimates are far off there: a launch that
 * has to be simulated. */
PRESIL_CHECKED int presil_store_estimate_of(presil_store *store, const char *identity, const presil_work *work,
                                            presil_store_estimate *out, int *found);
/* Every launch with the estimate that it would get from the others (cycles 0: none), until `each` returns not 0; it may
 * not call this store. */
PRESIL_CHECKED int presil_store_leave_one_out(presil_store *store,
                                              int (*each)(void *context, const presil_store_row *row,
                                                          const presil_store_estimate *estimate),
                                              void *context);
/* *removed: rows. NULL is allowed. */
PRESIL_CHECKED int presil_store_clear(presil_store *store, uint64_t *removed);
/* Adds the rows of another file, which stays as it is. EMISMATCH: a launch has other numbers in it; nothing is added
 * then. *added may be NULL. */
PRESIL_CHECKED int presil_store_merge(presil_store *store, const char *path, uint64_t *added);
/* A copy as one file, to be carried to another machine. EIO if there is such a file already. */
PRESIL_CHECKED int presil_store_export(presil_store *store, const char *path);
/* Those launches alone that the file `known` lacks, or has with other numbers. *exported may be NULL. */
PRESIL_CHECKED int presil_store_export_new(presil_store *store, const char *known, const char *path,
                                           uint64_t *exported);

PRESIL_API void presil_store_take(presil_store_timing *to, const presil_report *from);
PRESIL_API void presil_store_give(const presil_store_timing *from, presil_report *to);

/* ---- for presil_jobs_options.timings */
typedef void (*presil_store_warn_fn)(void *context, const char *text);
typedef struct {
    uint32_t size, reserved0;
    double sample;        /* of the launches that are found, which share runs on the RTL all the same: 0 to 1 */
    uint64_t sample_seed; /* of the choice */
    /* Once, from any thread, if the file can't be read or written any more: such launches run on the RTL, and are not
     * kept. May be NULL. */
    presil_store_warn_fn warn;
    void *warn_context;
    uint32_t estimate; /* 1: a launch that is not known is estimated where that can be done, else it runs */
    uint32_t reserved1;
} presil_store_use;

/* `out` uses the store, which stays open until the jobs are closed. One set of jobs a call; free it behind them. */
PRESIL_CHECKED int presil_store_timings(presil_store *store, const presil_store_use *use, presil_jobs_timings *out);
PRESIL_API void presil_store_timings_free(presil_jobs_timings *timings);

#ifdef __cplusplus
}
#endif
#endif
