/* SPDX-License-Identifier: Apache-2.0 */
/* Bringing a chip up: transport, identification, reset; and again after a failed launch. */
#include "start.h"
#include "bytes.h"
#include "callbacks.h"
#include "choose_transport.h"
#include "conversions.h"
#include "device.h"
#include "device_memory.h"
#include "fail.h"
#include "io_map.h"
#include "library.h"
#include "queue.h"
#include "residency.h"
#include "running.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPTIONS = 4096 };

/* What a library in this process is told: PRESIL_COVERAGE=PATH has simulators that record coverage write it there, and
 * PRESIL_COVERAGE_LAUNCHES=1 which launch reached what (docs/coverage.md). NULL: nothing. */
static const char *library_options(char *text, size_t bytes, int *status) {
    const char *path = getenv("PRESIL_COVERAGE"), *launches = getenv("PRESIL_COVERAGE_LAUNCHES");
    if (!path || !*path) return NULL;
    const int each = launches && strcmp(launches, "1") == 0;
    const int n = snprintf(text, bytes, "%scoverage=%s", each ? "coverage_launches=1," : "", path);
    if (n < 0 || (size_t)n >= bytes)
        *status = presil_fail(PRESIL_EINVAL, "PRESIL_COVERAGE=%s: a path of at most %d letters is needed", path,
                              MOST_OPTIONS - 64);
    return text;
}

static int open_transport(presil_device *device) {
    char own[MOST_OPTIONS];
    int status = presil_library_transport(device, &device->transport_ops);
    const char *given = presil_transport_is_remote(device) ? strchr(device->transport_spec, ':') + 1
                                                           : library_options(own, sizeof own, &status);
    if (status) return status;
    device->link.size = sizeof device->link;
    device->link.ops = &device->transport_ops;
    const presil_transport_options options = {
        .size = sizeof options,
        .abi = PRESIL_TRANSPORT_ABI,
        .memory_fd = device->memory.fd,
        .memory_bytes = device->memory.bytes,
        .memory_base = device->memory.base,
        .memory_model = device->memory_model,
        .seed = device->seed,
        .log = presil_log_transport,
        .options = given,
    };
    char text[ERROR_TEXT] = "";
    presil_transport *handle = NULL;
    const int error = device->link.ops->open(&options, &handle, text, sizeof text);
    if (error && presil_transport_is_remote(device))
        return presil_fail(error == PRESIL_TRANSPORT_EINVAL ? PRESIL_EINVAL : PRESIL_ENODEV, "%s", text);
    if (error)
        return presil_fail(error == PRESIL_TRANSPORT_EINVAL ? PRESIL_EINVAL : PRESIL_ENODEV,
                           "the simulator of %s does not open: %s",
                           *device->config ? device->config : device->library_path, text);
    device->link.handle = handle;
    device->transport = (presil_transport_info){.size = sizeof device->transport};
    const int failed = device->link.ops->info(handle, &device->transport);
    if (failed) status = presil_transport_failed(&device->link, "asking the simulator what it is", failed);
    if (!status && device->transport.abi != PRESIL_TRANSPORT_ABI)
        status = presil_fail(PRESIL_ENODEV, "the simulator says ABI %u, %u expected: rebuild it", device->transport.abi,
                             PRESIL_TRANSPORT_ABI);
    const char *missing = presil_transport_missing(device->link.ops, device->transport.capabilities);
    if (!status && missing)
        status = presil_fail(PRESIL_ENODEV,
                             "the transport has no %s(), which its capabilities 0x%x promise (presil_transport.h)",
                             missing, device->transport.capabilities);
    return status;
}

