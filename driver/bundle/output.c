/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file: records one behind the other, each with one system call, so that a process that is killed leaves whole
 * records and at most one that is cut. What can't be written in full (a full disk) is cut off again.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#define ZSTD_STATIC_LINKING_ONLY /* ZSTD_c_literalCompressionMode */
#include <zstd.h>
#include "writer.h"

/* Tensors repeat nothing that is worth a search: Huffman codes alone make them as small as level 1 does, in a third of
 * the time. ENTROPY_LEVEL hardly searches; a long run of equal bytes is found nevertheless. */
enum { DEFAULT_LEVEL = 1, ENTROPY_LEVEL = -200, ENTROPY_BYTES = PRESIL_BUNDLE_PIECE / 2 };
/* Where a sample says that Huffman codes would save less than about a fifth, they are not tried: they cost more than
 * all else of a capture. The sample has SAMPLES runs of RUN bytes. */
enum { SAMPLES = 64, RUN = 64, LIKELY_VALUES = 54 };
enum { MOST_LEVEL = 19, LEAST_COMPRESSED = 128, QUEUE_BYTES = 64 << 20, FAILURE_TEXT = 512 };

struct bundle_output {
    char *path;
    int file, level; /* 0: as the record is */
    /* Of whoever writes: the worker, or the caller of put. */
    uint64_t number, launches;
    _Atomic uint64_t offset;
    ZSTD_CCtx *zstd;
    uint8_t *packed;
    size_t packed_bytes;
    bundle_hasher *headers;
    /* Under the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bundle_job *first, *last;
    uint64_t queued;
    bool working, stop, has_worker;
    uint32_t waiting; /* on `changed`: nobody is woken, which is a system call, where nobody waits */
    int status;
    char text[FAILURE_TEXT];
    pthread_t worker;
};

bundle_job *bundle_job_new(uint16_t type, uint8_t *data, uint64_t bytes, const uint8_t hash[16]) {
    bundle_job *job = calloc(1, sizeof *job);
    if (!job) {
        type == PRESIL_BUNDLE_BLOCK ? bundle_contents_free(data, bytes) : free(data);
        return NULL;
    }
    job->type = type;
    job->data = data;
    job->bytes = bytes;
    if (hash)
        memcpy(job->hash, hash, sizeof job->hash);
    else
        bundle_hash128(data, bytes, job->hash);
    return job;
}

void bundle_job_free(bundle_job *job) {
    job->type == PRESIL_BUNDLE_BLOCK ? bundle_contents_free(job->data, job->bytes) : free(job->data);
    free(job);
}

/* ---- writing */
static int write_all(int file, struct iovec *parts, int count) {
    while (count) {
        const ssize_t n = writev(file, parts, count);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return n < 0 ? errno : ENOSPC;
        size_t left = (size_t)n;
        while (count && left >= parts->iov_len) {
            left -= parts->iov_len;
            parts++;
            count--;
        }
        if (count) {
            parts->iov_base = (char *)parts->iov_base + left;
            parts->iov_len -= left;
        }
    }
    return 0;
}

static int cannot_write(bundle_output *o, int error) {
    /* What there is of a record that was cut: gone, as far as the system lets us. */
    if (ftruncate(o->file, (off_t)o->offset) == 0) (void)lseek(o->file, (off_t)o->offset, SEEK_SET);
    return bundle_fail(PRESIL_EIO,
                       "%s can't be written after %llu bytes and %llu records: %s; what is in it stays readable",
                       o->path, (unsigned long long)o->offset, (unsigned long long)o->number, strerror(error));
}

/* A library that does not know how to is as good as level 1. */
static bool entropy_alone(ZSTD_CCtx *zstd) {
    return !ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_literalCompressionMode, ZSTD_lcm_huffman)) &&
           !ZSTD_isError(ZSTD_CCtx_setParameter(zstd, ZSTD_c_compressionLevel, ENTROPY_LEVEL));
}

/* How probable it is that two bytes of the sample are the same: as of LIKELY_VALUES values that come equally often
 * (2^5.75; of bytes about a mean that is an entropy of 6 bits), or more. */
static bool has_likely_values(const bundle_job *job) {
    uint32_t counts[256] = {0};
    uint64_t pairs = 0;
    const uint64_t step = job->bytes / SAMPLES;
    for (uint64_t i = 0; i < SAMPLES; i++) {
        for (uint64_t k = 0; k < RUN; k++) counts[job->data[i * step + k]]++;
    }
    for (int i = 0; i < 256; i++) pairs += (uint64_t)counts[i] * counts[i];
    return pairs * LIKELY_VALUES > (uint64_t)SAMPLES * RUN * SAMPLES * RUN;
}

