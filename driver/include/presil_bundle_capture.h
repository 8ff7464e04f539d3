/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_bundle_capture.h - launches of a device as a bundle (presil_bundle.h): all of them, a window, the last N, or
 * those that fail. docs/replay.md shows it from PyTorch; presil-replay runs what it wrote. libpresil_capture needs
 * libpresil and libpresil_bundle. The rules of presil.h hold, but texts of failures come back in `error`.
 */
#ifndef PRESIL_BUNDLE_CAPTURE_H
#define PRESIL_BUNDLE_CAPTURE_H

#include "presil_bundle.h"
#include "presil_capture.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct presil_bundle_capture presil_bundle_capture;

/* Adds a pair to a launch's labels; both texts are copied. */
typedef void (*presil_bundle_label_fn)(void *to, const char *key, const char *value);

/* Zero-initialised but for size: every launch. */
typedef struct {
    uint32_t size;
    uint32_t last;            /* n > 0: the last n launches that are chosen stay in host memory, until close */
    uint64_t first, launches; /* of the launches since it was opened: from this one on, so many; launches 0: all */
    const char *labels; /* extended regular expression (POSIX): in the launch's label, or in the value of one of its
                           pairs; NULL: any */
    uint32_t overwrite; /* 1: a file that is there is replaced */
    int32_t level;      /* of zstd, as in presil_bundle_write_options */
    const char *torch_version;             /* for the file; NULL: none */
    const presil_bundle_pair *file_labels; /* file_label_count pairs for the whole file: copied */
    uint32_t file_label_count, reserved0;
    /* Says where a launch comes from, by add(to, key, value). On the thread that runs launches; NULL: nobody knows. */
    void (*describe)(void *context, const presil_capture_launch *launch, presil_bundle_label_fn add, void *to);
    void *context;
    const presil_capture_source *source; /* of launches that run elsewhere, until close; NULL: the device. A copy */
} presil_bundle_capture_options;

/* Of the launches from now on. They are written as they come, but with `last`. error: of error_bytes, filled on
 * failure; may be NULL. EINVAL: something else captures the device already. */
PRESIL_CHECKED int presil_bundle_capture_open(presil_device *device, const char *path,
                                              const presil_bundle_capture_options *options, presil_bundle_capture **out,
                                              char *error, size_t error_bytes);

/* Each launch that fails (a difference from the model, too) leaves a file of its own in `directory`, which is made if
 * need be; the text of its failure names it. `last` of the options is not looked at. Costs nothing to speak of: what a
 * launch reads is copied before it only where the launch writes there too. */
PRESIL_CHECKED int presil_bundle_capture_failures(presil_device *device, const char *directory,
                                                  const presil_bundle_capture_options *options,
                                                  presil_bundle_capture **out, char *error, size_t error_bytes);

/* Waits for the device, ends the file, frees. On failure (a full disk, at whatever launch it was) what was written
 * before it is readable. count: NULL, or how many launches were kept. capture NULL is allowed. */
PRESIL_CHECKED int presil_bundle_capture_close(presil_bundle_capture *capture, uint64_t *count, char *error,
                                               size_t error_bytes);

#ifdef __cplusplus
}
#endif
#endif
