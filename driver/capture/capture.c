/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which launches are kept, and where. To a file: what a launch reads goes to the writer before it runs. Of failures: a
 * launch that goes well must leave nothing behind, so only what it overwrites is copied, and the file is made once it
 * has failed.
 */
#define _POSIX_C_SOURCE 200809L
#include "store.h"

#include <errno.h>
#include <regex.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_TEXT = 1024 };
/* Of a launch that reads more bytes in a cycle than that, compressing them would take a tenth of the RTL's time. */
enum { BYTES_A_CYCLE = 16 };

struct presil_bundle_capture {
    presil_device *device;
    presil_bundle_capture_options options; /* its texts are copies */
    bool has_pattern;
    regex_t pattern;
    bool failures;
    presil_capture_source source; /* who NULL: the device */
    char path[PATH_TEXT];         /* of the file, or of the directory */

    /* the runner's */
    uint64_t seen, kept;
    presil_bundle_writer *writer; /* NULL: of failures, between them */
    presil_bundle_group *group;   /* of the launch that runs */
    const presil_bundle_memory *reads, *expected;
    presil_capture_bytes reads_now; /* of failures: the ranges, copied */
    capture_copy overwritten, expected_copy;
    bool has_expected;
    capture_labels labels;
    int status; /* the first failure, and its text: nothing is kept from then on */
    char error[CAPTURE_TEXT];
    char note[PATH_TEXT + 64];
};

static int give_up(presil_bundle_capture *c, int status) {
    if (!status || c->status) return status;
    c->status = status;
    (void)snprintf(c->error, sizeof c->error, "%s",
                   status == PRESIL_EHOSTMEM ? "host memory is full" : presil_bundle_error_text());
    return status;
}

static void drop_launch(presil_bundle_capture *c) {
    presil_bundle_abandon(c->group);
    c->group = NULL;
    c->reads = c->expected = NULL;
    free((void *)(uintptr_t)c->reads_now.at);
    c->reads_now.at = NULL;
    capture_copy_free(&c->overwritten);
    capture_copy_free(&c->expected_copy);
    c->has_expected = false;
}

/* ---- choosing */
static bool chosen(presil_bundle_capture *c, const presil_capture_launch *launch) {
    const uint64_t number = c->seen++;
    capture_labels_free(&c->labels);
    if (c->status || number < c->options.first) return false;
    if (c->options.launches && number - c->options.first >= c->options.launches) return false;
    if (!c->has_pattern) return true;
    if (c->options.describe) c->options.describe(c->options.context, launch, capture_label, &c->labels);
    bool match = regexec(&c->pattern, launch->label, 0, NULL, 0) == 0;
    for (uint32_t i = 0; i < c->labels.count && !match; i++)
        match = regexec(&c->pattern, c->labels.at[i].value, 0, NULL, 0) == 0;
    return match;
}

/* The ranges as they are now: the core's live until begin() returns. */
static bool keep_ranges(presil_bundle_capture *c, const presil_capture_bytes *reads) {
    presil_byte_range *at = malloc((reads->count + 1) * sizeof *at);
    if (!at) return false;
    if (reads->count) memcpy(at, reads->at, reads->count * sizeof *at);
    c->reads_now = *reads;
    c->reads_now.at = at;
    return true;
}

static int32_t level_for(const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    enum { AS_IT_IS = -1, USUAL = 0 };
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < reads->count; i++) bytes += reads->at[i].bytes;
    return launch->estimate && bytes / BYTES_A_CYCLE > launch->estimate ? AS_IT_IS : USUAL;
}

static int on_begin(void *context, const presil_capture_launch *launch, const presil_capture_bytes *reads) {
    presil_bundle_capture *c = context;
    drop_launch(c);
    if (!chosen(c, launch)) return 0;
    int status = PRESIL_OK;
    if (c->failures) {
        if (!keep_ranges(c, reads) ||
            !capture_copy_take(&c->overwritten, launch, reads, launch->may_write, launch->may_write_count))
            status = PRESIL_EHOSTMEM;
    } else {
        status = presil_bundle_begin(c->writer, &c->group);
        if (!status && !c->options.level) status = presil_bundle_set_level(c->group, level_for(launch, reads));
        if (!status) status = store_memory(c->group, launch, reads, NULL, &c->reads);
    }
    if (give_up(c, status)) drop_launch(c);
    return !status;
}

