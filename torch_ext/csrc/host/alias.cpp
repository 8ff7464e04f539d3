// SPDX-License-Identifier: Apache-2.0
#include "host/alias.h"
#include "runtime/allocator.h"

#include <c10/core/CPUAllocator.h>

namespace presil {
namespace {

thread_local int tls_heap = -1;
thread_local AllocationPlan* tls_plan = nullptr;
c10::Allocator* plain_cpu_allocator = nullptr;

void free_any(void* p) {
  if (C10_UNLIKELY(tls_plan != nullptr && tls_plan->replaying))
    for (const auto& block : tls_plan->blocks)
      if (block.result && block.data == p) return;  // a graph's
  if (device_of_pointer(p) >= 0)
    device_free(p);
  else
    plain_cpu_allocator->raw_deleter()(p);
}

// Replaces the CPU allocator once a fallback ran; outside fallbacks it passes everything on.
struct RedirectingCpuAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t n) override {
    if (C10_UNLIKELY(tls_plan != nullptr && tls_plan->replaying && n)) return planned(n);
    if (tls_heap < 0 || n == 0) return plain_cpu_allocator->allocate(n);
    void* p = device_malloc(tls_heap, n);
    if (C10_UNLIKELY(tls_plan != nullptr)) tls_plan->blocks.push_back({p, n, false});
    wait_for_host(tls_heap, p,
                  n);  // another thread may have enqueued work on the block and freed it since this operator waited
    return {p, p, &device_free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &free_any; }
  void copy_data(void* to, const void* from, size_t n) const override { memcpy(to, from, n); }

 private:
  static c10::DataPtr planned(size_t n) {
    const size_t i = tls_plan->next++;
    if (i >= tls_plan->blocks.size() || !tls_plan->blocks[i].result || tls_plan->blocks[i].bytes != n)
      return plain_cpu_allocator->allocate(n);
    return {tls_plan->blocks[i].data, tls_plan->blocks[i].data, &c10::detail::deleteNothing, c10::Device(c10::kCPU)};
  }
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

}  // namespace

void copy_metadata(const c10::TensorImpl* from, c10::TensorImpl* to) {
  to->set_storage_offset(from->storage_offset());
  to->set_sizes_and_strides(from->sizes(), from->strides());
  if (from->is_wrapped_number()) to->set_wrapped_number(true);
  if (from->is_conj()) to->_set_conj(true);
  if (from->is_neg()) to->_set_neg(true);
}

AllocationPlan* exchange_allocation_plan(AllocationPlan* plan) noexcept { return std::exchange(tls_plan, plan); }

AllocateOnDevice::AllocateOnDevice(int index) : previous_(tls_heap) {
  install_redirecting_allocator();
  tls_heap = index;
}
AllocateOnDevice::~AllocateOnDevice() { tls_heap = previous_; }

int PointerIndex::find(const void* key) const {
  if (C10_UNLIKELY(many_ != nullptr)) {
    const auto it = many_->find(key);
    return it == many_->end() ? -1 : it->second;
  }
  for (size_t i = 0; i < keys_.size(); i++)
    if (keys_[i] == key) return static_cast<int>(i);
  return -1;
}
void PointerIndex::add(const void* key) {
  constexpr size_t kMany = 24;
  keys_.push_back(key);
  if (C10_LIKELY(keys_.size() < kMany)) return;
  if (!many_) {
    many_ = std::make_unique<ska::flat_hash_map<const void*, int>>();
    for (size_t i = 0; i < keys_.size(); i++) many_->emplace(keys_[i], static_cast<int>(i));
  }
  many_->emplace(key, static_cast<int>(keys_.size()) - 1);
}

int HostViews::storage_position(c10::StorageImpl* dev) {
  const int known = dev_storages_.find(dev);
  if (known >= 0) return known;
  make_writable(dev);  // whatever the operator's schema says: kernels write what theirs doesn't mark
  // The view holds a reference, so that a kernel that stores its input keeps the device memory alive.
  c10::intrusive_ptr_target* target = dev;
  c10::raw::intrusive_ptr::incref(target);
  void* data = dev->_mutable_data_ptr_no_checks().get();
  c10::Storage cpu(c10::Storage::use_byte_size_t{}, dev->nbytes(),
                   c10::DataPtr(data, target, &drop_reference, c10::Device(c10::kCPU)), c10::GetCPUAllocator(), true);
  dev_storages_.add(dev);
  cpu_storages_.add(cpu.unsafeGetStorageImpl());
  storages_.push_back({dev, std::move(cpu), data, dev->nbytes()});
  if (settled_) bring(storages_.back());
  return static_cast<int>(storages_.size()) - 1;
}

void HostViews::bring(const StoragePair& pair) { wait_for_host(pair.dev->device().index(), pair.data, pair.bytes); }

void HostViews::settle(int index) {
  settled_ = true;
  if (index < 0) index = index_;
  if (index >= 0) wait_for_host(index, nullptr, 0);
  for (const auto& pair : storages_) bring(pair);
}

c10::Storage HostViews::to_host(const c10::Storage& s) {
  auto* impl = s.unsafeGetStorageImpl();
  if (impl->device_type() != kDevice) {
    cpu_tensor_ = true;
    return s;
  }
  return storages_[storage_position(impl)].cpu;
}

at::Tensor HostViews::to_host(const at::Tensor& t) {
  if (!t.defined()) return t;
  auto* impl = t.unsafeGetTensorImpl();
  if (impl->device_type() != kDevice) {
    if (t.has_storage()) cpu_inputs_.push_back(t.storage().unsafeGetStorageImpl());
    if (t.dim() > 0) cpu_tensor_ = true;
    return t;
  }
  const int index = impl->device().index();
  TORCH_CHECK(index_ < 0 || index_ == index,
              "Expected all tensors to be on the same device, but found at least two devices, presil:", index_,
              " and presil:", index, "!");
  index_ = index;
  const int known = dev_tensors_.find(impl);
  if (known >= 0) return tensors_[known].cpu;
  TORCH_CHECK_NOT_IMPLEMENTED(impl->has_storage() && impl->layout() == c10::kStrided, "presil: an operand has layout ",
                              impl->layout(), "; the device holds strided tensors only");
  const int storage = storage_position(impl->unsafe_storage().unsafeGetStorageImpl());
  at::Tensor cpu = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storages_[storage].cpu),
                                                            c10::DispatchKeySet(c10::DispatchKey::CPU), impl->dtype());
  copy_metadata(impl, cpu.unsafeGetTensorImpl());
  dev_tensors_.add(impl);
  cpu_tensors_.add(cpu.unsafeGetTensorImpl());
  tensors_.push_back({t, cpu, storage});
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
  const int known = cpu_storages_.find(impl);
  if (known >= 0) return c10::Storage(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(storages_[known].dev));
  for (auto& pair : adopted_)
    if (pair.first == impl) return pair.second;
  const size_t bytes = cpu.nbytes();
  c10::Storage s(c10::Storage::use_byte_size_t{}, bytes, adopt(impl, bytes), &device_allocator(), true);
  adopted_.emplace_back(impl, s);
  return s;
}

