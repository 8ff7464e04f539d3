// SPDX-License-Identifier: Apache-2.0
// Operators that a chip may have beside convolutions and products, and that are the host's where it says no: pooling,
// softmax, layer norm, elementwise. Ours has none of them.
#include "ops/ask_first.h"

#include <ATen/ExpandUtils.h>
#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/layer_norm_native.h>
#include <ATen/ops/max_pool2d_native.h>
#include <torch/library.h>

namespace presil {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Ints = c10::IntArrayRef;

constexpr int kPixels[] = {0, 2, 3, 1};  // N, C, H, W as N, H, W, C

// ---- elementwise: output and operands of one dtype, the output in the order of the first operand of its shape
// (self[, out]). PyTorch turns most into their out= form before a device sees them.
template <const char* const& Name, bool Float, bool Out>
bool unary(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_ELEMENTWISE)) return false;
  const Tensor& x = a[0].toTensor();
  if (Float && !is_float(x, reason)) return false;
  if (Out && !can_hold(a[1].toTensor(), x.sizes(), x.scalar_type(), x, {}, reason)) return false;
  Question question(PRESIL_OP_ELEMENTWISE, Name);
  question.input("input", x);
  question.text("function", Name);
  const Tensor out = Out ? a[1].toTensor() : at::empty_like(x);
  if (!question.enqueue(out, reason)) return false;
  results.emplace_back(out);
  return true;
}

bool binary(const char* name, const Tensor& x, const Tensor& y, const at::Scalar& alpha, const Tensor& given,
            Results& results, std::string* reason) {
  if (y.device() != x.device() || y.scalar_type() != x.scalar_type() || !alpha.equal(1)) {
    *reason = "operands of two dtypes or devices, or a factor";
    return false;
  }
  const auto shape = at::infer_size(x.sizes(), y.sizes());
  if (given.defined() && !can_hold(given, shape, x.scalar_type(), x, y, reason)) return false;
  const bool first = x.sizes() == Ints(shape), second = y.sizes() == Ints(shape);
  const Tensor out = given.defined() ? given
                     : first         ? at::empty_like(x)
                     : second        ? at::empty_like(y)
                                     : at::empty(shape, x.options());
  Question question(PRESIL_OP_ELEMENTWISE, name);
  question.input("input", x);
  question.input("other", y);
  question.text("function", name);
  if (!question.enqueue(out, reason)) return false;
  results.emplace_back(out);
  return true;
}

// (self, other, alpha[, out]) or (self, other[, out]).
template <const char* const& Name, bool Alpha, bool Out, bool Float = false>
bool binary_of(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_ELEMENTWISE) || !a[1].isTensor()) return false;
  if (Float && !is_float(a[0].toTensor(), reason)) return false;
  return binary(Name, a[0].toTensor(), a[1].toTensor(), Alpha ? a[2].toScalar() : at::Scalar(1),
                Out ? a[2 + Alpha].toTensor() : Tensor(), results, reason);
}

// ---- softmax (self, dim, half_to_float[, out])
template <bool Log, bool Out> bool softmax(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_SOFTMAX)) return false;
  const Tensor& x = a[0].toTensor();
  if (x.dim() == 0 || a[2].toBool()) {
    *reason = "a number, or float16 to float32";
    return false;
  }
  const int64_t dim = at::maybe_wrap_dim(a[1].toInt(), x.dim()), log = Log;
  if (!is_float(x, reason) || (Out && !can_hold(a[3].toTensor(), x.sizes(), x.scalar_type(), x, {}, reason)))
    return false;
  const Tensor out = Out ? a[3].toTensor() : at::empty(x.sizes(), x.options(), c10::MemoryFormat::Contiguous);
  Question question(PRESIL_OP_SOFTMAX, Log ? "log_softmax" : "softmax");
  question.input("input", x);
  question.integers("dim", dim, x.dim() - 1);
  question.integers("log", log, 0);
  if (!question.enqueue(out, reason)) return false;
  results.emplace_back(out);
  return true;
}

// ---- pooling
struct Window {
  std::vector<int64_t> kernel, stride, padding, dilation{1, 1};
};

std::vector<int64_t> pair_of(Ints v, Ints otherwise) {
  const Ints from = v.empty() ? otherwise : v;
  return from.size() == 1 ? std::vector<int64_t>{from[0], from[0]} : from.vec();
}
Window window_of(Ints kernel, Ints stride, Ints padding, Ints dilation) {
  Window w;
  w.kernel = pair_of(kernel, kernel);
  w.stride = pair_of(stride, w.kernel);
  w.padding = pair_of(padding, {0, 0});
  w.dilation = pair_of(dilation, {1, 1});
  return w;
}