static void on_expected(void *context, const presil_capture_launch *launch, const presil_capture_bytes *writes) {
    presil_bundle_capture *c = context;
    if (c->status) return;
    if (!c->failures) {
        (void)give_up(c, store_memory(c->group, launch, writes, NULL, &c->expected));
        return;
    }
    c->has_expected = capture_copy_take(&c->expected_copy, launch, writes, NULL, 0);
    if (!c->has_expected) (void)give_up(c, PRESIL_EHOSTMEM);
}

/* ---- keeping */
static int keep(presil_bundle_capture *c, const presil_capture_launch *launch, const presil_report *report,
                const presil_capture_bytes *writes) {
    const presil_bundle_memory *written = NULL;
    if (!c->labels.count && c->options.describe)
        c->options.describe(c->options.context, launch, capture_label, &c->labels);
    int status = store_launch(c->group, launch, c->reads, c->expected, &c->labels);
    if (!status && store_memory(c->group, launch, writes, NULL, &written)) written = NULL; /* a peer may be gone */
    presil_names names = {.size = sizeof names};
    if (!status) status = presil_device_get_names(c->device, &names);
    if (!status) status = store_result(c->group, launch, report, &names, c->expected, written);
    if (!status) status = presil_bundle_commit(c->group);
    if (!status) c->group = NULL;
    return status;
}

/* "conv2d 3x3" becomes "conv2d-3x3". */
static void file_name(const presil_bundle_capture *c, const presil_capture_launch *launch, unsigned again, char *out,
                      size_t bytes) {
    char label[64];
    (void)snprintf(label, sizeof label, "%s", *launch->label ? launch->label : "launch");
    for (char *p = label; *p; p++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-", *p)) *p = '-';
    }
    if (*label == '.') *label = '-';
    char suffix[16] = "";
    if (again) (void)snprintf(suffix, sizeof suffix, "-%u", again);
    (void)snprintf(out, bytes, "%.*s/%s-%llu-%ld%s.presil", PATH_TEXT - 160, c->path, label,
                   (unsigned long long)launch->launch, (long)getpid(), suffix);
}

static int keep_failure(presil_bundle_capture *c, const presil_capture_launch *launch, const presil_report *report,
                        const presil_capture_bytes *writes, char *path, size_t path_bytes) {
    const presil_bundle_write_options options = {
        .size = sizeof options, .level = c->options.level, .overwrite = c->options.overwrite, .foreground = 1};
    int status = PRESIL_OK;
    for (unsigned again = 0; again < 1000; again++) { /* devices of one process have numbers of their own */
        file_name(c, launch, again, path, path_bytes);
        if (!options.overwrite && access(path, F_OK) == 0) continue;
        status = presil_bundle_create(path, &options, &c->writer);
        break;
    }
    if (status) return status;
    if (!c->writer) return PRESIL_EINVAL;
    status = store_chip(c->writer, c->device, &c->options);
    if (!status) status = presil_bundle_begin(c->writer, &c->group);
    if (!status) {
        /* In memory as it was, but for what was copied; asked of where the bytes are after the launch. */
        presil_capture_bytes reads = c->reads_now;
        reads.host = writes->host;
        status = store_memory(c->group, launch, &reads, &c->overwritten, &c->reads);
    }
    if (!status && c->has_expected) status = store_copy(c->group, &c->expected_copy, &c->expected);
    if (!status) status = keep(c, launch, report, writes);
    drop_launch(c);
    if (status) {
        presil_bundle_abort(c->writer);
    } else {
        status = presil_bundle_close(c->writer);
    }
    c->writer = NULL;
    return status;
}

