// SPDX-License-Identifier: Apache-2.0
// The memory behind the chip's AXI4 master: latency, shared bandwidth, back-pressure, order of responses, bounds,
// faults. Timing rules: docs/simulation.md. Of each clock cycle, sample() looks at the settled pins before the rising
// edge, and drive() sets the inputs after it, so that the order of evaluation between chip and memory never matters.
// Pins is anything with members named as the ports of the chip: a verilated root, or a plain struct in other simulators
// (AxiPins in axi_pins.h).
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "axi_burst.h"
#include "bounded_queue.h"
#include "dram_port.h"
#include "presil_transport.h"
#include "pressure.h"
#include "shadow.h"
#include "transport_settings.h"
#include "write_log.h"

namespace presil {

// What doesn't depend on the pins: the region, the parameters, and what is rare.
class AxiMemoryState {
 public:
  explicit AxiMemoryState(unsigned word) : word_(word), rate_(word), credit_limit_(2 * word - 1) {}

  // The mapped region; base and bytes are multiples of 4096.
  void map(uint64_t base, uint8_t* host, uint64_t bytes);
  // Throws std::bad_alloc, and is then as it was.
  void configure(const MemorySettings& settings, uint64_t seed);
  void set_faults(const Fault* faults, size_t count);
  WriteLog& write_log() { return log_; }

  uint64_t last_beat() const { return last_beat_; }  // cycle of the last handshake on any channel
  const presil_bus_fault& fault() const { return fault_; }

 protected:
  static constexpr unsigned kRing = 256;

  struct Burst {
    uint8_t* host;     // plain: of the next beat
    uint64_t address;  // plain: of the next beat, aligned down to the bus
    uint64_t ready;    // read: earliest cycle of the first beat; write: cycle of its address
    BurstShape shape;  // not plain: of the next beat
    uint32_t id;
    uint16_t left;  // beats
    uint16_t page;  // in the shadow, or Shadow::kNone
    uint16_t slot;  // in the DRAM's port, or DramPort::kNone
    uint8_t plain;  // INCR of whole bus words, inside the region, far from injected faults, without a shadow
    uint8_t begun;  // a beat has been offered
    uint8_t worst;  // response of the beats so far
  };
  struct Answer {
    uint64_t ready;
    uint32_t id;
    uint16_t page;
    uint8_t response;
  };

  void start(uint64_t launch, uint64_t now);
  void forget();
  bool inside(uint64_t address) const { return address >= base_ && address - base_ < bytes_; }
  bool fault_near(uint64_t first, uint64_t bytes) const;
  // Of the bytes at `address`, which are inside or outside of the region together.
  uint8_t check_beat(uint64_t address, uint64_t bytes, bool is_write, uint64_t now);
  static uint8_t injected(const Fault& fault, uint64_t address, uint64_t bytes, bool is_write, uint64_t number);
  static void store_strobed(uint8_t* to, const uint8_t* from, uint64_t mask);

  // Which of the waiting bursts, responses is next where their order is free: an index, or their number: none.
  unsigned pick_read(uint64_t now);
  unsigned pick_answer(uint64_t now);

  // Bursts that aren't plain. data, strobes: of a bus word.
  void prepare(Burst& b, bool is_write);
  uint8_t read_odd_beat(Burst& b, uint8_t* data, uint64_t now);
  void write_odd_beat(Burst& b, const uint8_t* data, const uint8_t* strobes, uint64_t now);
  void commit_answered(uint64_t now);

  // With a DRAM. When a read's first beat is there; then, after each beat, when the next one is.
  uint64_t ask_dram(Burst& b, uint64_t now);
  void dram_beat(Burst& b);
  void ask_dram_later(Burst& b, uint64_t now);
  // A write's data are complete: when they are in the DRAM.
  uint64_t dram_wrote(const Burst& b, uint64_t now);

  [[noreturn]] void wrong_burst(const char* channel, const BurstShape& shape) const;
  [[noreturn]] static void wrong_last(const Burst& b);

