// SPDX-License-Identifier: Apache-2.0
// The gradient of the input of a convolution whose channels have several outputs each: a sum over a channel's outputs,
// too, for which the array has no window. Row y of output k becomes row y * outputs + k of a taller gradient, and the
// kernel as tall: a depthwise convolution that walks `outputs` rows at a time. More outputs than fit its kernel are
// several of them, one added to the other (docs/numerics.md 5).
#include "ops/gradient_phases.h"

namespace presil {
namespace {

using at::Tensor;

// Of each channel's outputs those from `first` on.
struct Part {
  int64_t outputs, first, count;
};

int64_t outputs_of(const Tensor& w, const ConvArguments& a) { return w.size(0) / a.groups; }

// N, C * outputs, H, W to N, C, H * count, W, rows of channels.
Tensor rows_of(const Tensor& grad, const Part& part) {
  const int64_t n = grad.size(0), c = grad.size(1) / part.outputs, h = grad.size(2), w = grad.size(3);
  return grad.view({n, c, part.outputs, h, w})
      .narrow(2, part.first, part.count)
      .permute({0, 3, 2, 4, 1})
      .contiguous()
      .view({n, h * part.count, w, c})
      .permute({0, 3, 1, 2});
}

// A phase's kernel, turned.
KernelView kernel_of(const Tensor& w, const Phase& p, const Part& part) {
  const int64_t channels = w.size(0) / part.outputs, rows = p.rows.count, columns = p.columns.count;
  const Tensor own = w.select(1, 0)
                         .slice(1, p.rows.first, w.size(2), p.rows.step)
                         .slice(2, p.columns.first, w.size(3), p.columns.step);  // C * outputs, rows, columns
  KernelView k;
  k.storage = at::empty({rows, part.count, columns, channels}, w.options());
  for (int64_t i = 0; i < part.count; i++)
    k.storage.select(1, part.count - 1 - i)
        .copy_(own.slice(0, part.first + i, own.size(0), part.outputs).permute({1, 2, 0}));
  k.at = k.storage.numel() - channels;
  k.shape = {channels, rows * part.count, columns, 1};
  k.stride = {1, -columns * channels, -channels, 1};
  k.group_stride = 1;
  return k;
}

}  // namespace

bool is_in_rows(const Tensor& input, const Tensor& weight, const ConvArguments& a) {
  const int64_t outputs = outputs_of(weight, a);
  return !a.transposed && a.groups > 1 && input.size(1) == a.groups && outputs > 1 && a.dilation[0] == 1 &&
         weight.size(2) <= kTallest && weight.size(3) <= kTallest && has_phases(weight, a);
}

bool chip_input_gradient_in_rows(const ConvLabels& labels, const Tensor& grad, const Tensor& weight, const Tensor& out,
                                 const ConvArguments& a) {
  const int64_t outputs = outputs_of(weight, a), fit = kTallest / weight.size(2), parts = (outputs + fit - 1) / fit,
                most = (outputs + parts - 1) / parts;
  Tensor sum;
  for (int64_t first = 0; first < outputs; first += most) {
    const Part part{outputs, first, std::min(most, outputs - first)};
    const Tensor rows = rows_of(grad, part);
    const bool last = first + most >= outputs;
    const Tensor target = last ? out : sum.defined() ? sum : at::empty_like(out, out.options().dtype(c10::kFloat));
    const bool done = for_each_phase(weight, out, a, [&](const Phase& p) {
      ConvGeometry g;
      g.stride = {part.count, 1};
      g.dilation = a.dilation;
      g.padding = {p.rows.padding * part.count, p.columns.padding};
      g.groups = a.groups;
      return chip_conv2d(labels.input_grad, rows, kernel_of(weight, p, part), a.compute, p.of(target), g,
                         {sum.defined() ? p.of(sum) : Tensor()});
    });
    if (!done) return false;
    sum = target;
  }
  return true;
}

}  // namespace presil
