// SPDX-License-Identifier: Apache-2.0
// presil::conv2d and presil::linear, as the dispatcher calls them.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>

namespace presil {

using Conv2dFunction = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                  c10::IntArrayRef, c10::IntArrayRef, c10::IntArrayRef, int64_t,
                                  const std::optional<at::Tensor>&, c10::string_view, std::optional<c10::ScalarType>,
                                  c10::string_view);
using LinearFunction = at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&,
                                  const std::optional<at::Tensor>&, c10::string_view, std::optional<c10::ScalarType>,
                                  c10::string_view);

inline const c10::TypedOperatorHandle<Conv2dFunction>& conv2d_operator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("presil::conv2d", "").typed<Conv2dFunction>();
  return op;
}
inline const c10::TypedOperatorHandle<LinearFunction>& linear_operator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("presil::linear", "").typed<LinearFunction>();
  return op;
}

}  // namespace presil
