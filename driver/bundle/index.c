/* SPDX-License-Identifier: Apache-2.0 */
/* Opening: the file's header, then every record's. Nothing of the contents is read (but END's), nothing is believed
 * that does not fit the file and the limits. Where that ends is the tear. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include "reader.h"

#define DEFAULT_RECORD_BYTES (256ull << 20)
#define DEFAULT_TOTAL_BYTES (1ull << 40)
#define DEFAULT_RECORDS (1ull << 28)

int bundle_read_at(const presil_bundle_reader *r, uint64_t offset, void *to, uint64_t bytes) {
    if (r->bytes) {
        memcpy(to, r->bytes + offset, bytes);
        return PRESIL_OK;
    }
    for (uint64_t at = 0; at < bytes;) {
        const ssize_t n = pread(r->file, (char *)to + at, bytes - at, (off_t)(offset + at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0)
            return bundle_fail(PRESIL_EIO, "%s can't be read at byte %llu: %s", r->path,
                               (unsigned long long)(offset + at), n ? strerror(errno) : "it became shorter");
        at += (uint64_t)n;
    }
    return PRESIL_OK;
}

/* Room for one more behind `count` elements: the list itself, or where it has moved to; NULL: no host memory. */
static void *grown(void *list, uint64_t count, uint64_t *capacity, size_t element) {
    if (count < *capacity) return list;
    const uint64_t more = *capacity ? 2 * *capacity : 16;
    void *at = realloc(list, more * element);
    if (at)
        *capacity = more;
    else
        (void)bundle_fail(PRESIL_EHOSTMEM, "no memory for an index of %llu records", (unsigned long long)more);
    return at;
}

static int add_number(bundle_numbers *list, uint64_t number) {
    uint64_t *at = grown(list->at, list->count, &list->capacity, sizeof *at);
    if (!at) return PRESIL_EHOSTMEM;
    list->at = at;
    list->at[list->count++] = number;
    return PRESIL_OK;
}

/* ---- the file's header */
static int not_a_bundle(const presil_bundle_reader *r, const char *magic) {
    if (!memcmp(magic, "PRESILPR", 8))
        return bundle_fail(PRESIL_EINVAL,
                           "%s is a program of torch.presil.aot_save, no bundle: presil-run runs it (docs/aot.md)",
                           r->path);
    return bundle_fail(PRESIL_EINVAL, "%s is no bundle: it does not begin with PRESILB", r->path);
}

/* Where records begin; 0 if the file ends before. */
static int read_header(presil_bundle_reader *r, uint64_t *begin) {
    bundle_file_header header = {0};
    const uint64_t size = r->summary.file_bytes, there = size < sizeof header ? size : sizeof header;
    int status = bundle_read_at(r, 0, &header, there);
    if (status) return status;
    if (there < sizeof header.magic || memcmp(header.magic, BUNDLE_MAGIC, sizeof header.magic) != 0)
        return not_a_bundle(r, header.magic);
    *begin = 0;
    if (there < sizeof header) return PRESIL_OK;
    if (header.major > PRESIL_BUNDLE_MAJOR || header.major == 0)
        return bundle_fail(PRESIL_EUNSUPPORTED, "%s has format %u.%u, this reader knows %u.%u: use a newer Presil",
                           r->path, header.major, header.minor, PRESIL_BUNDLE_MAJOR, PRESIL_BUNDLE_MINOR);
    if (header.check != bundle_check(&header, offsetof(bundle_file_header, check)) ||
        header.header_bytes < sizeof header || header.header_bytes % 8)
        return bundle_fail(PRESIL_EINVAL, "%s: the file's header is damaged", r->path);
    r->summary.major = header.major;
    r->summary.minor = header.minor;
    memcpy(r->summary.id, header.id, sizeof header.id);
    *begin = header.header_bytes <= size ? header.header_bytes : 0;
    return PRESIL_OK;
}

/* ---- records */
static void tear(presil_bundle_reader *r, uint64_t offset, const char *what) {
    presil_bundle_summary *s = &r->summary;
    s->torn = 1;
    s->good_bytes = offset;
    (void)snprintf(s->tear_text, sizeof s->tear_text, "torn after %llu records, at byte %llu: %s",
                   (unsigned long long)s->records, (unsigned long long)offset, what);
}

/* NULL, or why the file is torn here. */
static const char *record_torn(const presil_bundle_reader *r, uint64_t offset, const bundle_record_header *h) {
    const uint64_t left = r->summary.file_bytes - offset - sizeof *h;
    if (h->magic != BUNDLE_RECORD_MAGIC || h->check != bundle_check(h, offsetof(bundle_record_header, check)))
        return "the next record's header is damaged";
    if (h->number != r->summary.records) return "the next record has another number";
    if (h->stored_bytes > left || BUNDLE_PADDED(h->stored_bytes) > left) return "the next record is cut";
    if (!(h->flags & BUNDLE_ZSTD) && h->stored_bytes != h->raw_bytes) return "the next record's lengths don't fit";
    return NULL;
}

