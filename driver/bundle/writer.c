/* SPDX-License-Identifier: Apache-2.0 */
/* Writers and groups. What is held is a list of items, each a record or the use of a block; it is written in their
 * order, or dropped with the blocks that nobody else uses. */
#include "writer.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_HOLD_BYTES (4ull << 30)
#define MOST_RECORD_BYTES (256u << 20) /* what readers accept by default */

typedef struct item {
    struct item *next;
    bundle_block *block; /* or */
    bundle_job *job;
} item;

typedef struct kept_memory {
    struct kept_memory *next;
    presil_bundle_memory *memory;
} kept_memory;

struct presil_bundle_group {
    presil_bundle_writer *writer;
    presil_bundle_group *previous, *next; /* of the open ones, or of the ring */
    item *first, *last;
    kept_memory *memories;
    int32_t level;
};

typedef struct {
    uint64_t stalls, counters;
} chip_counts;

struct presil_bundle_writer {
    pthread_mutex_t lock;
    bundle_output *output;
    bundle_blocks blocks;
    bool hold;
    uint32_t ring, ring_count;
    presil_bundle_group *open, *oldest, *newest;
    uint64_t held, hold_bytes, content_bytes, chip_count;
    chip_counts *chips;
};

/* ---- what is held */
static bool add_item(presil_bundle_group *group, bundle_block *block, bundle_job *job) {
    item *made = calloc(1, sizeof *made);
    if (!made) return false;
    made->block = block;
    made->job = job;
    if (block) block->uses++;
    if (group->last)
        group->last->next = made;
    else
        group->first = made;
    group->last = made;
    return true;
}

static void drop_block(presil_bundle_writer *w, bundle_block *block) {
    if (--block->uses || block->written) return;
    w->held -= block->id.bytes;
    bundle_blocks_remove(&w->blocks, block);
}

static int write_block(presil_bundle_writer *w, bundle_block *block) {
    if (block->written) return PRESIL_OK;
    bundle_job *job = bundle_job_new(PRESIL_BUNDLE_BLOCK, block->data, block->id.bytes, block->id.hash);
    if (job) job->level = block->level;
    block->data = NULL;
    w->held -= block->id.bytes;
    block->written = true; /* if it failed, so will everything behind it */
    return job ? bundle_output_put(w->output, job) : bundle_fail(PRESIL_EHOSTMEM, "no memory for a record");
}

/* Writes or drops the group's items, and frees it. */
static int end_group(presil_bundle_group *group, bool write) {
    presil_bundle_writer *w = group->writer;
    int status = PRESIL_OK;
    for (item *at = group->first, *next; at; at = next) {
        next = at->next;
        if (at->job) w->held -= at->job->bytes;
        if (at->block && write && !status) status = write_block(w, at->block);
        if (at->block) drop_block(w, at->block);
        if (at->job && write && !status)
            status = bundle_output_put(w->output, at->job);
        else if (at->job)
            bundle_job_free(at->job);
        free(at);
    }
    for (kept_memory *at = group->memories, *next; at; at = next) {
        next = at->next;
        free(at->memory);
        free(at);
    }
    free(group);
    return status;
}

static int end_oldest(presil_bundle_writer *w, bool write) {
    presil_bundle_group *group = w->oldest;
    w->oldest = group->next;
    if (w->oldest)
        w->oldest->previous = NULL;
    else
        w->newest = NULL;
    w->ring_count--;
    return end_group(group, write);
}

static int hold(presil_bundle_writer *w, uint64_t bytes) {
    while (w->oldest && bytes > w->hold_bytes - (w->held < w->hold_bytes ? w->held : w->hold_bytes))
        (void)end_oldest(w, false);
    if (w->held > w->hold_bytes || bytes > w->hold_bytes - w->held)
        return bundle_fail(PRESIL_EHOSTMEM,
                           "a launch of more than %llu bytes can't be held in memory: raise hold_bytes, or don't hold",
                           (unsigned long long)w->hold_bytes);
    w->held += bytes;
    return PRESIL_OK;
}

