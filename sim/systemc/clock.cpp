// SPDX-License-Identifier: Apache-2.0
#include "clock.h"

namespace presil {

Clock::Clock(sc_core::sc_module_name name, sc_core::sc_time period) : sc_module(name), period_(period) {
  SC_HAS_PROCESS(Clock);
  SC_METHOD(step);
  sensitive << tick_;
  dont_initialize();
  tick_.notify(period_);
}

void Clock::add(Clocked* module, unsigned phases) {
  if (phases & kEdge) edge_.push_back(module);
  if (phases & kPresent) present_.push_back(module);
  if (phases & kBus) bus_.push_back(module);
  if (phases & kSettle) settle_.push_back(module);
}

void Clock::align() {
  if (risen_) return;  // in the middle of an edge: its second half sets the next one
  tick_.cancel();
  tick_.notify(period_);
}

void Clock::step() {
  if (!risen_) {
    risen_ = true;
    edges_++;
    for (Clocked* m : edge_) m->edge();
    tick_.notify(sc_core::SC_ZERO_TIME);
    return;
  }
  risen_ = false;
  tick_.notify(period_);
  for (Clocked* m : present_) m->present();
  for (Clocked* m : bus_) m->bus();
  for (Clocked* m : settle_) m->settle();
}

}  // namespace presil
