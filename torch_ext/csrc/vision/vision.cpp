// SPDX-License-Identifier: Apache-2.0
#include "vision/vision.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace presil {
namespace {

using at::Tensor;

constexpr auto kAutocast = c10::DispatchKey::AutocastPrivateUse1;
Tensor as_float(const Tensor& t) { return at::autocast::cached_cast(at::kFloat, t, c10::DeviceType::PrivateUse1); }

template <typename Signature> auto typed(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

// Under autocast box coordinates keep float32, and pooled features get their type back.
Tensor autocast_nms(const Tensor& boxes, const Tensor& scores, double threshold) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kAutocast);
  return typed<Tensor(const Tensor&, const Tensor&, double)>("torchvision::nms")
      .call(as_float(boxes), as_float(scores), threshold);
}
Tensor autocast_roi_align(const Tensor& input, const Tensor& rois, double scale, c10::SymInt ph, c10::SymInt pw,
                          int64_t sampling_ratio, bool aligned) {
  const c10::impl::ExcludeDispatchKeyGuard guard(kAutocast);
  return typed<Tensor(const Tensor&, const Tensor&, double, c10::SymInt, c10::SymInt, int64_t, bool)>(
             "torchvision::roi_align")
      .call(as_float(input), as_float(rois), scale, ph, pw, sampling_ratio, aligned)
      .to(input.scalar_type());
}

// Both take the integers of quantized tensors. Overlaps and the order of scores don't depend on scale and zero point.
Tensor qnms(const Tensor& boxes, const Tensor& scores, double threshold) {
  return vision::nms(boxes.to(at::kFloat), scores.to(at::kFloat), threshold);
}
Tensor qroi_align(const Tensor& input, const Tensor& rois, double input_scale, int64_t input_zero, double rois_scale,
                  int64_t rois_zero, double scale, int64_t ph, int64_t pw, int64_t sampling_ratio, bool aligned) {
  const Tensor x = (input.to(at::kFloat) - input_zero) * input_scale,
               r = (rois.to(at::kFloat) - rois_zero) * rois_scale;
  const Tensor out =
      (vision::roi_align(x, r, scale, ph, pw, sampling_ratio, aligned) / input_scale).round_() + input_zero;
  return input.scalar_type() == at::kByte ? out.clamp_(0, 255).to(at::kByte)
                                          : out.clamp_(-128, 127).to(input.scalar_type());
}
int64_t cuda_version() { return -1; }

bool known(const char* name) {
  return c10::Dispatcher::singleton().findOp({std::string("torchvision::") + name, ""}).has_value();
}

}  // namespace

void define_vision_operators() {
  static const auto* libraries = [] {
    auto* list = new std::vector<torch::Library>;
    list->emplace_back(torch::Library::FRAGMENT, "torchvision", std::nullopt, __FILE__, __LINE__);
    list->emplace_back(torch::Library::IMPL, "torchvision", c10::DispatchKey::CPU, __FILE__, __LINE__);
    list->emplace_back(torch::Library::IMPL, "torchvision", kAutocast, __FILE__, __LINE__);
    torch::Library &schema = (*list)[0], &cpu = (*list)[1], &autocast = (*list)[2];
    const auto define = [&](const char* name, const std::string& signature, auto* kernel) {
      if (known(name)) return false;
      schema.def((name + signature).c_str());
      cpu.impl(name, kernel);
      return true;
    };
    const std::string region =
                          "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width",
                      upper = "(Tensor grad, Tensor rois, ",
                      pooled = "float spatial_scale, SymInt pooled_height, SymInt pooled_width",
                      image = ", SymInt batch_size, SymInt channels, SymInt height, SymInt width";
    if (define("nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", &vision::nms))
      autocast.impl("nms", &autocast_nms);
    if (define("roi_align", region + ", int sampling_ratio, bool aligned) -> Tensor", &vision::roi_align))
      autocast.impl("roi_align", &autocast_roi_align);
    define("_roi_align_backward", upper + pooled + image + ", int sampling_ratio, bool aligned) -> Tensor",
           &vision::roi_align_backward);
    define("ps_roi_align", region + ", int sampling_ratio) -> (Tensor, Tensor)", &vision::ps_roi_align);
    define("_ps_roi_align_backward",
           upper + "Tensor channel_mapping, " + pooled + ", int sampling_ratio" + image + ") -> Tensor",
           &vision::ps_roi_align_backward);
    define("roi_pool", region + ") -> (Tensor, Tensor)", &vision::roi_pool);
    define("_roi_pool_backward", upper + "Tensor argmax, " + pooled + image + ") -> Tensor",
           &vision::roi_pool_backward);
    define("ps_roi_pool", region + ") -> (Tensor, Tensor)", &vision::ps_roi_pool);
    define("_ps_roi_pool_backward", upper + "Tensor channel_mapping, " + pooled + image + ") -> Tensor",
           &vision::ps_roi_pool_backward);
    const std::string deform = "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, "
                               "SymInt stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, "
                               "SymInt dilation_w, SymInt groups, SymInt offset_groups, bool use_mask)";
    define("deform_conv2d", "(" + deform + " -> Tensor", &vision::deform_conv2d);
    define("_deform_conv2d_backward", "(Tensor grad, " + deform + " -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
           &vision::deform_conv2d_backward);
    define("box_iou_rotated", "(Tensor boxes1, Tensor boxes2) -> Tensor", &vision::box_iou_rotated);
    define(
        "qroi_align",
        "(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale, int rois_zero_point, " +
            pooled + ", int sampling_ratio, bool aligned) -> Tensor",
        &qroi_align);
    define("qnms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor", &qnms);
    if (!known("_cuda_version")) schema.def("_cuda_version", &cuda_version);
    return list;
  }();
  (void)libraries;
}

}  // namespace presil
