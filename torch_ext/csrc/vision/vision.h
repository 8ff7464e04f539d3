// SPDX-License-Identifier: Apache-2.0
// The operators `torchvision::*` on the CPU, for processes in which torchvision's own library doesn't load (its usual
// wheel is linked against CUDA). A presil tensor reaches them through the fallback, on the mapped memory. Shapes are
// torchvision's: rois [K, 5] = (image, x1, y1, x2, y2), boxes [N, 4] = (x1, y1, x2, y2).
#pragma once
#include <ATen/ATen.h>

namespace presil {

// Defines those of torchvision's operators that the dispatcher doesn't know yet, with their kernels; a second call does
// nothing. Raises what the dispatcher raises.
void define_vision_operators();

namespace vision {

using at::Tensor;

// Indices (int64) of the boxes kept, by falling score; a box goes when its overlap with a kept one is above the
// threshold.
Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold);
// [N, M] overlaps of boxes [N, 5] and [M, 5] = (x center, y center, width, height, angle in degrees,
// counter-clockwise).
Tensor box_iou_rotated(const Tensor& a, const Tensor& b);

Tensor roi_align(const Tensor& input, const Tensor& rois, double scale, int64_t ph, int64_t pw, int64_t sampling_ratio,
                 bool aligned);
Tensor roi_align_backward(const Tensor& grad, const Tensor& rois, double scale, int64_t ph, int64_t pw, int64_t n,
                          int64_t c, int64_t h, int64_t w, int64_t sampling_ratio, bool aligned);
// The position-sensitive one: input channel (c * ph + i) * pw + j feeds bin (i, j) of output channel c. Second result:
// that channel, int32.
std::tuple<Tensor, Tensor> ps_roi_align(const Tensor& input, const Tensor& rois, double scale, int64_t ph, int64_t pw,
                                        int64_t sampling_ratio);
Tensor ps_roi_align_backward(const Tensor& grad, const Tensor& rois, const Tensor& mapping, double scale, int64_t ph,
                             int64_t pw, int64_t sampling_ratio, int64_t n, int64_t c, int64_t h, int64_t w);

// Second result: where the largest value was, y * width + x, -1 for an empty bin; int32.
std::tuple<Tensor, Tensor> roi_pool(const Tensor& input, const Tensor& rois, double scale, int64_t ph, int64_t pw);
Tensor roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor& argmax, double scale, int64_t ph,
                         int64_t pw, int64_t n, int64_t c, int64_t h, int64_t w);
std::tuple<Tensor, Tensor> ps_roi_pool(const Tensor& input, const Tensor& rois, double scale, int64_t ph, int64_t pw);
Tensor ps_roi_pool_backward(const Tensor& grad, const Tensor& rois, const Tensor& mapping, double scale, int64_t ph,
                            int64_t pw, int64_t n, int64_t c, int64_t h, int64_t w);

Tensor deform_conv2d(const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
                     const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w,
                     int64_t dilation_h, int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask);
// Gradients of input, weight, offset, mask, bias.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> deform_conv2d_backward(
    const Tensor& grad, const Tensor& input, const Tensor& weight, const Tensor& offset, const Tensor& mask,
    const Tensor& bias, int64_t stride_h, int64_t stride_w, int64_t pad_h, int64_t pad_w, int64_t dilation_h,
    int64_t dilation_w, int64_t groups, int64_t offset_groups, bool use_mask);

// Kernels compute in float or double; narrower operands go through float.
inline Tensor computable(const Tensor& t) {
  return (at::isReducedFloatingType(t.scalar_type()) ? t.to(at::kFloat) : t).contiguous();
}

// Checks what every region operator needs of its operands: types, shapes, image indices within the batch of n.
void check_rois(const char* name, const Tensor& values, const Tensor& rois, int64_t n, int64_t ph, int64_t pw);

}  // namespace vision
}  // namespace presil
