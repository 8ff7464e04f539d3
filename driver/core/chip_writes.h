/* SPDX-License-Identifier: Apache-2.0 */
/* chip_writes.h - what the chip wrote, as the transport saw it. */
#ifndef PRESIL_CORE_CHIP_WRITES_H
#define PRESIL_CORE_CHIP_WRITES_H

#include <stdbool.h>
#include "ranges.h"
#include "presil_chip.h"

typedef struct {
    range_list writes;     /* of the last launch */
    presil_byte_range own; /* where the chip writes what is no launch's result (presil_chip_limits.command_written) */
    bool on, known;        /* known: it was fetched */
} chip_writes;

/* Runner: on before a launch; fetched behind it, before anything else is launched; off. */
void presil_log_begin(presil_device *device);
int presil_log_fetch(presil_device *device);
void presil_log_end(presil_device *device);
/* When the chip wrote a byte of the log that was fetched last; false: not known. */
bool presil_write_time_of(const presil_device *device, presil_daddr address, presil_write_time *out);

#endif