static int over_limit(const presil_bundle_reader *r, const char *what, uint64_t found, uint64_t most,
                      const char *option) {
    return bundle_fail(PRESIL_EHOSTMEM, "%s: %llu %s, at most %llu are allowed (%s of presil_bundle_read_options)",
                       r->path, (unsigned long long)found, what, (unsigned long long)most, option);
}

static int within_limits(const presil_bundle_reader *r, const bundle_record_header *h) {
    const presil_bundle_read_options *limits = &r->limits;
    if (h->raw_bytes > limits->record_bytes)
        return over_limit(r, "bytes in a record", h->raw_bytes, limits->record_bytes, "record_bytes");
    if (h->raw_bytes > limits->total_bytes - r->summary.raw_bytes)
        return over_limit(r, "bytes in all records", r->summary.raw_bytes + h->raw_bytes, limits->total_bytes,
                          "total_bytes");
    if (r->summary.records >= limits->records)
        return over_limit(r, "records", r->summary.records + 1, limits->records, "records");
    if ((h->flags & BUNDLE_CRITICAL) && !bundle_type_name(h->type))
        return bundle_fail(PRESIL_EUNSUPPORTED, "%s: record %llu of type %u must be understood: use a newer Presil",
                           r->path, (unsigned long long)h->number, h->type);
    return PRESIL_OK;
}

static int add_entry(presil_bundle_reader *r, uint64_t offset, const bundle_record_header *h) {
    presil_bundle_summary *s = &r->summary;
    bundle_entry *at = grown(r->entries, s->records, &r->capacity, sizeof *at);
    if (!at) return PRESIL_EHOSTMEM;
    r->entries = at;
    bundle_entry *e = &r->entries[s->records];
    *e = (bundle_entry){offset, h->raw_bytes, h->stored_bytes, h->stored_check, {0}, h->type, h->flags};
    memcpy(e->hash, h->hash, sizeof e->hash);
    bundle_numbers *const lists[] = {[PRESIL_BUNDLE_CHIP] = &r->chips,
                                     [PRESIL_BUNDLE_BLOCK] = &r->blocks,
                                     [PRESIL_BUNDLE_LAUNCH] = &r->launches,
                                     [PRESIL_BUNDLE_RESULT] = &r->results,
                                     [PRESIL_BUNDLE_ATTACHMENT] = &r->attachments,
                                     [PRESIL_BUNDLE_LABELS] = &r->labels};
    const bool listed = h->type < sizeof lists / sizeof *lists && lists[h->type];
    const int status = listed ? add_number(lists[h->type], s->records) : PRESIL_OK;
    if (status) return status;
    s->unknown += !bundle_type_name(h->type);
    s->raw_bytes += h->raw_bytes;
    s->stored_bytes += h->stored_bytes;
    s->records++;
    s->good_bytes = offset + sizeof *h + BUNDLE_PADDED(h->stored_bytes);
    return PRESIL_OK;
}

/* The closing record against what was walked: true if it fits. */
static bool end_fits(presil_bundle_reader *r, uint64_t launches, const bundle_hasher *headers) {
    const uint64_t number = r->summary.records - 1, bytes = r->entries[number].raw_bytes;
    uint8_t hash[16];
    bundle_end *end;
    bundle_arena *arena;
    void *raw = bytes <= 65536 ? malloc(bytes + 1) : NULL;
    bool fits = false;
    end = bundle_got_new(sizeof *end, &arena);
    if (raw && end && !bundle_read_record(r, number, raw) &&
        !bundle_decode(arena, bundle_fields_of(PRESIL_BUNDLE_END), raw, bytes, end, "END")) {
        bundle_hasher_get(headers, hash);
        fits = end->records == number && end->launches == launches && end->headers_bytes == sizeof hash &&
               !memcmp(end->headers, hash, sizeof hash);
    }
    presil_bundle_free(end);
    free(raw);
    return fits;
}

/* One record: its status, or *torn. */
static int walk_one(presil_bundle_reader *r, uint64_t offset, const bundle_hasher *headers, bundle_record_header *h,
                    const char **torn) {
    if (r->summary.file_bytes - offset < sizeof *h) {
        *torn = offset == r->summary.file_bytes ? "the closing record is missing" : "the next record's header is cut";
        return PRESIL_OK;
    }
    int status = bundle_read_at(r, offset, h, sizeof *h);
    if (status) return status;
    *torn = record_torn(r, offset, h);
    if (*torn) return PRESIL_OK;
    status = within_limits(r, h);
    if (!status) status = add_entry(r, offset, h);
    if (status) return status;
    if (r->limits.verify || h->type == PRESIL_BUNDLE_END) {
        void *raw = malloc(h->raw_bytes + 1);
        if (!raw) return bundle_fail(PRESIL_EHOSTMEM, "no memory for a record");
        const int read = bundle_read_record(r, h->number, raw);
        free(raw);
        if (read == PRESIL_EINVAL) *torn = "the next record's contents are damaged";
        if (read && read != PRESIL_EINVAL) return read;
    }
    if (!*torn && h->type == PRESIL_BUNDLE_END && !end_fits(r, r->launches.count, headers))
        *torn = "the closing record does not fit what is before it";
    return PRESIL_OK;
}

