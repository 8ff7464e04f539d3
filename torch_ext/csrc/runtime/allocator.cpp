// SPDX-License-Identifier: Apache-2.0
#include "runtime/allocator.h"
#include "runtime/capturing.h"
#include "runtime/device.h"
#include "runtime/pools.h"
#include "runtime/writes.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/COW.h>

#include <mutex>

namespace presil {
namespace {

using Statistic = c10::CachingAllocator::Stat;
using Statistics = c10::CachingAllocator::StatArray;

presil_memory_counters driver_counters(presil_device* handle) {
  presil_memory_counters counters{};
  counters.size = sizeof counters;
  check(presil_memory_get_counters(handle, &counters), "memory statistics");
  return counters;
}
presil_memory_stats driver_stats(int index) {
  presil_memory_stats stats{};
  stats.size = sizeof stats;
  check(presil_memory_get_stats(device(index), &stats), "memory statistics");
  return stats;
}

// The order of the kinds is torch's: all, small, large.
Statistics statistics(const presil_memory_counter (&kinds)[PRESIL_MEMORY_KINDS]) {
  Statistics out;
  for (int i = 0; i < PRESIL_MEMORY_KINDS; i++) {
    out[i].current = static_cast<int64_t>(kinds[i].current);
    out[i].peak = static_cast<int64_t>(kinds[i].peak);
    out[i].allocated = static_cast<int64_t>(kinds[i].gained);
    out[i].freed = static_cast<int64_t>(kinds[i].lost);
  }
  return out;
}

class DriverAllocator final : public c10::DeviceAllocator {
 public:
  c10::DataPtr allocate(size_t n) override {
    const int index = current_device();
    void* p = device_malloc(index, n);
    return {p, p, &device_free, c10::Device(kDevice, static_cast<c10::DeviceIndex>(index))};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &device_free; }
  // Of storages that are copied on write.
  void copy_data(void* to, const void* from, size_t n) const override {
    const int index = device_of_pointer(to);
    TORCH_CHECK(index == device_of_pointer(from),
                "presil: the copy of a lazily cloned tensor of presil:", device_of_pointer(from),
                " was made while presil:", index,
                " was current: write it inside `with torch.presil.device(tensor.device)`");
    if (index >= 0) wait_pending(index);
    memcpy(to, from, n);
  }
  bool initialized() override { return true; }
  // Whatever the pool: cached pages are worth the same to all.
  void emptyCache(c10::MempoolId_t) override {
    for (int i = 0; i < device_count(); i++)
      if (auto* d = opened(i)) presil_memory_empty_cache(d);
  }
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex index) override {
    c10::CachingDeviceAllocator::DeviceStats out;
    auto* handle = opened(checked_index(index));
    if (!handle) return out;
    const auto c = driver_counters(handle);
    out.allocation = out.active = statistics(c.counter[PRESIL_MEMORY_BLOCKS]);
    out.allocated_bytes = out.active_bytes = statistics(c.counter[PRESIL_MEMORY_BYTES]);
    out.requested_bytes = statistics(c.counter[PRESIL_MEMORY_REQUESTED]);
    out.reserved_bytes = statistics(c.counter[PRESIL_MEMORY_RESERVED]);
    out.segment = statistics(c.counter[PRESIL_MEMORY_SEGMENTS]);
    out.num_ooms = static_cast<int64_t>(c.failures);
    out.num_alloc_retries = static_cast<int64_t>(c.flushes);
    out.num_device_alloc = out.segment[0].allocated;
    out.num_device_free = out.segment[0].freed;
    return out;
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    if (auto* d = opened(checked_index(index))) presil_memory_reset_totals(d);
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    if (auto* d = opened(checked_index(index))) presil_memory_reset_peak(d);
  }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex index) override {
    const auto s = driver_stats(index);
    return {s.capacity - s.allocated, s.capacity};
  }
};

std::mutex cache_list_mutex;
std::vector<void (*)()>& caches() {
  static auto* list = new std::vector<void (*)()>;
  return *list;
}
void release_caches() {
  std::vector<void (*)()> list;
  {
    std::lock_guard<std::mutex> lock(cache_list_mutex);
    list = caches();
  }
  for (auto* release : list) release();
}

