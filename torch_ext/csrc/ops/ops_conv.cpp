// SPDX-License-Identifier: Apache-2.0
// convolution_overrideable: 1-D and 2-D, plain and transposed, of float32, bfloat16 and float16 on the chip; every other combination by the CPU's
// convolution on the mapping (the boxed fallback can't reach it: the CPU has no kernel of this name).
#include "ops/conv.h"
#include "host/fallback.h"
#include "ops/one_device.h"

#include <torch/library.h>

namespace presil {

using at::Tensor;
using Ints = c10::IntArrayRef;

int device_index_of(std::initializer_list<const Tensor*> tensors) {
  for (const Tensor* t : tensors)
    if (t->defined() && t->device().type() == kDevice) return t->device().index();
  return current_device();
}

namespace {

bool on_chip(const Tensor& x, const Tensor& w, const Tensor& b) {
  const bool tensors_ok = x.dim() == 4 && w.dim() == 4 && chip_dtype(x.scalar_type()) && w.scalar_type() == x.scalar_type() && w.device() == x.device() && x.numel() > 0 && w.numel() > 0;
  return tensors_ok && (!b.defined() || (b.device() == x.device() && b.scalar_type() == x.scalar_type()));
}

Tensor convolution_on_host(const Tensor& x, const Tensor& w, const Tensor& b, Ints stride, Ints padding, Ints dilation, bool transposed, Ints output_padding, int64_t groups, const char* reason) {
  return on_host("aten::convolution_overrideable", reason, device_index_of({&x, &w}), [&](HostViews& v) {
    return at::convolution(v.to_host(x), v.to_host(w), b.defined() ? std::optional<Tensor>(v.to_host(b)) : std::nullopt, stride, padding, dilation, transposed, output_padding, groups);
  });
}

struct Problem {
  ConvGeometry geometry;
  std::array<int64_t, 4> output{};
  bool possible = true;
};

Problem geometry_of(const Tensor& x, const Tensor& w, Ints stride, Ints padding, Ints dilation, bool transposed, Ints output_padding, int64_t groups) {
  Problem p;
  p.geometry.groups = groups;
  p.output = {x.size(0), transposed ? w.size(1) * groups : w.size(0), 0, 0};
  for (int i = 0; i < 2; i++) {
    const int64_t k = w.size(2 + i);
    p.geometry.dilation[i] = dilation[i];
    if (transposed) {
      p.geometry.input_dilation[i] = stride[i];
      p.geometry.padding[i] = dilation[i] * (k - 1) - padding[i];
      p.output[2 + i] = (x.size(2 + i) - 1) * stride[i] - 2 * padding[i] + dilation[i] * (k - 1) + output_padding[i] + 1;
    } else {
      p.geometry.stride[i] = stride[i];
      p.geometry.padding[i] = padding[i];
      p.output[2 + i] = conv_output_size(x.size(2 + i), k, stride[i], padding[i], dilation[i]);
    }
    p.possible &= p.output[2 + i] > 0 && stride[i] > 0;
  }
  return p;
}

Tensor convolution(const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias, Ints stride, Ints padding, Ints dilation, bool transposed, Ints output_padding, int64_t groups) {
  const Tensor b = bias && bias->defined() ? *bias : Tensor();
  const auto host = [&](const char* reason) { return convolution_on_host(x, w, b, stride, padding, dilation, transposed, output_padding, groups, reason); };
  if (!on_chip(x, w, b)) return host(x.dim() != 4 ? "3-D" : "dtype, devices or empty operand");
  const Problem problem = geometry_of(x, w, stride, padding, dilation, transposed, output_padding, groups);
  if (!problem.possible) return host("empty or invalid output");

  WeightRequest request;
  request.weight = w;
  request.bias = b;
  request.compute = compute_for(x.scalar_type(), Fp32Op::conv);
  request.groups = groups;
  request.dilation = problem.geometry.dilation;
  request.input_dilation = problem.geometry.input_dilation;
  request.transposed = transposed;
  const auto packed = packed_weights(request);

  const bool channels_last = x.suggest_memory_format() == c10::MemoryFormat::ChannelsLast || w.suggest_memory_format() == c10::MemoryFormat::ChannelsLast;
  const Tensor wide = widened(x), input = wide.is_contiguous(c10::MemoryFormat::ChannelsLast) ? wide : wide.contiguous(c10::MemoryFormat::ChannelsLast);
  Tensor output = at::empty(problem.output, input.options(), c10::MemoryFormat::ChannelsLast);
  if (!chip_conv2d(transposed ? "conv_transpose2d" : "conv2d", input, packed, output, problem.geometry, {}, 0)) return host(presil_error_text());
  output = rounded(output, x.scalar_type());
  // A caller that works in NCHW may view the result as such.
  return channels_last ? output : output.contiguous();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  PRESIL_IMPL_ON_ONE_DEVICE(m, "convolution_overrideable", convolution);
}

}  // namespace
}  // namespace presil
