// SPDX-License-Identifier: Apache-2.0
// The platform's clocks. A clock calls its modules in a fixed order, so that no result depends on the order in which
// the kernel runs processes: at the edge everybody looks at what was there before it; one delta cycle later, when the
// chips' outputs have changed, masters present what is new, the bus and its targets move, and the chips' inputs settle.
// Two delta cycles a clock cycle, and nothing of a port's width goes through the kernel.
#pragma once
#include <cstdint>
#include <systemc>
#include <vector>

namespace presil {

class Clocked {
 public:
  virtual ~Clocked() = default;
  virtual void edge() {}     // with the state before the edge
  virtual void present() {}  // masters: requests and data for the new cycle
  virtual void bus() {}      // interconnect and targets, in the order in which they were added
  virtual void settle() {}   // after the bus: inputs of this cycle are complete
};

class Clock : public sc_core::sc_module {
 public:
  enum Phases : unsigned { kEdge = 1, kPresent = 2, kBus = 4, kSettle = 8 };

  Clock(sc_core::sc_module_name name, sc_core::sc_time period);

  // `phases`: those of its functions that do something. Stays the caller's.
  void add(Clocked* module, unsigned phases);
  const sc_core::sc_time& period() const { return period_; }
  uint64_t edges() const { return edges_; }
  // The next edge comes one period from now.
  void align();
  // No more edges, until align().
  void stop() { tick_.cancel(); }

 private:
  void step();

  sc_core::sc_time period_;
  sc_core::sc_event tick_;
  std::vector<Clocked*> edge_, present_, bus_, settle_;
  uint64_t edges_ = 0;
  bool risen_ = false;
};

}  // namespace presil
