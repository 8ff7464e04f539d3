// SPDX-License-Identifier: Apache-2.0
#include "runtime/allocator.h"
#include "runtime/device.h"

#include <map>
#include <mutex>

namespace presil {
namespace {

using Statistic = c10::CachingAllocator::Stat;

presil_memory_stats driver_stats(int index) {
  presil_memory_stats stats{};
  stats.size = sizeof stats;
  check(presil_memory_get_stats(device(index), &stats), "memory statistics");
  return stats;
}

Statistic make_stat(uint64_t current, uint64_t peak, uint64_t allocated, uint64_t freed) {
  Statistic s;
  s.current = static_cast<int64_t>(current);
  s.peak = static_cast<int64_t>(peak);
  s.allocated = static_cast<int64_t>(allocated);
  s.freed = static_cast<int64_t>(freed);
  return s;
}

class DriverAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    const int index = current_device();
    void* p = device_malloc(index, n);
    return {p, p, &device_free, c10::Device(kDevice, static_cast<c10::DeviceIndex>(index))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &device_free; }
  void copy_data(void* to, const void* from, size_t n) const override { memcpy(to, from, n); }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t) override {
    for (int i = 0; i < device_count(); i++)
      if (auto* d = opened(i)) presil_memory_empty_cache(d);
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    const auto s = driver_stats(index);
    c10::CachingDeviceAllocator::DeviceStats out;
    out.allocated_bytes[0] = out.active_bytes[0] = out.requested_bytes[0] = make_stat(s.allocated, s.allocated_peak, s.allocated, 0);
    out.reserved_bytes[0] = make_stat(s.reserved, s.reserved_peak, s.reserved, 0);
    out.allocation[0] = out.active[0] = make_stat(s.active_blocks, s.active_blocks, s.allocations, s.frees);
    out.num_ooms = static_cast<int64_t>(s.failures);
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex) override {}
  void resetPeakStats(c10::DeviceIndex index) override { presil_memory_reset_peak(device(index)); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const auto s = driver_stats(index);
    return {s.capacity - s.allocated, s.capacity};
  }
};

std::mutex pinned_mutex;
std::map<const char*, size_t>& pinned_blocks() {
  static auto* blocks = new std::map<const char*, size_t>;
  return *blocks;
}
void pinned_free(void* p) {
  {
    std::lock_guard<std::mutex> lock(pinned_mutex);
    pinned_blocks().erase(static_cast<char*>(p));
  }
  std::free(p);
}

// All host memory is within reach of the simulated device; "pinned" is kept as a property so that pin_memory and is_pinned agree.
class PinnedAllocator final : public at::HostAllocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    void* p = std::aligned_alloc(64, (n / 64 + 1) * 64);
    TORCH_CHECK(p, "presil: out of host memory for ", n, " pinned bytes");
    std::lock_guard<std::mutex> lock(pinned_mutex);
    pinned_blocks()[static_cast<char*>(p)] = n ? n : 1;
    return {p, p, &pinned_free, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &pinned_free; }
  void copy_data(void* to, const void* from, size_t n) const override { memcpy(to, from, n); }
  bool record_event(void*, void*, c10::Stream) override { return true; }
  void empty_cache() override {}
  at::HostStats get_stats() override { return {}; }
  void reset_accumulated_stats() override {}
  void reset_peak_stats() override {}
};

}  // namespace

c10::DeviceAllocator& device_allocator() {
  static auto* a = new DriverAllocator;
  return *a;
}
at::HostAllocator& host_allocator() {
  static auto* a = new PinnedAllocator;
  return *a;
}
bool is_pinned(const void* p) {
  std::lock_guard<std::mutex> lock(pinned_mutex);
  auto it = pinned_blocks().upper_bound(static_cast<const char*>(p));
  if (it == pinned_blocks().begin()) return false;
  --it;
  return static_cast<const char*>(p) < it->first + it->second;
}

void* device_malloc(int index, size_t bytes) {
  if (bytes == 0) return nullptr;
  presil_daddr address{};
  check(presil_alloc(device(index), current_stream(index), nullptr, bytes, &address), "allocating device memory");
  return presil_host_pointer(device(index), address, bytes);
}
void device_free(void* p) {
  const int index = p ? device_of_pointer(p) : -1;
  if (index < 0) return;
  presil_daddr address{};
  if (presil_device_address(opened(index), p, &address)) (void)!presil_free(opened(index), address);
}

static const int registered = (c10::SetAllocator(kDevice, &device_allocator(), 0), 0);
REGISTER_HOST_ALLOCATOR(kDevice, &host_allocator())

}  // namespace presil
