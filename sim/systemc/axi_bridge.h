// SPDX-License-Identifier: Apache-2.0
// The pins of a chip's AXI4 master, and the bridge from them to TLM. Clocked: edge(), present() in this order; settle()
// is the owner's, who evaluates the model. Valid signals have to come from registers, as AXI recommends: they are
// looked at after the edge, before the inputs of the new cycle are there.
#pragma once
#include "axi_master.h"
#include "pin.h"

namespace presil {

// The wire for a port of the model.
template <class Port> using PinOf = Pin<typename std::remove_reference_t<Port>::data_type>;

template <class T> inline constexpr unsigned kBytesOf = sizeof(T);
template <int W> inline constexpr unsigned kBytesOf<sc_dt::sc_bv<W>> = W / 8;

template <class Model> class AxiBridge : public AxiMaster {
 public:
  using Data = typename std::remove_reference_t<decltype(Model::m_axi_wdata)>::data_type;
  static constexpr unsigned kWord = kBytesOf<Data>;
  static_assert(kWord >= 8 && kWord <= kMaxWord && (kWord & (kWord - 1)) == 0, "a beat has 8 to 128 bytes");

  // e: an event that never comes.
  AxiBridge(tlm::tlm_initiator_socket<>& socket, const sc_core::sc_event& e, Evaluation& evaluation)
      : AxiMaster(socket, kWord), evaluation_(evaluation), araddr(e), arid(e), arlen(e), arsize(e), arburst(e),
        arvalid(e), awaddr(e), awid(e), awlen(e), awsize(e), awburst(e), awvalid(e), wdata(e), wstrb(e), wlast(e),
        wvalid(e), rready(e), bready(e), arready(e), awready(e), wready(e), rid(e), rdata(e), rresp(e), rlast(e),
        rvalid(e), bid(e), bresp(e), bvalid(e) {}

  void bind(Model& m) {
    m.m_axi_araddr(araddr), m.m_axi_arid(arid), m.m_axi_arlen(arlen), m.m_axi_arsize(arsize), m.m_axi_arburst(arburst),
        m.m_axi_arvalid(arvalid);
    m.m_axi_awaddr(awaddr), m.m_axi_awid(awid), m.m_axi_awlen(awlen), m.m_axi_awsize(awsize), m.m_axi_awburst(awburst),
        m.m_axi_awvalid(awvalid);
    m.m_axi_wdata(wdata), m.m_axi_wstrb(wstrb), m.m_axi_wlast(wlast), m.m_axi_wvalid(wvalid), m.m_axi_rready(rready),
        m.m_axi_bready(bready);
    m.m_axi_arready(arready), m.m_axi_awready(awready), m.m_axi_wready(wready);
    m.m_axi_rid(rid), m.m_axi_rdata(rdata), m.m_axi_rresp(rresp), m.m_axi_rlast(rlast), m.m_axi_rvalid(rvalid),
        m.m_axi_bid(bid), m.m_axi_bresp(bresp), m.m_axi_bvalid(bvalid);
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
    if (arvalid.value && may_read())
      request_read(checked(araddr.value, arlen.value, arsize.value, arburst.value, "AR"), arlen.value + 1, arid.value);
    if (awvalid.value && may_write())
      request_write(checked(awaddr.value, awlen.value, awsize.value, awburst.value, "AW"), awlen.value + 1, awid.value);
    if (wvalid.value) present_beat();
    stream();
  }

  void abandon_bus() {
    abandon();
    arready.value = awready.value = wready.value = rvalid.value = bvalid.value = false;
    ar_ = aw_ = w_ = r_ = b_ = false;
  }

  // Why the chip can't go on: a breach of the protocol. Empty: none.
  const std::string& breach() const { return breach_; }
  void forgive() { breach_.clear(); }

 private:
  void read_accepted() override { arready.value = true, evaluation_.changed(); }
  void write_accepted() override { awready.value = true, evaluation_.changed(); }
  void beat_accepted() override { wready.value = true, evaluation_.changed(); }
  void offer_beat(const Burst& b, const uint8_t* data, unsigned response, bool last) override {
    bytes_to_pin(data, &rdata.value, kWord);
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
    const unsigned at = b->axi.beat * kWord;
    pin_to_bytes(wdata.value, b->data + at, kWord);
    pin_to_bytes(wstrb.value, reinterpret_cast<uint8_t*>(b->axi.strobes) + at / 8, kWord / 8);
    offer_write_beat();
  }

  void write_beat(bool last) {
    const Burst* b = collecting();
    if (last != (b->axi.beat + 1 == b->axi.beats))
      breach("WLAST is wrong at beat " + std::to_string(b->axi.beat) + " of a burst of " +
             std::to_string(b->axi.beats));
    write_beat_taken();
  }

  uint64_t checked(uint64_t address, unsigned length, unsigned size, unsigned kind, const char* channel) {
    const uint64_t first = address & ~uint64_t{kWord - 1};
    if (1u << size != kWord || kind != 1 || first / kPage != (first + (length + 1) * kWord - 1) / kPage) {
      char text[200];
      snprintf(text, sizeof text,
               "%s at 0x%llx with length %u, size %u, burst %u: expected INCR (1) with full beats (size %u) that don't "
               "cross 4 KiB",
               channel, static_cast<unsigned long long>(address), length, size, kind,
               static_cast<unsigned>(__builtin_ctz(kWord)));
      breach(text);
    }
    return first;
  }

  void breach(const std::string& text) {
    if (breach_.empty()) breach_ = "the chip broke the bus protocol: " + text;
  }

  Evaluation& evaluation_;
  std::string breach_;
  bool ar_ = false, aw_ = false, w_ = false, r_ = false, b_ = false, last_ = false;  // handshakes at the last edge

 public:
  PinOf<decltype(Model::m_axi_araddr)> araddr;
  PinOf<decltype(Model::m_axi_arid)> arid;
  PinOf<decltype(Model::m_axi_arlen)> arlen;
  PinOf<decltype(Model::m_axi_arsize)> arsize;
  PinOf<decltype(Model::m_axi_arburst)> arburst;
  PinOf<decltype(Model::m_axi_arvalid)> arvalid;
  PinOf<decltype(Model::m_axi_awaddr)> awaddr;
  PinOf<decltype(Model::m_axi_awid)> awid;
  PinOf<decltype(Model::m_axi_awlen)> awlen;
  PinOf<decltype(Model::m_axi_awsize)> awsize;
  PinOf<decltype(Model::m_axi_awburst)> awburst;
  PinOf<decltype(Model::m_axi_awvalid)> awvalid;
  PinOf<decltype(Model::m_axi_wdata)> wdata;
  PinOf<decltype(Model::m_axi_wstrb)> wstrb;
  PinOf<decltype(Model::m_axi_wlast)> wlast;
  PinOf<decltype(Model::m_axi_wvalid)> wvalid;
  PinOf<decltype(Model::m_axi_rready)> rready;
  PinOf<decltype(Model::m_axi_bready)> bready;
  PinOf<decltype(Model::m_axi_arready)> arready;
  PinOf<decltype(Model::m_axi_awready)> awready;
  PinOf<decltype(Model::m_axi_wready)> wready;
  PinOf<decltype(Model::m_axi_rid)> rid;
  PinOf<decltype(Model::m_axi_rdata)> rdata;
  PinOf<decltype(Model::m_axi_rresp)> rresp;
  PinOf<decltype(Model::m_axi_rlast)> rlast;
  PinOf<decltype(Model::m_axi_rvalid)> rvalid;
  PinOf<decltype(Model::m_axi_bid)> bid;
  PinOf<decltype(Model::m_axi_bresp)> bresp;
  PinOf<decltype(Model::m_axi_bvalid)> bvalid;
};

}  // namespace presil
