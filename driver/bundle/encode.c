/* SPDX-License-Identifier: Apache-2.0 */
/* A struct of presil_bundle.h as a list of fields, by its table. */
#include "format.h"

#include <stdlib.h>
#include <string.h>

static void *room_for(bundle_buffer *b, size_t bytes) {
    if (b->capacity - b->count < bytes) {
        size_t capacity = b->capacity ? b->capacity : 512;
        while (capacity - b->count < bytes) capacity *= 2;
        uint8_t *at = realloc(b->at, capacity);
        if (!at) {
            b->lost = true;
            return NULL;
        }
        b->at = at;
        b->capacity = capacity;
    }
    b->count += bytes;
    return b->at + b->count - bytes;
}

/* The header, and room for the value, padded with zeros. */
static uint8_t *open_field(bundle_buffer *b, const bundle_field *field, uint64_t bytes) {
    const bundle_field_header header = {field->tag, field->kind, (uint32_t)bytes};
    if (bytes > UINT32_MAX - 7) {
        b->lost = true;
        return NULL;
    }
    const size_t padded = (size_t)BUNDLE_PADDED(bytes);
    uint8_t *at = room_for(b, sizeof header + padded);
    if (!at) return NULL;
    memcpy(at, &header, sizeof header);
    if (padded > bytes) memset(at + sizeof header + bytes, 0, padded - bytes);
    return at + sizeof header;
}

static void put_bytes(bundle_buffer *b, const bundle_field *field, const void *data, uint64_t bytes) {
    uint8_t *at = open_field(b, field, bytes);
    if (at && bytes) memcpy(at, data, bytes);
}

/* What is no UTF-8 (a path may be) becomes '?'. */
static void put_text(bundle_buffer *b, const bundle_field *field, const char *text) {
    const size_t bytes = strlen(text);
    uint8_t *at = open_field(b, field, bytes);
    if (!at) return;
    memcpy(at, text, bytes);
    for (size_t i = 0, step; i < bytes; i += step ? step : 1) {
        step = bundle_utf8(at + i, bytes - i);
        if (!step) at[i] = '?';
    }
}

static void put_number(bundle_buffer *b, const bundle_field *field, const uint8_t *from) {
    uint64_t value = 0;
    memcpy(&value, from, field->width);
    if (field->kind == BUNDLE_I64 && field->width == 4) {
        int32_t narrow;
        memcpy(&narrow, from, 4);
        value = (uint64_t)(int64_t)narrow;
    }
    put_bytes(b, field, &value, 8);
}

static void put_memory(bundle_buffer *b, const bundle_field *field, const presil_bundle_memory *memory) {
    const uint64_t ranges = memory->range_count * sizeof(presil_bundle_range),
                   pieces = memory->piece_count * sizeof(presil_bundle_piece);
    uint8_t *at = open_field(b, field, 16 + ranges + pieces);
    if (!at) return;
    memcpy(at, &memory->range_count, 8);
    memcpy(at + 8, &memory->piece_count, 8);
    if (ranges) memcpy(at + 16, memory->ranges, ranges);
    if (pieces) memcpy(at + 16 + ranges, memory->pieces, pieces);
}

static void put_group(bundle_buffer *b, const bundle_field *field, const void *value) {
    const size_t header = b->count;
    if (!open_field(b, field, 0)) return;
    bundle_encode(b, field->group, value);
    const uint64_t bytes = b->count - header - sizeof(bundle_field_header);
    if (bytes > UINT32_MAX) b->lost = true;
    if (!b->lost) memcpy(b->at + header + 4, &(uint32_t){(uint32_t)bytes}, 4);
}

static uint64_t count_of(const bundle_field *field, const uint8_t *value) {
    uint64_t count = 0;
    memcpy(&count, value + field->count_offset, field->count_width);
    return count;
}

static void put_many(bundle_buffer *b, const bundle_field *field, const uint8_t *value) {
    const uint64_t count = count_of(field, value);
    const char *const *texts;
    const uint8_t *structs;
    memcpy(&texts, value + field->offset, sizeof texts);
    memcpy(&structs, value + field->offset, sizeof structs);
    for (uint64_t i = 0; i < count && !b->lost; i++) {
        if (field->kind == BUNDLE_TEXT)
            put_text(b, field, texts[i] ? texts[i] : "");
        else
            put_group(b, field, structs + i * field->group->struct_bytes);
    }
}

static void put_array(bundle_buffer *b, const bundle_field *field, const uint8_t *value) {
    const uint64_t count = count_of(field, value), each = field->kind == BUNDLE_BYTES    ? 1
                                                          : field->kind == BUNDLE_RANGES ? sizeof(presil_bundle_range)
                                                                                         : 8;
    const void *data;
    memcpy(&data, value + field->offset, sizeof data);
    if (count > UINT32_MAX / each)
        b->lost = true;
    else if (count || field->kind == BUNDLE_BYTES)
        put_bytes(b, field, data, count * each);
}

/* A text that is empty, an array of nothing and a memory that is not there are left out. */
static void put_one(bundle_buffer *b, const bundle_field *field, const uint8_t *value) {
    const uint8_t *at = value + field->offset;
    const void *pointer = NULL;
    switch (field->kind) {
    case BUNDLE_TEXT:
        memcpy(&pointer, at, sizeof pointer);
        if (pointer && *(const char *)pointer) put_text(b, field, pointer);
        break;
    case BUNDLE_MEMORY:
        memcpy(&pointer, at, sizeof pointer);
        if (pointer) put_memory(b, field, pointer);
        break;
    case BUNDLE_ID: put_bytes(b, field, at, sizeof(presil_bundle_id)); break;
    case BUNDLE_GROUP:
        if (*(const uint32_t *)(const void *)at) put_group(b, field, at); /* begins with `present` */
        break;
    default: put_number(b, field, at); break;
    }
}

void bundle_encode(bundle_buffer *to, const bundle_fields *fields, const void *value) {
    for (size_t i = 0; i < fields->count && !to->lost; i++) {
        const bundle_field *field = &fields->at[i];
        if (field->many)
            put_many(to, field, value);
        else if (field->array)
            put_array(to, field, value);
        else
            put_one(to, field, value);
    }
}
