// SPDX-License-Identifier: Apache-2.0
// What forward and backward of convolutions share, and those over one or two dimensions with those over three.
#pragma once
#include "ops/chip_ops.h"

#include <string>

namespace presil {

// Rows and columns of a convolution as PyTorch gives them.
struct ConvArguments {
  std::array<int64_t, 2> stride, padding, dilation;
  bool transposed;
  int64_t groups;
  presil_compute compute;
};
ConvArguments plane_arguments(c10::IntArrayRef stride, c10::IntArrayRef padding, c10::IntArrayRef dilation,
                              bool transposed, int64_t groups, presil_compute compute);  // the last two of each

// Rows of channels, as the chip reads and writes them.
inline c10::MemoryFormat channels_last(bool depth) {
  return depth ? c10::MemoryFormat::ChannelsLast3d : c10::MemoryFormat::ChannelsLast;
}

ConvGeometry forward_geometry(const ConvArguments& a,
                              const at::Tensor& weight);  // weight: its last two dimensions are the kernel's
int64_t forward_size(int64_t input, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool transposed,
                     int64_t output_padding);

// A transposed convolution as PRESIL_OP_CONV_TRANSPOSE. Tensors 4-D, logical NCHW; weight: C, O/groups, KH, KW.
// geometry: of the convolution of the dilated input that is the same (forward_geometry).
struct TransposedConv {
  const char* label;
  at::Tensor input, weight, bias, output;
  ConvGeometry geometry;
  presil_compute compute;
  Fusion fusion;

  bool possible(int index) const;  // the chip of this device has such operators, with these operands
  bool ask(std::string* reason) const;
  bool enqueue(std::string* reason) const;
};

// Names of launches, for reports.
struct ConvLabels {
  const char *forward, *input_grad, *weight_grad, *bias_grad;
};
const ConvLabels& conv_labels(bool transposed, bool depth);

// Enqueue; false: the chip can't (presil_error_text() says why). All tensors 4-D, logical NCHW; residual: undefined, or
// of the result's shape, added in float32; it may be the result.
bool chip_input_gradient(const ConvLabels& labels, const at::Tensor& grad, const at::Tensor& weight,
                         const at::Tensor& out, const ConvArguments& a, const at::Tensor& residual = {});
bool chip_weight_gradient(const ConvLabels& labels, const at::Tensor& grad, const at::Tensor& input,
                          const at::Tensor& out, const ConvArguments& a, const at::Tensor& residual = {});
// The same where each channel has a kernel of its own (is_depthwise). input, grad: of a transposed convolution the
// gradient and the input.
bool is_depthwise(const at::Tensor& input, const at::Tensor& grad, const ConvArguments& a);
bool chip_depthwise_weight_gradient(const char* label, const at::Tensor& input, const at::Tensor& grad,
                                    const at::Tensor& out, const ConvArguments& a, const at::Tensor& residual);
constexpr int64_t kTallest = 64;  // rows and columns of a depthwise kernel: part of the contract
// The gradient of the input of channels with several outputs each, which turns operands on the host: not for what is
// planned before it runs. Ask is_in_rows() first; out: rows of channels.
bool is_in_rows(const at::Tensor& input, const at::Tensor& weight, const ConvArguments& a);
bool chip_input_gradient_in_rows(const ConvLabels& labels, const at::Tensor& grad, const at::Tensor& weight,
                                 const at::Tensor& out, const ConvArguments& a);
bool chip_bias_gradient(const ConvLabels& labels, const at::Tensor& grad, const at::Tensor& out,
                        presil_compute compute);
bool chip_bias_gradient(const ConvLabels& labels, const at::Tensor& grad, const at::Tensor& one, const at::Tensor& out,
                        presil_compute compute);                // one: a 1.0 that lives as long as the launch
at::Tensor chip_constant(float value, const at::Tensor& like);  // one float32 on the device of `like`, written in
                                                                // stream order, to be seen with strides of zero

// Convolutions over depth, rows and columns: 5-D tensors, three values in each of the lists. False: the chip can't, and
// *out is not to be used.
struct Conv3dArguments {
  ConvArguments plane;
  int64_t stride, padding, dilation;  // of the depth
};
bool chip_conv3d(const at::Tensor& input, const at::Tensor& weight, const at::Tensor& bias, const at::Tensor& out,
                 const Conv3dArguments& a);
bool chip_conv3d_input_gradient(const at::Tensor& grad, const at::Tensor& weight, const at::Tensor& out,
                                const Conv3dArguments& a);
bool chip_conv3d_weight_gradient(const at::Tensor& grad, const at::Tensor& input, const at::Tensor& out,
                                 const Conv3dArguments& a);
bool chip_conv3d_bias_gradient(const at::Tensor& grad, const at::Tensor& out, presil_compute compute);

}  // namespace presil
