// SPDX-License-Identifier: Apache-2.0
// The gradient of a strided convolution's input, by phases: the positions of the input that have the same remainder by
// the stride meet every stride-th position of the kernel, in a dense convolution.
#pragma once
#include "ops/conv.h"

#include <numeric>

namespace presil {

// Along one axis: the kernel's positions first, first + step, ... and the padding of the convolution with them turned.
struct PhaseAxis {
  int64_t first, step, count, padding;
  int64_t last() const { return first + (count - 1) * step; }
};

inline PhaseAxis phase_axis(int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, int64_t phase) {
  int64_t first = 0;
  while ((phase + padding - first * dilation) % stride != 0)
    first++;  // below stride, as it has no factor in common with dilation
  const int64_t count = first < kernel ? (kernel - 1 - first) / stride + 1 : 0;
  const int64_t base = (phase + padding - first * dilation) / stride;
  return {first, stride, count, (count - 1) * dilation - base};
}

struct Phase {
  PhaseAxis rows, columns;
  int64_t y, x;
  at::Tensor of(const at::Tensor& t) const {  // of the input, or what has its shape
    return t.slice(2, y, t.size(2), rows.step).slice(3, x, t.size(3), columns.step);
  }
};

// Every phase has a position of the kernel, at the same distances as the kernel's.
inline bool has_phases(const at::Tensor& w, const ConvArguments& a) {
  bool all = true;
  for (int i = 0; i < 2; i++) all &= std::gcd(a.stride[i], a.dilation[i]) == 1 && w.size(2 + i) >= a.stride[i];
  return all;
}

// Calls body(phase) for those that `input` has a position of, while it returns true.
template <class Body>
bool for_each_phase(const at::Tensor& w, const at::Tensor& input, const ConvArguments& a, const Body& body) {
  for (int64_t y = 0; y < std::min(a.stride[0], input.size(2)); y++)
    for (int64_t x = 0; x < std::min(a.stride[1], input.size(3)); x++)
      if (!body(Phase{phase_axis(w.size(2), a.stride[0], a.padding[0], a.dilation[0], y),
                      phase_axis(w.size(3), a.stride[1], a.padding[1], a.dilation[1], x), y, x}))
        return false;
  return true;
}

}  // namespace presil
