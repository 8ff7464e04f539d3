// SPDX-License-Identifier: Apache-2.0
// Operators that PyTorch expects of a device, but that its CPU has no kernel for, out of those that it has: the parts
// of synchronised batch norm, backward of rms_norm, dropout that gives its mask; and depthwise convolutions, products
// with a wider result, backward of linear and matmul, all of which are the chip's products and convolutions.
#include "ops/out.h"

#include <torch/library.h>

namespace presil {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

bool has(const OptionalTensor& t) { return t && t->defined(); }

// Statistics of float16 and bfloat16 are kept in float32.
c10::ScalarType statistics_type(const Tensor& t) {
  return at::isReducedFloatingType(t.scalar_type()) ? at::kFloat : t.scalar_type();
}
Tensor precise(const Tensor& t) { return t.to(statistics_type(t)); }

// [C] as [1, C, 1, ...], to meet an input [N, C, ...].
Tensor per_channel(const Tensor& values, const Tensor& input) {
  std::vector<int64_t> shape(input.dim(), 1);
  shape[1] = input.size(1);
  return values.view(shape);
}
std::vector<int64_t> all_but_channels(const Tensor& input) {
  TORCH_CHECK(input.dim() >= 2, "presil: batch norm needs an input [N, C, ...], got ", input.sizes());
  std::vector<int64_t> dims{0};
  for (int64_t d = 2; d < input.dim(); d++) dims.push_back(d);
  return dims;
}

std::tuple<Tensor, Tensor> batch_norm_stats(const Tensor& input, double eps) {
  const auto [variance, mean] =
      at::var_mean(precise(input), all_but_channels(input), /*correction=*/std::optional<at::Scalar>(0));
  return {mean, (variance + eps).rsqrt()};
}

Tensor normalised(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias, const Tensor& mean,
                  const Tensor& invstd, double) {
  Tensor out = (precise(input) - per_channel(mean, input)) * per_channel(invstd, input);
  if (has(weight)) out = out * per_channel(*weight, input);
  if (has(bias)) out = out + per_channel(*bias, input);
  return out.to(input.scalar_type(), false, false, input.suggest_memory_format());
}

Tensor& batch_norm_elemt_out(const Tensor& input, const OptionalTensor& weight, const OptionalTensor& bias,
                             const Tensor& mean, const Tensor& invstd, double eps, Tensor& out) {
  return into(out, normalised(input, weight, bias, mean, invstd, eps));
}

// mean, invstd: [processes, C]; counts: how many values each process saw.
std::tuple<Tensor, Tensor> gather_stats(const Tensor& mean, const Tensor& invstd, const OptionalTensor& running_mean,
                                        const OptionalTensor& running_var, double momentum, double eps,
                                        const Tensor& counts) {
  const Tensor n = counts.to(mean.scalar_type()).reshape({-1, 1}), total = n.sum();
  const Tensor together = (n * mean).sum(0) / total;
  const Tensor squares = (n * (invstd.pow(-2) - eps + (mean - together).pow(2))).sum(0);
  if (has(running_mean)) running_mean->mul_(1 - momentum).add_(together.to(running_mean->scalar_type()), momentum);
  if (has(running_var))
    running_var->mul_(1 - momentum).add_((squares / (total - 1)).to(running_var->scalar_type()), momentum);
  return {together, (squares / total + eps).rsqrt()};
}
std::tuple<Tensor, Tensor> batch_norm_gather_stats_with_counts(const Tensor&, const Tensor& mean, const Tensor& invstd,
                                                               const OptionalTensor& running_mean,
                                                               const OptionalTensor& running_var, double momentum,
                                                               double eps, const Tensor& counts) {
  return gather_stats(mean, invstd, running_mean, running_var, momentum, eps, counts);
}
std::tuple<Tensor, Tensor> batch_norm_gather_stats(const Tensor&, const Tensor& mean, const Tensor& invstd,
                                                   const OptionalTensor& running_mean,
                                                   const OptionalTensor& running_var, double momentum, double eps,
                                                   int64_t count) {
  return gather_stats(mean, invstd, running_mean, running_var, momentum, eps,
                      at::full({mean.size(0)}, count, mean.options()));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> batch_norm_backward_reduce(const Tensor& grad, const Tensor& input,
                                                                      const Tensor& mean, const Tensor& invstd,
                                                                      const OptionalTensor& weight, bool want_input,
                                                                      bool want_weight, bool want_bias) {
  const auto dims = all_but_channels(input);
  const Tensor g = precise(grad), sum = g.sum(dims),
               products = (g * (precise(input) - per_channel(mean, input))).sum(dims);
  const auto type = has(weight) ? weight->scalar_type() : sum.scalar_type();
  return {want_input ? sum : Tensor(), want_input ? products : Tensor(),
          want_weight ? (products * invstd).to(type) : Tensor(), want_bias ? sum.to(type, false, true) : Tensor()};
}

Tensor batch_norm_backward_elemt(const Tensor& grad, const Tensor& input, const Tensor& mean, const Tensor& invstd,
                                 const OptionalTensor& weight, const Tensor& sum, const Tensor& products,
                                 const Tensor& counts) {
  const Tensor n = counts.sum().to(mean.scalar_type());
  const Tensor centered =
      precise(grad) - per_channel(sum / n, input) -
      (precise(input) - per_channel(mean, input)) * per_channel(invstd.pow(2) * products / n, input);
  const Tensor factor = has(weight) ? invstd * *weight : invstd;
  return (centered * per_channel(factor, input)).to(input.scalar_type(), false, false, input.suggest_memory_format());
}

std::tuple<Tensor, Tensor> fused_rms_norm_backward(const Tensor& grad, const Tensor& input,
                                                   c10::IntArrayRef normalized_shape, const Tensor& rstd,
                                                   const OptionalTensor& weight, std::array<bool, 2> wanted) {
  std::vector<int64_t> last, leading;
  for (int64_t d = 0; d < input.dim(); d++)
    (d < input.dim() - static_cast<int64_t>(normalized_shape.size()) ? leading : last).push_back(d);
  const Tensor g = precise(grad), normal = precise(input) * rstd, upper = has(weight) ? g * *weight : g;
  Tensor for_input, for_weight;
  if (wanted[0]) for_input = ((upper - normal * (upper * normal).mean(last, true)) * rstd).to(input.scalar_type());
  if (wanted[1] && has(weight))
    for_weight = (leading.empty() ? g * normal : (g * normal).sum(leading)).to(weight->scalar_type());
  return {for_input, for_weight};
}

Tensor conv_depthwise2d(const Tensor& input, const Tensor& weight, c10::SymIntArrayRef, const OptionalTensor& bias,
                        c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation) {
  return at::convolution_symint(input, weight, bias, stride, padding, dilation, false, std::vector<c10::SymInt>{0, 0},
                                input.sym_size(1));
}
Tensor& conv_depthwise2d_out(const Tensor& input, const Tensor& weight, c10::SymIntArrayRef kernel,
                             const OptionalTensor& bias, c10::SymIntArrayRef stride, c10::SymIntArrayRef padding,
                             c10::SymIntArrayRef dilation, Tensor& out) {
  return into(out, conv_depthwise2d(input, weight, kernel, bias, stride, padding, dilation));
}
Tensor conv_depthwise3d(const Tensor& input, const Tensor& weight, c10::SymIntArrayRef, const OptionalTensor& bias,
                        c10::SymIntArrayRef stride, c10::SymIntArrayRef padding, c10::SymIntArrayRef dilation) {
  return at::convolution_symint(input, weight, bias, stride, padding, dilation, false,
                                std::vector<c10::SymInt>{0, 0, 0}, input.sym_size(1));
}

Tensor max_pool2d_backward(const Tensor& grad, const Tensor& input, c10::IntArrayRef kernel, c10::IntArrayRef stride,
                           c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil_mode) {
  const Tensor indices = std::get<1>(at::max_pool2d_with_indices(input, kernel, stride, padding, dilation, ceil_mode));
  return at::max_pool2d_with_indices_backward(grad, input, kernel, stride, padding, dilation, ceil_mode, indices);
}

// keep: the probability to keep a value.
std::tuple<Tensor, Tensor> fused_dropout(const Tensor& input, double keep, std::optional<at::Generator> generator) {
  const Tensor mask = at::empty_like(input, input.options().dtype(at::kByte)).bernoulli_(keep, generator);
  return {input * mask / keep, mask};
}
Tensor masked_scale(const Tensor& input, const Tensor& mask, double scale) { return input * mask * scale; }

const Tensor& resize_output(const Tensor& out, c10::IntArrayRef size, c10::Device device) {
  TORCH_CHECK(out.device() == device, "Expected out tensor to be on device ", device, ", but found ", out.device());
  at::native::resize_output(out, size);
  return out;
}

std::tuple<Tensor, Tensor, Tensor> linear_backward(const Tensor& input, const Tensor& grad, const Tensor& weight,
                                                   std::array<bool, 3> wanted) {
  const Tensor rows = grad.reshape({-1, grad.size(-1)});
  return {wanted[0] ? at::mm(rows, weight).view(input.sizes()) : Tensor(),
          wanted[1] ? at::mm(rows.t(), input.reshape({-1, input.size(-1)})) : Tensor(),
          wanted[2] ? rows.sum(0) : Tensor()};
}

std::tuple<Tensor, Tensor> matmul_backward(const Tensor& grad, const Tensor& a, const Tensor& b,
                                           std::array<bool, 2> wanted) {
  const Tensor left = a.dim() == 1 ? a.unsqueeze(0) : a, right = b.dim() == 1 ? b.unsqueeze(-1) : b;
  Tensor upper = a.dim() == 1 ? grad.unsqueeze(b.dim() == 1 ? -1 : -2) : grad;
  if (b.dim() == 1) upper = upper.unsqueeze(-1);
  return {wanted[0] ? at::matmul(upper, right.mT()).sum_to_size(left.sizes()).view(a.sizes()) : Tensor(),
          wanted[1] ? at::matmul(left.mT(), upper).sum_to_size(right.sizes()).view(b.sizes()) : Tensor()};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("linear_backward", linear_backward);
  m.impl("matmul_backward", matmul_backward);
  m.impl("batch_norm_stats", batch_norm_stats);
  m.impl("batch_norm_elemt", normalised);
  m.impl("batch_norm_elemt.out", batch_norm_elemt_out);
  m.impl("batch_norm_gather_stats", batch_norm_gather_stats);
  m.impl("batch_norm_gather_stats_with_counts", batch_norm_gather_stats_with_counts);
  m.impl("batch_norm_backward_reduce", batch_norm_backward_reduce);
  m.impl("batch_norm_backward_elemt", batch_norm_backward_elemt);
  m.impl("_fused_rms_norm_backward", fused_rms_norm_backward);
  m.impl("_conv_depthwise2d", conv_depthwise2d);
  m.impl("_conv_depthwise2d.out", conv_depthwise2d_out);
  m.impl("conv_depthwise3d", conv_depthwise3d);
  m.impl("max_pool2d_backward", max_pool2d_backward);
  m.impl("_fused_dropout", fused_dropout);
  m.impl("_masked_scale", masked_scale);
  m.impl("_resize_output_", resize_output);
}

}  // namespace
}  // namespace presil