/* Finds the region with our memory; sets maps. */
static int check_memory(presil_device *device) {
    presil_region region;
    if (device->memory.of_transport) return PRESIL_OK;
    if (device->transport.capabilities & PRESIL_CAP_OWN_MEMORY)
        return presil_fail(PRESIL_ENODEV, "the transport brings the memory: open the device in mode RTL, and name the "
                                          "transport or its library, so that its memory is known from the start");
    for (uint32_t i = 0; device->link.ops->region(device->link.handle, i, &region) == 0; i++) {
        const uint64_t offset = device->memory.base.value - region.base.value;
        if (device->memory.base.value < region.base.value || offset > region.bytes ||
            device->memory.bytes > region.bytes - offset)
            continue;
        device->memory.maps =
            !device->memory.no_map && (device->transport.capabilities & PRESIL_CAP_MAPS) && region.host;
        if (!device->memory.maps && !device->link.ops->mem_read)
            return presil_fail(PRESIL_ENODEV,
                               "the transport has neither mapped memory%s nor mem_read() and mem_write()",
                               device->memory.no_map ? " that may be used (no_map)" : "");
        return PRESIL_OK;
    }
    return presil_fail(PRESIL_ENODEV,
                       "no memory region of the transport has the %llu bytes at 0x%llx: set PRESIL_MEMORY lower",
                       (unsigned long long)device->memory.bytes, (unsigned long long)device->memory.base.value);
}

static int use_chip(presil_device *device, const presil_chip_ops *table, const char *config) {
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    presil_chip *chip = NULL;
    const int status = table->create(config, &chip, &error);
    if (status) return presil_fail(status, "%s", text);
    if (device->chip) device->chip_ops->destroy(device->chip);
    device->chip_table = *table;
    device->chip_ops = &device->chip_table;
    device->chip = chip;
    return PRESIL_OK;
}

static int reset_chip(presil_device *device) {
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    const int unreached =
        presil_io_map(device, device->memory.command.base, device->memory.command.bytes + STAGING_BYTES);
    if (unreached) return unreached;
    device->memory.command.host = device->memory.maps ? presil_memory_at(device, device->memory.command.base) : NULL;
    const int status = device->chip_ops->reset(device->chip, &device->link, &device->memory.command, &error);
    return status ? presil_fail(status, "the chip does not reset: %s", text) : PRESIL_OK;
}

static int probe_chip(presil_device *device) {
    char text[ERROR_TEXT] = "";
    presil_error_buffer error = {text, sizeof text};
    const int status = device->chip_ops->probe(device->chip, &device->link, &error);
    return status ? presil_fail(status, "%s", text) : reset_chip(device);
}

static void close_transport(presil_device *device) {
    if (device->link.handle) device->link.ops->close(device->link.handle);
    device->link.handle = NULL;
    device->memory.maps = false;
    presil_io_forget(device);
}

static int check_limits(presil_device *device) {
    device->limits = (presil_chip_limits){.size = sizeof device->limits};
    const int status = device->chip_ops->limits(device->chip, &device->limits);
    if (status) return presil_fail(status, "the chip \"%s\" gives no limits", device->chip_ops->name);
    if (!device->chip_ops->execute) device->limits.has_executor = 0;
    return PRESIL_OK;
}

/* Memory of our own moves to where the chip's addresses reach: nobody but the transport knows yet where it lies. */
static int fit_memory(presil_device *device) {
    const uint64_t end = device->memory.base.value + device->memory.bytes;
    const uint32_t bits = device->limits.address_bits;
    if (bits >= 64 || end <= 1ull << bits) return PRESIL_OK;
    if (device->memory.of_transport)
        return presil_fail(PRESIL_EINVAL,
                           "the chip has %u address bits: the transport's memory, %llu bytes at 0x%llx, is out of its "
                           "reach; have the transport show it lower",
                           bits, (unsigned long long)device->memory.bytes,
                           (unsigned long long)device->memory.base.value);
    close_transport(device); /* if it was asked who it is; presil_start() opens it again */
    return presil_memory_open_lower(device);
}

/* A server says what it has; what was asked for must be that. So does a library that was named: it need not be of the
 * build that is looked for otherwise. */
