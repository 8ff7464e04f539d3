/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_capture.h - a place to listen at the seam of commands and memory: of each launch, what it is told to do, what
 * it reads, what it should write and what it wrote. Bundles are made of it (presil_bundle.h, docs/replay.md), in every
 * mode, of failed launches too. The rules of presil.h hold.
 */
#ifndef PRESIL_CAPTURE_H
#define PRESIL_CAPTURE_H

#include "presil_chip.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of device memory: those of address a are at host + (a - base); host NULL: presil_capture_launch.read gives
 * them. Ranges are sorted and disjoint. Valid until the function that was given it returns. */
typedef struct {
    const presil_byte_range *at;
    uint64_t count;
    const uint8_t *host;
    presil_daddr base;
} presil_capture_bytes;

/* As presil_tensor, of any dtype, and with as many dimensions as operators have. */
typedef struct {
    presil_daddr data;
    uint32_t dtype, ndim;
    int64_t shape[PRESIL_OP_DIMS], stride[PRESIL_OP_DIMS];
} presil_capture_view;

typedef struct {
    const char *name; /* "input", "output", "a", ...; static */
    uint32_t written; /* 1: the launch writes it */
    uint32_t reserved0;
    presil_capture_view tensor;
} presil_capture_tensor;

/* The commands of a launch that has ended: see keep(). */
typedef struct presil_kept_launch presil_kept_launch;

/* One launch, from begin() to end(). */
typedef struct presil_capture_launch presil_capture_launch;
struct presil_capture_launch {
    uint32_t size, mode; /* presil_mode */
    uint64_t launch;     /* as in its report; origin and tag too */
    const char *label;
    uint64_t signature, macs, passes, peak_macs_per_cycle, descriptors, estimate; /* as in presil_plan_info */
    uint32_t segments, tensor_count;
    uint64_t origin, tag;
    const presil_capture_tensor *tensors; /* of the operators in it; tensor_count may be 0 */
    const presil_byte_range *may_write;   /* what the commands can write at most */
    uint64_t may_write_count;
    const char *error; /* in end() of a failed launch: why; else NULL */
    /* The chip's own image of the commands (presil_chip_ops.save), DRAM addresses relative to the memory's base. As
     * presil_list_save; EUNSUPPORTED: the chip has no such format. */
    int (*commands)(const presil_capture_launch *launch, void *to, uint64_t *size);
    int (*read)(const presil_capture_launch *launch, presil_daddr from, void *to, uint64_t bytes);
    /* presil_chip_ops.describe. */
    int (*describe)(const presil_capture_launch *launch, presil_daddr address, char *text, size_t bytes);
    /* In end(): when the chip wrote a byte. EUNSUPPORTED: not known. */
    int (*write_time)(const presil_capture_launch *launch, presil_daddr address, presil_write_time *out);
    const void *core; /* the driver's */
    /* Memory that it needs only while it runs (presil_plan_info.scratch_bytes): in none of the lists here. */
    presil_daddr scratch;
    uint64_t scratch_bytes;
    /* In end(), once: its commands stay, for presil_kept_describe(). NULL: no host memory. */
    presil_kept_launch *(*keep)(const presil_capture_launch *launch);
    /* The one operator that it is, as it was asked for; NULL: not known (several in one launch, a stored list). Of an
     * operand with `layout` it is known that the chip packed it, and that the packed bytes begin at `data`: neither
     * `layout` nor `weights` may be followed. asked_weights: as its packed weights were made, with bias and scale,
     * without the values; NULL: it has none, or not known. Both until end() returns, or as long as what keep() gave. */
    const presil_op *asked;
    const presil_weights_desc *asked_weights;
    /* presil_chip_ops.timing. EUNSUPPORTED: its cycles may depend on data. NULL: it ran elsewhere. */
    int (*timing)(const presil_capture_launch *launch, presil_timing_add add, void *context);
    /* presil_chip_ops.work. EUNSUPPORTED: it is not known. NULL: it ran elsewhere. */
    int (*work)(const presil_capture_launch *launch, const char *simulator, presil_work *out);
    /* presil_chip_ops.usage. EUNSUPPORTED: it is not known. NULL: it ran elsewhere. */
    int (*usage)(const presil_capture_launch *launch, presil_usage_tell tell, void *context);
};