// Undefined: the host has to.
Tensor pool(Question& question, const Tensor& x, const Window& w, bool ceil_mode, std::string* reason,
            const Tensor& given = {}, const Tensor& index = {}) {
  const bool plane = x.dim() == 3;
  const Tensor images = plane ? x.unsqueeze(0) : x;
  bool possible = images.dim() == 4 && w.kernel.size() == 2 && w.stride.size() == 2 && w.padding.size() == 2 &&
                  w.dilation.size() == 2;
  std::array<int64_t, 2> size{};
  for (int i = 0; i < 2 && possible; i++) {
    const int64_t covered =
        images.size(2 + i) + 2 * w.padding[i] - w.dilation[i] * (w.kernel[i] - 1) - 1;  // beside the first window
    possible = covered >= 0 && w.stride[i] > 0 && w.kernel[i] > 0 && w.padding[i] >= 0 &&
               2 * w.padding[i] <= w.kernel[i] && !(ceil_mode && covered % w.stride[i]);
    size[i] = possible ? covered / w.stride[i] + 1 : 0;
  }
  if (!possible) {
    *reason = "a window beyond the padding";
    return {};
  }
  question.input("input", images, kPixels);
  question.integers("kernel", w.kernel);
  question.integers("stride", w.stride);
  question.integers("padding", w.padding, 0);
  question.integers("dilation", w.dilation, 1);
  const std::array<int64_t, 4> sizes{images.size(0), images.size(1), size[0], size[1]};
  if (given.defined() && !can_hold(given, Ints(sizes).slice(plane), x.scalar_type(), x, {}, reason)) return {};
  if (index.defined()) {
    if (!can_hold(index, Ints(sizes).slice(plane), c10::kLong, x, given, reason)) return {};
    question.also("index", plane ? index.unsqueeze(0) : index, kPixels);
  }
  const auto format = plane ? c10::MemoryFormat::Contiguous : images.suggest_memory_format();
  const Tensor out = !given.defined() ? at::empty(sizes, x.options(), format) : plane ? given.unsqueeze(0) : given;
  if (!question.enqueue(out, reason, kPixels)) return {};
  return plane ? out.squeeze(0) : out;
}

// (self, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override[, out])
template <bool Out> bool average_pool(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_POOL_AVERAGE)) return false;
  if (!a[6].isNone() && a[6].toInt() == 0) return false;  // raises
  Question question(PRESIL_OP_POOL_AVERAGE, "avg_pool2d");
  if (!a[5].toBool()) question.integers("count_include_pad", int64_t{0});
  if (!a[6].isNone()) question.integers("divisor", a[6].toInt());
  const auto kernel = a[1].toIntVector(), stride = a[2].toIntVector(), padding = a[3].toIntVector();
  const Tensor given = Out ? a[7].toTensor() : Tensor();
  const Tensor out =
      pool(question, a[0].toTensor(), window_of(kernel, stride, padding, {}), a[4].toBool(), reason, given);
  if (!out.defined()) return false;
  results.emplace_back(Out ? given : out);
  return true;
}

// Means of int8 codes as quantized networks of PyTorch have them: the distances from the zero point, added exactly,
// divided, rounded to the nearest (ties to even), and the zero point again.
Tensor means_of_codes(const Tensor& x, Ints kernel, Ints stride, Ints padding, bool ceil_mode, bool count_include_pad,
                      std::optional<int64_t> divisor, int64_t zero_point) {
  const Tensor away = x.to(c10::kDouble) - zero_point;
  const Tensor means = at::avg_pool2d(away, kernel, stride, padding, ceil_mode, count_include_pad, divisor);
  return (means.round() + zero_point).clamp(-128, 127).to(c10::kChar, false, false, x.suggest_memory_format());
}

void check_codes(const Tensor& x, int64_t zero_point) {
  TORCH_CHECK_TYPE(x.scalar_type() == c10::kChar, "presil::avg_pool2d_int8: expected int8, got ", x.scalar_type());
  TORCH_CHECK_VALUE(zero_point >= -128 && zero_point <= 127,
                    "presil::avg_pool2d_int8: the zero point must be in [-128, 127], got ", zero_point);
}

