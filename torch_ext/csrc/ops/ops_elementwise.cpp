// SPDX-License-Identifier: Apache-2.0
// Operators of one element, or of two, that a chip is asked for before the host computes them. Ours has none.
#include "ops/ask_first.h"

#include <ATen/ExpandUtils.h>

#include <cmath>

namespace presil {
namespace {

using at::Tensor;
using OptionalScalar = std::optional<at::Scalar>;

// Output and operands of one dtype, the output in the order of the first operand of its shape. PyTorch turns most
// operators, in place or not, into their out= form before a device sees them.
enum class Form { kNew, kOut, kSelf };  // the result is made; given behind `count` arguments; self
template <Form F> Tensor given(const c10::IValue* a, int count) {
  return F == Form::kNew ? Tensor() : a[F == Form::kOut ? count : 0].toTensor();
}

bool finish(Question& question, const Tensor& out, Results& results, std::string* reason) {
  if (!question.enqueue(out, reason)) return false;
  results.emplace_back(out);
  return true;
}

// say(question): attributes beside the function.
template <typename Say>
bool one(const char* name, const char* function, const Tensor& x, const Tensor& given, Results& results,
         std::string* reason, Say&& say) {
  if (given.defined() && !can_hold(given, x.sizes(), x.scalar_type(), x, {}, reason, InPlace::kAsked)) return false;
  Question question(PRESIL_OP_ELEMENTWISE, name);
  question.input("input", x);
  question.text("function", function);
  say(question);
  return finish(question, given.defined() ? given : at::empty_like(x), results, reason);
}

// (self[, out])
template <const char* const& Name, bool Float, Form F>
bool unary(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_ELEMENTWISE)) return false;
  const Tensor& x = a[0].toTensor();
  if (Float && !is_float(x, reason)) return false;
  return one(Name, Name, x, given<F>(a, 1), results, reason, [](Question&) {});
}

// (self, approximate, out)
bool gelu(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_ELEMENTWISE) || !is_float(a[0].toTensor(), reason)) return false;
  const auto& how = a[1].toStringRef();
  if (how != "none" && how != "tanh") return false;  // raises
  return one("gelu", "gelu", a[0].toTensor(), a[2].toTensor(), results, reason, [&](Question& question) {
    if (how == "tanh") question.text("approximate", "tanh");
  });
}

// ---- between bounds
bool bounded(const char* name, const Tensor& x, const OptionalScalar& low, const OptionalScalar& high,
             const Tensor& given, Results& results, std::string* reason) {
  const auto number = [](const OptionalScalar& s) {
    return !s || (!s->isComplex() && !s->isSymbolic() && !std::isnan(s->toDouble()));
  };
  if (!at::isFloatingType(x.scalar_type()) || !number(low) || !number(high) || (!low && !high)) {
    *reason = "of integers, or with bounds that are no numbers";
    return false;
  }
  return one(name, "clamp", x, given, results, reason, [&](Question& question) {
    if (low) question.real("low", low->toDouble());
    if (high) question.real("high", high->toDouble());
  });
}

OptionalScalar bound(const c10::IValue& v) { return v.isNone() ? OptionalScalar() : OptionalScalar(v.toScalar()); }

// (self, low, high[, out])
template <const char* const& Name, Form F> bool clamp(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_ELEMENTWISE)) return false;
  return bounded(Name, a[0].toTensor(), bound(a[1]), bound(a[2]), given<F>(a, 3), results, reason);
}
// (self, bound, out)
template <const char* const& Name, bool Low>
bool clamp_one_side(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_ELEMENTWISE)) return false;
  const auto at = bound(a[1]), none = OptionalScalar();
  return bounded(Name, a[0].toTensor(), Low ? at : none, Low ? none : at, a[2].toTensor(), results, reason);
}

// ---- of two
bool binary(const char* name, const Tensor& x, const Tensor& y, const at::Scalar& alpha, const Tensor& given,
            Results& results, std::string* reason) {
  if (y.device() != x.device() || y.scalar_type() != x.scalar_type() || !alpha.equal(1)) {
    *reason = "operands of two dtypes or devices, or a factor";
    return false;
  }
  const auto shape = at::infer_size(x.sizes(), y.sizes());
  if (given.defined() && !can_hold(given, shape, x.scalar_type(), x, y, reason, InPlace::kAsked)) return false;
  const bool first = x.sizes() == c10::IntArrayRef(shape), second = y.sizes() == c10::IntArrayRef(shape);
  Question question(PRESIL_OP_ELEMENTWISE, name);
  question.input("input", x);
  question.input("other", y);
  question.text("function", name);
  const Tensor out = given.defined() ? given
                     : first         ? at::empty_like(x)
                     : second        ? at::empty_like(y)
                                     : at::empty(shape, x.options());
  return finish(question, out, results, reason);
}

