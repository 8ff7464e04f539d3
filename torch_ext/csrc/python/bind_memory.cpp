// SPDX-License-Identifier: Apache-2.0
#include "python/bind.h"

#include "runtime/allocator.h"
#include "runtime/device.h"
#include "runtime/pinned.h"
#include "runtime/pools.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace presil {
namespace {

py::dict to_dict(const c10::CachingDeviceAllocator::SegmentInfo& s) {
  py::list blocks;
  size_t address = s.address;
  for (const auto& b : s.blocks) {
    py::dict block;
    block["address"] = address;
    block["size"] = b.size;
    block["requested_size"] = b.requested_size;
    block["state"] = b.allocated ? "active_allocated" : "inactive";
    block["frames"] = py::list();
    blocks.append(block);
    address += b.size;
  }
  py::dict d;
  d["device"] = s.device;
  d["address"] = s.address;
  d["total_size"] = s.total_size;
  d["allocated_size"] = s.allocated_size;
  d["active_size"] = s.active_size;
  d["requested_size"] = s.requested_size;
  d["stream"] = 0;
  d["segment_type"] = s.is_large ? "large" : "small";
  d["segment_pool_id"] = py::make_tuple(s.owner_private_pool_id.first, s.owner_private_pool_id.second);
  d["is_expandable"] = false;
  d["frames"] = py::list();
  d["blocks"] = blocks;
  return d;
}

py::list snapshot(int index) {
  py::list out;
  for (const auto& segment : memory_segments(index)) out.append(to_dict(segment));
  return out;
}

py::dict to_dict(const c10::CachingAllocator::Stat& s) {
  py::dict d;
  d["current"] = s.current;
  d["peak"] = s.peak;
  d["allocated"] = s.allocated;
  d["freed"] = s.freed;
  return d;
}
py::dict to_dict(const c10::CachingAllocator::DurationStat& s) {
  py::dict d;
  d["total"] = s.total;
  d["max"] = s.max;
  d["min"] = s.min;
  d["count"] = s.count;
  d["avg"] = s.count ? static_cast<double>(s.total) / static_cast<double>(s.count) : 0.0;
  return d;
}

py::dict host_memory_stats() {
  const auto s = host_allocator().get_stats();
  py::dict d;
  d["active_requests"] = to_dict(s.active_requests);
  d["active_bytes"] = to_dict(s.active_bytes);
  d["allocations"] = to_dict(s.allocations);
  d["allocated_bytes"] = to_dict(s.allocated_bytes);
  d["host_alloc_time"] = to_dict(s.host_alloc_time);
  d["host_free_time"] = to_dict(s.host_free_time);
  d["num_host_alloc"] = s.num_host_alloc;
  d["num_host_free"] = s.num_host_free;
  return d;
}

}  // namespace

void bind_memory(py::module_& m) {
  const auto release = py::call_guard<py::gil_scoped_release>();
  m.def("memory_snapshot", &snapshot);
  m.def("moved_bytes", [](int i) {
    presil_memory_stats stats{};
    stats.size = sizeof stats;
    if (auto* handle = opened(i)) check(presil_memory_get_stats(handle, &stats), "memory statistics");
    return py::make_tuple(stats.bytes_to_device, stats.bytes_to_host);
  });
  m.def("host_memory_stats", &host_memory_stats);
  m.def("reset_peak_host_memory_stats", [] { host_allocator().reset_peak_stats(); });
  m.def("reset_accumulated_host_memory_stats", [] { host_allocator().reset_accumulated_stats(); });
  m.def("set_memory_limit",
        [](int i, uint64_t bytes) { check(presil_memory_set_limit(device(i), bytes), "memory limit"); });
  m.def(
      "device_malloc", [](int i, size_t bytes) { return reinterpret_cast<uintptr_t>(device_malloc(i, bytes)); },
      release);
  m.def("device_free", [](uintptr_t p) { device_free(reinterpret_cast<void*>(p)); }, release);
  m.def("create_pool", &create_pool);
  m.def("destroy_pool", &destroy_pool, release);
  m.def("exchange_pool", &exchange_pool);
}

}  // namespace presil
