// SPDX-License-Identifier: Apache-2.0
// Reductions that a chip may have, and that are the host's where it says no. PyTorch turns most into their out= form
// before a device sees them.
#include "ops/ask_first.h"

#include <ATen/WrapDimUtils.h>

#include <algorithm>

namespace presil {
namespace {

using at::Tensor;

// Sorted, from 0; all where none is named. Empty optional: PyTorch raises.
std::optional<std::vector<int64_t>> reduced_dims(const c10::IValue& given, int64_t ndim) {
  std::vector<int64_t> dims;
  if (given.isInt()) dims = {given.toInt()};
  if (given.isIntList()) dims = given.toIntVector();
  if (dims.empty()) {
    for (int64_t i = 0; i < ndim; i++) dims.push_back(i);
    return dims;
  }
  for (int64_t& dim : dims) {
    if (dim < -ndim || dim >= ndim) return std::nullopt;
    if (dim < 0) dim += ndim;
  }
  std::sort(dims.begin(), dims.end());
  if (std::adjacent_find(dims.begin(), dims.end()) != dims.end()) return std::nullopt;
  return dims;
}

// Results are rounded once, at the end, so only where PyTorch doesn't convert operands to less before it adds.
bool holds_sums(c10::ScalarType from, c10::ScalarType to) {
  const bool float_from = at::isFloatingType(from);
  return from == to || (float_from && to == c10::kFloat && from != c10::kDouble) ||
         (!float_from && to == c10::kLong && c10::isIntegralType(from, /*includeBool=*/false));
}

struct Reduction {
  const char *label, *function;
  bool widens;  // sums and products
};

bool reduce_into(const Reduction& what, const Tensor& x, const std::vector<int64_t>& dims, bool keeps,
                 const Tensor& given, Results& results, std::string* reason) {
  const c10::ScalarType from = x.scalar_type(), to = given.scalar_type();
  if (!(what.widens ? holds_sums(from, to) : from == to)) {
    *reason = "a result of another dtype";
    return false;
  }
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < x.dim(); i++) {
    const bool within = std::binary_search(dims.begin(), dims.end(), i);
    if (!within || keeps) kept.push_back(within ? 1 : x.size(i));
  }
  if (!can_hold(given, kept, to, x, {}, reason)) return false;
  Tensor out = given;
  for (size_t i = 0; i < dims.size() && !keeps; i++) out = out.unsqueeze(dims[i]);
  Question question(PRESIL_OP_REDUCTION, what.label);
  question.input("input", x);
  question.text("function", what.function);
  question.integers("dims", dims);
  if (!question.enqueue(out, reason)) return false;
  results.emplace_back(given);
  return true;
}

constexpr Reduction kSum{"sum", "sum", true}, kMean{"mean", "mean", true}, kProd{"prod", "prod", true},
    kAmax{"amax", "amax", false}, kAmin{"amin", "amin", false}, kMax{"max", "amax", false}, kMin{"min", "amin", false};

bool can_reduce(const Tensor& x, std::string* reason) {
  if (x.dim() == 0) *reason = "a number";
  return x.dim() != 0;
}

// (self, dims, keepdim[, dtype], out)
template <const Reduction& What, bool Typed>
bool reduce_dims(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_REDUCTION)) return false;
  const Tensor &x = a[0].toTensor(), &out = a[3 + Typed].toTensor();
  const bool mean = &What == &kMean, other = Typed && !a[3].isNone() && a[3].toScalarType() != out.scalar_type();
  const auto dims = reduced_dims(a[1], x.dim());
  if (other || !dims) return false;
  return can_reduce(x, reason) && (!mean || is_float(x, reason)) &&
         reduce_into(What, x, *dims, a[2].toBool(), out, results, reason);
}

// (self[, dtype]), of all elements.
template <const Reduction& What, bool Typed>
bool reduce_all(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_REDUCTION)) return false;
  const Tensor& x = a[0].toTensor();
  const auto sums = What.widens && c10::isIntegralType(x.scalar_type(), true) ? c10::kLong : x.scalar_type();
  const auto type = Typed && !a[1].isNone() ? a[1].toScalarType() : sums;
  return can_reduce(x, reason) && reduce_into(What, x, *reduced_dims({}, x.dim()), false,
                                              at::empty({}, x.options().dtype(type)), results, reason);
}

const bool reductions_set = [] {
  set_chip_kernel("aten::sum.IntList_out", reduce_dims<kSum, true>);
  set_chip_kernel("aten::mean.out", reduce_dims<kMean, true>);
  set_chip_kernel("aten::prod.int_out", reduce_dims<kProd, true>);
  set_chip_kernel("aten::amax.out", reduce_dims<kAmax, false>);
  set_chip_kernel("aten::amin.out", reduce_dims<kAmin, false>);
  set_chip_kernel("aten::prod", reduce_all<kProd, true>);
  set_chip_kernel("aten::max", reduce_all<kMax, false>);
  set_chip_kernel("aten::min", reduce_all<kMin, false>);
  return true;
}();

}  // namespace
}  // namespace presil
