/* SPDX-License-Identifier: Apache-2.0 */
/* Records of a bundle, from what the core tells of a launch. */
#define _POSIX_C_SOURCE 200809L
#include "store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- labels */
void capture_label(void *to, const char *key, const char *value) {
    capture_labels *labels = to;
    if (!key || !*key || !value || labels->count == CAPTURE_LABELS) return;
    char *k = strdup(key), *v = strdup(value);
    if (!k || !v) {
        free(k);
        free(v);
        return;
    }
    labels->at[labels->count++] = (presil_bundle_pair){k, v};
}

void capture_labels_free(capture_labels *labels) {
    for (uint32_t i = 0; i < labels->count; i++) {
        free((void *)(uintptr_t)labels->at[i].key);
        free((void *)(uintptr_t)labels->at[i].value);
    }
    labels->count = 0;
}

/* ---- bytes that won't stay */
void capture_copy_free(capture_copy *copy) {
    free(copy->ranges);
    free(copy->bytes);
    free(copy->offsets);
    *copy = (capture_copy){0};
}

static uint64_t end_of(const presil_byte_range *r) { return r->base.value + r->bytes; }

/* The intersection of two sorted lists, to `out` if it is there. Returns how many ranges it has. */
static uint64_t intersect(const presil_byte_range *a, uint64_t a_count, const presil_byte_range *b, uint64_t b_count,
                          presil_bundle_range *out) {
    uint64_t count = 0;
    for (uint64_t i = 0, k = 0; i < a_count && k < b_count;) {
        const uint64_t from = a[i].base.value > b[k].base.value ? a[i].base.value : b[k].base.value,
                       to = end_of(&a[i]) < end_of(&b[k]) ? end_of(&a[i]) : end_of(&b[k]);
        if (from < to) {
            if (out) out[count] = (presil_bundle_range){{from}, to - from};
            count++;
        }
        if (end_of(&a[i]) < end_of(&b[k]))
            i++;
        else
            k++;
    }
    return count;
}

bool capture_copy_take(capture_copy *copy, const presil_capture_launch *launch, const presil_capture_bytes *from,
                       const presil_byte_range *within, uint64_t within_count) {
    capture_copy_free(copy);
    const presil_byte_range *limits = within ? within : from->at;
    const uint64_t limit_count = within ? within_count : from->count,
                   count = intersect(from->at, from->count, limits, limit_count, NULL);
    if (!count) return true;
    copy->ranges = malloc(count * sizeof *copy->ranges);
    copy->offsets = malloc(count * sizeof *copy->offsets);
    if (!copy->ranges || !copy->offsets) return false;
    copy->count = intersect(from->at, from->count, limits, limit_count, copy->ranges);
    uint64_t bytes = 0;
    for (uint64_t i = 0; i < count; i++) {
        copy->offsets[i] = bytes;
        bytes += copy->ranges[i].bytes;
    }
    copy->bytes = malloc(bytes);
    if (!copy->bytes) return false;
    for (uint64_t i = 0; i < count; i++) {
        const presil_bundle_range *r = &copy->ranges[i];
        if (from->host)
            memcpy(copy->bytes + copy->offsets[i], from->host + (r->base.value - from->base.value), r->bytes);
        else if (launch->read(launch, r->base, copy->bytes + copy->offsets[i], r->bytes))
            return false;
    }
    return true;
}

/* ---- memory */
typedef struct {
    const presil_capture_launch *launch;
    const presil_capture_bytes *memory; /* NULL: all of it was copied */
    const capture_copy *copy;           /* may be NULL */
} layered;

