// SPDX-License-Identifier: Apache-2.0
// Back-pressure of the memory behind the AXI port: which of its channels are held up in a cycle. A function of (seed,
// launch), of the cycle and of what the chip asks for alone; the rules are in docs/simulation.md.
#pragma once
#include <cstdint>

#include "counter_random.h"

namespace presil {

enum Channel : unsigned { kChannelAr, kChannelR, kChannelAw, kChannelW, kChannelB, kChannels };

enum class Profile : uint8_t { kNone, kSparse, kHeavy, kStarved, kBursty, kDelayed, kDead };

class Pressure {
 public:
  enum : uint64_t { kAr = 1, kR = 2, kAw = 4, kW = 8, kB = 16 };  // a bit a channel, as numbered above

  // chance: of every channel in every cycle, in 4096ths, besides its profile.
  void configure(uint32_t chance, const Profile (&profiles)[kChannels], uint64_t seed);
  void launch(uint64_t launch, uint64_t now);

  bool on() const { return on_; }
  bool dead(Channel channel) const { return profiles_[channel] == Profile::kDead; }
  // The channels that are held up in cycle `now`. wanted: those on which something could move.
  uint64_t held(uint64_t now, uint64_t wanted) {
    if (!on_) return 0;
    const uint64_t cycle = now - start_;
    uint64_t out = profiled_ ? by_profile(cycle, wanted) : 0;
    if (!chance_) return out;
    const uint64_t draw = random64(key_, cycle);
    for (unsigned i = 0; i < kChannels; i++) out |= static_cast<uint64_t>((draw >> (12 * i) & 0xfff) < chance_) << i;
    return out;
  }
  // Something was offered or taken on these.
  void moved(uint64_t channels) { waiting_ &= ~channels; }

 private:
  uint64_t by_profile(uint64_t cycle, uint64_t wanted);
  bool delayed(unsigned channel, uint64_t cycle, bool wanted);

  bool on_ = false, profiled_ = false;
  uint32_t chance_ = 0;
  Profile profiles_[kChannels] = {};
  uint64_t seed_ = 0, key_ = 0, profile_key_ = 0, start_ = 0;
  uint64_t waiting_ = 0;            // kDelayed: channels whose next transfer has its delay
  uint64_t due_[kChannels] = {};    // and the cycle at which it is over
  uint64_t drawn_[kChannels] = {};  // delays so far
};

}  // namespace presil
