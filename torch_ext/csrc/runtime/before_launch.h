// SPDX-License-Identifier: Apache-2.0
// What is done on the enqueuing thread before each launch, whoever enqueues it: the driver calls it once for every
// operator and every list.
#pragma once
#include <cstdint>

namespace presil {

// Before every launch, on any device, from now on:
// - the twin is given as many threads as torch has by then (at::set_num_threads);
// - the origin's source is asked where the launch comes from, if there is one.
void prepare_launches();

// The number that travels with the launch to its report and its error (presil_set_origin); 0: not known.
using OriginSource = uint64_t (*)() noexcept;
void set_origin_source(OriginSource source) noexcept;

}  // namespace presil
