// SPDX-License-Identifier: Apache-2.0
// The chip's ports as a plain struct, for simulators in which they are not members of a verilated root: the Pins of
// AxiMemory and of the monitors. Each wire is listed once, WIRE(name, type): who binds or copies ports does it by list.
#pragma once
#include <cstdint>
#include <type_traits>

// clang-format off
// The AXI4 master, without its data, as the chip sees it. An ID has 32 bits at most.
#define PRESIL_AXI_OUTPUTS(WIRE)                                                                                       \
  WIRE(araddr, uint64_t) WIRE(awaddr, uint64_t) WIRE(arid, uint32_t) WIRE(awid, uint32_t)                              \
  WIRE(arlen, uint8_t) WIRE(arsize, uint8_t) WIRE(arburst, uint8_t) WIRE(arvalid, uint8_t) WIRE(rready, uint8_t)       \
  WIRE(awlen, uint8_t) WIRE(awsize, uint8_t) WIRE(awburst, uint8_t) WIRE(awvalid, uint8_t) WIRE(bready, uint8_t)       \
  WIRE(wlast, uint8_t) WIRE(wvalid, uint8_t)
#define PRESIL_AXI_INPUTS(WIRE)                                                                                        \
  WIRE(rid, uint32_t) WIRE(bid, uint32_t)                                                                              \
  WIRE(arready, uint8_t) WIRE(rresp, uint8_t) WIRE(rlast, uint8_t) WIRE(rvalid, uint8_t)                               \
  WIRE(awready, uint8_t) WIRE(wready, uint8_t) WIRE(bresp, uint8_t) WIRE(bvalid, uint8_t)
// The AXI4-Lite slave.
#define PRESIL_AXIL_OUTPUTS(WIRE)                                                                                      \
  WIRE(awready, uint8_t) WIRE(wready, uint8_t) WIRE(bresp, uint8_t) WIRE(bvalid, uint8_t)                              \
  WIRE(arready, uint8_t) WIRE(rdata, uint32_t) WIRE(rresp, uint8_t) WIRE(rvalid, uint8_t)
#define PRESIL_AXIL_INPUTS(WIRE)                                                                                       \
  WIRE(awaddr, uint32_t) WIRE(wdata, uint32_t) WIRE(araddr, uint32_t) WIRE(wstrb, uint8_t)                             \
  WIRE(awvalid, uint8_t) WIRE(wvalid, uint8_t) WIRE(bready, uint8_t) WIRE(arvalid, uint8_t) WIRE(rready, uint8_t)
// clang-format on

namespace presil {

// kBytes: of a bus beat, 4 to 128, a power of two.
template <unsigned kBytes> struct AxiPins {
  static_assert(kBytes >= 4 && kBytes <= 128 && (kBytes & (kBytes - 1)) == 0, "a beat has 4 to 128 bytes");

#define PRESIL_WIRE(name, type) type m_axi_##name;
  PRESIL_AXI_OUTPUTS(PRESIL_WIRE)
  PRESIL_AXI_INPUTS(PRESIL_WIRE)
#undef PRESIL_WIRE
  uint8_t m_axi_wdata[kBytes], m_axi_wstrb[(kBytes + 7) / 8], m_axi_rdata[kBytes];
};

struct AxilPins {
#define PRESIL_WIRE(name, type) type s_axil_##name;
  PRESIL_AXIL_OUTPUTS(PRESIL_WIRE)
  PRESIL_AXIL_INPUTS(PRESIL_WIRE)
#undef PRESIL_WIRE
};

// `make` of the width of a beat, as a type with `value`; nothing where there is no such width.
template <class Make> auto of_word(unsigned word, Make make) -> decltype(make(std::integral_constant<unsigned, 4>())) {
  switch (word) {
    case 4: return make(std::integral_constant<unsigned, 4>());
    case 8: return make(std::integral_constant<unsigned, 8>());
    case 16: return make(std::integral_constant<unsigned, 16>());
    case 32: return make(std::integral_constant<unsigned, 32>());
    case 64: return make(std::integral_constant<unsigned, 64>());
    case 128: return make(std::integral_constant<unsigned, 128>());
    default: return {};
  }
}

}  // namespace presil
