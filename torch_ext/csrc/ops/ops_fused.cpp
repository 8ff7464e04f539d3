// SPDX-License-Identifier: Apache-2.0
// presil::conv2d, presil::linear and their int8 variants: convolution or linear layer with everything that the chip's
// epilogue does behind it.
#include "ops/chip_ops.h"
#include "host/fallback.h"
#include "ops/clamps.h"
#include "ops/one_device.h"

#include <torch/library.h>

#include <cmath>

namespace presil {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using Ints = c10::IntArrayRef;

void set_bounds(Fusion& f, const Bounds& bounds) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  f.clamp = bounds.low || bounds.high;
  if (!f.clamp) return;
  f.low = bounds.low.value_or(-infinity);
  f.high = bounds.high.value_or(infinity);
}

ConvGeometry make_geometry(Ints stride, Ints padding, Ints dilation, int64_t groups) {
  TORCH_CHECK_VALUE(stride.size() == 2 && padding.size() == 2 && dilation.size() == 2,
                    "presil: stride, padding and dilation need two values each");
  ConvGeometry g;
  for (int i = 0; i < 2; i++) {
    g.stride[i] = stride[i];
    g.padding[i] = padding[i];
    g.dilation[i] = dilation[i];
  }
  g.groups = groups;
  return g;
}

Tensor empty_output(const Tensor& x, const Tensor& w, const ConvGeometry& g, c10::ScalarType dtype) {
  TORCH_CHECK_VALUE(x.dim() == 4 && w.dim() == 4,
                    "presil: input and weight must be 4-D (N, C, H, W) and (O, I/groups, KH, KW), got ", x.sizes(),
                    " and ", w.sizes());
  TORCH_CHECK_VALUE(w.size(1) * g.groups == x.size(1), "presil: weight ", w.sizes(), " with groups=", g.groups,
                    " does not fit an input of ", x.size(1), " channels");
  const int64_t h = conv_output_size(x.size(2), w.size(2), g.stride[0], g.padding[0], g.dilation[0]);
  const int64_t v = conv_output_size(x.size(3), w.size(3), g.stride[1], g.padding[1], g.dilation[1]);
  TORCH_CHECK_VALUE(h > 0 && v > 0, "presil: kernel ", w.sizes(), " is larger than the padded input ", x.sizes());
  return at::empty({x.size(0), w.size(0), h, v}, x.options().dtype(dtype), c10::MemoryFormat::ChannelsLast);
}

// What the chip has no format for (float64), or refuses: the same by the CPU's operators, on the mapping.
Tensor conv2d_on_host(const std::string& reason, const Tensor& x, const Tensor& w, const OptionalTensor& bias,
                      const ConvGeometry& g, const OptionalTensor& residual, const Bounds& bounds,
                      c10::ScalarType dtype) {
  return on_host("presil::conv2d", reason, x.device().index(), [&](HostViews& v) {
    const auto optional = [&](const OptionalTensor& t) {
      return t && t->defined() ? OptionalTensor(v.to_host(*t)) : std::nullopt;
    };
    Tensor y = at::conv2d(v.to_host(x), v.to_host(w), optional(bias), g.stride, g.padding, g.dilation, g.groups);
    if (const auto r = optional(residual)) y = y + *r;
    return activated(y, bounds).to(dtype).contiguous(c10::MemoryFormat::ChannelsLast);
  });
}

