// SPDX-License-Identifier: Apache-2.0
#include "runtime/pinned.h"
#include "runtime/allocator.h"
#include "runtime/device.h"

#include <map>
#include <mutex>

namespace presil {
namespace {

std::mutex range_mutex;
std::map<const char*, size_t>& ranges() {  // of all blocks, cached ones too
  static auto* r = new std::map<const char*, size_t>;
  return *r;
}

// Owns one driver event.
struct Event {
  presil_event* handle = nullptr;
  explicit Event(presil_event* h) : handle(h) {}
  Event(Event&& other) noexcept : handle(std::exchange(other.handle, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(handle, other.handle);
    return *this;
  }
  ~Event() {
    if (handle) presil_event_destroy(handle);
  }
};

struct PinnedBlocks final : at::CachingHostAllocatorImpl<c10::Stream, Event> {
 private:
  void allocate_host_memory(size_t size, void** out) override {
    void* p = std::aligned_alloc(4096, (size + 4095) / 4096 * 4096);
    TORCH_CHECK_WITH(OutOfMemoryError, p, "presil: host memory is full: no ", size, " pinned bytes");
    std::lock_guard<std::mutex> lock(range_mutex);
    ranges()[static_cast<char*>(p)] = size;
    *out = p;
  }
  void free_block(at::HostBlock<c10::Stream>* block) override {
    {
      std::lock_guard<std::mutex> lock(range_mutex);
      ranges().erase(static_cast<char*>(block->ptr_));
    }
    std::free(block->ptr_);
  }
  void record_stream(std::optional<std::vector<Event>>& events, c10::Stream stream) override {
    presil_event* event = nullptr;
    check(presil_event_create(device(stream.device_index()), &event), "creating an event");
    events->emplace_back(event);
    check(presil_event_record(event, stream_of(stream.device_index(), stream.id())), "recording an event");
  }
  bool query_event(Event& event) override { return presil_event_query(event.handle); }
  c10::Stream get_current_stream() const override {
    const int index = current_device();
    return c10::Stream(c10::Stream::UNSAFE, c10::Device(kDevice, static_cast<c10::DeviceIndex>(index)),
                       current_stream_id(index));
  }
  bool stream_is_capturing(c10::Stream) const override { return false; }
};

void pinned_free(void* context);
struct PinnedAllocator final : at::CachingHostAllocatorInterface<PinnedBlocks, &pinned_free> {
  c10::DeleterFnPtr raw_deleter() const override { return &pinned_free; }
};
PinnedAllocator& pinned_allocator() {
  static auto* a = new PinnedAllocator;  // never destroyed: pinned tensors may outlive static destruction
  return *a;
}
void pinned_free(void* context) { pinned_allocator().free(context); }

bool same_order(const at::Tensor& a, const at::Tensor& b) {
  return a.dtype() == b.dtype() && a.sizes() == b.sizes() && a.strides() == b.strides() &&
         a.is_non_overlapping_and_dense() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg();
}

void record_use(const at::Tensor& host, c10::Stream stream) {
  pinned_allocator().record_event(host.storage().mutable_data(), host.storage().data_ptr().get_context(), stream);
}

}  // namespace

at::HostAllocator& host_allocator() { return pinned_allocator(); }

bool is_pinned(const void* p) {
  std::lock_guard<std::mutex> lock(range_mutex);
  auto it = ranges().upper_bound(static_cast<const char*>(p));
  if (it == ranges().begin()) return false;
  --it;
  return static_cast<const char*>(p) < it->first + it->second;
}

bool copy_later(const at::Tensor& from, const at::Tensor& to) {
  const bool upload = to.device().type() == kDevice;
  const at::Tensor& host = upload ? from : to;
  const at::Tensor& dev = upload ? to : from;
  if (!host.is_cpu() || dev.device().type() != kDevice || !same_order(from, to) || from.numel() == 0 ||
      !is_pinned(host.const_data_ptr()))
    return false;
  const int index = dev.device().index();
  const c10::Stream stream(c10::Stream::UNSAFE, dev.device(), current_stream_id(index));
  if (upload) make_writable(dev.storage().unsafeGetStorageImpl());
  presil_daddr address = address_of(index, dev.storage().data());
  address.value += static_cast<uint64_t>(dev.storage_offset()) * dev.element_size();
  if (upload)
    check(presil_copy_to_device(device(index), current_stream(index), address, host.const_data_ptr(), host.nbytes(),
                                PRESIL_COPY_DIRECT),
          "copy to the device");
  else
    check(presil_copy_to_host(device(index), current_stream(index), host.mutable_data_ptr(), address, host.nbytes(),
                              PRESIL_COPY_DIRECT),
          "copy to the host");
  record_use(host, stream);
  mark_pending(index);
  return true;
}

REGISTER_HOST_ALLOCATOR(kDevice, &host_allocator())

}  // namespace presil