static int take_names(presil_device *device) {
    const presil_transport_info *there = &device->transport;
    if (device->library_path && !device->build_given && *there->build)
        (void)snprintf(device->build, sizeof device->build, "%s", there->build);
    if (!presil_transport_is_remote(device)) return PRESIL_OK;
    const bool other_config = device->config_given && *there->config && strcmp(there->config, device->config) != 0,
               other_build = device->build_given && strcmp(there->build, device->build) != 0;
    if (other_config || other_build)
        return presil_fail(PRESIL_EINVAL,
                           "%s has configuration \"%s\", build \"%s\"; \"%s\", \"%s\" was asked for: ask for what it "
                           "has, or start another server",
                           device->transport_spec, there->config, there->build,
                           device->config_given ? device->config : "any", device->build_given ? device->build : "any");
    if (*there->config) (void)snprintf(device->config, sizeof device->config, "%s", there->config);
    (void)snprintf(device->build, sizeof device->build, "%s", there->build);
    return PRESIL_OK;
}

static int use_library(presil_device *device, const char *name) {
    presil_chip_ops table;
    const int status = presil_library_chip(device, name, &table);
    return status ? status : use_chip(device, &table, device->config);
}

/* Nobody named a configuration, and the chip took its own choice: which that is. */
static int take_default(presil_device *device) {
    if (*device->config) return PRESIL_OK;
    presil_device_info info = {.size = sizeof info};
    const int status = device->chip_ops->info(device->chip, &info);
    if (status) return presil_fail(status, "the chip \"%s\" gives no information", device->chip_ops->name);
    if (!*info.config)
        return presil_fail(PRESIL_ENODEV, "the chip \"%s\" does not say which configuration its default is: name one",
                           device->chip_ops->name);
    (void)snprintf(device->config, sizeof device->config, "%s", info.config);
    return PRESIL_OK;
}

/* Of a configuration alone, "" for a chip's default: the chip whose library was given; or the one that has it, of all
 * whose libraries are there. */
static int choose_by_config(presil_device *device) {
    if (device->chip_path) {
        const int status = use_library(device, NULL);
        return status ? status : take_default(device);
    }
    char names[MOST_CHIPS][CHIP_NAME_BYTES], refused[ERROR_TEXT / 2] = "", why[ERROR_TEXT];
    const uint32_t count = presil_library_chips(device, names);
    char wanted[64] = "a default configuration";
    const char *found = NULL;
    if (*device->config) (void)snprintf(wanted, sizeof wanted, "a configuration \"%s\"", device->config);
    for (uint32_t i = 0; i < count; i++) {
        const size_t used = strlen(refused);
        if (use_library(device, names[i])) {
            (void)snprintf(why, sizeof why, "; %s: %.300s", names[i], presil_error_text());
            if (used + strlen(why) < sizeof refused) strcpy(refused + used, why);
        } else if (!found) {
            found = names[i];
        } else {
            return presil_fail(PRESIL_EINVAL,
                               "the chips \"%s\" and \"%s\" both have %s: say which by the path of its library "
                               "(PRESIL_CHIP_LIBRARY)",
                               found, names[i], wanted);
        }
    }
    if (found) return take_default(device);
    return presil_fail(PRESIL_EINVAL, "no chip has %s%s", wanted,
                       count ? refused : ": no libpresil_chip_*.so is in PRESIL_LIBRARY_PATH or beside libpresil");
}

/* What the simulator library or the server says it is; of one that names no configuration, the chip's default. */
static int choose_by_transport(presil_device *device) {
    presil_chip_ops table;
    int status = open_transport(device);
    if (!status) status = take_names(device);
    if (!status) status = presil_library_chip(device, device->transport.chip, &table);
    const char *config = *device->transport.config ? device->transport.config : device->config;
    if (!status) status = use_chip(device, &table, config);
    if (!status && config != device->config) (void)snprintf(device->config, sizeof device->config, "%s", config);
    if (!status) status = take_default(device);
    return status ? status : presil_memory_adopt(device);
}

int presil_choose_chip(presil_device *device) {
    const bool model = atomic_load(&device->mode) == PRESIL_MODE_MODEL,
               ask = !model && (device->library_path || presil_transport_is_remote(device));
    int status = ask ? PRESIL_EINVAL : choose_by_config(device);
    if (status && !model && (ask || *device->config)) status = choose_by_transport(device);
    presil_names names; /* a chip with too many is refused now, not behind its first launch */
    if (!status) status = check_limits(device);
    if (!status) status = fit_memory(device);
    return status ? status : presil_report_names(device, &names);
}

