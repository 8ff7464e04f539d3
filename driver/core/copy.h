/* SPDX-License-Identifier: Apache-2.0 */
/* copy.h - what every copy begins with. */
#ifndef PRESIL_CORE_COPY_H
#define PRESIL_CORE_COPY_H

#include "presil.h"

/* Checks stream, mode and path of a copy, and that it is not recorded; stream NULL becomes the default one. */
int presil_copy_begin(presil_device *device, presil_stream **stream, presil_copy_path path);
int presil_copy_check_range(const presil_device *device, presil_daddr address, uint64_t bytes);

#endif