// docs/numerics.md 7 step by step, where the chip refuses: sums of int8 products are exact in double.
Tensor conv2d_int8_on_host(const std::string& reason, const Tensor& x, const WeightRequest& request,
                           const ConvGeometry& g, const Fusion& fusion, const OptionalTensor& residual, uint8_t pad) {
  return on_host("presil::conv2d_int8", reason, x.device().index(), [&](HostViews& v) {
    const Tensor padded =
        at::constant_pad_nd(v.to_host(x).to(c10::kDouble), {g.padding[1], g.padding[1], g.padding[0], g.padding[0]},
                            static_cast<int8_t>(pad));
    const Tensor products = at::conv2d(padded, v.to_host(request.weight).to(c10::kDouble), std::nullopt, g.stride,
                                       Ints{0, 0}, g.dilation, g.groups);
    const Tensor sums = (products.to(c10::kLong) + v.to_host(request.bias).view({1, -1, 1, 1})).to(c10::kInt);
    Tensor y = sums.to(c10::kFloat) * v.to_host(request.scale).view({1, -1, 1, 1});
    if (residual && residual->defined() && residual->scalar_type() != c10::kChar)
      y = y + v.to_host(*residual);
    else if (residual && residual->defined())
      y = y + (v.to_host(*residual).to(c10::kInt) - fusion.residual_zero_point).to(c10::kFloat) *
                  static_cast<float>(fusion.residual_scale);
    if (!fusion.int8_output) return y.clamp(fusion.low, fusion.high).contiguous(c10::MemoryFormat::ChannelsLast);
    const Tensor codes = at::round(y).to(c10::kDouble) + fusion.out_zero_point;
    return codes.clamp(fusion.int_low, fusion.int_high).to(c10::kChar).contiguous(c10::MemoryFormat::ChannelsLast);
  });
}

// False: the chip refuses, presil_error_text() says why.
bool run(const char* label, const Tensor& x, const WeightRequest& request, const Tensor& out, const ConvGeometry& g,
         Fusion& fusion, const OptionalTensor& residual, uint8_t pad) {
  if (residual && residual->defined()) {
    TORCH_CHECK_VALUE(residual->sizes() == out.sizes() && residual->device() == out.device(),
                      "presil: the residual must have the output's shape ", out.sizes(), " and device, got ",
                      residual->sizes());
    fusion.residual = widened(*residual).contiguous(c10::MemoryFormat::ChannelsLast);
  }
  if (out.numel() == 0) return true;
  const Tensor input = widened(x).contiguous(c10::MemoryFormat::ChannelsLast);
  return chip_conv2d(label, input, request, out, g, fusion, pad);
}

// op: whose setting of float32's precision holds.
Tensor layer(const Tensor& x, const Tensor& w, const OptionalTensor& bias, Ints stride, Ints padding, Ints dilation,
             int64_t groups, const OptionalTensor& residual, c10::string_view activation,
             std::optional<c10::ScalarType> out_dtype, c10::string_view label, Fp32Op op) {
  TORCH_CHECK_TYPE(at::isFloatingType(x.scalar_type()) && w.scalar_type() == x.scalar_type(),
                   "presil::conv2d: input and weight must have the same floating-point dtype, got ", x.scalar_type(),
                   " and ", w.scalar_type());
  const ConvGeometry g = make_geometry(stride, padding, dilation, groups);
  const Bounds bounds = bounds_of_activation(activation);
  const c10::ScalarType dtype = out_dtype.value_or(x.scalar_type());
  TORCH_CHECK_TYPE(at::isFloatingType(dtype), "presil::conv2d: out_dtype must be a floating-point dtype, got ", dtype);
  if (!chip_dtype(x.scalar_type()) || !chip_dtype(dtype))
    return conv2d_on_host("the chip has no such dtype", x, w, bias, g, residual, bounds, dtype);
  Fusion fusion;
  set_bounds(fusion, bounds);
  WeightRequest request;
  request.weight = w;
  if (bias && bias->defined()) request.bias = *bias;
  request.compute = compute_for(x.scalar_type(), op);
  request.groups = groups;
  request.dilation = g.dilation;
  const Tensor out = empty_output(x, w, g, memory_type(dtype, x.device().index()));
  if (!run(std::string(label).c_str(), x, request, out, g, fusion, residual, 0))
    return conv2d_on_host(presil_error_text(), x, w, bias, g, residual, bounds, dtype);
  return rounded(out, dtype);
}

