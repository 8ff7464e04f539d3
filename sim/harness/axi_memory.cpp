// SPDX-License-Identifier: Apache-2.0
// What happens once a launch or only in faults; the rest is in the header, to be inlined into the clock loop.
#include "axi_memory.h"

#include <cinttypes>
#include <cstdio>

#include "stopped.h"

namespace presil {

void AxiMemoryState::map(uint64_t base, uint8_t* host, uint64_t bytes) {
  base_ = base;
  host_ = host;
  bytes_ = bytes;
}

void AxiMemoryState::configure(const MemorySettings& settings, uint64_t seed) {
  latency_ = settings.latency;
  response_ = settings.response;
  bursts_ = static_cast<unsigned>(settings.bursts);
  rate_ = settings.bytes ? settings.bytes : 2 * word_;
  credit_limit_ = rate_ + word_ - 1;
  stalls_.configure(settings.stall, seed);
}

void AxiMemoryState::set_faults(const Fault* faults, size_t count) {
  bus_fault_count_ = 0;
  for (size_t i = 0; i < count; i++) {
    if (faults[i].kind == Fault::kSlverr || faults[i].kind == Fault::kDecerr)
      bus_faults_[bus_fault_count_++] = faults[i];
  }
}

void AxiMemoryState::start(uint64_t launch, uint64_t now) {
  credit_ = 0;
  read_last_ = false;
  stalls_.launch(launch, now);
  launch_cycle_ = now;
  last_beat_ = now;
  fault_ = {};
}

void AxiMemoryState::forget() {
  reads_.clear();
  writes_.clear();
  answers_.clear();
  read_taken_ = answer_taken_ = false;
}

bool AxiMemoryState::fault_near(uint64_t first, uint64_t bytes) const {
  for (size_t i = 0; i < bus_fault_count_; i++) {
    if (bus_faults_[i].value - first < bytes) return true;
  }
  return false;
}

uint8_t AxiMemoryState::check_beat(uint64_t address, bool is_write, uint64_t now) {
  uint8_t response = address - base_ < bytes_ && address >= base_ ? kOkay : kDecerr;
  for (size_t i = 0; i < bus_fault_count_; i++) {
    if (bus_faults_[i].value - address < word_ && response == kOkay)
      response = bus_faults_[i].kind == Fault::kSlverr ? kSlverr : kDecerr;
  }
  if (response == kDecerr && !fault_.valid) fault_ = {1, is_write, {address}, now - launch_cycle_};
  return response;
}

void AxiMemoryState::store_strobed(uint8_t* to, const uint8_t* from, uint64_t mask) {
  const unsigned low = static_cast<unsigned>(__builtin_ctzll(mask));
  const uint64_t run = mask >> low;
  if ((run & (run + 1)) == 0) {  // one run of bytes, as in every burst of a contiguous store
    memcpy(to + low, from + low, static_cast<size_t>(__builtin_popcountll(mask)));
    return;
  }
  for (; mask; mask &= mask - 1) {
    const int i = __builtin_ctzll(mask);
    to[i] = from[i];
  }
}

void AxiMemoryState::wrong_burst(const char* channel, uint64_t address, unsigned length, unsigned size,
                                 unsigned kind) const {
  char text[256];
  snprintf(text, sizeof text,
           "the chip broke the bus protocol: %s at 0x%" PRIx64
           " with length %u (%u beats), size %u, burst %u: expected INCR (1) with full beats (size %u) that don't "
           "cross 4 KiB",
           channel, address, length, length + 1, size, kind, static_cast<unsigned>(__builtin_ctz(word_)));
  throw Stopped(text);
}

void AxiMemoryState::wrong_last(const Burst& b) {
  char text[160];
  snprintf(text, sizeof text,
           "the chip broke the bus protocol: WLAST is wrong in the write burst at 0x%" PRIx64 ": %u beats are left",
           b.address, b.beats);
  throw Stopped(text);
}

}  // namespace presil
