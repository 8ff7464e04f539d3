/* SPDX-License-Identifier: Apache-2.0 */
/* Packed weights: laid out by the chip, written into a block of device memory in stream order. */
#include "weights.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "kept_op.h"
#include "life.h"
#include "presil_heap.h"
#include "presil_image.h"
#include "queue.h"
#include "start.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

static int check(const presil_weights_desc *d) {
    if (d->compute > PRESIL_COMPUTE_FP16)
        return presil_fail(PRESIL_EINVAL, "presil_weights_desc: compute %u is not one of presil_compute", d->compute);
    if (d->weight_dtype > PRESIL_FP32 && d->weight_dtype != PRESIL_FP16)
        return presil_fail(PRESIL_EINVAL, "presil_weights_desc: weight_dtype %u: INT8, BF16, FP16 or FP32 expected",
                           d->weight_dtype);
    if (d->groups == 0) return presil_fail(PRESIL_EINVAL, "presil_weights_desc: groups is 0");
    for (int i = 0; i < 4; i++) {
        if (d->shape[i] <= 0)
            return presil_fail(PRESIL_EINVAL, "presil_weights_desc: shape[%d] is %lld, at least 1 expected", i,
                               (long long)d->shape[i]);
    }
    return PRESIL_OK;
}

/* An idle device whose memory is mapped takes the bytes in place. Otherwise queued work may still use the block (freed,
 * in program order), so they go through the queue. */
static int write_packed(presil_device *device, presil_weights *weights, const presil_weights_desc *d) {
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    if (presil_memory_home_is_mapping(device) &&
        atomic_load(&device->queue.completed) == atomic_load(&device->queue.submitted)) {
        const int status =
            device->chip_ops->pack(device->chip, weights->layout, d, presil_memory_at(device, weights->packed), &error);
        if (status) return presil_fail(status, "packing weights: %s", text);
        atomic_store(&weights->unwritten, false);
        return PRESIL_OK;
    }
    void *buffer = malloc(weights->bytes);
    if (!buffer)
        return presil_fail(PRESIL_EHOSTMEM, "packing weights: no host memory for %llu bytes",
                           (unsigned long long)weights->bytes);
    int status = device->chip_ops->pack(device->chip, weights->layout, d, buffer, &error);
    if (status) (void)presil_fail(status, "packing weights: %s", text);
    work_item item = {
        .kind = ITEM_COPY,
        .copy = {
            .to = weights->packed, .host_from = buffer, .bytes = weights->bytes, .owned = buffer, .weights = weights}};
    if (!status) {
        (void)atomic_fetch_add(&weights->references, 1);
        status = presil_queue_push(device, &device->queue.default_stream, &item, true);
        if (status) (void)atomic_fetch_sub(&weights->references, 1);
    }
    if (status) free(buffer);
    return status;
}

static void give_back(const presil_weights *weights, presil_device *device) {
    if (!weights->placed && !weights->only_asked && presil_free(device, weights->packed))
        presil_warn("packed weights: %s", presil_error_text());
}

/* Values for mode VERIFY without an executor, which has nothing else to compare with; without host memory for it
 * launches are not compared. Bias and scale for whoever listens (presil_capture.h). */
static void keep(presil_weights *weights, const presil_weights_desc *d) {
    const presil_device *device = weights->device;
    const bool wanted = !device->limits.has_executor && atomic_load(&device->mode) == PRESIL_MODE_VERIFY;
    presil_kept_weights_replace(&weights->kept, presil_keep_weights(d, wanted));
}

static presil_weights_desc without_pointers(presil_weights_desc d) {
    d.weight = d.bias = NULL;
    d.scale = NULL;
    for (int i = 0; i < 4; i++) d.stride[i] = 0;
    return d;
}

static int check_parts(const presil_weights *weights, const presil_weights_desc *d) {
    const bool bias = weights->has_bias != (d->bias != NULL), had = bias ? weights->has_bias : weights->has_scale;
    if (!bias && weights->has_scale == (d->scale != NULL)) return PRESIL_OK;
    return presil_fail(
        PRESIL_EINVAL,
        "presil_weights_update: %s %s, and these were packed with%s one: give %s, or create other weights",
        bias ? "bias" : "scale", had ? "is NULL" : "is given", had ? "" : "out", had ? "it (zeros, ones)" : "none");
}

