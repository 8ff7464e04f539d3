// SPDX-License-Identifier: Apache-2.0
// Deformable convolution: samples gathered into columns [C * kh * kw, oh * ow], then one matrix product a group.
#include "vision/vision.h"

#include <cmath>

namespace presil::vision {
namespace {

struct Geometry {
  int64_t c, h, w, kh, kw, oh, ow, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups;
  bool use_mask;

  // The operands of one sample: input channel, tap (i, j) and output pixel fix where it is taken.
  template <typename Visit> void for_each(Visit&& visit) const {
    const int64_t pixels = oh * ow, taps = kh * kw;
    for (int64_t channel = 0; channel < c; channel++)
      for (int64_t tap = 0; tap < taps; tap++) {
        const int64_t entry = channel / (c / offset_groups) * taps + tap;  // of mask; offsets have two a tap
        for (int64_t p = 0; p < pixels; p++)
          visit(channel, (channel * taps + tap) * pixels + p, 2 * entry * pixels + p, (2 * entry + 1) * pixels + p,
                entry * pixels + p, p / ow * stride_h - pad_h + tap / kw * dilation_h,
                p % ow * stride_w - pad_w + tap % kw * dilation_w);
      }
  }
};

// Value of a plane between its pixels, with its slopes; pixels outside are 0.
template <typename T> struct Interpolation {
  T corner[4], weight[4];
  int64_t at[4];  // -1: outside
  T fy, fx;

  Interpolation(const T* plane, T y, T x, int64_t h, int64_t w) {
    const int64_t top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
    fy = y - top, fx = x - left;
    for (int k = 0; k < 4; k++) {
      const int64_t v = top + k / 2, u = left + k % 2;
      at[k] = v >= 0 && v < h && u >= 0 && u < w ? v * w + u : -1;
      corner[k] = at[k] >= 0 ? plane[at[k]] : T(0);
      weight[k] = (k / 2 ? fy : 1 - fy) * (k % 2 ? fx : 1 - fx);
    }
  }
  T value() const {
    return weight[0] * corner[0] + weight[1] * corner[1] + weight[2] * corner[2] + weight[3] * corner[3];
  }
  T slope_y() const { return (1 - fx) * (corner[2] - corner[0]) + fx * (corner[3] - corner[1]); }
  T slope_x() const { return (1 - fy) * (corner[1] - corner[0]) + fy * (corner[3] - corner[2]); }
};

// Also NaN and what no integer holds is far away.
template <typename T> bool near(T y, T x, const Geometry& g) { return y > -1 && y < g.h && x > -1 && x < g.w; }

template <typename T> void gather(const T* image, const T* offset, const T* mask, T* columns, const Geometry& g) {
  g.for_each([&](int64_t channel, int64_t column, int64_t at_y, int64_t at_x, int64_t at_mask, int64_t base_y,
                 int64_t base_x) {
    const T y = base_y + offset[at_y], x = base_x + offset[at_x];
    columns[column] = near(y, x, g) ? Interpolation<T>(image + channel * g.h * g.w, y, x, g.h, g.w).value() *
                                          (g.use_mask ? mask[at_mask] : T(1))
                                    : T(0);
  });
}

template <typename T>
void scatter(const T* columns, const T* image, const T* offset, const T* mask, T* grad_image, T* grad_offset,
             T* grad_mask, const Geometry& g) {
  g.for_each([&](int64_t channel, int64_t column, int64_t at_y, int64_t at_x, int64_t at_mask, int64_t base_y,
                 int64_t base_x) {
    const T y = base_y + offset[at_y], x = base_x + offset[at_x];
    if (!near(y, x, g)) return;
    const Interpolation<T> sample(image + channel * g.h * g.w, y, x, g.h, g.w);
    const T upper = columns[column], scaled = upper * (g.use_mask ? mask[at_mask] : T(1));
    for (int k = 0; k < 4; k++)
      if (sample.at[k] >= 0) grad_image[channel * g.h * g.w + sample.at[k]] += scaled * sample.weight[k];
    grad_offset[at_y] += scaled * sample.slope_y();
    grad_offset[at_x] += scaled * sample.slope_x();
    if (g.use_mask) grad_mask[at_mask] += upper * sample.value();
  });
}

Geometry geometry(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                  const Tensor& bias, Geometry g) {
  TORCH_CHECK(input.dim() == 4 && weight.dim() == 4 && offset.dim() == 4,
              "deform_conv2d: input, weight and offset must have four dimensions, got ", input.sizes(), ", ",
              weight.sizes(), ", ", offset.sizes());
  g.c = input.size(1), g.h = input.size(2), g.w = input.size(3), g.kh = weight.size(2), g.kw = weight.size(3);
  TORCH_CHECK(g.kh > 0 && g.kw > 0 && g.stride_h > 0 && g.stride_w > 0 && g.dilation_h > 0 && g.dilation_w > 0 &&
                  g.pad_h >= 0 && g.pad_w >= 0,
              "deform_conv2d: kernel, stride and dilation must be positive, padding at least 0");
  TORCH_CHECK(g.groups > 0 && weight.size(1) * g.groups == g.c && weight.size(0) % g.groups == 0,
              "deform_conv2d: weight ", weight.sizes(), " with ", g.groups, " groups does not fit an input of ", g.c,
              " channels");
  TORCH_CHECK(g.offset_groups > 0 && g.c % g.offset_groups == 0, "deform_conv2d: ", g.c, " channels can't be cut into ",
              g.offset_groups, " offset groups");
  g.oh = (g.h + 2 * g.pad_h - g.dilation_h * (g.kh - 1) - 1) / g.stride_h + 1;
  g.ow = (g.w + 2 * g.pad_w - g.dilation_w * (g.kw - 1) - 1) / g.stride_w + 1;
  TORCH_CHECK(g.oh > 0 && g.ow > 0, "deform_conv2d: kernel ", weight.sizes(), " is larger than the padded input ",
              input.sizes());
  const int64_t entries = g.offset_groups * g.kh * g.kw;
  TORCH_CHECK(offset.sizes() == at::IntArrayRef({input.size(0), 2 * entries, g.oh, g.ow}),
              "deform_conv2d: offset must have the shape ", at::IntArrayRef({input.size(0), 2 * entries, g.oh, g.ow}),
              ", got ", offset.sizes());
  TORCH_CHECK(!g.use_mask || mask.sizes() == at::IntArrayRef({input.size(0), entries, g.oh, g.ow}),
              "deform_conv2d: mask must have the shape ", at::IntArrayRef({input.size(0), entries, g.oh, g.ow}),
              ", got ", mask.sizes());
  TORCH_CHECK(bias.sizes() == at::IntArrayRef({weight.size(0)}), "deform_conv2d: bias must have the shape [",
              weight.size(0), "], got ", bias.sizes());
  for (const Tensor& t : {weight, offset, mask, bias})
    TORCH_CHECK(t.scalar_type() == input.scalar_type(), "deform_conv2d: all operands must have the input's type ",
                input.scalar_type(), ", got ", t.scalar_type());
  return g;
}

}  // namespace

Tensor deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                     const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
                     int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const Geometry g = geometry(
      input, weight, offset, mask, bias,
      {0, 0, 0, 0, 0, 0, 0, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask});
  const Tensor x = computable(input), w = computable(weight).view({groups, weight.size(0) / groups, -1}),
               d = computable(offset), m = computable(mask);
  Tensor out = at::empty({x.size(0), weight.size(0), g.oh, g.ow}, x.options());
  Tensor columns = at::empty({groups, g.c / groups * g.kh * g.kw, g.oh * g.ow}, x.options());
  for (int64_t image = 0; image < x.size(0); image++) {
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "deform_conv2d", [&] {
      gather(x[image].const_data_ptr<scalar_t>(), d[image].const_data_ptr<scalar_t>(),
             use_mask ? m[image].const_data_ptr<scalar_t>() : nullptr, columns.mutable_data_ptr<scalar_t>(), g);
    });
    out[image].copy_(at::bmm(w, columns).view({-1, g.oh, g.ow}));
  }
  return out.add_(computable(bias).view({1, -1, 1, 1})).to(input.scalar_type());
}

