// SPDX-License-Identifier: Apache-2.0
// Gradients of presil::conv2d and presil::linear: the activation's on the host, the rest by convolution_backward and
// products of matrices, which are the chip's. Differentiable again.
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

using Conv2dFunction = Tensor(const Tensor&, const Tensor&, const OptionalTensor&, Ints, Ints, Ints, int64_t,
                              const OptionalTensor&, c10::string_view, std::optional<c10::ScalarType>,
                              c10::string_view);

using LinearFunction = Tensor(const Tensor&, const Tensor&, const OptionalTensor&, const OptionalTensor&,
                              c10::string_view, std::optional<c10::ScalarType>, c10::string_view);

const c10::TypedOperatorHandle<LinearFunction>& linear_operator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("presil::linear", "").typed<LinearFunction>();
  return op;
}

const c10::TypedOperatorHandle<Conv2dFunction>& conv2d_operator() {
  static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("presil::conv2d", "").typed<Conv2dFunction>();
  return op;
}

OptionalTensor given(const OptionalTensor& t) { return t && t->defined() ? t : std::nullopt; }

// From the result alone: what was clamped equals a bound.
Tensor through_activation(const Tensor& grad, const Tensor& result, const std::string& activation) {
  if (activation == "relu") return at::threshold_backward(grad, result, 0);
  if (activation == "relu6") return at::hardtanh_backward(grad, result, 0, 6);
  return grad;
}

struct Conv2d : torch::autograd::Function<Conv2d> {
  static Tensor forward(AutogradContext* ctx, const Tensor& x, const Tensor& w, const OptionalTensor& bias, Ints stride,
                        Ints padding, Ints dilation, int64_t groups, const OptionalTensor& residual,
                        const std::string& activation, std::optional<c10::ScalarType> out_dtype,
                        const std::string& label) {
    at::AutoDispatchBelowADInplaceOrView below;
    Tensor y =
        conv2d_operator().call(x, w, bias, stride, padding, dilation, groups, residual, activation, out_dtype, label);
    ctx->save_for_backward({x, w, activation == "none" ? Tensor() : y});
    auto& saved = ctx->saved_data;
    saved["stride"] = stride.vec();
    saved["padding"] = padding.vec();
    saved["dilation"] = dilation.vec();
    saved["groups"] = groups;
    saved["activation"] = activation;
    saved["bias"] = bias.has_value();
    saved["residual"] = residual ? std::optional<int64_t>(static_cast<int64_t>(residual->scalar_type())) : std::nullopt;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1];
    auto& data = ctx->saved_data;
    const Tensor grad = through_activation(grads[0], saved[2], data["activation"].toStringRef());
    const bool want_bias = data["bias"].toBool() && ctx->needs_input_grad(2);
    const std::array<bool, 3> mask{ctx->needs_input_grad(0), ctx->needs_input_grad(1), want_bias};
    std::tuple<Tensor, Tensor, Tensor> out;
    if (mask[0] || mask[1] || mask[2])
      out = at::convolution_backward(
          grad.to(x.scalar_type()), x, w, c10::OptionalIntArrayRef(std::vector<int64_t>{w.size(0)}),
          data["stride"].toIntVector(), data["padding"].toIntVector(), data["dilation"].toIntVector(), false,
          std::vector<int64_t>{0, 0}, data["groups"].toInt(), mask);
    Tensor residual;  // needs_input_grad counts the tensors that were given
    if (!data["residual"].isNone() && ctx->needs_input_grad(data["bias"].toBool() ? 3 : 2))
      residual = grad.to(static_cast<c10::ScalarType>(data["residual"].toInt()));
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
    ctx->save_for_backward({x, w, activation == "none" ? Tensor() : y});
    auto& saved = ctx->saved_data;
    saved["activation"] = activation;
    saved["bias"] = bias.has_value();
    saved["residual"] = residual ? std::optional<int64_t>(static_cast<int64_t>(residual->scalar_type())) : std::nullopt;
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& grads) {
    const auto saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &w = saved[1];
    auto& data = ctx->saved_data;
    const Tensor grad = through_activation(grads[0], saved[2], data["activation"].toStringRef());
    const Tensor rows = grad.to(x.scalar_type()).reshape({-1, w.size(0)});
    const bool has_bias = data["bias"].toBool();  // needs_input_grad counts the tensors that were given
    Tensor of_x, of_w, of_bias, of_residual;
    if (ctx->needs_input_grad(0)) of_x = rows.mm(w).reshape(x.sizes());
    if (ctx->needs_input_grad(1)) of_w = rows.t().mm(x.reshape({-1, w.size(1)}));
    if (has_bias && ctx->needs_input_grad(2)) of_bias = rows.sum(0);
    if (!data["residual"].isNone() && ctx->needs_input_grad(has_bias ? 3 : 2))
      of_residual = grad.to(static_cast<c10::ScalarType>(data["residual"].toInt()));
    return {of_x, of_w, of_bias, of_residual, Tensor(), Tensor(), Tensor()};
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
  return Conv2d::apply(x, w, given(bias), stride, padding, dilation, groups, given(residual), std::string(activation),
                       out_dtype, std::string(label));
}

Tensor linear_with_gradient(const Tensor& x, const Tensor& w, const OptionalTensor& bias,
                            const OptionalTensor& residual, c10::string_view activation,
                            std::optional<c10::ScalarType> out_dtype, c10::string_view label) {
  if (!records(x, w, bias, residual)) {
    at::AutoDispatchBelowADInplaceOrView below;
    return linear_operator().call(x, w, bias, residual, activation, out_dtype, label);
  }
  return Linear::apply(x, w, given(bias), given(residual), std::string(activation), out_dtype, std::string(label));
}

TORCH_LIBRARY_IMPL(presil, AutogradPrivateUse1, m) {
  m.impl("conv2d", conv2d_with_gradient);
  m.impl("linear", linear_with_gradient);
}

}  // namespace
}  // namespace presil
