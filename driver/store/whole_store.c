/* SPDX-License-Identifier: Apache-2.0 */
/* What is about all rows: numbers, list, check, clear, merge, export. */
#include <string.h>
#include <unistd.h>
#include "timing_store.h"

static int fill_info(presil_store *store, presil_store_info *own) {
    int64_t rows = 0, identities = 0, uses = 0, evicted = 0;
    int status = store_flush_uses(store);
    if (!status) status = store_number(store, "SELECT count(*) FROM launch", &rows);
    if (!status) status = store_number(store, "SELECT count(DISTINCT identity) FROM launch", &identities);
    if (!status) status = store_number(store, "SELECT coalesce(sum(uses), 0) FROM launch", &uses);
    if (!status) status = store_number(store, "SELECT value FROM total WHERE name = 'evicted'", &evicted);
    if (!status) status = store_used_bytes(store, &own->bytes);
    own->schema = SCHEMA;
    own->path = store->path;
    own->read_only = store->read_only;
    own->rows = (uint64_t)rows, own->identities = (uint64_t)identities;
    own->uses = (uint64_t)uses, own->evicted = (uint64_t)evicted;
    own->limit = store->limit;
    return status;
}

int presil_store_get_info(presil_store *store, presil_store_info *out) {
    if (!store || !out || out->size < sizeof out->size)
        return store_fail(PRESIL_EINVAL, "presil_store_get_info: a store, and `out` with its size expected");
    presil_store_info own = {.size = out->size};
    (void)pthread_mutex_lock(&store->lock);
    const int status = fill_info(store, &own);
    (void)pthread_mutex_unlock(&store->lock);
    if (!status) memcpy(out, &own, own.size < sizeof own ? own.size : sizeof own);
    return status;
}

#define NOT_IN_KNOWN "WHERE NOT EXISTS (SELECT 1 FROM known.launch k WHERE k.key = l.key AND k.hash = l.hash)"

/* where: of the rows `l`; "" for all. */
static int walk(presil_store *store, const char *where,
                int (*each)(void *context, const presil_store_row *row, bool good), void *context) {
    sqlite3_stmt *rows = NULL;
    const char *columns = "l.key, text, label, cycles, timing, l.hash, used, uses";
    const char *work = store->has_work ? "w.work, w.hash" : "NULL, 0";
    const char *beside = store->has_work ? "LEFT JOIN work w ON w.key = l.key" : "";
    char *sql =
        sqlite3_mprintf("SELECT %s, %s FROM main.launch l JOIN identity ON identity = id %s %s ORDER BY used DESC, "
                        "l.key",
                        columns, work, beside, where);
    const int prepared = sql ? sqlite3_prepare_v2(store->db, sql, -1, &rows, NULL) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (prepared) return store_sqlite_fail(store->path, store->db, "reading");
    int code, done = 0;
    while (!done && (code = sqlite3_step(rows)) == SQLITE_ROW) {
        presil_store_row row;
        const bool good = store_read_row(rows, &row);
        done = each(context, &row, good);
    }
    const int status = done || code == SQLITE_DONE ? PRESIL_OK : store_sqlite_fail(store->path, store->db, "reading");
    (void)sqlite3_finalize(rows);
    return status;
}

int store_walk(presil_store *store, int (*each)(void *context, const presil_store_row *row, bool good), void *context) {
    return walk(store, "", each, context);
}

typedef struct {
    int (*each)(void *, const presil_store_row *);
    void *context;
} listing;
static int list_one(void *context, const presil_store_row *row, bool good) {
    const listing *l = context;
    return good ? l->each(l->context, row) : 0;
}

int presil_store_list(presil_store *store, int (*each)(void *context, const presil_store_row *row), void *context) {
    if (!store || !each) return store_fail(PRESIL_EINVAL, "presil_store_list: a store and a function expected");
    listing l = {each, context};
    (void)pthread_mutex_lock(&store->lock);
    int status = store_flush_uses(store);
    if (!status) status = store_walk(store, list_one, &l);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}

static int count_bad(void *context, const presil_store_row *row, bool good) {
    (void)row;
    *(uint64_t *)context += !good;
    return 0;
}

static int whole_file(presil_store *store) {
    sqlite3_stmt *check = NULL;
    int status = PRESIL_OK;
    if (sqlite3_prepare_v2(store->db, "PRAGMA integrity_check(1)", -1, &check, NULL) ||
        sqlite3_step(check) != SQLITE_ROW)
        status = store_sqlite_fail(store->path, store->db, "reading");
    else if (strcmp((const char *)sqlite3_column_text(check, 0), "ok") != 0)
        status = store_fail(PRESIL_EIO, "%s is damaged (%s): move it away, and what was in it is simulated again",
                            store->path, sqlite3_column_text(check, 0));
    (void)sqlite3_finalize(check);
    return status;
}

int presil_store_check(presil_store *store, uint64_t *damaged) {
    if (!store || !damaged) return store_fail(PRESIL_EINVAL, "presil_store_check: a store and `damaged` expected");
    uint64_t bad = 0;
    (void)pthread_mutex_lock(&store->lock);
    int status = whole_file(store);
    if (!status) status = store_walk(store, count_bad, &bad);
    (void)pthread_mutex_unlock(&store->lock);
    if (!status) *damaged = bad;
    return status;
}

