// SPDX-License-Identifier: Apache-2.0
// A second master on the bus, as a DMA engine would be: bursts at a given share of the bus's beats. Reads are thrown
// away, writes have no strobes, so the memory keeps its contents while the bus and its bandwidth are used like by any
// other master.
#pragma once
#include <tlm_utils/simple_initiator_socket.h>

#include "axi_master.h"
#include "clock.h"
#include "platform_settings.h"

namespace presil {

class Traffic : public sc_core::sc_module, public AxiMaster, public Clocked {
 public:
  tlm_utils::simple_initiator_socket<Traffic> socket;

  Traffic(sc_core::sc_module_name name, Clock& clock, unsigned word, const TrafficSettings& settings);

  // Forgets its bursts and starts again in a state that depends on (seed, launch). base: of the window.
  void launch(uint64_t launch, uint64_t base);
  void stop() { running_ = false, forget(); }
  const uint64_t& moved() const { return moved_; }  // beats since launch()

  void edge() override;
  void present() override;
  void start_of_simulation() override { ask(); }

 private:
  static constexpr unsigned kOutstanding = 16;  // bursts, reads and writes together

  void read_accepted() override { arready_ = true; }
  void write_accepted() override { awready_ = true; }
  void beat_accepted() override { wready_ = true; }
  void offer_beat(const Burst&, unsigned, unsigned, bool last) override { rvalid_ = true, rlast_ = last; }
  void offer_answer(const Burst&, unsigned) override { bvalid_ = true; }
  tlm::tlm_sync_enum nb_transport_bw(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase,
                                     sc_core::sc_time& delay) {
    return backward(payload, phase, delay);
  }
  void forget();
  void ask_for_burst();

  const TrafficSettings settings_;
  const unsigned word_;
  bool running_ = false;
  uint64_t base_ = 0, key_ = 0, drawn_ = 0, credit_ = 0, moved_ = 0;
  unsigned outstanding_ = 0;
  bool arready_ = false, awready_ = false, wready_ = false, rvalid_ = false, rlast_ = false,
       bvalid_ = false;                                               // as seen after the last bus cycle
  bool ar_ = false, aw_ = false, w_ = false, r_ = false, b_ = false;  // handshakes at the last edge
};

}  // namespace presil