at::Tensor HostViews::to_device(const at::Tensor& t) {
  if (!t.defined() || t.device().type() != c10::kCPU || index_ < 0) return t;
  const int known = cpu_tensors_.find(t.unsafeGetTensorImpl());
  if (known >= 0) return tensors_[known].dev;
  TORCH_CHECK_NOT_IMPLEMENTED(t.layout() == c10::kStrided && !t.is_quantized(), "presil: the result has layout ",
                              t.layout(), t.is_quantized() ? " and is quantized" : "",
                              "; the device holds strided tensors only. Compute this operator on the CPU: x.cpu()");
  for (auto* impl : cpu_inputs_)
    if (t.storage().unsafeGetStorageImpl() == impl) return t;
  keep_.push_back(t);
  auto* impl = t.unsafeGetTensorImpl();
  at::Tensor dev = at::detail::make_tensor<c10::TensorImpl>(
      device_storage(impl->storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), impl->dtype());
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
    if (C10_UNLIKELY(dev->sizes() != cpu->sizes() || dev->strides() != cpu->strides() ||
                     dev->storage_offset() != cpu->storage_offset())) {
      dev->set_storage_offset(cpu->storage_offset());
      dev->set_sizes_and_strides(cpu->sizes(), cpu->strides());
    }
    if (C10_UNLIKELY(cpu->unsafe_storage().unsafeGetStorageImpl() !=
                     storages_[pair.storage].cpu.unsafeGetStorageImpl())) {
      keep_.push_back(pair.cpu);
      dev->set_storage_keep_dtype(device_storage(cpu->storage()));
    }
  }
}

}  // namespace presil
