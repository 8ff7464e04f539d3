// SPDX-License-Identifier: Apache-2.0
// From tensors to the driver's operators: views, epilogues, and the two calls that enqueue on the chip.
#pragma once
#include "weights/weights.h"

#include <presil_op.h>

#include <limits>

namespace presil {

// What is fused behind the array. residual: output's shape, broadcast over rows allowed (stride 0). Zero points and
// scales: int8 only.
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

// Operators on meta tensors are questions: the chip of this device is asked whether it would take them, wherever they
// will lie, and nothing is enqueued. Of the thread.
class AskedDevice {
 public:
  explicit AskedDevice(int index);
  ~AskedDevice();
  AskedDevice(const AskedDevice&) = delete;
  AskedDevice& operator=(const AskedDevice&) = delete;

 private:
  const int before_;
};

// The device that a tensor is on, or that is asked about a meta tensor; where its element lies (meta: nowhere).
int device_index_of(const at::Tensor& t);
presil_daddr place_of(const at::Tensor& t, int64_t element);

presil_compute compute_for(c10::ScalarType dtype,
                           Fp32Op op = Fp32Op::matmul);  // of float32 (by fp32_as_bf16), bfloat16 or float16 operands
bool chip_dtype(c10::ScalarType dtype);                  // float32, bfloat16 or float16

// Of a chip without float16 (runtime/float16.h) the host widens operands to float32 (exact) and rounds results
// (docs/numerics.md 5), both counted as its work.
at::Tensor widened(const at::Tensor& t);  // float16 to float32, others as they are; undefined stays undefined
at::Tensor rounded(const at::Tensor& t, c10::ScalarType dtype);  // back, if dtype is float16
c10::ScalarType memory_type(c10::ScalarType dtype, int index);   // what the chip works on

// input: 4-D, logical NCHW; output: NCHW with unit channel stride (channels_last). Enqueues; false: the chip can't
// fetch this layout or geometry.
bool chip_conv2d(const char* label, const at::Tensor& input, const std::shared_ptr<presil_weights>& weights,
                 const at::Tensor& output, const ConvGeometry& geometry, const Fusion& fusion, uint8_t pad_value);
// The same with a kernel that the launch reads where it lies. `at`: element of its storage where position (0, 0) of the
// first group begins; strides of any sign.
struct KernelView {
  at::Tensor storage;  // the tensor that holds it
  int64_t at = 0;
  std::array<int64_t, 4> shape{}, stride{};  // outputs, rows, columns, inputs of a group
  int64_t group_stride = 0;                  // between groups of outputs
};
bool chip_conv2d(const char* label, const at::Tensor& input, const KernelView& kernel, presil_compute compute,
                 const at::Tensor& output, const ConvGeometry& geometry, const Fusion& fusion);
// The same with a kernel and a bias that are packed, unless the chip packs none: then they are read where they lie, if
// nothing else has to be done to them.
bool chip_conv2d(const char* label, const at::Tensor& input, const WeightRequest& request, const at::Tensor& output,
                 const ConvGeometry& geometry, const Fusion& fusion, uint8_t pad_value);
bool packs_weights(int index);
bool conv2d_of_plain(const char* label, const at::Tensor& input, const WeightRequest& request, const at::Tensor& output,
                     const ConvGeometry& geometry, const Fusion& fusion);
// Gradient of a kernel: input and grad 4-D, logical NCHW, any strides; out: O, C/groups, KH, KW, rows of its kernels
// following each other. residual: added in float32; undefined, or of out's shape, or out itself.
bool chip_weight_grad(const char* label, const at::Tensor& input, const at::Tensor& grad, const at::Tensor& out,
                      presil_compute compute, const ConvGeometry& geometry, const at::Tensor& residual = {});
// a: [B, M, K], b: [B, K, N], out: [B, M, N].
bool chip_matmul(const char* label, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out,
                 presil_compute compute, const Fusion& fusion);

// Any other; its operands are described already.
bool chip_operator(const presil_op& op, at::TensorList reads, at::TensorList outputs);

int64_t conv_output_size(int64_t input, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation);

}  // namespace presil
