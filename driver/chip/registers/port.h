/* SPDX-License-Identifier: Apache-2.0 */
/* port.h - register accesses that stop at the first failure. */
#ifndef PRESIL_CHIP_PORT_H
#define PRESIL_CHIP_PORT_H

#include "registers.h"
#include "regs.h"

typedef struct {
    const presil_link *link;
    int status;
} port;

static inline void put(port *p, uint32_t reg, uint32_t value) {
    if (p->status == 0) p->status = p->link->ops->write32(p->link->handle, reg, value);
}

static inline uint32_t get(port *p, uint32_t reg) {
    uint32_t value = 0;
    if (p->status == 0) p->status = p->link->ops->read32(p->link->handle, reg, &value);
    return value;
}

static inline void get_many(port *p, const uint32_t *regs, size_t count, uint32_t *values) {
    if (p->link->ops->read32_many) {
        if (p->status == 0) p->status = p->link->ops->read32_many(p->link->handle, regs, count, values);
        return;
    }
    for (size_t i = 0; i < count; i++) values[i] = get(p, regs[i]);
}

/* For chip_reset(): DMA windows that were set, which the reset may have forgotten. */
void chip_restore_windows(const presil_chip *chip, port *p);

/* launch_record.c. For chip_reset(). */
int chip_start_records(const presil_chip *chip, port *p, presil_error_buffer *error);
/* For chip_submit(), before the doorbell: that of the launch to come. */
int chip_forget_record(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                       presil_error_buffer *error);
/* That of chip->launch, if it is there: its error; then, of the last that was read: its counters. */
bool chip_read_record(presil_chip *chip, const presil_link *link, uint32_t *code, uint32_t *index, uint64_t *address);
void chip_record_counters(const presil_chip *chip, uint64_t value[COUNTERS]);

static inline int port_status(const port *p, const presil_error_buffer *error) {
    if (p->status == 0) return PRESIL_OK;
    const int status = p->status == PRESIL_TRANSPORT_ESTOPPED ? PRESIL_ESTOPPED : PRESIL_EDEAD;
    return chip_fail(error, status, "register access failed: %s", p->link->ops->last_error(p->link->handle));
}

#endif