/* As presil_capture_launch.describe, on any thread, until it is freed: before the device is closed. NULL may be freed.
 */
PRESIL_CHECKED int presil_kept_describe(const presil_kept_launch *kept, presil_daddr address, char *text, size_t bytes);
PRESIL_API void presil_kept_free(presil_kept_launch *kept);

typedef void (*presil_capture_put)(void *core, presil_daddr to, const void *bytes, uint64_t count);

/* What begin() returns: how much of the launch it is to be told. */
enum {
    PRESIL_CAPTURE_NOTHING,
    PRESIL_CAPTURE_ALL,
    PRESIL_CAPTURE_REPORT /* end() has no `writes`: in mode MODEL they need not be logged, which takes time */
};

/* Called by whoever runs the launch, one at a time, while the chip stands still; they may call nothing of presil.h but
 * presil_status_name() and presil_device_get_names(). What goes wrong in them is theirs to tell: no launch fails for
 * it. */
typedef struct {
    uint32_t size, reserved0;
    /* Before the launch. `reads`: what it may read, as it is now. Returns PRESIL_CAPTURE_... */
    int (*begin)(void *context, const presil_capture_launch *launch, const presil_capture_bytes *reads);
    /* Mode VERIFY, before the chip starts: what the executor without a clock wrote. May be NULL. */
    void (*expected)(void *context, const presil_capture_launch *launch, const presil_capture_bytes *writes);
    /* After it, also when it failed. writes: what the device's memory has now, where the executor wrote; where that is
     * not known (no log of writes), what it may have written; none after PRESIL_CAPTURE_REPORT. Returns NULL, or a text
     * for people that is added to that of a failed launch (where it was kept); valid until the next begin(). */
    const char *(*end)(void *context, const presil_capture_launch *launch, const presil_report *report,
                       const presil_capture_bytes *writes);
    /* Mode VERIFY, instead of the executor: calls put() for all that the launch should write. Returns a status. May be
     * NULL. */
    int (*supply)(void *context, const presil_capture_launch *launch, presil_capture_put put, void *core);
} presil_capture_ops;

/* From the next launch on; waits until the device is idle. ops NULL: off. One at a time: EINVAL while another one is
 * set. While it is set, mode RTL also keeps the log of writes that mode VERIFY needs. */
PRESIL_CHECKED int presil_set_capture(presil_device *device, const presil_capture_ops *ops, void *context);

/* What a launch depends on beside its commands and memory, and what identifies the chip: whoever stores launches stores
 * this too. Texts are the device's, valid until it is closed or its memory model changes. */
typedef struct {
    uint32_t size, abi_chip, abi_transport, capabilities; /* presil_transport_capability; 0 in mode MODEL */
    const char *memory_model;                             /* NULL: default */
    const char *rtl, *library;                            /* presil_transport_info; "": not known */
    uint64_t seed, hang_cycles;
    const char *timing; /* presil_transport_ops.timing, as it was when the chip was started; "": not known, or none */
} presil_device_identity;

PRESIL_CHECKED int presil_device_identify(presil_device *device, presil_device_identity *out);

/* Who runs the launches of a device, where that is not the device itself (presil_jobs_source). */
typedef struct {
    uint32_t size, reserved0;
    void *who;
    /* Instead of presil_set_capture(), presil_device_get_info() and presil_device_identify(). */
    int (*set_capture)(void *who, const presil_capture_ops *ops, void *context);
    int (*identify)(void *who, presil_device_info *info, presil_device_identity *identity);
} presil_capture_source;

#ifdef __cplusplus
}
#endif
#endif
