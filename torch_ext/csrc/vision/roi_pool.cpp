// SPDX-License-Identifier: Apache-2.0
// roi_pool (largest value of a bin) and ps_roi_pool (mean of a bin, from a channel of its own): regions and bins on
// whole pixels.
#include "vision/vision.h"

#include <cmath>

namespace presil::vision {
namespace {

// Pixels [y0, y1) x [x0, x1) of a bin.
struct Bin {
  int64_t y0, y1, x0, x1;
  bool empty() const { return y1 <= y0 || x1 <= x0; }
};

// extra: pixels that a region's last coordinate counts for. height, width: where bins are cut off.
template <typename T>
Bin bin_of(const T* roi, double scale, int64_t i, int64_t j, int64_t ph, int64_t pw, int64_t height, int64_t width,
           int64_t extra) {
  const auto pixel = [&](T v) { return static_cast<int64_t>(std::round(v * static_cast<T>(scale))); };
  const int64_t x = pixel(roi[1]), y = pixel(roi[2]);
  const T bin_h = static_cast<T>(std::max<int64_t>(pixel(roi[4]) - y + extra, 1)) / ph,
          bin_w = static_cast<T>(std::max<int64_t>(pixel(roi[3]) - x + extra, 1)) / pw;
  const auto within = [](T v, int64_t from, int64_t end) {
    return std::clamp<int64_t>(static_cast<int64_t>(v) + from, 0, std::max<int64_t>(end, 0));
  };
  return {within(std::floor(i * bin_h), y, height), within(std::ceil((i + 1) * bin_h), y, height),
          within(std::floor(j * bin_w), x, width), within(std::ceil((j + 1) * bin_w), x, width)};
}

// A region's last row and column belong to it in roi_pool; ps_roi_pool leaves out the image's own last ones.
template <typename T>
Bin max_bin(const T* roi, double scale, int64_t i, int64_t j, int64_t ph, int64_t pw, int64_t h, int64_t w) {
  return bin_of(roi, scale, i, j, ph, pw, h, w, 1);
}
template <typename T>
Bin mean_bin(const T* roi, double scale, int64_t i, int64_t j, int64_t ph, int64_t pw, int64_t h, int64_t w) {
  return bin_of(roi, scale, i, j, ph, pw, h - 1, w - 1, 0);
}

template <typename T>
void max_forward(const Tensor& input, const Tensor& rois, double scale, const Tensor& output, const Tensor& argmax) {
  const auto x = input.accessor<T, 4>();
  const auto roi = rois.accessor<T, 2>();
  auto out = output.accessor<T, 4>();
  auto where = argmax.accessor<int, 4>();
  const int64_t ph = output.size(2), pw = output.size(3), h = input.size(2), w = input.size(3);
  for (int64_t k = 0; k < output.size(0); k++)
    for (int64_t i = 0; i < ph; i++)
      for (int64_t j = 0; j < pw; j++) {
        const Bin bin = max_bin(roi[k].data(), scale, i, j, ph, pw, h, w);
        for (int64_t c = 0; c < output.size(1); c++) {
          const auto plane = x[static_cast<int64_t>(roi[k][0])][c];
          T best = bin.empty() ? T(0) : -std::numeric_limits<T>::infinity();
          int64_t at = -1;
          for (int64_t v = bin.y0; v < bin.y1; v++)
            for (int64_t u = bin.x0; u < bin.x1; u++)
              if (plane[v][u] > best) best = plane[v][u], at = v * w + u;
          out[k][c][i][j] = best;
          where[k][c][i][j] = static_cast<int>(at);
        }
      }
}

template <typename T>
void max_backward(const Tensor& grad, const Tensor& rois, const Tensor& argmax, const Tensor& result) {
  const auto g = grad.accessor<T, 4>();
  const auto roi = rois.accessor<T, 2>();
  const auto where = argmax.accessor<int, 4>();
  auto out = result.accessor<T, 4>();
  for (int64_t k = 0; k < grad.size(0); k++)
    for (int64_t c = 0; c < grad.size(1); c++)
      for (int64_t i = 0; i < grad.size(2); i++)
        for (int64_t j = 0; j < grad.size(3); j++)
          if (const int64_t at = where[k][c][i][j]; at >= 0)
            out[static_cast<int64_t>(roi[k][0])][c][at / result.size(3)][at % result.size(3)] += g[k][c][i][j];
}

template <typename T> void mean_forward(const Tensor& input, const Tensor& rois, double scale, const Tensor& output) {
  const auto x = input.accessor<T, 4>();
  auto out = output.accessor<T, 4>();
  const auto roi = rois.accessor<T, 2>();
  const int64_t ph = output.size(2), pw = output.size(3);
  for (int64_t k = 0; k < output.size(0); k++)
    for (int64_t i = 0; i < ph; i++)
      for (int64_t j = 0; j < pw; j++) {
        const Bin bin = mean_bin(roi[k].data(), scale, i, j, ph, pw, input.size(2), input.size(3));
        for (int64_t c = 0; c < output.size(1); c++) {
          const auto plane = x[static_cast<int64_t>(roi[k][0])][(c * ph + i) * pw + j];
          T sum = 0;
          for (int64_t v = bin.y0; v < bin.y1; v++)
            for (int64_t u = bin.x0; u < bin.x1; u++) sum += plane[v][u];
          out[k][c][i][j] = bin.empty() ? T(0) : sum / static_cast<T>((bin.y1 - bin.y0) * (bin.x1 - bin.x0));
        }
      }
}

template <typename T> void mean_backward(const Tensor& grad, const Tensor& rois, double scale, const Tensor& result) {
  const auto g = grad.accessor<T, 4>();
  const auto roi = rois.accessor<T, 2>();
  auto out = result.accessor<T, 4>();
  const int64_t ph = grad.size(2), pw = grad.size(3);
  for (int64_t k = 0; k < grad.size(0); k++)
    for (int64_t i = 0; i < ph; i++)
      for (int64_t j = 0; j < pw; j++) {
        const Bin bin = mean_bin(roi[k].data(), scale, i, j, ph, pw, result.size(2), result.size(3));
        if (bin.empty()) continue;
        for (int64_t c = 0; c < grad.size(1); c++) {
          auto plane = out[static_cast<int64_t>(roi[k][0])][(c * ph + i) * pw + j];
          const T share = g[k][c][i][j] / static_cast<T>((bin.y1 - bin.y0) * (bin.x1 - bin.x0));
          for (int64_t v = bin.y0; v < bin.y1; v++)
            for (int64_t u = bin.x0; u < bin.x1; u++) plane[v][u] += share;
        }
      }
}

}  // namespace

std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& rois, double scale, int64_t ph, int64_t pw) {
  TORCH_CHECK(input.dim() == 4, "roi_pool: input must have the shape [N, C, H, W], got ", input.sizes());
  check_rois("roi_pool", input, rois, input.size(0), ph, pw);
  const Tensor x = computable(input);
  Tensor out = at::zeros({rois.size(0), x.size(1), ph, pw}, x.options()),
         argmax = at::zeros(out.sizes(), x.options().dtype(at::kInt));
  if (out.numel())
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "roi_pool",
                               [&] { max_forward<scalar_t>(x, computable(rois), scale, out, argmax); });
  return {out.to(input.scalar_type()), argmax};
}

