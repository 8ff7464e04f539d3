// SPDX-License-Identifier: Apache-2.0
// How long threads wait for the chip, for whoever asks.
#pragma once
#include <c10/macros/Macros.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <type_traits>

namespace presil {

// Told each wait's nanoseconds, on the thread that waited; null: nobody asks. One in the process.
using WaitListener = void (*)(uint64_t ns);
extern std::atomic<WaitListener> wait_listener;

// Around waiting for the chip.
class TimedWait {
 public:
  TimedWait() {
    if (C10_UNLIKELY(wait_listener.load(std::memory_order_relaxed) != nullptr)) start_ = Clock::now();
  }
  ~TimedWait() {
    if (C10_LIKELY(start_ == Clock::time_point())) return;
    if (auto* listener = wait_listener.load()) listener(static_cast<uint64_t>((Clock::now() - start_).count()));
  }
  TimedWait(const TimedWait&) = delete;
  TimedWait& operator=(const TimedWait&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  static_assert(std::is_same_v<Clock::period, std::nano>);
  Clock::time_point start_;
};

}  // namespace presil
