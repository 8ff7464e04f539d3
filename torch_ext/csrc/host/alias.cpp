// SPDX-License-Identifier: Apache-2.0
#include "host/alias.h"
#include "runtime/allocator.h"

#include <c10/core/CPUAllocator.h>

namespace presil {
namespace {

thread_local int tls_heap = -1;
c10::Allocator* plain_cpu_allocator = nullptr;

void free_any(void* p) {
  if (device_of_pointer(p) >= 0)
    device_free(p);
  else
    plain_cpu_allocator->raw_deleter()(p);
}

// Replaces the CPU allocator once a fallback ran; outside fallbacks it passes everything on.
struct RedirectingCpuAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    if (tls_heap < 0 || n == 0) return plain_cpu_allocator->allocate(n);
    void* p = device_malloc(tls_heap, n);
    wait_pending(tls_heap);  // another thread may have enqueued work on the block and freed it since this operator waited
    return {p, p, &device_free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_any; }
  void copy_data(void* to, const void* from, size_t n) const override { memcpy(to, from, n); }
};

void install_redirecting_allocator() {
  static const bool once = [] {
    plain_cpu_allocator = c10::GetCPUAllocator();
    c10::SetCPUAllocator(new RedirectingCpuAllocator, 200);
    return true;
  }();
  (void)once;
}

void drop_reference(void* p) { c10::raw::intrusive_ptr::decref(static_cast<c10::intrusive_ptr_target*>(p)); }

void copy_metadata(const c10::TensorImpl* from, c10::TensorImpl* to) {
  to->set_storage_offset(from->storage_offset());
  to->set_sizes_and_strides(from->sizes(), from->strides());
  if (from->is_wrapped_number()) to->set_wrapped_number(true);
  if (from->is_conj()) to->_set_conj(true);
  if (from->is_neg()) to->_set_neg(true);
}

}  // namespace

AllocateOnDevice::AllocateOnDevice(int index) : previous_(tls_heap) {
  install_redirecting_allocator();
  tls_heap = index;
}
AllocateOnDevice::~AllocateOnDevice() { tls_heap = previous_; }

c10::Storage HostViews::to_host(const c10::Storage& s) {
  auto* impl = s.unsafeGetStorageImpl();
  if (impl->device_type() != kDevice) return s;
  for (auto& pair : storages_)
    if (pair.dev == impl) return pair.cpu;
  // The view holds a reference, so that a kernel that stores its input keeps the device memory alive.
  c10::intrusive_ptr_target* target = impl;
  c10::raw::intrusive_ptr::incref(target);
  void* data = impl->_mutable_data_ptr_no_checks().get();
  c10::Storage cpu(c10::Storage::use_byte_size_t{}, impl->nbytes(), c10::DataPtr(data, target, &drop_reference, c10::Device(c10::kCPU)), c10::GetCPUAllocator(), true);
  storages_.push_back({impl, cpu, data, impl->nbytes()});
  return cpu;
}

at::Tensor HostViews::to_host(const at::Tensor& t) {
  if (!t.defined()) return t;
  if (t.device().type() != kDevice) {
    if (t.has_storage()) cpu_inputs_.push_back(t.storage().unsafeGetStorageImpl());
    if (t.dim() > 0) cpu_tensor_ = true;
    return t;
  }
  const int index = t.device().index();
  TORCH_CHECK(index_ < 0 || index_ == index, "Expected all tensors to be on the same device, but found at least two devices, presil:", index_, " and presil:", index, "!");
  index_ = index;
  for (auto& pair : tensors_)
    if (pair.dev.is_same(t)) return pair.cpu;
  auto* impl = t.unsafeGetTensorImpl();
  at::Tensor cpu = at::detail::make_tensor<c10::TensorImpl>(to_host(impl->storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), impl->dtype());
  copy_metadata(impl, cpu.unsafeGetTensorImpl());
  tensors_.push_back({t, cpu});
  return cpu;
}

c10::DataPtr HostViews::adopt(c10::StorageImpl* cpu, size_t bytes) {
  auto& data = cpu->_mutable_data_ptr_no_checks();
  const c10::Device dev(kDevice, static_cast<c10::DeviceIndex>(index_));
  if (data.get() && cpu->allocator() && data.get_deleter() == &device_free && device_of_pointer(data.get()) == index_) {
    auto old = cpu->set_data_ptr(c10::DataPtr(nullptr, c10::Device(c10::kCPU)));
    void* p = old.get();
    old.release_context();
    return {p, p, &device_free, dev};
  }
  void* p = device_malloc(index_, bytes);
  if (bytes) memcpy(p, data.get(), bytes);
  return {p, p, &device_free, dev};
}

c10::Storage HostViews::device_storage(const c10::Storage& cpu) {
  auto* impl = cpu.unsafeGetStorageImpl();
  for (auto& pair : storages_)
    if (pair.cpu.unsafeGetStorageImpl() == impl) return c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(pair.dev));
  for (auto& pair : adopted_)
    if (pair.first == impl) return pair.second;
  const size_t bytes = cpu.nbytes();
  c10::Storage s(c10::Storage::use_byte_size_t{}, bytes, adopt(impl, bytes), &device_allocator(), true);
  adopted_.emplace_back(impl, s);
  return s;
}

at::Tensor HostViews::to_device(const at::Tensor& t) {
  if (!t.defined() || t.device().type() != c10::kCPU || index_ < 0) return t;
  for (auto& pair : tensors_)
    if (pair.cpu.is_same(t)) return pair.dev;
  TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == c10::kStrided && !t.is_quantized(), "presil: the result has layout ", t.layout(), t.is_quantized() ? " and is quantized" : "",
                              "; the device holds strided tensors only. Compute this operator on the CPU: x.cpu()");
  for (auto* impl : cpu_inputs_)
    if (t.storage().unsafeGetStorageImpl() == impl) return t;
  keep_.push_back(t);
  auto* impl = t.unsafeGetTensorImpl();
  at::Tensor dev = at::detail::make_tensor<c10::TensorImpl>(device_storage(impl->storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), impl->dtype());
  copy_metadata(impl, dev.unsafeGetTensorImpl());
  return dev;
}

void HostViews::finish() {
  for (auto& pair : storages_) {
    auto* cpu = pair.cpu.unsafeGetStorageImpl();
    const bool moved = cpu->_mutable_data_ptr_no_checks().get() != pair.data;
    if (C10_LIKELY(!moved && cpu->nbytes() == pair.bytes)) continue;
    if (index_ < 0) index_ = pair.dev->device().index();
    const size_t bytes = cpu->nbytes();
    if (moved) pair.dev->set_data_ptr_noswap(adopt(cpu, bytes));
    pair.dev->set_nbytes(bytes);
  }
  for (auto& pair : tensors_) {
    auto* dev = pair.dev.unsafeGetTensorImpl();
    auto* cpu = pair.cpu.unsafeGetTensorImpl();
    if (C10_UNLIKELY(dev->sizes() != cpu->sizes() || dev->strides() != cpu->strides() || dev->storage_offset() != cpu->storage_offset())) {
      dev->set_storage_offset(cpu->storage_offset());
      dev->set_sizes_and_strides(cpu->sizes(), cpu->strides());
    }
    bool same = false;
    for (auto& s : storages_)
      same |= s.dev == dev->storage().unsafeGetStorageImpl() && s.cpu.unsafeGetStorageImpl() == cpu->storage().unsafeGetStorageImpl();
    if (C10_UNLIKELY(!same)) {
      keep_.push_back(pair.cpu);
      dev->set_storage_keep_dtype(device_storage(cpu->storage()));
    }
  }
}

}  // namespace presil
