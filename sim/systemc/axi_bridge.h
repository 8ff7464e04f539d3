// SPDX-License-Identifier: Apache-2.0
// The pins of a chip's AXI4 master, and the bridge from them to TLM. Clocked: edge(), present() in this order; settle()
// is the owner's, who evaluates the model. Valid signals have to come from registers, as AXI recommends: they are
// looked at after the edge, before the inputs of the new cycle are there.
#pragma once
#include "axi_burst.h"
#include "axi_master.h"
#include "axi_pins.h"
#include "pin.h"

namespace presil {

// The wire for a port of the model.
template <class Port> using PinOf = Pin<typename std::remove_reference_t<Port>::data_type>;

template <class T> inline constexpr unsigned kBytesOf = sizeof(T);
template <int W> inline constexpr unsigned kBytesOf<sc_dt::sc_bv<W>> = W / 8;

// Outputs that not every chip has, and that nothing here reads: each is bound where it is.
// clang-format off
#define PRESIL_AXI_UNREAD(WIRE)                                                                                        \
  WIRE(arlock) WIRE(arcache) WIRE(arprot) WIRE(arqos) WIRE(arregion)                                                   \
  WIRE(awlock) WIRE(awcache) WIRE(awprot) WIRE(awqos) WIRE(awregion)
// clang-format on
#define PRESIL_UNREAD(name)                                                                                            \
  template <class Model, class = void> struct name##_Pin {                                                             \
    explicit name##_Pin(const sc_core::sc_event&) {}                                                                   \
    void bind(Model&) {}                                                                                               \
  };                                                                                                                   \
  template <class Model> struct name##_Pin<Model, std::void_t<decltype(Model::m_axi_##name)>> {                        \
    explicit name##_Pin(const sc_core::sc_event& never) : pin(never) {}                                                \
    PinOf<decltype(Model::m_axi_##name)> pin;                                                                          \
    void bind(Model& m) { m.m_axi_##name(pin); }                                                                       \
  };
PRESIL_AXI_UNREAD(PRESIL_UNREAD)
#undef PRESIL_UNREAD

template <class Model> class AxiBridge : public AxiMaster {
 public:
  using Data = typename std::remove_reference_t<decltype(Model::m_axi_wdata)>::data_type;
  static constexpr unsigned kWord = kBytesOf<Data>;
  static_assert(kWord >= 4 && kWord <= kMaxWord && (kWord & (kWord - 1)) == 0, "a beat has 4 to 128 bytes");
  static constexpr unsigned kStrobeBytes = (kWord + 7) / 8;

  // never: an event that never comes.
  AxiBridge(tlm::tlm_initiator_socket<>& socket, const sc_core::sc_event& never, Evaluation& evaluation)
      : AxiMaster(socket), never_(never), evaluation_(evaluation) {}

  void bind(Model& m) {
#define PRESIL_BIND(name, type) m.m_axi_##name(name);
    PRESIL_AXI_OUTPUTS(PRESIL_BIND)
    PRESIL_AXI_INPUTS(PRESIL_BIND)
#undef PRESIL_BIND
#define PRESIL_BIND(name) name##_.bind(m);
    PRESIL_AXI_UNREAD(PRESIL_BIND)
#undef PRESIL_BIND
    m.m_axi_wdata(wdata), m.m_axi_wstrb(wstrb), m.m_axi_rdata(rdata);
  }

  // Notes the handshakes; true if there was one. Inputs have to stay until the model has seen the edge.
  bool edge() {
    ar_ = arvalid.value && arready.value, aw_ = awvalid.value && awready.value, w_ = wvalid.value && wready.value;
    r_ = rvalid.value && rready.value, b_ = bvalid.value && bready.value;
    last_ = wlast.value;
    return ar_ | aw_ | w_ | r_ | b_;
  }

  void present() {
    if (ar_) arready.value = false, read_taken();
    if (aw_) awready.value = false, write_taken();
    if (w_) wready.value = false, write_beat(last_);
    if (r_) rvalid.value = false, beat_taken();
    if (b_) bvalid.value = false, answer_taken();
    AxiRequest request;
    if (arvalid.value && may_read() &&
        legal("AR", araddr.value, arlen.value, arsize.value, arburst.value, arid.value, &request))
      request_read(request);
    if (awvalid.value && may_write() &&
        legal("AW", awaddr.value, awlen.value, awsize.value, awburst.value, awid.value, &request))
      request_write(request);
    if (wvalid.value) present_beat();
    stream();
  }

  void abandon_bus() {
    abandon();
    arready.value = awready.value = wready.value = rvalid.value = bvalid.value = false;
    ar_ = aw_ = w_ = r_ = b_ = false;
  }

  // What is on the pins now.
  void look(AxiPins<kWord>* p) const {
#define PRESIL_LOOK(name, type) p->m_axi_##name = static_cast<type>(name.value);
    PRESIL_AXI_OUTPUTS(PRESIL_LOOK)
    PRESIL_AXI_INPUTS(PRESIL_LOOK)
#undef PRESIL_LOOK
    pin_to_bytes(wdata.value, p->m_axi_wdata, kWord);
    pin_to_bytes(wstrb.value, p->m_axi_wstrb, kStrobeBytes);
    pin_to_bytes(rdata.value, p->m_axi_rdata, kWord);
  }

  // Why the chip can't go on: a breach of the protocol. Empty: none.
  const std::string& breach() const { return breach_; }
  void forgive() { breach_.clear(); }

 private:
  void read_accepted() override { arready.value = true, evaluation_.changed(); }
  void write_accepted() override { awready.value = true, evaluation_.changed(); }
  void beat_accepted() override { wready.value = true, evaluation_.changed(); }
  void offer_beat(const Burst& b, unsigned beat, unsigned response, bool last) override {
    const uint8_t* data = b.data + b.axi.at(beat);
    if (b.axi.bytes() == kWord) {
      bytes_to_pin(data, &rdata.value, kWord);
    } else {
      uint8_t lanes[kWord];
      memset(lanes, response == kAxiOkay ? kUnaskedLanes : 0, kWord);
      if (response == kAxiOkay) memcpy(lanes + b.axi.lane(beat), data, b.axi.bytes());
      bytes_to_pin(lanes, &rdata.value, kWord);
    }
    rid.value = b.axi.id, rresp.value = response, rlast.value = last, rvalid.value = true;
    evaluation_.changed();
  }
  void offer_answer(const Burst& b, unsigned response) override {
    bid.value = b.axi.id, bresp.value = response, bvalid.value = true;
    evaluation_.changed();
  }

  void present_beat() {
    Burst* b = beat_wanted();
    if (!b) return;
    const unsigned at = b->axi.at(b->axi.beat), bytes = b->axi.bytes();
    if (bytes == kWord && kWord >= 8) {  // its strobes are whole bytes
      pin_to_bytes(wdata.value, b->data + at, kWord);
      pin_to_bytes(wstrb.value, reinterpret_cast<uint8_t*>(b->axi.strobes) + at / 8, kStrobeBytes);
    } else {
      uint8_t lanes[kWord], strobes[kStrobeBytes];
      pin_to_bytes(wdata.value, lanes, kWord);
      pin_to_bytes(wstrb.value, strobes, kStrobeBytes);
      const unsigned lane = b->axi.lane(b->axi.beat);
      memcpy(b->data + at, lanes + lane, bytes);
      for (unsigned i = 0; i < bytes; i++) {
        const uint64_t bit = uint64_t{1} << (at + i) % 64;
        const bool on = strobes[(lane + i) / 8] >> (lane + i) % 8 & 1;
        b->axi.strobes[(at + i) / 64] = (b->axi.strobes[(at + i) / 64] & ~bit) | (on ? bit : 0);
      }
    }
    if (bytes != kWord || b->axi.start % kWord) look_at_strobes(*b);
    offer_write_beat();
  }

  // Of a beat that doesn't move on all lanes.
  void look_at_strobes(const Burst& b) {
    BurstShape shape = {b.axi.start, b.axi.beats, b.axi.size, b.axi.kind};
    for (unsigned i = 0; i < b.axi.beat; i++) shape.advance();
    uint8_t strobes[kStrobeBytes];
    pin_to_bytes(wstrb.value, strobes, kStrobeBytes);
    const std::string wrong = describe_strobes(shape, strobes, kWord);
    if (!wrong.empty()) breach(wrong);
  }

  void write_beat(bool last) {
    const Burst* b = collecting();
    if (last != (b->axi.beat + 1 == b->axi.beats))
      breach("WLAST is wrong at beat " + std::to_string(b->axi.beat) + " of a burst of " +
             std::to_string(b->axi.beats));
    write_beat_taken();
  }

  // What is not is kept as the breach, and goes no further.
  bool legal(const char* channel, uint64_t address, unsigned length, unsigned size, unsigned kind, uint32_t id,
             AxiRequest* request) {
    const BurstShape shape = {address, static_cast<uint16_t>(length + 1), static_cast<uint8_t>(size),
                              static_cast<uint8_t>(kind)};
    if (!why_illegal(shape, kWord).empty()) {
      breach(describe_illegal(channel, shape, kWord));
      return false;
    }
    request->id = id;
    request->word = kWord;
    request->size = shape.size;
    request->kind = shape.kind;
    request->start = address;
    request->beats = shape.beats;
    return true;
  }

  void breach(const std::string& text) {
    if (breach_.empty()) breach_ = kChipBroke + text;
  }

  const sc_core::sc_event& never_;
  Evaluation& evaluation_;
#define PRESIL_UNREAD(name) name##_Pin<Model> name##_{never_};
  PRESIL_AXI_UNREAD(PRESIL_UNREAD)
#undef PRESIL_UNREAD
  std::string breach_;
  bool ar_ = false, aw_ = false, w_ = false, r_ = false, b_ = false, last_ = false;  // handshakes at the last edge

 public:
#define PRESIL_PIN(name, type) PinOf<decltype(Model::m_axi_##name)> name{never_};
  PRESIL_AXI_OUTPUTS(PRESIL_PIN)
  PRESIL_AXI_INPUTS(PRESIL_PIN)
  PRESIL_PIN(wdata, )
  PRESIL_PIN(wstrb, )
  PRESIL_PIN(rdata, )
#undef PRESIL_PIN
};

}  // namespace presil