static void unlink_open(presil_bundle_group *group) {
    if (group->previous)
        group->previous->next = group->next;
    else
        group->writer->open = group->next;
    if (group->next) group->next->previous = group->previous;
    group->previous = group->next = NULL;
}

/* ---- writers */
int presil_bundle_create(const char *path, const presil_bundle_write_options *options, presil_bundle_writer **out) {
    presil_bundle_write_options o = {.size = sizeof o};
    if (!path || !out) return bundle_fail(PRESIL_EINVAL, "path or out is NULL");
    int status =
        options ? bundle_take(&o, sizeof o, options, options->size, 8, "presil_bundle_write_options") : PRESIL_OK;
    if (status) return status;
    presil_bundle_writer *w = calloc(1, sizeof *w);
    if (!w) return bundle_fail(PRESIL_EHOSTMEM, "no memory for a writer");
    w->ring = o.ring;
    w->hold = o.hold || o.ring;
    w->hold_bytes = o.hold_bytes ? o.hold_bytes : DEFAULT_HOLD_BYTES;
    status = bundle_output_open(path, &o, &w->output);
    if (status) {
        free(w);
        return status;
    }
    (void)pthread_mutex_init(&w->lock, NULL);
    *out = w;
    return PRESIL_OK;
}

static int write_ring(presil_bundle_writer *w) {
    int status = PRESIL_OK;
    while (w->oldest) {
        const int one = end_oldest(w, !status);
        if (!status) status = one;
    }
    return status;
}

static int end_writer(presil_bundle_writer *w, bool whole) {
    while (w->open) {
        presil_bundle_group *group = w->open;
        unlink_open(group);
        (void)end_group(group, false);
    }
    int status = PRESIL_OK;
    if (whole)
        status = write_ring(w);
    else
        while (w->oldest) (void)end_oldest(w, false);
    char text[512] = "";
    if (status) (void)strncpy(text, presil_bundle_error_text(), sizeof text - 1);
    const int closed = bundle_output_close(w->output, whole && !status);
    bundle_blocks_free(&w->blocks);
    free(w->chips);
    (void)pthread_mutex_destroy(&w->lock);
    free(w);
    return status ? bundle_fail(status, "%s", text) : closed;
}

int presil_bundle_close(presil_bundle_writer *writer) { return writer ? end_writer(writer, true) : PRESIL_OK; }
void presil_bundle_abort(presil_bundle_writer *writer) {
    if (writer) (void)end_writer(writer, false);
}

int presil_bundle_flush(presil_bundle_writer *writer) {
    if (!writer) return bundle_fail(PRESIL_EINVAL, "writer is NULL");
    (void)pthread_mutex_lock(&writer->lock);
    const int status = write_ring(writer);
    (void)pthread_mutex_unlock(&writer->lock);
    return status ? status : bundle_output_drain(writer->output);
}

void presil_bundle_written(presil_bundle_writer *writer, uint64_t *file_bytes, uint64_t *content_bytes) {
    (void)pthread_mutex_lock(&writer->lock);
    if (file_bytes) *file_bytes = bundle_output_bytes(writer->output);
    if (content_bytes) *content_bytes = writer->content_bytes;
    (void)pthread_mutex_unlock(&writer->lock);
}

/* ---- records */
static int too_large(const char *what, uint64_t bytes) {
    return bundle_fail(PRESIL_EINVAL, "%s: %llu bytes; readers accept %u in one record", what,
                       (unsigned long long)bytes, MOST_RECORD_BYTES);
}