static const char *on_end(void *context, const presil_capture_launch *launch, const presil_report *report,
                          const presil_capture_bytes *writes) {
    presil_bundle_capture *c = context;
    const char *note = NULL;
    char path[PATH_TEXT];
    int status = PRESIL_OK;
    if (c->status || (c->failures && !report->status)) {
        drop_launch(c);
        return NULL;
    }
    if (c->failures) {
        status = keep_failure(c, launch, report, writes, path, sizeof path);
        if (status)
            (void)snprintf(c->note, sizeof c->note, "its bundle can't be written: %s", presil_bundle_error_text());
        else
            (void)snprintf(c->note, sizeof c->note, "kept in %s", path);
        note = c->note;
    } else {
        status = give_up(c, keep(c, launch, report, writes));
        (void)snprintf(c->note, sizeof c->note, "captured as launch %llu of %s", (unsigned long long)launch->launch,
                       c->path);
        note = status ? NULL : c->note;
    }
    c->kept += !status;
    drop_launch(c);
    return note;
}

/* ---- life */
__attribute__((format(printf, 4, 5))) static int fail(char *error, size_t error_bytes, int status, const char *format,
                                                      ...) {
    va_list args;
    va_start(args, format);
    if (error && error_bytes) (void)vsnprintf(error, error_bytes, format, args);
    va_end(args);
    return status;
}

static void release(presil_bundle_capture *c) {
    drop_launch(c);
    capture_labels_free(&c->labels);
    if (c->has_pattern) regfree(&c->pattern);
    presil_bundle_abort(c->writer);
    for (uint32_t i = 0; i < c->options.file_label_count; i++) {
        free((void *)(uintptr_t)c->options.file_labels[i].key);
        free((void *)(uintptr_t)c->options.file_labels[i].value);
    }
    free((void *)(uintptr_t)c->options.file_labels);
    free((void *)(uintptr_t)c->options.torch_version);
    free(c);
}

static bool copy_texts(presil_bundle_capture *c, const presil_bundle_capture_options *from) {
    c->options.labels = NULL;
    c->options.file_labels = NULL;
    c->options.file_label_count = 0;
    c->options.torch_version = from->torch_version ? strdup(from->torch_version) : NULL;
    if (from->torch_version && !c->options.torch_version) return false;
    presil_bundle_pair *pairs = calloc(from->file_label_count + 1, sizeof *pairs);
    c->options.file_labels = pairs;
    for (uint32_t i = 0; pairs && i < from->file_label_count; i++) {
        c->options.file_label_count = i + 1;
        pairs[i] = (presil_bundle_pair){strdup(from->file_labels[i].key), strdup(from->file_labels[i].value)};
        if (!pairs[i].key || !pairs[i].value) return false;
    }
    return pairs != NULL;
}

static int make(presil_device *device, const char *path, const presil_bundle_capture_options *options,
                presil_bundle_capture **out, char *error, size_t bytes) {
    presil_bundle_capture_options own = {.size = sizeof own};
    if (options && options->size < 2 * sizeof(uint32_t))
        return fail(error, bytes, PRESIL_EINVAL, "capture: options.size is not set");
    if (options) memcpy(&own, options, options->size < sizeof own ? options->size : sizeof own);
    if (!device || !path || !*path || !out || strlen(path) >= PATH_TEXT - 160)
        return fail(error, bytes, PRESIL_EINVAL, "capture: device, out and a path of at most %d bytes must be given",
                    PATH_TEXT - 161);
    presil_bundle_capture *c = calloc(1, sizeof *c);
    if (!c) return fail(error, bytes, PRESIL_EHOSTMEM, "capture: host memory is full");
    c->device = device;
    c->options = own;
    if (own.source)
        memcpy(&c->source, own.source, own.source->size < sizeof c->source ? own.source->size : sizeof c->source);
    c->options.source = own.source ? &c->source : NULL;
    (void)snprintf(c->path, sizeof c->path, "%s", path);
    if (!copy_texts(c, &own)) {
        release(c);
        return fail(error, bytes, PRESIL_EHOSTMEM, "capture: host memory is full");
    }
    const int wrong = own.labels ? regcomp(&c->pattern, own.labels, REG_EXTENDED | REG_NOSUB) : 0;
    if (wrong) {
        char why[128];
        (void)regerror(wrong, &c->pattern, why, sizeof why);
        release(c);
        return fail(error, bytes, PRESIL_EINVAL, "capture: \"%s\" is no regular expression: %s", own.labels, why);
    }
    c->has_pattern = own.labels != NULL;
    *out = c;
    return PRESIL_OK;
}

