// SPDX-License-Identifier: Apache-2.0
// Optional tensors: PyTorch hands over "none" and an undefined tensor for the same.
#pragma once
#include <ATen/core/Tensor.h>

#include <optional>

namespace presil {

inline std::optional<at::Tensor> given_or_none(const std::optional<at::Tensor>& t) {
  return t && t->defined() ? t : std::nullopt;
}

}  // namespace presil