/* Encodes; then into the file, or into the group. Under the lock. */
static int put_record(presil_bundle_writer *w, presil_bundle_group *group, unsigned type, const void *value) {
    const bundle_fields *fields = bundle_fields_of(type);
    bundle_buffer b = {0};
    bundle_encode(&b, fields, value);
    if (b.lost || b.count > MOST_RECORD_BYTES) {
        const int status =
            b.lost ? bundle_fail(PRESIL_EHOSTMEM, "%s: no memory for its record, or larger than 4 GiB", fields->name)
                   : too_large(fields->name, b.count);
        free(b.at);
        return status;
    }
    const uint64_t bytes = b.count;
    w->content_bytes += bytes;
    const bool held = group && w->hold;
    int status = held ? hold(w, bytes) : PRESIL_OK;
    if (status) {
        free(b.at);
        return status;
    }
    bundle_job *job = bundle_job_new((uint16_t)type, b.at, bytes, NULL);
    if (job && !held) return bundle_output_put(w->output, job);
    if (job && add_item(group, NULL, job)) return PRESIL_OK;
    if (job) bundle_job_free(job);
    if (held) w->held -= bytes;
    return bundle_fail(PRESIL_EHOSTMEM, "%s: no memory for its record", fields->name);
}

static int put_locked(presil_bundle_writer *w, presil_bundle_group *group, unsigned type, const void *value) {
    (void)pthread_mutex_lock(&w->lock);
    const int status = put_record(w, group, type, value);
    (void)pthread_mutex_unlock(&w->lock);
    return status;
}

int presil_bundle_put_chip(presil_bundle_writer *writer, const presil_bundle_chip *chip, uint64_t *number) {
    presil_bundle_chip c;
    if (!writer || !chip) return bundle_fail(PRESIL_EINVAL, "writer or chip is NULL");
    int status = bundle_take(&c, sizeof c, chip, chip->size, 8, "presil_bundle_chip");
    if (status) return status;
    (void)pthread_mutex_lock(&writer->lock);
    chip_counts *grown = realloc(writer->chips, (writer->chip_count + 1) * sizeof *grown);
    if (grown) {
        writer->chips = grown;
        grown[writer->chip_count] = (chip_counts){(uint64_t)c.engine_count * c.cause_count, c.counter_count};
        status = put_record(writer, NULL, PRESIL_BUNDLE_CHIP, &c);
    } else {
        status = bundle_fail(PRESIL_EHOSTMEM, "no memory for a chip");
    }
    if (!status && number) *number = writer->chip_count;
    writer->chip_count += !status;
    (void)pthread_mutex_unlock(&writer->lock);
    return status;
}

int presil_bundle_put_labels(presil_bundle_writer *writer, const presil_bundle_pair *labels, uint32_t count) {
    if (!writer || (!labels && count)) return bundle_fail(PRESIL_EINVAL, "writer or labels is NULL");
    for (uint32_t i = 0; i < count; i++) {
        if (!labels[i].key || !*labels[i].key) return bundle_fail(PRESIL_EINVAL, "label %u has no key", i);
    }
    const bundle_labels all = {labels, count};
    return put_locked(writer, NULL, PRESIL_BUNDLE_LABELS, &all);
}

/* ---- groups */
int presil_bundle_begin(presil_bundle_writer *writer, presil_bundle_group **out) {
    if (!writer || !out) return bundle_fail(PRESIL_EINVAL, "writer or out is NULL");
    presil_bundle_group *group = calloc(1, sizeof *group);
    if (!group) return bundle_fail(PRESIL_EHOSTMEM, "no memory for a group");
    group->writer = writer;
    (void)pthread_mutex_lock(&writer->lock);
    group->next = writer->open;
    if (writer->open) writer->open->previous = group;
    writer->open = group;
    (void)pthread_mutex_unlock(&writer->lock);
    *out = group;
    return PRESIL_OK;
}

