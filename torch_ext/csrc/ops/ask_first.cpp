// SPDX-License-Identifier: Apache-2.0
#include "ops/ask_first.h"

#include <ATen/MemoryOverlap.h>

namespace presil {

bool on_device(const c10::IValue& v, uint32_t kind) {
  return v.isTensor() && v.toTensor().defined() && v.toTensor().device().type() == kDevice &&
         chip_has(v.toTensor().device().index(), kind);
}

namespace {
bool is_same_elements(const at::Tensor& a, const at::Tensor& b) {
  return a.storage_offset() == b.storage_offset() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.scalar_type() == b.scalar_type() && a.is_neg() == b.is_neg() && a.is_conj() == b.is_conj();
}
}  // namespace

bool can_hold(const at::Tensor& out, c10::IntArrayRef shape, c10::ScalarType type, const at::Tensor& x,
              const at::Tensor& y, std::string* reason, InPlace in_place) {
  bool same = false;
  const auto over = [&](const at::Tensor& t) {
    if (!t.defined() || !out.storage().is_alias_of(t.storage())) return false;
    const bool elements = in_place == InPlace::kAsked && is_same_elements(out, t);
    same = same || elements;
    return !elements && at::get_overlap_status(out, t) != at::MemOverlapStatus::No;
  };
  const bool fits = out.device() == x.device() && out.scalar_type() == type && out.sizes() == shape && !over(x) &&
                    !over(y) && at::has_internal_overlap(out) != at::MemOverlap::Yes;
  if (fits && same && !presil_works_in_place(device(out.device().index()))) {
    *reason = "in place, which the chip doesn't say that it can";
    return false;
  }
  if (fits) return true;
  *reason = "a result of another shape, dtype or device, or over an operand";
  return false;
}

bool has_gradients(const at::Tensor& t) {
  return (at::GradMode::is_enabled() && t.requires_grad()) || t._fw_grad(/*level=*/0).defined();
}

bool plainly_on_device(const at::Tensor& x, uint32_t kind) {
  return x.device().type() == kDevice && !x.key_set().has(c10::DispatchKey::Python) && x.has_storage() &&
         !c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python) && chip_has(x.device().index(), kind) &&
         !has_gradients(x);
}

bool is_float(const at::Tensor& x, std::string* reason) {
  if (at::isFloatingType(x.scalar_type())) return true;
  *reason = "of integers, whose result is a float";
  return false;
}

}  // namespace presil