/* The first range of the copy that ends behind `at`. */
static uint64_t find(const capture_copy *copy, uint64_t at) {
    uint64_t low = 0, high = copy->count;
    while (low < high) {
        const uint64_t middle = (low + high) / 2;
        if (copy->ranges[middle].base.value + copy->ranges[middle].bytes <= at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static int read_memory(const layered *from, uint64_t at, uint8_t *to, uint64_t bytes) {
    const presil_capture_bytes *m = from->memory;
    if (!m) return PRESIL_EINVAL;
    if (!m->host) return from->launch->read(from->launch, (presil_daddr){at}, to, bytes);
    memcpy(to, m->host + (at - m->base.value), bytes);
    return PRESIL_OK;
}

static int read_layered(void *context, presil_daddr address, void *to, uint64_t bytes) {
    const layered *from = context;
    uint8_t *out = to;
    uint64_t at = address.value;
    const uint64_t end = at + bytes;
    uint64_t i = from->copy ? find(from->copy, at) : 0;
    while (at < end) {
        const presil_bundle_range *r = from->copy && i < from->copy->count ? &from->copy->ranges[i] : NULL;
        const bool copied = r && r->base.value <= at;
        uint64_t stop = r ? (copied ? r->base.value + r->bytes : r->base.value) : end;
        if (stop > end) stop = end;
        if (copied) {
            memcpy(out, from->copy->bytes + from->copy->offsets[i] + (at - r->base.value), stop - at);
            i++;
        } else {
            const int status = read_memory(from, at, out, stop - at);
            if (status) return status;
        }
        out += stop - at;
        at = stop;
    }
    return PRESIL_OK;
}

int store_memory(presil_bundle_group *group, const presil_capture_launch *launch, const presil_capture_bytes *from,
                 const capture_copy *copy, const presil_bundle_memory **out) {
    presil_bundle_range *ranges = malloc((from->count + 1) * sizeof *ranges);
    if (!ranges) return PRESIL_EHOSTMEM;
    for (uint64_t i = 0; i < from->count; i++) ranges[i] = (presil_bundle_range){from->at[i].base, from->at[i].bytes};
    layered context = {launch, from, copy};
    const bool direct = from->host && (!copy || !copy->count);
    const presil_bundle_source source = {
        .host = direct ? from->host : NULL, .base = from->base, .read = read_layered, .context = &context};
    const int status = presil_bundle_put_memory(group, &source, ranges, from->count, out);
    free(ranges);
    return status;
}

int store_copy(presil_bundle_group *group, const capture_copy *copy, const presil_bundle_memory **out) {
    layered context = {.copy = copy};
    const presil_bundle_source source = {.read = read_layered, .context = &context};
    return presil_bundle_put_memory(group, &source, copy->ranges, copy->count, out);
}

/* ---- the chip */
enum { COUNTERS = 5 }; /* that every report has; the chip's own follow */

static const char *name_of(const presil_name *name) { return name->name ? name->name : "unused"; }

int store_chip(presil_bundle_writer *writer, presil_device *device, const presil_bundle_capture_options *options) {
    presil_device_info info = {.size = sizeof info};
    presil_device_identity who = {.size = sizeof who};
    int status = options->source ? options->source->identify(options->source->who, &info, &who)
                                 : presil_device_get_info(device, &info);
    if (!status && !options->source) status = presil_device_identify(device, &who);
    if (status) return status;
    presil_names names = {.size = sizeof names};
    status = presil_device_get_names(device, &names);
    if (status) return status;
    const char *engines[PRESIL_ENGINES], *causes[PRESIL_CAUSES];
    for (uint32_t i = 0; i < names.engine_count; i++) engines[i] = name_of(&names.engines[i]);
    for (uint32_t i = 0; i < names.cause_count; i++) causes[i] = name_of(&names.causes[i]);
    presil_bundle_counter counters[COUNTERS + PRESIL_COUNTERS] = {
        {"read_bytes", "bytes"},
        {"write_bytes", "bytes"},
        {"read_beats", "beats"},
        {"write_beats", "beats"},
        {names.commands ? names.commands : "commands", "commands"}};
    for (uint32_t i = 0; i < names.counter_count; i++) {
        const presil_name *n = &names.counters[i];
        counters[COUNTERS + i] = (presil_bundle_counter){name_of(n), n->unit ? n->unit : "cycles"};
    }
    const presil_bundle_chip chip = {.size = sizeof chip,
                                     .abi_chip = who.abi_chip,
                                     .abi_transport = who.abi_transport,
                                     .capabilities = who.capabilities,
                                     .chip = info.chip,
                                     .config = info.config,
                                     .build = info.build,
                                     .transport = info.transport,
                                     .simulator = info.simulator,
                                     .rtl_hash = who.rtl,
                                     .library_hash = who.library,
                                     .memory_model = who.memory_model,
                                     .presil_version = PRESIL_VERSION,
                                     .torch_version = options->torch_version,
                                     .config_hash = info.config_hash,
                                     .clock_mhz = info.clock_mhz,
                                     .memory_bytes = info.memory_bytes,
                                     .seed = who.seed,
                                     .hang_cycles = who.hang_cycles,
                                     .memory_base = info.memory_base,
                                     .engines = engines,
                                     .causes = causes,
                                     .counters = counters,
                                     .engine_count = names.engine_count,
                                     .cause_count = names.cause_count,
                                     .counter_count = COUNTERS + names.counter_count};
    status = presil_bundle_put_chip(writer, &chip, NULL);
    if (status || !options->file_label_count) return status;
    return presil_bundle_put_labels(writer, options->file_labels, options->file_label_count);
}

/* ---- the launch */
static int put_commands(presil_bundle_group *group, const presil_capture_launch *launch, presil_bundle_id *out) {
    uint64_t bytes = 0;
    int status = launch->commands(launch, NULL, &bytes);
    if (status == PRESIL_EUNSUPPORTED) return PRESIL_OK; /* the rest is worth keeping */
    void *image = status ? NULL : malloc(bytes ? bytes : 1);
    if (!status && !image) status = PRESIL_EHOSTMEM;
    if (!status) status = launch->commands(launch, image, &bytes);
    if (!status) status = presil_bundle_put_block(group, image, bytes, out);
    free(image);
    return status;
}

int store_launch(presil_bundle_group *group, const presil_capture_launch *launch, const presil_bundle_memory *reads,
                 const presil_bundle_memory *expected, const capture_labels *labels) {
    presil_bundle_id commands = {.bytes = 0};
    int status = put_commands(group, launch, &commands);
    presil_bundle_tensor *tensors = status ? NULL : calloc(launch->tensor_count + 1, sizeof *tensors);
    if (!status && !tensors) status = PRESIL_EHOSTMEM;
    if (status) return status;
    for (uint32_t i = 0; i < launch->tensor_count; i++) {
        const presil_capture_tensor *t = &launch->tensors[i];
        tensors[i] = (presil_bundle_tensor){.name = t->name,
                                            .data = t->tensor.data,
                                            .shape = t->tensor.shape,
                                            .stride = t->tensor.stride,
                                            .ndim = t->tensor.ndim,
                                            .written = t->written != 0};
        const uint32_t bits = presil_dtype_bits(t->tensor.dtype);
        tensors[i].dtype = capture_dtype(t->tensor.dtype);
        tensors[i].element_bytes = bits / 8; /* int4: 0, so that a reader without element_bits leaves it alone */
        if (bits % 8) tensors[i].element_bits = (uint16_t)bits;
    }
    presil_bundle_asked asked = {.present = 0};
    if (!asked_make(launch, &asked)) status = PRESIL_EHOSTMEM;
    const presil_bundle_launch record = {.size = sizeof record,
                                         .asked = asked,
                                         .mode = launch->mode,
                                         .launch = launch->launch,
                                         .label = launch->label,
                                         .commands = commands,
                                         .signature = launch->signature,
                                         .macs = launch->macs,
                                         .passes = launch->passes,
                                         .peak_macs_per_cycle = launch->peak_macs_per_cycle,
                                         .descriptors = launch->descriptors,
                                         .segments = launch->segments,
                                         .estimate = launch->estimate,
                                         .origin = launch->origin,
                                         .tag = launch->tag,
                                         .scratch = launch->scratch,
                                         .scratch_bytes = launch->scratch_bytes,
                                         .reads = reads,
                                         .expected = expected,
                                         .labels = labels->at,
                                         .tensors = tensors,
                                         .label_count = labels->count,
                                         .tensor_count = launch->tensor_count};
    if (!status) status = presil_bundle_put_launch(group, &record);
    asked_free(&asked);
    free(tensors);
    return status;
}

/* ---- its result */
typedef struct {
    presil_bundle_range *at;
    uint64_t count;
} difference_list;

/* What is in one list but not in the other; both sorted and disjoint. */
static bool only_in(const presil_bundle_memory *a, const presil_bundle_memory *b, difference_list *out) {
    out->at = malloc((a->range_count + b->range_count + 1) * sizeof *out->at);
    if (!out->at) return false;
    uint64_t k = 0;
    for (uint64_t i = 0; i < a->range_count; i++) {
        uint64_t at = a->ranges[i].base.value;
        const uint64_t end = at + a->ranges[i].bytes;
        while (at < end) {
            while (k < b->range_count && b->ranges[k].base.value + b->ranges[k].bytes <= at) k++;
            const presil_bundle_range *other = k < b->range_count ? &b->ranges[k] : NULL;
            const bool covered = other && other->base.value <= at;
            uint64_t stop = !other ? end : covered ? other->base.value + other->bytes : other->base.value;
            if (stop > end) stop = end;
            if (!covered) out->at[out->count++] = (presil_bundle_range){{at}, stop - at};
            at = stop;
        }
    }
    return true;
}

int store_result(presil_bundle_group *group, const presil_capture_launch *launch, const presil_report *report,
                 const presil_names *names, const presil_bundle_memory *expected, const presil_bundle_memory *writes) {
    uint64_t counters[COUNTERS + PRESIL_COUNTERS] = {report->read_bytes, report->write_bytes, report->read_beats,
                                                     report->write_beats, report->descriptors};
    memcpy(&counters[COUNTERS], report->counters, sizeof report->counters);
    uint64_t stalls[PRESIL_ENGINES * PRESIL_CAUSES];
    const uint32_t causes = names->cause_count;
    for (uint32_t e = 0; e < names->engine_count; e++)
        memcpy(&stalls[e * causes], report->stalls[e], causes * sizeof *stalls);
    presil_bundle_result record = {.size = sizeof record,
                                   .status = -(int32_t)report->status,
                                   .verified = report->verified,
                                   .launch = launch->launch,
                                   .executor = report->mode == PRESIL_MODE_MODEL ? "model" : "rtl",
                                   .error = launch->error,
                                   .cycles = report->cycles,
                                   .fill = report->fill,
                                   .drain = report->drain,
                                   .sim_ns = report->sim_ns,
                                   .twin_ns = report->twin_ns,
                                   .host_ns = report->host_ns,
                                   .stalls = stalls,
                                   .counters = counters,
                                   .stall_count = names->engine_count * causes,
                                   .counter_count = COUNTERS + names->counter_count,
                                   .writes = writes};
    if (report->verified == 0) {
        record.difference = (presil_bundle_difference){.present = 1,
                                                       .expected = (uint8_t)report->difference_expected,
                                                       .found = (uint8_t)report->difference_found,
                                                       .address = {report->difference_address},
                                                       .bytes = report->differing_bytes,
                                                       .cycle = report->difference_cycle,
                                                       .text = report->difference};
    }
    difference_list stray = {0}, missing = {0};
    int status = PRESIL_OK;
    if (expected && writes && (!only_in(writes, expected, &stray) || !only_in(expected, writes, &missing)))
        status = PRESIL_EHOSTMEM;
    record.stray = stray.at;
    record.stray_count = stray.count;
    record.missing = missing.at;
    record.missing_count = missing.count;
    if (!status) status = presil_bundle_put_result(group, &record);
    free(stray.at);
    free(missing.at);
    return status;
}
