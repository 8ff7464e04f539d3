// SPDX-License-Identifier: Apache-2.0
// wait(): clocks a chip until the interrupt, a deadline, a cancellation or the watchdog. Runs in slices of about a
// millisecond of wall time; where a slice ends never changes what is simulated.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>

#include "presil_transport.h"
#include "stopped.h"
#include "transport_settings.h"

namespace presil {

// Whether a wait that began at cycle `start` has ended for a reason of the chip or of simulated time: that one is the
// first of them, before any of wall time. The interrupt comes first: what has finished is reported as finished.
inline bool simulated_end(const presil_wait& w, bool irq, uint64_t now, uint64_t start, uint64_t last_beat,
                          uint32_t* reason) {
  if (irq) {
    *reason = PRESIL_WAIT_IRQ;
  } else if (w.deadline_cycles && now - start >= w.deadline_cycles) {
    *reason = PRESIL_WAIT_DEADLINE;
  } else if (w.hang_cycles && now - std::max(start, last_beat) >= w.hang_cycles) {
    *reason = PRESIL_WAIT_HUNG;
  } else {
    return false;
  }
  return true;
}

// What is waited for: a chip with its clock.
class Waitable {
 public:
  virtual ~Waitable() = default;
  virtual uint64_t now() const = 0;        // cycles so far
  virtual uint64_t last_beat() const = 0;  // cycle of the last handshake on the bus
  virtual bool irq() const = 0;
  virtual void run(uint64_t limit) = 0;  // until the interrupt is high, at most `limit` cycles
  virtual void step() = 0;               // a cycle, whatever the interrupt is
  // Whether nobody waits any more; cycles: of this wait so far. Asked every few milliseconds, beside
  // presil_wait.cancel.
  virtual bool cancelled([[maybe_unused]] uint64_t cycles) { return false; }
  // kFatal, kStop: as if the model had done it. Throws Stopped.
  virtual void strike(const Fault& fault) {
    throw Stopped(fault.kind == Fault::kFatal ? "injected $fatal" : "injected $stop");
  }
  // Whether a fault is possible; if not, error says why.
  virtual bool can(const Fault& fault, std::string* error) const = 0;
};

class Waiter {
 public:
  explicit Waiter(Waitable& bench) : bench_(bench) {}

  // Sets w->reason and w->cycles. Throws Stopped.
  void wait(presil_wait* w);

  bool can(const Fault& fault, std::string* error) const { return bench_.can(fault, error); }
  // Those of a cycle strike once, so many cycles after the next launched() (or after now, if the chip is running);
  // kSlow and kLate stay.
  void set_faults(const Fault* faults, size_t count);
  void launched() { fault_origin_ = bench_.now(); }

 private:
  uint64_t slice_limit(const presil_wait& w, uint64_t start) const;
  bool ended(presil_wait* w, uint64_t start, uint64_t start_ns);
  bool interrupted();
  void strike();

  Waitable& bench_;
  uint64_t slice_ = 256;  // cycles
  uint64_t fault_origin_ = 0;
  uint64_t slow_ns_ = 0;      // a cycle
  Fault faults_[kMaxFaults];  // of a cycle, that have not struck
  size_t armed_ = 0;
  bool late_ = false, high_ = false;
  uint64_t late_cycles_ = 0, high_since_ = 0;
};

}  // namespace presil
