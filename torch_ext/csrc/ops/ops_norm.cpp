// SPDX-License-Identifier: Apache-2.0
// Normalisations that a chip is asked for before the host computes them. Ours has none.
#include "ops/ask_first.h"

#include <ATen/ops/group_norm_native.h>
#include <ATen/ops/layer_norm_native.h>
#include <ATen/ops/rms_norm_compositeimplicitautograd_dispatch.h>
#include <torch/library.h>

#include <numeric>

namespace presil {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Ints = c10::IntArrayRef;

bool is_given(const OptionalTensor& t) { return t && t->defined(); }
bool needs(const OptionalTensor& t) { return is_given(t) && has_gradients(*t); }

// ---- over the last dimensions: layer, rms. What gradients need beside the result is also given, or undefined.
struct Over {
  const char *label, *function;
  c10::MemoryFormat format;  // of the result
  Tensor mean = {}, rstd = {};
};

// Undefined: the host has to.
Tensor normalised(const Over& over, const Tensor& x, Ints shape, const OptionalTensor& weight,
                  const OptionalTensor& bias, double eps, std::string* reason) {
  const int64_t dims = static_cast<int64_t>(shape.size());
  Question question(PRESIL_OP_NORM, over.label);
  question.input("input", x);
  if (is_given(weight)) question.input("weight", *weight);
  if (is_given(bias)) question.input("bias", *bias);
  question.text("function", over.function);
  question.real("epsilon", eps);
  if (over.mean.defined()) question.also("mean", over.mean);
  if (over.rstd.defined()) question.also("rstd", over.rstd);
  const auto fits = [&](const OptionalTensor& t) { return !is_given(t) || t->sizes() == shape; };
  const bool told = dims == 1 || (dims > 1 && is_given(weight));
  if (!told || !fits(weight) || !fits(bias) || x.dim() < dims || x.sizes().slice(x.dim() - dims) != shape) {
    *reason = "several dimensions without a weight, or shapes that don't fit";
    return {};
  }
  const Tensor out = at::empty_like(x, x.options(), over.format);
  return question.enqueue(out, reason) ? out : Tensor();
}

Tensor layer_norm(const Tensor& x, c10::SymIntArrayRef shape, const OptionalTensor& weight, const OptionalTensor& bias,
                  double eps, bool cudnn) {
  if (!plainly_on_device(x, PRESIL_OP_NORM) || needs(weight) || needs(bias))
    return at::native::layer_norm_symint(x, shape, weight, bias, eps, cudnn);
  std::string reason;
  const Over over{"layer_norm", "layer", c10::MemoryFormat::Contiguous};
  const Tensor out = normalised(over, x, C10_AS_INTARRAYREF_SLOW(shape), weight, bias, eps, &reason);
  if (out.defined()) return out;
  const HostReason because(reason);
  return at::native::layer_norm_symint(x, shape, weight, bias, eps, cudnn);
}

// (input, normalized_shape, weight, bias, eps) -> output, mean, rstd: of the input's dtype, as the CPU's are where all
// operands have it.
bool layer_norm_with_statistics(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_NORM)) return false;
  const Tensor& x = a[0].toTensor();
  const auto shape = a[1].toDimVector();
  const auto weight = a[2].toOptional<Tensor>(), bias = a[3].toOptional<Tensor>();
  const auto other = [&](const OptionalTensor& t) { return is_given(t) && t->scalar_type() != x.scalar_type(); };
  if (!is_float(x, reason)) return false;
  if (other(weight) || other(bias) || x.dim() < static_cast<int64_t>(shape.size())) {
    *reason = "operands of two dtypes";
    return false;
  }
  auto kept = x.sizes().vec();
  std::fill(kept.end() - static_cast<int64_t>(shape.size()), kept.end(), 1);
  const Tensor mean = at::empty(kept, x.options(), c10::MemoryFormat::Contiguous), rstd = at::empty_like(mean);
  const Over over{"native_layer_norm", "layer", c10::MemoryFormat::Contiguous, mean, rstd};
  const Tensor out = normalised(over, x, shape, weight, bias, a[4].toDouble(), reason);
  if (!out.defined()) return false;
  for (const Tensor& t : {out, mean, rstd}) results.emplace_back(t);
  return true;
}

// PyTorch's composite takes the input's own epsilon where none is given: of float32 it is known.
bool is_plain_rms(const Tensor& x, const OptionalTensor& weight, const std::optional<double>& eps,
                  std::string* reason) {
  if (x.scalar_type() == c10::kFloat || (eps && at::isFloatingType(x.scalar_type()))) {
    if (!is_given(weight) || weight->scalar_type() == x.scalar_type()) return true;
    *reason = "operands of two dtypes";
  } else {
    *reason = "the epsilon of another dtype than float32";
  }
  return false;
}

