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
  AxilBridge(const sc_core::sc_event& never, Evaluation& evaluation)
      : never_(never), evaluation_(evaluation), prot_(never) {}

  void bind(Model& m) {
#define PRESIL_BIND(name, type) m.s_axil_##name(name);
    PRESIL_AXIL_OUTPUTS(PRESIL_BIND)
    PRESIL_AXIL_INPUTS(PRESIL_BIND)
#undef PRESIL_BIND
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
#define PRESIL_LOOK(name, type) p->s_axil_##name = name.value;
    PRESIL_AXIL_OUTPUTS(PRESIL_LOOK)
    PRESIL_AXIL_INPUTS(PRESIL_LOOK)
#undef PRESIL_LOOK
  }

 private:
  void drive(const AxilPins& p) {
#define PRESIL_DRIVE(name, type) name.value = p.s_axil_##name;
    PRESIL_AXIL_INPUTS(PRESIL_DRIVE)
#undef PRESIL_DRIVE
  }

  const sc_core::sc_event& never_;
  Evaluation& evaluation_;
#define PRESIL_PIN(name, type) PinOf<decltype(Model::s_axil_##name)> name{never_};
  PRESIL_AXIL_OUTPUTS(PRESIL_PIN)
  PRESIL_AXIL_INPUTS(PRESIL_PIN)
#undef PRESIL_PIN
  ProtPins<Model> prot_;
  sc_core::sc_mutex turn_;
  sc_core::sc_event done_;
  AxilMaster master_;
  bool ended_ = false;
};

}  // namespace presil
