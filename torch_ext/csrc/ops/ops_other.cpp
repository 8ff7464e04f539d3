// SPDX-License-Identifier: Apache-2.0
// Operators that a chip may have beside convolutions and products, and that are the host's where it says no: pooling
// and softmax. Ours has neither.
#include "ops/ask_first.h"

#include <ATen/ops/avg_pool2d.h>
#include <ATen/ops/max_pool2d_native.h>
#include <torch/library.h>

namespace presil {
namespace {

using at::Tensor;
using Ints = c10::IntArrayRef;

constexpr int kPixels[] = {0, 2, 3, 1};  // N, C, H, W as N, H, W, C

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

const bool kernels_set = [] {
  set_chip_kernel("aten::_softmax", softmax<false, false>);
  set_chip_kernel("aten::_softmax.out", softmax<false, true>);
  set_chip_kernel("aten::_log_softmax", softmax<true, false>);
  set_chip_kernel("aten::_log_softmax.out", softmax<true, true>);
  set_chip_kernel("aten::avg_pool2d", average_pool<false>);
  set_chip_kernel("aten::avg_pool2d.out", average_pool<true>);
  set_chip_kernel("aten::max_pool2d_with_indices.out", max_pool_with_indices);
  return true;
}();

TORCH_LIBRARY_FRAGMENT(presil, m) {
  m.def("avg_pool2d_int8(Tensor input, int[2] kernel_size, int[2] stride=[], int[2] padding=0, bool ceil_mode=False, "
        "bool count_include_pad=True, int? divisor_override=None, *, int zero_point) -> Tensor");
}
TORCH_LIBRARY_IMPL(presil, PrivateUse1, m) { m.impl("avg_pool2d_int8", avg_pool2d_int8); }
TORCH_LIBRARY_IMPL(presil, CPU, m) { m.impl("avg_pool2d_int8", avg_pool2d_int8_cpu); }
TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { m.impl("max_pool2d", max_pool2d); }
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { m.impl("max_pool2d", max_pool2d); }

}  // namespace
}  // namespace presil
