/* SPDX-License-Identifier: Apache-2.0 */
/* store.h - a launch as records of a bundle: what capture.c chooses, store.c writes. */
#ifndef PRESIL_CAPTURE_STORE_H
#define PRESIL_CAPTURE_STORE_H

#include <stdbool.h>
#include "presil_bundle_capture.h"

enum { CAPTURE_TEXT = 512, CAPTURE_LABELS = 32 };

typedef struct {
    presil_bundle_pair at[CAPTURE_LABELS];
    uint32_t count;
} capture_labels;

void capture_label(void *to, const char *key, const char *value); /* a presil_bundle_label_fn; drops what is too much */
void capture_labels_free(capture_labels *labels);

/* Bytes that were copied before something overwrote them; behind them, the launch's memory. */
typedef struct {
    presil_bundle_range *ranges; /* sorted, disjoint */
    uint8_t *bytes;              /* of the ranges, one after the other */
    uint64_t *offsets;
    uint64_t count;
} capture_copy;

/* Copies what `from` has; with `within`, only what lies in its ranges too. false: no host memory. */
bool capture_copy_take(capture_copy *copy, const presil_capture_launch *launch, const presil_capture_bytes *from,
                       const presil_byte_range *within, uint64_t within_count);
void capture_copy_free(capture_copy *copy);

/* What all functions below return: PRESIL_OK, or a status with presil_bundle_error_text(). */
int store_chip(presil_bundle_writer *writer, presil_device *device, const presil_bundle_capture_options *options);
/* copy: NULL, or what is no longer in memory as the launch read it. */
int store_memory(presil_bundle_group *group, const presil_capture_launch *launch, const presil_capture_bytes *from,
                 const capture_copy *copy, const presil_bundle_memory **out);
int store_copy(presil_bundle_group *group, const capture_copy *copy, const presil_bundle_memory **out);
int store_launch(presil_bundle_group *group, const presil_capture_launch *launch, const presil_bundle_memory *reads,
                 const presil_bundle_memory *expected, const capture_labels *labels);
/* What was asked, in the words of a bundle, for store_launch(): freed by asked_free(). false: no host memory. */
bool asked_make(const presil_capture_launch *launch, presil_bundle_asked *out);
void asked_free(presil_bundle_asked *asked);
const char *capture_dtype(uint32_t dtype); /* as PyTorch prints it */
int store_result(presil_bundle_group *group, const presil_capture_launch *launch, const presil_report *report,
                 const presil_names *names, const presil_bundle_memory *expected, const presil_bundle_memory *writes);

#endif
