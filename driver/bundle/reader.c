/* SPDX-License-Identifier: Apache-2.0 */
#include "reader.h"

#include <stdlib.h>
#include <string.h>
#include <zstd.h>

static int damaged(const presil_bundle_reader *r, uint64_t number, const char *what) {
    return bundle_fail(PRESIL_EINVAL, "%s: record %llu at byte %llu: %s", r->path, (unsigned long long)number,
                       (unsigned long long)r->entries[number].offset, what);
}

static int read_stored(const presil_bundle_reader *r, uint64_t number, void *to) {
    const bundle_entry *e = &r->entries[number];
    const int status = bundle_read_at(r, e->offset + sizeof(bundle_record_header), to, e->stored_bytes);
    if (status) return status;
    return bundle_hash64(to, e->stored_bytes) == e->stored_check ? PRESIL_OK
                                                                 : damaged(r, number, "its contents are damaged");
}

int bundle_read_record(presil_bundle_reader *r, uint64_t number, void *to) {
    const bundle_entry *e = &r->entries[number];
    int status = PRESIL_OK;
    if (e->flags & BUNDLE_ZSTD) {
        void *stored = malloc(e->stored_bytes + 1);
        if (!r->zstd) r->zstd = ZSTD_createDCtx();
        if (!stored || !r->zstd) free(stored);
        if (!stored || !r->zstd) return bundle_fail(PRESIL_EHOSTMEM, "%s: no memory for a record", r->path);
        status = read_stored(r, number, stored);
        /* One frame that declares its length: what it declares only has to agree, nothing is allocated by it. */
        if (!status && (ZSTD_findFrameCompressedSize(stored, e->stored_bytes) != e->stored_bytes ||
                        ZSTD_getFrameContentSize(stored, e->stored_bytes) != e->raw_bytes ||
                        ZSTD_decompressDCtx(r->zstd, to, e->raw_bytes, stored, e->stored_bytes) != e->raw_bytes))
            status = damaged(r, number, "its contents can't be decompressed to the length that it has");
        free(stored);
    } else {
        status = read_stored(r, number, to);
    }
    if (status) return status;
    uint8_t hash[16];
    bundle_hash128(to, e->raw_bytes, hash);
    return memcmp(hash, e->hash, sizeof hash) ? damaged(r, number, "its contents have another hash") : PRESIL_OK;
}

int presil_bundle_get_summary(presil_bundle_reader *r, presil_bundle_summary *out) {
    if (!r || !out) return bundle_fail(PRESIL_EINVAL, "reader or out is NULL");
    const uint32_t size = out->size;
    if (size < 8)
        return bundle_fail(PRESIL_EINVAL, "presil_bundle_summary: size is %u: set it to sizeof(struct)", size);
    memset(out, 0, size);
    memcpy(out, &r->summary, size < sizeof *out ? size : sizeof *out);
    out->size = size;
    return PRESIL_OK;
}

int presil_bundle_get_record(presil_bundle_reader *r, uint64_t number, presil_bundle_record *out) {
    if (!r || !out) return bundle_fail(PRESIL_EINVAL, "reader or out is NULL");
    if (number >= r->summary.records)
        return bundle_fail(PRESIL_EINVAL, "%s: record %llu: there are %llu", r->path, (unsigned long long)number,
                           (unsigned long long)r->summary.records);
    const bundle_entry *e = &r->entries[number];
    presil_bundle_record record = {.size = sizeof record,
                                   .type = e->type,
                                   .flags = e->flags,
                                   .number = number,
                                   .offset = e->offset,
                                   .raw_bytes = e->raw_bytes,
                                   .stored_bytes = e->stored_bytes};
    memcpy(record.hash, e->hash, sizeof record.hash);
    const uint32_t size = out->size;
    if (size < 8) return bundle_fail(PRESIL_EINVAL, "presil_bundle_record: size is %u: set it to sizeof(struct)", size);
    memset(out, 0, size);
    memcpy(out, &record, size < sizeof record ? size : sizeof record);
    out->size = size;
    return PRESIL_OK;
}

int presil_bundle_get_raw(presil_bundle_reader *r, uint64_t number, const void **out, uint64_t *bytes) {
    presil_bundle_record record = {.size = sizeof record};
    int status = presil_bundle_get_record(r, number, &record);
    if (status || !out || !bytes) return status ? status : bundle_fail(PRESIL_EINVAL, "out or bytes is NULL");
    bundle_arena *arena;
    void *raw = bundle_got_new(record.raw_bytes + 1, &arena);
    if (!raw) return bundle_fail(PRESIL_EHOSTMEM, "%s: no memory for a record", r->path);
    status = bundle_read_record(r, number, raw);
    if (status) {
        presil_bundle_free(raw);
        return status;
    }
    *out = raw;
    *bytes = record.raw_bytes;
    return PRESIL_OK;
}

