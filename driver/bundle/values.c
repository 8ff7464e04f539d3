/* SPDX-License-Identifier: Apache-2.0 */
/* Walking lists of fields, and what a value must be: everything is checked here before anybody uses it. */
#include "format.h"

#include <string.h>

bool bundle_next(bundle_cursor *cursor, bundle_field_header *header, const uint8_t **value) {
    if (!cursor->bytes) return false;
    if (cursor->bytes < sizeof *header) {
        cursor->wrong = "the list of fields ends within a field's header";
        return false;
    }
    memcpy(header, cursor->at, sizeof *header);
    const uint64_t padded = BUNDLE_PADDED((uint64_t)header->bytes);
    if (padded > cursor->bytes - sizeof *header) {
        cursor->wrong = "a field is longer than the list that it is in";
        return false;
    }
    *value = cursor->at + sizeof *header;
    cursor->at += sizeof *header + padded;
    cursor->bytes -= sizeof *header + padded;
    return true;
}

size_t bundle_utf8(const uint8_t *at, size_t bytes) {
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t first = at[0];
    if (first < 0x80) return first != 0;
    const size_t length = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
    if (!length || length > bytes) return 0;
    uint32_t code = first & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) return 0;
        code = code << 6 | (at[i] & 0x3fu);
    }
    return code < least[length] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? 0 : length;
}

static const char *text_wrong(const uint8_t *at, size_t bytes) {
    for (size_t i = 0, step; i < bytes; i += step) {
        step = bundle_utf8(at + i, bytes - i);
        if (!step) return "a text that is no UTF-8, or has a 0";
    }
    return NULL;
}

const char *bundle_ranges_wrong(const presil_bundle_range *ranges, uint64_t count) {
    uint64_t end = 0;
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t base = ranges[i].base.value, bytes = ranges[i].bytes;
        if (!bytes || base < end || bytes > UINT64_MAX - base) return "ranges that are empty, overlap or are unsorted";
        end = base + bytes;
    }
    return NULL;
}

const char *bundle_memory_wrong(const presil_bundle_memory *memory) {
    const char *wrong = bundle_ranges_wrong(memory->ranges, memory->range_count);
    uint64_t range = 0;
    for (uint64_t i = 0; i < memory->piece_count && !wrong; i++) {
        const presil_bundle_piece *piece = &memory->pieces[i];
        if (!piece->ranges || piece->ranges > memory->range_count - range)
            return "pieces that have other ranges than there are";
        const uint64_t window = memory->ranges[range].base.value / PRESIL_BUNDLE_PIECE;
        uint64_t bytes = 0;
        for (const uint64_t end = range + piece->ranges; range < end; range++) {
            const presil_bundle_range *r = &memory->ranges[range];
            if (r->base.value / PRESIL_BUNDLE_PIECE != window ||
                (r->base.value + (r->bytes - 1)) / PRESIL_BUNDLE_PIECE != window)
                return "a piece that crosses a multiple of 65536";
            bytes += r->bytes;
        }
        if (bytes != piece->block.bytes) return "a piece whose block has another length";
    }
    if (!wrong && range != memory->range_count) return "ranges without a piece";
    return wrong;
}

static const char *memory_bytes_wrong(const bundle_field_header *header, const uint8_t *value) {
    uint64_t counts[2];
    if (header->bytes < sizeof counts) return "a memory without its counts";
    memcpy(counts, value, sizeof counts);
    const uint64_t room = header->bytes - sizeof counts;
    if (counts[0] > room / sizeof(presil_bundle_range) || counts[1] > room / sizeof(presil_bundle_piece) ||
        counts[0] * sizeof(presil_bundle_range) + counts[1] * sizeof(presil_bundle_piece) != room)
        return "a memory whose counts don't fit its bytes";
    presil_bundle_memory memory = {.range_count = counts[0], .piece_count = counts[1]};
    memory.ranges = (const void *)(value + sizeof counts);
    memory.pieces = (const void *)(value + sizeof counts + counts[0] * sizeof(presil_bundle_range));
    return bundle_memory_wrong(&memory);
}

static const char *number_wrong(const bundle_field *field, const bundle_field_header *header, const uint8_t *value) {
    if (field->array) return header->bytes % 8 ? "an array of broken length" : NULL;
    if (header->bytes != 8) return "a number of broken length";
    uint64_t u;
    int64_t i;
    memcpy(&u, value, 8);
    memcpy(&i, value, 8);
    if (field->kind == BUNDLE_I64 && field->width == 4 && (i < INT32_MIN || i > INT32_MAX))
        return "a number that is out of range";
    if (field->kind == BUNDLE_U64 && field->width < 8 && u >> (8 * field->width))
        return "a number that is out of range";
    return NULL;
}

const char *bundle_value_wrong(const bundle_field *field, const bundle_field_header *header, const uint8_t *value) {
    if (header->kind != field->kind) return "a field of another kind";
    switch (header->kind) {
    case BUNDLE_U64:
    case BUNDLE_I64:
    case BUNDLE_F64: return number_wrong(field, header, value);
    case BUNDLE_TEXT: return text_wrong(value, header->bytes);
    case BUNDLE_RANGES:
        if (header->bytes % sizeof(presil_bundle_range)) return "ranges of broken length";
        return bundle_ranges_wrong((const void *)value, header->bytes / sizeof(presil_bundle_range));
    case BUNDLE_MEMORY: return memory_bytes_wrong(header, value);
    case BUNDLE_ID: return header->bytes == sizeof(presil_bundle_id) ? NULL : "a block's name of broken length";
    default: return NULL;
    }
}
