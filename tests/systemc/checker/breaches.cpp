// SPDX-License-Identifier: Apache-2.0
// Initiators and targets that break one rule each, with a checker between them. Prints "name: what the checker says", a
// line a case.
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "checker.h"

using namespace presil;
using tlm::tlm_generic_payload;
using tlm::tlm_phase;
using tlm::tlm_sync_enum;

namespace {

struct Manager : tlm::tlm_mm_interface {
  void free(tlm_generic_payload*) override {}
};
Manager manager;

// Answers as the case says.
struct Target : sc_core::sc_module {
  tlm_utils::simple_target_socket<Target> socket;
  std::function<tlm_sync_enum(tlm_generic_payload&, tlm_phase&)> answer;
  std::function<void(tlm_generic_payload&)> block;

  explicit Target(sc_core::sc_module_name name) : sc_module(name), socket("socket") {
    socket.register_nb_transport_fw(this, &Target::forward);
    socket.register_b_transport(this, &Target::b_transport);
    answer = [](tlm_generic_payload&, tlm_phase&) { return tlm::TLM_ACCEPTED; };
  }
  tlm_sync_enum forward(tlm_generic_payload& p, tlm_phase& phase, sc_core::sc_time&) { return answer(p, phase); }
  void b_transport(tlm_generic_payload& p, sc_core::sc_time&) {
    if (block) block(p);
  }
  void say(tlm_generic_payload& p, tlm_phase phase) {
    sc_core::sc_time delay;
    (void)socket->nb_transport_bw(p, phase, delay);
  }
};

struct Initiator : sc_core::sc_module {
  tlm_utils::simple_initiator_socket<Initiator> socket;
  explicit Initiator(sc_core::sc_module_name name) : sc_module(name), socket("socket") {
    socket.register_nb_transport_bw(this, &Initiator::backward);
  }
  tlm_sync_enum backward(tlm_generic_payload&, tlm_phase&, sc_core::sc_time&) { return tlm::TLM_ACCEPTED; }
  void say(tlm_generic_payload& p, tlm_phase phase) {
    sc_core::sc_time delay;
    (void)socket->nb_transport_fw(p, phase, delay);
  }
  void block(tlm_generic_payload& p) {
    sc_core::sc_time delay;
    socket->b_transport(p, delay);
  }
};

struct Case {
  const char* name;
  std::string breach;
  Initiator initiator;
  Checker checker;
  Target target;
  std::function<void(Case&)> script;
  uint8_t data[64] = {};
  AxiExtension axi;