Tensor conv2d(const Tensor& x, const Tensor& w, const OptionalTensor& bias, Ints stride, Ints padding, Ints dilation,
              int64_t groups, const OptionalTensor& residual, c10::string_view activation,
              std::optional<c10::ScalarType> out_dtype, c10::string_view label) {
  return layer(x, w, bias, stride, padding, dilation, groups, residual, activation, out_dtype, label, Fp32Op::conv);
}

// What int8 products have around them: zero points and scales, and the bounds in codes or, where the result is real, in
// fusion.low and high.
struct Int8Layer {
  const Tensor &x, &w, &bias, &scale;
  ConvGeometry geometry;
  int64_t input_zero_point;
  const OptionalTensor& residual;
  Fusion fusion;
};

void check_int8(const Int8Layer& l) {
  TORCH_CHECK_TYPE(l.x.scalar_type() == c10::kChar && l.w.scalar_type() == c10::kChar &&
                       l.bias.scalar_type() == c10::kInt && l.scale.scalar_type() == c10::kFloat,
                   "presil::conv2d_int8: expected int8 input and weight, int32 bias, float32 scale; got ",
                   l.x.scalar_type(), ", ", l.w.scalar_type(), ", ", l.bias.scalar_type(), ", ", l.scale.scalar_type());
  const auto in_int8 = [](int64_t v) { return v >= -128 && v <= 127; };
  TORCH_CHECK_VALUE(in_int8(l.input_zero_point) && in_int8(l.fusion.out_zero_point) &&
                        in_int8(l.fusion.residual_zero_point),
                    "presil::conv2d_int8: zero points must be in [-128, 127]");
  TORCH_CHECK_VALUE(in_int8(l.fusion.int_low) && in_int8(l.fusion.int_high) && l.fusion.int_low <= l.fusion.int_high,
                    "presil::conv2d_int8: -128 <= low <= high <= 127 expected, got ", l.fusion.int_low, " and ",
                    l.fusion.int_high);
  TORCH_CHECK_TYPE(!l.residual || !l.residual->defined() || l.residual->scalar_type() == c10::kChar ||
                       (!l.fusion.int8_output && l.residual->scalar_type() == c10::kFloat),
                   "presil::conv2d_int8: the residual must be int8 (or float32 where the result is), got ",
                   l.residual->scalar_type());
}

Tensor launch_int8(Int8Layer l, c10::string_view label) {
  check_int8(l);
  WeightRequest request;
  request.weight = l.w;
  request.bias = l.bias;
  request.scale = l.scale;
  request.compute = PRESIL_COMPUTE_INT8;
  request.groups = l.geometry.groups;
  request.dilation = l.geometry.dilation;
  const auto pad = static_cast<uint8_t>(l.input_zero_point);
  const Tensor out = empty_output(l.x, l.w, l.geometry, l.fusion.int8_output ? c10::kChar : c10::kFloat);
  if (!run(std::string(label).c_str(), l.x, request, out, l.geometry, l.fusion, l.residual, pad))
    return conv2d_int8_on_host(presil_error_text(), l.x, request, l.geometry, l.fusion, l.residual, pad);
  return out;
}

Fusion int8_fusion(int64_t zero_point, int64_t low, int64_t high, double residual_scale, int64_t residual_zero_point) {
  Fusion f;
  f.int8_output = true;
  f.out_zero_point = zero_point;
  f.int_low = low;
  f.int_high = high;
  f.residual_scale = residual_scale;
  f.residual_zero_point = residual_zero_point;
  return f;
}

Fusion real_fusion(double low, double high, double residual_scale, int64_t residual_zero_point) {
  TORCH_CHECK_VALUE(low <= high, "presil::conv2d_int8: low <= high expected, got ", low, " and ", high);
  Fusion f;
  f.low = low;
  f.high = high;
  f.clamp = !std::isinf(low) || !std::isinf(high);
  f.residual_scale = residual_scale;
  f.residual_zero_point = residual_zero_point;
  return f;
}

