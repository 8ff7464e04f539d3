/* SPDX-License-Identifier: Apache-2.0 */
/* weights.h - packed weights. */
#ifndef PRESIL_CORE_WEIGHTS_H
#define PRESIL_CORE_WEIGHTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include "kept_op.h"
#include "presil_chip.h"

struct presil_weights {
    presil_device *device;
    atomic_int references; /* the handle and every queued write */
    atomic_bool unwritten; /* the last write failed: nothing may be computed with what lies there */
    presil_layout *layout;
    presil_daddr packed;
    uint64_t bytes;
    bool placed;              /* in the caller's memory */
    bool only_asked;          /* nothing is packed: PRESIL_ONLY_ASK */
    bool has_bias, has_scale; /* the layout has a place for them */
    presil_weights_desc desc; /* as packed, without pointers */
    kept_weights *kept;       /* what was packed; NULL: no host memory */
};

void presil_weights_drop(presil_weights *weights);

#endif