  const unsigned word_;  // bytes of a beat
  uint64_t base_ = 0, bytes_ = 0;
  uint8_t* host_ = nullptr;
  uint64_t latency_ = 100, response_ = 40;
  unsigned bursts_ = kRing;
  uint64_t rate_, credit_limit_, credit_ = 0;  // bytes
  bool read_last_ = false;                     // who got the last beat that both could have had
  bool read_taken_ = false, answer_taken_ = false;
  bool free_order_ = false, interleave_ = false;
  Pressure pressure_;
  uint64_t launch_cycle_ = 0, order_key_ = 0, seed_ = 0, last_beat_ = 0;
  Fault bus_faults_[kMaxFaults];
  size_t bus_fault_count_ = 0;
  uint64_t beats_[2] = {};  // reads, writes of this launch that were looked at: with a fault of a beat all of them
  presil_bus_fault fault_ = {};
  WriteLog log_;
  Ring<Burst, kRing> reads_, writes_;
  Ring<Answer, kRing> answers_;
  std::unique_ptr<Shadow> shadow_;     // with commit_at_b
  std::unique_ptr<DramPort> dram_;     // with a DRAM
  uint16_t answered_ = Shadow::kNone;  // page of the response on the B channel
};

template <class Pins> class AxiMemory : public AxiMemoryState {
 public:
  static constexpr unsigned kWord = sizeof(Pins::m_axi_wdata);
  static_assert(sizeof(Pins::m_axi_arid) <= 4 && sizeof(Pins::m_axi_awid) <= 4, "AXI IDs have at most 32 bits");

  AxiMemory() : AxiMemoryState(kWord) {}

  // No burst is waiting or moving.
  bool idle(const Pins& p) const {
    return reads_.count() + writes_.count() + answers_.count() + p.m_axi_rvalid + p.m_axi_bvalid == 0;
  }

  // Puts all state to a function of (seed, launch); `now` becomes cycle 0 of the back-pressure. Only when idle.
  void launch(Pins& p, uint64_t launch, uint64_t now) {
    start(launch, now);
    drive(p, now);  // the ready signals of the first cycle belong to this launch too
  }

  // Forgets every burst, as a reset of the chip does.
  void abandon(Pins& p) {
    forget();
    p.m_axi_rvalid = p.m_axi_bvalid = p.m_axi_wready = p.m_axi_arready = p.m_axi_awready = 0;
  }

  // The oldest transaction that has not ended, and whose turn it is.
  presil_bus_open oldest_open(const Pins& p, uint64_t now) {
    const presil_bus_open found[] = {open_read(p, now), open_write(p, now), open_answer(p, now), open_request(p, now)};
    presil_bus_open oldest = {};
    for (const presil_bus_open& open : found) {
      if (open.valid && (!oldest.valid || open.since > oldest.since)) oldest = open;
    }
    return oldest;
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
    if (read_taken_) p.m_axi_rvalid = 0;
    if (answer_taken_) p.m_axi_bvalid = 0;
    if (answer_taken_ && shadow_) commit_answered(now);
    const unsigned r = free_order_ && !p.m_axi_rvalid ? pick_read(now) : 0;
    const unsigned a = free_order_ && !p.m_axi_bvalid ? pick_answer(now) : 0;
    const bool free_r = r < reads_.count() && !p.m_axi_rvalid && reads_.at(r).ready <= now;
    const bool free_b = a < answers_.count() && !p.m_axi_bvalid && answers_.at(a).ready <= now;
    const bool free_w = writes_.count() && p.m_axi_wvalid;
    const bool free_ar = reads_.count() < bursts_, free_aw = writes_.count() + answers_.count() < bursts_;
    const uint64_t held = pressure_.on() ? hold(p, now, channels(free_ar, free_r, free_aw, free_w, free_b)) : 0;
    p.m_axi_arready = free_ar & !(held & Pressure::kAr);
    p.m_axi_awready = free_aw & !(held & Pressure::kAw);
    credit_ = credit_ + rate_ < credit_limit_ ? credit_ + rate_ : credit_limit_;
    bool read = free_r && !(held & Pressure::kR);
    bool write = free_w && !(held & Pressure::kW);
    if (read && write && credit_ < 2 * kWord) (read_last_ ? read : write) = false;
    read = read && credit_ >= kWord;
    write = write && credit_ >= kWord;
    if (read) offer_beat(p, r, now);
    if (write) credit_ -= kWord;
    if (read != write) read_last_ = read;
    p.m_axi_wready = write;
    const bool answer = free_b && !(held & Pressure::kB);
    if (answer) offer_answer(p, a);
    if (pressure_.on())
      pressure_.moved(
          channels(p.m_axi_arvalid & p.m_axi_arready, read, p.m_axi_awvalid & p.m_axi_awready, write, answer));
  }

 private:
  uint64_t due(Channel channel, uint64_t ready, uint64_t now) const {
    return pressure_.dead(channel) ? UINT64_MAX : ready > now ? ready - now : 0;
  }

  presil_bus_open open_read(const Pins& p, uint64_t now) {
    presil_bus_open out = {};
    const bool offered = p.m_axi_rvalid;
    out.valid = reads_.count() || offered;
    out.on_chip = offered;
    out.id = p.m_axi_rid;
    out.bytes = kWord;
    out.since = now - last_beat_;
    if (reads_.count()) {
      const Burst& b = reads_.front();
      out.id = b.id;
      out.address.value = b.plain ? b.address : b.shape.address;
      out.bytes = b.left * (b.plain ? kWord : b.shape.bytes());
      out.since = now - (dram_ ? dram_->asked(b.slot) : b.ready - latency_);
      out.due = offered ? 0 : due(kChannelR, b.ready, now);
    }
    return out;
  }

  presil_bus_open open_write(const Pins& p, uint64_t now) {
    presil_bus_open out = {};
    if (!writes_.count()) return out;
    const Burst& b = writes_.front();
    out.valid = out.is_write = 1;
    out.id = b.id;
    out.on_chip = !p.m_axi_wvalid;
    out.address.value = b.plain ? b.address : b.shape.address;
    out.bytes = b.left * (b.plain ? kWord : b.shape.bytes());
    out.since = now - b.ready;
    out.due = out.on_chip ? 0 : due(kChannelW, 0, now);
    return out;
  }

  presil_bus_open open_answer(const Pins& p, uint64_t now) {
    presil_bus_open out = {};
    const bool offered = p.m_axi_bvalid;
    out.valid = answers_.count() || offered;
    out.is_write = 1;
    out.on_chip = offered;
    out.id = p.m_axi_bid;
    out.since = now - last_beat_;
    if (answers_.count()) {
      const Answer& a = answers_.front();
      out.id = a.id;
      out.since = now - std::min(now, a.ready - response_);
      out.due = offered ? 0 : due(kChannelB, a.ready, now);
    }
    return out;
  }

  // An address that isn't accepted.
  presil_bus_open open_request(const Pins& p, uint64_t now) {
    presil_bus_open out = {};
    const bool read = p.m_axi_arvalid && !p.m_axi_arready, write = p.m_axi_awvalid && !p.m_axi_awready;
    if (!read && !write) return out;
    out.valid = 1;
    out.is_write = !read;
    out.id = read ? p.m_axi_arid : p.m_axi_awid;
    out.address.value = read ? p.m_axi_araddr : p.m_axi_awaddr;
    out.bytes = read ? (p.m_axi_arlen + 1u) << p.m_axi_arsize : (p.m_axi_awlen + 1u) << p.m_axi_awsize;
    out.since = now - last_beat_;
    out.due = due(read ? kChannelAr : kChannelAw, now + 1, now);
    return out;
  }

  // Ready for a request counts as wanted when there is one.
  uint64_t hold(const Pins& p, uint64_t now, uint64_t free) {
    const uint64_t absent = channels(!p.m_axi_arvalid, false, !p.m_axi_awvalid, false, false);
    return pressure_.held(now, free & ~absent);
  }

  static uint64_t channels(bool ar, bool r, bool aw, bool w, bool b) {
    return uint64_t{ar} << kChannelAr | uint64_t{r} << kChannelR | uint64_t{aw} << kChannelAw |
           uint64_t{w} << kChannelW | uint64_t{b} << kChannelB;
  }

  void accept_read(const Pins& p, uint64_t now) {
    reads_.push(burst("AR", p.m_axi_araddr, p.m_axi_arlen, p.m_axi_arsize, p.m_axi_arburst, p.m_axi_arid));
    Burst& b = reads_.back();
    b.ready = (dram_ ? ask_dram(b, now) : now) + latency_;
    if (!b.plain) prepare(b, false);
    last_beat_ = now;
  }

  void accept_write(const Pins& p, uint64_t now) {
    writes_.push(burst("AW", p.m_axi_awaddr, p.m_axi_awlen, p.m_axi_awsize, p.m_axi_awburst, p.m_axi_awid));
    writes_.back().ready = now;
    if (dram_) ask_dram_later(writes_.back(), now);
    if (!writes_.back().plain) prepare(writes_.back(), true);
    last_beat_ = now;
  }

  void take_beat(const Pins& p, uint64_t now) {
    Burst& b = writes_.front();
    last_beat_ = now;
    if (p.m_axi_wlast != (b.left == 1)) wrong_last(b);
    if (b.plain) {
      store_beat(b, p, now);
      b.host += kWord;
      b.address += kWord;
    } else {
      write_odd_beat(b, reinterpret_cast<const uint8_t*>(&p.m_axi_wdata),
                     reinterpret_cast<const uint8_t*>(&p.m_axi_wstrb), now);
    }
    if (--b.left == 0) {
      answers_.push({(dram_ ? dram_wrote(b, now) : now) + response_, b.id, b.page, b.worst});
      writes_.pop();
    }
  }

  // A beat is cut into pieces of at most 64 bytes, the width of a mask.
  void store_beat(const Burst& b, const Pins& p, uint64_t now) {
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
      if (log_.on() && mask) log_.add(b.address + at - base_, mask, now);
    }
  }

