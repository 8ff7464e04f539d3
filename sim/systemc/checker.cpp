// SPDX-License-Identifier: Apache-2.0
#include "checker.h"

#include <cinttypes>
#include <cstdio>

namespace presil {

Checker::Checker(sc_core::sc_module_name name, std::string* breach)
    : sc_module(name), in("in"), out("out"), breach_(breach) {
  in.register_b_transport(this, &Checker::b_transport);
  in.register_nb_transport_fw(this, &Checker::forward);
  in.register_transport_dbg(this, &Checker::transport_dbg);
  in.register_get_direct_mem_ptr(this, &Checker::get_direct_mem_ptr);
  out.register_nb_transport_bw(this, &Checker::backward);
  out.register_invalidate_direct_mem_ptr(this, &Checker::invalidate_direct_mem_ptr);
}

void Checker::expect(bool good, const char* rule, const tlm::tlm_generic_payload& payload) {
  if (good || !breach_->empty()) return;
  char text[320];
  snprintf(text, sizeof text, "TLM protocol, %s: expected: %s; found otherwise in the %s of %u bytes at 0x%" PRIx64,
           name(), rule,
           payload.is_read()    ? "read"
           : payload.is_write() ? "write"
                                : "command",
           payload.get_data_length(), static_cast<uint64_t>(payload.get_address()));
  *breach_ = text;
}

void Checker::look_at_request(const tlm::tlm_generic_payload& p) {
  if (p.get_command() == tlm::TLM_IGNORE_COMMAND) return;
  expect(p.get_data_ptr() != nullptr && p.get_data_length() > 0, "data and a length above 0", p);
  expect(p.get_streaming_width() > 0, "a streaming width above 0", p);
  expect(!p.get_byte_enable_ptr() || p.get_byte_enable_length() > 0, "a length of the byte enables", p);
  expect(p.get_response_status() == tlm::TLM_INCOMPLETE_RESPONSE, "the response INCOMPLETE at the request", p);
  expect(!p.is_dmi_allowed(), "no hint for DMI at the request", p);
}

void Checker::look_at_response(const tlm::tlm_generic_payload& p) {
  expect(p.get_response_status() != tlm::TLM_INCOMPLETE_RESPONSE, "a response status at the response", p);
}

void Checker::b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  look_at_request(payload);
  const sc_core::sc_time before = sc_core::sc_time_stamp() + delay;
  out->b_transport(payload, delay);
  look_at_response(payload);
  expect(sc_core::sc_time_stamp() + delay >= before, "time that does not run backwards", payload);
  transactions_++;
}

bool Checker::get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) {
  const bool granted = out->get_direct_mem_ptr(payload, dmi);
  if (!granted) return false;
  expect(dmi.get_dmi_ptr() != nullptr && dmi.get_start_address() <= payload.get_address() &&
             payload.get_address() <= dmi.get_end_address(),
         "a granted region that holds the address asked for", payload);
  expect(payload.is_write() ? dmi.is_write_allowed() : dmi.is_read_allowed(),
         "a granted region that allows the command", payload);
  return true;
}

void Checker::invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last) {
  expect(first <= last, "an invalidated range whose end is not before its start", tlm::tlm_generic_payload());
  in->invalidate_direct_mem_ptr(first, last);
}

// ---- non-blocking
void Checker::begin(tlm::tlm_generic_payload& p) {
  expect(open_.find(&p) == open_.end(), "BEGIN_REQ of a transaction that is not under way", p);
  look_at_request(p);
  expect(p.has_mm() && p.get_ref_count() > 0, "a memory manager and a reference held", p);
  const auto* axi = p.get_extension<AxiExtension>();
  const bool beats = axi && !p.get_byte_enable_ptr();
  expect(asked_[channel(p, beats)]++ == 0, "one BEGIN_REQ at a time", p);
  open_[&p] = {p.get_command(), p.get_address(), p.get_data_ptr(), p.get_data_length(), false, false, beats, 0, 0};
}

