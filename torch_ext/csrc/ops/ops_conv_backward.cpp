// SPDX-License-Identifier: Apache-2.0
// convolution_backward_overrideable: launches on operands in rows of channels, as in forward (docs/numerics.md 5). The
// host turns what lies otherwise, and the gradients for who wants them otherwise: a DMA engine would move NCHW element
// by element. It widens float16 for a chip that has none, too. What the chip doesn't take is the CPU's
// convolution_backward on the mapping.
#include "ops/conv.h"
#include "host/fallback.h"
#include "ops/one_device.h"
#include "ops/gradient_phases.h"

#include <torch/library.h>

namespace presil {
namespace {

using at::Tensor;
using Ints = c10::IntArrayRef;

// The kernel by which the gradient of the input is computed, for rows and columns that start at `start` and go on by
// `step` (plain convolutions: turned).
KernelView gradient_kernel(const Tensor& w, const ConvArguments& a, std::array<int64_t, 2> start,
                           std::array<int64_t, 2> step, std::array<int64_t, 2> count) {
  KernelView k;
  k.storage = w;
  k.at = w.storage_offset() + start[0] * w.stride(2) + start[1] * w.stride(3);
  const int64_t inputs = w.size(1), outputs = w.size(0) / a.groups;  // plain: of a group
  if (a.transposed) {
    k.shape = {w.size(0), count[0], count[1], w.size(1)};
    k.stride = {w.stride(0), step[0] * w.stride(2), step[1] * w.stride(3), w.stride(1)};
  } else {
    k.shape = {inputs * a.groups, count[0], count[1], outputs};
    k.stride = {w.stride(1), step[0] * w.stride(2), step[1] * w.stride(3), w.stride(0)};
  }
  k.group_stride = outputs * w.stride(0);
  return k;
}

// The gradient of a strided convolution's input: a dense convolution for each phase of the stride, so that no product
// with a skipped position is computed.
bool input_gradient_by_phases(const ConvLabels& labels, const Tensor& grad, const Tensor& w, const Tensor& out,
                              const ConvArguments& a, const Tensor& residual) {
  return for_each_phase(w, out, a, [&](const Phase& p) {
    ConvGeometry g;
    g.dilation = a.dilation;
    g.padding = {p.rows.padding, p.columns.padding};
    g.groups = a.groups;
    const KernelView kernel = gradient_kernel(w, a, {p.rows.last(), p.columns.last()}, {-p.rows.step, -p.columns.step},
                                              {p.rows.count, p.columns.count});
    return chip_conv2d(labels.input_grad, grad, kernel, a.compute, p.of(out), g,
                       {residual.defined() ? p.of(residual) : residual});
  });
}

// Phases that the chip does itself, over one band of the gradient (docs/numerics.md 5, depthwise).
bool one_depthwise_launch(const Tensor& w, const ConvArguments& a) {
  bool all = a.groups > 1 && w.size(0) == a.groups && w.size(1) == 1;
  for (int i = 0; i < 2; i++) all &= w.size(2 + i) <= kTallest && (a.stride[i] == 1 || a.dilation[i] == 1);
  return all;
}

}  // namespace

bool chip_input_gradient(const ConvLabels& labels, const Tensor& grad, const Tensor& w, const Tensor& out,
                         const ConvArguments& a, const Tensor& residual) {
  ConvGeometry g;
  g.dilation = a.dilation;
  g.groups = a.groups;
  const std::array<int64_t, 2> size{w.size(2), w.size(3)};
  if (a.transposed) {
    g.stride = a.stride;
    g.padding = a.padding;
    return chip_conv2d(labels.input_grad, grad, gradient_kernel(w, a, {0, 0}, {1, 1}, size), a.compute, out, g,
                       {residual});
  }
  const bool phases = a.stride[0] * a.stride[1] > 1 && has_phases(w, a);
  if (phases && !one_depthwise_launch(w, a)) return input_gradient_by_phases(labels, grad, w, out, a, residual);
  for (int i = 0; i < 2; i++) {
    g.input_dilation[i] = a.stride[i];
    g.padding[i] = a.dilation[i] * (size[i] - 1) - a.padding[i];
  }
  return chip_conv2d(labels.input_grad, grad, gradient_kernel(w, a, {size[0] - 1, size[1] - 1}, {-1, -1}, size),
                     a.compute, out, g, {residual}) ||
         (phases && input_gradient_by_phases(labels, grad, w, out, a, residual));
}

bool chip_weight_gradient(const ConvLabels& labels, const Tensor& grad, const Tensor& x, const Tensor& out,
                          const ConvArguments& a, const Tensor& residual) {
  ConvGeometry g;
  g.stride = a.stride;
  g.padding = a.padding;
  g.dilation = a.dilation;
  g.groups = a.groups;
  const Tensor &input = a.transposed ? grad : x, &seen = a.transposed ? x : grad;
  if (is_depthwise(input, seen, a) && chip_depthwise_weight_gradient(labels.weight_grad, input, seen, out, a, residual))
    return true;
  return chip_weight_grad(labels.weight_grad, input, seen, out, a.compute, g, residual);
}

Tensor chip_constant(float value, const Tensor& like) {
  const bool half = like.scalar_type() == c10::kHalf;  // both operands of a product are, or none
  const Tensor constant = at::empty({1}, like.options().dtype(half ? c10::kHalf : c10::kFloat));
  const int index = like.device().index();
  if (capturing(index, nullptr)) {
    constant.fill_(value);  // a step of the graph, which has to write it in every replay
    return constant;
  }
  static const float zero = 0, one = 1;  // the copy reads it later
  static const c10::Half half_zero = 0, half_one = 1;
  TORCH_INTERNAL_ASSERT(value == zero || value == one);
  const void* from = value == one ? &one : &zero;
  if (half) from = value == one ? &half_one : &half_zero;
  check(presil_copy_to_device(device(index), current_stream(index), address_of(index, constant.data_ptr()), from,
                              constant.element_size(), PRESIL_COPY_DIRECT),
        "constant");
  mark_pending(index);
  return constant;
}

// A sum over images and pixels is the gradient of a kernel of one position that saw ones: one 1.0, seen with strides of
// zero.
bool chip_bias_gradient(const ConvLabels& labels, const Tensor& grad, const Tensor& out, presil_compute compute) {
  return chip_bias_gradient(labels, grad, chip_constant(1, grad), out, compute);
}
bool chip_bias_gradient(const ConvLabels& labels, const Tensor& grad, const Tensor& one, const Tensor& out,
                        presil_compute compute) {
  const Tensor input = one.as_strided({grad.size(0), 1, grad.size(2), grad.size(3)}, {0, 0, 0, 0});
  return chip_weight_grad(labels.bias_grad, input, grad, out.view({-1, 1, 1, 1}), compute, {});
}

namespace {

bool on_chip(const Tensor& grad, const Tensor& x, const Tensor& w, Ints stride) {
  for (const Tensor* t : {&grad, &x, &w})
    if (t->dim() != x.dim() || t->numel() == 0 || !chip_dtype(t->scalar_type()) ||
        t->scalar_type() != grad.scalar_type() || t->is_neg())
      return false;
  return stride.size() + 2 == static_cast<size_t>(x.dim()) && (x.dim() == 4 || x.dim() == 5);
}

// Room for a kernel's gradient as the chip makes it: the outputs, its cells, side by side.
Tensor rows_of_outputs(const Tensor& w, c10::ScalarType type) {
  return at::empty({w.size(1), w.size(2), w.size(3), w.size(0)}, w.options().dtype(type)).permute({3, 0, 1, 2});
}

using Gradients = std::tuple<Tensor, Tensor, Tensor>;

Gradients backward_on_host(const Tensor& grad, const Tensor& x, const Tensor& w, Ints stride, Ints padding,
                           Ints dilation, bool transposed, Ints output_padding, int64_t groups,
                           std::array<bool, 3> mask, const char* reason) {
  const std::vector<int64_t> bias_size{transposed ? w.size(1) * groups : w.size(0)};
  return on_host("aten::convolution_backward_overrideable", reason, x.device().index(), [&](HostViews& v) {
    return at::convolution_backward(v.to_host(grad), v.to_host(x), v.to_host(w), c10::OptionalIntArrayRef(bias_size),
                                    stride, padding, dilation, transposed, output_padding, groups, mask);
  });
}

Gradients convolution_backward(const Tensor& grad, const Tensor& x, const Tensor& w, Ints stride, Ints padding,
                               Ints dilation, bool transposed, Ints output_padding, int64_t groups,
                               std::array<bool, 3> mask) {
  const auto host = [&](std::array<bool, 3> wanted, const char* reason) {
    return backward_on_host(grad, x, w, stride, padding, dilation, transposed, output_padding, groups, wanted, reason);
  };
  if (!on_chip(grad, x, w, stride)) return host(mask, "dtype or empty operand");
  const auto dtype = x.scalar_type();
  const bool depth = x.dim() == 5;
  const Conv3dArguments a{
      plane_arguments(stride, padding, dilation, transposed, groups, compute_for(dtype, Fp32Op::conv)), stride[0],
      padding[0], dilation[0]};
  const ConvLabels& labels = conv_labels(transposed, depth);
  const auto last = channels_last(depth);
  const Tensor g = widened(grad).contiguous(last), in = mask[1] ? widened(x).contiguous(last) : x;
  const auto like = [&](const Tensor& t, c10::MemoryFormat format) {
    return at::empty(t.sizes(), t.options().dtype(memory_type(dtype, x.device().index())), format);
  };
  std::array<Tensor, 3> out;
  std::array<bool, 3> left{};
  std::string reason;
  const auto launched = [&](int i, bool ok) {
    if (ok) return;
    left[i] = true;
    reason = presil_error_text();
  };
  const auto own = x.suggest_memory_format(), of_kernel = w.suggest_memory_format();
  if (mask[0]) {
    const Tensor kernel = widened(w).contiguous(last);
    out[0] = like(x, last);
    launched(0, depth                       ? chip_conv3d_input_gradient(g, kernel, out[0], a)
                : is_in_rows(x, w, a.plane) ? chip_input_gradient_in_rows(labels, g, kernel, out[0], a.plane)
                                            : chip_input_gradient(labels, g, kernel, out[0], a.plane));
  }
  if (mask[1]) {
    out[1] = depth ? like(w, of_kernel) : rows_of_outputs(w, memory_type(dtype, x.device().index()));
    launched(1, depth ? chip_conv3d_weight_gradient(g, in, out[1], a)
                      : chip_weight_gradient(labels, g, in, out[1], a.plane));
  }
  if (mask[2]) {
    out[2] = at::empty({g.size(1)}, g.options());
    launched(2, depth ? chip_conv3d_bias_gradient(g, out[2], a.plane.compute)
                      : chip_bias_gradient(labels, g, out[2], a.plane.compute));
  }
  if (left[0] || left[1] || left[2]) {
    auto rest = host(left, reason.c_str());
    if (left[0]) out[0] = std::get<0>(rest);
    if (left[1]) out[1] = std::get<1>(rest);
    if (left[2]) out[2] = std::get<2>(rest);
  }
  for (Tensor& t : out)
    if (t.defined()) t = rounded(t, dtype);
  if (mask[0] && !left[0]) out[0] = out[0].contiguous(own == c10::MemoryFormat::Contiguous ? of_kernel : own);
  if (mask[1] && !left[1]) out[1] = out[1].contiguous(of_kernel);
  return {out[0], out[1], out[2]};
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  PRESIL_IMPL_ON_ONE_DEVICE(m, "convolution_backward_overrideable", convolution_backward);
}

}  // namespace
}  // namespace presil
