// SPDX-License-Identifier: Apache-2.0
// Whether a device's chip has float16 of its own.
#pragma once

namespace presil {

// It takes float16 as it lies in memory: products, convolutions, their gradients, packed weights. Starts the device,
// unless its mode is MODEL: a chip is known by its tables alone before, and one of its kind may be without float16.
bool has_float16(int index);

}  // namespace presil
