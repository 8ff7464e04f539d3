// SPDX-License-Identifier: Apache-2.0
// AXI4 over TLM-2.0: one generic payload a burst, moved by nb_transport with the base protocol's phases.
//
//   read   BEGIN_REQ  END_REQ   BEGIN_BEAT END_BEAT ...              BEGIN_RESP END_RESP
//   write  BEGIN_REQ  END_REQ   BEGIN_BEAT END_BEAT (every beat)     BEGIN_RESP END_RESP
//
// BEGIN_REQ is AxVALID, END_REQ AxREADY: the handshake is at the initiator's next clock edge. A read's beats come from
// the target, the last one as BEGIN_RESP; a write's go to the target, and BEGIN_RESP is BVALID. END_BEAT of a write is
// WREADY; END_BEAT and END_RESP otherwise are sent at the edge of the handshake. Between peers who know the beats (they
// say so when asked through transport_dbg: asks_for_beats) reads and writes have a request channel each, as in AXI.
// Others see the base protocol and whole bursts, and one request at a time.
//
// The data of a payload are bytes of consecutive addresses from the payload's address on, whatever the size of the
// beats and the lanes that they move on. A WRAP burst has its container, lowest address first; a FIXED one beat after
// beat, with the beat as streaming width, as TLM has it.
#pragma once
#include <cstdint>
#include <memory>
#include <tlm>
#include <vector>

namespace presil {

DECLARE_EXTENDED_PHASE(BEGIN_BEAT);
DECLARE_EXTENDED_PHASE(END_BEAT);

enum : uint8_t { kAxiOkay = 0, kAxiSlverr = 2, kAxiDecerr = 3 };
constexpr unsigned kPage = 4096;  // no burst crosses it
constexpr unsigned kMaxWord = 128, kMaxRouters = 4;

// A request as it is on the bus.
struct AxiRequest {
  uint64_t start = 0;          // AxADDR
  uint32_t id = 0;             // AxID
  uint8_t word = 0;            // bytes of the bus
  uint8_t size = 0, kind = 1;  // AxSIZE and AxBURST
  uint16_t beats = 0;

  unsigned bytes() const { return 1u << size; }  // of a beat
  // Where in the payload's data a beat is, and its lowest lane of the bus.
  unsigned at(unsigned n) const {
    return kind == 2 ? (static_cast<unsigned>(start) + n * bytes()) & (beats * bytes() - 1) : n * bytes();
  }
  unsigned lane(unsigned n) const { return static_cast<unsigned>(lowest() + (kind == 0 ? 0 : at(n))) & (word - 1u); }
  uint64_t lowest() const { return (start & ~uint64_t{bytes() - 1}) - (kind == 2 ? at(0) : 0); }  // address
};

// Ignorable. What AXI has and the generic payload hasn't, and where the burst is.
struct AxiExtension : tlm::tlm_extension<AxiExtension>, AxiRequest {
  uint16_t beat = 0;                // the one that is offered or moves next
  uint8_t response = kAxiOkay;      // read: of this beat. write: of the burst
  bool offered = false;             // write: BEGIN_BEAT of `beat` has been sent, END_BEAT not
  bool knows_beats = false;         // set by a target that was asked
  uint8_t route[kMaxRouters] = {};  // each router's note of the master, by its level
  uint64_t strobes[kPage / 64] =
      {};  // write: a bit a byte of the payload's data, lowest first; a beat's are there from its BEGIN_BEAT
  struct Burst* burst = nullptr;  // whose extension this is: the initiator's own note

  tlm::tlm_extension_base* clone() const override { return new AxiExtension(*this); }
  void copy_from(const tlm::tlm_extension_base& from) override { *this = static_cast<const AxiExtension&>(from); }
};

// A payload with its data, from a pool that has it back when the last reference is dropped.
struct Burst {
  tlm::tlm_generic_payload payload;
  AxiExtension axi;
  bool read = false;
  bool answered = false;         // whole bursts: the response has come, and counts from
  sc_core::sc_time answered_at;  // here on
  uint8_t enables[kPage];        // of a write to a target that doesn't know beats
  alignas(64) uint8_t data[kPage];
};

class BurstPool : public tlm::tlm_mm_interface {
 public:
  BurstPool() = default;
  ~BurstPool() override;
  BurstPool(const BurstPool&) = delete;
  BurstPool& operator=(const BurstPool&) = delete;

  // With one reference. request: legal AXI4.
  Burst* make(bool read, const AxiRequest& request);
  // The burst of a payload that a pool made.
  static Burst* of(tlm::tlm_generic_payload& payload) { return payload.get_extension<AxiExtension>()->burst; }
  size_t alive() const { return alive_; }
  // Takes back every burst that is out, references or not. Whoever holds one has to forget it too.
  void abandon();

  void free(tlm::tlm_generic_payload* payload) override;

 private:
  std::vector<Burst*> all_, free_;
  size_t alive_ = 0;
};

inline tlm::tlm_response_status to_status(uint8_t response) {
  return response == kAxiOkay     ? tlm::TLM_OK_RESPONSE
         : response == kAxiDecerr ? tlm::TLM_ADDRESS_ERROR_RESPONSE
                                  : tlm::TLM_GENERIC_ERROR_RESPONSE;
}
inline uint8_t to_response(tlm::tlm_response_status status) {
  return status == tlm::TLM_OK_RESPONSE              ? uint8_t{kAxiOkay}
         : status == tlm::TLM_ADDRESS_ERROR_RESPONSE ? uint8_t{kAxiDecerr}
                                                     : uint8_t{kAxiSlverr};
}

// Asks a target, without simulated time, whether it knows the beats.
bool asks_for_beats(tlm::tlm_fw_transport_if<>& target);
// For targets: true if this debug access is that question; it is answered.
bool answers_beats(tlm::tlm_generic_payload& payload);

}  // namespace presil
