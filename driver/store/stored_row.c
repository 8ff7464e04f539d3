/* SPDX-License-Identifier: Apache-2.0 */
/* A row: the numbers of a report as bytes, found and put. */
#define XXH_INLINE_ALL
#include <stddef.h>
#include <string.h>
#include <xxhash.h>
#include "timing_store.h"

/* ---- numbers as bytes: seven bits each, most of them are small */
enum { NUMBERS = 8, STALLS = PRESIL_ENGINES * PRESIL_CAUSES };

static size_t put_number(uint8_t *to, uint64_t n) {
    size_t at = 0;
    for (; n > 127; n >>= 7) to[at++] = (uint8_t)(n | 128);
    to[at++] = (uint8_t)n;
    return at;
}

size_t store_encode(const presil_store_timing *t, uint8_t out[TIMING_BYTES]) {
    const uint64_t plain[NUMBERS] = {t->segments,    t->fill,       t->drain,       t->read_bytes,
                                     t->write_bytes, t->read_beats, t->write_beats, t->descriptors};
    size_t at = 0;
    for (size_t i = 0; i < NUMBERS; i++) at += put_number(out + at, plain[i]);
    for (size_t i = 0; i < STALLS; i++) at += put_number(out + at, t->stalls[i / PRESIL_CAUSES][i % PRESIL_CAUSES]);
    for (size_t i = 0; i < PRESIL_COUNTERS; i++) at += put_number(out + at, t->counters[i]);
    return at;
}

static bool take_number(const uint8_t *bytes, size_t count, size_t *at, uint64_t *out) {
    uint64_t n = 0;
    for (unsigned shift = 0; shift < 64 && *at < count; shift += 7) {
        const uint8_t b = bytes[(*at)++];
        n |= (uint64_t)(b & 127) << shift;
        if (b > 127) continue;
        *out = n;
        return true;
    }
    return false;
}

bool store_decode(const uint8_t *bytes, size_t count, presil_store_timing *out) {
    uint64_t n = 0;
    size_t at = 0;
    uint64_t *const plain[NUMBERS] = {&n,
                                      &out->fill,
                                      &out->drain,
                                      &out->read_bytes,
                                      &out->write_bytes,
                                      &out->read_beats,
                                      &out->write_beats,
                                      &out->descriptors};
    bool good = true;
    for (size_t i = 0; i < NUMBERS && good; i++) good = take_number(bytes, count, &at, plain[i]);
    for (size_t i = 0; i < STALLS && good; i++)
        good = take_number(bytes, count, &at, &out->stalls[i / PRESIL_CAUSES][i % PRESIL_CAUSES]);
    for (size_t i = 0; i < PRESIL_COUNTERS && good; i++) good = take_number(bytes, count, &at, &out->counters[i]);
    out->segments = (uint32_t)n;
    return good && at == count;
}

int64_t store_hash(const uint8_t *key, int64_t cycles, const uint8_t *bytes, size_t count) {
    XXH3_state_t state;
    (void)XXH3_64bits_reset(&state);
    (void)XXH3_64bits_update(&state, key, PRESIL_STORE_KEY_BYTES);
    (void)XXH3_64bits_update(&state, &cycles, sizeof cycles);
    (void)XXH3_64bits_update(&state, bytes, count);
    return (int64_t)XXH3_64bits_digest(&state);
}

/* ---- work: kind, cycles, count, amounts; and stalls, if the chip expects any */
static bool expects_stalls(const presil_work *w) {
    bool any = false;
    for (size_t i = 0; i < STALLS; i++) any |= w->stalls[i / PRESIL_CAUSES][i % PRESIL_CAUSES] != 0;
    return any;
}

static size_t encode_work(const presil_work *w, uint8_t out[WORK_BYTES]) {
    size_t at = put_number(out, w->kind);
    at += put_number(out + at, w->cycles);
    at += put_number(out + at, w->count);
    for (size_t i = 0; i < w->count; i++) at += put_number(out + at, w->amounts[i]);
    const size_t stalls = expects_stalls(w) ? STALLS : 0;
    for (size_t i = 0; i < stalls; i++) at += put_number(out + at, w->stalls[i / PRESIL_CAUSES][i % PRESIL_CAUSES]);
    return at;
}

/* Its cycles are 0 if it is not what was written. */
static void read_work(sqlite3_stmt *row, const uint8_t *key, presil_work *out) {
    const uint8_t *bytes = sqlite3_column_blob(row, 8);
    const size_t size = (size_t)sqlite3_column_bytes(row, 8);
    presil_work w = {.size = sizeof w};
    uint64_t count = 0;
    size_t at = 0;
    *out = w;
    if (!bytes || store_hash(key, 0, bytes, size) != sqlite3_column_int64(row, 9)) return;
    bool good = take_number(bytes, size, &at, &w.kind) && take_number(bytes, size, &at, &w.cycles) &&
                take_number(bytes, size, &at, &count) && count <= PRESIL_WORK_AMOUNTS;
    w.count = (uint32_t)count;
    for (size_t i = 0; i < count && good; i++) good = take_number(bytes, size, &at, &w.amounts[i]);
    for (size_t i = 0, more = at < size; i < STALLS && good && more; i++)
        good = take_number(bytes, size, &at, &w.stalls[i / PRESIL_CAUSES][i % PRESIL_CAUSES]);
    if (good && at == size) *out = w;
}

