// SPDX-License-Identifier: Apache-2.0
#include "runtime/before_launch.h"
#include "runtime/device.h"

#include <ATen/Parallel.h>

#include <atomic>

namespace presil {
namespace {

std::atomic<OriginSource> origin_source{nullptr};

void twin_threads_follow_torch() {
  static std::atomic<int> given{0};  // devices that are opened later are given as many when they are
  const int threads = at::get_num_threads();
  if (given.load(std::memory_order_relaxed) == threads) return;
  given = threads;
  for (int i = 0; i < device_count(); i++)
    if (auto* handle = opened(i)) (void)!presil_device_set_twin_threads(handle, static_cast<uint32_t>(threads));
}

// Called from C: nothing may be thrown.
uint64_t before_launch() noexcept {
  try {
    twin_threads_follow_torch();
  } catch (...) {
    // Without a count of torch's the twin keeps what it has: same bits.
  }
  const OriginSource source = origin_source.load(std::memory_order_acquire);
  return source ? source() : 0;
}

}  // namespace

void prepare_launches() { presil_set_origin(&before_launch); }
void set_origin_source(OriginSource source) noexcept { origin_source.store(source, std::memory_order_release); }

}  // namespace presil