std::string size_text(uint64_t bytes) {
  static const char* const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 5) value /= 1024, unit++;
  char text[48];
  snprintf(text, sizeof text, unit ? "%.2f %s" : "%.0f %s", value, units[unit]);
  return text;
}

[[noreturn]] void out_of_memory(int index, size_t bytes) {
  const std::string driver = presil_error_text();
  const auto s = driver_stats(index);
  raise_text(
      PRESIL_ENOMEM,
      c10::str(
          "presil:", index, " is out of memory: tried to allocate ", size_text(bytes), " (", bytes, " bytes). Of ",
          size_text(s.capacity), " capacity, ", size_text(s.capacity - s.allocated),
          " are free (the largest piece: ", size_text(s.largest_free), "), ", size_text(s.allocated),
          " are allocated in ", s.active_blocks, " blocks, ", size_text(s.reserved),
          " are reserved (allocated and cached). Drop tensors, look at torch.presil.memory_summary() for what is "
          "alive, or give the device more with the environment variable PRESIL_MEMORY (16G by default). The driver: ",
          driver));
}

}  // namespace

c10::DeviceAllocator& device_allocator() {
  static auto* a = new DriverAllocator;
  return *a;
}

void* device_malloc(int index, size_t bytes) {
  if (bytes == 0) return nullptr;
  auto* handle = device(index);
  presil_pool* pool = capture_pool(index);
  if (C10_LIKELY(!pool)) pool = current_pool_handle(index);
  presil_daddr address{};
  int status = presil_alloc(handle, nullptr, pool, bytes, &address);
  if (C10_UNLIKELY(status == PRESIL_ENOMEM)) {
    release_caches();
    status = presil_alloc(handle, nullptr, pool, bytes, &address);
    if (status == PRESIL_ENOMEM) out_of_memory(index, bytes);
  }
  check(status, "allocating device memory");
  return presil_host_pointer(handle, address, bytes);
}
void device_free(void* p) {
  const int index = p ? device_of_pointer(p) : -1;
  if (index < 0) return;
  presil_daddr address{};
  if (!presil_device_address(opened(index), p, &address)) return;
  if (auto* listener = write_listener.load()) listener(p, presil_memory_bytes_of(opened(index), address), true);
  (void)!presil_free(opened(index), address);
}

std::vector<c10::CachingDeviceAllocator::SegmentInfo> memory_segments(int index) {
  std::vector<c10::CachingDeviceAllocator::SegmentInfo> segments;
  auto* handle = opened(checked_index(index));
  if (!handle) return segments;
  std::vector<presil_memory_block> blocks;
  uint64_t count = 0;
  do {  // other threads may allocate in between
    blocks.resize(count + 64);
    check(presil_memory_snapshot(handle, blocks.data(), blocks.size(), &count), "memory snapshot");
  } while (count > blocks.size());
  blocks.resize(count);
  const presil_memory_block* last = nullptr;
  for (const auto& block : blocks) {
    if (!last || last->address.value + last->bytes != block.address.value || last->pool != block.pool ||
        last->kind != block.kind) {
      segments.emplace_back();
      segments.back().device = static_cast<c10::DeviceIndex>(index);
      segments.back().address = block.address.value;
      segments.back().is_large = block.kind == PRESIL_MEMORY_LARGE;
      segments.back().owner_private_pool_id = pool_by_number(index, block.pool);
    }
    last = &block;
    auto& segment = segments.back();
    segment.total_size += block.bytes;
    segment.requested_size += block.requested;
    segment.allocated_size += block.live ? block.bytes : 0;
    segment.active_size = segment.allocated_size;
    segment.blocks.emplace_back();
    segment.blocks.back().size = block.bytes;
    segment.blocks.back().requested_size = block.requested;
    segment.blocks.back().allocated = segment.blocks.back().active = block.live != 0;
  }
  return segments;
}

void make_writable(c10::StorageImpl* storage) {
  if (C10_LIKELY(!c10::impl::cow::is_cow_data_ptr(storage->data_ptr()))) return;
  const c10::DeviceGuard guard(storage->device());
  (void)storage->mutable_data_ptr();
}

void register_cache(void (*release)()) {
  std::lock_guard<std::mutex> lock(cache_list_mutex);
  caches().push_back(release);
}

static const int registered = (c10::SetAllocator(kDevice, &device_allocator(), 0), 0);

}  // namespace presil
