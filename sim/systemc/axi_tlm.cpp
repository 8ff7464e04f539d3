// SPDX-License-Identifier: Apache-2.0
#include "axi_tlm.h"

namespace presil {

BurstPool::~BurstPool() {
  for (Burst* b : all_) {
    b->payload.clear_extension(&b->axi);
    delete b;
  }
}

Burst* BurstPool::make(bool read, const AxiRequest& request) {
  Burst* b;
  if (free_.empty()) {
    b = new Burst;
    all_.push_back(b);
    b->payload.set_mm(this);
    b->payload.set_extension(&b->axi);
    b->axi.burst = b;
  } else {
    b = free_.back();
    free_.pop_back();
  }
  alive_++;
  b->read = read;
  b->answered = false;
  b->payload.acquire();
  b->payload.set_command(read ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND);
  const unsigned length = request.beats * request.bytes();
  b->payload.set_address(request.lowest());
  b->payload.set_data_ptr(b->data);
  b->payload.set_data_length(length);
  b->payload.set_streaming_width(request.kind == 0 ? request.bytes() : length);
  b->payload.set_byte_enable_ptr(nullptr);
  b->payload.set_byte_enable_length(0);
  b->payload.set_dmi_allowed(false);
  b->payload.set_response_status(tlm::TLM_INCOMPLETE_RESPONSE);
  static_cast<AxiRequest&>(b->axi) = request;
  b->axi.beat = 0;
  b->axi.response = kAxiOkay;
  b->axi.offered = false;
  return b;
}

void BurstPool::free(tlm::tlm_generic_payload* payload) {
  alive_--;
  free_.push_back(of(*payload));
}

void BurstPool::abandon() {
  for (Burst* b : all_) {
    while (b->payload.get_ref_count() > 0) b->payload.release();
  }
}

bool asks_for_beats(tlm::tlm_fw_transport_if<>& target) {
  AxiExtension axi;
  tlm::tlm_generic_payload question;
  uint8_t nothing = 0;
  question.set_command(tlm::TLM_IGNORE_COMMAND);
  question.set_data_ptr(&nothing);
  question.set_data_length(0);
  question.set_extension(&axi);
  (void)target.transport_dbg(question);
  question.clear_extension(&axi);
  return axi.knows_beats;
}

bool answers_beats(tlm::tlm_generic_payload& payload) {
  if (payload.get_command() != tlm::TLM_IGNORE_COMMAND) return false;
  auto* axi = payload.get_extension<AxiExtension>();
  if (axi) axi->knows_beats = true;
  return axi != nullptr;
}

}  // namespace presil