int presil_bundle_commit(presil_bundle_group *group) {
    if (!group) return bundle_fail(PRESIL_EINVAL, "group is NULL");
    presil_bundle_writer *w = group->writer;
    int status = PRESIL_OK;
    (void)pthread_mutex_lock(&w->lock);
    unlink_open(group);
    if (!w->ring) {
        status = end_group(group, true);
    } else {
        group->previous = w->newest;
        if (w->newest)
            w->newest->next = group;
        else
            w->oldest = group;
        w->newest = group;
        if (++w->ring_count > w->ring) (void)end_oldest(w, false);
    }
    (void)pthread_mutex_unlock(&w->lock);
    return status;
}

void presil_bundle_abandon(presil_bundle_group *group) {
    if (!group) return;
    presil_bundle_writer *w = group->writer;
    (void)pthread_mutex_lock(&w->lock);
    unlink_open(group);
    (void)end_group(group, false);
    (void)pthread_mutex_unlock(&w->lock);
}

/* ---- contents */
int presil_bundle_set_level(presil_bundle_group *group, int32_t level) {
    if (!group) return bundle_fail(PRESIL_EINVAL, "group is NULL");
    const int status = bundle_output_check_level(level);
    if (!status) group->level = level;
    return status;
}

/* data: from bundle_contents_new(), taken over. */
static int store_new(presil_bundle_group *group, const presil_bundle_id *id, uint8_t *data) {
    presil_bundle_writer *w = group->writer;
    int status = w->hold ? hold(w, id->bytes) : PRESIL_OK;
    bundle_block *block = status ? NULL : bundle_blocks_add(&w->blocks, id);
    if (!block) {
        if (!status && w->hold) w->held -= id->bytes;
        bundle_contents_free(data, id->bytes);
        return status ? status : bundle_fail(PRESIL_EHOSTMEM, "no memory for a block");
    }
    if (w->hold) {
        block->data = data;
        block->level = group->level;
        if (add_item(group, block, NULL)) return PRESIL_OK;
        w->held -= id->bytes;
        bundle_blocks_remove(&w->blocks, block);
        return bundle_fail(PRESIL_EHOSTMEM, "no memory for a block");
    }
    bundle_job *job = bundle_job_new(PRESIL_BUNDLE_BLOCK, data, id->bytes, id->hash);
    if (!job) {
        bundle_blocks_remove(&w->blocks, block);
        return bundle_fail(PRESIL_EHOSTMEM, "no memory for a block");
    }
    job->level = group->level;
    block->written = true;
    return bundle_output_put(w->output, job);
}

static int use_block(presil_bundle_group *group, bundle_block *block) {
    if (!group->writer->hold || add_item(group, block, NULL)) return PRESIL_OK;
    return bundle_fail(PRESIL_EHOSTMEM, "no memory for a group");
}

static int store(presil_bundle_group *group, uint8_t *data, presil_bundle_id *id) {
    presil_bundle_writer *w = group->writer;
    bundle_hash128(data, id->bytes, id->hash);
    (void)pthread_mutex_lock(&w->lock);
    w->content_bytes += id->bytes;
    bundle_block *there = bundle_blocks_find(&w->blocks, id);
    if (there) bundle_contents_free(data, id->bytes);
    const int status = there ? use_block(group, there) : store_new(group, id, data);
    (void)pthread_mutex_unlock(&w->lock);
    return status;
}

int presil_bundle_put_block(presil_bundle_group *group, const void *data, uint64_t bytes, presil_bundle_id *out) {
    if (!group || (!data && bytes) || !out) return bundle_fail(PRESIL_EINVAL, "group, data or out is NULL");
    if (bytes > MOST_RECORD_BYTES) return too_large("BLOCK", bytes);
    presil_bundle_id id = {.bytes = bytes};
    uint8_t *copy = bundle_contents_new(bytes);
    if (!copy) return bundle_fail(PRESIL_EHOSTMEM, "no memory for a block");
    if (bytes) memcpy(copy, data, bytes);
    const int status = store(group, copy, &id);
    if (!status) *out = id;
    return status;
}