Tensor roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor& argmax, double, int64_t ph, int64_t pw,
                         int64_t n, int64_t c, int64_t h, int64_t w) {
  check_rois("roi_pool backward", grad, rois, n, ph, pw);
  const Tensor g = computable(grad);
  Tensor out = at::zeros({n, c, h, w}, g.options());
  if (g.numel())
    AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "roi_pool backward",
                               [&] { max_backward<scalar_t>(g, computable(rois), argmax.contiguous(), out); });
  return out.to(grad.scalar_type());
}

std::tuple<Tensor, Tensor> ps_roi_pool(const Tensor& input, const Tensor& rois, double scale, int64_t ph, int64_t pw) {
  TORCH_CHECK(input.dim() == 4, "ps_roi_pool: input must have the shape [N, C, H, W], got ", input.sizes());
  check_rois("ps_roi_pool", input, rois, input.size(0), ph, pw);
  TORCH_CHECK(input.size(1) % (ph * pw) == 0,
              "ps_roi_pool: input channels must be a multiple of pooling height * pooling width, got ", input.size(1),
              " and ", ph, " * ", pw);
  const Tensor x = computable(input);
  const int64_t channels = x.size(1) / (ph * pw);
  Tensor out = at::zeros({rois.size(0), channels, ph, pw}, x.options());
  if (out.numel())
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "ps_roi_pool",
                               [&] { mean_forward<scalar_t>(x, computable(rois), scale, out); });
  return {
      out.to(input.scalar_type()),
      at::arange(x.size(1), x.options().dtype(at::kInt)).view({1, channels, ph, pw}).repeat({rois.size(0), 1, 1, 1})};
}

Tensor ps_roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor&, double scale, int64_t ph, int64_t pw,
                            int64_t n, int64_t c, int64_t h, int64_t w) {
  check_rois("ps_roi_pool backward", grad, rois, n, ph, pw);
  const Tensor g = computable(grad);
  Tensor out = at::zeros({n, c, h, w}, g.options());
  if (g.numel())
    AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "ps_roi_pool backward",
                               [&] { mean_backward<scalar_t>(g, computable(rois), scale, out); });
  return out.to(grad.scalar_type());
}

}  // namespace presil::vision
