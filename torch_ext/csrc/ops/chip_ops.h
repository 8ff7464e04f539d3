// SPDX-License-Identifier: Apache-2.0
// From tensors to the driver's operators: views, epilogues, and the two calls that enqueue on the chip.
#pragma once
#include "ops/weights.h"

#include <limits>

namespace presil {

// What is fused behind the array. residual: output's shape, broadcast over rows allowed (stride 0). Zero points and scales: int8 only.
struct Fusion {
  at::Tensor residual;
  bool clamp = false;
  double low = 0, high = std::numeric_limits<double>::infinity();
  bool int8_output = false;
  int64_t out_zero_point = 0, int_low = -128, int_high = 127, residual_zero_point = 0;
  double residual_scale = 1;
};

struct ConvGeometry {
  std::array<int64_t, 2> stride{1, 1}, padding{0, 0}, dilation{1, 1}, input_dilation{1, 1};
  int64_t groups = 1;
};

presil_compute compute_for(c10::ScalarType dtype, Fp32Op op = Fp32Op::matmul);  // float32 (by fp32_as_bf16) or bfloat16
bool chip_dtype(c10::ScalarType dtype);             // float32 or bfloat16

// input: 4-D, logical NCHW; output: NCHW with unit channel stride (channels_last). Enqueues; false: the chip can't fetch this layout or geometry.
bool chip_conv2d(const char* label, const at::Tensor& input, const std::shared_ptr<presil_weights>& weights, const at::Tensor& output, const ConvGeometry& geometry,
                 const Fusion& fusion, uint8_t pad_value);
// a: [B, M, K], b: [B, K, N], out: [B, M, N].
bool chip_matmul(const char* label, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out, presil_compute compute, const Fusion& fusion);

int64_t conv_output_size(int64_t input, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation);

}  // namespace presil
