// SPDX-License-Identifier: Apache-2.0
// roi_align and its position-sensitive form: each bin of a region is the mean of bilinear samples on a regular grid.
#include "vision/vision.h"

#include <ATen/Parallel.h>

#include <cmath>

namespace presil::vision {
namespace {

struct Shape {
  int64_t n, c, h, w;  // of the image
  int64_t ph, pw, sampling_ratio;
  double scale;
  bool aligned, position_sensitive;

  int64_t out_channels() const { return position_sensitive ? c / (ph * pw) : c; }
  int64_t source(int64_t channel, int64_t bin) const { return position_sensitive ? channel * ph * pw + bin : channel; }
};

// Four pixels of a plane and their weights.
template <typename T> struct Sample {
  int64_t at[4];
  T weight[4];
};

// y and x in pixels; beyond one pixel outside the plane the value is 0.
template <typename T> bool bilinear(T y, T x, const Shape& s, Sample<T>& sample) {
  if (y < -1 || y > s.h || x < -1 || x > s.w || s.h == 0 || s.w == 0) return false;
  const auto split = [](T v, int64_t size, int64_t& low, int64_t& high) {
    v = std::max(v, T(0));
    low = std::min(static_cast<int64_t>(v), size - 1);
    high = std::min(low + 1, size - 1);
    return low == size - 1 ? T(0) : v - low;
  };
  int64_t top, bottom, left, right;
  const T dy = split(y, s.h, top, bottom), dx = split(x, s.w, left, right);
  sample = {{top * s.w + left, top * s.w + right, bottom * s.w + left, bottom * s.w + right},
            {(1 - dy) * (1 - dx), (1 - dy) * dx, dy * (1 - dx), dy * dx}};
  return true;
}

template <typename T> struct Region {
  int64_t image, ny, nx;
  T y, x, bin_h, bin_w;

  Region(const T* roi, const Shape& s) : image(static_cast<int64_t>(roi[0])) {
    const T scale = static_cast<T>(s.scale), shift = s.aligned ? T(0.5) : T(0);
    x = roi[1] * scale - shift;
    y = roi[2] * scale - shift;
    T width = roi[3] * scale - shift - x, height = roi[4] * scale - shift - y;
    if (!s.aligned) width = std::max(width, T(1)), height = std::max(height, T(1));
    bin_h = height / s.ph;
    bin_w = width / s.pw;
    const auto samples_a_bin = [&](T size) {
      return s.sampling_ratio > 0 ? s.sampling_ratio : std::isfinite(size) ? static_cast<int64_t>(std::ceil(size)) : 0;
    };
    ny = samples_a_bin(bin_h);
    nx = samples_a_bin(bin_w);
  }
  T count() const { return static_cast<T>(std::max<int64_t>(ny * nx, 1)); }

  void samples(int64_t i, int64_t j, const Shape& s, std::vector<Sample<T>>& out) const {
    out.clear();
    Sample<T> sample;
    for (int64_t v = 0; v < ny; v++)
      for (int64_t u = 0; u < nx; u++)
        if (bilinear(y + i * bin_h + (v + T(.5)) * bin_h / ny, x + j * bin_w + (u + T(.5)) * bin_w / nx, s, sample))
          out.push_back(sample);
  }
};

template <typename T> void forward(const Tensor& input, const Tensor& rois, const Tensor& output, const Shape& s) {
  const T *image = input.const_data_ptr<T>(), *roi = rois.const_data_ptr<T>();
  T* out = output.mutable_data_ptr<T>();
  const int64_t plane = s.h * s.w, bins = s.ph * s.pw, channels = s.out_channels();
  at::parallel_for(0, rois.size(0), 1, [&](int64_t begin, int64_t end) {
    std::vector<Sample<T>> samples;
    for (int64_t k = begin; k < end; k++) {
      const Region<T> region(roi + 5 * k, s);
      for (int64_t bin = 0; bin < bins; bin++) {
        region.samples(bin / s.pw, bin % s.pw, s, samples);
        for (int64_t c = 0; c < channels; c++) {
          const T* pixels = image + (region.image * s.c + s.source(c, bin)) * plane;
          T sum = 0;
          for (const auto& t : samples)
            sum += t.weight[0] * pixels[t.at[0]] + t.weight[1] * pixels[t.at[1]] + t.weight[2] * pixels[t.at[2]] +
                   t.weight[3] * pixels[t.at[3]];
          out[(k * channels + c) * bins + bin] = sum / region.count();
        }
      }
    }
  });
}

// Threads take channels: regions overlap, and the order of additions must not depend on the number of threads.
template <typename T> void backward(const Tensor& grad, const Tensor& rois, const Tensor& result, const Shape& s) {
  const T *upper = grad.const_data_ptr<T>(), *roi = rois.const_data_ptr<T>();
  T* out = result.mutable_data_ptr<T>();
  const int64_t plane = s.h * s.w, bins = s.ph * s.pw, channels = s.out_channels();
  at::parallel_for(0, channels, 16, [&](int64_t begin, int64_t end) {
    std::vector<Sample<T>> samples;
    for (int64_t k = 0; k < rois.size(0); k++) {
      const Region<T> region(roi + 5 * k, s);
      for (int64_t bin = 0; bin < bins; bin++) {
        region.samples(bin / s.pw, bin % s.pw, s, samples);
        for (int64_t c = begin; c < end; c++) {
          T* pixels = out + (region.image * s.c + s.source(c, bin)) * plane;
          const T g = upper[(k * channels + c) * bins + bin] / region.count();
          for (const auto& t : samples)
            for (int corner = 0; corner < 4; corner++) pixels[t.at[corner]] += g * t.weight[corner];
        }
      }
    }
  });
}

Tensor run_forward(const char* name, const Tensor& input, const Tensor& rois, Shape s) {
  TORCH_CHECK(input.dim() == 4, name, ": input must have the shape [N, C, H, W], got ", input.sizes());
  s.n = input.size(0), s.c = input.size(1), s.h = input.size(2), s.w = input.size(3);
  check_rois(name, input, rois, s.n, s.ph, s.pw);
  TORCH_CHECK(!s.position_sensitive || s.c % (s.ph * s.pw) == 0, name,
              ": input channels must be a multiple of pooling height * pooling width, got ", s.c, " and ", s.ph, " * ",
              s.pw);
  const Tensor x = computable(input);
  Tensor out = at::zeros({rois.size(0), s.out_channels(), s.ph, s.pw}, x.options());
  if (out.numel())
    AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "roi_align", [&] { forward<scalar_t>(x, computable(rois), out, s); });
  return out.to(input.scalar_type());
}

Tensor run_backward(const char* name, const Tensor& grad, const Tensor& rois, const Shape& s) {
  check_rois(name, grad, rois, s.n, s.ph, s.pw);
  const Tensor g = computable(grad);
  Tensor out = at::zeros({s.n, s.c, s.h, s.w}, g.options());
  if (g.numel())
    AT_DISPATCH_FLOATING_TYPES(g.scalar_type(), "roi_align backward",
                               [&] { backward<scalar_t>(g, computable(rois), out, s); });
  return out.to(grad.scalar_type());
}

}  // namespace

