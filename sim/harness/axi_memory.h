// SPDX-License-Identifier: Apache-2.0
// The memory behind the chip's AXI4 master: latency, shared bandwidth, random back-pressure, bounds, faults. Timing
// rules: docs/simulation.md. Of each clock cycle, sample() looks at the settled pins before the rising edge, and
// drive() sets the inputs after it, so that the order of evaluation between chip and memory never matters. Pins is
// anything with members named as the ports of the chip: a verilated root, or a plain struct in other simulators
// (AxiPins in axi_pins.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "presil_transport.h"
#include "random.h"
#include "ring.h"
#include "settings.h"
#include "write_log.h"

namespace presil {

enum : uint8_t { kOkay = 0, kSlverr = 2, kDecerr = 3 };

// Random back-pressure: in each cycle each channel is held up with a probability. One draw a cycle, 12 bits a channel.
class Stalls {
 public:
  enum : uint64_t { kAr = 1, kR = 2, kAw = 4, kW = 8, kB = 16 };

  void configure(uint32_t chance, uint64_t seed) {  // in 4096ths
    chance_ = chance;
    seed_ = seed;
  }
  void launch(uint64_t launch, uint64_t now) {
    key_ = mix64(seed_ + mix64(launch + 1));
    start_ = now;
  }
  // The channels that are held up in cycle `now`.
  uint64_t at(uint64_t now) const {
    if (!chance_) return 0;
    const uint64_t draw = random64(key_, now - start_);
    uint64_t out = 0;
    for (unsigned i = 0; i < 5; i++) out |= static_cast<uint64_t>((draw >> (12 * i) & 0xfff) < chance_) << i;
    return out;
  }

 private:
  uint32_t chance_ = 0;
  uint64_t seed_ = 0, key_ = 0, start_ = 0;
};

// What doesn't depend on the pins: the region, the parameters, and what is rare.
class AxiMemoryState {
 public:
  explicit AxiMemoryState(unsigned word) : word_(word), rate_(word), credit_limit_(2 * word - 1) {}

  // The mapped region; base and bytes are multiples of 4096.
  void map(uint64_t base, uint8_t* host, uint64_t bytes);
  void configure(const MemorySettings& settings, uint64_t seed);
  void set_faults(const Fault* faults, size_t count);
  WriteLog& write_log() { return log_; }

  uint64_t last_beat() const { return last_beat_; }  // cycle of the last handshake on any channel
  const presil_bus_fault& fault() const { return fault_; }

 protected:
  struct Burst {
    uint8_t* host;     // of the next beat
    uint64_t address;  // of the next beat, aligned down to the beat
    uint64_t ready;    // earliest cycle of the first beat
    uint16_t beats;    // left
    uint8_t id;
    uint8_t checked;  // every beat has to be looked at: outside the region, or near an injected fault
    uint8_t worst;    // response of the beats so far
  };
  struct Answer {
    uint64_t ready;
    uint8_t id, response;
  };
  static constexpr unsigned kRing = 256;

  void start(uint64_t launch, uint64_t now);
  void forget();
  bool fault_near(uint64_t first, uint64_t bytes) const;
  uint8_t check_beat(uint64_t address, bool is_write, uint64_t now);
  static void store_strobed(uint8_t* to, const uint8_t* from, uint64_t mask);
  [[noreturn]] void wrong_burst(const char* channel, uint64_t address, unsigned length, unsigned size,
                                unsigned kind) const;
  [[noreturn]] static void wrong_last(const Burst& b);

