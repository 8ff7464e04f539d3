/* SPDX-License-Identifier: Apache-2.0 */
/*
 * presil_debug.h - parts of a launch as launches of their own, to find the command that goes wrong (presil-replay
 * --bisect, docs/replay.md), and launches that a chip refused. A list is one of a single launch (presil_list_launches).
 * EUNSUPPORTED: its chip does not offer this (presil_chip.h). The rules of presil.h hold.
 */
#ifndef PRESIL_DEBUG_H
#define PRESIL_DEBUG_H

#include "presil.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How many commands the launch has, in the order in which the chip is given them. */
PRESIL_CHECKED int presil_list_commands(const presil_list *list, uint64_t *count);
/* What the chip calls the n-th, from 0: "LOAD, tile 3". */
PRESIL_CHECKED int presil_list_command_name(const presil_list *list, uint64_t n, char *text, size_t bytes);
/* Bytes of device memory that presil_list_prefix() needs to observe; 4 KiB-aligned memory will do. */
PRESIL_CHECKED int presil_list_observed(const presil_list *list, uint64_t *bytes);
/* The first n commands. observe NULL: they alone, n > 0. Else the launch also carries what the chip's own memories hold
 * behind them to device memory at *observe, where nothing of the launch may lie. Destroyed by presil_list_destroy().
 * EINVAL: these n can't stand alone, since one of them waits for a later one; n is more than there are. */
PRESIL_CHECKED int presil_list_prefix(const presil_list *list, uint64_t n, const presil_daddr *observe,
                                      presil_list **out);
/* The commands whose byte of `keep` (as many as there are) is not 0, without those that make no sense where one is left
 * out: their bytes become 0, also on failure. EINVAL: no command is left. */
PRESIL_CHECKED int presil_list_subset(const presil_list *list, uint8_t *keep, presil_list **out);

/* As presil_list_load, of commands that need not be right: the chip is to refuse them again, or to hang again. They
 * reach no memory outside [base, base + bytes). A chip that does not offer this loads what is right. */
PRESIL_CHECKED int presil_list_load_refused(presil_device *device, const void *from, uint64_t size, presil_daddr base,
                                            uint64_t bytes, presil_list **out);

/* From now on launches have their scratch memory (presil_chip.h: scratch_bytes) here, in place of a block of the
 * driver's: where a launch of a bundle had it, say. It is the caller's. bytes 0: the driver's again. EINVAL: not in
 * device memory. A launch that wants more, or another alignment, is refused. */
PRESIL_CHECKED int presil_device_place_scratch(presil_device *device, presil_daddr place, uint64_t bytes);

/* What the driver writes for a launch, from the chip's reset to the doorbell, in order: command memory, and registers
 * by offset. Both return 0, or a presil_status that ends the telling and is returned. */
typedef struct {
    uint32_t size, reserved0;
    int (*register_write)(void *context, uint32_t offset, uint32_t value);
    int (*memory_write)(void *context, presil_daddr to, const void *from, uint64_t bytes);
    void *context;
} presil_program_sink;

/* Needs no simulator, and touches none: registers that the driver reads on the way are 0. EUNSUPPORTED: a launch of
 * several doorbells, or a chip without an interrupt. */
PRESIL_CHECKED int presil_list_program(const presil_list *list, const presil_program_sink *sink);

#ifdef __cplusplus
}
#endif
#endif
