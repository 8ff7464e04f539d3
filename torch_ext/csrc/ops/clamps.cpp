// SPDX-License-Identifier: Apache-2.0
#include "ops/clamps.h"

#include <ATen/ops/hardtanh.h>

#include <limits>

namespace presil {

std::optional<Bounds> clamp_named(std::string_view name) {
  for (const Clamp& clamp : kClamps)
    if (name == clamp.name) return clamp.bounds;
  return std::nullopt;
}

const char* activation_of(const Bounds& bounds) {
  if (bounds == Bounds()) return "none";
  for (const Clamp& clamp : kClamps)
    if (bounds == clamp.bounds) return clamp.name;
  return nullptr;
}

Bounds bounds_of_activation(std::string_view activation) {
  const Bounds bounds = clamp_named(activation).value_or(Bounds());
  TORCH_CHECK_VALUE(activation == activation_of(bounds), "presil: activation must be 'none', 'relu' or 'relu6', got '",
                    activation, "'");
  return bounds;
}

at::Tensor activated(const at::Tensor& y, const Bounds& bounds) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  return bounds == Bounds() ? y : at::hardtanh(y, bounds.low.value_or(-infinity), bounds.high.value_or(infinity));
}

}  // namespace presil
