/* SPDX-License-Identifier: Apache-2.0 */
/* The transport's log of what the chip wrote, and when. */
#include "chip_writes.h"
#include "device.h"
#include "fail.h"
#include "ranges.h"
#include "running.h"

void presil_log_begin(presil_device *device) {
    device->log.known = false;
    device->log.writes.count = 0;
    device->log.writes.lost = false;
    device->log.on = (device->transport.capabilities & PRESIL_CAP_WRITE_LOG) &&
                     device->link.ops->write_log(device->link.handle, 1) == 0;
}

int presil_log_fetch(presil_device *device) {
    if (!device->log.on || device->log.known) return PRESIL_OK;
    const presil_write_range *ranges = NULL;
    size_t count = 0;
    const int error = device->link.ops->write_log_fetch(device->link.handle, &ranges, &count);
    if (error) return presil_transport_failed(&device->link, "fetching the log of writes", error);
    for (size_t i = 0; i < count; i++) ranges_add(&device->log.writes, ranges[i].base, ranges[i].bytes);
    ranges_merge(&device->log.writes);
    ranges_cut(&device->log.writes, device->run.scratch);
    ranges_cut(&device->log.writes, device->log.own);
    device->log.known = true;
    return PRESIL_OK;
}

void presil_log_end(presil_device *device) {
    (void)device->link.ops->write_log(device->link.handle, 0);
    device->log.on = false;
}

bool presil_write_time_of(const presil_device *device, presil_daddr address, presil_write_time *out) {
    *out = (presil_write_time){.size = sizeof *out};
    return device->log.on && (device->transport.capabilities & PRESIL_CAP_WRITE_TIMES) &&
           device->link.ops->write_times(device->link.handle, address, out) == 0;
}
