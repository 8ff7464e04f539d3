// SPDX-License-Identifier: Apache-2.0
// The chip's ports as a plain struct, for simulators in which they are not members of a verilated root: the Pins of
// AxiMemory and of the monitors.
#pragma once
#include <cstdint>

namespace presil {

// kBytes: of a bus beat, 4 to 128, a power of two.
template <unsigned kBytes> struct AxiPins {
  static_assert(kBytes >= 4 && kBytes <= 128 && (kBytes & (kBytes - 1)) == 0, "a beat has 4 to 128 bytes");

  // from the chip
  uint64_t m_axi_araddr, m_axi_awaddr;
  uint8_t m_axi_arid, m_axi_arlen, m_axi_arsize, m_axi_arburst, m_axi_arvalid;
  uint8_t m_axi_awid, m_axi_awlen, m_axi_awsize, m_axi_awburst, m_axi_awvalid;
  uint8_t m_axi_wdata[kBytes], m_axi_wstrb[(kBytes + 7) / 8], m_axi_wlast, m_axi_wvalid;
  uint8_t m_axi_rready, m_axi_bready;
  // to the chip
  uint8_t m_axi_arready, m_axi_awready, m_axi_wready;
  uint8_t m_axi_rid, m_axi_rdata[kBytes], m_axi_rresp, m_axi_rlast, m_axi_rvalid;
  uint8_t m_axi_bid, m_axi_bresp, m_axi_bvalid;
};

struct AxilPins {
  uint32_t s_axil_awaddr, s_axil_araddr, s_axil_wdata, s_axil_rdata;
  uint8_t s_axil_awvalid, s_axil_awready, s_axil_wstrb, s_axil_wvalid, s_axil_wready;
  uint8_t s_axil_bresp, s_axil_bvalid, s_axil_bready;
  uint8_t s_axil_arvalid, s_axil_arready, s_axil_rresp, s_axil_rvalid, s_axil_rready;
};

}  // namespace presil
