// SPDX-License-Identifier: Apache-2.0
// Stands between an initiator and a target, passes everything on, and looks whether both keep to TLM-2.0's base
// protocol (IEEE 1666-2011, 15.2) and the beats of axi_tlm.h. The first breach is kept as a text. For check builds: one
// on every socket of the platform.
#pragma once
#include <string>
#include <systemc>
#include <tlm>
#include <unordered_map>

#include "axi_tlm.h"

#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

namespace presil {

class Checker : public sc_core::sc_module {
 public:
  tlm_utils::simple_target_socket<Checker> in;
  tlm_utils::simple_initiator_socket<Checker> out;

  // breach: where the first one of all checkers of a platform is written, if it is empty.
  Checker(sc_core::sc_module_name name, std::string* breach);

  uint64_t transactions() const { return transactions_; }  // that have ended, blocking and not
  void abandon() { open_.clear(), asked_[0] = asked_[1] = answered_[0] = answered_[1] = 0; }  // a reset of both sides

 private:
  // What must not change while a transaction is under way.
  struct Open {
    tlm::tlm_command command;
    uint64_t address;
    const uint8_t* data;
    unsigned length;
    bool requested, answered, beats;  // END_REQ and BEGIN_RESP have been; the peers know beats
    unsigned begun, ended;            // of its beats
  };

  void b_transport(tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  unsigned transport_dbg(tlm::tlm_generic_payload& payload) { return out->transport_dbg(payload); }
  bool get_direct_mem_ptr(tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi);
  void invalidate_direct_mem_ptr(sc_dt::uint64 first, sc_dt::uint64 last);
  tlm::tlm_sync_enum forward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay);
  tlm::tlm_sync_enum backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay);

  void expect(bool good, const char* rule, const tlm::tlm_generic_payload& payload);
  void look_at_request(const tlm::tlm_generic_payload& payload);
  void look_at_response(const tlm::tlm_generic_payload& payload);
  void phase_seen(tlm::tlm_generic_payload& payload, const tlm::tlm_phase& phase, bool by_initiator);
  void begin(tlm::tlm_generic_payload& payload);
  void end(tlm::tlm_generic_payload& payload);
  void beat(Open& open, tlm::tlm_generic_payload& payload, bool begins, bool by_initiator);
  void after(tlm::tlm_generic_payload& payload, const tlm::tlm_phase& sent, const tlm::tlm_phase& phase,
             tlm::tlm_sync_enum result, bool by_initiator);
  // Peers who know beats have a channel for reads and one for writes.
  static unsigned channel(const tlm::tlm_generic_payload& payload, bool beats) { return beats && payload.is_read(); }

  std::string* breach_;
  std::unordered_map<const tlm::tlm_generic_payload*, Open> open_;
  unsigned asked_[2] = {}, answered_[2] = {};  // BEGIN_REQ without END_REQ, BEGIN_RESP without END_RESP
  uint64_t transactions_ = 0;
};

}  // namespace presil
