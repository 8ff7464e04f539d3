/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mode VERIFY of a chip without an executor: its operator is computed in plain C (presil_reference.h) from the inputs
 * as they are before the launch, since it may write over them; then the chip runs. Compared are the elements of the
 * output, as near as the chip says that it is; and where the transport has a log, that nothing was written beside what
 * the plan names.
 */
#include "by_reference.h"
#include "chip_writes.h"
#include "conversions.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "kept_op.h"
#include "model.h"
#include "on_chip.h"
#include "presil_clock.h"
#include "presil_reference.h"
#include "queue.h"
#include "ranges.h"
#include "residency.h"
#include "running.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Device memory as the host sees it, as far as the plan touches it. */
static int look(presil_device *device, const presil_plan_info *info, const uint8_t **memory) {
    if (presil_memory_home_is_mapping(device)) {
        *memory = device->memory.mapping;
        return presil_residency_fetch_all(device);
    }
    const int status = presil_view_stage(device, info);
    *memory = device->twin.view;
    return status;
}

static void not_compared(presil_device *device, presil_report *report, const char *why) {
    (void)snprintf(report->difference, sizeof report->difference, "not compared: %s", why);
    if (atomic_load(&device->run.not_compared) == 0)
        presil_warn("%s: not compared: %s. presil_device_get_verified() counts those that follow", report->label, why);
}

/* ---- activations in layouts of the chip's own, as they lie by their strides */
typedef struct {
    const presil_operand *tensor; /* NULL: the operand is not packed */
    uint8_t *bytes, *first;       /* first: element [0, 0, ...] */
} laid_out;

static const packed_tensor *packed_of(const launch_layouts *uses, const presil_operand *t) {
    for (uint32_t i = 0; uses && i < uses->count; i++) {
        const packed_tensor *p = uses->at[i].tensor;
        if (p->tensor.layout == t->layout && p->block.value == t->data.value) return p;
    }
    return NULL;
}

static int lay_out(const presil_device *device, const launch_layouts *uses, const presil_operand *t,
                   const uint8_t *memory, laid_out *out) {
    const packed_tensor *p = t->layout && !t->weights ? packed_of(uses, t) : NULL;
    *out = (laid_out){.tensor = NULL};
    if (!p) return PRESIL_OK;
    out->bytes = calloc(1, p->hull.bytes);
    if (!out->bytes)
        return presil_fail(PRESIL_EHOSTMEM, "no host memory for %llu bytes to compare with",
                           (unsigned long long)p->hull.bytes);
    out->tensor = &p->tensor;
    out->first = out->bytes + (p->tensor.data.value - p->hull.base.value);
    const int status = device->chip_ops->unpack_activation(
        device->chip, &p->tensor, memory + (p->block.value - device->memory.base.value), out->first);
    return status
               ? presil_fail(status, "the chip \"%s\" can't fetch a tensor from its own layout", device->chip_ops->name)
               : PRESIL_OK;
}

/* ---- what differs */
__attribute__((format(printf, 4, 5))) static int mismatch(presil_device *device, presil_report *report,
                                                          uint64_t address, const char *format, ...) {
    char what[200], when[40] = "";
    presil_write_time time;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(what, sizeof what, format, args);
    va_end(args);
    report->difference_address = address;
    report->verified = 0;
    if (presil_write_time_of(device, (presil_daddr){address}, &time)) {
        report->difference_cycle = time.last_cycle;
        report->difference_segment = time.last_launch;
        (void)snprintf(when, sizeof when, ", written in cycle %llu", (unsigned long long)time.last_cycle);
    }
    (void)snprintf(report->difference, sizeof report->difference, "%.190s (at 0x%llx%s)", what,
                   (unsigned long long)address, when);
    return presil_fail(PRESIL_EMISMATCH, "chip and reference differ: %s", report->difference);
}

static int element_differs(presil_device *device, const presil_operand *out, const presil_reference_difference *d,
                           presil_report *report) {
    char at[128] = "";
    size_t used = 0;
    uint32_t byte = 0;
    for (uint32_t i = 0; i < out->ndim && used < sizeof at; i++)
        used += (size_t)snprintf(at + used, sizeof at - used, i ? ", %lld" : "%lld", (long long)d->at[i]);
    const uint64_t wrong = d->expected_bits ^ d->found_bits;
    while (byte < 7 && !(wrong >> (8 * byte) & 255)) byte++;
    report->difference_expected = d->expected_bits >> (8 * byte) & 255;
    report->difference_found = d->found_bits >> (8 * byte) & 255;
    report->differing_bytes = (d->differing * presil_dtype_bits(out->dtype) + 7) / 8;
    return mismatch(device, report, out->data.value + (uint64_t)d->offset + byte,
                    "%.24s [%.72s] is %s, %s expected; %llu of %llu elements differ", out->name, at, d->found,
                    d->expected, (unsigned long long)d->differing, (unsigned long long)d->compared);
}

