// SPDX-License-Identifier: Apache-2.0
// AXI4 A3.2: what a master offers stays as it is until it is taken. Looked at in the check build, every cycle.
#pragma once
#include <cstring>
#include <string>

#include "pins.h"
#include "stopped.h"

namespace presil {

class AxiStability {
 public:
  // With the settled pins before a rising edge.
  void sample(const Pins& p) {
    look(ar_, "AR", p.m_axi_arvalid, p.m_axi_arready,
         Request{p.m_axi_araddr, p.m_axi_arlen, p.m_axi_arsize, p.m_axi_arburst, p.m_axi_arid});
    look(aw_, "AW", p.m_axi_awvalid, p.m_axi_awready,
         Request{p.m_axi_awaddr, p.m_axi_awlen, p.m_axi_awsize, p.m_axi_awburst, p.m_axi_awid});
    Beat beat;
    memset(&beat, 0, sizeof beat);
    memcpy(beat.data, &p.m_axi_wdata, kWord);
    memcpy(beat.strobes, &p.m_axi_wstrb, sizeof p.m_axi_wstrb);
    beat.last = p.m_axi_wlast;
    for (unsigned i = 0; i < kWord; i++) {  // bytes that aren't strobed may change
      if (!(beat.strobes[i / 8] >> i % 8 & 1)) beat.data[i] = 0;
    }
    look(w_, "W", p.m_axi_wvalid, p.m_axi_wready, beat);
  }

  void forget() { ar_.waits = aw_.waits = w_.waits = false; }

 private:
  struct Request {
    uint64_t address, length, size, burst, id;
  };
  struct Beat {
    uint8_t data[kWord], strobes[(kWord + 7) / 8 + 8], last;
  };
  template <class Payload> struct Channel {
    bool waits = false;
    Payload payload;
  };

  template <class Payload>
  static void look(Channel<Payload>& channel, const char* name, bool valid, bool ready, const Payload& payload) {
    if (channel.waits && !valid)
      throw Stopped(std::string("the chip broke the bus protocol: ") + name + "VALID fell before " + name +
                    "READY rose");
    if (channel.waits && memcmp(&channel.payload, &payload, sizeof payload) != 0)
      throw Stopped(std::string("the chip broke the bus protocol: ") + name + " changed before " + name + "READY rose");
    channel.waits = valid && !ready;
    if (channel.waits) channel.payload = payload;
  }

  Channel<Request> ar_, aw_;
  Channel<Beat> w_;
};

}  // namespace presil
