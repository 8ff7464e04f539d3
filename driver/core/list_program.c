/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver tells a chip for a launch, told to somebody else: the chip's own reset() and submit() on a transport
 * that passes on what they write. */
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "life.h"
#include "look_at_plan.h"
#include "queue.h"
#include "recording.h"
#include "scratch.h"
#include "start.h"
#include "presil_debug.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* The handle of this transport is a sink. */
static const presil_program_sink *sink_of(presil_transport *t) { return (const presil_program_sink *)(const void *)t; }

static int read_zero(presil_transport *t, uint32_t offset, uint32_t *value) {
    (void)t, (void)offset;
    *value = 0;
    return 0;
}
static int tell_register(presil_transport *t, uint32_t offset, uint32_t value) {
    return sink_of(t)->register_write(sink_of(t)->context, offset, value);
}
static int read_nothing(presil_transport *t, presil_daddr from, void *to, uint64_t bytes) {
    (void)t, (void)from;
    memset(to, 0, bytes);
    return 0;
}
static int tell_memory(presil_transport *t, presil_daddr to, const void *from, uint64_t bytes) {
    return sink_of(t)->memory_write(sink_of(t)->context, to, from, bytes);
}
static int wait_never(presil_transport *t, presil_wait *w) {
    (void)t;
    w->reason = PRESIL_WAIT_DEADLINE;
    w->cycles = w->deadline_cycles;
    return 0;
}
static const char *no_error(presil_transport *t) {
    (void)t;
    return "the listener refused it";
}

static int tell(presil_device *device, const recorded_plan *recorded, const presil_program_sink *sink) {
    static const presil_transport_ops ops = {.size = sizeof ops,
                                             .abi = PRESIL_TRANSPORT_ABI,
                                             .read32 = read_zero,
                                             .write32 = tell_register,
                                             .mem_read = read_nothing,
                                             .mem_write = tell_memory,
                                             .wait = wait_never,
                                             .last_error = no_error};
    const presil_link link = {.size = sizeof link, .ops = &ops, .handle = (presil_transport *)(void *)(uintptr_t)sink};
    presil_command_memory memory = device->memory.command;
    memory.host = NULL;
    memory.scratch = recorded->scratch.at;
    memory.scratch_bytes = recorded->scratch.bytes;
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    int status = device->chip_ops->reset(device->chip, &link, &memory, &error);
    if (!status) status = device->chip_ops->submit(device->chip, &link, &memory, recorded->plan, 0, &error);
    return status ? presil_fail(status, "presil_list_program: %s", text) : PRESIL_OK;
}

int presil_list_program(const presil_list *list, const presil_program_sink *sink) {
    if (!list || !sink || sink->size < sizeof *sink || !sink->register_write || !sink->memory_write)
        return presil_fail(PRESIL_EINVAL, "presil_list_program: an argument is NULL, or sink->size is too small");
    presil_device *device = list->device;
    int status = presil_enter(device);
    presil_plan_info info;
    if (!status) status = presil_list_as_it_lies(list, "presil_list_program");
    if (status) return status;
    if (list->count != 1 || presil_plan_look(device, list->plans[0].plan, &info) || info.segments != 1)
        return presil_fail(PRESIL_EUNSUPPORTED, "presil_list_program: a launch of one doorbell expected");
    if (!device->limits.has_interrupt)
        return presil_fail(PRESIL_EUNSUPPORTED, "presil_list_program: the chip \"%s\" has no interrupt to end a launch",
                           device->chip_ops->name);
    status = presil_exclusive_begin(device);
    if (status) return status;
    work_item item = {.scratch = list->plans[0].scratch};
    if (item.scratch.bytes) status = presil_scratch_find(device, &item);
    recorded_plan recorded = list->plans[0];
    recorded.scratch = item.scratch;
    if (!status) status = tell(device, &recorded, sink);
    if (atomic_load(&device->started) && !device->dead) { /* its library believes that the chip was reset */
        const int again = presil_recover(device, false);
        if (!status) status = again;
    }
    presil_exclusive_end(device);
    return status;
}
