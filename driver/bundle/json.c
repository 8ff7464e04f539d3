/* SPDX-License-Identifier: Apache-2.0 */
/* Records as JSON, by the tables of fields.c. What is printed was decoded before: nothing half good comes out. */
#include "format.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values */
static void text_bytes(FILE *out, const uint8_t *text, uint64_t bytes) {
    (void)fputc('"', out);
    for (uint64_t i = 0; i < bytes; i++) {
        if (text[i] == '"' || text[i] == '\\')
            (void)fprintf(out, "\\%c", text[i]);
        else if (text[i] < ' ' || text[i] == 127)
            (void)fprintf(out, "\\u%04x", text[i]);
        else
            (void)fputc(text[i], out);
    }
    (void)fputc('"', out);
}

void bundle_json_text(FILE *out, const char *text) { text_bytes(out, (const uint8_t *)text, strlen(text)); }

void bundle_json_hex(FILE *out, const uint8_t *data, size_t bytes) {
    (void)fputc('"', out);
    for (size_t i = 0; i < bytes; i++) (void)fprintf(out, "%02x", data[i]);
    (void)fputc('"', out);
}

void bundle_json_base64(FILE *out, const void *data, uint64_t bytes) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *at = data;
    (void)fputc('"', out);
    for (uint64_t i = 0; i < bytes; i += 3) {
        const uint64_t left = bytes - i;
        const uint32_t three =
            (uint32_t)at[i] << 16 | (left > 1 ? (uint32_t)at[i + 1] << 8 : 0) | (left > 2 ? at[i + 2] : 0u);
        (void)fputc(letters[three >> 18], out);
        (void)fputc(letters[three >> 12 & 63], out);
        (void)fputc(left > 1 ? letters[three >> 6 & 63] : '=', out);
        (void)fputc(left > 2 ? letters[three & 63] : '=', out);
    }
    (void)fputc('"', out);
}

static void number(FILE *out, unsigned kind, const uint8_t *value) {
    uint64_t u;
    int64_t i;
    double d;
    memcpy(&u, value, 8);
    memcpy(&i, value, 8);
    memcpy(&d, value, 8);
    if (kind == BUNDLE_U64)
        (void)fprintf(out, "%" PRIu64, u);
    else if (kind == BUNDLE_I64)
        (void)fprintf(out, "%" PRId64, i);
    else if (isfinite(d))
        (void)fprintf(out, "%.17g", d);
    else
        (void)fputs("null", out);
}

static void id(FILE *out, const uint8_t *value) {
    presil_bundle_id name;
    memcpy(&name, value, sizeof name);
    (void)fputs("{\"hash\": ", out);
    bundle_json_hex(out, name.hash, sizeof name.hash);
    (void)fprintf(out, ", \"bytes\": %" PRIu64 "}", name.bytes);
}

static void ranges(FILE *out, const uint8_t *value, uint64_t count) {
    (void)fputc('[', out);
    for (uint64_t i = 0; i < count; i++) {
        presil_bundle_range r;
        memcpy(&r, value + i * sizeof r, sizeof r);
        (void)fprintf(out, "%s[%" PRIu64 ", %" PRIu64 "]", i ? ", " : "", r.base.value, r.bytes);
    }
    (void)fputc(']', out);
}

static void memory(FILE *out, const uint8_t *value) {
    uint64_t counts[2];
    memcpy(counts, value, sizeof counts);
    (void)fputs("{\"ranges\": ", out);
    ranges(out, value + 16, counts[0]);
    (void)fputs(", \"blocks\": [", out);
    for (uint64_t i = 0; i < counts[1]; i++) {
        presil_bundle_piece p;
        memcpy(&p, value + 16 + counts[0] * sizeof(presil_bundle_range) + i * sizeof p, sizeof p);
        (void)fputs(i ? ", [" : "[", out);
        bundle_json_hex(out, p.block.hash, sizeof p.block.hash);
        (void)fprintf(out, ", %" PRIu64 ", %" PRIu64 "]", p.block.bytes, p.ranges);
    }
    (void)fputs("]}", out);
}

/* ---- fields */
static void object(FILE *out, const bundle_fields *fields, const uint8_t *raw, uint64_t bytes, bool contents);

static void one(FILE *out, const bundle_field *field, const bundle_field_header *header, const uint8_t *value,
                bool contents) {
    switch (field->kind) {
    case BUNDLE_TEXT: text_bytes(out, value, header->bytes); break;
    case BUNDLE_BYTES:
        if (contents)
            bundle_json_base64(out, value, header->bytes);
        else
            (void)fprintf(out, "{\"bytes\": %u}", header->bytes);
        break;
    case BUNDLE_RANGES: ranges(out, value, header->bytes / sizeof(presil_bundle_range)); break;
    case BUNDLE_MEMORY: memory(out, value); break;
    case BUNDLE_ID: id(out, value); break;
    case BUNDLE_GROUP: object(out, field->group, value, header->bytes, contents); break;
    default:
        if (!field->array) {
            number(out, field->kind, value);
            break;
        }
        (void)fputc('[', out);
        for (uint32_t i = 0; i < header->bytes / 8; i++) {
            if (i) (void)fputs(", ", out);
            number(out, field->kind, value + 8 * i);
        }
        (void)fputc(']', out);
    }
}

static void all_of(FILE *out, const bundle_field *field, const uint8_t *raw, uint64_t bytes, bool contents, bool *any) {
    bundle_cursor c = {raw, bytes, NULL};
    bundle_field_header header;
    const uint8_t *value;
    uint64_t count = 0;
    while (bundle_next(&c, &header, &value)) {
        if (header.tag != field->tag) continue;
        if (!count++)
            (void)fprintf(out, "%s\"%s\": %s", *any ? ", " : "", field->name, field->many ? "[" : "");
        else
            (void)fputs(", ", out);
        *any = true;
        one(out, field, &header, value, contents);
    }
    if (count && field->many) (void)fputc(']', out);
}

static void unknown(FILE *out, const bundle_fields *fields, const uint8_t *raw, uint64_t bytes, bool any) {
    bundle_cursor c = {raw, bytes, NULL};
    bundle_field_header header;
    const uint8_t *value;
    uint64_t count = 0;
    while (bundle_next(&c, &header, &value)) {
        if (bundle_field_of(fields, header.tag)) continue;
        if (!count++)
            (void)fprintf(out, "%s\"unknown\": [", any ? ", " : "");
        else
            (void)fputs(", ", out);
        (void)fprintf(out, "[%u, %u, %u]", header.tag, header.kind, header.bytes);
    }
    if (count) (void)fputc(']', out);
}

static void object(FILE *out, const bundle_fields *fields, const uint8_t *raw, uint64_t bytes, bool contents) {
    bool any = false;
    (void)fputc('{', out);
    for (size_t i = 0; i < fields->count; i++) all_of(out, &fields->at[i], raw, bytes, contents, &any);
    unknown(out, fields, raw, bytes, any);
    (void)fputc('}', out);
}

int bundle_json_fields(FILE *out, const bundle_fields *fields, const void *raw, uint64_t bytes, bool contents,
                       const char *what) {
    bundle_arena *arena;
    void *value = bundle_got_new(fields->struct_bytes, &arena);
    if (!value) return bundle_fail(PRESIL_EHOSTMEM, "%s: no memory for a record", what);
    const int status = bundle_decode(arena, fields, raw, bytes, value, what);
    presil_bundle_free(value);
    if (!status) object(out, fields, raw, bytes, contents);
    return status;
}