// (self, other, alpha[, out]) or (self, other[, out]).
template <const char* const& Name, bool Alpha, Form F, bool Float = false>
bool binary_of(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_ELEMENTWISE) || !a[1].isTensor()) return false;
  if (Float && !is_float(a[0].toTensor(), reason)) return false;
  return binary(Name, a[0].toTensor(), a[1].toTensor(), Alpha ? a[2].toScalar() : at::Scalar(1), given<F>(a, 2 + Alpha),
                results, reason);
}

#define PRESIL_NAME(name) constexpr const char* k_##name = #name
PRESIL_NAME(relu);
PRESIL_NAME(sigmoid);
PRESIL_NAME(tanh);
PRESIL_NAME(exp);
PRESIL_NAME(neg);
PRESIL_NAME(silu);
PRESIL_NAME(hardsigmoid);
PRESIL_NAME(hardswish);
PRESIL_NAME(hardtanh);
PRESIL_NAME(clamp);
PRESIL_NAME(clamp_min);
PRESIL_NAME(clamp_max);
PRESIL_NAME(add);
PRESIL_NAME(sub);
PRESIL_NAME(mul);
PRESIL_NAME(div);
#undef PRESIL_NAME

const bool elementwise_set = [] {
  set_chip_kernel("aten::relu", unary<k_relu, false, Form::kNew>);
  set_chip_kernel("aten::relu.out", unary<k_relu, false, Form::kOut>);
  set_chip_kernel("aten::relu_", unary<k_relu, false, Form::kSelf>);
  set_chip_kernel("aten::sigmoid.out", unary<k_sigmoid, true, Form::kOut>);
  set_chip_kernel("aten::tanh.out", unary<k_tanh, true, Form::kOut>);
  set_chip_kernel("aten::exp.out", unary<k_exp, true, Form::kOut>);
  set_chip_kernel("aten::neg.out", unary<k_neg, false, Form::kOut>);
  set_chip_kernel("aten::silu.out", unary<k_silu, true, Form::kOut>);
  set_chip_kernel("aten::hardsigmoid.out", unary<k_hardsigmoid, true, Form::kOut>);
  set_chip_kernel("aten::hardswish", unary<k_hardswish, true, Form::kNew>);
  set_chip_kernel("aten::hardswish.out", unary<k_hardswish, true, Form::kOut>);
  set_chip_kernel("aten::hardswish_", unary<k_hardswish, true, Form::kSelf>);
  set_chip_kernel("aten::gelu.out", gelu);
  set_chip_kernel("aten::hardtanh", clamp<k_hardtanh, Form::kNew>);
  set_chip_kernel("aten::hardtanh.out", clamp<k_hardtanh, Form::kOut>);
  set_chip_kernel("aten::hardtanh_", clamp<k_hardtanh, Form::kSelf>);
  set_chip_kernel("aten::clamp.out", clamp<k_clamp, Form::kOut>);
  set_chip_kernel("aten::clamp_min.out", clamp_one_side<k_clamp_min, true>);
  set_chip_kernel("aten::clamp_max.out", clamp_one_side<k_clamp_max, false>);
  set_chip_kernel("aten::add.Tensor", binary_of<k_add, true, Form::kNew>);
  set_chip_kernel("aten::add.out", binary_of<k_add, true, Form::kOut>);
  set_chip_kernel("aten::sub.Tensor", binary_of<k_sub, true, Form::kNew>);
  set_chip_kernel("aten::sub.out", binary_of<k_sub, true, Form::kOut>);
  set_chip_kernel("aten::mul.Tensor", binary_of<k_mul, false, Form::kNew>);
  set_chip_kernel("aten::mul.out", binary_of<k_mul, false, Form::kOut>);
  set_chip_kernel("aten::div.Tensor", binary_of<k_div, false, Form::kNew, true>);
  set_chip_kernel("aten::div.out", binary_of<k_div, false, Form::kOut, true>);
  return true;
}();

}  // namespace
}  // namespace presil
