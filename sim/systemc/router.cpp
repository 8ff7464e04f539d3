// SPDX-License-Identifier: Apache-2.0
#include "router.h"

#include <stdexcept>

namespace presil {

Router::Router(sc_core::sc_module_name name, Clock* clock, unsigned level) : sc_module(name), level_(level) {
  if (level >= kMaxRouters)
    throw std::invalid_argument("Router: at most " + std::to_string(kMaxRouters) +
                                " routers between a master and a target");
  if (clock) clock->add(this, Clock::kBus);
}

Router::MasterSide& Router::add_master() {
  const int i = static_cast<int>(masters_.size());
  auto socket = std::make_unique<MasterSide>((std::string(basename()) + "_master" + std::to_string(i)).c_str());
  socket->register_nb_transport_fw(this, &Router::forward, i);
  socket->register_b_transport(this, &Router::b_transport, i);
  socket->register_transport_dbg(this, &Router::transport_dbg, i);
  socket->register_get_direct_mem_ptr(this, &Router::get_direct_mem_ptr, i);
  masters_.push_back({std::move(socket), {}, {}});
  return *masters_.back().socket;
}

Router::TargetSide& Router::add_target(uint64_t base, uint64_t bytes, bool relative) {
  return add(base, bytes, relative, false);
}
Router::TargetSide& Router::add_default_target() { return add(0, 0, false, true); }

Router::TargetSide& Router::add(uint64_t base, uint64_t bytes, bool relative, bool everything) {
  for (const Target& t : targets_) {
    if (!everything && !t.everything && base < t.base + t.bytes && t.base < base + bytes)
      throw std::invalid_argument(std::string(name()) + ": two targets overlap");
  }
  const int i = static_cast<int>(targets_.size());
  auto socket = std::make_unique<TargetSide>((std::string(basename()) + "_target" + std::to_string(i)).c_str());
  socket->register_nb_transport_bw(this, &Router::backward, i);
  socket->register_invalidate_direct_mem_ptr(this, &Router::invalidate, i);
  targets_.push_back({std::move(socket), base, bytes, relative, everything, false, {}, {}});
  return *targets_.back().socket;
}

void Router::start_of_simulation() {
  beats_ = true;
  for (Target& t : targets_) beats_ &= t.beats = !t.relative && asks_for_beats(*t.socket->operator->());
}

void Router::launch() {
  for (Target& t : targets_) t.turn[0] = t.turn[1] = 0;
}

void Router::abandon() {
  for (Target& t : targets_) t.asked[0] = t.asked[1] = nullptr;
  for (Master& m : masters_) m.want[0] = m.want[1] = nullptr;
  wanted_ = 0;
  routes_.clear();
}

int Router::decode(uint64_t address) const {
  int found = -1;
  for (size_t i = 0; i < targets_.size(); i++) {
    if (!targets_[i].everything && address - targets_[i].base < targets_[i].bytes) return static_cast<int>(i);
    if (targets_[i].everything) found = static_cast<int>(i);
  }
  return found;
}

void Router::bus() {
  if (!wanted_) return;
  for (unsigned t = 0; t < targets_.size(); t++) {
    grant(t, 1);
    grant(t, 0);
  }
}

// Whose request goes to the target next. A target of whole bursts takes one request at a time, be it read or write.
void Router::grant(unsigned t, unsigned read) {
  Target& target = targets_[t];
  if (target.asked[read] || (!beats_ && target.asked[!read])) return;
  for (unsigned n = 0; n < masters_.size(); n++) {
    const unsigned m = (target.turn[read] + n) % masters_.size();
    Master& master = masters_[m];
    if (!master.want[read] || master.target[read] != t) continue;
    tlm::tlm_generic_payload& payload = *master.want[read];
    master.want[read] = nullptr;
    wanted_--;
    target.turn[read] = (m + 1) % static_cast<unsigned>(masters_.size());
    target.asked[read] = &payload;
    if (target.relative) payload.set_address(payload.get_address() - target.base);
    tlm::tlm_phase phase = tlm::BEGIN_REQ;
    sc_core::sc_time delay = sc_core::SC_ZERO_TIME;
    const tlm::tlm_sync_enum answer = (*target.socket)->nb_transport_fw(payload, phase, delay);
    if (answer == tlm::TLM_COMPLETED) phase = tlm::BEGIN_RESP;
    if (answer != tlm::TLM_ACCEPTED) (void)backward(static_cast<int>(t), payload, phase, delay);
    if (beats_ && !read && payload.get_extension<AxiExtension>()->offered) {  // its first beat was held back with it
      phase = BEGIN_BEAT;
      (void)(*target.socket)->nb_transport_fw(payload, phase, delay);
    }
    return;
  }
}

unsigned Router::master_of(tlm::tlm_generic_payload& payload) const {
  return beats_ ? payload.get_extension<AxiExtension>()->route[level_] : routes_.at(&payload).master;
}

tlm::tlm_sync_enum Router::forward(int master, tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                   sc_core::sc_time& delay) {
  if (phase == BEGIN_BEAT && masters_[static_cast<size_t>(master)].want[0] == &payload)
    return tlm::TLM_ACCEPTED;  // goes after its BEGIN_REQ
  if (phase != tlm::BEGIN_REQ) {
    const unsigned t = beats_ ? static_cast<unsigned>(decode(payload.get_address())) : routes_.at(&payload).target;
    if (phase == tlm::END_RESP && !beats_) routes_.erase(&payload);
    return (*targets_[t].socket)->nb_transport_fw(payload, phase, delay);
  }
  const int t = decode(payload.get_address());
  if (t < 0) {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return tlm::TLM_COMPLETED;
  }
  const unsigned m = static_cast<unsigned>(master), read = payload.is_read();
  if (beats_) {
    payload.get_extension<AxiExtension>()->route[level_] = static_cast<uint8_t>(m);
  } else {
    routes_[&payload] = {m, static_cast<unsigned>(t)};
  }
  masters_[m].want[read] = &payload;
  masters_[m].target[read] = static_cast<unsigned>(t);
  wanted_++;
  return tlm::TLM_ACCEPTED;
}

tlm::tlm_sync_enum Router::backward(int target, tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                    sc_core::sc_time& delay) {
  Target& t = targets_[static_cast<size_t>(target)];
  const unsigned m = master_of(payload);
  if (phase == tlm::END_REQ || (phase == tlm::BEGIN_RESP && !beats_)) {
    if (t.asked[payload.is_read()] == &payload) t.asked[payload.is_read()] = nullptr;
  }
  const tlm::tlm_sync_enum answer = (*masters_[m].socket)->nb_transport_bw(payload, phase, delay);
  if (answer == tlm::TLM_COMPLETED && !beats_) routes_.erase(&payload);
  return answer;
}

void Router::b_transport(int, tlm::tlm_generic_payload& payload, sc_core::sc_time& delay) {
  const uint64_t address = payload.get_address();
  const int t = decode(address);
  if (t < 0) {
    payload.set_response_status(tlm::TLM_ADDRESS_ERROR_RESPONSE);
    return;
  }
  Target& target = targets_[static_cast<size_t>(t)];
  if (target.relative) payload.set_address(address - target.base);
  (*target.socket)->b_transport(payload, delay);
  payload.set_address(address);
}

unsigned Router::transport_dbg(int, tlm::tlm_generic_payload& payload) {
  if (payload.get_command() == tlm::TLM_IGNORE_COMMAND && payload.get_extension<AxiExtension>()) {
    bool all = true;
    for (Target& t : targets_) all &= !t.relative && asks_for_beats(*t.socket->operator->());
    if (all) (void)answers_beats(payload);
    return 0;
  }
  const uint64_t address = payload.get_address();
  const int t = decode(address);
  if (t < 0) return 0;
  Target& target = targets_[static_cast<size_t>(t)];
  if (target.relative) payload.set_address(address - target.base);
  const unsigned moved = (*target.socket)->transport_dbg(payload);
  payload.set_address(address);
  return moved;
}

bool Router::get_direct_mem_ptr(int, tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi) {
  const uint64_t address = payload.get_address();
  const int t = decode(address);
  if (t < 0) return false;
  Target& target = targets_[static_cast<size_t>(t)];
  if (target.relative) payload.set_address(address - target.base);
  const bool given = (*target.socket)->get_direct_mem_ptr(payload, dmi);
  payload.set_address(address);
  if (given && target.relative) {
    dmi.set_start_address(dmi.get_start_address() + target.base);
    dmi.set_end_address(dmi.get_end_address() < target.bytes ? dmi.get_end_address() + target.base
                                                             : target.base + target.bytes - 1);
  }
  return given;
}

void Router::invalidate(int target, sc_dt::uint64 first, sc_dt::uint64 last) {
  const Target& t = targets_[static_cast<size_t>(target)];
  const uint64_t offset = t.relative ? t.base : 0;
  for (Master& m : masters_) (*m.socket)->invalidate_direct_mem_ptr(first + offset, last + offset);
}

}  // namespace presil
