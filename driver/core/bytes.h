/* SPDX-License-Identifier: Apache-2.0 */
/* bytes.h - bytes of device memory, whichever side has them. */
#ifndef PRESIL_CORE_BYTES_H
#define PRESIL_CORE_BYTES_H

#include "presil.h"

/* Runner. */
int presil_memory_read(presil_device *device, presil_daddr from, void *to, uint64_t bytes);
int presil_memory_write(presil_device *device, presil_daddr to, const void *from, uint64_t bytes);
int presil_memory_upload(presil_device *device); /* what our file holds goes to a transport that does not map */

#endif