void presil_ask_timing(presil_device *device) {
    const presil_transport_ops *ops = device->link.ops;
    if (!device->link.handle || !ops->timing ||
        ops->timing(device->link.handle, device->timing, sizeof device->timing) != 0)
        device->timing[0] = 0;
}

int presil_start(presil_device *device) {
    if (atomic_load(&device->started)) return PRESIL_OK;
    int status = device->link.handle ? PRESIL_OK : open_transport(device);
    if (!status && strcmp(device->transport.chip, device->chip_ops->name) != 0)
        status =
            presil_fail(PRESIL_ENODEV, "the simulator library is of the chip \"%s\", the device was opened for \"%s\"",
                        device->transport.chip, device->chip_ops->name);
    if (!status && presil_transport_is_remote(device) && *device->transport.config &&
        strcmp(device->transport.config, device->config) != 0)
        status = presil_fail(PRESIL_ENODEV,
                             "%s has configuration \"%s\", the device was opened as \"%s\": open it with the "
                             "configuration of the server (PRESIL_CHIP)",
                             device->transport_spec, device->transport.config, device->config);
    if (!status) status = check_memory(device);
    if (!status && !device->memory.maps && !device->memory.host_copy) status = presil_memory_upload(device);
    if (!status && !device->memory.maps && device->memory.host_copy && !device->residency.state)
        status = presil_residency_open(device);
    if (!status) status = probe_chip(device);
    if (status) {
        if (!device->memory.of_transport) close_transport(device); /* else pointers into its memory are out */
        return status;
    }
    presil_ask_timing(device);
    atomic_store_explicit(&device->started, true, memory_order_release);
    return PRESIL_OK;
}

int presil_recover(presil_device *device, bool asked) {
    device->dead = false;
    device->link.done_count = 0;
    const int error = device->link.ops->reset(device->link.handle);
    if (error == PRESIL_TRANSPORT_MEMORY_LOST) presil_io_forget(device);
    int status = error < 0                       ? presil_transport_failed(&device->link, "reset", error)
                 : atomic_load(&device->started) ? reset_chip(device)
                                                 : PRESIL_OK; /* presil_start() has yet to look at it */
    if (!status) presil_ask_timing(device);                   /* a new peer may be another build */
    /* With two copies of memory the host has packed bytes too, or they are counted as lost. */
    if (error == PRESIL_TRANSPORT_MEMORY_LOST && (device->memory.maps || !device->memory.host_copy))
        presil_layouts_lost(device);
    const uint64_t lost_bytes = error == PRESIL_TRANSPORT_MEMORY_LOST ? presil_residency_lost(device) : 0;
    if (error == PRESIL_TRANSPORT_MEMORY_LOST && !status &&
        (device->memory.maps || !device->memory.host_copy || lost_bytes)) {
        static const char lost[] =
            "the device's memory is not what it was (a new peer, or a link that was lost): load everything again";
        if (asked)
            presil_warn("%s: %s", device->transport_spec, lost);
        else
            status = presil_fail(PRESIL_EDEAD, "%s: %s", device->transport_spec, lost);
    }
    if (error >= 0 && device->link.ops->cycles) (void)device->link.ops->cycles(device->link.handle, &device->run.clock);
    if (error < 0) device->run.tracing = false;
    if (status) {
        device->dead = true;
        status =
            presil_fail(PRESIL_EDEAD, "%s; the device is unusable until presil_device_reset()", presil_error_text());
    }
    return status;
}

int presil_start_if_needed(presil_device *device) {
    if (atomic_load_explicit(&device->started, memory_order_acquire)) return PRESIL_OK;
    int status = presil_exclusive_begin(device);
    if (status) return status;
    status = presil_start(device);
    presil_exclusive_end(device);
    return status;
}
