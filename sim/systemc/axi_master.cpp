// SPDX-License-Identifier: Apache-2.0
#include "axi_master.h"

#include <cstring>

namespace presil {

using tlm::tlm_phase;

AxiMaster::~AxiMaster() { abandon(); }

void AxiMaster::abandon() {
  pool_.abandon();
  reading_ = writing_ = offered_ = answered_ = on_request_ = nullptr;
  offering_ = false;
  collecting_.clear();
  queue_.clear();
  reads_.clear();
  writes_.clear();
  streamed_ = 0;
}

void AxiMaster::request_read(const AxiRequest& request) {
  Burst* b = pool_.make(true, request);
  reading_ = b;
  if (beats_) {
    send(b, tlm::BEGIN_REQ);
    return;
  }
  reads_.push_back(b);
  queue_.push_back(b);
  read_accepted();
  issue();
}

void AxiMaster::request_write(const AxiRequest& request) {
  Burst* b = pool_.make(false, request);
  writing_ = b;
  collecting_.push_back(b);
  if (beats_) {
    send(b, tlm::BEGIN_REQ);
  } else {
    write_accepted();
  }
}

void AxiMaster::offer_write_beat() {
  offering_ = true;
  Burst* b = collecting_.front();
  if (beats_) {
    b->axi.offered = true;
    send(b, BEGIN_BEAT);
  } else {
    beat_accepted();
  }
}

void AxiMaster::write_beat_taken() {
  offering_ = false;
  Burst* b = collecting_.front();
  if (++b->axi.beat < b->axi.beats) return;
  collecting_.pop_front();
  if (beats_) return;
  fill_enables(b);
  writes_.push_back(b);
  queue_.push_back(b);
  issue();
}

void AxiMaster::beat_taken() {
  Burst* b = offered_;
  offered_ = nullptr;
  if (beats_) {
    const bool last = b->axi.beat + 1 == b->axi.beats;
    send(b, last ? tlm_phase(tlm::END_RESP) : tlm_phase(END_BEAT));
    if (last) b->payload.release();
  } else if (++streamed_ == b->axi.beats) {
    streamed_ = 0;
    reads_.pop_front();
    b->payload.release();
  }
}

void AxiMaster::answer_taken() {
  Burst* b = answered_;
  answered_ = nullptr;
  if (beats_) {
    send(b, tlm::END_RESP);
  } else {
    writes_.pop_front();
  }
  b->payload.release();
}

void AxiMaster::stream() {
  if (beats_) return;
  const sc_core::sc_time now = sc_core::sc_time_stamp();
  if (!offered_ && !reads_.empty() && reads_.front()->answered && reads_.front()->answered_at <= now) {
    offered_ = reads_.front();
    offer_beat(*offered_, streamed_, to_response(offered_->payload.get_response_status()),
               streamed_ + 1u == offered_->axi.beats);
  }
  if (!answered_ && !writes_.empty() && writes_.front()->answered && writes_.front()->answered_at <= now) {
    answered_ = writes_.front();
    offer_answer(*answered_, to_response(answered_->payload.get_response_status()));
  }
}

tlm::tlm_sync_enum AxiMaster::backward(tlm::tlm_generic_payload& payload, tlm_phase& phase, sc_core::sc_time& delay) {
  Burst* b = BurstPool::of(payload);
  if (!beats_ && phase == tlm::BEGIN_RESP) {
    arrived(b, delay);
    return tlm::TLM_COMPLETED;
  }
  step(b, phase, delay);
  return tlm::TLM_ACCEPTED;
}

void AxiMaster::send(Burst* b, const tlm_phase& phase) {
  tlm_phase p = phase;
  sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
  const tlm::tlm_sync_enum answer = socket_->nb_transport_fw(b->payload, p, delay);
  if (answer == tlm::TLM_UPDATED) step(b, p, delay);
  if (answer == tlm::TLM_COMPLETED && !beats_ && !b->answered) arrived(b, delay);
}

void AxiMaster::step(Burst* b, const tlm_phase& phase, const sc_core::sc_time& delay) {
  if (phase == tlm::END_REQ) {
    if (beats_) {
      b->read ? read_accepted() : write_accepted();
    } else if (on_request_ == b) {
      on_request_ = nullptr;
      issue();
    }
  } else if (phase == END_BEAT) {
    beat_accepted();
  } else if (phase == BEGIN_BEAT || (phase == tlm::BEGIN_RESP && beats_ && b->read)) {
    offered_ = b;
    offer_beat(*b, b->axi.beat, b->axi.response, phase == tlm::BEGIN_RESP);
  } else if (phase == tlm::BEGIN_RESP && beats_) {
    answered_ = b;
    offer_answer(*b, b->axi.response);
  } else if (phase == tlm::BEGIN_RESP) {
    arrived(b, delay);
    send(b, tlm::END_RESP);
  }
}

// The response of a whole burst; a missing END_REQ is implied.
void AxiMaster::arrived(Burst* b, const sc_core::sc_time& delay) {
  b->answered = true;
  b->answered_at = sc_core::sc_time_stamp() + delay;
  if (on_request_ != b) return;
  on_request_ = nullptr;
  issue();
}

void AxiMaster::issue() {
  while (!on_request_ && !queue_.empty()) {
    on_request_ = queue_.front();
    queue_.pop_front();
    send(on_request_, tlm::BEGIN_REQ);
  }
}

void AxiMaster::fill_enables(Burst* b) {
  const unsigned bytes = b->payload.get_data_length();
  bool all = true;
  for (unsigned i = 0; i < bytes; i++) {
    b->enables[i] = b->axi.strobes[i / 64] >> i % 64 & 1 ? TLM_BYTE_ENABLED : TLM_BYTE_DISABLED;
    all &= b->enables[i] == TLM_BYTE_ENABLED;
  }
  if (all) return;
  b->payload.set_byte_enable_ptr(b->enables);
  b->payload.set_byte_enable_length(bytes);
}

}  // namespace presil