Tensor conv2d_int8(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& scale, Ints stride, Ints padding,
                   Ints dilation, int64_t groups, int64_t input_zero_point, int64_t output_zero_point,
                   const OptionalTensor& residual, double residual_scale, int64_t residual_zero_point, bool relu,
                   c10::string_view label) {
  return launch_int8(
      {x, w, bias, scale, make_geometry(stride, padding, dilation, groups), input_zero_point, residual,
       int8_fusion(output_zero_point, relu ? output_zero_point : -128, 127, residual_scale, residual_zero_point)},
      label);
}

Tensor conv2d_int8_range(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& scale, Ints stride,
                         Ints padding, Ints dilation, int64_t groups, int64_t input_zero_point,
                         int64_t output_zero_point, const OptionalTensor& residual, double residual_scale,
                         int64_t residual_zero_point, int64_t low, int64_t high, c10::string_view label) {
  return launch_int8({x, w, bias, scale, make_geometry(stride, padding, dilation, groups), input_zero_point, residual,
                      int8_fusion(output_zero_point, low, high, residual_scale, residual_zero_point)},
                     label);
}

Tensor conv2d_int8_real(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& scale, Ints stride,
                        Ints padding, Ints dilation, int64_t groups, int64_t input_zero_point,
                        const OptionalTensor& residual, double residual_scale, int64_t residual_zero_point, double low,
                        double high, c10::string_view label) {
  return launch_int8({x, w, bias, scale, make_geometry(stride, padding, dilation, groups), input_zero_point, residual,
                      real_fusion(low, high, residual_scale, residual_zero_point)},
                     label);
}

// A linear layer is a 1x1 convolution over rows: [*, K] as one image of `rows` pixels.
Tensor as_pixels(const Tensor& x) { return x.reshape({1, -1, 1, x.size(-1)}).permute({0, 3, 2, 1}); }
Tensor as_kernel(const Tensor& w) {
  TORCH_CHECK_VALUE(w.dim() == 2, "presil: the weight of a linear layer must be 2-D (out, in), got ", w.sizes());
  return w.view({w.size(0), w.size(1), 1, 1});
}
Tensor as_rows(const Tensor& pixels, const Tensor& like) {
  auto sizes = like.sizes().vec();
  sizes.back() = pixels.size(1);
  return pixels.permute({0, 3, 2, 1}).reshape(sizes);
}
OptionalTensor residual_pixels(const OptionalTensor& r) {
  return r && r->defined() ? OptionalTensor(as_pixels(*r)) : std::nullopt;
}

Tensor linear(const Tensor& x, const Tensor& w, const OptionalTensor& bias, const OptionalTensor& residual,
              c10::string_view activation, std::optional<c10::ScalarType> out_dtype, c10::string_view label) {
  const int64_t one[] = {1, 1}, zero[] = {0, 0};
  return as_rows(layer(as_pixels(x), as_kernel(w), bias, one, zero, one, 1, residual_pixels(residual), activation,
                       out_dtype, label, Fp32Op::matmul),
                 x);
}

Tensor linear_int8(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& scale, int64_t input_zero_point,
                   int64_t output_zero_point, const OptionalTensor& residual, double residual_scale,
                   int64_t residual_zero_point, bool relu, c10::string_view label) {
  const int64_t one[] = {1, 1}, zero[] = {0, 0};
  return as_rows(conv2d_int8(as_pixels(x), as_kernel(w), bias, scale, one, zero, one, 1, input_zero_point,
                             output_zero_point, residual_pixels(residual), residual_scale, residual_zero_point, relu,
                             label),
                 x);
}

