// SPDX-License-Identifier: Apache-2.0
// Operators of the chip take tensors of one device: a tensor elsewhere is an error of the caller's, never a copy in
// silence (the boxed fallback checks its own: host/fallback.cpp).
#pragma once

#include "runtime/device.h"

#include <ATen/core/Tensor.h>

#include <optional>
#include <type_traits>

namespace presil {

// The first defined tensor's device must be every other's.
class DeviceCheck {
 public:
  explicit DeviceCheck(const char* name) : name_(name) {}

  template <class T> void see(const T& argument) {
    if constexpr (std::is_same_v<T, at::Tensor>) {
      if (argument.defined()) compare(argument.device());
    } else if constexpr (std::is_same_v<T, std::optional<at::Tensor>>) {
      if (argument && argument->defined()) compare(argument->device());
    }
  }

 private:
  void compare(c10::Device device) {
    if (!first_) first_ = device;
    TORCH_CHECK(device == *first_, "Expected all tensors to be on the same device, but found at least two devices, ",
                first_->is_privateuseone() ? *first_ : device, " and ", first_->is_privateuseone() ? device : *first_,
                "! (when calling ", name_, ")");
  }
  const char* name_;
  std::optional<c10::Device> first_;
};

template <const char* Name, auto Kernel> struct OnOneDevice;

template <const char* Name, class Result, class... Arguments, Result (*Kernel)(Arguments...)>
struct OnOneDevice<Name, Kernel> {
  static Result call(Arguments... arguments) {
    DeviceCheck check(Name);
    (check.see<std::remove_cv_t<std::remove_reference_t<Arguments>>>(arguments), ...);
    return Kernel(std::forward<Arguments>(arguments)...);
  }
};

}  // namespace presil

// Registers KERNEL behind the check, in a TORCH_LIBRARY_IMPL block.
#define PRESIL_IMPL_ON_ONE_DEVICE(library, operator_name, kernel)                                                      \
  do {                                                                                                                 \
    static constexpr char kName[] = operator_name;                                                                     \
    library.impl(operator_name, &::presil::OnOneDevice<kName, &kernel>::call);                                         \
  } while (false)
