// SPDX-License-Identifier: Apache-2.0
// N masters to M targets by address. Without latency of its own: each bus cycle it hands every target at most one new
// read and one new write, in turn among the masters who ask (round-robin); beats and responses pass straight through.
// Knows beats (axi_tlm.h) if all its targets do; else each target gets whole bursts, one request at a time.
#pragma once
#include <tlm_utils/simple_initiator_socket.h>
#include <tlm_utils/simple_target_socket.h>

#include <memory>
#include <unordered_map>
#include <vector>

#include "axi_tlm.h"
#include "clock.h"

namespace presil {

class Router : public sc_core::sc_module, public Clocked {
 public:
  using MasterSide = tlm_utils::simple_target_socket_tagged<Router>;
  using TargetSide = tlm_utils::simple_initiator_socket_tagged<Router>;

  // clock: of the bus; null for a router of blocking calls. level: how many routers lie between this one and the
  // masters.
  Router(sc_core::sc_module_name name, Clock* clock, unsigned level = 0);

  MasterSide& add_master();
  // The target of [base, base + bytes). relative: it sees addresses from 0; such a one can't know beats. Ranges must
  // not overlap.
  TargetSide& add_target(uint64_t base, uint64_t bytes, bool relative);
  // The target of all other addresses: it answers for what is not there.
  TargetSide& add_default_target();

  void launch();   // the turn is the first master's again
  void abandon();  // forgets what it has
  void bus() override;
  void start_of_simulation() override;

 private:
  struct Target {
    std::unique_ptr<TargetSide> socket;
    uint64_t base, bytes;
    bool relative, everything, beats;
    tlm::tlm_generic_payload* asked[2];  // BEGIN_REQ without END_REQ: write, read
    unsigned turn[2];                    // the master who is looked at first
  };
  struct Master {
    std::unique_ptr<MasterSide> socket;
    tlm::tlm_generic_payload* want[2];
    unsigned target[2];
  };
  struct Route {
    unsigned master, target;
  };

  TargetSide& add(uint64_t base, uint64_t bytes, bool relative, bool everything);
  int decode(uint64_t address) const;
  void grant(unsigned t, unsigned read);
  unsigned master_of(tlm::tlm_generic_payload& payload) const;
  tlm::tlm_sync_enum forward(int master, tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                             sc_core::sc_time& delay);
  tlm::tlm_sync_enum backward(int target, tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                              sc_core::sc_time& delay);
  void b_transport(int master, tlm::tlm_generic_payload& payload, sc_core::sc_time& delay);
  unsigned transport_dbg(int master, tlm::tlm_generic_payload& payload);
  bool get_direct_mem_ptr(int master, tlm::tlm_generic_payload& payload, tlm::tlm_dmi& dmi);
  void invalidate(int target, sc_dt::uint64 first, sc_dt::uint64 last);

  const unsigned level_;
  bool beats_ = false;
  unsigned wanted_ = 0;
  std::vector<Target> targets_;
  std::vector<Master> masters_;
  std::unordered_map<tlm::tlm_generic_payload*, Route> routes_;  // of whole bursts
};

}  // namespace presil