/* ---- records as structs */
static int get_struct(presil_bundle_reader *r, const bundle_numbers *list, uint64_t number, unsigned type,
                      const void **out) {
    const bundle_fields *fields = bundle_fields_of(type);
    if (number >= list->count)
        return bundle_fail(PRESIL_EINVAL, "%s: %s %llu: there are %llu", r->path, fields->name,
                           (unsigned long long)number, (unsigned long long)list->count);
    const void *raw;
    uint64_t bytes;
    int status = presil_bundle_get_raw(r, list->at[number], &raw, &bytes);
    if (status) return status;
    bundle_arena *arena;
    void *value = bundle_got_new(fields->struct_bytes, &arena);
    status = value ? bundle_decode(arena, fields, raw, bytes, value, fields->name)
                   : bundle_fail(PRESIL_EHOSTMEM, "%s: no memory for a record", r->path);
    presil_bundle_free(raw);
    if (status)
        presil_bundle_free(value);
    else
        *out = value;
    return status;
}

int presil_bundle_get_chip(presil_bundle_reader *reader, uint64_t number, const presil_bundle_chip **out) {
    const void *got = NULL;
    if (!reader || !out) return bundle_fail(PRESIL_EINVAL, "reader or out is NULL");
    const int status = get_struct(reader, &reader->chips, number, PRESIL_BUNDLE_CHIP, &got);
    if (status) return status;
    *out = got;
    ((presil_bundle_chip *)(uintptr_t)got)->size = sizeof **out;
    return PRESIL_OK;
}

/* Of a chip that a launch or a result names: how many stalls and counters a result has. */
static int counts_of(presil_bundle_reader *r, uint64_t chip, bundle_counts *out) {
    if (chip >= r->chips.count)
        return bundle_fail(PRESIL_EINVAL, "%s: a record of chip %llu: there are %llu", r->path,
                           (unsigned long long)chip, (unsigned long long)r->chips.count);
    if (!r->counts) r->counts = calloc(r->chips.count, sizeof *r->counts);
    if (!r->counts) return bundle_fail(PRESIL_EHOSTMEM, "%s: no memory for its chips", r->path);
    if (!r->counts[chip].known) {
        const presil_bundle_chip *c;
        const int status = presil_bundle_get_chip(r, chip, &c);
        if (status) return status;
        r->counts[chip] = (bundle_counts){true, (uint64_t)c->engine_count * c->cause_count, c->counter_count};
        presil_bundle_free(c);
    }
    *out = r->counts[chip];
    return PRESIL_OK;
}

int presil_bundle_get_launch(presil_bundle_reader *reader, uint64_t number, const presil_bundle_launch **out) {
    const void *got = NULL;
    bundle_counts counts;
    if (!reader || !out) return bundle_fail(PRESIL_EINVAL, "reader or out is NULL");
    int status = get_struct(reader, &reader->launches, number, PRESIL_BUNDLE_LAUNCH, &got);
    if (status) return status;
    presil_bundle_launch *launch = (presil_bundle_launch *)(uintptr_t)got;
    status = counts_of(reader, launch->chip, &counts);
    launch->size = sizeof *launch;
    if (status)
        presil_bundle_free(got);
    else
        *out = launch;
    return status;
}

int presil_bundle_get_result(presil_bundle_reader *reader, uint64_t number, const presil_bundle_result **out) {
    const void *got = NULL;
    bundle_counts counts;
    if (!reader || !out) return bundle_fail(PRESIL_EINVAL, "reader or out is NULL");
    int status = get_struct(reader, &reader->results, number, PRESIL_BUNDLE_RESULT, &got);
    if (status) return status;
    presil_bundle_result *result = (presil_bundle_result *)(uintptr_t)got;
    status = counts_of(reader, result->chip, &counts);
    if (!status && ((result->stall_count && result->stall_count != counts.stalls) ||
                    (result->counter_count && result->counter_count != counts.counters)))
        status = bundle_fail(PRESIL_EINVAL, "%s: RESULT %llu has %u stalls and %u counters, its chip %llu and %llu",
                             reader->path, (unsigned long long)number, result->stall_count, result->counter_count,
                             (unsigned long long)counts.stalls, (unsigned long long)counts.counters);
    result->size = sizeof *result;
    if (status)
        presil_bundle_free(got);
    else
        *out = result;
    return status;
}