int presil_store_clear(presil_store *store, uint64_t *removed) {
    if (!store) return store_fail(PRESIL_EINVAL, "presil_store_clear: a store expected");
    int64_t rows = 0;
    (void)pthread_mutex_lock(&store->lock);
    store->touched_count = 0;
    store_samples_free(store->samples);
    store->samples = NULL;
    int status = store_begin(store);
    if (!status) {
        status = store_number(store, "SELECT count(*) FROM launch", &rows);
        if (!status) status = store_run(store, "DELETE FROM launch; DELETE FROM identity; UPDATE total SET value = 0");
        status = store_end(store, status);
    }
    if (!status) status = store_run(store, "PRAGMA incremental_vacuum");
    (void)pthread_mutex_unlock(&store->lock);
    if (!status && removed) *removed = (uint64_t)rows;
    return status;
}

/* ---- from another file */
typedef struct {
    presil_store *store;
    uint64_t added;
    int status;
} merging;

static int merge_one(void *context, const presil_store_row *row, bool good) {
    merging *m = context;
    presil_store_timing here;
    bool is_there = false;
    if (!good) return 0;
    m->status = store_select(m->store, row->key, &here, &is_there);
    if (!m->status && is_there && memcmp(&here, &row->timing, sizeof here) != 0)
        m->status = store_fail(PRESIL_EMISMATCH,
                               "%s: a launch (%s) has %llu cycles here and %llu in the other file, or other counters: "
                               "one of the two is wrong, nothing was added; clear one, and let it be simulated again",
                               m->store->path, row->label, (unsigned long long)here.cycles,
                               (unsigned long long)row->timing.cycles);
    if (!m->status && !is_there) {
        m->status = store_insert(m->store, row, row->used * 1000000);
        m->added++;
    }
    return m->status;
}

int presil_store_merge(presil_store *store, const char *path, uint64_t *added) {
    if (!store || !path) return store_fail(PRESIL_EINVAL, "presil_store_merge: a store and a path expected");
    const presil_store_options options = {
        .size = sizeof options, .flags = PRESIL_STORE_READ_ONLY | PRESIL_STORE_MUST_EXIST, .path = path};
    presil_store *other = NULL;
    int status = presil_store_open(&options, &other);
    if (status) return status;
    merging m = {.store = store};
    (void)pthread_mutex_lock(&store->lock);
    status = store_begin(store);
    if (!status) {
        status = store_walk(other, merge_one, &m);
        status = store_end(store, status ? status : m.status);
    }
    if (!status) status = store_bound(store);
    (void)pthread_mutex_unlock(&store->lock);
    presil_store_close(other);
    if (!status && added) *added = m.added;
    return status;
}

int presil_store_export(presil_store *store, const char *path) {
    if (!store || !path) return store_fail(PRESIL_EINVAL, "presil_store_export: a store and a path expected");
    if (access(path, F_OK) == 0) return store_fail(PRESIL_EIO, "%s exists: name a new file", path);
    sqlite3_stmt *copy = NULL;
    (void)pthread_mutex_lock(&store->lock);
    int status = store_flush_uses(store);
    if (!status && sqlite3_prepare_v2(store->db, "VACUUM INTO ?1", -1, &copy, NULL))
        status = store_sqlite_fail(store->path, store->db, "copying");
    if (!status) (void)sqlite3_bind_text(copy, 1, path, -1, SQLITE_STATIC);
    if (!status && sqlite3_step(copy) != SQLITE_DONE) status = store_sqlite_fail(path, store->db, "writing");
    (void)sqlite3_finalize(copy);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}

/* ---- what another file lacks */
static int copy_one(void *context, const presil_store_row *row, bool good) {
    merging *m = context;
    if (!good) return 0;
    m->status = store_insert(m->store, row, row->used * 1000000);
    m->added += !m->status;
    return m->status;
}

/* Refuses what is no store of this version, which ATTACH would not. */
static int attach(presil_store *store, const char *known) {
    const presil_store_options options = {
        .size = sizeof options, .flags = PRESIL_STORE_READ_ONLY | PRESIL_STORE_MUST_EXIST, .path = known};
    presil_store *other = NULL;
    sqlite3_stmt *words = NULL;
    int status = presil_store_open(&options, &other);
    presil_store_close(other);
    if (!status && sqlite3_prepare_v2(store->db, "ATTACH ?1 AS known", -1, &words, NULL))
        status = store_sqlite_fail(known, store->db, "opening");
    if (!status) (void)sqlite3_bind_text(words, 1, known, -1, SQLITE_STATIC);
    if (!status && sqlite3_step(words) != SQLITE_DONE) status = store_sqlite_fail(known, store->db, "opening");
    (void)sqlite3_finalize(words);
    return status;
}

static int copy_new(presil_store *store, merging *to) {
    int status = store_begin(to->store);
    if (status) return status;
    status = walk(store, NOT_IN_KNOWN, copy_one, to);
    return store_end(to->store, status ? status : to->status);
}

int presil_store_export_new(presil_store *store, const char *known, const char *path, uint64_t *exported) {
    if (!store || !known || !path)
        return store_fail(PRESIL_EINVAL, "presil_store_export_new: a store and two paths expected");
    if (access(path, F_OK) == 0) return store_fail(PRESIL_EIO, "%s exists: name a new file", path);
    merging m = {0};
    (void)pthread_mutex_lock(&store->lock);
    int status = attach(store, known);
    if (!status) {
        const presil_store_options options = {.size = sizeof options, .path = path, .bytes = store->limit};
        status = presil_store_open(&options, &m.store);
        if (!status) status = copy_new(store, &m);
        presil_store_close(m.store);
        const int detached = store_run(store, "DETACH known");
        status = status ? status : detached;
    }
    (void)pthread_mutex_unlock(&store->lock);
    if (status && m.store) (void)unlink(path);
    if (!status && exported) *exported = m.added;
    return status;
}
