// SPDX-License-Identifier: Apache-2.0
// Which bytes of the memory the chip wrote: one bit a byte, in a sparse mapping. A beat costs one OR (two where its
// bytes straddle 64), and fetching costs in proportion to what was touched. Off, it costs the caller one branch.
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
  void add(uint64_t offset, uint64_t mask) {
    const uint64_t chunk = offset / kChunk;
    if (!touched_[chunk]) touch(chunk);
    bits_[offset / 64] |= mask << (offset % 64);
  }

  // The ranges since the last call, sorted and disjoint, as device addresses. Forgets them.
  void take(uint64_t base, std::vector<presil_write_range>* out);

 private:
  static constexpr uint64_t kChunk = 32768;  // bytes of memory whose bits fill a page of 4 KiB

  void touch(uint64_t chunk);

  uint64_t* bits_ = nullptr;
  uint64_t mapped_ = 0;  // bytes of the mapping
  std::vector<uint8_t> touched_;
  std::vector<uint64_t> chunks_;  // those touched, in order of the first touch
};

}  // namespace presil