static size_t compress(bundle_output *o, const bundle_job *job, int32_t level) {
    (void)ZSTD_CCtx_reset(o->zstd, ZSTD_reset_session_and_parameters);
    if (level || job->bytes < ENTROPY_BYTES || !entropy_alone(o->zstd)) {
        (void)ZSTD_CCtx_reset(o->zstd, ZSTD_reset_session_and_parameters);
        (void)ZSTD_CCtx_setParameter(o->zstd, ZSTD_c_compressionLevel, level ? level : DEFAULT_LEVEL);
    }
    return ZSTD_compress2(o->zstd, o->packed, o->packed_bytes, job->data, job->bytes);
}

/* The stored bytes: compressed where that makes them fewer. */
static const void *pack(bundle_output *o, const bundle_job *job, bundle_record_header *header) {
    const int32_t level = job->level ? job->level : o->level;
    header->stored_bytes = job->bytes;
    if (level < 0 || job->bytes < LEAST_COMPRESSED) return job->data;
    if (!level && job->bytes >= ENTROPY_BYTES && !has_likely_values(job)) return job->data;
    const size_t room = ZSTD_compressBound(job->bytes);
    if (room > o->packed_bytes) {
        free(o->packed);
        o->packed = malloc(room);
        o->packed_bytes = o->packed ? room : 0;
        if (!o->packed) return job->data;
    }
    const size_t packed = compress(o, job, level);
    if (ZSTD_isError(packed) || packed >= job->bytes) return job->data;
    header->flags = BUNDLE_ZSTD;
    header->stored_bytes = packed;
    return o->packed;
}

static int write_record(bundle_output *o, const bundle_job *job) {
    static const uint8_t zeros[8];
    bundle_record_header header = {
        .magic = BUNDLE_RECORD_MAGIC, .type = job->type, .number = o->number, .raw_bytes = job->bytes};
    const void *stored = pack(o, job, &header);
    memcpy(header.hash, job->hash, sizeof header.hash);
    header.stored_check = bundle_hash64(stored, header.stored_bytes);
    header.check = bundle_check(&header, offsetof(bundle_record_header, check));
    const uint64_t padded = BUNDLE_PADDED(header.stored_bytes);
    struct iovec parts[] = {{&header, sizeof header},
                            {(void *)(uintptr_t)stored, header.stored_bytes},
                            {(void *)(uintptr_t)zeros, padded - header.stored_bytes}};
    const int error = write_all(o->file, parts, 3);
    if (error) return cannot_write(o, error);
    o->offset += sizeof header + padded;
    o->number++;
    o->launches += job->type == PRESIL_BUNDLE_LAUNCH;
    bundle_hasher_add(o->headers, &header, sizeof header);
    return PRESIL_OK;
}

/* ---- the thread */
static void wait_for_change(bundle_output *o) {
    o->waiting++;
    (void)pthread_cond_wait(&o->changed, &o->lock);
    o->waiting--;
}

static void tell_change(bundle_output *o) {
    if (o->waiting) (void)pthread_cond_broadcast(&o->changed);
}

static void keep_failure(bundle_output *o, int status) {
    if (!status || o->status) return;
    o->status = status;
    (void)snprintf(o->text, sizeof o->text, "%s", presil_bundle_error_text());
}

static int failure(const bundle_output *o) { return o->status ? bundle_fail(o->status, "%s", o->text) : PRESIL_OK; }

static void *work(void *context) {
    bundle_output *o = context;
    (void)pthread_mutex_lock(&o->lock);
    while (o->first || !o->stop) {
        bundle_job *job = o->first;
        if (!job) {
            wait_for_change(o);
            continue;
        }
        const bool broken = o->status != PRESIL_OK;
        o->first = job->next;
        o->working = true;
        (void)pthread_mutex_unlock(&o->lock);
        const int status = broken ? PRESIL_OK : write_record(o, job);
        const uint64_t bytes = job->bytes;
        bundle_job_free(job);
        (void)pthread_mutex_lock(&o->lock);
        keep_failure(o, status);
        o->working = false;
        o->queued -= bytes;
        tell_change(o);
    }
    (void)pthread_mutex_unlock(&o->lock);
    return NULL;
}

int bundle_output_put(bundle_output *o, bundle_job *job) {
    (void)pthread_mutex_lock(&o->lock);
    while (o->has_worker && !o->status && o->queued && o->queued + job->bytes > QUEUE_BYTES) wait_for_change(o);
    if (o->status) {
        bundle_job_free(job);
    } else if (!o->has_worker) {
        keep_failure(o, write_record(o, job));
        bundle_job_free(job);
    } else {
        job->next = NULL;
        if (o->first)
            o->last->next = job;
        else
            o->first = job;
        o->last = job;
        o->queued += job->bytes;
        tell_change(o);
    }
    const int status = failure(o);
    (void)pthread_mutex_unlock(&o->lock);
    return status;
}

