// SPDX-License-Identifier: Apache-2.0
#include "interrupts.h"

#include <cstring>

namespace presil {

Interrupts::Interrupts(sc_core::sc_module_name name)
    : sc_module(name), registers("registers"), inputs("input", kInputs), output("output") {
  registers.register_b_transport(this, &Interrupts::b_transport);
  SC_HAS_PROCESS(Interrupts);
  SC_METHOD(drive);
  sensitive << changed_;
  for (auto& input : inputs) sensitive << input;
}

uint32_t Interrupts::pending() const {
  uint32_t bits = 0;
  for (unsigned i = 0; i < kInputs; i++) bits |= static_cast<uint32_t>(inputs[i].read()) << i;
  return bits;
}

void Interrupts::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time&) {
  const uint64_t offset = payload.get_address();
  if (payload.get_data_length() != 4 || payload.get_byte_enable_ptr()) {
    payload.set_response_status(payload.get_byte_enable_ptr() ? tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE
                                                              : tlm::TLM_BURST_ERROR_RESPONSE);
    return;
  }
  if (offset > 8 || offset % 4 || (payload.is_write() && offset != 4)) {
    payload.set_response_status(offset > 8 || offset % 4 ? tlm::TLM_ADDRESS_ERROR_RESPONSE
                                                         : tlm::TLM_COMMAND_ERROR_RESPONSE);
    return;
  }
  if (payload.is_write()) {
    memcpy(&enable_, payload.get_data_ptr(), 4);
    changed_.notify(sc_core::SC_ZERO_TIME);
  } else if (payload.is_read()) {
    const uint32_t value = offset == 4 ? enable_ : offset == 0 ? pending() : pending() & enable_;
    memcpy(payload.get_data_ptr(), &value, 4);
  }
  payload.set_response_status(tlm::TLM_OK_RESPONSE);
}

}  // namespace presil
