/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_twin_chip.h - the twin behind the chip's registers (docs/registers.md): what a driver sees of the chip,
 * without a clock. A doorbell leaves a launch pending; run() executes it. Counters of cycles, stalls and beats read 0:
 * there is no clock to count. Not thread-safe.
 */
#ifndef PRESIL_TWIN_CHIP_H
#define PRESIL_TWIN_CHIP_H
#include "presil_twin.h"
#ifdef __cplusplus
extern "C" {
#endif

typedef struct presil_twin_chip presil_twin_chip;

presil_twin_chip *presil_twin_chip_create(const char *config); /* NULL: no such configuration, or out of memory */
void presil_twin_chip_destroy(presil_twin_chip *chip);         /* NULL is allowed */
const presil_config *presil_twin_chip_config(const presil_twin_chip *chip);
void presil_twin_chip_threads(presil_twin_chip *chip, unsigned threads); /* as presil_twin_threads */
void presil_twin_chip_reset(presil_twin_chip *chip);                     /* as the reset pin */

/* offset: a multiple of 4 below 4096. Where there is no register: reads give 0, writes do nothing. */
uint32_t presil_twin_chip_read(const presil_twin_chip *chip, uint32_t offset);
void presil_twin_chip_write(presil_twin_chip *chip, uint32_t offset, uint32_t value);

int presil_twin_chip_pending(const presil_twin_chip *chip); /* 1 from the doorbell to run() */
int presil_twin_chip_irq(const presil_twin_chip *chip);     /* the level of the interrupt */

/* Executes what is pending; the interrupt rises if it is enabled. Errors of the launch are in the registers afterwards,
 * as on the chip. on_write may be NULL. */
void presil_twin_chip_run(presil_twin_chip *chip, const presil_twin_memory *memory, presil_twin_write_fn on_write,
                          void *context);

/* About how many cycles the chip would take for what is pending: the larger of what its bus and its array need. For
 * loosely timed platforms; the RTL has the truth. */
uint64_t presil_twin_chip_estimate(presil_twin_chip *chip, const presil_twin_memory *memory);

#ifdef __cplusplus
}
#endif
#endif