/* ---- rows */
bool store_read_row(sqlite3_stmt *row, presil_store_row *out) {
    const void *key = sqlite3_column_blob(row, 0), *timing = sqlite3_column_blob(row, 4);
    const size_t count = (size_t)sqlite3_column_bytes(row, 4);
    const char *text = (const char *)sqlite3_column_text(row, 1), *label = (const char *)sqlite3_column_text(row, 2);
    const int64_t cycles = sqlite3_column_int64(row, 3);
    *out = (presil_store_row){.size = sizeof *out,
                              .label = label ? label : "",
                              .identity = text ? text : "",
                              .used = sqlite3_column_int64(row, 6) / 1000000,
                              .uses = (uint64_t)sqlite3_column_int64(row, 7),
                              .timing = {.size = sizeof out->timing, .cycles = (uint64_t)cycles}};
    if (!key || !timing || sqlite3_column_bytes(row, 0) != PRESIL_STORE_KEY_BYTES) return false;
    memcpy(out->key, key, sizeof out->key);
    read_work(row, out->key, &out->work);
    return store_hash(out->key, cycles, timing, count) == sqlite3_column_int64(row, 5) &&
           store_decode(timing, count, &out->timing);
}

int store_flush_uses(presil_store *store) {
    const uint32_t count = store->touched_count;
    store->touched_count = 0;
    if (!count || store->read_only) return PRESIL_OK;
    int status = store_begin(store);
    if (status) return status;
    status =
        store_prepare(store, &store->touch, "UPDATE launch SET used = max(used, ?1), uses = uses + 1 WHERE key = ?2");
    for (uint32_t i = 0; i < count && !status; i++) {
        (void)sqlite3_bind_int64(store->touch, 1, store->touched[i].when);
        (void)sqlite3_bind_blob(store->touch, 2, store->touched[i].key, PRESIL_STORE_KEY_BYTES, SQLITE_STATIC);
        if (sqlite3_step(store->touch) != SQLITE_DONE) status = store_sqlite_fail(store->path, store->db, "writing");
        (void)sqlite3_reset(store->touch);
    }
    return store_end(store, status);
}

static int touch(presil_store *store, const uint8_t *key) {
    memcpy(store->touched[store->touched_count].key, key, PRESIL_STORE_KEY_BYTES);
    store->touched[store->touched_count++].when = store_now();
    return store->touched_count < TOUCHED_MOST ? PRESIL_OK : store_flush_uses(store);
}

int store_select(presil_store *store, const uint8_t *key, presil_store_timing *out, bool *found) {
    int status =
        store_prepare(store, &store->find,
                      "SELECT key, '', label, cycles, timing, hash, used, uses, NULL, 0 FROM launch WHERE key = "
                      "?1");
    *found = false;
    if (status) return status;
    (void)sqlite3_bind_blob(store->find, 1, key, PRESIL_STORE_KEY_BYTES, SQLITE_STATIC);
    const int stepped = sqlite3_step(store->find);
    presil_store_row row;
    *found = stepped == SQLITE_ROW && store_read_row(store->find, &row);
    if (*found) *out = row.timing;
    if (stepped != SQLITE_ROW && stepped != SQLITE_DONE) status = store_sqlite_fail(store->path, store->db, "reading");
    (void)sqlite3_reset(store->find);
    return status;
}

int presil_store_find(presil_store *store, const uint8_t key[PRESIL_STORE_KEY_BYTES], presil_store_timing *out,
                      int *found) {
    if (!store || !key || !out || !found || out->size < 2 * sizeof(uint32_t))
        return store_fail(PRESIL_EINVAL,
                          "presil_store_find: a store, a key, `out` with its size, and `found` expected");
    presil_store_timing own;
    bool is_there;
    (void)pthread_mutex_lock(&store->lock);
    int status = store_select(store, key, &own, &is_there);
    if (!status && is_there) status = touch(store, key);
    (void)pthread_mutex_unlock(&store->lock);
    if (status) return status;
    *found = is_there;
    own.size = out->size;
    if (is_there) memcpy(out, &own, own.size < sizeof own ? own.size : sizeof own);
    return PRESIL_OK;
}

