// SPDX-License-Identifier: Apache-2.0
// Gradients of presil::conv2d and presil::linear: the activation's on the host, the rest by convolution_backward and
// products of matrices, which are the chip's. Differentiable again.
#include "ops/fused_operators.h"
#include "ops/given.h"
#include "runtime/device.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace presil {
namespace {

using at::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using OptionalTensor = std::optional<Tensor>;
using Ints = c10::IntArrayRef;

// From the result alone: what was clamped equals a bound.
Tensor through_activation(const Tensor& grad, const Tensor& result, const std::string& activation) {
  if (activation == "relu") return at::threshold_backward(grad, result, 0);
  if (activation == "relu6") return at::hardtanh_backward(grad, result, 0, 6);
  return grad;
}

// What both layers keep for backward. bias, residual: as given_or_none() has them.
void keep(AutogradContext* ctx, const Tensor& x, const Tensor& w, const OptionalTensor& bias,
          const OptionalTensor& residual, const std::string& activation, const Tensor& y) {
  ctx->save_for_backward({x, w, activation == "none" ? Tensor() : y});
  auto& saved = ctx->saved_data;
  saved["activation"] = activation;
  saved["bias"] = bias.has_value();
  saved["residual"] = residual ? std::optional<int64_t>(static_cast<int64_t>(residual->scalar_type())) : std::nullopt;
}

Tensor before_activation(AutogradContext* ctx, const Tensor& grad) {
  return through_activation(grad, ctx->get_saved_variables()[2], ctx->saved_data["activation"].toStringRef());
}

// needs_input_grad counts the tensors that were given.
bool wants_bias(AutogradContext* ctx) { return ctx->saved_data["bias"].toBool() && ctx->needs_input_grad(2); }

Tensor residual_gradient(AutogradContext* ctx, const Tensor& grad) {
  auto& data = ctx->saved_data;
  if (data["residual"].isNone() || !ctx->needs_input_grad(data["bias"].toBool() ? 3 : 2)) return {};
  return grad.to(static_cast<c10::ScalarType>(data["residual"].toInt()));
}

struct Conv2d : torch::autograd::Function<Conv2d> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w, const OptionalTensor& bias, Ints stride,
                        Ints padding, Ints dilation, int64_t groups, const OptionalTensor& residual,
                        const std::string& activation, std::optional<c10::ScalarType> out_dtype,
                        const std::string& label) {
    at::AutoDispatchBelowADInplaceOrView below;
    Tensor y =
        conv2d_operator().call(x, w, bias, stride, padding, dilation, groups, residual, activation, out_dtype, label);
    keep(ctx, x, w, bias, residual, activation, y);
    auto& saved = ctx->saved_data;
    saved["stride"] = stride.vec();
    saved["padding"] = padding.vec();
    saved["dilation"] = dilation.vec();
    saved["groups"] = groups;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1];
    auto& data = ctx->saved_data;
    const Tensor grad = before_activation(ctx, grads[0]);
    const std::array<bool, 3> mask{ctx->needs_input_grad(0), ctx->needs_input_grad(1), wants_bias(ctx)};
    std::tuple<Tensor, Tensor, Tensor> out;
    if (mask[0] || mask[1] || mask[2])
      out = at::convolution_backward(
          grad.to(x.scalar_type()), x, w, c10::OptionalIntArrayRef(std::vector<int64_t>{w.size(0)}),
          data["stride"].toIntVector(), data["padding"].toIntVector(), data["dilation"].toIntVector(), false,
          std::vector<int64_t>{0, 0}, data["groups"].toInt(), mask);
    const Tensor residual = residual_gradient(ctx, grad);
    return {std::get<0>(out), std::get<1>(out), std::get<2>(out), Tensor(), Tensor(), Tensor(),
            Tensor(),         residual,         Tensor(),         Tensor(), Tensor()};
  }
};

// x: (*, K), w: (N, K).
struct Linear : torch::autograd::Function<Linear> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w, const OptionalTensor& bias,
                        const OptionalTensor& residual, const std::string& activation,
                        std::optional<c10::ScalarType> out_dtype, const std::string& label) {
    at::AutoDispatchBelowADInplaceOrView below;
    Tensor y = linear_operator().call(x, w, bias, residual, activation, out_dtype, label);
    keep(ctx, x, w, bias, residual, activation, y);
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1];
    const Tensor grad = before_activation(ctx, grads[0]);
    const Tensor rows = grad.to(x.scalar_type()).reshape({-1, w.size(0)});
    Tensor of_x, of_w, of_bias;
    if (ctx->needs_input_grad(0)) of_x = rows.mm(w).reshape(x.sizes());
    if (ctx->needs_input_grad(1)) of_w = rows.t().mm(x.reshape({-1, w.size(1)}));
    if (wants_bias(ctx)) of_bias = rows.sum(0);
    return {of_x, of_w, of_bias, residual_gradient(ctx, grad), Tensor(), Tensor(), Tensor()};
  }
};

bool wants(const OptionalTensor& t) { return t && t->defined() && t->requires_grad(); }

bool records(const Tensor& x, const Tensor& w, const OptionalTensor& bias, const OptionalTensor& residual) {
  return at::GradMode::is_enabled() && (x.requires_grad() || w.requires_grad() || wants(bias) || wants(residual));
}

Tensor conv2d_with_gradient(const Tensor& x, const Tensor& w, const OptionalTensor& bias, Ints stride, Ints padding,
                            Ints dilation, int64_t groups, const OptionalTensor& residual, c10::string_view activation,
                            std::optional<c10::ScalarType> out_dtype, c10::string_view label) {
  if (!records(x, w, bias, residual)) {
    at::AutoDispatchBelowADInplaceOrView below;
    return conv2d_operator().call(x, w, bias, stride, padding, dilation, groups, residual, activation, out_dtype,
                                  label);
  }
  return Conv2d::apply(x, w, given_or_none(bias), stride, padding, dilation, groups, given_or_none(residual),
                       std::string(activation), out_dtype, std::string(label));
}

Tensor linear_with_gradient(const Tensor& x, const Tensor& w, const OptionalTensor& bias,
                            const OptionalTensor& residual, c10::string_view activation,
                            std::optional<c10::ScalarType> out_dtype, c10::string_view label) {
  if (!records(x, w, bias, residual)) {
    at::AutoDispatchBelowADInplaceOrView below;
    return linear_operator().call(x, w, bias, residual, activation, out_dtype, label);
  }
  return Linear::apply(x, w, given_or_none(bias), given_or_none(residual), std::string(activation), out_dtype,
                       std::string(label));
}

TORCH_LIBRARY_IMPL(presil, AutogradPrivateUse1, m) {
  m.impl("conv2d", conv2d_with_gradient);
  m.impl("linear", linear_with_gradient);
}

}  // namespace
}  // namespace presil
