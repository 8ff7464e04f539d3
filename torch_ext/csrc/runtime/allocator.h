// SPDX-License-Identifier: Apache-2.0
// torch's view of the driver's caching allocator: this file adapts, the driver owns. Blocks belong to no stream: the
// device's one queue runs in order, so a block that was freed after work was enqueued is reused by later work only
// (record_stream has nothing to do).
#pragma once
#include <c10/core/CachingDeviceAllocator.h>

#include <vector>

namespace presil {

c10::DeviceAllocator& device_allocator();

// Device memory by host pointer of its mapping; 0 bytes gives null. From the calling thread's pool (pools.h). Raises
// OutOfMemoryError with the sizes.
void* device_malloc(int index, size_t bytes);
void device_free(void* p);  // null is allowed; usable as a deleter

// Runs of neighbouring blocks of one pool and size class, with their blocks, in order of address; after
// torch.cuda.memory_snapshot.
std::vector<c10::CachingDeviceAllocator::SegmentInfo> memory_segments(int index);

// Before bytes of a storage are written: gives it memory of its own if it shares it until then (torch._lazy_clone).
void make_writable(c10::StorageImpl* storage);

// Caches of device memory elsewhere; `release` is called, without locks held, before an allocation fails.
void register_cache(void (*release)());

}  // namespace presil
