/* SPDX-License-Identifier: Apache-2.0 */
/* Opening and closing. What is refused is not written to. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "presil_sized.h"
#include "timing_store.h"

#define DEFAULT_BYTES (1ull << 30)
#define LEAST_BYTES (1ull << 20)

/* ---- where and how large */
static char *default_path(void) {
    const char *given = getenv("PRESIL_STORE"), *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    char *path = NULL;
    int n = -1;
    if (given && *given)
        n = asprintf(&path, "%s", given);
    else if (cache && *cache == '/')
        n = asprintf(&path, "%s/presil/timings.sqlite", cache);
    else
        n = asprintf(&path, "%s/.cache/presil/timings.sqlite", home && *home ? home : "/tmp");
    return n < 0 ? NULL : path;
}

static int limit_of(uint64_t asked, uint64_t *out) {
    const char *given = getenv("PRESIL_STORE_BYTES");
    uint64_t n = asked;
    if (!n && given && *given) {
        char *end = NULL;
        errno = 0;
        n = strtoull(given, &end, 10);
        const unsigned shift = *end == 'K' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : 0;
        if (shift) end++;
        if (errno || *end || *given < '0' || *given > '9' || n > UINT64_MAX >> shift)
            return store_fail(PRESIL_EINVAL, "PRESIL_STORE_BYTES=%s: expected a number, or one with K, M or G", given);
        n <<= shift;
        if (!n) n = 1;
    }
    *out = n ? n : DEFAULT_BYTES;
    return *out >= LEAST_BYTES ? PRESIL_OK
                               : store_fail(PRESIL_EINVAL, "a store of at most %llu bytes: at least 1 MiB is needed",
                                            (unsigned long long)*out);
}

static void make_folders(const char *path) {
    char *copy = strdup(path);
    for (char *at = copy ? strchr(copy + 1, '/') : NULL; at; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(copy, 0777); /* what can't be made is told of by whoever opens the file */
        *at = '/';
    }
    free(copy);
}

/* ---- the database */
/* A log beside a file that nobody may write to has rows that would not be seen. */
static int open_immutable(presil_store *store) {
    char *uri = NULL, *log = NULL;
    int code = SQLITE_CANTOPEN;
    if (asprintf(&log, "%s-wal", store->path) >= 0 && access(log, F_OK) != 0) {
        uri = sqlite3_mprintf("file:%s?immutable=1", store->path);
        (void)sqlite3_close(store->db);
        store->db = NULL;
        code =
            !uri || strpbrk(store->path, "?#%")
                ? SQLITE_CANTOPEN
                : sqlite3_open_v2(uri, &store->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, NULL);
    }
    sqlite3_free(uri);
    free(log);
    return code;
}