  const unsigned word_;  // bytes of a beat
  uint64_t base_ = 0, bytes_ = 0;
  uint8_t* host_ = nullptr;
  uint64_t latency_ = 100, response_ = 40;
  unsigned bursts_ = kRing;
  uint64_t rate_, credit_limit_, credit_ = 0;  // bytes
  bool read_last_ = false;                     // who got the last beat that both could have had
  bool read_taken_ = false, answer_taken_ = false;
  Stalls stalls_;
  uint64_t launch_cycle_ = 0, last_beat_ = 0;
  Fault bus_faults_[kMaxFaults];
  size_t bus_fault_count_ = 0;
  presil_bus_fault fault_ = {};
  WriteLog log_;
  Ring<Burst, kRing> reads_, writes_;
  Ring<Answer, kRing> answers_;
};

template <class Pins> class AxiMemory : public AxiMemoryState {
 public:
  static constexpr unsigned kWord = sizeof(Pins::m_axi_wdata);

  AxiMemory() : AxiMemoryState(kWord) {}

  // No burst is waiting or moving.
  bool idle(const Pins& p) const {
    return reads_.count() + writes_.count() + answers_.count() + p.m_axi_rvalid + p.m_axi_bvalid == 0;
  }

  // Puts all state to a function of (seed, launch); `now` becomes cycle 0 of the stalls. Only when idle.
  void launch(Pins& p, uint64_t launch, uint64_t now) {
    start(launch, now);
    drive(p, now);  // the ready signals of the first cycle belong to this launch too
  }

  // Forgets every burst, as a reset of the chip does.
  void abandon(Pins& p) {
    forget();
    p.m_axi_rvalid = p.m_axi_bvalid = p.m_axi_wready = p.m_axi_arready = p.m_axi_awready = 0;
  }

  void sample(const Pins& p, uint64_t now) {
    if (p.m_axi_arvalid & p.m_axi_arready) accept_read(p, now);
    if (p.m_axi_awvalid & p.m_axi_awready) accept_write(p, now);
    if (p.m_axi_wvalid & p.m_axi_wready) take_beat(p, now);
    read_taken_ = p.m_axi_rvalid & p.m_axi_rready;
    answer_taken_ = p.m_axi_bvalid & p.m_axi_bready;
    if (read_taken_ | answer_taken_) last_beat_ = now;
  }

  void drive(Pins& p, uint64_t now) {
    const uint64_t stalls = stalls_.at(now);
    p.m_axi_arready = (reads_.count() < bursts_) & !(stalls & Stalls::kAr);
    p.m_axi_awready = (writes_.count() + answers_.count() < bursts_) & !(stalls & Stalls::kAw);
    if (read_taken_) p.m_axi_rvalid = 0;
    if (answer_taken_) p.m_axi_bvalid = 0;
    credit_ = credit_ + rate_ < credit_limit_ ? credit_ + rate_ : credit_limit_;
    bool read = reads_.count() && !p.m_axi_rvalid && reads_.front().ready <= now && !(stalls & Stalls::kR);
    bool write = writes_.count() && p.m_axi_wvalid && !(stalls & Stalls::kW);
    if (read && write && credit_ < 2 * kWord) (read_last_ ? read : write) = false;
    read = read && credit_ >= kWord;
    write = write && credit_ >= kWord;
    if (read) offer_beat(p, now);
    if (write) credit_ -= kWord;
    if (read != write) read_last_ = read;
    p.m_axi_wready = write;
    if (answers_.count() && !p.m_axi_bvalid && answers_.front().ready <= now && !(stalls & Stalls::kB)) offer_answer(p);
  }

 private:
  void accept_read(const Pins& p, uint64_t now) {
    reads_.push(burst("AR", p.m_axi_araddr, p.m_axi_arlen, p.m_axi_arsize, p.m_axi_arburst, p.m_axi_arid));
    Burst& b = reads_.back();
    b.ready = now + latency_;
    last_beat_ = now;
  }

  void accept_write(const Pins& p, uint64_t now) {
    writes_.push(burst("AW", p.m_axi_awaddr, p.m_axi_awlen, p.m_axi_awsize, p.m_axi_awburst, p.m_axi_awid));
    last_beat_ = now;
  }

  void take_beat(const Pins& p, uint64_t now) {
    Burst& b = writes_.front();
    last_beat_ = now;
    if (p.m_axi_wlast != (b.beats == 1)) wrong_last(b);
    const uint8_t response = b.checked ? check_beat(b.address, true, now) : uint8_t{kOkay};
    if (response > b.worst) b.worst = response;
    if (response == kOkay) store_beat(b, p);
    b.host += kWord;
    b.address += kWord;
    if (--b.beats == 0) {
      answers_.push({now + response_, b.id, b.worst});
      writes_.pop();
    }
  }

  // A beat is cut into pieces of at most 64 bytes, the width of a mask.
  void store_beat(const Burst& b, const Pins& p) {
    constexpr unsigned piece = kWord < 64 ? kWord : 64;
    constexpr uint64_t full = ~uint64_t{0} >> (64 - piece);
    for (unsigned at = 0; at < kWord; at += piece) {
      uint64_t mask = 0;
      memcpy(&mask, reinterpret_cast<const uint8_t*>(&p.m_axi_wstrb) + at / 8, (piece + 7) / 8);
      const uint8_t* from = reinterpret_cast<const uint8_t*>(&p.m_axi_wdata) + at;
      if (mask == full) {
        memcpy(b.host + at, from, piece);
      } else if (mask) {
        store_strobed(b.host + at, from, mask);
      }
      if (log_.on() && mask) log_.add(b.address + at - base_, mask);
    }
  }

  void offer_beat(Pins& p, uint64_t now) {
    Burst& b = reads_.front();
    const uint8_t response = b.checked ? check_beat(b.address, false, now) : uint8_t{kOkay};
    if (response == kOkay) {
      memcpy(&p.m_axi_rdata, b.host, kWord);
    } else {
      memset(&p.m_axi_rdata, 0, kWord);
    }
    p.m_axi_rresp = response;
    p.m_axi_rid = b.id;
    p.m_axi_rlast = b.beats == 1;
    p.m_axi_rvalid = 1;
    credit_ -= kWord;
    b.host += kWord;
    b.address += kWord;
    if (--b.beats == 0) reads_.pop();
  }

  void offer_answer(Pins& p) {
    p.m_axi_bid = answers_.front().id;
    p.m_axi_bresp = answers_.front().response;
    p.m_axi_bvalid = 1;
    answers_.pop();
  }

  Burst burst(const char* channel, uint64_t address, unsigned length, unsigned size, unsigned kind, unsigned id) {
    const uint64_t first = address & ~uint64_t{kWord - 1};
    const unsigned beats = length + 1;
    if (1u << size != kWord || kind != 1 || first / 4096 != (first + beats * kWord - 1) / 4096)
      wrong_burst(channel, address, length, size, kind);
    const bool inside = first >= base_ &&
                        first - base_ < bytes_;  // the region and every burst end at a multiple of 4 KiB at the latest
    Burst b;
    b.host = inside ? host_ + (first - base_) : nullptr;
    b.address = first;
    b.ready = 0;
    b.beats = static_cast<uint16_t>(beats);
    b.id = static_cast<uint8_t>(id);
    b.checked = !inside || (bus_fault_count_ && fault_near(first, beats * kWord));
    b.worst = kOkay;
    return b;
  }
};

}  // namespace presil