static int set_listener(const presil_bundle_capture *c, const presil_capture_ops *ops, void *context) {
    return c->source.who ? c->source.set_capture(c->source.who, ops, context)
                         : presil_set_capture(c->device, ops, context);
}

static int listen(presil_bundle_capture *c, presil_bundle_capture **out, char *error, size_t bytes) {
    static const presil_capture_ops ops = {
        .size = sizeof ops, .begin = on_begin, .expected = on_expected, .end = on_end};
    const int status = set_listener(c, &ops, c);
    if (!status) *out = c;
    return status ? fail(error, bytes, status, "%s", presil_error_text()) : PRESIL_OK;
}

int presil_bundle_capture_open(presil_device *device, const char *path, const presil_bundle_capture_options *options,
                               presil_bundle_capture **out, char *error, size_t error_bytes) {
    presil_bundle_capture *c = NULL;
    int status = make(device, path, options, &c, error, error_bytes);
    if (status) return status;
    const presil_bundle_write_options how = {
        .size = sizeof how, .ring = c->options.last, .level = c->options.level, .overwrite = c->options.overwrite};
    /* A chip that is asked what it is has to be there. */
    presil_device_info info = {.size = sizeof info};
    status = presil_device_get_info(device, &info);
    if (!status && info.mode != PRESIL_MODE_MODEL) status = presil_device_start(device);
    if (status) {
        (void)fail(error, error_bytes, status, "%s", presil_error_text());
    } else {
        status = presil_bundle_create(path, &how, &c->writer);
        const bool made = !status;
        if (!status) status = store_chip(c->writer, device, &c->options);
        if (status) (void)fail(error, error_bytes, status, "%s", presil_bundle_error_text());
        if (!status) status = listen(c, out, error, error_bytes);
        if (status && made) (void)unlink(path); /* nothing is in it */
    }
    if (status) release(c);
    return status;
}

int presil_bundle_capture_failures(presil_device *device, const char *directory,
                                   const presil_bundle_capture_options *options, presil_bundle_capture **out,
                                   char *error, size_t error_bytes) {
    presil_bundle_capture *c = NULL;
    int status = make(device, directory, options, &c, error, error_bytes);
    if (status) return status;
    c->failures = true;
    struct stat there;
    if (mkdir(directory, 0777) && (errno != EEXIST || stat(directory, &there) || !S_ISDIR(there.st_mode)))
        status = fail(error, error_bytes, PRESIL_EIO, "capture: %s can't be made a directory: %s", directory,
                      errno == EEXIST ? "it is a file" : strerror(errno));
    if (!status) status = listen(c, out, error, error_bytes);
    if (status) release(c);
    return status;
}

int presil_bundle_capture_close(presil_bundle_capture *c, uint64_t *count, char *error, size_t error_bytes) {
    if (!c) return PRESIL_OK;
    int status = set_listener(c, NULL, NULL);
    if (status) return fail(error, error_bytes, status, "%s", presil_error_text()); /* from a callback: it goes on */
    drop_launch(c);
    if (c->status) {
        status = fail(error, error_bytes, c->status, "%s: after %llu launches: %s", c->path,
                      (unsigned long long)c->kept, c->error);
        presil_bundle_abort(c->writer);
    } else if (c->writer) {
        status = presil_bundle_close(c->writer);
        if (status) (void)fail(error, error_bytes, status, "%s", presil_bundle_error_text());
    }
    c->writer = NULL;
    if (count) *count = c->kept;
    release(c);
    return status;
}
