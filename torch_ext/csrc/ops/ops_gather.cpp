// SPDX-License-Identifier: Apache-2.0
// Elements that an index names (gather, index_select, and so embedding), for chips that have it. The host looks at the
// index before: what PyTorch raises for a number out of range, no chip can, which would read anywhere.
#include "ops/ask_first.h"

#include <ATen/WrapDimUtils.h>
#include <ATen/ops/aminmax.h>

namespace presil {
namespace {

using at::Tensor;

bool is_index(const Tensor& index, int64_t most, const char* name, std::string* reason) {
  const int where = index.device().type() == kDevice ? index.device().index() : -1;
  if (where < 0 || (index.scalar_type() != c10::kLong && index.scalar_type() != c10::kInt) || index.numel() == 0) {
    *reason = "an index that is empty, elsewhere, or of another dtype";
    return false;
  }
  if (capturing(where, name)) {
    *reason = "the host looks at the index in every replay";
    return false;
  }
  HostViews views;
  views.settle(where);
  const auto [low, high] = at::aminmax(views.to_host(index));
  return low.item<int64_t>() >= 0 && high.item<int64_t>() < most;  // else PyTorch raises
}

bool gather_into(const char* label, const Tensor& x, int64_t dim, const Tensor& index, const Tensor& out,
                 Results& results, std::string* reason) {
  if (!is_index(index, x.size(dim), label, reason)) return false;
  Question question(PRESIL_OP_GATHER, label);
  question.input("input", x);
  question.input("index", index);
  question.integers("dim", dim, 0);
  if (!question.enqueue(out, reason)) return false;
  results.emplace_back(out);
  return true;
}

// (self, dim, index[, out])
template <bool Out> bool index_select(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_GATHER)) return false;
  const Tensor &x = a[0].toTensor(), &index = a[2].toTensor();
  int64_t dim = a[1].toInt();
  if (x.dim() == 0 || index.dim() > 1 || dim < -x.dim() || dim >= x.dim()) return false;
  if (dim < 0) dim += x.dim();
  auto shape = x.sizes().vec();
  shape[dim] = index.numel();
  if (Out && !can_hold(a[3].toTensor(), shape, x.scalar_type(), x, index, reason)) return false;
  const Tensor out = Out ? a[3].toTensor() : at::empty(shape, x.options(), c10::MemoryFormat::Contiguous);
  return gather_into("index_select", x, dim, index.reshape({-1}), out, results, reason);
}

// (self, dim, index, sparse_grad, out)
bool gather_out(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_GATHER)) return false;
  const Tensor &x = a[0].toTensor(), &index = a[2].toTensor(), &out = a[4].toTensor();
  int64_t dim = a[1].toInt();
  if (x.dim() == 0 || index.dim() != x.dim() || dim < -x.dim() || dim >= x.dim()) return false;
  if (dim < 0) dim += x.dim();
  for (int64_t i = 0; i < x.dim(); i++)
    if (i != dim && index.size(i) > x.size(i)) return false;
  return can_hold(out, index.sizes(), x.scalar_type(), x, index, reason) &&
         gather_into("gather", x, dim, index, out, results, reason);
}

const bool gathers_set = [] {
  set_chip_kernel("aten::index_select", index_select<false>);
  set_chip_kernel("aten::index_select.out", index_select<true>);
  set_chip_kernel("aten::gather.out", gather_out);
  return true;
}();

}  // namespace
}  // namespace presil
