/* SPDX-License-Identifier: Apache-2.0 */
/* library.h - libraries of simulators and chips: found, loaded, checked. */
#ifndef PRESIL_CORE_LIBRARY_H
#define PRESIL_CORE_LIBRARY_H

#include "presil_chip.h"

int presil_library_transport(const presil_device *device, presil_transport_ops *out); /* checked, a copy */
/* name: of the chip, if its library isn't given; checked, a copy */
int presil_library_chip(const presil_device *device, const char *name, presil_chip_ops *out);

#endif
