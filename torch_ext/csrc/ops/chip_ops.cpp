// SPDX-License-Identifier: Apache-2.0
#include "ops/chip_ops.h"
#include "host/fallback.h"
#include "observe/observer.h"
#include "runtime/allocator.h"

#include <chrono>

#include "runtime/capturing.h"
#include "runtime/float16.h"
#include "runtime/writes.h"

namespace presil {
namespace {

presil_dtype element_type(c10::ScalarType type) {
  switch (type) {
    case c10::kFloat: return PRESIL_FP32;
    case c10::kBFloat16: return PRESIL_BF16;
    case c10::kHalf: return PRESIL_FP16;
    case c10::kChar: return PRESIL_INT8;
    case c10::kInt: return PRESIL_INT32;
    default:
      TORCH_CHECK_NOT_IMPLEMENTED(false, "presil: the chip has no dtype ", type,
                                  " (float32, bfloat16, float16, int8, int32)");
  }
}

thread_local int asked_device = 0;

}  // namespace

int device_index_of(const at::Tensor& t) { return C10_UNLIKELY(t.is_meta()) ? asked_device : t.device().index(); }

presil_daddr place_of(const at::Tensor& t, int64_t element) {
  if (C10_UNLIKELY(t.is_meta())) return {};
  presil_daddr at = address_of(t.device().index(), t.storage().data());
  at.value += static_cast<uint64_t>(element) * t.element_size();
  return at;
}

namespace {

presil_tensor describe(const at::Tensor& t, c10::ArrayRef<int> order) {
  presil_tensor out{};
  out.data = place_of(t, t.storage_offset());
  out.dtype = element_type(t.scalar_type());
  out.ndim = static_cast<uint32_t>(order.size());
  for (size_t i = 0; i < order.size(); i++) {
    out.shape[i] = t.size(order[i]);
    out.stride[i] = t.stride(order[i]);
  }
  return out;
}

presil_tensor describe_written(const at::Tensor& t, c10::ArrayRef<int> order) {
  if (!t.is_meta()) make_writable(t.storage().unsafeGetStorageImpl());
  return describe(t, order);
}

presil_epilogue describe(const Fusion& f, const presil_tensor* residual) {
  presil_epilogue e{};
  e.residual = residual;
  if (f.int8_output || (f.residual.defined() && f.residual.scalar_type() == c10::kChar)) {
    e.residual_zero_point = static_cast<int32_t>(f.residual_zero_point);
    e.residual_scale = static_cast<float>(f.residual_scale);
  }
  if (f.int8_output) {
    e.out_zero_point = static_cast<int32_t>(f.out_zero_point);
    e.int_lo = static_cast<int32_t>(f.int_low);
    e.int_hi = static_cast<int32_t>(f.int_high);
  } else {
    e.clamp = f.clamp;
    e.clamp_lo = static_cast<float>(f.low);
    e.clamp_hi = static_cast<float>(f.high);
  }
  return e;
}

// EUNSUPPORTED is an answer (another layout may do), anything else an error. enqueue(device, stream): of the driver.
template <typename Enqueue> bool enqueued(const char* label, Operands reads, Operands outputs, Enqueue&& enqueue) {
  const at::Tensor& output = *outputs.front();
  const int index = device_index_of(output);
  if (C10_UNLIKELY(output.is_meta())) {
    const int answer = enqueue(device(index), PRESIL_ONLY_ASK);
    if (answer != PRESIL_EUNSUPPORTED) check(answer, label);
    return answer == PRESIL_OK;
  }
  AnnouncedWrites written;
  for (const auto* t : outputs) written.add(*t);
  const int status = launch(index, label, reads, outputs, [&](presil_stream* s) { return enqueue(device(index), s); });
  if (status == PRESIL_EUNSUPPORTED) return false;
  check(status, label);
  observe_launch();
  mark_pending(index);
  return true;
}

constexpr int kNhwc[] = {0, 2, 3, 1};

}  // namespace

AskedDevice::AskedDevice(int index) : before_(std::exchange(asked_device, index)) {}
AskedDevice::~AskedDevice() { asked_device = before_; }

presil_compute compute_for(c10::ScalarType dtype, Fp32Op op) {
  if (dtype == c10::kHalf) return PRESIL_COMPUTE_FP16;
  return dtype == c10::kFloat && !fp32_as_bf16(op) ? PRESIL_COMPUTE_FP32 : PRESIL_COMPUTE_BF16;
}
bool chip_dtype(c10::ScalarType dtype) {
  return dtype == c10::kFloat || dtype == c10::kBFloat16 || dtype == c10::kHalf;
}
c10::ScalarType memory_type(c10::ScalarType dtype, int index) {
  return dtype == c10::kHalf && !has_float16(index) ? c10::kFloat : dtype;
}

namespace {
// Not a fallback (the operator is the chip's), so strict mode allows it.
at::Tensor converted(HostSite& site, const char* reason, const at::Tensor& t, c10::ScalarType dtype) {
  const int index = t.device().index();
  HostViews views;
  views.settle(index);
  const HostTimer timer;
  AllocateOnDevice scope(index);
  HostTrace trace(index, site.name.c_str());
  const at::Tensor result = views.to_host(t).to(dtype);
  trace.done({result});
  const at::Tensor out = views.to_device(result);
  note_host_operator(site, reason, timer.ns());
  return out;
}
}  // namespace

at::Tensor widened(const at::Tensor& t) {
  static HostSite& site = host_site("presil::widen");
  return t.defined() && t.scalar_type() == c10::kHalf && !has_float16(device_index_of(t))
             ? converted(site, "float16 operands are widened to float32", t, c10::kFloat)
             : t;
}
at::Tensor rounded(const at::Tensor& t, c10::ScalarType dtype) {
  static HostSite& site = host_site("presil::round");
  return dtype == c10::kHalf && t.scalar_type() != c10::kHalf
             ? converted(site, "float32 results are rounded to float16", t, c10::kHalf)
             : t;
}

int64_t conv_output_size(int64_t input, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
  return (input + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

namespace {

template <typename Desc> void set_geometry(Desc& desc, const ConvGeometry& g) {
  for (int i = 0; i < 2; i++) {
    desc.stride[i] = g.stride[i];
    desc.padding[i] = g.padding[i];
    desc.dilation[i] = g.dilation[i];
  }
}

bool enqueue_conv2d(presil_conv2d_desc& desc, const char* label, const at::Tensor& input, const at::Tensor& kernel,
                    const at::Tensor& output, const ConvGeometry& g, const Fusion& fusion) {
  desc.size = sizeof desc;
  desc.label = label;
  desc.input = describe(input, kNhwc);
  desc.output = describe_written(output, kNhwc);
  set_geometry(desc, g);
  for (int i = 0; i < 2; i++) desc.input_dilation[i] = g.input_dilation[i];
  presil_tensor residual{};
  if (fusion.residual.defined()) residual = describe(fusion.residual, kNhwc);
  desc.epilogue = describe(fusion, fusion.residual.defined() ? &residual : nullptr);
  return enqueued(label, {&input, &kernel, &fusion.residual}, {&output},
                  [&](presil_device* d, presil_stream* s) { return presil_conv2d(d, s, &desc); });
}

}  // namespace

bool chip_conv2d(const char* label, const at::Tensor& input, const std::shared_ptr<presil_weights>& weights,
                 const at::Tensor& output, const ConvGeometry& g, const Fusion& fusion, uint8_t pad_value) {
  if (!weights) return false;
  presil_conv2d_desc desc{};
  desc.pad_value = pad_value;
  desc.weights = weights.get();
  return enqueue_conv2d(desc, label, input, {}, output, g, fusion);
}

bool chip_conv2d(const char* label, const at::Tensor& input, const KernelView& kernel, presil_compute compute,
                 const at::Tensor& output, const ConvGeometry& g, const Fusion& fusion) {
  presil_conv2d_desc desc{};
  const at::Tensor& t = kernel.storage;
  desc.kernel.data = place_of(t, kernel.at);
  desc.kernel.dtype = element_type(t.scalar_type());
  desc.kernel.ndim = 4;
  for (int i = 0; i < 4; i++) {
    desc.kernel.shape[i] = kernel.shape[i];
    desc.kernel.stride[i] = kernel.stride[i];
  }
  desc.group_stride = kernel.group_stride;
  desc.compute = compute;
  desc.groups = static_cast<uint32_t>(g.groups);
  return enqueue_conv2d(desc, label, input, kernel.storage, output, g, fusion);
}

bool packs_weights(int index) { return presil_packs_weights(device(index)) != 0; }

bool conv2d_of_plain(const char* label, const at::Tensor& input, const WeightRequest& r, const at::Tensor& output,
                     const ConvGeometry& g, const Fusion& fusion) {
  const at::Tensor& w = r.weight;
  const bool plain = !r.transposed && !r.norm[0].defined() && !r.scale.defined() &&
                     (w.scalar_type() != c10::kHalf || has_float16(device_index_of(input))) &&
                     (r.rounded == c10::ScalarType::Undefined || r.rounded == w.scalar_type());
  if (!plain || (r.bias.defined() && fusion.residual.defined()))
    return asked_weights(r, device_index_of(input)) != nullptr;  // no: what it says is the reason
  Fusion all = fusion;
  if (r.bias.defined()) all.residual = r.bias.view({1, -1, 1, 1}).expand(output.sizes());
  const KernelView kernel{w,
                          w.storage_offset(),
                          {w.size(0), w.size(2), w.size(3), w.size(1)},
                          {w.stride(0), w.stride(2), w.stride(3), w.stride(1)},
                          w.size(0) / g.groups * w.stride(0)};
  return chip_conv2d(label, input, kernel, r.compute, output, g, all);
}

bool chip_conv2d(const char* label, const at::Tensor& input, const WeightRequest& request, const at::Tensor& output,
                 const ConvGeometry& g, const Fusion& fusion, uint8_t pad_value) {
  if (!packs_weights(input.device().index())) return conv2d_of_plain(label, input, request, output, g, fusion);
  return chip_conv2d(label, input, packed_weights(request), output, g, fusion, pad_value);
}

bool chip_weight_grad(const char* label, const at::Tensor& input, const at::Tensor& grad, const at::Tensor& out,
                      presil_compute compute, const ConvGeometry& g, const at::Tensor& residual) {
  presil_conv2d_weight_grad_desc desc{};
  desc.size = sizeof desc;
  desc.compute = compute;
  desc.label = label;
  desc.input = describe(input, kNhwc);
  desc.grad = describe(grad, kNhwc);
  desc.out = describe_written(out, kNhwc);
  desc.groups = static_cast<uint32_t>(g.groups);
  set_geometry(desc, g);
  presil_tensor added{};
  if (residual.defined()) {
    added = describe(residual, kNhwc);
    desc.residual = &added;
  }
  return enqueued(label, {&input, &grad, &residual}, {&out},
                  [&](presil_device* d, presil_stream* s) { return presil_conv2d_weight_grad(d, s, &desc); });
}

bool chip_matmul(const char* label, const at::Tensor& a, const at::Tensor& b, const at::Tensor& out,
                 presil_compute compute, const Fusion& fusion) {
  presil_matmul_desc desc{};
  desc.size = sizeof desc;
  desc.compute = compute;
  desc.label = label;
  desc.a = describe(a, {0, 1, 2});
  desc.b = describe(b, {0, 1, 2});
  desc.out = describe_written(out, {0, 1, 2});
  presil_tensor residual{};
  if (fusion.residual.defined()) residual = describe(fusion.residual, {0, 1, 2});
  desc.epilogue = describe(fusion, fusion.residual.defined() ? &residual : nullptr);
  return enqueued(label, {&a, &b, &fusion.residual}, {&out},
                  [&](presil_device* d, presil_stream* s) { return presil_matmul(d, s, &desc); });
}

bool chip_operator(const presil_op& op, at::TensorList reads, at::TensorList outputs) {
  c10::SmallVector<const at::Tensor*, 8> from, to;
  for (const auto& t : reads) from.push_back(&t);
  for (const auto& t : outputs) to.push_back(&t);
  return enqueued(op.label, from, to, [&](presil_device* d, presil_stream* s) { return presil_op_enqueue(d, s, &op); });
}

}  // namespace presil