static int read_source(const presil_bundle_source *source, presil_daddr address, uint8_t *to, uint64_t bytes) {
    if (source->host) {
        memcpy(to, (const uint8_t *)source->host + (address.value - source->base.value), bytes);
        return PRESIL_OK;
    }
    const int status = source->read(source->context, address, to, bytes);
    return status ? bundle_fail(status, "%llu bytes of device memory at 0x%llx can't be read",
                                (unsigned long long)bytes, (unsigned long long)address.value)
                  : PRESIL_OK;
}

/* The memory is copied first and hashed then: whoever changes it meanwhile does no harm to the file. */
static int store_pieces(presil_bundle_group *group, const presil_bundle_source *source,
                        const presil_bundle_memory *memory) {
    presil_bundle_piece *pieces = (presil_bundle_piece *)(uintptr_t)memory->pieces;
    const presil_bundle_range *range = memory->ranges;
    for (uint64_t i = 0; i < memory->piece_count; i++) {
        uint8_t *data = bundle_contents_new(pieces[i].block.bytes), *to = data;
        if (!data) return bundle_fail(PRESIL_EHOSTMEM, "no memory for a block");
        int status = PRESIL_OK;
        for (uint64_t n = pieces[i].ranges; n && !status; n--, to += range->bytes, range++)
            status = read_source(source, range->base, to, range->bytes);
        if (status) {
            bundle_contents_free(data, pieces[i].block.bytes);
            return status;
        }
        status = store(group, data, &pieces[i].block);
        if (status) return status;
    }
    return PRESIL_OK;
}

int presil_bundle_put_memory(presil_bundle_group *group, const presil_bundle_source *source,
                             const presil_bundle_range *ranges, uint64_t count, const presil_bundle_memory **out) {
    if (!group || !source || (!source->host && !source->read) || (!ranges && count) || !out)
        return bundle_fail(PRESIL_EINVAL, "group, source, ranges or out is NULL");
    presil_bundle_memory *memory;
    kept_memory *kept = calloc(1, sizeof *kept);
    if (!kept) return bundle_fail(PRESIL_EHOSTMEM, "no memory for ranges");
    int status = bundle_pieces_make(ranges, count, &memory);
    if (!status) {
        status = store_pieces(group, source, memory);
        if (status) free(memory);
    }
    if (status) {
        free(kept);
        return status;
    }
    kept->memory = memory;
    kept->next = group->memories;
    group->memories = kept;
    *out = memory;
    return PRESIL_OK;
}

/* ---- launches and results */
static int use_memory(presil_bundle_group *group, const presil_bundle_memory *memory, const char *what) {
    const char *wrong = memory ? bundle_memory_wrong(memory) : NULL;
    if (wrong) return bundle_fail(PRESIL_EINVAL, "%s: %s", what, wrong);
    for (uint64_t i = 0; memory && i < memory->piece_count; i++) {
        bundle_block *block = bundle_blocks_find(&group->writer->blocks, &memory->pieces[i].block);
        if (!block)
            return bundle_fail(PRESIL_EINVAL, "%s: piece %llu names a block that was not put", what,
                               (unsigned long long)i);
        const int status = use_block(group, block);
        if (status) return status;
    }
    return PRESIL_OK;
}

static int no_chip(const presil_bundle_writer *w, uint64_t chip) {
    return bundle_fail(PRESIL_EINVAL, "chip %llu: %llu were put", (unsigned long long)chip,
                       (unsigned long long)w->chip_count);
}

static int put_launch(presil_bundle_group *group, const presil_bundle_launch *l) {
    presil_bundle_writer *w = group->writer;
    if (l->chip >= w->chip_count) return no_chip(w, l->chip);
    bundle_block *commands = l->commands.bytes ? bundle_blocks_find(&w->blocks, &l->commands) : NULL;
    if (l->commands.bytes && !commands) return bundle_fail(PRESIL_EINVAL, "commands: name a block that was not put");
    int status = commands ? use_block(group, commands) : PRESIL_OK;
    if (!status) status = use_memory(group, l->reads, "reads");
    if (!status) status = use_memory(group, l->expected, "expected");
    return status ? status : put_record(w, group, PRESIL_BUNDLE_LAUNCH, l);
}

