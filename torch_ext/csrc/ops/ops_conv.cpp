// SPDX-License-Identifier: Apache-2.0
// convolution_overrideable: 1-D to 3-D, plain and transposed, of float32, bfloat16 and float16 on the chip; every other
// combination by the CPU's convolution on the mapping (the boxed fallback can't reach it: the CPU has no kernel of this
// name).
#include "ops/conv.h"
#include "host/fallback.h"
#include "ops/one_device.h"

#include <torch/library.h>

namespace presil {

using at::Tensor;
using Ints = c10::IntArrayRef;

const ConvLabels& conv_labels(bool transposed, bool depth) {
  static constexpr ConvLabels kLabels[2][2] = {
      {{"conv2d", "conv2d_input_grad", "conv2d_weight_grad", "conv2d_bias_grad"},
       {"conv_transpose2d", "conv_transpose2d_input_grad", "conv_transpose2d_weight_grad", "conv2d_bias_grad"}},
      {{"conv3d", "conv3d_input_grad", "conv3d_weight_grad", "conv3d_bias_grad"},
       {"conv_transpose3d", "conv_transpose3d_input_grad", "conv_transpose3d_weight_grad", "conv3d_bias_grad"}}};
  return kLabels[depth][transposed];
}

ConvArguments plane_arguments(Ints stride, Ints padding, Ints dilation, bool transposed, int64_t groups,
                              presil_compute compute) {
  const auto last_two = [](Ints v) { return std::array<int64_t, 2>{v[v.size() - 2], v[v.size() - 1]}; };
  return {last_two(stride), last_two(padding), last_two(dilation), transposed, groups, compute};
}

ConvGeometry forward_geometry(const ConvArguments& a, const Tensor& weight) {
  ConvGeometry g;
  g.groups = a.groups;
  g.dilation = a.dilation;
  for (int i = 0; i < 2; i++) {
    (a.transposed ? g.input_dilation : g.stride)[i] = a.stride[i];
    g.padding[i] = a.transposed ? a.dilation[i] * (weight.size(i - 2) - 1) - a.padding[i] : a.padding[i];
  }
  return g;
}

int64_t forward_size(int64_t input, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool transposed,
                     int64_t output_padding) {
  if (transposed) return (input - 1) * stride - 2 * padding + dilation * (kernel - 1) + output_padding + 1;
  return conv_output_size(input, kernel, stride, padding, dilation);
}

namespace {

bool on_chip(const Tensor& x, const Tensor& w, const Tensor& b) {
  const bool tensors_ok = (x.dim() == 4 || x.dim() == 5) && w.dim() == x.dim() && chip_dtype(x.scalar_type()) &&
                          w.scalar_type() == x.scalar_type() && x.numel() > 0 && w.numel() > 0;
  return tensors_ok && (!b.defined() || b.scalar_type() == x.scalar_type());
}

Tensor convolution_on_host(const Tensor& x, const Tensor& w, const Tensor& b, Ints stride, Ints padding, Ints dilation,
                           bool transposed, Ints output_padding, int64_t groups, const std::string& reason) {
  return on_host("aten::convolution_overrideable", reason, x.device().index(), [&](HostViews& v) {
    return at::convolution(v.to_host(x), v.to_host(w), b.defined() ? std::optional<Tensor>(v.to_host(b)) : std::nullopt,
                           stride, padding, dilation, transposed, output_padding, groups);
  });
}

// Empty: no position of an axis is left.
std::vector<int64_t> output_sizes(const Tensor& x, const Tensor& w, Ints stride, Ints padding, Ints dilation,
                                  bool transposed, Ints output_padding, int64_t groups) {
  std::vector<int64_t> sizes{x.size(0), transposed ? w.size(1) * groups : w.size(0)};
  for (size_t i = 0; i < stride.size(); i++) {
    if (stride[i] <= 0) return {};
    sizes.push_back(
        forward_size(x.size(2 + i), w.size(2 + i), stride[i], padding[i], dilation[i], transposed, output_padding[i]));
    if (sizes.back() <= 0) return {};
  }
  return sizes;
}

bool forward_2d(const Tensor& input, const Tensor& w, const Tensor& b, const Tensor& output, const ConvArguments& a,
                std::string* reason) {
  const ConvGeometry geometry = forward_geometry(a, w);
  const TransposedConv transposed{conv_labels(true, false).forward, input, w, b, output, geometry, a.compute, {}};
  const bool has_own = a.transposed && transposed.possible(input.device().index());
  if (has_own && transposed.enqueue(reason)) return true;
  WeightRequest request;
  request.weight = w;
  request.bias = b;
  request.compute = a.compute;
  request.groups = a.groups;
  request.dilation = geometry.dilation;
  request.input_dilation = geometry.input_dilation;
  request.transposed = a.transposed;
  if (chip_conv2d(conv_labels(a.transposed, false).forward, input, request, output, geometry, {}, 0)) return true;
  if (!has_own) *reason = presil_error_text();
  return false;
}

Tensor convolution(const Tensor& x, const Tensor& w, const std::optional<Tensor>& bias, Ints stride, Ints padding,
                   Ints dilation, bool transposed, Ints output_padding, int64_t groups) {
  const Tensor b = bias && bias->defined() ? *bias : Tensor();
  const auto host = [&](const std::string& reason) {
    return convolution_on_host(x, w, b, stride, padding, dilation, transposed, output_padding, groups, reason);
  };
  if (!on_chip(x, w, b)) return host("dtype or empty operand");
  const std::vector<int64_t> sizes = output_sizes(x, w, stride, padding, dilation, transposed, output_padding, groups);
  if (sizes.empty()) return host("empty or invalid output");
  const bool depth = x.dim() == 5;
  const ConvArguments plane =
      plane_arguments(stride, padding, dilation, transposed, groups, compute_for(x.scalar_type(), Fp32Op::conv));

  const auto last = channels_last(depth);
  const bool stays = x.suggest_memory_format() == last || w.suggest_memory_format() == last;
  const Tensor wide = widened(x), input = wide.is_contiguous(last) ? wide : wide.contiguous(last);
  Tensor output = at::empty(sizes, input.options(), last);
  std::string reason;
  const bool done = depth ? chip_conv3d(input, w, widened(b), output, {plane, stride[0], padding[0], dilation[0]})
                          : forward_2d(input, w, b, output, plane, &reason);
  if (!done) return host(reason.empty() ? presil_error_text() : reason);
  output = rounded(output, x.scalar_type());
  // A caller that works in NCHW may view the result as such.
  return stays ? output : output.contiguous();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) { PRESIL_IMPL_ON_ONE_DEVICE(m, "convolution_overrideable", convolution); }

}  // namespace
}  // namespace presil
