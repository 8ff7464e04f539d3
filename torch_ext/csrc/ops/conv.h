// SPDX-License-Identifier: Apache-2.0
// What forward and backward of convolutions share.
#pragma once
#include "ops/chip_ops.h"

namespace presil {

int device_index_of(std::initializer_list<const at::Tensor*> tensors);  // of the first on this device, else the current one

}  // namespace presil