int presil_bundle_put_launch(presil_bundle_group *group, const presil_bundle_launch *launch) {
    presil_bundle_launch l;
    if (!group || !launch) return bundle_fail(PRESIL_EINVAL, "group or launch is NULL");
    int status = bundle_take(&l, sizeof l, launch, launch->size, 8, "presil_bundle_launch");
    if (status) return status;
    for (uint32_t i = 0; i < l.label_count; i++) {
        if (!l.labels[i].key || !*l.labels[i].key) return bundle_fail(PRESIL_EINVAL, "label %u has no key", i);
    }
    for (uint32_t i = 0; i < l.tensor_count; i++) {
        if (l.tensors[i].ndim && (!l.tensors[i].shape || !l.tensors[i].stride))
            return bundle_fail(PRESIL_EINVAL, "tensor %u has no shape or no strides", i);
    }
    for (uint32_t i = 0; i < l.asked.input_count + l.asked.output_count && l.asked.present; i++) {
        const uint32_t inputs = l.asked.input_count;
        const presil_bundle_operand *t = i < inputs ? &l.asked.inputs[i] : &l.asked.outputs[i - inputs];
        if (t->ndim && (!t->shape || !t->stride))
            return bundle_fail(PRESIL_EINVAL, "asked: operand %u has no shape or no strides", i);
    }
    (void)pthread_mutex_lock(&group->writer->lock);
    status = put_launch(group, &l);
    (void)pthread_mutex_unlock(&group->writer->lock);
    return status;
}

static int put_result(presil_bundle_group *group, const presil_bundle_result *r) {
    presil_bundle_writer *w = group->writer;
    if (r->chip >= w->chip_count) return no_chip(w, r->chip);
    const chip_counts *counts = &w->chips[r->chip];
    if ((r->stall_count && r->stall_count != counts->stalls) ||
        (r->counter_count && r->counter_count != counts->counters))
        return bundle_fail(PRESIL_EINVAL, "%u stalls and %u counters: its chip has %llu and %llu", r->stall_count,
                           r->counter_count, (unsigned long long)counts->stalls, (unsigned long long)counts->counters);
    const int status = use_memory(group, r->writes, "writes");
    return status ? status : put_record(w, group, PRESIL_BUNDLE_RESULT, r);
}

int presil_bundle_put_result(presil_bundle_group *group, const presil_bundle_result *result) {
    presil_bundle_result r;
    if (!group || !result) return bundle_fail(PRESIL_EINVAL, "group or result is NULL");
    int status = bundle_take(&r, sizeof r, result, result->size, 8, "presil_bundle_result");
    if (status) return status;
    const char *wrong = bundle_ranges_wrong(r.stray, r.stray_count);
    if (!wrong) wrong = bundle_ranges_wrong(r.missing, r.missing_count);
    if (wrong) return bundle_fail(PRESIL_EINVAL, "stray or missing: %s", wrong);
    (void)pthread_mutex_lock(&group->writer->lock);
    status = put_result(group, &r);
    (void)pthread_mutex_unlock(&group->writer->lock);
    return status;
}

int presil_bundle_put_attachment(presil_bundle_group *group, const presil_bundle_attachment *attachment) {
    presil_bundle_attachment a;
    if (!group || !attachment) return bundle_fail(PRESIL_EINVAL, "group or attachment is NULL");
    const int status = bundle_take(&a, sizeof a, attachment, attachment->size, 8, "presil_bundle_attachment");
    if (status) return status;
    const char *wrong = a.name ? bundle_attachment_name_wrong(a.name) : "an attachment without a name";
    if (wrong) return bundle_fail(PRESIL_EINVAL, "%s", wrong);
    return put_locked(group->writer, group, PRESIL_BUNDLE_ATTACHMENT, &a);
}
