// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "ops/weights.h"

namespace presil {

// Packed to [place, place + bytes), which the caller keeps; not in the cache.
std::shared_ptr<presil_weights> packed_weights_at(const WeightRequest& request, presil_daddr place, uint64_t bytes);

}  // namespace presil
