// SPDX-License-Identifier: Apache-2.0
// What clamps by numbers: one table for fusing in TorchScript (jit/fuse.cpp) and in the compilers of Python
// (compiler/rules/clamp.py), and for the activations of layers.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace presil {

struct Bounds {
  std::optional<double> low, high;
  bool operator==(const Bounds& other) const { return low == other.low && high == other.high; }
};

// An operator of ATen, which there is in place, too. bounds: where its schema has no arguments for them, and then its
// name is that of an activation of presil::conv2d and its like.
struct Clamp {
  const char* name;
  Bounds bounds;
};
inline constexpr Clamp kClamps[] = {
    {"relu", {0.0, std::nullopt}},
    {"relu6", {0.0, 6.0}},
    {"hardtanh", {}},
    {"clamp", {}},
    {"clamp_min", {}},
    {"clamp_max", {}},
};

// The bounds of the operator of this name where it is given none; none: it is not in the table.
std::optional<Bounds> clamp_named(std::string_view name);
// The activation with these bounds; nullptr: there is none.
const char* activation_of(const Bounds& bounds);
// Raises ValueError for what is no activation.
Bounds bounds_of_activation(std::string_view activation);
// hardtanh, whose gradient at a bound is that of ReLU and ReLU6.
at::Tensor activated(const at::Tensor& y, const Bounds& bounds);

}  // namespace presil
