// SPDX-License-Identifier: Apache-2.0
// Pinned host memory. The simulated device reaches all host memory; what pinning promises is kept all the same:
// non_blocking copies from and to it return at once and run in stream order, and a block is not handed out again before
// the copies that use it have run. Blocks are cached by powers of two.
#pragma once
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Tensor.h>

namespace presil {

at::HostAllocator& host_allocator();
bool is_pinned(const void* p);  // anywhere inside a block

// Enqueues the copy and says true if it can run later: same dtype and bytes in the same order, one side on a device,
// the other in pinned memory.
bool copy_later(const at::Tensor& from, const at::Tensor& to);

}  // namespace presil