static int name_identity(presil_store *store, const char *text) {
    int status =
        store_prepare(store, &store->name, "INSERT INTO identity(text) VALUES (?1) ON CONFLICT(text) DO NOTHING");
    if (status) return status;
    (void)sqlite3_bind_text(store->name, 1, text, -1, SQLITE_STATIC);
    if (sqlite3_step(store->name) != SQLITE_DONE) status = store_sqlite_fail(store->path, store->db, "writing");
    (void)sqlite3_reset(store->name);
    return status;
}

static int insert_work(presil_store *store, const presil_store_row *row) {
    uint8_t bytes[WORK_BYTES];
    if (!row->work.cycles || row->work.count > PRESIL_WORK_AMOUNTS) return PRESIL_OK;
    const size_t count = encode_work(&row->work, bytes);
    int status = store_prepare(store, &store->work, "INSERT OR REPLACE INTO work VALUES (?1, ?2, ?3)");
    if (status) return status;
    (void)sqlite3_bind_blob(store->work, 1, row->key, PRESIL_STORE_KEY_BYTES, SQLITE_STATIC);
    (void)sqlite3_bind_blob(store->work, 2, bytes, (int)count, SQLITE_STATIC);
    (void)sqlite3_bind_int64(store->work, 3, store_hash(row->key, 0, bytes, count));
    if (sqlite3_step(store->work) != SQLITE_DONE) status = store_sqlite_fail(store->path, store->db, "writing");
    (void)sqlite3_reset(store->work);
    return status;
}

int store_insert(presil_store *store, const presil_store_row *row, int64_t when) {
    uint8_t bytes[TIMING_BYTES];
    const size_t count = store_encode(&row->timing, bytes);
    const int64_t cycles = (int64_t)row->timing.cycles;
    int status = name_identity(store, row->identity);
    if (!status)
        status = store_prepare(store, &store->put,
                               "INSERT OR REPLACE INTO launch SELECT ?1, id, ?3, ?4, ?5, ?6, ?7, 0 FROM identity WHERE "
                               "text = ?2");
    if (status) return status;
    (void)sqlite3_bind_blob(store->put, 1, row->key, PRESIL_STORE_KEY_BYTES, SQLITE_STATIC);
    (void)sqlite3_bind_text(store->put, 2, row->identity, -1, SQLITE_STATIC);
    (void)sqlite3_bind_text(store->put, 3, row->label ? row->label : "", -1, SQLITE_STATIC);
    (void)sqlite3_bind_int64(store->put, 4, cycles);
    (void)sqlite3_bind_blob(store->put, 5, bytes, (int)count, SQLITE_STATIC);
    (void)sqlite3_bind_int64(store->put, 6, store_hash(row->key, cycles, bytes, count));
    (void)sqlite3_bind_int64(store->put, 7, when);
    if (sqlite3_step(store->put) != SQLITE_DONE) status = store_sqlite_fail(store->path, store->db, "writing");
    (void)sqlite3_reset(store->put);
    store->put_since++;
    return status ? status : insert_work(store, row);
}

int presil_store_put(presil_store *store, const presil_store_row *row) {
    enum { OLDER = offsetof(presil_store_row, work) };
    if (!store || !row || row->size < OLDER || !row->identity || !*row->identity)
        return store_fail(PRESIL_EINVAL, "presil_store_put: a store, and a row with its size and identity expected");
    (void)pthread_mutex_lock(&store->lock);
    presil_store_row own = {0};
    memcpy(&own, row, row->size < sizeof own ? row->size : sizeof own);
    int status = store_begin(store);
    if (!status) status = store_end(store, store_insert(store, &own, store_now()));
    if (!status) status = store_bound(store);
    (void)pthread_mutex_unlock(&store->lock);
    return status;
}

/* ---- to and from reports */
void presil_store_take(presil_store_timing *to, const presil_report *from) {
    *to = (presil_store_timing){.size = sizeof *to,
                                .segments = from->segments,
                                .cycles = from->cycles,
                                .fill = from->fill,
                                .drain = from->drain,
                                .read_bytes = from->read_bytes,
                                .write_bytes = from->write_bytes,
                                .read_beats = from->read_beats,
                                .write_beats = from->write_beats,
                                .descriptors = from->descriptors};
    memcpy(to->stalls, from->stalls, sizeof to->stalls);
    memcpy(to->counters, from->counters, sizeof to->counters);
}

void presil_store_give(const presil_store_timing *from, presil_report *to) {
    to->segments = from->segments;
    to->cycles = from->cycles;
    to->fill = from->fill, to->drain = from->drain;
    to->read_bytes = from->read_bytes, to->write_bytes = from->write_bytes;
    to->read_beats = from->read_beats, to->write_beats = from->write_beats;
    to->descriptors = from->descriptors;
    memcpy(to->stalls, from->stalls, sizeof to->stalls);
    memcpy(to->counters, from->counters, sizeof to->counters);
}
