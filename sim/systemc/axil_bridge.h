// SPDX-License-Identifier: Apache-2.0
// The pins of a chip's AXI4-Lite slave, and register accesses over them: blocking, from a thread process.
#pragma once
#include "axi_bridge.h"
#include "registers.h"

namespace presil {

template <class Model, class = void> struct ProtPins {
  explicit ProtPins(const sc_core::sc_event&) {}
  void bind(Model&) {}
};
template <class Model>
struct ProtPins<Model, std::void_t<decltype(Model::s_axil_awprot), decltype(Model::s_axil_arprot)>> {
  explicit ProtPins(const sc_core::sc_event& e) : awprot(e), arprot(e) {}
  PinOf<decltype(Model::s_axil_awprot)> awprot;
  PinOf<decltype(Model::s_axil_arprot)> arprot;
  void bind(Model& m) { m.s_axil_awprot(awprot), m.s_axil_arprot(arprot); }
};

template <class Model> class AxilBridge {
 public:
  AxilBridge(const sc_core::sc_event& e, Evaluation& evaluation)
      : awaddr(e), wdata(e), wstrb(e), araddr(e), rdata(e), bresp(e), rresp(e), awvalid(e), awready(e), wvalid(e),
        wready(e), bvalid(e), bready(e), arvalid(e), arready(e), rvalid(e), rready(e), prot_(e),
        evaluation_(evaluation) {}

  void bind(Model& m) {
    m.s_axil_awaddr(awaddr), m.s_axil_awvalid(awvalid), m.s_axil_awready(awready), m.s_axil_wdata(wdata),
        m.s_axil_wstrb(wstrb), m.s_axil_wvalid(wvalid), m.s_axil_wready(wready);
    m.s_axil_bresp(bresp), m.s_axil_bvalid(bvalid), m.s_axil_bready(bready), m.s_axil_araddr(araddr),
        m.s_axil_arvalid(arvalid), m.s_axil_arready(arready), m.s_axil_rdata(rdata);
    m.s_axil_rresp(rresp), m.s_axil_rvalid(rvalid), m.s_axil_rready(rready);
    prot_.bind(m);
  }

  // Returns the bus response (0: okay), or -1: no answer within kRegisterTimeout. Others wait for their turn.
  int access(bool write, uint32_t offset, uint32_t* value) {
    turn_.lock();
    response_ = -1;
    left_ = kRegisterTimeout;
    if (write) {
      awaddr.value = offset, wdata.value = *value, wstrb.value = 0xf;
      awvalid.value = wvalid.value = bready.value = true;
    } else {
      araddr.value = offset;
      arvalid.value = rready.value = true;
    }
    evaluation_.changed();
    wait(done_);
    if (!write && response_ >= 0) *value = read_;
    turn_.unlock();
    return response_;
  }

  // Notes the handshakes. Inputs have to stay until the model has seen the edge.
  void edge() {
    if (!left_) return;
    if (bvalid.value && bready.value) response_ = static_cast<int>(bresp.value);
    if (rvalid.value && rready.value) response_ = static_cast<int>(rresp.value), read_ = rdata.value;
    aw_ = awready.value, w_ = wready.value, ar_ = arready.value;
    edge_ = true;
  }
  void present() {
    if (!edge_) return;
    edge_ = false;
    if (aw_) awvalid.value = false;
    if (w_) wvalid.value = false;
    if (ar_) arvalid.value = false;
    if (response_ >= 0 || --left_ == 0) end();
  }
  void settle() {
    if (!ended_) return;
    ended_ = false;
    done_.notify(sc_core::SC_ZERO_TIME);
  }
  // Ends an access without an answer.
  void abandon() {
    if (!left_) return;
    end();
    done_.notify(sc_core::SC_ZERO_TIME);
  }

  // What is on the pins now.
  void look(AxilPins* p) const {
    p->s_axil_awaddr = awaddr.value, p->s_axil_araddr = araddr.value, p->s_axil_wdata = wdata.value,
    p->s_axil_rdata = rdata.value;
    p->s_axil_awvalid = awvalid.value, p->s_axil_awready = awready.value, p->s_axil_wstrb = wstrb.value,
    p->s_axil_wvalid = wvalid.value, p->s_axil_wready = wready.value;
    p->s_axil_bresp = bresp.value, p->s_axil_bvalid = bvalid.value, p->s_axil_bready = bready.value;
    p->s_axil_arvalid = arvalid.value, p->s_axil_arready = arready.value, p->s_axil_rresp = rresp.value,
    p->s_axil_rvalid = rvalid.value, p->s_axil_rready = rready.value;
  }

  PinOf<decltype(Model::s_axil_awaddr)> awaddr;
  PinOf<decltype(Model::s_axil_wdata)> wdata;
  PinOf<decltype(Model::s_axil_wstrb)> wstrb;
  PinOf<decltype(Model::s_axil_araddr)> araddr;
  PinOf<decltype(Model::s_axil_rdata)> rdata;
  PinOf<decltype(Model::s_axil_bresp)> bresp;
  PinOf<decltype(Model::s_axil_rresp)> rresp;
  Pin<bool> awvalid, awready, wvalid, wready, bvalid, bready, arvalid, arready, rvalid, rready;

 private:
  void end() {
    awvalid.value = wvalid.value = bready.value = arvalid.value = rready.value = false;
    left_ = 0;
    edge_ = false;
    ended_ = true;
  }

  ProtPins<Model> prot_;
  Evaluation& evaluation_;
  sc_core::sc_mutex turn_;
  sc_core::sc_event done_;
  unsigned left_ = 0;  // cycles until the access is given up; 0: none is going on
  int response_ = -1;
  uint32_t read_ = 0;
  bool edge_ = false, aw_ = false, w_ = false, ar_ = false;  // handshakes at the last edge
  bool ended_ = false;
};

}  // namespace presil
