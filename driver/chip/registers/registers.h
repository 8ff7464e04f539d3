/* SPDX-License-Identifier: Apache-2.0 */
/* registers.h - a plan on a chip: ring, doorbell, interrupt, counters, what it waits for. */
#ifndef PRESIL_CHIP_REGISTERS_H
#define PRESIL_CHIP_REGISTERS_H

#include "plan.h"

int chip_reset(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
               presil_error_buffer *error);
int chip_set_window(presil_chip *chip, const presil_link *link, uint32_t window, presil_daddr base, uint64_t bytes,
                    uint32_t access, presil_error_buffer *error);
int chip_lock_windows(presil_chip *chip, const presil_link *link, presil_error_buffer *error);
/* For chip_probe(): whether it has those that were set before it was brought up, or can be given them. */
int chip_probe_windows(const presil_chip *chip, const presil_link *link, presil_error_buffer *error);
int chip_submit(presil_chip *chip, const presil_link *link, const presil_command_memory *memory,
                const presil_plan *plan, uint32_t segment, presil_error_buffer *error);
int chip_service(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_service *out);
int chip_why(presil_chip *chip, const presil_link *link, const presil_plan *plan, char *text, size_t bytes);
int chip_waits(presil_chip *chip, const presil_link *link, const presil_plan *plan, presil_waiting *rows, uint32_t most,
               uint32_t *count, int *verdict);
size_t chip_completion(const presil_chip *chip, presil_register_access *out);
int chip_counters(presil_chip *chip, const presil_link *link, presil_report *out);
int chip_progress(presil_chip *chip, const presil_link *link, uint64_t *work);
/* launch_record.c */
bool chip_records_wanted(void);
int chip_names(const presil_chip *chip, presil_names *out);

#endif
