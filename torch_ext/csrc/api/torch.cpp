// SPDX-License-Identifier: Apache-2.0
#include <presil/torch.h>

#include "runtime/allocator.h"
#include "runtime/capturing.h"
#include "host/fallback.h"
#include "observe/observer.h"
#include "runtime/writes.h"

namespace presil::api {
namespace {

int index_of(const at::Tensor& t) {
  TORCH_CHECK_VALUE(t.defined() && t.device().type() == kDevice && t.layout() == c10::kStrided,
                    "presil: expected a dense tensor on the device presil, got ",
                    t.defined() ? c10::str(t.layout(), " on ", t.device()) : "an undefined one");
  return t.device().index();
}

presil_dtype element_type(const at::Tensor& t) {
  switch (t.scalar_type()) {
    case c10::kFloat: return PRESIL_FP32;
    case c10::kBFloat16: return PRESIL_BF16;
    case c10::kHalf: return PRESIL_FP16;
    case c10::kChar: return PRESIL_INT8;
    case c10::kInt: return PRESIL_INT32;
    default:
      TORCH_CHECK_TYPE(false, "presil: the chip has no dtype ", t.scalar_type(),
                       " (float32, bfloat16, float16, int8, int32)");
  }
}

}  // namespace

int device_count() { return presil::device_count(); }
presil_device* device_of(const at::Tensor& tensor) { return presil::device(index_of(tensor)); }
presil_stream* stream_of(const at::Tensor& tensor) { return current_stream(index_of(tensor)); }

presil_tensor describe(const at::Tensor& tensor, at::IntArrayRef order) {
  const int index = index_of(tensor);
  const size_t dims = order.empty() ? static_cast<size_t>(tensor.dim()) : order.size();
  TORCH_CHECK_VALUE(dims <= 4, "presil: the driver's views have at most 4 dimensions, got ", dims);
  TORCH_CHECK_VALUE(tensor.numel() > 0, "presil: an empty tensor has no address; shape ", tensor.sizes());
  make_writable(tensor.storage().unsafeGetStorageImpl());  // it may be described to be written
  presil_tensor out{};
  out.dtype = element_type(tensor);
  out.data = address_of(index, tensor.storage().data());
  out.data.value += static_cast<uint64_t>(tensor.storage_offset()) * tensor.element_size();
  out.ndim = static_cast<uint32_t>(dims);
  for (size_t i = 0; i < dims; i++) {
    const int64_t d = order.empty() ? static_cast<int64_t>(i) : order[i];
    out.shape[i] = tensor.size(d);
    out.stride[i] = tensor.stride(d);
  }
  return out;
}

bool launch(const char* op, const at::Tensor& written,
            const std::function<int(presil_device*, presil_stream*)>& enqueue) {
  const int index = index_of(written);
  refuse_capture(index, op, "a graph has to know what a launch reads, which this interface does not say");
  const AnnouncedWrites announced(written);
  const int status = enqueue(presil::device(index), current_stream(index));
  if (status == PRESIL_EUNSUPPORTED) return false;
  presil::check(status, op);
  mark_pending(index);
  return true;
}

Host::Host(const char* op, const char* reason, const at::Tensor& any_operand)
    : index_(index_of(any_operand)), op_(op), reason_(reason) {
  refuse_capture(index_, op, "its kernel computes without operators of PyTorch, which is not recorded");
  refuse_in_strict_mode(op, reason_);
  wait_pending(index_);
  start_ns_ = static_cast<int64_t>(observe_now_ns());
}

Host::~Host() {
  for (const auto& t : written_) memory_written(t);
  note_host_operator(host_site(op_), reason_.c_str(), static_cast<int64_t>(observe_now_ns()) - start_ns_);
}

at::Tensor Host::read(const at::Tensor& tensor) const {
  TORCH_CHECK_VALUE(index_of(tensor) == index_, "presil: operands on two devices, presil:", index_, " and ",
                    tensor.device());
  HostViews views;
  return views.to_host(tensor);
}

at::Tensor Host::write(const at::Tensor& tensor) const {
  at::Tensor view = read(tensor);
  written_.push_back(tensor);
  return view;
}

}  // namespace presil::api