Tensor avg_pool2d_int8(const Tensor& x, Ints kernel, Ints stride, Ints padding, bool ceil_mode, bool count_include_pad,
                       std::optional<int64_t> divisor, int64_t zero_point) {
  check_codes(x, zero_point);
  const int index = x.device().index();
  std::string reason = "no kernel on the chip";
  if (chip_has(index, PRESIL_OP_POOL_AVERAGE) && divisor.value_or(1) != 0) {
    Question question(PRESIL_OP_POOL_AVERAGE, "avg_pool2d_int8");
    question.integers("zero_point", zero_point, 0);
    if (!count_include_pad) question.integers("count_include_pad", int64_t{0});
    if (divisor) question.integers("divisor", *divisor);
    question.quantize(static_cast<int32_t>(zero_point), -128, 127);
    const Tensor out = pool(question, x, window_of(kernel, stride, padding, {}), ceil_mode, &reason);
    if (out.defined()) return out;
  }
  return on_host("presil::avg_pool2d_int8", reason, index, [&](HostViews& v) {
    return means_of_codes(v.to_host(x), kernel, stride, padding, ceil_mode, count_include_pad, divisor, zero_point);
  });
}

Tensor avg_pool2d_int8_cpu(const Tensor& x, Ints kernel, Ints stride, Ints padding, bool ceil_mode,
                           bool count_include_pad, std::optional<int64_t> divisor, int64_t zero_point) {
  check_codes(x, zero_point);
  return means_of_codes(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor, zero_point);
}

// (self, kernel, stride, padding, dilation, ceil_mode, out, indices)
bool max_pool_with_indices(const c10::IValue* a, Results& results, std::string* reason) {
  if (!on_device(a[0], PRESIL_OP_POOL_MAX)) return false;
  const Tensor &x = a[0].toTensor(), &out = a[6].toTensor(), &indices = a[7].toTensor();
  const auto kernel = a[1].toIntVector(), stride = a[2].toIntVector(), padding = a[3].toIntVector(),
             dilation = a[4].toIntVector();
  Question question(PRESIL_OP_POOL_MAX, "max_pool2d_with_indices");
  if (!pool(question, x, window_of(kernel, stride, padding, dilation), a[5].toBool(), reason, out, indices).defined())
    return false;
  results.emplace_back(out);
  results.emplace_back(indices);
  return true;
}

bool has_gradients(const Tensor& t) {
  return (at::GradMode::is_enabled() && t.requires_grad()) || t._fw_grad(/*level=*/0).defined();
}

// Neither gradients, backward or forward, nor a tracer need what the composite operator calls.
bool plainly_on_device(const Tensor& x, uint32_t kind) {
  return x.device().type() == kDevice && !x.key_set().has(c10::DispatchKey::Python) && x.has_storage() &&
         !c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python) && chip_has(x.device().index(), kind) &&
         !has_gradients(x);
}

// Codes of int8 are exact in bfloat16, and the CPU's own maximum of int8 refuses large planes.
Tensor max_pool2d_on_host(const Tensor& x, Ints kernel, Ints stride, Ints padding, Ints dilation, bool ceil_mode) {
  const bool codes = x.scalar_type() == c10::kChar;
  const Tensor wide = codes ? x.to(c10::kBFloat16) : x;
  const Tensor y = at::native::max_pool2d(wide, kernel, stride, padding, dilation, ceil_mode);
  return codes ? y.to(c10::kChar) : y;
}

// Without gradients nobody asks where the maxima were.
Tensor max_pool2d(const Tensor& x, Ints kernel, Ints stride, Ints padding, Ints dilation, bool ceil_mode) {
  if (!plainly_on_device(x, PRESIL_OP_POOL_MAX))
    return max_pool2d_on_host(x, kernel, stride, padding, dilation, ceil_mode);
  std::string reason;
  Question question(PRESIL_OP_POOL_MAX, "max_pool2d");
  const Tensor out = pool(question, x, window_of(kernel, stride, padding, dilation), ceil_mode, &reason);
  if (out.defined()) return out;
  const HostReason because(reason);
  return max_pool2d_on_host(x, kernel, stride, padding, dilation, ceil_mode);
}

// ---- layer norm, whose mean and deviation only gradients need
bool is_given(const OptionalTensor& t) { return t && t->defined(); }

// statistics: the mean and the reciprocal of the deviation, or undefined. Undefined: the host has to.
Tensor normalised(const char* label, const Tensor& x, Ints shape, const OptionalTensor& weight,
                  const OptionalTensor& bias, double eps, const Tensor& mean, const Tensor& rstd, std::string* reason) {
  const int64_t dims = static_cast<int64_t>(shape.size());
  Question question(PRESIL_OP_NORM, label);
  question.input("input", x);
  if (is_given(weight)) question.input("weight", *weight);
  if (is_given(bias)) question.input("bias", *bias);
  question.text("function", "layer");
  question.real("epsilon", eps);
  if (mean.defined()) question.also("mean", mean);
  if (rstd.defined()) question.also("rstd", rstd);
  const auto fits = [&](const OptionalTensor& t) { return !is_given(t) || t->sizes() == shape; };
  const bool told = dims == 1 || (dims > 1 && is_given(weight));
  if (!told || !fits(weight) || !fits(bias) || x.dim() < dims || x.sizes().slice(x.dim() - dims) != shape) {
    *reason = "several dimensions without a weight, or shapes that don't fit";
    return {};
  }
  const Tensor out = at::empty_like(x, x.options(), c10::MemoryFormat::Contiguous);
  return question.enqueue(out, reason) ? out : Tensor();
}

