// SPDX-License-Identifier: Apache-2.0
#include "pressure.h"

namespace presil {

namespace {

constexpr uint64_t kBlock = 48;        // cycles in which kBursty keeps its mind
constexpr uint64_t kDelays = 32;       // kDelayed: 1 to so many cycles
constexpr uint64_t kProfileSalt = 77;  // so that profiles don't repeat the draws of `chance`

// 4096ths of the cycles
constexpr uint32_t held_share(Profile profile) {
  return profile == Profile::kSparse    ? 512
         : profile == Profile::kHeavy   ? 3072
         : profile == Profile::kStarved ? 3968
         : profile == Profile::kDead    ? 4096
                                        : 0;
}

}  // namespace

void Pressure::configure(uint32_t chance, const Profile (&profiles)[kChannels], uint64_t seed) {
  chance_ = chance;
  seed_ = seed;
  profiled_ = false;
  for (unsigned i = 0; i < kChannels; i++) {
    profiles_[i] = profiles[i];
    profiled_ |= profiles[i] != Profile::kNone;
  }
  on_ = chance_ || profiled_;
}

void Pressure::launch(uint64_t launch, uint64_t now) {
  key_ = mix64(seed_ + mix64(launch + 1));
  profile_key_ = mix64(key_ + kProfileSalt);
  start_ = now;
  waiting_ = 0;
  for (uint64_t& drawn : drawn_) drawn = 0;
}

// The first cycle in which something is wanted draws the delay; without a wish the channel is held, so that ready
// never comes before valid.
bool Pressure::delayed(unsigned channel, uint64_t cycle, bool wanted) {
  if (!wanted) return true;
  const uint64_t bit = uint64_t{1} << channel;
  if (!(waiting_ & bit)) {
    waiting_ |= bit;
    due_[channel] = cycle + 1 + random64(profile_key_ + channel + 1, drawn_[channel]++) % kDelays;
  }
  return cycle < due_[channel];
}

uint64_t Pressure::by_profile(uint64_t cycle, uint64_t wanted) {
  uint64_t out = 0;
  const uint64_t draw = random64(profile_key_, cycle);
  for (unsigned i = 0; i < kChannels; i++) {
    bool held = false;
    if (profiles_[i] == Profile::kBursty) {
      held = random64(profile_key_ + 64 + i, cycle / kBlock) & 1;
    } else if (profiles_[i] == Profile::kDelayed) {
      held = delayed(i, cycle, wanted >> i & 1);
    } else {
      held = (draw >> (12 * i) & 0xfff) < held_share(profiles_[i]);
    }
    out |= static_cast<uint64_t>(held) << i;
  }
  return out;
}

}  // namespace presil
