// SPDX-License-Identifier: Apache-2.0
#include "ops/ask_first.h"

#include <ATen/MemoryOverlap.h>

namespace presil {

bool on_device(const c10::IValue& v, uint32_t kind) {
  return v.isTensor() && v.toTensor().defined() && v.toTensor().device().type() == kDevice &&
         chip_has(v.toTensor().device().index(), kind);
}

bool can_hold(const at::Tensor& out, c10::IntArrayRef shape, c10::ScalarType type, const at::Tensor& x,
              const at::Tensor& y, std::string* reason) {
  const auto over = [&](const at::Tensor& t) {
    return t.defined() && out.storage().is_alias_of(t.storage()) &&
           at::get_overlap_status(out, t) != at::MemOverlapStatus::No;
  };
  if (out.device() == x.device() && out.scalar_type() == type && out.sizes() == shape && !over(x) && !over(y) &&
      at::has_internal_overlap(out) != at::MemOverlap::Yes)
    return true;
  *reason = "a result of another shape, dtype or device, or over an operand";
  return false;
}

bool is_float(const at::Tensor& x, std::string* reason) {
  if (at::isFloatingType(x.scalar_type())) return true;
  *reason = "of integers, whose result is a float";
  return false;
}

}  // namespace presil
