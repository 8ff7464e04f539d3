/* SPDX-License-Identifier: Apache-2.0 */
/* library.h - libraries of simulators and chips: found, loaded, checked. */
#ifndef PRESIL_CORE_LIBRARY_H
#define PRESIL_CORE_LIBRARY_H

#include "presil_chip.h"

int presil_library_transport(const presil_device *device, presil_transport_ops *out); /* checked, a copy */
/* name: of the chip, if its library isn't given; checked, a copy */
int presil_library_chip(const presil_device *device, const char *name, presil_chip_ops *out);
/* Names of the chips whose libraries lie where they are looked for: sorted, each once. Returns how many. */
enum { MOST_CHIPS = 32, CHIP_NAME_BYTES = 32 };
uint32_t presil_library_chips(const presil_device *device, char names[MOST_CHIPS][CHIP_NAME_BYTES]);

#endif
