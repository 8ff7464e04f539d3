/* SPDX-License-Identifier: Apache-2.0 */
/* The file stays as small as was asked for: what was not used for longest goes. */
#include "timing_store.h"

int store_used_bytes(presil_store *store, uint64_t *out) {
    int64_t pages, unused, each;
    int status = store_number(store, "PRAGMA page_count", &pages);
    if (!status) status = store_number(store, "PRAGMA freelist_count", &unused);
    if (!status) status = store_number(store, "PRAGMA page_size", &each);
    if (!status) *out = (uint64_t)((pages - unused) * each);
    return status;
}

/* An eighth of them at a time, so that it is rare. */
static int evict(presil_store *store) {
    int status = store_begin(store);
    if (status) return status;
    status = store_run(store, "DELETE FROM launch WHERE key IN (SELECT key FROM launch ORDER BY used LIMIT "
                              "(SELECT count(*) / 8 + 1 FROM launch))");
    const int removed = sqlite3_changes(store->db);
    char *note = sqlite3_mprintf("UPDATE total SET value = value + %d WHERE name = 'evicted'", removed);
    if (!status) status = note ? store_run(store, note) : store_fail(PRESIL_EHOSTMEM, "no host memory");
    sqlite3_free(note);
    if (!status) status = store_run(store, "DELETE FROM identity WHERE id NOT IN (SELECT identity FROM launch)");
    return store_end(store, status);
}

int store_bound(presil_store *store) {
    uint64_t used = 0;
    int64_t rows = 1;
    int status = store_used_bytes(store, &used);
    if (status || used <= store->limit) return status;
    status = store_flush_uses(store);
    while (!status && used > store->limit / 8 * 7 && rows) {
        status = evict(store);
        if (!status) status = store_number(store, "SELECT count(*) FROM launch", &rows);
        if (!status) status = store_used_bytes(store, &used);
    }
    return status ? status : store_run(store, "PRAGMA incremental_vacuum");
}