Tensor linear_int8_range(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& scale,
                         int64_t input_zero_point, int64_t output_zero_point, const OptionalTensor& residual,
                         double residual_scale, int64_t residual_zero_point, int64_t low, int64_t high,
                         c10::string_view label) {
  const int64_t one[] = {1, 1}, zero[] = {0, 0};
  return as_rows(conv2d_int8_range(as_pixels(x), as_kernel(w), bias, scale, one, zero, one, 1, input_zero_point,
                                   output_zero_point, residual_pixels(residual), residual_scale, residual_zero_point,
                                   low, high, label),
                 x);
}

Tensor linear_int8_real(const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& scale,
                        int64_t input_zero_point, const OptionalTensor& residual, double residual_scale,
                        int64_t residual_zero_point, double low, double high, c10::string_view label) {
  const int64_t one[] = {1, 1}, zero[] = {0, 0};
  return as_rows(conv2d_int8_real(as_pixels(x), as_kernel(w), bias, scale, one, zero, one, 1, input_zero_point,
                                  residual_pixels(residual), residual_scale, residual_zero_point, low, high, label),
                 x);
}

TORCH_LIBRARY(presil, m) {
  m.def("conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=[1,1], int[2] padding=[0,0], int[2] "
        "dilation=[1,1], int groups=1, Tensor? residual=None, str activation='none', "
        "ScalarType? out_dtype=None, str label='conv2d') -> Tensor");
  m.def("conv2d_int8(Tensor input, Tensor weight, Tensor bias, Tensor scale, int[2] stride, int[2] padding, int[2] "
        "dilation, int groups, int input_zero_point, int output_zero_point, "
        "Tensor? residual=None, float residual_scale=1.0, int residual_zero_point=0, bool relu=False, str "
        "label='conv2d_int8') -> Tensor");
  // Codes within [low, high]; and the sums as float32, times the scale, within real bounds.
  m.def("conv2d_int8.range(Tensor input, Tensor weight, Tensor bias, Tensor scale, int[2] stride, int[2] padding, "
        "int[2] dilation, int groups, int input_zero_point, int output_zero_point, Tensor? residual, float "
        "residual_scale, int residual_zero_point, int low, int high, str label) -> Tensor");
  m.def("conv2d_int8.real(Tensor input, Tensor weight, Tensor bias, Tensor scale, int[2] stride, int[2] padding, "
        "int[2] dilation, int groups, int input_zero_point, Tensor? residual, float residual_scale, int "
        "residual_zero_point, float low, float high, str label) -> Tensor");
  m.def("linear(Tensor input, Tensor weight, Tensor? bias=None, Tensor? residual=None, str activation='none', "
        "ScalarType? out_dtype=None, str label='linear') -> Tensor");
  m.def("linear_int8(Tensor input, Tensor weight, Tensor bias, Tensor scale, int input_zero_point, int "
        "output_zero_point, Tensor? residual=None, float residual_scale=1.0, "
        "int residual_zero_point=0, bool relu=False, str label='linear_int8') -> Tensor");
  m.def("linear_int8.range(Tensor input, Tensor weight, Tensor bias, Tensor scale, int input_zero_point, int "
        "output_zero_point, Tensor? residual, float residual_scale, int residual_zero_point, int low, int high, str "
        "label) -> Tensor");
  m.def("linear_int8.real(Tensor input, Tensor weight, Tensor bias, Tensor scale, int input_zero_point, Tensor? "
        "residual, float residual_scale, int residual_zero_point, float low, float high, str label) -> Tensor");
}
TORCH_LIBRARY_IMPL(presil, PrivateUse1, m) {
  PRESIL_IMPL_ON_ONE_DEVICE(m, "conv2d", conv2d);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "conv2d_int8", conv2d_int8);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "linear", linear);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "linear_int8", linear_int8);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "conv2d_int8.range", conv2d_int8_range);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "conv2d_int8.real", conv2d_int8_real);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "linear_int8.range", linear_int8_range);
  PRESIL_IMPL_ON_ONE_DEVICE(m, "linear_int8.real", linear_int8_real);
}

}  // namespace
}  // namespace presil