void check_rois(const char* name, const Tensor& values, const Tensor& rois, int64_t n, int64_t ph, int64_t pw) {
  TORCH_CHECK(rois.dim() == 2 && rois.size(1) == 5, name, ": rois must have shape as Tensor[K, 5], got ", rois.sizes());
  TORCH_CHECK(values.scalar_type() == rois.scalar_type(), name, ": expected input and rois of the same type, but type ",
              values.scalar_type(), " does not equal ", rois.scalar_type());
  TORCH_CHECK(ph > 0 && pw > 0, name, ": the output size must be positive, got ", ph, " x ", pw);
  if (rois.size(0) == 0) return;
  const Tensor image = rois.select(1, 0);
  const double low = image.min().item<double>(), high = image.max().item<double>();
  TORCH_CHECK_INDEX(low >= 0 && high < static_cast<double>(n), name, ": rois name images ", low, " to ", high,
                    ", the batch has ", n);
}

Tensor roi_align(const Tensor& input, const Tensor& rois, double scale, int64_t ph, int64_t pw, int64_t sampling_ratio,
                 bool aligned) {
  return run_forward("roi_align", input, rois, {0, 0, 0, 0, ph, pw, sampling_ratio, scale, aligned, false});
}
Tensor roi_align_backward(const Tensor& grad, const Tensor& rois, double scale, int64_t ph, int64_t pw, int64_t n,
                          int64_t c, int64_t h, int64_t w, int64_t sampling_ratio, bool aligned) {
  return run_backward("roi_align backward", grad, rois, {n, c, h, w, ph, pw, sampling_ratio, scale, aligned, false});
}
std::tuple<Tensor, Tensor> ps_roi_align(const Tensor& input, const Tensor& rois, double scale, int64_t ph, int64_t pw,
                                        int64_t sampling_ratio) {
  const Tensor out = run_forward("ps_roi_align", input, rois, {0, 0, 0, 0, ph, pw, sampling_ratio, scale, true, true});
  return {out, at::arange(out.size(1) * ph * pw, out.options().dtype(at::kInt))
                   .view({1, out.size(1), ph, pw})
                   .repeat({out.size(0), 1, 1, 1})};
}
Tensor ps_roi_align_backward(const Tensor& grad, const Tensor& rois, const Tensor&, double scale, int64_t ph,
                             int64_t pw, int64_t sampling_ratio, int64_t n, int64_t c, int64_t h, int64_t w) {
  return run_backward("ps_roi_align backward", grad, rois, {n, c, h, w, ph, pw, sampling_ratio, scale, true, true});
}

}  // namespace presil::vision