Tensor rms_norm(const Tensor& x, c10::SymIntArrayRef shape, const OptionalTensor& weight, std::optional<double> eps) {
  if (!plainly_on_device(x, PRESIL_OP_NORM) || needs(weight))
    return at::compositeimplicitautograd::rms_norm_symint(x, shape, weight, eps);
  std::string reason;
  if (is_plain_rms(x, weight, eps, &reason)) {
    const double epsilon = eps.value_or(std::numeric_limits<float>::epsilon());
    const Over over{"rms_norm", "rms", x.suggest_memory_format()};
    const Tensor out = normalised(over, x, C10_AS_INTARRAYREF_SLOW(shape), weight, {}, epsilon, &reason);
    if (out.defined()) return out;
  }
  const HostReason because(reason);
  return at::compositeimplicitautograd::rms_norm_symint(x, shape, weight, eps);
}

// ---- by channel, which the operator has last: batch, group
class ByChannel {
 public:
  ByChannel(const char* label, const char* function, const Tensor& x, double eps)
      : question_(PRESIL_OP_NORM, label), x_(x) {
    order_.resize(x.dim());
    std::iota(order_.begin(), order_.end(), 0);
    std::rotate(order_.begin() + 1, order_.begin() + 2, order_.end());
    question_.input("input", x, order_);
    question_.text("function", function);
    question_.real("epsilon", eps);
  }
  // One number a channel; not given: nothing.
  void input(const char* name, const OptionalTensor& t) {
    if (!is_given(t)) return;
    fits_ = fits_ && t->dim() == 1 && t->size(0) == x_.size(1);
    question_.input(name, *t);
  }
  void groups(int64_t n) { question_.integers("groups", n, 1); }
  // Undefined: the host has to.
  Tensor enqueue(const Tensor& out, std::string* reason) {
    if (!fits_) *reason = "another number of channels";
    return fits_ && question_.enqueue(out, reason, order_) ? out : Tensor();
  }
  static bool takes(const Tensor& x) { return x.dim() >= 2 && x.dim() <= PRESIL_OP_DIMS; }

 private:
  Question question_;
  const Tensor& x_;
  std::vector<int> order_;
  bool fits_ = true;
};

// (input, weight, bias, running_mean, running_var, training, momentum, eps) -> output, and two that evaluation leaves
// empty.
bool batch_norm(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_NORM)) return false;
  const Tensor& x = a[0].toTensor();
  const auto mean = a[3].toOptional<Tensor>(), variance = a[4].toOptional<Tensor>();
  if (a[5].toBool() || !is_given(mean) || !is_given(variance) || !ByChannel::takes(x)) {
    *reason = "over the statistics of its own input";
    return false;
  }
  if (!is_float(x, reason)) return false;
  ByChannel norm("batch_norm", "batch", x, a[7].toDouble());
  norm.input("weight", a[1].toOptional<Tensor>());
  norm.input("bias", a[2].toOptional<Tensor>());
  norm.input("mean", mean);
  norm.input("variance", variance);
  const Tensor out = norm.enqueue(at::empty(x.sizes(), x.options(), x.suggest_memory_format()), reason);
  if (!out.defined()) return false;
  for (const Tensor& t : {out, at::empty({0}, mean->options()), at::empty({0}, mean->options())})
    results.emplace_back(t);
  return true;
}

Tensor group_norm(const Tensor& x, int64_t groups, const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                  bool cudnn) {
  if (!plainly_on_device(x, PRESIL_OP_NORM) || needs(weight) || needs(bias) || !ByChannel::takes(x) || groups < 1 ||
      x.size(1) % groups || !at::isFloatingType(x.scalar_type()))
    return at::native::group_norm(x, groups, weight, bias, eps, cudnn);
  std::string reason;
  ByChannel norm("group_norm", "group", x, eps);
  norm.input("weight", weight);
  norm.input("bias", bias);
  norm.groups(groups);
  const Tensor out = norm.enqueue(at::empty(x.sizes(), x.options(), x.suggest_memory_format()), &reason);
  if (out.defined()) return out;
  const HostReason because(reason);
  return at::native::group_norm(x, groups, weight, bias, eps, cudnn);
}

const bool norms_set = [] {
  set_chip_kernel("aten::native_layer_norm", layer_norm_with_statistics);
  set_chip_kernel("aten::native_batch_norm", batch_norm);
  set_chip_kernel("aten::_native_batch_norm_legit", batch_norm);
  return true;
}();

void implement(torch::Library& m) {
  m.impl("layer_norm", layer_norm);
  m.impl("rms_norm", rms_norm);
  m.impl("group_norm", group_norm);
}
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { implement(m); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { implement(m); }

}  // namespace
}  // namespace presil
