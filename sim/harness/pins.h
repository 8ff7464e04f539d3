// SPDX-License-Identifier: Apache-2.0
// The ports of the verilated top (every chip is verilated with the prefix Vchip), as members of the model's root:
// without the references of the model class in between.
#pragma once
#include <type_traits>

#include "Vchip.h"
#include "Vchip___024root.h"
#include "register_rules.h"
#if PRESIL_SIM_PORTS
#include "chip_ports.h"
#endif

namespace presil {

using Pins = Vchip___024root;

inline constexpr unsigned kWord = sizeof(Pins::m_axi_wdata);  // bytes of a bus beat
static_assert(sizeof(Pins::m_axi_rdata) == kWord, "read and write data have one width");
#ifdef PRESIL_SIM_REGISTER_BYTES
inline constexpr uint32_t kChipRegisters = PRESIL_SIM_REGISTER_BYTES;
#else
inline constexpr uint32_t kChipRegisters = kRegisterBytes;
#endif
static_assert(kWord >= 4 && kWord <= 128 && (kWord & (kWord - 1)) == 0, "a beat has 4 to 128 bytes");

}  // namespace presil
