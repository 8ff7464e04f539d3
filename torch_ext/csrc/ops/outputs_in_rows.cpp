// SPDX-License-Identifier: Apache-2.0
// The gradient of the input of a convolution whose channels have several outputs each: a sum over a channel's outputs,
// too, for which the array has no window. Row y of output k becomes row y * outputs + k of a taller gradient, and the
// kernel as tall: a depthwise convolution that walks `outputs` rows at a time (docs/numerics.md 5).
#include "ops/gradient_phases.h"

namespace presil {
namespace {

using at::Tensor;

constexpr int64_t kTallest = 64;  // rows of a depthwise kernel: part of the contract

int64_t outputs_of(const Tensor& w, const ConvArguments& a) { return w.size(0) / a.groups; }

// N, C * outputs, H, W to N, C, H * outputs, W, rows of channels.
Tensor rows_of(const Tensor& grad, int64_t outputs) {
  const int64_t n = grad.size(0), c = grad.size(1) / outputs, h = grad.size(2), w = grad.size(3);
  return grad.view({n, c, outputs, h, w})
      .permute({0, 3, 2, 4, 1})
      .contiguous()
      .view({n, h * outputs, w, c})
      .permute({0, 3, 1, 2});
}

// A phase's kernel, turned.
KernelView kernel_of(const Tensor& w, const Phase& p, int64_t outputs) {
  const int64_t channels = w.size(0) / outputs, rows = p.rows.count, columns = p.columns.count;
  const Tensor own = w.select(1, 0)
                         .slice(1, p.rows.first, w.size(2), p.rows.step)
                         .slice(2, p.columns.first, w.size(3), p.columns.step);  // C * outputs, rows, columns
  KernelView k;
  k.storage = at::empty({rows, outputs, columns, channels}, w.options());
  for (int64_t i = 0; i < outputs; i++)
    k.storage.select(1, outputs - 1 - i).copy_(own.slice(0, i, own.size(0), outputs).permute({1, 2, 0}));
  k.at = k.storage.numel() - channels;
  k.shape = {channels, rows * outputs, columns, 1};
  k.stride = {1, -columns * channels, -channels, 1};
  k.group_stride = 1;
  return k;
}

}  // namespace

bool is_in_rows(const Tensor& input, const Tensor& weight, const ConvArguments& a) {
  const int64_t outputs = outputs_of(weight, a);
  return !a.transposed && a.groups > 1 && input.size(1) == a.groups && outputs > 1 && a.dilation[0] == 1 &&
         weight.size(2) * outputs <= kTallest && weight.size(3) <= kTallest && has_phases(weight, a);
}

bool chip_input_gradient_in_rows(const ConvLabels& labels, const Tensor& grad, const Tensor& weight, const Tensor& out,
                                 const ConvArguments& a) {
  const int64_t outputs = outputs_of(weight, a);
  const Tensor rows = rows_of(grad, outputs);
  return for_each_phase(weight, out, a, [&](const Phase& p) {
    ConvGeometry g;
    g.stride = {outputs, 1};
    g.dilation = a.dilation;
    g.padding = {p.rows.padding * outputs, p.columns.padding};
    g.groups = a.groups;
    return chip_conv2d(labels.input_grad, rows, kernel_of(weight, p, outputs), a.compute, p.of(out), g, {});
  });
}

}  // namespace presil