int presil_bundle_get_attachment(presil_bundle_reader *reader, uint64_t number, const presil_bundle_attachment **out) {
    const void *got = NULL;
    if (!reader || !out) return bundle_fail(PRESIL_EINVAL, "reader or out is NULL");
    const int status = get_struct(reader, &reader->attachments, number, PRESIL_BUNDLE_ATTACHMENT, &got);
    if (status) return status;
    *out = got;
    ((presil_bundle_attachment *)(uintptr_t)got)->size = sizeof **out;
    return PRESIL_OK;
}

/* ---- labels: of all records, the last of a key */
static int copy_text(bundle_arena *arena, const char *text, const char **out) {
    const size_t bytes = strlen(text) + 1;
    char *to = bundle_take_from(arena, bytes);
    if (!to) return bundle_fail(PRESIL_EHOSTMEM, "no memory for labels");
    memcpy(to, text, bytes);
    *out = to;
    return PRESIL_OK;
}

static int add_labels(bundle_arena *arena, const bundle_labels *from, presil_bundle_pair *pairs, uint32_t *count) {
    for (uint32_t i = 0; i < from->label_count; i++) {
        uint32_t to = 0;
        while (to < *count && strcmp(pairs[to].key, from->labels[i].key) != 0) to++;
        int status = copy_text(arena, from->labels[i].value, &pairs[to].value);
        if (!status && to == *count) status = copy_text(arena, from->labels[i].key, &pairs[to].key);
        if (status) return status;
        *count += to == *count;
    }
    return PRESIL_OK;
}

int presil_bundle_get_labels(presil_bundle_reader *reader, const presil_bundle_pair **out, uint32_t *count) {
    enum { MOST_LABELS = 4096 }; /* they are compared one with all */
    if (!reader || !out || !count) return bundle_fail(PRESIL_EINVAL, "reader, out or count is NULL");
    bundle_arena *arena;
    presil_bundle_pair *pairs = bundle_got_new(MOST_LABELS * sizeof *pairs, &arena);
    if (!pairs) return bundle_fail(PRESIL_EHOSTMEM, "no memory for labels");
    uint32_t found = 0, seen = 0;
    int status = PRESIL_OK;
    for (uint64_t i = 0; i < reader->labels.count && !status; i++) {
        const void *got = NULL;
        status = get_struct(reader, &reader->labels, i, PRESIL_BUNDLE_LABELS, &got);
        if (status) break;
        const bundle_labels *labels = got;
        if (labels->label_count > MOST_LABELS - seen)
            status = bundle_fail(PRESIL_EHOSTMEM, "%s: more than %d labels", reader->path, (int)MOST_LABELS);
        else
            status = add_labels(arena, labels, pairs, &found);
        seen += labels->label_count;
        presil_bundle_free(got);
    }
    if (status) {
        presil_bundle_free(pairs);
        return status;
    }
    *out = pairs;
    *count = found;
    return PRESIL_OK;
}

/* ---- which launch, which result */
static int read_keys(presil_bundle_reader *r, const bundle_numbers *list, unsigned type, bundle_key **out) {
    bundle_key *keys = calloc(list->count + 1, sizeof *keys);
    int status = keys ? PRESIL_OK : bundle_fail(PRESIL_EHOSTMEM, "%s: no memory for an index", r->path);
    for (uint64_t i = 0; i < list->count && !status; i++) {
        const presil_bundle_launch *launch = NULL;
        const presil_bundle_result *result = NULL;
        status = type == PRESIL_BUNDLE_LAUNCH ? presil_bundle_get_launch(r, i, &launch)
                                              : presil_bundle_get_result(r, i, &result);
        if (launch) keys[i] = (bundle_key){launch->chip, launch->launch};
        if (result) keys[i] = (bundle_key){result->chip, result->launch};
        presil_bundle_free(launch);
        presil_bundle_free(result);
    }
    if (status)
        free(keys);
    else
        *out = keys;
    return status;
}

int presil_bundle_find_launch(presil_bundle_reader *r, uint64_t chip, uint64_t launch, uint64_t *number) {
    if (!r || !number) return bundle_fail(PRESIL_EINVAL, "reader or number is NULL");
    int status = r->launch_keys ? PRESIL_OK : read_keys(r, &r->launches, PRESIL_BUNDLE_LAUNCH, &r->launch_keys);
    for (uint64_t i = 0; !status && i < r->launches.count; i++) {
        if (r->launch_keys[i].chip != chip || r->launch_keys[i].launch != launch) continue;
        *number = i;
        return PRESIL_OK;
    }
    return status ? status
                  : bundle_fail(PRESIL_EINVAL, "%s: no launch %llu of chip %llu is in it", r->path,
                                (unsigned long long)launch, (unsigned long long)chip);
}

