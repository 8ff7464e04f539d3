// SPDX-License-Identifier: Apache-2.0
// Requests of a driver (presil_serve.h) turned into the pins of a chip, one clock edge at a time: the plain harness's
// bench with its control turned inside out, for simulators that own the clock. The same requests give the same cycles.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "presil_serve.h"

namespace presil {

// In C's order what presil_dpi.sv declares from the highest bits down.
struct __attribute__((packed)) FromChip {
  uint8_t irq, axil_rvalid, axil_rresp, axil_arready, axil_bvalid, axil_bresp, axil_wready, axil_awready;
  uint8_t rready, arvalid, arburst, arsize, arlen, arid;
  uint8_t bready, wvalid, wlast, awvalid, awburst, awsize, awlen, awid;
  uint32_t axil_rdata;
  uint64_t araddr, awaddr;
  uint8_t wstrb[16], wdata[128];
};

struct __attribute__((packed)) ToChip {
  uint8_t rst, axil_rready, axil_arvalid, axil_bready, axil_wvalid, axil_awvalid;
  uint8_t rvalid, rlast, rresp, rid, arready, bvalid, bresp, bid, wready, awready;
  uint32_t axil_araddr, axil_awaddr, axil_wdata;
  uint8_t rdata[128];
};

static_assert(sizeof(FromChip) * 8 == 1488 && sizeof(ToChip) * 8 == 1248, "as in presil_dpi.sv");

class PinServer {
 public:
  virtual ~PinServer() = default;

  // With the settled pins before a rising edge.
  virtual void rising(const FromChip& pins) = 0;
  // With the settled pins after a falling edge, before which the inputs may change. Answers requests and fetches new
  // ones until one needs the clock. False: serving has ended.
  virtual bool falling(const FromChip& pins, ToChip* inputs) = 0;
};

// word: bytes of a bus beat; registers: bytes of them. Takes the server over. nullptr: word is none of 4, 8, ..., 128.
std::unique_ptr<PinServer> make_pin_server(unsigned word, uint32_t registers, presil_server* server);

}  // namespace presil
