// SPDX-License-Identifier: Apache-2.0
// What the CPU copied or converted for the device, counted always: how often, how much, how long, by kind.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace presil {

enum class Move { kToDevice, kToHost, kBetweenDevices, kOnDevice, kDtype, kLayout, kPackWeights };
const char* move_text(Move kind) noexcept;

// Takes no lock. Strict mode allows moves: they change where and how a tensor lies, not where its operator runs.
void note_move(Move kind, uint64_t bytes, int64_t nanoseconds) noexcept;

struct HostMove {
  int64_t calls = 0, bytes = 0;  // bytes of the results
  double seconds = 0;  // wall time without waiting for the chip; none for copies that the device's queue makes
};
std::map<std::string, HostMove> host_moves();  // since the last reset, by move_text(), what happened at least once
void reset_host_moves() noexcept;

}  // namespace presil
