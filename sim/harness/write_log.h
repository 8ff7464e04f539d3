// SPDX-License-Identifier: Apache-2.0
// Which bytes of the memory the chip wrote, and when: one bit a byte, in a sparse mapping, and a journal of beats,
// where those of a burst share an entry. A beat costs one OR (two where its bytes straddle 64) and one comparison, and
// fetching costs in proportion to what was touched. Off, it costs the caller one branch.
#pragma once
#include <cstdint>
#include <vector>

#include "presil_transport.h"

namespace presil {

class WriteLog {
 public:
  WriteLog() = default;
  ~WriteLog();
  WriteLog(const WriteLog&) = delete;
  WriteLog& operator=(const WriteLog&) = delete;

  bool on() const { return bits_ != nullptr; }
  // Throws std::bad_alloc if the address space is not there. bytes: of the memory that is logged.
  void start(uint64_t bytes);
  void stop();

  // Bits of `mask` are bytes from offset on (the lowest first); offset is a multiple of the beat, a beat of 64 bytes or
  // less lies within one word of bits.
  void add(uint64_t offset, uint64_t mask, uint64_t now) {
    const uint64_t chunk = offset / kChunk;
    if (!touched_[chunk]) touch(chunk);
    bits_[offset / 64] |= mask << (offset % 64);
    if (!journal_.empty() && journal_.back().continues(offset, mask, now)) {
      journal_.back().beats++;
    } else {
      enter(offset, mask, now);
    }
  }

  // A launch begins; cycles count from the first waits() behind it. Forgets the times of what was taken.
  void launches();
  void waits(uint64_t now) {
    if (!armed_) return;
    armed_ = false;
    epochs_.back() = now;
  }

  // The ranges since the last call, sorted and disjoint, as device addresses. Forgets them, but not their times.
  void take(uint64_t base, std::vector<presil_write_range>* out);

  // When the byte was written. False: it was not, or the journal was full.
  bool times(uint64_t offset, presil_write_time* out) const;

 private:
  static constexpr uint64_t kChunk = 32768;  // bytes of memory whose bits fill a page of 4 KiB

  static constexpr size_t kMostEntries = size_t{1} << 22;

  // Beats with one mask at offset, offset + step, ..., a cycle each.
  struct Entry {
    uint64_t offset, mask, cycle;
    uint32_t beats, step, launch;

    bool continues(uint64_t next, uint64_t strobes, uint64_t now) {
      if (strobes != mask || now != cycle + beats) return false;
      if (beats == 1 && next > offset && next - offset <= kChunk) step = static_cast<uint32_t>(next - offset);
      return step && next == offset + uint64_t{beats} * step;
    }
  };

  void touch(uint64_t chunk);
  void enter(uint64_t offset, uint64_t mask, uint64_t now);

  uint64_t* bits_ = nullptr;
  uint64_t mapped_ = 0;  // bytes of the mapping
  std::vector<uint8_t> touched_;
  std::vector<uint64_t> chunks_;  // those touched, in order of the first touch
  std::vector<Entry> journal_;
  std::vector<uint64_t> epochs_;  // of the launches in the journal
  bool armed_ = false;            // a launch has begun, and nobody has waited for it
  bool taken_ = false;
};

}  // namespace presil