int bundle_output_drain(bundle_output *o) {
    (void)pthread_mutex_lock(&o->lock);
    while (o->first || o->working) wait_for_change(o);
    const int status = failure(o);
    (void)pthread_mutex_unlock(&o->lock);
    return status;
}

uint64_t bundle_output_bytes(const bundle_output *o) { return atomic_load(&o->offset); }

/* ---- beginning and end */
static void free_output(bundle_output *o) {
    if (o->has_worker) {
        (void)pthread_mutex_lock(&o->lock);
        o->stop = true;
        tell_change(o);
        (void)pthread_mutex_unlock(&o->lock);
        (void)pthread_join(o->worker, NULL);
    }
    (void)pthread_cond_destroy(&o->changed);
    (void)pthread_mutex_destroy(&o->lock);
    if (o->file >= 0) (void)close(o->file);
    bundle_hasher_free(o->headers);
    (void)ZSTD_freeCCtx(o->zstd);
    free(o->packed);
    free(o->path);
    free(o);
}

static int write_header(bundle_output *o) {
    bundle_file_header header = {
        .major = PRESIL_BUNDLE_MAJOR, .minor = PRESIL_BUNDLE_MINOR, .header_bytes = sizeof header};
    memcpy(header.magic, BUNDLE_MAGIC, sizeof header.magic);
    if (getrandom(header.id, sizeof header.id, 0) != (ssize_t)sizeof header.id)
        return bundle_fail(PRESIL_EIO, "%s: no random id: %s", o->path, strerror(errno));
    header.check = bundle_check(&header, offsetof(bundle_file_header, check));
    struct iovec part = {&header, sizeof header};
    const int error = write_all(o->file, &part, 1);
    if (error) return cannot_write(o, error);
    o->offset = sizeof header;
    return PRESIL_OK;
}

static int start(bundle_output *o, const presil_bundle_write_options *options) {
    o->level = options->level;
    o->zstd = ZSTD_createCCtx();
    o->headers = bundle_hasher_new();
    if (!o->path || !o->zstd || !o->headers) return bundle_fail(PRESIL_EHOSTMEM, "no memory for a writer");
    o->file = open(o->path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY | (options->overwrite ? O_TRUNC : O_EXCL), 0666);
    if (o->file < 0)
        return bundle_fail(PRESIL_EIO, "%s can't be created: %s%s", o->path, strerror(errno),
                           errno == EEXIST ? ": name another file, or ask for it to be replaced" : "");
    const int status = write_header(o);
    if (status || options->foreground) return status;
    o->has_worker = pthread_create(&o->worker, NULL, work, o) == 0; /* without: in the foreground */
    return PRESIL_OK;
}

int bundle_output_check_level(int32_t level) {
    return level < -1 || level > MOST_LEVEL
               ? bundle_fail(PRESIL_EINVAL, "level %d: -1 to %d expected", level, MOST_LEVEL)
               : PRESIL_OK;
}

int bundle_output_open(const char *path, const presil_bundle_write_options *options, bundle_output **out) {
    const int wrong = bundle_output_check_level(options->level);
    if (wrong) return wrong;
    bundle_output *o = calloc(1, sizeof *o);
    if (!o) return bundle_fail(PRESIL_EHOSTMEM, "no memory for a writer");
    o->file = -1;
    o->path = strdup(path);
    (void)pthread_mutex_init(&o->lock, NULL);
    (void)pthread_cond_init(&o->changed, NULL);
    const int status = start(o, options);
    if (status)
        free_output(o);
    else
        *out = o;
    return status;
}

static int write_end(bundle_output *o) {
    uint8_t hash[16];
    bundle_hasher_get(o->headers, hash);
    const bundle_end end = {o->number, o->launches, hash, sizeof hash};
    bundle_buffer b = {0};
    bundle_encode(&b, bundle_fields_of(PRESIL_BUNDLE_END), &end);
    bundle_job *job = b.lost ? NULL : bundle_job_new(PRESIL_BUNDLE_END, b.at, b.count, NULL);
    if (b.lost) free(b.at);
    if (!job) return bundle_fail(PRESIL_EHOSTMEM, "no memory for the closing record");
    const int status = write_record(o, job);
    bundle_job_free(job);
    return status;
}

int bundle_output_close(bundle_output *o, bool end) {
    int status = bundle_output_drain(o);
    if (!status && end) status = write_end(o);
    const int file = o->file;
    o->file = -1;
    if (close(file) && !status && errno != EINTR)
        status = bundle_fail(PRESIL_EIO, "%s can't be closed: %s", o->path, strerror(errno));
    free_output(o);
    return status;
}