  void offer_beat(Pins& p, unsigned index, uint64_t now) {
    Burst& b = reads_.at(index);
    if (b.plain) {
      memcpy(&p.m_axi_rdata, b.host, kWord);
      p.m_axi_rresp = kOkay;
      b.host += kWord;
    } else {
      p.m_axi_rresp = read_odd_beat(b, reinterpret_cast<uint8_t*>(&p.m_axi_rdata), now);
    }
    p.m_axi_rid = static_cast<decltype(p.m_axi_rid)>(b.id);
    p.m_axi_rlast = b.left == 1;
    p.m_axi_rvalid = 1;
    b.begun = 1;
    credit_ -= kWord;
    if (dram_) dram_beat(b);
    if (--b.left) return;
    if (b.page != Shadow::kNone) shadow_->give_back(b.page);
    reads_.erase(index);
  }

  void offer_answer(Pins& p, unsigned index) {
    const Answer& answer = answers_.at(index);
    p.m_axi_bid = static_cast<decltype(p.m_axi_bid)>(answer.id);
    p.m_axi_bresp = answer.response;
    p.m_axi_bvalid = 1;
    answered_ = answer.page;
    answers_.erase(index);
  }

  Burst burst(const char* channel, uint64_t address, unsigned length, unsigned size, unsigned kind, uint32_t id) {
    const uint64_t first = address & ~uint64_t{kWord - 1};
    const unsigned beats = length + 1;
    Burst b;
    b.shape = {address, static_cast<uint16_t>(beats), static_cast<uint8_t>(size), static_cast<uint8_t>(kind)};
    const bool whole = 1u << size == kWord && kind == kIncr && first == address;
    if ((!whole || first / kPageBytes != (first + beats * kWord - 1) / kPageBytes) &&
        !why_illegal(b.shape, kWord).empty())
      wrong_burst(channel, b.shape);
    b.plain = whole && !shadow_ && inside(first) && !(bus_fault_count_ && fault_near(first, beats * kWord));
    b.host = b.plain ? host_ + (first - base_) : nullptr;
    b.address = first;
    b.ready = 0;
    b.left = static_cast<uint16_t>(beats);
    b.id = id;
    b.begun = 0;
    b.worst = kOkay;
    b.page = Shadow::kNone;
    b.slot = DramPort::kNone;
    return b;
  }
};

}  // namespace presil
