/* SPDX-License-Identifier: Apache-2.0 */
/* launch.h - one launch in any mode, from the queue to its report. */
#ifndef PRESIL_CORE_LAUNCH_H
#define PRESIL_CORE_LAUNCH_H

#include "queue.h"

int presil_launch(presil_device *device, const work_item *item); /* runner */

#endif
