/* SPDX-License-Identifier: Apache-2.0 */
/* format.h - the bytes of a bundle (docs/bundle.md), and what the files of driver/bundle share. All numbers are
 * little-endian; this code runs on little-endian machines only. */
#ifndef BUNDLE_FORMAT_H
#define BUNDLE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "presil_bundle.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bundles are read and written on little-endian machines only"
#endif

/* ---- the file's header, and a record's */
#define BUNDLE_MAGIC "PRESILB\n"
#define BUNDLE_RECORD_MAGIC 0x63655250u /* "PRec" */
#define BUNDLE_PADDED(bytes) (((bytes) + 7u) & ~(uint64_t)7u)

typedef struct {
    char magic[8];
    uint16_t major, minor;
    uint32_t header_bytes; /* where the first record begins: a newer minor version may have more */
    uint8_t id[16];
    uint32_t reserved0;
    uint32_t check; /* low half of XXH3-64 of the bytes before it */
} bundle_file_header;

enum { BUNDLE_ZSTD = 1, BUNDLE_CRITICAL = 2 };

typedef struct {
    uint32_t magic;
    uint16_t type, flags;
    uint64_t number, raw_bytes, stored_bytes;
    uint8_t hash[16];      /* XXH3-128 of the raw bytes, canonical */
    uint64_t stored_check; /* XXH3-64 of the stored bytes */
    uint32_t reserved0;
    uint32_t check; /* low half of XXH3-64 of the bytes before it */
} bundle_record_header;

_Static_assert(sizeof(bundle_file_header) == 40, "docs/bundle.md");
_Static_assert(sizeof(bundle_record_header) == 64, "docs/bundle.md");

typedef struct {
    const presil_bundle_pair *labels;
    uint32_t label_count;
} bundle_labels;

/* END. */
typedef struct {
    uint64_t records, launches; /* before it */
    const void *headers;        /* XXH3-128 over the headers of these records, canonical */
    uint64_t headers_bytes;
} bundle_end;

/* ---- fields: what the raw bytes of every record but BLOCK are a list of */
typedef struct {
    uint16_t tag, kind;
    uint32_t bytes; /* of the value that follows, without the padding to 8 */
} bundle_field_header;

enum bundle_kind {
    BUNDLE_U64 = 1, /* one, or an array */
    BUNDLE_I64 = 2,
    BUNDLE_F64 = 3,
    BUNDLE_TEXT = 4, /* UTF-8 without a 0 */
    BUNDLE_BYTES = 5,
    BUNDLE_RANGES = 6, /* presil_bundle_range, sorted and disjoint */
    BUNDLE_MEMORY = 7, /* u64 ranges, u64 pieces, presil_bundle_range each, presil_bundle_piece each */
    BUNDLE_ID = 8,     /* presil_bundle_id */
    BUNDLE_GROUP = 9,  /* fields */
};

_Static_assert(sizeof(presil_bundle_range) == 16 && sizeof(presil_bundle_piece) == 32 && sizeof(presil_bundle_id) == 24,
               "docs/bundle.md: these lie in the file as they are");

typedef struct bundle_fields bundle_fields;

/* How a field lies in its struct. `many`: it may come again; the struct has a pointer and a count. */
typedef struct {
    uint16_t tag;
    uint8_t kind, many, array; /* array: of numbers, in one field */
    uint8_t width, count_width;
    uint16_t offset, count_offset;
    const bundle_fields *group;
    const char *name;
} bundle_field;

struct bundle_fields {
    const char *name;
    size_t struct_bytes, count;
    const bundle_field *at;
    const char *(*check)(const void *value); /* NULL, or what is wrong */
};

/* NULL: a type without fields, or an unknown one. */
const bundle_fields *bundle_fields_of(unsigned type);
const char *bundle_type_name(unsigned type); /* NULL: unknown */
const bundle_field *bundle_field_of(const bundle_fields *fields, unsigned tag);

/* The next field of a list: true, false at the end; *wrong becomes a text if the list is damaged. */
typedef struct {
    const uint8_t *at;
    uint64_t bytes;
    const char *wrong;
} bundle_cursor;
bool bundle_next(bundle_cursor *cursor, bundle_field_header *header, const uint8_t **value);
/* NULL, or what is wrong with a value of a known field. */
const char *bundle_value_wrong(const bundle_field *field, const bundle_field_header *header, const uint8_t *value);
/* Validates; NULL, or what is wrong. */
const char *bundle_ranges_wrong(const presil_bundle_range *ranges, uint64_t count);
const char *bundle_memory_wrong(const presil_bundle_memory *memory);
/* Length of the valid UTF-8 sequence that begins here, without 0; 0: none. */
size_t bundle_utf8(const uint8_t *at, size_t bytes);
const char *bundle_attachment_name_wrong(const char *name);

/* ---- encoding */
typedef struct {
    uint8_t *at;
    size_t count, capacity;
    bool lost; /* no memory */
} bundle_buffer;
void bundle_encode(bundle_buffer *to, const bundle_fields *fields, const void *value);

/* ---- decoding: what presil_bundle_free() frees */
typedef struct bundle_arena bundle_arena;
/* A struct with room for `bytes`, zeroed, that presil_bundle_free() frees together with what is taken from its arena.
 */
void *bundle_got_new(size_t bytes, bundle_arena **arena);
void *bundle_take_from(bundle_arena *arena, size_t bytes); /* zeroed, 16-aligned; NULL: no memory */
/* raw stays the caller's, and may be freed afterwards. A presil_status. */
int bundle_decode(bundle_arena *arena, const bundle_fields *fields, const void *raw, uint64_t bytes, void *out,
                  const char *what);

/* ---- JSON (json.c): what `presil-bundle convert` prints, and what Python's reader must find */
/* A text between quotes. */
void bundle_json_text(FILE *out, const char *text);
/* The fields of a record as an object. contents: bytes in base64, else how many. A presil_status. */
int bundle_json_fields(FILE *out, const bundle_fields *fields, const void *raw, uint64_t bytes, bool contents,
                       const char *what);
void bundle_json_base64(FILE *out, const void *data, uint64_t bytes);
void bundle_json_hex(FILE *out, const uint8_t *data, size_t bytes);

/* ---- hashes */
void bundle_hash128(const void *data, size_t bytes, uint8_t out[16]);
uint64_t bundle_hash64(const void *data, size_t bytes);
uint32_t bundle_check(const void *data, size_t bytes);
typedef struct bundle_hasher bundle_hasher;
bundle_hasher *bundle_hasher_new(void);
void bundle_hasher_add(bundle_hasher *hasher, const void *data, size_t bytes);
void bundle_hasher_get(const bundle_hasher *hasher, uint8_t out[16]);
void bundle_hasher_free(bundle_hasher *hasher);

/* ---- errors */
int bundle_fail(int status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A struct of the caller's that begins with its size, which may be of another version. */
int bundle_take(void *to, size_t to_bytes, const void *from, uint32_t size, size_t least, const char *what);

/* ---- reading from memory, for tests */
int bundle_open_bytes(const void *bytes, uint64_t count, const presil_bundle_read_options *options,
                      presil_bundle_reader **out);

#endif
