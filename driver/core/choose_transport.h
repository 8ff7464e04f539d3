/* SPDX-License-Identifier: Apache-2.0 */
/* choose_transport.h - which transport a device uses. */
#ifndef PRESIL_CORE_CHOOSE_TRANSPORT_H
#define PRESIL_CORE_CHOOSE_TRANSPORT_H

#include <stdbool.h>
#include "presil_chip.h"

/* Sets transport_spec; list NULL: from the environment. */
int presil_choose_transport(presil_device *device, const char *list, uint32_t index);
bool presil_transport_is_remote(const presil_device *device); /* not a library of this process: it has a name already */
const presil_transport_ops *presil_transport_remote_ops(const presil_device *device); /* NULL: it is not remote */

#endif
