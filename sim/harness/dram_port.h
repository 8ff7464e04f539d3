// SPDX-License-Identifier: Apache-2.0
// The bursts that wait for a DRAM (dram_timing.h): which of its atoms each beat needs, and when that beat is there.
#pragma once
#include <cstdint>
#include <vector>

#include "axi_burst.h"
#include "dram_timing.h"

namespace presil {

class DramPort {
 public:
  static constexpr uint16_t kNone = 0xffff;

  // bursts: that may be open at once.
  DramPort(const DramSettings& settings, unsigned bursts) : timing_(settings), slots_(bursts) { forget(); }

  void launch(uint64_t now) { timing_.launch(now); }
  void forget() {
    free_.clear();
    for (size_t i = slots_.size(); i-- > 0;) free_.push_back(static_cast<uint16_t>(i));
  }

  // A burst whose address was accepted in cycle `now`.
  uint16_t take(const BurstShape& shape, uint64_t now) {
    const uint16_t slot = free_.back();
    free_.pop_back();
    slots_[slot].shape = shape;
    slots_[slot].asked = now;
    slots_[slot].beat = 0;
    return slot;
  }
  void give_back(uint16_t slot) { free_.push_back(slot); }
  uint64_t asked(uint16_t slot) const { return slots_[slot].asked; }

  // The burst is read: cycle at which its first beat is there; next() those of the others.
  uint64_t read(uint16_t slot, uint64_t now) {
    move(slot, false, now);
    return slots_[slot].ready[0];
  }
  uint64_t next(uint16_t slot) { return slots_[slot].ready[++slots_[slot].beat]; }
  // All data of the burst have come: the cycle at which the DRAM has them.
  uint64_t write(uint16_t slot, uint64_t now) { return move(slot, true, now); }

 private:
  struct Slot {
    BurstShape shape;
    uint64_t asked;
    unsigned beat;
    uint64_t ready[256];
  };

  uint64_t move(uint16_t slot, bool write, uint64_t now) {
    Slot& s = slots_[slot];
    BurstShape beat = s.shape;
    uint64_t asked = UINT64_MAX, done = now;
    for (unsigned i = 0; i < s.shape.beats; i++, beat.advance()) {
      const uint64_t last = (beat.aligned() + beat.bytes() - 1) / timing_.atom();
      for (uint64_t atom = beat.aligned() / timing_.atom(); atom <= last; atom++) {
        if (atom == asked) continue;  // the beat before has asked for it
        const uint64_t there = timing_.access(atom * timing_.atom(), write, now);
        done = there > done ? there : done;
        asked = atom;
      }
      s.ready[i] = done;
    }
    return done;
  }

  DramTiming timing_;
  std::vector<Slot> slots_;
  std::vector<uint16_t> free_;
};

}  // namespace presil
