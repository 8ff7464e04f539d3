// SPDX-License-Identifier: Apache-2.0
// The chip for other people's platforms: one SystemC module. find_package(Presil COMPONENTS tlm), link Presil::tlm.
//
//   presil::TlmChip npu("npu", options);
//   npu.registers   TLM-2.0 target socket: 4 KiB of registers (docs/rtl.md), words of 32 bits. b_transport; simulated
//   time passes in it npu.memory      TLM-2.0 initiator socket, nb_transport: the DRAM's bus, addresses as the driver
//   gives them. A target of the base protocol sees whole bursts
//                   of at most 4 KiB with byte enables, one request at a time; one that knows the beats of axi_tlm.h
//                   moves them cycle by cycle
//   npu.irq         sc_out<bool>, level
//
// The module makes its own clock. At most one with the same library in a process. Construction throws
// std::runtime_error, with what to do.
#pragma once
#include <memory>
#include <string>
#include <systemc>
#include <tlm>

#include "chip_module.h"

namespace presil {

// Opens the library of a verilated chip (file), or finds libpresil_sim_<config>_<build>.so in PRESIL_LIBRARY_PATH and
// beside this library. Build "twin": the C twin, loosely timed, which needs no library. Throws std::runtime_error.
ChipMaker load_chip(const std::string& file, const std::string& config, const std::string& build);

struct TlmChipOptions {
  std::string config;             // one of it and library
  std::string build = "systemc";  // systemc_check: assertions; systemc_trace: waveforms (chip().trace); twin: the C
                                  // twin, loosely timed, memory by DMI
  std::string library;            // a file, instead of searching for one by config and build
  uint32_t clock_mhz = 1000;
  uint64_t seed = 0;  // of the check build's start values
};

class TlmChip : public sc_core::sc_module {
  Clock clock_;
  std::unique_ptr<Chip> chip_;

 public:
  tlm::tlm_base_target_socket<32>& registers;
  tlm::tlm_base_initiator_socket<32>& memory;
  sc_core::sc_out<bool>& irq;

  explicit TlmChip(sc_core::sc_module_name name, const TlmChipOptions& options = {});

  // Reset, statistics, waveforms. From a thread process, as chip_module.h says; reset() once at the start.
  Chip& chip() { return *chip_; }
};

}  // namespace presil
