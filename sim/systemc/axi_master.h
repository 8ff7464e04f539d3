// SPDX-License-Identifier: Apache-2.0
// An AXI4 master on a TLM socket, without pins: turns requests, beats and answers of a clocked owner into transactions
// (axi_tlm.h), and tells the owner what came back. Owners: the bridge to the chip's pins, the traffic generator.
#pragma once
#include <deque>

#include "axi_tlm.h"

namespace presil {

class AxiMaster {
 public:
  explicit AxiMaster(tlm::tlm_initiator_socket<>& socket) : socket_(socket) {}
  virtual ~AxiMaster();
  AxiMaster(const AxiMaster&) = delete;
  AxiMaster& operator=(const AxiMaster&) = delete;

  // When everything is bound: until then the target is taken for one that knows whole bursts only.
  void ask() { beats_ = asks_for_beats(*socket_.operator->()); }
  bool idle() const { return !reading_ && !writing_ && pool_.alive() == 0; }
  // Forgets every burst, as a reset does. The targets have to be reset with it.
  void abandon();
  tlm::tlm_sync_enum backward(tlm::tlm_generic_payload& payload, tlm::tlm_phase& phase, sc_core::sc_time& delay);

 protected:
  // The owner's inputs, for the coming edge.
  virtual void read_accepted() = 0;
  virtual void write_accepted() = 0;
  virtual void beat_accepted() = 0;
  virtual void offer_beat(const Burst& b, unsigned beat, unsigned response, bool last) = 0;
  virtual void offer_answer(const Burst& b, unsigned response) = 0;

  // After an edge: what the owner offers. Each at most once until it has been accepted and taken.
  bool may_read() const { return !reading_ && (beats_ || pool_.alive() < kWhole); }
  bool may_write() const { return !writing_ && (beats_ || pool_.alive() < kWhole); }
  // Legal AXI4.
  void request_read(const AxiRequest& request);
  void request_write(const AxiRequest& request);
  // The burst whose next beat may be offered (its data and strobes at axi.at(axi.beat) are the owner's to fill in), or
  // null.
  Burst* collecting() const { return collecting_.front(); }
  Burst* beat_wanted() const { return offering_ || collecting_.empty() ? nullptr : collecting_.front(); }
  void offer_write_beat();
  // Whole bursts: puts what has come on the R and B channels, beat by beat.
  void stream();

  // At an edge: the handshakes.
  void read_taken() { reading_ = nullptr; }
  void write_taken() { writing_ = nullptr; }
  void write_beat_taken();
  void beat_taken();
  void answer_taken();

 private:
  static constexpr size_t kWhole = 64;  // bursts at once towards a target that takes them whole

  void send(Burst* b, const tlm::tlm_phase& phase);
  void step(Burst* b, const tlm::tlm_phase& phase, const sc_core::sc_time& delay);
  void arrived(Burst* b, const sc_core::sc_time& delay);
  void issue();
  static void fill_enables(Burst* b);

  tlm::tlm_initiator_socket<>& socket_;
  bool beats_ = false;
  BurstPool pool_;
  Burst *reading_ = nullptr, *writing_ = nullptr;   // requested, not taken
  Burst *offered_ = nullptr, *answered_ = nullptr;  // on the R and B channels
  bool offering_ = false;                           // a beat is on the W channel
  std::deque<Burst*> collecting_;                   // writes whose beats have not all been taken, in order
  // whole bursts: not yet sent; sent, in order of their requests; and the one whose END_REQ is awaited
  std::deque<Burst*> queue_, reads_, writes_;
  Burst* on_request_ = nullptr;
  unsigned streamed_ = 0;  // beats of the first of reads_
};

}  // namespace presil
