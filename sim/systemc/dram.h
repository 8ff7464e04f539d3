// SPDX-License-Identifier: Apache-2.0
// The device's DRAM on the bus: the plain harness's memory model (axi_memory.h, rules in docs/simulation.md) behind a
// TLM socket. Knows beats; others reach it by blocking calls, debug accesses and DMI.
#pragma once
#include <tlm_utils/simple_target_socket.h>

#include <memory>

#include "axi_memory.h"
#include "axi_tlm.h"
#include "clock.h"

namespace presil {

class Dram : public sc_core::sc_module, public Clocked {
 public:
  tlm_utils::simple_target_socket<Dram> socket;

  // word: bytes of a beat, 4 to 128, a power of two.
  static std::unique_ptr<Dram> make(sc_core::sc_module_name name, Clock& clock, unsigned word);

  // The region; base and bytes are multiples of 4096, host stays the caller's. Until then every access is answered with
  // DECERR. bytes 0: none again.
  virtual void map(uint64_t base, uint8_t* host, uint64_t bytes);
  virtual void configure(const MemorySettings& settings, uint64_t seed) = 0;
  virtual bool idle() const = 0;
  // Puts all state to a function of (seed, launch). Only when idle.
  virtual void launch(uint64_t launch) = 0;
  virtual void abandon() = 0;  // forgets every burst
  virtual AxiMemoryState& state() = 0;
  virtual uint64_t now() const = 0;  // bus cycles so far
  // What the memory threw, because the bus protocol was broken; empty: nothing.
  const std::string& breach() const { return breach_; }
  void forgive() { breach_.clear(); }

 protected:
  Dram(sc_core::sc_module_name name, Clock& clock, unsigned word);
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  virtual tlm::tlm_sync_enum forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) = 0;

  Clock& clock_;
  const unsigned word_;
  MemorySettings settings_;
  std::string breach_;

 private:
  tlm::tlm_sync_enum nb_transport_fw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) {
    return forward(payload, phase, delay);
  }
  unsigned transport_dbg(tlm::tlm_generic_payload& payload);
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi);
  bool copy(tlm::tlm_generic_payload& payload);

  uint64_t base_ = 0, bytes_ = 0;
  uint8_t* host_ = nullptr;
};

}  // namespace presil