std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> deform_conv2d_backward(
    const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
    const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h,
    int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask) {
  const Geometry g = geometry(
      input, weight, offset, mask, bias,
      {0, 0, 0, 0, 0, 0, 0, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, offset_groups, use_mask});
  TORCH_CHECK(grad.sizes() == at::IntArrayRef({input.size(0), weight.size(0), g.oh, g.ow}),
              "deform_conv2d backward: the gradient must have the output's shape, got ", grad.sizes());
  const Tensor x = computable(input), w = computable(weight).view({groups, weight.size(0) / groups, -1}),
               d = computable(offset), m = computable(mask);
  const Tensor upper = computable(grad).view({x.size(0), groups, weight.size(0) / groups, -1});
  const Tensor gx = at::zeros_like(x), gd = at::zeros_like(d), gm = at::zeros_like(m), gw = at::zeros_like(w);
  Tensor columns = at::empty({groups, g.c / groups * g.kh * g.kw, g.oh * g.ow}, x.options());
  for (int64_t image = 0; image < x.size(0); image++) {
    const Tensor from_output = at::bmm(w.transpose(1, 2), upper[image]).contiguous();
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "deform_conv2d backward", [&] {
      const auto* mask_data = use_mask ? m[image].const_data_ptr<scalar_t>() : nullptr;
      auto* mask_grad = use_mask ? gm[image].mutable_data_ptr<scalar_t>() : nullptr;
      gather(x[image].const_data_ptr<scalar_t>(), d[image].const_data_ptr<scalar_t>(), mask_data,
             columns.mutable_data_ptr<scalar_t>(), g);
      scatter(from_output.const_data_ptr<scalar_t>(), x[image].const_data_ptr<scalar_t>(),
              d[image].const_data_ptr<scalar_t>(), mask_data, gx[image].mutable_data_ptr<scalar_t>(),
              gd[image].mutable_data_ptr<scalar_t>(), mask_grad, g);
    });
    gw.add_(at::bmm(upper[image], columns.transpose(1, 2)));
  }
  const auto type = input.scalar_type();
  return {gx.to(type), gw.view(weight.sizes()).to(type), gd.to(type), gm.to(type),
          computable(grad).sum({0, 2, 3}).to(type)};
}

}  // namespace presil::vision