int presil_weights_update(presil_weights *weights, const presil_weights_desc *desc) {
    if (!weights || !desc) return presil_fail(PRESIL_EINVAL, "presil_weights_update: weights or desc is NULL");
    int status = presil_enter(weights->device);
    if (status) return status;
    presil_weights_desc d;
    status = presil_take(&d, sizeof d, desc, desc->size, offsetof(presil_weights_desc, bias), "presil_weights_desc");
    if (status) return status;
    d.size = sizeof d;
    if (!d.weight) return presil_fail(PRESIL_EINVAL, "presil_weights_update: weight is NULL");
    if (weights->only_asked)
        return presil_fail(PRESIL_EINVAL, "presil_weights_update: these are only to ask about, they have no bytes");
    status = check(&d);
    if (status) return status;
    const presil_weights_desc identity = without_pointers(d);
    if (memcmp(&identity, &weights->desc, sizeof identity))
        return presil_fail(
            PRESIL_EINVAL,
            "presil_weights_update: shape, dtype, compute type, groups or dilation differ from those that were packed");
    status = check_parts(weights, &d);
    if (!status) status = write_packed(weights->device, weights, &d);
    if (!status) keep(weights, &d);
    return status;
}

static int find_place(presil_device *device, presil_weights *weights, presil_daddr place, uint64_t bytes) {
    if (!place.value) return presil_alloc(device, NULL, NULL, weights->bytes, &weights->packed);
    if (weights->bytes > bytes)
        return presil_fail(PRESIL_ENOMEM, "weights: packed they take %llu bytes, the place has %llu",
                           (unsigned long long)weights->bytes, (unsigned long long)bytes);
    if (place.value % PRESIL_HEAP_PAGE || !presil_memory_contains(device, place, weights->bytes))
        return presil_fail(PRESIL_EINVAL, "weights: place 0x%llx is not 4 KiB-aligned in device memory",
                           (unsigned long long)place.value);
    weights->placed = true;
    weights->packed = place;
    return PRESIL_OK;
}

int presil_weights_create_at(presil_device *device, const presil_weights_desc *desc, presil_daddr place, uint64_t bytes,
                             presil_weights **out) {
    int status = presil_enter(device);
    if (status) return status;
    if (!desc || !out) return presil_fail(PRESIL_EINVAL, "presil_weights_create: desc or out is NULL");
    presil_weights_desc d;
    status = presil_take(&d, sizeof d, desc, desc->size, offsetof(presil_weights_desc, bias), "presil_weights_desc");
    if (status) return status;
    d.size = sizeof d;
    status = check(&d);
    if (!status && d.weight && device->memory.no_map && atomic_load(&device->mode) != PRESIL_MODE_MODEL)
        status = presil_start_if_needed(device);
    if (status) return status;
    if (!device->chip_ops->layout)
        return presil_fail(PRESIL_EUNSUPPORTED, "weights: the chip \"%s\" packs none", device->chip_ops->name);
    presil_weights *weights = calloc(1, sizeof *weights);
    if (!weights) return presil_fail(PRESIL_EHOSTMEM, "presil_weights_create: host memory is full");
    atomic_init(&weights->references, 1);
    weights->device = device;
    weights->desc = without_pointers(d);
    weights->has_bias = d.bias != NULL;
    weights->has_scale = d.scale != NULL;
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    status = device->chip_ops->layout(device->chip, &d, &weights->layout, &weights->bytes, &error);
    if (status) {
        free(weights);
        return presil_fail(status, "weights: %s", text);
    }
    weights->only_asked = d.weight == NULL;
    if (d.weight) status = find_place(device, weights, place, bytes);
    if (d.weight && !status) {
        status = write_packed(device, weights, &d);
        if (status) give_back(weights, device);
    }
    if (status) {
        device->chip_ops->layout_free(weights->layout);
        free(weights);
        return status;
    }
    if (d.weight) keep(weights, &d);
    presil_device_hold(device);
    *out = weights;
    return PRESIL_OK;
}

int presil_weights_create(presil_device *device, const presil_weights_desc *desc, presil_weights **out) {
    return presil_weights_create_at(device, desc, (presil_daddr){0}, 0, out);
}

/* Launches in the queue keep their order before whatever the block is used for next. */
void presil_weights_destroy(presil_weights *weights) {
    if (!weights) return;
    if (!presil_enter(weights->device)) give_back(weights, weights->device);
    presil_weights_drop(weights);
}

void presil_weights_drop(presil_weights *weights) {
    if (!weights || atomic_fetch_sub(&weights->references, 1) != 1) return;
    weights->device->chip_ops->layout_free(weights->layout);
    presil_kept_weights_replace(&weights->kept, NULL);
    presil_device_drop(weights->device);
    free(weights);
}

int presil_packs_weights(const presil_device *device) { return device && device->chip_ops->layout != NULL; }
uint64_t presil_weights_bytes(const presil_weights *weights) { return weights ? weights->bytes : 0; }
