// SPDX-License-Identifier: Apache-2.0
// The device's random generator owns a CPU generator, so that random operators give the CPU's stream for the same seed.
#pragma once
#include "runtime/device.h"

#include <ATen/core/Generator.h>

namespace presil {

const at::Generator& default_generator(int index);  // index < 0: current device
at::Generator new_generator(int index);
// The CPU generator inside a presil generator.
at::Generator host_generator(const at::Generator& generator);

}  // namespace presil