/* Takes back the record that was added last. */
static void drop_last(presil_bundle_reader *r) {
    presil_bundle_summary *s = &r->summary;
    bundle_numbers *const lists[] = {&r->chips, &r->blocks, &r->launches, &r->results, &r->attachments, &r->labels};
    const bundle_entry *e = &r->entries[--s->records];
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        if (lists[i]->count && lists[i]->at[lists[i]->count - 1] == s->records) lists[i]->count--;
    }
    s->unknown -= !bundle_type_name(e->type);
    s->raw_bytes -= e->raw_bytes;
    s->stored_bytes -= e->stored_bytes;
}

static int walk(presil_bundle_reader *r, uint64_t begin, bundle_hasher *headers) {
    r->summary.good_bytes = begin;
    for (uint64_t offset = begin;;) {
        bundle_record_header h;
        const char *torn = NULL;
        const uint64_t before = r->summary.records;
        const int status = walk_one(r, offset, headers, &h, &torn);
        if (status) return status;
        if (torn) {
            if (r->summary.records > before) drop_last(r);
            tear(r, offset, torn);
            return PRESIL_OK;
        }
        if (h.type == PRESIL_BUNDLE_END) {
            if (r->summary.good_bytes != r->summary.file_bytes)
                tear(r, r->summary.good_bytes, "there is something behind the closing record");
            return PRESIL_OK;
        }
        bundle_hasher_add(headers, &h, sizeof h);
        offset = r->summary.good_bytes;
    }
}

static int build_index(presil_bundle_reader *r) {
    uint64_t begin = 0;
    int status = read_header(r, &begin);
    if (status) return status;
    if (begin) {
        bundle_hasher *headers = bundle_hasher_new();
        status = headers ? walk(r, begin, headers) : bundle_fail(PRESIL_EHOSTMEM, "no memory for a reader");
        bundle_hasher_free(headers);
    } else {
        tear(r, 0, "the file's header is cut");
    }
    presil_bundle_summary *s = &r->summary;
    s->chips = r->chips.count;
    s->launches = r->launches.count;
    s->results = r->results.count;
    s->attachments = r->attachments.count;
    s->blocks = r->blocks.count;
    return status;
}

/* ---- opening */
static int take_limits(presil_bundle_reader *r, const presil_bundle_read_options *options) {
    presil_bundle_read_options *limits = &r->limits;
    const int status =
        options ? bundle_take(limits, sizeof *limits, options, options->size, 8, "presil_bundle_read_options")
                : PRESIL_OK;
    if (!limits->record_bytes) limits->record_bytes = DEFAULT_RECORD_BYTES;
    if (!limits->total_bytes) limits->total_bytes = DEFAULT_TOTAL_BYTES;
    if (!limits->records) limits->records = DEFAULT_RECORDS;
    return status;
}

static int open_file(presil_bundle_reader *r) {
    struct stat about;
    r->file = open(r->path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (r->file < 0 || fstat(r->file, &about)) return bundle_fail(PRESIL_EIO, "%s: %s", r->path, strerror(errno));
    if (!S_ISREG(about.st_mode)) return bundle_fail(PRESIL_EINVAL, "%s is no file", r->path);
    r->summary.file_bytes = (uint64_t)about.st_size;
    return PRESIL_OK;
}

static int open_reader(const char *path, const void *bytes, uint64_t count, const presil_bundle_read_options *options,
                       presil_bundle_reader **out) {
    presil_bundle_reader *r = calloc(1, sizeof *r);
    if (!r) return bundle_fail(PRESIL_EHOSTMEM, "no memory for a reader");
    r->file = -1;
    r->bytes = bytes;
    r->path = strdup(path);
    r->summary.file_bytes = count;
    r->summary.size = sizeof r->summary;
    int status = r->path ? take_limits(r, options) : bundle_fail(PRESIL_EHOSTMEM, "no memory for a reader");
    if (!status && !bytes) status = open_file(r);
    if (!status) status = build_index(r);
    if (status)
        presil_bundle_reader_close(r);
    else
        *out = r;
    return status;
}

int presil_bundle_open(const char *path, const presil_bundle_read_options *options, presil_bundle_reader **out) {
    if (!path || !out) return bundle_fail(PRESIL_EINVAL, "path or out is NULL");
    return open_reader(path, NULL, 0, options, out);
}

int bundle_open_bytes(const void *bytes, uint64_t count, const presil_bundle_read_options *options,
                      presil_bundle_reader **out) {
    return open_reader("(memory)", bytes, count, options, out);
}

void presil_bundle_reader_close(presil_bundle_reader *r) {
    if (!r) return;
    bundle_numbers *const lists[] = {&r->chips, &r->blocks, &r->launches, &r->results, &r->attachments, &r->labels};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) free(lists[i]->at);
    if (r->file >= 0) (void)close(r->file);
    free(r->entries);
    free(r->launch_keys);
    free(r->result_keys);
    free(r->counts);
    (void)ZSTD_freeDCtx(r->zstd);
    free(r->path);
    free(r);
}
