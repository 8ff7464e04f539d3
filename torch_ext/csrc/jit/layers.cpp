// SPDX-License-Identifier: Apache-2.0
// presil::conv2d_layer and presil::linear_layer: what lowering writes for convolution or linear layer, residual add,
// activation. Shapes are known only when they run: one chip operator where the chip can fuse them, else the parts, with
// the same result. They have no kernel of their own, so autograd, meta and every device work.
#include "ops/chip_ops.h"
#include "ops/clamps.h"
#include "ops/fused_operators.h"

#include <torch/library.h>

namespace presil {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Ints = c10::IntArrayRef;

Tensor behind(const Tensor& y, const OptionalTensor& residual, c10::string_view activation) {
  return activated(residual && residual->defined() ? y + *residual : y, bounds_of_activation(activation));
}

bool same_kind(const Tensor& x, const OptionalTensor& t) {
  return !t || !t->defined() || (t->device() == x.device() && t->scalar_type() == x.scalar_type());
}

// Sizes are numbers, which they are not while something traces with symbolic shapes: then the parts are what it sees.
bool concrete(const Tensor& x, const OptionalTensor& residual) {
  return !x.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
         !(residual && residual->defined() && residual->unsafeGetTensorImpl()->has_symbolic_sizes_strides());
}

// One operator computes this only for tensors of one device and dtype, and a residual that is not broadcast.
bool fuses(const Tensor& x, const Tensor& w, const OptionalTensor& bias, const OptionalTensor& residual, Ints output) {
  const bool kinds = x.device().type() == kDevice && chip_dtype(x.scalar_type()) && same_kind(x, w) &&
                     same_kind(x, bias) && same_kind(x, residual);
  return kinds && (!residual || !residual->defined() || residual->sizes() == output);
}

Tensor conv2d_layer(const Tensor& x, const Tensor& w, const OptionalTensor& bias, Ints stride, Ints padding,
                    Ints dilation, int64_t groups, const OptionalTensor& residual, c10::string_view activation,
                    c10::string_view label) {
  if (x.dim() == 4 && concrete(x, residual)) {
    std::array<int64_t, 4> output{x.size(0), w.size(0), 0, 0};
    for (int i = 0; i < 2; i++)
      output[2 + i] = conv_output_size(x.size(2 + i), w.size(2 + i), stride[i], padding[i], dilation[i]);
    const bool possible = x.numel() > 0 && output[2] > 0 && output[3] > 0 && x.size(1) == w.size(1) * groups;
    if (possible && fuses(x, w, bias, residual, output))
      return conv2d_operator().call(x, w, bias, stride, padding, dilation, groups, residual, activation, std::nullopt,
                                    label);
  }
  return behind(at::conv2d(x, w, bias, stride, padding, dilation, groups), residual, activation);
}

Tensor linear_layer(const Tensor& x, const Tensor& w, const OptionalTensor& bias, const OptionalTensor& residual,
                    c10::string_view activation, c10::string_view label) {
  if (x.dim() >= 1 && concrete(x, residual) && x.numel() > 0 && x.size(-1) == w.size(-1)) {
    auto output = x.sizes().vec();
    output.back() = w.size(0);
    if (fuses(x, w, bias, residual, output))
      return linear_operator().call(x, w, bias, residual, activation, std::nullopt, label);
  }
  return behind(at::linear(x, w, bias), residual, activation);
}

TORCH_LIBRARY_FRAGMENT(presil, m) {
  m.def("conv2d_layer(Tensor input, Tensor weight, Tensor? bias, int[2] stride, int[2] padding, int[2] dilation, int "
        "groups, Tensor? residual=None, str activation='none', "
        "str label='conv2d') -> Tensor",
        conv2d_layer);
  m.def("linear_layer(Tensor input, Tensor weight, Tensor? bias, Tensor? residual=None, str activation='none', str "
        "label='linear') -> Tensor",
        linear_layer);
}

}  // namespace
}  // namespace presil
