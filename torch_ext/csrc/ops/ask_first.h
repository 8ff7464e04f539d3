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
// host's, which resizes it or raises as PyTorch does. y may be undefined. In place: over the same elements of an
// operand it is the chip's, if that says that it can.
enum class InPlace { kRefused, kAsked };
bool can_hold(const at::Tensor& out, c10::IntArrayRef shape, c10::ScalarType type, const at::Tensor& x,
              const at::Tensor& y, std::string* reason, InPlace in_place = InPlace::kRefused);

// Gradients are wanted of it, backward or forward.
bool has_gradients(const at::Tensor& t);
// Neither gradients nor a tracer need what a composite operator calls, and the chip has the kind.
bool plainly_on_device(const at::Tensor& x, uint32_t kind);

bool is_float(const at::Tensor& x, std::string* reason);

}  // namespace presil
