/* SPDX-License-Identifier: Apache-2.0 */
/* A list of fields as a struct of presil_bundle.h, by its table. Memory in proportion to the list: each entry of a
 * table that repeats takes its struct (at most 64 bytes) for 8 bytes of field. */
#include "format.h"

#include <stdlib.h>
#include <string.h>

/* ---- memory */
typedef struct chunk {
    struct chunk *next;
    uint8_t padding[8];
} chunk;

struct bundle_arena {
    chunk *chunks;
    uint8_t padding[8];
};

_Static_assert(sizeof(chunk) == 16 && sizeof(bundle_arena) == 16, "what follows them is aligned to 16");

void *bundle_got_new(size_t bytes, bundle_arena **arena) {
    bundle_arena *made = calloc(1, sizeof *made + bytes);
    *arena = made;
    return made ? made + 1 : NULL;
}

void *bundle_take_from(bundle_arena *arena, size_t bytes) {
    chunk *made = bytes > SIZE_MAX - sizeof *made ? NULL : calloc(1, sizeof *made + bytes);
    if (!made) return NULL;
    made->next = arena->chunks;
    arena->chunks = made;
    return made + 1;
}

void presil_bundle_free(const void *got) {
    if (!got) return;
    bundle_arena *arena = (bundle_arena *)(uintptr_t)got - 1;
    for (chunk *at = arena->chunks, *next; at; at = next) {
        next = at->next;
        free(at);
    }
    free(arena);
}

/* ---- values */
typedef struct {
    bundle_arena *arena;
    const char *wrong;
    bool lost;
} decoding;

static void decode_fields(decoding *d, const bundle_fields *fields, const uint8_t *raw, uint64_t bytes, uint8_t *out);

static void *taken(decoding *d, size_t bytes) {
    void *at = bundle_take_from(d->arena, bytes);
    if (!at) d->lost = true;
    return at;
}

static const void *copied(decoding *d, const void *from, size_t bytes, size_t more) {
    uint8_t *at = taken(d, bytes + more);
    if (at && bytes) memcpy(at, from, bytes);
    return at;
}

static void put_count(const bundle_field *field, uint8_t *out, uint64_t count) {
    memcpy(out + field->count_offset, &count, field->count_width);
}

static uint64_t get_count(const bundle_field *field, const uint8_t *out) {
    uint64_t count = 0;
    memcpy(&count, out + field->count_offset, field->count_width);
    return count;
}

static void take_array(decoding *d, const bundle_field *field, const bundle_field_header *header, const uint8_t *value,
                       uint8_t *out) {
    const uint32_t each = field->kind == BUNDLE_BYTES    ? 1
                          : field->kind == BUNDLE_RANGES ? (uint32_t)sizeof(presil_bundle_range)
                                                         : 8;
    const uint64_t count = header->bytes / each, before = get_count(field, out);
    if (!count && field->kind != BUNDLE_BYTES) return; /* as if it were not there */
    if (before && before != count) {                   /* two arrays may share one count */
        d->wrong = "arrays of one struct that have different lengths";
        return;
    }
    const void *at = copied(d, value, header->bytes, 1);
    memcpy(out + field->offset, &at, sizeof at);
    put_count(field, out, count);
}

static void take_memory(decoding *d, const bundle_field *field, const bundle_field_header *header, const uint8_t *value,
                        uint8_t *out) {
    presil_bundle_memory *memory = taken(d, sizeof *memory + header->bytes);
    if (!memory) return;
    memcpy(&memory->range_count, value, 8);
    memcpy(&memory->piece_count, value + 8, 8);
    presil_bundle_range *ranges = (void *)(memory + 1);
    memcpy(ranges, value + 16, header->bytes - 16);
    memory->ranges = ranges;
    memory->pieces = (const void *)(ranges + memory->range_count);
    for (uint64_t i = 0; i < memory->piece_count; i++) memory->bytes += memory->pieces[i].block.bytes;
    memcpy(out + field->offset, &memory, sizeof memory);
}