  Case(const char* text, std::function<void(Case&)> body)
      : name(text), initiator(sc_core::sc_gen_unique_name("initiator")),
        checker(sc_core::sc_gen_unique_name("checker"), &breach), target(sc_core::sc_gen_unique_name("target")),
        script(std::move(body)) {
    initiator.socket.bind(checker.in);
    checker.out.bind(target.socket);
  }
  // A good request; never freed, its reference is held.
  tlm_generic_payload& request(bool read, bool beats = false) {
    auto* p = new tlm_generic_payload(&manager);
    p->acquire();
    p->set_command(read ? tlm::TLM_READ_COMMAND : tlm::TLM_WRITE_COMMAND);
    p->set_address(0x1000);
    p->set_data_ptr(data);
    p->set_data_length(sizeof data);
    p->set_streaming_width(sizeof data);
    if (!beats) return *p;
    axi.word = 16;
    axi.beats = 4;
    p->set_extension(&axi);
    return *p;
  }
};

void answer(Case& c, tlm_generic_payload& p) {
  p.set_response_status(tlm::TLM_OK_RESPONSE);
  c.target.say(p, tlm::BEGIN_RESP);
}

std::vector<std::unique_ptr<Case>> cases() {
  std::vector<std::unique_ptr<Case>> all;
  const auto add = [&](const char* name, std::function<void(Case&)> body) {
    all.push_back(std::make_unique<Case>(name, std::move(body)));
  };
  add("good", [](Case& c) {
    for (int i = 0; i < 3; i++) {
      auto& p = c.request(i & 1);
      c.initiator.say(p, tlm::BEGIN_REQ);
      if (i) c.target.say(p, tlm::END_REQ);
      answer(c, p);
      c.initiator.say(p, tlm::END_RESP);
    }
    c.target.block = [](tlm_generic_payload& p) { p.set_response_status(tlm::TLM_OK_RESPONSE); };
    c.initiator.block(c.request(true));
  });
  add("good beats", [](Case& c) {
    auto& p = c.request(true, true);
    c.initiator.say(p, tlm::BEGIN_REQ);
    c.target.say(p, tlm::END_REQ);
    for (int i = 0; i < 3; i++) c.target.say(p, BEGIN_BEAT), c.initiator.say(p, END_BEAT);
    answer(c, p);
    c.initiator.say(p, tlm::END_RESP);
  });
  add("two requests", [](Case& c) {
    c.initiator.say(c.request(false), tlm::BEGIN_REQ), c.initiator.say(c.request(false), tlm::BEGIN_REQ);
  });
  add("same request", [](Case& c) {
    auto& p = c.request(true);
    c.initiator.say(p, tlm::BEGIN_REQ);
    c.target.say(p, tlm::END_REQ);
    c.initiator.say(p, tlm::BEGIN_REQ);
  });
  add("unknown", [](Case& c) { c.target.say(c.request(true), tlm::END_REQ); });
  add("end twice", [](Case& c) {
    auto& p = c.request(true);
    c.initiator.say(p, tlm::BEGIN_REQ);
    c.target.say(p, tlm::END_REQ), c.target.say(p, tlm::END_REQ);
  });
  add("no status", [](Case& c) {
    auto& p = c.request(true);
    c.initiator.say(p, tlm::BEGIN_REQ);
    c.target.say(p, tlm::BEGIN_RESP);
  });
  add("early end", [](Case& c) {
    auto& p = c.request(true);
    c.initiator.say(p, tlm::BEGIN_REQ);
    c.initiator.say(p, tlm::END_RESP);
  });
  add("moved", [](Case& c) {
    auto& p = c.request(true);
    c.initiator.say(p, tlm::BEGIN_REQ);
    p.set_address(0x2000);
    c.target.say(p, tlm::END_REQ);
  });
  add("status at request", [](Case& c) {
    auto& p = c.request(true);
    p.set_response_status(tlm::TLM_OK_RESPONSE);
    c.initiator.say(p, tlm::BEGIN_REQ);
  });
  add("no data", [](Case& c) {
    auto& p = c.request(true);
    p.set_data_length(0);
    c.initiator.say(p, tlm::BEGIN_REQ);
  });
  add("phase without update", [](Case& c) {
    c.target.answer = [](tlm_generic_payload&, tlm_phase& phase) {
      phase = tlm::END_REQ;
      return tlm::TLM_ACCEPTED;
    };
    c.initiator.say(c.request(true), tlm::BEGIN_REQ);
  });
  add("blocking without status", [](Case& c) { c.initiator.block(c.request(true)); });
  add("beat before request", [](Case& c) { c.initiator.say(c.request(false, true), BEGIN_BEAT); });
  add("beat from the wrong side", [](Case& c) {
    auto& p = c.request(true, true);
    c.initiator.say(p, tlm::BEGIN_REQ);
    c.initiator.say(p, BEGIN_BEAT);
  });
  add("too many beats", [](Case& c) {
    auto& p = c.request(false, true);
    c.initiator.say(p, tlm::BEGIN_REQ);
    for (int i = 0; i < 5; i++) c.initiator.say(p, BEGIN_BEAT), c.target.say(p, END_BEAT);
  });
  add("beats at once", [](Case& c) {
    auto& p = c.request(false, true);
    c.initiator.say(p, tlm::BEGIN_REQ);
    c.initiator.say(p, BEGIN_BEAT), c.initiator.say(p, BEGIN_BEAT);
  });
  return all;
}

}  // namespace

int sc_main(int, char**) {
  static auto all = cases();  // SystemC's modules live as long as the process
  sc_core::sc_start(sc_core::SC_ZERO_TIME);
  for (auto& c : all) {
    c->script(*c);
    printf("%s: %s\n", c->name, c->breach.c_str());
  }
  fflush(stdout);
  _Exit(0);
}