static int stray_writes(presil_device *device, const presil_plan_info *info, presil_report *report) {
    range_list planned = {0};
    uint64_t at = 0;
    int status = presil_log_fetch(device);
    if (status || !device->log.known) return status;
    ranges_add_writes(&planned, info);
    ranges_merge(&planned);
    const bool lost = planned.lost || device->log.writes.lost;
    report->stray_bytes = lost ? 0 : ranges_only_in(&device->log.writes, &planned, &at);
    if (report->stray_bytes)
        status = mismatch(device, report, at, "a stray write: the chip wrote %llu bytes that its plan doesn't name",
                          (unsigned long long)report->stray_bytes);
    ranges_free(&planned);
    return status;
}

static int compare_output(presil_device *device, const work_item *item, const presil_operand *out,
                          const presil_reference *expected, const uint8_t *memory, presil_report *report) {
    const presil_chip_limits *limits = &device->limits;
    presil_reference_difference d = {.size = sizeof d};
    laid_out laid = {.tensor = NULL};
    const int status = lay_out(device, item->layouts, out, memory, &laid);
    if (!status)
        presil_reference_compare(expected,
                                 laid.tensor ? laid.first : memory + (out->data.value - device->memory.base.value),
                                 limits->numerics == PRESIL_NUMERICS_TOLERANCE ? limits->tolerance : -1, &d);
    free(laid.bytes);
    if (status || !d.differing) return status;
    return element_differs(device, laid.tensor ? laid.tensor : out, &d, report);
}

static int compare(presil_device *device, const work_item *item, const presil_op *op, const presil_reference *expected,
                   const presil_plan_info *info, presil_report *report) {
    const uint8_t *memory;
    int status = look(device, info, &memory);
    for (uint32_t i = 0; i < op->output_count && !status; i++)
        status = compare_output(device, item, &op->outputs[i], presil_reference_output(expected, i), memory, report);
    if (!status) status = stray_writes(device, info, report);
    if (!status) report->verified = 1;
    return status;
}

/* What it comes to, from what memory holds now; NULL, with `why`: that is not known. */
static int expect(const presil_device *device, const work_item *item, const uint8_t *memory, presil_reference **out,
                  char *why, size_t bytes) {
    const kept_op *kept = item->tensors->op;
    const presil_op *op = presil_kept_op_get(kept);
    laid_out laid[PRESIL_OP_INPUTS] = {{.tensor = NULL}};
    const void *first[PRESIL_OP_INPUTS] = {NULL};
    int status = PRESIL_OK;
    for (uint32_t i = 0; i < op->input_count && !status; i++) {
        status = lay_out(device, item->layouts, &op->inputs[i], memory, &laid[i]);
        first[i] = laid[i].first;
    }
    if (!status) (void)presil_kept_op_compute(kept, memory, device->memory.base, first, out, why, bytes);
    for (uint32_t i = 0; i < op->input_count; i++) free(laid[i].bytes);
    return status;
}

static bool has_unknown_layout(const work_item *item, const presil_op *op) {
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (op->outputs[i].layout && !packed_of(item->layouts, &op->outputs[i])) return true;
    }
    return false;
}

int presil_launch_by_reference(presil_device *device, const work_item *item, const presil_plan_info *info,
                               presil_report *report) {
    const kept_op *op = item->tensors ? item->tensors->op : NULL;
    const uint8_t *memory;
    presil_reference *expected = NULL;
    char why[160] = "what it computes is not known (a list that was stored or merged, a copy)";
    int status = look(device, info, &memory);
    if (status) return status;
    const uint64_t start = presil_now_ns();
    const bool packed = op && has_unknown_layout(item, presil_kept_op_get(op));
    const bool outdated = op && item->list && presil_kept_op_outdated(op);
    if (packed) (void)snprintf(why, sizeof why, "its output is packed");
    if (outdated) (void)snprintf(why, sizeof why, "its weights were packed again since it was recorded");
    if (op && !packed && !outdated) status = expect(device, item, memory, &expected, why, sizeof why);
    if (status) return status;
    report->twin_ns += presil_now_ns() - start;
    status = presil_launch_rtl(device, item->plan, info, item->seq, report);
    if (!status && expected)
        status = compare(device, item, presil_kept_op_get(op), expected, info, report);
    else if (!status)
        not_compared(device, report, why);
    presil_reference_free(expected);
    return status;
}