int presil_bundle_next_result(presil_bundle_reader *r, uint64_t launch_number, uint64_t from, uint64_t *number) {
    if (!r || !number) return bundle_fail(PRESIL_EINVAL, "reader or number is NULL");
    if (launch_number >= r->launches.count)
        return bundle_fail(PRESIL_EINVAL, "%s: LAUNCH %llu: there are %llu", r->path, (unsigned long long)launch_number,
                           (unsigned long long)r->launches.count);
    int status = r->launch_keys ? PRESIL_OK : read_keys(r, &r->launches, PRESIL_BUNDLE_LAUNCH, &r->launch_keys);
    if (!status && !r->result_keys) status = read_keys(r, &r->results, PRESIL_BUNDLE_RESULT, &r->result_keys);
    if (status) return status;
    const bundle_key *key = &r->launch_keys[launch_number];
    *number = UINT64_MAX;
    for (uint64_t i = from; i < r->results.count && *number == UINT64_MAX; i++) {
        if (r->result_keys[i].chip == key->chip && r->result_keys[i].launch == key->launch) *number = i;
    }
    return PRESIL_OK;
}

/* ---- contents */
static _Thread_local const bundle_entry *sorting;

static int by_hash(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    const int order = memcmp(sorting[x].hash, sorting[y].hash, sizeof sorting[x].hash);
    return order ? order : (x > y) - (x < y);
}

static void sort_blocks(presil_bundle_reader *r) {
    if (r->blocks_sorted) return;
    sorting = r->entries;
    if (r->blocks.count) qsort(r->blocks.at, r->blocks.count, sizeof *r->blocks.at, by_hash);
    r->blocks_sorted = true;
}

/* The record that has a block's contents. */
static int find_block(presil_bundle_reader *r, const presil_bundle_id *id, uint64_t *number) {
    sort_blocks(r);
    uint64_t low = 0, high = r->blocks.count;
    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        if (memcmp(r->entries[r->blocks.at[middle]].hash, id->hash, sizeof id->hash) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < r->blocks.count) {
        const bundle_entry *e = &r->entries[r->blocks.at[low]];
        *number = r->blocks.at[low];
        if (!memcmp(e->hash, id->hash, sizeof id->hash) && e->raw_bytes == id->bytes) return PRESIL_OK;
    }
    return bundle_fail(PRESIL_EINVAL, "%s: a block of %llu bytes (hash %02x%02x%02x%02x...) is not in it%s%s", r->path,
                       (unsigned long long)id->bytes, id->hash[0], id->hash[1], id->hash[2], id->hash[3],
                       r->summary.torn ? ": " : "", r->summary.tear_text);
}

int presil_bundle_get_block(presil_bundle_reader *reader, const presil_bundle_id *id, void *to) {
    uint64_t number = 0;
    if (!reader || !id) return bundle_fail(PRESIL_EINVAL, "reader or id is NULL");
    const int status = find_block(reader, id, &number);
    return status || !to ? status : bundle_read_record(reader, number, to);
}

int presil_bundle_get_memory(presil_bundle_reader *reader, const presil_bundle_memory *memory,
                             int (*write)(void *context, presil_daddr address, const void *bytes, uint64_t count),
                             void *context) {
    if (!reader || !memory || !write) return bundle_fail(PRESIL_EINVAL, "reader, memory or write is NULL");
    const char *wrong = bundle_memory_wrong(memory);
    if (wrong) return bundle_fail(PRESIL_EINVAL, "%s", wrong);
    uint8_t *piece = malloc(PRESIL_BUNDLE_PIECE);
    if (!piece) return bundle_fail(PRESIL_EHOSTMEM, "no memory for a piece");
    const presil_bundle_range *range = memory->ranges;
    int status = PRESIL_OK;
    for (uint64_t i = 0; i < memory->piece_count && !status; i++) {
        status = presil_bundle_get_block(reader, &memory->pieces[i].block, piece);
        const uint8_t *from = piece;
        for (uint64_t n = memory->pieces[i].ranges; n && !status; n--, from += range->bytes, range++)
            status = write(context, range->base, from, range->bytes);
    }
    free(piece);
    return status;
}
