// SPDX-License-Identifier: Apache-2.0
// What operators that fall back have in common where a chip is asked first (Question).
#pragma once
#include "host/fallback.h"
#include "ops/question.h"

#include <ATen/core/ivalue.h>

namespace presil {

using Results = torch::jit::Stack;  // of a ChipKernel

// A tensor of a device whose chip has operators of this kind.
bool on_device(const c10::IValue& v, uint32_t kind);

// A result that is given, for the chip to write: of another shape, dtype or device, or over an operand, it is the
// host's, which resizes it or raises as PyTorch does. y may be undefined.
bool can_hold(const at::Tensor& out, c10::IntArrayRef shape, c10::ScalarType type, const at::Tensor& x,
              const at::Tensor& y, std::string* reason);

bool is_float(const at::Tensor& x, std::string* reason);

}  // namespace presil