static int open_file(presil_store *store, uint32_t flags) {
    const bool read_only = flags & PRESIL_STORE_READ_ONLY;
    const int make = flags & PRESIL_STORE_MUST_EXIST ? 0 : SQLITE_OPEN_CREATE;
    if ((read_only || !make) && access(store->path, F_OK) != 0)
        return store_fail(PRESIL_EIO,
                          "%s: there is no timing store (PRESIL_STORE names one; a run in mode \"hybrid\" "
                          "makes it)",
                          store->path);
    if (!read_only) make_folders(store->path);
    int code =
        sqlite3_open_v2(store->path, &store->db,
                        (read_only ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE | make) | SQLITE_OPEN_NOMUTEX, NULL);
    if (code == SQLITE_OK) (void)sqlite3_busy_timeout(store->db, BUSY_MS);
    if (code == SQLITE_OK) code = sqlite3_exec(store->db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    if ((code & 0xff) == SQLITE_CANTOPEN && access(store->path, R_OK) == 0) {
        code = open_immutable(store);
        if (code == SQLITE_OK) code = sqlite3_exec(store->db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL);
    }
    if (code != SQLITE_OK) return store_sqlite_fail(store->path, store->db, "opening");
    store->read_only = sqlite3_db_readonly(store->db, "main") == 1;
    return PRESIL_OK;
}

static const char schema[] =
    "CREATE TABLE identity (id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE);"
    "CREATE TABLE launch (key BLOB PRIMARY KEY, identity INTEGER NOT NULL REFERENCES identity(id), label TEXT NOT NULL,"
    " cycles INTEGER NOT NULL, timing BLOB NOT NULL, hash INTEGER NOT NULL, used INTEGER NOT NULL,"
    " uses INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE INDEX launch_by_use ON launch(used);"
    "CREATE TABLE total (name TEXT PRIMARY KEY, value INTEGER NOT NULL);"
    "INSERT INTO total VALUES ('evicted', 0);";

/* What the chip said of launches (presil_work): a table beside, so that older releases go on with the file. */
static const char work_table[] =
    "CREATE TABLE IF NOT EXISTS work (key BLOB PRIMARY KEY, work BLOB NOT NULL, hash INTEGER NOT NULL) WITHOUT ROWID;"
    "CREATE TRIGGER IF NOT EXISTS work_goes_too AFTER DELETE ON launch BEGIN DELETE FROM work WHERE key = old.key; END";

static int find_work(presil_store *store) {
    int64_t tables = 0;
    int status =
        store_number(store, "SELECT count(*) FROM sqlite_schema WHERE name IN ('work', 'work_goes_too')", &tables);
    if (!status && tables < 2 && !store->read_only) {
        status = store_begin(store);
        if (!status) status = store_end(store, store_run(store, work_table));
        tables = 2;
    }
    store->has_work = tables == 2;
    return status;
}

/* Two processes may do so at once: the second finds it done. */
static int make_tables(presil_store *store) {
    int64_t tables = 0;
    int status = store_begin(store);
    if (status) return status;
    status = store_number(store, "SELECT count(*) FROM sqlite_schema", &tables);
    if (!status && !tables) {
        char *numbers = sqlite3_mprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", APPLICATION, SCHEMA);
        status = numbers ? store_run(store, schema) : store_fail(PRESIL_EHOSTMEM, "no host memory");
        if (!status) status = store_run(store, numbers);
        sqlite3_free(numbers);
    }
    return store_end(store, status);
}

/* Changing to the log asks for the file alone, and then doesn't wait by itself. */
static int use_log(presil_store *store) {
    int code = SQLITE_OK;
    for (int waited = 0; waited < BUSY_MS; waited += 10) {
        code = sqlite3_exec(store->db, "PRAGMA journal_mode = WAL", NULL, NULL, NULL);
        if (code != SQLITE_BUSY) break;
        (void)usleep(10000);
    }
    return code == SQLITE_OK ? PRESIL_OK : store_sqlite_fail(store->path, store->db, "opening");
}

static int check_version(presil_store *store) {
    int64_t application = 0, version = 0, tables = 0;
    int status = store_run(store, "BEGIN"); /* of one moment: another process may be making it */
    if (!status) status = store_number(store, "SELECT count(*) FROM sqlite_schema", &tables);
    if (!status) status = store_number(store, "PRAGMA application_id", &application);
    if (!status) status = store_number(store, "PRAGMA user_version", &version);
    status = store_end(store, status);
    if (status) return status;
    if (!tables && !application && !store->read_only) {
        status = store_run(store, "PRAGMA auto_vacuum = INCREMENTAL");
        if (!status) status = use_log(store);
        return status ? status : make_tables(store);
    }
    if (application != APPLICATION)
        return store_fail(PRESIL_EIO, "%s is a database of another program, not a timing store: name another file",
                          store->path);
    if (version != SCHEMA)
        return store_fail(PRESIL_EIO,
                          "%s was written by another version of Presil: its schema is %lld, this one reads %d; name "
                          "another file (PRESIL_STORE)",
                          store->path, (long long)version, SCHEMA);
    return PRESIL_OK;
}

static int set_up(presil_store *store, const presil_store_options *o) {
    int status = limit_of(o->bytes, &store->limit);
    if (!status) {
        store->path = o->path ? strdup(o->path) : default_path();
        if (!store->path) status = store_fail(PRESIL_EHOSTMEM, "no host memory");
    }
    if (!status) status = open_file(store, o->flags);
    if (!status) status = check_version(store);
    if (!status) status = find_work(store);
    /* What a crash of the host takes with it is simulated again. */
    if (!status && !store->read_only) status = store_run(store, "PRAGMA synchronous = NORMAL");
    if (!status && !store->read_only) status = store_bound(store);
    return status;
}

int presil_store_open(const presil_store_options *options, presil_store **out) {
    presil_store_options o;
    char wrong[256];
    if (!options || !out) return store_fail(PRESIL_EINVAL, "presil_store_open: options and `out` expected");
    if (presil_sized_take(&o, sizeof o, options, options->size, sizeof options->size, wrong, sizeof wrong))
        return store_fail(PRESIL_EINVAL, "presil_store_open: %s", wrong);
    presil_store *store = calloc(1, sizeof *store);
    if (!store) return store_fail(PRESIL_EHOSTMEM, "no host memory");
    (void)pthread_mutex_init(&store->lock, NULL);
    const int status = set_up(store, &o);
    if (status)
        presil_store_close(store);
    else
        *out = store;
    return status;
}

void presil_store_close(presil_store *store) {
    if (!store) return;
    char kept[1024];
    (void)snprintf(kept, sizeof kept, "%s", presil_store_error());
    if (store->db) (void)store_flush_uses(store); /* which row was used last is all that is lost */
    (void)store_fail(PRESIL_OK, "%s", kept);
    (void)sqlite3_finalize(store->find);
    (void)sqlite3_finalize(store->put);
    (void)sqlite3_finalize(store->touch);
    (void)sqlite3_finalize(store->name);
    (void)sqlite3_finalize(store->work);
    (void)sqlite3_close(store->db);
    (void)pthread_mutex_destroy(&store->lock);
    store_samples_free(store->samples);
    free(store->path);
    free(store);
}
