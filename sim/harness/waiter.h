// SPDX-License-Identifier: Apache-2.0
// wait(): clocks the bench until the interrupt, a deadline, a cancellation or the watchdog. Runs in slices of about a millisecond of wall time;
// where a slice ends never changes what is simulated.
#pragma once
#include <cstdint>

#include "bench.h"
#include "presil_transport.h"
#include "settings.h"

namespace presil {

class Waiter {
public:
    explicit Waiter(Bench &bench) : bench_(bench) {}

    // Sets w->reason and w->cycles. Throws Stopped.
    void wait(presil_wait *w);

    // kFatal and kStop strike once, so many cycles after the next launched() (or after now, if the chip is running); kSlow stays.
    void set_faults(const Fault *faults, size_t count);
    void launched() { fault_origin_ = bench_.now(); }

private:
    uint64_t slice_limit(const presil_wait &w, uint64_t start) const;
    bool ended(presil_wait *w, uint64_t start, uint64_t start_ns) const;
    void strike();

    Bench &bench_;
    uint64_t slice_ = 256;  // cycles
    uint64_t fault_origin_ = 0;
    uint64_t slow_ns_ = 0;  // a cycle
    bool fault_armed_ = false;
    Fault fault_ = {};
};

}  // namespace presil
