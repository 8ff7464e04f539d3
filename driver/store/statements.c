/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L
#include <time.h>
#include "timing_store.h"

int64_t store_now(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int store_run(presil_store *store, const char *sql) {
    return sqlite3_exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK
               ? PRESIL_OK
               : store_sqlite_fail(store->path, store->db, "writing");
}

int store_number(presil_store *store, const char *sql, int64_t *out) {
    sqlite3_stmt *statement = NULL;
    int status = PRESIL_OK;
    if (sqlite3_prepare_v2(store->db, sql, -1, &statement, NULL) != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW)
        status = store_sqlite_fail(store->path, store->db, "reading");
    else
        *out = sqlite3_column_int64(statement, 0);
    (void)sqlite3_finalize(statement);
    return status;
}

int store_prepare(presil_store *store, sqlite3_stmt **statement, const char *sql) {
    if (*statement) return PRESIL_OK;
    return sqlite3_prepare_v3(store->db, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL) == SQLITE_OK
               ? PRESIL_OK
               : store_sqlite_fail(store->path, store->db, "reading");
}

int store_begin(presil_store *store) {
    if (store->read_only)
        return store_fail(PRESIL_EUNSUPPORTED,
                          "%s is read only: give yourself the right to write to it and its folder, or name another "
                          "file (PRESIL_STORE)",
                          store->path);
    return store_run(store, "BEGIN IMMEDIATE");
}

int store_end(presil_store *store, int status) {
    if (!status) status = store_run(store, "COMMIT");
    if (status && !sqlite3_get_autocommit(store->db))
        (void)sqlite3_exec(store->db, "ROLLBACK", NULL, NULL, NULL); /* the first failure is the one to tell of */
    return status;
}
