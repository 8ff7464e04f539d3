/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - the device: what it was opened as, its chip, and its parts, each of which has a header of its own. No
 * function is declared here.
 *
 * Threads: `queue.lock` guards the queue, streams and events; `memory.lock` the allocator; `reports.lock` the
 * callbacks. Whoever has set `queue.running` (the worker, or a caller that waits) is the runner: it alone touches the
 * chip, the transport, `io`, `run`, `twin` and `log`, without holding a lock.
 */
#ifndef PRESIL_CORE_DEVICE_H
#define PRESIL_CORE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include "callbacks.h"
#include "chip_writes.h"
#include "conversions.h"
#include "device_memory.h"
#include "in_flight.h"
#include "io_map.h"
#include "listeners.h"
#include "model.h"
#include "presil.h"
#include "presil_chip.h"
#include "queue.h"
#include "residency.h"
#include "running.h"
#include "scratch.h"

#define MOST_HANG_CYCLES (1ull << 40)

struct presil_device {
    atomic_int references; /* the handle and every object that points here */
    atomic_bool closed;
    unsigned process;                 /* of presil_watch_forks(), at open */
    void (*destroy)(presil_device *); /* with the last reference */

    /* as opened */
    char config[32], build[32];
    bool config_given, build_given;
    char transport_spec[160]; /* "inproc", or the kind and its options: "socket:..." (choose_transport.c) */
    char *library_path, *chip_path, *memory_model;
    uint64_t seed, hang_cycles, hang_ns; /* hang_ns: where the transport has no clock */
    uint64_t most_cycles;                /* of a launch; 0: any number */

    /* chip and transport */
    const presil_chip_ops *chip_ops; /* chip_table */
    presil_chip_ops chip_table;      /* the chip's, NULL where it ends */
    presil_chip *chip;
    presil_chip_limits limits;
    atomic_int mode;
    atomic_bool started; /* the transport is open and the chip probed */
    bool dead;
    presil_link link;
    presil_transport_ops transport_ops; /* link.ops: the transport's table, NULL where it ends or has nothing */
    presil_transport_info transport;
    char timing[PRESIL_TRANSPORT_TIMING]; /* what it says that cycles depend on; "": nothing */

    device_memory memory;
    residency residency;
    device_scratch scratch;
    io_mappings io;
    device_layouts layouts;
    work_queue queue;
    device_flights flights;
    run_state run;
    twin_state twin;
    chip_writes log;
    capture_state capture;
    report_state reports;
};

#endif
