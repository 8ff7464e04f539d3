// SPDX-License-Identifier: Apache-2.0
// AXI4 A3.2.1, of both buses of a chip and of both sides: what is offered stays, unchanged, until it is taken. Looks at
// the settled pins before every rising edge, whatever the chip is doing: an error that halts it is no excuse.
#pragma once
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "stopped.h"

namespace presil {

// One channel. prefix: of its signals ("AR", "s_axil R"); side: who offers.
class HandshakeMonitor {
 public:
  static constexpr unsigned kFields = 5, kMaxBytes = 128;

  // data: `bytes` of it, of which those without a strobe may change (no strobes: none may); null: none.
  struct Payload {
    uint64_t fields[kFields] = {};
    const uint8_t *data = nullptr, *strobes = nullptr;
    unsigned bytes = 0;
  };

  HandshakeMonitor(const char* side, const char* prefix, const char* const (&names)[kFields])
      : side_(side), prefix_(prefix), names_(names) {}

  // payload: makes the one of now, where it is looked at. Throws Stopped.
  template <class Make> void sample(bool valid, bool ready, Make payload) {
    if (!waits_ && (!valid || ready)) return;
    const Payload p = payload();
    if (waits_) compare(valid, p);
    waits_ = valid && !ready;
    if (waits_) keep(p);
  }
  void forget() { waits_ = false; }

 private:
  void compare(bool valid, const Payload& p) const {
    if (!valid) breach("VALID fell", "");
    for (unsigned i = 0; i < kFields; i++) {
      if (p.fields[i] != fields_[i]) changed(names_[i], fields_[i], p.fields[i]);
    }
    char lane[32];
    for (unsigned i = 0; i < p.bytes; i++) {
      if (p.data[i] == data_[i] || (p.strobes && !(p.strobes[i / 8] >> i % 8 & 1))) continue;
      snprintf(lane, sizeof lane, "DATA in lane %u", i);
      changed(lane, data_[i], p.data[i]);
    }
  }

  void keep(const Payload& p) {
    memcpy(fields_, p.fields, sizeof fields_);
    if (p.data) memcpy(data_, p.data, p.bytes);
  }

  [[noreturn]] void changed(const char* name, uint64_t from, uint64_t to) const {
    char text[80];
    snprintf(text, sizeof text, " changed from 0x%" PRIx64 " to 0x%" PRIx64, from, to);
    breach(name, text);
  }

  [[noreturn]] void breach(const char* name, const char* how) const {
    throw Stopped(std::string(side_) + " broke the bus protocol: " + prefix_ + name + how + " before " + prefix_ +
                  "READY rose");
  }

  const char *side_, *prefix_;
  const char* const (&names_)[kFields];
  bool waits_ = false;
  uint64_t fields_[kFields] = {};
  uint8_t data_[kMaxBytes];
};

// The five channels of the AXI4 master. Strobes that no field has room for are compared as two: a bus has 128 lanes at
// most.
class AxiMonitor {
 public:
  // Pins: members named as the ports of the chip.
  template <class Pins> void sample(const Pins& p) {
    static_assert(sizeof p.m_axi_wdata <= HandshakeMonitor::kMaxBytes, "a beat has at most 128 bytes");
    using Payload = HandshakeMonitor::Payload;
    ar_.sample(p.m_axi_arvalid, p.m_axi_arready,
               [&] { return Payload{{p.m_axi_araddr, p.m_axi_arlen, p.m_axi_arsize, p.m_axi_arburst, p.m_axi_arid}}; });
    aw_.sample(p.m_axi_awvalid, p.m_axi_awready,
               [&] { return Payload{{p.m_axi_awaddr, p.m_axi_awlen, p.m_axi_awsize, p.m_axi_awburst, p.m_axi_awid}}; });
    w_.sample(p.m_axi_wvalid, p.m_axi_wready, [&] {
      Payload w{{p.m_axi_wlast}, bytes(p.m_axi_wdata), bytes(p.m_axi_wstrb), sizeof p.m_axi_wdata};
      memcpy(w.fields + 1, &p.m_axi_wstrb, sizeof p.m_axi_wdata < 8 ? 1 : sizeof p.m_axi_wdata / 8);
      return w;
    });
    r_.sample(p.m_axi_rvalid, p.m_axi_rready, [&] {
      return Payload{{p.m_axi_rresp, p.m_axi_rlast, p.m_axi_rid}, bytes(p.m_axi_rdata), nullptr, sizeof p.m_axi_rdata};
    });
    b_.sample(p.m_axi_bvalid, p.m_axi_bready, [&] { return Payload{{p.m_axi_bresp, p.m_axi_bid}}; });
  }

  void forget() {
    for (HandshakeMonitor* channel : {&ar_, &aw_, &w_, &r_, &b_}) channel->forget();
  }

 private:
  template <class Port> static const uint8_t* bytes(const Port& port) {
    return reinterpret_cast<const uint8_t*>(&port);
  }

  static constexpr const char* const kRequest[] = {"ADDR", "LEN", "SIZE", "BURST", "ID"};
  static constexpr const char* const kWrite[] = {"LAST", "STRB of lanes 0 to 63", "STRB of lanes 64 to 127", "", ""};
  static constexpr const char* const kRead[] = {"RESP", "LAST", "ID", "", ""};
  static constexpr const char* const kResponse[] = {"RESP", "ID", "", "", ""};

  HandshakeMonitor ar_{"the chip", "AR", kRequest}, aw_{"the chip", "AW", kRequest}, w_{"the chip", "W", kWrite},
      r_{"the memory", "R", kRead}, b_{"the memory", "B", kResponse};
};

// The five of the AXI4-Lite slave.
class AxilMonitor {
 public:
  template <class Pins> void sample(const Pins& p) {
    using Payload = HandshakeMonitor::Payload;
    ar_.sample(p.s_axil_arvalid, p.s_axil_arready, [&] { return Payload{{p.s_axil_araddr}}; });
    aw_.sample(p.s_axil_awvalid, p.s_axil_awready, [&] { return Payload{{p.s_axil_awaddr}}; });
    w_.sample(p.s_axil_wvalid, p.s_axil_wready, [&] { return Payload{{p.s_axil_wdata, p.s_axil_wstrb}}; });
    r_.sample(p.s_axil_rvalid, p.s_axil_rready, [&] { return Payload{{p.s_axil_rdata, p.s_axil_rresp}}; });
    b_.sample(p.s_axil_bvalid, p.s_axil_bready, [&] { return Payload{{p.s_axil_bresp}}; });
  }

  void forget() {
    for (HandshakeMonitor* channel : {&ar_, &aw_, &w_, &r_, &b_}) channel->forget();
  }

 private:
  static constexpr const char* const kRequest[] = {"ADDR", "", "", "", ""};
  static constexpr const char* const kWrite[] = {"DATA", "STRB", "", "", ""};
  static constexpr const char* const kRead[] = {"DATA", "RESP", "", "", ""};
  static constexpr const char* const kResponse[] = {"RESP", "", "", "", ""};

  HandshakeMonitor ar_{"the host", "s_axil AR", kRequest}, aw_{"the host", "s_axil AW", kRequest},
      w_{"the host", "s_axil W", kWrite}, r_{"the chip", "s_axil R", kRead}, b_{"the chip", "s_axil B", kResponse};
};

}  // namespace presil
