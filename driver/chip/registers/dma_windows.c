/* SPDX-License-Identifier: Apache-2.0 */
/* DMA windows (docs/isa.md section 1): set, locked, and said again to a chip that was reset. */
#include "port.h"

enum { PAGE_LOG2 = 12, STRIDE = PRESIL_REG_WINDOW1_FIRST - PRESIL_REG_WINDOW0_FIRST };

static uint32_t first_of(uint32_t window) { return PRESIL_REG_WINDOW0_FIRST + STRIDE * window; }
static uint32_t last_of(uint32_t window) { return PRESIL_REG_WINDOW0_LAST + STRIDE * window; }

static int no_windows(port *p, presil_error_buffer *error) {
    const uint32_t features = get(p, PRESIL_REG_CAP_FEATURES);
    const int status = port_status(p, error);
    if (status != PRESIL_OK || features & PRESIL_CAP_FEATURES_WINDOWS_MASK) return status;
    return chip_fail(error, PRESIL_EUNSUPPORTED, "this chip has no DMA windows (CAP_FEATURES is 0x%x)", features);
}

static int refuse_locked(presil_error_buffer *error) {
    return chip_fail(error, PRESIL_EINVAL,
                     "the DMA windows are locked: they stay as they are until the chip was reset and is opened again");
}

/* Whoever owns the chip may have set some: those are the driver's own from the first time that it is asked for any. */
static int adopt(presil_chip *chip, port *p, presil_error_buffer *error) {
    if (chip->guarded || !p->link) return PRESIL_OK;
    presil_twin_windows found = {0};
    for (uint32_t w = 0; w < PRESIL_TWIN_WINDOWS; w++) {
        found.first[w] = get(p, first_of(w));
        found.last[w] = get(p, last_of(w));
    }
    const int status = port_status(p, error);
    if (status == PRESIL_OK) chip->windows = found;
    return status;
}

/* PRESIL_OK: the chip, where there is one, has windows, and they are not locked. */
static int changeable(const presil_chip *chip, port *p, presil_error_buffer *error) {
    if (chip->locked) return refuse_locked(error);
    if (!p->link) return PRESIL_OK;
    int status = no_windows(p, error);
    if (status != PRESIL_OK) return status;
    const uint32_t lock = get(p, PRESIL_REG_WINDOW_LOCK);
    status = port_status(p, error);
    return status == PRESIL_OK && lock ? refuse_locked(error) : status;
}

int chip_set_window(presil_chip *chip, const presil_link *link, uint32_t window, presil_daddr base, uint64_t bytes,
                    uint32_t access, presil_error_buffer *error) {
    if (window >= PRESIL_TWIN_WINDOWS)
        return chip_fail(error, PRESIL_EINVAL, "window %u: the chip has %d, from 0", window, PRESIL_TWIN_WINDOWS);
    port p = {link, 0};
    int status = changeable(chip, &p, error);
    if (status == PRESIL_OK) status = adopt(chip, &p, error);
    if (status != PRESIL_OK) return status;
    uint32_t first = 0, last = 0;
    if (bytes) {
        first = (uint32_t)(base.value >> PAGE_LOG2);
        last = (uint32_t)((base.value + bytes - 1) >> PAGE_LOG2) | PRESIL_WINDOW0_LAST_ENABLE_MASK;
        if (access & PRESIL_WINDOW_READ) last |= PRESIL_WINDOW0_LAST_READ_MASK;
        if (access & PRESIL_WINDOW_WRITE) last |= PRESIL_WINDOW0_LAST_WRITE_MASK;
    }
    if (link) {
        put(&p, first_of(window), first);
        put(&p, last_of(window), last);
        status = port_status(&p, error);
    }
    if (status != PRESIL_OK) return status;
    chip->windows.first[window] = first;
    chip->windows.last[window] = last;
    chip->guarded = true;
    return PRESIL_OK;
}

int chip_lock_windows(presil_chip *chip, const presil_link *link, presil_error_buffer *error) {
    port p = {link, 0};
    if (link) {
        int status = no_windows(&p, error);
        if (status == PRESIL_OK) status = adopt(chip, &p, error);
        if (status != PRESIL_OK) return status;
        put(&p, PRESIL_REG_WINDOW_LOCK, PRESIL_WINDOW_LOCK_LOCKED_MASK);
        status = port_status(&p, error);
        if (status != PRESIL_OK) return status;
    }
    chip->guarded = chip->locked = true;
    return PRESIL_OK;
}

/* Those of a chip that somebody else has locked: as they are here, or not. */
int chip_probe_windows(const presil_chip *chip, const presil_link *link, presil_error_buffer *error) {
    if (!chip->guarded) return PRESIL_OK;
    port p = {link, 0};
    const int status = no_windows(&p, error);
    if (status != PRESIL_OK || !get(&p, PRESIL_REG_WINDOW_LOCK))
        return status == PRESIL_OK ? port_status(&p, error) : status;
    bool same = true;
    for (uint32_t w = 0; w < PRESIL_TWIN_WINDOWS; w++)
        same = same && get(&p, first_of(w)) == chip->windows.first[w] && get(&p, last_of(w)) == chip->windows.last[w];
    if (p.status == 0 && !same)
        return chip_fail(error, PRESIL_ENODEV,
                         "the chip's DMA windows are locked, and others than were set here: it has to be reset");
    return port_status(&p, error);
}

/* Writes alone: also for whoever only listens (presil_list_program()). Nothing is written where none was set here:
 * whoever owns the chip may have set some, and they stay. */
void chip_restore_windows(const presil_chip *chip, port *p) {
    if (!chip->guarded) return;
    for (uint32_t w = 0; w < PRESIL_TWIN_WINDOWS; w++) {
        put(p, first_of(w), chip->windows.first[w]);
        put(p, last_of(w), chip->windows.last[w]);
    }
    if (chip->locked) put(p, PRESIL_REG_WINDOW_LOCK, PRESIL_WINDOW_LOCK_LOCKED_MASK);
}
