// SPDX-License-Identifier: Apache-2.0
#include "waiter.h"

#include <time.h>

#include <algorithm>

namespace presil {

namespace {

constexpr uint64_t kMillisecond = 1000000, kProgressPeriod = 50 * kMillisecond;
constexpr uint64_t kShortSlice = kMillisecond / 2, kLongSlice = 2 * kMillisecond;

uint64_t wall_ns() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<uint64_t>(t.tv_sec) * 1000000000u + static_cast<uint64_t>(t.tv_nsec);
}

void sleep_ns(uint64_t ns) {
  const timespec t = {static_cast<time_t>(ns / 1000000000u), static_cast<long>(ns % 1000000000u)};
  nanosleep(&t, nullptr);
}

}  // namespace

void Waiter::set_faults(const Fault* faults, size_t count) {
  armed_ = 0;
  slow_ns_ = 0;
  late_ = high_ = false;
  fault_origin_ = bench_.now();
  for (size_t i = 0; i < count; i++) {
    if (faults[i].kind == Fault::kSlow) slow_ns_ = faults[i].value;
    if (faults[i].of_cycle()) faults_[armed_++] = faults[i];
    if (faults[i].kind == Fault::kLate) {
      late_ = true;
      late_cycles_ = faults[i].value;
    }
  }
  if (slow_ns_) slice_ = 1;
}

// The next cycle at which something is due that depends on simulated time. At least 1.
uint64_t Waiter::slice_limit(const presil_wait& w, uint64_t start) const {
  uint64_t limit = slice_;
  if (w.deadline_cycles) limit = std::min(limit, start + w.deadline_cycles - bench_.now());
  if (w.hang_cycles) limit = std::min(limit, std::max(start, bench_.last_beat()) + w.hang_cycles - bench_.now());
  for (size_t i = 0; i < armed_; i++) {
    if (fault_origin_ + faults_[i].value > bench_.now())
      limit = std::min(limit, fault_origin_ + faults_[i].value - bench_.now());
  }
  return limit;
}

// The interrupt as it arrives, which may be late or never.
bool Waiter::interrupted() {
  const bool irq = bench_.irq();
  if (!late_) return irq;
  if (irq && !high_) high_since_ = bench_.now();
  high_ = irq;
  return irq && late_cycles_ && bench_.now() - high_since_ >= late_cycles_;
}

bool Waiter::ended(presil_wait* w, uint64_t start, uint64_t start_ns) {
  if (simulated_end(*w, interrupted(), bench_.now(), start, bench_.last_beat(), &w->reason)) return true;
  if ((w->cancel && *w->cancel) || bench_.cancelled(bench_.now() - start)) {
    w->reason = PRESIL_WAIT_CANCELLED;
  } else if (w->deadline_ns && wall_ns() - start_ns >= w->deadline_ns) {
    w->reason = PRESIL_WAIT_DEADLINE;
  } else {
    return false;
  }
  return true;
}

void Waiter::strike() {
  for (size_t i = 0; i < armed_;) {
    const Fault fault = faults_[i];
    if (bench_.now() < fault_origin_ + fault.value) {
      i++;
      continue;
    }
    faults_[i] = faults_[--armed_];
    bench_.strike(fault);
  }
}

void Waiter::wait(presil_wait* w) {
  const uint64_t start = bench_.now(), start_ns = wall_ns();
  uint64_t then = start_ns, reported = start_ns;
  while (!ended(w, start, start_ns)) {
    strike();
    const uint64_t before = bench_.now(), limit = slice_limit(*w, start);
    if (late_ && bench_.irq())
      bench_.step();
    else
      bench_.run(limit);
    if (slow_ns_) sleep_ns(slow_ns_ * (bench_.now() - before));
    const uint64_t ns = wall_ns();
    if (ns - then < kShortSlice && limit == slice_ && slice_ < 65536) slice_ *= 2;
    if (ns - then > kLongSlice && slice_ > 1) slice_ /= 2;
    then = ns;
    if (w->progress && ns - reported >= kProgressPeriod) {
      reported = ns;
      w->progress(w->progress_context, bench_.now() - start);
      then = wall_ns();
    }
  }
  w->cycles = bench_.now() - start;
}

}  // namespace presil
