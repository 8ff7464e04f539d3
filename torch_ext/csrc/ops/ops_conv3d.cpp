// SPDX-License-Identifier: Apache-2.0
// Convolutions over three dimensions: the sum, over the kernel's positions along the depth, of 2-D convolutions of
// planes. The chip adds each term in float32 to what the terms before it left (docs/numerics.md 5); bfloat16 results
// are rounded by the last one.
#include "ops/conv.h"

namespace presil {
namespace {

using at::Tensor;

struct Tap {
  int64_t kernel, source;  // position in the kernel; plane that the run's first target meets with it
};
// Planes of the result (start, start + step, ...) that meet the same positions of the kernel; their sources go on by
// source_step.
struct Run {
  int64_t start, step, count, source_step;
  std::vector<Tap> taps;
};

// gathers: target * stride + tap * dilation - padding = source (forward); else the same with source and target
// exchanged (transposed, and the gradient of the input).
std::vector<Run> depth_runs(int64_t targets, int64_t sources, int64_t kernel, const Conv3dArguments& a, bool gathers) {
  std::vector<Run> runs;
  const int64_t phases = gathers ? 1 : a.stride;
  for (int64_t phase = 0; phase < phases; phase++) {
    const size_t first_run = runs.size();
    for (int64_t target = phase; target < targets; target += phases) {
      std::vector<Tap> taps;
      for (int64_t k = 0; k < kernel; k++) {
        const int64_t at =
            gathers ? target * a.stride + k * a.dilation - a.padding : target + a.padding - k * a.dilation;
        const int64_t source = gathers ? at : at / a.stride;
        if (at >= 0 && (gathers || at % a.stride == 0) && source < sources) taps.push_back({k, source});
      }
      const auto same = [&](const Run& r) {
        return std::equal(r.taps.begin(), r.taps.end(), taps.begin(), taps.end(),
                          [](const Tap& x, const Tap& y) { return x.kernel == y.kernel; });
      };
      if (runs.size() > first_run && same(runs.back()))
        runs.back().count++;
      else
        runs.push_back({target, phases, 1, gathers ? a.stride : 1, std::move(taps)});
    }
  }
  return runs;
}

// Planes of a 5-D tensor as a batch of images: those of one image, or one plane of every image, whichever makes fewer
// launches.
struct Planes {
  int64_t images, count;
  int64_t pieces() const { return std::min(images, count); }
  Tensor piece(const Tensor& t, int64_t start, int64_t step, int64_t i) const {
    if (count <= images) return t.select(2, start + i * step);
    return t.select(0, i).slice(1, start, start + (count - 1) * step + 1, step).transpose(0, 1);
  }
};

// Zeros, or the residual, for planes that only meet padding: a product of zeros.
bool write_plain(const char* label, const Tensor& out, const Tensor& residual, presil_compute compute) {
  const Tensor zero = chip_constant(0, out);
  KernelView kernel;
  kernel.storage = zero;
  kernel.shape = {out.size(1), 1, 1, 1};
  return chip_conv2d(label, zero.as_strided({out.size(0), 1, out.size(2), out.size(3)}, {0, 0, 0, 0}), kernel, compute,
                     out, {}, {residual});
}

Tensor sums_like(const Tensor& out) {
  return out.scalar_type() == c10::kFloat
             ? out
             : at::empty(out.sizes(), out.options().dtype(c10::kFloat), out.suggest_memory_format());
}

// term(kernel position, planes of the source, planes of the result, residual) enqueues one; bias: float32, of the
// result's shape, or undefined.
template <typename Term>
bool sum_over_depth(const char* label, const Tensor& source, const Tensor& out, int64_t kernel,
                    const Conv3dArguments& a, bool gathers, const Tensor& bias, Term&& term) {
  const Tensor sums = kernel > 1 ? sums_like(out) : out;
  for (const Run& run : depth_runs(out.size(2), source.size(2), kernel, a, gathers)) {
    const Planes planes{out.size(0), run.count};
    for (int64_t i = 0; i < planes.pieces(); i++) {
      const auto target = [&](const Tensor& t) { return planes.piece(t, run.start, run.step, i); };
      Tensor residual = bias.defined() ? target(bias) : bias;
      if (run.taps.empty() && !write_plain(label, target(out), residual, a.plane.compute)) return false;
      for (size_t n = 0; n < run.taps.size(); n++) {
        const Tensor result = target(n + 1 == run.taps.size() ? out : sums);
        if (!term(run.taps[n].kernel, planes.piece(source, run.taps[n].source, run.source_step, i), result, residual))
          return false;
        residual = result;
      }
    }
  }
  return true;
}

}  // namespace

bool chip_conv3d(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& out,
                 const Conv3dArguments& a) {
  const char* label = conv_labels(a.plane.transposed, true).forward;
  const Tensor shift = bias.defined() ? bias.view({1, -1, 1, 1, 1}).expand(out.sizes()) : bias;
  WeightRequest request;
  request.compute = a.plane.compute;
  request.groups = a.plane.groups;
  request.transposed = a.plane.transposed;
  const auto term = [&](int64_t k, const Tensor& source, const Tensor& target, const Tensor& residual) {
    request.weight = weight.select(2, k);
    const ConvGeometry g = forward_geometry(a.plane, request.weight);
    request.dilation = g.dilation;
    request.input_dilation = g.input_dilation;
    return chip_conv2d(label, source, packed_weights(request), target, g, {residual}, 0);
  };
  return sum_over_depth(label, input, out, weight.size(2), a, !a.plane.transposed, shift, term);
}

bool chip_conv3d_input_gradient(const Tensor& grad, const Tensor& weight, const Tensor& out, const Conv3dArguments& a) {
  const ConvLabels& labels = conv_labels(a.plane.transposed, true);
  const auto term = [&](int64_t k, const Tensor& source, const Tensor& target, const Tensor& residual) {
    return chip_input_gradient(labels, source, weight.select(2, k), target, a.plane, residual);
  };
  return sum_over_depth(labels.input_grad, grad, out, weight.size(2), a, a.plane.transposed, {}, term);
}

bool chip_conv3d_weight_gradient(const Tensor& grad, const Tensor& input, const Tensor& out, const Conv3dArguments& a) {
  const ConvLabels& labels = conv_labels(a.plane.transposed, true);
  const bool transposed = a.plane.transposed;
  const Tensor &coarse = transposed ? input : grad, &fine = transposed ? grad : input;
  const Tensor sums = sums_like(out);
  for (int64_t k = 0; k < out.size(2); k++) {
    const int64_t shift = k * a.dilation - a.padding;  // plane p of `coarse` meets plane p * stride + shift of `fine`
    int64_t first = 0, end = coarse.size(2);
    while (first < end && first * a.stride + shift < 0) first++;
    while (end > first && (end - 1) * a.stride + shift >= fine.size(2)) end--;
    const Planes planes{grad.size(0), end - first};
    if (end == first && !write_plain(labels.weight_grad, out.select(2, k), {}, a.plane.compute)) return false;
    for (int64_t i = 0; i < planes.pieces(); i++) {
      const Tensor c = planes.piece(coarse, first, 1, i), f = planes.piece(fine, first * a.stride + shift, a.stride, i);
      const Tensor result = (i + 1 == planes.pieces() ? out : sums).select(2, k),
                   residual = i ? sums.select(2, k) : Tensor();
      if (!chip_weight_gradient(labels, transposed ? f : c, transposed ? c : f, result, a.plane, residual))
        return false;
    }
  }
  return true;
}

bool chip_conv3d_bias_gradient(const Tensor& grad, const Tensor& out, presil_compute compute) {
  // Rows and columns as one axis: a view wherever a row follows another.
  return chip_bias_gradient(conv_labels(false, true),
                            grad.reshape({grad.size(0), grad.size(1), grad.size(2), grad.size(3) * grad.size(4)}), out,
                            compute);
}

}  // namespace presil
