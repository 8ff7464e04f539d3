// SPDX-License-Identifier: Apache-2.0
#include "chip_module.h"

#include <cstring>

namespace presil {

Chip::Chip(sc_core::sc_module_name name) : sc_module(name), registers("registers"), memory("memory"), irq("irq") {
  registers.register_b_transport(this, &Chip::b_transport);
  registers.register_transport_dbg(this, &Chip::transport_dbg);
  memory.register_nb_transport_bw(this, &Chip::nb_transport_bw);
  memory.register_invalidate_direct_mem_ptr(this, &Chip::invalidate_direct_mem_ptr);
}

void Chip::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const uint64_t offset = payload.get_address();
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND) {
    payload.set_response_status(tlm::TLM_OK_RESPONSE);
    return;
  }
  if (payload.get_byte_enable_ptr()) {
    payload.set_response_status(tlm::TLM_BYTE_ENABLE_ERROR_RESPONSE);
    return;
  }
  if (payload.get_data_length() != 4 || payload.get_streaming_width() < 4) {
    payload.set_response_status(tlm::TLM_BURST_ERROR_RESPONSE);
    return;
  }
  if (offset % 4 || offset >= register_bytes()) {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return;
  }
  if (!loosely_timed() && delay != sc_core::SC_ZERO_TIME) wait(delay);
  delay = loosely_timed() ? delay + access_time() : sc_core::SC_ZERO_TIME;
  uint32_t value = 0;
  const bool write = payload.is_write();
  if (write) memcpy(&value, payload.get_data_ptr(), 4);
  const int response = access(write, static_cast<uint32_t>(offset), &value);
  if (!write && response == 0) memcpy(payload.get_data_ptr(), &value, 4);
  payload.set_response_status(response < 0 ? tlm::TLM_GENERIC_ERROR_RESPONSE
                                           : to_status(static_cast<uint8_t>(response)));
}

// Registers have side effects and need cycles: there is no way to look without them.
unsigned Chip::transport_dbg(tlm::tlm_generic_payload& payload) {
  (void)answers_beats(payload);
  return 0;
}

}  // namespace presil
