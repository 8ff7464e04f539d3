/* SPDX-License-Identifier: Apache-2.0 */
/* timing_store.h - what the files of this room share. A store's lock is held around every use of its database. */
#ifndef PRESIL_TIMING_STORE_H
#define PRESIL_TIMING_STORE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include "presil_store.h"

enum {
    SCHEMA = 1,
    APPLICATION = 0x50534c54, /* "PSLT": PRAGMA application_id */
    BUSY_MS = 10000,          /* another process writes: how long one waits for it */
    TOUCHED_MOST = 512,       /* rows whose use is noted in one go */
    WORK_BYTES = 10 * (3 + PRESIL_WORK_AMOUNTS + PRESIL_ENGINES * PRESIL_CAUSES),
    TIMING_BYTES = 10 * (9 + PRESIL_ENGINES * PRESIL_CAUSES + PRESIL_COUNTERS),
};

struct presil_store {
    pthread_mutex_t lock;
    sqlite3 *db;
    sqlite3_stmt *find, *put, *touch, *name, *work; /* made when they are wanted */
    char *path;
    bool read_only;
    uint64_t limit;
    struct {
        uint8_t key[PRESIL_STORE_KEY_BYTES];
        int64_t when; /* microseconds since 1970 */
    } touched[TOUCHED_MOST];
    uint32_t touched_count;
    bool has_work;                 /* the file has the table: not if an older Presil made it, and it can't be written */
    struct store_samples *samples; /* of the simulator that was asked for last */
    uint64_t put_since;            /* launches put since they were collected */
};

/* ---- store_error.c: they return their status */
__attribute__((format(printf, 2, 3))) int store_fail(int status, const char *format, ...);
/* Of the database's last failure; `what` was being done. */
int store_sqlite_fail(const char *path, sqlite3 *db, const char *what);

/* ---- statements; with the lock */
int store_run(presil_store *store, const char *sql); /* without a result */
int store_number(presil_store *store, const char *sql, int64_t *out);
int store_prepare(presil_store *store, sqlite3_stmt **statement, const char *sql); /* once */
int store_begin(presil_store *store);
/* COMMIT, or with a status ROLLBACK; returns it, or why it can't be written. */
int store_end(presil_store *store, int status);
int64_t store_now(void); /* microseconds since 1970 */

/* ---- stored_row.c */
/* As bytes; returns how many. */
size_t store_encode(const presil_store_timing *timing, uint8_t out[TIMING_BYTES]);
bool store_decode(const uint8_t *bytes, size_t count, presil_store_timing *out);
int64_t store_hash(const uint8_t *key, int64_t cycles, const uint8_t *bytes, size_t count);
/* The columns key, identity.text, label, cycles, timing, hash, used, uses, work, work's hash. false: the row is not
 * what was written. */
bool store_read_row(sqlite3_stmt *row, presil_store_row *out);
/* *found: there is one, and it is what was written. */
int store_select(presil_store *store, const uint8_t *key, presil_store_timing *out, bool *found);
/* In a transaction. `when`: its last use, in microseconds since 1970. */
int store_insert(presil_store *store, const presil_store_row *row, int64_t when);
/* The uses noted so far go to the file. */
int store_flush_uses(presil_store *store);

/* ---- whole_store.c: every row in the order of use, the last used first; good: it is what was written. */
int store_walk(presil_store *store, int (*each)(void *context, const presil_store_row *row, bool good), void *context);

/* ---- estimate.c */
void store_samples_free(struct store_samples *samples); /* NULL is allowed */

/* ---- store_bound.c */
int store_used_bytes(presil_store *store, uint64_t *out);
/* Makes the file small enough. */
int store_bound(presil_store *store);

#endif
