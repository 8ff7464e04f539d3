/* SPDX-License-Identifier: Apache-2.0 */
/* References to a device, and whether it is still there. */
#include "life.h"
#include "device.h"
#include "fail.h"

#include <pthread.h>

/* ---- fork: a child has the memory, but neither worker nor simulator */
static atomic_uint fork_generation;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void in_child(void) { (void)atomic_fetch_add(&fork_generation, 1); }
static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, in_child); }

unsigned presil_watch_forks(void) {
    (void)pthread_once(&fork_once, watch_forks);
    return atomic_load(&fork_generation);
}

int presil_enter(const presil_device *device) {
    if (!device) return presil_fail(PRESIL_EINVAL, "the device is NULL");
    if (device->process != atomic_load_explicit(&fork_generation, memory_order_relaxed))
        return presil_fail(PRESIL_ENODEV, "this process was forked after the device was opened: open one of its own "
                                          "(with Python's multiprocessing: start method \"spawn\")");
    if (atomic_load_explicit(&device->closed, memory_order_relaxed))
        return presil_fail(PRESIL_ENODEV, "the device is closed");
    return PRESIL_OK;
}

/* ---- life */
void presil_device_hold(presil_device *device) { (void)atomic_fetch_add(&device->references, 1); }

void presil_device_drop(presil_device *device) {
    if (atomic_fetch_sub(&device->references, 1) != 1) return;
    if (device->process == atomic_load(&fork_generation)) /* else locks may be held by threads that are not here */
        device->destroy(device);
}
