// SPDX-License-Identifier: Apache-2.0
// torch's view of the driver's caching allocator: this file adapts, the driver owns.
#pragma once
#include <c10/core/CachingDeviceAllocator.h>
#include <ATen/core/CachingHostAllocator.h>

namespace presil {

c10::DeviceAllocator& device_allocator();
at::HostAllocator& host_allocator();
bool is_pinned(const void* p);

// Device memory by host pointer of its mapping; 0 bytes gives null. Raises OutOfMemoryError with the sizes.
void* device_malloc(int index, size_t bytes);
void device_free(void* p);  // null is allowed; usable as a deleter

}  // namespace presil
