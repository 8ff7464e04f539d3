// SPDX-License-Identifier: Apache-2.0
#include "observe/moves.h"

#include <array>
#include <atomic>

namespace presil {
namespace {

constexpr const char* kMoves[] = {"copy to the device",
                                  "copy to the host",
                                  "copy between devices",
                                  "copy on the device",
                                  "conversion to another dtype",
                                  "conversion to another layout",
                                  "weights packed"};
constexpr size_t kMoveKinds = sizeof(kMoves) / sizeof(kMoves[0]);
static_assert(kMoveKinds == static_cast<size_t>(Move::kPackWeights) + 1);

struct MoveCounters {
  std::atomic<int64_t> calls{0}, bytes{0}, nanoseconds{0};
};
std::array<MoveCounters, kMoveKinds> moves;

}  // namespace

const char* move_text(Move kind) noexcept { return kMoves[static_cast<size_t>(kind)]; }

void note_move(Move kind, uint64_t bytes, int64_t nanoseconds) noexcept {
  MoveCounters& m = moves[static_cast<size_t>(kind)];
  m.calls.fetch_add(1, std::memory_order_relaxed);
  m.bytes.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  m.nanoseconds.fetch_add(nanoseconds, std::memory_order_relaxed);
}

std::map<std::string, HostMove> host_moves() {
  std::map<std::string, HostMove> used;
  for (size_t i = 0; i < kMoveKinds; i++)
    if (const int64_t calls = moves[i].calls)
      used[kMoves[i]] = {calls, moves[i].bytes, 1e-9 * static_cast<double>(moves[i].nanoseconds)};
  return used;
}

void reset_host_moves() noexcept {
  for (MoveCounters& m : moves) m.calls = m.bytes = m.nanoseconds = 0;
}

}  // namespace presil