Tensor layer_norm(const Tensor& x, c10::SymIntArrayRef shape, const OptionalTensor& weight, const OptionalTensor& bias,
                  double eps, bool cudnn) {
  const auto needs = [](const OptionalTensor& t) { return is_given(t) && has_gradients(*t); };
  if (plainly_on_device(x, PRESIL_OP_NORM) && !needs(weight) && !needs(bias)) {
    std::string reason;
    const Tensor out = normalised("layer_norm", x, C10_AS_INTARRAYREF_SLOW(shape), weight, bias, eps, {}, {}, &reason);
    if (out.defined()) return out;
    const HostReason because(reason);
    return at::native::layer_norm_symint(x, shape, weight, bias, eps, cudnn);
  }
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
  const Tensor out = normalised("native_layer_norm", x, shape, weight, bias, a[4].toDouble(), mean, rstd, reason);
  if (!out.defined()) return false;
  for (const Tensor& t : {out, mean, rstd}) results.emplace_back(t);
  return true;
}

#define PRESIL_NAME(name) constexpr const char* k_##name = #name
PRESIL_NAME(relu);
PRESIL_NAME(sigmoid);
PRESIL_NAME(tanh);
PRESIL_NAME(exp);
PRESIL_NAME(neg);
PRESIL_NAME(silu);
PRESIL_NAME(add);
PRESIL_NAME(sub);
PRESIL_NAME(mul);
PRESIL_NAME(div);
#undef PRESIL_NAME

const bool kernels_set = [] {
  set_chip_kernel("aten::relu", unary<k_relu, false, false>);
  set_chip_kernel("aten::relu.out", unary<k_relu, false, true>);
  set_chip_kernel("aten::sigmoid.out", unary<k_sigmoid, true, true>);
  set_chip_kernel("aten::tanh.out", unary<k_tanh, true, true>);
  set_chip_kernel("aten::exp.out", unary<k_exp, true, true>);
  set_chip_kernel("aten::neg.out", unary<k_neg, false, true>);
  set_chip_kernel("aten::silu.out", unary<k_silu, true, true>);
  set_chip_kernel("aten::add.Tensor", binary_of<k_add, true, false>);
  set_chip_kernel("aten::add.out", binary_of<k_add, true, true>);
  set_chip_kernel("aten::sub.Tensor", binary_of<k_sub, true, false>);
  set_chip_kernel("aten::sub.out", binary_of<k_sub, true, true>);
  set_chip_kernel("aten::mul.Tensor", binary_of<k_mul, false, false>);
  set_chip_kernel("aten::mul.out", binary_of<k_mul, false, true>);
  set_chip_kernel("aten::div.Tensor", binary_of<k_div, false, false, true>);
  set_chip_kernel("aten::div.out", binary_of<k_div, false, true, true>);
  set_chip_kernel("aten::_softmax", softmax<false, false>);
  set_chip_kernel("aten::_softmax.out", softmax<false, true>);
  set_chip_kernel("aten::_log_softmax", softmax<true, false>);
  set_chip_kernel("aten::_log_softmax.out", softmax<true, true>);
  set_chip_kernel("aten::avg_pool2d", average_pool<false>);
  set_chip_kernel("aten::avg_pool2d.out", average_pool<true>);
  set_chip_kernel("aten::max_pool2d_with_indices.out", max_pool_with_indices);
  set_chip_kernel("aten::native_layer_norm", layer_norm_with_statistics);
  return true;
}();

TORCH_LIBRARY_FRAGMENT(presil, m) {
  m.def("avg_pool2d_int8(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
        "bool count_include_pad=True, int? divisor_override=None, *, int zero_point) -> Tensor");
}
TORCH_LIBRARY_IMPL(presil, PrivateUse1, m) { m.impl("avg_pool2d_int8", avg_pool2d_int8); }
TORCH_LIBRARY_IMPL(presil, CPU, m) { m.impl("avg_pool2d_int8", avg_pool2d_int8_cpu); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("max_pool2d", max_pool2d);
  m.impl("layer_norm", layer_norm);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("max_pool2d", max_pool2d);
  m.impl("layer_norm", layer_norm);
}

}  // namespace
}  // namespace presil