static void take_one(decoding *d, const bundle_field *field, const bundle_field_header *header, const uint8_t *value,
                     uint8_t *out) {
    const void *text;
    switch (field->kind) {
    case BUNDLE_TEXT:
        text = copied(d, value, header->bytes, 1);
        memcpy(out + field->offset, &text, sizeof text);
        break;
    case BUNDLE_MEMORY: take_memory(d, field, header, value, out); break;
    case BUNDLE_ID: memcpy(out + field->offset, value, sizeof(presil_bundle_id)); break;
    case BUNDLE_GROUP: decode_fields(d, field->group, value, header->bytes, out + field->offset); break;
    default: memcpy(out + field->offset, value, field->width); break;
    }
}

/* Fields that repeat are counted first, so that each table is taken in one piece. */
static void take_table(decoding *d, const bundle_field *field, const uint8_t *raw, uint64_t bytes, uint8_t *out) {
    const size_t each = field->kind == BUNDLE_TEXT ? sizeof(const char *) : field->group->struct_bytes;
    bundle_field_header header;
    const uint8_t *value;
    uint64_t count = 0;
    for (bundle_cursor c = {raw, bytes, NULL}; bundle_next(&c, &header, &value);) count += header.tag == field->tag;
    if (!count) return;
    uint8_t *table = taken(d, count * each);
    if (!table) return;
    uint64_t i = 0;
    for (bundle_cursor c = {raw, bytes, NULL}; bundle_next(&c, &header, &value) && !d->wrong && !d->lost;) {
        if (header.tag != field->tag) continue;
        d->wrong = bundle_value_wrong(field, &header, value);
        if (d->wrong) return;
        if (field->kind == BUNDLE_TEXT) {
            const void *text = copied(d, value, header.bytes, 1);
            memcpy(table + i * each, &text, sizeof text);
        } else {
            decode_fields(d, field->group, value, header.bytes, table + i * each);
        }
        i++;
    }
    memcpy(out + field->offset, &table, sizeof table);
    put_count(field, out, count);
}

static void decode_singles(decoding *d, const bundle_fields *fields, const uint8_t *raw, uint64_t bytes, uint8_t *out) {
    bundle_cursor c = {raw, bytes, NULL};
    bundle_field_header header;
    const uint8_t *value;
    uint64_t seen = 0;
    while (!d->wrong && !d->lost && bundle_next(&c, &header, &value)) {
        const bundle_field *field = bundle_field_of(fields, header.tag);
        if (!field || field->many) continue;
        const uint64_t bit = 1ull << (field - fields->at);
        if (seen & bit) d->wrong = "a field that is there twice";
        seen |= bit;
        if (!d->wrong) d->wrong = bundle_value_wrong(field, &header, value);
        if (d->wrong) break;
        if (field->array)
            take_array(d, field, &header, value, out);
        else
            take_one(d, field, &header, value, out);
    }
    if (c.wrong) d->wrong = c.wrong;
}

static void decode_fields(decoding *d, const bundle_fields *fields, const uint8_t *raw, uint64_t bytes, uint8_t *out) {
    static const char *const nothing = "";
    for (size_t i = 0; i < fields->count; i++) {
        if (fields->at[i].kind == BUNDLE_TEXT && !fields->at[i].many)
            memcpy(out + fields->at[i].offset, &nothing, sizeof nothing);
        else if (fields->at[i].kind == BUNDLE_GROUP && !fields->at[i].many)
            decode_fields(d, fields->at[i].group, NULL, 0, out + fields->at[i].offset);
    }
    decode_singles(d, fields, raw, bytes, out);
    for (size_t i = 0; i < fields->count && !d->wrong && !d->lost; i++) {
        if (fields->at[i].many) take_table(d, &fields->at[i], raw, bytes, out);
    }
    if (!d->wrong && !d->lost && raw && fields->check) d->wrong = fields->check(out);
}

int bundle_decode(bundle_arena *arena, const bundle_fields *fields, const void *raw, uint64_t bytes, void *out,
                  const char *what) {
    decoding d = {.arena = arena};
    decode_fields(&d, fields, raw, bytes, out);
    if (d.lost)
        return bundle_fail(PRESIL_EHOSTMEM, "%s: no memory for a record of %llu bytes", what,
                           (unsigned long long)bytes);
    if (d.wrong)
        return bundle_fail(PRESIL_EINVAL, "%s: %s: the file is damaged, or was not written by Presil", what, d.wrong);
    return PRESIL_OK;
}
