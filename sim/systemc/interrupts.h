// SPDX-License-Identifier: Apache-2.0
// Interrupt controller: several level interrupts to one. Registers (32 bits): 0x0 PENDING, the inputs, read-only; 0x4
// ENABLE, all ones at the start; 0x8 ACTIVE = PENDING & ENABLE.
#pragma once
#include <tlm_utils/simple_target_socket.h>

#include <systemc>

namespace presil {

class Interrupts : public sc_core::sc_module {
 public:
  static constexpr unsigned kInputs = 4;
  static constexpr uint64_t kBytes = 4096;

  tlm_utils::simple_target_socket<Interrupts> registers;
  sc_core::sc_vector<sc_core::sc_in<bool>> inputs;
  sc_core::sc_out<bool> output;

  explicit Interrupts(sc_core::sc_module_name name);

 private:
  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  uint32_t pending() const;
  void drive() { output.write((pending() & enable_) != 0); }

  sc_core::sc_event changed_;
  uint32_t enable_ = (1u << kInputs) - 1;
};

}  // namespace presil
