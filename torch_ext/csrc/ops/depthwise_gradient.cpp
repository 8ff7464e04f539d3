// SPDX-License-Identifier: Apache-2.0
// The gradient of a depthwise kernel: a channel meets its own gradient alone, so the input is convolved with that as
// the kernel, depthwise too (docs/numerics.md 5). One launch for each image and for each block of the gradient.
#include "ops/conv.h"

#include <algorithm>

namespace presil {
namespace {

using at::Tensor;

// Input rows and columns that a block of the gradient lies on, part of the contract: as much as the scratchpad holds of
// both. With more outputs of a channel a cell group has few channels: smaller blocks, but of all, are read faster then.
int64_t reach_of(const Tensor& input, const Tensor& grad) {
  presil_device_info info{};
  info.size = sizeof info;
  check(presil_device_get_info(device(device_index_of(input)), &info), "asking for the scratchpad's size");
  return info.banks * info.bank_words >= 16384 && grad.size(1) <= 2 * input.size(1) ? 64 : 32;
}

// A block of one image's gradient, seen as kernels: outputs, rows, columns, inputs of a group.
KernelView block_of(const Tensor& grad, int64_t groups, int64_t image, std::array<int64_t, 2> at,
                    std::array<int64_t, 2> size) {
  KernelView k;
  k.storage = grad;
  k.at = grad.storage_offset() + image * grad.stride(0) + at[0] * grad.stride(2) + at[1] * grad.stride(3);
  k.shape = {grad.size(1), size[0], size[1], 1};
  k.stride = {grad.stride(1), grad.stride(2), grad.stride(3), 1};
  k.group_stride = grad.size(1) / groups * grad.stride(1);
  return k;
}

}  // namespace

bool is_depthwise(const Tensor& input, const Tensor& grad, const ConvArguments& a) {
  return a.groups > 1 && input.size(1) == a.groups && grad.size(1) % a.groups == 0;
}

bool chip_depthwise_weight_gradient(const char* label, const Tensor& input, const Tensor& grad, const Tensor& out,
                                    const ConvArguments& a, const Tensor& residual) {
  std::array<int64_t, 2> block, size{grad.size(2), grad.size(3)};
  const int64_t reach = reach_of(input, grad);
  for (int i = 0; i < 2; i++) block[i] = std::max<int64_t>(1, reach / a.stride[i]);
  const int64_t blocks = (size[0] + block[0] - 1) / block[0] * ((size[1] + block[1] - 1) / block[1]),
                launches = input.size(0) * blocks;
  const auto pixels = [](const Tensor& t) { return t.defined() ? t.transpose(0, 1) : t; };  // 1, C, KH, KW
  Tensor sum = residual;
  const Tensor room = launches > 1 ? at::empty(out.sizes(), out.options().dtype(c10::kFloat)) : Tensor();
  int64_t number = 0;
  for (int64_t n = 0; n < input.size(0); n++)
    for (int64_t y = 0; y < size[0]; y += block[0])
      for (int64_t x = 0; x < size[1]; x += block[1]) {
        const std::array<int64_t, 2> at{y, x};
        std::array<int64_t, 2> count;
        ConvGeometry g;
        g.groups = a.groups;
        g.stride = a.dilation;
        g.dilation = a.stride;
        for (int i = 0; i < 2; i++) {
          count[i] = std::min(block[i], size[i] - at[i]);
          g.padding[i] = a.padding[i] - at[i] * a.stride[i];
        }
        const Tensor& target = ++number == launches ? out : room;
        if (!chip_conv2d(label, input.narrow(0, n, 1), block_of(grad, a.groups, n, at, count), a.compute,
                         pixels(target), g, {pixels(sum)}))
          return false;
        sum = room;
      }
  return true;
}

}  // namespace presil
