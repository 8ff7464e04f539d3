// SPDX-License-Identifier: Apache-2.0
// What is done to a chip's pins, a cycle at a time, in the same cycles whoever owns the clock: register accesses over
// AXI4-Lite, and the reset. Pins: members named as the ports of the chip.
#pragma once
#include <cstdint>

#include "register_rules.h"

namespace presil {

// One access: write() or read(), then edge() and present() of every cycle, until present() says that it has ended.
class AxilMaster {
 public:
  template <class Pins> void write(Pins* p, uint32_t offset, uint32_t value) {
    p->s_axil_awaddr = offset, p->s_axil_wdata = value, p->s_axil_wstrb = 0xf;
    p->s_axil_awvalid = p->s_axil_wvalid = p->s_axil_bready = 1;
    begin();
  }
  template <class Pins> void read(Pins* p, uint32_t offset) {
    p->s_axil_araddr = offset;
    p->s_axil_arvalid = p->s_axil_rready = 1;
    begin();
  }

  bool busy() const { return left_; }

  // With the settled pins before a rising edge: notes what it takes.
  template <class Pins> void edge(const Pins& p) {
    if (!left_) return;
    seen_ = true;
    aw_ = p.s_axil_awready, w_ = p.s_axil_wready, ar_ = p.s_axil_arready;
    if (p.s_axil_bready && p.s_axil_bvalid) response_ = p.s_axil_bresp;
    if (p.s_axil_rready && p.s_axil_rvalid) response_ = p.s_axil_rresp, value_ = p.s_axil_rdata;
  }

  // Behind the edge. True: the access has ended.
  template <class Pins> bool present(Pins* p) {
    if (!seen_) return false;
    seen_ = false;
    if (aw_) p->s_axil_awvalid = 0;
    if (w_) p->s_axil_wvalid = 0;
    if (ar_) p->s_axil_arvalid = 0;
    if (response_ < 0 && --left_) return false;
    end(p);
    return true;
  }

  // Without an answer, if one is due.
  template <class Pins> void end(Pins* p) {
    p->s_axil_awvalid = p->s_axil_wvalid = p->s_axil_bready = p->s_axil_arvalid = p->s_axil_rready = 0;
    left_ = 0;
    seen_ = false;
  }

  int response() const { return response_; }  // of the bus (0: okay), or -1: none within kRegisterTimeout
  uint32_t value() const { return value_; }   // of a read with a response

 private:
  void begin() {
    left_ = kRegisterTimeout;
    response_ = -1;
    seen_ = false;
  }

  unsigned left_ = 0;  // cycles until it is given up; 0: none is going on
  int response_ = -1;
  uint32_t value_ = 0;
  bool seen_ = false, aw_ = false, w_ = false, ar_ = false;  // the last edge
};

// The reset pin is high, then as long again nothing is asked. What the chip asks for before the reset has reached all
// of it is not answered.
class ResetCycles {
 public:
  bool pin() const { return at_ < kResetCycles; }
  bool abandons() const { return at_ <= kResetCycles; }
  bool over() const { return at_ == 2 * kResetCycles; }
  void next() { at_++; }

 private:
  unsigned at_ = 0;
};

}  // namespace presil