void Checker::end(tlm::tlm_generic_payload& p) {
  const auto found = open_.find(&p);
  if (found == open_.end()) return;
  Open& open = found->second;
  if (!open.requested) asked_[channel(p, open.beats)]--;
  if (open.answered) answered_[channel(p, open.beats)]--;
  open_.erase(found);
  transactions_++;
}

void Checker::beat(Open& open, tlm::tlm_generic_payload& p, bool begins, bool by_initiator) {
  const auto* axi = p.get_extension<AxiExtension>();
  expect(axi && open.beats, "beats between peers who know them", p);
  expect(by_initiator == (begins == p.is_write()), "a read's beats from the target, a write's from the initiator", p);
  if (begins) {
    expect(open.begun == open.ended, "BEGIN_BEAT when the one before has ended", p);
    expect(!axi || ++open.begun <= axi->beats, "no more beats than the burst has", p);
  } else {
    expect(++open.ended <= open.begun, "END_BEAT after BEGIN_BEAT", p);
  }
}

void Checker::phase_seen(tlm::tlm_generic_payload& p, const tlm::tlm_phase& phase, bool by_initiator) {
  if (phase == tlm::BEGIN_REQ) {
    expect(by_initiator, "BEGIN_REQ from the initiator", p);
    return begin(p);
  }
  const auto found = open_.find(&p);
  expect(found != open_.end(), "a transaction that is under way", p);
  if (found == open_.end()) return;
  Open& open = found->second;
  expect(open.command == p.get_command() && open.address == p.get_address() && open.data == p.get_data_ptr() &&
             open.length == p.get_data_length(),
         "command, address, data and length as at the request", p);
  if (phase == tlm::END_REQ || phase == tlm::BEGIN_RESP) {
    expect(!by_initiator && !open.answered, "END_REQ, then BEGIN_RESP, from the target", p);
    expect(phase == tlm::BEGIN_RESP || !open.requested, "END_REQ once", p);
    if (!open.requested) asked_[channel(p, open.beats)]--;
    open.requested = true;
    if (phase == tlm::END_REQ) return;
    look_at_response(p);
    open.answered = true;
    expect(answered_[channel(p, open.beats)]++ == 0, "one BEGIN_RESP at a time", p);
  } else if (phase == tlm::END_RESP) {
    expect(by_initiator && open.answered, "END_RESP from the initiator, after BEGIN_RESP", p);
    end(p);
  } else if (phase == BEGIN_BEAT || phase == END_BEAT) {
    beat(open, p, phase == BEGIN_BEAT, by_initiator);
  }
}

// What the return path says: a phase of the other side, or the end.
void Checker::after(tlm::tlm_generic_payload& p, const tlm::tlm_phase& sent, const tlm::tlm_phase& phase,
                    tlm::tlm_sync_enum result, bool by_initiator) {
  if (result == tlm::TLM_ACCEPTED) {
    expect(phase == sent, "the phase unchanged with ACCEPTED", p);
  } else if (result == tlm::TLM_UPDATED) {
    phase_seen(p, phase, !by_initiator);
  } else {
    if (open_.count(&p)) look_at_response(p);
    end(p);
  }
}

tlm::tlm_sync_enum Checker::forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay) {
  const tlm::tlm_phase sent = phase;
  phase_seen(payload, sent, true);
  payload.acquire();  // the target may let go of it
  const tlm::tlm_sync_enum result = out->nb_transport_fw(payload, phase, delay);
  after(payload, sent, phase, result, true);
  payload.release();
  return result;
}

tlm::tlm_sync_enum Checker::backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) {
  const tlm::tlm_phase sent = phase;
  phase_seen(payload, sent, false);
  payload.acquire();
  const tlm::tlm_sync_enum result = in->nb_transport_bw(payload, phase, delay);
  after(payload, sent, phase, result, false);
  payload.release();
  return result;
}

}  // namespace presil
