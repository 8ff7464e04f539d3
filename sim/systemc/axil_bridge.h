// SPDX-License-Identifier: Apache-2.0
// The pins of a chip's AXI4-Lite slave, and register accesses over them: blocking, from a thread process.
#pragma once
#include "axi_bridge.h"
#include "axil_master.h"

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
    AxilPins p;
    look(&p);
    write ? master_.write(&p, offset, *value) : master_.read(&p, offset);
    drive(p);
    evaluation_.changed();
    wait(done_);
    const int response = master_.response();
    if (!write && response >= 0) *value = master_.value();
    turn_.unlock();
    return response;
  }

  // Notes the handshakes. Inputs have to stay until the model has seen the edge.
  void edge() {
    if (!master_.busy()) return;
    AxilPins p;
    look(&p);
    master_.edge(p);
  }
  void present() {
    if (!master_.busy()) return;
    AxilPins p;
    look(&p);
    ended_ = master_.present(&p);
    drive(p);
  }
  void settle() {
    if (!ended_) return;
    ended_ = false;
    done_.notify(sc_core::SC_ZERO_TIME);
  }
  // Ends an access without an answer. One that has just ended may not live to see settle().
  void abandon() {
    if (!master_.busy() && !ended_) return;
    ended_ = false;
    AxilPins p;
    look(&p);
    master_.end(&p);
    drive(p);
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
  void drive(const AxilPins& p) {
    awaddr.value = p.s_axil_awaddr, wdata.value = p.s_axil_wdata, wstrb.value = p.s_axil_wstrb,
    araddr.value = p.s_axil_araddr;
    awvalid.value = p.s_axil_awvalid, wvalid.value = p.s_axil_wvalid, bready.value = p.s_axil_bready,
    arvalid.value = p.s_axil_arvalid, rready.value = p.s_axil_rready;
  }

  ProtPins<Model> prot_;
  Evaluation& evaluation_;
  sc_core::sc_mutex turn_;
  sc_core::sc_event done_;
  AxilMaster master_;
  bool ended_ = false;
};

}  // namespace presil
